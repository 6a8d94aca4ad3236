%% Asks a running server over HTTP, as a client of the API and as a browser do.
-module(docket_client).

-export([new_case/1, path/1, ask/2, ask/3, ask/4, ask_as/3, send/3, form/2, form/3, status/3,
         login/1, code/1, url/1]).

new_case(Title) ->
    {201, _, #{<<"id">> := Id}} = ask(post, "/api/cases", #{title => Title}),
    Id.

path(Id) -> "/api/cases/" ++ binary_to_list(Id).

ask(Method, Path) -> ask(Method, Path, none).

ask(Method, Path, Body) -> ask(Method, Path, Body, "ann").

ask(Method, Path, none, User) ->
    answer(httpc:request(Method, request(Path, User), options(), binary()));
ask(Method, Path, Body, User) ->
    Request = erlang:append_element(erlang:append_element(request(Path, User), "application/json"),
                                    iolist_to_binary(json:encode(Body))),
    answer(httpc:request(Method, Request, options(), binary())).

ask_as(User, Password, Path) ->
    answer(httpc:request(get, {url(Path), [login(User, Password)]}, options(), binary())).

send(Method, Path, Bytes) ->
    answer(httpc:request(Method, {url(Path), [login("ann")], "application/octet-stream", Bytes},
                         options(),
                         binary())).

form(Path, Fields) -> form(Path, Fields, []).

form(Path, Fields, Headers) ->
    Body = uri_string:compose_query(Fields),
    answer(httpc:request(post,
                         {url(Path), [login("ann") | Headers], "application/x-www-form-urlencoded",
                          Body},
                         options(), binary())).

status(Method, Path, Headers) ->
    {ok, {{_, Status, _}, Answered, _}} = httpc:request(Method, {url(Path), Headers}, options(),
                                                        binary()),
    {Status, Answered}.

answer({ok, {{_, Status, _}, Headers, Body}}) ->
    case proplists:get_value("content-type", Headers) of
        "application/json" -> {Status, Headers, json:decode(Body)};
        _ -> {Status, Headers, Body}
    end.

request(Path, User) -> {url(Path), [login(User)]}.

login(User) -> login(User, "secret").

login(User, Password) -> {"authorization", "Basic " ++ code([User, $:, Password])}.

code(Text) -> base64:encode_to_string(iolist_to_binary(Text)).

options() -> [{autoredirect, false}].

binary() -> [{body_format, binary}].

url(Path) -> "http://127.0.0.1:" ++ integer_to_list(docket:port()) ++ Path.
