%% @doc Inflates data and decodes terms of unknown origin, up to a limit.
%%
%% A few bytes can claim gigabytes. `binary_to_term/1' and zlib allocate all of them, and the VM
%% runs out of memory. The VM never frees an atom, and it ends when its atom table is full. This
%% module checks the limits first.
-module(whittle_bounded).

-export([inflate/3, term/2, own_term/2, text_fits/1]).

%% The limit in bytes. Data that inflates to more counts as damaged.
-define(MAX_INFLATED, 256 * 1024 * 1024).

%% One atom in so many of the VM's atom table stays free.
-define(ATOM_RESERVE, 4).                       % a quarter

%% Matches a byte of a name in a text that is UTF-8 or Latin-1.
-define(IS_NAME(C), (C >= $a andalso C =< $z orelse C >= $A andalso C =< $Z
                     orelse C >= $0 andalso C =< $9 orelse C =:= $_ orelse C =:= $@
                     orelse C >= 128)).

%% @doc Inflates data up to a limit of at most 256 MB. The window bits are those of zlib: 15 for a
%% zlib stream, 31 for a gzip file and -15 for raw data. A stream without its end, which holds its
%% checksum, gives `not_deflated'.
-spec inflate(-15 | 15 | 31, binary(), non_neg_integer()) ->
          {ok, binary()} | {error, wrong_size | not_deflated}.
inflate(WindowBits, Deflated, Limit) when Limit =< ?MAX_INFLATED ->
    Z = zlib:open(),
    try
        ok = zlib:inflateInit(Z, WindowBits),
        case inflate_up_to(Limit, zlib:safeInflate(Z, Deflated), Z, []) of
            {ok, _} = Inflated ->
                ok = zlib:inflateEnd(Z),        % fails if the stream has no end
                Inflated;
            {error, _} = Error ->
                Error
        end
    catch
        error:_ -> {error, not_deflated}
    after
        zlib:close(Z)
    end;
inflate(_, _, _) ->
    {error, wrong_size}.

%% @doc Decodes a term of the external term format, compressed or not. The function returns
%% `error' if the term needs more bytes than the limit, if it has more atoms than this VM has room
%% for, or if the binary is not a term.
-spec term(binary(), non_neg_integer()) -> {ok, term()} | error.
term(Bytes, Limit) -> term(Bytes, Limit, fun has_room/1).

%% @doc Decodes a term from a file that Whittle wrote. The function does not count the atoms,
%% because such a file may name the same atoms many times.
-spec own_term(binary(), non_neg_integer()) -> {ok, term()} | error.
own_term(Bytes, Limit) -> term(Bytes, Limit, fun(_) -> true end).

%% @doc Tells whether erl_scan can read a text safely. It can if a quarter of this VM's atom table
%% stays free after each name in the text becomes an atom. The count ignores repeated names and
%% names that are atoms already.
-spec text_fits(binary()) -> boolean().
text_fits(Text) ->
    Room = room(),
    names(Text, 0) < Room orelse fits(pieces(Text, #{}, Room)).

%% Internal

room() ->
    Limit = erlang:system_info(atom_limit),
    Limit - Limit div ?ATOM_RESERVE - erlang:system_info(atom_count).

%% Counts the places where a name can begin: at a quote, or at a letter, a digit, `_' or `@' that
%% follows another character. The text has no more atoms than such places.
names(<<C, Rest/binary>>, Count) when ?IS_NAME(C) -> names(behind_name(Rest), Count + 1);
names(<<$', Rest/binary>>, Count) -> names(Rest, Count + 1);
names(<<_, Rest/binary>>, Count) -> names(Rest, Count);
names(<<>>, Count) -> Count.

behind_name(<<C, Rest/binary>>) when ?IS_NAME(C) -> behind_name(Rest);
behind_name(Rest) -> Rest.

fits(none) -> false;
fits(_) -> true.

%% Collects the different pieces between quotes and the different names in them. An atom with an
%% escaped quote has several pieces, so each such quote counts as one more atom.
pieces(Text, Before, Room) ->
    Escaped = length(binary:matches(Text, <<"\\'">>)),
    lists:foldl(fun(Piece, Found) -> words(Piece, piece(Piece, Found), Room - Escaped) end,
                piece(<<>>, Before), binary:split(Text, <<$'>>, [global])).

words(_, none, _) -> none;
words(_, Found, Room) when map_size(Found) >= Room -> none;
words(<<C, Rest/binary>> = Text, Found, Room) when ?IS_NAME(C) ->
    Behind = behind_name(Rest),
    Word = binary:part(Text, 0, byte_size(Text) - byte_size(Behind)),
    words(Behind, piece(Word, Found), Room);
words(<<_, Rest/binary>>, Found, Room) -> words(Rest, Found, Room);
words(<<>>, Found, _) -> Found.

%% An atom has at most 255 characters.
piece(_, none) -> none;
piece(Piece, Found) when byte_size(Piece) > 255 * 4 -> Found;
piece(Piece, Found) ->
    try binary_to_existing_atom(Piece) of
        _ -> Found
    catch
        error:_ -> Found#{Piece => []}
    end.

term(<<131, 80, Size:32, Deflated/binary>>, Limit, Check) when Size =< Limit ->
    case inflate(15, Deflated, Size) of
        {ok, Plain} when byte_size(Plain) =:= Size -> checked(<<131, Plain/binary>>, Check);
        _ -> error
    end;
term(<<131, Tag, _/binary>> = Bytes, Limit, Check) when Tag =/= 80, byte_size(Bytes) =< Limit ->
    checked(Bytes, Check);
term(_, _, _) ->
    error.

checked(Bytes, Check) ->
    try Check(Bytes) andalso {ok, binary_to_term(Bytes)} of
        false -> error;
        Read -> Read
    catch
        error:_ -> error
    end.

%% Each atom begins with one of four tags. The data has no more atoms than bytes with these
%% values.
has_room(Bytes) -> tags(Bytes, 0) < room().

tags(<<Tag, Rest/binary>>, Count)
  when Tag =:= 100; Tag =:= 115; Tag =:= 118; Tag =:= 119 ->
    tags(Rest, Count + 1);
tags(<<_, Rest/binary>>, Count) -> tags(Rest, Count);
tags(<<>>, Count) -> Count.

inflate_up_to(Limit, {Status, Output}, Z, Before) ->
    Left = Limit - iolist_size(Output),
    if
        Left < 0 -> {error, wrong_size};
        Status =:= finished -> {ok, iolist_to_binary([Before, Output])};
        true -> inflate_up_to(Left, zlib:safeInflate(Z, []), Z, [Before, Output])
    end.
