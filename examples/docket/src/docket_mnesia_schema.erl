%% @doc Makes the database, or makes this node a part of it.
%%
%% A node whose directory has a database goes on with it. Any other node joins a node that has the
%% database. Only the first node of the list makes a new one, and only while all nodes are connected
%% and none has one: a node that lost its disk must not start an empty service beside the others.
%% @hidden
-module(docket_mnesia_schema).

-export([directory/0, attempt/1, report/0, admit/1, format_error/1]).

-import(docket_operator, [say/1]).

-export_type([error/0, loaded/0]).

%% Whose rows this node has loaded
-type loaded() :: own | from_others.

-type error() :: {directory, {file:filename(), file:posix()}} | {schema, term()}
               | {load, term()} | {join, {node(), term()}} | docket_mnesia_tables:error()
               | docket_mnesia_damage:error().

%% With less room, Mnesia does not start.
-define(PROBE_BYTES, 100_000).
-define(TABLES_MS, 1000).
-define(SAVE_MS, 15000).
-define(APART_MS, 5000).
%% The longest time that the start waits to learn the end of a change that was cut off by a crash.
-define(DECISION_MS, 2000).
-define(CALL_MS, 10000).
-define(SCHEMA_FILE, "schema.DAT").
-define(ANY_TABLE, docket_case).        % all tables have the same copies

%% @doc Checks the directory, and tells Mnesia about it.
-spec directory() -> ok | {error, error()}.
directory() ->
    %% A dump of Mnesia would hold the cases. It has megabytes, and nobody would remove it.
    ok = application:set_env(mnesia, core_dir, "/dev/null"),
    %% After a crash of all nodes, the first one to start would wait for the others, and these for
    %% it. A change whose end is unknown here was never acknowledged, so this node may undo it.
    ok = application:set_env(mnesia, max_wait_for_decision, ?DECISION_MS),
    case docket_config:get(dir) of
        none -> application:set_env(mnesia, schema_location, ram);
        Dir ->
            case docket_directory:check(Dir, ?PROBE_BYTES) of
                ok -> application:set_env(mnesia, dir, Dir);
                {error, Reason} -> {error, {directory, {Dir, Reason}}}
            end
    end.

