%% Tests the cache with two builds at once, killed builds and failed builds. Builds that a test
%% kills, or that must meet another build, run in separate Erlang VMs. The tests wait for the
%% output of those VMs and for pipes to end, and never for a time.
-module(whittle_cache_SUITE).

-include_lib("kernel/include/file.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2]).
-export([builds_once/1, two_builds_at_once/1, killed_build_starts_clean/1,
         killed_build_goes_with_another/1, not_ours_stays/1, no_link_is_followed/1,
         stopped_build_leaves_nothing/1, caller_dies_build_dies/1,
         caller_dies_program_dies/1, failure_leaves_nothing/1,
         first_error_is_told/1, full_disk/1, changed/1, always/1, open_to_others/1,
         source_open_to_others/1, unwritable/1, no_place/1, links_of_others/1, keys/1,
         private_locks/1]).
%% Entry points of the other VMs
-export([build_in_vm/1]).

all() ->
    [builds_once, two_builds_at_once, killed_build_starts_clean,
     killed_build_goes_with_another, not_ours_stays, no_link_is_followed,
     stopped_build_leaves_nothing, caller_dies_build_dies, caller_dies_program_dies,
     failure_leaves_nothing,
     first_error_is_told, full_disk, changed, always, open_to_others, source_open_to_others,
     unwritable, no_place, links_of_others, keys, private_locks].

init_per_testcase(Case, Config) ->
    [{dir, Dir} | _] = Own = made:dir(Case, Config),
    %% A build step opens the pipe `alive', holds it open while it lives, and ends when it reads
    %% from the pipe `go'. It writes to `started' that it runs.
    [0 = status("mkfifo", [filename:join(Dir, Pipe)]) || Pipe <- ["alive", "go"]],
    Own.

builds_once(Config) ->
    Self = self(),
    Make = fun(#{out := Out}) ->
                   Self ! made,
                   ok = file:write_file(filename:join(Out, "a"), "a"),
                   {ok, #{answer => 42}}
           end,
    Options = #{cache => dir(Config)},
    {ok, First} = whittle_cache:artifact("thing", in, Make, Options),
    ?assertMatch(#{answer := 42}, First),
    ?assertEqual({ok, First}, whittle_cache:artifact("thing", in, Make, Options)),
    ?assertEqual({ok, <<"a">>}, file:read_file(filename:join(maps:get(dir, First), "a"))),
    ?assertEqual(1, received(made)),
    {ok, Other} = whittle_cache:artifact("thing", other, Make, Options),
    ?assertNotEqual(maps:get(dir, First), maps:get(dir, Other)),
    ?assertEqual([], leftovers(Config)).

two_builds_at_once(Config) ->
    One = start_vm(Config),
    await(One, "started"),
    Two = start_vm(Config),
    await(Two, "waiting for another build of this artifact"),
    let_go(Config),
    ?assertEqual(await(One, "done "), await(Two, "done ")),
    {ok, Builds} = file:read_file(filename:join(dir(Config), "builds")),
    ?assertEqual(<<"built\n">>, Builds),
    ?assertEqual([], leftovers(Config)).

killed_build_starts_clean(Config) ->
    Vm = start_vm(Config),
    await(Vm, "started"),
    Alive = holder(Config),
    ?assertMatch([_], leftovers(Config)),
    {os_pid, Pid} = erlang:port_info(Vm, os_pid),
    0 = status("kill", ["-KILL", integer_to_list(Pid)]),
    await_end(Alive),
    %% The killed build leaves no artifact, and the next build removes its directory.
    Next = start_vm(Config),
    await(Next, "started"),
    let_go(Config),
    await(Next, "done "),
    ?assertEqual([], leftovers(Config)).

%% The next build of any name removes the directory of a killed build, and no running build's.
killed_build_goes_with_another(Config) ->
    Other = fun(Inputs) ->
                    {ok, _} = whittle_cache:artifact("other", Inputs, fun(_) -> {ok, #{}} end,
                                                     #{cache => dir(Config)})
            end,
    Vm = start_vm(Config),
    await(Vm, "started"),
    Alive = holder(Config),
    Other(1),
    ?assertMatch([_], leftovers(Config)),
    {ok, Entries} = whittle_cache_clean:entries(#{cache => dir(Config)}),
    ?assertMatch([#{in_use := true}], [E || #{kind := work} = E <- Entries]),
    ?assertEqual([{error, in_use}],
                 lists:usort([whittle_cache_clean:remove(E, #{cache => dir(Config)})
                              || #{kind := Kind} = E <- Entries, Kind =/= log])),
    {os_pid, Pid} = erlang:port_info(Vm, os_pid),
    0 = status("kill", ["-KILL", integer_to_list(Pid)]),
    await_end(Alive),
    %% The holder of the lock ends when the VM is gone.
    [Lock] = [filename:join([dir(Config), "locks", Name])
              || #{kind := work, name := Work} <- Entries, [Name, _] <- [string:split(Work, "@")]],
    0 = status("flock", [Lock, "true"]),
    Other(2),
    ?assertEqual([], leftovers(Config)).

%% The cache is a directory with other files too. Neither `clean' nor the next build removes
%% them, even if a name looks like one of Whittle's.
not_ours_stays(Config) ->
    Options = #{cache => dir(Config)},
    Build = fun(In) -> whittle_cache:artifact("thing", In, fun(_) -> {ok, #{}} end, Options) end,
    {ok, #{dir := Artifact}} = Build(1),
    Hex = "-0123456789abcdef",
    Others = ["work/thesis.txt", "work/thesis/text", "work/thesis@1/text",
              "work/thing" ++ Hex ++ "@1/no-lock", "sources/main.c", "sources/erlang-29/main.c",
              "sources/main-01234567", "sources/main-89abcdef/main.c", "artefacts/thing" ++ Hex,
              "artefacts/thing-fedcba9876543210/no-description", "artefacts/my/whittle.config",
              "logs/letters", "logs/thing" ++ Hex ++ ".log", "logs/no\nname" ++ Hex ++ ".log"],
    [made:file(filename:join(dir(Config), Other), "mine") || Other <- Others],
    Kept = fun() -> [Other || Other <- Others,
                              filelib:is_regular(filename:join(dir(Config), Other))] end,
    made:file(filename:join([dir(Config), "logs", filename:basename(Artifact) ++ ".log"]), "ours"),
    {ok, _} = Build(2),
    ?assertEqual(Others, Kept()),
    Locks = filelib:wildcard("*", filename:join(dir(Config), "locks")),
    {ok, Entries} = whittle_cache_clean:entries(Options),
    ?assertEqual([{part, ok}, {part, ok}, {log, ok}],
                 [{Kind, Done} || #{kind := Kind} = Entry <- Entries,
                                  Done <- [whittle_cache_clean:remove(Entry, Options)],
                                  Done =/= {error, not_ours}]),
    ?assertEqual(Others, Kept()),
    ?assertEqual(length(Others), length([E || #{kind := other} = E <- Entries])),
    ?assertNot(filelib:is_dir(Artifact)),
    ?assertEqual(Locks, filelib:wildcard("*", filename:join(dir(Config), "locks"))).

%% A symbolic link in work/, or in place of work/ or of another directory of the cache.
no_link_is_followed(Config) ->
    Cache = filename:join(dir(Config), "cache"),
    Options = #{cache => Cache},
    Build = fun(In) ->
                    {ok, _} = whittle_cache:artifact("thing", In, fun(_) -> {ok, #{}} end, Options)
            end,
    Build(1),
    [Lock] = filelib:wildcard("thing-*", filename:join(Cache, "locks")),
    Theirs = filename:join(dir(Config), "theirs"),
    Names = [Lock ++ "@1/text", Lock ++ "/whittle.config", Lock ++ ".log"],
    [made:file(filename:join(Theirs, Name), "text") || Name <- Names],
    Untouched = fun() ->
                        ?assertEqual(Names, [Name || Name <- Names, filelib:is_regular(
                                                                      filename:join(Theirs, Name))])
                end,
    In = fun(Name) -> filename:join(Cache, Name) end,
    ok = file:make_symlink(filename:join(Theirs, Lock ++ "@1"), In("work/" ++ Lock ++ "@2")),
    ok = file:make_symlink(filename:join(Theirs, Lock), In("artefacts/other-0123456789abcdef")),
    Build(2),
    {ok, Entries} = whittle_cache_clean:entries(Options),
    ?assertEqual(2, length([E || #{kind := other} = E <- Entries])),
    [whittle_cache_clean:remove(Entry, Options) || Entry <- Entries],
    Untouched(),
    ?assertMatch({ok, _}, file:read_link(In("work/" ++ Lock ++ "@2"))),
    ok = file:delete(In("work/" ++ Lock ++ "@2")),
    ok = file:delete(In("artefacts/other-0123456789abcdef")),
    [begin
         Link = In(Sub),
         ok = filelib:ensure_path(Link),
         ok = file:rename(Link, Link ++ ".away"),
         ok = file:make_symlink(Theirs, Link),
         ?assertEqual({error, {cache_link, #{link => Link}}},
                      whittle_cache_clean:entries(Options)),
         ok = whittle_cache_clean:sweep(Cache, "own", fun() -> ok end),
         Untouched(),
         ok = file:delete(Link),
         ok = file:rename(Link ++ ".away", Link)
     end || Sub <- ["artefacts", "sources", "work", "logs", "locks"]],
    ?assertMatch({ok, _}, whittle_cache_clean:entries(Options)).

%% A build that the user stops removes its directory at once.
stopped_build_leaves_nothing(Config) ->
    Make = fun(#{work := Work}) ->
                   true = filelib:is_dir(Work),
                   [] = whittle_unfinished:undo_all(),
                   ?assertEqual([], leftovers(Config)),
                   {error, {stopped, #{}}}
           end,
    ?assertEqual({error, {stopped, #{}}},
                 whittle_cache:artifact("thing", in, Make, #{cache => dir(Config)})).

caller_dies_build_dies(Config) ->
    {Caller, Monitor} = spawn_monitor(fun() -> slow_build(dir(Config), fun(_) -> ok end) end),
    Alive = holder(Config),
    exit(Caller, kill),
    receive {'DOWN', Monitor, _, _, killed} -> ok end,
    await_end(Alive).

%% The program stands for apt, which may fetch for minutes.
caller_dies_program_dies(Config) ->
    Script = "exec 9> \"$0/alive\"; echo open >&9; read word < \"$0/go\"",
    {Caller, Monitor} = spawn_monitor(
                          fun() -> whittle_program:capture("sh", ["-c", Script, dir(Config)]) end),
    Alive = holder(Config),
    exit(Caller, kill),
    receive {'DOWN', Monitor, _, _, killed} -> ok end,
    await_end(Alive).

failure_leaves_nothing(Config) ->
    {error, {step_failed, Context}} =
        run_recipe(Config, ["echo some words", "false", "echo never"]),
    #{step := "try", status := 1, log := Log, tail := Tail} = Context,
    ?assertEqual([<<"some words">>], Tail),
    {ok, Said} = file:read_file(Log),
    ?assertEqual(<<"=== try\nsome words\n">>, Said),
    ?assertEqual([], leftovers(Config)),
    ?assertEqual({ok, []}, file:list_dir(filename:join(dir(Config), "artefacts"))),
    ?assertMatch({ok, _}, run_recipe(Config, ["echo better"])).

%% A person has to correct the first error, even if much output follows it.
first_error_is_told(Config) ->
    Tail = fun(Script) ->
                   {error, {step_failed, #{tail := Lines}}} = run_recipe(Config, Script),
                   [binary_to_list(Line) || Line <- Lines]
           end,
    Much = "for n in $(seq 1 2000); do echo \"cc -Werror=all -c strerror$n.c\"; done",
    ?assertEqual(["cc -Werror=all -c strerror1999.c", "cc -Werror=all -c strerror2000.c",
                  "a.c:3:1: error: no such thing", "    3 | thing", "[2000 lines]",
                  "b.c:1:1: error: another", "make: *** [a.o] Error 1", "x", "y", "z"],
                 shorter(Tail([Much, "echo 'a.c:3:1: error: no such thing'", "echo '    3 | thing'",
                               "for n in 1 2 3 4 5; do echo said; done", Much,
                               "echo 'b.c:1:1: error: another'", "echo 'make: *** [a.o] Error 1'",
                               "echo x", "echo y", "echo z", "false"]))),
    %% An error near the end is among the last lines. A log without an error shows only those.
    ?assertEqual(["a.c:1:1: fatal error: none", "make: *** Error 1"],
                 Tail(["echo 'a.c:1:1: fatal error: none'", "echo 'make: *** Error 1'", "false"])),
    ?assertEqual(15, length(Tail([Much, "false"]))).

%% Removes the lines between the error and the cut.
shorter(Lines) -> [Line || Line <- Lines, Line =/= "said"].

full_disk(Config) ->
    ?assertMatch({error, {disk_full, _}},
                 run_recipe(Config, ["cat /etc/passwd > /dev/full"])),
    %% A log that cannot be written does not stop the build.
    Place = #{work => dir(Config), out => dir(Config), log => "/dev/full", id => ""},
    Recipe = [#{name => "try", seconds => 1, lines => 1, script => ["echo some words"]}],
    ?assertEqual(ok, whittle_recipe:run("test", Recipe, [], Place, #{})).

%% The check finds and names every change of an artifact.
changed(Config) ->
    Options = #{cache => dir(Config)},
    {ok, #{dir := Dir}} = artifact(Config),
    In = fun(Path) -> filename:join(Dir, Path) end,
    Verify = fun() -> whittle_cache:verify(Dir, [], Options) end,
    Found = fun(Path) ->
                    File = In(Path),
                    {error, {changed_artifact, #{file := File}}} = Verify()
            end,
    ?assertEqual(ok, Verify()),
    %% A restored modification time hides no change, and a new one alone is no change.
    {ok, #file_info{mtime = Time}} = file:read_file_info(In("below/a b")),
    ok = file:write_file(In("below/a b"), "axiom"),
    ok = file:change_time(In("below/a b"), {{2001, 2, 3}, {4, 5, 6}}),
    Found("below/a b"),
    ?assertEqual(In("below/a b") ++ " has changed since Whittle built it, so Whittle does not use "
                 "it; remove the directory " ++ Dir ++ " and build again",
                 lists:flatten(whittle_runtime:format_error(element(2, Verify())))),
    ok = file:write_file(In("below/a b"), "words"),
    ?assertEqual(ok, Verify()),
    ok = file:write_file(In("below/a b"), "wards"),
    ok = file:change_time(In("below/a b"), Time),
    Found("below/a b"),
    ok = file:delete(In("below/a b")),
    Found("below/a b"),
    ok = file:make_symlink("../vm", In("below/a b")),
    Found("below/a b"),
    ok = file:delete(In("below/a b")),
    ok = file:write_file(In("below/a b"), "words"),
    ok = file:write_file(In("below/more"), ""),
    Found("below/more"),
    ok = file:delete(In("below/more")),
    ok = file:delete(In("link")),
    ok = file:make_symlink("elsewhere", In("link")),
    Found("link"),
    ok = file:delete(In("link")),
    ok = file:make_symlink("vm", In("link")),
    ?assertEqual(ok, Verify()),
    ok = file:write_file(In("whittle.sums"), "nothing"),
    Found("whittle.sums"),
    ok = file:delete(In("whittle.sums")),
    "" = os:cmd("mkfifo '" ++ In("whittle.sums") ++ "'"),
    Found("whittle.sums"),
    ok = file:delete(In("whittle.sums")),
    Found("whittle.sums"),
    ?assertEqual(In("whittle.sums") ++ " is missing, so Whittle cannot check the directory; remove "
                 "the directory " ++ Dir ++ " and build again",
                 lists:flatten(whittle_runtime:format_error(element(2, Verify())))).

%% The check reads a file with equal metadata if the caller asks for that.
always(Config) ->
    {ok, #{dir := Dir}} = artifact(Config),
    Sums = filename:join(Dir, "whittle.sums"),
    {ok, Text} = file:read_file(Sums),
    Sum = fun(Bytes) -> list_to_binary(whittle_digest:hex(crypto:hash(sha256, Bytes))) end,
    ok = file:write_file(Sums, binary:replace(Text, Sum("machine"), Sum("others"))),
    %% The files of this artifact are older than their checksums.
    Later = erlang:system_time(second) + 60,
    ok = file:change_time(Sums, calendar:system_time_to_local_time(Later, second)),
    ?assertEqual(ok, whittle_cache:verify(Dir, [], #{cache => dir(Config)})),
    ?assertMatch({error, {changed_artifact, _}},
                 whittle_cache:verify(Dir, ["vm"], #{cache => dir(Config)})).

%% The cache uses nothing that others can write, and creates nothing that others can write, with
%% any umask. It checks a source again at each use.
source_open_to_others(Config) ->
    Make = fun(Out) ->
                   File = filename:join(Out, "source.tar"),
                   ok = file:write_file(File, "bytes"),
                   ok = file:change_mode(File, 8#666),
                   {ok, #{main => "source.tar", sums => #{"source.tar" => <<"sum">>}}}
           end,
    Use = fun() -> whittle_cache:source("thing-1", Make, #{cache => dir(Config)}) end,
    {ok, #{main := File}} = Use(),
    {ok, #file_info{mode = Mode}} = file:read_file_info(File),
    ?assertEqual(0, Mode band 8#022),
    Meta = filename:join(filename:dirname(File), "whittle.config"),
    [begin
         ok = file:change_mode(Path, 8#646),
         ?assertMatch({error, {open_artifact, #{file := Path, why := writable}}}, Use()),
         ok = file:change_mode(Path, 8#644)
     end || Path <- [File, Meta]].

open_to_others(Config) ->
    {ok, #{dir := Dir}} = artifact(Config),
    Options = #{cache => dir(Config)},
    In = fun(Path) -> filename:join(Dir, Path) end,
    Used = fun() ->
                   case artifact(Config) of
                       {ok, #{dir := Dir}} -> whittle_cache:verify(Dir, [], Options);
                       Error -> Error
                   end
           end,
    ?assertEqual(ok, Used()),
    [begin
         {ok, #file_info{mode = Mode}} = file:read_file_info(Path),
         ?assertEqual({Path, 0}, {Path, Mode band 8#022}),
         [begin
              ok = file:change_mode(Path, Mode bor Bit),
              ?assertMatch({error, {open_artifact, #{file := Path, why := writable}}}, Used())
          end || Bit <- [8#020, 8#002]],
         ok = file:change_mode(Path, Mode)
     end || Path <- [dir(Config), filename:dirname(Dir), Dir, In("below"), In("below/a b")]],
    %% A link may lead to files of others.
    [begin
         Moved = Path ++ ".moved",
         ok = file:rename(Path, Moved),
         ok = file:make_symlink(Moved, Path),
         ?assertMatch({error, {changed_artifact, #{file := Path}}}, Used()),
         ok = file:delete(Path),
         ok = file:rename(Moved, Path)
     end || Path <- [Dir, In("whittle.sums")]],
    %% Only root can change the owner of a file.
    [begin
         ?assertMatch({error, {open_artifact, #{file := Path, why := {owner, 65534}}}}, Used()),
         ok = file:change_owner(Path, 0)
     end || Path <- [dir(Config), Dir, In("below"), In("vm")],
            file:change_owner(Path, 65534) =:= ok],
    ?assertEqual(ok, Used()).

%% Creates files and directories that everybody may write, as with a umask of zero.
artifact(Config) ->
    Make = fun(#{out := Out, work := Work}) ->
                   {ok, #file_info{mode = Mode}} = file:read_file_info(Work),
                   ?assertEqual(0, Mode band 8#077),
                   ok = file:make_dir(filename:join(Out, "below")),
                   [begin
                        ok = file:write_file(filename:join(Out, Path), Bytes),
                        ok = file:change_mode(filename:join(Out, Path), 8#666)
                    end || {Path, Bytes} <- [{"vm", "machine"}, {"below/a b", "words"}]],
                   ok = file:make_symlink("vm", filename:join(Out, "link")),
                   ok = file:change_mode(filename:join(Out, "below"), 8#777),
                   ok = file:change_mode(Out, 8#777),
                   {ok, #{}}
           end,
    whittle_cache:artifact("open", in, Make, #{cache => dir(Config)}).

unwritable(Config) ->
    Blocked = filename:join(dir(Config), "file"),
    ok = file:write_file(Blocked, ""),
    Result = whittle_cache:artifact("thing", in, fun(_) -> {ok, #{}} end,
                                    #{cache => Blocked}),
    ?assertMatch({error, {cache_unwritable, _}}, Result),
    %% If a lock cannot be opened, that does not mean that somebody holds it.
    Locks = filename:join(dir(Config), "locks"),
    ok = filelib:ensure_path(Locks),
    ok = file:make_symlink("/nowhere/lock", filename:join(Locks, "locked")),
    Make = fun(_) -> error(not_reached) end,
    ?assertEqual({error, {cache_unwritable, #{dir => Locks, reason => enoent}}},
                 whittle_cache:source("locked", Make, #{cache => dir(Config)})).

%% Another user could lead a link of theirs elsewhere at any time. Only root can make such a link
%% here.
links_of_others(Config) ->
    In = fun(Path) -> filename:join(dir(Config), Path) end,
    Make = fun(Out) when is_list(Out) -> {ok, #{main => "source.tar", sums => #{}}};
              (#{}) -> {ok, #{}}
           end,
    Uses = fun(Root) ->
                   Options = #{cache => Root},
                   [whittle_cache:artifact("thing", in, Make, Options),
                    whittle_cache:source("thing-1", Make, Options)]
           end,
    ok = filelib:ensure_path(In("there/whittle")),
    [ok = file:change_mode(In(Path), 8#755) || Path <- ["there", "there/whittle"]],
    ok = file:make_symlink("there", In("first")),
    ok = file:make_symlink(In("first/../first"), In("second")),
    [?assertMatch([{ok, _}, {ok, _}], Uses(In(Path)))
     || Path <- ["there/whittle", "first/whittle", "second/whittle"]],
    %% The target of a link is open to others.
    ok = file:change_mode(In("there/whittle"), 8#757),
    [?assertMatch([{error, {open_artifact, #{file := Root, why := writable}}}, {error, _}],
                  Uses(Root)) || Root <- [In("first/whittle")]],
    ok = file:change_mode(In("there/whittle"), 8#755),
    %% So is a directory on the way. Where all users may write, a sticky directory is right.
    There = In("there"),
    ok = file:change_mode(There, 8#757),
    [?assertMatch([{error, {open_artifact, #{file := There, why := not_sticky}}}, {error, _}],
                  Uses(In(Path))) || Path <- ["there/whittle", "first/whittle"]],
    "" = os:cmd("chmod 1777 '" ++ There ++ "'"),
    ?assertMatch([{ok, _}, {ok, _}], Uses(In("there/whittle"))),
    ok = file:change_mode(There, 8#755),
    First = In("first"),
    "" = os:cmd("chown -h 65534 '" ++ First ++ "' 2>/dev/null"),
    case file:read_link_info(First) of
        {ok, #file_info{uid = 65534}} ->
            Refused = {open_artifact, #{file => First, dir => First, why => {owner, 65534}}},
            [?assertEqual([{error, Refused}, {error, Refused}], Uses(In(Path)))
             || Path <- ["first/whittle", "second/whittle", "first", "second"]],
            ?assertEqual({error, Refused},
                         whittle_cache_clean:entries(#{cache => In("second/whittle")})),
            [ok = whittle_cache:reading(fun() -> ok end, #{cache => In("second/new")}),
             ?assertNot(filelib:is_file(In("there/new")))];
        {ok, _} ->
            {comment, "a part needs root"}
    end.

no_place(_) ->
    Names = ["WHITTLE_CACHE", "XDG_CACHE_HOME", "HOME"],
    Before = [{Name, Value} || Name <- Names, Value <- [os:getenv(Name)], Value =/= false],
    try
        lists:foreach(fun os:unsetenv/1, Names),
        ?assertEqual({error, {no_cache, #{}}}, whittle_cache_dir:root(#{})),
        ?assertEqual({error, {no_cache, #{}}},
                     whittle_cache:artifact("thing", in, fun(_) -> error(not_reached) end, #{})),
        os:putenv("HOME", "/home/somebody"),
        ?assertEqual({ok, "/home/somebody/.cache/whittle"}, whittle_cache_dir:root(#{})),
        os:putenv("XDG_CACHE_HOME", "caches"),
        ?assertEqual({ok, "/home/somebody/.cache/whittle"}, whittle_cache_dir:root(#{})),
        os:putenv("XDG_CACHE_HOME", "/caches"),
        ?assertEqual({ok, "/caches/whittle"}, whittle_cache_dir:root(#{})),
        os:putenv("WHITTLE_CACHE", "/here"),
        ?assertEqual({ok, "/here"}, whittle_cache_dir:root(#{})),
        %% Compilers would split such a path.
        [begin
             os:putenv("WHITTLE_CACHE", Path),
             Refused = {error, {cache_space, #{dir => Path}}},
             ?assertEqual(Refused, whittle_cache_dir:root(#{})),
             ?assertEqual(Refused,
                          whittle_cache:artifact("thing", in, fun(_) -> error(not_reached) end,
                                                 #{}))
         end || Path <- ["/of mine", "/of\tmine", "/of\nmine"]],
        os:unsetenv("WHITTLE_CACHE"),
        os:putenv("XDG_CACHE_HOME", "/of mine"),
        ?assertEqual({error, {cache_space, #{dir => "/of mine/whittle"}}},
                     whittle_cache_dir:root(#{}))
    after
        lists:foreach(fun os:unsetenv/1, Names),
        [os:putenv(Name, Value) || {Name, Value} <- Before]
    end.

%% Equal inputs have one key, with any order of the map's insertions.
keys(Config) ->
    Options = #{cache => dir(Config)},
    Key = fun(Inputs) ->
                  {ok, #{id := Id}} = whittle_cache:artifact(
                                        "k", Inputs, fun(_) -> {ok, #{}} end, Options),
                  Id
          end,
    Pairs = [{N, integer_to_list(N)} || N <- lists:seq(1, 100)],
    Up = maps:from_list(Pairs),
    Down = lists:foldl(fun({K, V}, M) -> M#{K => V} end, #{}, lists:reverse(Pairs)),
    ?assertEqual(Key(#{a => Up}), Key(#{a => Down})),
    ?assertNotEqual(Key(#{a => Up}), Key(#{a => Up#{1 := "one"}})).

%%% Builds

run_recipe(Config, Script) ->
    Options = #{cache => dir(Config)},
    Recipe = [#{name => "try", seconds => 1, lines => 1, script => Script}],
    Make = fun(Place) ->
                   case whittle_recipe:run("test", Recipe, [], Place, Options) of
                       ok -> {ok, #{}};
                       Error -> Error
                   end
           end,
    whittle_cache:artifact("thing", Script, Make, Options).

slow_build(Dir, Progress) ->
    Options = #{cache => Dir, progress => Progress},
    Recipe = [#{name => "slow", seconds => 1, lines => 10,
              script => ["for n in 1 2 3 4 5 6 7 8 9; do echo $n; done",
                         "exec 9> \"$DIR/alive\"", "echo open >&9",
                         "read word < \"$DIR/go\"",
                         "echo built >> \"$DIR/builds\"",
                         "echo whole > \"$OUT/file\""]}],
    Make = fun(Place) ->
                   ok = whittle_recipe:run("slow", Recipe, [{"DIR", Dir}], Place, Options),
                   {ok, #{}}
           end,
    whittle_cache:artifact("slow", in, Make, Options).

build_in_vm([Dir]) ->
    Tell = fun(#{percent := Percent}) when Percent > 50 -> io:format("started~n");
              (#{step := Step}) -> io:format("~s~n", [Step])
           end,
    {ok, #{dir := Built}} = slow_build(Dir, Tell),
    {ok, <<"whole\n">>} = file:read_file(filename:join(Built, "file")),
    io:format("done ~s~n", [Built]),
    halt(0).

start_vm(Config) ->
    Paths = [filename:dirname(code:which(M)) || M <- [?MODULE, whittle_cache, whittle_lock]],
    open_port({spawn_executable, os:find_executable("erl")},
              [{args, ["-noshell", "-pa" | Paths]
                ++ ["-run", atom_to_list(?MODULE), "build_in_vm", dir(Config)]},
               {line, 1000}, exit_status]).

%%% Events

%% Waits for the first line that begins with Start, and returns its rest.
await(Vm, Start) ->
    receive
        {Vm, {data, {eol, Line}}} ->
            case string:prefix(Line, Start) of
                nomatch -> await(Vm, Start);
                Rest -> Rest
            end;
        {Vm, {exit_status, Status}} ->
            error({ended, Status})
    end.

%% Starts a program that lives while someone has the pipe `alive' open for writing. Returns when
%% the build has opened it.
holder(Config) ->
    Holder = open_port({spawn_executable, os:find_executable("cat")},
                       [{args, [filename:join(dir(Config), "alive")]}, exit_status]),
    receive {Holder, {data, "open\n"}} -> Holder end.

await_end(Holder) ->
    receive {Holder, {exit_status, 0}} -> ok end.

let_go(Config) ->
    _ = holder(Config),
    ok = file:write_file(filename:join(dir(Config), "go"), "go\n").

status(Program, Arguments) ->
    case whittle_program:capture(Program, Arguments) of
        {ok, _} -> 0;
        {error, {status, Status, _}} -> Status
    end.

leftovers(Config) ->
    filelib:wildcard(filename:join([dir(Config), "work", "*"])).

received(Message) ->
    receive Message -> 1 + received(Message) after 0 -> 0 end.

dir(Config) ->
    proplists:get_value(dir, Config).

%% Other users may not reach the locks: whoever can read a file can lock it, and builds would wait.
private_locks(Config) ->
    Root = filename:join(dir(Config), "cache"),
    Locks = filename:join(Root, "locks"),
    ok = filelib:ensure_path(Locks),
    ok = file:change_mode(Locks, 8#755),
    ?assertEqual(done, whittle_cache:reading(fun() -> done end, #{cache => Root})),
    {ok, #file_info{mode = Mode}} = file:read_file_info(Locks),
    ?assertEqual(8#700, Mode band 8#777).
