%% Tests the store `ra': one node, and three nodes that crash, part, and come together again.
-module(docket_ra_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([http/1, no_directory/1, other_version/1, reasons/1, kept/1, noted_vote/1, together/1,
         leader_killed/1, all_killed/1, alone/1, replaced/1, replaced_of_two/1, damaged_files/1,
         damaged_segment/1, damaged_snapshot/1, damaged_member/1, damaged_writer/1, no_leader/1,
         removed/1, removed_of_three/1, other_store/1, long_log/1, upgraded/1, snapshot/1]).
%% Nodes call them.
-export([new_cases/2, written/2, taken/3]).

-import(docket_nodes, [started/2, start/3, dir/2, stopped/1, kill/1, kill_all/1, parted/2, joined/2,
                       on/4, is_ready/1, create/1, new_case/1, new_case_again/1, show/2, until/1,
                       until/3]).

-define(SECRET, "secret").
%% A log of Ra without a record
-define(NO_RECORDS, <<"RAWA", 1>>).
%% The name of a member is in its first record, behind a head of 5 bytes, 3 bytes for the number of
%% the member, and 2 for the size of the name.
-define(NAME_AT, 10).

all() ->
    case code:lib_dir(ra) of
        {error, _} ->
            io:format("docket_ra_SUITE: skipped, no Ra; examples/docket/fetch-ra gets it~n"),
            [];
        _ ->
            [http, no_directory, other_version, reasons, kept, noted_vote, together, leader_killed,
             all_killed, alone, replaced, replaced_of_two, damaged_files, damaged_segment,
             damaged_snapshot, damaged_member, damaged_writer, no_leader, removed, removed_of_three,
             other_store, long_log, upgraded, snapshot]
    end.

init_per_testcase(Case, Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "ra_" ++ atom_to_list(Case)),
    _ = file:del_dir_r(Dir),
    put(nodes, docket_nodes:names("abc")),
    _ = application:load(docket),
    [application:set_env(docket, Key, Value)
     || {Key, Value} <- [{secret, ?SECRET}, {port, 0}, {store, ra}, {dir, Dir}]],
    [{store, ra}, {dir, Dir} | Config].

end_per_testcase(_, _) ->
    _ = application:stop(docket),
    ok = application:unload(docket).

names(Count) -> lists:sublist(get(nodes), Count).

%% The API and the pages do not depend on the store.
http(Config) ->
    {ok, _} = application:ensure_all_started(docket),
    [docket_SUITE:Case(Config)
     || Case <- [life, two_editors, closed, documents, other_users]],
    [docket_pages_SUITE:Case(Config) || Case <- [pages, forms, refused_forms]],
    ok = application:stop(docket).

no_directory(_) ->
    application:set_env(docket, dir, none),
    {error, {docket, {{store, {no_directory, _} = Error}, _}}} =
        application:ensure_all_started(docket),
    {match, _} = re:run(docket_store_ra:format_error(Error), "DOCKET_DIR").

%% The check of the files knows one version of Ra. It would call those of another one damaged.
other_version(_) ->
    _ = application:unload(ra),
    ok = application:load({application, ra, [{vsn, "2.17.1"}]}),
    {error, {docket, {{store, Error}, _}}} = application:ensure_all_started(docket),
    ok = application:unload(ra),
    ?assertEqual({other_ra, "2.17.1"}, Error),
    {match, _} = re:run(docket_store_ra:format_error(Error), "contains Ra 2.17.1.*Ra 2.2.0 only").

%% The line of a node that does not start has the reason.
reasons(Config) ->
    Dir = proplists:get_value(dir, Config),
    ok = filelib:ensure_path(Dir),
    ok = file:write_file(filename:join(Dir, "ra"), <<>>),
    ?assertMatch({match, _}, re:run(refusal(), "Ra does not.*\\(.*names.dets.*enotdir.*\\)")),
    ok = file:delete(filename:join(Dir, "ra")),
    %% The list of nodes is another one, and cannot be written.
    ok = file:write_file(filename:join(Dir, "docket.node"),
                         io_lib:format("~0p.~n", [{node(), [node(), other@host]}])),
    ok = file:make_dir(filename:join(Dir, "docket.node.new")),
    application:set_env(docket, force, true),
    ?assertMatch({match, _}, re:run(refusal(), "directory .* cannot be written .illegal")).

kept(_) ->
    {ok, _} = application:ensure_all_started(docket),
    Key = {<<"ann">>, docket_store:new_id(0)},
    {ok, Case} = docket:run({create, Key, #{title => <<"x">>, parties => []}, 1}),
    ok = application:stop(docket),
    {ok, _} = application:ensure_all_started(docket),
    ?assertEqual({ok, Case}, docket:run({show, Key})),
    ?assertEqual({ok, {[Case], none}}, docket:run({list, <<"ann">>, last, 10, #{}})),
    %% The member starts again when it has ended, and also the whole of Ra.
    [begin
         true = exit(whereis(Name), kill),
         ok = until(fun() -> whereis(Name) =/= undefined end),
         ok = until(fun() -> {ok, Case} =:= docket:run({show, Key}) end)
     end
     || Name <- [docket_ra, ra_docket_log_wal, ra_sup]],
    ok = application:stop(docket).

%% A member that has voted must not forget it, also while it waits for the others.
noted_vote(Config) ->
    [First | _] = Names = names(2),
    [A, B] = started(Names, Config),
    ok = kill_all([A, B]),
    Note = filename:join(dir(First, Config), "docket.member"),
    {ok, [{Uid, true, Least}]} = file:consult(Note),
    ok = file:write_file(Note, io_lib:format("~0p.~n", [{Uid, false, Least}])),
    A1 = start(First, Names, Config),
    ok = until(fun() -> {ok, [{Uid, true, Least}]} =:= file:consult(Note) end),
    false = is_ready(A1),
    stopped([A1]).

%% All nodes have the cases that one of them has written.
together(Config) ->
    Peers = started(names(3), Config),
    Ids = [new_case(Peer) || Peer <- Peers],
    [{ok, _} = show(Id, Peer) || Id <- Ids, Peer <- Peers],
    [ok = until(fun() -> lists:sort(Ids) =:= listed(Peer) end) || Peer <- Peers],
    stopped(Peers).

%% The leader is killed while all nodes write. The others go on, with each acknowledged case.
%% Then one of two is killed: what is left refuses.
leader_killed(Config) ->
    Peers = started(names(3), Config),
    Writers = [start_writer(Peer) || Peer <- Peers],
    Early = acknowledged(100),
    {Leader, Lost} = leading(Peers),
    ok = kill(Lost),
    [A, B] = Peers -- [Lost],
    Late = acknowledged(100),
    [true = exit(Writer, kill) || Writer <- Writers],
    Ids = Early ++ Late ++ acknowledged(0),
    C = start(Leader, names(3), Config),
    ok = until(fun() -> is_ready(C) end),
    [?assertMatch({_, {ok, _}}, {Id, show(Id, Peer)}) || Id <- Ids, Peer <- [A, B, C]],
    [ok = until(fun() -> Ids -- listed(Peer) =:= [] end) || Peer <- [A, B, C]],
    ok = kill(C),
    ok = kill(B),
    ok = until(fun() -> not is_ready(A) end),
    ?assertEqual({error, minority}, create(A)),
    ?assertEqual({error, minority}, show(hd(Ids), A)),
    ?assertEqual([], Ids -- listed(A)),
    stopped([A]).

%% All cases that were acknowledged are there after all nodes were killed at once.
all_killed(Config) ->
    Peers = started(names(3), Config),
    Writers = [start_writer(Peer) || Peer <- Peers],
    Early = acknowledged(300),
    ok = kill_all(Peers),
    [true = exit(Writer, kill) || Writer <- Writers],
    Again = started(names(3), Config),
    [?assertMatch({_, {ok, _}}, {Id, show(Id, Peer)})
     || Id <- Early ++ acknowledged(0), Peer <- Again],
    stopped(Again).

%% One of three is cut off. It refuses, and has the changes of the others when it is back.
alone(Config) ->
    [A, B, C] = Peers = started(names(3), Config),
    Before = new_case(C),
    ok = parted([A, B], [C]),
    ok = until(fun() -> not is_ready(C) end),
    ?assertEqual({error, minority}, create(C)),
    ok = until(fun() -> is_ready(A) andalso is_ready(B) end),
    Meanwhile = new_case_again(A),
    ok = joined([A, B], [C]),
    ok = until(fun() -> is_ready(C) end),
    [{ok, _} = show(Id, Peer) || Id <- [Before, Meanwhile, new_case_again(C)], Peer <- Peers],
    stopped(Peers).

%% A node that lost its disk becomes a new member, and gets everything from the others.
replaced(Config) ->
    [A, B, C] = started(names(3), Config),
    Id = new_case(C),
    ok = kill(A),
    [First | _] = names(3),
    ok = file:del_dir_r(dir(First, Config)),
    A1 = start(First, names(3), Config),
    ok = until(fun() -> is_ready(A1) end),
    [{ok, _} = show(Each, Peer) || Each <- [Id, new_case_again(A1)], Peer <- [A1, B, C]],
    %% It counts for a majority.
    ok = kill(B),
    ok = until(fun() -> is_ready(A1) andalso is_ready(C) end),
    {ok, _} = show(new_case_again(A1), C),
    stopped([A1, C]).

replaced_of_two(Config) ->
    [A, B] = started(names(2), Config),
    Id = new_case(A),
    ok = kill(B),
    Second = lists:last(names(2)),
    ok = file:del_dir_r(dir(Second, Config)),
    B1 = start(Second, names(2), Config),
    ok = until(fun() -> is_ready(A) andalso is_ready(B1) end),
    [{ok, _} = show(Each, Peer) || Each <- [Id, new_case(B1)], Peer <- [A, B1]],
    stopped([A, B1]).

%% A service of one node does not start when a file of Ra is missing or damaged, and changes no
%% file: with the former file it has its cases again.
damaged_files(Config0) ->
    %% Ra writes such a name in Latin-1.
    Dir = filename:join(proplists:get_value(dir, Config0), [16#E4]),
    Config = [{dir, Dir} | Config0],
    application:set_env(docket, dir, Dir),
    {ok, _} = application:ensure_all_started(docket),
    Keys = [new_case() || _ <- lists:seq(1, 20)],
    ok = application:stop(docket),
    [Names, Votes, Log, Settings, Note] =
        [in(Pattern, Config)
         || Pattern <- ["ra/names.dets", "ra/meta.dets", "ra/*.wal", "ra/*/config",
                        "docket.member"]],
    [begin
         {ok, Bytes} = file:read_file(File),
         ok = case Damage of
                  delete -> file:delete(File);
                  _ -> file:write_file(File, Damage(Bytes))
              end,
         Before = files(Dir),
         ?assertMatch({match, _}, re:run(refusal(), Words)),
         ?assertEqual(Before, files(Dir)),
         ok = file:write_file(File, Bytes)
     end || {File, Damage, Words} <-
                [{Names, delete, "names.dets is missing: put back a copy"},
                 {Names, fun half/1, "names.dets is damaged: put back a copy"},
                 {Votes, delete, "meta.dets is missing"},
                 {Votes, fun half/1, "meta.dets is damaged"},
                 {Votes, fun(Bytes) -> changed(Bytes, 9) end, "meta.dets is damaged"},
                 {Log, delete, "has no log"},
                 %% The last record alone may be a part of one, but a node of one has done it.
                 {Log, fun(Bytes) -> changed(Bytes, byte_size(Bytes) - 1) end, "lacks changes"},
                 {Log, fun(Bytes) -> changed(Bytes, byte_size(Bytes) div 2) end, "wal is damaged"},
                 {Log, fun(Bytes) -> shorter(Bytes, 1) end, "lacks changes"},
                 {Log, fun(Bytes) -> shorter(Bytes, 40) end, "lacks changes"},
                 %% The name of the member that has written the log
                 {Log, fun(Bytes) -> changed(Bytes, ?NAME_AT) end, "wal is damaged"},
                 {Log, fun(Bytes) -> changed(Bytes, ?NAME_AT + 7) end, "wal is damaged"},
                 %% The size of the first record
                 {Log, fun(Bytes) -> changed(Bytes, first_size(Bytes)) end, "wal is damaged"},
                 {Settings, delete, "config is missing"},
                 {Settings, fun half/1, "config is damaged"},
                 {Note, fun half/1, "docket.member is damaged"}]],
    {ok, _} = application:ensure_all_started(docket),
    [{ok, _} = docket:run({show, Key}) || Key <- Keys],
    ok = application:stop(docket),
    %% A crash within the write of a record, and a loss of power
    [begin
         {ok, Torn} = file:read_file(in("ra/*.wal", Config)),
         ok = file:write_file(in("ra/*.wal", Config), [Torn, More(Torn)]),
         {ok, _} = application:ensure_all_started(docket),
         [{ok, _} = docket:run({show, Key}) || Key <- Keys],
         ok = application:stop(docket)
     end || More <- [fun(Torn) -> binary:part(Torn, 5, 20) end, fun(_) -> <<0:8000>> end,
                     fun(Torn) -> [binary:part(Torn, 5, 20), <<0:8000>>] end]].

%% After a restart only a segment has the changes.
damaged_segment(Config) ->
    {ok, _} = application:ensure_all_started(docket),
    Keys = [new_case() || _ <- lists:seq(1, 20)],
    [begin
         ok = application:stop(docket),
         {ok, _} = application:ensure_all_started(docket),
         ok = until(fun() -> length(filelib:wildcard(in_dir("ra/*.wal", Config))) =:= 1 end)
     end || _ <- [1, 2]],
    ok = application:stop(docket),
    File = in("ra/*/00000001.segment", Config),
    Log = in("ra/*.wal", Config),
    [{ok, Bytes}, {ok, Records}] = [file:read_file(Each) || Each <- [File, Log]],
    [begin
         _ = file:delete(File),
         _ = [ok = file:write_file(File, Damaged) || Damaged =/= none],
         ok = file:write_file(Log, Left),
         ?assertMatch({Words, {match, _}}, {Words, re:run(refusal(), Words)})
     end || {Damaged, Left, Words} <-
                [{none, Records, "lacks changes"}, {none, ?NO_RECORDS, "lacks changes"},
                 {without_last(Bytes), ?NO_RECORDS, "lacks changes"},
                 {half(Bytes), Records, "segment is damaged"},
                 {changed(Bytes, byte_size(Bytes) - 1), Records, "segment is damaged"}]],
    %% A node of several may lack what it has done, but not what it had at its last start.
    application:set_env(docket, nodes, [node(), other@host]),
    ok = docket_config:load(),
    ok = file:write_file(Log, ?NO_RECORDS),
    Check = fun() -> docket_ra_files:check(proplists:get_value(dir, Config), docket_ra) end,
    ok = file:write_file(File, without_last(Bytes)),
    ?assertMatch({error, {lacks, _}}, Check()),
    ok = file:write_file(File, Bytes),
    ?assertEqual(ok, Check()),
    application:set_env(docket, nodes, []),
    ok = file:write_file(Log, Records),
    {ok, _} = application:ensure_all_started(docket),
    [{ok, _} = docket:run({show, Key}) || Key <- Keys],
    ok = application:stop(docket).

%% A segment whose index lacks the last entry
without_last(<<Head:8/binary, Index/binary>>) ->
    Used = used(Index),
    <<Before:(Used - 32)/binary, _:32/binary, After/binary>> = Index,
    <<Head/binary, Before/binary, 0:256, After/binary>>.

used(<<0:256, _/binary>>) -> 0;
used(<<_:32/binary, Index/binary>>) -> 32 + used(Index).

%% Only the snapshot has the changes before it, once Ra has removed the first part of the log.
damaged_snapshot(Config) ->
    {ok, _} = application:ensure_all_started(docket),
    Key = new_case(),
    {ok, ok, _} = ra:process_command(docket_ra_member:id(), snapshot, 5000),
    ok = until(fun() -> [] =/= filelib:wildcard(in_dir("ra/*/snapshots/*/snapshot*", Config)) end),
    %% The next start moves the log into its first part.
    ok = application:stop(docket),
    {ok, _} = application:ensure_all_started(docket),
    ok = until(fun() -> length(filelib:wildcard(in_dir("ra/*.wal", Config))) =:= 1 end),
    ok = application:stop(docket),
    _ = [ok = file:delete(Segment)
         || Segment <- filelib:wildcard(in_dir("ra/*/*.segment", Config))],
    File = in("ra/*/snapshots/*/snapshot*", Config),
    {ok, Bytes} = file:read_file(File),
    ok = file:write_file(File, changed(Bytes, byte_size(Bytes) - 1)),
    ?assertMatch({match, _}, re:run(refusal(), "snapshots/.* is damaged: put back a copy")),
    ok = file:write_file(File, Bytes),
    {ok, _} = application:ensure_all_started(docket),
    {ok, _} = docket:run({show, Key}),
    ok = application:stop(docket).

%% One of three nodes waits, and says that it must be replaced.
damaged_member(Config) ->
    [A, B, C] = started(names(3), Config),
    Id = new_case(C),
    ok = kill(A),
    [First | _] = names(3),
    ok = file:delete(filename:join(dir(First, Config), "ra/names.dets")),
    A1 = start(First, names(3), Config),
    Line = "names.dets is missing: end this node, empty its directory, and start it again",
    ok = until(fun() -> says(A1, Line) end),
    false = is_ready(A1),
    %% The other nodes may elect a leader now.
    ok = until(B, has, Id),
    stopped([A1, B, C]).

%% Ra would drop the log that has another name. The node keeps it, and waits to be replaced.
damaged_writer(Config) ->
    [A, B, C] = started(names(3), Config),
    Id = new_case(C),
    ok = kill(A),
    [First | _] = names(3),
    Log = in("ra/*.wal", [{dir, dir(First, Config)}]),
    {ok, Bytes} = file:read_file(Log),
    Damaged = changed(Bytes, ?NAME_AT + 10),
    ok = file:write_file(Log, Damaged),
    A1 = start(First, names(3), Config),
    ok = until(fun() -> says(A1, "wal is damaged: end this node, empty its directory") end),
    false = is_ready(A1),
    ?assertEqual({ok, Damaged}, file:read_file(Log)),
    {ok, _} = show(Id, B),
    stopped([A1, B, C]).

says(Peer, Text) ->
    [] =/= [x || {_, Line} <- docket_nodes:lines(Peer), re:run(Line, Text) =/= nomatch].

%% Ra runs, but its member never leads: it has done changes that its log lacks. The start ends after
%% `start_timeout'.
no_leader(Config) ->
    {ok, _} = application:ensure_all_started(docket),
    _ = new_case(),
    ok = application:stop(docket),
    %% An earlier program has made the files, and so there is no check of them.
    ok = file:delete(in("docket.member", Config)),
    Log = in("ra/*.wal", Config),
    {ok, Bytes} = file:read_file(Log),
    ok = file:write_file(Log, changed(Bytes, ?NAME_AT)),
    application:set_env(docket, start_timeout, 1000),
    ?assertMatch({match, _}, re:run(refusal(), "Ra has not loaded its files .* within 1000 ms")).

