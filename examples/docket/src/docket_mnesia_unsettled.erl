%% @doc Remembers which rows have a change that may not be durable on all members yet.
%%
%% Mnesia shows a change before it is on any disk, and a crash of all nodes may undo it. So all
%% members note a change before Mnesia makes it, and the node that makes it removes the notes when
%% all disks have it. A reader who finds a note waits for the disks too (docket_store_mnesia), so
%% nobody sees what may still be undone. A later flush removes the notes of changes that were never
%% finished.
%% @hidden
-module(docket_mnesia_unsettled).
-behaviour(gen_server).

-export([start_link/0, is_needed/0, notes/2, add/1, add_all/0, settle/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([note/0]).

-type key() :: {docket_store:table(), Key :: term()} | all.
%% A key with a change, and a name of that change
-type note() :: {key(), reference()}.

%% A change that was begun earlier has come to its end, even if it waited for a node that was cut
%% off: that takes 75 s with the default of net_ticktime.
-define(OLD_MS, 90000).

%% @doc Starts the process that keeps the notes.
-spec start_link() -> gen_server:start_ret().
start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @doc Tells whether this service keeps notes. It does in the mode sync_transaction, with a
%% directory.
-spec is_needed() -> boolean().
is_needed() ->
    docket_config:get(mode) =:= sync_transaction andalso docket_config:get(dir) =/= none.

%% @doc Finds the notes about a row.
-spec notes(docket_store:table(), term()) -> [note()].
notes(Table, Key) -> ets:lookup(?MODULE, all) ++ ets:lookup(?MODULE, {Table, Key}).

%% @doc Adds notes. An earlier note about the same row goes: once the later change is on the disks,
%% the earlier one is there too.
-spec add([note()]) -> ok.
add(Notes) ->
    true = ets:insert(?MODULE, Notes),
    ok.

%% @doc Adds a note about all rows, because they load.
-spec add_all() -> ok.
add_all() -> add([{all, make_ref()} || is_needed()]).

%% @doc Removes notes, whose changes are on the disks.
-spec settle([note()]) -> ok.
settle(Notes) -> lists:foreach(fun(Note) -> ets:delete_object(?MODULE, Note) end, Notes).

%% @private
-spec init([]) -> {ok, Old :: [note()]}.
init([]) ->
    _ = ets:new(?MODULE, [named_table, public, {read_concurrency, true},
                          {write_concurrency, true}]),
    %% An earlier process may have lost its notes.
    ok = add_all(),
    {ok, later([])}.

later(Notes) ->
    _ = erlang:send_after(?OLD_MS, self(), old),
    Notes.

%% @private
-spec handle_call(term(), gen_server:from(), [note()]) -> {noreply, [note()]}.
handle_call(_, _, Notes) -> {noreply, Notes}.

%% @private
-spec handle_cast(term(), [note()]) -> {noreply, [note()]}.
handle_cast(_, Notes) -> {noreply, Notes}.

%% @private
-spec handle_info(term(), [note()]) -> {noreply, [note()]}.
handle_info(old, Before) ->
    Now = ets:tab2list(?MODULE),
    Known = maps:from_keys(Now, []),
    Old = [Note || Note <- Before, is_map_key(Note, Known)],
    _ = [ok = settle(Old) || Old =/= [], docket_disk:sync(docket_deadline:new()) =:= ok],
    {noreply, later(Now)};
handle_info(_, Notes) -> {noreply, Notes}.
