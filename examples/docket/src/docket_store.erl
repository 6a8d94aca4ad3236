%% @doc Keeps the rows of all tables, behind one of several stores.
%%
%% A store is a module with the callbacks below. It runs an operation (docket_cases:work/2) as one
%% atomic step, as far as its mode promises that.
%% @hidden
-module(docket_store).

-export([check/0, children/0, start_link/0, run/1, ready/0, new_id/1, format_error/1]).

-export_type([rows/0, table/0, row/0, refusal/0]).

-type rows() :: module().
-type table() :: atom().
-type row() :: tuple().
-type refusal() :: not_ready    % the tables are not loaded
                 | minority     % too few nodes are connected
                 | unknown      % the operation took too long, and may have been done
                 | disk.        % the change is made, but may be lost if the node ends

%% Checks what the store needs from outside.
-callback check() -> ok | {error, term()}.
%% Gives the processes of the store, in the order of their start. The argument is the main one.
-callback children(supervisor:child_spec()) -> [supervisor:child_spec()].
%% Starts the main process of the store. It may get ready later.
-callback start_link() -> gen_server:start_ret().
-callback ready() -> boolean().
-callback run(write | read | scan, docket_cases:operation()) ->
    {ok, term()} | {error, docket_cases:refusal() | refusal()}.
-callback format_error(term()) -> unicode:chardata().
%% The rows of this node, in a store over which docket_cases:work/2 runs: only an operation that
%% runs may call these.
-callback read(table(), Key :: term(), Lock :: read | write) -> [row()].
-callback write(table(), row()) -> ok.
-callback delete(table(), Key :: term()) -> ok.
-callback before(table(), Key :: term()) -> term() | '$end_of_table'.
-optional_callbacks([read/3, write/2, delete/2, before/2]).

%% @doc Checks what the store needs from outside, such as its directory.
-spec check() -> ok | {error, term()}.
check() -> (store()):check().

%% @doc Gives the child specifications of the processes of the store.
-spec children() -> [supervisor:child_spec()].
children() -> (store()):children(#{id => store, start => {?MODULE, start_link, []}}).

%% @doc Starts the main process of the store, and makes the source of ids.
-spec start_link() -> gen_server:start_ret().
start_link() ->
    ok = persistent_term:put(?MODULE, docket_id:source(docket_cluster:number())),
    (store()):start_link().

%% @doc Runs an operation. A node that is not in the majority refuses changes in every mode.
-spec run(docket_cases:operation()) -> {ok, term()} | {error, docket_cases:refusal() | refusal()}.
run(Operation) ->
    Kind = docket_cases:kind(Operation),
    case Kind =/= write orelse docket_cluster:is_majority() of
        true -> (store()):run(Kind, Operation);
        false -> {error, minority}
    end.

store() ->
    case docket_config:get(store) of
        mnesia -> docket_store_mnesia;
        ra -> docket_store_ra
    end.

%% @doc Tells whether the tables are loaded, and most nodes have them.
-spec ready() -> boolean().
ready() -> (store()):ready().

%% @doc Makes the id of a new case. Now is the time in milliseconds since 1970.
-spec new_id(Now :: integer()) -> docket_id:id().
new_id(Now) -> docket_id:new(persistent_term:get(?MODULE), Now).

%% @doc Formats the reason why the store did not start.
-spec format_error(term()) -> unicode:chardata().
format_error(Reason) -> (store()):format_error(Reason).
