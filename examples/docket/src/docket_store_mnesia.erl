%% @doc Keeps the rows in Mnesia.
%%
%% The setting `mode' chooses the activity of an operation that writes or reads by key. A scan reads
%% the local replica without locks, because a lock on the whole table would stop all writers.
%% @hidden
-module(docket_store_mnesia).
-behaviour(docket_store).

-export([start/0, stop/0, ready/0, run/2, format_error/1]).
-export([read/3, write/2, delete/2, before/2]).

%% Milliseconds until the tables must be loaded, if this node has all of their replicas.
-define(LOAD_MS, 60000).

%% @doc Starts Mnesia and makes the tables that are missing.
-spec start() -> {ok, 0} | {error, term()}.
start() ->
    Steps = [fun directory/0, fun schema/0, fun mnesia:start/0, fun tables/0, fun loaded/0],
    case steps(Steps) of
        ok -> {ok, 0};
        {error, _} = Error -> Error
    end.

steps([]) -> ok;
steps([Step | More]) ->
    case Step() of
        ok -> steps(More);
        {error, _} = Error -> Error
    end.

directory() ->
    case docket_config:get(dir) of
        none -> application:set_env(mnesia, schema_location, ram);
        Dir ->
            Probe = filename:join(Dir, "docket.probe"),
            case [filelib:ensure_dir(Probe), file:write_file(Probe, []), file:delete(Probe)] of
                [ok, ok, ok] -> application:set_env(mnesia, dir, Dir);
                Results ->
                    [{error, Reason} | _] = [Error || {error, _} = Error <- Results],
                    {error, {directory, {Dir, Reason}}}
            end
    end.

schema() ->
    case docket_config:get(dir) of
        none -> ok;
        _ ->
            case mnesia:create_schema([node()]) of
                ok -> ok;
                {error, {_, {already_exists, _}}} -> ok;
                {error, Reason} -> {error, {schema, Reason}}
            end
    end.

tables() ->
    Copies = case docket_config:get(dir) of none -> ram_copies; _ -> disc_copies end,
    steps([fun() -> table(Table, Copies) end || Table <- docket_cases:tables()]).

table({Name, Fields, Type}, Copies) ->
    case mnesia:create_table(Name, [{attributes, Fields}, {type, Type}, {Copies, [node()]},
                                    {majority, true}]) of
        {atomic, ok} -> ok;
        {aborted, {already_exists, Name}} -> ok;
        {aborted, Reason} -> {error, {table, {Name, Reason}}}
    end.

loaded() ->
    case mnesia:wait_for_tables(names(), ?LOAD_MS) of
        ok -> ok;
        {timeout, Names} -> {error, {load, Names}};
        {error, Reason} -> {error, {load, Reason}}
    end.

names() -> [Name || {Name, _, _} <- docket_cases:tables()].

%% @doc Stops Mnesia.
-spec stop() -> ok.
stop() ->
    _ = mnesia:stop(),
    ok.

%% @doc Tells whether all tables are loaded.
-spec ready() -> boolean().
ready() ->
    try [mnesia:table_info(Name, where_to_read) || Name <- names()] of
        Nodes -> not lists:member(nowhere, Nodes)
    catch exit:{aborted, _} -> false
    end.

%% @doc Runs a function as one activity of Mnesia. In a synchronous mode, a change is on the disk
%% when this returns, if there is a directory.
-spec run(write | read | scan, fun(() -> Result)) -> Result | {error, docket_store:refusal()}.
run(Kind, Fun) ->
    case {Kind, activity(Kind, Fun), docket_config:get(mode), docket_config:get(dir)} of
        {write, {ok, _} = Done, Mode, [_ | _]} when Mode =:= sync_transaction; Mode
            =:= sync_dirty ->
            case docket_disk:sync() of
                ok -> Done;
                {error, _} = Error -> Error
            end;
        {_, Result, _, _} -> Result
    end.

activity(Kind, Fun) ->
    try mnesia:activity(mode(Kind), Fun)
    catch
        exit:{aborted, {no_majority, _}} -> {error, minority};
        exit:{aborted, {no_exists, _}} -> {error, not_ready};
        exit:{aborted, {node_not_running, _}} -> {error, not_ready};
        exit:{aborted, {{no_exists, _}, _}} -> {error, not_ready}
    end.

mode(scan) -> async_dirty;
mode(_) -> docket_config:get(mode).

%% @doc Reads the row with a key.
-spec read(docket_store:table(), term(), read | write) -> [docket_store:row()].
read(Table, Key, Lock) -> mnesia:read(Table, Key, Lock).

%% @doc Writes a row.
-spec write(docket_store:table(), docket_store:row()) -> ok.
write(Table, Row) -> mnesia:write(Table, Row, write).

%% @doc Deletes the row with a key.
-spec delete(docket_store:table(), term()) -> ok.
delete(Table, Key) -> mnesia:delete(Table, Key, write).

%% @doc Finds the greatest key before a key.
-spec before(docket_store:table(), term()) -> term() | '$end_of_table'.
before(Table, Key) -> mnesia:prev(Table, Key).

%% @doc Formats the reason why the store did not start.
-spec format_error(term()) -> unicode:chardata().
format_error({directory, {Dir, Reason}}) ->
    io_lib:format("the directory ~ts cannot be written (~ts); set DOCKET_DIR to another one, or to "
                  "none to keep the cases in memory only", [Dir, file:format_error(Reason)]);
format_error({schema, Reason}) ->
    io_lib:format("Mnesia cannot make its schema in ~ts: ~0tp", [docket_config:get(dir), Reason]);
format_error({table, {Name, Reason}}) ->
    io_lib:format("Mnesia cannot make the table ~s: ~0tp", [Name, Reason]);
format_error({load, Reason}) ->
    io_lib:format("Mnesia cannot load the tables: ~0tp", [Reason]);
format_error(Reason) -> io_lib:format("Mnesia cannot start: ~0tp", [Reason]).
