%% Runs executables for a target, with its emulator if this machine needs one. It works like
%% `whittle run', but with the environment of the test.
-module(emulated).

-export([targets/0, lacks/1, start/4, start_emulated/4, start_traced/5, flavors/1]).

-type target() :: whittle_target:target().

%% Returns the targets that WHITTLE_TARGETS names, separated by blanks; without it, all targets.
-spec targets() -> [target()].
targets() ->
    Named = string:lexemes(os:getenv("WHITTLE_TARGETS", ""), " "),
    All = whittle_runtime:targets(),
    Unknown = Named -- [Name || #{name := Name} <- All],
    Unknown =:= [] orelse error({no_such_target, Unknown}),
    [T || T = #{name := Name} <- All, Named =:= [] orelse lists:member(Name, Named)].

%% Names, for a person, what this machine lacks to run a target's programs.
-spec lacks(target()) -> none | string().
lacks(#{name := Name}) ->
    case whittle_runtime:emulator(Name) of
        {error, {no_emulator, #{program := Program}}} ->
            "there is no " ++ Program ++ " (Debian package qemu-user)";
        {ok, _} -> none
    end.

-spec flavors(target()) -> [string()].
flavors(#{flavors := Flavors}) -> [atom_to_list(Flavor) || Flavor <- Flavors].

%% Starts an executable as running:start/3 does.
-spec start(target(), file:filename(), [string()], [{string(), string()}]) -> port().
start(#{emulator := Emulator}, File, Arguments, Env) ->
    by(Emulator, File, Arguments, Env).

%% Starts it in an emulator, even if this machine could run it directly, so that all targets run
%% under comparable conditions. qemu's name for a processor is the first word of the triple.
-spec start_emulated(target(), file:filename(), [string()], [{string(), string()}]) -> port().
start_emulated(#{emulator := [], triple := Triple}, File, Arguments, Env) ->
    by(["qemu-" ++ hd(string:lexemes(Triple, "-"))], File, Arguments, Env);
start_emulated(Target, File, Arguments, Env) ->
    start(Target, File, Arguments, Env).

%% Starts it in an emulator that writes the program's system calls to a file, without those of its
%% child processes.
-spec start_traced(file:filename(), target(), file:filename(), [string()],
                   [{string(), string()}]) -> port().
start_traced(Log, Target, File, Arguments, Env) ->
    start_emulated(Target, "-strace", ["-D", Log, File | Arguments], Env).

by([], File, Arguments, Env) ->
    running:start(File, Arguments, #{env => Env});
by(Emulator, File, Arguments, Env) ->
    [_ | _] = Program = os:find_executable(lists:last(Emulator)),
    running:start(os:find_executable("env"), Emulator ++ [File | Arguments],
                  #{env => [{"WHITTLE_EMULATOR", Program} | Env]}).
