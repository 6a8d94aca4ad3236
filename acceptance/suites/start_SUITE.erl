%% Tests that a start which must fail ends with one line, and that a start takes nothing forbidden
%% from its environment.
-module(start_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, end_per_testcase/2]).
-export([cut_anywhere/1, a_bit_anywhere/1, checked_under_any_name/1]).
-export([setuid/1, setgid/1, file_capabilities/1, own_program_with_lent_rights/1,
         ambient_capabilities/1, secure_mode_of_a_security_module/1, detached_without_a_process/1,
         words_that_look_like_flags/1, cookie_on_the_command_line/1, paths_with_a_dash/1,
         text_that_is_not_utf8/1, removed_directory/1, forbidden_directory/1, stack/1,
         refused_before_the_mapper/1,
         long_cookies/1, cookie_file_of_one_word/1, home_cookie_of_another_kind/1,
         home_cookie_that_is_wrong/1, cookie_beside_the_configuration/1,
         generated_cookie_is_said/1, asked_without_a_cookie/1, files_without_an_end/1,
         missing_resolver_file/1, paths_that_are_too_long/1, emulator_that_is_none/1,
         forbidden_system_calls/1, memory_that_is_not_executable/1,
         memory_on_other_kernels/1,
         mapper_port/1, mapper_address/1, descriptors/1, descriptor_of_nobody/1,
         mapper_listens_where_the_node_is/1, empty_mapper_port/1, node_listens_where_told/1,
         kernel_that_cannot_start/1, no_module_of_the_directory/1]).

%% No user of a machine has this number.
-define(NOBODY, 65534).

all() ->
    [cut_anywhere, a_bit_anywhere, checked_under_any_name, setuid, setgid, file_capabilities,
     own_program_with_lent_rights, ambient_capabilities, secure_mode_of_a_security_module,
     detached_without_a_process,
     words_that_look_like_flags, cookie_on_the_command_line, paths_with_a_dash,
     text_that_is_not_utf8, removed_directory, forbidden_directory, stack,
     refused_before_the_mapper,
     long_cookies, cookie_file_of_one_word, home_cookie_of_another_kind,
     home_cookie_that_is_wrong, cookie_beside_the_configuration, generated_cookie_is_said,
     asked_without_a_cookie, files_without_an_end,
     missing_resolver_file, paths_that_are_too_long, emulator_that_is_none,
     forbidden_system_calls, memory_that_is_not_executable, memory_on_other_kernels, mapper_port,
     mapper_address, descriptors,
     descriptor_of_nobody,
     mapper_listens_where_the_node_is, empty_mapper_port, node_listens_where_told,
     kernel_that_cannot_start, no_module_of_the_directory].

init_per_suite(Config) ->
    Out = filename:join(running:directory("start", Config), "probe"),
    [{probe, running:build(running:fixture("probe"), Out)}, {epmd, running:free_port()} | Config].

end_per_suite(Config) -> running:end_epmd(proplists:get_value(epmd, Config)).

end_per_testcase(_, Config) -> file:del_dir_r(public(Config)).

%% The file itself (entry_SUITE has the other processors)

%% The kernel reads the headers in the first page, and the check lies in it.
-define(CHECKED_FROM, 4096).
-define(PLACES, 200).

%% The longest length comes first, so that the test can truncate one file again and again.
cut_anywhere(Config) ->
    {File, Bytes} = copied("start_cut", Config),
    Sizes = lists:reverse(lists:usort(places(byte_size(Bytes)))),
    Said = [begin
                changed(File, fun(Io) ->
                                      {ok, _} = file:position(Io, Size),
                                      ok = file:truncate(Io)
                              end),
                {Size, running:run(File, ["args"])}
            end || Size <- Sizes],
    Expected = {1, <<"probe: this file is damaged, so copy it again: its end is missing\n">>},
    ?assertEqual([], [Wrong || {_, Answer} = Wrong <- Said, Answer =/= Expected]).

%% Changes a bit in the loaded parts of the VM. The pack has its own checksum (launcher_SUITE).
a_bit_anywhere(Config) ->
    {File, Bytes} = copied("start_bit", Config),
    {ok, Pack} = whittle_elf:pack(Bytes),
    Vm = binary:part(Bytes, 0, byte_size(Bytes) - byte_size(Pack)),
    Said = [begin
                <<_:At/binary, Byte, _/binary>> = Vm,
                Put = fun(New) ->
                              changed(File, fun(Io) -> ok = file:pwrite(Io, At, <<New>>) end)
                      end,
                Put(Byte bxor (1 bsl (rand:uniform(8) - 1))),
                Answer = running:run(File, ["args"]),
                Put(Byte),
                {At, Answer}
            end || At <- places(byte_size(Vm))],
    Expected = {1, <<"probe: this file is damaged, so copy it again: the VM's checksum is "
                     "wrong\n">>},
    %% Section headers, up to two pages, lie between the VM's loaded parts and the pack.
    ?assertEqual([], [Wrong || {At, Answer} = Wrong <- Said, Answer =/= Expected,
                               At < byte_size(Vm) - 8192]).

%% The VM's own child programs skip the check, and nothing else that is called nearly so.
checked_under_any_name(Config) ->
    {File, Bytes} = copied("start_name", Config),
    {ok, Pack} = whittle_elf:pack(Bytes),
    At = (byte_size(Bytes) - byte_size(Pack)) div 2,
    changed(File, fun(Io) -> ok = file:pwrite(Io, At, <<(bnot binary:at(Bytes, At))>>) end),
    [begin
         {1, Said} = running:run(os:find_executable("bash"),
                                 ["-c", "exec -a \"$1\" \"$0\" args", File, Name]),
         ?assertMatch({Name, {match, _}},
                      {Name, re:run(Said, "this file is damaged, so copy it again: the VM's "
                                   "checksum "
                                    "is wrong\n$")})
     end || Name <- ["/.whittle/zz", "/.whittle/bin/", "/.whittle/bin/zz", "/.whittle/bin/hear",
                     "/.whittle/bin/heart2", "/.whittle/bin/erl/", "/.whittle/heart"]].

