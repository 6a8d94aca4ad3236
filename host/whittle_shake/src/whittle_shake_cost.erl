%% @doc Measures the cost of a plan in functions and bytes.
%%
%% It measures the hot part and the rest. It also measures the retained size of each application
%% and each kind of dynamic call: the code that is hot only because of it.
%%
%% A retained size is the difference between two plans. One is the plan of the system. The other is
%% a plan of the same system without that application, or without the functions that supply names
%% for the dynamic calls. If two applications need the same function, it is in the retained size of
%% neither. So retained sizes do not add up. Both plans do without the functions that a recording
%% called: these stay, whatever the second plan lacks. But only functions that are hot count.
-module(whittle_shake_cost).

-export([costs/3, kept/2]).

-export_type([costs/0, amount/0, application/0, dynamic/0]).

-type costs() ::
        #{missing := load | crash,
          all := amount(),
          hot := amount(),                      % in the VM from its start
          rest := amount(),                     % cold, or removed
          applications := [application()],      % the most expensive first
          dynamic := [dynamic()]}.

-type amount() ::
        #{functions := non_neg_integer(),
          bytes := non_neg_integer(),           % of code and literals, estimated
          memory := non_neg_integer()}.         % when all of it is loaded, estimated

-type application() ::
        #{name := whittle_system:app_name(),
          hot := amount(),                      % of its own code
          rest := amount(),
          opens := [whittle_shake_dynamic:kind()],  % the dynamic calls that it makes
          %% absent if the build needs the application, or if there are too many applications
          retained => amount()}.

-type dynamic() ::
        #{kind := whittle_shake_dynamic:kind(),
          declared := boolean(),
          by := [whittle_system:app_name()],    % applications whose functions make the calls
          functions := [binary()],              % these functions
          retained := amount(),
          closed_by := binary()}.               % the option or the change that prevents the calls

%% Bytes of memory for one byte of code. The interpreter of OTP 29 takes 6,527,768 bytes for 126
%% modules of kernel and stdlib with 2,354,467 bytes of code (erlang:memory(code) before and after
%% loading them).
-define(MEMORY, 2.77).

%% The number of functions to visit for costs. One second is enough for them (bench/shake_speed).
-define(VISITS, 150000).

