%% Tests the checks of Mnesia's files: those of a node, and those of others in its directory.
-module(docket_mnesia_files_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([of_a_node/1, decoded/1, unreadable/1, set_aside/1, interrupted/1, foreign/1]).

-import(docket_mnesia_log_SUITE, [with_other_byte/2]).
-import(docket_nodes, [started/2, dir/2, kill/1, stopped/1, on/4, new_case/1]).

all() -> [of_a_node, decoded, unreadable, set_aside, interrupted, foreign].

init_per_testcase(Case, Config) -> docket_nodes:prepared(Case, "a", Config).

end_per_testcase(_, _) -> ok.

%% Returns the directory of a node that was killed: it has ten cases in the files of the tables, two
%% in those of changes, and two in the log.
of_killed(Name, Config) ->
    [Peer] = started([Name], Config),
    [_ = new_case(Peer) || _ <- lists:seq(1, 10)],
    dumped = on(Peer, mnesia, dump_log, []),
    dumped = on(Peer, mnesia_controller, snapshot_dcd, [[docket_case, docket_event]]),
    [_ = new_case(Peer) || _ <- lists:seq(1, 2)],
    dumped = on(Peer, mnesia, dump_log, []),
    [_ = new_case(Peer) || _ <- lists:seq(1, 2)],
    ok = kill(Peer),
    dir(Name, Config).

%% The files of a node that was killed are sound, and each kind of damage is found.
of_a_node(Config) ->
    [Name] = docket_nodes:names(),
    Dir = of_killed(Name, Config),
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
    [begin
         ok = file:write_file(Schema, binary:part(Bytes, 0, Size)),
         ?assertEqual({Size, {error, {bad_schema, Dir}}}, {Size, Check()})
     end || Size <- [100, byte_size(Bytes) div 2]],
    %% Mnesia would make a table anew that the schema lacks.
    ok = without_table(Schema, docket_event),
    ?assertEqual({error, {bad_schema, Dir}}, Check()),
    ok = file:write_file(Schema, Bytes),
    %% Mnesia repairs a schema that was open.
    ok = file:write_file(Schema, left_open(Bytes)),
    ?assertEqual(ok, Check()),
    ?assertEqual({ok, left_open(Bytes)}, file:read_file(Schema)),
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
    ok = docket_mnesia_files:note_starting(Dir),
    ?assertEqual(ok, Check()).

without_table(File, Name) ->
    {ok, Schema} = dets:open_file(make_ref(), [{file, File}, {keypos, 2}]),
    ok = dets:delete(Schema, Name),
    dets:close(Schema).

%% The byte tells dets that the file was closed (dets_v9, OTP 25 to 29).
left_open(<<Before:11/binary, 1, Rest/binary>>) -> <<Before/binary, 0, Rest/binary>>.

%% The check asks for the files of the node that runs it.
check_as(Name, Dir) -> call_as(Name, check, Dir).

call_as(Name, Function, Dir) ->
    [Short, Host] = string:split(atom_to_list(Name), "@"),
    {ok, Peer, Name} = peer:start(#{name => Short, host => Host, connection => standard_io,
                                    args => ["-pa" | code:get_path()]}),
    Result = on(Peer, docket_mnesia_files, Function, [Dir]),
    ok = peer:stop(Peer),
    Result.

%% Damages that leave an entry which can be decoded. Mnesia would end when it reads it, at each
%% start, or docket when it shows the row.
decoded(Config) ->
    [Name] = docket_nodes:names(),
    Dir = of_killed(Name, Config),
    [begin
         File = filename:join(Dir, Base),
         {ok, Bytes} = file:read_file(File),
         [begin
              ok = file:write_file(File, Damaged),
              ?assertEqual({Base, Text, {error, {damaged, File}}},
                           {Base, Text, check_as(Name, Dir)})
          end || Damaged <- damages(Text, Bytes)],
         ok = file:write_file(File, Bytes)
     end || {Base, Text} <- [{"docket_case.DCL", "write"}, {"docket_case.DCL", "none"},
                             {"docket_event.DCL", "created"}, {"docket_case.DCD", "none"},
                             {"docket_case.DCD", "open"}, {"docket_event.DCD", "docket_event"},
                             {"docket_case.DCD", "dcd_log"}, {"LATEST.LOG", "commit"},
                             {"LATEST.LOG", "write"}, {"DECISION_TAB.LOG", "trans_tid"},
                             {"DECISION_TAB.LOG", "decision_list"},
                             {"DECISION_TAB.LOG", last}, {"DECISION_TAB.LOG", version},
                             {"LATEST.LOG", version}]],
    ?assertEqual(ok, check_as(Name, Dir)).

%% Another version in the header, another last character in each place of an atom, or no last byte
damages(version, Bytes) ->
    %% The header is the first entry, and its version the first text of three characters.
    {At, _} = binary:match(Bytes, <<107, 3:16>>),
    [with_other_byte(At + 3, Bytes)];
