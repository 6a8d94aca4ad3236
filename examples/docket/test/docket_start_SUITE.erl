%% Tests how nodes of docket start: with a database that another node must complete, with others
%% that are missing or do not answer, and with another list of nodes.
-module(docket_start_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([hung_start/1, killed_start/1, ended_start/1, ended_when_noted/1, pause/1, old_copy/1,
         empty_log/1, forced/1, other_list/1, mistaken_list/1, waits_for_others/1,
         first_killed/1, first_lost/1, other_log/1, forced_beside/1,
         forced_over/1]).
%% Functions that other nodes run
-export([leave_questions/0, answer_questions/1, kill_in_start/0, end_in_start/1,
         end_when_noted/1]).

-import(docket_nodes, [started/2, start/3, dir/2, stopped/1, kill/1, on/4, create/1, new_case/1,
                       new_case_again/1, show/2, until/1, until/3, lines/1]).

all() ->
    [hung_start, killed_start, ended_start, ended_when_noted, pause, old_copy, empty_log, forced,
     other_list, mistaken_list, waits_for_others, first_killed, first_lost, other_log,
     forced_beside, forced_over].

init_per_testcase(Case, Config) -> docket_nodes:prepared(Case, "abcd", Config).

end_per_testcase(_, _) -> ok.

names(Count) -> lists:sublist(docket_nodes:names(), Count).

%% A node starts, and another one never answers the question of Mnesia that begins each connection.
%% The node gives this start up, without harm to the others, and starts again with more time. After
%% a start that succeeds, the next one has the time of the setting again.
hung_start(Config) ->
    [A, B, C] = started(names(3), Config),
    Id = new_case(C),
    ok = kill(C),
    Monitor = on(B, ?MODULE, leave_questions, []),
    C1 = start(lists:last(names(3)), names(3), [{start_timeout, 1000} | Config]),
    ok = until(fun() -> on(B, persistent_term, get, [?MODULE]) >= 2 end),
    ok = on(B, ?MODULE, answer_questions, [Monitor]),
    ok = until(C1, ready, true),
    [{ok, _} = show(Each, Peer) || Each <- [Id, new_case_again(A)], Peer <- [A, B, C1]],
    [1 | _] = Before = given_up(C1),
    Monitor = on(B, ?MODULE, leave_questions, []),
    stopped = on(C1, mnesia, stop, []),
    ok = until(fun() -> given_up(C1) =/= Before end),
    ?assertMatch([1 | _], lists:nthtail(length(Before), given_up(C1))),
    ok = on(B, ?MODULE, answer_questions, [Monitor]),
    ok = until(C1, ready, true),
    stopped([A, B, C1]).

%% The limits, in seconds, of the starts that a node has given up, as its lines say them
given_up(Peer) ->
    [list_to_integer(Seconds)
     || {_, Line} <- lines(Peer),
        {match, [Seconds]} <- [re:run(Line, "because that did not end within (\\d+) s",
                                      [{capture, all_but_first, list}])]].

%% Puts a process before mnesia_monitor that counts such questions, and hands everything else on.
leave_questions() ->
    Monitor = whereis(mnesia_monitor),
    true = unregister(mnesia_monitor),
    ok = persistent_term:put(?MODULE, 0),
    true = register(mnesia_monitor, spawn(fun() -> hand_on(Monitor) end)),
    Monitor.

hand_on(Monitor) ->
    receive
        {'$gen_call', _, Question} when element(1, Question) =:= negotiate_protocol ->
            ok = persistent_term:put(?MODULE, persistent_term:get(?MODULE) + 1);
        Other -> Monitor ! Other
    end,
    hand_on(Monitor).

answer_questions(Monitor) ->
    true = unregister(mnesia_monitor),
    true = register(mnesia_monitor, Monitor),
    ok.

%% A start of Mnesia is given up before OTP has begun it. Nothing is left of it afterwards.
killed_start(Config) ->
    [Peer] = started(names(1), Config),
    ok = on(Peer, supervisor, terminate_child, [docket_sup, store]),
    ?assertEqual([], on(Peer, ?MODULE, kill_in_start, [])),
    ok = on(Peer, mnesia, start, []),
    %% A Mnesia that runs is killed too.
    ok = on(Peer, docket_mnesia_decisions, kill, []),
    ok = on(Peer, mnesia, start, []),
    stopped([Peer]).

%% OTP has the request for a start when the process that made it is killed. Returns what is left.
kill_in_start() ->
    Controller = whereis(application_controller),
    true = erlang:suspend_process(Controller),
    Asking = spawn(application_controller, start_application, [mnesia, temporary]),
    ok = until(fun() ->
                       {messages, Waiting} = process_info(Controller, messages),
                       [] =/= [x || {'$gen_call', {Pid, _}, _} <- Waiting, Pid =:= Asking]
               end),
    true = exit(Asking, kill),
    {Killer, Killed} = spawn_monitor(docket_mnesia_decisions, kill, []),
    true = erlang:resume_process(Controller),
    receive {'DOWN', Killed, process, Killer, Reason} -> normal = Reason end,
    %% OTP has done all that it was asked for when it answers this.
    Applications = application:info(),
    [Key || Key <- [starting, running],
            lists:keymember(mnesia, 1, proplists:get_value(Key, Applications))]
        ++ [Name || Name <- [mnesia_sup, mnesia_event], whereis(Name) =/= undefined].

%% Mnesia ends while a node starts with it. It ends the process that asks it, for its tables or for
%% its settings. The node says so, and starts again.
ended_start(Config) ->
    [Peer] = started(names(1), Config),
    Id = new_case(Peer),
    [begin
         Before = length(lines(Peer)),
         ok = on(Peer, ?MODULE, end_in_start, [Asked]),
         ?assertEqual({Asked, ["docket: this node starts its database again, because Mnesia "
                               "ended\n"]},
                      {Asked, [Line || {_, Line} <- lists:nthtail(Before, lines(Peer)),
                                       Line =/= "docket: the tables are loaded\n"]}),
         ok = until(Peer, ready, true),
         {ok, _} = show(Id, Peer)
     end || Asked <- [mnesia_controller, mnesia_recover]],
    stopped([Peer]).

%% Restarts the store, which finds a Mnesia that runs. Mnesia stops when the store asks one of its
%% processes, which does not answer.
end_in_start(Name) ->
    ok = supervisor:terminate_child(docket_sup, store),
    ok = mnesia:start(),
    ok = mnesia:wait_for_tables(docket_mnesia_tables:names(), infinity),
    Asked = whereis(Name),
    ok = sys:suspend(Asked),
    _ = spawn_link(fun() ->
                           ok = until(fun() ->
                                              process_info(Asked, messages) =/= {messages, []}
                                      end),
                           stopped = mnesia:stop()
                   end),
    {ok, _} = supervisor:restart_child(docket_sup, store),
    ok.

%% A node ends just when it has noted that Mnesia has started. Its log is no damaged one.
ended_when_noted(Config) ->
    [Name] = names(1),
    [Peer] = started([Name], Config),
    Id = new_case(Peer),
    true = unlink(Peer),
    Monitor = monitor(process, Peer),
    _ = on(Peer, erlang, spawn, [?MODULE, end_when_noted, [dir(Name, Config)]]),
    receive {'DOWN', Monitor, process, Peer, _} -> ok end,
    [Again] = started([Name], Config),
    {ok, _} = show(Id, Again),
    stopped([Again]).

end_when_noted(Dir) ->
    ok = supervisor:terminate_child(docket_sup, store),
    ok = docket_mnesia_files:note_starting(Dir),
    _ = spawn_opt(fun() ->
                          ok = until(fun() -> docket_mnesia_files:is_started(Dir) end),
                          [] = os:cmd("kill -KILL " ++ os:getpid())
                  end, [{priority, high}]),
    supervisor:restart_child(docket_sup, store).

%% A node that is alone waits for the time of the setting `retry' between two attempts to start.
pause(Config) ->
    [Name] = names(1),
    [Peer] = started([Name], [{retry, 1000} | Config]),
    ok = on(Peer, supervisor, terminate_child, [docket_sup, store]),
    ok = docket_mnesia_files:note_starting(dir(Name, Config)),
    ok = file:write_file(filename:join(dir(Name, Config), "LATEST.LOG"), <<>>),
    {ok, _} = on(Peer, supervisor, restart_child, [docket_sup, store]),
    Started = on(Peer, erlang, monotonic_time, [millisecond]),
    [Said] = [Time || {Time, Line} <- lines(Peer),
                      re:run(Line, "this node starts again without the log") =/= nomatch],
    ?assert(Started - Said >= 1000),
    stopped([Peer]).

%% The first node was down while the others went on, and all nodes were killed then. The first one
%% must not load its old rows, also when it meets only one of the others.
old_copy(Config) ->
    [A, B, C] = started(names(3), Config),
    Before = new_case(A),
    [First, Second, Third] = names(3),
    ok = kill(A),
    ok = until(B, ready, true),
    Meanwhile = [new_case_again(Peer) || Peer <- [B, C]],
    [ok = kill(Peer) || Peer <- [C, B]],
    A1 = start(First, names(3), Config),
    {wait, _} = on(A1, docket_mnesia_schema, attempt, [60000]),
    C1 = start(Third, names(3), Config),
    [ok = until(Peer, ready, true) || Peer <- [A1, C1]],
    [?assertMatch({ok, _}, show(Id, Peer)) || Id <- [Before | Meanwhile], Peer <- [A1, C1]],
    B1 = start(Second, names(3), Config),
    ok = until(B1, ready, true),
    [?assertMatch({ok, _}, show(Id, B1)) || Id <- [Before, new_case_again(A1) | Meanwhile]],
    stopped([A1, B1, C1]).

%% A node was killed just when Mnesia made a new log.
empty_log(Config) ->
    [A, B] = started(names(2), Config),
    Id = new_case(A),
    ok = kill(B),
    Second = lists:last(names(2)),
    ok = file:write_file(filename:join(dir(Second, Config), "LATEST.LOG"), <<>>),
    B1 = start(Second, names(2), Config),
    [ok = until(Peer, ready, true) || Peer <- [A, B1]],
    [{ok, _} = show(Each, Peer) || Each <- [Id, new_case_again(B1)], Peer <- [A, B1]],
    stopped([A, B1]).

%% Two of three have lost their cases. They wait, until the third one is told to go on.
forced(Config) ->
    [A, B, C] = started(names(3), Config),
    Id = new_case(A),
    [ok = kill(Peer) || Peer <- [A, B, C]],
    [First, Second, Third] = names(3),
    [ok = file:del_dir_r(dir(Name, Config)) || Name <- [First, Third]],
    [A1, B1, C1] = Waiting = [start(Name, names(3), Config) || Name <- [First, Second, Third]],
    [{wait, _} = on(Peer, docket_mnesia_schema, attempt, [60000]) || Peer <- Waiting],
    ok = kill(B1),
    B2 = start(Second, names(3), [{force, true} | Config]),
    [ok = until(Peer, ready, true) || Peer <- [A1, B2, C1]],
    [{ok, _} = show(Each, Peer) || Each <- [Id, new_case_again(C1)], Peer <- [A1, B2, C1]],
    stopped([A1, B2, C1]).

%% A service goes on without one of its nodes, and later with another one.
other_list(Config) ->
    [A, B, C] = started(names(3), Config),
    Id = new_case(A),
    [First, Second, _, Fourth] = names(4),
    Fewer = [First, Second],
    ok = kill(C),
    Forced = [begin
                  ok = kill(Peer),
                  start(Name, Fewer, [{force, true} | Config])
              end || {Name, Peer} <- [{First, A}, {Second, B}]],
    [ok = until(Peer, ready, true) || Peer <- Forced],
    [{ok, _} = show(Each, Peer) || Each <- [Id, new_case_again(hd(Forced))], Peer <- Forced],
    More = Fewer ++ [Fourth],
    [ok = kill(Peer) || Peer <- Forced],
    Again = started(More, Config),
    [{ok, _} = show(Each, Peer) || Each <- [Id, new_case_again(lists:last(Again))],
                                   Peer <- Again],
    stopped(Again).

%% A list with a wrong name is not noted, so the right one is accepted later.
mistaken_list(Config) ->
    [First, Second, Third] = names(3),
    Peers = [start(Name, [First, Second, mistaken@host], Config) || Name <- [First, Second]],
    [{wait, _} = on(Peer, docket_mnesia_schema, attempt, [60000]) || Peer <- Peers],
    [ok = kill(Peer) || Peer <- Peers],
    Again = started([First, Second, Third], Config),
    stopped(Again).

%% The first node makes no empty database while others are missing.
waits_for_others(Config) ->
    [First, Second] = names(2),
    A = start(First, [First, Second], Config),
    ?assertMatch({wait, _}, on(A, docket_mnesia_schema, attempt, [60000])),
    ?assertEqual({error, minority}, create(A)),
    B = start(Second, [First, Second], Config),
    [ok = until(Peer, ready, true) || Peer <- [A, B]],
    stopped([A, B]).

%% The first node has made the database, and was killed before another node joined.
first_killed(Config) ->
    [First, _] = Names = names(2),
    [A] = started([First], Config),
    {1, [First]} = on(A, docket_generation, current, []),
    ok = kill(A),
    Again = started(Names, Config),
    Id = new_case_again(hd(Again)),
    [{ok, _} = show(Id, Peer) || Peer <- Again],
    stopped(Again).

%% Only the first node had cases, and it has lost them. It waits for nobody.
first_lost(Config) ->
    [First, Second] = Names = names(2),
    File = filename:join(dir(First, Config), "docket.generation"),
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, io_lib:format("~0p.~n", [{{2, Names}, {1, [First]}}])),
    Peers = [A, _] = [start(Name, Names, Config) || Name <- [First, Second]],
    ok = until(fun() -> [] =/= [x || {_, Line} <- lines(A),
                                     string:find(Line, "no other node has any") =/= nomatch]
               end),
    stopped(Peers).

%% Another program of the node has a log in the directory. docket does not wait for its end.
other_log(Config) ->
    [Name] = names(1),
    [Peer] = started([Name], Config),
    File = filename:join(dir(Name, Config), "some.log"),
    ok = on(Peer, logger, add_handler, [some, logger_disk_log_h, #{config => #{file => File}}]),
    ok = on(Peer, docket_mnesia_decisions, stop, []),
    ok = until(Peer, ready, true),
    stopped([Peer]).

%% A node with old rows is forced to start while the others run, and have later ones. It takes
%% those: the setting is for the case that no other node has them.
forced_beside(Config) ->
    [A, B, C] = started(names(3), Config),
    ok = kill(B),
    ok = until(A, ready, true),
    Later = [new_case_again(A) || _ <- lists:seq(1, 5)],
    %% Its first attempt to start must wait.
    ok = on(C, sys, suspend, [mnesia_tm]),
    B1 = start(lists:nth(2, names(3)), names(3), [{force, true} | Config]),
    Saying = fun(Text) -> [Line || {_, Line} <- lines(B1), string:find(Line, Text) =/= nomatch] end,
    ok = until(fun() -> Saying("can dump the log") =/= [] end),
    ok = on(C, sys, resume, [mnesia_tm]),
    ok = until(B1, ready, true),
    [?assertMatch({Id, {ok, _}}, {Id, show(Id, Peer)}) || Id <- Later, Peer <- [A, B1, C]],
    ?assertMatch([_], Saying("DOCKET_FORCE only lets it start with another list")),
    stopped([A, B1, C]).

%% A node with old cases is forced to begin. The others say that they lose their later cases.
forced_over(Config) ->
    [A, B, C] = started(names(3), Config),
    Before = new_case(A),
    ok = kill(A),
    ok = until(B, ready, true),
    Later = new_case_again(B),
    [ok = kill(Peer) || Peer <- [B, C]],
    [First | Others] = names(3),
    Peers = [start(First, names(3), [{force, true} | Config])
             | [start(Name, names(3), Config) || Name <- Others]],
    [ok = until(Peer, ready, true) || Peer <- Peers],
    [begin
         {ok, _} = show(Before, Peer),
         {error, not_found} = show(Later, Peer)
     end || Peer <- Peers],
    ?assertEqual([0, 1, 1],
                 [length([x || {_, Line} <- lines(Peer),
                               string:find(Line, "only this node had are lost") =/= nomatch])
                  || Peer <- Peers]),
    stopped(Peers).
