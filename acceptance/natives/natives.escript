#!/usr/bin/env escript
%% C of others in our VM: jiffy (a NIF in C and C++), what a yaws web server loads (a driver),
%% and the twelve NIFs of ejabberd (OpenSSL's libssl, expat, libyaml, zlib, C++), from the
%% sources of Debian's packages, which are compiled for each target named.
%%
%% Sources come by apt, which checks their signatures, from the suites whose archives hold
%% them; yaws' modules are those of its binary package. All lies below out/natives.
%%
%% usage: escript acceptance/natives/natives.escript [TARGET...]    default: this machine's
%% exit:  0 all said what they should, 1 something else (it says what)
-mode(compile).

-define(EXPECTED,
        [{"speaks",
          <<"{\"text\":\"größer\",\"numbers\":[1,-2.5,1e-300,1180591620717411303424],"
            "\"deep\":{\"true\":true,\"null\":null}}\n"
            "2040001 bytes, the same true\n{6,truncated_json}\n"/utf8>>},
         {"serves", <<"user root\nserved\n">>},
         {"chats",
          <<"{fast_tls,{<<\"hello heard\">>,true}}\n"
            "{p1_sha,<<\"a9993e364706816aba3e25717850c26c9cd0d89d\">>}\n"
            "{fxml,<<\"<a b='&lt;'>x &amp; y</a>\">>}\n"
            "{fxml_stream,{xmlel,<<\"a\">>,[{<<\"b\">>,<<\"<\">>}],"
            "[{xmlcdata,<<\"x\">>},{xmlel,<<\"c\">>,[],[]}]}}\n"
            "{fast_yaml,{ok,[[{<<\"a\">>,[1,<<\"two\">>]},{<<\"b\">>,[{<<\"c\">>,2.5}]}]]}}\n"
            "{ezlib,true}\n"
            "{stringprep,true}\n"
            "{jid,<<\"Juliet@EXAMPLE.org/Balcony\">>}\n"
            "{xmpp_uri,[true,false]}\n"
            "{xmpp_lang,[true,false]}\n"
            "{ets_cache,[{ok,value},error]}\n"
            "{mqtree,[<<\"#\">>,<<\"a/+/c\">>]}\n"
            "{jiffy,<<\"{\\\"a\\\":[1,2.5,null]}\">>}\n">>}]).

%% The applications of ejabberd's that have a NIF, and one that those call; the packages of
%% their sources; and the modules that are compiled: all, or those around the NIFs.
-define(OF_EJABBERD,
        [{"p1_utils", "erlang-p1-utils", all},
         {"cache_tab", "erlang-p1-cache-tab", all},
         {"fast_tls", "erlang-p1-tls", all},
         {"fast_xml", "erlang-p1-xml", ["fast_xml", "fxml", "fxml_stream", "fxml_sup"]},
         {"fast_yaml", "erlang-p1-yaml", all},
         {"ezlib", "erlang-p1-zlib", all},
         {"mqtree", "erlang-p1-mqtree", all},
         {"stringprep", "erlang-p1-stringprep", all},
         {"xmpp", "erlang-p1-xmpp", ["jid", "xmpp_lang", "xmpp_uri"]}]).

main(Words) ->
    Here = filename:dirname(filename:absname(escript:script_name())),
    Root = filename:dirname(filename:dirname(Here)),
    [true = code:add_patha(Dir)
     || Dir <- filelib:wildcard(filename:join(Root, "_build/default/lib/*/ebin"))],
    Work = filename:join(Root, "out/natives"),
    Libs = filename:join(Work, "libs"),
    ok = filelib:ensure_path(Libs),
    ok = jiffy(Work, Libs, Root),
    ok = yaws(Work, Libs),
    ok = ejabberd(Work, Libs, Root),
    Targets = case Words of [] -> [whittle_runtime:default_target()]; _ -> Words end,
    Wrong = [{Name, Target} || Target <- Targets, {Name, Expected} <- ?EXPECTED,
                               Name =/= "chats" orelse has_cxx(Target),
                               not is_right(Name, Target, Expected, {Root, Here, Work, Libs})],
    halt(case Wrong of [] -> 0; _ -> 1 end).

is_right(Name, Target, Expected, {Root, Here, Work, Libs}) ->
    Out = filename:join(Work, Name ++ "-" ++ Target),
    Whittle = filename:join(Root, "whittle"),
    {0, Built} = sh("ERL_LIBS=\"$1\" \"$2\" build \"$3\" --target \"$4\" -o \"$5\" 2>&1",
                    [Libs, Whittle, filename:join(Here, Name), Target, Out]),
    {ok, _} = file:read_file_info(Out),
    [Vm] = [Line || Line <- string:lexemes(Built, "\n"), lists:prefix("vm ", Line)],
    %% yaws keeps what it found out about its OTP below HOME.
    Result = sh("CHATS_CERT=\"$3/cert.pem\" HOME=\"$3\" \"$1\" run \"$2\"", [Whittle, Out, Work]),
    IsRight = Result =:= {0, unicode:characters_to_list(Expected)},
    io:format("~ts for ~ts, ~ts: ~ts~n", [Name, Target, string:join(string:lexemes(Vm, " "), " "),
                                          case IsRight of
                                              true -> "as it should be";
                                              false -> io_lib:format("~0tp", [Result])
                                          end]),
    IsRight.

jiffy(Work, Libs, Root) ->
    Source = source({"erlang-jiffy", "1"}, ["trixie", "forky", "sid"], Work),
    To = filename:join(Libs, "jiffy"),
    {0, _} = sh("rm -rf \"$2\" && cp -R \"$1\" \"$2\" && mkdir \"$2/ebin\" &&"
                " cp \"$2/src/jiffy.app.src\" \"$2/ebin/jiffy.app\" &&"
                " erlc +debug_info -o \"$2/ebin\" \"$2\"/src/*.erl", [Source, To]),
    {ok, _} = file:copy(filename:join(Root, "acceptance/programs/ejabberd/jiffy.config"),
                        filename:join(To, "native.config")),
    ok.

yaws(Work, Libs) ->
    Source = source({"yaws", "2"}, ["trixie", "forky", "sid"], Work),
    To = filename:join(Libs, "yaws"),
    {0, _} = sh("rm -rf \"$1/package\" \"$3\" && mkdir -p \"$1/package\" \"$3/c_src\" &&"
                " cd \"$1/package\" &&"
                " apt-get download -q -o APT::Sandbox::User=root erlang-yaws &&"
                " dpkg-deb -x erlang-yaws_*.deb . &&"
                " cp -R usr/lib/yaws-*/ebin usr/lib/yaws-*/include"
                " usr/lib/yaws-*/priv \"$3\" && cp \"$2/c_src/setuid_drv.c\" \"$3/c_src\"",
                [Work, Source, To]),
    file:write_file(filename:join(To, "native.config"),
                    "{driver, \"setuid_drv\", [{sources, [\"c_src/setuid_drv.c\"]},"
                    " {module, yaws}]}.\n").

%% Each with its description of acceptance/programs/ejabberd, and the libraries that those name.
ejabberd(Work, Libs, Root) ->
    [Expat, Yaml] = [source(Package, ["bookworm"], Work) || Package <- [{"expat", "2"},
                                                                        {"libyaml", "0"}]],
    [begin
         To = filename:join(Libs, App),
         {0, _} = sh("rm -rf \"$2\" && cp -R \"$1\" \"$2\" && cp \"$3\" \"$2/native.config\"",
                     case App of
                         "p1_utils" -> [source({Package, "1"}, ["trixie"], Work), To, "/dev/null"];
                         _ -> [source({Package, "1"}, ["trixie"], Work), To,
                               filename:join([Root, "acceptance/programs/ejabberd",
                                              App ++ ".config"])]
                     end),
         compiled(App, Modules, To)
     end || {App, Package, Modules} <- ?OF_EJABBERD],
    {0, _} = sh("cp -R \"$1/expat/lib\" \"$2/fast_xml/c_src/expat\" &&"
                " cp \"$4\" \"$2/fast_xml/c_src/expat\" &&"
                " mkdir \"$2/fast_yaml/c_src/libyaml\" &&"
                " cp -R \"$3/src\" \"$3/include\" \"$2/fast_yaml/c_src/libyaml\"",
                [Expat, Libs, Yaml,
                 filename:join(Root, "acceptance/programs/ejabberd/expat_config.h")]),
    {0, _} = sh("cd \"$1\" && openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=chats"
                " -keyout key.pem -out cert.pem 2>&1 && cat key.pem >> cert.pem", [Work]),
    ok.

%% By erlc, for their rebar.config name tools that are not here. A part of an application
%% needs no other ones than those around its NIFs do.
compiled(App, Modules, Dir) ->
    Ebin = filename:join(Dir, "ebin"),
    ok = filelib:ensure_path(Ebin),
    [{ok, _} = compile:file(File, [debug_info, {outdir, Ebin}, {i, filename:join(Dir, "include")}])
     || File <- filelib:wildcard(filename:join(Dir, "src/*.erl")),
        Modules =:= all orelse lists:member(filename:basename(File, ".erl"), Modules)],
    Base = filename:join(Dir, "src/" ++ App ++ ".app.src"),
    {ok, [{application, Name, Keys}]} = file:consult(Base),
    Own = case App of
              "xmpp" -> [{vsn, "0"}, {applications, [kernel, stdlib, p1_utils, stringprep]}];
              _ -> lists:keystore(vsn, 1, Keys, {vsn, "0"})
          end,
    file:write_file(filename:join(Ebin, App ++ ".app"),
                    io_lib:format("~p.~n", [{application, Name, Own}])).

%% stringprep is C++.
has_cxx(Target) ->
    [Cxx] = [Cxx || #{name := Name, cxx := Cxx} <- whittle_runtime:targets(), Name =:= Target],
    Cxx =/= "".

%% The unpacked source of a package of that major version, from the first suite that has it.
%% An archive may hold the author's part of a package and not Debian's; apt has checked that
%% file, too.
source({Package, Major}, Suites, Work) ->
    Dir = filename:join([Work, "source", Package]),
    case filelib:is_dir(Dir) of
        true -> Dir;
        false ->
            Fetched = Dir ++ ".files",
            ok = filelib:ensure_path(Fetched),
            %% apt has checked the signature and the sums of the files.
            {0, _} = case whittle_apt:fetch(Package, Major, Suites, Fetched,
                                            #{tell => fun(_, _) -> ok end}) of
                         {ok, #{main := Dsc}} ->
                             sh("dpkg-source --no-check --extract \"$1\" \"$2\" 2>&1",
                                [filename:join(Fetched, Dsc), Dir]);
                         {error, _} = Error ->
                             [Original] = filelib:wildcard(Fetched ++ "/*.orig.tar.*")
                                 ++ [Error || filelib:wildcard(Fetched ++ "/*.orig.tar.*") =:= []],
                             sh("mkdir \"$2\" && tar -xf \"$1\" -C \"$2\" --strip-components=1",
                                [Original, Dir])
                     end,
            Dir
    end.

sh(Script, Words) ->
    Port = open_port({spawn_executable, "/bin/sh"},
                     [{args, ["-c", Script, "sh" | Words]}, exit_status, binary]),
    ended(Port, <<>>).

ended(Port, Said) ->
    receive
        {Port, {data, Bytes}} -> ended(Port, <<Said/binary, Bytes/binary>>);
        {Port, {exit_status, Code}} -> {Code, unicode:characters_to_list(Said)}
    end.