%% @doc Tries to start the database. `wait' says what must happen first. After the given time in
%% milliseconds this kills Mnesia: it waits without end for some answers of a node that has ended.
-spec attempt(pos_integer()) -> {loaded, loaded()} | {wait | give_up, iodata()} | {error, error()}.
attempt(Milliseconds) ->
    Attempt = fun() -> docket_attempt:steps([fun begin_start/0, fun docket_identity:note/0,
                                               fun end_start/0]) end,
    case docket_worker:run(Attempt, Milliseconds) of
        {done, Result} -> Result;
        {failed, Reason} -> exit(Reason);
        {stopped, shutdown} ->
            ok = docket_mnesia_decisions:kill(),
            {wait, "starts its database again, because Mnesia ended"};
        {stopped, timeout} ->
            ok = docket_mnesia_decisions:kill(),
            {give_up, io_lib:format("starts its database again, because that did not end within "
                                    "~b s (DOCKET_START_TIMEOUT)", [Milliseconds div 1000])}
    end.

begin_start() ->
    case {state(), mnesia:system_info(is_running)} of
        %% The directory may have been removed.
        {fresh, _} -> docket_attempt:steps([fun directory/0, fun() -> fresh(reports()) end]);
        {_, yes} -> going_on();
        {_, no} ->
            %% A node that is not connected yet may have later cases.
            _ = [ok = docket_cluster:connect() || docket_config:get(force)],
            again(reports());
        {_, _} -> {wait, "waits until its database has ended"}
    end.

%% Mnesia runs. The node from which it loads may have ended meanwhile, and then it would wait for
%% that node alone.
going_on() ->
    case docket_mnesia_tables:is_loaded() orelse sources() of
        true -> known([]);
        [] -> known([]);
        Sources ->
            case [Node || Node <- [node() | running(reports())], lists:member(Node, Sources)] of
                [_ | _] = Ready -> from(Ready);
                [] ->
                    ok = docket_mnesia_decisions:stop(),
                    {wait, ["starts again, because ", docket_config:names(Sources), " ended before "
                            "this node had its cases"]}
            end
    end.

%% After a partition, Mnesia may refuse to make this node's database one with the others. It would
%% wait for the tables of a node that never sends them.
from(Ready) ->
    Now = erlang:monotonic_time(millisecond),
    Together = [Node || Node <- Ready, lists:member(Node, mnesia:system_info(running_db_nodes))],
    case {Together, persistent_term:get(?MODULE, one)} of
        {[_ | _], _} -> known([]);
        {[], {apart, Since}} when Now - Since > ?APART_MS ->
            ok = docket_mnesia_decisions:stop(),
            {wait, ["starts again, because its database is not one with that of ",
                    docket_config:names(Ready)]};
        {[], {apart, _}} -> known([]);
        {[], _} ->
            ok = persistent_term:put(?MODULE, {apart, Now}),
            known([])
    end.

%% The next start must choose again from which nodes it loads. Without a directory, Mnesia keeps no
%% such setting.
end_start() ->
    Loaded = loaded(),
    _ = [say(["this node has the cases of ", docket_config:names(Sources), ", in place of "
              "its own: DOCKET_FORCE only lets it start with another list of nodes. Start "
              "it without DOCKET_FORCE the next time"])
         || docket_config:get(force), Loaded =:= from_others, [_ | _] = Sources <- [sources()]],
    _ = mnesia:set_master_nodes([]),
    {loaded, Loaded}.

%% Correct until the master nodes are forgotten
loaded() ->
    case {sources(), docket_generation:current()} of
        {[Node], _} when Node =:= node() -> own;
        {_, {_, [Node]}} when Node =:= node() -> own;
        _ -> from_others
    end.

sources() ->
    try mnesia:table_info(?ANY_TABLE, master_nodes)
    catch exit:{aborted, _} -> []
    end.

known(First) ->
    docket_attempt:steps(First ++ [fun docket_mnesia_tables:check_version/0,
                                   fun docket_mnesia_tables:copy/0, fun logged/0, fun wait/0,
                                   fun saved/0]).

%% This node has no database. Others without one may have lost it.
fresh(Reports) ->
    Own = {node(), {fresh, docket_generation:current()}},
    case running([Own | Reports]) of
        [Node | _] -> known([fun() -> join(Node) end]);
        [] ->
            New = [Node || {Node, {fresh, Generation}} <- [Own | Reports],
                           is_new(Node, Generation)],
            case {docket_cluster:nodes() -- New, docket_cluster:nodes()} of
                {[], [First | _]} when First =:= node() ->
                    docket_attempt:steps([fun docket_mnesia_damage:check_new/0, fun begun/0,
                                          fun found/0, fun wait/0]);
                {[], [First | _]} -> {wait, ["waits until ", name(First), " makes the database"]};
                {Others, _} ->
                    {wait, without_cases(Others -- [node()], lists:member(node(), Others))}
            end
    end.

without_cases([], true) ->
    "has lost its cases, and no other node has any: put back a copy of its directory, or remove "
        "the file docket.generation from it to begin anew";
without_cases(Others, HadCases) ->
    ["has no database, and waits for ", docket_config:names(Others), " to run"
     | [". It had cases: if all nodes have lost theirs, remove the file docket.generation from "
        "its directory" || HadCases]].

%% A node begins a generation just before it makes the database. A node that is alone needs none.
is_new(Node, Generation) ->
    case {docket_cluster:nodes(), Generation} of
        {[Node], _} -> true;
        {_, {0, _}} -> true;
        {_, {1, [Node]}} -> true;
        _ -> false
    end.

begun() ->
    case docket_generation:begin_new() of
        ok -> ok;
        {error, Reason} -> {error, {directory, {docket_config:get(dir), Reason}}}
    end.

%% This node has a database. It loads the rows of a node that runs. If none runs, the first node
%% that has taken the latest generation loads its own rows, and the others wait for it.
again(Reports) ->
    Own = {node(), {waiting, docket_generation:current()}},
    Running = running([Own | Reports]),
    Latest = docket_generation:latest([{Node, Generation}
                                       || {Node, {_, Generation}} <- [Own | Reports]]),
    IsForced = docket_config:get(force) orelse Reports =:= [],
    case {IsForced, Running, Latest} of
        {_, [First | _], _} ->
            case docket_mnesia_damage:has_half_joined() of
                true -> known([fun() -> join(First) end]);
                false -> loading(Running)
            end;
        {_, [], {ok, {_, Members} = Generation}} ->
            %% A member that has not taken the generation yet may lack changes.
            Taken = [Node || {Node, {waiting, Stored}} <- [Own | Reports], Stored =:= Generation],
            case [Node || Node <- docket_cluster:nodes(), lists:member(Node, Taken)] of
                [First | _] when First =:= node() -> loading_own();
                [First | _] -> {wait, ["waits until ", name(First), " has loaded the cases"]};
                [] when IsForced -> loading_forced();
                [] -> later(Members)
            end;
        {true, [], unknown} -> loading_forced();
        {false, [], unknown} ->
            %% This node ended before any other one joined the new database, so no change was made.
            IsFirst = docket_generation:current() =:= {1, [node()]}
                andalso lists:all(fun({Node, {State, Generation}}) ->
                                          State =:= fresh andalso is_new(Node, Generation)
                                  end, Reports),
            Known = [Known || {_, {State, _}} = Known <- [Own | Reports], State =/= unknown],
            Without = [Node || {Node, {_, {Number, Members}}} <- Known,
                               Number =:= 0 orelse Members =:= []],
            case {[Node || {Node, {unknown, _}} <- Reports], Without} of
                {[], [_ | _]} when IsFirst -> loading_own();
                {[_ | _] = Missing, _} -> later(Missing ++ (Without -- [node()]));
                {[], [_ | _]} -> lost(Without);
                {[], []} -> apart()
            end
    end.

%% A program that is too old for the rows must begin no generation: the other nodes would restart
%% for it. The tables may load only in a later attempt, and that one begins no generation.
loading_forced() ->
    _ = [say("DOCKET_FORCE is on: this node loads its own cases, and the others take them. "
             "Start it without DOCKET_FORCE the next time")
         || docket_config:get(force), docket_cluster:nodes() =/= [node()]],
    docket_attempt:steps(started([node()]) ++ [fun docket_mnesia_tables:check_version/0,
                                               fun begun/0, fun() -> known([]) end]).

loading_own() ->
    case docket_generation:may_load_own() of
        true -> loading([node()]);
        false -> {wait, "waits until most nodes let it load its cases"}
    end.

apart() ->
    {wait, "and the others have made changes without each other, and wait: decide which node has "
           "the right cases, and start it once with DOCKET_FORCE=true; the others take its cases"}.

lost(Nodes) ->
    {wait, ["finds no node that has all cases for certain: ", docket_config:names(Nodes), " lost "
            "some, or cannot tell. Put back a copy of the directory of one of them. Or decide "
            "which node has the right cases, and no damaged files, and start it once with "
            "DOCKET_FORCE=true; the others take its cases"]}.

later(Nodes) ->
    {wait, ["waits for the cases of ", docket_config:names(Nodes), ", which may be later ones. "
            "Start the missing nodes, with the cookie and the list of this one. Only if they have "
            "lost their cases: of the remaining nodes, start the one that ended last, with "
            "DOCKET_FORCE=true"]}.

%% The nodes that run and have all changes
running(Reports) ->
    All = [{Node, Generation} || {Node, {_, Generation}} <- Reports],
    [Node || {Node, {running, Generation}} <- Reports,
             docket_generation:up_to_date({Node, Generation}, All)].

loading(Nodes) -> known(started(Nodes)).

started(Nodes) ->
    Others = Nodes -- [node()],
    [fun() -> docket_mnesia_decisions:before_start(Others) end,
     fun() ->
             case Others of
                 [] -> docket_mnesia_damage:check_own();
                 _ -> docket_mnesia_damage:check_or_clear(Nodes)
             end
     end,
     fun() -> said(schema, mnesia:set_master_nodes(Nodes)) end,
     fun() -> docket_mnesia_decisions:starts(Others, fun start/0) end, fun together/0].

%% The node that this one loads from may write to a third node that this one does not see. The
%% changes of the third one would not come here, and this node would join without them.
together() ->
    Here = mnesia:system_info(running_db_nodes),
    Views = docket_cluster:multicall(Here -- [node()], mnesia, table_info,
                                     [?ANY_TABLE, where_to_write], ?CALL_MS),
    case lists:usort(lists:append([Nodes || {ok, Nodes} <- Views])) -- Here of
        [] -> ok;
        Missing ->
            ok = docket_mnesia_decisions:stop(),
            {wait, ["waits until it is connected to ", docket_config:names(Missing)]}
    end.

reports() -> [{Node, asked(Node)} || Node <- docket_cluster:nodes() -- [node()]].

asked(Node) ->
    try docket_cluster:call(Node, ?MODULE, report, [], ?CALL_MS)
    catch _:_ -> {unknown, {0, []}}
    end.

%% @doc Tells the state of this node and its generation. Other nodes ask this.
-spec report() -> {fresh | running | waiting | unknown, docket_generation:generation()}.
report() ->
    case whereis(docket_generation) of
        undefined -> {unknown, {0, []}};
        _ -> {state(), docket_generation:current()}
    end.

%% No database, a running one with the tables, or one that is not ready
state() ->
    case mnesia:system_info(is_running) of
        yes ->
            case docket_mnesia_replica:is_complete() of
                true -> running;
                false -> waiting
            end;
        no ->
            case mnesia:system_info(use_dir) of
                true -> waiting;
                false -> fresh
            end;
        _ -> waiting
    end.

%% A new database

found() ->
    docket_attempt:steps([fun() ->
                   case docket_config:get(dir) of
                       none -> ok;
                       _ -> said(schema, mnesia:create_schema([node()]))
                   end
           end, fun start/0, fun docket_mnesia_tables:create/0]).

start() ->
    case directory() of
        ok ->
            ok = docket_mnesia_replica:forget(),
            ok = docket_mnesia_tables:forget(),
            _ = persistent_term:erase(?MODULE),
            docket_attempt:steps([fun docket_mnesia_damage:note_starting/0,
                                  fun() -> said(schema, mnesia:start()) end,
                                  fun() -> said(schema, docket_disk_watch:start()) end,
                                  fun logged/0, fun docket_mnesia_damage:note_started/0]);
        {error, _} = Error -> Error
    end.

%% Waits until the log of Mnesia has its header on the disk: a log without one counts as damaged.
%% disk_log keeps the header in memory for up to two seconds. A node that joins has its log only
%% when it has its copy of the schema.
logged() -> said(schema, docket_mnesia_decisions:sync_log()).

said(_, ok) -> ok;
said(schema, {error, {not_a_log_file, File}} = Error) ->
    case docket_mnesia_log:is_empty(File) andalso file:delete(File) of
        ok -> {wait, ["starts again without the log ", File, ", which is empty"]};
        _ -> {error, {schema, element(2, Error)}}
    end;
said(What, {error, Reason}) -> {error, {What, Reason}}.

%% The database of another node

join(Node) ->
    try docket_cluster:call(Node, ?MODULE, admit, [node()], ?CALL_MS) of
        {ok, Schema} ->
            docket_attempt:steps([fun docket_mnesia_damage:clear/0,
                   fun() ->
                           %% A half of a schema would look like a database at the next start.
                           said(schema, docket_directory:write(schema_file(), Schema))
                   end,
                   fun() -> said(schema, mnesia:set_master_nodes([Node])) end,
                   fun() -> docket_mnesia_decisions:starts([Node], fun start/0) end,
                   fun together/0]);
        ok ->
            docket_attempt:steps([fun docket_mnesia_damage:clear/0, fun start/0,
                   fun() ->
                           case mnesia:change_config(extra_db_nodes, [Node]) of
                               {ok, [_ | _]} -> ok;
                               {ok, []} -> {wait, ["waits for ", name(Node)]};
                               {error, Reason} -> {error, {join, {Node, Reason}}}
                           end
                   end]);
        {wait, _} = Wait -> Wait;
        {error, _} = Error -> Error
    catch _:_ -> {wait, ["waits for ", name(Node)]}
    end.

%% @doc Lets a node in that has no database. A node that kept its part on a disk, and has lost it,
%% gets the schema: the file that says which nodes have which tables. Mnesia could also forget the
%% node and let it join anew, but only while all other nodes run and are a majority without it.
-spec admit(node()) -> ok | {ok, Schema :: binary()} | {wait, iodata()} | {error, error()}.
admit(Node) ->
    Runs = lists:member(Node, mnesia:system_info(running_db_nodes)),
    OnDisk = lists:member(Node, mnesia:table_info(schema, disc_copies)),
    if
        Runs -> {wait, "waits until its former self is gone"};
        OnDisk ->
            true = docket_mnesia_decisions:dump(),
            case file:read_file(schema_file()) of
                {ok, _} = Schema -> Schema;
                {error, Reason} -> {error, {schema, Reason}}
            end;
        true -> ok
    end.

schema_file() -> filename:join(mnesia:system_info(directory), ?SCHEMA_FILE).

wait() ->
    case mnesia:wait_for_tables(docket_mnesia_tables:names(), ?TABLES_MS) of
        ok -> ok;
        {timeout, _} -> {wait, "waits for the tables, which load"};
        {error, Reason} -> {error, {load, Reason}}
    end.

%% Writes all rows to the disk, if they come from another node. Mnesia writes the rows that it gets
%% first, and keeps the changes of that time only in memory (`mnesia_loader:finish_copy/6'). This
%% node must have them after a crash of all nodes. A member that has restarted at once does this
%% while the others wait for it.
saved() ->
    case loaded() =:= from_others andalso docket_config:get(dir) =/= none of
        true ->
            Save = fun() -> mnesia_controller:snapshot_dcd(docket_mnesia_tables:names()) end,
            case docket_worker:run(Save, ?SAVE_MS, mnesia_controller) of
                {done, dumped} -> ok;
                %% It waits for a node that has ended, or its files cannot be written.
                _ ->
                    ok = docket_mnesia_decisions:stop(),
                    {wait, "starts again, because it could not write its cases to the disk"}
            end;
        false -> ok
    end.

name(Node) -> atom_to_list(Node).

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({What, _} = Error) when What =:= directory; What =:= files ->
    docket_mnesia_damage:format_error(Error);
format_error({schema, Reason}) ->
    io_lib:format("Mnesia does not start with its files in ~ts (~0tp): check that this user may "
                  "write them, or start with an empty directory to take the cases of other nodes",
                  [docket_config:get(dir), Reason]);
format_error({table, {Name, Reason}}) ->
    again("Mnesia cannot make the table ~s (~0tp)", [Name, Reason]);
format_error({load, Reason}) ->
    again("Mnesia cannot load the tables (~0tp)", [Reason]);
format_error({join, {Node, Reason}}) ->
    again("this node cannot join the database of ~s (~0tp)", [Node, Reason]);
format_error({version, {Stored, Own}}) ->
    io_lib:format("the database has rows of version ~0tp, and this node knows version ~b: start "
                  "a later program, or remove DOCKET_ROW_VERSION", [Stored, Own]).

%% The node tries again by itself.
again(Format, Values) ->
    io_lib:format(Format ++ "; it tries again. If that does not help, restart it with an empty "
                  "directory while most nodes run", Values).
