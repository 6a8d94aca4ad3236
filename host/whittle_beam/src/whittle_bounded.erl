%% @doc Inflates data and reads terms that others have written, up to a limit.
%%
%% A few bytes can claim gigabytes: `binary_to_term/1' and zlib give all of them, and the VM
%% ends for want of memory. Here the limit comes first.
-module(whittle_bounded).

-export([inflate/3, term/2, own_term/2]).

%% Data that claims to inflate to more than this counts as damaged.
-define(MAX_INFLATED, 256 * 1024 * 1024).

%% Of the VM's atoms so many stay free.
-define(ATOM_RESERVE, 4).                       % a fourth

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

%% Internal

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
has_room(Bytes) ->
    Limit = erlang:system_info(atom_limit),
    erlang:system_info(atom_count) + tags(Bytes, 0) < Limit - Limit div ?ATOM_RESERVE.

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
