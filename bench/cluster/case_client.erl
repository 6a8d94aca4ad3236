%% @doc Asks a node of docket about cases, and says what is certain afterwards.
%%
%% It speaks HTTP over gen_tcp and keeps connections alive. It never repeats a request: a repeated
%% write could be made twice (httpc of OTP 25 repeats one after 503).
-module(case_client).

-export([new/0, ask/4, ready/2, list/3, closed/1]).

-export_type([connections/0]).

-opaque connections() :: #{pos_integer() => gen_tcp:socket()}.

-define(CONNECT_MS, 1000).
%% docket gives an operation up after 5 s. A client that waits less asks more often during a fault.
-define(ANSWER_MS, 3000).
-define(FINAL_MS, 10000).
-define(PAGE, 100).
-define(LOGIN, "YW5uOnNlY3JldA==").          % ann:secret, the user of the stage

%% @doc Returns no connections. They belong to the process that asks.
-spec new() -> connections().
new() -> #{}.

%% @doc Closes all connections.
-spec closed(connections()) -> ok.
closed(Connections) -> lists:foreach(fun gen_tcp:close/1, maps:values(Connections)).

%% @doc Does one operation on a node.
-spec ask(pos_integer(), history:key(), history:input(), connections()) ->
          {history:key(), history:result(), connections()}.
ask(Node, Key, Input, Connections) ->
    {Method, Path, Body} = request(Input, Key),
    Timeout = case Input of final -> ?FINAL_MS; _ -> ?ANSWER_MS end,
    case exchange(Node, Method, Path, Body, Timeout, Connections) of
        {{answer, Status, Answer}, Connections1} ->
            {Key1, Result} = result(Input, Key, Status, Answer),
            {Key1, Result, Connections1};
        {Lost, Connections1} -> {Key, Lost, Connections1}
    end.

request({create, Title}, none) -> {"POST", "/api/cases", ["{\"title\":\"", Title, "\"}"]};
request({change, From, Title}, Key) ->
    {"PATCH", ["/api/cases/", Key],
     ["{\"version\":", integer_to_list(From), ",\"title\":\"", Title, "\"}"]};
request({remove, From}, Key) ->
    {"DELETE", ["/api/cases/", Key, "?version=", integer_to_list(From)], []};
request(_, Key) -> {"GET", ["/api/cases/", Key], []}.

%% docket's README says what each status means.
result({create, _}, _, 201, Answer) ->
    [{Key, Case}] = cases(Answer),
    {Key, {ok, Case}};
result({remove, _}, Key, 204, _) -> {Key, {ok, absent}};
result(Input, Key, Status, Answer) ->
    IsRead = case_register:is_read(Input),
    {Key, case {Status, cases(Answer)} of
              {200, [{Key, Case}]} -> {ok, Case};
              {404, []} when IsRead -> {ok, absent};
              {404, []} -> {refused, absent};
              {409, [{Key, Case}]} -> {refused, Case};
              {503, _} -> {failed, 503};
              _ -> {unknown, Status}
          end}.

%% The cases of an answer in JSON. Here they have neither parties nor documents, so no other object
%% is inside of theirs.
cases(Answer) ->
    case re:run(Answer, "\\{[^{}]*\\}", [global, {capture, first, binary}]) of
        {match, Objects} ->
            [{Key, {binary_to_integer(Version), Title}}
             || [Object] <- Objects,
                {match, [Key]} <- [field(Object, "\"id\":\"([^\"]*)\"")],
                {match, [Version]} <- [field(Object, "\"version\":([0-9]+)")],
                {match, [Title]} <- [field(Object, "\"title\":\"([^\"]*)\"")]];
        nomatch -> []
    end.

field(Object, Pattern) -> re:run(Object, Pattern, [{capture, all_but_first, binary}]).

%% @doc Tells whether a node is ready to serve.
-spec ready(pos_integer(), connections()) -> {boolean(), connections()}.
ready(Node, Connections) ->
    {Result, Connections1} = exchange(Node, "GET", "/ready", [], ?ANSWER_MS, Connections),
    {element(1, Result) =:= answer andalso element(2, Result) =:= 200, Connections1}.