%% The directory goes away while the node runs: it acknowledges no further change, and says so. When
%% the directory is there again, the node has its cases.
removed(Config) ->
    Dir = proplists:get_value(dir, Config),
    [Name] = names(1),
    [Peer] = started([Name], Config),
    Id = new_case(Peer),
    Own = dir(Name, Config),
    Away = filename:join(Dir, "away"),
    ok = file:rename(Own, Away),
    %% The change may find this first, or the member, also while it takes the change.
    {error, Refusal} = create(Peer),
    ?assert(lists:member(Refusal, [disk, not_ready, unknown])),
    ok = until(fun() -> says(Peer, "was removed or unmounted.*without its cases") end),
    ?assertEqual({error, not_ready}, create(Peer)),
    false = is_ready(Peer),
    %% Another directory does not have the member.
    ok = file:make_dir(Own),
    attempt = on(Peer, erlang, send, [docket_ra_member, attempt]),
    _ = on(Peer, sys, get_state, [docket_ra_member]),
    false = is_ready(Peer),
    ok = file:del_dir(Own),
    ok = file:rename(Away, Own),
    ok = until(fun() -> is_ready(Peer) end),
    [{ok, _} = show(Each, Peer) || Each <- [Id, new_case(Peer)]],
    stopped([Peer]).

