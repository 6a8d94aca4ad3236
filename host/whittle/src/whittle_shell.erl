%% @doc Sends shell code to the script `whittle', which started the command and executes the code.
%%
%% The VM cannot replace itself with another program. So it writes the shell code for that to
%% descriptor 3, which the script reads.
-module(whittle_shell).

-export([hand_over/1]).

%% @doc Gives the script its shell code. An error means that the script has ended.
-spec hand_over(iodata()) -> ok | {error, whittle:failure()}.
hand_over(Words) ->
    case file:write_file("/dev/fd/3", Words) of
        ok -> ok;
        {error, Reason} ->
            whittle_failure:work(["the script that started Whittle has ended (",
                                  file:format_error(Reason), "): run the command again"])
    end.
