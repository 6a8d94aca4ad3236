%% Implements the command acceptance/targets: it builds the examples for every target and flavor,
%% runs them in the target's emulator, and prints the results as a table.
-module(targets).

-export([main/2]).

-define(USAGE,
"usage: acceptance/targets [--pairs N] [--flavor F] [TARGET...]

Builds examples/hello and examples/relay for each target (default: all targets) and each
flavor of it, runs them under qemu-user, and prints a table. The time is that from the start
to hello's last line, divided by the time of the program for this machine's own processor.
Both run under qemu-user, one after the other.

  --pairs N    start both programs N times (default: 15)
  --flavor F   build only this flavor: size or speed

exit code: 0 all programs ran; 1 a program failed; 2 usage error
").

-type row() ::
        #{target := string(), flavor := string(),
          vm := {pos_integer(), pos_integer()},     % bytes, raw and compressed
          hello := {pos_integer(), pos_integer()},
          passed := [string()],
          failed := [{string(), string()}],         % with the output
          ratios := [float()]}.

-spec main([string()], file:filename()) -> 0..2.
main(Words, Root) ->
    try words(Words, #{pairs => 15, flavors => ["size", "speed"], targets => []}) of
        help -> io:put_chars(?USAGE), 0;
        #{pairs := Pairs, targets := Named, flavors := Flavors} ->
            true = os:putenv("WHITTLE_TARGETS", lists:flatten(lists:join(" ", Named))),
            Builds = [{Target, Flavor} || Target <- emulated:targets(),
                                           Flavor <- emulated:flavors(Target),
                                           lists:member(Flavor, Flavors)],
            measured(Builds, Pairs, filename:join([Root, "out", "targets"]))
    catch
        throw:{usage, What} -> say("targets: ~ts; try --help", [What]), 2;
        error:{no_such_target, Names} -> say("targets: there is no ~ts", [hd(Names)]), 2
    end.

words([], Options) -> Options;
words(["--help" | _], _) -> help;
words(["--pairs", Number | Rest], Options) ->
    try list_to_integer(Number) of
        Pairs when Pairs > 0 -> words(Rest, Options#{pairs := Pairs});
        _ -> throw({usage, "--pairs takes a number"})
    catch
        error:badarg -> throw({usage, "--pairs takes a number"})
    end;
words(["--flavor", Flavor | Rest], Options) when Flavor =:= "size"; Flavor =:= "speed" ->
    words(Rest, Options#{flavors := [Flavor]});
words(["-" ++ _ = Word | _], _) -> throw({usage, "unknown option " ++ Word});
words([Target | Rest], Options = #{targets := Targets}) ->
    words(Rest, Options#{targets := Targets ++ [Target]}).

measured(Builds, Pairs, Out) ->
    ok = filelib:ensure_path(Out),
    Default = whittle_runtime:default_target(),
    [Ours] = [T || T = #{name := Name} <- whittle_runtime:targets(), Name =:= Default],
    Beside = build(Ours, "size", "hello", Out),
    Rows = [row(Target, Flavor, {Ours, Beside}, Pairs, Out)
            || {Target, Flavor} <- Builds],
    io:put_chars(table(Rows, Default, Pairs)),
    [say("~ts ~ts ~ts: ~ts", [Target, Flavor, What, Said])
     || #{target := Target, flavor := Flavor, failed := Failed} <- Rows,
        {What, Said} <- Failed],
    case [Row || #{failed := [_ | _]} = Row <- Rows] of
        [] -> 0;
        _ -> 1
    end.

-spec row(whittle_target:target(), string(), {whittle_target:target(), file:filename()},
          pos_integer(), file:filename()) -> row().
row(Target = #{name := Name}, Flavor, Beside, Pairs, Out) ->
    say("~ts ~ts", [Name, Flavor]),
    [Hello, Relay] = [build(Target, Flavor, Example, Out) || Example <- ["hello", "relay"]],
    Tried = [{What, tried(Do)}
             || {What, Do} <- [{"hello", fun() -> hello(Target, Hello) end},
                               {"relay", fun() -> relay(Target, Relay) end}]],
    Passed = [What || {What, ok} <- Tried],
    #{target => Name, flavor => Flavor, vm => sizes(vm(Target, Flavor)),
      hello => sizes(Hello), passed => Passed,
      failed => [{What, Why} || {What, {failed, Why}} <- Tried],
      ratios => [ratio({Target, Hello}, Beside) || lists:member("hello", Passed),
                                                   _ <- lists:seq(1, Pairs)]}.

build(#{name := Name}, Flavor, Example, Out) ->
    running:build(running:example(Example),
                  filename:join(Out, lists:join("-", [Example, Name, Flavor])),
                  ["--target", Name, "--vm", Flavor]).

%% Returns the VM without a pack from the cache; the build of hello has just put it there.
vm(#{name := Name}, Flavor) ->
    {ok, #{executable := File}} =
        whittle_runtime:ensure(#{target => Name, otp => whittle_runtime:default_otp(),
                                 flavor => list_to_atom(Flavor), natives => []}, #{}),
    File.

sizes(File) ->
    {0, Said} = running:run("/bin/sh", ["-c", "xz -9e -c \"$0\" | wc -c", File]),
    {filelib:file_size(File), binary_to_integer(string:trim(Said))}.

%%% Runs

tried(Do) ->
    try
        Do(),
        ok
    catch
        _:Reason -> {failed, io_lib:format("~0tP", [Reason, 40])}
    end.

hello(Target, File) ->
    {0, <<"Hello from one file.\n">>} = running:ended(emulated:start(Target, File, [], [])).

%% Two nodes run: a line from a client of one reaches the client of the other.
relay(Target, File) ->
    Epmd = running:free_port(),
    Nodes = [relay(Target, File, Epmd, Name, Others)
             || {Name, Others} <- [{"relay_one", []}, {"relay_other", ["relay_one"]}]],
    try
        [Sender, Reader] = [begin
                                {ok, Socket} = gen_tcp:connect("localhost", port(Node),
                                                               [binary, {packet, line}]),
                                Socket
                            end || Node <- Nodes],
        relayed(Sender, Reader, 10_000),
        [running:signal(Node, "TERM") || Node <- Nodes],
        [{0, _} = running:ended(Node) || Node <- Nodes]
    after
        [catch running:signal(Node, "KILL") || Node <- Nodes],
        running:end_epmd(Epmd)
    end.

port(Node) ->
    {match, [Port]} = re:run(running:line(Node), "port (\\d+)", [{capture, [1], list}]),
    list_to_integer(Port).

%% Before the nodes have found each other, a line reaches its sender only. The mailbox may still
%% hold lines of the target before.
relayed(Sender, Reader, Tries) ->
    ok = gen_tcp:send(Sender, "hello over there\n"),
    receive
        {tcp, Reader, <<"hello over there\n">>} -> ok;
        {tcp, Sender, _} when Tries > 0 -> relayed(Sender, Reader, Tries - 1);
        {tcp_closed, Socket} when Socket =:= Sender; Socket =:= Reader -> error(not_relayed)
    after 120_000 ->
            error(not_relayed)
    end.

relay(Target, File, Epmd, Name, Others) ->
    Flags = io_lib:format("-relay port 0 -relay nodes \"~0p\" -relay retry 50",
                          [[list_to_atom(Other ++ "@127.0.0.1") || Other <- Others]]),
    emulated:start(Target, File, [],
                   [{"ERL_FLAGS", lists:flatten(Flags)}, {"RELEASE_NODE", Name ++ "@127.0.0.1"},
                    {"RELEASE_DISTRIBUTION", "name"}, {"RELEASE_COOKIE", "crumb"},
                    {"ERL_EPMD_PORT", integer_to_list(Epmd)}]).

%%% Times

ratio(This, Other) -> until_its_line(This) / until_its_line(Other).

until_its_line({Target, File}) ->
    Begun = erlang:monotonic_time(),
    Port = emulated:start_emulated(Target, File, [], []),
    _ = running:line(Port),
    Took = erlang:monotonic_time() - Begun,
    {0, _} = running:ended(Port),
    Took.

%%% The table

table(Rows, Default, Pairs) ->
    ["<!-- Written by `make targets`. -->\n"
     "| target | flavor | VM | under `xz -9e` | hello | under `xz -9e` |"
     " start, ", Default, " = 1 | passed | failed |\n"
     "|---|---|--:|--:|--:|--:|--:|---|---|\n",
     [["| ", Name, " | ", Flavor, [[" | ", grouped(Bytes)] || Bytes <- [Vm, VmXz, Hello, HelloXz]],
       " | ", times(lists:sort(Ratios)), " | ", list(Passed), " | ", list([W || {W, _} <- Failed]),
       " |\n"]
      || #{target := Name, flavor := Flavor, vm := {Vm, VmXz}, hello := {Hello, HelloXz},
           passed := Passed, failed := Failed, ratios := Ratios} <- Rows],
     "\nSizes are in bytes. `start` is the time from the start to hello's last line, divided by\n"
     "that of the flavor `size` for ", Default, ". Both run under qemu-user. The figure is the\n"
     "median of ", integer_to_list(Pairs), " pairs (with the quartiles).\n"].

times([]) -> "–";
times(Sorted) ->
    At = fun(Part) -> lists:nth(1 + round(Part * (length(Sorted) - 1)), Sorted) end,
    io_lib:format("~.2f (~.2f to ~.2f)", [At(0.5), At(0.25), At(0.75)]).

list([]) -> "–";
list(Names) -> lists:join(", ", Names).

grouped(Bytes) when Bytes < 1000 -> integer_to_list(Bytes);
grouped(Bytes) -> [grouped(Bytes div 1000), io_lib:format(",~3..0b", [Bytes rem 1000])].

say(Format, Arguments) ->
    io:format(standard_error, Format ++ "~n", Arguments).
