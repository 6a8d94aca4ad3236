%% @doc Runs other programs: short ones whose output is wanted, and long ones that
%% are watched and die with us.
-module(whittle_exec).

-export([capture/2, run/4]).

%% @doc Runs a short program and returns what it printed (both streams).
%% `{error, not_found}' when there is no such program.
-spec capture(string(), [string()]) ->
          {ok, string()} |
          {error, not_found | {status, pos_integer(), string()}}.
capture(Program, Arguments) ->
    case os:find_executable(Program) of
        false ->
            {error, not_found};
        Path ->
            Port = open_port({spawn_executable, Path},
                             [{args, Arguments}, {env, [{"LC_ALL", "C"}]},
                              exit_status, stderr_to_stdout, binary, hide]),
            Keep = fun(Bytes, Acc) -> [Bytes | Acc] end,
            {Status, Acc} = drain(Port, Keep, []),
            Output = unicode:characters_to_list(lists:reverse(Acc), latin1),
            case Status of
                0 -> {ok, Output};
                _ -> {error, {status, Status, Output}}
            end
    end.

%% @doc Runs a script with sh, in a directory, with exactly the given environment.
%%
%% Each piece of its output (both streams) goes through `Fold'. The script and
%% all it started are a process group of their own, which `priv/guard.sh' ends
%% when the calling process, or this VM, is gone.
-spec run([string()], file:filename(), [{string(), string()}],
          {fun((binary(), Acc) -> Acc), Acc}) -> {non_neg_integer(), Acc}.
run(Script, Directory, Environment, {Fold, Acc}) ->
    %% Absolute: the script starts in another directory.
    Guard = filename:absname(filename:join(code:priv_dir(whittle_runtime), "guard.sh")),
    Assignments = [Name ++ "=" ++ Value || {Name, Value} <- Environment],
    Lines = lists:join("\n", ["set -eu" | Script]),
    Port = open_port({spawn_executable, "/bin/sh"},
                     [{args, [Guard, "env", "-i"] ++ Assignments
                             ++ ["sh", "-c", lists:flatten(Lines)]},
                      {cd, Directory}, exit_status, stderr_to_stdout, binary,
                      hide]),
    drain(Port, Fold, Acc).

drain(Port, Fold, Acc) ->
    receive
        {Port, {data, Bytes}} -> drain(Port, Fold, Fold(Bytes, Acc));
        {Port, {exit_status, Status}} -> {Status, Acc}
    end.
