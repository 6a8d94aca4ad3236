%% Tests what nodes do that have lost a part of their files while they were down.
-module(docket_damage_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([cut/1, hole/1, changed/1, large/1, of_a_node/1, one_of_three/1, of_another/1,
         all_of_three/1]).

-import(docket_nodes, [started/2, start/3, dir/2, stopped/1, kill/1, kill_all/1, on/4, new_case/1,
                       new_case_again/1, show/2, until/1, until/3, lines/1]).

-define(WAITS_FOR_OTHERS, "does not load its cases, and waits for those of another node: ").

all() -> [cut, hole, changed, large, of_a_node, one_of_three, of_another, all_of_three].

init_per_testcase(Case, Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), atom_to_list(Case)),
    _ = file:del_dir_r(Dir),
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    [{dir, Dir} | Config].

end_per_testcase(_, _) -> ok.

%% A log that was open may end anywhere, and a closed one only behind an entry.
cut(Config) ->
    {File, Log, Ends} = log(Config, [{entry, N, <<"some text">>} || N <- lists:seq(1, 5)]),
    [begin
         Expected = case Size < 16 orelse State =:= open orelse lists:member(Size, Ends) of
                        true -> sound;
                        false -> damaged
                    end,
         ?assertEqual({State, Size, Expected}, {State, Size, checked(File, in_state(State, Part))})
     end || State <- [open, closed], Size <- lists:seq(0, byte_size(Log)),
            Part <- [binary:part(Log, 0, Size)]],
    %% The file of a table is never without entries.
    Table = filename:join(filename:dirname(File), "a.DCD"),
    [?assertEqual({Size, damaged}, {Size, checked(Table, binary:part(Log, 0, Size))})
     || Size <- [0, 7]].

%% A write has failed, and others followed. What they wrote goes away.
hole(Config) ->
    {File, Log, Ends} = log(Config, [{entry, N, <<"some text">>} || N <- lists:seq(1, 5)]),
    Third = lists:nth(4, Ends),
    <<Before:Third/binary, _:5/binary, After/binary>> = Log,
    Latest = filename:join(filename:dirname(File), "LATEST.LOG"),
    [begin
         Holed = in_state(State, <<Before/binary, After/binary>>),
         ?assertEqual(damaged, checked(Latest, Holed)),
         ok = file:write_file(Latest, Holed),
         ok = docket_mnesia_files:cut(filename:dirname(File)),
         ?assertEqual({ok, in_state(State, Before)}, file:read_file(Latest)),
         ok = docket_mnesia_files:cut(filename:dirname(File)),
         ?assertEqual({ok, in_state(State, Before)}, file:read_file(Latest))
     end || State <- [open, closed]].

%% A changed byte in the head of a log or of an entry shows, also if entries follow.
changed(Config) ->
    {File, Log, Ends} = log(Config, [{entry, N, <<"some text">>} || N <- lists:seq(1, 5)]),
    Heads = lists:seq(0, 3)
        ++ [End + Byte || End <- lists:droplast(Ends), Byte <- [0, 1, 2, 4, 5, 6, 7]],
    [?assertEqual({State, At, damaged},
                  {State, At, checked(File, with_other_byte(At, in_state(State, Log)))})
     || State <- [open, closed], At <- Heads, State =:= closed orelse At < lists:nth(5, Ends)],
    %% A crash may leave the last entry of an open log in any state.
    [?assertEqual({At, sound}, {At, checked(File, with_other_byte(At, in_state(open, Log)))})
     || At <- Heads, At >= lists:nth(5, Ends)].

%% An entry of 64 KB or more has a checksum of its size.
large(Config) ->
    Large = {entry, binary:copy(<<"x">>, 200000)},
    {File, Log, [_, First | _]} = log(Config, [small, Large, small]),
    ?assertEqual(sound, checked(File, in_state(closed, Log))),
    [?assertEqual({State, At, damaged},
                  {State, At, checked(File, with_other_byte(First + At, in_state(State, Log)))})
     || State <- [open, closed], At <- [0, 1, 2, 3, 4, 8, 23]],
    [?assertEqual(sound, checked(File, in_state(open, binary:part(Log, 0, First + Size))))
     || Size <- [1, 20, 100000]].

%% Writes a log, and returns its bytes and where the head and each entry end.
log(Config, Entries) ->
    File = filename:join(proplists:get_value(dir, Config), "TEST.LOG"),
    {ok, Log} = disk_log:open([{name, make_ref()}, {file, File}]),
    Ends = [begin
                ok = Append(),
                ok = disk_log:sync(Log),
                filelib:file_size(File)
            end || Append <- [fun() -> ok end
                              | [fun() -> disk_log:log(Log, Entry) end || Entry <- Entries]]],
    ok = disk_log:close(Log),
    {ok, Bytes} = file:read_file(File),
    ok = file:delete(File),
    {File, Bytes, Ends}.

