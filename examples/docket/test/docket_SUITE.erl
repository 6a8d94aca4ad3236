%% Tests the running server over HTTP: the API, bad clients, overload, and its data directory.
-module(docket_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([life/1, two_editors/1, closed/1, documents/1, other_users/1, passwords/1, addresses/1,
         too_large/1, slow_client/1, too_many_clients/1, overload/1, overtaken/1, raw/1,
         picture/1, metrics/1, kept/1, bad_directory/1, directory_in_use/1, other_store/1,
         other_directory/1, damaged_directory/1, removed_directory/1, disk_was_full/1,
         failed_flush/1, deadline/1, bad_settings/1, only_memory/1, port_in_use/1, failure/1,
         not_ready/1]).

-import(docket_client, [new_case/1, path/1, ask/2, ask/3, ask/4, ask_as/3, send/3, status/3,
                        login/1, code/1, url/1]).

all() ->
    [life, two_editors, closed, documents, other_users, passwords, addresses, too_large,
     slow_client, too_many_clients, overload, overtaken, raw, picture, metrics, kept,
     bad_directory, directory_in_use, other_store, other_directory, damaged_directory,
     removed_directory, disk_was_full, failed_flush, deadline, bad_settings, only_memory,
     port_in_use, failure, not_ready].

init_per_testcase(Case, Config) ->
    _ = application:load(docket),
    [application:set_env(docket, Key, Value)
     || {Key, Value} <- [{secret, "secret"}, {port, 0}] ++ settings(Case, Config)],
    {ok, Started} = application:ensure_all_started(docket),
    [{started, Started} | Config].

settings(slow_client, _) -> [{body_timeout, 1}];
settings(too_many_clients, _) -> [{clients, 1}];
settings(overload, _) -> [{running, 1}, {waiting, 1}, {patience, 3_600_000}];
settings(overtaken, _) -> [{running, 1}, {waiting, 1}, {patience, 1}];
settings(too_large, _) -> [{document, 1000}];
settings(deadline, Config) -> [{deadline, 200}, {dir, data(Config)}];
settings(Case, Config)
  when Case =:= kept; Case =:= directory_in_use; Case =:= other_store; Case =:= other_directory;
       Case =:= damaged_directory; Case =:= removed_directory; Case =:= disk_was_full;
       Case =:= failed_flush ->
    [{dir, data(Config)}];
settings(_, _) -> [].

data(Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "docket_data"),
    _ = file:del_dir_r(Dir),
    Dir.

end_per_testcase(_, Config) ->
    [application:stop(A) || A <- lists:reverse(proplists:get_value(started, Config))],
    application:unload(docket),
    application:unload(mnesia).

life(_) ->
    {201, Headers, #{<<"id">> := Id, <<"version">> := 1, <<"state">> := <<"open">>,
                     <<"documents">> := []}} =
        ask(post, "/api/cases",
            #{title => <<"Roof">>, parties => [#{name => <<"Bob">>, role => <<"x">>}]}),
    ?assertEqual("/api/cases/" ++ binary_to_list(Id), proplists:get_value("location", Headers)),
    Path = path(Id),
    {200, _, #{<<"title">> := <<"Roof">>, <<"owner">> := <<"ann">>}} = ask(get, Path),
    {200, _, #{<<"version">> := 2}} = ask(patch, Path, #{title => <<"Door">>, version => 1}),
    {200, _, #{<<"cases">> := [#{<<"title">> := <<"Door">>}], <<"next">> := null}} =
        ask(get, "/api/cases?search=door"),
    {200, _, #{<<"cases">> := []}} = ask(get, "/api/cases?state=closed"),
    {204, _, <<>>} = ask(delete, Path ++ "?version=2"),
    {404, _, #{<<"error">> := <<"not_found">>}} = ask(get, Path),
    {200, _, #{<<"events">> := Events}} = ask(get, Path ++ "/events"),
    ?assertEqual([<<"created">>, <<"changed">>, <<"removed">>],
                 [What || #{<<"what">> := What} <- Events]).

%% The second of two editors hears that the case has changed, and gets it.
two_editors(_) ->
    Id = new_case(<<"one">>),
    {200, _, _} = ask(patch, path(Id), #{title => <<"two">>, version => 1}),
    {409, _,
     #{<<"error">> := <<"conflict">>,
       <<"case">> := #{<<"title">> := <<"two">>, <<"version">> := 2}}} =
        ask(patch, path(Id), #{title => <<"three">>, version => 1}),
    {409, _, _} = ask(delete, path(Id) ++ "?version=1"),
    {200, _, #{<<"title">> := <<"two">>}} = ask(get, path(Id)).

closed(_) ->
    Id = new_case(<<"one">>),
    {200, _, _} = ask(patch, path(Id), #{state => closed, version => 1}),
    {409, _, #{<<"error">> := <<"closed">>}} = ask(patch, path(Id),
                                                   #{title => <<"x">>, version => 2}),
    {409, _, #{<<"error">> := <<"closed">>}} = send(post, path(Id) ++ "/documents?name=a", <<"x">>),
    {200, _, _} = ask(patch, path(Id), #{state => open, title => <<"x">>, version => 2}).

documents(_) ->
    Id = new_case(<<"one">>),
    Bytes = rand:bytes(100_000),
    {201, _,
     #{<<"documents">> := [#{<<"number">> := 2, <<"name">> := <<"a b.bin">>,
                             <<"bytes">> := 100_000}]}} =
        send(post, path(Id) ++ "/documents?name=a%20b.bin", Bytes),
    {200, Headers, Bytes} = ask(get, path(Id) ++ "/documents/2"),
    ?assertEqual("attachment; filename*=UTF-8''a%20b.bin",
                 proplists:get_value("content-disposition", Headers)),
    ?assertEqual("sandbox", proplists:get_value("content-security-policy", Headers)),
    {200, _, #{<<"documents">> := []}} = ask(delete, path(Id) ++ "/documents/2"),
    [{404, _, _} = ask(get, path(Id) ++ "/documents/" ++ Number)
     || Number <- ["2", "1", "0", "x", "-1"]].

%% Nobody finds the case of another user: not by its id, not in a list, not by its documents.
other_users(_) ->
    Id = new_case(<<"one">>),
    {201, _, _} = send(post, path(Id) ++ "/documents?name=a", <<"x">>),
    [{404, _, _} = ask(get, path(Id) ++ Rest, none, "bob")
     || Rest <- ["", "/events", "/documents/2"]],
    {404, _, _} = ask(patch, path(Id), #{title => <<"x">>, version => 2}, "bob"),
    {404, _, _} = ask(delete, path(Id) ++ "?version=2", none, "bob"),
    {404, _, _} = ask(delete, path(Id) ++ "/documents/2", none, "bob"),
    {200, _, #{<<"cases">> := []}} = ask(get, "/api/cases", none, "bob"),
    {200, _, #{<<"version">> := 2}} = ask(get, path(Id)).

passwords(_) ->
    [?assertMatch({Header, {401, _}},
                  {Header, status(get, "/api/cases", [{"authorization", Header}])})
     || Header <- ["", "Basic", "Basic !", "Basic " ++ code("ann:wrong!"),
                   "Basic " ++ code("ann:secre"),
                   "Basic " ++ code("ann"), "Basic " ++ code(":secret"),
                       "Bearer " ++ code("ann:secret")]],
    %% A name that the server does not take gets its reason, and only with the password.
    [?assertMatch({Name, Error, {401, _, #{<<"error">> := Error}}},
                  {Name, Error,
                   ask_as(Name, Password, "/api/cases")})
     || Name <- [[255], "a\nb", lists:duplicate(65, $a)],
        {Password, Error} <- [{"secret", <<"name">>}, {"wrong!", <<"password">>}]],
    {401, Headers} = status(get, "/", []),
    ?assertMatch("Basic realm=" ++ _, proplists:get_value("www-authenticate", Headers)),
    {200, _} = status(get, "/api/cases", [{"authorization", "bASIC " ++ code("ann:secret")}]),
    [{200, _} = status(get, Path, []) || Path <- ["/live", "/ready", "/metrics"]].

%% Bad addresses, and methods that an address does not take
addresses(_) ->
    [?assertMatch({_, {Status, _, _}}, {Path, ask(get, Path)})
     || {Status,
         Paths} <- [{404, ["/api", "/api/x", "/x", "/api/cases/x", "/api/cases/000000000000",
                                   "/api/cases/..%2f..%2fetc", "/cases/%00"]},
                            {400, ["/api/%ff", "/api/cases?limit=%ff", "/api/cases?a=1&a=2",
                                   "/api/cases?limit=0", "/api/cases?x=1",
                                   "/api/cases/000000000000?x=1"]}],
        Path <- Paths],
    {405, Headers, _} = ask(put, "/api/cases", #{}),
    ?assertEqual("GET, HEAD, POST", proplists:get_value("allow", Headers)),
    [{405, _} = status(delete, "/" ++ Name, []) || Name <- ["live", "ready", "metrics"]],
    [{405, _} = status(Method, Path, [login("ann")])
     || Method <- [options, trace, delete], Path <- ["/", "/x"]].

too_large(_) ->
    Id = new_case(<<"one">>),
    {201, _, _} = send(post, path(Id) ++ "/documents?name=a", rand:bytes(1000)),
    {413, _, _} = send(post, path(Id) ++ "/documents?name=a", rand:bytes(1001)),
    {414, _} = status(get, "/" ++ lists:duplicate(3000, $a), []),
    {413, _} = status(get, "/", [{"x", lists:duplicate(20000, $a)}]),
    {200, _, #{<<"version">> := 2}} = ask(get, path(Id)).

%% A client that sends a part of a request loses its connection.
slow_client(_) ->
    [begin
         Socket = connect(),
         ok = gen_tcp:send(Socket, Part),
         {ok, Answer} = gen_tcp:recv(Socket, 0),
         ?assertMatch({_, _, {match, _}}, {Part, Answer, re:run(Answer, "^HTTP/1.[01] 408 ")})
     end || Part <- ["GET / HTTP/1.1\r\nHost: a\r\n",
                     "POST /api/cases HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"]].

%% The server answers 503 to a client for which it has no place.
too_many_clients(_) ->
    First = connect(),
    ok = gen_tcp:send(First, "GET /live HTTP/1.1\r\nHost: a\r\n\r\n"),
    {ok, <<"HTTP/1.1 200 ", _/binary>>} = gen_tcp:recv(First, 0),
    Second = connect(),
    ok = gen_tcp:send(Second, "GET /live HTTP/1.1\r\nHost: a\r\n\r\n"),
    {ok, Answer} = gen_tcp:recv(Second, 0),
    ?assertMatch({match, _}, re:run(Answer, "^HTTP/1.[01] 503 ")),
    ok = gen_tcp:close(First).

%% When the gate and its queue are full, a request is refused, and says when to come again.
overload(_) ->
    {ok, Place} = docket_gate:enter(docket_store_gate),
    Waiting = asker("/api/cases"),
    {1, 1} = waiting(1),
    {503, Headers, #{<<"error">> := <<"busy">>}} = ask(get, "/api/cases"),
    ?assertEqual("1", proplists:get_value("retry-after", Headers)),
    {503, _, Page} = ask(get, "/"),
    {match, _} = re:run(Page, "too much to do"),
    %% These need no turn.
    [{200, _} = status(get, Path, []) || Path <- ["/live", "/ready"]],
    ok = docket_gate:leave(docket_store_gate, Place),
    receive {Waiting, Answer} -> ?assertMatch({200, _, _}, Answer) end.

%% A request waits no longer than the patience.
overtaken(_) ->
    {ok, _} = docket_gate:enter(docket_store_gate),
    {503, _, #{<<"error">> := <<"busy">>}} = ask(get, "/api/cases").

%% Bytes that are no request. The server goes on.
raw(_) ->
    [begin
         Socket = connect(),
         ok = gen_tcp:send(Socket, Bytes),
         ok = gen_tcp:shutdown(Socket, write),
         _ = gen_tcp:recv(Socket, 0),
         ok = gen_tcp:close(Socket)
     end || Bytes <- ["\r\n\r\n", <<0, 255, 22, 3, 1>>, "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
                      "GET http://[ HTTP/1.1\r\n\r\n",
                          "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                      "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
                      "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                      "GET / HTTP/1.1\r\nAuthorization: Basic\r\n\tx\r\n\r\n", rand:bytes(5000)]],
    {200, _} = status(get, "/live", []).

picture(_) ->
    {200, Headers, <<137, "PNG", _/binary>>} = ask(get, "/api/picture?width=16&height=16"),
    ?assertEqual("image/png", proplists:get_value("content-type", Headers)),
    {400, _, #{<<"why">> := <<"width takes a whole number from 1 to 1000">>}} = ask(get,
        "/api/picture?width=5000").

metrics(_) ->
    _ = new_case(<<"one">>),
    {405, _, _} = ask(put, "/api/cases", #{}),
    {ok, {_, _, Text}} = httpc:request(url("/metrics")),
    [?assertMatch({_, {match, _}}, {Line, re:run(Text, Line)})
     || Line <- ["docket_requests_total{method=\"POST\",status=\"201\"} 1\n",
                 "docket_requests_total{method=\"other\",status=\"405\"} 1\n", "docket_ready 1\n",
                 "docket_gate_requests{gate=\"store\",place=\"running\"} 0\n",
                 "docket_request_seconds_count 2\n"]].

%% With a data directory, cases survive a restart.
kept(_) ->
    Id = new_case(<<"one">>),
    {201, _, _} = send(post, path(Id) ++ "/documents?name=a", <<"x">>),
    ok = application:stop(docket),
    {ok, _} = application:ensure_all_started(docket),
    {200, _, #{<<"version">> := 2}} = ask(get, path(Id)),
    {200, _, <<"x">>} = ask(get, path(Id) ++ "/documents/2").

bad_directory(_) ->
    ok = application:stop(docket),
    application:set_env(docket, dir, "/dev/null/data"),
    {error, {docket, {Reason, _}}} = application:ensure_all_started(docket),
    ?assertMatch({store, {directory, _}}, Reason).

%% Two servers with one directory would overwrite each other's changes.
directory_in_use(_) ->
    {ok, Dir} = application:get_env(docket, dir),
    [?assertEqual({error, {in_use, Each}}, docket_directory:lock(Each))
     || Each <- [Dir, Dir ++ "/../docket_data"]],
    ok = application:stop(docket),
    {ok, Lock} = docket_directory:lock(Dir),
    ?assertEqual({error, {in_use, Dir}}, docket_directory:lock(Dir)),
    ok = docket_directory:unlock(Lock),
    {ok, Socket} = gen_tcp:listen(0, [local, {ifaddr, {local, docket_directory:name(Dir)}}]),
    %% Nothing is written to the directory of another server.
    ok = file:make_dir(filename:join(Dir, "docket.probe")),
    {error, {docket, {Reason, _}}} = application:ensure_all_started(docket),
    ?assertEqual({directory, {in_use, Dir}}, Reason),
    ok = file:del_dir(filename:join(Dir, "docket.probe")),
    ok = gen_tcp:close(Socket),
    {ok, _} = application:ensure_all_started(docket).

%% The directory has the cases of one store. With another one, the node would start without them.
other_store(Config) ->
    {ok, Dir} = application:get_env(docket, dir),
    ok = application:stop(docket),
    application:set_env(docket, store, ra),
    ok = docket_config:load(),
    ?assertEqual({error, {other_store, {mnesia, Dir}}}, docket_identity:check(Dir)),
    application:set_env(docket, store, mnesia),
    OfRa = filename:join(proplists:get_value(priv_dir, Config), "of_ra"),
    ok = filelib:ensure_path(filename:join(OfRa, "ra")),
    application:set_env(docket, dir, OfRa),
    {error, {docket, {{identity, Reason}, _}}} = application:ensure_all_started(docket),
    {match, _} = re:run(docket_identity:format_error(Reason), "start with DOCKET_STORE=ra"),
    application:set_env(docket, dir, Dir),
    {ok, _} = application:ensure_all_started(docket).

%% A directory belongs to one node, and to a service that may only get further nodes.
other_directory(_) ->
    {ok, Dir} = application:get_env(docket, dir),
    Id = new_case(<<"kept">>),
    ok = application:stop(docket),
    File = filename:join(Dir, "docket.node"),
    {ok, Text} = file:read_file(File),
    [begin
         ok = file:write_file(File, io_lib:format("~0p.~n", [{Node, Nodes}])),
         {error, {docket, {{identity, Reason}, _}}} = application:ensure_all_started(docket),
         ?assertEqual({Node, Expected}, {Node, Reason}),
         {match, _} = re:run(docket_identity:format_error(Reason), Word)
     end || {Node, Nodes, Expected, Word} <-
                [{other@host, [other@host], {other_node, {other@host, Dir}}, "\\(RELEASE_NODE"},
                 {nonode@nohost, [nonode@nohost], {other_node, {nonode@nohost, Dir}},
                  "a node without a name, .* start it without RELEASE_NODE"},
                 {node(), [other@host, node()], {fewer_nodes, [other@host]}, "DOCKET_FORCE"},
                 {node(), none, {damaged, File}, "DOCKET_FORCE"}]],
    ok = file:write_file(File, [255, Text]),
    {error, {docket, {{identity, Damaged}, _}}} = application:ensure_all_started(docket),
    ?assertEqual({damaged, File}, Damaged),
    {match, _} = re:run(docket_identity:format_error({unreadable, {File, eacces}}), "permission"),
    application:set_env(docket, force, true),
    {ok, _} = application:ensure_all_started(docket),
    ?assertEqual({ok, Text}, file:read_file(File)),
    {200, _, _} = ask(get, path(Id)).

%% A server with damaged files does not start, and leaves them as they are. It can be told to.
damaged_directory(_) ->
    {ok, Dir} = application:get_env(docket, dir),
    Id = new_case(<<"kept">>),
    ok = application:stop(docket),
    [Table, Schema] = Files = [filename:join(Dir, Name)
                               || Name <- ["docket_file.DCD", "schema.DAT"]],
    [{ok, TableBytes}, {ok, SchemaBytes}] = [file:read_file(File) || File <- Files],
    %% A file that cannot be read is not replaced.
    Generation = filename:join(Dir, "docket.generation"),
    ok = file:rename(Generation, Generation ++ ".kept"),
    ok = file:make_dir(Generation),
    refused({unreadable, {Generation, eisdir}}, "docket.generation cannot be read"),
    ok = file:del_dir(Generation),
    ok = file:rename(Generation ++ ".kept", Generation),
    Damaged = <<0, (binary:part(TableBytes, 1, byte_size(TableBytes) - 1))/binary>>,
    ok = file:write_file(Table, Damaged),
    refused({damaged, Table}, "docket_file.DCD is damaged.*DOCKET_FORCE=true"),
    ?assertEqual({ok, Damaged}, file:read_file(Table)),
    ok = file:delete(Table),
    refused({missing, Table}, "docket_file.DCD is missing.*DOCKET_FORCE=true"),
    ok = file:write_file(Table, TableBytes),
    ok = file:delete(Schema),
    refused({no_schema, Dir}, "lacks the file schema.DAT"),
    application:set_env(docket, force, true),
    ok = file:write_file(Schema, "x"),
    refused({bad_schema, Dir}, "schema.DAT is damaged.*a copy of the directory"),
    ok = file:write_file(Schema, SchemaBytes),
    %% With the setting `force', the server starts with the cases that the other files have.
    [begin
         {_, {ok, <<Byte, Rest/binary>> = Bytes}} = {Name, file:read_file(File)},
         [begin
              ok = file:write_file(File, Bytes),
              ok = Damage(),
              application:set_env(docket, force, false),
              {error, _} = application:ensure_all_started(docket),
              application:set_env(docket, force, true),
              {ok, _} = application:ensure_all_started(docket),
              {200, _, _} = ask(get, path(Id)),
              ok = application:stop(docket)
          end || Damage <- [fun() -> file:write_file(File, <<(Byte bxor 1), Rest/binary>>) end,
                            fun() -> file:write_file(File, <<>>) end,
                            fun() -> file:delete(File) end]]
     end || Name <- ["docket_file.DCD", "LATEST.LOG"], File <- [filename:join(Dir, Name)]].

refused(Expected, Words) ->
    {error, {docket, {Reason, _}}} = application:ensure_all_started(docket),
    {store, {files, Expected} = Error} = inner(Reason),
    {match, _} = re:run(docket_store:format_error(Error), Words).

inner({shutdown, {failed_to_start_child, _, Reason}}) -> inner(Reason);
inner({shutdown, Reason}) -> inner(Reason);
inner(Reason) -> Reason.

%% A server whose files have gone acknowledges nothing, and begins anew.
removed_directory(_) ->
    {ok, Dir} = application:get_env(docket, dir),
    Id = new_case(<<"lost">>),
    _ = file:del_dir_r(Dir ++ ".gone"),
    ok = file:rename(Dir, Dir ++ ".gone"),
    Monitor = monitor(process, mnesia_sup),
    {Status, _, _} = ask(post, "/api/cases", #{title => <<"late">>}),
    ?assert(lists:member(Status, [500, 503, 504])),
    receive {'DOWN', Monitor, process, _, _} -> ok end,
    ok = until_ready(),
    {404, _, _} = ask(get, path(Id)),
    Later = new_case(<<"later">>),
    {200, _, _} = ask(get, path(Later)).

%% The log has the half of a change, so the server starts its database again.
disk_was_full(_) ->
    Before = new_case(<<"before">>),
    Monitor = monitor(process, mnesia_sup),
    %% Entries behind the hole, as Mnesia writes them until it ends
    {ok, Dir} = application:get_env(docket, dir),
    Later = term_to_binary(later),
    ok = file:write_file(filename:join(Dir, "LATEST.LOG"),
                         [<<0:80000>>, <<(byte_size(Later)):32, 98, 87, 76, 65>>, Later], [append]),
    mnesia_monitor ! {disk_log, node(), latest_log,
                      {error_status, {error, {file_error, "x", enospc}}}},
    {500, _, #{<<"error">> := <<"disk">>}} = ask(post, "/api/cases", #{title => <<"lost">>}),
    receive {'DOWN', Monitor, process, _, _} -> ok end,
    ok = until_ready(),
    {200, _, _} = ask(get, path(Before)).

%% A flush that fails by itself is an answer too, long before the deadline.
failed_flush(_) ->
    Stored = docket_generation:stored(),
    ok = persistent_term:put(docket_generation, no_generation),
    ?assertEqual({error, unknown}, docket_disk:sync(docket_deadline:new() + 3_600_000)),
    ok = persistent_term:put(docket_generation, Stored),
    ?assertEqual(ok, docket_disk:sync(docket_deadline:new() + 3_600_000)).

%% A request ends at its deadline, also when no flush comes. The late one disturbs nobody. A picture
%% ends there too.
deadline(_) ->
    ok = sys:suspend(docket_disk),
    {504, _, #{<<"error">> := <<"unknown">>}} = ask(post, "/api/cases", #{title => <<"late">>}),
    ?assertEqual({error, unknown}, docket_disk:sync(docket_deadline:new())),
    ok = sys:resume(docket_disk),
    ?assertEqual(ok, docket_disk:sync(docket_deadline:new() + 3_600_000)),
    ?assertEqual({messages, []}, process_info(self(), messages)),
    {201, _, _} = ask(post, "/api/cases", #{title => <<"in time">>}),
    {504, _, #{<<"error">> := <<"slow">>}} =
        ask(get, "/api/picture?width=1000&height=1000&steps=1000&span=0.1").

bad_settings(_) ->
    [?assertMatch({_, _, {error, _}}, {Type, Value, docket_config:check(Type, Value)})
     || {Type, Value} <- [{port, "x"}, {port, 65536}, {positive, 0}, {ip, "x"}, {ip, "1.2.3"},
                          {ip, 1}, {secret, ""},
                          {secret, [16#D800]}, {dir, ""}, {dir, 1}, {dir, [0]}, {mode, "x"},
                          {fragments, 0}, {fragments, "65"}]],
    [?assertEqual({Type, Value, {ok, Checked}}, {Type, Value, docket_config:check(Type, Value)})
     || {Type, Value, Checked} <- [{port, "80", 80}, {ip, "::1", {0, 0, 0, 0, 0, 0, 0, 1}},
                                   {dir, "none", none},
                                   {mode, "async_dirty", async_dirty}, {secret, "x", <<"x">>}]],
    true = os:putenv("DOCKET_POTR", "8081"),
    true = os:putenv("DOCKET_PORT", ""),
    ?assertEqual(["DOCKET_POTR"], docket_config:unknown()),
    ok = application:set_env(docket, potr, 8081),
    ?assertEqual(["potr", "DOCKET_POTR"], docket_config:unknown()),
    ok = application:unset_env(docket, potr),
    %% The empty variable does not replace the setting of the test.
    ok = docket_config:load(),
    ?assertEqual(0, docket_config:get(port)),
    [true = os:unsetenv(Name) || Name <- ["DOCKET_POTR", "DOCKET_PORT"]],
    ok = application:stop(docket),
    application:set_env(docket, secret, none),
    {error, {docket, {{no_secret, _} = Error, _}}} = application:ensure_all_started(docket),
    {match, _} = re:run(docket_config:format_error(Error), "DOCKET_SECRET").

%% The mode ets keeps cases, with one node and without a directory. Anything else would lose them.
only_memory(Config) ->
    ok = application:stop(docket),
    application:set_env(docket, mode, ets),
    [begin
         application:set_env(docket, Key, Value),
         {error, {docket, {Error, _}}} = application:ensure_all_started(docket),
         ?assertEqual({only_memory, []}, Error),
         {match, _} = re:run(docket_config:format_error(Error), "DOCKET_DIR"),
         application:unset_env(docket, Key)
     end || {Key, Value} <- [{dir, data(Config)}, {nodes, [node(), 'b@x']}]],
    {ok, _} = application:ensure_all_started(docket),
    life(Config),
    two_editors(Config).

port_in_use(_) ->
    ok = application:stop(docket),
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    application:set_env(docket, port, Port),
    {error, {docket, {{shutdown, {failed_to_start_child, http, Reason}}, _}}} =
        application:ensure_all_started(docket),
    ?assertEqual({shutdown, {listen, eaddrinuse}}, Reason).

%% A fault of the server is an answer too, and the connection stays.
failure(_) ->
    Secret = persistent_term:get(docket_config),
    ok = persistent_term:put(docket_config, maps:remove(mode, Secret)),
    {500, _, #{<<"error">> := <<"failed">>}} = ask(get, path(<<"000000000000">>)),
    ok = persistent_term:put(docket_config, Secret),
    {404, _, _} = ask(get, path(<<"000000000000">>)).

%% A server whose database has ended starts it again.
not_ready(_) ->
    ok = sys:suspend(docket_mnesia_member),
    stopped = mnesia:stop(),
    {503, _} = status(get, "/ready", []),
    [begin
         {503, Headers, #{<<"error">> := <<"not_ready">>}} = ask(get, Path),
         ?assertEqual("1", proplists:get_value("retry-after", Headers))
     end
     || Path <- ["/api/cases", path(<<"000000000000">>)]],
    ok = sys:resume(docket_mnesia_member),
    ok = until_ready().

until_ready() ->
    case status(get, "/ready", []) of
        {200, _} -> ok;
        {503, _} -> until_ready()
    end.

%% The clients

connect() ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, docket:port(), [binary, {active, false}]),
    Socket.

asker(Path) ->
    Test = self(),
    spawn_link(fun() -> Test ! {self(), ask(get, Path)} end).

waiting(Count) ->
    case docket_gate:counts(docket_store_gate) of
        {_, Count} = Counts -> Counts;
        _ ->
            erlang:yield(),
            waiting(Count)
    end.
