%% Tests what nodes do that have lost a part of their files while they were down.
-module(docket_damage_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([one_of_three/1, of_another/1, half_joined/1, left_behind/1, two_of_three/1,
         lost_log/1, all_of_three/1, other_end/1, no_failure/1, gone/1, back/1]).

-import(docket_nodes, [started/2, start/3, dir/2, stopped/1, kill/1, kill_all/1, on/4, new_case/1,
                       new_case_again/1, show/2, is_ready/1, until/1, until/3, lines/1]).

-define(WAITS_FOR_OTHERS, "does not load its cases, and waits for those of another node: ").

all() ->
    [one_of_three, of_another, half_joined, left_behind, two_of_three, lost_log, all_of_three,
     other_end, no_failure, gone, back].

init_per_testcase(Case, Config) -> docket_nodes:prepared(Case, "abc", Config).

end_per_testcase(_, _) -> ok.

%% The first node would load its rows before the others, but its file has been damaged. It takes the
%% cases of the others.
one_of_three(Config) ->
    [First | _] = Names = docket_nodes:names(),
    {Peers, Cases} = with_cases(Names, Config),
    ok = kill_all(Peers),
    ok = damage(First, Config),
    [A, B, C] = Again = started(Names, Config),
    [?assertMatch({Each, {ok, _}}, {Each, show(Each, Peer)})
     || Each <- [new_case_again(A) | Cases], Peer <- Again],
    ?assertMatch([_ | _], saying(?WAITS_FOR_OTHERS, A)),
    ?assertEqual([], [Line || Peer <- [B, C], Line <- saying(?WAITS_FOR_OTHERS, Peer)]),
    stopped(Again).

%% The others run when a node with damaged files starts. It takes their cases, whichever of its
%% files is damaged.
of_another(Config) ->
    [First | _] = Names = docket_nodes:names(),
    {[A | Others], Cases} = with_cases(Names, Config),
    Last = lists:foldl(
             fun(File, Peer) ->
                     ok = kill(Peer),
                     ok = damage(First, File, Config),
                     Again = start(First, Names, Config),
                     ok = until(Again, ready, true),
                     [?assertMatch({File, {ok, _}}, {File, show(Each, Again)}) || Each <- Cases],
                     Again
             end, A, ["docket_case.DCD", "LATEST.LOG", "schema.DAT", "DECISION_TAB.LOG"]),
    Id = new_case_again(Last),
    [{ok, _} = show(Id, Peer) || Peer <- [Last | Others]],
    stopped([Last | Others]).

%% A node ended while it joined. The schema that it has does not fit to those of the others, so
%% Mnesia cannot load from them. The node joins with a new one.
half_joined(Config) ->
    [First | _] = Names = docket_nodes:names(),
    {[A | Others], Cases} = with_cases(Names, Config),
    ok = kill(A),
    Dir = dir(First, Config),
    ok = file:del_dir_r(Dir),
    ok = filelib:ensure_path(Dir),
    {ok, _} = file:copy(other_schema(First, Config), filename:join(Dir, "schema.DAT")),
    %% The node has left its generation.
    ok = file:write_file(filename:join(Dir, "docket.generation"),
                         io_lib:format("~0p.~n", [{{2, []}, {2, Names}}])),
    Again = start(First, Names, Config),
    ok = until(Again, ready, true),
    ?assertEqual([], saying("is damaged", Again)),
    %% A member reads no file to tell that it has not.
    Check = {docket_mnesia_files, check, 1},
    1 = on(Again, erlang, trace_pattern, [Check, true, [call_count]]),
    false = on(Again, docket_mnesia_damage, has_half_joined, []),
    {call_count, 0} = on(Again, erlang, trace_info, [Check, call_count]),
    [?assertMatch({ok, _}, show(Each, Again)) || Each <- [new_case_again(Again) | Cases]],
    stopped([Again | Others]).

%% A node with damaged files meets one that was left behind. It does not take the rows of that one,
%% which lack a case, and waits for a member.
left_behind(Config) ->
    [First, _, Third] = Names = docket_nodes:names(),
    {[A, B, C], Cases} = with_cases(Names, Config),
    ok = docket_nodes:parted([B], [A, C]),
    ok = until(B, ready, false),
    Later = new_case_again(A),
    ok = kill_all([A, C]),
    ok = damage(First, Config),
    [true = on(B, erlang, set_cookie, [Name, docket]) || Name <- [First, Third]],
    A1 = start(First, Names, Config),
    ok = until(fun() -> saying("waits for the cases of", A1) =/= [] end),
    ?assert(filelib:is_regular(file(First, Config))),
    C1 = start(Third, Names, Config),
    [ok = until(Peer, ready, true) || Peer <- [A1, B, C1]],
    [?assertMatch({Each, {ok, _}}, {Each, show(Each, Peer)})
     || Each <- [Later | Cases], Peer <- [A1, B, C1]],
    stopped([A1, B, C1]).

%% Two of three have damaged files. The third one has all cases, and gives them to the others.
two_of_three(Config) ->
    [First, Second, _] = Names = docket_nodes:names(),
    {Peers, Cases} = with_cases(Names, Config),
    ok = kill_all(Peers),
    ok = damage(First, Config),
    ok = damage(Second, "LATEST.LOG", Config),
    Again = started(Names, Config),
    [?assertMatch({Each, {ok, _}}, {Each, show(Each, Peer)}) || Each <- Cases, Peer <- Again],
    stopped(Again).

%% The log of the first node is gone. It does not give what is left to the others.
lost_log(Config) ->
    [First | _] = Names = docket_nodes:names(),
    {Peers, Cases} = with_cases(Names, Config),
    ok = kill_all(Peers),
    ok = file:delete(filename:join(dir(First, Config), "LATEST.LOG")),
    Again = started(Names, Config),
    [?assertMatch({Each, {ok, _}}, {Each, show(Each, Peer)}) || Each <- Cases, Peer <- Again],
    stopped(Again).

%% All files are damaged, and one generation. The nodes wait until one is told to go on with what is
%% left.
all_of_three(Config) ->
    [_, Second, Third] = Names = docket_nodes:names(),
    {Peers, _} = with_cases(Names, Config),
    ok = kill_all(Peers),
    [ok = damage(Name, Config) || Name <- Names],
    ok = file:write_file(filename:join(dir(Third, Config), "docket.generation"), <<"x">>),
    [A, B, C] = [start(Name, Names, Config) || Name <- Names],
    [ok = until(fun() -> saying("DOCKET_FORCE", Peer) =/= [] end) || Peer <- [A, B, C]],
    ?assertMatch([_ | _], saying("docket.generation is damaged", C)),
    ?assertEqual([false, false, false], [docket_nodes:is_ready(Peer) || Peer <- [A, B, C]]),
    ok = kill(B),
    B1 = start(Second, Names, [{force, true} | Config]),
    [ok = until(Peer, ready, true) || Peer <- [A, B1, C]],
    ?assertMatch([_ | _], saying("goes on with what is left", B1)),
    Id = new_case_again(A),
    [{ok, _} = show(Id, Peer) || Peer <- [A, B1, C]],
    stopped([A, B1, C]).

%% The log has a damage, and Mnesia ends, but not because a write failed. docket removes nothing:
%% changes behind the damage may be acknowledged.
other_end(Config) ->
    [First | _] = docket_nodes:names(),
    [Peer] = started([First], Config),
    _ = new_case(Peer),
    Log = filename:join(dir(First, Config), "LATEST.LOG"),
    Entry = term_to_binary({trans_tid, serial, 1}),
    ok = file:write_file(Log, [<<0:80>>, <<(byte_size(Entry)):32, 98, 87, 76, 65>>, Entry],
                         [append]),
    {ok, Before} = file:read_file(Log),
    _ = on(Peer, erlang, send, [docket_mnesia_member,
                                {mnesia_system_event, {mnesia_fatal, "some reason", [], <<>>}}]),
    ok = until(fun() ->
                       saying("LATEST.LOG is damaged", Peer) =/= []
                           orelse length(saying("the tables are loaded", Peer)) > 1
               end),
    {ok, <<Magic:4/binary, _:4/binary, Rest/binary>>} = file:read_file(Log),
    ?assertEqual(binary:part(Before, 8, byte_size(Before) - 8), Rest),
    ?assertEqual(<<1, 2, 3, 4>>, Magic),
    stopped([Peer]).

%% Another node asks this one for a flush while Mnesia does not run here. The node does not call its
%% disk full, and stays in its generation.
no_failure(Config) ->
    [First, Second | _] = docket_nodes:names(),
    [Peer, Other] = started([First, Second], Config),
    Generation = on(Peer, docket_generation, current, []),
    ok = on(Peer, sys, suspend, [docket_mnesia_member]),
    stopped = on(Peer, mnesia, stop, []),
    {error, disk} = on(Peer, docket_mnesia_replica, flushed, [Generation]),
    {error, disk} = on(Peer, docket_mnesia_replica, flushed, [Generation]),
    %% A node that leaves its generation writes that at once.
    Leave = {docket_generation, leave, 0},
    1 = on(Peer, erlang, trace_pattern, [Leave, true, [call_count]]),
    ok = on(Peer, sys, resume, [docket_mnesia_member]),
    ok = until(Peer, ready, true),
    ?assertEqual({call_count, 0}, on(Peer, erlang, trace_info, [Leave, call_count])),
    ?assertEqual([], saying("no space left", Peer)),
    stopped([Peer, Other]).

%% The directory of a node that is alone goes away while it runs. The node says so, and keeps others
%% from the new directory.
gone(Config) ->
    [First | _] = docket_nodes:names(),
    [Peer] = started([First], Config),
    Dir = dir(First, Config),
    Before = on(Peer, erlang, whereis, [mnesia_sup]),
    ok = file:rename(Dir, Dir ++ ".gone"),
    ?assertNotMatch({ok, _}, docket_nodes:create(Peer)),
    ok = until(fun() -> on(Peer, erlang, whereis, [mnesia_sup]) =/= Before end),
    ok = until(Peer, ready, true),
    ?assertMatch([_ | _], saying(Dir ++ " was removed or unmounted", Peer)),
    ?assertEqual({error, {in_use, Dir}}, docket_directory:lock(Dir)),
    {ok, _} = docket_directory:read(filename:join(Dir, "docket.node")),
    _ = new_case(Peer),
    stopped([Peer]).

%% The directory comes back: it was unmounted for a while. docket still has it locked.
back(Config) ->
    [First | _] = docket_nodes:names(),
    %% Time to give another directory its path
    [Peer] = started([First], [{retry, 1000} | Config]),
    Id = new_case(Peer),
    Dir = dir(First, Config),
    ok = away(Dir, Dir ++ ".gone", Peer),
    ok = until(Peer, ready, true),
    ok = away(Dir, Dir ++ ".other", Peer),
    ok = file:rename(Dir ++ ".gone", Dir),
    ok = until(fun() -> is_ready(Peer) orelse saying("another process uses", Peer) =/= [] end),
    ?assertMatch({ok, _}, show(Id, Peer)),
    stopped([Peer]).

away(Dir, Other, Peer) ->
    Before = length(saying("was removed or unmounted", Peer)),
    ok = file:rename(Dir, Other),
    ?assertNotMatch({ok, _}, docket_nodes:create(Peer)),
    until(fun() -> length(saying("was removed or unmounted", Peer)) > Before end).

with_cases(Names, Config) ->
    [A | _] = Peers = started(Names, Config),
    Cases = [new_case(A) || _ <- lists:seq(1, 20)],
    [dumped = on(Peer, mnesia_controller, snapshot_dcd, [[docket_case]]) || Peer <- Peers],
    {Peers, [new_case(A) | Cases]}.

%% Makes a database in which this node is alone.
other_schema(Name, Config) ->
    Other = [{dir, filename:join(dir(Name, Config), "other")}],
    [Peer] = started([Name], Other),
    ok = kill(Peer),
    filename:join(dir(Name, Other), "schema.DAT").

damage(Name, Config) -> damage(Name, "docket_case.DCD", Config).

file(Name, Config) -> filename:join(dir(Name, Config), "docket_case.DCD").

damage(Name, Base, Config) ->
    File = filename:join(dir(Name, Config), Base),
    {ok, Bytes} = file:read_file(File),
    file:write_file(File, docket_mnesia_log_SUITE:with_other_byte(0, Bytes)).

saying(Text, Peer) -> [Line || {_, Line} <- lines(Peer), string:find(Line, Text) =/= nomatch].
