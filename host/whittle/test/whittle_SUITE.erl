%% Tests the command by whole transcripts: the arguments, all output, and the exit code.
%% stand_in/whittle_runtime replaces the application that builds VMs.
-module(whittle_SUITE).

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2,
         end_per_testcase/2]).
-export([stand_in/1, no_words/1, help/1, help_of_command/1, version/1, wrong_words/1,
         words_in_bytes/1,
         completion/1, completion_zsh/1, near_words/1, near/1, errors_json/1,
         targets/1, targets_json/1, build_hello/1, build_json/1,
         build_dir/1, same_bytes/1, keep_include/1, keep_attributes/1, bad_inputs/1,
         bad_outputs/1, files_of_others/1, edited_dir/1, beside_a_source/1, input_as_output/1,
         broken_runtime/1,
         progress_in_pipes/1, output/1, progress_on_terminal/1, interrupt/1,
         interrupt_in_script/1, interrupt_compiler/1, hangup/1, hangup_ignored/1, hangup_unread/1,
         signals_to_the_script/1, terminate_at_start/1, other_erl/1,
         terminate_blocked/1,
         full_disk/1, file_limit/1, few_descriptors/1, size/1,
         size_json/1, bad_files/1, run/1, run_emulated/1, no_emulator/1, run_keeps_arguments/1,
         run_low_memory/1, run_card/1, trial_notes/1,
         run_options/1,
         clean/1, clean_beside_build/1, flags/1, examples/1, not_built/1, not_built_offers/1,
         node_without_cookie_file/1,
         not_regular/1, too_large/1, unread_archive/1,
         variables_for_erlang/1, variables_of_programs/1, unknown_level/1,
         more_atoms/1, libraries/1,
         names_from_outside/1, modules_beside/1, entered/1, strange_words/1,
         written/1]).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

all() ->
    [stand_in, no_words, help, help_of_command, version, wrong_words, words_in_bytes, completion,
     completion_zsh, near_words, near, errors_json, targets, targets_json,
     build_hello, build_json, build_dir, same_bytes, keep_include,
     keep_attributes, bad_inputs, bad_outputs, files_of_others, edited_dir, beside_a_source,
     input_as_output, broken_runtime, progress_in_pipes, output, progress_on_terminal, interrupt,
     interrupt_in_script, interrupt_compiler, hangup, hangup_ignored, hangup_unread,
     signals_to_the_script, terminate_at_start, other_erl, terminate_blocked, full_disk, file_limit,
     few_descriptors,
     size, size_json,
     bad_files, not_regular, too_large, unread_archive, run, run_emulated, no_emulator,
     run_keeps_arguments, run_low_memory, run_card, trial_notes, run_options,
     clean, clean_beside_build, flags, examples, not_built, not_built_offers,
     node_without_cookie_file, variables_for_erlang, variables_of_programs, unknown_level,
     more_atoms, libraries,
     names_from_outside, modules_beside, entered, strange_words,
     written].

init_per_suite(Config) ->
    Dir = ?config(priv_dir, Config),
    Here = filename:dirname(code:which(?MODULE)),
    {ok, whittle_runtime} =
        compile:file(filename:join([Here, "stand_in", "whittle_runtime.erl"]),
                     [{outdir, Dir}, report]),
    Vm = pack_samples:probe("musl-gcc -static", Dir),
    Hello = filename:join(Dir, "hello"),
    made:app(Hello, hello, [{vsn, "0.1.0"}, {mod, {hello, []}}],
             [{hello, "-module(hello). -export([a/0]). a() -> b."}]),
    made:file(filename:join(Hello, "include/hello.hrl"), "-define(A, 1).\n"),
    Lib = filename:dirname(filename:dirname(filename:dirname(code:which(whittle_command_line)))),
    [{lib, Lib}, {whittle, script(Here)}, {vm, Vm}, {hello, Hello}, {stand_in, Dir} | Config].

%% Finds the script at the top of the tree that contains this suite.
script(Dir) ->
    Script = filename:join(Dir, "whittle"),
    case filelib:is_regular(Script) of
        true -> Script;
        false when Dir =/= "/" -> script(filename:dirname(Dir))
    end.

end_per_suite(_) -> ok.

init_per_testcase(Case, Config) -> made:dir(Case, Config).

end_per_testcase(_, _) -> ok.

%% The application that these tests replace has the same functions.
stand_in(Config) ->
    Beam = filename:join(?config(stand_in, Config), "whittle_runtime"),
    {ok, {_, [{exports, Replaced}]}} = beam_lib:chunks(Beam, [exports]),
    ?assertEqual(lists:sort(whittle_runtime:module_info(exports)), lists:sort(Replaced)).

%% Arguments

no_words(Config) ->
    ?assertEqual({2, "", "whittle: no command given; `whittle help' lists the commands\n"},
                 whittle(Config, [])).

help(Config) ->
    Text = "Whittle builds one small executable from an Erlang or Elixir application.\n\n"
           "usage: whittle COMMAND ...\n\n"
           "  build       build one executable, or an image for a board, from an application, a"
           " release or an escript\n"
           "  size        show the size of each part of an executable, an image or a card\n"
           "  why         explain why an executable contains a function (M, M:F or M:F/A) or not\n"
           "  features    list the features (parts of OTP) that `build --feature' turns on or off\n"
           "  targets     list the machines that you can build for\n"
           "  boards      list the boards that you can make an image for\n"
           "  run         run an executable, in an emulator if it is for another machine; or boot"
           " an image or a card of a board in an emulator. The options are for an image or a card,"
           " and stand before or after its name\n"
           "  write       write a card to a disk, as /dev/sdX, and read it back. Everything on the"
           " disk is lost. A disk that is mounted or otherwise in use is an error\n"
           "  trace       run a command and record the functions that its Erlang VMs call, for"
           " `build --evidence'; it exits with the code of CMD, or with 1 if only the "
           "recording failed\n"
           "  measure     run a study, which measures the cost of build options and VM settings "
           "(docs/measure.md of Whittle's source)\n"
           "  tune        find VM settings that save memory, by running the program; --explain "
           "shows where its memory is\n"
           "  load        put the load of many simulated users on a server\n"
           "  clean       list the contents of the VM cache; with --yes, remove them\n"
           "  completion  print a script that completes words in bash or zsh: source <(whittle"
           " completion bash)\n"
           "  help        print this text; `whittle help COMMAND' describes a command\n"
           "  version     print the version of Whittle\n\n"
           "Exit code: 0 done, 1 the work failed, 2 usage error.\n",
    ?assertEqual({0, Text, ""}, whittle(Config, ["help"])),
    ?assertEqual({0, Text, ""}, whittle(Config, ["--help"])).

