%% @hidden Reports the progress of a build of the VM to the caller.
-module(whittle_runtime_progress).

-export([tell/3, tell/4, teller/1]).

%% @doc Reports long work that is not a step of a recipe.
-spec tell(string(), string(), whittle_runtime:options()) -> ok.
tell(Task, What, Options) ->
    tell(Task, What, 0, Options).

%% @doc Reports long work with its percentage, like {@link tell/3}.
-spec tell(string(), string(), 0..100, whittle_runtime:options()) -> ok.
tell(Task, What, Percent, Options) ->
    Tell = teller(Options),
    _ = Tell(#{task => Task, step => What, index => 1, 'of' => 1, percent => Percent}),
    ok.

%% @doc Returns the function that receives progress reports.
-spec teller(whittle_runtime:options()) -> fun((whittle_runtime:progress()) -> term()).
teller(#{progress := Tell}) -> Tell;
teller(_) -> fun(_) -> ok end.
