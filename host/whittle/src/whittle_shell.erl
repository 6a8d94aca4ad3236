%% @doc Sends shell code to the script `whittle', which started the command and executes the code.
%%
%% The VM cannot replace itself with another program. So it writes the shell code for that to
%% descriptor 3, which the script reads.
-module(whittle_shell).

-export([quoted/1, hand_over/1]).

%% @doc Quotes a word for the shell. Between single quotes no character is special.
-spec quoted(unicode:chardata()) -> binary().
quoted(Word) ->
    unicode:characters_to_binary([$', string:replace(Word, "'", "'\\''", all), $']).

%% @doc Gives the script its shell code. An error means that the script has ended.
-spec hand_over(iodata()) -> ok | {error, whittle:failure()}.
hand_over(Words) ->
    case file:write_file("/dev/fd/3", Words) of
        ok -> ok;
        {error, Reason} ->
            {error, {work, ["the script that started whittle has ended (",
                            file:format_error(Reason), "): run the command again"]}}
    end.
