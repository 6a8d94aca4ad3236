%% @hidden Computes what each feature adds to a program: to its code, and to its VM.
%%
%% The pass takes the place of {@link whittle_make_shake}. It changes nothing. For each feature it
%% makes a second plan, in which the feature is off instead of on, or on instead of off. A function
%% in the options links the VM of each plan and returns its size.
-module(whittle_make_prices).
-behaviour(whittle_pass).

-import(whittle_work, [steps/1]).

-export([name/0, run/2]).

-export_type([prices/0, price/0]).

%% The bytes of hot code before compression, and the bytes of the VM. The features are in the order
%% of their names.
-type prices() :: #{code := non_neg_integer(), vm := pos_integer(), features := [price()]}.

%% A feature that the program needs is on and has no price.
-type price() ::
        #{name := whittle_shake_feature:name(),
          is_on := boolean(),
          because => unicode:chardata(),    % why it is on
          code => integer(), vm => integer()}. % the bytes that it adds

%% @private
-spec name() -> atom().
name() -> prices.

%% @private
-spec run(whittle_system:system(), whittle_pass:options()) ->
          {ok, whittle_system:system(), prices()} | {error, whittle_pass:reason()}.
run(System, #{shake := Given, otp := Otp} = All) ->
    steps([fun(_) -> whittle_make_shake:facts(System, Otp) end,
           fun(Facts) -> priced(#{system => System, all => All,
                                  options => Given#{facts => Facts, vm => program}}) end,
           fun(Prices) -> {ok, System, Prices} end]).

priced(#{options := Options} = Given) ->
    steps([fun(_) -> plan(Options, Given) end,
           fun(Plan) -> steps([fun(_) -> weighed(Plan, Given) end,
                               fun(Own) -> with_features(Own, Plan, Given) end]) end]).

with_features(Own, Plan, Given) ->
    Price = fun(Name) -> price(Name, Own, Plan, Given) end,
    steps([fun(_) -> whittle_work:each(Price, [Name || {Name, _} <- whittle_shake:features()]) end,
           fun(Prices) -> {ok, Own#{features => Prices}} end]).

price(Name, Own, Plan, #{all := All, options := Options} = Given) ->
    whittle_pass:tell({pricing, Name}, All),
    On = lists:delete(Name, maps:get(on, Options, [])),
    Off = lists:delete(Name, maps:get(off, Options, [])),
    case whittle_shake:turned_on(Name, Plan) of
        {true, Because} ->
            Price = #{name => Name, is_on => true, because => Because},
            case plan(Options#{on => On, off => [Name | Off]}, Given) of
                {error, {shake, {feature_called, _}}} -> {ok, Price};
                {ok, Without} -> difference(Price, weighed(Without, Given), {ok, Own});
                {error, _} = Error -> Error
            end;
        false ->
            With = without_open_calls(Options#{on => [Name | On],
                                               off => Off -- whittle_shake:needed(Name)}),
            steps([fun(_) -> plan(With, Given) end,
                   fun(Other) -> difference(#{name => Name, is_on => false}, {ok, Own},
                                            weighed(Other, Given)) end])
    end.

plan(Options, #{system := System}) -> whittle_make_shake:plan(System, Options).

%% The feature may bring dynamic calls. The price does not contain what these reach.
without_open_calls(#{declared := Declared} = Options) ->
    Options#{declared := maps:merge(maps:from_keys(whittle_shake:kinds(), []), Declared)}.

weighed(Plan, #{system := System, all := #{otp := Otp, weigh := Weigh}}) ->
    steps([fun(_) -> whittle_make_shake:cut(program, Plan, Otp) end,
           fun(#{cut := Cut}) -> Weigh(Cut, natives(Plan, System)) end,
           fun(Vm) ->
                   #{bytes := Code} = whittle_shake_cost:kept(Plan, System),
                   {ok, #{code => Code, vm => Vm}}
           end]).

%% A build links the natives of the modules that are left.
natives(#{hot := Hot}, System) ->
    Left = maps:from_keys([M || {M, _, _} <- maps:keys(Hot)], []),
    whittle_system:natives(
      lists:foldl(fun(#{modules := Modules} = App, Now) ->
                          Kept = maps:filter(fun(M, _) -> is_map_key(M, Left) end, Modules),
                          whittle_system:put_app(App#{modules := Kept}, Now)
                  end, System, whittle_system:apps(System))).

difference(Price, {ok, #{code := Less, vm := Small}}, {ok, #{code := More, vm := Large}}) ->
    {ok, Price#{code => More - Less, vm => Large - Small}};
difference(_, {error, _} = Error, _) -> Error;
difference(_, _, {error, _} = Error) -> Error.
