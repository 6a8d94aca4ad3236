%% @doc `whittle run': starts an executable in place of the command, so that it
%% has the terminal, the signals and the exit code for itself.
-module(whittle_cmd_run).
-behaviour(whittle).

-import(whittle_shell, [quoted/1]).

-export([run/1]).

%% @doc The words for the executable and its arguments. The target's
%% description names the emulator, if it needs one.
-spec run(whittle_words:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{arguments := [Out | Arguments]}) ->
    case whittle_pack:read_file(Out, <<"etc/info.txt">>) of
        {ok, Info} ->
            Words = emulator(Info) ++ [filename:absname(Out) | Arguments],
            case whittle_shell:hand_over(lists:join($\s, [quoted(Word) || Word <- Words])) of
                ok -> {ok, #{text => "", json => null}};
                {error, _} = Error -> Error
            end;
        {error, Error} ->
            {error, {work, whittle_pack:format_error(Error)}}
    end.

emulator(Info) ->
    {match, [Target]} = re:run(Info, "^target ([^,]*),",
                               [multiline, {capture, all_but_first, list}]),
    lists:append([Emulator || #{name := Name, emulator := Emulator}
                                  <- whittle_runtime:targets(), Name =:= Target]).
