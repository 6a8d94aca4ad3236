%% @doc Ends a call in the running node when the command that asked for it ends.
%%
%% It is a module of its own, because the running node loads it at the first request.
-module(whittle_control_end).

-export([together/2]).

%% @doc Kills the process `Asked' when the process `Asker' or its node ends. Returns when one of
%% them has ended. A link does not suffice, because `Asked' may trap exits.
-spec together(Asker :: pid(), Asked :: pid()) -> ok.
together(Asker, Asked) ->
    Ends = monitor(process, Asker),
    Done = monitor(process, Asked),
    receive
        {'DOWN', Ends, process, _, _} ->
            exit(Asked, kill),
            ok;
        {'DOWN', Done, process, _, _} ->
            ok
    end.
