%% @doc Keeps the rows with Ra, a library for Raft: the nodes agree on each change before one of
%% them acknowledges it.
%%
%% A change, and a read by key, goes to the leader of the group. A scan reads the rows of this node,
%% which may lag behind. Ra is no part of docket: README.md says how to build with it.
%% @hidden
-module(docket_store_ra).
-behaviour(docket_store).

%% Ra need not be there.
-ignore_xref([{ra, process_command, 3}, {ra, consistent_query, 3}, {ra, local_query, 3}]).

-export([check/0, children/1, start_link/0, ready/0, run/2, format_error/1]).

-export_type([error/0]).

-type error() :: {no_ra, []} | {other_ra, Version :: string()} | {no_directory, []}
               | {directory, {file:filename(), file:posix()}}
               | docket_ra_member:error().

%% docket checks the files of Ra before Ra opens them, and knows those of this version only.
%% fetch-ra has it too.
-define(VERSION, "2.2.0").
-define(READY_MS, 1000).
-define(PROBE_BYTES, 5).

%% @doc Checks that this program contains Ra, and that the directory can be written.
-spec check() -> ok | {error, error()}.
check() ->
    case {version(), docket_config:get(dir)} of
        {none, _} -> {error, {no_ra, []}};
        {Other, _} when Other =/= ?VERSION -> {error, {other_ra, Other}};
        %% A node that forgets its vote could break the promises of Raft.
        {_, none} -> {error, {no_directory, []}};
        {_, Dir} ->
            case docket_directory:check(Dir, ?PROBE_BYTES) of
                ok -> ok;
                {error, Reason} -> {error, {directory, {Dir, Reason}}}
            end
    end.

version() ->
    _ = application:load(ra),
    case {code:ensure_loaded(ra), application:get_key(ra, vsn)} of
        {{module, _}, {ok, Version}} -> Version;
        _ -> none
    end.

%% @doc Gives the processes: the given one, and the one that asks for ready/0.
-spec children(supervisor:child_spec()) -> [supervisor:child_spec()].
children(Store) ->
    [Store, #{id => ready, start => {docket_ra_ready, start_link, [fun reaches_leader/0]}}].

%% @doc Starts the process that makes this node a member of the group.
-spec start_link() -> gen_server:start_ret().
start_link() -> docket_ra_member:start_link().

%% @doc Tells whether this node has the changes that were acknowledged before it started, and
%% reaches a leader whom most nodes follow. A connected node may take no part in the group, for
%% example without its directory.
-spec ready() -> boolean().
ready() -> docket_ra_member:is_loaded() andalso docket_ra_ready:ask().

reaches_leader() ->
    case asked(fun() -> ra:consistent_query(docket_ra_member:id(), query(count, []), ?READY_MS) end,
               read) of
        {ok, _, _} -> true;
        {error, _} -> false
    end.

%% @doc Does an operation. When a change is acknowledged, it is on the disks of most nodes.
-spec run(write | read | scan, docket_cases:operation()) ->
          {ok, term()} | {error, docket_cases:refusal() | docket_store:refusal()}.
run(Kind, Operation) ->
    case docket_ra_member:is_loaded() of
        false -> {error, not_ready};
        true ->
            case asked(fun() -> sent(Kind, Operation, docket_config:get(deadline)) end, Kind) of
                {ok, {{_, _}, Result}, _} when Kind =:= scan -> upgraded(Result);
                {ok, {ok, _} = Result, _} when Kind =:= write -> kept(upgraded(Result));
                {ok, Result, _} -> upgraded(Result);
                {error, _} = Error -> Error
            end
    end.

%% The others may have the change on their disks. docket_ra_member stops Ra a moment later.
kept(Result) ->
    case docket_ra_member:has_files() of
        true -> Result;
        false -> {error, disk}
    end.

%% The leader may have an earlier program.
upgraded({ok, Case}) when element(1, Case) =:= docket_case -> {ok, docket_case:upgraded(Case)};
upgraded({ok, {[_ | _] = Rows, Next}}) ->
    {ok, {[docket_cases:upgraded(Row) || Row <- Rows], Next}};
upgraded({ok, {Document, Bytes}}) -> {ok, {Document, Bytes}};
upgraded({error, {conflict, Case}}) -> {error, {conflict, docket_case:upgraded(Case)}};
upgraded(Other) -> Other.

sent(write, Operation, Deadline) -> ra:process_command(docket_ra_member:id(), Operation, Deadline);
sent(read, Operation, Deadline) ->
    %% Only the leader of a majority can know the latest change.
    case docket_cluster:is_majority() of
        true -> ra:consistent_query(docket_ra_member:id(), query(ask, [Operation]), Deadline);
        false -> {error, minority}
    end;
sent(scan, Operation, Deadline) ->
    ra:local_query(docket_ra_member:id(), query(ask, [Operation]), Deadline).

%% Other nodes run it too, so it is a name and not a fun: they may have another version of docket.
query(Function, Arguments) -> {docket_ra_machine, Function, Arguments}.

asked(Fun, Kind) ->
    try Fun() of
        {ok, _, _} = Answer -> Answer;
        {error, minority} = Error -> Error;
        %% Nobody got the operation.
        {error, noproc} -> {error, not_ready};
        _ -> {error, lost(Kind)}
    catch
        exit:_ -> {error, lost(Kind)}
    end.

%% A leader that is gone may have sent the change to the others.
lost(write) -> unknown;
lost(_) -> not_ready.

%% @doc Formats the reason why the store did not start.
-spec format_error(error()) -> unicode:chardata().
format_error({no_ra, _}) ->
    "this program does not contain Ra; build it with ERL_LIBS=$(examples/docket/fetch-ra) and "
        "--app ra, or use DOCKET_STORE=mnesia";
format_error({other_ra, Version}) ->
    ["this program contains Ra ", Version, ", and docket knows the files of Ra " ?VERSION " only; "
     "build it with the libraries of examples/docket/fetch-ra"];
format_error({no_directory, _}) ->
    "the store ra needs a directory that stays; set DOCKET_DIR, or use DOCKET_STORE=mnesia";
format_error({directory, Error}) -> docket_directory:format_error({write, Error});
format_error(Reason) -> docket_ra_member:format_error(Reason).
