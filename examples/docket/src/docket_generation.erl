%% @doc Keeps which nodes have all acknowledged changes.
%%
%% Mnesia decides after a crash of several nodes by their last logs, and may then load an old copy.
%% So docket keeps generations (others call them views or epochs, and an offer a view change). A
%% generation is a number and its members. A change counts as made when all members of the present
%% generation have it on their disks, and confirm that the generation is still the present one. So
%% each member has all acknowledged changes.
%%
%% A node that has lost rows of its own leaves: it notes its generation without members, and takes a
%% later one, or the same again, only when it has the rows of a member. Until then this number keeps
%% it from a node that has an earlier generation.
%%
%% Members that are down leave, and nodes that have loaded the tables join: a node offers the next
%% generation to its members, first to one that was a member before. A node takes an offer only if
%% the offer follows the generation that it has, and if it sees all the members run and sends them
%% its changes. So of two offers that follow the same generation at most one is complete, and an
%% offer that is not complete loses no change: each node that has taken it has all changes. A node
%% that has loaded and compared the rows of a member takes the generation of that member, whatever
%% it had before (adopt/1): it has left its own behind with its rows.
%%
%% The members are a majority. So any majority of the nodes knows the latest generation, and a
%% start after a crash of all nodes needs no more than a majority (latest/1).
%%
%% After such a crash one node that has taken the latest generation loads its own rows, and the
%% others load from it. Two such nodes that do not see each other could both load their own. So a
%% node first asks for the grant (a lease without a time) of most nodes.
%% @hidden
-module(docket_generation).
-behaviour(gen_server).

