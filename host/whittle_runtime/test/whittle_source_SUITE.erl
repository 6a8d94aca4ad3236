%% Tests sources: tarballs that users name, releases that a server of this test delivers over
%% http and https, and apt's messages.
-module(whittle_source_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("public_key/include/public_key.hrl").

-export([all/0, init_per_testcase/2]).
-export([tarball/1, one_file/1, tarball_of_another_release/1, not_a_tarball/1,
         sum_beside_a_tarball/1, damaged_in_the_cache/1, other_pins/1,
         copy_without_ways/1, fetched_over_http/1, fetch_tells/1, proxies/1, wrong_sum/1,
         server_not_there/1, no_room/1, unreadable_beside/1, https_is_verified/1,
         archive_of_the_machine/1,
         unsigned_archive/1, no_keyring/1, version_of_a_package/1, no_address_in_errors/1,
         unsupported/1]).

all() ->
    [tarball, one_file, tarball_of_another_release, not_a_tarball, sum_beside_a_tarball,
     damaged_in_the_cache, other_pins, copy_without_ways, fetched_over_http, fetch_tells,
     proxies, wrong_sum, server_not_there, no_room, unreadable_beside, https_is_verified,
     archive_of_the_machine,
     unsigned_archive, no_keyring, version_of_a_package, no_address_in_errors,
     unsupported].

init_per_testcase(Case, Config) -> made:dir(Case, Config).

%%% Tarballs

tarball(Config) ->
    File = make_tarball(Config, "29.7.1"),
    {ok, Source} = whittle_source:find(erlang, "29", #{source => File}),
    ?assertMatch(#{vsn := "29.7.1", kind := tarball, main := File}, Source),
    ?assertEqual(ok, whittle_source:verify(Source, #{})),
    %% The bytes of a tarball matter, not its name.
    Moved = File ++ ".moved.tar",
    ok = file:rename(File, Moved),
    {ok, Again} = whittle_source:find(erlang, "29", #{source => Moved}),
    ?assertEqual(whittle_source:fingerprint(Source), whittle_source:fingerprint(Again)).

%% Without the file, the error names it.
one_file(Config) ->
    File = make_tarball(Config, "29.7.1"),
    {ok, Source} = whittle_source:find(erlang, "29", #{source => File}),
    ?assertEqual({ok, <<"29.7.1\n">>}, whittle_source:file(Source, "OTP_VERSION")),
    ?assertEqual({ok, <<"29.7.1\n">>},
                 whittle_runtime:source_file("29", "OTP_VERSION", #{source => File})),
    Error = whittle_source:file(Source, "erts/nothing.erl"),
    ?assertMatch({error, {not_in_source, #{path := "erts/nothing.erl"}}}, Error),
    one_line(Error).

tarball_of_another_release(Config) ->
    File = make_tarball(Config, "27.1"),
    Error = whittle_source:find(erlang, "29", #{source => File}),
    ?assertMatch({error, {wrong_source, #{vsn := "27.1", otp := "29"}}}, Error),
    one_line(Error),
    %% 290 is not 29.
    Other = make_tarball(Config, "290.1"),
    ?assertMatch({error, {wrong_source, _}},
                 whittle_source:find(erlang, "29", #{source => Other})).

not_a_tarball(Config) ->
    File = filename:join(dir(Config), "noise.tar.gz"),
    ok = file:write_file(File, crypto:strong_rand_bytes(10000)),
    Error = whittle_source:find(erlang, "29", #{source => File}),
    ?assertMatch({error, {not_a_source, _}}, Error),
    one_line(Error),
    %% A version is printed, so it must be one.
    [?assertMatch({error, {not_a_source, _}},
                  whittle_source:find(erlang, "29", #{source => make_tarball(Config, Vsn)}))
     || Vsn <- ["29.\e[31mX", "29.1\nx", "29.1/../x", lists:duplicate(10_000, $2)]],
    Missing = whittle_source:find(erlang, "29", #{source => File ++ "x"}),
    ?assertMatch({error, {unreadable, #{reason := enoent}}}, Missing),
    one_line(Missing).

sum_beside_a_tarball(Config) ->
    File = make_tarball(Config, "29.0"),
    {ok, Sum} = whittle_digest:file(File),
    ok = file:write_file(File ++ ".sha256", [Sum, "  ", filename:basename(File), "\n"]),
    {ok, _} = whittle_source:find(erlang, "29", #{source => File}),
    ok = file:write_file(File, "more", [append]),
    Error = whittle_source:find(erlang, "29", #{source => File}),
    ?assertMatch({error, {bad_checksum, #{expected := Sum}}}, Error),
    one_line(Error),
    %% A file with a release's name must have the release's checksum.
    Pinned = filename:join(dir(Config), "otp_src_29.1.1.tar.gz"),
    {ok, _} = file:copy(File, Pinned),
    ?assertMatch({error, {bad_checksum, _}},
                 whittle_source:find(erlang, "29", #{source => Pinned})).

damaged_in_the_cache(Config) ->
    Options = #{cache => dir(Config)},
    Make = fun(Out) ->
                   ok = file:write_file(filename:join(Out, "a.tar"), "whole"),
                   {ok, Sum} = whittle_digest:file(filename:join(Out, "a.tar")),
                   {ok, #{component => erlang, release => "29", main => "a.tar",
                          vsn => "29.1", kind => tarball, origin => "test",
                          sums => #{"a.tar" => Sum}}}
           end,
    {ok, Source = #{main := Main}} = whittle_cache:source("erlang-29", Make, Options),
    ?assertEqual(ok, whittle_source:verify(Source, Options)),
    ok = file:write_file(Main, "whole?"),
    Error = whittle_source:verify(Source, Options),
    ?assertMatch({error, {damaged_source, #{file := Main}}}, Error),
    one_line(Error),
    ?assertNot(filelib:is_file(Main)),
    {ok, Healed} = whittle_cache:source("erlang-29", Make, Options),
    ?assertEqual(ok, whittle_source:verify(Healed, Options)).

%% The name of a kept source contains the ways. With other ways, the cache fetches it again.
other_pins(Config) ->
    {Address, Sum, Stop} = serve(Config, []),
    Options = fun(Ways) -> #{cache => filename:join(dir(Config), "cache"), source => none,
                             ways => Ways} end,
    Old = [{release, "29.1", Address, Sum}],
    {ok, Source} = whittle_source:find(erlang, "29", Options(Old)),
    %% Another release at the same address.
    ok = file:write_file(filename:join(dir(Config), "release"), "another"),
    {ok, Other} = whittle_digest:file(filename:join(dir(Config), "release")),
    {ok, Next} = whittle_source:find(erlang, "29", Options([{release, "29.2", Address, Other}])),
    ?assertMatch(#{vsn := "29.2"}, Next),
    ?assertNotEqual(whittle_source:fingerprint(Source), whittle_source:fingerprint(Next)),
    Stop(),
    ?assertEqual({ok, Source}, whittle_source:find(erlang, "29", Options(Old))),
    %% The cache keeps a source that still is one of the ways, unless it is damaged.
    More = [{debian, "erlang", [], "29.9-1"} | Old],
    {ok, Taken} = whittle_source:find(erlang, "29", Options(More)),
    ?assertEqual(whittle_source:fingerprint(Source), whittle_source:fingerprint(Taken)),
    ?assertEqual(ok, whittle_source:verify(Taken, #{})),
    ok = file:write_file(maps:get(main, Source), "damaged"),
    ?assertMatch({error, {no_source, _}},
                 whittle_source:find(erlang, "29", Options(More ++ [{debian, "x", [], "1"}]))).

%% A copy from an older Whittle, whose names did not contain the ways.
copy_without_ways(Config) ->
    Options = fun(Newest) -> #{cache => dir(Config), source => none, keyring => "/nowhere",
                               ways => [{debian, "erlang", ["sid"], Newest}]} end,
    Make = fun(Out) ->
                   ok = file:write_file(filename:join(Out, "erlang_29.1-1.dsc"), "words"),
                   {ok, Sum} = whittle_digest:file(filename:join(Out, "erlang_29.1-1.dsc")),
                   {ok, #{component => erlang, release => "29", main => "erlang_29.1-1.dsc",
                          vsn => "29.1", kind => debian, origin => "Debian sid",
                          sums => #{"erlang_29.1-1.dsc" => Sum}}}
           end,
    {ok, Old} = whittle_cache:source("erlang-29", Make, Options("")),
    {ok, New} = whittle_source:find(erlang, "29", Options("29.1-1")),
    ?assertEqual(whittle_source:fingerprint(Old), whittle_source:fingerprint(New)),
    ?assertNotEqual(maps:get(main, Old), maps:get(main, New)),
    ?assertMatch({error, {no_source, _}}, whittle_source:find(erlang, "29", Options("29.1-2"))).

%%% Releases

fetched_over_http(Config) ->
    {Address, Sum, Stop} = serve(Config, []),
    File = filename:join(dir(Config), "fetched"),
    ?assertEqual(ok, whittle_fetch:get(Address, File, Sum, #{})),
    ?assertEqual({ok, Sum}, whittle_digest:file(File)),
    Stop().

%% The percentages rise, each comes once, and the last one is 100.
fetch_tells(Config) ->
    {Address, Sum, Stop} = serve(Config, []),
    File = filename:join(dir(Config), "fetched"),
    Test = self(),
    Tell = fun("fetching the source", Percent) -> Test ! {percent, Percent} end,
    ok = whittle_fetch:get(Address, File, Sum, #{tell => Tell}),
    Stop(),
    Told = percents(),
    ?assertEqual(lists:usort(Told), Told),
    ?assertEqual(100, lists:last(Told)),
    ?assert(length(Told) > 2),
    ?assertEqual([3, 100], whittle_apt:percents(
                             <<"Get:1 x\ndlstatus:1:3.08642:Retrieving\ndlstatus:2:100:R\n">>)).

percents() ->
    receive {percent, Percent} -> [Percent | percents()] after 0 -> [] end.

%% Fetches go through the environment's proxy; https uses a tunnel and is verified as usual.
proxies(Config) ->
    Tls = tls(),
    File = filename:join(dir(Config), "fetched"),
    {Proxy, Log} = start_proxy(),
    [begin
         {Served, Sum, Stop} = serve(Config, Server),
         Address = As(Served),
         Get = fun(Environment) ->
                       [os:putenv(Name, Value) || {Name, Value} <- Environment],
                       _ = file:delete(File),
                       try
                           ok = whittle_fetch:get(Address, File, Sum, #{cacerts => Trusted}),
                           Log()
                       after
                           [os:unsetenv(Name) || {Name, _} <- Environment]
                       end
               end,
         [Asked] = Get([{Variable, "http://someone:else@" ++ Proxy}]),
         ?assertNotEqual(nomatch, string:prefix(Asked, Method)),
         Server =:= [] orelse
             begin
                 os:putenv(Variable, "http://someone:else@" ++ Proxy),
                 ?assertMatch({error, {unreachable, _}},
                              whittle_fetch:get(Address, File ++ "2", Sum, #{})),
                 [_] = Log()
             end,
         ?assertEqual([], Get([{Variable, Proxy}, {"no_proxy", "example.org,localhost"}])),
         ?assertEqual([], Get([])),
         Stop()
     end || {Variable, Method, Server, Trusted} <-
                [{"http_proxy", "GET http://localhost:", [], []},
                 {"https_proxy", "CONNECT localhost:", maps:get(server, Tls),
                  maps:get(trusted, Tls)}],
            %% A scheme may have capitals.
            As <- [fun(Served) -> Served end,
                   fun(Served) ->
                           [Scheme, Rest] = string:split(Served, "://"),
                           string:uppercase(Scheme) ++ "://" ++ Rest
                   end]].

%% Starts a proxy that serves one connection after the other and reports the requests.
start_proxy() ->
    {ok, Listen} = gen_tcp:listen(0, [binary, {ip, {127, 0, 0, 1}}, {active, false},
                                      {packet, http_bin}]),
    {ok, Port} = inet:port(Listen),
    Test = self(),
    _ = spawn_link(fun() -> proxy(Listen, Test) end),
    {"127.0.0.1:" ++ integer_to_list(Port),
     fun Log() -> receive {asked, Line} -> [Line | Log()] after 0 -> [] end end}.

proxy(Listen, Test) ->
    {ok, Client} = gen_tcp:accept(Listen),
    {ok, {http_request, Method, Uri, _}} = gen_tcp:recv(Client, 0),
    Headers = proxy_headers(Client),
    {Port, Words, Answer} =
        case {Method, Uri} of
            {<<"CONNECT">>, {scheme, Host, To}} ->
                {binary_to_integer(To), ["CONNECT ", Host, ":", To],
                 fun(_) -> gen_tcp:send(Client, "HTTP/1.1 200 OK\r\n\r\n") end};
            {'GET', {absoluteURI, http, Host, To, Path}} ->
                {To, ["GET http://", Host, ":", integer_to_list(To)],
                 fun(Server) ->
                         gen_tcp:send(Server, ["GET ", Path, " HTTP/1.1\r\nHost: localhost\r\n"
                                               "Connection: close\r\n\r\n"])
                 end}
        end,
    %% someone:else
    <<"Basic c29tZW9uZTplbHNl">> = proplists:get_value('Proxy-Authorization', Headers),
    Test ! {asked, lists:flatten([to_list(Word) || Word <- Words])},
    {ok, Server} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, true}]),
    ok = Answer(Server),
    ok = inet:setopts(Client, [{packet, raw}, {active, true}]),
    relay(Client, Server),
    proxy(Listen, Test).

to_list(Bytes) when is_binary(Bytes) -> binary_to_list(Bytes);
to_list(Text) -> Text.

proxy_headers(Client) ->
    case gen_tcp:recv(Client, 0) of
        {ok, {http_header, _, Name, _, Value}} -> [{Name, Value} | proxy_headers(Client)];
        {ok, http_eoh} -> []
    end.

relay(A, B) ->
    receive
        {tcp, A, Bytes} -> _ = gen_tcp:send(B, Bytes), relay(A, B);
        {tcp, B, Bytes} -> _ = gen_tcp:send(A, Bytes), relay(A, B);
        {tcp_closed, _} -> gen_tcp:close(A), gen_tcp:close(B)
    end.

wrong_sum(Config) ->
    {Address, Sum, Stop} = serve(Config, []),
    File = filename:join(dir(Config), "fetched"),
    Error = whittle_fetch:get(Address, File, lists:reverse(Sum), #{}),
    ?assertMatch({error, {bad_checksum, #{actual := Sum}}}, Error),
    one_line(Error),
    Missing = whittle_fetch:get(Address ++ "x", File, Sum, #{}),
    ?assertMatch({error, {unreachable, #{reason := "the server answered 404"}}}, Missing),
    ?assertEqual([], filelib:wildcard(File ++ "*")),
    Stop().

server_not_there(Config) ->
    {Address, Sum, Stop} = serve(Config, []),
    Stop(),
    Error = whittle_fetch:get(Address, filename:join(dir(Config), "f"), Sum, #{}),
    ?assertMatch({error, {unreachable, #{reason := "connection refused"}}}, Error),
    one_line(Error).

%% The error of a place that cannot be written does not blame the network.
no_room(Config) ->
    {Address, Sum, Stop} = serve(Config, []),
    Dir = dir(Config),
    In = fun(Name) -> filename:join(Dir, Name) end,
    Get = fun(Name) ->
                  Error = whittle_fetch:get(Address, In(Name), Sum, #{}),
                  one_line(Error),
                  Error
          end,
    ?assertEqual({error, {cache_unwritable, #{dir => In("none"), reason => enoent}}},
                 Get("none/f")),
    ok = file:make_dir(In("directory")),
    ?assertMatch({error, {cache_unwritable, #{dir := Dir, reason := eisdir}}}, Get("directory")),
    ok = file:make_symlink("/dev/full", In("full.part")),
    ?assertEqual({error, {disk_full, #{dir => Dir}}}, Get("full")),
    Stop(),
    %% apt reads its settings from a file.
    ok = file:make_dir(In("apt.apt")),
    ok = file:make_symlink("/dev/full", In("apt.apt/sources.list")),
    ?assertEqual({error, {disk_full, #{dir => In("apt.apt")}}},
                 whittle_apt:fetch("erlang", "29", ["sid"], In("apt"),
                                   #{archive => "file:/nowhere", keyring => keyring(Config)})).

%% A tarball without a checksum would never be verified.
unreadable_beside(Config) ->
    {Address, Sum, Stop} = serve(Config, []),
    Cache = filename:join(dir(Config), "cache"),
    Beside = fun(_) ->
                     [Out] = filelib:wildcard(filename:join(Cache, "work/*/out")),
                     file:make_symlink("/nowhere", filename:join(Out, "beside"))
             end,
    Error = whittle_source:find(erlang, "29", #{cache => Cache, source => none, progress => Beside,
                                                ways => [{release, "29.1", Address, Sum}]}),
    Stop(),
    ?assertMatch({error, {unreadable, #{reason := enoent}}}, Error),
    ?assertEqual([], filelib:wildcard(filename:join(Cache, "sources/*"))).

https_is_verified(Config) ->
    #{server := Server, trusted := Trusted} = tls(),
    {Address, Sum, Stop} = serve(Config, Server),
    File = filename:join(dir(Config), "fetched"),
    ?assertEqual(ok, whittle_fetch:get(Address, File, Sum, #{cacerts => Trusted})),
    ok = file:delete(File),
    %% The system does not trust this authority, and the server's name is not 127.0.0.1.
    Unknown = whittle_fetch:get(Address, File, Sum, #{}),
    ?assertMatch({error, {unreachable, #{reason := "TLS: unknown_ca"}}}, Unknown),
    one_line(Unknown),
    Other = lists:flatten(string:replace(Address, "localhost", "127.0.0.1")),
    ?assertMatch({error, {unreachable, #{reason := "TLS: handshake_failure"}}},
                 whittle_fetch:get(Other, File, Sum, #{cacerts => Trusted})),
    ?assertNot(filelib:is_file(File)),
    Stop().

%% Creates a server's certificate for localhost, and that of the authority that signed it.
tls() ->
    Names = #'Extension'{extnID = ?'id-ce-subjectAltName',
                         extnValue = [{dNSName, "localhost"}], critical = false},
    Modern = [{digest, sha256}, {key, {namedCurve, secp256r1}}],
    Chain = #{root => Modern, intermediates => [], peer => Modern},
    #{server_config := Server, client_config := Client} =
        public_key:pkix_test_data(
          #{server_chain => Chain#{peer := [{extensions, [Names]} | Modern]},
            client_chain => Chain}),
    #{server => Server, trusted => proplists:get_value(cacerts, Client)}.

%%% apt

archive_of_the_machine(_) ->
    Output = "'http://a.example/debian-security/dists/bookworm-security/InRelease' x 0 \n"
        "'http://b.example/extra/dists/stable/InRelease' x 0 \n"
        "'http://c.example/debian/dists/bookworm-updates/InRelease' x 0 \n"
        "'http://d.example/debian/dists/bookworm/InRelease' x 0 \n"
        "'http://d.example/debian/dists/bookworm/main/binary-amd64/Packages.xz' y 0 \n",
    ?assertEqual({ok, "http://d.example/debian"}, whittle_apt:archive(Output, "bookworm")),
    ?assertEqual({ok, "http://b.example/extra"}, whittle_apt:archive(Output, "forky")),
    ?assertEqual(none, whittle_apt:archive("", "bookworm")).

%% An archive without a signature delivers nothing, even if the machine's own apt would accept
%% such an archive.
unsigned_archive(Config) ->
    Pool = filename:join([dir(Config), "archive", "pool", "erlang.dsc"]),
    Description = "Version: 1:29.9+dfsg-1\n",
    ok = filelib:ensure_dir(Pool),
    ok = file:write_file(Pool, Description),
    {ok, DscSum} = whittle_digest:file(Pool),
    Suite = filename:join([dir(Config), "archive", "dists", "sid"]),
    Sources = filename:join([Suite, "main", "source", "Sources"]),
    Entry = "Package: erlang\nVersion: 1:29.9+dfsg-1\nDirectory: pool\nFormat: 3.0\n"
        "Binary: erlang\nArchitecture: any\nChecksums-Sha256:\n " ++ DscSum ++ " "
        ++ integer_to_list(length(Description)) ++ " erlang.dsc\n\n",
    ok = filelib:ensure_dir(Sources),
    ok = file:write_file(Sources, Entry),
    {ok, Sum} = whittle_digest:file(Sources),
    ok = file:write_file(filename:join(Suite, "Release"),
                         ["Suite: sid\nCodename: sid\nComponents: main\nSHA256:\n ", Sum, " ",
                          integer_to_list(length(Entry)), " main/source/Sources\n"]),
    Out = filename:join(dir(Config), "out"),
    ok = filelib:ensure_path(Out),
    Options = #{archive => "file:" ++ filename:join(dir(Config), "archive"),
                keyring => keyring(Config)},
    Fetch = fun() ->
                    {error, Reason} = whittle_apt:fetch("erlang", "29", ["sid"], Out, Options),
                    ?assertMatch({no_apt, _}, Reason),
                    one_line({error, Reason}),
                    nomatch = string:find(whittle_runtime:format_error(Reason), dir(Config)),
                    ?assertEqual({ok, []}, file:list_dir(Out)),
                    ?assertNot(filelib:is_file(Out ++ ".apt"))
            end,
    Fetch(),
    Careless = filename:join(dir(Config), "apt.conf"),
    ok = file:write_file(Careless, "Acquire::AllowInsecureRepositories \"true\";\n"
                                   "APT::Get::AllowUnauthenticated \"true\";\n"),
    true = os:putenv("APT_CONFIG", Careless),
    try Fetch() after os:unsetenv("APT_CONFIG") end.

no_keyring(Config) ->
    Error = whittle_apt:fetch("erlang", "29", ["sid"], dir(Config),
                              #{keyring => "/nowhere"}),
    ?assertMatch({error, {no_apt, _}}, Error),
    one_line(Error).

version_of_a_package(_) ->
    Shown = "Package: erlang\nVersion: 1:27.3.4.1+dfsg-1+deb13u3\n\n"
        "Package: erlang\nVersion: 1:29.1.1+dfsg-1\n",
    ?assertEqual({ok, "1:29.1.1+dfsg-1"}, whittle_apt:choose(Shown, "29")),
    ?assertEqual({ok, "1:27.3.4.1+dfsg-1+deb13u3"}, whittle_apt:choose(Shown, "27")),
    ?assertEqual(none, whittle_apt:choose(Shown, "2")),
    ?assertEqual(none, whittle_apt:choose("", "29")).

no_address_in_errors(_) ->
    Word = proper_types:list(proper_types:range($a, $z)),
    Text = proper_types:list(proper_types:range($\s, $~)),
    made:holds(300, {proper_types:list(Word), Text, Text},
               fun({Words, Before, After}) ->
                       Host = string:join(["mirror" ++ W || W <- ["" | Words]], ".")
                           ++ ".example",
                       Archive = "http://" ++ Host ++ "/debian",
                       Message = Before ++ " '" ++ Host ++ "' " ++ After ++ " "
                           ++ Archive ++ "/dists/sid " ++ Before,
                       Scrubbed = whittle_apt:scrub(Message, Archive),
                       string:find(Scrubbed, Host) =:= nomatch
               end).

unsupported(_) ->
    Error = whittle_source:find(erlang, "17", #{source => none}),
    ?assertMatch({error, {unsupported_otp, _}}, Error),
    one_line(Error).

%%% Test data

make_tarball(Config, Vsn) ->
    %% A version that is none may be no name of a file.
    Name = "otp-" ++ integer_to_list(erlang:phash2(Vsn)) ++ ".tar",
    File = filename:join(dir(Config), Name),
    ok = erl_tar:create(File, [{"otp_src_x/OTP_VERSION", list_to_binary(Vsn ++ "\n")},
                               {"otp_src_x/README.md", <<"words">>}]),
    File.

serve(Config, Tls) ->
    [{ok, _} = application:ensure_all_started(App) || App <- [inets, ssl]],
    Root = dir(Config),
    ok = file:write_file(filename:join(Root, "release"), crypto:strong_rand_bytes(300000)),
    {ok, Sum} = whittle_digest:file(filename:join(Root, "release")),
    {Scheme, Socket} = case Tls of
                           [] -> {"http", ip_comm};
                           _ -> {"https", {ssl, Tls}}
                       end,
    {ok, Server} = inets:start(httpd, [{port, 0}, {server_root, Root},
                                       {document_root, Root}, {bind_address, {127, 0, 0, 1}},
                                       {server_name, "localhost"}, {socket_type, Socket}]),
    [{port, Port}] = httpd:info(Server, [port]),
    Address = Scheme ++ "://localhost:" ++ integer_to_list(Port) ++ "/release",
    {Address, Sum, fun() -> ok = inets:stop(httpd, Server) end}.

%% Any file will do as a keyring here, because no signature can match it.
keyring(Config) ->
    File = filename:join(dir(Config), "keyring.gpg"),
    ok = file:write_file(File, ""),
    File.

one_line({error, Reason}) ->
    Text = lists:flatten(whittle_runtime:format_error(Reason)),
    ?assertEqual(nomatch, string:find(Text, "\n")),
    ?assert(length(Text) > 20),
    ct:pal("~ts", [Text]).

dir(Config) ->
    proplists:get_value(dir, Config).
