%% @doc Loads the modules that every start needs: out of one file, on all cores.
%%
%% The boot script calls {@link modules/2} where OTP's would have `primLoad'. `init' reads
%% file after file there: for each it waits for a thread and back, and with all that
%% waiting a second core gets no part of the work. bench/README.md has what it gives.
%%
%% Nothing is loaded yet when this runs, so it calls only what is preloaded.
-module(whittle_start_load).

-export([modules/2]).

%% spawn_opt's specification does not know the option `scheduler'.
-dialyzer({nowarn_function, [modules/2, answer/1]}).

-type place() :: {module(),
                  file:filename(),                        % as code:which/1 tells
                  {non_neg_integer(), pos_integer()}}.    % offset and size in the file, bytes

%% @doc Loads modules that lie in `File', those that are loaded already left as they are
%% (`init:restart/0' keeps some), and tells `init' about them, as the process that
%% evaluates the boot script. None may have an `on_load' function ({@link whittle_boot}
%% leaves those to `init'). A module that cannot be loaded ends the boot with
%% `{load_failed, [Module]}', as `init' does.
-spec modules(file:filename(), [place()]) -> ok.
modules(File, Places) ->
    {ok, Code} = prim_file:read_file(File),
    Wanted = list_to_tuple([Place || {Module, _, _} = Place <- Places,
                                     not erlang:module_loaded(Module)]),
    Next = atomics:new(1, []),
    %% A new process begins on the scheduler of its parent, and another scheduler that
    %% sleeps is not woken for so short a queue: hence `scheduler', which OTP uses for
    %% processes of its own and does not document.
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

answer({_, Monitor}) ->
    receive
        {'DOWN', Monitor, process, _, {prepared, Prepared}} -> Prepared;
        {'DOWN', Monitor, process, _, Reason} -> exit(Reason)
    end.

%% Takes the next module until none is left.
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
