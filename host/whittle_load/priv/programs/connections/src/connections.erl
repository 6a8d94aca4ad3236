%% @doc Holds one end of many connections, and tells what the VM needs for them.
%%
%% `whittle load account' talks to it over standard input and output. Each message is a term in the
%% external format behind its length in four bytes. Orders: `{listen, Kind}', `{connect, N, Port,
%% Address, Kind}', `{talk, Milliseconds}', `{measure, N}'. `busy' measures while
%% connections talk. Each of these has one answer. The VM ends after `stop', and when standard input
%% ends.
-module(connections).
-behaviour(application).

-export([start/2, stop/1]).
%% Processes wake up here.
-export([held/3]).

-define(ACCEPTORS, 64).
-define(CONNECTORS, 32).
-define(HOST, {127, 0, 0, 1}).
-define(TEXT, <<"a line of thirty-two characters\n">>).
%% How long the processes may take to come to rest.
-define(PATIENCE_MS, 60_000).

-type kind() :: #{api := inet | inet_socket | socket, transport := tcp | tls,
                  active := true | once | pos_integer(), buffer := default | pos_integer(),
                  hibernate := boolean()}.

%% @private
-spec start(application:start_type(), term()) -> {ok, pid()}.
start(_, _) -> {ok, spawn_link(fun serve/0)}.

%% @private
-spec stop(term()) -> ok.
stop(_) -> ok.

serve() ->
    ok = logger:set_primary_config(level, none),
    Port = open_port({fd, 0, 1}, [{packet, 4}, binary, eof]),
    obey(Port, []).

obey(Port, Held) ->
    receive
        {Port, {data, Bytes}} ->
            case binary_to_term(Bytes) of
                stop -> halt(0);
                Order ->
                    {Answer, Now} = carry_out(Order, Held),
                    true = port_command(Port, term_to_binary(Answer)),
                    obey(Port, Now)
            end;
        {Port, eof} -> halt(0);
        {holds, Pid} -> obey(Port, [Pid | Held])
    end.

carry_out({listen, Kind}, Held) ->
    {Listener, Number} = listen(Kind),
    Owner = self(),
    [accepting(Listener, Kind, Owner) || _ <- lists:seq(1, ?ACCEPTORS)],
    {{listening, Number}, Held};
carry_out({connect, N, Number, Address, Kind}, Held) ->
    Owner = self(),
    Errors = connected(N, 0, fun() -> connecting(Number, Address, Kind, Owner) end, #{}),
    {{connected, Errors}, Held};
carry_out({talk, Milliseconds}, Held) ->
    [Pid ! {talk, Milliseconds} || Pid <- Held],
    {talking, Held};
carry_out({measure, N}, Held) ->
    case arrived(N, Held, deadline()) of
        {ok, Now} ->
            ok = rested(Now, deadline()),
            {{measured, memory(length(Now))}, Now};
        {short, Now} -> {{short, length(Now)}, Now}
    end;
carry_out(busy, Held) -> {{measured, memory(length(Held))}, Held}.

%% Internal functions: the server

listen(#{api := socket}) ->
    {ok, Listener} = socket:open(inet, stream, tcp),
    ok = socket:bind(Listener, #{family => inet, port => 0, addr => ?HOST}),
    ok = socket:listen(Listener, 1024),
    {ok, #{port := Number}} = socket:sockname(Listener),
    {Listener, Number};
listen(#{transport := tls} = Kind) ->
    {ok, Listener} = ssl:listen(0, options(Kind) ++ listening() ++ certificate()),
    {ok, {_, Number}} = ssl:sockname(Listener),
    {Listener, Number};
listen(Kind) ->
    {ok, Listener} = gen_tcp:listen(0, options(Kind) ++ listening()),
    {ok, Number} = inet:port(Listener),
    {Listener, Number}.

%% A curve and a digest that TLS 1.3 allows
certificate() ->
    Of = [{key, {namedCurve, secp256r1}}, {digest, sha256}],
    Chain = #{root => Of, intermediates => [], peer => Of},
    #{server_config := Config} =
        public_key:pkix_test_data(#{server_chain => Chain, client_chain => Chain}),
    [Option || {Key, _} = Option <- Config, Key =:= cert orelse Key =:= key].

listening() -> [{ip, ?HOST}, {backlog, 1024}, {reuseaddr, true}].

options(#{api := Api, active := Active, buffer := Buffer} = Kind) ->
    [{inet_backend, socket} || Api =:= inet_socket]
        ++ [binary, {active, case Active of true -> true; _ -> false end}, {nodelay, true}]
        ++ [{buffer, Buffer} || Buffer =/= default]
        ++ [{hibernate_after, 1000} || #{transport := tls, hibernate := true} <- [Kind]].

%% The process that accepts a connection also holds it.
accepting(Listener, Kind, Owner) ->
    spawn(fun() ->
                  Socket = accepted(Listener, Kind),
                  accepting(Listener, Kind, Owner),
                  Owner ! {holds, self()},
                  hold(Socket, server, Kind)
          end).

accepted(Listener, #{api := socket}) ->
    {ok, Socket} = socket:accept(Listener),
    Socket;
accepted(Listener, #{transport := tls} = Kind) ->
    {ok, Accepted} = ssl:transport_accept(Listener),
    case ssl:handshake(Accepted) of
        {ok, Socket} -> Socket;
        {error, _} -> accepted(Listener, Kind)
    end;
accepted(Listener, _) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    Socket.

%% Internal functions: the client

connected(0, 0, _, Errors) -> Errors;
connected(Left, Open, Connect, Errors) when Left > 0, Open < ?CONNECTORS ->
    _ = Connect(),
    connected(Left - 1, Open + 1, Connect, Errors);
connected(Left, Open, Connect, Errors) ->
    receive
        {connected, ok} -> connected(Left, Open - 1, Connect, Errors);
        {connected, Reason} ->
            connected(Left, Open - 1, Connect,
                      maps:update_with(Reason, fun(N) -> N + 1 end, 1, Errors))
    end.

connecting(Number, Address, Kind, Owner) ->
    spawn(fun() ->
                  case connect(Number, Address, Kind) of
                      {ok, Socket} ->
                          Owner ! {holds, self()},
                          Owner ! {connected, ok},
                          hold(Socket, client, Kind);
                      {error, Reason} -> Owner ! {connected, Reason}
                  end
          end).

connect(Number, Address, #{api := socket}) ->
    {ok, Socket} = socket:open(inet, stream, tcp),
    ok = socket:bind(Socket, #{family => inet, port => 0, addr => Address}),
    case socket:connect(Socket, #{family => inet, port => Number, addr => ?HOST}) of
        ok -> {ok, Socket};
        {error, _} = Error -> Error
    end;
connect(Number, Address, #{transport := tls} = Kind) ->
    ssl:connect(?HOST, Number, options(Kind) ++ [{ip, Address}, {verify, verify_none}]);
connect(Number, Address, Kind) ->
    gen_tcp:connect(?HOST, Number, options(Kind) ++ [{ip, Address}]).

%% Internal functions: both ends. A server sends each line back.

hold(Socket, End, Kind) ->
    ok = read_on(Socket, Kind),
    rest(Socket, End, Kind).

rest(Socket, End, #{hibernate := true} = Kind) ->
    erlang:hibernate(?MODULE, held, [Socket, End, Kind]);
rest(Socket, End, Kind) -> held(Socket, End, Kind).

%% @private
-spec held(term(), server | client, kind()) -> ok.
held(Socket, End, Kind) ->
    receive
        {Tag, _, Bytes} when Tag =:= tcp; Tag =:= ssl -> heard(Bytes, Socket, End, Kind);
        {Tag, _} when Tag =:= tcp_passive; Tag =:= ssl_passive ->
            ok = read_on(Socket, Kind),
            rest(Socket, End, Kind);
        {'$socket', _, select, _} -> ready(Socket, End, Kind);
        {talk, Milliseconds} ->
            First = rand:uniform(Milliseconds),
            _ = erlang:send_after(First, self(), {say, Milliseconds}),
            rest(Socket, End, Kind);
        {say, Milliseconds} ->
            _ = erlang:send_after(Milliseconds, self(), {say, Milliseconds}),
            ok = send(Socket, ?TEXT, Kind),
            rest(Socket, End, Kind);
        {Tag, _} when Tag =:= tcp_closed; Tag =:= ssl_closed -> ok
    end.

heard(Bytes, Socket, End, Kind) ->
    _ = [send(Socket, Bytes, Kind) || End =:= server],
    ok = case Kind of
             #{active := once} -> read_on(Socket, Kind);
             _ -> ok
         end,
    rest(Socket, End, Kind).

read_on(_, #{active := true}) -> ok;
read_on(Socket, #{api := socket}) ->
    case socket:recv(Socket, 0, nowait) of
        {select, _} -> ok;
        %% The other end sent before this one listened.
        {ok, _} -> ok;
        {select_read, _} -> ok
    end;
read_on(Socket, #{transport := tls, active := Active}) -> ssl:setopts(Socket, [{active, Active}]);
read_on(Socket, #{active := Active}) -> inet:setopts(Socket, [{active, Active}]).

ready(Socket, End, Kind) ->
    case socket:recv(Socket, 0, nowait) of
        {ok, Bytes} ->
            _ = [send(Socket, Bytes, Kind) || End =:= server],
            ready(Socket, End, Kind);
        {select, {_, _, _}} -> rest(Socket, End, Kind);
        {select, {_, Bytes}} ->
            _ = [send(Socket, Bytes, Kind) || End =:= server],
            rest(Socket, End, Kind);
        {error, _} -> socket:close(Socket)
    end.

send(Socket, Bytes, #{api := socket}) -> socket:send(Socket, Bytes);
send(Socket, Bytes, #{transport := tls}) -> ssl:send(Socket, Bytes);
send(Socket, Bytes, _) -> gen_tcp:send(Socket, Bytes).

%% Internal functions: the account

deadline() -> erlang:monotonic_time(millisecond) + ?PATIENCE_MS.

%% Waits until this end holds N connections.
arrived(N, Held, _) when length(Held) >= N -> {ok, Held};
arrived(N, Held, Deadline) ->
    receive
        {holds, Pid} -> arrived(N, [Pid | Held], Deadline)
    after max(0, Deadline - erlang:monotonic_time(millisecond)) -> {short, Held}
    end.

%% Waits until no process has anything to do: then all that hibernate do so. A message wakes its
%% process only once, so the second look finds what the first one started.
rested(Held, Deadline) ->
    Busy = [Pid || Pid <- processes(), Pid =/= self(),
                   {status, Status} <- [process_info(Pid, status)], Status =/= waiting],
    case Busy =:= [] orelse erlang:monotonic_time(millisecond) > Deadline of
        true -> ok;
        false ->
            receive after 20 -> ok end,
            rested(Held, Deadline)
    end.

%% Bytes of each allocator: in blocks, and in the carriers that hold them
memory(Held) ->
    _ = erlang:garbage_collect(),
    #{held => Held,
      processes => erlang:system_info(process_count),
      ports => erlang:system_info(port_count),
      allocators => maps:from_list([{Name, sizes(Name)} || Name <- allocators()])}.

allocators() ->
    [eheap_alloc, binary_alloc, ets_alloc, literal_alloc, fix_alloc, driver_alloc, ll_alloc,
     std_alloc, sl_alloc, temp_alloc].

sizes(Name) ->
    case erlang:system_info({allocator, Name}) of
        false -> #{blocks => 0, carriers => 0};
        Instances ->
            Parts = [Values || {instance, _, Information} <- Instances,
                               {Key, Values} <- Information,
                               Key =:= mbcs orelse Key =:= sbcs orelse Key =:= mbcs_pool],
            #{blocks => lists:sum([current(Size) || Values <- Parts,
                                                    {_, Of} <- value(blocks, Values, []),
                                                    Size <- [lists:keyfind(size, 1, Of)]]),
              carriers => lists:sum([current(lists:keyfind(carriers_size, 1, Values))
                                     || Values <- Parts])}
    end.

value(Key, List, Default) ->
    case lists:keyfind(Key, 1, List) of
        {_, Value} -> Value;
        false -> Default
    end.

current(false) -> 0;
current(Size) -> element(2, Size).
