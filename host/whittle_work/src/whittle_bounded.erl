%% @doc Inflates data and reads terms that others have written, up to a limit.
%%
%% A few bytes can claim gigabytes: `binary_to_term/1' and zlib give all of them, and the VM
%% ends for want of memory. Atoms are never freed, and the VM ends when its table of them is
%% full. Here the limits come first.
-module(whittle_bounded).

-export([inflate/3, term/2, own_term/2, text_fits/1]).

%% Data that claims to inflate to more than this counts as damaged.
-define(MAX_INFLATED, 256 * 1024 * 1024).

%% Of the VM's atoms so many stay free.
-define(ATOM_RESERVE, 4).                       % a fourth

%% A byte of a name in a text, in UTF-8 or Latin-1.
-define(IS_NAME(C), (C >= $a andalso C =< $z orelse C >= $A andalso C =< $Z
                     orelse C >= $0 andalso C =< $9 orelse C =:= $_ orelse C =:= $@
                     orelse C >= 128)).

%% @doc Inflates no further than the limit, which is at most 256 MB. The window's bits are
%% 15 for a zlib stream, 31 for a gzip file and -15 for bare data, as zlib has it. A stream
%% without its end, where its checksum is, is `not_deflated'.
-spec inflate(-15 | 15 | 31, binary(), non_neg_integer()) ->
          {ok, binary()} | {error, wrong_size | not_deflated}.
inflate(WindowBits, Deflated, Limit) when Limit =< ?MAX_INFLATED ->
    Z = zlib:open(),
    try
        ok = zlib:inflateInit(Z, WindowBits),
        case inflate_up_to(Limit, zlib:safeInflate(Z, Deflated), Z, []) of
            {ok, _} = Inflated ->
                ok = zlib:inflateEnd(Z),        % an error where the stream has no end
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

%% @doc The term of a binary in the external format, which may be compressed. The error is
%% for more bytes than the limit, for more atoms than this VM has room for, and for what is
%% no term.
-spec term(binary(), non_neg_integer()) -> {ok, term()} | error.
term(Bytes, Limit) -> term(Bytes, Limit, fun has_room/1).

%% @doc The same, of a file that Whittle wrote: it may name the same atoms very often, so
%% their number is not looked at.
-spec own_term(binary(), non_neg_integer()) -> {ok, term()} | error.
own_term(Bytes, Limit) -> term(Bytes, Limit, fun(_) -> true end).

%% @doc Whether erl_scan may read a text: whether all names in it, as atoms, leave a fourth of
%% this VM's atoms free. Names that are atoms already, and names that are there twice, count once.
-spec text_fits(binary()) -> boolean().
text_fits(Text) ->
    Room = room(),
    names(Text, 0) < Room orelse fits(pieces(Text, #{}, Room)).

%% Internal

room() ->
    Limit = erlang:system_info(atom_limit),
    Limit - Limit div ?ATOM_RESERVE - erlang:system_info(atom_count).

%% A name begins where a letter, a digit, `_' or `@' follows something else, or at a quote: there
%% are no more atoms than such places.
names(<<C, Rest/binary>>, Count) when ?IS_NAME(C) -> names(behind_name(Rest), Count + 1);
names(<<$', Rest/binary>>, Count) -> names(Rest, Count + 1);
names(<<_, Rest/binary>>, Count) -> names(Rest, Count);
names(<<>>, Count) -> Count.

behind_name(<<C, Rest/binary>>) when ?IS_NAME(C) -> behind_name(Rest);
behind_name(Rest) -> Rest.

fits(none) -> false;
fits(_) -> true.

%% The different pieces between quotes, and the different names in them. An atom with an escaped
%% quote has several pieces, so each such quote counts as one atom more.
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

%% No atom has more than 255 characters.
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

%% Each atom begins with one of four tags, so there are no more atoms than such bytes.
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
