%% @doc Answers requests with JSON.
%%
%% The README lists the addresses. An error is an object: `error' has a name for programs, `why' a
%% sentence for people, and `case' the case as it is now, if another change came first.
%% @hidden
-module(docket_api).

-export([answer/1, bad_method/2, failure/3, refused/1, explain/1, retry/1, text/2]).

-export_type([refusal/0]).

-type refusal() :: docket_cases:refusal() | docket_store:refusal() | docket:refusal().

-define(JSON, {"content-type", "application/json"}).

%% @doc Answers a request below /api. The path is the part behind /api.
-spec answer(docket_http:request()) -> docket_http:response().
answer(#{method := Method, path := Path, query := Query} = Request) ->
    case methods(Path) of
        [] -> failure(404, not_found, "nothing has this address");
        Methods ->
            case lists:keyfind(Method, 1, Methods) of
                {_, with_query} -> route(Method, Path, Request);
                {_, without_query} ->
                    with(docket_input:none(Query), fun(_) -> route(Method, Path, Request) end);
                false -> bad_method("this address", [Name || {Name, _} <- Methods])
            end
    end.

%% @doc Answers a request with a method that nothing takes there. Where GET works, HEAD does too.
-spec bad_method(Where :: string(), [binary(), ...]) -> docket_http:response().
bad_method(Where, Methods) ->
    Names = lists:join(", ", [<<"GET, HEAD">> || lists:member(<<"GET">>, Methods)]
                       ++ (Methods -- [<<"GET">>])),
    {Status, Headers, Body} = failure(405, bad_method, [Where, " takes ", Names]),
    {Status, [{"allow", Names} | Headers], Body}.

%% Returns the methods that an address takes, and whether they take a query.
methods([<<"cases">>]) -> [{<<"GET">>, with_query}, {<<"POST">>, without_query}];
methods([<<"cases">>, _]) ->
    [{<<"GET">>, without_query}, {<<"PATCH">>, without_query}, {<<"DELETE">>, with_query}];
methods([<<"cases">>, _, <<"events">>]) -> [{<<"GET">>, with_query}];
methods([<<"cases">>, _, <<"documents">>]) -> [{<<"POST">>, with_query}];
methods([<<"cases">>, _, <<"documents">>, _]) ->
    [{<<"GET">>, without_query}, {<<"DELETE">>, without_query}];
methods([<<"picture">>]) -> [{<<"GET">>, with_query}];
methods(_) -> [].

route(<<"GET">>, [<<"cases">>], #{query := Query, user := User}) ->
    with(docket_input:list(Query),
         fun(#{before := Before, most := Most, filter := Filter}) ->
                 run({list, User, Before, Most, Filter},
                     fun({Cases, Next}) ->
                             json(200, #{cases => [docket_case:view(Case) || Case <- Cases],
                                         next => case Next of
                                                     none -> null;
                                                     _ -> docket_id:to_text(Next)
                                                 end})
                     end)
         end);
route(<<"POST">>, [<<"cases">>], #{body := Body, user := User}) ->
    with(docket_input:new(Body),
         fun(Fields) ->
                 Now = docket_time:now(),
                 run({create, {User, docket_store:new_id(Now)}, Fields, Now}, fun created/1)
         end);
route(Method, [<<"cases">>, Text | Path], #{user := User} = Request) ->
    case docket_id:from_text(Text) of
        {ok, Id} -> in_case(Method, Path, {User, Id}, Request);
        error -> refused(not_found)
    end;
route(<<"GET">>, [<<"picture">>], #{query := Query}) ->
    with(docket_input:area(Query),
         fun(Area) ->
                 case docket:picture(Area) of
                     {ok, Png} -> {200, [{"content-type", "image/png"}], Png};
                     {error, Reason} -> refused(Reason)
                 end
         end).

in_case(<<"GET">>, [], Key, _) -> run({show, Key}, fun(Case) -> shown(200, Case) end);
in_case(<<"PATCH">>, [], Key, #{body := Body} = Request) ->
    with(docket_input:change(Body, if_match(Request)),
         fun({Version, Fields}) ->
                 run({change, Key, Version, Fields, docket_time:now()},
                     fun(Case) -> shown(200, Case) end)
         end);
in_case(<<"DELETE">>, [], Key, #{query := Query} = Request) ->
    with(docket_input:version(Query, if_match(Request)),
         fun(Version) -> run({remove, Key, Version, docket_time:now()}, fun empty/1) end);
in_case(<<"GET">>, [<<"events">>], Key, #{query := Query}) ->
    with(docket_input:events(Query),
         fun(#{'after' := After, most := Most}) ->
                 run({events, Key, After, Most},
                     fun(Events) ->
                             json(200, #{events => [docket_event:view(Event) || Event <- Events]})
                     end)
         end);
in_case(<<"POST">>, [<<"documents">>], Key, #{query := Query, body := Body, headers := Headers}) ->
    with(docket_input:document(Query, proplists:get_value("content-type", Headers, "")),
         fun(Document) ->
                 run({attach, Key, Document, Body, docket_time:now()},
                     fun(Case) -> shown(201, Case) end)
         end);
in_case(Method, [<<"documents">>, Text], Key, _) ->
    case docket_input:number(Text) of
        {ok, Number} when Method =:= <<"GET">> ->
            run({document, Key, Number}, fun({Document, Bytes}) -> file(Document, Bytes) end);
        {ok, Number} ->
            run({detach, Key, Number, docket_time:now()}, fun(Case) -> shown(200, Case) end);
        {error, _} -> refused(not_found)
    end.

if_match(#{headers := Headers}) -> proplists:get_value("if-match", Headers, none).

with({ok, Value}, Fun) -> Fun(Value);
with({error, Why}, _) -> failure(400, bad_request, Why).

run(Operation, Fun) ->
    case docket:run(Operation) of
        {ok, Result} -> Fun(Result);
        {error, Reason} -> refused(Reason)
    end.

created(Case) ->
    {Status, Headers, Body} = shown(201, Case),
    {_, Id} = docket_case:key(Case),
    {Status, [{"location", ["/api/cases/", docket_id:to_text(Id)]} | Headers], Body}.

shown(Status, Case) ->
    {_, Headers, Body} = json(Status, docket_case:view(Case)),
    {Status, [{"etag", [$", integer_to_list(docket_case:version(Case)), $"]} | Headers], Body}.

empty(_) -> {204, [], []}.

%% A browser must not run a document as a page of this server.
file({_, Name, Type, _}, Bytes) ->
    {200, [{"content-type", Type}, {"content-security-policy", "sandbox"},
           {"content-disposition",
            ["attachment; filename*=UTF-8''", uri_string:quote(Name)]}], Bytes}.

json(Status, Map) -> {Status, [?JSON], [json:encode(Map), $\n]}.

%% @doc Makes the answer to a request that is refused: by the store, or by a gate before it.
-spec refused(refusal()) -> docket_http:response().
refused(Reason) ->
    {Status, Name, Why} = explain(Reason),
    {_, Headers, Body} = case Reason of
                             {conflict, Case} ->
                                 json(Status, #{error => Name, why => list_to_binary(Why),
                                                'case' => docket_case:view(Case)});
                             _ -> failure(Status, Name, Why)
                         end,
    {Status, retry(Status) ++ Headers, Body}.

%% @doc Returns the status, the name and the sentence for a refusal.
-spec explain(refusal()) -> {400..599, atom(), string()}.
explain(not_found) -> {404, not_found, "you have no such case or document"};
explain({conflict, _}) -> {409, conflict, "someone changed the case since you read it"};
explain(closed) -> {409, closed, "the case is closed; open it first"};
explain(too_many_documents) -> {409, too_many_documents, "the case has 100 documents"};
explain(busy) -> {503, busy, "the server has too much to do; try again"};
explain(id_taken) -> {503, busy, "the server's clock went back; try again"};
explain(not_ready) -> {503, not_ready, "the server has not loaded its tables yet; try again"};
explain(minority) ->
    {503, minority, "too few nodes are connected to keep a change safe; try again"};
explain(unknown) ->
    {504, unknown, "the change took too long: read the case to see whether it was made"};
explain(slow) ->
    {504, slow, "the picture takes too long: ask for a smaller one, or for fewer steps"};
explain(disk) ->
    {500, disk, "the change is made, but the server cannot write it to its disk: it may be lost"}.

%% @doc Returns the header that tells when to try again. Only 503 has it: with another status, the
%% change may be made, and a client that repeats the request could make it twice.
-spec retry(400..599) -> [{string(), string()}].
retry(503) -> [{"retry-after", "1"}];
retry(_) -> [].

%% @doc Makes the answer to a request that failed.
-spec failure(400..599, Name :: atom(), Why :: iodata()) -> docket_http:response().
failure(Status, Name, Why) ->
    json(Status, #{error => Name, why => unicode:characters_to_binary(Why)}).

%% @doc Makes an answer of plain text.
-spec text(200..599, iodata()) -> docket_http:response().
text(Status, Text) -> {Status, [{"content-type", "text/plain; charset=utf-8"}], Text}.
