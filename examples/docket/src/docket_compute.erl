%% @doc Computes a picture in parallel: on all schedulers of this node and of the other nodes.
%%
%% Each worker takes the next few rows when it has sent its last ones, so a slow node gets fewer. If
%% a worker dies, for example with its node, another one does its rows again. If a node hangs, its
%% rows are late, and a worker that has nothing else to do computes them too.
%% @hidden
-module(docket_compute).

-export([rows/3, worker/3]).

-define(ROWS, 8).                       % rows of a piece of work
%% A piece is late after this time. A piece of a picture of the default size takes some 50 ms of a
%% quarter of a processor (docs/studies/cluster-compute.md).
-define(LATE_MS, 1000).

-type piece() :: {First :: non_neg_integer(), Last :: non_neg_integer()}.

%% `out' holds when each piece was given to a worker.
-record(work, {alias :: reference(), count :: pos_integer(), deadline :: docket_deadline:deadline(),
               workers :: #{reference() => {pid(), none | piece()}},
               idle = [] :: [reference()],
               left :: [piece()],
               out = #{} :: #{piece() => integer()},
               done = #{} :: #{piece() => binary()}}).

%% @doc Computes all rows of an area, on some nodes and this one. `slow': the deadline has come.
-spec rows(docket_picture:area(), [node()], docket_deadline:deadline()) ->
          {ok, binary()} | {error, slow}.
rows(Area, Nodes, Deadline) ->
    Height = docket_picture:height(Area),
    Pieces = [{First, min(First + ?ROWS, Height) - 1} || First <- lists:seq(0, Height - 1, ?ROWS)],
    Here = erlang:system_info(schedulers_online),
    %% A late message of a worker goes nowhere: this process serves more requests.
    Alias = alias(),
    Workers = maps:from_list([start(Node, Alias, Area)
                              || Node <- (Nodes -- [node()]) ++ lists:duplicate(Here, node())]),
    {Result, #work{workers = Rest}} =
        collected(#work{alias = Alias, count = length(Pieces), deadline = Deadline,
                        workers = Workers, left = Pieces}),
    _ = unalias(Alias),
    ok = forgotten(Alias),
    _ = [begin true = demonitor(Monitor, [flush]), exit(Pid, kill) end
         || {Monitor, {Pid, _}} <- maps:to_list(Rest)],
    case Result of
        {ok, Done} -> {ok, iolist_to_binary([maps:get(Piece, Done) || Piece <- Pieces])};
        {error, _} = Error -> Error
    end.

start(Node, Alias, Area) ->
    {Pid, Monitor} = spawn_monitor(Node, ?MODULE, worker, [self(), Alias, Area]),
    {Monitor, {Pid, none}}.

%% The local workers end only with this process.
collected(#work{count = Count, done = Done} = Work) when map_size(Done) =:= Count ->
    {{ok, Done}, Work};
collected(#work{alias = Alias, workers = Workers, idle = Idle, left = Pieces,
                done = Done} = Work) ->
    receive
        {Alias, Worker, Result} ->
            Done1 = case Result of
                        ready -> Done;
                        {Piece, Rows} -> Done#{Piece => Rows}
                    end,
            Free = [Monitor || {Monitor, {Pid, _}} <- maps:to_list(Workers), Pid =:= Worker],
            collected(given(Work#work{done = Done1, idle = Idle ++ Free}));
        {'DOWN', Monitor, process, _, _} when is_map_key(Monitor, Workers) ->
            {{_, Piece}, Others} = maps:take(Monitor, Workers),
            Lost = [Piece || Piece =/= none, not is_map_key(Piece, Done)],
            collected(given(Work#work{workers = Others, idle = Idle -- [Monitor],
                                      left = Lost ++ Pieces}))
    after waits(Work) ->
            case docket_deadline:left(Work#work.deadline) of
                0 -> {{error, slow}, Work};
                _ -> collected(given(Work))
            end
    end.

%% Until the deadline, or until the oldest piece that is out is late and someone could do it
waits(#work{deadline = Deadline, idle = []}) -> docket_deadline:left(Deadline);
waits(#work{deadline = Deadline} = Work) ->
    Late = [max(0, Since + ?LATE_MS - now_ms()) || {_, Since} <- waited(Work)],
    lists:min([docket_deadline:left(Deadline) | Late]).

%% The pieces that are out and not done, oldest first
waited(#work{out = Out, done = Done}) ->
    lists:keysort(2, maps:to_list(maps:without(maps:keys(Done), Out))).

%% Gives pieces to workers that have nothing to do.
given(#work{idle = []} = Work) -> Work;
given(#work{left = []} = Work) ->
    Now = now_ms(),
    case [Piece || {Piece, Since} <- waited(Work), Since + ?LATE_MS =< Now] of
        [] -> Work;
        [Piece | _] -> given(Work#work{left = [Piece]})
    end;
given(#work{alias = Alias, workers = Workers, idle = [Monitor | Idle], left = [Piece | Pieces],
            out = Out} = Work) ->
    {Worker, _} = maps:get(Monitor, Workers),
    Worker ! {Alias, Piece},
    given(Work#work{workers = Workers#{Monitor := {Worker, Piece}}, idle = Idle, left = Pieces,
                    out = Out#{Piece => now_ms()}}).

forgotten(Alias) ->
    receive {Alias, _, _} -> forgotten(Alias)
    after 0 -> ok
    end.

now_ms() -> erlang:monotonic_time(millisecond).

%% @doc Computes pieces for a process until it ends. The results go to its alias.
-spec worker(pid(), reference(), docket_picture:area()) -> no_return().
worker(For, Alias, Area) ->
    _ = monitor(process, For),
    Alias ! {Alias, self(), ready},
    work(For, Alias, Area).

work(For, Alias, Area) ->
    receive
        {Alias, {First, Last} = Piece} ->
            Alias ! {Alias, self(), {Piece, docket_picture:rows(Area, First, Last)}},
            work(For, Alias, Area);
        {'DOWN', _, process, For, _} -> exit(normal)
    end.