help_of_command(Config) ->
    Text = "usage: whittle build [OPTION...] PATH\n\n"
           "build one executable, or an image for a board, from an application, a release or an"
           " escript\n\n"
           "  -o, --out OUT         the path of the output (default: the name of the application"
           " or release, in this directory)\n"
           "  --target TARGET       the machine to build for; `whittle targets' describes each"
           " (x86_64, board; default: x86_64)\n"
           "  --board BOARD         make a bootable image for this board; `whittle boards'"
           " describes each\n"
           "  --env NAME=VALUE      with --board: set a variable of the program's environment; you"
           " can repeat this option\n"
           "  --otp VSN             the OTP release that the executable contains (25, 17;"
           " default: 25)\n"
           "  --vm FLAVOR           size: the small interpreter; speed: the JIT; program: the small"
           " interpreter without the parts that the program cannot reach (BIFs, NIFs, drivers,"
           " built-in modules), with --shake functions --missing crash (size, speed, program;"
           " default: size)\n"
           "  --format FORMAT       exe: one file; dir: a directory with the files unpacked; with"
           " --board, image: a bootable file; card: the bytes of a card with two slots for images;"
           " slot: an image for a slot of a card (exe, dir, image, slot, card; default: exe, or"
           " image with --board)\n"
           "  --keep-include        keep include files (default: only if the output contains the"
           " compiler)\n"
           "  --keep-attributes     keep the attributes of modules (default: only if a module"
           " reads them)\n"
           "  --shake UNIT          tree shaking: find the modules or functions that the"
           " program cannot reach; --missing sets what happens to them (none, modules, functions; "
           "default: none)\n"
           "  --missing WAY         load: keep unreachable code in the file, and load it when"
           " something calls it (default); crash: remove it, so that a call raises undef (load, "
           "crash)\n"
           "  --feature +X,-Y       features (parts of OTP) to turn on (+X) and off (-Y); `whittle"
           " features' lists them\n"
           "  --keep FILE           a file of entry points, one M, M:F or M:F/A on each line; %"
           " begins a comment\n"
           "  --evidence FILE       a recording of `whittle trace'; --seen sets how the build"
           " uses it\n"
           "  --seen WAY            how to use the recording; refuse: fail if the build would "
           "remove a recorded function (default with --missing crash); keep: keep the recorded "
           "functions (default with --missing load); only: keep only the recorded "
           "functions in memory, and load any other function when something calls it (refuse, "
           "keep, only)\n"
           "  --remote NAMES        the functions that other nodes call, separated by commas; or"
           " none\n"
           "  --data NAMES          the functions that the program calls by names from data"
           " (binary_to_term, file:consult), separated by commas; or none\n"
           "  --atoms NAMES         the functions that the program calls by names from text"
           " (list_to_atom), separated by commas; or none\n"
           "  --code NAMES          the functions that plugins and upgrades call (code that the"
           " program loads while it runs: code:load_binary), separated by commas; or none\n"
           "  --native FILES        link in the NIFs and drivers that these files describe"
           " (docs/natives.md of Whittle's source); commas separate the files\n"
           "  --settings FILE       the VM settings that `whittle tune' found\n"
           "  --app NAME            pack this application too, with the applications that it"
           " needs; you can repeat this option\n"
           "  --no-outside-links    refuse symbolic links that point outside the input\n"
           "  --ca-certs FILE       pack the CA certificates in this PEM file, for machines without"
           " /etc/ssl\n"
           "  --json                print the result as JSON\n",
    ?assertEqual({0, Text, ""}, whittle(Config, ["help", "build"])),
    ?assertEqual({0, Text, ""}, whittle(Config, ["build", "--help"])),
    {0, Run, ""} = whittle(Config, ["run", "-h"]),
    ?assertNotEqual(nomatch, string:prefix(Run, "usage: whittle run [OPTION...] OUT"
                                                " [ARGUMENT...]\n\nrun an executable, in ")),
    {0, Tune, ""} = whittle(Config, ["help", "tune"]),
    ?assertNotEqual(nomatch, string:find(lists:join($\s, string:lexemes(Tune, " \n")),
                                         "at most N seconds (default: 10; with --workload, 600 "
                                         "for --explain, else a twentieth of --time)")),
    %% A line for each form
    {0, Load, ""} = whittle(Config, ["help", "load"]),
    ?assertMatch("usage: whittle load [OPTION...] FORM\n\n"
                 "FORM is one of these:\n"
                 "  SCENARIO              run a scenario; exit code 1 if a threshold is missed or "
                 "all users fail\n"
                 "  check SCENARIO        only tell which limits of this machine a run would hit\n"
                 "  report DIR            write the tables and the page of a run again\n"
                 "  compare DIR DIR       compare two runs\n"
                 "  account               measure what a connection costs at each end\n\n"
                 "put the load of many simulated users on a server\n\n"
                 "  -o, --out DIR         " ++ _, Load),
    {0, Measure, ""} = whittle(Config, ["help", "measure"]),
    [?assertMatch({Form, {match, _}},
                  {Form, re:run(Measure, "^  " ++ Form ++ " +[a-z]", [multiline])})
     || Form <- ["STUDY", "otp", "list", "report DIR", "compare DIR DIR"]],
    %% Each option of a command with forms counts in one.
    [?assertEqual({Name, lists:sort([Option || #{name := Option} <- Options])},
                  {Name, lists:usort(lists:append([Counting || #{options := Counting} <- Forms]))})
     || #{name := Name, options := Options, forms := Forms} <- whittle_command_line:table()].

version(Config) ->
    ?assertEqual({0, "whittle 0.1.0\n", ""}, whittle(Config, ["version"])).

%% An argument from the shell may have any bytes. With --json, the error is an object too.
words_in_bytes(Config) ->
    Told = fun(Words, Options) ->
                   made:ended(open_port({spawn_executable, ?config(whittle, Config)},
                                        [{args, Words},
                                         {env, [{"WHITTLE_LIB", ?config(lib, Config)}]},
                                         exit_status, binary | Options]))
           end,
    Text = <<"argument 2 is not UTF-8: write it in UTF-8, or rename the file">>,
    Line = <<"whittle: ", Text/binary, "\n">>,
    [?assertEqual({2, Line}, Told(["build", <<255>> | More], [stderr_to_stdout]))
     || More <- [[], [<<255>>]]],
    ?assertEqual({2, <<"{\"error\":{\"code\":\"usage\",\"details\":[],\"exit_code\":2,"
                       "\"reason\":\"usage\",\"text\":\"", Text/binary, "\"}}\n">>},
                 Told(["build", <<"/no/", 255>>, "--json"], [])).

wrong_words(Config) ->
    [?assertEqual({2, "", "whittle: " ++ Line ++ "\n"}, whittle(Config, Words))
     || {Words, Line} <-
            [{["nope"], "there is no command nope; `whittle help' lists the commands"},
             {["help", "nope"], "there is no command nope; `whittle help' lists the commands"},
             {["help", "build", "x"], "unexpected argument `x'; see `whittle help'"},
             {["version", "x"], "unexpected argument `x'; see `whittle help'"},
             {["completion", "tcsh"], "there is no completion for tcsh; use bash or zsh"},
             {["build"], "`whittle build' needs PATH; see `whittle help build'"},
             {["build", "a", "b"], "unexpected argument `b'; see `whittle help build'"},
             {["build", "a", "--nope"],
              "there is no option --nope; see `whittle help build'"},
             {["build", "a", "--otp"], "--otp needs a value; see `whittle help build'"},
             {["build", "a", "--otp", "30"],
              "--otp cannot be `30' (Whittle supports no release newer than OTP 25); use one of"
              " 25, 17; see `whittle help build'"},
             {["build", "--otp", "16", "."],
              "--otp cannot be `16' (Whittle supports no release older than OTP 17); use one of"
              " 25, 17; see `whittle help build'"},
             {["build", "--otp", "24", "."],
              "--otp cannot be `24' (Whittle does not support this release); use one of 25, 17;"
              " see `whittle help build'"},
             {["build", "--otp", "", "."], "--otp needs a value; see `whittle help build'"},
             {["build", "-o", "", "."], "-o needs a value; see `whittle help build'"},
             {["build", "--out=", "."], "--out needs a value; see `whittle help build'"},
             {["build", ".", "-o"], "-o needs a value; see `whittle help build'"},
             {["build", ".", "-o", "a", "-o", "b"],
              "-o is given twice: give it once; see `whittle help build'"},
             {[""], "the name of the command is empty; `whittle help' lists the commands"},
             {["help", ""], "the name of the command is empty; `whittle help' lists the commands"},
             {["tune", ""], "`whittle tune' needs PATH, but this argument is empty; see"
                            " `whittle help tune'"},
             {["build", "a", "--target=moon"],
              "--target cannot be `moon'; use one of x86_64, board; see `whittle help build'"},
             {["build", "a", "--vm", "fast"],
              "--vm cannot be `fast'; use one of size, speed, program; see `whittle help "
              "build'"},
             {["build", ".", "--vm", "speed"],
              "target x86_64 has no flavor speed; use one of size"},
             {["build", ".", "--vm", "program"],
              "--vm program needs a plan that removes code: add --shake functions --missing crash"},
             {["build", ".", "--vm", "program", "--shake", "functions"],
              "--vm program needs a plan that removes code: add --shake functions --missing crash"},
             {["build", ".", "--vm", "program", "--shake", "functions", "--missing", "load"],
              "--vm program needs a plan that removes code: add --shake functions --missing crash"},
             {["build", "a", "--format", "tar"],
              "--format cannot be `tar'; use one of exe, dir, image, slot, card; see `whittle help "
              "build'"},
             {["build", ".", "--keep", "f"], "--keep has no effect without --shake: add --shake "
                                             "functions"},
             {["build", ".", "--missing", "load"],
              "--missing has no effect without --shake: add --shake functions"},
             {["build", ".", "--shake", "functions", "--feature", "-nope"],
              "--feature: there is no feature `nope'; `whittle features' lists them"},
             {["build", ".", "--shake", "functions", "--feature", "+grafemes"],
              "--feature: there is no feature `grafemes' (did you mean graphemes?); `whittle "
              "features' lists them"},
             {["build", ".", "--shake", "functions", "--feature", "pg"],
              "--feature takes +X and -X, separated by commas, not `pg'; `whittle features' "
              "lists them"},
             {["features", "--vm"],
              "--vm needs a program: name an application, a release or an escript"},
             {["features", "."], "`.' has no effect without --vm"},
             {["features", "--remote", "none"], "--remote has no effect without --vm"},
             {["features", "--otp", "25"], "--otp has no effect without --vm"},
             {["features", ".", "--vm", "--feature", "+nope"],
              "--feature: there is no feature `nope'; `whittle features' lists them"},
             {["build", ".", "--shake", "functions", "--remote", "a b"],
              "--remote: `a b' is not of the form M, M:F or M:F/A"},
             {["build", ".", "--shake", "functions", "--remote", "none,lists"],
              "--remote has `none' and other names: give one or the other"},
             {["build", ".", "--shake", "functions", "--feature", "+pg,-eval,-pg"],
              "--feature has +pg and -pg: remove one of them"},
             {["build", ".", "--keep", "one", "-o", "out", "--keep=other"],
              "--keep is given twice: give it once; see `whittle help build'"},
             {["build", ".", "--app", "mnesia", "--app", "../x"],
              "--app: the application's name `../x' contains a /"},
             {["build", ".", "--app", "x", "--app="],
              "--app needs a value; see `whittle help build'"},
             {["why", "out"], "`whittle why' needs NAME; see `whittle help why'"},
             {["why", "out", "1"], "`1' is not of the form M, M:F or M:F/A"},
             {["size", "--by", "x", "o"],
              "--by cannot be `x'; use one of part, reason; see `whittle help size'"},
             {["targets", "all"], "unexpected argument `all'; see `whittle help targets'"},
             {["clean", "--older-than", "30"],
              "--older-than cannot be `30'; give a number of hours, days or weeks, for example"
              " 12h, 30d or 4w; see `whittle help clean'"},
             {["clean", "--older-than", "-1d"],
              "--older-than cannot be `-1d'; give a number of hours, days or weeks, for example"
              " 12h, 30d or 4w; see `whittle help clean'"},
             {["clean", "--kind", "vms"],
              "--kind cannot be `vms' (did you mean vm?); use one of vm, part, otp, source, work,"
              " log; see `whittle help clean'"},
             {["size", ""], "`whittle size' needs OUT, but this argument is empty; see"
                            " `whittle help size'"},
             {["run", ""], "`whittle run' needs OUT, but this argument is empty; see"
                           " `whittle help run'"},
             {["why", "out", ""], "`whittle why' needs NAME, but this argument is empty;"
                                  " see `whittle help why'"},
             {["size"], "`whittle size' needs OUT; see `whittle help size'"},
             {["run"], "`whittle run' needs OUT; see `whittle help run'"},
             {["run", "--", "out", "x"],
              "remove -- before `out': `whittle run OUT [ARGUMENT...]'; see `whittle help run'"},
             {["why", "out", "m:f/999"],
              "`m:f/999' names an arity above 255, and no function has more arguments: correct the "
              "arity"},
             {["load", "chek", "s.load"],
              "`whittle load' takes one SCENARIO; `s.load' is a second one (did you mean check?)"},
             %% The errors of arguments come before those of options.
             {["load", "chek", "s.load", "--trial"],
              "`whittle load' takes one SCENARIO; `s.load' is a second one (did you mean check?)"},
             {["load", "report", "-o", "foo", "dir"],
              "-o has no effect in `whittle load report DIR': it is for `whittle load SCENARIO';"
              " see `whittle help load'"},
             {["load", "--seed", "3", "report", "dir"],
              "--seed has no effect in `whittle load report DIR': it is for `whittle load"
              " SCENARIO'; see `whittle help load'"},
             {["load", "check", "--out=x", "s.load"],
              "--out has no effect in `whittle load check SCENARIO': it is for `whittle load"
              " SCENARIO'; see `whittle help load'"},
             {["load", "check", "--hosts", "a", "s.load"],
              "--hosts has no effect in `whittle load check SCENARIO': it is for `whittle load"
              " SCENARIO'; see `whittle help load'"},
             {["load", "--trial", "s.load"],
              "--trial has no effect in `whittle load SCENARIO': it is for `whittle load check"
              " SCENARIO'; see `whittle help load'"},
             {["load", "s.load", "--connections", "100"],
              "--connections has no effect in `whittle load SCENARIO': it is for `whittle load"
              " account'; see `whittle help load'"},
             {["load", "compare", "a", "b", "--allow-remote"],
              "--allow-remote has no effect in `whittle load compare DIR DIR': it is for `whittle"
              " load SCENARIO' and `whittle load check SCENARIO'; see `whittle help load'"},
             {["load", "account", "--agents", "2"],
              "--agents has no effect in `whittle load account': it is for `whittle load SCENARIO'"
              " and `whittle load check SCENARIO'; see `whittle help load'"},
             {["measure", "report", "dir", "--blocks", "2"],
              "--blocks has no effect in `whittle measure report DIR': it is for `whittle measure"
              " STUDY' and `whittle measure otp'; see `whittle help measure'"},
             {["measure", "start", "--source", "x"],
              "--source has no effect in `whittle measure STUDY': it is for `whittle measure otp';"
              " see `whittle help measure'"},
             {["measure", "list", "--png"],
              "--png has no effect in `whittle measure list': it is for `whittle measure STUDY' and"
              " `whittle measure otp' and `whittle measure report DIR'; see `whittle help"
              " measure'"},
             {["run", "--memory", "24M"], "`whittle run' needs OUT; see `whittle help run'"},
             {["run", "--memory", "24M", "--", "out"],
              "remove -- before `out': `whittle run OUT [ARGUMENT...]'; see `whittle help run'"},
             {["run", "--memory"], "--memory needs a value; see `whittle help run'"},
             {["tune", "a", "--ram", "24"], "--ram is 24 bytes: give a size such as 24M"},
             {["tune", "a", "--ram", "1023K"],
              "--ram is 1,047,552 bytes: give a size such as 24M"},
             {["run", "--memry", "out"], "there is no option --memry (did you mean --memory?); see"
                                         " `whittle help run'"},
             {["measure", "reprt", "dir"],
              "unexpected argument `dir' (did you mean report?); see `whittle help measure'"},
             {["tune", "out", "--blocks", "0"],
              "--blocks cannot be `0'; give a whole number above 0"},
             %% A word of the user cannot break the line.
             {["why", "out", "a\nb"], "`a\\x{A}b' is not of the form M, M:F or M:F/A"},
             {["no\npe"],
              "there is no command no\\x{A}pe; `whittle help' lists the commands"}]],
    %% A blank follows an option of any length.
    {0, Tune, ""} = whittle(Config, ["help", "tune"]),
    ?assertMatch({match, _}, re:run(Tune, "--max-slowdown PERCENT how much slower")).

%% bash itself completes. The last word is the one that the user has begun.
completion(Config) ->
    {0, Script, ""} = whittle(Config, ["completion", "bash"]),
    File = filename:join(?config(dir, Config), "completion"),
    ok = file:write_file(File, Script),
    Complete = fun(Words) ->
                       Line = [". '", File, "'; COMP_WORDS=(whittle ", Words, ");",
                               " COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _whittle;",
                               " echo ${COMPREPLY[@]}\n"],
                       ok = file:write_file(File ++ ".try", Line),
                       string:trim(os:cmd("bash '" ++ File ++ ".try' 2>&1"))
               end,
    [?assertEqual({Words, Offered}, {Words, Complete(Words)})
     || {Words, Offered} <-
            [{"\"\"", "help version build size why features targets boards run write trace measure "
              "tune load clean completion"},
             {"ru", "run"},
             {"help s", "size"},
             {"help hel", "help"},
             {"completion \"\"", "bash zsh"},
             {"load \"\"", "check report compare account"},
             {"load --se", "--seed"},            % an option may stand before the form
             {"measure --re", "--resume"},
             {"build app --target = x", "x86_64"},        % as bash divides --target=x
             {"build app --target =", "x86_64 board"},
             {"build app --feature +gr", "+graphemes"},
             {"build app --feature -gr", "-graphemes"},
             {"build app --feature -shell,+gr", "-shell,+graphemes"},
             {"build app --feature = -shell,+control,-gr", "-shell,+control,-graphemes"},
             {"build app --target board,x", ""},
             {"build \"\"", ""},                 % file names
             {"build app --t", "--target"},
             {"build app -", "--out -o --target --board --env --otp --vm --format --keep-include"
              " --keep-attributes --shake --missing --feature --keep --evidence --seen --remote"
              " --data --atoms --code --native --settings --app --no-outside-links --ca-certs"
              " --json"},
             {"build --otp \"\"", "25 17"},
             {"build app --target x", "x86_64"},
             {"build -o b", ""},
             {"size --", "--by --json"},
             {"build app --board q", "qemu-aarch64 qemu-arm"},
             {"run out --", "--memory --serial --forward --monitor --no-reboot --keep"}]].

%% An interactive zsh completes the typed words, each with a tab, and runs the line.
completion_zsh(Config) ->
    {0, Script, ""} = whittle(Config, ["completion", "zsh"]),
    ?assertNotEqual(nomatch, string:find(Script, "'--json:print the result as JSON'")),
    Dir = ?config(dir, Config),
    File = filename:join(Dir, "completion"),
    ok = file:write_file(File, Script),
    ok = file:write_file(filename:join(Dir, "named_file"), ""),
    Completed = [{"bu", "build"}, {"help si", "help size"}, {"help hel", "help help"},
                 {"completion z", "completion zsh"}, {"build --otp 2", "build --otp 25"},
                 {"build app --target=x", "build app --target=x86_64"},
                 {"build app --target x", "build app --target x86_64"},
                 {"build app --feature +gr", "build app --feature +graphemes"},
                 {"build app --feature -gr", "build app --feature -graphemes"},
                 {"build app --feature -shell,+gr", "build app --feature -shell,+graphemes"},
                 {"build app --feature=-shell,+gr", "build app --feature=-shell,+graphemes"},
                 {"build app --native named", "build app --native named_file"},
                 {"build app --native a,named", "build app --native a,named_file"},
                 {"build app --no-out", "build app --no-outside-links"},
                 {"build named", "build named_file"}, {"build -o named", "build -o named_file"}],
    %% The completion system is active in one run and inactive in the other.
    [begin
         ok = file:write_file(filename:join(Dir, ".zshrc"),
                              ["PS1=\nunsetopt beep\n", First, "\n. '", File, "'\n"
                               "whittle() { print -r -- \"<$*>\" }\n"]),
         Driver = ["zmodload zsh/zpty\ncd '", Dir, "'\n"
                   "zpty shell \"ZDOTDIR='", Dir, "' TERM=dumb zsh -d -i\"\n",
                   [["zpty -w -n shell $'whittle ", Typed, "\\t\\n'\n"
                     "zpty -r shell out '*<*>*' && print -r -- ${${out##*<}%%>*}\n"]
                    || {Typed, _} <- Completed],
                   "zpty -d shell\n"],
         ok = file:write_file(File ++ ".try", Driver),
         Ran = made:ended(open_port({spawn_executable, os:find_executable("zsh")},
                                    [{args, ["-f", File ++ ".try"]}, exit_status, binary,
                                     stderr_to_stdout])),
         ?assertEqual({0, iolist_to_binary([[Line, $\n] || {_, Line} <- Completed])}, Ran)
     end || First <- ["autoload -Uz compinit && compinit -i -D", ""]],
    ok.

near_words(Config) ->
    [?assertEqual({2, "", "whittle: " ++ Line ++ "\n"}, whittle(Config, Words))
     || {Words, Line} <-
            [{["biuld"], "there is no command biuld (did you mean build?); `whittle help' lists"
                         " the commands"},
             {["help", "trgaets"], "there is no command trgaets (did you mean targets?);"
                                   " `whittle help' lists the commands"},
             {["build", "a", "--traget", "x86_64"],
              "there is no option --traget (did you mean --target?); see `whittle help build'"},
             {["build", "a", "--tar=x86_64"],
              "there is no option --tar=x86_64 (did you mean --target?); see `whittle help"
              " build'"},
             {["build", "a", "--target", "amd64"],
              "--target cannot be `amd64' (did you mean x86_64?); use one of x86_64, board; see"
              " `whittle help build'"},
             {["build", "a", "--shake", "function"],
              "--shake cannot be `function' (did you mean functions?); use one of none, modules,"
              " functions; see `whittle help build'"},
             {["completion", "zhs"],
              "there is no completion for zhs (did you mean zsh?); use bash or zsh"}]],
    ok.

near(_) ->
    Targets = ["aarch64", "armv6", "armv7", "mips", "riscv64", "x86_64"],
    [?assertEqual({Given, Near}, {Given, whittle_suggestion:nearest(Given, Known)})
     || {Given, Known, Near} <-
            [{"qemu-arm64", ["qemu-arm", "qemu-aarch64"], {ok, "qemu-aarch64"}},
             {"qemu-armhf", ["qemu-arm", "qemu-aarch64"], {ok, "qemu-arm"}},
             {"arm64", Targets, {ok, "aarch64"}}, {"x86-64", Targets, {ok, "x86_64"}},
             {"AMD64", Targets, {ok, "x86_64"}}, {"armhf", Targets, {ok, "armv7"}},
             {"armel", Targets, {ok, "armv6"}}, {"riscv", Targets, {ok, "riscv64"}},
             {"aarch46", Targets, {ok, "aarch64"}}, {"sparc", Targets, none},
             {"amd64", ["board"], none},
             {"ab", ["ba"], {ok, "ba"}}, {"", ["a"], {ok, "a"}},
             {"abcdef", ["badcef"], {ok, "badcef"}},
             {"abcdefghi", ["badcfeghi"], {ok, "badcfeghi"}},
             {"abcdef", ["fedcba"], none}, {"size", ["size", "seize"], {ok, "size"}},
             {"comp", ["run", "completion"], {ok, "completion"}}, {"x", [], none},
             {"ipv6", ["inet", "inet6"], {ok, "inet6"}},
             {"jit", ["size", "speed"], {ok, "speed"}}]],
    ok.

%% An error of each kind is printed as data on stdout. The line for people stays on stderr.
errors_json(Config) ->
    Code = "import json\n"
           "d = json.load(open('out'))\n"
           "e = d.pop('error')\n"
           "assert d == {}\n"
           "assert sorted(e) == ['code', 'details', 'exit_code', 'reason', 'text'], e\n"
           "print(e['code'], e['reason'], e['exit_code'], e['details'], e['text'][:30], sep='|')\n",
    Hello = ?config(hello, Config),
    NoNames = made:file(filename:join(?config(dir, Config), "no_names"), "1 2 3\n"),
    Script = made:file(filename:join(?config(dir, Config), "script"),
                       "#!/usr/bin/env escript\nmain(_) -> ok.\n"),
    [begin
         {Exit, Out, Err} = whittle(Config, Words, Env),
         Lines = string:split(string:trim(Err), "\n", all),
         ?assertMatch("whittle: " ++ _, lists:last(Lines)),
         ?assertEqual({Words, Data ++ "|" ++ string:slice(lists:last(Lines), 9, 30) ++ "\n"},
                      {Words, python(Config, Out, Code)}),
         ?assertEqual({Words, integer_to_list(Exit)},
                      {Words, lists:nth(3, string:split(Data, "|", all))})
     end || {Words, Env, Data} <-
                [{["biuld", "--json"], "A=", "usage|usage|2|[]"},
                 {["build", "--json"], "A=", "usage|usage|2|[]"},
                 {["build", Hello, "--json", "--target", "moon"], "A=", "usage|usage|2|[]"},
                 {["build", "nowhere", "--json"], "A=", "no_such_path|work|1|[]"},
                 {["build", Hello, "--json"], "STAND_IN=broken",
                  "step_failed|work|1|['cc: no such thing', 'make: failed']"},
                 {["size", "--json", "nowhere"], "A=", "unreadable|work|1|[]"},
                 {["why", "--json", "/bin/sh", "lists"], "A=", "elf_no_pack|work|1|[]"},
                 {["build", Hello, "--json", "--shake", "functions", "--keep", "/dev/null/x"], "A=",
                  "unreadable|work|1|[]"},
                 {["build", Hello, "--json", "--shake", "functions", "--keep", NoNames], "A=",
                  "not_names|work|1|[]"},
                 {["build", Hello, "--json", "--shake", "functions", "--evidence", NoNames], "A=",
                  "bad_evidence|work|1|[]"},
                 {["build", Script, "--json", "-o", Script], "A=", "input_is_output|work|1|[]"},
                 {["why", "--json", "x", "1"], "A=", "usage|usage|2|[]"},
                 {["features", "--json", "x"], "A=", "usage|usage|2|[]"},
                 {["features", "--vm", "--json", "x"], "A=", "no_such_path|work|1|[]"},
                 {["clean", "--json", "--kind", "x"], "A=", "usage|usage|2|[]"},
                 {["targets", "--json", "x"], "A=", "usage|usage|2|[]"}]],
    %% The option belongs to the other program.
    ?assertMatch({1, "", _}, whittle(Config, ["run", "nowhere", "--json"])),
    %% A text that is none stops no printer.
    ?assertMatch(#{error := #{text := <<"[\"no \",arm]">>, details := [<<"7">>]}},
                 whittle_failure:json(#{kind => work, code => failed, text => ["no ", arm],
                                        details => [7]})).

targets(Config) ->
    ?assertEqual({0, "x86_64  size         64-bit PCs  any\n"
                     "board   size, speed  a board     small ones\n\nboard: it has no clock\n",
                  ""},
                 whittle(Config, ["targets"])).

targets_json(Config) ->
    ?assertEqual(
       {0, "{\"otp\":[\"25\",\"17\"],\"targets\":["
           "{\"cpu\":\"any\",\"emulator\":[],\"endian\":\"little\",\"flavors\":[\"size\"],"
           "\"float\":\"hard\",\"name\":\"x86_64\",\"notes\":[],"
           "\"summary\":\"64-bit PCs\",\"word_size\":64},"
           "{\"cpu\":\"small ones\","
           "\"emulator\":[\"env\",\"EMULATED=it's so\",\"/usr/bin/env\"],"
           "\"endian\":\"big\",\"flavors\":[\"size\",\"speed\"],"
           "\"float\":\"soft\",\"name\":\"board\","
           "\"notes\":[\"it has no clock\"],"
           "\"summary\":\"a board\",\"word_size\":32}]}\n", ""},
       whittle(Config, ["targets", "--json"])).

%% Build

build_hello(Config) ->
    {Code, Out, Err} = whittle(Config, ["build", ?config(hello, Config)]),
    ?assertEqual({0, ""}, {Code, Err}),
    ?assertEqual(["hello"], files(Config)),
    ?assertEqual(
       "hello 0.1.0 for x86_64, OTP 25.0, flavor size\n\n"
       "bytes\n"
       "stock release N unstripped code, and the stock VM: N\n"
       "code: read N the input, and the applications that it needs\n"
       "code: applications N only the needed applications, and two that Whittle adds\n"
       "code: modules N without modules that no .app file lists and nothing mentions\n"
       "code: files N without include files, unless the compiler is packed\n"
       "code: tables N tables of constants are data instead of code\n"
       "code: strip N without debug data and other parts that the program does not need\n"
       "code: literals N literals inflated, so that the pack compresses them better\n"
       "code: stored N compressed, with licenses and SBOM\n"
       "vm N\n"
       "hello N N % of the stock release\n",
       lists:flatten(numberless(Out))),
    ?assertMatch("pack of " ++ _, os:cmd("cd '" ++ ?config(dir, Config) ++ "' && ./hello")).

build_json(Config) ->
    Code = "import hashlib, json, os\n"
           "d = json.load(open('out'))\n"
           "assert d['sha256'] == hashlib.sha256(open('there', 'rb').read()).hexdigest()\n"
           "assert d['size'] == os.path.getsize('there') == d['vm'] + d['code']\n"
           "assert d['stock']['size'] == d['stock']['vm'] + d['stock']['code']\n"
           "assert [p['pass'] for p in d['passes']][:2] == ['read', 'applications']\n"
           "for p in d['passes']:\n"
           "    assert p['bytes'] == sum(p['applications'].values())\n"
           "needed = d['passes'][1]['applications']\n"
           "theirs = sum(needed[a] for a in needed if not a.startswith('whittle_'))\n"
           "assert d['stock']['code'] == theirs > d['passes'][-1]['bytes']\n"
           "print(d['name'], d['version'], d['otp'], d['out'], sorted(p['applications']))\n",
    {0, Out, ""} = whittle(Config, ["build", "-o", "there", "--json", ?config(hello, Config)]),
    ?assertEqual("hello 0.1.0 25.0 there "
                 "['hello', 'kernel', 'stdlib', 'whittle_control', 'whittle_start']\n",
                 python(Config, Out, Code)).

build_dir(Config) ->
    {0, _, ""} = whittle(Config, ["build", "--format", "dir", ?config(hello, Config)]),
    Out = filename:join(?config(dir, Config), "hello"),
    {ok, Names} = file:list_dir(Out),
    ?assertEqual(["hello", "tree", "vm"], lists:sort(Names)),
    %% A build may replace its own older output.
    {0, _, ""} = whittle(Config, ["build", "--format", "dir", ?config(hello, Config)]),
    ?assertEqual(["hello"], files(Config)),
    %% The start script would have the name of another part.
    Taken = made:app(filename:join(?config(dir, Config), "taken"), vm, [{vsn, "1"}], []),
    refused(Config, ["build", "--format", "dir", "-o", "out", Taken],
            "the start script cannot have the name `vm', because every output directory needs that "
            "name for another part: rename the application or release, or build with --format exe").

same_bytes(Config) ->
    Sums = [begin
                {0, _, ""} = whittle(Config, ["build", ?config(hello, Config)]),
                {ok, Bytes} = file:read_file(filename:join(?config(dir, Config), "hello")),
                erlang:md5(Bytes)
            end || _ <- [1, 2]],
    ?assertMatch([Sum, Sum], Sums).

keep_include(Config) ->
    Has = fun(Options) ->
                  {0, _, ""} = whittle(Config, ["build", ?config(hello, Config)] ++ Options),
                  Out = filename:join(?config(dir, Config), "hello"),
                  whittle_pack:read_file(Out, <<"lib/hello-0.1.0/include/hello.hrl">>)
          end,
    ?assertEqual({ok, none}, Has([])),
    ?assertEqual({ok, <<"-define(A, 1).\n">>}, Has(["--keep-include"])).

%% A program needs this option if it builds the atom at run time.
keep_attributes(Config) ->
    Chunks = fun(Options) ->
                     {0, Out, ""} = whittle(Config, ["build", ?config(hello, Config)] ++ Options),
                     {ok, Beam} = whittle_pack:read_file(
                                    filename:join(?config(dir, Config), "hello"),
                                    <<"lib/hello-0.1.0/ebin/hello.beam">>),
                     {ok, hello, Found} = beam_lib:all_chunks(Beam),
                     {lists:keymember("Attr", 1, Found),
                      string:find(Out, "note: the modules keep their attributes, because of "
                                       "--keep-attributes\n")
                      =/= nomatch}
             end,
    ?assertEqual({false, false}, Chunks([])),
    ?assertEqual({true, true}, Chunks(["--keep-attributes"])).

%% Each error is one line, exits with 1, and leaves no file.
bad_inputs(Config) ->
    Dir = ?config(dir, Config),
    ok = file:make_dir(filename:join(Dir, "empty")),
    ok = file:write_file(filename:join(Dir, "text"), "not an escript\n"),
    App = fun(Name, Properties) ->
                  made:app(filename:join(Dir, atom_to_list(Name)), Name, Properties, [])
          end,
    App(lonely, [{applications, [kernel, stdlib, nobody]}]),
    Foreign = App(foreign, [{modules, [foreign]}]),
    made:file(filename:join(Foreign, "ebin/foreign.beam"), "this is not a BEAM file"),
    Twice = App(twice, [{modules, [lists]}]),
    {ok, Beam} = file:read_file(code:which(lists)),
    made:file(filename:join(Twice, "ebin/lists.beam"), Beam),
    made:file(filename:join(App(native, []), "priv/native.so"), made:so()),
    Before = files(Config),
    [begin
         {Code, Out, Err} = whittle(Config, ["build", "-o", "out", "--otp", Otp, Path]),
         ct:pal("~ts: ~ts", [Path, Err]),
         ?assertEqual({Path, 1, "", one_line, true},
                      {Path, Code, Out, lines(Err), string:find(Err, Named) =/= nomatch}),
         ?assertEqual(Before, files(Config))
     end || {Otp, Path, Named} <-
                %% There is no source of OTP 17. The build reports the first error that it finds.
                [{"17", "nowhere", "nowhere"}, {"17", "empty", "empty"}, {"25", "text", "text"},
                 {"25", "lonely", "nobody"}, {"25", "foreign", "foreign.beam"},
                 {"25", "twice", "lists"}, {"25", "native", "native.so"},
                 %% The check finds missing applications before the OTP is built.
                 {"17", "lonely", "nobody"},
                 {"17", "native", "source of Erlang/OTP 17 (apt: there is no network)"}]],
    ok.

bad_outputs(Config) ->
    Dir = ?config(dir, Config),
    ok = file:make_dir(filename:join(Dir, "hello")),
    ok = file:write_file(filename:join(Dir, "hello/letter"), "mine"),
    %% Root may write below /proc, but the file does not exist. Other users may not write there.
    {error, Reason} = file:write_file("/proc/out", ""),
    No = file:format_error(Reason),
    Hello = ?config(hello, Config),
    Long = lists:duplicate(255, $a),
    [?assertEqual({1, "", "whittle: " ++ Line ++ "\n"}, whittle(Config, ["build", Hello | Words]))
     || {Words, Line} <-
            [{[], "hello is a directory: name a file with -o; only `whittle build "
                  "--format dir' writes a directory"},
             {["--format", "dir"], "hello exists, but Whittle did not create it: remove it, or "
                                   "name another output with -o"},
             {["-o", "hello/letter"], "hello/letter exists, but Whittle did not create it: remove "
                                      "it, or name another output with -o"},
             {["--otp", "17", "-o", "none/out"],
              "none/out cannot be written, because the directory none does not exist: create it, "
              "or name another output with -o"},
             %% The check does not wait for the build of the VM.
             {["--otp", "17", "-o", Long ++ "x"],
              Long ++ "x cannot be written (file name too long): name another output with -o"},
             {["--otp", "17", "-o", Long, "--shake", "functions"],
              Long ++ ".plan cannot be written (file name too long): name another output with -o"},
             {["-o", "/proc/out"], "/proc/out cannot be written (" ++ No ++ "): "
                                   "name another output with -o"},
             {["-o", "out", "--ca-certs", "."],
              ". holds no certificate in PEM form: name a file of certificates"},
             {["-o", "out", "--ca-certs", "none.pem"],
              "none.pem cannot be read (no such file or directory): check the name and its "
              "permissions"}]],
    ?assertEqual(["hello"], files(Config)),
    %% The longest name leaves no room for the name of the unfinished file.
    ?assertMatch({0, _, ""}, whittle(Config, ["build", Hello, "-o", Long])),
    ?assertEqual([Long, "hello"], files(Config)).

%% A command that writes a file refuses to replace one of another kind, before it does any work.
files_of_others(Config) ->
    Dir = ?config(dir, Config),
    Files = ["letter", "new.trace"],
    [ok = file:write_file(filename:join(Dir, File), "mine") || File <- Files],
    Program = filename:join(Dir, "program"),
    ok = file:write_file(Program, "#!/bin/sh\ntouch ran\n"),
    ok = file:change_mode(Program, 8#755),
    [?assertEqual({Words, {1, "", "whittle: " ++ File ++ " exists, but Whittle did not create it: "
                                  "remove it, or name another output with -o\n"}},
                  {Words, whittle(Config, Words)})
     || {File, Words} <-
            [{"letter", ["trace", "-o", "letter", "--", "./program"]},
             {"letter", ["tune", "./program", "-o", "letter"]},
             {"new.trace", ["tune", "./program", "-o", "new", "--record"]},
             {"letter", ["build", ?config(hello, Config), "-o", "letter"]}]],
    ?assertEqual(["letter", "new.trace", "program"], files(Config)),
    [?assertEqual({ok, <<"mine">>}, file:read_file(filename:join(Dir, File))) || File <- Files].

%% The next build does not remove what somebody wrote into an output directory.
edited_dir(Config) ->
    Hello = ?config(hello, Config),
    Build = ["build", "--format", "dir", Hello, "-o", "out"],
    {0, _, ""} = whittle(Config, Build),
    In = fun(Name) -> filename:join([?config(dir, Config), "out", Name]) end,
    ok = file:write_file(In("tree/mine"), "mine"),
    {ok, Info} = file:read_file(In("tree/etc/info.txt")),
    ok = file:write_file(In("tree/etc/info.txt"), ["more\n", Info]),
    Now = ": save what you need, and remove out, or name another output with -o\n",
    ?assertEqual({1, "", "whittle: out holds tree/etc/info.txt, which has changed since Whittle "
                         "wrote it, and another new or changed file" ++ Now},
                 whittle(Config, ["build", "--otp", "17" | tl(Build)])),
    ok = file:write_file(In("tree/etc/info.txt"), Info),
    ?assertEqual({1, "", "whittle: out holds tree/mine, which Whittle did not write" ++ Now},
                 whittle(Config, Build)),
    ok = file:delete(In("tree/mine")),
    ok = file:delete(In("tree/etc/sums")),
    ?assertEqual({1, "", "whittle: out has no list of the files that Whittle wrote "
                         "(tree/etc/sums), so a build could remove files of yours" ++ Now},
                 whittle(Config, Build)).

%% erlc strips the name of its working directory from the beginning of file names.
beside_a_source(Config) ->
    Dir = ?config(dir, Config),
    Source = Dir ++ "_more",
    made:file(filename:join(Source, "src/more.app.src"),
              "{application, more, [{vsn, \"1\"}, {applications, [kernel, stdlib]}]}."),
    made:file(filename:join(Source, "src/more.erl"), "-module(more).\n"),
    ?assertMatch({0, _, ""}, whittle(Config, ["build", Source])),
    ?assertEqual(["more"], files(Config)).

%% The build never overwrites its input, whatever name the output has.
input_as_output(Config) ->
    Tool = filename:join(?config(dir, Config), "tool"),
    Main = made:beam("-module(tool). -export([main/1]). main(_) -> ok."),
    ok = escript:create(Tool, [shebang, {beam, Main}]),
    {ok, Bytes} = file:read_file(Tool),
    [?assertEqual({1, "", "whittle: " ++ Out
                          ++ " is the input, a part of it or a directory above it, and would be "
                             "overwritten: name another output with -o\n"},
                  whittle(Config, ["build", "tool" | Words]))
     || {Words, Out} <- [{[], "tool"}, {["-o", "./tool"], "./tool"}]],
    ?assertEqual({ok, Bytes}, file:read_file(Tool)).

broken_runtime(Config) ->
    %% The last output of the compiler stands above the line with the next step.
    ?assertEqual({1, "", "cc: no such thing\nmake: failed\n"
                         "whittle: the build failed in the step configure (exit code 2); "
                         "read the log /the/log\n"},
                 whittle(Config, ["build", ?config(hello, Config)], "STAND_IN=broken")),
    ?assertEqual([], files(Config)).

%% Progress

%% Each step appears once, however many events it sends.
progress_in_pipes(Config) ->
    {1, "", "VM for x86_64: configure (1 of 3)\ncc: no such thing\n" ++ _} =
        raw(Config, ["build", ?config(hello, Config)], "STAND_IN=broken").

%% The cases are a full disk, a closed output, a reader that has ended, and a file that others also
%% write to.
output(Config) ->
    To = fun(Rest) -> to_end(sh(Config, [command(Config, ["version"], "A="), Rest])) end,
    ?assertEqual({1, "whittle: cannot write the result to standard output (no space left on "
                     "device): free space there, or write it to another file\n"}, To(" 2>&1 "
                                                                                     ">/dev/full")),
    Closed = "whittle: standard output is closed: give the command one, as in `>/dev/null'\n",
    ?assertEqual({1, Closed}, To(" 2>&1 >&-")),
    ?assertEqual({1, ""}, To(" >&- 2>&-")),
    ?assertEqual({0, ""}, To(" | true")),
    File = filename:join(?config(priv_dir, Config), "shared.txt"),
    Quoted = [" '", File, "'"],
    {0, ""} = to_end(sh(Config, ["{ echo before; ", command(Config, ["version"], "A="),
                                 "; echo after; } >", Quoted])),
    ?assertMatch({ok, <<"before\nwhittle ", _:5/binary, "\nafter\n">>}, file:read_file(File)).

progress_on_terminal(Config) ->
    Port = on_terminal(Config, ["build", ?config(hello, Config)], "STAND_IN=broken"),
    {1, Shown} = to_end(Port),
    ?assertEqual("\rreading\e[K\rVM for x86_64: configure (1 of 3), 7 %\e[K"
                 "\rVM for x86_64: configure (1 of 3), 8 %\e[K\r\e[K"
                 "cc: no such thing\r\nmake: failed\r\n"
                 "whittle: the build failed in the step configure (exit code 2); "
                 "read the log /the/log\r\n", Shown).

%% Ctrl-C at a terminal stops the build of a runtime.
interrupt(Config) ->
    Port = on_terminal(Config, ["build", ?config(hello, Config)], "STAND_IN=slow"),
    [] = made:expect(Port, "compile \\(2 of 3\\), 50 %"),
    true = port_command(Port, [3]),
    {Code, Rest} = to_end(Port),
    ?assertEqual(130, Code),
    ?assertNotEqual(nomatch,
                    string:find(Rest, "whittle: stopped; it left no unfinished files\r\n")),
    ?assertEqual([], files(Config)).

%% A shell goes on with its script after Ctrl-C unless SIGINT has ended the command.
interrupt_in_script(Config) ->
    Script = made:file(filename:join(?config(dir, Config), "script"),
                       unicode:characters_to_binary(
                         [command(Config, ["build", ?config(hello, Config)], "STAND_IN=slow"),
                          "\necho goes on\n"])),
    Port = started_on_terminal(Config, ["bash '", Script, "'"]),
    [] = made:expect(Port, "compile \\(2 of 3\\), 50 %"),
    true = port_command(Port, [3]),
    {130, Rest} = to_end(Port),
    ?assertEqual(nomatch, string:find(Rest, "goes on")).

%% Ctrl-C during compilation ends the compiler too and removes its directory.
interrupt_compiler(Config) ->
    {Words, Env, Alive} = endless_compiler(Config),
    Port = on_terminal(Config, Words, Env),
    {ok, [_]} = compiling(Alive, Config),
    true = port_command(Port, [3]),
    ?assertMatch({130, _}, to_end(Port)),
    ?assertEqual({ok, []}, file:list_dir(filename:join(?config(dir, Config), "tmp"))),
    %% No process holds the pipe any more.
    receive {Alive, {exit_status, 0}} -> ok end.

%% When a terminal closes, the kernel ends its shell with SIGHUP, and then sends SIGHUP to the
%% script and to its VM. A subshell writes the exit code.
hangup(Config) ->
    Dir = ?config(dir, Config),
    {Words, Env, Alive} = endless_compiler(Config),
    Code = filename:join(Dir, "code"),
    "" = os:cmd("mkfifo '" ++ Code ++ "'"),
    Ended = open_port({spawn_executable, os:find_executable("cat")},
                      [{args, [Code]}, exit_status]),
    Port = started_on_terminal(Config, ["(trap : HUP; exec 3>'", Code, "'; ",
                                        command(Config, Words, Env), " 2>'", Dir, "/said'; "
                                        "echo $? >&3); echo ended"]),
    {ok, [_]} = compiling(Alive, Config),
    {os_pid, Terminal} = erlang:port_info(Port, os_pid),
    "" = os:cmd("kill -KILL " ++ integer_to_list(Terminal)),
    receive {Ended, {data, Said}} -> ?assertEqual("129\n", Said) end,
    ?assertEqual({ok, []}, file:list_dir(filename:join(Dir, "tmp"))),
    ?assertEqual({ok, <<"whittle: stopped; it left no unfinished files\n">>},
                 file:read_file(filename:join(Dir, "said"))),
    receive {Alive, {exit_status, 0}} -> ok end.

%% Under nohup, the script ignores SIGHUP too. Then SIGTERM ends it with its own code.
hangup_ignored(Config) ->
    Pid = filename:join(?config(dir, Config), "pid"),
    Port = on_terminal(Config, ["build", ?config(hello, Config)],
                       ["STAND_IN=slow; export STAND_IN; trap '' HUP; echo $$ > '", Pid,
                        "'; exec env A="]),
    [] = made:expect(Port, "compile \\(2 of 3\\), 50 %"),
    {ok, Text} = file:read_file(Pid),
    Number = string:trim(binary_to_list(Text)),
    "" = os:cmd(["kill -HUP ", Number, "; kill -TERM ", Number]),
    ?assertMatch({143, _}, to_end(Port)).

%% The program that read both outputs has ended, so nobody reads that the command stopped.
hangup_unread(Config) ->
    Dir = ?config(dir, Config),
    {Words, Env, Alive} = endless_compiler(Config),
    Pid = filename:join(Dir, "pid"),
    Line = made:file(filename:join(Dir, "line"),
                     command(Config, Words, ["echo $$ > '", Pid, "'; exec env ", Env])),
    Port = sh(Config, ["{ env --default-signal=HUP,PIPE sh '", Line, "' 2>&1; echo $? > code; }"
                       " | true; cat code"]),
    {ok, [_]} = compiling(Alive, Config),
    {ok, Number} = file:read_file(Pid),
    "" = os:cmd("kill -HUP " ++ string:trim(binary_to_list(Number))),
    ?assertEqual({0, "129\n"}, to_end(Port)),
    receive {Alive, {exit_status, 0}} -> ok end.

%% Makes an application whose compilation does not end. The compiler holds a pipe open, and the port
%% reads from it.
endless_compiler(Config) ->
    Dir = ?config(dir, Config),
    [Pipe, Tmp] = [filename:join(Dir, Name) || Name <- ["pipe", "tmp"]],
    "" = os:cmd("mkfifo '" ++ Pipe ++ "'"),
    ok = file:make_dir(Tmp),
    Text = fun(Name, Words) -> made:file(filename:join([Dir, "slow/src", Name]), Words) end,
    Text("slow.app.src", "{application, slow, [{vsn, \"1\"}]}.\n"),
    Text("slow.erl", "-module(slow).\n-compile({parse_transform, ever}).\n"),
    Text("ever.erl", ["-module(ever).\n-export([parse_transform/2]).\n"
                      "parse_transform(_, _) ->\n"
                      "  {ok, Pipe} = file:open(\"", Pipe, "\", [write, raw]),\n"
                      "  ok = file:write(Pipe, \"open\"), receive never -> ok end.\n"]),
    {["build", filename:join(Dir, "slow")], ["TMPDIR='", Tmp, "'"],
     open_port({spawn_executable, os:find_executable("cat")}, [{args, [Pipe]}, exit_status])}.

%% Waits until the compiler runs, and lists the directories of the build.
compiling(Alive, Config) ->
    receive {Alive, {data, "open"}} -> ok end,
    file:list_dir(filename:join(?config(dir, Config), "tmp")).

%% Signals to the script alone. A supervisor sends SIGTERM.
signals_to_the_script(Config) ->
    [?assertEqual({Name, Code}, {Name, ended_by(Name, Config)})
     || {Name, Code} <- [{"TERM", 143}, {"USR1", 138}, {"USR2", 140},
                         {"ALRM", 142}, {"PROF", 155}, {"PWR", 158}, {"TRAP", 133},
                         {"XFSZ", 153}, {"SYS", 159}]].

ended_by(Name, Config) ->
    Pid = filename:join(?config(dir, Config), "pid"),
    Port = on_terminal(Config, ["build", ?config(hello, Config)],
                       ["STAND_IN=slow; export STAND_IN; echo $$ > '", Pid, "'; exec env A="]),
    [] = made:expect(Port, "compile \\(2 of 3\\), 50 %"),
    {ok, Number} = file:read_file(Pid),
    "" = os:cmd("kill -" ++ Name ++ " " ++ string:trim(binary_to_list(Number))),
    {Code, Said} = to_end(Port),
    ?assertNotEqual(nomatch, string:find(Said, "whittle: stopped; it left no unfinished files")),
    ?assertEqual(["pid"], files(Config)),
    Code.

%% A VM that has just started still has OTP's own handler, which stops the VM in order with exit
%% code 0.
terminate_at_start(Config) ->
    Dir = ?config(dir, Config),
    Erl = filename:join(Dir, "erl"),
    ok = file:write_file(Erl, "#!/bin/sh\ntail -f /dev/null &\n"
                              "trap 'kill $!; exit 0' TERM\nkill -TERM $PPID\nwait\n"),
    ok = file:change_mode(Erl, 8#755),
    ?assertEqual({143, "", "whittle: stopped; it left no unfinished files\n"},
                 whittle(Config, ["version"], ["PATH='", Dir, "':\"$PATH\""])).

%% The first erl on the PATH may be one without the libraries of the set-up.
other_erl(Config) ->
    Dir = ?config(dir, Config),
    Erl = filename:join(Dir, "erl"),
    ok = file:write_file(Erl, ["#!/bin/sh\nexec ", os:find_executable("erl"),
                               " -eval 'true = code:del_path(getopt)' \"$@\"\n"]),
    ok = file:change_mode(Erl, 8#755),
    {1, "", Said} = whittle(Config, ["version"], ["PATH='", Dir, "':\"$PATH\""]),
    ?assertEqual("whittle: the erl on the PATH (" ++ code:root_dir() ++ ") has no library getopt: "
                 "run `make' with another erl first on the PATH, for example that of Debian\n",
                 Said).

%% The build waits for a program that does not end: for the lock of the output's directory, which
%% another program holds, and for the compressor.
terminate_blocked(Config) ->
    Dir = ?config(dir, Config),
    [Tools, Out, Pipe] = [filename:join(Dir, Name) || Name <- ["tools", "out", "pipe"]],
    [ok = file:make_dir(New) || New <- [Tools, Out]],
    "" = os:cmd("mkfifo '" ++ Pipe ++ "'"),
    Holder = open_port({spawn_executable, os:find_executable("flock")},
                       [{args, [Out, "sh", "-c", "echo held; read line"]}, exit_status, binary]),
    receive {Holder, {data, <<"held\n">>}} -> ok end,
    [begin
         %% The program says that it runs, and holds the pipe open while it lives.
         made:file(filename:join(Tools, Program),
                   ["#!/bin/sh\nexec 3>'", Pipe, "'\necho open >&3\nexec ", Does, "\n"]),
         ok = file:change_mode(filename:join(Tools, Program), 8#755),
         Alive = open_port({spawn_executable, os:find_executable("cat")},
                           [{args, [Pipe]}, exit_status]),
         Port = sh(Config, ["echo $$ >'", Dir, "/pid'; PATH='", Tools, "':\"$PATH\"; ",
                            command(Config, ["build", "--shake", "functions", "-o",
                                             filename:join(Out, "hello"),
                                             ?config(hello, Config)], "exec env A="), " 2>&1"]),
         receive {Alive, {data, "open" ++ _}} -> ok end,
         {ok, Number} = file:read_file(filename:join(Dir, "pid")),
         "" = os:cmd("kill -TERM " ++ string:trim(binary_to_list(Number))),
         {143, Said} = to_end(Port),
         ?assertEqual("whittle: stopped; it left no unfinished files\n",
                      lists:nthtail(length(Said) - 46, Said)),
         %% No process holds the pipe any more.
         receive {Alive, {exit_status, 0}} -> ok end,
         ?assertEqual({ok, []}, file:list_dir_all(Out)),
         ok = file:delete(filename:join(Tools, Program))
     end || {Program, Does} <- [{"flock", os:find_executable("flock") ++ " \"$@\""},
                                {"zstd", "tail -f /dev/null"}]],
    true = port_command(Holder, "\n"),
    receive {Holder, {exit_status, _}} -> ok end.

full_disk(Config) ->
    small_disk:with("64k", fun(Disk) ->
        Out = filename:join(Disk, "hello"),
        ?assertEqual({1, "", "whittle: " ++ Out ++ " cannot be written, because the disk is full: "
                             "free space there, or name another output with -o\n"},
                     whittle(Config, ["build", "-o", Out, ?config(hello, Config)])),
        ?assertEqual({ok, []}, file:list_dir_all(Disk))
    end).

%% The VM itself would only abort.
few_descriptors(Config) ->
    Command = command(Config, ["version"], "A="),
    [?assertEqual({1, "whittle: the limit of " ++ Limit ++ " descriptors is too low for the "
                      "command; raise it to 64 or more (ulimit -n)\n"},
                  to_end(sh(Config, ["ulimit -n ", Limit, "; ", Command, " 2>&1"])))
     || Limit <- ["12", "20", "63"]],
    ?assertMatch({0, _}, to_end(sh(Config, ["ulimit -n 64; ", Command]))).

%% The kernel would end the command with SIGXFSZ, without a word.
file_limit(Config) ->
    Command = command(Config, ["build", "-o", "out", ?config(hello, Config)], "A="),
    {1, Shown} = to_end(sh(Config, ["ulimit -f 8; ", Command, " 2>&1 >/dev/null"])),
    ?assertMatch("whittle: out cannot be written, because it is larger than `ulimit -f' allows: "
                 ++ _, string:find(Shown, "whittle: ")),
    ?assertEqual([], files(Config)).

%% Size

size(Config) ->
    {0, _, ""} = whittle(Config, ["build", ?config(hello, Config)]),
    {0, Out, ""} = whittle(Config, ["size", "hello"]),
    [Parts, Applications, Modules] = string:split(lists:flatten(numberless(Out)), "\n\n", all),
    ?assertEqual("part stored raw\ncode N N\nvm N N\n", string:slice(Parts, 0, 32)),
    ?assertMatch({match, _}, re:run(Parts, "\nthe file N$")),
    ?assertEqual("application stored raw\nstdlib-V N N\nkernel-V N N\n"
                 "whittle_start-0.1.0 N N\nwhittle_control-0.1.0 N N\nhello-0.1.0 N N",
                 re:replace(Applications, "(kernel|stdlib)-[^ ]*", "\\1-V",
                            [global, {return, list}])),
    ?assertMatch({match, _}, re:run(Modules, "\nstdlib-[^ /]*/unicode_util N N\n")).

size_json(Config) ->
    {0, _, ""} = whittle(Config, ["build", ?config(hello, Config)]),
    {0, Out, ""} = whittle(Config, ["size", "--json", "hello"]),
    Code = "import json, os\n"
           "d = json.load(open('out'))\n"
           "total = lambda k: sum(p['stored'] for p in d[k])\n"
           "assert d['size'] == os.path.getsize('hello') == total('parts')\n"
           "code = [p['stored'] for p in d['parts'] if p['name'] == 'code'][0]\n"
           "assert abs(code - total('modules')) < 0.01 * code\n"
           "assert all(p['stored'] <= p['raw'] for p in d['modules'])\n"
           "print(sorted(p['name'].split('-')[0] for p in d['applications']))\n",
    ?assertEqual("['hello', 'kernel', 'stdlib', 'whittle_control', 'whittle_start']\n",
                 python(Config, Out, Code)).

bad_files(Config) ->
    Dir = ?config(dir, Config),
    {0, _, ""} = whittle(Config, ["build", ?config(hello, Config)]),
    {ok, Bytes} = file:read_file(filename:join(Dir, "hello")),
    Middle = byte_size(Bytes) div 2,
    <<Head:Middle/binary, Byte, Tail/binary>> = Bytes,
    ok = file:write_file(filename:join(Dir, "flipped"), [Head, Byte bxor 1, Tail]),
    ok = file:write_file(filename:join(Dir, "cut"), Head),
    ok = file:write_file(filename:join(Dir, "longer"), [Bytes, "more"]),
    [?assertEqual({1, "", "whittle: " ++ Line ++ "\n"}, whittle(Config, [Command, File]))
     || Command <- ["size", "run"],
        {File, Line} <-
            [{"none", "none cannot be read (no such file or directory): check the name and its "
                      "permissions"},
             {".", ". is a directory: name an executable that `whittle build' made"},
             {"/bin/sh", "/bin/sh: it contains no packed application: name a file that "
              "`whittle build' made"},
             {?config(hello, Config) ++ "/ebin/hello.app",
              ?config(hello, Config) ++ "/ebin/hello.app: it is not an ELF executable: name a file "
              "that `whittle build' made"},
             {"flipped", "flipped: the pack in the file is damaged (its checksum is wrong): copy "
                         "the file again, or build it again"},
             {"cut", "cut: the executable is damaged (its end is missing): copy it again, or "
                     "build it again"},
             {"longer", "longer: the executable is damaged (other bytes follow its last byte): "
                        "copy it again, or build it again"}]],
    ?assertEqual({2, "", "whittle: hello is an executable of Whittle, and `whittle build' needs an "
                  "application, a release or an escript: name the input of that build\n"},
                 whittle(Config, ["build", "hello", "-o", "again"])),
    [?assertEqual({1, "", "whittle: " ++ Line ++ "\n"}, whittle(Config, ["why", File, "lists"]))
     || {File, Line} <-
            [{"/bin/sh", "/bin/sh: it contains no packed application: name a file that "
              "`whittle build' made"},
             {".", ". is not a directory that `whittle build --format dir' made: name one, or an "
                   "executable"},
             {"hello", "hello.plan is missing: build with --shake functions, and keep the plan "
                       "beside "
                       "the output"}]],
    ok.

%% A read of a pipe would block, and a device may have no end.
not_regular(Config) ->
    Dir = ?config(dir, Config),
    Pipe = filename:join(Dir, "pipe"),
    "" = os:cmd("mkfifo '" ++ Pipe ++ "' '" ++ Pipe ++ ".plan'"),
    [begin
         refused(Config, ["size", File],
                 [File, " is a pipe, a socket, a device or a file of the kernel: name a "
                        "regular file"]),
         refused(Config, ["size", "--by", "reason", File],
                 [File, " is a pipe, a socket, a device or a file of the kernel: name a "
                        "regular file"]),
         refused(Config, ["why", File, "lists"],
                 [File, " is a pipe, a socket, a device or a file of the kernel: name a "
                        "regular file"]),
         refused(Config, ["run", File],
                 [File, " is a pipe, a socket, a device or a file of the kernel: name a "
                        "regular file"]),
         refused(Config, building(Config, ["--ca-certs", File]),
                 [File, " is a pipe, a socket, a device or a file of the kernel: name a "
                        "regular file"]),
         [refused(Config, building(Config, [Option, File]),
                  [File, " is a pipe, a socket, a device or a file of the kernel: name a "
                         "regular file "
                         "with ", Option])
          || Option <- ["--keep", "--evidence"]]
     end || File <- [Pipe, "/dev/zero"]],
    Special = "/dev/zero is a pipe, a socket, a device or a file of the kernel: ",
    refused(Config, building(Config, ["--settings", "/dev/zero"]),
            [Special, "name a file of `whittle tune' with --settings"]),
    refused(Config, ["measure", "/dev/zero"], [Special, "name a study or its file"]),
    %% This is the plan beside an output.
    made:file(Pipe ++ "s", ""),
    "" = os:cmd("mkfifo '" ++ Pipe ++ "s.plan'"),
    refused(Config, ["why", Pipe ++ "s", "lists"],
            [Pipe, "s.plan is a pipe, a socket, a device or a file of the kernel: name a "
                   "regular file"]),
    refused(Config, building(Config, ["-o", Pipe ++ "s"]),
            [Pipe, "s.plan is a pipe, a socket, a device or a file of the kernel, and the plan of "
                   "this "
             "build has the same path: "
             "move it, or name another output with -o"]),
    %% The directory to replace holds these files.
    {0, _, ""} = whittle(Config, ["build", ?config(hello, Config), "--format", "dir"]),
    "" = os:cmd("mkfifo '" ++ Dir ++ "/hello/more'"),
    refused(Config, ["build", ?config(hello, Config), "--format", "dir"],
            ["hello holds more, which Whittle did not write: move it, or name another output with "
             "-o"]).

%% Sparse files take no room on the disk.
%% The ledger names an archive, because the build does not look into it.
unread_archive(Config) ->
    App = filename:join(?config(dir, Config), "app"),
    made:app(App, app, [], [{app, "-module(app)."}]),
    {ok, {_, Zip}} = zip:create("x.zip", [{"x", <<"{m, f}.">>}], [memory]),
    made:file(filename:join(App, "priv/x.zip"), Zip),
    [begin
         {0, Out, _} = whittle(Config, ["build", App, "-o", "out" | Words]),
         ?assertEqual({Words, IsNoted},
                      {Words, string:find(Out, "compressed files and large terms for names of "
                                          "functions: lib/app-1/priv/x.zip") =/= nomatch})
     end || {Words, IsNoted} <- [{["--shake", "functions"], true}, {[], false}]].

too_large(Config) ->
    File = filename:join(?config(dir, Config), "large"),
    "" = os:cmd("truncate -s 8G '" ++ File ++ "'"),
    [refused(Config, Words, [File, " is larger than any output of Whittle: check the name"])
     || Words <- [["size", File], ["run", File], ["why", File, "lists"],
                  building(Config, ["--ca-certs", File])]],
    [refused(Config, building(Config, [Option, File]),
             [File, " is larger than the 64 MB that Whittle reads: check the path given to ",
               Option])
     || Option <- ["--keep", "--evidence"]].

building(Config, Words) ->
    ["build", ?config(hello, Config), "--shake", "functions" | Words].

%% Runs a command that must be refused. A command that hangs ends with 124.
refused(Config, Words, Line) ->
    ?assertEqual({Words, {1, "", lists:flatten(["whittle: ", Line, "\n"])}},
                 {Words, whittle(Config, Words, "timeout 60 env A=")}).

%% Run

run(Config) ->
    {0, _, ""} = whittle(Config, ["build", ?config(hello, Config)]),
    {0, Out, ""} = whittle(Config, ["run", "hello"]),
    ?assertMatch("pack of " ++ _, Out),
    ok = file:change_mode(filename:join(?config(dir, Config), "hello"), 8#644),
    ?assertEqual({1, "", "whittle: hello is not executable: run `chmod +x' on it\n"},
                 whittle(Config, ["run", "hello"])).

run_emulated(Config) ->
    {0, _, ""} = whittle(Config, ["build", "--target", "board", "-o", "it's",
                                  ?config(hello, Config)]),
    {0, Out, ""} = whittle(Config, ["run", "it's"]),
    ?assertMatch("pack of " ++ _, Out).

no_emulator(Config) ->
    {0, _, ""} = whittle(Config, ["build", "--target", "board", ?config(hello, Config)]),
    ?assertEqual({1, "", "whittle: hello is built for board, and the emulator qemu-nowhere is not "
                         "on the "
                  "PATH:"
                         " install it (Debian package qemu-user), or copy the file to the"
                         " board\n"},
                 whittle(Config, ["run", "hello"], "STAND_IN=no_emulator")).

%% Each board has a limit of its own.
run_low_memory(Config) ->
    Dir = ?config(dir, Config),
    [begin
         Emulator = made:file(filename:join(Dir, Program), "#!/bin/sh\necho boots\n"),
         ok = file:change_mode(Emulator, 8#755),
         Label = #{board => Board, target => <<"t">>, name => <<"n">>, version => <<"1">>,
                   parts => [#{name => <<"all">>, stored => 5, raw => 5}]},
         made:file(filename:join(Dir, "n.img"), whittle_board_label:add(<<"image">>, Label)),
         ?assertEqual({Words, {0, "boots\n", Note}},
                      {Words, whittle(Config, ["run", "n.img" | Words],
                                      ["PATH='", Dir, "':\"$PATH\""])})
     end || {Board, Program, Words, Note} <-
                [{<<"qemu-aarch64">>, "qemu-system-aarch64", ["--memory", "21M"],
                  "whittle: note: 21 MB of memory are too few for the board qemu-aarch64, which "
                  "may then print nothing: give 22 MB at least (docs/boards.md)\n"},
                 {<<"qemu-aarch64">>, "qemu-system-aarch64", ["--memory", "22M"], ""},
                 {<<"qemu-arm">>, "qemu-system-arm", ["--memory", "14M"], ""},
                 {<<"qemu-arm">>, "qemu-system-arm", [], ""}]].

%% The emulator gets the card, and a file with the environment of its boot loader.
run_card(Config) ->
    Dir = ?config(dir, Config),
    Emulator = made:file(filename:join(Dir, "qemu-system-arm"),
                         "#!/bin/sh\nfor word; do case $word in *,addr=0x4000000,*)\n"
                         "file=${word#*file=}; grep -aq bootdelay=-2 \"${file%%,*}\" &&"
                         " echo there;;\n*id=card,*) echo \"$word\";; esac; done\n"),
    ok = file:change_mode(Emulator, 8#755),
    {ok, Board} = whittle_board:board("qemu-arm"),
    Image = whittle_board_label:add_for_slot(<<"image">>,
                                             #{board => <<"qemu-arm">>, target => <<"armv7">>,
                                               name => <<"n">>, version => <<"1">>,
                                               parts => [#{name => <<"all">>, stored => 5,
                                                           raw => 5}]}),
    {ok, Card} = whittle_board_card:make(Board, Image),
    made:file(filename:join(Dir, "n.card"), Card),
    Run = fun(Words) -> whittle(Config, Words, ["PATH='", Dir, "':\"$PATH\""]) end,
    Drive = fun(Snapshot) ->
                    "there\nif=none,id=card,format=raw,snapshot=" ++ Snapshot ++ ",file=n.card\n"
            end,
    case filelib:is_regular("/usr/lib/u-boot/qemu_arm/u-boot.bin") of
        true ->
            ?assertEqual({0, Drive("on"), ""}, Run(["run", "n.card"])),
            ?assertEqual({0, Drive("off"), ""}, Run(["run", "n.card", "--keep"])),
            ?assertMatch({0, _, "whittle: note: 30 MB of memory are too few" ++ _},
                         Run(["run", "n.card", "--memory", "30M"])),
            One = damaged(Card, 16384),
            made:file(filename:join(Dir, "n.card"), One),
            ?assertEqual({0, Drive("on"), "whittle: note: slot A is damaged, and the board boots "
                          "without it\n"}, Run(["run", "n.card"]));
        false ->
            ?assertEqual({1, "", "whittle: the boot loader for cards of qemu-arm is missing "
                          "(/usr/lib/u-boot/qemu_arm/u-boot.bin): install it (Debian "
                          "package u-boot-qemu)\n"},
                         Run(["run", "n.card"]))
    end,
    made:file(filename:join(Dir, "n.card"), Card),
    {0, Json, ""} = Run(["size", "n.card", "--json"]),
    #{<<"size">> := Size, <<"parts">> := Parts, <<"next">> := <<"a">>, <<"tries">> := 0} =
        jiffy:decode(Json, [return_maps]),
    ?assertEqual(byte_size(Card), Size),
    ?assertEqual(Size, lists:sum([Bytes || #{<<"bytes">> := Bytes} <- Parts])),
    {0, Table, ""} = Run(["size", "n.card"]),
    ?assertMatch({match, _}, re:run(Table, "\nThe next boot starts slot A.\n")),
    made:file(filename:join(Dir, "n.card"), binary:part(Card, 0, 1000)),
    [?assertEqual({1, "", "whittle: n.card is a card without its end: copy it again, or build it "
                   "again\n"}, Run(Words))
     || Words <- [["run", "n.card"], ["size", "n.card"], ["write", "n.card", "/dev/null"]]].

%% The old image starts after a trial only if something starts the board again.
trial_notes(_) ->
    [?assertEqual({Form, Env, Count},
                  {Form, Env, length(whittle_build_image:trial_notes(Form, Env))})
     || {Form, Env, Count} <-
            [{image, [], 0}, {slot, [], 1}, {card, ["A=WHITTLE_WATCHDOG=1"], 1},
             {card, ["WHITTLE_WATCHDOG=10"], 0}, {slot, ["WHITTLE_CRASH=restart"], 2},
             {card, ["WHITTLE_CRASH=reboot", "WHITTLE_WATCHDOG=10,60"], 0},
             {slot, ["WHITTLE_WATCHDOG=10", "WHITTLE_CRASH=halt"], 1}]].

damaged(Bytes, Sector) ->
    At = Sector * 512,
    <<Before:At/binary, Byte, After/binary>> = Bytes,
    <<Before/binary, (Byte bxor 1), After/binary>>.

%% The program receives stdin, the exit code, and every argument after its name.
run_keeps_arguments(Config) ->
    {0, _, ""} = whittle(Config, ["build", ?config(hello, Config)]),
    Words = ["hello", "--json", "it's", "a  b", ""],
    Port = sh(Config, command(Config, ["run" | Words], "A=")),
    true = port_command(Port, "a line\n"),
    ?assertEqual({7, "--json\nit's\na  b\n\na line\n"}, to_end(Port)).

%% The options stand before or after the name of an image. Before an executable they have no effect.
run_options(Config) ->
    {0, _, ""} = whittle(Config, ["build", ?config(hello, Config)]),
    File = filename:join(?config(dir, Config), "cut.img"),
    ok = file:write_file(File, <<0:36/unit:8, 16#016F2818:32/little, 0:2000/unit:8>>),
    Cut = "cut.img is a cut or damaged image, or a kernel that Whittle did not make (its end is not"
          " that of an image): copy it again, or build it again",
    [?assertEqual({Words, {Code, "", "whittle: " ++ Line ++ "\n"}},
                  {Words, whittle(Config, Words)})
     || {Words, Code, Line} <-
            [{["run", "cut.img"], 1, Cut}, {["run", "--memory", "24M", "cut.img"], 1, Cut},
             {["run", "--no-reboot", "--memory=24M", "cut.img", "--serial", "pty"], 1, Cut},
             {["size", "cut.img"], 1, Cut}, {["why", "cut.img", "lists"], 1, Cut},
             {["tune", "cut.img"], 1, Cut}, {["tune", "--explain", "cut.img"], 1, Cut},
             {["trace", "--", "./cut.img"], 1, "./" ++ Cut},
             {["run", "--memory", "24", "cut.img"], 2,
              "--memory cannot be `24'; write megabytes as 24M"},
             {["run", "--forward", "70000", "cut.img"], 2,
              "--forward cannot be `70000'; write ports as 7000 or 8080:80"},
             {["run", "--memory", "24M", "cut.img", "--memory", "32M"], 2,
              "--memory is given twice: give it once; see `whittle help run'"},
             {["run", "--memory", "24M", "hello"], 2,
              "--memory is for an image or a card of a board, and hello is an executable: remove "
              "it; or write it after hello if it is for the program"},
             {["run", "--keep", "cut.img"], 2,
              "--keep is for a card (--format card): an image does not change"},
             {["build", ".", "--format", "card"], 2,
              "--format card needs --board: `whittle boards' lists the boards"},
             {["build", ".", "--format", "exe", "--board", "qemu-arm"], 2,
              "--format exe makes no image: leave it out with --board"},
             {["write", "cut.img", "/dev/null"], 1,
              "cut.img is no card: build one with `whittle build PATH --board NAME --format "
              "card'"}]],
    %% A shell would run the bytes of an image as a script.
    Image = filename:join(?config(dir, Config), "whole.img"),
    ok = file:write_file(Image, ["touch touched\n#", lists:duplicate(200, $x),
                                 "\nWhittle image 1\n"]),
    Refused = fun() ->
                      [begin
                           {Code, "", Line} = whittle(Config, Words),
                           ?assertMatch({Words, 2, _, {match, _}},
                                        {Words, Code, Line,
                                         re:run(Line, "^whittle: .*whole.img is an image, and "
                                                "`whittle [bt]")})
                       end || Words <- [["build", "whole.img"], ["tune", "./whole.img"],
                                        ["tune", "--explain", "./whole.img"],
                                        ["trace", "--", "./whole.img"]]]
              end,
    Refused(),
    ok = file:change_mode(Image, 8#755),
    Refused(),
    ?assertNot(filelib:is_file(filename:join(?config(dir, Config), "touched"))).

%% Makes a cache with an entry of each kind. For one entry the test holds the lock, as a build
%% does.
clean(Config) ->
    Cache = filename:join(?config(dir, Config), "cache"),
    Env = ["WHITTLE_CACHE='", Cache, "'; export WHITTLE_CACHE; env A="],
    Clean = fun(Words) -> whittle(Config, ["clean" | Words], Env) end,
    ?assertEqual({0, "the cache has no matching entries\n", ""}, Clean([])),
    ?assertMatch({1, "", "whittle: Whittle cannot write in /dev/null/x: not a directory; set "
                         ++ _},
                 whittle(Config, ["clean"], "WHITTLE_CACHE=/dev/null/x")),
    ?assertEqual({1, "", "whittle: the path of the cache contains white space (/of mine), and "
                         "compilers split it there; set WHITTLE_CACHE to a directory whose path "
                         "has none\n"},
                 whittle(Config, ["clean"], "WHITTLE_CACHE='/of mine'")),
    [Vm, Erts, Otp] = [Name ++ "-0123456789abcdef" || Name <- ["runtime-25", "erts-25", "otp-25"]],
    Described = ["artefacts/" ++ Vm, "artefacts/" ++ Erts, "artefacts/" ++ Otp,
                 "sources/musl-1.2-01234567"],
    Names = [Dir ++ "/whittle.config" || Dir <- Described]
        ++ ["work/" ++ Erts ++ "@A/a", "work/" ++ Otp ++ "@A/a", "logs/" ++ Otp ++ ".log"],
    [made:file(filename:join(Cache, Name), "1234") || Name <- Names],
    [made:file(filename:join([Cache, "locks", Name]), "") || Name <- [Erts, Otp]],
    Thesis = filename:join(Cache, "work/thesis.txt"),
    made:file(Thesis, "12"),
    Kept = fun() -> [Name || Name <- Names, filelib:is_file(filename:join(Cache, Name))] end,
    {0, Listed, ""} = Clean([]),
    ?assertMatch({match, _}, re:run(numberless(Listed), "^kind bytes age name\n")),
    ?assertEqual(nomatch, re:run(Listed, "a build uses it")),
    ?assertMatch({match, _},
                 re:run(Listed, "\nother .*/work/thesis.txt \\(Whittle did not create it, so it "
                                "stays\\)\n")),
    ?assertMatch({match, _}, re:run(Listed, "\ntotal +30 *\n\nWhittle removed nothing; `whittle "
                                            "clean --yes' .* removes 28 bytes\n$")),
    ?assertEqual(Names, Kept()),
    %% No entry is older than an hour.
    ?assertEqual({0, "the cache has no matching entries\n", ""},
                 Clean(["--older-than", "1h", "--yes"])),
    ?assertEqual(Names, Kept()),
    %% While a build runs, the entries that it may read or make stay.
    Port = open_port({spawn_executable, os:find_executable("flock")},
                     [{args, [filename:join(Cache, "locks/" ++ Otp), "sh", "-c",
                              "echo held; exec cat"]}, binary]),
    receive {Port, {data, <<"held\n">>}} -> ok end,
    {0, Busy, ""} = Clean(["--yes"]),
    ?assertMatch({match, [_, _, _, _, _, _]},
                 re:run(Busy, "a build uses it", [global])),
    ?assertMatch({match, _}, re:run(Busy, "\nremoved: 4 bytes\n$")),
    ?assertEqual(Names -- ["work/" ++ Erts ++ "@A/a"], Kept()),
    true = port_close(Port),
    "" = os:cmd("flock '" ++ filename:join(Cache, "locks/" ++ Otp) ++ "' true"),
    {0, Vms, ""} = Clean(["--kind", "vm", "--older-than=0h", "--yes"]),
    ?assertMatch({match, _}, re:run(Vms, "\nremoved: 4 bytes\n$")),
    {0, Json, ""} = Clean(["--yes", "--json"]),
    Code = "import json\n"
           "d = json.load(open('out'))\n"
           "assert d['removing'] and d['removed_bytes'] == 20, d\n"
           "print(sorted((e['kind'], e['name'], e['bytes'], e['state']) for e in d['entries']))\n",
    ?assertEqual("[('log', 'otp-25-0123456789abcdef.log', 4, 'removed'), "
                 "('other', 'thesis.txt', 2, 'left'), "
                 "('otp', 'otp-25-0123456789abcdef', 4, 'removed'), "
                 "('part', 'erts-25-0123456789abcdef', 4, 'removed'), "
                 "('source', 'musl-1.2-01234567', 4, 'removed'), "
                 "('work', 'otp-25-0123456789abcdef@A', 4, 'removed')]\n",
                 python(Config, Json, Code)),
    ?assertEqual([], Kept()),
    ?assertEqual([Thesis], filelib:wildcard(filename:join(Cache, "work/*"))).

%% clean also notices a build that only reads the cache, from its first read until it has written
%% its output.
clean_beside_build(Config) ->
    Cache = filename:join(?config(dir, Config), "cache"),
    Env = ["WHITTLE_CACHE='", Cache, "'; export WHITTLE_CACHE; env "],
    Artifact = filename:join(Cache, "artefacts/erts-25-0123456789abcdef"),
    made:file(filename:join(Artifact, "whittle.config"), "1234"),
    Build = on_terminal(Config, ["build", ?config(hello, Config)], [Env, "STAND_IN=slow"]),
    [] = made:expect(Build, "compile \\(2 of 3\\), 50 %"),
    Refused = whittle(Config, ["clean", "--yes"], [Env, "A="]),
    {0, Listed, ""} = whittle(Config, ["clean"], [Env, "A="]),
    true = port_command(Build, [3]),
    ?assertMatch({130, _}, to_end(Build)),
    ?assertMatch({1, "", "whittle: a build is running and reads the cache (the build holds " ++ _},
                 Refused),
    ?assertMatch({match, [_]}, re:run(Listed, "a build uses it", [global])),
    ?assertMatch({match, _}, re:run(Listed, "\nWhittle removed nothing; when no build runs, "
                                            "`whittle clean --yes' .* removes 4 bytes\n$")),
    ?assert(filelib:is_dir(Artifact)),
    "" = os:cmd("flock '" ++ Cache ++ "/locks/in-use' true"),
    {0, Removed, ""} = whittle(Config, ["clean", "--yes"], [Env, "A="]),
    ?assertMatch({match, _}, re:run(Removed, "\nremoved: 4 bytes\n$")),
    ?assertNot(filelib:is_dir(Artifact)).

%% The case uses each flag of each command, alone and all at once, on the command line.
flags(Config) ->
    {0, _, ""} = whittle(Config, ["build", ?config(hello, Config), "-o", "made",
                                  "--shake", "functions"]),
    Env = ["WHITTLE_CACHE='", filename:join(?config(dir, Config), "cache"),
           "'; export WHITTLE_CACHE; env A="],
    Arguments = #{"build" => [?config(hello, Config)], "size" => ["made"],
                  "why" => ["made", "hello:a/0"], "features" => [], "targets" => [], "clean" => [],
                  "boards" => [], "measure" => ["list"]},
    %% In acceptance/suites, tune_SUITE and load_SUITE have those of `tune' and `load', which run
    %% programs, image_SUITE and card_SUITE those of `run' and `write', and program_vm_SUITE
    %% `features --vm'.
    Flags = [{Name, ["--" ++ Long || #{long := Long, name := Key} = Option <- Options,
                                     not is_map_key(value, Option),
                                     Key =:= json
                                         orelse not lists:member(Name, ["measure", "features"])]}
             || #{name := Name, options := Options} <- whittle_command_line:table(),
                not lists:member(Name, ["tune", "load", "run", "write"])],
    ?assertEqual(lists:sort(maps:keys(Arguments)), lists:sort([Name || {Name, [_ | _]} <- Flags])),
    [?assertMatch({Name, Words, {0, [_ | _], ""}},
                  {Name, Words, whittle(Config, [Name | Words] ++ maps:get(Name, Arguments), Env)})
     || {Name, [_ | _] = All} <- Flags, Words <- [All | [[Flag] || Flag <- All]]].

%% The plain command builds each example. It finds Whittle's own libraries, which three of the
%% examples list among their applications.
examples(Config) ->
    Top = filename:dirname(?config(whittle, Config)),
    Examples = filelib:wildcard(filename:join(Top, "examples/*/src/*.app.src")),
    ?assertEqual(["blinky", "docket", "hello", "mixed", "presence", "relay", "sensors"],
                 [filename:basename(File, ".app.src") || File <- Examples]),
    [begin
         Name = filename:basename(File, ".app.src"),
         Dir = filename:join([Top, "examples", Name]),
         ?assertMatch({Name, {0, _, ""}},
                      {Name, whittle(Config, ["build", Dir, "-o", Name],
                                     "ERL_LIBS=; export ERL_LIBS; env A=")})
     end || File <- Examples].

%% These variables are for the user's programs. Each of them would break a VM. Without a limit of
%% memory, a VM that reads /dev/zero would fill the machine.
variables_for_erlang(Config) ->
    Made = made:app(filename:join(?config(dir, Config), "src"), made, [],
                    [{made, "-module(made). -export([a/0]). a() -> b."}]),
    ok = file:del_dir_r(filename:join(Made, "ebin")),
    made:file(filename:join(Made, "src/made.app.src"), "{application, made, [{vsn, \"1\"}]}.\n"),
    made:file(filename:join(Made, "src/made.erl"), "-module(made). -export([a/0]). a() -> b.\n"),
    [?assertMatch({Setting, {0, [_ | _], ""}},
                  {Setting, whittle(Config, Words, ["ulimit -v 6000000; ", Setting])})
     || Words <- [["build", Made, "-o", "made"]],
        Setting <- ["ERL_INETRC=/dev/zero", "ERL_FLAGS='-mode embedded' ERL_ZFLAGS='-config none'",
                    "ERL_ZFLAGS='-extra foo' ERL_AFLAGS=-detached",
                    "ERL_ROOTDIR=/nowhere ERLC_EMULATOR=/nowhere ESCRIPT_EMULATOR=/nowhere",
                    ["ERL_OTP", erlang:system_info(otp_release), "_FLAGS='-eval halt(9)'"]]],
    %% Lines of another variable are no variables.
    ?assertMatch({0, "whittle " ++ _, ""},
                 whittle(Config, ["version"], "V='a\nERL_X=1\nERL_FLAGS=b\nERL_`exit`=c'")).

%% A program that a study or `trace' runs gets them as the user has set them.
variables_of_programs(Config) ->
    File = filename:join(?config(dir, Config), "seen"),
    Print = "printf '%s|' \"$ERL_LIBS\" \"$ERL_AFLAGS\" \"${ERL_FLAGS-unset}\" "
        "\"${WHITTLE_USER_ERL_LIBS-unset}\" >> '" ++ File ++ "'; echo 1",
    made:file(filename:join(?config(dir, Config), "s.study"),
              io_lib:format("#{title => \"x\", responses => [run_time], blocks => 1, programs => "
                            "[#{name => p, command => [\"/bin/sh\", \"-c\", ~p]}]}.~n", [Print])),
    Env = "unset ERL_FLAGS; ERL_LIBS='a b:c' ERL_AFLAGS=\"-x 'y z'\"",
    {0, _, _} = whittle(Config, ["measure", "./s.study", "-o", "m"], Env),
    %% The shell is no VM, so the recording is empty.
    {1, _, _} = whittle(Config, ["trace", "-o", "x", "--", "sh", "-c", Print], Env),
    ?assertEqual({ok, <<"a b:c|-x 'y z'|unset|unset|a b:c|-x 'y z'|unset|unset|">>},
                 file:read_file(File)).

%% Somebody has changed a level in the samples of a study. A report would leave it out.
unknown_level(Config) ->
    In = fun(Name) -> filename:join(?config(dir, Config), Name) end,
    made:file(In("s.study"),
              "#{title => \"x\", responses => [run_time], blocks => 1, warmup => 0, programs => "
              "[#{name => p, command => [\"/bin/true\"]}], factors => [#{name => f, levels => "
              "[#{name => one}, #{name => two}]}]}.\n"),
    {0, _, _} = whittle(Config, ["measure", "./s.study", "-o", "m"]),
    {ok, Samples} = file:read_file(In("m/samples.jsonl")),
    [First, Second, <<>>] = binary:split(Samples, <<"\n">>, [global]),
    Changed = re:replace(Second, "\"(one|two)\"", "\"tow\""),
    ok = file:write_file(In("m/samples.jsonl"), [First, $\n, Changed, $\n]),
    [refused(Config, Words,
             "m/samples.jsonl, line 2, is a sample of f=tow, program=p, but the study has no such "
             "program or no such levels: remove that line")
     || Words <- [["measure", "report", "m"], ["measure", "compare", "m", "m"],
                  ["measure", "./s.study", "-o", "m", "--resume"]]].

%% The VM loads no module of the directory in which the user works. Each module here leaves a file
%% when it is loaded.
modules_beside(Config) ->
    Dir = ?config(dir, Config),
    Mark = filename:join(Dir, "loaded"),
    [begin
         {ok, Module, Beam} =
             compile:forms([{attribute, 1, module, Module}, {attribute, 1, on_load, {a, 0}},
                            {function, 1, a, 0,
                             [{clause, 1, [], [],
                               [{call, 1, {remote, 1, {atom, 1, file}, {atom, 1, write_file}},
                                 [{string, 1, Mark}, {string, 1, atom_to_list(Module)},
                                  {cons, 1, {atom, 1, append}, {nil, 1}}]}]}]}]),
         ok = file:write_file(filename:join(Dir, atom_to_list(Module) ++ ".beam"), Beam)
     end || Module <- [crypto, beam_lib, string, calendar, filelib, io_lib_pretty, re, zlib,
                       compile, group, logger_formatter, standard_error]],
    {0, _, ""} = whittle(Config, ["build", ?config(hello, Config)]),
    {0, _, ""} = whittle(Config, ["size", "hello"]),
    ?assertEqual({error, enoent}, file:read_file(Mark)).

%% A directory with a strange name, and one that has gone
entered(Config) ->
    In = fun(Make) ->
                 raw(Config, ["size", "hello"],
                     ["d='", ?config(dir, Config), "'; ", Make, " || exit 9;"])
         end,
    {0, _, ""} = whittle(Config, ["build", ?config(hello, Config)]),
    ?assertMatch({0, _, ""}, In("n=$(printf 'a b\303\251\n.'); mkdir \"$n\" && cp hello \"$n\" "
                                "&& cd \"$n\"")),
    ?assertMatch({0, _, ""}, In("n=$(printf '\377'); mkdir \"$n\" && cp hello \"$n\" && "
                                "cd \"$n\"")),
    {1, "", Line} = In("mkdir gone && cd gone && rmdir ../gone"),
    ?assertMatch({match, _}, re:run(Line, "^whittle: the current directory .*$", [multiline])),
    {1, "", Raw} = In("export LC_ALL=C.UTF-8; n=$(printf '\\376'); mkdir \"$n\" && cd \"$n\""),
    ?assertMatch({match, _}, re:run(Raw, "^whittle: the current directory .* has a name that is "
                                    "not UTF-8: change to another one$", [multiline])).

%% Characters beyond Latin-1 in every place that a pattern checks
strange_words(Config) ->
    [?assertMatch({Words, {Code, "", "whittle: " ++ _}} when Code =:= 1 orelse Code =:= 2,
                  {Words, raw(Config, Words, "A=")})
     || Words <- [["load", "x.load", "--hosts", "a\x{20ac}"],
                  ["tune", "x", "--try", "kernel \x{20ac} 1"],
                  ["tune", "x", "--try", "kernel a \x{20ac}"],
                  ["measure", "otp", "--sha256", "\x{20ac}"],
                  ["measure", "otp", "--bound", "\x{20ac}"],
                  ["why", "hello", "\x{20ac}"],
                  ["run", "--memory", "\x{20ac}M", "x"],
                  ["build", "x", "--board", "qemu-arm", "--env", "\x{20ac}=1"]]].

%% The limit of atoms has a variable of its own: ERL_ZFLAGS="+t N" is for the user's programs.
more_atoms(Config) ->
    Atoms = fun(Value) -> whittle(Config, ["version"], ["WHITTLE_ATOMS=", Value]) end,
    [?assertMatch({Value, {0, _, ""}}, {Value, Atoms(Value)}) || Value <- ["", "65536", "5000000"]],
    Line = "whittle: WHITTLE_ATOMS is not a number from 65536 to 2147483647: correct or unset it\n",
    [?assertEqual({Value, {1, "", Line}}, {Value, Atoms(Value)})
     || Value <- ["x", "1", "2147483648", "99999999999999999999", "-1"]].

%% The compiler finds the applications of ERL_LIBS behind OTP's. No library that is only packed runs
%% code on this machine.
libraries(Config) ->
    Dir = ?config(dir, Config),
    Libs = filename:join(Dir, "libs"),
    Lib = filename:join(Libs, "helper-1"),
    made:app(Lib, helper, [{vsn, "1"}],
             [{helper, "-module(helper). -export([parse_transform/2]).\n"
                       "parse_transform(Forms, _) -> Forms."}]),
    made:file(filename:join(Lib, "include/helper.hrl"), "-define(HELPED, yes).\n"),
    Ran = filename:join(Dir, "ran"),
    [made:file(filename:join([Lib, "ebin", Name ++ ".beam"]),
               made:beam("-module(" ++ Name ++ "). -on_load(run/0). run() -> file:write_file(\""
                         ++ Ran ++ "\", \"\")."))
     || Name <- ["crypto", "jiffy", "sys_messages"]],
    ok = file:make_symlink("loop", filename:join(Libs, "loop")),
    Source = ["-compile({parse_transform, helper}).\n-include_lib(\"helper/include/helper.hrl\").\n"
              "-export([a/0]).\na() -> ?HELPED.\n"],
    Spec = "{application, helped, [{vsn, \"1\"}, {applications, [kernel, stdlib, helper]}]}.\n",
    [made:file(filename:join([Dir, Top, File]), Text)
     || Top <- ["plain", "project"],
        {File, Text} <- [{"src/helped.erl", ["-module(helped).\n" | Source]},
                         {"src/helped.app.src", Spec}]],
    made:file(filename:join(Dir, "project/rebar.config"), "{deps, []}.\n"),
    made:file(filename:join(Dir, "script"),
              ["#!/usr/bin/env escript\n" | Source] ++ ["main(_) -> a().\n"]),
    [?assertMatch({Input, {0, _, ""}},
                  {Input, whittle(Config, ["build", Input, "-o", "out"],
                                  ["ERL_LIBS='", Libs, "':/nowhere"])})
     || Input <- ["plain", "project", "script"]],
    %% The compiler prints the place of a warning with a module of its own.
    made:file(filename:join(Dir, "plain/src/helped.erl"),
              "-module(helped).\n-export([a/0]).\na( -> b.\n"),
    {1, "", Wrong} = whittle(Config, ["build", "plain", "-o", "out"], ["ERL_LIBS='", Libs, "'"]),
    ?assertMatch({match, _}, re:run(Wrong, "helped.erl:3:4: syntax error before: '->'")),
    ?assertNot(filelib:is_file(Ran)).

%% A name cannot change the terminal or look like a line of the command.
names_from_outside(Config) ->
    Cache = filename:join(?config(dir, Config), "cache"),
    made:file(filename:join(Cache, "artefacts/x\e[31m\nwork 1 1"), "1"),
    Env = ["WHITTLE_CACHE='", Cache, "'; export WHITTLE_CACHE; env A="],
    {0, Listed, ""} = whittle(Config, ["clean"], Env),
    ?assertMatch([_, "other" ++ _, "total" ++ _, "", _, ""], string:split(Listed, "\n", all)),
    ?assertMatch({match, _}, re:run(Listed, "artefacts/x\\\\x\\{1B}\\[31m\\\\x\\{A}work 1 1 ")),
    ?assertNot(lists:member($\e, Listed)).

%% OTP would write ~/.erlang.cookie.
node_without_cookie_file(Config) ->
    Home = filename:join(?config(dir, Config), "home"),
    ok = file:make_dir(Home),
    Env = ["unset ERLANG_COOKIE WHITTLE_COOKIE_FILE XDG_CONFIG_HOME; HOME='", Home,
           "' RELEASE_COOKIE="],
    Explain = fun(Cookie) -> whittle(Config, ["tune", "--explain", "--node", "nobody"],
                                     [Env, Cookie]) end,
    ?assertMatch({1, "", "whittle: no cookie is set, so no connection to the node is possible: set "
                         "RELEASE_COOKIE to the node's cookie, or WHITTLE_COOKIE_FILE to a file "
                         "that holds it\n"}, Explain("")),
    ?assertMatch({1, "", "whittle: nobody (without @HOST this is a node of this machine) does not "
                         "answer: " ++ _}, Explain("secret")),
    ?assertEqual({ok, []}, file:list_dir_all(Home)).

not_built(Config) ->
    {Code, "", Err} = whittle(Config, ["help"], "WHITTLE_LIB=/nowhere"),
    ?assertMatch({1, "whittle: this source tree is not compiled yet; run `make' in "
                     "/" ++ _}, {Code, Err}).

%% At a terminal the script offers to run make, and then continues. A stand-in does the work of
%% make.
not_built_offers(Config) ->
    Dir = ?config(dir, Config),
    Make = filename:join(Dir, "make"),
    Lib = filename:join(Dir, "lib"),
    ok = file:write_file(Make, ["#!/bin/sh\necho made with $1\nln -s '", ?config(lib, Config),
                                "' '", Lib, "'\n"]),
    ok = file:change_mode(Make, 8#755),
    Env = ["PATH='", Dir, "':\"$PATH\" WHITTLE_LIB='", Lib, "'"],
    No = on_terminal(Config, ["version"], Env),
    [] = made:expect(No, "Run it now\\? \\[y/N\\] "),
    true = port_command(No, "\n"),
    ?assertMatch({1, _}, to_end(No)),
    ?assertEqual(["make"], files(Config)),
    Yes = on_terminal(Config, ["version"], Env),
    [] = made:expect(Yes, "Run it now\\? \\[y/N\\] "),
    true = port_command(Yes, "y\n"),
    {0, Shown} = to_end(Yes),
    ?assertMatch({match, _}, re:run(Shown, "made with -C\r\n(.*\r)?whittle [0-9.]+\r\n$",
                                    [dotall])).

%% Internal

%% Runs the command without the progress line of stand_in. progress_in_pipes tests that line.
whittle(Config, Words) -> whittle(Config, Words, "A=").

whittle(Config, Words, Env) ->
    {Code, Out, Err} = raw(Config, Words, Env),
    {Code, Out, re:replace(Err, "^VM for .*: configure \\(1 of 3\\)\n", "", [{return, list}])}.

raw(Config, Words, Env) ->
    Err = filename:join(?config(priv_dir, Config), "stderr"),
    Port = sh(Config, [command(Config, Words, Env), " 2>'", Err, "'"]),
    {Code, Out} = to_end(Port),
    {ok, Text} = file:read_file(Err),
    {Code, Out, unicode:characters_to_list(Text)}.

%% Starts the command on a pseudo terminal. The terminal receives all input of the port as typed
%% text.
on_terminal(Config, Words, Env) ->
    started_on_terminal(Config, command(Config, Words, Env)).

%% The port is script(1), which makes the terminal and runs the line in it.
started_on_terminal(Config, Command) ->
    File = filename:join(?config(priv_dir, Config), "typed"),
    ok = file:write_file(File, Command),
    %% The parent of this VM may ignore SIGINT (a background job of a shell) or SIGHUP (nohup). A
    %% shell cannot trap an ignored signal.
    sh(Config, ["exec env --default-signal=HUP,INT,QUIT script -qefc \". '", File,
                "'\" /dev/null"]).

command(Config, Words, Env) ->
    ["WHITTLE_LIB='", ?config(lib, Config), "' WHITTLE_STAND_IN='", ?config(stand_in, Config),
     "' STAND_IN_VM='", ?config(vm, Config),
     "' ; export WHITTLE_LIB WHITTLE_STAND_IN STAND_IN_VM; ",
     Env, " '", ?config(whittle, Config), "'",
     [[" '", string:replace(Word, "'", "'\\''", all), "'"] || Word <- Words]].

sh(Config, Command) ->
    open_port({spawn_executable, "/bin/sh"},
              [{args, ["-c", unicode:characters_to_binary(Command)]},
               {cd, ?config(dir, Config)}, exit_status, binary, use_stdio]).

to_end(Port) ->
    {Code, Shown} = made:ended(Port),
    {Code, binary_to_list(Shown)}.

python(Config, Json, Program) ->
    Dir = ?config(dir, Config),
    ok = file:write_file(filename:join(Dir, "out"), Json),
    ok = file:write_file(filename:join(Dir, "p.py"), Program),
    os:cmd("cd '" ++ Dir ++ "' && python3 p.py").

files(Config) ->
    {ok, Names} = file:list_dir_all(?config(dir, Config)),
    lists:sort(Names).

lines(Text) ->
    case string:split(Text, "\n", all) of
        ["whittle: " ++ _, ""] -> one_line;
        Lines -> Lines
    end.

%% Replaces each number by N, and separates columns by one blank.
numberless(Text) ->
    lists:join($\n, [lists:join($\s, [figure(Word) || Word <- string:lexemes(Line, " ")])
                     || Line <- string:split(Text, "\n", all)]).

figure(Word) ->
    case re:run(Word, "^[0-9]+(,[0-9]{3})*(\\.[0-9])?$") of
        {match, _} -> "N";
        nomatch -> Word
    end.

%% The line of a page repeats the command: a shell reads it again as the same words.
written(_) ->
    Written = fun(Words) ->
                      {run, Module, Values} = whittle_command_line:parse(Words),
                      unicode:characters_to_list(
                        whittle_command_line:to_shell(Module:command(),
                                                     [only, blocks, workload, 'try'], Values))
              end,
    ?assertEqual("whittle measure 'a b.study' --only x=1 --only y=2 --blocks 3",
                 Written(["measure", "a b.study", "--json", "--blocks", "3", "--only", "x=1",
                          "--only", "y=2"])),
    ?assertEqual("whittle tune prog --try 'a b c' --workload 'echo \x{e9}'",
                 Written(["tune", "prog", "--workload", "echo \x{e9}", "--try", "a b c"])).
