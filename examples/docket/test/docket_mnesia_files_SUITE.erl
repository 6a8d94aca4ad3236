%% Tests the checks of Mnesia's files: logs as disk_log writes them, and those of a node.
-module(docket_mnesia_files_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([cut/1, garbage/1, hole/1, changed/1, large/1, of_a_node/1, foreign/1]).
%% For other suites
-export([with_other_byte/2]).

-import(docket_nodes, [started/2, dir/2, kill/1, on/4, new_case/1]).

all() -> [cut, garbage, hole, changed, large, of_a_node, foreign].

init_per_testcase(Case, Config) -> docket_nodes:prepared(Case, "a", Config).

end_per_testcase(_, _) -> ok.

%% A log may end anywhere, because a crash or a full disk cut it off. The changes of a table that
%% are closed end behind an entry, unless Mnesia will write them again.
cut(Config) ->
    {Latest, Log, Ends} = log(Config, [{entry, N, <<"some text">>} || N <- lists:seq(1, 5)]),
    Dir = filename:dirname(Latest),
    [Changes, Table, Previous] = [filename:join(Dir, Name)
                                  || Name <- ["docket_a.DCL", "docket_a.DCD", "PREVIOUS.LOG"]],
    Sizes = lists:seq(0, byte_size(Log)),
    [?assertEqual({File, State, Size, sound},
                  {File, State, Size, checked(File, in_state(State, binary:part(Log, 0, Size)))})
     || {File, State} <- [{Latest, open}, {Latest, closed}, {Changes, open}], Size <- Sizes],
    [begin
         Expected = case lists:member(Size, Ends) orelse File =:= Changes andalso Size < 16 of
                        true -> sound;
                        false -> damaged
                    end,
         ?assertEqual({File, Size, Expected},
                      {File, Size, checked(File, binary:part(Log, 0, Size))})
     end || File <- [Changes, Table], Size <- Sizes],
    ok = file:write_file(Previous, Log),
    [?assertEqual({Size, sound}, {Size, checked(Changes, binary:part(Log, 0, Size))})
     || Size <- Sizes].

%% A process that is killed leaves no other bytes behind the last entry.
garbage(Config) ->
    {File, Log, _} = log(Config, [some, entries]),
    [?assertEqual({Bytes, damaged},
                  {Bytes, checked(File, in_state(open, <<Log/binary, Bytes/binary>>))})
     || Bytes <- [<<0:64>>, <<0:8000>>, <<0, 0, 0, 9, 98, 87, 0, 0>>, <<0, 0, 0, 9, 99>>]].

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

%% A changed byte in the head of a log or of an entry shows, if entries follow. At the end, only the
%% size of an entry may be wrong.
changed(Config) ->
    {File, Log, Ends} = log(Config, [{entry, N, <<"some text">>} || N <- lists:seq(1, 5)]),
    Last = lists:nth(5, Ends),
    Heads = lists:seq(0, 3)
        ++ [End + Byte || End <- lists:droplast(Ends), Byte <- [0, 1, 2, 4, 5, 6, 7]],
    [begin
         Expected = case At >= Last andalso At < Last + 4 of
                        true -> sound;
                        false -> damaged
                    end,
         ?assertEqual({State, At, Expected},
                      {State, At, checked(File, with_other_byte(At, in_state(State, Log)))})
     end || State <- [open, closed], At <- Heads].

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
    File = filename:join(proplists:get_value(dir, Config), "LATEST.LOG"),
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
    [Name] = Names = docket_nodes:names(),
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
         Optional = filename:extension(File) =:= ".DCL",
         ?assertEqual({Base, if Optional -> ok; true -> {error, {missing, File}} end},
                      {Base, Check()}),
         ok = file:write_file(File, Bytes)
     end || Base <- ["docket_case.DCD", "docket_case.DCL", "docket_event.DCD", "LATEST.LOG"]],
    Schema = filename:join(Dir, "schema.DAT"),
    {ok, Bytes} = file:read_file(Schema),
    ok = file:write_file(Schema, binary:part(Bytes, 0, 100)),
    ?assertEqual({error, {bad_schema, Dir}}, Check()),
    ok = file:write_file(Schema, Bytes),
    %% A log without an entry is right only while Mnesia makes a new one.
    Latest = filename:join(Dir, "LATEST.LOG"),
    Previous = filename:join(Dir, "PREVIOUS.LOG"),
    ok = file:rename(Latest, Previous),
    ?assertEqual(ok, Check()),
    ok = file:write_file(Latest, <<1, 2, 3>>),
    ?assertEqual(ok, Check()),
    ok = file:delete(Previous),
    ?assertEqual({error, {damaged, Latest}}, Check()),
    ok = docket_mnesia_files:starting(Dir),
    ?assertEqual(ok, Check()).

%% The check asks for the files of the node that runs it.
check_as(Name, Dir) ->
    [Short, Host] = string:split(atom_to_list(Name), "@"),
    {ok, Peer, Name} = peer:start(#{name => Short, host => Host, connection => standard_io,
                                    args => ["-pa" | code:get_path()]}),
    Result = on(Peer, docket_mnesia_files, check, [Dir]),
    ok = peer:stop(Peer),
    Result.

%% Files of others stay, whatever their names end with.
foreign(Config) ->
    Dir = proplists:get_value(dir, Config),
    Own = ["schema.DAT", "LATEST.LOG", "docket_case.DCD", "docket_case.DCL", "docket.started"],
    Foreign = ["my.LOG", "case.DCD", "x.TMP", "docket.node"],
    [ok = file:write_file(filename:join(Dir, Name), "x") || Name <- Own ++ Foreign],
    ok = docket_mnesia_files:remove(Dir),
    {ok, Left} = file:list_dir(Dir),
    ?assertEqual(lists:sort(Foreign), lists:sort(Left)),
    ?assertEqual(ok, docket_mnesia_files:check_new(Dir)).
