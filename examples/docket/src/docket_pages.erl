%% @doc Answers requests of people with pages.
%%
%% A form changes a case and leads back to its page, so that a reload sends nothing twice. If a
%% value is wrong, or someone else was faster, the form comes again with the user's values and the
%% reason. If the server cannot make the change now, a button sends the same values again.
%% @hidden
-module(docket_pages).

-export([answer/1]).

-define(HTML, {"content-type", "text/html; charset=utf-8"}).
%% Empty rows for parties in a form
-define(MORE_ROWS, 3).
%% Changes on the page of a case
-define(EVENTS, 100).
-define(TYPES, #{<<"style.css">> => "text/css", <<"script.js">> => "text/javascript"}).

%% @doc Answers a request. A request that changes something comes from a page of this server.
-spec answer(docket_http:request()) -> docket_http:response().
answer(#{method := <<"GET">>, path := [File]}) when is_map_key(File, ?TYPES) ->
    {ok, Bytes} = file:read_file(filename:join(code:priv_dir(docket), File)),
    {200, [{"content-type", maps:get(File, ?TYPES)}, {"cache-control", "max-age=3600"}], Bytes};
answer(#{method := <<"GET">>, path := []} = Request) -> list(Request);
answer(#{method := <<"GET">>, path := [<<"new">>]} = Request) ->
    page(200, Request, <<"New case">>, [docket_html:heading("New case"), create_form(#{})]);
answer(#{method := <<"GET">>, path := [<<"picture">>]} = Request) ->
    page(200, Request, <<"Picture">>,
         [docket_html:heading("A picture that all nodes compute"),
          "<p><img class=\"picture\" src=\"/api/picture?width=640&amp;height=480\" width=\"640\" "
          "height=\"480\" alt=\"The Mandelbrot set\"></p>"]);
answer(#{method := Method}) when Method =/= <<"GET">>, Method =/= <<"POST">> ->
    docket_api:bad_method("a page", [<<"GET">>, <<"POST">>]);
answer(#{method := <<"POST">>, path := [<<"cases">>]} = Request) -> create(Request);
answer(#{path := [<<"cases">>, Text | Path], user := User, method := Method} = Request) ->
    case docket_id:from_text(Text) of
        {ok, Id} -> in_case(Method, Path, {User, Id}, Request);
        error -> refused(Request, not_found)
    end;
answer(Request) -> refused(Request, not_found).

%% The list

list(#{query := Query, user := User} = Request) ->
    case docket_input:list(Query) of
        {ok, #{before := Before, most := Most, filter := Filter}} ->
            case docket:run({list, User, Before, Most, Filter}) of
                {ok, {Cases, Next}} ->
                    page(200, Request, <<"Cases">>,
                         [docket_html:heading("Cases"), search_form(Query),
                          table([docket_case:view(Case) || Case <- Cases], Filter),
                          next_link(Query, Next)]);
                {error, Reason} -> refused(Request, Reason)
            end;
        {error, Why} -> failed(400, Request, Why)
    end.

search_form(Query) ->
    State = proplists:get_value(<<"state">>, Query, <<>>),
    ["<form class=\"search\" action=\"/\" role=\"search\">",
     docket_html:field(#{label => "Title or party", name => "search", type => "search",
                         value => proplists:get_value(<<"search">>, Query, <<>>)}),
     "<label>State <select name=\"state\">",
     [docket_html:option(Value, Label, Value =:= State)
      || {Value, Label} <- [{<<>>, "all"}, {<<"open">>, "open"}, {<<"closed">>, "closed"}]],
     "</select></label><button>Search</button></form>"].

table([], Filter) when map_size(Filter) =:= 0 ->
    "<p>There are no cases here. <a href=\"/new\">Open the first one.</a></p>";
table([], _) -> "<p>No case among the latest ones fits the search.</p>";
table(Cases, _) ->
    ["<table><thead><tr><th scope=\"col\">Case</th><th scope=\"col\">Parties</th>"
     "<th scope=\"col\">State</th><th scope=\"col\">Changed</th></tr></thead><tbody>",
     [["<tr><td data-label=\"Case\">", docket_html:link(["/cases/", Id], Title),
       "</td><td data-label=\"Parties\">",
       docket_html:text(lists:join(", ", [Name || #{name := Name} <- Parties])),
       "</td><td data-label=\"State\">", state(State), "</td><td data-label=\"Changed\">",
       time(Changed), "</td></tr>"]
      || #{id := Id, title := Title, parties := Parties, state := State,
           changed := Changed} <- Cases],
     "</tbody></table>"].

state(State) -> ["<span class=\"state ", atom_to_list(State), "\">", atom_to_list(State),
                 "</span>"].

%% The pages show minutes; the whole time is in the attribute.
time(<<Day:10/binary, "T", Minute:5/binary, _/binary>> = Text) ->
    ["<time datetime=\"", Text, "\">", Day, " ", Minute, "</time>"].

next_link(_, none) -> [];
next_link(Query, Next) ->
    Pairs = [Pair || {Name, _} = Pair <- Query, Name =/= <<"before">>],
    Address = ["/?", uri_string:compose_query([{<<"before">>, docket_id:to_text(Next)} | Pairs])],
    ["<p>", docket_html:link(Address, <<"Older cases">>), "</p>"].

%% One case

in_case(<<"GET">>, [], Key, Request) -> show(200, Key, Request, []);
in_case(<<"GET">>, [<<"documents">>, _], _, #{path := Path} = Request) ->
    docket_api:answer(Request#{path := Path});
in_case(<<"POST">>, Path, Key, #{body := Body} = Request) ->
    case docket_input:form(Body) of
        {ok, Form} -> act(Path, Form, Key, Request);
        {error, Why} -> failed(400, Request, Why)
    end;
in_case(_, _, _, Request) -> refused(Request, not_found).

act([], Form, Key, Request) ->
    change(maps:with([<<"version">>], Form), case_fields(Form), Key, Request);
act([State], Form, Key, Request) when State =:= <<"open">>; State =:= <<"closed">> ->
    change(maps:with([<<"version">>], Form), #{<<"state">> => State}, Key, Request);
act([<<"remove">>], Form, Key, Request) ->
    with(docket_input:version(maps:to_list(maps:with([<<"version">>], Form)), none), Key, Request,
         fun(Version) ->
                 done(docket:run({remove, Key, Version, docket_time:now()}), Key, Request, "/")
         end);
act([<<"documents">>], #{<<"name">> := Name, <<"text">> := Text}, Key, Request) ->
    with(docket_input:document([{<<"name">>, Name}], "text/plain; charset=utf-8"), Key, Request,
         fun(Document) ->
                 done(docket:run({attach, Key, Document, Text, docket_time:now()}), Key, Request,
                      address(Key))
         end);
act([<<"documents">>, Text, <<"remove">>], _, Key, Request) ->
    case docket_input:number(Text) of
        {ok, Number} ->
            done(docket:run({detach, Key, Number, docket_time:now()}), Key, Request, address(Key));
        {error, _} -> refused(Request, not_found)
    end;
act(_, _, _, Request) -> refused(Request, not_found).

%% A form without rows for parties does not change them.
case_fields(Form) ->
    maps:from_list([{<<"title">>, maps:get(<<"title">>, Form, <<>>)}
                    | [{<<"parties">>, docket_input:parties(Form)}
                       || docket_input:rows(Form) =/= []]]).

create(#{body := Body, user := User} = Request) ->
    case docket_input:form(Body) of
        {ok, Form} ->
            case docket_input:new(json(case_fields(Form))) of
                {ok, Fields} ->
                    Now = docket_time:now(),
                    Key = {User, docket_store:new_id(Now)},
                    done(docket:run({create, Key, Fields, Now}), Key, Request, address(Key));
                {error, Why} ->
                    page(400, Request, <<"New case">>,
                         [docket_html:heading("New case"), docket_html:alert(Why),
                          create_form(Form)])
            end;
        {error, Why} -> failed(400, Request, Why)
    end.

change(Version, Fields, Key, Request) ->
    Given = case Version of
                #{<<"version">> := Text} -> [{<<"version">>, Text}];
                _ -> []
            end,
    with(docket_input:version(Given, none), Key, Request,
         fun(Number) ->
                 with(docket_input:change(json(Fields#{<<"version">> => Number}), none), Key,
                      Request,
                      fun({_, Checked}) ->
                              done(docket:run({change, Key, Number, Checked, docket_time:now()}),
                                   Key,
                                   Request, address(Key))
                      end)
         end).

%% The checks of the API are those of the forms too.
json(Fields) -> iolist_to_binary(json:encode(Fields)).

with({ok, Value}, _, _, Fun) -> Fun(Value);
with({error, Why}, Key, #{body := Body} = Request, _) ->
    {ok, Form} = docket_input:form(Body),
    show(400, Key, Request, docket_html:alert(Why), maps:remove(<<"version">>, Form)).

done({ok, _}, _, _, Address) -> {303, [{"location", Address}], []};
done({error, {conflict, _}}, Key, #{body := Body} = Request, _) ->
    {ok, Form} = docket_input:form(Body),
    show(409, Key, Request,
         docket_html:alert(["Someone changed the case since you opened its page, so your change is "
                            "not saved. The page shows the case as it is now. "
                            | case Form of
                                  #{<<"title">> := _} -> "The form has your values: correct them, "
                                                         "and save them again.";
                                  _ -> "If you still want the change, press the button again."
                              end]),
         maps:remove(<<"version">>, Form));
done({error, closed}, Key, Request, _) ->
    show(409, Key, Request, docket_html:alert("The case is closed. Open it first."));
done({error, Reason}, _, Request, _) -> refused(Request, Reason).

address({_, Id}) -> ["/cases/", docket_id:to_text(Id)].

show(Status, Key, Request, Alert) -> show(Status, Key, Request, Alert, #{}).

%% `Typed' has the values of a form that is not saved.
show(Status, Key, #{query := Query} = Request, Alert, Typed) ->
    case docket:run({show, Key}) of
        {ok, Case} ->
            #{title := Title, id := Id, version := Version} = View = docket_case:view(Case),
            case docket_input:before(Query, Version) of
                {ok, Before} ->
                    page(Status, Request, Title,
                         case_page(View, history(Key, Id, Before), Alert, Typed));
                {error, Why} -> failed(400, Request, Why)
            end;
        {error, Reason} -> refused(Request, Reason)
    end.

%% The changes before a version, the oldest first. Each change makes the next version.
history(Key, Id, Before) ->
    After = max(0, Before - 1 - ?EVENTS),
    case docket:run({events, Key, After, Before - 1 - After}) of
        {ok, Events} ->
            [[["<p>", docket_html:link(["/cases/", Id, "?before=", integer_to_list(After + 1)],
                                       <<"Earlier changes">>), "</p>"] || After > 0],
             "<ol class=\"events\">", [event(docket_event:view(Event)) || Event <- Events],
             "</ol>"];
        {error, _} -> "<p>The history cannot be shown now. Load the page again.</p>"
    end.

case_page(#{title := Title, state := State, version := Version, id := Id, opened := Opened,
            changed := Changed, closed := Closed, documents := Documents} = View, History, Alert,
          Typed) ->
    Base = ["/cases/", Id],
    Open = State =:= open,
    [docket_html:heading(Title), Alert,
     "<p>", state(State), " Opened ", time(Opened), ", changed ", time(Changed),
     [[", closed ", time(Closed)] || Closed =/= null],
     ", version ", integer_to_list(Version), ".</p>",
     [parties(View) || not Open orelse is_map_key(<<"title">>, Typed)],
     [case_form(View, Base, Typed) || Open],
     "<h2>Documents</h2>", documents(Documents, Base, Open), [upload_forms(Base, Id) || Open],
     "<h2>History</h2>", History,
     "<h2>Close or remove</h2><div class=\"actions\">",
     case Open of
         true -> button([Base, "/closed"], Version, "Close the case", "");
         false -> button([Base, "/open"], Version, "Open the case again", "")
     end,
     button([Base, "/remove"], Version, "Remove the case", " class=\"danger\""), "</div>"].

case_form(#{title := Title, version := Version, parties := Parties}, Action, Typed) ->
    ["<form method=\"post\" action=\"", Action, "\">", hidden(Version),
     docket_html:field(#{label => "Title", name => "title", required => true, most => 200,
                         value => maps:get(<<"title">>, Typed, Title)}),
     party_fields(case docket_input:rows(Typed) of
                      [] -> [{Name, Role} || #{name := Name, role := Role} <- Parties];
                      Rows -> Rows
                  end, "Save the case to get more rows"),
     "<button>Save</button></form>"].

create_form(Form) ->
    ["<form method=\"post\" action=\"/cases\">",
     docket_html:field(#{label => "Title", name => "title", required => true, most => 200,
                         value => maps:get(<<"title">>, Form, <<>>)}),
     party_fields(docket_input:rows(Form), "You can add more parties later"),
     "<button>Open the case</button></form>"].

%% The form has a few empty rows for further parties. The hint says how to get more.
party_fields(Rows, Hint) ->
    Used = [Row || Row <- Rows, Row =/= {<<>>, <<>>}],
    Most = docket_input:most_parties(),
    All = lists:sublist(Used ++ lists:duplicate(?MORE_ROWS, {<<>>, <<>>}), Most),
    ["<fieldset><legend>Parties</legend>",
     [party_field(integer_to_list(Number), Row)
      || {Number, Row} <- lists:enumerate(All)],
     "<p>Empty rows do not count. ", Hint, ", up to ", integer_to_list(Most), ".</p></fieldset>"].

party_field(Number, {Name, Role}) ->
    ["<div class=\"party\">",
     docket_html:field(#{label => "Name", spoken => "Name of party " ++ Number,
                         name => "name" ++ Number, most => 100, value => Name}),
     docket_html:field(#{label => "Role", spoken => "Role of party " ++ Number,
                         name => "role" ++ Number, most => 50, value => Role}),
     "</div>"].

parties(#{parties := []}) -> [];
parties(#{parties := Parties}) ->
    ["<h2>Parties</h2><ul>",
     [["<li>", docket_html:text([Name, ", ", Role]), "</li>"]
      || #{name := Name, role := Role} <- Parties], "</ul>"].

documents([], _, _) -> "<p>There are none.</p>";
documents(Documents, Base, Open) ->
    ["<ul class=\"documents\">",
     [["<li>", docket_html:link([Base, "/documents/", integer_to_list(Number)], Name), " (",
       integer_to_list(Bytes), " bytes) ",
       [["<form class=\"inline\" method=\"post\" action=\"", Base, "/documents/",
         integer_to_list(Number), "/remove\"><button class=\"danger\" aria-label=\"Remove ",
         docket_html:text(Name), "\">Remove</button></form>"] || Open],
       "</li>"]
      || #{number := Number, name := Name, bytes := Bytes} <- Documents], "</ul>"].

upload_forms(Base, Id) ->
    ["<details><summary>Add a text</summary><form method=\"post\" action=\"", Base, "/documents\">",
     docket_html:field(#{label => "Name", name => "name", value => "note.txt", required => true,
                         most => 100}),
     docket_html:area(#{label => "Text", name => "text", value => ""}),
     "<button>Add the text</button></form></details>"
     "<details><summary>Add a file</summary><form class=\"upload\" data-case=\"", Id, "\">"
     "<label>File <input type=\"file\" name=\"file\" required></label>"
     "<button>Add the file</button><p role=\"alert\" hidden></p></form></details>"].

event(#{what := What, at := At} = Event) ->
    ["<li>", time(At), " ", what(What, Event), "</li>"].

what(changed, #{fields := Fields}) ->
    ["changed: ", lists:join(", ", [atom_to_list(Field) || Field <- Fields])];
what(attached, #{document := Number}) -> ["document ", integer_to_list(Number), " added"];
what(detached, #{document := Number}) -> ["document ", integer_to_list(Number), " removed"];
what(created, _) -> "opened";
what(removed, _) -> "removed".

button(Action, Version, Label, Class) ->
    ["<form method=\"post\" action=\"", Action, "\">", hidden(Version), "<button", Class, ">",
     Label,
     "</button></form>"].

hidden(Version) ->
    ["<input type=\"hidden\" name=\"version\" value=\"", integer_to_list(Version), "\">"].

%% The page around all of them

refused(Request, Reason) ->
    {Status, _, Why} = docket_api:explain(Reason),
    {Status, Headers, Page} = failed(Status, Request, Why, again(Status, Request)),
    {Status, docket_api:retry(Status) ++ Headers, Page}.

%% The same form, with its values, for a change that was not made or may not have been made.
again(Status, #{method := <<"POST">>, path := Path, body := Body})
  when Status =:= 503; Status =:= 504 ->
    {ok, Form} = docket_input:form(Body),
    ["<form method=\"post\" action=\"", [["/", uri_string:quote(Part)] || Part <- Path], "\">",
     [["<input type=\"hidden\" name=\"", docket_html:text(Name), "\" value=\"",
       docket_html:text(Value), "\">"] || {Name, Value} <- lists:sort(maps:to_list(Form))],
     "<button>", case Status of
                     503 -> "Send it again";
                     504 -> "It was not made: send it again"
                 end, "</button></form>"];
again(_, _) -> [].

failed(Status, Request, Why) -> failed(Status, Request, Why, []).

failed(Status, Request, Why, Form) ->
    Title = title(Status),
    page(Status, Request, Title, [docket_html:heading(Title), docket_html:alert(Why), Form]).

title(504) -> <<"Perhaps not done">>;
title(500) -> <<"Done, but not safe">>;
title(_) -> <<"Not done">>.

page(Status, #{user := User}, Title, Content) ->
    {Status, [?HTML, {"content-security-policy", "default-src 'self'; frame-ancestors 'none'"},
              {"cache-control", "no-store"}],
     docket_html:page(Title, User, Content)}.
