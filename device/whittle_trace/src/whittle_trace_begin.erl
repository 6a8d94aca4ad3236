%% @doc Has a VM record that was not built by Whittle, by being loaded.
%%
%% `whittle trace' gives each VM the flag `-s code ensure_modules_loaded' with this module's
%% name: it goes on in silence where the module is not there any more, or is not for that VM.
%% `-s whittle_trace' would end it, as any VM in embedded mode, which loads nothing by itself.
-module(whittle_trace_begin).

-on_load(start/0).

-spec start() -> ok.
start() ->
    whittle_trace:start().
