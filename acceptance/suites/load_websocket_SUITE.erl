%% Tests the WebSocket users of `whittle load' with a server of the Python library `websockets',
%% from Debian's packages.
-module(load_websocket_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1]).
-export([echo/1, tls/1, ipv6/1, sizes/1, fragments/1, keeps_alive/1, closes/1, refuses/1]).

-define(USERS, 10).

suite() -> [{timetrap, {minutes, 10}}].

all() -> [echo, tls, ipv6, sizes, fragments, keeps_alive, closes, refuses].

init_per_suite(Config) ->
    case loading:unpacked(["python3-websockets"]) of
        {ok, [Package]} ->
            Dir = running:directory("websocket", Config),
            Environment = [{"PYTHONPATH", filename:join(Package, "usr/lib/python3/dist-packages")},
                           {"PYTHONDONTWRITEBYTECODE", "1"}],
            Python = os:find_executable("python3"),
            case running:run(Python, ["-c", "import websockets.server"], #{env => Environment}) of
                {0, _} -> started(Python, Environment, Dir, Config);
                {_, Said} -> {skip, "the library does not run here: " ++ binary_to_list(Said)}
            end;
        {error, Text} -> {skip, Text}
    end.

started(Python, Environment, Dir, Config) ->
    Certificate = loading:certificate(Dir),
    File = filename:join(Dir, "server.py"),
    ok = file:write_file(File, server()),
    Arguments = [File, Certificate, case loading:has_ipv6() of true -> "1"; false -> "0" end],
    Suite = self(),
    Server = loading:kept(fun() ->
                                  Server = running:start(Python, Arguments, #{env => Environment}),
                                  Suite ! {ports, running:line(Server)},
                                  Server
                          end),
    Ports = receive {ports, Line} -> [binary_to_integer(Port)
                                      || Port <- binary:split(Line, <<" ">>, [global])]
            end,
    Named = lists:zip(lists:sublist([plain, tls, ipv6, ipv6_tls], length(Ports)), Ports),
    [{dir, Dir}, {server, Server} | Named ++ Config].

end_per_suite(Config) -> loading:stopped(proplists:get_value(server, Config)).

%% The path chooses how the server behaves. It chooses its ports itself, and prints them.
server() ->
    "import asyncio, http, signal, ssl, sys, websockets, websockets.server\n"
    "class Watching(websockets.server.WebSocketServerProtocol):\n"
    "    def __init__(self, *args, **kwargs):\n"
    "        super().__init__(*args, **kwargs)\n"
    "        self.pinged = asyncio.Event()\n"
    "    async def pong(self, data=b''):\n"
    "        self.pinged.set()\n"
    "        await super().pong(data)\n"
    "async def serve(socket, path):\n"
    "    if path == '/parts':\n"
    "        async for message in socket:\n"
    "            middle = len(message) // 2\n"
    "            await socket.ping()\n"
    "            await socket.send([message[:middle], message[middle:], ''])\n"
    "    elif path == '/alive':\n"
    "        await (await socket.ping())\n"
    "        await socket.send('answered')\n"
    "        await socket.pinged.wait()\n"
    "        await socket.send('pinged')\n"
    "        await socket.wait_closed()\n"
    "    elif path == '/close':\n"
    "        await socket.recv()\n"
    "        await socket.close(4001, 'enough')\n"
    "    else:\n"
    "        async for message in socket:\n"
    "            await socket.send(message)\n"
    "async def answer(path, headers):\n"
    "    if path == '/missing':\n"
    "        return http.HTTPStatus.NOT_FOUND, [], b'missing'\n"
    "async def main():\n"
    "    certificate, six = sys.argv[1:]\n"
    "    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n"
    "    context.load_cert_chain(certificate)\n"
    "    places = [('127.0.0.1', None), ('127.0.0.1', context)]\n"
    "    if six == '1':\n"
    "        places += [('::1', None), ('::1', context)]\n"
    "    servers = [await websockets.serve(serve, host, 0, ssl=security, process_request=answer,\n"
    "                                      subprotocols=['chat'], ping_interval=0.3,\n"
    "                                      ping_timeout=None, compression=None,\n"
    "                                      create_protocol=Watching)\n"
    "               for host, security in places]\n"
    "    print(*[server.sockets[0].getsockname()[1] for server in servers], flush=True)\n"
    "    end = asyncio.Event()\n"
    "    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)\n"
    "    await end.wait()\n"
    "asyncio.run(main())\n".

%% A message tells when it was sent, and the server sends it back to the same user.
echo(Config) ->
    Result = load("ws", plain, "127.0.0.1", "/",
                  "[connect, {repeat, 3, [{ask, \"hi ${id} ${sent}\", \"hi ${id}\"}]},"
                  " {send, \"one\"}, {expect, \"on\"}, {ask_binary, \"two\", \"two\"},"
                  " {send_binary, \"three\"}, {expect, \"three\"}, {wait, \"1 s\"}, disconnect]", 0,
                  #{ended => ?USERS}, Config),
    ?assertMatch(#{<<"errors">> := [], <<"events">> := #{<<"ended">> := ?USERS}}, Result),
    #{<<"latencies">> := Latencies} = Result,
    ?assertEqual([{<<"ask">>, 3 * ?USERS}, {<<"ask_binary">>, ?USERS}, {<<"connect">>, ?USERS},
                  {<<"delivery">>, 3 * ?USERS}, {<<"expect">>, 2 * ?USERS},
                  {<<"upgrade">>, ?USERS}],
                 lists:sort([{Step, Count} || {Step, #{<<"count">> := Count}}
                                                  <- maps:to_list(Latencies)])).

tls(Config) -> talks("wss", tls, "127.0.0.1", Config).

ipv6(Config) ->
    case loading:has_ipv6() of
        true ->
            talks("ws", ipv6, "[::1]", Config),
            talks("wss", ipv6_tls, "[::1]", Config);
        false -> {skip, "this machine has no ::1"}
    end.

%% The server chooses the protocol that the client offers.
talks(Scheme, Port, Host, Config) ->
    ?assertMatch(#{<<"held">> := ?USERS, <<"errors">> := []},
                 load(Scheme, Port, Host, "/x?y=z",
                      "[connect, {ask, \"hello\", \"hello\"}, stay]", 0, #{<<"ask">> => ?USERS},
                      [{more, "{subprotocol, \"chat\"}."} | Config])).

%% Lengths of each form
sizes(Config) ->
    Texts = [lists:duplicate(Size, $a) || Size <- [0, 125, 126, 65_535, 65_536, 100_000]],
    ?assertMatch(#{<<"held">> := ?USERS, <<"errors">> := []},
                 load("ws", plain, "127.0.0.1", "/",
                      ["[connect", [[", {ask, \"", Text, "\", \"", Text, "\"}"]
                                    || Text <- lists:sublist(Texts, 3)],
                       ", {ask_binary, \"", lists:nth(4, Texts), "\", \"aa\"}, {ask, \"",
                       lists:nth(5, Texts), "\", \"aa\"}, stay]"], 0,
                      #{<<"ask">> => 4 * ?USERS}, Config)).

fragments(Config) ->
    ?assertMatch(#{<<"held">> := ?USERS, <<"errors">> := []},
                 load("ws", plain, "127.0.0.1", "/parts",
                      "[connect, {repeat, 5, [{ask, \"half and half\", \"half and half\"}]}, stay]",
                      0, #{<<"ask">> => 5 * ?USERS}, Config)).

%% The client answers pings, and sends its own. The server tells it of both.
keeps_alive(Config) ->
    ?assertMatch(#{<<"held">> := ?USERS, <<"errors">> := []},
                 load("ws", plain, "127.0.0.1", "/alive",
                      "[connect, {expect, \"answered\"}, {expect, \"pinged\"}, stay]", 0,
                      #{<<"expect">> => 2 * ?USERS},
                      [{more, "{keep_alive, \"200 ms\"}."} | Config])).

closes(Config) ->
    ?assertMatch(#{<<"held">> := 0,
                   <<"errors">> := [#{<<"step">> := <<"ask">>, <<"kind">> := <<"closed_4001">>,
                                      <<"count">> := ?USERS}]},
                 load("ws", plain, "127.0.0.1", "/close", "[connect, {ask, \"a\", \"a\"}]", 1,
                      #{errors => ?USERS}, Config)).

refuses(Config) ->
    ?assertMatch(#{<<"held">> := 0,
                   <<"errors">> := [#{<<"step">> := <<"upgrade">>, <<"kind">> := <<"status_404">>,
                                      <<"count">> := ?USERS}]},
                 load("ws", plain, "127.0.0.1", "/missing", "[connect, stay]", 1,
                      #{errors => ?USERS}, Config)).

load(Scheme, Port, Host, Path, Steps, Code, Counts, Config) ->
    loading:load(proplists:get_value(dir, Config),
                 [io_lib:format("{target, \"~s://~s:~b~s\"}.~n"
                                "{phases, [{burst, ~b}, {soak, \"4 s\"}]}.~n",
                                [Scheme, Host, proplists:get_value(Port, Config), Path, ?USERS]),
                  proplists:get_value(more, Config, ""), "\n"
                  "{users, [{all, 1, ", Steps, "}]}.\n{thresholds, [\"errors < 1\"]}.\n"], Code,
                 Counts).
