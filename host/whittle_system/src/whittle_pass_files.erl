%% @hidden Removes include files from a system without the application `compiler'. Only the
%% preprocessor reads these files.
%%
%% The option `includes' can be `keep', which keeps them, or `auto' (the default), which follows
%% that rule.
-module(whittle_pass_files).
-behaviour(whittle_pass).

-export([name/0, doc/0, run/2]).

%% @private
-spec name() -> atom().
name() -> files.

%% @private
-spec doc() -> string().
doc() -> "without include files, unless the compiler is packed".

%% @private
-spec run(whittle_system:system(), whittle_pass:options()) -> {ok, whittle_system:system()}.
run(System, Options) ->
    Compiles = whittle_system:app(compiler, System) =/= error,
    case Compiles orelse maps:get(includes, Options, auto) =:= keep of
        true -> {ok, System};
        false ->
            {ok, lists:foldl(fun without_includes/2, System, whittle_system:apps(System))}
    end.

without_includes(#{files := Files} = App, System) ->
    Left = maps:filter(fun(<<"include/", _/binary>>, _) -> false;
                          (_, _) -> true
                       end, Files),
    whittle_system:put_app(App#{files := Left}, System).
