%% @doc Makes this node a member of the Raft group of all nodes.
%%
%% The members are the nodes of the setting `nodes'. The group starts when all of them are there and
%% none was a member before. A node with its directory goes on as the member that it was. A node
%% that has lost its directory must not go on so: it has forgotten its votes, and changes that it
%% has helped to acknowledge. The others remove that member, and add a new one that starts empty.
%% @hidden
-module(docket_ra_member).
-behaviour(gen_server).

%% Ra need not be there.
-ignore_xref([{ra, process_command, 3}, {ra, restart_server, 2}, {ra, start_server, 2},
              {ra, remove_member, 3}, {ra, add_member, 3}, {ra, trigger_election, 1},
              {ra, consistent_query, 3}, {ra, local_query, 3}, {ra, new_uid, 1},
              {ra, force_delete_server, 2}, {ra_system, start, 1}, {ra_system, derive_names, 1},
              {ra_directory, uid_of, 2}, {ra_log_meta, fetch, 4}]).

-export([start_link/0, id/0, is_loaded/0, has_files/0, history/0, format_error/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-import(docket_operator, [say/1]).

-export_type([error/0]).

%% `no_leader': the member has not come to lead within the setting `start_timeout'.
-type error() :: {ra, Reason :: term()} | {no_leader, []} | {files, docket_ra_files:error()}
               | {identity, docket_identity:error()}.

%% The name of Ra's system, which owns the files, and that of the member's process
-define(SYSTEM, docket).
-define(SERVER, docket_ra).
%% The log of a node is in memory too until it has this size.
-define(LOG_BYTES, 8_000_000).
-define(CALL_MS, 5000).
-define(ASK_MS, 1000).
%% Between two attempts of a node that is alone
-define(PAUSE_MS, 20).
%% In Ra 2.2.0 a member does not answer to a snapshot that it has already. The leader then sends it
%% nothing else for SNAPSHOT_MS. The member asks again after BEHIND_MS, or asks for votes that it
%% does not get. This may repeat without end, so after STUCK_MS the node becomes a new member.
-define(SNAPSHOT_MS, 10000).
-define(BEHIND_MS, 2000).
-define(STUCK_MS, 20000).

