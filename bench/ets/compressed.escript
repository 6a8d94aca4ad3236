#!/usr/bin/env escript
%% Compares ETS tables with the option `compressed' with plain ones: bytes, insert, lookup, match.
%%
%% Model. One table of the type set has ROWS rows of one kind:
%%   counter   {Id, Integer}
%%   session   {Id, Map, Binary}: a map of 8 keys, and 40 bytes inside of the row
%%   document  {Id, Map, Binary}: the same map, and 400 bytes outside of the row
%%   text      {Id, String}: a list of 60 characters
%% "bytes" is the table's memory for each row as ets:info/2 tells it. It contains no binary that
%% lies outside of the row. `insert' makes all rows before the clock starts and inserts them one by
%% one. `lookup' reads each row once, in an order without a pattern. `match' is one ets:match/2
%% that no index helps; it reads all rows and finds one of 100. Each step is a process of its own,
%% which has collected its garbage. A time is the best of three tables. A plain and a compressed
%% time make a pair. The two take turns in being first. One pair before the others warms the VM
%% and does not count. A figure is the median of PAIRS pairs, and a ratio the median of the pairs'
%% ratios with its range.
%%
%% run: escript bench/ets/compressed.escript [PAIRS [ROWS]]; on Whittle's VM:
%%   ./whittle build bench/ets/compressed.escript -o out/compressed && out/compressed 7 50000
-mode(compile).

-define(STEPS, [insert, lookup, match]).

main([]) -> main(["7"]);
main([Pairs]) -> main([Pairs, "50000"]);
main([Pairs, Rows]) -> compare(list_to_integer(Pairs), list_to_integer(Rows)).

compare(Pairs, Rows) ->
    io:format("OTP ~s, ~p, ~p schedulers, ~p rows, ~p pairs~n",
              [erlang:system_info(otp_release), erlang:system_info(emu_flavor),
               erlang:system_info(schedulers), Rows, Pairs]),
    io:format("~-9s ~-7s ~10s ~12s  compressed / plain~n", ["", "", "plain", "compressed"]),
    [begin
         _ = pair(0, Kind, Rows),
         print(Kind, [pair(N, Kind, Rows) || N <- lists:seq(1, Pairs)])
     end || Kind <- [counter, session, document, text]].

pair(N, Kind, Rows) when N rem 2 =:= 1 ->
    Plain = measure([], Kind, Rows),
    {Plain, measure([compressed], Kind, Rows)};
pair(_, Kind, Rows) ->
    Compressed = measure([compressed], Kind, Rows),
    {measure([], Kind, Rows), Compressed}.

%% The best of three: other programs only make a step slower.
measure(Options, Kind, Rows) ->
    [First | Others] = [once(Options, Kind, Rows) || _ <- [1, 2, 3]],
    lists:foldl(fun(Other, Best) -> maps:map(fun(K, V) -> min(V, maps:get(K, Other)) end, Best) end,
                First, Others).

once(Options, Kind, Rows) ->
    Table = ets:new(rows, [public | Options]),
    Times = [{Step, alone(fun() -> prepare(Step, Table, Kind, Rows) end)} || Step <- ?STEPS],
    Bytes = ets:info(Table, memory) * erlang:system_info(wordsize) / Rows,
    true = ets:delete(Table),
    maps:from_list([{bytes, Bytes} | [{Step, Time / Rows} || {Step, Time} <- Times]]).

%% Runs a step in a process of its own and returns its time in nanoseconds.
alone(Prepare) ->
    {Pid, Monitor} =
        spawn_monitor(fun() ->
                              Run = Prepare(),
                              erlang:garbage_collect(),
                              Start = erlang:monotonic_time(),
                              Run(),
                              Time = erlang:monotonic_time() - Start,
                              exit({time, erlang:convert_time_unit(Time, native, nanosecond)})
                      end),
    receive {'DOWN', Monitor, process, Pid, {time, Time}} -> Time end.

prepare(insert, Table, Kind, Rows) ->
    All = [row(Kind, Id) || Id <- lists:seq(1, Rows)],
    fun() -> lists:foreach(fun(Row) -> ets:insert(Table, Row) end, All) end;
prepare(lookup, Table, _, Rows) ->
    Ids = [Id || {_, Id} <- lists:sort([{erlang:phash2(Id), Id} || Id <- lists:seq(1, Rows)])],
    fun() -> lists:foreach(fun(Id) -> [_] = ets:lookup(Table, Id) end, Ids) end;
prepare(match, Table, Kind, Rows) ->
    Pattern = pattern(Kind),
    Expected = length([Id || Id <- lists:seq(1, Rows), Id rem 100 =:= 7]),
    fun() -> Expected = length(ets:match(Table, Pattern)) end.

row(counter, Id) -> {Id, Id rem 100};
row(session, Id) -> {Id, map(Id), binary(Id, 40)};
row(document, Id) -> {Id, map(Id), binary(Id, 400)};
row(text, Id) -> {Id, string(Id)}.

pattern(counter) -> {'$1', 7};
pattern(text) -> {'$1', string(7)};
pattern(_) -> {'$1', #{group => 7}, '_'}.

map(Id) ->
    #{name => <<"user-", (integer_to_binary(Id))/binary>>, group => Id rem 100, active => true,
      role => lists:nth(Id rem 4 + 1, [admin, editor, reader, guest]), since => 1700000000 + Id,
      address => {10, 0, Id div 256 rem 256, Id rem 256}, score => Id / 7, tags => [new, local]}.

binary(Id, Size) ->
    Text = binary:copy(<<"row ", Id:32, " of a table; ">>, Size div 21 + 1),
    binary:copy(binary:part(Text, 0, Size)).

string(Id) -> lists:flatten(io_lib:format("~60..-w", [Id rem 100])).

print(Kind, Pairs) ->
    [begin
         {Plain, Compressed} = lists:unzip([{maps:get(Step, P), maps:get(Step, C)}
                                            || {P, C} <- Pairs]),
         Ratios = lists:sort([C / P || {P, C} <- lists:zip(Plain, Compressed)]),
         io:format("~-9s ~-7s ~8.1f ~s ~9.1f ~s  ~.2f (~.2f to ~.2f)~n",
                   [Kind, Step, median(Plain), unit(Step), median(Compressed), unit(Step),
                    median(Ratios), hd(Ratios), lists:last(Ratios)])
     end || Step <- [bytes | ?STEPS]].

unit(bytes) -> "B ";
unit(_) -> "ns".

median(Values) -> lists:nth((length(Values) + 1) div 2, lists:sort(Values)).
