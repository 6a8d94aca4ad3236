#!/usr/bin/env escript
%% Measures the memory of idle users in an agent of `whittle load', for each protocol without TLS.
%%
%% Model: a server in this script answers what a login needs and then keeps silent. For each
%% protocol, `./whittle load' runs one agent with 2,000, 6,000 and 10,000 users that log in within
%% 20 seconds and stay. Some seconds later the agent's last sample has its memory: `VM' is
%% erlang:memory(total), `RSS' is that of the process. The figures are the slopes of a line through
%% the three points (least squares), so the agent itself does not count.
%%
%% run: escript bench/load/idle.escript [PROTOCOL...]
-mode(compile).

-define(COUNTS, [2000, 6000, 10000]).

main(Words) ->
    Root = filename:dirname(filename:dirname(filename:dirname(filename:absname(
                                                                escript:script_name())))),
    Known = [{"lines", "tcp", "connect", fun(_) -> silent end},
             {"websocket", "ws", "connect", fun websocket/1},
             {"mqtt", "mqtt", "connect, {login, \"c${id}\"}, {subscribe, \"t\"}", fun mqtt/1},
             {"xmpp", "xmpp", "connect, {login, \"u${id}\", \"secret\"}, roster, presence",
              fun xmpp/1}],
    io:format("bytes for an idle user~n~-12s ~8s ~8s   held~n", ["", "VM", "RSS"]),
    [measure(Root, One) || {Name, _, _, _} = One <- Known, Words =:= [] orelse
                                                               lists:member(Name, Words)].

measure(Root, {Name, Scheme, Steps, Answer}) ->
    Points = [{_, _, _} | _] = [run(Root, Scheme, Steps, Answer, Count) || Count <- ?COUNTS],
    io:format("~-12s ~8b ~8b   ~w~n",
              [Name, slope([{Held, Memory} || {Held, Memory, _} <- Points]),
               slope([{Held, Rss} || {Held, _, Rss} <- Points]), [Held || {Held, _, _} <- Points]]).

slope(Points) ->
    N = length(Points),
    {X, Y} = {lists:sum([A || {A, _} <- Points]) / N, lists:sum([B || {_, B} <- Points]) / N},
    round(lists:sum([(A - X) * (B - Y) || {A, B} <- Points])
          / lists:sum([(A - X) * (A - X) || {A, _} <- Points])).

run(Root, Scheme, Steps, Answer, Count) ->
    {Port, Server} = server(Answer),
    File = string:trim(os:cmd("mktemp")),
    ok = file:write_file(File, io_lib:format("{target, \"~s://127.0.0.1:~b\"}.~n"
                                             "{arrivals, constant}. {agents, 1}.~n"
                                             "{phases, [{hold, ~b, \"20 s\"}, {soak, \"8 s\"}]}.~n"
                                             "{users, [{idle, 1, [~s, stay]}]}.~n",
                                             [Scheme, Port, Count div 20, Steps])),
    Whittle = open_port({spawn_executable, filename:join(Root, "whittle")},
                        [{args, ["load", File, "-o", File ++ ".results", "--json"]}, binary,
                         exit_status, {line, 1_000_000}]),
    Json = last_line(Whittle, <<>>),
    exit(Server, kill),
    ok = file:delete(File),
    ok = file:del_dir_r(File ++ ".results"),
    [Held, Memory, Rss] = [number(Pattern, Json)
                           || Pattern <- ["\"held\":([0-9]+)", "\"memory\":([0-9]+)",
                                          "\"rss\":([0-9]+)"]],
    {Held, Memory, Rss}.

number(Pattern, Text) ->
    {match, [Digits]} = re:run(Text, Pattern, [{capture, [1], list}]),
    list_to_integer(Digits).

last_line(Port, Before) ->
    receive
        {Port, {data, {_, Line}}} -> last_line(Port, Line);
        {Port, {exit_status, _}} -> Before
    end.

%% The server has one process for each connection.
server(Answer) ->
    Self = self(),
    Pid = spawn(fun() ->
                        {ok, Socket} = gen_tcp:listen(0, [binary, {active, false}, {backlog, 4096},
                                                          {buffer, 1024}, {ip, {127, 0, 0, 1}}]),
                        {ok, Port} = inet:port(Socket),
                        Self ! {self(), Port},
                        [spawn_link(fun() -> accept(Socket, Answer) end) || _ <- lists:seq(1, 20)],
                        receive stop -> ok end
                end),
    receive {Pid, Port} -> {Port, Pid} end.

accept(Socket, Answer) ->
    {ok, Client} = gen_tcp:accept(Socket),
    Acceptor = self(),
    Pid = spawn(fun() ->
                        Monitor = monitor(process, Acceptor),
                        receive go -> ok = inet:setopts(Client, [{active, true}]) end,
                        serve(Client, Answer, Monitor)
                end),
    ok = gen_tcp:controlling_process(Client, Pid),
    Pid ! go,
    accept(Socket, Answer).

serve(Socket, Answer, Monitor) ->
    receive
        {tcp, Socket, Bytes} ->
            case Answer(Bytes) of
                silent -> ok;
                Bytes1 -> ok = gen_tcp:send(Socket, Bytes1)
            end,
            serve(Socket, Answer, Monitor);
        {tcp_closed, Socket} -> ok;
        {'DOWN', Monitor, process, _, _} -> ok
    end.

websocket(Request) ->
    case re:run(Request, "Sec-WebSocket-Key: ([^\r]*)", [{capture, [1], binary}]) of
        {match, [Key]} ->
            Accept = base64:encode(crypto:hash(sha, [Key, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"])),
            ["HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             "Sec-WebSocket-Accept: ", Accept, "\r\n\r\n"];
        nomatch -> silent
    end.

mqtt(<<16#10, _/binary>>) -> <<16#20, 2, 0, 0>>;
mqtt(<<16#82, _, Id:16, _/binary>>) -> <<16#90, 3, Id:16, 0>>;
mqtt(<<16#C0, 0>>) -> <<16#D0, 0>>;
mqtt(_) -> silent.

xmpp(Bytes) ->
    Answers = [{"<\\?xml", fun(_) -> "<?xml version='1.0'?><stream:stream from='127.0.0.1' id='1' "
                                         "version='1.0' xmlns='jabber:client' xmlns:stream="
                                         "'http://etherx.jabber.org/streams'><stream:features>"
                                         "<mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>"
                                         "<mechanism>PLAIN</mechanism></mechanisms><bind xmlns="
                                         "'urn:ietf:params:xml:ns:xmpp-bind'/></stream:features>"
                           end},
               {"<auth", fun(_) -> "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>" end},
               {"<iq type='(?:set|get)' id='([^']*)'",
                fun(Id) -> ["<iq type='result' id='", Id, "'><x>an answer of some length, as real "
                            "servers give: ", lists:duplicate(200, $a), "</x></iq>"] end}],
    Found = [Answer(case Captured of [Id] -> Id; [] -> <<>> end)
             || {Pattern, Answer} <- Answers,
                {match, Captured} <- [re:run(Bytes, Pattern, [{capture, all_but_first, binary}])]],
    case Found of [] -> silent; _ -> Found end.
