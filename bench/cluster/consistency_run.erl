%% @doc Runs clients and faults against a stage of docket, and judges what the clients have seen.
%%
%% A run has rounds. In each one, clients work while faults come and go. Then all faults end, all
%% nodes get ready, each node shows all cases of the round, and the checker judges them. The end of
%% the run compares all cases of all rounds once more with what each node shows.
-module(consistency_run).

-export([run/1, up/1]).

-export_type([options/0, report/0]).

-type options() :: #{store := string(),
                     mode := string(),                   % of Mnesia
                     nodes := pos_integer(),
                     clients := pos_integer(),
                     faults := pos_integer(),
                     round := pos_integer(),             % faults in a round
                     kinds := [faults:kind(), ...],
                     seed := integer(),
                     time := pos_integer() | infinity,   % seconds
                     stage := [string()],                % further options for `stage up'
                     out := file:filename(),
                     keep := boolean()}.                 % also the histories of good rounds

%% Except for `unjudged', the report is about the rounds that were judged.
-type report() :: #{faults := #{faults:kind() => pos_integer()},
                    unjudged := non_neg_integer(),       % faults of the last round
                    rounds := non_neg_integer(),
                    seconds := non_neg_integer(),
                    cases := non_neg_integer(),
                    operations := #{ok | refused | failed | unknown => pos_integer()},
                    %% Cases with such a verdict, and how often it came up
                    verdicts := #{verdicts:kind() => {pos_integer(), pos_integer()}},
                    slowest_ms := non_neg_integer(),     % from the end of the faults until ready
                    stopped := none | binary()}.         % why the run ended early

-record(run, {options :: options(), random :: rand:state(), left :: non_neg_integer(),
              until :: integer() | infinity, settled = #{} :: #{history:key() => history:state()},
              %% The states that writes with unknown results may still make
              late = #{} :: #{{history:key(), history:state()} => []},
              report :: report()}).

-define(READY_MS, 180000).
%% Nodes that still differ get this many more looks, a second apart.
-define(LOOKS, 10).

