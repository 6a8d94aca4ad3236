%% @doc Starts the recorder of `whittle trace' at the start of a node.
-module(whittle_start_trace).

-export([start_link/0, last/0]).

%% @doc Loads the recorder from the directory in the environment variable `WHITTLE_TRACE', and
%% starts it as a kernel process of the boot script. If there is no recorder, or it does not load,
%% the node starts without it.
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

%% @doc Makes the recorder, if there is one, write the calls since its last reading. Call it
%% before you halt the node.
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
    %% The recorder is a module of another application, which the system does not contain.
    Recorder = whittle_trace,
    Recorder:start_link().
