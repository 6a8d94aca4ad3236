%% @hidden Computes what each feature would add to a program: to its code, and to its VM.
%%
%% The pass takes the place of {@link whittle_make_shake}. It changes nothing. For each feature it
%% makes a second plan, in which the feature is off instead of on, or on instead of off. The caller
%% links the VM of each plan to learn its size.
-module(whittle_make_prices).
-behaviour(whittle_pass).

-import(whittle_work, [steps/1]).

-export([name/0, run/2]).

-export_type([result/0, variant/0]).

-type result() :: #{cut := whittle_runtime:cut(), bytes := non_neg_integer(),
                    variants := [variant()]}.

%% The other plan. `bytes' are those of hot code, before compression.
-type variant() ::
        #{name := whittle_shake_feature:name(),
          is_on := boolean(),
          because => unicode:chardata(),    % why it is on
          cut := whittle_runtime:cut(), bytes := non_neg_integer()}
      %% The program needs this feature.
      | #{name := whittle_shake_feature:name(), is_on := true, because := unicode:chardata()}.

%% @private
-spec name() -> atom().
name() -> prices.

%% @private
-spec run(whittle_system:system(), whittle_pass:options()) ->
          {ok, whittle_system:system(), result()} | {error, {shake, whittle_shake:error()}}.
run(System, #{shake := Given, otp := Otp} = All) ->
    steps([fun(_) -> whittle_make_shake:facts(System, Otp) end,
           fun(Facts) -> planned(#{system => System, otp => Otp, all => All,
                                   options => Given#{facts => Facts, vm => program}}) end,
           fun(Result) -> {ok, System, Result} end]).

planned(#{options := Options} = Given) ->
    steps([fun(_) -> plan(Options, Given) end,
           fun(Plan) -> steps([fun(_) -> weighed(Plan, Given) end,
                               fun(Own) -> with_variants(Own, Plan, Given) end]) end]).

with_variants(Own, Plan, Given) ->
    Names = [Name || {Name, _} <- whittle_shake:features()],
    steps([fun(_) -> whittle_work:each(fun(Name) -> variant(Name, Plan, Given) end, Names) end,
           fun(Variants) -> {ok, Own#{variants => Variants}} end]).

plan(Options, #{system := System}) -> whittle_make_shake:plan(System, Options).

weighed(Plan, #{system := System, otp := Otp}) ->
    steps([fun(_) -> whittle_make_shake:cut(program, Plan, Otp) end,
           fun(#{cut := Cut}) ->
                   #{bytes := Bytes} = whittle_shake_cost:hot(Plan, System),
                   {ok, #{cut => Cut, bytes => Bytes}}
           end]).

variant(Name, Plan, #{all := All, options := Options} = Given) ->
    whittle_pass:tell({pricing, Name}, All),
    On = lists:delete(Name, maps:get(on, Options, [])),
    Off = lists:delete(Name, maps:get(off, Options, [])),
    case whittle_shake:turned_on(Name, Plan) of
        {true, Because} ->
            Variant = #{name => Name, is_on => true, because => Because},
            case plan(Options#{on => On, off => [Name | Off]}, Given) of
                {error, {shake, {feature_called, _}}} -> {ok, Variant};
                Other -> priced(Other, Variant, Given)
            end;
        false ->
            priced(plan(without_open_calls(Options#{on => [Name | On], off => Off}), Given),
                   #{name => Name, is_on => false}, Given)
    end.

priced({ok, Plan}, Variant, Given) ->
    steps([fun(_) -> weighed(Plan, Given) end,
           fun(Other) -> {ok, maps:merge(Variant, Other)} end]);
priced({error, _} = Error, _, _) -> Error.

%% The feature may bring dynamic calls. What they reach has a price of its own.
without_open_calls(#{declared := Declared} = Options) ->
    Options#{declared := maps:merge(maps:from_keys(whittle_shake:kinds(), []), Declared)}.
