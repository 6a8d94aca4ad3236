%% @doc Draws faults for a stage of docket: which nodes, how long, and the commands of the stage.
-module(faults).

-export([kinds/0, special/0, draw/3]).

-export_type([kind/0, fault/0]).

-type kind() :: kill_one | kill_two | kill_all | halves | alone | one_way | bridge | pause
              | disk_full | damage | clock.

%% The commands are arguments of examples/docket/stage.
-type fault() :: #{kind := kind(),
                   inject := [[string()]],
                   heal := [[string()]],
                   lasts_ms := pos_integer(),
                   rest_ms := pos_integer()}.      % before the fault

%% A rest is shorter than the start of a node, so the next fault often meets a cluster that is still
%% recovering.
-define(LASTS_MS, {1000, 5000}).
-define(REST_MS, {500, 2500}).

%% @doc Lists the kinds of faults.
-spec kinds() -> [kind(), ...].
kinds() ->
    [kill_one, kill_two, kill_all, halves, alone, one_way, bridge, pause, disk_full].

%% @doc Lists the kinds that a run has only if its options name them: `clock' needs another program
%% (bench/cluster/with_clock), and `damage' the files of Mnesia.
-spec special() -> [kind(), ...].
special() -> [damage, clock].

%% @doc Draws a fault of one of some kinds. The same state gives the same fault.
-spec draw([kind(), ...], Nodes :: pos_integer(), rand:state()) -> {fault(), rand:state()}.
draw(Kinds, Nodes, Random) ->
    {Place, Random1} = rand:uniform_s(length(Kinds), Random),
    {Mixed, Random2} = shuffled(lists:seq(1, Nodes), Random1),
    {Lasts, Random3} = between(?LASTS_MS, Random2),
    {Rest, Random4} = between(?REST_MS, Random3),
    Kind = lists:nth(Place, Kinds),
    {Inject, Heal} = commands(Kind, Mixed),
    {#{kind => Kind, inject => Inject, heal => Heal, lasts_ms => Lasts, rest_ms => Rest}, Random4}.

between({Least, Most}, Random) ->
    {More, Random1} = rand:uniform_s(Most - Least, Random),
    {Least + More, Random1}.

shuffled(List, Random) ->
    {Keyed, Random1} = lists:mapfoldl(fun(Each, State) ->
                                              {Key, State1} = rand:uniform_s(State),
                                              {{Key, Each}, State1}
                                      end, Random, List),
    {[Each || {_, Each} <- lists:sort(Keyed)], Random1}.

commands(kill_one, [One | _]) -> killed([One]);
commands(kill_two, Mixed) -> killed(lists:sublist(Mixed, 2));
commands(kill_all, Mixed) -> killed(Mixed);
commands(halves, Mixed) ->
    {Some, Others} = lists:split(length(Mixed) div 2, Mixed),
    parted(Some, Others);
commands(alone, [One | Others]) -> parted([One], Others);
commands(one_way, Mixed) ->
    {Some, Others} = lists:split(max(1, length(Mixed) div 2), Mixed),
    {[["cut", group(Some), group(Others)]], [["heal"]]};
%% The first node sees both sides, which do not see each other.
commands(bridge, [_ | Others]) ->
    {Some, Rest} = lists:split(max(1, length(Others) div 2), Others),
    parted(Some, Rest);
commands(pause, [One | _]) -> {[["pause", group([One])]], [["resume", group([One])]]};
%% A VM whose clock jumps goes on with its own time, and corrects it by one percent at most. So the
%% node also starts again. The order of the nodes decides about the jump, because it is random.
commands(clock, [One, Other | _]) ->
    Set = fun(Seconds) ->
                  [["clock", group([One]), Seconds], ["kill", group([One])],
                   ["start", group([One])]]
          end,
    {Set(case One < Other of true -> "3600"; false -> "-3600" end), Set("0")};
%% The order of the nodes decides about the file, because it is random.
commands(damage, [One, Other | _] = Mixed) ->
    {Kill, Start} = killed(Mixed),
    File = case One < Other of true -> "docket_case.DCD"; false -> "LATEST.LOG" end,
    {Kill ++ [["damage", group([One]), File]], Start};
commands(disk_full, [One | _]) -> {[["fill", group([One])]], [["free", group([One])]]}.

killed(Nodes) -> {[["kill", group(Nodes)]], [["start", group([Node])] || Node <- Nodes]}.

%% Of two nodes, none is a bridge.
parted(Some, []) -> {[["pause", group(Some)]], [["resume", group(Some)]]};
parted(Some, Others) -> {[["part", group(Some), group(Others)]], [["heal"]]}.

group(Nodes) -> lists:join(",", [integer_to_list(Node) || Node <- Nodes]).
