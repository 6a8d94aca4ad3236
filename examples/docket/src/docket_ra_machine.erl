%% @doc Does the operations that a group of Raft has agreed on, over rows in memory.
%%
%% Each node has such a machine. Its state is a pure value, so a snapshot is the state itself, and
%% each node gets the same state from the same operations. The callbacks are those of Ra's behavior
%% `ra_machine'. This module does not name it, because docket also compiles without Ra.
%% @hidden
-module(docket_ra_machine).

-export([init/1, apply/3, version/0, which_module/1, snapshot_module/0]).
%% Queries, which Ra runs with the state as the last argument
-export([ask/2, count/1]).
%% The rows: only an operation that runs may call these.
-export([read/3, write/2, delete/2, before/2]).

-export_type([state/0]).

%% A snapshot takes the place of the log after so many operations, or bytes of documents.
-define(OPERATIONS, 4096).
-define(BYTES, 64_000_000).

%% The key of the dictionary of Ra's process that holds the size of a case while an operation runs
-define(SIZE, {?MODULE, size}).

-record(state, {rows :: #{docket_store:table() => {ordered_set, gb_trees:tree(term(), tuple())}
                                                | {set, #{term() => tuple()}}},
                count = 0 :: non_neg_integer(),         % operations since the first start
                %% Since the last snapshot
                operations = 0 :: non_neg_integer(),
                bytes = 0 :: non_neg_integer()}).
-opaque state() :: #state{}.

%% @doc Makes the state without a case.
-spec init(map()) -> state().
init(_) ->
    Tables = docket_cases:tables(docket_case:newest()),
    #state{rows = maps:from_list([{Name, {Type, empty(Type)}} || {Name, _, Type} <- Tables])}.

empty(ordered_set) -> gb_trees:empty();
empty(set) -> #{}.

%% @doc Does an operation. Its result is the answer to the node that has asked for it. `snapshot'
%% makes a snapshot at once.
-spec apply(map(), docket_cases:operation() | snapshot | {machine_version, From, To}, state()) ->
          {state(), term()} | {state(), term(), list()}
          when From :: non_neg_integer(), To :: non_neg_integer().
apply(#{index := Index}, snapshot, State) -> released(Index, ok, State);
%% Ra begins with a later version. Rows change when they are written.
apply(_, {machine_version, _, _}, State) -> {State, ok};
apply(#{index := Index} = Meta, Operation, #state{count = Count} = State) ->
    _ = put(?SIZE, elements(maps:get(machine_version, Meta, 0))),
    {Result, Next} = worked(Operation, State),
    _ = erase(?SIZE),
    kept(Index, Result, Next#state{count = Count + 1,
                                   operations = Next#state.operations + 1,
                                   bytes = Next#state.bytes + bytes(Operation)}).

%% The elements of a case in a version of this machine. Until a leader has begun with its own
%% version, Ra has 0.
elements(Version) ->
    Tables = docket_cases:tables(min(max(1, Version), docket_case:newest())),
    {docket_case, Fields, _} = lists:keyfind(docket_case, 1, Tables),
    length(Fields) + 1.

%% @doc Returns the version of this machine, which is that of the rows that it writes. Ra uses a
%% version when its leader has it. A node with an older program then waits for a later one.
-spec version() -> pos_integer().
version() -> docket_cases:version().

%% @doc Returns the module for a version.
-spec which_module(non_neg_integer()) -> module().
which_module(_) -> ?MODULE.

%% @doc Returns the module that reads and writes snapshots.
-spec snapshot_module() -> module().
snapshot_module() -> docket_ra_snapshot.

bytes({attach, _, _, Bytes, _}) -> byte_size(Bytes);
bytes(_) -> 0.

kept(Index, Result, #state{operations = Operations, bytes = Bytes} = State)
  when Operations >= ?OPERATIONS; Bytes >= ?BYTES ->
    released(Index, Result, State);
kept(_, Result, State) -> {State, Result}.

released(Index, Result, State) ->
    Fresh = State#state{operations = 0, bytes = 0},
    {Fresh, Result, [{release_cursor, Index, Fresh}]}.

%% @doc Does an operation that only reads.
-spec ask(docket_cases:operation(), state()) -> {ok, term()} | {error, docket_cases:refusal()}.
ask(Operation, State) -> element(1, worked(Operation, State)).

%% @doc Counts the operations since the first start of the group.
-spec count(state()) -> non_neg_integer().
count(#state{count = Count}) -> Count.

%% The rows are in the dictionary of Ra's process while an operation runs.
worked(Operation, #state{rows = Rows} = State) ->
    _ = put(?MODULE, Rows),
    try docket_cases:work(?MODULE, Operation) of
        Result -> {Result, State#state{rows = get(?MODULE)}}
    after
        erase(?MODULE)
    end.

%% @doc Reads the row with a key.
-spec read(docket_store:table(), term(), read | write) -> [docket_store:row()].
read(Table, Key, _) -> [docket_cases:upgraded(Row) || Row <- stored(Table, Key)].

stored(Table, Key) ->
    case get(?MODULE) of
        #{Table := {ordered_set, Tree}} ->
            case gb_trees:lookup(Key, Tree) of
                {value, Row} -> [Row];
                none -> []
            end;
        #{Table := {set, #{Key := Row}}} -> [Row];
        #{Table := {set, _}} -> []
    end.

%% @doc Writes a row.
-spec write(docket_store:table(), docket_store:row()) -> ok.
write(Table, New) ->
    Key = element(2, New),
    Row = docket_cases:fitted(New, get(?SIZE)),
    change(Table, fun(ordered_set, Tree) -> gb_trees:enter(Key, Row, Tree);
                     (set, Map) -> Map#{Key => Row}
                  end).

%% @doc Deletes the row with a key.
-spec delete(docket_store:table(), term()) -> ok.
delete(Table, Key) ->
    change(Table, fun(ordered_set, Tree) -> gb_trees:delete_any(Key, Tree);
                     (set, Map) -> maps:remove(Key, Map)
                  end).

change(Table, Fun) ->
    #{Table := {Type, Kept}} = Rows = get(?MODULE),
    _ = put(?MODULE, Rows#{Table := {Type, Fun(Type, Kept)}}),
    ok.

%% @doc Finds the greatest key before a key.
-spec before(docket_store:table(), term()) -> term() | '$end_of_table'.
before(Table, Key) ->
    #{Table := {ordered_set, Tree}} = get(?MODULE),
    case gb_trees:smaller(Key, Tree) of
        {Before, _} -> Before;
        none -> '$end_of_table'
    end.
