%% @doc Runs an escript's `main/1' as the program `escript' does.
%%
%% A system that Whittle built contains the escript's modules, but not that program. The boot
%% script calls {@link escript/1} as its last step. `main/1' gets the command line. When it
%% returns, the exit code is 0. When it raises, this module prints the error, and the exit code is
%% 127.
-module(whittle_start).

-export([escript/1]).

%% The processes that these functions start halt the node.
-dialyzer({no_return, [escript/1, run/1]}).

-define(FAILED, 127).

%% @doc Starts a process that waits for the end of the boot, calls `Module:main(Arguments)' and
%% halts the node. Returns at once, because the boot must go on.
%%
%% `Arguments' are the plain arguments. With the flag `-whittle_argv0' the first plain argument is
%% the program's own path, the result of `escript:script_name/0'. It does not belong to
%% `Arguments'.
-spec escript(module()) -> ok.
escript(Module) ->
    _ = spawn(fun() -> run(Module) end),
    ok.

%% Internal

-spec run(module()) -> no_return().
run(Module) ->
    case init:notify_when_started(self()) of
        ok -> init:wait_until_started();
        started -> ok
    end,
    %% main/1 runs in its own process, so that the node halts even if something kills it.
    {Pid, Ref} = spawn_monitor(fun() -> main(Module) end),
    receive
        {'DOWN', Ref, process, Pid, Reason} ->
            fail(io_lib:format("another process stopped main/1 with the reason ~tp", [Reason]))
    end.

-spec main(module()) -> no_return().
main(Module) ->
    try
        _ = Module:main(arguments()),
        halt_with(0)
    catch
        Class:Reason:Stack ->
            fail(erl_error:format_exception(Class, Reason, Stack))
    end.

arguments() ->
    case {init:get_argument(whittle_argv0), init:get_plain_arguments()} of
        {{ok, _}, [_Program | Arguments]} -> Arguments;
        {_, Arguments} -> Arguments
    end.

-spec fail(unicode:chardata()) -> no_return().
fail(Text) ->
    io:put_chars(standard_error, ["escript: ", Text, $\n]),
    halt_with(?FAILED).

%% Asks the recorder of `whittle trace' for a last reading. Without it the record would miss the
%% calls since the reading before.
-spec halt_with(0..127) -> no_return().
halt_with(Code) ->
    ok = whittle_start_trace:last(),
    halt(Code).
