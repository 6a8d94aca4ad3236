%% Drives examples/docket as an executable: whole and shaken, over HTTP and in a browser.
-module(docket_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1]).
-export([same_answers/1, small/1, wrong_setting/1, kept/1, two_nodes/1, other_processor/1,
         hostile_bytes/1, pages/1, visitors/1]).

-define(MOST_BYTES, 4_500_000).

suite() -> [{timetrap, {minutes, 10}}].

all() -> [same_answers, small, wrong_setting, kept, two_nodes, other_processor, hostile_bytes,
          pages, visitors].

init_per_suite(Config) ->
    Dir = running:directory("docket", Config),
    Docket = running:example("docket"),
    [{dir, Dir}, {whole, running:build(Docket, filename:join(Dir, "whole"), [])},
     {shaken, running:build(Docket, filename:join(Dir, "shaken"), shaken())} | Config].

%% docket's README says which modules its nodes call on each other.
shaken() ->
    {ok, Text} = file:read_file(filename:join(running:example("docket"), "README.md")),
    {match, [Remote]} = re:run(Text, "--remote (mnesia,[a-z_,]+)", [{capture, [1], list}]),
    ["--shake", "functions", "--missing", "crash", "--data", "none", "--atoms", "none",
     "--remote", Remote].

end_per_suite(_) -> ok.

%% The shaken program does all that the whole one does.
same_answers(Config) ->
    Whole = life(proplists:get_value(whole, Config)),
    ?assertEqual([201, 200, 200, 409, 201, 200, 200, 200, 200, 204, 404, 200, 200, 200, 200, 400,
                  401],
                 [Status || {Status, _} <- Whole]),
    [?assertEqual(One, Other)
     || {One, Other} <- lists:zip(Whole, life(proplists:get_value(shaken, Config)))].

