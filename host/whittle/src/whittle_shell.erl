%% @doc What the command says to the script `whittle', which started it and executes it.
%%
%% The VM cannot replace itself by another program, so it writes the words that do to
%% descriptor 3, which the script reads.
-module(whittle_shell).

-export([quoted/1, hand_over/1]).

%% @doc A word for the shell: between single quotes nothing has a meaning.
-spec quoted(unicode:chardata()) -> binary().
quoted(Word) ->
    unicode:characters_to_binary([$', string:replace(Word, "'", "'\\''", all), $']).

%% @doc Gives the script what it is to execute. An error means that it is gone.
-spec hand_over(iodata()) -> ok | {error, whittle:failure()}.
hand_over(Words) ->
    case file:write_file("/dev/fd/3", Words) of
        ok -> ok;
        {error, Reason} ->
            {error, {work, ["the script that runs the command is gone (",
                            file:format_error(Reason), "): run it again"]}}
    end.
