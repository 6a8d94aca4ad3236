%% @doc Implements `whittle run'. It starts an executable in place of the command, so that the
%% executable receives the terminal, the signals and the exit code.
-module(whittle_cmd_run).
-behaviour(whittle).

-import(whittle_shell, [quoted/1]).

-include_lib("kernel/include/file.hrl").

-export([command/0, run/1]).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "run", arguments => ["OUT", "[ARGUMENT...]"],
      help => "run an executable, in an emulator if it is for another machine",
      options => []}.

%% @doc Hands the executable and its arguments to the script. The description of the target names
%% the emulator, if the target needs one.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{arguments := [Out | Arguments]}) ->
    case whittle_pack:read_file(Out, <<"etc/info.txt">>) of
        {ok, Info} ->
            case whittle_work:steps([fun(_) -> executable(Out) end,
                                      fun(_) -> emulator(Out, Info) end]) of
                {ok, Emulator} -> start(Emulator ++ [filename:absname(Out) | Arguments]);
                {error, _} = Error -> Error
            end;
        {error, Error} ->
            whittle_failure:make({pack, Error})
    end.

start(Words) ->
    case whittle_shell:hand_over(lists:join($\s, [quoted(Word) || Word <- Words])) of
        ok -> {ok, #{text => "", json => null}};
        {error, _} = Error -> Error
    end.

%% Checks that the file is executable. Copies often are not, and an emulator would not report it.
executable(Out) ->
    case file:read_file_info(Out) of
        {ok, #file_info{mode = Mode}} when Mode band 8#111 =:= 0 ->
            {error, {work, [Out, " is not executable: run `chmod +x' on it"]}};
        _ ->
            ok
    end.

%% Finds the emulator. The executable starts further programs, which are copies of itself. So the
%% launcher receives the name of the emulator too (native/launcher/process.c).
emulator(Out, Info) ->
    {match, [Target]} = re:run(Info, "^target ([^,]*),",
                               [multiline, {capture, all_but_first, list}]),
    case [Words || #{name := Name, emulator := [_ | _] = Words} <- whittle_runtime:targets(),
                   Name =:= Target] of
        [] ->
            {ok, []};
        [Words] ->
            Program = lists:last(Words),
            case os:find_executable(Program) of
                false ->
                    {error, {work, [Out, " is built for ", Target, ", and the emulator ", Program,
                                    " is not on the PATH: install it (Debian package qemu-user),"
                                    " or copy the file to the board"]}};
                Path ->
                    {ok, ["env", "WHITTLE_EMULATOR=" ++ Path | Words]}
            end
    end.
