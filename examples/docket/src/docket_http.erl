%% @doc Serves HTTP with inets' httpd.
%%
%% It turns a request of httpd into a request() and passes it on: paths below /api to docket_api,
%% the others to docket_pages. It checks the user's password, and that a form comes from one of our
%% pages.
%% @hidden
-module(docket_http).
-behaviour(gen_server).

-include_lib("inets/include/httpd.hrl").

-export([start_link/0, port/0, do/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

-export_type([request/0, response/0]).

-type request() :: #{method := binary(),
                     path := [binary()],                % decoded segments
                     query := [{binary(), binary()}],   % decoded; a name may occur once
                     headers := [{string(), string()}], % names in lower case
                     body := binary(),
                     user := docket_case:owner()}.

-type response() :: {Status :: 200..599, Headers :: [{string(), iodata()}], Body :: iodata()}.

-define(URI, 2048).                     % bytes of an address
-define(HEADER, 16384).                 % bytes of all headers

%% @doc Starts httpd. inets supervises its processes; this process ends with them, and stops them.
-spec start_link() -> gen_server:start_ret().
start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @private
-spec init([]) -> {ok, pid()} | {stop, term()}.
init([]) ->
    process_flag(trap_exit, true),
    %% httpd wants two directories. It reads nothing from them, because no module here serves files.
    Config = [{port, docket_config:get(port)}, {bind_address, docket_config:get(ip)},
              {ipfamily, case docket_config:get(ip) of {_, _, _, _} -> inet; _ -> inet6 end},
              {server_name, "docket"}, {server_root, "/"}, {document_root, "/"},
              {server_tokens, none},
              {modules, [whittle_counters_inets, ?MODULE]},
              {socket_type, {ip_comm, [{nodelay, true}, {backlog, 1024}]}},
              {max_clients, docket_config:get(clients)}, {keep_alive, true},
              {keep_alive_timeout, 60}, {max_uri_size, ?URI}, {max_header_size, ?HEADER},
              {max_body_size, docket_config:get(document)},
              {request_timeout, (docket_config:get(body_timeout) + 999) div 1000}],
    case inets:start(httpd, Config) of
        {ok, Httpd} ->
            true = link(Httpd),
            {ok, Httpd};
        {error, Reason} -> {stop, {shutdown, listen_error(Reason)}}
    end.

listen_error(Reason) ->
    case [Why || {listen, Why} <- nested(Reason)] of
        [Why | _] -> {listen, Why};
        [] -> Reason
    end.

nested(Term) when is_tuple(Term) -> [Term | lists:flatmap(fun nested/1, tuple_to_list(Term))];
nested(_) -> [].

%% @doc Returns the port that httpd listens on.
-spec port() -> inet:port_number().
port() ->
    case docket_config:get(port) of
        %% httpd asks the resolver for its answer, and a machine without one takes long.
        0 -> gen_server:call(?MODULE, port, infinity);
        Port -> Port
    end.

%% @private
-spec handle_call(port, gen_server:from(), pid()) -> {reply, inet:port_number(), pid()}.
handle_call(port, _, Httpd) ->
    [{port, Port}] = httpd:info(Httpd, [port]),
    {reply, Port, Httpd}.

%% @private
-spec handle_cast(term(), pid()) -> {noreply, pid()}.
handle_cast(_, Httpd) -> {noreply, Httpd}.

%% @private
-spec handle_info(term(), pid()) -> {noreply, pid()} | {stop, term(), pid()}.
handle_info({'EXIT', Httpd, Reason}, Httpd) -> {stop, Reason, Httpd};
handle_info(_, Httpd) -> {noreply, Httpd}.

%% @private
-spec terminate(term(), pid()) -> ok.
terminate(_, Httpd) ->
    true = unlink(Httpd),
    _ = inets:stop(httpd, Httpd),
    ok.

%% @doc Answers one request. httpd calls it in the process of the connection.
-spec do(#mod{}) -> {proceed, list()}.
do(#mod{data = [_ | _] = Answered}) -> {proceed, Answered};
do(#mod{method = Method, request_uri = Uri, parsed_header = Headers, entity_body = Body}) ->
    Start = erlang:monotonic_time(),
    {Status, Own, Content} =
        try answer(list_to_binary(Method), list_to_binary(Uri), Headers, iolist_to_binary(Body))
        catch Class:Reason:Stack ->
                logger:error("~s ~ts: ~0tp", [Method, Uri, {Class, Reason, Stack}]),
                docket_api:failure(500, failed, "the server failed; its log says why")
        end,
    ok = docket_counts:answered(Method, Status, Start),
    {proceed, [{response, {response, head(Status, Own, Content), sent(Method, Content)}}]}.

head(Status, Headers, Content) ->
    [{code, Status}, {content_length, integer_to_list(iolist_size(Content))},
     {"x-content-type-options", "nosniff"}
     | [{Name, binary_to_list(iolist_to_binary(Value))} || {Name, Value} <- Headers]].

%% An answer to HEAD has the headers of the answer to GET, and no body.
sent("HEAD", _) -> [];
sent(_, Content) -> Content.

answer(Method, Uri, Headers, Body) ->
    case docket_input:address(Uri) of
        {ok, Path, Query} ->
            Request = #{method => method(Method), path => Path, query => Query, headers => Headers,
                        body => Body},
            public(Request);
        error ->
            docket_api:failure(400, bad_address, "the address has a bad % code, a byte that is not "
                               "UTF-8, or a name twice in its query")
    end.

method(<<"HEAD">>) -> <<"GET">>;
method(Method) -> Method.

%% Some addresses need no password.
public(#{method := <<"GET">>, path := [<<"live">>]}) -> docket_api:text(200, "alive\n");
public(#{method := <<"GET">>, path := [<<"ready">>]}) ->
    case docket:ready() of
        true -> docket_api:text(200, "ready\n");
        false -> docket_api:text(503,
                                 "not ready: the tables are not loaded, or this node is not in "
                                 "the majority\n")
    end;
public(#{path := [Name]}) when Name =:= <<"live">>; Name =:= <<"ready">>; Name =:= <<"metrics">> ->
    docket_api:bad_method("this address", [<<"GET">>]);
public(#{headers := Headers} = Request) ->
    case user(proplists:get_value("authorization", Headers, "")) of
        {ok, User} -> for_user(Request#{user => User});
        {error, Why} -> log_in(name, Why);
        error -> log_in(password, "log in with a name and the server's password")
    end.

log_in(Name, Why) ->
    {Status, Own, Body} = docket_api:failure(401, Name, Why),
    {Status, [{"www-authenticate", "Basic realm=\"docket\", charset=\"UTF-8\""} | Own], Body}.

%% HTTP's Basic authentication (RFC 7617): any name, and the password of all users.
user(Header) ->
    try
        [Scheme, Code] = string:lexemes(Header, " "),
        "basic" = string:lowercase(Scheme),
        [Name, Password] = binary:split(base64:decode(Code), <<":">>),
        true = is_same(Password, docket_config:get(secret)),
        docket_input:user(Name)
    catch error:_ -> error
    end.

%% Takes the same time for each wrong password of the same length.
is_same(One, Two) when byte_size(One) =:= byte_size(Two) ->
    0 =:= lists:foldl(fun({A, B}, Sum) -> Sum bor (A bxor B) end, 0,
                      lists:zip(binary_to_list(One), binary_to_list(Two)));
is_same(_, _) -> false.

for_user(#{method := <<"GET">>} = Request) -> routed(Request);
for_user(#{headers := Headers} = Request) ->
    %% A browser sends the password with the forms of other sites too, but names their kind. A form
    %% can also make a body that is JSON.
    case is_own(proplists:get_value("sec-fetch-site", Headers, none), Headers) of
        true -> routed(Request);
        false -> docket_api:failure(403, other_site, "a page of another site cannot change cases")
    end.

%% Older browsers only name the site of the page. Other programs name neither.
is_own(none, Headers) ->
    case proplists:get_value("origin", Headers, none) of
        none -> true;
        Origin -> lists:suffix("://" ++ proplists:get_value("host", Headers, ""), Origin)
    end;
is_own(Kind, _) -> Kind =:= "same-origin".

routed(#{path := [<<"api">> | Path]} = Request) -> docket_api:answer(Request#{path := Path});
routed(Request) -> docket_pages:answer(Request).
