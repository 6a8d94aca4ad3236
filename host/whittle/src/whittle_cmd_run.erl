%% @doc Implements `whittle run'. It starts an executable in place of the command, so that the
%% executable receives the terminal, the signals and the exit code.
-module(whittle_cmd_run).
-behaviour(whittle).

-import(whittle_program, [quoted/1]).

-include_lib("kernel/include/file.hrl").

-export([command/0, run/1]).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "run", arguments => ["OUT", "[ARGUMENT...]"],
      help => "run an executable, in an emulator if it is for another machine",
      options => []}.

%% @doc Hands the executable and its arguments to the script, after its emulator if its target needs
%% one.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{arguments := [Out | Arguments]}) ->
    whittle_work:steps([fun(_) -> target(Out) end,
                        fun(Target) -> executable(Out, Target) end,
                        fun(Target) -> emulator(Target, Out) end,
                        fun(Emulator) ->
                                start(Emulator ++ [filename:absname(Out) | Arguments])
                        end]).

target(Out) ->
    case whittle_pack:target(Out) of
        {ok, _} = Target -> Target;
        {error, Error} -> whittle_failure:make({pack, Error})
    end.

start(Words) ->
    case whittle_shell:hand_over(lists:join($\s, [quoted(Word) || Word <- Words])) of
        ok -> {ok, #{text => "", json => null}};
        {error, _} = Error -> Error
    end.

%% Checks that the file is executable. Copies often are not, and an emulator would not report it.
executable(Out, Target) ->
    case file:read_file_info(Out) of
        {ok, #file_info{mode = Mode}} when Mode band 8#111 =:= 0 ->
            {error, {work, [Out, " is not executable: run `chmod +x' on it"]}};
        _ ->
            {ok, Target}
    end.

emulator(Target, Out) ->
    case whittle_runtime:emulator(Target) of
        {ok, _} = Command ->
            Command;
        {error, {no_emulator, #{program := Program}}} ->
            {error, {work, [Out, " is built for ", Target, ", and the emulator ", Program,
                            " is not on the PATH: install it (Debian package qemu-user),"
                            " or copy the file to the board"]}}
    end.
