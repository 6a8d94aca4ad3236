%% @doc Runs other programs, for as long as we are there: each, with all that it
%% starts, is a process group of its own, which `priv/guard.sh' ends when the calling
%% process, or this VM, is gone.
-module(whittle_exec).

-export([capture/2, capture/3, run/4]).

%% @doc Runs a program and returns what it printed (both streams).
%% `{error, not_found}' when there is no such program.
-spec capture(string(), [string()]) ->
          {ok, string()} |
          {error, not_found | {status, pos_integer(), string()}}.
capture(Program, Arguments) ->
    capture(Program, Arguments, fun(_) -> ok end).

%% @doc The same; `Watch' sees each piece of the output as it comes.
-spec capture(string(), [string()], fun((binary()) -> term())) ->
          {ok, string()} |
          {error, not_found | {status, pos_integer(), string()}}.
capture(Program, Arguments, Watch) ->
    case os:find_executable(Program) of
        false ->
            {error, not_found};
        Path ->
            Keep = fun(Bytes, Acc) -> _ = Watch(Bytes), [Bytes | Acc] end,
            {Status, Acc} = guarded([Path | Arguments], [{env, [{"LC_ALL", "C"}]}], Keep, []),
            Output = unicode:characters_to_list(lists:reverse(Acc), latin1),
            case Status of
                0 -> {ok, Output};
                _ -> {error, {status, Status, Output}}
            end
    end.

%% @doc Runs a script with sh, in a directory, with exactly the given environment.
%% Each piece of its output (both streams) goes through `Fold'.
-spec run([string()], file:filename(), [{string(), string()}],
          {fun((binary(), Acc) -> Acc), Acc}) -> {non_neg_integer(), Acc}.
run(Script, Directory, Environment, {Fold, Acc}) ->
    Assignments = [Name ++ "=" ++ Value || {Name, Value} <- Environment],
    %% Others may not write to what it makes, whatever the user's umask is.
    Lines = lists:join("\n", ["set -eu", "umask 022" | Script]),
    guarded(["env", "-i"] ++ Assignments ++ ["sh", "-c", lists:flatten(Lines)],
            [{cd, Directory}], Fold, Acc).

guarded(Words, Settings, Fold, Acc) ->
    %% Absolute: the program may start in another directory.
    Guard = filename:absname(filename:join(code:priv_dir(whittle_runtime), "guard.sh")),
    Port = open_port({spawn_executable, "/bin/sh"},
                     [{args, [Guard | Words]}, exit_status, stderr_to_stdout, binary, hide
                      | Settings]),
    drain(Port, Fold, Acc).

drain(Port, Fold, Acc) ->
    receive
        {Port, {data, Bytes}} -> drain(Port, Fold, Fold(Bytes, Acc));
        {Port, {exit_status, Status}} -> {Status, Acc}
    end.