copied(Name, Config) ->
    _ = rand:seed(exsss, {19, 5, 200}),
    File = filename:join(running:directory(Name, Config), "probe"),
    {ok, _} = file:copy(proplists:get_value(probe, Config), File),
    ok = file:change_mode(File, 8#755),
    {ok, Bytes} = file:read_file(File),
    {File, Bytes}.

%% Closes the file before it runs: the kernel does not run a file that is open for writing.
changed(File, Change) ->
    {ok, Io} = file:open(File, [read, write, raw, binary]),
    Change(Io),
    ok = file:close(Io).

places(Size) ->
    [?CHECKED_FROM, Size - 1
     | [?CHECKED_FROM + rand:uniform(Size - ?CHECKED_FROM) - 1 || _ <- lists:seq(1, ?PLACES)]].

%% Rights that the file gives to each user who starts it

%% The test shows that the first setting works; each of the others would do as much harm.
-define(HOSTILE, [{"ERL_FLAGS", "-env MINE mine"}, {"ERL_AFLAGS", "-eval halt(0)"},
                  {"WHITTLE_SELF_FD", "0"}, {"WHITTLE_TREE", "/tmp"}, {"HOME", "/tmp"}]).

setuid(Config) -> lent(fun(File) -> ok = file:change_mode(File, 8#4755) end, Config).

setgid(Config) -> lent(fun(File) -> ok = file:change_mode(File, 8#2755) end, Config).

file_capabilities(Config) ->
    case os:find_executable("setcap") of
        false -> {skip, "there is no setcap"};
        Setcap ->
            lent(fun(File) -> {0, _} = running:run(Setcap, ["cap_net_bind_service+ep", File]) end,
                 Config)
    end.

%% main selects heart by this name, and heart runs HEART_COMMAND.
own_program_with_lent_rights(Config) ->
    as_nobody(Config, fun(File) ->
        ok = file:change_mode(File, 8#4755),
        {1, Said} = run_as_nobody(["bash", "-c", "exec -a /.whittle/bin/heart \"$0\"", File],
                                  [{"HEART_COMMAND", "echo mine"}]),
        ?assertMatch({match, _}, re:run(Said, "is setuid or setgid"))
    end).

%% A service manager gives capabilities in this way, and only to the programs that it starts.
ambient_capabilities(Config) ->
    as_nobody(Config, fun(File) ->
        Given = ["--inh-caps", "+net_bind_service", "--ambient-caps", "+net_bind_service"],
        case run_as_nobody(Given, ["/bin/true"], []) of
            {0, _} -> ?assertEqual({0, <<"[\"args\"]\n">>},
                                   run_as_nobody(Given, [File, "args"], []));
            {_, Said} -> {skip, "no ambient capabilities here: " ++ binary_to_list(Said)}
        end
    end).

%% Without setuid, setgid or capabilities, the file is not the cause of the secure mode.
secure_mode_of_a_security_module(Config) ->
    case erlang:system_info(system_architecture) of
        "x86_64" ++ _ ->
            Starter = filename:join(running:directory("secure", Config), "starter"),
            {0, _} = running:run(os:find_executable("gcc"),
                                 ["-o", Starter,
                                  filename:join([running:root(), "acceptance", "suites",
                                                 "secure_mode.c"])]),
            {1, Said} = running:run(Starter, [proplists:get_value(probe, Config), "args"]),
            ?assertMatch({match, _}, re:run(Said, "^probe: this file would run with other rights "
                                               "than its "
                                            "caller, so it does not run: .*the file has "
                                            "no rights of its own: a rule of SELinux or AppArmor "
                                            "causes it\\. .*noatsecure.*\n$"));
        Other -> {skip, "secure_mode.c is for x86-64, not " ++ Other}
    end.

%% `erl -detached' where the user may start no further process.
detached_without_a_process(Config) ->
    as_nobody(Config, fun(File) ->
        {1, Said} = run_as_nobody([os:find_executable("prlimit"), "--nproc=0", "bash", "-c",
                                   "exec -a /.whittle/bin/erl \"$0\" -detached -eval 'halt()'",
                                   File], []),
        ?assertMatch({match, _}, re:run(Said, "^[^ ]+: cannot start the detached node "
                                        "\\(-detached\\): Resource temporarily unavailable\n$"))
    end).

%% Without the rights the same variables have their effect.
lent(Lend, Config) ->
    as_nobody(Config, fun(File) ->
        ?assertEqual({0, <<"\"mine\"\n">>}, run_as_nobody([File, "env", "MINE"], [hd(?HOSTILE)])),
        Lend(File),
        {Code, Said} = run_as_nobody([File, "env", "MINE"], ?HOSTILE),
        {match, [Line]} = re:run(Said, "^.*$", [multiline, {capture, first, binary}]),
        ?assertEqual({1, <<Line/binary, "\n">>}, {Code, Said}),
        ?assertMatch({match, _}, re:run(Line, "^probe: this file is setuid or setgid, or has "
                                        "file capabilities, so it does not run: its "
                                        "environment could run any code with these rights"))
    end).

%% Calls Test with a copy of the program that belongs to root and that no other user can reach.
as_nobody(Config, Test) ->
    Public = public(Config),
    File = filename:join(Public, "probe"),
    case {os:cmd("id -u"), os:find_executable("setpriv")} of
        {"0\n", Setpriv} when is_list(Setpriv) ->
            ok = filelib:ensure_dir(File),
            ok = file:change_mode(Public, 8#755),
            {ok, _} = file:copy(proplists:get_value(probe, Config), File),
            ok = file:change_mode(File, 8#755),
            case run_as_nobody(["/bin/sh", "-c", "grep NoNewPrivs:.1 /proc/self/status"], []) of
                {0, _} -> {skip, "files lend no rights here (no_new_privs)"};
                _ -> Test(File)
            end;
        {"0\n", false} -> {skip, "there is no setpriv"};
        _ -> {skip, "only root can run a file as another user"}
    end.

run_as_nobody(Words, Env) -> run_as_nobody([], Words, Env).

run_as_nobody(Options, Words, Env) ->
    Nobody = integer_to_list(?NOBODY),
    running:run(os:find_executable("setpriv"),
                ["--reuid", Nobody, "--regid", Nobody, "--clear-groups"] ++ Options ++ Words,
                #{env => [{"HOME", "/nonexistent"} | Env]}).

%% Creates a directory for other users, who may not enter a suite's own directory.
public(Config) ->
    filename:join("/tmp", "whittle-start-" ++ os:getpid() ++ "-"
                  ++ filename:basename(proplists:get_value(priv_dir, Config))).

%% Words from the environment

words_that_look_like_flags(Config) ->
    File = cookie_file(Config, "-secret\n"),
    [?assertEqual({Code, <<"probe: ", (list_to_binary(Said))/binary, "\n">>},
                  named(Config, ["cookie"], Env))
     || {Env, Code, Said} <-
            [{[{"RELEASE_NODE", "-node"}], 2, "`-node' cannot be a node's name: it begins with "
              "-, which the VM reads as a flag"},
             {[{"RELEASE_NODE", "a@b@c"}], 2, "a@b@c: is not a node name: use letters, digits, "
              "_ and -; @HOST may follow"},
             {[{"RELEASE_NODE", "a@\x{e9}"}], 2, "a@\303\251: is not a node name: use letters, "
              "digits, _ and -; @HOST may follow"},
             {[{"RELEASE_COOKIE", "-secret"}], 2, "RELEASE_COOKIE: " ++ begins_with_dash()},
             {[{"ERLANG_COOKIE", "-secret"}], 2, "ERLANG_COOKIE: " ++ begins_with_dash()},
             {[{"WHITTLE_COOKIE_FILE", File}], 2,
              "WHITTLE_COOKIE_FILE: " ++ File ++ ": " ++ begins_with_dash()},
             {[{"RELEASE_COOKIE", "a\nb"}], 2,
              "RELEASE_COOKIE: the cookie contains a control character; choose another "
              "cookie"}]].

begins_with_dash() ->
    "a cookie cannot begin with -, because the VM reads such a word as a flag; choose another "
        "cookie".

%% The VM printed crash reports for these bytes. A shell passes them: open_port/2 would encode them.
text_that_is_not_utf8(Config) ->
    Said = "the cookie is not valid UTF-8; write it in UTF-8, or choose another cookie",
    File = cookie_file(Config, <<"a", 255, 254, "\n">>),
    Run = fun(Setting, Env) ->
                  running:run("/bin/sh", ["-c", Setting ++ " exec \"$0\" cookie",
                                          proplists:get_value(probe, Config)],
                              #{env => [{"ERL_EPMD_PORT",
                                         integer_to_list(proplists:get_value(epmd, Config))},
                                        {"RELEASE_NODE", "x@localhost"} | Env]})
          end,
    Bytes = fun(Octal) -> "export RELEASE_COOKIE=\"$(printf '" ++ Octal ++ "')\";" end,
    [?assertEqual({Octal, {2, iolist_to_binary(["probe: RELEASE_COOKIE: ", Said, "\n"])}},
                  {Octal, Run(Bytes(Octal), [])})
     || Octal <- ["\\377\\376", "\\303", "\\355\\240\\200", "\\300\\200"]],
    ?assertEqual({2, iolist_to_binary(["probe: WHITTLE_COOKIE_FILE: ", File, ": ", Said, "\n"])},
                 Run("", [{"WHITTLE_COOKIE_FILE", File}])),
    ?assertEqual({2, <<"probe: the node's name is not valid UTF-8: use letters, digits, _ and -; "
                       "@HOST may follow\n">>},
                 Run("export RELEASE_NODE=\"x@$(printf '\\377')\";", [])),
    ?assertMatch({0, _}, Run(Bytes("\\303\\251"), [])),
    Flag = <<"probe: a flag of the VM is not valid UTF-8: write it in UTF-8 in vm.args, ERL_FLAGS, "
             "or the variable that holds it\n">>,
    [?assertEqual({Setting, {2, Flag}}, {Setting, Run(Setting, [])})
     || Setting <- ["export ERL_FLAGS=\"-probe color $(printf '\\377')\";",
                    "export ERL_ZFLAGS=\"-$(printf '\\377') x\";"]],
    ?assertEqual({1, <<"probe: the name of the current directory is not valid UTF-8: change to "
                       "another directory, and start the program again\n">>},
                 running:run("/bin/sh", ["-c", "D=\"$1/$(printf '\\377')\"; mkdir \"$D\"; "
                                         "cd \"$D\"; exec \"$0\" args",
                                         proplists:get_value(probe, Config),
                                         running:directory("bytes", Config)], #{})).

removed_directory(Config) ->
    Dir = running:directory("removed", Config),
    ?assertEqual({1, <<"probe: the current directory does not exist any more: change to another "
                       "directory, and start the program again\n">>},
                 running:run("/bin/sh", ["-c", "rmdir \"$1\"; exec \"$0\" args",
                                         proplists:get_value(probe, Config), Dir], #{cd => Dir})).

%% A shell of root changes to its home and starts the program as another user.
forbidden_directory(Config) ->
    Top = running:directory("forbidden", Config),
    {ok, _} = file:copy(proplists:get_value(probe, Config), filename:join(Top, "probe")),
    ok = file:change_mode(filename:join(Top, "probe"), 8#755),
    ok = filelib:ensure_path(filename:join(Top, "shut")),
    %% The user may read the directory of the test wherever it lies.
    Script = "mount --bind \"$0\" /mnt && cd /mnt/shut && chmod 0 . && "
        "exec setpriv --reuid 65534 --regid 65534 --clear-groups /mnt/probe args",
    case running:run(os:find_executable("unshare"), ["--mount", "/bin/true"]) of
        {0, _} ->
            ?assertEqual({1, <<"probe: this user may not enter the current directory: change to "
                               "another directory, and start the program again\n">>},
                         running:run(os:find_executable("unshare"), ["--mount", "/bin/sh", "-c",
                                                                   Script, Top]));
        {_, Said} -> {skip, "this user cannot mount: " ++ binary_to_list(Said)}
    end.

%% With less, the kernel ended the program by SIGSEGV. The environment lies on the stack, too.
stack(Config) ->
    Run = fun(Limit, Variable) ->
                  running:run("/bin/sh", ["-c", "ulimit -s " ++ Limit ++ "; exec env -i \"$1\" "
                                          "\"$0\" args", proplists:get_value(probe, Config),
                                          "X=" ++ lists:duplicate(Variable, $x)])
          end,
    [?assertMatch({Limit, {1, <<"probe: the limit of the stack is too low: the start needs 65 kB; "
                                "raise the limit (ulimit -s; systemd: LimitSTACK=)\n">>}},
                  {Limit, Run(Limit, 1)}) || Limit <- ["16", "32", "64"]],
    ?assertMatch({1, <<"probe: the limit of the stack is too low: the start needs 105 kB;",
                       _/binary>>}, Run("64", 41_000)),
    ?assertEqual({0, <<"[\"args\"]\n">>}, Run("66", 1)),
    ?assertEqual({0, <<"[\"args\"]\n">>}, Run("106", 41_000)).

%% A refused start has started no port mapper, and has not spoken of the cookie.
refused_before_the_mapper(Config) ->
    Port = running:free_port(),
    Start = fun(Before, Env) ->
                    running:run("/bin/sh", ["-c", Before ++ "exec \"$0\" args",
                                            proplists:get_value(probe, Config)],
                                #{env => [{"ERL_EPMD_PORT", integer_to_list(Port)},
                                          {"RELEASE_NODE", "x@localhost"} | Env]})
            end,
    ?assertMatch({2, <<"probe: a flag of the VM is not valid UTF-8: ", _/binary>>},
                 Start("export ERL_FLAGS=\"-$(printf '\\377')\"; ", [])),
    ?assertMatch({_, <<"probe: ERL_INETRC", _/binary>>}, Start("", [{"ERL_INETRC", "/none"}])),
    ?assertEqual({error, econnrefused}, gen_tcp:connect("127.0.0.1", Port, [])).

%% No flag makes the VM write a cookie to disk.
cookie_on_the_command_line(Config) ->
    Home = running:directory("home", Config),
    Cookie = fun(Flags) -> named(Config, ["cookie"], [{"ERL_FLAGS", Flags}, {"HOME", Home}]) end,
    ?assertEqual({0, <<"b\n">>}, Cookie("-setcookie a -setcookie b")),
    ?assertEqual({0, <<"b\n">>}, Cookie("-setcookie b -setcookie x@host other")),
    {2, Said} = Cookie("-setcookie -secret"),
    ?assertMatch({match, _}, re:run(Said, "-setcookie: has no cookie after it")),
    ?assertMatch({2, <<"probe: -sname: has no node name after it; add one, or set "
                       "the variable that stands for it\n">>},
                 probe(Config, ["cookie"], [{"ERL_FLAGS", "-sname"}])),
    ?assertMatch({2, <<"probe: -sname: has no node name after it; add one, or set "
                       "the variable that stands for it\n">>},
                 probe(Config, ["cookie"], [{"ERL_FLAGS", "-sname -setcookie b"}])),
    %% RELEASE_NODE replaces -sname with its values, and no other flag.
    ?assertEqual({0, <<"b\n">>}, Cookie("-sname -setcookie b")),
    ?assertEqual({0, <<"b\n">>}, Cookie("-setcookie b -sname x y")),
    ?assertEqual({ok, []}, file:list_dir(Home)).

paths_with_a_dash(Config) ->
    Dir = running:directory("dash", Config),
    ok = file:write_file(filename:join(Dir, "-mine.config"),
                         "[{probe, [{color, \"from a file\"}]}].\n"),
    Run = fun(Words, Env) ->
                  running:run(proplists:get_value(probe, Config), Words, #{env => Env, cd => Dir})
          end,
    ?assertEqual({0, <<"\"from a file\"\n">>},
                 Run(["color"], [{"RELX_CONFIG_PATH", "-mine"}])),
    ?assertEqual({0, <<"{ok,[[\"./-eval\"]]}\n">>}, Run(["flag", "home"], [{"HOME", "-eval"}])).

%% The VM truncated a longer cookie, so it differed from its owner's.
long_cookies(Config) ->
    [begin
         Cookie = lists:duplicate(Length, $c),
         File = cookie_file(Config, Cookie ++ "\n"),
         [?assertEqual(case Length of
                           255 -> {0, list_to_binary(Cookie ++ "\n")};
                           _ -> {2, iolist_to_binary(["probe: ", Source, ": the cookie is longer "
                                                      "than 255 bytes; choose a shorter "
                                                      "one\n"])}
                       end,
                       named(Config, ["cookie"], [{Name, Value}]))
          || {Name, Value, Source} <- [{"RELEASE_COOKIE", Cookie, "RELEASE_COOKIE"},
                                       {"WHITTLE_COOKIE_FILE", File,
                                        "WHITTLE_COOKIE_FILE: " ++ File}]]
     end || Length <- [255, 256, 300]].

cookie_file_of_one_word(Config) ->
    ?assertEqual({0, <<"secret\n">>},
                 named(Config, ["cookie"],
                       [{"WHITTLE_COOKIE_FILE", cookie_file(Config, "\n secret \r\n\n")}])),
    {1, Said} = named(Config, ["cookie"],
                      [{"WHITTLE_COOKIE_FILE", cookie_file(Config, [<<"a">>, 0, <<"b\n">>])}]),
    ?assertMatch({match, _}, re:run(Said, "contains a zero byte")).

%% The VM printed crash reports for such a cookie file. It does not read the file if it has a cookie
%% from elsewhere.
home_cookie_of_another_kind(Config) ->
    Home = running:directory("home", Config),
    File = filename:join(Home, ".erlang.cookie"),
    [begin
         {0, _} = running:run(os:find_executable(Maker), [File]),
         ?assertEqual({1, iolist_to_binary(["probe: ", File, ": ", Why, "\n"])},
                      named(Config, ["cookie"], [{"HOME", Home}])),
         ?assertEqual({0, <<"secret\n">>},
                      named(Config, ["cookie"], [{"HOME", Home}, {"RELEASE_COOKIE", "secret"}])),
         {0, _} = running:run(os:find_executable("rm"), ["-r", File])
     end || {Maker, Why} <- [{"mkfifo", "it is not a regular file"},
                             {"mkdir", "Is a directory"}]].

%% As stock OTP reads it, but with one line in place of its crash reports.
home_cookie_that_is_wrong(Config) ->
    Home = running:directory("home", Config),
    File = filename:join(Home, ".erlang.cookie"),
    Try = fun(Bytes, Mode) ->
                  _ = file:delete(File),
                  ok = file:write_file(File, Bytes),
                  ok = file:change_mode(File, Mode),
                  named(Config, ["cookie"], [{"HOME", Home}])
          end,
    Said = fun(Why) -> {1, iolist_to_binary(["probe: ", File, ": ", Why, "\n"])} end,
    Long = Said("the cookie is longer than 255 bytes; choose a shorter one"),
    [?assertEqual(Expected, Try(Bytes, Mode))
     || {Bytes, Mode, Expected} <-
            [{lists:duplicate(255, $c), 8#600,
              {0, list_to_binary(lists:duplicate(255, $c) ++ "\n")}},
             {"-secret\r\n \n", 8#400, {0, <<"'-secret'\n">>}},
             {lists:duplicate(256, $c), 8#600, Long}, {lists:duplicate(300, $c), 8#600, Long},
             {lists:duplicate(5000, $c), 8#600, Said("it is larger than 4096 bytes")},
             {"", 8#600, Said("the cookie file is empty; write the cookie into it")},
             {"\n", 8#600, Said("the cookie file is empty; write the cookie into it")},
             {"one\ntwo", 8#600, Said("the cookie has a character that the VM does not accept; "
                                      "write one line of printable ASCII")},
             {"secret", 8#640, Said("other users can read or write the cookie file; run "
                                    "chmod 600 on it")}]],
    ok = file:delete(File),
    ok = file:make_symlink("/proc/kmsg", File),
    {1, OneLine} = named(Config, ["cookie"], [{"HOME", Home}]),
    ?assertMatch({match, _}, re:run(OneLine, ["^probe: ", File, ": .*\n$"])),
    ok = file:delete(File).

%% A stock node with the same environment says which.
cookie_beside_the_configuration(Config) ->
    Dir = running:directory("xdg", Config),
    [Home, Given] = [filename:join(Dir, Name) || Name <- ["home", "given"]],
    Env = [{"HOME", Home}, {"XDG_CONFIG_HOME", Given}],
    Cookie = fun(File, Word) ->
                     ok = filelib:ensure_dir(File),
                     ok = file:write_file(File, Word),
                     ok = file:change_mode(File, 8#600)
             end,
    Both = fun(Variables) ->
                   Epmd = integer_to_list(proplists:get_value(epmd, Config)),
                   {0, Stock} = running:run(
                                  filename:join([running:otp_root(), "bin", "erl"]),
                                  ["-noshell", "-sname", "stock", "-eval",
                                   "io:format(\"~p~n\", [erlang:get_cookie()]), halt()."],
                                  #{env => [{"ERL_EPMD_PORT", Epmd} | Variables]}),
                   ?assertEqual({0, Stock}, named(Config, ["cookie"], Variables)),
                   Stock
           end,
    Cookie(filename:join([Home, ".config", "erlang", ".erlang.cookie"]), "default"),
    ?assertEqual(<<"default\n">>, Both([{"HOME", Home}])),
    Cookie(filename:join([Given, "erlang", ".erlang.cookie"]), "given"),
    ?assertEqual(<<"given\n">>, Both(Env)),
    Cookie(filename:join(Home, ".erlang.cookie"), "home"),
    ?assertEqual(<<"home\n">>, Both(Env)).

generated_cookie_is_said(Config) ->
    {0, Said} = named(Config, ["cookie"], []),
    ?assertMatch({match, _}, re:run(Said, "^probe: no cookie is set, so this run generated a "
                                    "random one: other nodes and --whittle-ping cannot connect. "
                                    "Set RELEASE_COOKIE or WHITTLE_COOKIE_FILE to let them.\n")),
    ?assertEqual({0, <<"secret\n">>}, named(Config, ["cookie"], [{"RELEASE_COOKIE", "secret"}])).

asked_without_a_cookie(Config) ->
    [begin
         {1, Said} = named(Config, [Flag | Words], []),
         ?assertMatch({match, _},
                      re:run(Said, ["^probe: ", Flag, ": no cookie is set, so no connection to the "
                                    "node is possible\\. Start the node with RELEASE_COOKIE or "
                                    "WHITTLE_COOKIE_FILE, and set the same variable here\\. "
                                    ".*\n$"]))
     end || [Flag | Words] <- [["--whittle-ping"], ["--whittle-stop"],
                               ["--whittle-eval", "node()"]]].

%% Files that the environment names

files_without_an_end(Config) ->
    Dir = running:directory("files", Config),
    Fifo = filename:join(Dir, "fifo.config"),
    {0, _} = running:run(os:find_executable("mkfifo"), [Fifo]),
    Zero = filename:join(Dir, "zero.config"),
    ok = file:make_symlink("/dev/zero", Zero),
    %% Files of the kernel tell a size of 0. The first has no end, and the second waits.
    Pages = filename:join(Dir, "pages.config"),
    ok = file:make_symlink("/proc/self/pagemap", Pages),
    Kernel = filename:join(Dir, "kernel.config"),
    ok = file:make_symlink("/proc/kmsg", Kernel),
    Log = [{Kernel, "Resource temporarily unavailable|Operation not permitted|Permission denied"
                    "|No such file or directory|it is larger than [0-9]+ bytes"}
           || os:cmd("id -u") =:= "0\n"],
    Sparse = filename:join(Dir, "sparse.config"),
    {ok, Made} = file:open(Sparse, [write]),
    {ok, _} = file:position(Made, 1 bsl 40),
    ok = file:truncate(Made),
    ok = file:close(Made),
    ok = file:change_mode(Sparse, 8#600),
    [begin
         {Code, Said} = named(Config, ["args"],
                              [{Name, lists:append(string:replace(Value, "FILE", File))}
                               | cookie_beside(Name)]),
         ?assertMatch({1, {match, _}}, {Code, re:run(Said, ["^probe: .*", File, ": (", Why,
                                                           ")\n$"])})
     end || {Name, Value} <- [{"VMARGS_PATH", "FILE"}, {"RELEASE_VM_ARGS", "FILE"},
                              {"RELX_CONFIG_PATH", "FILE"}, {"RELEASE_SYS_CONFIG", "FILE"},
                              {"WHITTLE_COOKIE_FILE", "FILE"}, {"ERL_INETRC", "FILE"},
                              {"ERL_FLAGS", "-args_file FILE"}, {"ERL_FLAGS", "-config FILE"},
                              {"ERL_FLAGS", "-ssl_dist_optfile FILE"},
                              {"ERL_FLAGS", "-kernel inetrc '\"FILE\"'"},
                              {"ERL_FLAGS", "-kernel net_ticktime 9 inetrc \"'FILE'\""}],
            {File, Why} <- [{Fifo, "it is not a regular file"},
                            {Zero, "it is not a regular file"},
                            {Sparse, "it is larger than [0-9]+ bytes"},
                            {Pages, "it is larger than [0-9]+ bytes"}] ++ Log],
    %% A further node of the program
    {0, Node} = probe(Config, ["spawn", "erl -noshell -config " ++ Fifo], []),
    ?assertMatch({match, _}, re:run(Node, ["^erl: .*", Fifo, ": it is not a regular file\n"])).

cookie_beside("WHITTLE_COOKIE_FILE") -> [];
cookie_beside(_) -> [{"RELEASE_COOKIE", "crumb"}].

%% The VM would print two reports and start.
missing_resolver_file(Config) ->
    File = filename:join(running:directory("files", Config), "missing.inetrc"),
    [?assertEqual({1, iolist_to_binary(["probe: ", What, " names ", File, ": No such file or "
                                        "directory\n"])},
                  probe(Config, ["args"], [{Name, Value}]))
     || {What, Name, Value} <- [{"ERL_INETRC", "ERL_INETRC", File},
                                {"-kernel inetrc", "ERL_FLAGS",
                                 "-kernel inetrc '\"" ++ File ++ "\"'"}]],
    %% An empty variable is as good as none. In open_port/2 only a shell can set it.
    ?assertEqual({0, <<"[\"args\"]\n">>},
                 running:run("/bin/sh", ["-c", "ERL_INETRC= exec \"$0\" args",
                                         proplists:get_value(probe, Config)])).

%% The VM would print a report for each module that it looks for.
paths_that_are_too_long(Config) ->
    Name = lists:duplicate(255, $n),
    Long = [Name ++ "n", lists:append(lists:duplicate(15, Name ++ "/"))],
    [?assertEqual({2, iolist_to_binary(["probe: ", What, ": contains a path that is too long; "
                                        "write a shorter one\n"])},
                  probe(Config, ["args"], [{Variable, Before ++ Path}]))
     || {What, Variable, Before} <- [{"ERL_LIBS", "ERL_LIBS", ""}, {"ERL_LIBS", "ERL_LIBS", "/:/"},
                                     {"-pa", "ERL_FLAGS", "-pa "}, {"-pz", "ERL_FLAGS", "-pz / "}],
        Path <- Long],
    ?assertEqual({0, <<"[\"args\"]\n">>},
                 probe(Config, ["args"], [{"ERL_LIBS", Name ++ "::/" ++ Name},
                                          {"ERL_FLAGS", "-pa " ++ Name}])).

%% The VM would only print that it cannot write to erl_child_setup.
emulator_that_is_none(Config) ->
    Plain = filename:join(running:directory("files", Config), "plain"),
    ok = file:write_file(Plain, "no program"),
    [?assertEqual({2, iolist_to_binary(["probe: WHITTLE_EMULATOR is ", Value, ", which is not the "
                                        "absolute path of an emulator, such as "
                                        "/usr/bin/qemu-arm\n"])},
                  probe(Config, [Word], [{"WHITTLE_EMULATOR", Value}]))
     || Value <- ["-", "qemu-arm", "/", "/dev/null", "/nonexistent", Plain],
        Word <- ["args", "--whittle-ping"]],
    ?assertEqual({0, <<"[\"args\"]\n">>},
                 running:run("/bin/sh", ["-c", "WHITTLE_EMULATOR= exec \"$0\" args",
                                         proplists:get_value(probe, Config)])).

%% The kernel

%% The flags that only print work without these calls.
forbidden_system_calls(Config) ->
    Starter = running:forbidden_call(running:directory("forbidden", Config)),
    [begin
         ?assertEqual({1, iolist_to_binary(["probe: the system call ", Call, " fails: the program "
                                            "needs Linux 3.19 or newer; allow this call if a "
                                            "filter (seccomp) forbids it\n"])},
                      running:run(Starter, [How, proplists:get_value(probe, Config), "args"])),
         ?assertMatch({0, _}, running:run(Starter, [How, proplists:get_value(probe, Config),
                                                    "--whittle-info"]))
     end || {How, Call} <- [{"memfd_create", "memfd_create"}, {"execveat", "execveat"},
                            {"execveat-denied", "execveat"}]].

%% With 1 a memfd is executable if its creator asks for that, and with 2 none is.
memory_that_is_not_executable(Config) ->
    Run = fun(Setting) ->
                  running:with_memory_files(Setting, proplists:get_value(probe, Config), ["args"],
                                            #{env => named_memory()})
          end,
    case Run("0") of
        none -> {skip, "needs root, and Linux 6.3 (vm.memfd_noexec)"};
        Works ->
            ?assertEqual({0, <<"[\"args\"]\n">>}, Works),
            ?assertEqual(Works, Run("1")),
            without_mapper(Run("2"))
    end.

%% An older kernel knows no flag about execution. One from 6.3 to 6.5 with the setting 2 makes only
%% memory files that nobody can run.
memory_on_other_kernels(Config) ->
    Starter = running:forbidden_call(running:directory("memory_kernels", Config)),
    Run = fun(How, Words, Env) ->
                  running:run(Starter, [How, proplists:get_value(probe, Config) | Words],
                              #{env => Env})
          end,
    Works = {0, <<"[\"args\"]\n">>},
    ?assertEqual(Works, Run("memfd_create-exec", ["args"], [])),
    ?assertEqual(Works, Run("memfd_create-unsealed", ["args"], [])),
    %% epmd outlives this run.
    Mapped = [{"ERL_EPMD_PORT", integer_to_list(proplists:get_value(epmd, Config))}
              | named_memory()],
    ?assertEqual(Works, Run("memfd_create-exec", ["args"], Mapped)),
    without_mapper(Run("memfd_create-unsealed", ["args"], named_memory())).

named_memory() ->
    [{"RELEASE_NODE", "start_memory@localhost"}, {"RELEASE_COOKIE", "crumb"},
     {"ERL_EPMD_PORT", integer_to_list(running:free_port())}].

without_mapper({1, Said}) ->
    ?assertNotEqual(nomatch,
                    string:prefix(Said, "probe: cannot run /.whittle/bin/epmd: the kernel runs no "
                                  "program from memory; set vm.memfd_noexec to 0 or 1 (sysctl)\n"
                                  "probe: cannot start epmd, so other nodes cannot find this one: "
                                  "Permission denied\n")).

mapper_port(Config) ->
    Ports = ["abc", "0", "65536", "4369x", "99999999999999999999"],
    Given = [{"ERL_EPMD_PORT", "ERL_EPMD_PORT", Port, Port} || Port <- ["-1" | Ports]]
        ++ [{Flag, "ERL_FLAGS", Flag ++ " " ++ Port, Port}
            || Flag <- ["-epmd_port", "-erl_epmd_port"], Port <- Ports],
    [?assertEqual({Setting, 2, iolist_to_binary(["probe: ", Name, " is ", Port, ", which is not a "
                                                 "port (1 to 65535)\n"])},
                  erlang:insert_element(1, named(Config, [Word], [{Variable, Setting}]),
                                        Setting))
     || {Name, Variable, Setting, Port} <- Given, Word <- ["args", "--whittle-ping"]],
    ?assertEqual({2, <<"probe: -epmd_port: has no port after it; write a number from 1 to "
                       "65535\n">>},
                 named(Config, ["args"], [{"ERL_FLAGS", "-epmd_port"}])).

mapper_address(Config) ->
    [?assertEqual({2, iolist_to_binary(["probe: ERL_EPMD_ADDRESS is ", Address, ", which is not a "
                                        "list of IP addresses with commas between them; epmd "
                                        "would not start\n"])},
                  named(Config, ["args"], [{"ERL_EPMD_ADDRESS", Address}]))
     || Address <- ["bogus", "127.0.0.1,bogus", "127.0.0.1;127.0.0.2", "127.0.0"]],
    [?assertEqual({0, <<"[\"args\"]\n">>},
                  named(Config, ["args"], [{"RELEASE_COOKIE", "crumb"},
                                           {"ERL_EPMD_ADDRESS", Address}]))
     || Address <- ["127.0.0.1, ::1", ",127.0.0.1,", " "]].

%% The line names a limit with which it works. Between 3 and 32 the start went on without end, or
%% crashed.
descriptors(Config) ->
    Run = fun(Limit) ->
                  running:run("/bin/sh", ["-c", "ulimit -n " ++ Limit ++ "; exec \"$0\" args",
                                          proplists:get_value(probe, Config)])
          end,
    Works = {0, <<"[\"args\"]\n">>},
    [begin
         {1, Said} = Run(Limit),
         {match, [From, To]} = re:run(Said, "^probe: too few file descriptors: [0-9]+ are free, "
                                      "and the start needs 32; raise the limit \\(ulimit -n\\) "
                                      "from ([0-9]+) to ([0-9]+)\n$",
                                      [{capture, all_but_first, list}]),
         ?assertEqual(Limit, From),
         ?assertEqual(Works, Run(To)),
         ?assertMatch({1, _}, Run(integer_to_list(list_to_integer(To) - 1)))
     end || Limit <- ["0", "3", "4", "8", "16", "24", "32", "34"]],
    %% A descriptor above the limit is open: the raised limit includes it.
    {1, Above} = Run("64; exec 9>&1; ulimit -n 8"),
    ?assertMatch({match, _}, re:run(Above, "from 8 to 36\n$")),
    ?assertEqual(Works, Run("64; exec 9>&1; ulimit -n 36")),
    ?assertEqual(Works, Run("64")).

%% The end of the start tells the cause, as with erl.
kernel_that_cannot_start(Config) ->
    {1, Said} = probe(Config, ["args"], [{"ERL_FLAGS", "-kernel logger [unknown]"}]),
    ?assertMatch({match, _}, re:run(Said, "Kernel pid terminated .*bad_config,{kernel,"
                                    "\\[unknown\\]}")),
    ?assertEqual(nomatch, re:run(Said, "del_path")).

%% Whoever can write to the directory must not add modules.
no_module_of_the_directory(Config) ->
    Dir = running:directory("modules", Config),
    {ok, stray, Beam} = compile:forms([{attribute, 1, module, stray}]),
    ok = file:write_file(filename:join(Dir, "stray.beam"), Beam),
    ?assertMatch({0, <<"{0,<<\"non_existing\">>}\n">>},
                 running:run(proplists:get_value(probe, Config),
                             ["spawn", "erl -noshell -eval 'io:write(code:which(stray)), halt().'"],
                             #{cd => Dir})).

%% The variable is for the program's own children.
descriptor_of_nobody(Config) ->
    [?assertEqual({Number, {0, <<"[\"args\"]\n">>}},
                  {Number, probe(Config, ["args"], [{"WHITTLE_SELF_FD", Number}])})
     || Number <- ["0", "abc", "-1", "99999"]].

%% The port mapper

%% The kernel's own table shows the addresses on which the port listens.
mapper_listens_where_the_node_is(Config) ->
    [begin
         Port = running:free_port(),
         {0, _} = probe(Config, ["args"],
                        [{"RELEASE_NODE", "start@" ++ Host},
                         {"RELEASE_DISTRIBUTION", case Host of
                                                      "localhost" -> "sname";
                                                      _ -> "name"
                                                  end},
                         {"RELEASE_COOKIE", "crumb"},
                         {"ERL_EPMD_PORT", integer_to_list(Port)} | Env]),
         try
             ?assertEqual({Host, Env, lists:sort(Addresses)},
                          {Host, Env, lists:sort(listening(Port)) -- ["::", "::1"]})
         after
             running:end_epmd(Port)
         end
     end || {Host, Env, Addresses} <-
                [{"127.0.0.1", [], ["127.0.0.1"]},
                 {"localhost", [], ["127.0.0.1"]},
                 {"127.0.0.1", [{"ERL_EPMD_ADDRESS", " , "}], ["127.0.0.1"]},
                 {"127.0.0.7", [], ["127.0.0.1", "127.0.0.7"]},
                 {"192.0.2.1", [], ["0.0.0.0"]},
                 {"192.0.2.1", [{"ERL_EPMD_ADDRESS", "127.0.0.1"}], ["127.0.0.1"]},
                 {"127.0.0.1", [{"ERL_EPMD_ADDRESS", "0.0.0.0"}], ["0.0.0.0"]}]].

%% The launcher removes the empty variable, so the program does not have it (`false'). With it, epmd
%% would listen on a random port that no node knows. The node has a port of its own and starts no
%% epmd.
empty_mapper_port(Config) ->
    ?assertEqual({0, <<"false\n">>},
                 running:run("/bin/sh", ["-c", "ERL_EPMD_PORT= exec \"$0\" env ERL_EPMD_PORT",
                                         proplists:get_value(probe, Config)],
                             #{env => [{"RELEASE_NODE", "start_suite"}, {"RELEASE_COOKIE", "crumb"},
                                       {"ERL_DIST_PORT", integer_to_list(running:free_port())}]})).

%% docs/launcher.md names this setting.
node_listens_where_told(Config) ->
    [begin
         Port = integer_to_list(running:free_port()),
         Flags = "-kernel inet_dist_listen_min " ++ Port ++ " inet_dist_listen_max " ++ Port
             ++ More,
         Node = running:start(proplists:get_value(probe, Config), ["wait"],
                              #{env => [{"RELEASE_NODE", "start_told"}, {"RELEASE_COOKIE", "crumb"},
                                        {"ERL_EPMD_PORT",
                                         integer_to_list(proplists:get_value(epmd, Config))},
                                        {"ERL_FLAGS", Flags}]}),
         <<"ready ", _/binary>> = running:line(Node),
         ?assertEqual({More, [Address]}, {More, listening(list_to_integer(Port))}),
         running:signal(Node, "TERM"),
         ?assertMatch({0, _}, running:ended(Node))
     end || {More, Address} <- [{"", "0.0.0.0"},
                                {" inet_dist_use_interface {127,0,0,1}", "127.0.0.1"}]].

listening(Port) ->
    [inet:ntoa(Address)
     || File <- ["/proc/net/tcp", "/proc/net/tcp6"], {ok, Table} <- [file:read_file(File)],
        Line <- binary:split(Table, <<"\n">>, [global]),
        [_, Local, _, <<"0A">> | _] <- [binary:split(Line, <<" ">>, [global, trim_all])],
        [Figures, Number] <- [binary:split(Local, <<":">>)],
        binary_to_integer(Number, 16) =:= Port,
        Address <- [address(binary:decode_hex(Figures))]].

%% The kernel prints addresses in 32-bit words of this machine's byte order.
address(Bytes) ->
    Network = << <<Word:32>> || <<Word:32/native>> <= Bytes >>,
    case Network of
        <<_:4/binary>> -> list_to_tuple([Byte || <<Byte>> <= Network]);
        _ -> list_to_tuple([Part || <<Part:16>> <= Network])
    end.

%% Shared functions

%% Starts a node with a name, but without a cookie and without a home that has one.
named(Config, Words, Env) ->
    probe(Config, Words, [{"RELEASE_NODE", "start_suite"},
                          {"HOME", running:directory("home without a cookie", Config)},
                          {"ERL_EPMD_PORT", integer_to_list(proplists:get_value(epmd, Config))}
                          | Env]).

probe(Config, Words, Env) ->
    running:run(proplists:get_value(probe, Config), Words, #{env => Env}).

cookie_file(Config, Bytes) ->
    File = filename:join(running:directory("cookies", Config), "cookie"),
    _ = file:delete(File),
    ok = file:write_file(File, Bytes),
    ok = file:change_mode(File, 8#600),
    File.
