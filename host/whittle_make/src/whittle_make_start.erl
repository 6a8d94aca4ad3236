%% @hidden Names the modules that the VM loads first, and the recorder of a trace.
-module(whittle_make_start).
-behaviour(whittle_pass).

-export([name/0, run/2]).

%% @private
-spec name() -> atom().
name() -> start.

%% @doc The loader of cold functions cannot be cold itself. What explains an `undef' may have to
%% do so where no module can be loaded. `whittle trace' can record only an output that was not
%% shaken.
-spec run(whittle_system:system(), whittle_pass:options()) -> {ok, whittle_system:system()}.
run(System, #{shake := #{missing := load}}) ->
    {ok, first([whittle_start_cold], System)};
run(System, #{shake := #{missing := crash}}) ->
    {ok, first([whittle_start_removed], System)};
run(System, #{shake := none}) ->
    {ok, first([], whittle_boot:set_traced(System))}.

first(Modules, System) ->
    whittle_boot:set_start_modules(Modules ++ whittle_boot:early_modules(), System).