-export([start_link/0, stored/0, current/0, is_member/1, may_change/0]).
-export([agree/1, renew/1, adopt/1, join/0, leave/0, begin_new/0, compare/1]).
-export([may_load_own/0, give_back/0, grant/1, release/1]).
-export([accept/1, order/2, latest/1, up_to_date/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-import(docket_operator, [say/1]).

-export_type([generation/0, stored/0]).

-type generation() :: {Number :: non_neg_integer(), Members :: [node()]}.
%% A generation, and the one that it follows
-type stored() :: {generation(), generation()}.

-define(NONE, {{0, []}, {0, []}}).
-define(FILE_NAME, "docket.generation").
-define(CALL_MS, 5000).
%% A forced start must have a greater number than the nodes that it leaves behind.
-define(FORCED, 1_000_000).

%% `worker' makes an offer. The callers wait for its result.
-record(state, {worker = none :: none | pid(),
                callers = [] :: [gen_server:from()],
                %% The node that may load its own rows, as far as this node is asked
                granted = none :: none | node()}).

%% @doc Starts the process that stores the generation.
-spec start_link() -> gen_server:start_ret().
start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @doc Returns the present generation with the one that it follows. Other nodes ask this.
-spec stored() -> stored().
stored() -> persistent_term:get(?MODULE, ?NONE).

%% @doc Returns the present generation.
-spec current() -> generation().
current() -> element(1, stored()).

%% @doc Tells whether a node is a member of the present generation.
-spec is_member(node()) -> boolean().
is_member(Node) -> lists:member(Node, element(2, current())).

%% @doc Tells whether this node is a member, and the members that run are most of all nodes.
-spec may_change() -> boolean().
may_change() ->
    is_member(node()) andalso docket_cluster:is_majority(running_members()).

running_members() -> running(element(2, current())).

running(Nodes) ->
    Running = running(),
    [Node || Node <- Nodes, lists:member(Node, Running)].

running() ->
    try mnesia:system_info(running_db_nodes)
    catch exit:_ -> []
    end.

%% @doc Makes sure that all members run. Those that do not run leave, if most nodes stay.
%% `not_ready' is also the error if that is not done at the deadline.
-spec agree(docket_deadline:deadline()) -> ok | {error, minority | not_ready}.
agree(Deadline) ->
    {_, Members} = current(),
    case {may_change(), Members -- running()} of
        {true, []} -> ok;
        {true, [_ | _]} -> offered(shrink, Deadline);
        {false, _} ->
            {error, case is_member(node()) of
                        true -> minority;
                        false -> not_ready
                    end}
    end.

%% @doc Offers the present generation to its members again. An offer may have ended halfway.
-spec renew(docket_deadline:deadline()) -> ok | {error, minority | not_ready}.
renew(Deadline) ->
    case agree(Deadline) of
        ok -> offered(again, Deadline);
        {error, _} = Error -> Error
    end.

%% @doc Takes a later generation of which this node is a member, without those between. The rows of
%% this node are those of a node that has taken it, and the caller has locked them.
-spec adopt(stored()) -> ok | {error, file:posix() | badarg | terminated}.
adopt(Stored) -> gen_server:call(?MODULE, {adopt, Stored}, infinity).

%% @doc Makes this node, which has loaded the tables, a member. A caller with rows of others has
%% locked the tables, and when it ends, its offers end too.
-spec join() -> ok | {error, minority | not_ready}.
join() -> offer(grow).

%% The offer goes on after the deadline, for the others that wait for it.
offered(How, Deadline) ->
    try gen_server:call(?MODULE, {offer, How}, docket_deadline:left(Deadline))
    catch exit:_ -> {error, not_ready}
    end.

%% @doc Leaves the generation, because the disk of this node lacks changes: it must not count as a
%% member that has all of them. It joins again when it has loaded the tables.
-spec leave() -> ok.
leave() -> gen_server:call(?MODULE, leave, infinity).

%% @doc Begins with this node as the only member: with a new database, or when an operator says that
%% the others have nothing later.
-spec begin_new() -> ok | {error, file:posix() | badarg | terminated}.
begin_new() ->
    {Number, _} = Before = current(),
    Next = case Number of 0 -> 1; _ -> Number + ?FORCED end,
    gen_server:call(?MODULE, {store, {{Next, [node()]}, Before}}, infinity).

%% @doc Asks most nodes whether this node may load its own rows. Without a majority it gives the
%% grants back.
-spec may_load_own() -> boolean().
may_load_own() ->
    Granted = [Node || {Node, {ok, true}} <- asked(grant)],
    case docket_cluster:is_majority(Granted) of
        true -> true;
        false ->
            ok = give_back(),
            false
    end.

%% @doc Gives back the grants of all nodes.
-spec give_back() -> ok.
give_back() ->
    _ = asked(release),
    ok.

asked(Function) ->
    Nodes = [Node || Node <- docket_cluster:nodes(), lists:member(Node, [node() | nodes()])],
    lists:zip(Nodes, docket_cluster:multicall(Nodes, ?MODULE, Function, [node()], ?CALL_MS)).

%% @doc Grants a node that it may load its own rows, if no other node has the grant. The end of the
%% connection to that node also ends the grant. Other nodes ask this.
-spec grant(node()) -> boolean().
grant(Node) -> gen_server:call(?MODULE, {grant, Node}, ?CALL_MS).

%% @doc Ends the grant of a node.
-spec release(node()) -> ok.
release(Node) -> gen_server:call(?MODULE, {release, Node}, ?CALL_MS).

%% @doc Compares the generation with that of another node, and takes that one if it follows.
-spec compare(node()) -> same | mine | {behind, Members :: [node()]} | unknown.
compare(Node) ->
    case stored_of(Node) of
        {ok, {{_, Members}, _} = Theirs} ->
            case relation({node(), current()}, {Node, element(1, Theirs)}) of
                theirs when Members =:= [] -> unknown;
                theirs ->
                    case lists:member(node(), Members) andalso accept(Theirs) of
                        ok -> same;
                        false -> {behind, Members};
                        %% This node has not taken one between.
                        {error, other_generation} -> {behind, Members};
                        {error, _} -> unknown
                    end;
                Other -> Other
            end;
        unknown -> unknown
    end.

stored_of(Node) ->
    try {ok, docket_cluster:call(Node, ?MODULE, stored, [], ?CALL_MS)}
    catch _:_ -> unknown
    end.

%% Which of two nodes has the later generation. An offer is not complete while one of its members
%% has another generation.
relation({_, Same}, {_, Same}) -> same;
relation({_, {N, []}}, {_, {N, _}}) -> theirs;
relation({_, {N, _}}, {_, {N, []}}) -> mine;
relation({_, {N, _}}, {_, {M, _}}) when M > N -> theirs;
relation({_, {N, Members}}, {Other, {M, _}}) when N > M ->
    case lists:member(Other, Members) of
        true -> same;
        false -> mine
    end;
relation({Node, {_, Mine}}, {Other, {_, Theirs}}) ->
    case {lists:member(Other, Mine), lists:member(Node, Theirs)} of
        {true, false} -> theirs;
        {false, true} -> mine;
        _ -> unknown
    end.

%% @doc Tells whether a node has all changes, as far as the generations of several nodes tell. A
%% node that has loaded the tables and has not joined may miss later changes.
-spec up_to_date({node(), generation()}, [{node(), generation()}]) -> boolean().
up_to_date({Node, {_, Own}} = Known, All) ->
    lists:member(Node, Own)
        andalso not lists:any(fun({_, {_, Members}} = Other) ->
                                      relation(Known, Other) =:= theirs
                                          andalso not lists:member(Node, Members)
                              end, All).

%% @doc Finds the latest generation among those of several nodes, if no missing node can have a
%% later one with changes.
-spec latest([{node(), generation()}]) -> {ok, generation()} | unknown.
latest(Known) ->
    Voters = [Each || {_, {Number, _}} = Each <- Known, Number > 0],
    case docket_cluster:is_majority(Voters) of
        false -> unknown;
        true ->
            Most = lists:max([Number || {_, {Number, _}} <- Voters]),
            Candidates = lists:usort([Generation || {_, {Number, [_ | _]} = Generation} <- Voters,
                                                    Number =:= Most]),
            Complete = [Generation || {_, Members} = Generation <- Candidates,
                                      not lists:any(fun({Node, {Number, _} = Other}) ->
                                                            lists:member(Node, Members)
                                                                andalso Other =/= Generation
                                                                andalso Other =/= {Number, []}
                                                                andalso Number >= Most
                                                    end, Voters)],
            case Complete of
                [One] -> {ok, One};
                _ -> unknown
            end
    end.

%% @doc Returns in which order the members get an offer: first one of the other nodes that run and
%% were members before. From then on the members cannot make a change without the new ones, so a new
%% member that takes the offer has all changes.
-spec order(stored(), Others :: [node()]) -> [node()].
order({{_, Members}, {_, Before}}, Others) ->
    {Old, New} = lists:partition(fun(Node) -> lists:member(Node, Before) end, Members),
    First = lists:sublist([Node || Node <- Old, lists:member(Node, Others)], 1),
    First ++ New ++ (Old -- First).

%% @doc Takes the next generation. Other nodes offer it. `no_answer': the disk may be slow, and the
%% generation may be taken later.
-spec accept(stored()) ->
          ok | {error, other_generation | apart | no_answer | file:posix() | badarg | terminated}.
accept({{_, Members}, _} = Offer) ->
    Apart = (Members -- running()) ++ (Members -- docket_mnesia_replica:receivers()),
    case docket_mnesia_replica:is_complete() andalso Apart of
        [] ->
            try gen_server:call(?MODULE, {accept, Offer}, ?CALL_MS)
            catch exit:_ -> {error, no_answer}
            end;
        _ -> {error, apart}
    end.

%% @private
-spec init([]) -> {ok, #state{}} | {stop, {shutdown, {store, docket_mnesia_damage:error()}}}.
init([]) ->
    case kept(file()) of
        {ok, Stored} ->
            ok = persistent_term:put(?MODULE, Stored),
            ok = net_kernel:monitor_nodes(true),
            {ok, #state{}};
        {error, Reason} -> {stop, {shutdown, {store, Reason}}}
    end.

%% A file that cannot be read may be a sound one, and stays.
kept(none) -> {ok, ?NONE};
kept(File) ->
    case docket_directory:read(File) of
        {ok, [{{N, [_ | _]}, {M, _}} = Term]} when N > M -> {ok, Term};
        {ok, [{{N, []}, {N, [_ | _]}} = Term]} -> {ok, Term};
        {error, enoent} -> {ok, ?NONE};
        {error, Reason} -> {error, {files, {unreadable, {File, Reason}}}};
        _ ->
            say(["the file ", File, " is damaged" | without()]),
            {ok, ?NONE}
    end.

without() ->
    case docket_cluster:nodes() of
        [_] -> "; this node writes it anew";
        _ -> ", so this node does not know whether it has all changes, and waits for the others"
    end.

file() ->
    case docket_config:get(dir) of
        none -> none;
        Dir -> filename:join(Dir, ?FILE_NAME)
    end.

%% @private
-spec handle_call(term(), gen_server:from(), #state{}) ->
          {reply, term(), #state{}} | {noreply, #state{}}.
handle_call({store, Stored}, _, State) -> {reply, store(Stored), State};
handle_call(leave, _, State) ->
    ok = left(stored()),
    {reply, ok, State};
handle_call({adopt, {{Number, Members}, _} = Stored}, _, State) ->
    {Known, _} = current(),
    Reply = case Number > Known andalso lists:member(node(), Members) of
                true -> store(Stored);
                false -> ok
            end,
    {reply, Reply, State};
handle_call({accept, {{Number, _} = Next, {_, Before} = Base} = Offer}, _, State) ->
    {Current, Former} = stored(),
    %% A node that joins, or has lost its directory, is bound by no generation before.
    IsFree = case Current of
                 {0, _} -> true;
                 {Known, []} -> Known < Number orelse Next =:= Former;
                 {Known, _} -> not lists:member(node(), Before) andalso Known < Number
             end,
    Reply = if
                Current =:= Next -> ok;
                Current =:= Base; IsFree -> store(Offer);
                true -> {error, other_generation}
            end,
    {reply, Reply, State};
handle_call({grant, Node}, _, #state{granted = Granted} = State)
  when Granted =:= none; Granted =:= Node ->
    {reply, true, State#state{granted = Node}};
handle_call({grant, _}, _, State) -> {reply, false, State};
handle_call({release, Node}, _, #state{granted = Node} = State) ->
    {reply, ok, State#state{granted = none}};
handle_call({release, _}, _, State) -> {reply, ok, State};
handle_call({offer, How}, From, #state{worker = none, callers = []} = State) ->
    {Worker, _} = spawn_monitor(fun() -> exit({offered, offer(How)}) end),
    {noreply, State#state{worker = Worker, callers = [From]}};
handle_call({offer, _}, From, #state{callers = Callers} = State) ->
    {noreply, State#state{callers = [From | Callers]}}.

%% @private
-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_, State) -> {noreply, State}.

%% @private
-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({'DOWN', _, process, Worker, Reason}, #state{worker = Worker} = State) ->
    Reply = case Reason of
                {offered, Result} -> Result;
                _ -> {error, minority}
            end,
    _ = [gen_server:reply(Caller, Reply) || Caller <- State#state.callers],
    {noreply, State#state{worker = none, callers = []}};
handle_info({nodedown, Node}, #state{granted = Node} = State) ->
    {noreply, State#state{granted = none}};
handle_info(_, State) -> {noreply, State}.

left({{0, _}, _}) -> ok;
left({{_, []}, _}) -> ok;
left({{Number, _} = Generation, _}) ->
    Stored = {{Number, []}, Generation},
    case store(Stored) of
        ok -> ok;
        %% A full disk still lets a file go. A node without the file counts as one that has none.
        {error, _} ->
            _ = file:delete(file()),
            persistent_term:put(?MODULE, Stored)
    end.

%% The file is on the disk before anyone learns the generation.
store(Stored) ->
    Written = case file() of
                  none -> ok;
                  File -> docket_directory:write(File, io_lib:format("~0p.~n", [Stored]))
              end,
    case Written of
        ok ->
            ok = told(current(), Stored),
            persistent_term:put(?MODULE, Stored);
        {error, _} = Error -> Error
    end.

%% Another node has begun with its own cases. This node has loaded those.
told({Known, _}, {{Number, [_, _ | _]}, _}) when Known > 0, Number - Known >= ?FORCED ->
    say("this node has taken the cases of a node that was started with DOCKET_FORCE=true: "
        "changes that only this node had are lost");
told(_, _) -> ok.

%% Offers

offer(shrink) ->
    {{Number, _} = Base, _} = stored(),
    Left = running_members(),
    case docket_cluster:is_majority(Left) of
        true -> offer({{Number + 1, ordered(Left)}, Base});
        false -> {error, minority}
    end;
offer(again) -> offer(stored());
offer(grow) ->
    %% The members know the present generation.
    Known = [Stored || {ok, Stored} <- docket_cluster:multicall(running(), ?MODULE, stored, [],
                                                                ?CALL_MS)],
    case lists:max([?NONE | Known]) of
        {{0, _}, _} -> {error, not_ready};
        {{Number, Members} = Base, _} = Latest ->
            Left = running(Members),
            %% Members that are down leave, if most nodes stay: each member has all changes.
            MayLeave = Left =:= Members orelse docket_cluster:is_majority([node() | Left]),
            case lists:member(node(), Members) of
                true -> offer_again(Latest);
                false when MayLeave -> offer({{Number + 1, ordered([node() | Left])}, Base});
                false -> {error, minority}
            end
    end;
offer(Offer) -> offer_to(order(Offer, running() -- [node()]), Offer).

%% A member may have ended before it took the offer.
offer_again({{_, Members}, _} = Latest) ->
    case offer(Latest) of
        ok -> ok;
        {error, _} = Error ->
            case stored() =:= Latest andalso Members -- running() of
                [_ | _] -> offer(shrink);
                _ -> Error
            end
    end.

ordered(Nodes) -> [Node || Node <- docket_cluster:nodes(), lists:member(Node, Nodes)].

offer_to([], _) -> ok;
offer_to([Node | Nodes], Offer) ->
    try docket_cluster:call(Node, ?MODULE, accept, [Offer], ?CALL_MS) of
        ok -> offer_to(Nodes, Offer);
        {error, _} -> {error, minority}
    catch _:_ -> {error, minority}
    end.