%% Such a node is no voter: without it, two of three are no majority when one of them ends.
removed_of_three(Config) ->
    [A, B, C] = started(names(3), Config),
    [First | _] = names(3),
    ok = file:del_dir_r(dir(First, Config)),
    ok = until(fun() -> says(A, "was removed or unmounted.*it then takes their cases") end),
    Id = new_case_again(B),
    ok = kill(C),
    ?assertMatch({error, _}, create(B)),
    false = is_ready(B),
    C1 = start(lists:last(names(3)), names(3), Config),
    ok = until(fun() -> is_ready(B) andalso is_ready(C1) end),
    ok = kill(A),
    A1 = start(First, names(3), Config),
    ok = until(fun() -> is_ready(A1) end),
    [{ok, _} = show(Each, A1) || Each <- [Id, new_case_again(A1)]],
    stopped([A1, B, C1]).

%% The later one of two nodes with different stores says so.
other_store(Config) ->
    [First, Second] = Names = names(2),
    A = start(First, Names, Config),
    B = start(Second, Names, lists:keystore(store, 1, Config, {store, mnesia})),
    ok = until(fun() ->
                       says(B, "has the store ra, and this node mnesia: give all nodes the same")
               end),
    stopped([A, B]).

%% The line with which a node does not start
refusal() ->
    {error, {docket, {{shutdown, {failed_to_start_child, store, Reason}}, _}}} =
        application:ensure_all_started(docket),
    {shutdown, {store, Error}} = Reason,
    unicode:characters_to_list(docket_store_ra:format_error(Error)).

