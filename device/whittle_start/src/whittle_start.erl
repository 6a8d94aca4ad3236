%% @doc Runs an escript's `main/1' the way the `escript' program does, where
%% the escript's modules are part of the system and there is no such program.
%%
%% The boot script calls {@link escript/1} as its last step. The conventions are
%% those of `escript': `main/1' gets the command line; when it returns the exit
%% code is 0, when it raises the error is printed and the exit code is 127.
-module(whittle_start).

-export([escript/1]).

%% The processes that it starts end by halting the node.
-dialyzer({no_return, [escript/1, run/1]}).

-define(FAILED, 127).

%% @doc Starts a process that calls `Module:main(Arguments)' once the node is
%% up, and halts the node with it. Returns at once, since the boot goes on.
%%
%% The arguments are the plain ones. The flag `-whittle_argv0' says that the
%% first of them is the program's own path, which `escript:script_name/0' then
%% answers; it is not an argument.
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
    %% main/1 has a process of its own: it may be killed, and the node must not
    %% stay up without it.
    {Pid, Ref} = spawn_monitor(fun() -> main(Module) end),
    receive
        {'DOWN', Ref, process, Pid, Reason} ->
            fail(io_lib:format("main/1 was stopped: ~tp", [Reason]))
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

%% A record of it (`whittle trace') would lack what was called since it was read before.
-spec halt_with(0..127) -> no_return().
halt_with(Code) ->
    ok = whittle_start_trace:last(),
    halt(Code).
