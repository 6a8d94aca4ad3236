%% @hidden Removes the applications that the roots do not reach through the `.app' files.
-module(whittle_pass_applications).
-behaviour(whittle_pass).

-export([name/0, doc/0, run/2]).

%% @private
-spec name() -> atom().
name() -> applications.

%% @private
-spec doc() -> string().
doc() -> "only the needed applications, and two that Whittle adds".

%% @private
-spec run(whittle_system:system(), whittle_pass:options()) -> {ok, whittle_system:system()}.
run(System, _) ->
    Apps = maps:from_list([{Name, App} || #{name := Name} = App <- whittle_system:apps(System)]),
    Needed = whittle_needs:reachable(whittle_system:roots(System), Apps),
    {ok, lists:foldl(fun whittle_system:remove_app/2, System, maps:keys(Apps) -- Needed)}.
