%% Serves one page with yaws, which first asks its driver for a user's name. Then the program
%% requests the page from itself.
-module(serves).
-behaviour(application).

-export([start/2, stop/1, out/1]).

-spec start(term(), term()) -> no_return().
start(_, _) ->
    io:format("user ~ts~n", [yaws:uid_to_name(0)]),
    Root = filename:join("/tmp", "serves-" ++ os:getpid()),
    ok = file:make_dir(Root),
    {ok, Probe} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Probe),
    ok = gen_tcp:close(Probe),
    %% yaws prints the address on which it listens.
    ok = logger:set_primary_config(level, error),
    ok = yaws:start_embedded(Root, [{port, Port}, {listen, {127, 0, 0, 1}},
                                    {appmods, [{"/", serves}]}], [{logdir, Root}], "serves"),
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    ok = gen_tcp:send(Socket, "GET / HTTP/1.0\r\n\r\n"),
    io:format("~ts~n", [lists:last(string:split(whole(Socket, <<>>), "\r\n\r\n"))]),
    ok = file:del_dir_r(Root),
    halt().

-spec stop(term()) -> ok.
stop(_) -> ok.

-spec out(term()) -> {html, string()}.
out(_) -> {html, "served"}.

whole(Socket, Before) ->
    case gen_tcp:recv(Socket, 0, 10000) of
        {ok, Bytes} -> whole(Socket, <<Before/binary, Bytes/binary>>);
        {error, closed} -> Before
    end.
