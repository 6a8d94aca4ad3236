%% @doc Applies a function to all modules of a system, or rewrites them.
-module(whittle_modules).

-import(whittle_work, [steps/1]).

-export([each/2, try_each/2, rewrite/2, exports/2]).

%% @doc Calls a function for each module, on all schedulers. See {@link whittle_work:map/2}. The
%% error `bad_beam' names the first module that cannot be read.
-spec each(fun((whittle_system:app_name(), module(), whittle_beam:beam()) -> Result),
           whittle_system:system()) -> {ok, [Result]} | {error, whittle_system:error()}.
each(Fun, System) ->
    try_each(fun(App, Module, Beam) -> {ok, Fun(App, Module, Beam)} end, System).

%% @doc Does the same with a function that may find a module damaged. The error `bad_beam' names
%% the first such module.
-spec try_each(fun((whittle_system:app_name(), module(), whittle_beam:beam()) ->
                          {ok, Result} | {error, whittle_beam:error()}),
               whittle_system:system()) -> {ok, [Result]} | {error, whittle_system:error()}.
try_each(Fun, System) ->
    Found = whittle_work:map(
              fun({App, Module, Bytes}) ->
                      case steps([fun(_) -> whittle_beam:read(Bytes) end,
                                  fun(Beam) -> Fun(App, Module, Beam) end]) of
                          {ok, _} = Ok -> Ok;
                          {error, Error} ->
                              {error, {bad_beam, {module_name(App, Module), Error}}}
                      end
              end, whittle_system:modules(System)),
    case [Error || {error, _} = Error <- Found] of
        [Error | _] -> Error;
        [] -> {ok, [Result || {ok, Result} <- Found]}
    end.

%% @doc Replaces each module with the result of {@link whittle_beam:strip/2}.
-spec rewrite(whittle_beam:strip_options(), whittle_system:system()) ->
          {ok, whittle_system:system()} | {error, whittle_system:error()}.
rewrite(Options, System) ->
    case each(fun(_, Module, Beam) -> {Module, whittle_beam:strip(Options, Beam)} end, System) of
        {ok, Stripped} ->
            Small = maps:from_list(Stripped),
            {ok, lists:foldl(fun(#{modules := Modules} = App, Now) ->
                                     Left = maps:with(maps:keys(Modules), Small),
                                     whittle_system:put_app(App#{modules := Left}, Now)
                             end, System, whittle_system:apps(System))};
        {error, _} = Error -> Error
    end.

%% @doc Tells whether a module of the system exports a function. The result is `false' if the
%% module cannot be read.
-spec exports(mfa(), whittle_system:system()) -> boolean().
exports({M, F, A}, System) ->
    lists:any(fun({_, Module, _}) when Module =/= M -> false;
                 ({_, _, Bytes}) ->
                      case whittle_beam:read(Bytes) of
                          {ok, Beam} -> lists:member({F, A}, whittle_beam:exports(Beam));
                          {error, _} -> false
                      end
              end, whittle_system:modules(System)).

%% Internal

module_name(App, Module) -> io_lib:format("module ~ts of ~ts", [Module, App]).
