%% Checks locks between programs, with a second VM and with flock(1) itself.
-module(whittle_lock_SUITE).

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([exclusive/1, shared/1, ends_with_its_process/1, held/1, relative/1,
         held_is_interrupted/1, not_lockable/1, other_kinds/1]).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

all() ->
    [exclusive, shared, ends_with_its_process, held, relative, held_is_interrupted,
     not_lockable, other_kinds].

init_per_testcase(Case, Config) -> made:dir(Case, Config).

end_per_testcase(_, _) -> ok.

%% Locks directories, and files that may not exist yet.
exclusive(Config) ->
    [begin
         {ok, Lock} = whittle_lock:take(Path, #{}),
         ?assertEqual(busy, whittle_lock:take(Path, #{})),
         ?assertEqual(busy, whittle_lock:take(Path, #{mode => shared})),
         ?assertEqual(busy, whittle_lock:take(Path, #{wait => 1})),
         ok = whittle_lock:release(Lock),
         {ok, Next} = whittle_lock:take(Path, #{wait => infinity}),
         ok = whittle_lock:release(Next)
     end || Path <- [in(Config, "file"), ?config(dir, Config)]].

shared(Config) ->
    File = in(Config, "file"),
    {ok, One} = whittle_lock:take(File, #{mode => shared}),
    {ok, Two} = whittle_lock:take(File, #{mode => shared}),
    ?assertEqual(busy, whittle_lock:take(File, #{})),
    [ok = whittle_lock:release(Lock) || Lock <- [One, Two]],
    ?assertMatch({ok, _}, whittle_lock:take(File, #{wait => infinity})).

ends_with_its_process(Config) ->
    File = in(Config, "file"),
    Self = self(),
    {Holder, Monitor} = spawn_monitor(fun() ->
                                              {ok, _} = whittle_lock:take(File, #{}),
                                              Self ! held,
                                              receive never -> ok end
                                      end),
    receive held -> ok end,
    ?assertEqual(busy, whittle_lock:take(File, #{})),
    exit(Holder, kill),
    receive {'DOWN', Monitor, process, Holder, killed} -> ok end,
    ?assertMatch({ok, _}, whittle_lock:take(File, #{wait => infinity})).

held(Config) ->
    ?assertEqual({ok, []}, whittle_lock:held(in(Config, "nowhere"))),
    [{ok, _} = whittle_lock:take(in(Config, Name), #{mode => Mode})
     || {Name, Mode} <- [{"a", exclusive}, {"b c", shared}, {"-d", exclusive}]],
    made:file(in(Config, "free"), ""),
    {ok, Held} = whittle_lock:held(?config(dir, Config)),
    ?assertEqual(["-d", "a", "b c"], lists:sort(Held)).

%% A path may begin with a dash.
relative(Config) ->
    {ok, Before} = file:get_cwd(),
    ok = file:set_cwd(?config(dir, Config)),
    try
        {ok, Lock} = whittle_lock:take("-d", #{}),
        ?assertEqual(busy, whittle_lock:take(in(Config, "-d"), #{})),
        ok = whittle_lock:release(Lock)
    after
        ok = file:set_cwd(Before)
    end.

%% Here flock(1) kills the shell that runs it.
held_is_interrupted(Config) ->
    Flock = in(Config, "bin/flock"),
    made:file(Flock, "#!/bin/sh\nkill -9 $PPID\n"),
    ok = file:change_mode(Flock, 8#755),
    made:file(in(Config, "file"), ""),
    with_path(filename:dirname(Flock) ++ ":" ++ os:getenv("PATH"),
              fun() ->
                      ?assertEqual({error, no_answer}, whittle_lock:held(?config(dir, Config)))
              end).

not_lockable(Config) ->
    ?assertEqual({error, enoent}, whittle_lock:take(in(Config, "nowhere/file"), #{})),
    with_path("/nowhere",
              fun() ->
                      ?assertEqual({error, no_flock}, whittle_lock:take(in(Config, "file"), #{})),
                      ?assertEqual({error, no_flock}, whittle_lock:held(?config(dir, Config)))
              end).

with_path(Path, Fun) ->
    Before = os:getenv("PATH"),
    os:putenv("PATH", Path),
    try Fun()
    after os:putenv("PATH", Before)
    end.

in(Config, Name) -> filename:join(?config(dir, Config), Name).

%% Opening a FIFO would block. Opening a link without a target would create a file elsewhere.
other_kinds(Config) ->
    "" = os:cmd("mkfifo '" ++ in(Config, "fifo") ++ "'"),
    ?assertEqual({error, einval}, whittle_lock:take(in(Config, "fifo"), #{})),
    ok = file:make_symlink(in(Config, "elsewhere"), in(Config, "link")),
    ?assertEqual({error, enoent}, whittle_lock:take(in(Config, "link"), #{})),
    ?assertNot(filelib:is_file(in(Config, "elsewhere"))).
