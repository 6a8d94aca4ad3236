%% @hidden Collects the names of atoms in a term of the external term format, and makes no atom.
%%
%% OTP's page "External Term Format" describes the format. `binary_to_term/1' makes the atoms, so
%% a caller that does not trust the bytes counts their names first.
-module(whittle_term_names).

-export([add/3, with/2]).

-export_type([names/0]).

-type names() :: #{binary() => []}.             % in UTF-8

%% @doc Adds the names that are no atoms of this VM yet. The bytes are one uncompressed term. The
%% result is `too_many' if the map reaches the limit. It is `unknown' for bytes that are no such
%% term.
-spec add(binary(), names(), Limit :: integer()) -> {ok, names()} | too_many | unknown.
add(<<131, Term/binary>>, Names, Limit) -> terms(1, Term, Names, Limit);
add(_, _, _) -> unknown.

%% @doc Adds a name if it is no atom of this VM yet.
-spec with(binary(), names()) -> names().
with(Name, Names) ->
    try binary_to_existing_atom(Name) of
        _ -> Names
    catch
        error:_ -> Names#{Name => []}
    end.

%% Internal

%% Reads so many terms one after the other. The parts of a term count as further terms.
terms(_, _, Names, Limit) when map_size(Names) >= Limit -> too_many;
terms(0, _, Names, _) -> {ok, Names};
terms(N, Bytes, Names, Limit) ->
    case head(Bytes) of
        {atom, Name, Rest} -> terms(N - 1, Rest, with(Name, Names), Limit);
        {Parts, Rest} -> terms(N - 1 + Parts, Rest, Names, Limit);
        unknown -> unknown
    end.

%% Returns the number of terms that follow as parts of this one.
head(<<$a, _, Rest/binary>>) -> {0, Rest};                              % integers
head(<<$b, _:32, Rest/binary>>) -> {0, Rest};
head(<<$n, Size, _, _:Size/binary, Rest/binary>>) -> {0, Rest};
head(<<$o, Size:32, _, _:Size/binary, Rest/binary>>) -> {0, Rest};
head(<<$F, _:64, Rest/binary>>) -> {0, Rest};                           % floats
head(<<$c, _:31/binary, Rest/binary>>) -> {0, Rest};
head(<<$w, Size, Name:Size/binary, Rest/binary>>) -> {atom, Name, Rest};
head(<<$v, Size:16, Name:Size/binary, Rest/binary>>) -> {atom, Name, Rest};
head(<<$s, Size, Name:Size/binary, Rest/binary>>) -> {atom, utf8(Name), Rest};
head(<<$d, Size:16, Name:Size/binary, Rest/binary>>) -> {atom, utf8(Name), Rest};
head(<<$j, Rest/binary>>) -> {0, Rest};                                 % lists
head(<<$k, Size:16, _:Size/binary, Rest/binary>>) -> {0, Rest};
head(<<$l, Size:32, Rest/binary>>) -> {Size + 1, Rest};
head(<<$h, Size, Rest/binary>>) -> {Size, Rest};                        % tuples
head(<<$i, Size:32, Rest/binary>>) -> {Size, Rest};
head(<<$t, Size:32, Rest/binary>>) -> {2 * Size, Rest};                 % maps
head(<<$m, Size:32, _:Size/binary, Rest/binary>>) -> {0, Rest};         % binaries
head(<<$M, Size:32, _, _:Size/binary, Rest/binary>>) -> {0, Rest};
head(<<$q, Rest/binary>>) -> {3, Rest};                                 % funs
head(<<$p, _:32, _, _:16/binary, _:32, Free:32, Rest/binary>>) -> {4 + Free, Rest};
head(<<$g, Node/binary>>) -> identifier(Node, 9);                       % pids, ports, references
head(<<$X, Node/binary>>) -> identifier(Node, 12);
head(<<$f, Node/binary>>) -> identifier(Node, 5);
head(<<$Y, Node/binary>>) -> identifier(Node, 8);
head(<<$x, Node/binary>>) -> identifier(Node, 12);
head(<<$e, Node/binary>>) -> identifier(Node, 5);
head(<<$r, Size:16, Node/binary>>) -> identifier(Node, 1 + 4 * Size);
head(<<$Z, Size:16, Node/binary>>) -> identifier(Node, 4 + 4 * Size);
head(_) -> unknown.

%% The name of a node stands before the bytes of an identifier.
identifier(Bytes, Size) ->
    case head(Bytes) of
        {atom, Name, Rest} ->
            case Rest of
                <<_:Size/binary, Behind/binary>> -> {atom, Name, Behind};
                _ -> unknown
            end;
        _ -> unknown
    end.

utf8(Latin1) -> unicode:characters_to_binary(Latin1, latin1).
