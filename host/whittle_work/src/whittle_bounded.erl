%% @doc Inflates data and decodes terms of unknown origin, up to a limit.
%%
%% A few bytes can claim gigabytes. `binary_to_term/1' and zlib allocate all of them, and the VM
%% runs out of memory. The VM never frees an atom, and it ends when its atom table is full. This
%% module checks the limits first.
-module(whittle_bounded).

-export([inflate/3, term/2, check_text/1, make_atoms/2, check_terms/1, too_many_atoms/1]).

-export_type([refusal/0, too_many/0]).

%% The reason why a term is not decoded.
-type refusal() :: not_a_term | too_large | too_many().

%% This VM has no room for the atoms. A VM with the given limit (the emulator's flag +t) has.
-type too_many() :: {too_many_atoms, Limit :: pos_integer()}.

%% The limit in bytes. Data that inflates to more counts as damaged.
-define(MAX_INFLATED, 256 * 1024 * 1024).

%% One atom in so many of the VM's atom table stays free.
-define(ATOM_RESERVE, 4).                       % a quarter

%% Up to this share of the atom table, schedulers make atoms at the same time. The atoms that 256
%% of them make then fit into the reserve.
-define(FEW, 1024).                             % a 1024th

%% A limit that an error suggests is a multiple of this. The next run makes about as many atoms
%% before, but not exactly as many.
-define(ROUND, 65536).

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

%% @doc Decodes a term of the external term format, compressed or not. Errors: the term needs more
%% bytes than the limit (`too_large'); it has more new atoms than this VM has room for
%% (`too_many_atoms'); the binary is not a term (`not_a_term').
-spec term(binary(), non_neg_integer()) -> {ok, term()} | {error, refusal()}.
term(<<131, 80, Size:32, _/binary>>, Limit) when Size > Limit ->
    {error, too_large};
term(<<131, 80, Size:32, Deflated/binary>>, _) ->
    case inflate(15, Deflated, Size) of
        {ok, Plain} when byte_size(Plain) =:= Size -> plain_term(<<131, Plain/binary>>);
        _ -> {error, not_a_term}
    end;
term(<<131, _/binary>> = Bytes, Limit) when byte_size(Bytes) > Limit ->
    {error, too_large};
term(Bytes, _) ->
    plain_term(Bytes).

%% @doc Calls a function that makes at most so many new atoms, if a quarter of this VM's atom table
%% stays free. Processes that make many atoms take turns, so that each one counts the atoms of the
%% others.
-spec make_atoms(non_neg_integer(), fun(() -> Result)) ->
          {ok, Result} | {error, too_many()}.
make_atoms(Count, Make) ->
    in_turn(Count, fun() ->
                           case Count < room() of
                               true -> {ok, Make()};
                               false -> too_many(Count)
                           end
                   end).

%% @doc Checks that this VM has room for the atoms of uncompressed terms in the external term
%% format. The count ignores repeated names and names that are atoms already. If the terms are long
%% enough to have too many, the check also finds bytes that are no term (`not_a_term').
-spec check_terms([binary()]) -> ok | {error, too_many() | not_a_term}.
check_terms(Terms) ->
    case half(Terms) < room() of
        true -> ok;
        false -> check_terms(Terms, most(Terms))
    end.

%% @doc Checks that erl_scan can read a text safely. It can if a quarter of this VM's atom table
%% stays free after each name in the text becomes an atom. The count ignores repeated names and
%% names that are atoms already.
-spec check_text(binary()) -> ok | {error, too_many()}.
check_text(Text) ->
    Room = room(),
    case names(Text, 0) of
        Few when Few < Room -> ok;
        Most ->
            case pieces(Text, #{}, Room) of
                none -> too_many(Most);
                _ -> ok
            end
    end.

%% @doc Describes a file with more names than this VM has room for. The caller puts the file before
%% the text. The limit is that of the error.
-spec too_many_atoms(Limit :: pos_integer()) -> unicode:chardata().
too_many_atoms(Limit) ->
    io_lib:format("has more different names than Whittle accepts (three quarters of the ~b atoms "
                  "of its VM, for all files together): make the file smaller, or run the command "
                  "again with WHITTLE_ATOMS=~b",
                  [erlang:system_info(atom_limit), Limit]).

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
    whittle_term_names:with(Piece, Found).

%% A compressed term inside a compressed term would get around the limit.
plain_term(<<131, Tag, _/binary>> = Bytes) when Tag =/= 80 ->
    Most = most([Bytes]),
    try in_turn(Most, fun() ->
                              case check_terms([Bytes], Most) of
                                  ok -> {ok, binary_to_term(Bytes)};
                                  {error, _} = Error -> Error
                              end
                      end)
    catch
        error:_ -> {error, not_a_term}
    end;
plain_term(_) ->
    {error, not_a_term}.

in_turn(Count, Fun) ->
    case Count =< few() of
        true -> Fun();
        false -> whittle_turn:take(Fun)
    end.

few() -> erlang:system_info(atom_limit) div ?FEW.

%% A limit under which room/0 would be larger than the count.
too_many(Count) ->
    Atoms = erlang:system_info(atom_count) + Count + 1,
    Limit = Atoms + ceil(Atoms / (?ATOM_RESERVE - 1)),
    {error, {too_many_atoms, ?ROUND * ceil(Limit / ?ROUND)}}.

%% Both return a number of atoms that the terms do not exceed. An atom takes at least two bytes.
most(Terms) ->
    case half(Terms) of
        Few when Few < 1000 -> Few;
        _ -> lists:sum([tags(Term, 0) || Term <- Terms])
    end.

half(Terms) -> iolist_size(Terms) div 2.

check_terms(Terms, Most) ->
    Room = room(),
    case Most < Room orelse new_names(Terms, #{}, Room) of
        true -> ok;
        few -> ok;
        too_many -> too_many(Most);
        unknown -> {error, not_a_term}
    end.

new_names([Term | Terms], Names, Room) ->
    case whittle_term_names:add(Term, Names, Room) of
        {ok, More} -> new_names(Terms, More, Room);
        Not -> Not
    end;
new_names([], _, _) ->
    few.

%% Each atom begins with one of four tags. So a term has no more atoms than bytes with these
%% values.
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
