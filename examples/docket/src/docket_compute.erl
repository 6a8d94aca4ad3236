%% @doc Computes a picture in parallel: on all schedulers of this node and of the other nodes.
%%
%% Each worker takes the next few rows when it has sent its last ones, so a slow node gets fewer. If
%% a worker dies, for example with its node, another one does its rows again.
%% @hidden
-module(docket_compute).

-export([rows/1, worker/2]).

-define(ROWS, 8).                       % rows of a piece of work

%% @doc Computes all rows of an area.
-spec rows(docket_picture:area()) -> binary().
rows(Area) ->
    Height = docket_picture:height(Area),
    Pieces = [{First, min(First + ?ROWS, Height) - 1} || First <- lists:seq(0, Height - 1, ?ROWS)],
    Here = erlang:system_info(schedulers_online),
    Workers = [start(Node, Area) || Node <- nodes()] ++ [start(node(), Area)
                                                         || _ <- lists:seq(1, Here)],
    Done = collect(Pieces, maps:from_list(Workers), #{}),
    iolist_to_binary([maps:get(Piece, Done) || Piece <- Pieces]).

start(Node, Area) ->
    {Pid, Monitor} = spawn_monitor(Node, ?MODULE, worker, [self(), Area]),
    {Monitor, {Pid, none}}.

%% `Workers' holds the piece that each worker computes. The local workers end only with this
%% process.
collect([], Workers, Done) ->
    case [Piece || {_, Piece} <- maps:values(Workers), Piece =/= none] of
        [] ->
            [begin true = demonitor(Monitor, [flush]), exit(Pid, kill) end
             || {Monitor, {Pid, _}} <- maps:to_list(Workers)],
            ok = forget(),
            Done;
        _ -> next([], Workers, Done)
    end;
collect(Pieces, Workers, Done) -> next(Pieces, Workers, Done).

next(Pieces, Workers, Done) ->
    receive
        {Worker, ready, Result} ->
            given(by_pid(Worker, Workers), Worker, Result, Pieces, Workers, Done);
        {'DOWN', Monitor, process, _, _} when is_map_key(Monitor, Workers) ->
            {{_, Piece}, Others} = maps:take(Monitor, Workers),
            collect([Piece || Piece =/= none] ++ Pieces, Others, Done)
    end.

%% A worker of a node that was gone for a moment is unknown here.
given(unknown, _, _, Pieces, Workers, Done) -> collect(Pieces, Workers, Done);
given({Monitor, Piece}, Worker, Result, Pieces, Workers, Done) ->
    Done1 = case Piece of none -> Done; _ -> Done#{Piece => Result} end,
    case Pieces of
        [First | More] ->
            Worker ! {self(), First},
            collect(More, Workers#{Monitor := {Worker, First}}, Done1);
        [] -> collect([], Workers#{Monitor := {Worker, none}}, Done1)
    end.

%% Workers that had nothing to do have said so. This process serves more requests.
forget() ->
    receive {_, ready, _} -> forget()
    after 0 -> ok
    end.

by_pid(Worker, Workers) ->
    case [{Monitor, Piece} || {Monitor, {Pid, Piece}} <- maps:to_list(Workers), Pid =:= Worker] of
        [Found] -> Found;
        [] -> unknown
    end.

%% @doc Computes pieces for a process until it ends.
-spec worker(pid(), docket_picture:area()) -> no_return().
worker(For, Area) ->
    _ = monitor(process, For),
    For ! {self(), ready, none},
    work(For, Area).

work(For, Area) ->
    receive
        {For, {First, Last}} ->
            For ! {self(), ready, docket_picture:rows(Area, First, Last)},
            work(For, Area);
        {'DOWN', _, process, For, _} -> exit(normal)
    end.
