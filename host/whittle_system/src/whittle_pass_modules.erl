%% @doc Takes out the modules that their application's `.app' file does not
%% list: what tests and tools left behind.
%%
%% One that a module which stays calls by name stays too: OTP ships a few
%% applications whose compiler is in the same directory and not in the list. So
%% does the one that starts its application.
-module(whittle_pass_modules).
-behaviour(whittle_pass).

-export([name/0, doc/0, run/2]).

%% @private
-spec name() -> atom().
name() -> modules.

%% @private
-spec doc() -> string().
doc() -> "only the modules that .app files list".

%% @private
-spec run(whittle_system:system(), whittle_pass:options()) -> {ok, whittle_system:system()}.
run(System, _) ->
    Apps = whittle_system:apps(System),
    Listed = lists:append([proplists:get_value(modules, Props, []) ++ whittle_system:started(App)
                           || #{spec := {application, _, Props}} = App <- Apps]),
    All = maps:from_list([{Module, Beam}
                          || {_, Module, Beam} <- whittle_system:modules(System)]),
    Unlisted = maps:without(Listed, All),
    Kept = called(maps:values(maps:with(Listed, All)), Unlisted),
    Dropped = maps:keys(maps:without(Kept, Unlisted)),
    {ok, lists:foldl(fun(#{modules := Modules} = App, Smaller) ->
                             Left = maps:without(Dropped, Modules),
                             whittle_system:put_app(App#{modules := Left}, Smaller)
                     end, System, Apps)}.

%% The unlisted modules that these call by name, and those call, and so on.
called(_, Unlisted) when map_size(Unlisted) =:= 0 -> [];
called([], _) -> [];
called(Beams, Unlisted) ->
    Calls = lists:usort([Module || Bytes <- Beams,
                                   {ok, Beam} <- [whittle_beam:read(Bytes)],
                                   {Module, _, _} <- whittle_beam:imports(Beam)]),
    Found = maps:with(Calls, Unlisted),
    maps:keys(Found) ++ called(maps:values(Found), maps:without(Calls, Unlisted)).
