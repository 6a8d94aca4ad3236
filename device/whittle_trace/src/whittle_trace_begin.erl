%% @doc Starts the recorder when a VM that Whittle did not build loads this module.
%%
%% `whittle trace' gives each VM the flag `-s code ensure_modules_loaded' with this module's name.
%% If the module is missing or does not load in that VM, the VM goes on and prints nothing.
%% `-s whittle_trace' would end such a VM. It would also end every VM in embedded mode, because
%% these load no modules on demand.
-module(whittle_trace_begin).

-on_load(start/0).

-spec start() -> ok.
start() ->
    whittle_trace:start().
