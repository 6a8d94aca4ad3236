%% Tests the pages of the running server: what they show, and what their forms do.
-module(docket_pages_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([pages/1, forms/1, long_history/1, other_sites/1, refused_forms/1, send_again/1]).

-import(docket_client, [new_case/1, ask/2, send/3, form/2, form/3, url/1]).

all() -> [pages, forms, long_history, other_sites, refused_forms, send_again].

init_per_testcase(Case, Config) -> docket_SUITE:init_per_testcase(Case, Config).

end_per_testcase(Case, Config) -> docket_SUITE:end_per_testcase(Case, Config).

pages(_) ->
    Title = <<"<script>alert(\"1\")</script> & '">>,
    Id = new_case(Title),
    {200, Headers, List} = ask(get, "/"),
    ?assertEqual("default-src 'self'; frame-ancestors 'none'",
                 proplists:get_value("content-security-policy", Headers)),
    {200, _, Page} = ask(get, "/cases/" ++ binary_to_list(Id)),
    [begin
         ?assertEqual(nomatch, binary:match(Html, <<"<script>">>)),
         {_, _} = binary:match(Html, <<"&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; "
                                       "&amp; &#39;">>)
     end || Html <- [List, Page]],
    %% Each form says how to get more rows for parties.
    [begin
         {200, _, Form} = ask(get, Path),
         ?assertMatch({Path, {_, _}}, {Path, binary:match(Form, Hint)})
     end || {Path, Hint} <- [{"/new", <<"You can add more parties later, up to">>},
                             {"/cases/" ++ binary_to_list(Id), <<"Save the case to get more">>}]],
    [{200, _, _} = ask(get, Path)
     || Path <- ["/picture", "/style.css", "/script.js", "/?search=x"]],
    {404, _, _} = ask(get, "/cases/000000000000"),
    {400, _, _} = ask(get, "/?limit=0").

forms(_) ->
    {303, Headers, _} = form("/cases", [{"title", "Roof"}, {"name1", "Miller, Ann"},
                                        {"role1", "heir, first"}, {"name2", ""}, {"role2", ""},
                                        {"name3", "Bob \"B\""}, {"role3", "tenant"}]),
    Path = proplists:get_value("location", Headers),
    {200, _, Page} = ask(get, Path),
    %% A form that is saved as it is changes only the version.
    {200, _, #{<<"parties">> := Parties}} = ask(get, "/api" ++ Path),
    ?assertEqual([#{<<"name">> => <<"Miller, Ann">>, <<"role">> => <<"heir, first">>},
                  #{<<"name">> => <<"Bob \"B\"">>, <<"role">> => <<"tenant">>}], Parties),
    {303, _, _} = form(Path, shown(Page)),
    {200, _, #{<<"parties">> := Parties, <<"title">> := <<"Roof">>}} = ask(get, "/api" ++ Path),
    %% A form without rows leaves the parties as they are.
    {303, _, _} = form(Path, [{"version", "2"}, {"title", "Door"}]),
    {200, _, #{<<"parties">> := Parties}} = ask(get, "/api" ++ Path),
    {303, _, _} = form(Path, [{"version", "3"}, {"title", "Door"}, {"name1", ""}, {"role1", ""}]),
    {200, _, #{<<"parties">> := []}} = ask(get, "/api" ++ Path),
    {303, _, _} = form(Path ++ "/documents", [{"name", "a.txt"}, {"text", "hello"}]),
    {200, _, <<"hello">>} = ask(get, Path ++ "/documents/5"),
    {303, _, _} = form(Path ++ "/documents/5/remove", []),
    {303, _, _} = form(Path ++ "/closed", [{"version", "6"}]),
    {303, _, _} = form(Path ++ "/open", [{"version", "7"}]),
    {303, Removed, _} = form(Path ++ "/remove", [{"version", "8"}]),
    ?assertEqual("/", proplists:get_value("location", Removed)),
    {404, _, _} = ask(get, Path).

%% The fields of a case's form, as a browser sends them
shown(Page) ->
    {match, [Form]} = re:run(Page, "<form method=\"post\" action=\"/cases/[0-9A-Z]+\">.*?</form>",
                             [dotall, {capture, first, binary}]),
    {match, Inputs} = re:run(Form, "<input[^>]*>", [global, {capture, first, binary}]),
    [list_to_tuple([unescaped(attribute(Name, Input)) || Name <- ["name", "value"]])
     || [Input] <- Inputs].

attribute(Name, Input) ->
    {match, [Value]} = re:run(Input, [$\s, Name, "=\"([^\"]*)\""], [{capture, [1], list}]),
    Value.

unescaped(Text) ->
    lists:foldl(fun({Escaped, Sign}, Now) ->
                        lists:flatten(string:replace(Now, Escaped, Sign, all))
                end, Text, [{"&quot;", "\""}, {"&#39;", "'"}, {"&lt;", "<"}, {"&gt;", ">"},
                            {"&amp;", "&"}]).

%% The page has the last hundred changes, and a link to those before.
long_history(_) ->
    Path = "/cases/" ++ binary_to_list(new_case(<<"one">>)),
    _ = [{303, _, _} = form(Path, [{"version", integer_to_list(Version)}, {"title", "two"}])
         || Version <- lists:seq(1, 101)],
    {200, _, Last} = ask(get, Path),
    ?assertEqual({100, 0}, changes(Last)),
    {match, [Link]} = re:run(Last, "<a href=\"([^\"]*)\">Earlier changes",
                             [{capture, [1], list}]),
    ?assertEqual(Path ++ "?before=3", Link),
    {200, _, First} = ask(get, Link),
    ?assertEqual({1, 1}, changes(First)),
    ?assertEqual(nomatch, binary:match(First, <<"Earlier changes">>)),
    [{400, _, _} = ask(get, Path ++ Query) || Query <- ["?before=x", "?after=1"]].

%% How many changes, and how many openings, the history of a page has
changes(Page) ->
    {length(binary:matches(Page, <<" changed: title">>)),
     length(binary:matches(Page, <<"</time> opened</li>">>))}.

%% A browser sends the password with a form of another site too.
other_sites(_) ->
    [?assertMatch({_, _, {Status, _, _}},
                  {Site, Path, form(Path, Form, [{"sec-fetch-site", Site}])})
     || {Site, Statuses} <- [{"same-origin", [303, 400]}, {"cross-site", [403, 403]},
                             {"same-site", [403, 403]}, {"none", [403, 403]}],
        {Path, Form, Status} <- lists:zip3(["/cases", "/api/cases"], [[{"title", "x"}], []],
                                           Statuses)],
    %% An older browser names only the page's site.
    [?assertMatch({_, {Status, _, _}},
                  {Origin, form("/cases", [{"title", "x"}], [{"origin", Origin}])})
     || {Origin, Status} <- [{url(""), 303}, {"http://example.org", 403}, {"null", 403},
                             {url("") ++ "1", 403}]].

%% A refused form comes again with its values and a reason.
refused_forms(_) ->
    {400, _, New} = form("/cases", [{"title", " "}, {"name1", "Bob & Co, x"},
                                    {"role1", "x"}]),
    {match, _} = re:run(New, "title takes a text"),
    {match, _} = re:run(New, "Bob &amp; Co, x"),
    {400, _, _} = form("/cases", [{"title", "x"}, {"name1", "Bob"}, {"role1", " "}]),
    Id = binary_to_list(new_case(<<"one">>)),
    {303, _, _} = form("/cases/" ++ Id, [{"version", "1"}, {"title", "two"}]),
    {409, _, Page} = form("/cases/" ++ Id, [{"version", "1"}, {"title", "three"},
                                             {"name1", "Z"}, {"role1", "x"}]),
    {match, _} = re:run(Page, "Someone changed the case"),
    {match, _} = re:run(Page, "<h1>two</h1>"),
    {match, _} = re:run(Page, "name=\"version\" value=\"2\""),
    {match, _} = re:run(Page, "value=\"three\""),
    {match, _} = re:run(Page, "value=\"Z\""),
    {400, _, Wrong} = form("/cases/" ++ Id, [{"version", "2"}, {"title", "four"}, {"name1", "Z"}]),
    {match, _} = re:run(Wrong, "the role of a party takes"),
    {match, _} = re:run(Wrong, "value=\"four\""),
    [{400, _, _} = form("/cases/" ++ Id, Form) || Form <- [[], [{"version", "x"}, {"title", "y"}]]],
    {400, _, _} = send(post, "/cases/" ++ Id, <<"a=%ff">>),
    {404, _, _} = form("/cases/" ++ Id ++ "/nothing", []).

%% A form that the server cannot take now is there to be sent again, with all its values. If a
%% change may have been made, the page does not say that it was not.
send_again(_) ->
    Path = "/cases/" ++ binary_to_list(new_case(<<"one">>)),
    Fields = [{"title", "two \"2\""}, {"name1", "Bob & Co"}, {"role1", "x"}, {"version", "1"}],
    ok = persistent_term:put(docket_mnesia_replica, incomplete),
    [begin
         {503, Headers, Page} = form(Address, Fields),
         ?assertEqual("1", proplists:get_value("retry-after", Headers)),
         {match, _} = re:run(Page, "<h1>Not done</h1>"),
         {match, _} = re:run(Page, "action=\"" ++ Address ++ "\""),
         ?assertEqual(lists:sort(Fields), lists:sort(again(Page)))
     end || Address <- ["/cases", Path, Path ++ "/documents/1/remove"]],
    {503, _, List} = ask(get, "/"),
    ?assertEqual(nomatch, binary:match(List, <<"<form">>)),
    ok = persistent_term:put(docket_mnesia_replica, joined),
    Settings = persistent_term:get(docket_config),
    ok = persistent_term:put(docket_config, Settings#{deadline := 20}),
    ok = sys:suspend(mnesia_tm),
    {504, _, Unknown} = form(Path, Fields),
    ok = sys:resume(mnesia_tm),
    ok = persistent_term:put(docket_config, Settings),
    {match, _} = re:run(Unknown, "<h1>Perhaps not done</h1>"),
    ?assertEqual(lists:sort(Fields), lists:sort(again(Unknown))),
    %% A button has no values that a person could correct.
    {303, _, _} = form(Path ++ "/closed", [{"version", "1"}]),
    {409, _, Late} = form(Path ++ "/open", [{"version", "1"}]),
    {match, _} = re:run(Late, "press the button again"),
    ?assertEqual(nomatch, binary:match(Late, <<"your values">>)).

again(Page) ->
    {match, Inputs} = re:run(Page, "<input type=\"hidden\"[^>]*>", [global,
                                                                    {capture, first, binary}]),
    [list_to_tuple([unescaped(attribute(Name, Input)) || Name <- ["name", "value"]])
     || [Input] <- Inputs].