%% @doc Measures the costs of a plan of this system. `Shaken' is the system after the plan: in its
%% modules that are not split, all functions are hot.
-spec costs(whittle_shake:plan(), whittle_system:system(), Shaken :: whittle_system:system()) ->
          costs().
costs(#{input := Input, reached := #{live := Live} = Reached, hot := Hot, missing := Missing,
        summaries := Summaries, open := Undeclared} = Plan, System, Shaken) ->
    {HotMfas, Rest} = hot_and_rest(Plan, System, unsplit(Missing, Shaken)),
    All = HotMfas ++ Rest,
    Weigh = fun(Mfas) -> amount(Mfas, Summaries) end,
    Reach = fun(In) -> maps:get(live, whittle_shake_reach:reach(In#{priced => false})) end,
    {Unrecorded, LiveUnrecorded} = case without_root(whittle_shake_roots:recording(), Input) of
                                       Input -> {Input, Live};
                                       Others -> {Others, Reach(Others)}
                                   end,
    Needed = maps:intersect(Hot, LiveUnrecorded),
    %% The functions of an application go with it, also those that only a recording called.
    Without = fun(Less, Own) ->
                      Lost = maps:keys(maps:without(maps:keys(Reach(Less)), Needed)),
                      Weigh(lists:usort(Own ++ Lost))
              end,
    Calls = whittle_shake_dynamic:open(Reached, Summaries),
    Homes = maps:from_list([{M, Name} || {Name, M, _} <- whittle_system:modules(System)]),
    Dynamic = [dynamic(Open, lists:member(Open, Undeclared),
                       {Homes, whittle_system:roots(System)}, Without, Unrecorded)
               || Open <- Calls],
    HotBy = by_app(HotMfas, Homes),
    RestBy = by_app(Rest, Homes),
    Apps = [{Weigh(maps:get(Name, HotBy, [])), Weigh(maps:get(Name, RestBy, [])), App}
            || #{name := Name} = App <- whittle_system:apps(System)],
    Largest = lists:sort(fun({#{bytes := A}, _, #{name := N}}, {#{bytes := B}, _, #{name := M}}) ->
                                 {-A, N} =< {-B, M}
                         end, Apps),
    Retained = fun(#{name := Name} = App) ->
                       Without(without_app(App, Unrecorded), maps:get(Name, HotBy, []))
               end,
    #{missing => Missing, all => Weigh(All), hot => Weigh(HotMfas), rest => Weigh(Rest),
      applications => largest(applications(Largest, Dynamic, Retained,
                                           ?VISITS - map_size(Live) * length(Calls),
                                           map_size(Live))),
      dynamic => Dynamic}.

%% @doc Measures the hot functions: all that a plan for `--missing crash' keeps.
-spec kept(whittle_shake:plan(), whittle_system:system()) -> amount().
kept(#{summaries := Summaries} = Plan, System) ->
    {Hot, _} = hot_and_rest(Plan, System, #{}),
    amount(Hot, Summaries).

%% With `crash' nothing is cold, and a module that stays has lost its other functions.
unsplit(load, Shaken) -> whittle_shake_companion:unsplit(Shaken);
unsplit(crash, _) -> #{}.

hot_and_rest(#{hot := Hot, summaries := Summaries}, System, Unsplit) ->
    Packed = maps:with([M || {_, M, _} <- whittle_system:modules(System)], Summaries),
    lists:partition(fun({M, _, _} = Mfa) -> is_map_key(Mfa, Hot) orelse is_map_key(M, Unsplit) end,
                    [{M, F, A} || {M, #{functions := Functions}} <- maps:to_list(Packed),
                                  {F, A} <- maps:keys(Functions)]).

by_app(Mfas, Homes) ->
    maps:groups_from_list(fun({M, _, _}) -> maps:get(M, Homes) end, Mfas).

%% Takes the largest applications first, until the visits are used up.
applications([{Hot, Rest, #{name := Name} = App} | Apps], Dynamic, Retained, Left, Each) ->
    Application = #{name => Name, hot => Hot, rest => Rest,
                    opens => [Kind || #{kind := Kind, by := By} <- Dynamic,
                                      lists:member(Name, By)]},
    case can_go(App) of
        true when Left >= Each ->
            [Application#{retained => Retained(App)}
             | applications(Apps, Dynamic, Retained, Left - Each, Each)];
        _ -> [Application | applications(Apps, Dynamic, Retained, Left, Each)]
    end;
applications([], _, _, _, _) ->
    [].

can_go(#{origin := #{kind := device}}) -> false;
can_go(#{name := Name}) -> Name =/= kernel andalso Name =/= stdlib.

largest(Applications) ->
    Bytes = fun(#{retained := #{bytes := Bytes}}) -> Bytes;
               (#{hot := #{bytes := Bytes}}) -> Bytes
            end,
    lists:sort(fun(#{name := N} = A, #{name := M} = B) -> {-Bytes(A), N} =< {-Bytes(B), M} end,
               Applications).

%% Leaves out the modules of an application and the names in its configuration.
without_app(#{name := Name, modules := Modules}, #{modules := All, program := Program,
                                                   atoms := Atoms, kept := Kept} = Input) ->
    Names = maps:keys(Modules),
    Root = {root, whittle_shake_roots:application(Name)},
    Input#{modules := maps:without(Names, All), program := maps:without(Names, Program),
           kept := [Each || {{M, _, _}, _} = Each <- Kept, not is_map_key(M, Modules)],
           atoms := [Atom || {_, Origin} = Atom <- Atoms, Origin =/= Root]}.

dynamic({Kind, Who}, IsOpen, {Homes, Roots}, Without, Input) ->
    By = lists:usort([App || {M, _, _} <- Who, {ok, App} <- [maps:find(M, Homes)]]),
    #{kind => Kind, declared => not IsOpen, by => By,
      functions => [text_of(whittle_shake_name:origin(Each)) || Each <- Who],
      retained => Without(closed(Kind, Input), []),
      closed_by => text_of(closed_by(Kind, IsOpen, is_any_named(Kind, Input),
                                 changes(By, Roots)))}.

%% Tells whether the option of a kind of calls names anything.
is_any_named(Kind, #{atoms := Atoms, kept := Kept}) ->
    Root = {root, whittle_shake_dynamic:declaration(Kind)},
    lists:keymember(Root, 2, Kept) orelse lists:keymember(Root, 2, Atoms).

%% Makes an input in which the program does not make these calls and options declare nothing for
%% them.
closed(Kind, #{modules := Modules, program := Program} = Input) ->
    Opening = maps:from_keys(whittle_shake_dynamic:opening(Kind), []),
    Shut = maps:map(fun(M, Summary) when is_map_key(M, Program) -> without_calls(Opening, Summary);
                       (_, Summary) -> Summary
                    end, Modules),
    without_feature(Kind, without_root(whittle_shake_dynamic:declaration(Kind),
                                       Input#{modules := Shut})).

%% Leaves out what a person named in this way.
without_root(Text, #{kept := Kept, atoms := Atoms} = Input) ->
    Others = fun(Named) -> [Each || {_, Origin} = Each <- Named, Origin =/= {root, Text}] end,
    Input#{kept := Others(Kept), atoms := Others(Atoms)}.

without_calls(Opening, #{functions := Functions} = Summary) ->
    Left = fun(Calls) -> [Call || Call <- Calls, not is_map_key(Call, Opening)] end,
    Summary#{functions := maps:map(fun(_, #{calls := Calls} = Function) ->
                                           Function#{calls := Left(Calls)}
                                   end, Functions)}.

without_feature(remote, #{on := On, off := Off} = Input) ->
    Input#{on := [Each || {Name, _} = Each <- On, Name =/= distribution],
           off := [distribution | Off]};
without_feature(_, Input) ->
    Input.

closed_by(Kind, true, _, Changes) ->
    [whittle_shake_dynamic:declaration(Kind), " none", also(", or ", Changes)];
closed_by(Kind, false, true, Changes) ->
    [whittle_shake_dynamic:declaration(Kind), " declares them", also("; ", Changes)];
closed_by(Kind, false, false, Changes) ->
    [whittle_shake_dynamic:declaration(Kind), " none rules them out", also("; ", Changes)].

also(_, []) -> "";
also(Before, Changes) -> [Before, Changes].

%% An application that the user asked for can only do without the calls. Another one can go.
changes(By, Roots) ->
    {Asked, Others} = lists:partition(fun(App) -> lists:member(App, Roots) end, By),
    lists:join(" and ", [[Verb, names(Apps)]
                         || {Verb, [_ | _] = Apps} <- [{"remove ", Others},
                                                       {"change the calls of ", Asked}]]).

names(Apps) -> lists:join(" and ", [atom_to_list(App) || App <- Apps]).

amount(Mfas, Summaries) ->
    Bytes = lists:sum([bytes(Mfa, Summaries) || Mfa <- Mfas]),
    #{functions => length(Mfas), bytes => Bytes, memory => round(?MEMORY * Bytes)}.

bytes({M, F, A}, Summaries) ->
    #{M := #{functions := #{{F, A} := #{bytes := Bytes}}}} = Summaries,
    Bytes.

text_of(Text) -> unicode:characters_to_binary(Text).
