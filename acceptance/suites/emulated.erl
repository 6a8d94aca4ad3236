%% Executables for a target, run by its emulator where this machine needs one: as
%% `whittle run' does it, but with an environment of the test's own.
-module(emulated).

-export([targets/0, lacks/1, start/4, start_emulated/4, start_traced/5, flavours/1]).

-type target() :: whittle_target:target().

%% Those that WHITTLE_TARGETS names, with blanks between; all without it.
-spec targets() -> [target()].
targets() ->
    Named = string:lexemes(os:getenv("WHITTLE_TARGETS", ""), " "),
    All = whittle_runtime:targets(),
    Unknown = Named -- [Name || #{name := Name} <- All],
    Unknown =:= [] orelse error({no_such_target, Unknown}),
    [T || T = #{name := Name} <- All, Named =:= [] orelse lists:member(Name, Named)].

%% What this machine lacks to run a target's programs, for a person.
-spec lacks(target()) -> none | string().
lacks(#{emulator := []}) ->
    none;
lacks(#{emulator := Words}) ->
    case os:find_executable(lists:last(Words)) of
        false -> "there is no " ++ lists:last(Words) ++ " (Debian package qemu-user)";
        _ -> none
    end.

-spec flavours(target()) -> [string()].
flavours(#{flavours := Flavours}) -> [atom_to_list(Flavour) || Flavour <- Flavours].

%% Starts an executable as running:start/3 does.
-spec start(target(), file:filename(), [string()], [{string(), string()}]) -> port().
start(#{emulator := Emulator}, File, Arguments, Env) ->
    by(Emulator, File, Arguments, Env).

%% The same, by an emulator also where this machine could do without: what is compared
%% with others under theirs. Of its name, qemu's words are the processor's.
-spec start_emulated(target(), file:filename(), [string()], [{string(), string()}]) -> port().
start_emulated(#{emulator := [], triple := Triple}, File, Arguments, Env) ->
    by(["qemu-" ++ hd(string:lexemes(Triple, "-"))], File, Arguments, Env);
start_emulated(Target, File, Arguments, Env) ->
    start(Target, File, Arguments, Env).

%% The same, by an emulator, which writes the system calls of the program (not of what that
%% starts) to a file.
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
