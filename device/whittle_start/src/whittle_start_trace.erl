%% @doc Has a node recorded from its start, where `whittle trace' asks for it.
-module(whittle_start_trace).

-export([start_link/0, last/0]).

%% @doc Starts the recorder that lies in the directory which the environment's
%% `WHITTLE_TRACE' names, as a kernel process of the boot script. Without one, or where it
%% cannot be loaded, the node goes on.
-spec start_link() -> {ok, pid()} | ignore.
start_link() ->
    case os:getenv("WHITTLE_TRACE") of
        false -> ignore;
        Dir ->
            case prim_file:read_file(Dir ++ "/whittle_trace.beam") of
                {ok, Code} -> start_link(erlang:prepare_loading(whittle_trace, Code));
                {error, _} -> ignore
            end
    end.

%% @doc Has the recorder, if there is one, read what was called: for who is about to halt the
%% node.
-spec last() -> ok.
last() ->
    case whereis(whittle_trace) of
        undefined -> ok;
        Recorder ->
            Monitor = monitor(process, Recorder),
            Recorder ! {self(), last},
            receive
                {Recorder, read} ->
                    _ = demonitor(Monitor, [flush]),
                    ok;
                {'DOWN', Monitor, process, _, _} -> ok
            end
    end.

start_link({error, _}) -> ignore;
start_link(Ready) ->
    ok = erlang:finish_loading([Ready]),
    %% Not of this application, and not in the system.
    Recorder = whittle_trace,
    Recorder:start_link().
