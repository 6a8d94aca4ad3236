%% @doc Runs steps one after the other, and a function over a list on all schedulers.
%%
%% This application is the ground floor of the host tools and calls none of the others. Its
%% public modules each hold one tool: programs ({@link whittle_program}), files that are removed
%% when the work stops ({@link whittle_unfinished}), files and names from outside
%% ({@link whittle_file}, {@link whittle_file_name}, {@link whittle_term}), locks
%% ({@link whittle_lock}), numbers and JSON ({@link whittle_number}, {@link whittle_json}).
-module(whittle_work).

-export([steps/1, map/2]).

%% @doc Runs steps until one fails. Each step gets the value of the step before it (`none' after
%% a bare `ok'). The result is the last step's, or the first error. OTP 25 has no `maybe'
%% expression without a feature flag.
-spec steps([fun((term()) -> ok | {ok, term()} | {error, Error})]) ->
          ok | {ok, term()} | {error, Error}.
steps(Steps) ->
    lists:foldl(fun(Step, {ok, Value}) -> Step(Value);
                   (Step, ok) -> Step(none);
                   (_, {error, _} = Error) -> Error
                end, ok, Steps).

%% @doc Maps a function over a list as `lists:map/2' does, on all schedulers. No more calls run
%% at once than there are schedulers, which bounds the memory. Each call has a process of its own
%% and copies of the function and the item, so the function should hold little, and the result
%% should be small compared with the work. An exception in a call is raised here.
-spec map(fun((Item) -> Result), [Item]) -> [Result].
map(Fun, List) -> whittle_work_map:map(Fun, List).
