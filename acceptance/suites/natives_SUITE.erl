%% Tests programs that need C beyond ERTS, or a disk: crypto, TLS, mnesia, and the C code of an
%% application.
-module(natives_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([crypto/1, mistake/1, parallel/1, tls/1, asked_over_tls/1, certificates/1,
         database_on_disk/1, brought/1, brought_wrong/1]).

all() ->
    [crypto, mistake, parallel, tls, asked_over_tls, certificates, database_on_disk, brought,
     brought_wrong].

init_per_suite(Config) ->
    Dir = proplists:get_value(priv_dir, Config),
    {ok, Bundle} = file:read_file("/etc/ssl/certs/ca-certificates.crt"),
    Roots = lists:sublist(public_key:pem_decode(Bundle), 2),
    Pem = filename:join(Dir, "roots.pem"),
    ok = file:write_file(Pem, public_key:pem_encode(Roots)),
    Out = filename:join(Dir, "keeper"),
    [{roots, Roots},
     {keeper, running:build(running:fixture("keeper"), Out, ["--ca-certs", Pem])} | Config].

end_per_suite(_Config) -> ok.

%% The digest is that of FIPS 180-4's example.
crypto(Config) ->
    ?assertEqual({0, <<"{<<\"BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD\">>,"
                       "true,<<\"text\">>,true,16}\n">>},
                 keeper(Config, ["crypto"])).

%% An error of crypto names the same line of its C source as on the stock VM.
mistake(Config) ->
    Eval = "try crypto:hash(nonsense, \"abc\")"
        " catch error:Reason -> io:format(\"~0tp~n\", [Reason]) end, halt().",
    Stock = running:run(filename:join([running:otp_root(), "bin", "erl"]),
                        ["-noshell", "-eval", Eval]),
    ?assertMatch({0, <<"{badarg,{\"hash.c\",", _/binary>>}, Stock),
    ?assertEqual(Stock, keeper(Config, ["mistake"])).

%% A libcrypto without locks crashes here in most runs.
parallel(Config) ->
    ?assertEqual({0, <<"16\n">>},
                 running:alone(proplists:get_value(keeper, Config), ["parallel"],
                               #{env => [{"ERL_FLAGS", "+S 4:4"}]})).

tls(Config) ->
    ?assertEqual({0, <<"{'tlsv1.3',{ok,<<\"hellohello\">>}}\n">>}, keeper(Config, ["tls"])).

%% Distribution over TLS works, also for the node that asks. That node finds ssl in the pack, and
%% its settings in the node's own flags of either kind.
asked_over_tls(Config) ->
    Dir = proplists:get_value(priv_dir, Config),
    [Key, Cert, Options] = [filename:join(Dir, Name) || Name <- ["key.pem", "cert.pem", "dist"]],
    {0, _} = running:run(os:find_executable("openssl"),
                         ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=keeper",
                          "-keyout", Key, "-out", Cert]),
    ok = file:write_file(Options, io_lib:format(
                                    "[{server, [{certfile, ~p}, {keyfile, ~p}]},"
                                    " {client, [{verify, verify_none}]}].~n", [Cert, Key])),
    asked(Config, "-ssl_dist_optfile " ++ Options),
    asked(Config, "-ssl_dist_opt server_certfile " ++ Cert ++ " server_keyfile " ++ Key
          ++ " client_verify verify_none").

asked(Config, Flags) ->
    Env = [{"RELEASE_NODE", "keeper@127.0.0.1"}, {"RELEASE_DISTRIBUTION", "name"},
           {"RELEASE_COOKIE", "crumb"}, {"ERL_DIST_PORT", integer_to_list(running:free_port())},
           {"ERL_FLAGS", "-proto_dist inet_tls " ++ Flags}],
    Keeper = proplists:get_value(keeper, Config),
    Node = running:start(Keeper, ["wait"], #{env => Env}),
    ?assertMatch(<<"keeper@127.0.0.1", _/binary>>, running:line(Node)),
    ?assertEqual({0, <<"pong\n">>}, running:run(Keeper, ["--whittle-ping"], #{env => Env})),
    ?assertMatch({0, _}, running:run(Keeper, ["--whittle-stop"], #{env => Env})),
    ?assertMatch({0, _}, running:ended(Node)).

%% The packed certificates serve a machine without certificates: two of this machine's.
certificates(Config) ->
    [_, _] = Sums = [erlang:md5(Root) || {_, Root, _} <- proplists:get_value(roots, Config)],
    ?assertEqual({0, iolist_to_binary(io_lib:format("~0tp~n", [lists:sort(Sums)]))},
                 running:alone(proplists:get_value(keeper, Config), ["certificates"], #{})).

%% Each start finds the data of the start before.
database_on_disk(Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "database"),
    ?assertEqual({0, <<"{true,1}\n">>}, keeper(Config, ["count", Dir])),
    ?assertEqual({0, <<"{false,2}\n">>}, keeper(Config, ["count", Dir])),
    ?assert(filelib:is_regular(filename:join(Dir, "schema.DAT"))).

%% Tests a NIF in C and C++, with an upgrade; another NIF with a function of the same name; a
%% driver that is already loaded, unlike ERTS's own; a source that includes another source; a
%% flag with all characters special to sh; and a handshake by OpenSSL's libssl.
brought(Config) ->
    Out = filename:join(proplists:get_value(priv_dir, Config), "grains"),
    Grains = running:build(running:fixture("grains"), Out, []),
    ?assertEqual({0, <<"{{3,1,0},{3,1,1},8.0,300,<<\"denrut\">>,{error,linked_in_driver}}\n"
                       "{\"it's $HOME, `id`\",\"TLSv1.2\",true}\n">>},
                 running:run(Grains, [])).

brought_wrong(Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "wrong"),
    Refused = fun(Text) ->
                      File = filename:join(Dir, "native.config"),
                      ok = filelib:ensure_dir(File),
                      ok = file:write_file(File, Text),
                      {1, Said} = running:whittle(["build", running:fixture("grains"),
                                                   "--native", File,
                                                   "-o", filename:join(Dir, "out")]),
                      ?assertNot(filelib:is_file(filename:join(Dir, "out"))),
                      binary_to_list(Said)
              end,
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    ok = file:write_file(filename:join(Dir, "bad.c"), "int x = ;\n"),
    ok = file:write_file(filename:join(Dir, "idle.c"), "int x;\n"),
    %% The cache would not notice when such a file changes.
    Outside = filename:join(filename:dirname(Dir), "outside.h"),
    ok = file:write_file(Outside, "int x;\n"),
    ok = file:write_file(filename:join(Dir, "outside.c"), ["#include \"", Outside, "\"\n"]),
    %% The compiler lists the headers of such a header in another way, and so the next source.
    ok = file:write_file(filename:join(Dir, "system.h"),
                         ["#pragma GCC system_header\n#include \"", Outside, "\"\n"]),
    ok = file:write_file(filename:join(Dir, "system.c"), "#include \"system.h\"\n"),
    ok = file:write_file(filename:join(Dir, "marked.c"),
                         ["# 1 \"x.c\" 3\n#include \"", Outside, "\"\n"]),
    %% A name such as those of the compiler's own files
    Temporary = filename:join(filename:dirname(Dir), "cc1.s"),
    ok = file:write_file(Temporary, "int x;\n"),
    ok = file:write_file(filename:join(Dir, "named.c"), ["#include \"", Temporary, "\"\n"]),
    ok = file:write_file(filename:join(Dir, "bytes.c"),
                         ["__asm__(\".incbin \\\"", Outside, "\\\"\");\n"]),
    [?assertMatch({match, _}, re:run(Refused(Text), Words), {Text, Words})
     || {Text, Words} <- [{"{nif, ", "line 1"},
                          {"{nif, \"a-b\", []}.", "the term \"a-b\" is wrong"},
                          {"{nuf, \"a\", []}.", "neither a nif nor a driver"},
                          {"{nif, \"grains\", []}.", "neither sources nor an archive"},
                          {"{nif, \"grains\", [{cflags", "text ends inside a term"},
                          {"{nif, \"grains\", [{sources, [\"no.c\"]}]}.",
                           "no.c names no file that ends in .c,"},
                          {"{nif, \"grains\", [{sources, [\"../x.c\"]}]}.",
                           "paths below the file"},
                          {"{nif, \"grains\", [{cflags, [\"-lusb\"]}]}.",
                           "each is one flag of the compiler"},
                          {"{nif, \"prim_file\", [{sources, [\"idle.c\"]}, {module, grains}]}.",
                           "two libraries have the name prim_file"},
                          {"{nif, \"grains\", [{libs, [usb]}]}.", "a list of crypto, ssl, zlib"},
                          {"{nif, \"stranger\", [{sources, [\"idle.c\"]}]}.",
                           "no application has the module stranger"},
                          {"{nif, \"grains\", [{sources, [\"bad.c\"]}]}.", "bad.c:1"},
                          {"{nif, \"grains\", [{sources, [\"idle.c\"]}]}.",
                           "no function grains_nif_init"},
                          {"{nif, \"grains\", [{archive, \"lib/$TARGET/x.a\"}]}.",
                           "x.a"}]],
    [?assertMatch({match, _},
                  re:run(Refused(["{nif, \"grains\", [{sources, [\"", Source, "\"]}]}."]),
                         "has read a file that is not below the directories"), Source)
     || Source <- ["outside.c", "system.c", "marked.c", "named.c", "bytes.c"]],
    %% A rule of make escapes such names, so that a part of one could look like another file.
    [begin
         ok = filelib:ensure_path(filename:join(Dir, Odd)),
         ok = file:write_file(filename:join([Dir, Odd, "x.h"]), "int x;\n"),
         ok = file:write_file(filename:join(Dir, "odd.c"), ["#include \"", Odd, "/x.h\"\n"]),
         ?assertMatch({match, _},
                      re:run(Refused("{nif, \"grains\", [{sources, [\"odd.c\"]}]}."),
                             "whose path has a space, a # or a \\$"), Odd)
     end || Odd <- ["a b", "a#b", "a$b"]].

keeper(Config, Words) -> running:run(proplists:get_value(keeper, Config), Words).
