%% @hidden Reads the terms in a table on disk: of dets, of `ets:tab2file/2', and of `disk_log'.
%%
%% `ets:tab2file/2' uses the format of `disk_log'. This module reads the bytes only. Nothing opens
%% the file, so nothing repairs it.
-module(whittle_shake_dets).

-export([terms/2]).

%% An item of a log begins with its size and one of these (disk_log.hrl).
-define(ITEM, 16#0C212C37).
-define(BIG_ITEM, 16#62574C41).

%% The size of an item, in bytes, from which a checksum of the size stands before the item.
-define(WITH_CHECKSUM, 65528).

%% @doc Reads the terms, each of at most `Max' bytes. The result is `none' for another kind of
%% file. The function skips damaged terms.
-spec terms(binary(), MaxBytes :: non_neg_integer()) -> {ok, [term()]} | none.
terms(<<1, 2, 3, 4, _Status:4/binary, Items/binary>>, Max) ->
    {ok, [Term || Item <- items(Items), {ok, Term} <- [whittle_bounded:term(Item, Max)]]};
terms(<<_:32, 16#00ABCDEF:32, _/binary>> = Table, Max) ->
    {ok, [Term || {At, 1} <- binary:matches(Table, <<131>>),
                  {ok, Object} <- [object(At, Table)],
                  {ok, Term} <- [whittle_bounded:term(Object, Max)]]};
terms(_, _) ->
    none.

%% Internal

items(<<Size:32, ?BIG_ITEM:32, Sum:16/binary, Item:Size/binary, Rest/binary>> = Items)
  when Size >= ?WITH_CHECKSUM ->
    case erlang:md5(<<Size:32>>) of
        Sum -> [Item | items(Rest)];
        _ -> item(Items)
    end;
items(Items) ->
    item(Items).

item(<<Size:32, Kind:32, Item:Size/binary, Rest/binary>>)
  when Kind =:= ?ITEM; Kind =:= ?BIG_ITEM ->
    [Item | items(Rest)];
item(_) ->
    [].

%% The size of an object of dets stands before the object, and counts its own four bytes too.
object(At, Table) when At >= 4 ->
    case binary:part(Table, At - 4, byte_size(Table) - At + 4) of
        <<Size:32, Object:(Size - 4)/binary, _/binary>> when Size > 4 -> {ok, Object};
        _ -> none
    end;
object(_, _) ->
    none.
