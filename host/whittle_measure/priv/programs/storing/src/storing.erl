%% @doc Changes records of a Mnesia table in transactions, and prints how many it made in a second.
%% The table is in RAM and has an index. Several workers each take a record, change it and write it,
%% and every tenth time read all records of one owner by the index.
-module(storing).
-behaviour(application).

-export([start/2, stop/1]).

-define(USAGE, "usage: storing [SECONDS [RECORDS]]\n"
        "Makes transactions for SECONDS (default 3) on RECORDS records (default 20000, at most\n"
        "1000000).\n").

-define(WORKERS, 4).

-record(item, {id :: pos_integer(),
               owner :: non_neg_integer(),
               changes = 0 :: non_neg_integer(),
               text = <<>> :: binary()}).

%% @private
-spec start(application:start_type(), term()) -> {ok, pid()}.
start(_Type, _Args) ->
    {ok, spawn_link(fun() -> run(init:get_plain_arguments()) end)}.

%% @private
-spec stop(term()) -> ok.
stop(_State) ->
    ok.

run(Arguments) ->
    case options(Arguments) of
        {ok, Seconds, Records} ->
            store(Seconds, Records),
            init:stop();
        error ->
            io:put_chars(standard_error, ?USAGE),
            init:stop(2)
    end,
    receive after infinity -> ok end.

options(Arguments) ->
    try {lists:map(fun list_to_integer/1, Arguments), length(Arguments)} of
        {[], 0} -> {ok, 3, 20000};
        {[Seconds], 1} when Seconds > 0, Seconds =< 86400 -> {ok, Seconds, 20000};
        {[Seconds, Records], 2} when Seconds > 0, Seconds =< 86400,
                                     Records > 0, Records =< 1000000 ->
            {ok, Seconds, Records};
        _ -> error
    catch
        error:badarg -> error
    end.

store(Seconds, Records) ->
    {atomic, ok} = mnesia:create_table(item, [{attributes, record_info(fields, item)},
                                              {ram_copies, [node()]}, {index, [#item.owner]}]),
    Owners = max(1, Records div 20),
    lists:foreach(fun(Id) -> ok = mnesia:dirty_write(new(Id, Owners)) end, lists:seq(1, Records)),
    Start = now_us(),
    End = Start + 1000000 * Seconds,
    Self = self(),
    Workers = [spawn_link(fun() ->
                                  _ = rand:seed(exsss, Number),
                                  Self ! {self(), changes(Records, Owners, End, 0)}
                          end) || Number <- lists:seq(1, ?WORKERS)],
    Made = lists:sum([receive {Worker, Count} -> Count end || Worker <- Workers]),
    Time = now_us() - Start,
    %% No change is lost.
    Made = mnesia:activity(ets, fun mnesia:foldl/3, [fun(#item{changes = N}, All) -> N + All end,
                                                     0, item], mnesia),
    io:format("made ~b transactions~nscore ~.1f~n", [Made, Made * 1000000 / Time]).

new(Id, Owners) -> #item{id = Id, owner = Id rem Owners, text = text(Id, 0)}.

changes(Records, Owners, End, Count) ->
    case now_us() >= End of
        true -> Count;
        false ->
            {atomic, ok} = mnesia:transaction(fun change/1, [rand:uniform(Records)]),
            _ = [owned(rand:uniform(Owners) - 1) || Count rem 10 =:= 0],
            changes(Records, Owners, End, Count + 1)
    end.

change(Id) ->
    [#item{changes = Changes} = Item] = mnesia:read(item, Id, write),
    mnesia:write(Item#item{changes = Changes + 1, text = text(Id, Changes + 1)}).

owned(Owner) ->
    [_ | _] = mnesia:activity(transaction, fun mnesia:index_read/3, [item, Owner, #item.owner],
                              mnesia).

text(Id, Changes) ->
    iolist_to_binary(io_lib:format("record ~b after ~b changes", [Id, Changes])).

now_us() -> erlang:monotonic_time(microsecond).