%% @doc Lists the cases of a node, latest first, as long as a page has one that is wanted.
-spec list(pos_integer(), fun((history:state()) -> boolean()), connections()) ->
          {ok, #{history:key() => history:state()}, connections()} | {error, term()}.
list(Node, IsWanted, Connections) -> list(Node, IsWanted, "", #{}, Connections).

list(Node, IsWanted, Before, Found, Connections) ->
    Path = ["/api/cases?limit=", integer_to_list(?PAGE), Before],
    case exchange(Node, "GET", Path, [], ?FINAL_MS, Connections) of
        {{answer, 200, Answer}, Connections1} ->
            Page = [Case || {_, State} = Case <- cases(Answer), IsWanted(State)],
            Found1 = maps:merge(Found, maps:from_list(Page)),
            case {Page, field(Answer, "\"next\":\"([^\"]*)\"")} of
                {[_ | _], {match, [Next]}} ->
                    list(Node, IsWanted, ["&before=", Next], Found1, Connections1);
                _ -> {ok, Found1, Connections1}
            end;
        {Other, Connections1} ->
            ok = closed(Connections1),
            {error, {Node, Other}}
    end.

%%% HTTP

exchange(Node, Method, Path, Body, Timeout, Connections) ->
    case connected(Node, Connections) of
        {ok, Socket} ->
            Request = [Method, " ", Path, " HTTP/1.1\r\nHost: docket\r\n",
                       "Authorization: Basic ", ?LOGIN, "\r\nContent-Length: ",
                       integer_to_list(iolist_size(Body)), "\r\n\r\n", Body],
            Until = erlang:monotonic_time(millisecond) + Timeout,
            try
                ok = checked(inet:setopts(Socket, [{packet, http_bin}])),
                ok = checked(gen_tcp:send(Socket, Request)),
                {http_response, _, Status, _} = checked(gen_tcp:recv(Socket, 0, left(Until))),
                {Length, Keep} = headers(Socket, Until, 0, true),
                ok = checked(inet:setopts(Socket, [{packet, raw}])),
                Answer = case Length of
                             0 -> <<>>;
                             _ -> checked(gen_tcp:recv(Socket, Length, left(Until)))
                         end,
                {{answer, Status, Answer}, kept(Keep, Node, Socket, Connections)}
            catch throw:Reason ->
                    {{unknown, Reason}, kept(false, Node, Socket, Connections)}
            end;
        {error, Reason} -> {{failed, Reason}, maps:remove(Node, Connections)}
    end.

checked(ok) -> ok;
checked({ok, Value}) -> Value;
checked({error, Reason}) -> throw(Reason).

left(Until) -> max(0, Until - erlang:monotonic_time(millisecond)).

headers(Socket, Until, Length, Keep) ->
    case checked(gen_tcp:recv(Socket, 0, left(Until))) of
        http_eoh -> {Length, Keep};
        {http_header, _, 'Content-Length', _, Value} ->
            headers(Socket, Until, binary_to_integer(Value), Keep);
        {http_header, _, 'Connection', _, Value} ->
            headers(Socket, Until, Length, string:lowercase(Value) =/= <<"close">>);
        {http_header, _, _, _, _} -> headers(Socket, Until, Length, Keep);
        Other -> throw(Other)
    end.

kept(true, Node, Socket, Connections) -> Connections#{Node => Socket};
kept(false, Node, Socket, Connections) ->
    ok = gen_tcp:close(Socket),
    maps:remove(Node, Connections).

%% A request on a connection that the node has closed meanwhile would have an unknown result.
connected(Node, Connections) ->
    case Connections of
        #{Node := Socket} ->
            case gen_tcp:recv(Socket, 0, 0) of
                {error, timeout} -> {ok, Socket};
                _ ->
                    ok = gen_tcp:close(Socket),
                    connect(Node)
            end;
        #{} -> connect(Node)
    end.

connect(Node) ->
    docket_stage:connect(Node, [binary, {active, false}, {nodelay, true}], ?CONNECT_MS).
