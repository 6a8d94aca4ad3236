%% @doc Loads the modules of every start from one file, on all cores.
%%
%% The boot script calls {@link modules/2} where OTP's boot scripts have `primLoad'. For
%% `primLoad', `init' reads one file after the other and waits for another thread each time, so a
%% second core gets no work. bench/README.md has measurements.
%%
%% modules/2 runs before any other module is loaded, so it calls only preloaded functions. The boot
%% script calls {@link drop_current_directory/0} when the kernel has started, and with it the code
%% server, which loads all other modules.
-module(whittle_start_load).

-export([modules/2, drop_current_directory/0]).

%% The specification of spawn_opt lacks the option `scheduler'.
-dialyzer({nowarn_function, [modules/2, answer/1]}).

-type place() :: {module(),
                  file:filename(),                        % the result of code:which/1
                  {non_neg_integer(), pos_integer()}}.    % offset and size in the file, bytes

%% @doc Loads modules from `File' and reports them to `init'. It skips modules that are already
%% loaded, because `init:restart/0' keeps some. No module may have an `on_load' function
%% (whittle_boot of the host leaves those to `init'). If a module does not load, the boot ends
%% with `{load_failed, [Module]}', as in `init'. The process that evaluates the boot script must
%% call it.
-spec modules(file:filename(), [place()]) -> ok.
modules(File, Places) ->
    {ok, Code} = prim_file:read_file(File),
    Wanted = list_to_tuple([Place || {Module, _, _} = Place <- Places,
                                     not erlang:module_loaded(Module)]),
    Next = atomics:new(1, []),
    %% A new process starts on the scheduler of its parent, and ERTS wakes no other scheduler for
    %% so short a queue. The undocumented option `scheduler', which OTP uses for some of its own
    %% processes, places it.
    Others = [spawn_opt(fun() -> exit({prepared, prepare(Next, Wanted, Code)}) end,
                        [monitor, {scheduler, Number}])
              || Number <- others(erlang:system_info(schedulers_online))],
    Own = prepare(Next, Wanted, Code),
    Prepared = Own ++ [One || Other <- Others, One <- answer(Other)],
    case [Module || {Module, _, {error, _}} <- Prepared] of
        [] -> ok = erlang:finish_loading([Ready || {_, _, Ready} <- Prepared]);
        Failed -> exit({load_failed, Failed})
    end,
    init ! {self(), loaded, [{Module, Path} || {Module, Path, _} <- Prepared]},
    ok.

%% @doc Removes the current directory from the code path. If the kernel could not start, there is no
%% code server, and this function does nothing.
-spec drop_current_directory() -> ok.
drop_current_directory() ->
    try code:del_path(".") of
        _ -> ok
    catch
        error:_ -> ok
    end.

answer({_, Monitor}) ->
    receive
        {'DOWN', Monitor, process, _, {prepared, Prepared}} -> Prepared;
        {'DOWN', Monitor, process, _, Reason} -> exit(Reason)
    end.

%% Prepares the next module until none is left.
prepare(Next, Wanted, Code) ->
    case atomics:add_get(Next, 1, 1) of
        Number when Number =< tuple_size(Wanted) ->
            {Module, Path, Place} = element(Number, Wanted),
            Ready = erlang:prepare_loading(Module, binary_part(Code, Place)),
            [{Module, Path, Ready} | prepare(Next, Wanted, Code)];
        _ ->
            []
    end.

others(1) -> [];
others(Number) -> [Number | others(Number - 1)].
