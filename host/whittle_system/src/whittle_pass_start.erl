%% @hidden Names the modules that the VM loads first, and the recorder of a trace.
-module(whittle_pass_start).
-behaviour(whittle_pass).

-export([name/0, run/2]).

%% @private
-spec name() -> atom().
name() -> start.

%% @doc Runs the pass.
%%
%% The loader of cold functions cannot be cold itself. The code that explains an `undef' may run
%% when the VM can load no module. `whittle trace' can record only an output without tree
%% shaking.
-spec run(whittle_system:system(), whittle_pass:options()) -> {ok, whittle_system:system()}.
run(System, Options) ->
    case maps:get(shake, Options, none) of
        #{missing := load} -> {ok, first([whittle_start_cold], System)};
        #{missing := crash} -> {ok, first([whittle_start_removed], System)};
        none -> {ok, first([], whittle_boot:set_traced(System))}
    end.

first(Modules, System) ->
    whittle_boot:set_start_modules(Modules ++ whittle_boot:early_modules(), System).
