%% @doc `whittle run': starts an executable in place of the command, so that it
%% has the terminal, the signals and the exit code for itself.
%%
%% The VM cannot replace itself by another program. It writes the words to
%% descriptor 3, and the script `whittle' executes them.
-module(whittle_cmd_run).
-behaviour(whittle).

-export([run/1]).
-export([quoted/1]).

%% @doc The words for the executable and its arguments. The target's
%% description names the emulator, if it needs one.
-spec run(whittle_words:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{arguments := [Out | Arguments]}) ->
    case whittle_pack:read_file(Out, <<"etc/info.txt">>) of
        {ok, Info} ->
            Words = emulator(Info) ++ [filename:absname(Out) | Arguments],
            ok = file:write_file("/dev/fd/3", lists:join($\s, [quoted(Word) || Word <- Words])),
            {ok, #{text => "", json => null}};
        {error, Error} ->
            {error, {work, whittle_pack:format_error(Error)}}
    end.

emulator(Info) ->
    {match, [Target]} = re:run(Info, "^target ([^,]*),",
                               [multiline, {capture, all_but_first, list}]),
    lists:append([Emulator || #{name := Name, emulator := Emulator}
                                  <- whittle_runtime:targets(), Name =:= Target]).

%% @doc A word for the shell: between single quotes nothing has a meaning.
-spec quoted(string()) -> binary().
quoted(Word) ->
    unicode:characters_to_binary([$', string:replace(Word, "'", "'\\''", all), $']).