in(Pattern, Config) ->
    [File] = filelib:wildcard(in_dir(Pattern, Config)),
    File.

in_dir(Pattern, Config) -> filename:join(proplists:get_value(dir, Config), Pattern).

files(Dir) ->
    [{File, file:read_file(File)} || File <- filelib:wildcard(filename:join(Dir, "**"))].

half(Bytes) -> shorter(Bytes, byte_size(Bytes) - byte_size(Bytes) div 2).

shorter(Bytes, By) -> binary:part(Bytes, 0, byte_size(Bytes) - By).

changed(Bytes, At) ->
    <<Before:At/binary, Byte, After/binary>> = Bytes,
    <<Before/binary, (Byte bxor 16#41), After/binary>>.

%% The name of the member, and 4 bytes for the sum
first_size(<<_:8/binary, Name:16, _/binary>>) -> ?NAME_AT + Name + 4.

%% After many changes a snapshot takes the place of the log, also on a node that was not there.
long_log(Config) ->
    Peers = started(names(3), Config),
    {Leader, Lost} = leading(Peers),
    ok = kill(Lost),
    ok = file:del_dir_r(dir(Leader, Config)),
    [A, B] = Peers -- [Lost],
    Early = on(A, ?MODULE, new_cases, [16, 300]),
    Name = on(A, erlang, node, []),
    ok = until(fun() -> [] =/= snapshots(Name, Config) end),
    C = start(Leader, names(3), Config),
    ok = until(fun() -> is_ready(C) end),
    [_ | _] = snapshots(Leader, Config),
    ?assertEqual([], Early -- listed(C)),
    [ok = kill(Peer) || Peer <- [A, B, C]],
    [A1 | _] = Again = started(names(3), Config),
    ?assertEqual([], Early -- listed(A1)),
    stopped(Again).

snapshots(Name, Config) ->
    filelib:wildcard(filename:join(dir(Name, Config), "ra/*/snapshots/*")).

%% Nodes get a later program one after the other. When one of them leads, the rows change.
upgraded(Config) ->
    Names = names(3),
    Older = [{row_version, 1} | Config],
    Peers = started(Names, Older),
    Before = new_case(hd(Peers)),
    Later = [begin
                 ok = kill(Peer),
                 start(Name, Names, Config)
             end || {Name, Peer} <- lists:zip(Names, Peers)],
    [ok = until(fun() -> is_ready(Peer) end) || Peer <- Later],
    After = new_case_again(hd(Later)),
    Close = fun() ->
                    on(hd(Later), docket, run, [{change, Before, 1, #{state => closed}, 1000}])
            end,
    ok = until(fun() -> element(1, Close()) =:= ok orelse version(Before, hd(Later)) =:= 2 end),
    [begin
         {ok, Case} = show(Before, Peer),
         ?assertMatch(#{closed := <<"1970-01-01T00:00:01", _/binary>>}, docket_case:view(Case)),
         {ok, _} = show(After, Peer)
     end || Peer <- Later],
    stopped(Later).

version(Key, Peer) ->
    {ok, Case} = show(Key, Peer),
    docket_case:version(Case).

%% A node takes the snapshot of another one whose VM has met the atoms in another order.
snapshot(Config) ->
    Dir = filename:join(proplists:get_value(dir, Config), "snapshot"),
    Dirs = [filename:join(Dir, Name) || Name <- ["one", "other"]],
    [ok = filelib:ensure_path(Each) || Each <- Dirs],
    Words = ["machine_version", "cluster", "index", "term"],
    [One, Other] = [begin
                        {ok, Peer, _} = peer:start_link(
                                          #{connection => standard_io,
                                            args => ["-pa" | code:get_path()]}),
                        _ = [on(Peer, erlang, list_to_atom, [Word]) || Word <- Order],
                        Peer
                    end || Order <- [Words, lists:reverse(Words)]],
    Meta = #{index => 7, term => 2, cluster => [{docket, a@b}], machine_version => 1},
    ?assertNotEqual(on(One, erlang, term_to_binary, [Meta]),
                    on(Other, erlang, term_to_binary, [Meta])),
    State = #{rows => lists:seq(1, 1000)},
    {Meta, Chunks} = on(One, ?MODULE, written, [hd(Dirs), {Meta, State}]),
    ?assertEqual({ok, Meta, State}, on(Other, ?MODULE, taken, [lists:last(Dirs), Meta, Chunks])),
    stopped([One, Other]).

%% Returns a snapshot in parts, as a leader sends it.
written(Dir, {Meta, State}) ->
    ok = docket_ra_snapshot:write(Dir, Meta, State),
    ok = docket_ra_snapshot:validate(Dir),
    {ok, Meta} = docket_ra_snapshot:read_meta(Dir),
    {ok, Read, Reading} = docket_ra_snapshot:begin_read(Dir),
    {Read, chunks(Reading, Dir)}.

chunks(Reading, Dir) ->
    case docket_ra_snapshot:read_chunk(Reading, 500, Dir) of
        {ok, Chunk, {next, Next}} -> [Chunk | chunks(Next, Dir)];
        {ok, Chunk, last} -> [Chunk]
    end.

taken(Dir, Meta, Chunks) ->
    {ok, Accepting} = docket_ra_snapshot:begin_accept(Dir, Meta),
    Last = lists:foldl(fun(Chunk, Before) ->
                               {ok, After} = docket_ra_snapshot:accept_chunk(Chunk, Before),
                               After
                       end, Accepting, lists:droplast(Chunks)),
    ok = docket_ra_snapshot:complete_accept(lists:last(Chunks), Last),
    docket_ra_snapshot:recover(Dir).

%% The nodes

leader(Peer) ->
    {ok, _, {_, Node}} = on(Peer, ra, members, [on(Peer, docket_ra_member, id, [])]),
    Node.

leading(Peers) ->
    Leader = leader(hd(Peers)),
    [Lost] = [Peer || Peer <- Peers, on(Peer, erlang, node, []) =:= Leader],
    {Leader, Lost}.

%% Opens cases on this node: a number in each of several processes.
new_cases(Processes, Count) ->
    Pids = [spawn_monitor(fun() -> exit({keys, [new_case() || _ <- lists:seq(1, Count)]}) end)
            || _ <- lists:seq(1, Processes)],
    Ends = [receive {'DOWN', Ref, process, Pid, End} -> End end || {Pid, Ref} <- Pids],
    lists:append([begin {keys, Keys} = End, Keys end || End <- Ends]).

%% A node that was just killed may have been the leader. A case that was refused, or whose end is
%% not known, is opened once more with another id.
new_case() ->
    Key = {<<"ann">>, docket_store:new_id(0)},
    case docket:run({create, Key, #{title => <<"x">>, parties => []}, 1}) of
        {ok, _} -> Key;
        {error, Reason} when Reason =:= not_ready; Reason =:= minority; Reason =:= unknown ->
            new_case()
    end.

listed(Peer) -> lists:sort(listed(Peer, last)).

listed(Peer, Before) ->
    {ok, {Cases, Next}} = on(Peer, docket, run, [{list, <<"ann">>, Before, 1000, #{}}]),
    [docket_case:key(Case) || Case <- Cases]
        ++ case Next of none -> []; _ -> listed(Peer, Next) end.

%% A process that opens cases until its node is gone
start_writer(Peer) ->
    Test = self(),
    spawn(fun() -> write(Test, Peer) end).

write(Test, Peer) ->
    _ = [Test ! {acknowledged, docket_case:key(Case)} || {ok, Case} <- [create(Peer)]],
    write(Test, Peer).

%% So many cases that were acknowledged; with 0, those that are known by now
acknowledged(0) ->
    receive {acknowledged, Id} -> [Id | acknowledged(0)]
    after 0 -> []
    end;
acknowledged(Count) -> [receive {acknowledged, Id} -> Id end || _ <- lists:seq(1, Count)].