damages(last, Bytes) -> [binary:part(Bytes, 0, byte_size(Bytes) - 1)];
damages(Text, Bytes) ->
    [_ | _] = Places = binary:matches(Bytes, atom(Text)),
    [with_other_byte(At + Size - 1, Bytes) || {At, Size} <- Places].

%% Atoms as OTP 25 and later ones write them
atom(Text) -> [<<Tag/binary, (length(Text)), (list_to_binary(Text))/binary>>
               || Tag <- [<<119>>, <<100, 0>>]].

%% A node that is told to go on with damaged files has the rest of each of them.
set_aside(Config) ->
    [Name] = docket_nodes:names(),
    Dir = of_killed(Name, Config),
    [begin
         File = filename:join(Dir, Base),
         {ok, Bytes} = file:read_file(File),
         {At, Size} = lists:last(binary:matches(Bytes, atom("created"))),
         ok = file:write_file(File, with_other_byte(At + Size - 1, Bytes))
     end || Base <- ["docket_event.DCD", "docket_event.DCL", "LATEST.LOG"]],
    [ok = file:delete(filename:join(Dir, Base)) || Base <- ["docket_case.DCD", "docket_file.DCD"]],
    ok = file:write_file(filename:join(Dir, "DECISION_TAB.LOG"), <<>>),
    ok = file:write_file(filename:join(Dir, "LATEST.LOG.damaged"), <<"an earlier one">>),
    Damages = [{missing, "docket_case.DCD"}, {missing, "docket_file.DCD"},
               {damaged, "DECISION_TAB.LOG"}, {damaged, "LATEST.LOG"},
               {damaged, "docket_event.DCD"}, {damaged, "docket_event.DCL"}],
    ?assertEqual({ok, [{Kind, filename:join(Dir, Base)} || {Kind, Base} <- Damages]},
                 call_as(Name, set_aside, Dir)),
    ?assertEqual({ok, <<"an earlier one">>},
                 file:read_file(filename:join(Dir, "LATEST.LOG.damaged"))),
    ?assert(filelib:is_regular(filename:join(Dir, "LATEST.LOG.damaged2"))),
    ?assertEqual(ok, check_as(Name, Dir)),
    %% The rows of the log are those before its last one.
    [Peer] = started([Name], Config),
    ?assertEqual(3, on(Peer, ets, info, [docket_case, size])),
    ?assertEqual(11, on(Peer, ets, info, [docket_event, size])),
    _ = new_case(Peer),
    stopped([Peer]).

%% An error of reading, and no room for the copy of the schema or for its repair, are no damage.
unreadable(Config) ->
    [Name] = docket_nodes:names(),
    Dir = of_killed(Name, Config),
    Schema = filename:join(Dir, "schema.DAT"),
    Eio = {error, {file_error, Schema, eio}},
    ?assertEqual(Eio, docket_dets:read(Schema, Schema ++ ".copy", [{keypos, 2}],
                                       fun(_) -> Eio end)),
    {ok, Bytes} = file:read_file(Schema),
    [begin
         ok = file:write_file(Schema, Now),
         ok = file:make_dir(filename:join(Dir, Taken)),
         ?assertEqual({Taken, {error, {write, {Dir, eisdir}}}}, {Taken, check_as(Name, Dir)}),
         ok = file:del_dir(filename:join(Dir, Taken))
     end || {Now, Taken} <- [{left_open(Bytes), "docket.schema"},
                             {left_open(Bytes), "docket.schema.TMP"}]],
    ok = file:write_file(Schema, Bytes),
    ?assertEqual(ok, check_as(Name, Dir)).

%% The node cannot write what is left, or ends before that takes the place of a damaged file. The
%% file is still there afterwards.
interrupted(Config) ->
    [Name] = docket_nodes:names(),
    Dir = of_killed(Name, Config),
    File = filename:join(Dir, "docket_event.DCD"),
    ok = file:write_file(File, <<"damaged">>),
    ok = file:write_file(File ++ ".left", <<"of an earlier start">>),
    ok = file:write_file(filename:join(Dir, "my.left"), <<"of another program">>),
    ok = file:make_dir(File ++ ".new"),
    ?assertEqual({error, {not_changed, {File, eisdir}}}, call_as(Name, set_aside, Dir)),
    ?assertEqual({ok, <<"damaged">>}, file:read_file(File)),
    ok = file:del_dir(File ++ ".new"),
    ?assertEqual({ok, [{damaged, File}]}, call_as(Name, set_aside, Dir)),
    ?assertEqual(["my.left"], filelib:wildcard("*.left", Dir)),
    ?assertEqual({ok, <<"damaged">>}, file:read_file(File ++ ".damaged")),
    ?assertEqual(ok, check_as(Name, Dir)).

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
