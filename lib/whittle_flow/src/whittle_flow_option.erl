%% @hidden Checks the options of all parts of whittle_flow.
-module(whittle_flow_option).

-export([check/2, start/3, start/4]).

%% The largest number of processes. A larger number is a mistake, and its processes would take all
%% of the VM's memory.
-define(PROCESSES, 65536).

%% @doc Checks that Options is a map with only Allowed keys and valid values.
-spec check([atom()], term()) -> ok | {error, whittle_flow:reason()}.
check(Allowed, Options) when is_map(Options) ->
    case [{K, V} || {K, V} <- lists:sort(maps:to_list(Options)),
                    not (lists:member(K, Allowed) andalso fits(K, V))] of
        [] -> order(Options);
        [Bad | _] -> {error, {bad_option, Bad}}
    end;
check(_, Options) -> {error, {bad_option, Options}}.

%% @doc Checks the options of a process with the name Name. This application must run.
-spec start(term(), [atom()], term()) -> ok | {error, whittle_flow:reason()}.
start(Name, Allowed, Options) ->
    case fits(name, Name) of
        false -> {error, {bad_option, {name, Name}}};
        true ->
            case {check(Allowed, Options), whereis(whittle_flow_sup)} of
                {ok, undefined} -> {error, {not_started, whittle_flow}};
                {Result, _} -> Result
            end
    end.

%% @doc Checks the options of a process that runs Module. Module must export the callbacks.
-spec start(term(), {term(), [{atom(), arity()}]}, [atom()], term()) ->
          ok | {error, whittle_flow:reason()}.
start(Name, {Module, Callbacks}, Allowed, Options) ->
    case start(Name, Allowed, Options) of
        ok ->
            case is_atom(Module) andalso code:ensure_loaded(Module) =:= {module, Module}
                andalso lists:all(fun({F, Arity}) -> erlang:function_exported(Module, F, Arity) end,
                                  Callbacks) of
                true -> ok;
                false -> {error, {bad_option, {module, Module}}}
            end;
        {error, _} = Error -> Error
    end.

order(#{floor := Floor, ceiling := Ceiling}) when Floor > Ceiling ->
    {error, {bad_option, {floor, Floor}}};
order(_) -> ok.

fits(key, V) -> is_function(V, 1);
fits(name, V) -> is_atom(V) andalso V =/= undefined;
fits(policy, {priority, V}) -> is_function(V, 1);
fits(policy, V) -> lists:member(V, [block, oldest, newest]);
fits(to, V) -> is_pid(V) orelse fits(name, V);
%% The VM can wait at most this number of milliseconds.
fits(K, V) when K =:= wait; K =:= retire_after ->
    is_integer(V) andalso V >= 0 andalso V < 1 bsl 32;
fits(K, V) when K =:= shards; K =:= fanouts ->
    is_integer(V) andalso V > 0 andalso V =< ?PROCESSES;
fits(intensity, {N, Seconds}) -> is_integer(N) andalso N >= 0 andalso fits(seconds, Seconds);
fits(intensity, _) -> false;
fits(_, V) -> is_integer(V) andalso V > 0.