%% @doc Runs everything. The stage must not be up, and the caller ends it. An error is what the
%% stage wrote when it did not start.
-spec run(options()) -> {ok, report()} | {error, binary()}.
run(#{store := Store, mode := Mode, nodes := Nodes, seed := Seed, faults := Faults,
      time := Time} = Options) ->
    say("starting ~b nodes ~s", [Nodes, case Store of
                                            "ra" -> "with the store ra";
                                            _ -> ["in mode ", Mode]
                                        end]),
    Report = #{faults => #{}, unjudged => 0, rounds => 0, seconds => 0, cases => 0,
               operations => #{}, verdicts => #{}, slowest_ms => 0, stopped => none},
    case started(Options) of
        ok ->
            Start = now_ms(),
            #run{report = Done} =
                rounds(#run{options = Options, report = Report, left = Faults,
                            until = case Time of infinity -> infinity;
                                        _ -> Start + 1000 * Time end,
                            random = rand:seed_s(exsss, Seed)}),
            ok = save_logs(Done, Options),
            {ok, Done#{seconds := (now_ms() - Start) div 1000}};
        {error, _} = Error -> Error
    end.

%% @doc Returns the options of the stage.
-spec up(options()) -> [string()].
up(#{store := Store, mode := Mode, nodes := Nodes, stage := Stage}) ->
    ["--nodes", integer_to_list(Nodes), "--store", Store, "--mode", Mode | Stage].

%% Only the program that runs can say whether its clock can move.
started(#{kinds := Kinds} = Options) ->
    case docket_stage:command(["up" | up(Options)]) of
        ok ->
            case lists:member(clock, Kinds) of
                true -> docket_stage:command(["clock", "1", "0"]);
                false -> ok
            end;
        {error, _} = Error -> Error
    end.

%% The end of the stage removes the logs of its nodes.
save_logs(#{verdicts := Verdicts, stopped := none}, _) when map_size(Verdicts) =:= 0 -> ok;
save_logs(_, #{out := Out}) ->
    _ = [file:copy(Log, filename:join(Out, filename:basename(Log)))
         || Log <- filelib:wildcard(filename:join(docket_stage:directory(), "node-*.log"))],
    ok.

rounds(#run{report = #{stopped := none}, left = Left, until = Until} = Run) when Left > 0 ->
    case now_ms() < Until of
        true -> rounds(one_round(Run));
        false -> all_settled(Run)
    end;
rounds(#run{report = #{stopped := none}} = Run) -> all_settled(Run);
rounds(Run) -> Run.

one_round(#run{options = #{round := Most, out := Out} = Options, left = Left,
               report = #{rounds := Before} = Report0} = Run0) ->
    Round = Before + 1,
    Prefix = "r" ++ integer_to_list(Round) ++ "-",
    Name = filename:join(Out, io_lib:format("round-~4..0b", [Round])),
    File = Name ++ ".history",
    Clients = clients:start(File, Prefix, Options),
    {ok, Notes} = file:open(Name ++ ".faults", [write, raw]),
    Run = injected(min(Most, Left), Notes, Run0#run{report = Report0#{rounds := Round}}),
    ok = file:close(Notes),
    Healed = now_ms(),
    ok = heal(Options),
    Ready = case Run of
                #run{report = #{stopped := none}} -> ready(Options, Healed + ?READY_MS);
                #run{report = #{stopped := Refused}} -> {error, Refused}
            end,
    ok = clients:stop(Clients),
    {ok, Operations} = history:read(File),
    Slow = now_ms() - Healed,
    Looked = case Ready of
                 ok -> looked(Options, Prefix, keys(Operations), ?LOOKS);
                 {error, _} = NotReady -> NotReady
             end,
    case Looked of
        {ok, Shown} -> judged(Name, Prefix, Operations, Shown, counted(Operations, Slow, Run));
        {error, Why} -> unjudged(Why, Report0, Run)
    end.

%% A fault does not count if nobody has judged what came of it.
unjudged(Why, #{faults := Before}, #run{report = #{faults := Faults} = Report} = Run) ->
    Sum = fun(Counts) -> lists:sum(maps:values(Counts)) end,
    Run#run{report = Report#{stopped := Why, faults := Before,
                             unjudged := Sum(Faults) - Sum(Before)}}.

keys(Operations) -> lists:usort([Key || #{key := Key, result := {ok, _}} <- Operations]).

counted(Operations, Slow, #run{report = #{operations := Counts, slowest_ms := Slowest} = Report}
        = Run) ->
    Add = fun(#{result := {Kind, _}}, Sums) ->
                  maps:update_with(Kind, fun(Sum) -> Sum + 1 end, 1, Sums)
          end,
    Run#run{report = Report#{operations := lists:foldl(Add, Counts, Operations),
                             slowest_ms := max(Slow, Slowest)}}.

%%% Faults

injected(0, _, Run) -> Run;
injected(Count, Notes, #run{options = #{kinds := Kinds, nodes := Nodes}, random = Random,
                            left = Left, until = Until,
                            report = #{faults := Faults} = Report} = Run) ->
    {#{kind := Kind, inject := Inject, heal := Heal, lasts_ms := Lasts, rest_ms := Rest}, Random1} =
        faults:draw(Kinds, Nodes, Random),
    ok = pause(Rest),
    ok = note(Notes, [atom_to_list(Kind) | [[", ", lists:join(" ", Each)] || Each <- Inject]]),
    Injected = [docket_stage:command(Each) || Each <- Inject],
    ok = pause(Lasts),
    %% A node that has ended by itself starts again in the next rest.
    _ = [docket_stage:command(Each)
         || Each <- Heal ++ [["start", integer_to_list(Node)] || Node <- lists:seq(1, Nodes)]],
    ok = note(Notes, [atom_to_list(Kind), " ends"]),
    case [Output || {error, Output} <- Injected] of
        [] ->
            Sums = maps:update_with(Kind, fun(N) -> N + 1 end, 1, Faults),
            Run1 = Run#run{random = Random1, left = Left - 1, report = Report#{faults := Sums}},
            case now_ms() < Until of
                true -> injected(Count - 1, Notes, Run1);
                false -> Run1
            end;
        %% A fault that did not happen must not count.
        [Output | _] ->
            Run#run{report = Report#{stopped := <<(atom_to_binary(Kind))/binary, ": ",
                                                  (string:trim(Output))/binary>>}}
    end.

note(Notes, Text) ->
    file:write(Notes, history:note(erlang:monotonic_time(microsecond), Text)).

pause(Time) -> receive after Time -> ok end.

heal(#{nodes := Nodes, kinds := Kinds}) ->
    Each = [integer_to_list(Node) || Node <- lists:seq(1, Nodes)],
    _ = [docket_stage:command(Command)
         || Command <- [["heal"], ["resume", lists:join(",", Each)]]
                ++ [["free", Node] || lists:member(disk_full, Kinds), Node <- Each]
                ++ [["start", Node] || Node <- Each]],
    ok.

ready(#{nodes := Nodes} = Options, Until) ->
    States = [begin
                  {Ready, Connections} = case_client:ready(Node, case_client:new()),
                  ok = case_client:closed(Connections),
                  {Node, Ready}
              end || Node <- lists:seq(1, Nodes)],
    case [Node || {Node, false} <- States] of
        [] -> ok;
        Missing ->
            case now_ms() < Until of
                true ->
                    _ = [docket_stage:command(["start", integer_to_list(Node)]) || Node <- Missing],
                    ok = pause(200),
                    ready(Options, Until);
                false ->
                    {error, iolist_to_binary(
                              io_lib:format("nodes ~w were not ready ~b s after the last fault",
                                            [Missing, ?READY_MS div 1000]))}
            end
    end.

%%% Verdicts

%% Returns what each node shows. A write whose result is unknown may still come to an end.
looked(#{nodes := Nodes} = Options, Prefix, Keys, Looks) ->
    Shown = [{Node, clients:finals(Node, Prefix, Keys)} || Node <- lists:seq(1, Nodes)],
    Errors = [Error || {_, {error, Error}} <- Shown],
    %% Also cases whose create was not acknowledged
    All = lists:umerge([Keys | [lists:sort(maps:keys(Cases)) || {_, {ok, Cases}} <- Shown]]),
    case lists:usort([Cases || {_, {ok, Cases}} <- Shown]) of
        _ when length(All) > length(Keys) -> looked(Options, Prefix, All, Looks);
        [_] when Errors =:= [] -> {ok, [{Node, Cases} || {Node, {ok, Cases}} <- Shown]};
        _ when Looks > 0 ->
            ok = pause(1000),
            looked(Options, Prefix, Keys, Looks - 1);
        _ when Errors =:= [] -> {ok, [{Node, Cases} || {Node, {ok, Cases}} <- Shown]};
        _ -> {error, iolist_to_binary(io_lib:format("a final read failed: ~0p", [Errors]))}
    end.

judged(Name, Prefix, Operations, Shown, #run{options = #{keep := Keep} = Options,
                                             settled = Settled, late = Late} = Run) ->
    Now = erlang:monotonic_time(microsecond),
    [{_, First} | _] = Shown,
    %% A case whose create was not acknowledged: its first title shows which create it was.
    Groups = maps:merge(maps:from_list([{Key, created(Key, Shown, Operations)}
                                        || Key <- maps:keys(First)]),
                        maps:remove(none, history:by_key(Operations))),
    Cases = [{Key, Group ++ [final(Key, Node, State, Now)
                             || {Node, #{Key := State}} <- Shown]}
             || {Key, Group} <- maps:to_list(Groups)],
    Singles = [{Key, Verdicts, Group} || {Key, Group} <- Cases,
                                         [_ | _] = Verdicts <- [verdicts:judge(Group)]],
    %% The histories of the cases above already tell of those that are lost.
    Known = maps:from_list([{Key, []} || {Key, _, _} <- Singles]),
    Sets = [{set, Own, []}
            || {_, List} <- Shown,
               [_ | _] = Own <- [[Each || {_, {_, Element}} = Each
                                              <- verdicts:set(Operations, present(List)),
                                          not is_map_key(element(2, Element), Known)]]],
    Bad = Singles ++ lists:usort(Sets),
    case Bad of
        [] when not Keep -> lists:foreach(fun file:delete/1, [Name ++ ".history",
                                                              Name ++ ".faults"]);
        [] -> ok;
        _ -> ok = file:write_file(Name ++ ".verdicts",
                                  [io_lib:format("~tp.~n", [Each]) || Each <- Bad])
    end,
    said(Options, Prefix, added(Bad, length(Cases),
                                Run#run{settled = maps:merge(Settled, First),
                                        late = maps:merge(Late, late(Operations))})).

late(Operations) ->
    maps:from_list([{{Key, case Input of
                               {change, From, Title} -> {From + 1, Title};
                               {remove, _} -> absent
                           end}, []}
                    || #{key := Key, input := Input, result := {unknown, _}} <- Operations,
                       is_tuple(Input), element(1, Input) =/= create]).

created(Key, Shown, Operations) ->
    Titles = [Title || {_, #{Key := {1, Title}}} <- Shown],
    [Create || #{input := {create, Title}, key := none} = Create <- Operations,
               lists:member(Title, Titles)].

final(Key, Node, State, Now) ->
    #{number => 0, client => final, node => Node, key => Key, input => final, call => Now,
      return => Now + 1, result => {ok, State}}.

present(List) -> [{Key, Title} || {Key, {_, Title}} <- maps:to_list(List)].

added(Bad, Cases, #run{report = #{verdicts := Verdicts, cases := Before} = Report} = Run) ->
    Sums = lists:foldl(fun({_, Own, _}, Sum) ->
                               Kinds = [Kind || {Kind, _} <- Own],
                               lists:foldl(fun(Kind, Each) ->
                                                   Count = length([K || K <- Kinds, K =:= Kind]),
                                                   {A, B} = maps:get(Kind, Each, {0, 0}),
                                                   Each#{Kind => {A + 1, B + Count}}
                                           end, Sum, lists:usort(Kinds))
                       end, Verdicts, Bad),
    Run#run{report = Report#{verdicts := Sums, cases := Before + Cases}}.

said(#{faults := Faults}, Prefix, #run{left = Left, report = #{operations := Operations,
                                                             cases := Cases, verdicts := Verdicts,
                                                             slowest_ms := Slowest}} = Run) ->
    say("~s ~b of ~b faults; ~b cases; operations ~0p; ready after at most ~.1f s; ~0p",
        [Prefix, Faults - Left, Faults, Cases, maps:to_list(Operations), Slowest / 1000,
         maps:to_list(Verdicts)]),
    Run.

%% Compares all cases of the run with what each node shows now. As after a round, a node that does
%% not answer, or lags behind, gets further looks.
all_settled(#run{options = #{out := Out}, report = #{rounds := Rounds} = Report} = Run)
  when Rounds > 0 ->
    case settled(Run, ?LOOKS) of
        {ok, Bad} ->
            _ = [file:write_file(filename:join(Out, "end.verdicts"),
                                 [io_lib:format("~tp.~n", [Each]) || Each <- Bad]) || Bad =/= []],
            added(Bad, 0, Run);
        {error, Errors} ->
            Run#run{report = Report#{stopped := iolist_to_binary(
                                                  io_lib:format("the last list failed: ~0p",
                                                                [Errors]))}}
    end;
all_settled(Run) -> Run.

settled(#run{options = #{nodes := Nodes}} = Run, Looks) ->
    Lists = [{Node, case_client:list(Node, fun(_) -> true end, case_client:new())}
             || Node <- lists:seq(1, Nodes)],
    Result = case [Error || {_, {error, Error}} <- Lists] of
                 [] -> {ok, unsettled([{Node, List} || {Node, {ok, List, _}} <- Lists], Run)};
                 Errors -> {error, Errors}
             end,
    case Result of
        {ok, []} -> Result;
        _ when Looks > 0 ->
            ok = pause(1000),
            settled(Run, Looks - 1);
        _ -> Result
    end.

unsettled(Shown, #run{settled = Settled, late = Late}) ->
    Expected = maps:filter(fun(_, State) -> State =/= absent end, Settled),
    Keys = lists:usort(lists:append([maps:keys(Map)
                                     || Map <- [Expected | [List || {_, List} <- Shown]]])),
    [{Key, [{case lists:keymember(absent, 2, Changed) of
                 true -> lost_case;
                 false -> lost_write
             end, {later, Was, Changed}}], []}
     || Key <- Keys, Was <- [maps:get(Key, Expected, absent)],
        [_ | _] = Changed <- [[{Node, Is}
                               || {Node, List} <- Shown, Is <- [maps:get(Key, List, absent)],
                                  Is =/= Was, not is_map_key({Key, Is}, Late)]]].

now_ms() -> erlang:monotonic_time(millisecond).

say(Format, Values) -> io:format(standard_error, "consistency: " ++ Format ++ "~n", Values).
