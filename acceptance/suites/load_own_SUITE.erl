%% Tests `whittle load' with a client and a data function of the user's own: those of docs/load.md.
-module(load_own_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([documented/1, other_modules/1, crash/1, wrong_source/1]).

%% The last step of each user
-define(ASKED, #{<<"ask">> => 10}).

suite() -> [{timetrap, {minutes, 10}}].

all() -> [documented, other_modules, crash, wrong_source].

init_per_testcase(Case, Config) ->
    Dir = running:directory(atom_to_list(Case), Config),
    {ok, Text} = file:read_file(filename:join([running:root(), "docs", "load.md"])),
    {match, Blocks} = re:run(Text, "^```erlang\n((?s).*?)^```$",
                             [multiline, global, {capture, [1], binary}]),
    [Client, Data, Scenario | _] =
        lists:dropwhile(fun(Block) -> not is_module(Block) end, lists:append(Blocks)),
    ok = file:write_file(filename:join(Dir, "packets.erl"), Client),
    ok = file:write_file(filename:join(Dir, "people.erl"), Data),
    [{dir, Dir}, {client, Client}, {scenario, Scenario} | Config].

is_module(<<"-module(", _/binary>>) -> true;
is_module(_) -> false.

end_per_testcase(_, _) -> ok.

%% The server gets the row of each user.
documented(Config) ->
    Port = server({127, 0, 0, 1}),
    Result = load(Port, "tcp://127.0.0.1", [], 0, ?ASKED, Config),
    ?assertMatch(#{<<"held">> := 10, <<"errors">> := [],
                   <<"latencies">> := #{<<"ask">> := #{<<"count">> := 10},
                                        <<"delivery">> := #{<<"count">> := 10}}}, Result),
    ?assertEqual([iolist_to_binary(io_lib:format("user~b enters room ~b", [N, N]))
                  || N <- lists:seq(0, 9)], told()),
    case loading:has_ipv6() of
        true ->
            Port6 = server({0, 0, 0, 0, 0, 0, 0, 1}),
            ?assertMatch(#{<<"held">> := 10, <<"errors">> := []},
                         load(Port6, "tcp://[::1]", [], 0, ?ASKED, Config));
        false -> ok
    end.

%% A compiled module, and one that the client calls
other_modules(Config) ->
    Dir = proplists:get_value(dir, Config),
    Port = server({127, 0, 0, 1}),
    ok = file:write_file(filename:join(Dir, "size.erl"),
                         "-module(size).\n-export([head/1]).\n"
                         "head(Bytes) -> <<(byte_size(Bytes)):16>>.\n"),
    Changed = iolist_to_binary(string:replace(proplists:get_value(client, Config),
                                              "<<(byte_size(Bytes)):16>>", "size:head(Bytes)")),
    File = filename:join(Dir, "packets.erl"),
    ok = file:write_file(File, Changed),
    {ok, _} = compile:file(File, [{outdir, Dir}, debug_info]),
    ok = file:delete(File),
    ?assertMatch(#{<<"held">> := 10, <<"errors">> := []},
                 load(Port, "tcp://127.0.0.1", [{"packets.erl", "packets.beam"},
                                                {"{data", "{modules, [\"size.erl\"]}.\n{data"}], 0,
                      ?ASKED, Config)).

%% The users fail, and the result says so.
crash(Config) ->
    Port = server({127, 0, 0, 1}),
    Changed = string:replace(proplists:get_value(client, Config), "match(Expected, Packet) ->",
                             "match(Expected, <<\"x\", _/binary>> = Packet) ->"),
    ok = file:write_file(filename:join(proplists:get_value(dir, Config), "packets.erl"), Changed),
    ?assertMatch(#{<<"held">> := 0,
                   <<"errors">> := [#{<<"step">> := <<"ask">>, <<"kind">> := <<"crash">>,
                                      <<"count">> := 10}]},
                 load(Port, "tcp://127.0.0.1", [], 1, #{errors => 10}, Config)).

%% The place is that in the source.
wrong_source(Config) ->
    Dir = proplists:get_value(dir, Config),
    ok = file:write_file(filename:join(Dir, "packets.erl"),
                         "-module(packets).\n-export([init/2]).\ninit(_, _) -> Unbound.\n"),
    File = filename:join(Dir, "users.load"),
    ok = file:write_file(File, proplists:get_value(scenario, Config)),
    {1, Output} = running:whittle(["load", File]),
    ?assertMatch({match, _}, re:run(Output, "^whittle: .*users.load:2:10: .*packets.erl:3:15: "
                                    "variable 'Unbound' is unbound\n$")).

%% Internal

load(Port, Address, Changes, Code, Counts, Config) ->
    Scenario = lists:foldl(fun({Old, New}, Text) -> string:replace(Text, Old, New) end,
                           proplists:get_value(scenario, Config),
                           [{"tcp://127.0.0.1:7000", Address ++ ":" ++ integer_to_list(Port)}
                            | Changes]),
    loading:load(proplists:get_value(dir, Config), Scenario, Code, Counts).

%% Sends each packet with `sent' back, and keeps the others.
server(Address) ->
    Test = self(),
    loading:server(gen_tcp, Address, [{packet, 2}], fun(Socket) -> serve(Socket, Test) end).

serve(Socket, Test) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Packet} ->
            case binary:match(Packet, <<"sent=">>) of
                nomatch -> Test ! {told, Packet};
                _ -> ok = gen_tcp:send(Socket, Packet)
            end,
            serve(Socket, Test);
        {error, _} -> ok
    end.

%% Each user told before it asked. A run that was repeated has told some packets twice.
told() -> told([]).

told(Packets) when length(Packets) =:= 10 -> Packets;
told(Packets) -> receive {told, Packet} -> told(lists:usort([Packet | Packets])) end.