%% `waits' is the last line about what this node waits for. `behind' is set while the member lacks
%% changes or knows no leader: how many changes it has, and since when it has not got more. `uid' is
%% the name of the member in Ra's files, once it is loaded.
-record(state, {waits = none :: none | loaded | binary(),
                behind = none :: none | {non_neg_integer(), Since :: integer()},
                home :: docket_directory:name(),
                uid = none :: none | binary()}).

%% @doc Starts the member. A node that is alone is ready when this returns.
-spec start_link() -> gen_server:start_ret().
start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], [{timeout, infinity}]).

%% @doc Returns Ra's name of this node's member.
-spec id() -> {atom(), node()}.
id() -> {?SERVER, node()}.

%% @doc Tells whether this node has got the changes that were acknowledged before it started.
-spec is_loaded() -> boolean().
is_loaded() -> persistent_term:get(?MODULE, false) =/= false.

%% @doc Tells whether the directory still has the files of the member, which is loaded.
-spec has_files() -> boolean().
has_files() ->
    case persistent_term:get(?MODULE, false) of
        false -> false;
        Uid -> docket_ra_files:has(docket_config:get(dir), Uid)
    end.

%% @doc Tells whether this node has ever voted, or taken part in a change. Other nodes ask this.
-spec history() -> some | none.
history() ->
    case ra_directory:uid_of(?SYSTEM, ?SERVER) of
        undefined -> none;
        Uid ->
            case ra_log_meta:fetch(name(log_meta), Uid, current_term, 0) of
                0 -> none;
                _ -> some
            end
    end.

name(Key) -> maps:get(Key, ra_system:derive_names(?SYSTEM)).

%% @private
-spec init([]) -> {ok, #state{}} | {stop, {shutdown, {store, error()}}}.
init([]) ->
    process_flag(trap_exit, true),
    self() ! check,
    first(docket_cluster:nodes(), #state{home = docket_directory:name(docket_config:get(dir))}).

first([_], State) -> first_alone(now_ms() + docket_config:get(start_timeout), State);
first(_, State) ->
    self() ! attempt,
    {ok, State}.

first_alone(Until, State) ->
    case {attempt(), now_ms() > Until} of
        {ok, _} -> {ok, loaded(State)};
        {{error, Reason}, _} -> {stop, {shutdown, {store, Reason}}};
        {_, false} ->
            receive after ?PAUSE_MS -> ok end,
            first_alone(Until, State);
        {_, true} ->
            ok = stop(),
            {stop, {shutdown, {store, {no_leader, []}}}}
    end.

now_ms() -> erlang:monotonic_time(millisecond).

loaded(State) ->
    _ = monitor(process, ?SERVER),
    Uid = ra_directory:uid_of(?SYSTEM, ?SERVER),
    ok = persistent_term:put(?MODULE, Uid),
    State#state{waits = loaded, behind = none, uid = Uid}.

%% @private
-spec handle_call(term(), gen_server:from(), #state{}) -> {noreply, #state{}}.
handle_call(_, _, State) -> {noreply, State}.

%% @private
-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) -> {noreply, State}.

%% @private
-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info(attempt, #state{waits = loaded} = State) -> {noreply, State};
handle_info(attempt, State) ->
    case is_home(State) andalso attempt() of
        ok ->
            say("the cases are loaded"),
            {noreply, loaded(State)};
        false -> {noreply, gone(State)};
        {behind, Count} ->
            {noreply, waiting("this node loads the changes of the others", behind(Count, State))};
        {no_leader, Count} ->
            {noreply, waiting("this node waits until most nodes have agreed on a leader",
                              behind(Count, State))};
        {wait, Why} -> {noreply, waiting(["this node ", Why], State#state{behind = none})};
        %% The cause may pass, such as a full disk.
        {error, Reason} -> {noreply, waiting(format_error(Reason), State)}
    end;
handle_info(check, #state{waits = Waits} = State) ->
    _ = erlang:send_after(docket_config:get(retry), self(), check),
    case Waits =/= loaded orelse is_home(State) of
        true -> {noreply, State};
        false -> {noreply, gone(State)}
    end;
%% It ends when it cannot write, for example.
handle_info({'DOWN', _, process, _, _}, #state{waits = loaded} = State) ->
    say("the member of the Raft group has ended; it starts again"),
    ok = persistent_term:put(?MODULE, false),
    self() ! attempt,
    {noreply, State#state{waits = none}};
handle_info(_, State) -> {noreply, State}.

%% Another directory at the same path does not have the member.
is_home(#state{home = Home, uid = Uid}) ->
    Dir = docket_config:get(dir),
    docket_directory:name(Dir) =:= Home andalso (Uid =:= none orelse docket_ra_files:has(Dir, Uid)).

%% The member no longer counts as one that has the changes on its disk.
gone(State) ->
    ok = persistent_term:put(?MODULE, false),
    ok = stop(),
    waiting(["the directory ", docket_config:get(dir), " was removed or unmounted while this node "
             "ran, so this node takes no part in changes: put the directory back, or start this "
             "node again, ",
             case docket_cluster:nodes() of
                 [_] -> "without its cases";
                 _ -> "with an empty directory and while most of the other nodes run: it then "
                          "takes their cases"
             end], State).

waiting(Why, #state{waits = Waits} = State) ->
    State#state{waits = docket_attempt:later(Why, Waits)}.

%% @private
-spec terminate(term(), #state{}) -> ok.
terminate(_, _) ->
    ok = persistent_term:put(?MODULE, false),
    stop().

%% While the whole node stops, OTP stops Ra too, and answers no request for it.
stop() ->
    _ = [application:stop(ra) || element(1, init:get_status()) =/= stopping],
    ok.

behind(Count, #state{behind = {Count, Since}} = State) ->
    case {now_ms() - Since > ?STUCK_MS, ets:lookup(ra_state, ?SERVER)} of
        {true, [{_, Doing}]}
          when Doing =:= follower; Doing =:= await_condition; Doing =:= pre_vote ->
            left([Node || {Node, some} <- others()], State);
        _ -> State
    end;
behind(Count, State) -> State#state{behind = {Count, now_ms()}}.

%% The next attempt finds a node without a member.
left([_, _ | _] = Members, State) ->
    say("this node gets no changes from the others, and becomes a new member"),
    _ = docket_attempt:steps([fun() -> removed(Members) end,
                              fun() -> docket_ra_files:forget(docket_config:get(dir)) end,
                              fun() -> ra:force_delete_server(?SYSTEM, id()) end]),
    State#state{behind = none, uid = none};
left(_, State) -> State.

%% Tries to take part in the group. `wait' says what must happen first, `behind' and `no_leader' how
%% many changes this node has. Ra's processes and tables may be gone at any time. After a fault Ra
%% starts anew.
attempt() ->
    try docket_attempt:steps([fun files/0, fun system/0, fun member/0, fun elected/0, fun voted/0,
                              fun noted/0, fun current/0, fun settled/0, fun voted/0]) of
        {error, _} = Error ->
            ok = stop(),
            Error;
        Other -> Other
    catch
        Class:Reason:Stack ->
            ok = stop(),
            {error, {ra, {Class, Reason, lists:sublist(Stack, 1)}}}
    end.

%% While Ra runs, its files are open.
files() ->
    case whereis(ra_sup) of
        undefined -> of_files(docket_ra_files:check(docket_config:get(dir), ?SERVER));
        _ -> ok
    end.

%% A member without an election has no vote, and no change either. The first election may end while
%% this node waits, or loads the changes of the others.
voted() ->
    case history() of
        some ->
            Uid = ra_directory:uid_of(?SYSTEM, ?SERVER),
            of_files(docket_ra_files:note_voted(docket_config:get(dir), Uid));
        none -> ok
    end.

of_files({error, Reason}) -> {error, {files, Reason}};
of_files(ok) -> ok.

system() ->
    Dir = filename:join(docket_config:get(dir), "ra"),
    case application:ensure_all_started(ra) of
        {ok, _} ->
            done(ra_system:start(#{name => ?SYSTEM, names => ra_system:derive_names(?SYSTEM),
                                   data_dir => Dir, wal_data_dir => Dir,
                                   wal_max_size_bytes => ?LOG_BYTES}));
        {error, Reason} -> {error, {ra, Reason}}
    end.

noted() ->
    case docket_identity:note() of
        ok -> ok;
        {error, Reason} -> {error, {identity, Reason}}
    end.

done(ok) -> ok;
done({ok, _}) -> ok;
done({error, {already_started, _}}) -> ok;
done({error, Reason}) -> {error, {ra, Reason}}.

member() ->
    case {whereis(?SERVER), ra_directory:uid_of(?SYSTEM, ?SERVER)} of
        {undefined, undefined} -> fresh(others());
        {undefined, _} -> done(ra:restart_server(?SYSTEM, id()));
        {_, _} -> ok
    end.

others() -> [{Node, asked(Node)} || Node <- docket_cluster:nodes(), Node =/= node()].

asked(Node) ->
    try docket_cluster:call(Node, ?MODULE, history, [], ?CALL_MS)
    catch _:_ -> unknown
    end.

fresh(Others) ->
    case {[Node || {Node, some} <- Others], [Node || {Node, unknown} <- Others]} of
        {[], []} -> start();
        {[], Missing} ->
            {wait, ["has no cases, and waits for ", docket_config:names(Missing), " to run"]};
        %% A change needs both of two nodes, so the other one has all.
        {[_], []} when length(Others) =:= 1 -> start();
        {Members, _} ->
            case removed(Members) of
                ok -> docket_attempt:steps([fun() -> added(Members) end, fun start/0]);
                Wait -> Wait
            end
    end.

removed(Members) ->
    case ra:remove_member(servers(Members), id(), ?CALL_MS) of
        {ok, _, _} -> ok;
        Other -> refused(Other, not_member)
    end.

added(Members) ->
    case ra:add_member(servers(Members), id(), ?CALL_MS) of
        {ok, _, _} -> ok;
        Other -> refused(Other, already_member)
    end.

servers(Nodes) -> [{?SERVER, Node} || Node <- Nodes].

%% With several members to ask, Ra gives the reasons of all.
refused({error, Fine}, Fine) -> ok;
refused({error, {no_more_servers_to_try, Errors}}, Fine) ->
    case lists:member({error, Fine}, Errors) of
        true -> ok;
        false -> refused(other, Fine)
    end;
refused(_, _) -> {wait, "has no cases, and waits until most of the others let it join"}.

start() ->
    %% Ra keeps entries of former members in its files, so each member has a name of its own there.
    Uid = ra:new_uid(<<"docket">>),
    Config = #{id => id(), uid => Uid, cluster_name => ?SERVER,
               %% docket_ra_machine decides when to make a snapshot.
               log_init_args => #{uid => Uid, snapshot_interval => 1},
               initial_members => servers(docket_cluster:nodes()),
               install_snap_rpc_timeout => ?SNAPSHOT_MS, await_condition_timeout => ?BEHIND_MS,
               machine => {module, docket_ra_machine, #{}}},
    case done(ra:start_server(?SYSTEM, Config)) of
        %% Ra saves the name of the member half a second later. Without it the log is lost.
        ok ->
            ok = dets:sync(name(directory_rev)),
            of_files(docket_ra_files:note_started(docket_config:get(dir), Uid));
        Error -> Error
    end.

%% A new member does not call for an election by itself, and one that was added may be forgotten
%% when the leader changes at that moment.
elected() ->
    case history() of
        some -> ok;
        none ->
            case [Node || {Node, some} <- others()] of
                [_, _ | _] = Members -> added(Members);
                [Member] -> led(Member);
                [] -> ra:trigger_election(id())
            end
    end.

%% Of two nodes, only the one that has the changes can lead. In Ra 2.2.0, a leader notices that the
%% other member has started anew only when it sends a change. A follower whose leader is gone calls
%% for one election, and not for another one if nobody could answer.
led(Node) ->
    Member = {?SERVER, Node},
    case docket_cluster:call(Node, ets, lookup, [ra_state, ?SERVER], ?CALL_MS) of
        [{_, follower}] -> ra:trigger_election(Member);
        [{_, leader}] ->
            _ = ra:process_command(Member, snapshot, ?ASK_MS),
            ok;
        _ -> ok
    end.

current() ->
    Count = {docket_ra_machine, count, []},
    case {ra:consistent_query(id(), Count, ?ASK_MS), ra:local_query(id(), Count, ?ASK_MS)} of
        {{ok, All, _}, {ok, {_, Own}, _}} when Own >= All -> ok;
        {{ok, _, _}, {ok, {_, Own}, _}} -> {behind, Own};
        {_, {ok, {_, Own}, _}} -> {no_leader, Own};
        {_, _} -> {wait, "waits for its member of the Raft group"}
    end.

%% When Ra 2.2.0 applies the change of a member again after a restart, the leader believes that the
%% others have nothing. It offers them its snapshot, and some get stuck (SNAPSHOT_MS). A snapshot
%% takes such changes out of the log.
settled() ->
    case length(docket_cluster:nodes()) > 1
        andalso ra:process_command(id(), snapshot, ?CALL_MS) of
        false -> ok;
        {ok, ok, _} -> ok;
        _ -> {wait, "waits until most nodes have its snapshot"}
    end.

%% @doc Formats the reason why the member did not start.
-spec format_error(error()) -> unicode:chardata().
format_error({files, Reason}) ->
    docket_ra_files:format_error(Reason, length(docket_cluster:nodes()));
format_error({identity, Reason}) -> docket_identity:format_error(Reason);
format_error({no_leader, _}) ->
    ["Ra has not loaded its files in ", docket_config:get(dir), " within ",
     integer_to_list(docket_config:get(start_timeout)), " ms: if there is much to load, give it "
     "more time with DOCKET_START_TIMEOUT. If not, put back a copy of the whole directory"];
format_error({ra, Reason}) ->
    ["Ra does not start with its files in ", docket_config:get(dir),
     io_lib:format(" (~0tP)", [cause(Reason), 20]),
     ": make room there, and check that this user may write them. If they are damaged, ",
     case docket_cluster:nodes() of
         [_] -> "put back a copy of the whole directory";
         _ -> "empty the directory, and start this node again while most of the other nodes run"
     end].

%% The reason inside of those of the supervisors, without the stack
cause({shutdown, {failed_to_start_child, _, Reason}}) -> cause(Reason);
cause({Reason, Child}) when element(1, Child) =:= child -> cause(Reason);
cause({Reason, [{_, _, _, _} | _]}) -> cause(Reason);
cause(Reason) -> Reason.
