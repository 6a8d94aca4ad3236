%% @doc Starts the database of this node, and restarts it after a partition.
%%
%% A node that the others have left out of their generation was cut off, or was down. It restarts
%% its database with the rows of a member (docket_mnesia_schema), and joins. It loses nothing that a
%% synchronous mode has acknowledged. Two parts that could not reach each other, and changed nothing
%% meanwhile, have the same generation: the smaller part restarts (docket_cluster:stays/3).
%% @hidden
-module(docket_mnesia_member).
-behaviour(gen_server).

-export([start_link/0, disk_failed/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-import(docket_operator, [say/1]).

-define(CALL_MS, 5000).
%% A larger database needs more time, but a node must not wait for days.
-define(MOST_DOUBLINGS, 4).
%% A node that loads its tables is in the lists of the others a moment later.
-define(LEFT_OUT_MS, 2000).
%% Mnesia looks at the queue of mnesia_tm every 10 s, and reports it if it has been too long twice
%% (`mnesia_recover:do_check_overload/1' of OTP 27 to 29). So while that goes on, a report comes
%% every 20 s.
-define(OVERLOAD_MS, 25000).
%% The rows change in one step. The process waits for its end.
-define(UPGRADE_MS, 600000).

%% `waits' is the last line about what this node waits for, `loaded' with the tables, and `ready' in
%% the generation too.
-record(state, {waits = none :: none | loaded | ready | binary(),
                check = none :: none | reference(),       % the timer of the next check
                left_out = none :: none | integer(),      % since when it gets no changes
                overload = none :: none | integer(),      % the last report of Mnesia
                loaded = own :: docket_mnesia_schema:loaded(),
                first = none :: docket_directory:name(),  % docket has locked it at its start
                home = none :: docket_directory:name(),   % the one in use
                lock = none :: docket_directory:lock(),   % of a directory that replaced that one
                limit = 0 :: non_neg_integer(),           % of an attempt to start, milliseconds
                upgrade = none :: none | term()}).        % why the last upgrade failed

%% @doc Starts the database. A node that is alone is ready when this returns.
-spec start_link() -> gen_server:start_ret().
start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], [{timeout, infinity}]).

%% @doc Leaves the others, because the log of this node lacks changes: its database restarts, and
%% takes the cases of the others. A node that is alone restarts with what its log has. The log ends
%% with a part of a change: Mnesia would append further changes, and not read them at its next
%% start.
-spec disk_failed() -> ok.
disk_failed() ->
    ?MODULE ! disk_failed,
    ok.

%% @private
-spec init([]) -> {ok, #state{}} | {stop, {shutdown, {store, term()}}}.
init([]) ->
    process_flag(trap_exit, true),
    ok = docket_mnesia_decisions:init(),
    Home = home(),
    first(docket_cluster:nodes(), #state{limit = docket_config:get(start_timeout), first = Home,
                                         home = Home}).

home() ->
    case docket_config:get(dir) of
        none -> none;
        Dir -> docket_directory:name(Dir)
    end.

first([_] = Alone, #state{limit = Limit} = State) ->
    case docket_mnesia_schema:attempt(Limit) of
        {loaded, Loaded} -> {ok, ready(Loaded, State)};
        {wait, Why} -> first_again(Alone, again_later(["this node ", Why], State));
        {give_up, Why} -> first_again(Alone, longer(again_later(["this node ", Why], State)));
        {error, Reason} -> {stop, {shutdown, {store, Reason}}}
    end;
first(_, State) ->
    self() ! attempt,
    {ok, State}.

first_again(Alone, State) -> receive attempt -> first(Alone, State) end.

%% The next attempt to start may take longer: the tables may be large, and the disk slow.
longer(#state{limit = Limit} = State) ->
    State#state{limit = min(2 * Limit, docket_config:get(start_timeout) bsl ?MOST_DOUBLINGS)}.

%% The tables are loaded.
ready(Loaded, State) ->
    {ok, _} = mnesia:subscribe(system),
    %% Its own rows are those of the service.
    _ = [ok = docket_mnesia_replica:complete() || Loaded =:= own],
    ok = docket_generation:give_back(),
    check_later(0, State#state{waits = loaded, loaded = Loaded,
                               limit = docket_config:get(start_timeout)}).

%% The timer of an earlier start means nothing any more.
check_later(Time, State) -> State#state{check = erlang:start_timer(Time, self(), check)}.

%% @private
-spec handle_call(term(), gen_server:from(), #state{}) -> {noreply, #state{}}.
handle_call(_, _, State) -> {noreply, State}.

%% @private
-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) -> {noreply, State}.

%% @private
-spec handle_info(term(), #state{}) -> {noreply, #state{}} | {stop, term(), #state{}}.
handle_info(attempt, #state{waits = Waits} = State) when Waits =:= loaded; Waits =:= ready ->
    {noreply, State};
handle_info(attempt, #state{home = Home} = State) ->
    case home() of
        Home -> attempted(State);
        _ -> elsewhere(State)
    end;
handle_info({timeout, Check, check}, #state{check = Check, waits = Waits} = State)
  when Waits =:= loaded; Waits =:= ready ->
    {noreply, checked(check_later(docket_config:get(retry), State))};
%% A database that has ended, or starts, cannot flush either. That is no fault of the disk.
handle_info(disk_failed, #state{waits = Waits} = State) when Waits =:= loaded; Waits =:= ready ->
    case docket_disk_watch:failure() of
        Failure when Failure =:= write; Failure =:= removed ->
            _ = [ok = docket_generation:leave() || [_, _ | _] <- [docket_cluster:nodes()]],
            ok = stop(),
            ok = docket_mnesia_damage:write_failed(),
            {noreply, again_later(reason(Failure), State)};
        _ -> {noreply, State}
    end;
handle_info({mnesia_system_event, {inconsistent_database, _, _}}, #state{waits = Waits} = State)
  when Waits =:= loaded; Waits =:= ready ->
    {noreply, checked(State)};
%% Mnesia ends when it cannot write, when a node parts from it while it starts, or when it cannot
%% read a file. Then the log may have acknowledged changes behind a damage.
%% While this node waits for its next attempt, the event is of a start that has ended.
handle_info({mnesia_system_event, {mnesia_fatal, Format, Values, _}}, #state{waits = Waits} = State)
  when Waits =:= loaded; Waits =:= ready ->
    ok = stop(),
    _ = [ok = docket_mnesia_damage:write_failed() || docket_disk_watch:has_failed_write()],
    {noreply, again_later(["Mnesia ends: ", io_lib:format(Format, Values)], State)};
handle_info({mnesia_system_event, {mnesia_overload, _}}, State) -> {noreply, overloaded(State)};
handle_info(_, State) -> {noreply, State}.

%% The changes of all nodes meet here, so all nodes begin fewer at a time: half as many after each
%% report.
overloaded(#state{overload = Last} = State) ->
    Now = erlang:monotonic_time(millisecond),
    ok = docket_counts:overloaded(),
    ok = docket_gate:narrow(docket_cluster:connected(), docket_store_gate, ?OVERLOAD_MS),
    _ = [say("Mnesia is overloaded on this node. Until that is over, all nodes run fewer "
             "operations at a time, and refuse more requests")
         || Last =:= none orelse Now - Last > ?OVERLOAD_MS],
    State#state{overload = Now}.

attempted(State) ->
    case docket_mnesia_schema:attempt(State#state.limit) of
        {loaded, Loaded} -> {noreply, ready(Loaded, State)};
        {wait, Why} -> {noreply, again_later(["this node ", Why], State)};
        {give_up, Why} -> {noreply, longer(again_later(["this node ", Why], State))};
        {error, {version, _} = Reason} ->
            say(docket_mnesia_schema:format_error(Reason)),
            {stop, {store, Reason}, State};
        {error, Reason} ->
            ok = stop(),
            {noreply, again_later(docket_mnesia_schema:format_error(Reason), State)}
    end.

%% Another directory has the path of the one that docket has locked and checked at its start, or
%% that one has its path again.
elsewhere(#state{lock = Former, first = First} = State) ->
    Dir = docket_config:get(dir),
    ok = docket_directory:unlock(Former),
    case home() =/= First andalso docket_directory:lock(Dir) of
        false -> moved(Dir, State#state{lock = none});
        {ok, Lock} -> moved(Dir, State#state{lock = Lock});
        {error, Reason} ->
            {noreply, again_later(docket_directory:format_error(Reason), State#state{lock = none})}
    end.

moved(Dir, State) ->
    case docket_identity:check(Dir) of
        ok -> attempted(State#state{home = home()});
        {error, Reason} -> {noreply, again_later(docket_identity:format_error(Reason), State)}
    end.

reason(write) -> "the directory has no space left, or cannot be written";
reason(removed) ->
    ["the directory ", docket_config:get(dir), " was removed or unmounted while this node ran: "
     "this node "
     | case docket_cluster:nodes() of
           [_] -> "goes on with the directory that is there now. If that is empty, it makes a new "
                      "database";
           _ -> "takes the cases of the other nodes"
       end].

again_later(Why, #state{waits = Waits} = State) ->
    State#state{waits = docket_attempt:later(Why, Waits)}.

stop() ->
    ok = docket_mnesia_decisions:stop(),
    docket_generation:give_back().

%% Compares the generation with those of the other nodes, joins it, and looks for nodes whose
%% databases are apart from this one.
checked(State) ->
    case mnesia:system_info(is_running) of
        yes ->
            ok = docket_mnesia_decisions:dump_if_due(),
            ok = docket_mnesia_decisions:sync_new_log(),
            seen(State);
        _ -> again_later("Mnesia has ended, and starts again", State)
    end.

seen(State) ->
    Others = [Node || Node <- docket_cluster:nodes() -- [node()], lists:member(Node, nodes())],
    Apart = Others -- mnesia:system_info(running_db_nodes),
    compared([{Node, docket_generation:compare(Node)} || Node <- Others], Apart, State).

%% A node that has loaded the tables and is not yet a member joins, if its database is one with
%% those of all members that it is connected to. Any other node that the members have left out
%% restarts.
compared(Relations, Apart, State) ->
    IsReady = State#state.waits =:= ready,
    case [Members || {_, {behind, Members}} <- Relations,
                     IsReady orelse Members -- Apart =/= Members] of
        [Members | _] -> restarted("is behind", Members, State);
        [] ->
            case [Node || {Node, same} <- Relations, lists:member(Node, Apart), loses(Node)] of
                [Node | _] -> restarted("was cut off", [Node], State);
                [] ->
                    Present = [Node || {Node, Relation} <- Relations, is_present(Relation)],
                    received(Present -- Apart, State)
            end
    end.

%% The other node has the same generation, or a later one that this node has not taken.
is_present(same) -> true;
is_present({behind, _}) -> true;
is_present(_) -> false.

%% A member that does not send its changes here may have more cases than this node. A node that has
%% not loaded the cases yet is none, whatever its generation says.
received(Nodes, #state{left_out = Since} = State) ->
    Now = erlang:monotonic_time(millisecond),
    case [Node || Node <- Nodes, leaves_out(Node)] of
        [] -> joined(State);
        _ when Since =:= none -> State#state{left_out = Now};
        _ when Now - Since < ?LEFT_OUT_MS -> State;
        Senders ->
            restarted("gets no changes", Senders, State)
    end.

leaves_out(Node) ->
    try docket_cluster:call(Node, docket_mnesia_replica, leaves_out, [node()], ?CALL_MS)
    catch _:_ -> false
    end.

joined(#state{waits = ready} = State) ->
    State#state{left_out = none, upgrade = upgraded(State#state.upgrade)};
joined(State) ->
    case docket_mnesia_replica:join(State#state.loaded) of
        ok ->
            say("the tables are loaded"),
            State#state{waits = ready, left_out = none};
        {differs, Node} -> restarted("missed changes while it loaded", [Node], State);
        {error, alone} -> alone(State);
        {error, disk} ->
            ok = disk_failed(),
            State;
        {error, _} -> State#state{left_out = none}
    end.

%% The first node of the list upgrades the rows when all nodes have a program that can read them. It
%% tries again at the next check.
upgraded(Before) ->
    All = docket_cluster:nodes(),
    Own = docket_cases:version(),
    IsDue = hd(All) =:= node() andalso docket_mnesia_tables:needs_upgrade()
        andalso lists:all(fun(Version) -> is_integer(Version) andalso Version >= Own end,
                          [Version || {_, Version} <- docket_cluster:multicall(
                                                        All, docket_cases, version, [],
                                                        ?CALL_MS)]),
    case IsDue andalso docket_worker:run(fun docket_mnesia_tables:upgrade/0, ?UPGRADE_MS,
                                         mnesia_tm) of
        false -> Before;
        {done, ok} ->
            say(["all rows have version ", integer_to_list(Own)]),
            none;
        Before -> Before;
        Failed ->
            say(io_lib:format("the rows cannot get version ~b yet (~0tp); this node tries "
                              "again", [Own, Failed])),
            Failed
    end.

%% Both nodes are members of the same generation, and their databases run apart.
loses(Node) ->
    Mine = mnesia:system_info(running_db_nodes),
    try {docket_cluster:call(Node, docket_mnesia_schema, report, [], ?CALL_MS),
         docket_cluster:call(Node, mnesia, system_info, [running_db_nodes], ?CALL_MS)} of
        {{running, {_, Members}}, Theirs} ->
            lists:member(Node, Members) andalso not lists:member(node(), Theirs)
                andalso not docket_cluster:stays({node(), Mine}, {Node, Theirs},
                                                 docket_cluster:nodes());
        _ -> false
    catch _:_ -> false
    end.

%% The nodes from which this one has loaded have ended. Its rows may lack changes.
alone(#state{left_out = Since} = State) ->
    Now = erlang:monotonic_time(millisecond),
    if
        Since =:= none -> State#state{left_out = Now};
        Now - Since < ?LEFT_OUT_MS -> State;
        true ->
            say("this node starts again, because nobody is there to compare its cases with"),
            anew(State)
    end.

restarted(Why, Theirs, State) ->
    say(["this node ", Why, ", and takes the cases of ", docket_config:names(Theirs)]),
    anew(State).

anew(State) ->
    ok = stop(),
    self() ! attempt,
    State#state{waits = none, left_out = none}.

%% @private
-spec terminate(term(), #state{}) -> ok.
terminate(_, _) -> docket_mnesia_decisions:stop().
