%% @doc Runs steps in sequence, and maps functions over lists.
%%
%% The other host tools build on this application, and it calls none of them. Each of its public
%% modules is one tool: programs ({@link whittle_program}), files to remove when the work stops
%% ({@link whittle_unfinished}), files and names of unknown origin ({@link whittle_file}, {@link
%% whittle_file_name}, {@link whittle_term}), locks ({@link whittle_lock}), numbers and JSON
%% ({@link whittle_number}, {@link whittle_json}).
-module(whittle_work).

-export([steps/1, each/2, map/2]).

%% @doc Runs steps until one fails. Each step receives the value of the step before it, or `none'
%% after a bare `ok'. The function returns the result of the last step, or the first error. OTP 25
%% supports the `maybe' expression only behind a feature flag.
-spec steps([fun((term()) -> ok | {ok, term()} | {error, Error})]) ->
          ok | {ok, term()} | {error, Error}.
steps(Steps) ->
    lists:foldl(fun(Step, {ok, Value}) -> Step(Value);
                   (Step, ok) -> Step(none);
                   (_, {error, _} = Error) -> Error
                end, ok, Steps).

%% @doc Calls a function for each item until one call fails. The result has the values in order.
-spec each(fun((Item) -> {ok, Value} | {error, Error}), [Item]) ->
          {ok, [Value]} | {error, Error}.
each(Fun, Items) -> each(Fun, Items, []).

each(_, [], Values) -> {ok, lists:reverse(Values)};
each(Fun, [Item | Items], Values) ->
    case Fun(Item) of
        {ok, Value} -> each(Fun, Items, [Value | Values]);
        {error, _} = Error -> Error
    end.

%% @doc Maps a function over a list like `lists:map/2', on all schedulers. The number of
%% schedulers limits the number of concurrent calls, which limits the memory. Each call runs in a
%% process of its own with copies of the function and the item. The function should hold little
%% data, and the result should be small compared with the work. An exception in a call is raised
%% in the caller.
-spec map(fun((Item) -> Result), [Item]) -> [Result].
map(Fun, List) -> whittle_work_map:map(Fun, List).
