%% @hidden Checks options of definitions, of exporters and of the application.
-module(whittle_counters_option).

-export([check/2, is_port/1, is_positive/1, is_timeout/1, is_list_of/2]).
-export([env/1, check_env/0]).

%% The application's own settings. Its README describes them.
-define(ENV, #{max_series => 100000, publish_after => 20, sweep_every => 10000,
               read_timeout => 2000}).

%% @doc Checks that Options is a map of options that fit.
-spec check(fun((Key :: term(), Value :: term()) -> boolean()), term()) ->
          ok | {error, {bad_option, term()}}.
check(Fits, Options) when is_map(Options) ->
    case [{K, V} || {K, V} <- lists:sort(maps:to_list(Options)), not Fits(K, V)] of
        [] -> ok;
        [Bad | _] -> {error, {bad_option, Bad}}
    end;
check(_, Options) ->
    {error, {bad_option, Options}}.

%% @doc Tells whether a term is a port's number.
-spec is_port(term()) -> boolean().
is_port(V) -> is_integer(V) andalso V >= 0 andalso V < 65536.

%% @doc Tells whether a term is a whole number above zero.
-spec is_positive(term()) -> boolean().
is_positive(V) -> is_integer(V) andalso V > 0.

%% @doc Tells whether a term is a number of milliseconds above zero that the VM can wait.
-spec is_timeout(term()) -> boolean().
is_timeout(V) -> is_positive(V) andalso V < 1 bsl 32.

%% @doc Tells whether a term is a proper list whose elements all fit.
-spec is_list_of(fun((term()) -> boolean()), term()) -> boolean().
is_list_of(Fits, V) when length(V) >= 0 -> lists:all(Fits, V);
is_list_of(_, _) -> false.

%% @doc Reads a setting of the application. An invalid setting gives the default, because a wrong
%% value must not end a running application.
-spec env(max_series | publish_after | sweep_every | read_timeout) -> non_neg_integer().
env(Key) ->
    Default = map_get(Key, ?ENV),
    Value = application:get_env(whittle_counters, Key, Default),
    case is_env(Key, Value) of
        true -> Value;
        false -> Default
    end.

%% @doc Checks the settings of the application.
-spec check_env() -> ok | {error, {bad_option, term()}}.
check_env() ->
    check(fun is_env/2, maps:with(maps:keys(?ENV),
                                  maps:from_list(application:get_all_env(whittle_counters)))).

is_env(max_series, V) -> is_positive(V);
is_env(publish_after, V) -> V =:= 0 orelse is_timeout(V);
is_env(_, V) -> is_timeout(V).