in_state(closed, Log) -> Log;
in_state(open, <<Magic:4/binary, _:4/binary, Entries/binary>>) ->
    <<Magic/binary, 6, 7, 8, 9, Entries/binary>>;
in_state(open, Short) -> Short.

with_other_byte(At, Bytes) ->
    <<Before:At/binary, Byte, Rest/binary>> = Bytes,
    <<Before/binary, (Byte bxor 64), Rest/binary>>.

%% The directory has a database without tables.
checked(File, Bytes) ->
    Dir = filename:dirname(File),
    {ok, Schema} = dets:open_file(make_ref(), [{file, filename:join(Dir, "schema.DAT")},
                                               {keypos, 2}]),
    ok = dets:close(Schema),
    ok = file:write_file(File, Bytes),
    Result = docket_mnesia_files:check(Dir),
    ok = file:delete(File),
    case Result of
        ok -> sound;
        {error, {damaged, File}} -> damaged
    end.

%% The files of a node that was killed are sound, and each kind of damage is found.
of_a_node(Config) ->
    [Name] = Names = docket_nodes:names("a"),
    [Peer] = started(Names, Config),
    [_ = new_case(Peer) || _ <- lists:seq(1, 10)],
    dumped = on(Peer, mnesia_controller, snapshot_dcd, [[docket_case, docket_event]]),
    _ = new_case(Peer),
    dumped = on(Peer, mnesia, dump_log, []),
    _ = new_case(Peer),
    ok = kill(Peer),
    Dir = dir(Name, Config),
    Check = fun() -> check_as(Name, Dir) end,
    ?assertEqual(ok, Check()),
    [begin
         File = filename:join(Dir, Base),
         {ok, Bytes} = file:read_file(File),
         [begin
              ok = file:write_file(File, Damaged),
              ?assertEqual({Base, {error, {damaged, File}}}, {Base, Check()})
          end || Damaged <- [with_other_byte(0, Bytes), with_other_byte(14, Bytes)]],
         ok = file:delete(File),
         Lost = filename:extension(File) =:= ".DCD",
         ?assertEqual({Base, if Lost -> {error, {missing, File}}; true -> ok end},
                      {Base, Check()}),
         ok = file:write_file(File, Bytes)
     end || Base <- ["docket_case.DCD", "docket_case.DCL", "docket_event.DCD", "LATEST.LOG"]],
    Schema = filename:join(Dir, "schema.DAT"),
    {ok, Bytes} = file:read_file(Schema),
    ok = file:write_file(Schema, binary:part(Bytes, 0, 100)),
    ?assertEqual({error, {damaged, Schema}}, Check()).

%% The check asks for the files of the node that runs it.
check_as(Name, Dir) ->
    [Short, Host] = string:split(atom_to_list(Name), "@"),
    {ok, Peer, Name} = peer:start(#{name => Short, host => Host, connection => standard_io,
                                    args => ["-pa" | code:get_path()]}),
    Result = on(Peer, docket_mnesia_files, check, [Dir]),
    ok = peer:stop(Peer),
    Result.

%% The first node would load its rows before the others, but its file has been damaged. It takes the
%% cases of the others.
one_of_three(Config) ->
    [First | _] = Names = docket_nodes:names("abc"),
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
    [First | _] = Names = docket_nodes:names("abc"),
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

%% All files are damaged, and one generation. The nodes wait until one is told to go on with what is
%% left.
all_of_three(Config) ->
    [_, Second, Third] = Names = docket_nodes:names("abc"),
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

with_cases(Names, Config) ->
    [A | _] = Peers = started(Names, Config),
    Cases = [new_case(A) || _ <- lists:seq(1, 20)],
    [dumped = on(Peer, mnesia_controller, snapshot_dcd, [[docket_case]]) || Peer <- Peers],
    {Peers, [new_case(A) | Cases]}.

damage(Name, Config) -> damage(Name, "docket_case.DCD", Config).

damage(Name, Base, Config) ->
    File = filename:join(dir(Name, Config), Base),
    {ok, Bytes} = file:read_file(File),
    file:write_file(File, with_other_byte(0, Bytes)).

saying(Text, Peer) -> [Line || {_, Line} <- lines(Peer), string:find(Line, Text) =/= nomatch].