%% Runs a whole life of a case, and returns all answers without times and ids.
life(Program) ->
    Server = started(Program, []),
    {201, #{<<"id">> := Id}} = Created = ask(Server, "POST", "/api/cases", #{title => <<"Roof">>}),
    Path = "/api/cases/" ++ binary_to_list(Id),
    Steps = [{"GET", Path, none}, {"PATCH", Path, #{title => <<"Door">>, version => 1}},
             {"PATCH", Path, #{title => <<"Window">>, version => 1}},
             {"POST", Path ++ "/documents?name=a.txt", <<"hello">>},
             {"GET", Path ++ "/documents/3", none},
             {"GET", "/api/cases?search=door", none},
             {"GET", "/cases/" ++ binary_to_list(Id), none},
             {"GET", "/", none}, {"DELETE", Path ++ "?version=3", none}, {"GET", Path, none},
             {"GET", Path ++ "/events", none}, {"GET", "/api/picture?width=64&height=48", none},
             {"GET", "/style.css", none}, {"GET", "/ready", none},
             {"POST", "/api/cases", <<"{\"title\":">>}],
    Answers = [Created | [ask(Server, Method, Address, Body) || {Method, Address, Body} <- Steps]],
    Refused = ask(Server#{user := "ann:wrong"}, "GET", "/", none),
    ok = stopped(Server),
    [without_times(Answer) || Answer <- Answers ++ [Refused]].

without_times(Term) when is_map(Term) ->
    maps:map(fun(_, Value) -> without_times(Value) end,
             maps:without([<<"id">>, <<"opened">>, <<"changed">>, <<"at">>], Term));
without_times(Term) when is_list(Term) -> [without_times(Part) || Part <- Term];
without_times({Status, Body}) when is_binary(Body) ->
    {Status, re:replace(Body, "[0-9A-Z]{12}|20[0-9-]{8}[T ][0-9:.]{5,12}Z?", "",
                        [global, {return, binary}])};
without_times({Status, Body}) -> {Status, without_times(Body)};
without_times(Term) -> Term.

small(Config) ->
    Size = filelib:file_size(proplists:get_value(shaken, Config)),
    ?assertEqual({Size, true}, {Size, Size =< ?MOST_BYTES}).

%% A wrong setting ends the program with one line.
wrong_setting(Config) ->
    Program = proplists:get_value(whole, Config),
    [begin
         {Code, Output} = running:run(Program, [],
                                      #{env => [{"DOCKET_SECRET", "secret"}, Setting]}),
         ?assertMatch({_, 1, {match, _}}, {Output, Code, re:run(Output, Words)})
     end || {Setting, Words} <-
                [{{"DOCKET_SECRET", ""}, "docket: nobody could log in: set DOCKET_SECRET"},
                 {{"DOCKET_PORT", "http"},
                  "docket: the setting port .* give a port from 0 to 65535"},
                 {{"DOCKET_DIR", "/dev/null/x"},
                  "docket: the server cannot start: /dev/null/x .* is not a directory"}]].

%% A server that is killed has all cases again after its next start.
kept(Config) ->
    Program = proplists:get_value(shaken, Config),
    Settings = [{"DOCKET_DIR", filename:join(proplists:get_value(dir, Config), "data")}],
    First = started(Program, Settings),
    Ids = [begin
               {201, #{<<"id">> := Id}} = ask(First, "POST", "/api/cases", #{title => <<"x">>}),
               Id
           end || _ <- lists:seq(1, 50)],
    ok = killed(First),
    Second = started(Program, Settings),
    [?assertMatch({Id, {200, _}},
                  {Id, ask(Second, "GET", "/api/cases/" ++ binary_to_list(Id), none)})
     || Id <- Ids],
    ok = stopped(Second).

%% Two shaken executables are one service. While one of two is dead, the other one only shows cases.
two_nodes(Config) ->
    Cluster = cluster(["one", "two"], filename:join(proplists:get_value(dir, Config), "two_nodes")),
    Start = fun(Name) -> node(Name, proplists:get_value(shaken, Config), Cluster) end,
    try
        One = Start("one"),
        Two = Start("two"),
        [ok = answers(200, Node) || Node <- [One, Two]],
        {201, #{<<"id">> := Id}} = ask(One, "POST", "/api/cases", #{title => <<"Roof">>}),
        Path = "/api/cases/" ++ binary_to_list(Id),
        ?assertMatch({200, #{<<"title">> := <<"Roof">>}}, ask(Two, "GET", Path, none)),
        ok = killed(Two),
        ok = answers(503, One),
        ?assertMatch({503, #{<<"error">> := <<"minority">>}},
                     ask(One, "PATCH", Path, #{title => <<"Door">>, version => 1})),
        ?assertMatch({200, #{<<"title">> := <<"Roof">>}}, ask(One, "GET", Path, none)),
        Again = Start("two"),
        [ok = answers(200, Node) || Node <- [One, Again]],
        ?assertMatch({200, #{<<"title">> := <<"Roof">>}}, ask(Again, "GET", Path, none)),
        ?assertMatch({200, _}, ask(One, "PATCH", Path, #{title => <<"Door">>, version => 1})),
        ?assertMatch({200, #{<<"title">> := <<"Door">>}}, ask(Again, "GET", Path, none)),
        %% Both nodes compute this.
        ?assertMatch({200, <<137, "PNG", _/binary>>},
                     ask(One, "GET", "/api/picture?width=200&height=200", none)),
        ok = stopped(One),
        ok = stopped(Again)
    after running:end_epmd(maps:get(epmd, Cluster))
    end.

%% A node for ARMv7 in its emulator is one service with two for this machine. It takes part in
%% changes and pictures, is killed, and comes back with what it missed.
other_processor(Config) ->
    [Target] = [Armv7 || #{name := "armv7"} = Armv7 <- whittle_runtime:targets()],
    case emulated:lacks(Target) of
        none -> other_processor(Target, Config);
        Lack -> {skip, Lack}
    end.

other_processor(Target, Config) ->
    Dir = filename:join(proplists:get_value(dir, Config), "other_processor"),
    Program = running:build(running:example("docket"), Dir ++ ".armv7",
                            ["--target", "armv7" | shaken()]),
    Cluster = cluster(["one", "two", "three"], Dir),
    Three = fun() ->
                    served(emulated:start(Target, Program, [], settings("three", Cluster)))
            end,
    try
        [One, Two] = [node(Name, proplists:get_value(shaken, Config), Cluster)
                      || Name <- ["one", "two"]],
        First = Three(),
        [ok = answers(200, Node) || Node <- [One, Two, First]],
        Paths = [begin
                     {201, #{<<"id">> := Id}} = ask(Node, "POST", "/api/cases",
                                                    #{title => <<"Roof">>}),
                     "/api/cases/" ++ binary_to_list(Id)
                 end || Node <- [One, First]],
        [?assertMatch({200, #{<<"title">> := <<"Roof">>}}, ask(Node, "GET", Path, none))
         || Path <- Paths, Node <- [One, Two, First]],
        %% The parts of the nodes make the same picture as one node alone.
        Picture = "/api/picture?width=64&height=64",
        [{200, Same}] = lists:usort([ask(Node, "GET", Picture, none)
                                     || Node <- [One, First]]),
        ?assertMatch(<<137, "PNG", _/binary>>, Same),
        ok = killed(First),
        ok = changed(One, hd(Paths)),
        Second = Three(),
        [ok = answers(200, Node) || Node <- [One, Two, Second]],
        ?assertMatch({200, #{<<"title">> := <<"Door">>}}, ask(Second, "GET", hd(Paths), none)),
        [ok = stopped(Node) || Node <- [One, Two, Second]]
    after running:end_epmd(maps:get(epmd, Cluster))
    end.

%% Changes a case as soon as the others have noticed the end of a node.
changed(Server, Path) ->
    case ask(Server, "PATCH", Path, #{title => <<"Door">>, version => 1}) of
        {200, _} -> ok;
        {Status, _} when Status =:= 503; Status =:= 504 -> changed(Server, Path);
        %% The change whose end was unknown has been made.
        {409, #{<<"case">> := #{<<"title">> := <<"Door">>}}} -> ok
    end.

cluster(Names, Dir) -> #{names => Names, dir => Dir, epmd => running:free_port()}.

node(Name, Program, Cluster) -> started(Program, settings(Name, Cluster)).

settings(Name, #{names := Names, dir := Dir, epmd := Epmd}) ->
    [{"DOCKET_NODES", lists:append(lists:join(",", [Each ++ "@localhost" || Each <- Names]))},
     {"DOCKET_RETRY", "50"}, {"DOCKET_DIR", filename:join(Dir, Name)},
     {"DOCKET_SECRET", "secret"}, {"DOCKET_PORT", "0"},
     {"RELEASE_NODE", Name ++ "@localhost"}, {"RELEASE_DISTRIBUTION", "sname"},
     {"RELEASE_COOKIE", "docket"}, {"ERL_EPMD_PORT", integer_to_list(Epmd)},
     {"ERL_FLAGS", "-connect_all false -kernel inet_dist_use_interface {127,0,0,1}"}].

killed(#{program := Program}) ->
    ok = running:signal(Program, "KILL"),
    {137, _} = running:ended(Program),
    ok.

%% Asks until the node says that it is ready (200), or that it is not (503).
answers(Status, Server) ->
    case ask(Server, "GET", "/ready", none) of
        {Status, _} -> ok;
        _ -> answers(Status, Server)
    end.

%% Random and broken requests. After them the server answers.
hostile_bytes(Config) ->
    Server = started(proplists:get_value(shaken, Config), []),
    rand:seed(exsss, {1, 2, 3}),
    [begin
         {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, maps:get(port, Server),
                                        [binary, {active, false}]),
         _ = gen_tcp:send(Socket, broken()),
         _ = gen_tcp:shutdown(Socket, write),
         _ = gen_tcp:recv(Socket, 0),
         ok = gen_tcp:close(Socket)
     end || _ <- lists:seq(1, 1000)],
    ?assertMatch({200, #{<<"cases">> := _}}, ask(Server, "GET", "/api/cases", none)),
    ok = stopped(Server).

%% A right request with some of its bytes changed, doubled, or lost
broken() ->
    Body = <<"{\"title\":\"x\",\"parties\":[{\"name\":\"a\",\"role\":\"b\"}]}">>,
    Request = iolist_to_binary(
                [case rand:uniform(3) of
                     1 -> "GET /api/cases?limit=5&search=x&state=open";
                     2 -> "POST /api/cases";
                     3 -> "PATCH /api/cases/1JQVWW4ZG000"
                 end,
                 " HTTP/1.1\r\nHost: a\r\nAuthorization: Basic ", base64:encode("ann:secret"),
                 "\r\nContent-Length: ", integer_to_list(byte_size(Body)), "\r\n\r\n", Body]),
    lists:foldl(fun(_, Bytes) ->
                        At = rand:uniform(byte_size(Bytes)) - 1,
                        <<Before:At/binary, Byte, After/binary>> = Bytes,
                        case rand:uniform(3) of
                            1 -> <<Before/binary, (rand:uniform(256) - 1), After/binary>>;
                            2 -> <<Before/binary, Byte, Byte, After/binary>>;
                            3 -> <<Before/binary, After/binary>>
                        end
                end, Request, lists:seq(1, rand:uniform(6))).

%% A person uses the pages with the keyboard, on narrow and wide, light and dark screens.
pages(Config) ->
    Server = started(proplists:get_value(shaken, Config), []),
    File = filename:join(proplists:get_value(dir, Config), "plan.bin"),
    ok = file:write_file(File, rand:bytes(100_000)),
    Program = filename:join([running:root(), "acceptance", "suites", "open_docket.mjs"]),
    {Code, Output} = running:run(os:find_executable("node"),
                                 [Program,
                                  "http://127.0.0.1:" ++ integer_to_list(maps:get(port, Server)),
                                      File],
                                 #{env => keep}),
    ?assertMatch({0, _}, {Code, Output}),
    #{<<"faults">> := Faults, <<"seen">> := Seen} = jiffy:decode(Output, [return_maps]),
    ?assertEqual([], Faults),
    [?assertMatch({_, _, {match, _}}, {Task, Words, re:run(maps:get(Task, Seen), Words)})
     || {Task, Words} <- [{<<"opened">>, "A leak in the roof"},
                          {<<"note">>, "note.txt \\(18 bytes\\)"},
                          {<<"file">>, "plan.bin \\(100000 bytes\\)"},
                          {<<"conflict">>, "Someone changed the case"},
                          {<<"closed">>, "Open the case again"},
                          {<<"saved">>, "^Bob Miller, junior\\|tenant\\|"
                                        "Carol <Smith> & Sons\\|owner\\|"},
                          {<<"found">>, "Bob Miller, junior, Carol <Smith> & Sons"}]],
    ok = stopped(Server).

%% The load test of the README. Agents remove the cases that they have opened.
visitors(Config) ->
    Server = started(proplists:get_value(shaken, Config), []),
    {ok, Text} = file:read_file(filename:join(running:example("docket"), "visitors.load")),
    Short = lists:foldl(fun({Old, New}, Now) -> string:replace(Now, Old, New) end, Text,
                        [{"8080", integer_to_list(maps:get(port, Server))},
                         {"1, 64, \"10 s\"", "1, 2, \"2 s\""}]),
    File = filename:join(proplists:get_value(dir, Config), "visitors.load"),
    ok = file:write_file(File, Short),
    {0, Output} = running:whittle(["load", File, "--json", "-o", filename:rootname(File)]),
    {match, [Json]} = re:run(Output, "^{.*}$", [multiline, dotall, {capture, first, binary}]),
    #{<<"phases">> := Phases, <<"errors">> := [], <<"latencies">> := Latencies} =
        jiffy:decode(Json, [return_maps]),
    ?assertMatch([{1, true}, {2, true}],
                 [{Users, Cycles > 0}
                  || #{<<"users">> := Users, <<"cycles">> := Cycles} <- Phases]),
    ?assertMatch(#{<<"remove">> := _}, Latencies),
    {200, #{<<"cases">> := Left}} = ask(Server, "GET", "/api/cases", none),
    %% A cycle may end with the run.
    ?assert(length(Left) =< 2),
    ok = stopped(Server).

%% The client

started(Program, Settings) ->
    served(running:start(Program, [], #{env => [{"DOCKET_SECRET", "secret"}, {"DOCKET_PORT", "0"}
                                                | Settings]})).

served(Port) ->
    _ = running:until(Port, <<"docket: http on port ">>),
    Number = binary_to_integer(running:line(Port)),
    #{program => Port, port => Number, user => "ann:secret"}.

stopped(#{program := Program}) ->
    ok = running:signal(Program, "TERM"),
    {0, _} = running:ended(Program),
    ok.

%% Not httpc: OTP 25's asks again and again after a 503.
ask(#{port := Port, user := User}, Method, Path, Body) ->
    Content = case Body of
                  none -> <<>>;
                  #{} -> iolist_to_binary(jiffy:encode(Body));
                  _ -> Body
              end,
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    ok = gen_tcp:send(Socket, [Method, " ", Path, " HTTP/1.1\r\nHost: docket\r\n"
                               "Connection: close\r\nContent-Type: text/plain\r\n"
                               "Authorization: Basic ", base64:encode(User),
                               "\r\nContent-Length: ", integer_to_list(byte_size(Content)),
                               "\r\n\r\n", Content]),
    <<"HTTP/1.1 ", Status:3/binary, Rest/binary>> = received(Socket, <<>>),
    [_, Answer] = binary:split(Rest, <<"\r\n\r\n">>),
    {binary_to_integer(Status), try jiffy:decode(Answer, [return_maps]) catch _:_ -> Answer end}.

received(Socket, Bytes) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, More} -> received(Socket, <<Bytes/binary, More/binary>>);
        {error, closed} ->
            ok = gen_tcp:close(Socket),
            Bytes
    end.
