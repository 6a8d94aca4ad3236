%% @hidden Removes the modules that the `.app' file of their application does not list. Such modules
%% come from tests and tools.
%%
%% The pass keeps an unlisted module that a remaining module calls by name. OTP ships a few
%% applications whose compiler lies in the same directory without an entry in the list. The pass
%% also keeps the module that starts its application.
-module(whittle_pass_modules).
-behaviour(whittle_pass).

-export([name/0, doc/0, run/2]).

%% @private
-spec name() -> atom().
name() -> modules.

%% @private
-spec doc() -> string().
doc() -> "without modules that no .app file lists and nothing mentions".

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

%% Finds the unlisted modules that these modules call by name, directly or through each other.
called(_, Unlisted) when map_size(Unlisted) =:= 0 -> [];
called([], _) -> [];
called(Beams, Unlisted) ->
    Calls = lists:usort([Module || Bytes <- Beams,
                                   {ok, Beam} <- [whittle_beam:read(Bytes)],
                                   {Module, _, _} <- whittle_beam:imports(Beam)]),
    Found = maps:with(Calls, Unlisted),
    maps:keys(Found) ++ called(maps:values(Found), maps:without(Calls, Unlisted)).
