%% @doc Runs concurrent clients against the nodes of a stage, and records what they see.
%%
%% They work on a small pool of cases, so that they meet each other. A case that has a long history
%% leaves the pool, so that the search for an order stays short. Each title is unique.
-module(clients).

-export([start/3, stop/1, finals/3]).

-export_type([clients/0]).

-record(clients, {pids :: [pid()], recorder :: pid(), table :: ets:table()}).
-opaque clients() :: #clients{}.

%% All clients of a round share this.
-record(shared, {table :: ets:table(), recorder :: pid(), prefix :: string(),
                 nodes :: pos_integer()}).

-define(POOL, 5).
-define(LONGEST, 60).                % operations on a case
-define(PAUSE_MS, 40).               % the longest pause of a client between two operations

%% @doc Starts clients that record into a file. Prefix begins the titles of all cases.
-spec start(file:filename(), Prefix :: string(), #{nodes := pos_integer(),
                                                   clients := pos_integer(), _ => _}) -> clients().
start(File, Prefix, #{nodes := Nodes, clients := Count}) ->
    Table = ets:new(pool, [public, {write_concurrency, true}]),
    true = ets:insert(Table, [{Slot, none, 0, 0} || Slot <- lists:seq(1, ?POOL)]),
    Recorder = spawn_link(fun() ->
                                  {ok, Open} = file:open(File, [write, raw,
                                                                {delayed_write, 65536, 500}]),
                                  record(Open)
                          end),
    Shared = #shared{table = Table, recorder = Recorder, prefix = Prefix, nodes = Nodes},
    #clients{pids = [spawn_link(fun() -> client(Shared, Client, case_client:new()) end)
                     || Client <- lists:seq(1, Count)],
             recorder = Recorder, table = Table}.

%% @doc Ends the clients when each has its answer.
-spec stop(clients()) -> ok.
stop(#clients{pids = Pids, recorder = Recorder, table = Table}) ->
    Ends = [monitor(process, Pid) || Pid <- Pids],
    _ = [Pid ! stop || Pid <- Pids],
    _ = [receive {'DOWN', End, process, _, _} -> ok end || End <- Ends],
    true = ets:delete(Table),
    Recorder ! {stop, self()},
    receive {Recorder, stopped} -> ok end.

record(Open) ->
    receive
        {stop, From} ->
            ok = file:close(Open),
            From ! {self(), stopped};
        Line ->
            ok = file:write(Open, Line),
            record(Open)
    end.

client(Shared, Client, Connections) ->
    receive stop -> case_client:closed(Connections)
    after rand:uniform(?PAUSE_MS) ->
            client(Shared, Client, operation(Shared, Client, Connections))
    end.

operation(#shared{table = Table, nodes = Nodes} = Shared, Client, Connections) ->
    Slot = rand:uniform(?POOL),
    [{Slot, Key, Version, _}] = ets:lookup(Table, Slot),
    Used = ets:update_counter(Table, Slot, {4, 1}),
    Node = rand:uniform(Nodes),
    case rand:uniform(100) of
        _ when Key =:= none; Used > ?LONGEST ->
            create(Shared, Client, Node, fun(New, Made) ->
                                                 ets:insert(Table, {Slot, New, Made, 0})
                                         end, Connections);
        %% Few cases are in the pool, and the set of all cases should be large.
        Chance when Chance =< 4 ->
            create(Shared, Client, Node, fun(_, _) -> true end, Connections);
        5 -> known(Shared, Client, Node, Slot, Key, {remove, Version}, Connections);
        Chance when Chance =< 50 ->
            known(Shared, Client, Node, Slot, Key, read, Connections);
        _ ->
            known(Shared, Client, Node, Slot, Key,
                  fun(Title) -> {change, Version, Title} end, Connections)
    end.

create(Shared, Client, Node, Keep, Connections) ->
    case asked(Shared, Client, Node, none, fun(Title) -> {create, Title} end, Connections) of
        {Key, {ok, {Version, _}}, Connections1} ->
            true = Keep(Key, Version),
            Connections1;
        {_, _, Connections1} -> Connections1
    end.

%% The next client that changes the case names the version that this one has seen.
known(#shared{table = Table} = Shared, Client, Node, Slot, Key, Input, Connections) ->
    {Key, Result, Connections1} = asked(Shared, Client, Node, Key, Input, Connections),
    _ = case {Result, ets:lookup(Table, Slot)} of
            {{Kind, State}, [{Slot, Key, _, Used}]} when Kind =:= ok; Kind =:= refused ->
                case State of
                    absent -> ets:insert(Table, {Slot, none, 0, 0});
                    {Version, _} -> ets:insert(Table, {Slot, Key, Version, Used})
                end;
            _ -> true
        end,
    Connections1.

asked(#shared{recorder = Recorder, prefix = Prefix}, Client, Node, Key, Input0, Connections) ->
    Number = erlang:unique_integer([positive]),
    Input = case is_function(Input0) of
                true -> Input0(list_to_binary([Prefix, integer_to_list(Number)]));
                false -> Input0
            end,
    Recorder ! history:call(Number, now_us(), Client, Node, Key, Input),
    {Key1, Result, Connections1} = case_client:ask(Node, Key, Input, Connections),
    Recorder ! history:return(Number, now_us(), Key1, Result),
    {Key1, Result, Connections1}.

now_us() -> erlang:monotonic_time(microsecond).

%% @doc Reads cases on one node after all faults, and returns what it shows.
-spec finals(pos_integer(), string(), [history:key()]) ->
          {ok, #{history:key() => history:state()}} | {error, term()}.
finals(Node, Prefix, Keys) ->
    IsWanted = fun({_, Title}) -> string:prefix(Title, Prefix) =/= nomatch end,
    case case_client:list(Node, IsWanted, case_client:new()) of
        {ok, Found, Connections} ->
            %% A case that the list does not show may be there all the same.
            single(Node, [Key || Key <- Keys, not is_map_key(Key, Found)], Found, Connections);
        {error, _} = Error -> Error
    end.

single(_, [], Found, Connections) ->
    ok = case_client:closed(Connections),
    {ok, Found};
single(Node, [Key | Keys], Found, Connections) ->
    case case_client:ask(Node, Key, final, Connections) of
        {_, {ok, State}, Connections1} -> single(Node, Keys, Found#{Key => State}, Connections1);
        {_, Other, Connections1} ->
            ok = case_client:closed(Connections1),
            {error, {Node, Key, Other}}
    end.
