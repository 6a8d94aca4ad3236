%% @doc Checks options, for definitions and for the ways out.
-module(whittle_counters_option).

-export([check/2, is_port/1, is_positive/1, is_timeout/1, is_list_of/2]).

%% @doc Whether Options is a map of options that fit.
-spec check(fun((Key :: term(), Value :: term()) -> boolean()), term()) ->
          ok | {error, {bad_option, term()}}.
check(Fits, Options) when is_map(Options) ->
    case [{K, V} || {K, V} <- lists:sort(maps:to_list(Options)), not Fits(K, V)] of
        [] -> ok;
        [Bad | _] -> {error, {bad_option, Bad}}
    end;
check(_, Options) ->
    {error, {bad_option, Options}}.

%% @doc Whether it is a port's number.
-spec is_port(term()) -> boolean().
is_port(V) -> is_integer(V) andalso V >= 0 andalso V < 65536.

%% @doc Whether it is a whole number above zero.
-spec is_positive(term()) -> boolean().
is_positive(V) -> is_integer(V) andalso V > 0.

%% @doc Whether it is a number of milliseconds above zero that the VM can wait.
-spec is_timeout(term()) -> boolean().
is_timeout(V) -> is_positive(V) andalso V < 1 bsl 32.

%% @doc Whether it is a proper list, and Fits says so of each element.
-spec is_list_of(fun((term()) -> boolean()), term()) -> boolean().
is_list_of(Fits, V) when length(V) >= 0 -> lists:all(Fits, V);
is_list_of(_, _) -> false.
