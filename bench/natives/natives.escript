#!/usr/bin/env escript
%% C of others in our VM: jiffy (a NIF in C and C++) and what a yaws web server loads (a
%% driver), from the sources of Debian's packages, which are compiled for each target named.
%%
%% Sources come by apt, which checks their signatures, from the suites whose archives hold
%% them; yaws' modules are those of its binary package. All lies below out/natives.
%%
%% usage: escript bench/natives/natives.escript [TARGET...]    default: this machine's
%% exit:  0 all said what they should, 1 something else (it says what)
-mode(compile).

-define(EXPECTED,
        [{"speaks",
          <<"{\"text\":\"größer\",\"numbers\":[1,-2.5,1e-300,1180591620717411303424],"
            "\"deep\":{\"true\":true,\"null\":null}}\n"
            "2040001 bytes, the same true\n{6,truncated_json}\n"/utf8>>},
         {"serves", <<"user root\nserved\n">>}]).

main(Words) ->
    Here = filename:dirname(filename:absname(escript:script_name())),
    Root = filename:dirname(filename:dirname(Here)),
    [true = code:add_patha(Dir)
     || Dir <- filelib:wildcard(filename:join(Root, "_build/default/lib/*/ebin"))],
    Work = filename:join(Root, "out/natives"),
    Libs = filename:join(Work, "libs"),
    ok = filelib:ensure_path(Libs),
    ok = jiffy(Work, Libs),
    ok = yaws(Work, Libs),
    Targets = case Words of [] -> [whittle_runtime:default_target()]; _ -> Words end,
    Wrong = [{Name, Target} || Target <- Targets, {Name, Expected} <- ?EXPECTED,
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
    Result = sh("HOME=\"$3\" \"$1\" run \"$2\"", [Whittle, Out, Work]),
    IsRight = Result =:= {0, unicode:characters_to_list(Expected)},
    io:format("~ts for ~ts, ~ts: ~ts~n", [Name, Target, string:join(string:lexemes(Vm, " "), " "),
                                          case IsRight of
                                              true -> "as it should be";
                                              false -> io_lib:format("~0tp", [Result])
                                          end]),
    IsRight.

jiffy(Work, Libs) ->
    Source = source({"erlang-jiffy", "1"}, ["trixie", "forky", "sid"], Work),
    To = filename:join(Libs, "jiffy"),
    {0, _} = sh("rm -rf \"$2\" && cp -R \"$1\" \"$2\" && mkdir \"$2/ebin\" &&"
                " cp \"$2/src/jiffy.app.src\" \"$2/ebin/jiffy.app\" &&"
                " erlc +debug_info -o \"$2/ebin\" \"$2\"/src/*.erl", [Source, To]),
    file:write_file(filename:join(To, "native.config"),
                    "{nif, \"jiffy\", [{sources, [\"c_src/*.c\", \"c_src/*.cc\","
                    " \"c_src/double-conversion/*.cc\"]}, {include, [\"c_src\"]}]}.\n").

yaws(Work, Libs) ->
    Source = source({"yaws", "2"}, ["trixie", "forky", "sid"], Work),
    To = filename:join(Libs, "yaws"),
    {0, _} = sh("rm -rf \"$1/package\" \"$3\" && mkdir -p \"$1/package\" \"$3/c_src\" &&"
                " cd \"$1/package\" && apt-get download -q -o APT::Sandbox::User=root erlang-yaws &&"
                " dpkg-deb -x erlang-yaws_*.deb . && cp -R usr/lib/yaws-*/ebin usr/lib/yaws-*/include"
                " usr/lib/yaws-*/priv \"$3\" && cp \"$2/c_src/setuid_drv.c\" \"$3/c_src\"", [Work, Source, To]),
    file:write_file(filename:join(To, "native.config"),
                    "{driver, \"setuid_drv\", [{sources, [\"c_src/setuid_drv.c\"]},"
                    " {module, yaws}]}.\n").

%% The unpacked source of a package of that major version, from the first suite that has it.
source({Package, Major}, Suites, Work) ->
    Dir = filename:join([Work, "source", Package]),
    case filelib:is_dir(Dir) of
        true -> Dir;
        false ->
            Fetched = Dir ++ ".files",
            ok = filelib:ensure_path(Fetched),
            %% apt has checked the signature and the sums of the files.
            {ok, #{main := Dsc}} = whittle_apt:fetch(Package, Major, Suites, Fetched,
                                                     #{tell => fun(_, _) -> ok end}),
            {0, _} = sh("dpkg-source --no-check --extract \"$1\" \"$2\" 2>&1", [filename:join(Fetched, Dsc), Dir]),
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
