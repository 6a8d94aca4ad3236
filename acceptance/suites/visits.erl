%% Visits the server of the fixture pages and records its answers, for its tests and for
%% acceptance/programs.
-module(visits).

-export([start/2, stop/2, all/1]).

%% An answer without the parts that differ each time.
-type answer() :: {Code :: 100..599, Headers :: [{binary(), binary()}], Body :: binary()}
                | closed.

-define(HEADERS, [<<"Content-Type">>, <<"Content-Length">>, <<"Content-Range">>,
                  <<"Transfer-Encoding">>, <<"Connection">>]).

%% The longest time for an answer, so that a test always ends.
-define(PATIENCE_MS, 60_000).

%% The number of simultaneous visitors, and of requests on each connection.
-define(VISITORS, 100).
-define(TIMES, 5).

%% Starts the program, and returns it with its port.
-spec start(file:filename(), [{string(), string()}]) -> {port(), inet:port_number()}.
start(File, Env) ->
    Program = running:start(File, ["0"], #{env => Env}),
    _ = running:until(Program, <<"pages on port ">>),
    {Program, binary_to_integer(running:line(Program))}.

%% Stops the program in order, and returns its exit code and its output.
-spec stop(port(), inet:port_number()) -> {non_neg_integer(), binary()}.
stop(Program, Port) ->
    _ = ask(post("/stop", "text/plain", ""), Port),
    running:ended(Program).

%% Makes all visits, and returns the answers of each.
-spec all(inet:port_number()) -> [{atom(), [answer()]}].
all(Port) ->
    [{What, Visit(Port)}
     || {What, Visit} <- [{pages, asked([got("/"), got("/?name=Ann%C3%A9"), got("/tidy")])},
                          {files, asked([got("/files/style.css"), got("/files/numbers.txt"),
                                         request("HEAD", "/files/numbers.txt", [], ""),
                                         request("GET", "/files/numbers.txt",
                                                 ["Range: bytes=0-9"], ""),
                                         got("/files/none"), got("/files/../pages.app")])},
                          {forms, asked([form("a=1&b=%C3%A9+x"), upload(),
                                         post("/json", "application/json",
                                              "{\"a\": [1, 2.5, \"\\u00e9\"], \"b\": null}"),
                                         post("/json", "application/json", "{\"a\": ")])},
                          {chunks, asked([got("/chunks/3"), got("/chunks/0")])},
                          {session, fun session/1},
                          {bad, asked([got(["/", lists:duplicate(100_000, $a)]), got("/fail"),
                                       got("/nowhere"),
                                       request("DELETE", "/", [], "")])},
                          {old, asked(["GET / HTTP/1.0\r\n\r\n"])},
                          {kept_alive, fun kept_alive/1},
                          {at_once, fun at_once/1},
                          {many, fun many/1}]].

%% Internal functions

got(Path) -> request("GET", Path, [], "").

form(Body) -> post("/form", "application/x-www-form-urlencoded", Body).

post(Path, Type, Body) -> request("POST", Path, ["Content-Type: " ++ Type], Body).

upload() ->
    Part = fun(Disposition, Text) ->
                   ["--border\r\nContent-Disposition: form-data; ", Disposition, "\r\n\r\n",
                    Text, "\r\n"]
           end,
    post("/upload", "multipart/form-data; boundary=border",
         [Part("name=\"a\"", "1"),
          Part("name=\"file\"; filename=\"f\"\r\nContent-Type: text/plain",
               lists:duplicate(20_000, $x)),
          "--border--\r\n"]).

request(Method, Path, Headers, Body) ->
    Length = ["Content-Length: " ++ integer_to_list(iolist_size(Body)) || Method =:= "POST"],
    [Method, " ", Path, " HTTP/1.1\r\nHost: localhost\r\n",
     [[Header, "\r\n"] || Header <- Headers ++ Length], "\r\n", Body].

%% Makes each request on a separate connection.
asked(Requests) -> fun(Port) -> [ask(Request, Port) || Request <- Requests] end.

ask(Request, Port) -> seen(exchange(Request, Port)).

exchange(Request, Port) ->
    Socket = connect(Port),
    ok = gen_tcp:send(Socket, Request),
    Answer = answer(Socket, Request),
    ok = gen_tcp:close(Socket),
    Answer.

session(Port) ->
    {_, Headers, _} = Answer = exchange(got("/session"), Port),
    [Cookie | _] = binary:split(proplists:get_value(<<"Set-Cookie">>, Headers), <<";">>),
    [seen(Answer), ask(request("GET", "/session", [["Cookie: ", Cookie]], ""), Port)].

%% Makes requests in turn on one connection; the last one closes it.
kept_alive(Port) ->
    Socket = connect(Port),
    Requests = [got("/"), form("a=1"), got("/files/style.css"), got("/chunks/2"),
                request("GET", "/", ["Connection: close"], "")],
    Answers = [begin
                   ok = gen_tcp:send(Socket, Request),
                   seen(answer(Socket, Request))
               end || Request <- Requests],
    Answers ++ [answer(Socket, got("/"))].

%% Sends all requests without waiting for the answers.
at_once(Port) ->
    Socket = connect(Port),
    Requests = [got("/?name=" ++ [C]) || C <- "abcd"],
    ok = gen_tcp:send(Socket, Requests),
    Answers = [seen(answer(Socket, Request)) || Request <- Requests],
    ok = gen_tcp:close(Socket),
    Answers.

%% Collects the answers. All visitors send their requests after all have connected.
many(Port) ->
    Sockets = [connect(Port) || _ <- lists:seq(1, ?VISITORS)],
    Visitors = [begin
                    {Pid, Ref} = spawn_monitor(fun() -> receive go -> exit(visit(Socket)) end end),
                    ok = gen_tcp:controlling_process(Socket, Pid),
                    {Pid, Ref}
                end || Socket <- Sockets],
    [Pid ! go || {Pid, _} <- Visitors],
    lists:usort(lists:append([receive {'DOWN', Ref, process, _, {seen, Answers}} -> Answers end
                              || {_, Ref} <- Visitors])).

visit(Socket) ->
    Request = got("/files/numbers.txt"),
    {seen, [begin
                ok = gen_tcp:send(Socket, Request),
                seen(answer(Socket, Request))
            end || _ <- lists:seq(1, ?TIMES)]}.

connect(Port) ->
    {ok, Socket} = gen_tcp:connect("127.0.0.1", Port, [binary, {active, false}], ?PATIENCE_MS),
    Socket.

seen({Code, Headers, Body}) -> {Code, [Header || {Name, _} = Header <- Headers,
                                                 lists:member(Name, ?HEADERS)], Body};
seen(closed) -> closed.

answer(Socket, Request) ->
    ok = inet:setopts(Socket, [{packet, http_bin}]),
    case gen_tcp:recv(Socket, 0, ?PATIENCE_MS) of
        {ok, {http_response, _, Code, _}} ->
            Headers = headers(Socket),
            IsHead = is_list(hd(Request)) andalso hd(Request) =:= "HEAD",
            {Code, Headers, body(Socket, IsHead, maps:from_list(Headers))};
        {error, Why} when Why =:= closed; Why =:= econnreset ->
            closed
    end.

headers(Socket) ->
    case gen_tcp:recv(Socket, 0, ?PATIENCE_MS) of
        {ok, {http_header, _, Name, _, Value}} ->
            [{iolist_to_binary(io_lib:format("~ts", [Name])), Value} | headers(Socket)];
        {ok, http_eoh} ->
            []
    end.

body(_, true, _) -> <<>>;
body(Socket, false, #{<<"Transfer-Encoding">> := <<"chunked">>}) ->
    iolist_to_binary(chunks(Socket));
body(Socket, false, #{<<"Content-Length">> := Length}) ->
    bytes(Socket, binary_to_integer(Length)).

chunks(Socket) ->
    ok = inet:setopts(Socket, [{packet, line}]),
    {ok, Line} = gen_tcp:recv(Socket, 0, ?PATIENCE_MS),
    Size = binary_to_integer(string:trim(Line), 16),
    Chunk = binary_part(bytes(Socket, Size + 2), 0, Size),
    case Size of
        0 -> [];
        _ -> [Chunk | chunks(Socket)]
    end.

bytes(_, 0) -> <<>>;
bytes(Socket, Length) ->
    ok = inet:setopts(Socket, [{packet, raw}]),
    {ok, Bytes} = gen_tcp:recv(Socket, Length, ?PATIENCE_MS),
    Bytes.
