%% Tests the running executable's own file: another file takes its place, its pages are the code,
%% and it runs for a user without a home and without other files.
-module(executable_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("kernel/include/file.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([replaced/1, changed_time/1, umask/1, mapped/1, nobody_without_home/1,
         named_nobody_without_home/1]).

all() -> [replaced, changed_time, umask, mapped, nobody_without_home, named_nobody_without_home].

init_per_suite(Config) ->
    Out = filename:join(running:directory("executable", Config), "probe"),
    [{probe, running:build(running:fixture("probe"), Out)} | Config].

end_per_suite(_) -> ok.

%% An update replaces the file at once, under the same name, by a program that is not Whittle's. The
%% running program still starts its own programs and loads its own modules.
replaced(Config) ->
    Dir = running:directory("executable/replaced", Config),
    [Program, Other] = [filename:join(Dir, Name) || Name <- ["program", "other"]],
    [begin
         {ok, _} = file:copy(From, To),
         ok = file:change_mode(To, 8#755)
     end || {From, To} <- [{proplists:get_value(probe, Config), Program},
                           {os:find_executable("false"), Other}]],
    ?assertEqual({0, <<"{\"still here\\n\",true,{ok,<<\"a file of the application\\n\">>}}\n">>},
                 running:run(Program, ["replaced", Program, Other])),
    ?assertMatch({1, _}, running:run(Program, [])).

%% A file of the pack has the time of the program's file, so caches notice a later version.
changed_time(Config) ->
    Program = proplists:get_value(probe, Config),
    Note = "/.whittle/lib/probe-1.2.3/priv/note.txt",
    ok = file:change_time(Program, {{2020, 1, 2}, {3, 4, 5}}, {{2020, 1, 2}, {3, 4, 5}}),
    {ok, Info} = file:read_file_info(Program, [{time, posix}]),
    ?assertEqual({0, iolist_to_binary(io_lib:format("~b~n", [Info#file_info.mtime]))},
                 running:run(Program, ["changed", Note])).

%% An output may contain passwords, so only those whom the umask lets read it can read it.
umask(Config) ->
    Out = filename:join(running:directory("executable/umask", Config), "hello"),
    Build = "umask \"$0\" && exec \"$@\"",
    Modes = [begin
                 {0, _} = running:run("/bin/sh", ["-c", Build, Umask,
                                                  filename:join(running:root(), "whittle"), "build",
                                                  running:example("hello"), "-o", Out]),
                 {ok, #file_info{mode = Mode}} = file:read_file_info(Out),
                 Mode band 8#777
             end || Umask <- ["022", "027", "077"]],
    ?assertEqual([8#755, 8#750, 8#700], Modes).

%% All processes of the program share its pages: none has a copy of the code.
mapped(Config) ->
    Port = running:start(proplists:get_value(probe, Config), ["wait"]),
    <<"ready ", Pid/binary>> = running:line(Port),
    Process = "/proc/" ++ binary_to_list(Pid),
    {ok, Itself} = file:read_link(filename:join(Process, "exe")),
    {ok, Maps} = file:read_file(filename:join(Process, "maps")),
    running:signal(Port, "TERM"),
    {0, _} = running:ended(Port),
    {Files, Sizes} = lists:unzip(code(Maps)),
    ?assertEqual([Itself], lists:usort(Files)),
    ?assert(lists:sum(Sizes) > 1_000_000).

%% Lists the executable mappings and their sizes, without the kernel's own ([vdso]).
code(Maps) ->
    {match, Found} = re:run(Maps, "^([0-9a-f]+)-([0-9a-f]+) ..x. \\S+ \\S+ \\d+ *+(?!\\[)(.*)$",
                            [multiline, global, {capture, [1, 2, 3], list}]),
    [{File, list_to_integer(To, 16) - list_to_integer(From, 16)} || [From, To, File] <- Found].

nobody_without_home(Config) ->
    ?assertEqual({0, <<"[\"args\"]\n">>}, alone(["args"], [], Config)).

%% The cookie is generated or given: the program can read and write no ~/.erlang.cookie.
named_nobody_without_home(Config) ->
    Env = [{"RELEASE_NODE", "nobody"}, {"ERL_DIST_PORT", integer_to_list(running:free_port())}],
    {0, Cookie} = alone(["cookie"], Env, Config),
    ?assert(byte_size(Cookie) > 20),
    Given = [{"RELEASE_COOKIE", "crumb"} | Env],
    ?assertEqual({0, <<"crumb\n">>}, alone(["cookie"], Given, Config)).

alone(Words, Env, Config) ->
    running:alone(proplists:get_value(probe, Config), Words, #{env => [{"HOME", false} | Env]}).
