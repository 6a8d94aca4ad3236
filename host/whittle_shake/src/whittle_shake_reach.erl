%% @doc What can be called: from the roots on, with a reason for each function.
%%
%% A call by name leads to its function. `Module:Function(...)' whose name is known leads
%% to the functions of that name and arity in all modules whose names are about. Where the
%% name comes from elsewhere too, what can be called are the exports of modules whose names
%% are about that have a name which is about. A name is <i>about</i> where a live function
%% moves it, stores it or passes it on, and where a root says so. What is about is one pool
%% for the whole system: an atom may travel by any message, table or argument.
%%
%% <b>Features</b> ({@link whittle_shake_feature}) are off to begin with. An edge from OTP's
%% kernel or stdlib into a feature that is off leads nowhere and is remembered; one from
%% the program turns the feature on, and what was remembered goes on from there.
%%
%% The first reason found is the one that is given, so what is looked at has an order of its
%% own: that of large maps is another one in each VM.
-module(whittle_shake_reach).

-export([reach/1, why/2, by/1]).

-export_type([input/0, reached/0, reason/0, origin/0]).

-type input() ::
        #{modules := #{module() => whittle_shake_summary:summary()},
          program := #{module() => []},         % who turns features on
          calls := [{mfa(), origin()}],         % roots
          kept := [{mfa(), origin()}],          % roots, whatever feature they are of
          traps := #{mfa() => [mfa()]},         % what functions call that their code does
                                                % not show: those in C, and epp's
          atoms := [{atom(), origin()}],        % names that are about by themselves
          known := whittle_shake_known:known(),
          features := whittle_shake_feature:features(),
          answered := boolean(),                % whether a feature that is off answers
          on := [{whittle_shake_feature:name(), origin()}],
          off := [whittle_shake_feature:name()]}. % not to be turned on

-type reached() ::
        #{live := #{mfa() => reason()},
          modules := #{module() => origin()},   % whose names are about
          on := #{whittle_shake_feature:name() => {origin(), mfa() | module() | none}},
          blocked := #{whittle_shake_feature:name() => [{mfa(), reason()}]},
          refused := [{whittle_shake_feature:name(), origin(), mfa() | module() | none}],
          prices := #{whittle_shake_feature:name() => [mfa()]}, % what would come in with it
          program := #{module() => []}}.

%% Who brought it: a live function, or a root in words.
-type origin() :: mfa() | {root, unicode:chardata()}.

-type reason() ::
        {called, origin()}
      | {applied, By :: mfa(), Module :: origin()}      % its name and arity known there
      | {named, Module :: origin(), Function :: origin()} % both names are about
      | {whole, mfa()}.                                 % its module cannot be split

-record(state,
        {modules, program, features, known, traps, answered,
         named = #{} :: #{atom() => [{module(), arity()}]},  % exports by name
         live = #{} :: #{mfa() => reason()},
         new = [] :: [mfa()],               % live ones, of this search
         about = #{} :: #{module() => origin()},
         names = #{} :: #{atom() => origin()},
         tags = #{} :: #{atom() => origin()},
         sites = #{} :: #{whittle_shake_summary:fa() => mfa()},
         choices = #{} :: #{{module(), arity()} => mfa()},
         on = #{}, off = [], blocked = #{},
         met = #{} :: #{whittle_shake_feature:use() => []}, % in the program
         refused = [],                      % features that are off and used nevertheless
         todo = [] :: [mfa()]}).

%% @doc Follows all edges from the roots.
-spec reach(input()) -> reached().
reach(#{modules := Modules, program := Program, calls := Calls, kept := Kept, traps := Traps,
        atoms := Atoms, known := Known, features := Features, answered := Answered, on := On,
        off := Off}) ->
    State0 = #state{modules = Modules, program = Program, features = Features, known = Known,
                    traps = Traps, answered = Answered, off = Off, named = by_name(Modules)},
    State1 = lists:foldl(fun({Name, Origin}, State) -> turn_on(Name, Origin, none, State) end,
                         State0, On),
    State2 = lists:foldl(fun({Mfa, Origin}, State) -> live(Mfa, {called, Origin}, State) end,
                         State1, Kept),
    State3 = lists:foldl(fun({Mfa, Origin}, State) -> edge(Mfa, {called, Origin}, State) end,
                         State2, Calls),
    State4 = lists:foldl(fun({Atom, Origin}, State) -> atom(Atom, Origin, State) end,
                         State3, Atoms),
    #state{live = Live, about = About, on = NowOn, blocked = Blocked, refused = Refused} =
        State5 = follow(State4),
    #{live => Live, modules => About, on => NowOn, blocked => Blocked,
      refused => lists:reverse(Refused), program => Program,
      prices => maps:map(fun(Name, _) -> price(Name, State5) end, Blocked)}.

%% @doc The way from a root to a function: it, what called or named it, and so on.
-spec why(mfa(), reached()) -> [{mfa(), reason()}].
why(Mfa, #{live := Live}) -> chain(Mfa, Live).

%% @doc Who called or named it.
-spec by(reason()) -> origin().
by({called, By}) -> By;
by({applied, By, _}) -> By;
by({named, By, _}) -> By;
by({whole, By}) -> By.

%% Internal

%% What comes to life when the feature is turned on at the end: a search that goes on from
%% there, and so costs what it finds.
price(Feature, State) ->
    #state{new = New} = follow(turn_on(Feature, {root, feature(Feature)}, none,
                                       State#state{off = [], new = []})),
    lists:sort(New).

chain(Mfa, Live) ->
    case Live of
        #{Mfa := Reason} -> [{Mfa, Reason} | chain(by(Reason), Live)];
        _ -> []
    end.

by_name(Modules) ->
    maps:groups_from_list(fun({_, {F, _}}) -> F end, fun({M, {_, A}}) -> {M, A} end,
                          [{M, FA} || M <- lists:sort(maps:keys(Modules)),
                                      FA <- maps:get(exports, maps:get(M, Modules))]).

follow(#state{todo = []} = State) ->
    State;
follow(#state{todo = [{M, F, A} = Mfa | Todo], modules = Modules} = State) ->
    #{M := #{functions := #{{F, A} := Func} = Functions, whole := Whole}} = Modules,
    #{calls := Calls} = Func,
    Traps = maps:get(Mfa, State#state.traps, []),
    Next = mentions(Mfa, Func#{calls := Traps ++ Calls}, State#state{todo = Todo}),
    follow(case Whole of
               true -> lists:foldl(fun({F1, A1}, S) -> edge({M, F1, A1}, {whole, Mfa}, S) end,
                                   Next, lists:sort(maps:keys(Functions)));
               false -> Next
           end).

mentions(Mfa, #{calls := Calls, atoms := Atoms, tags := Tags, forms := Forms, sites := Sites},
         State) ->
    State1 = lists:foldl(fun(To, S) -> edge(To, {called, Mfa}, S) end, State, Calls),
    State2 = lists:foldl(fun(Atom, S) -> atom(Atom, Mfa, S) end, State1, Atoms),
    State3 = lists:foldl(fun(Tag, S) -> tag(Tag, Mfa, S) end, State2, Tags),
    State4 = lists:foldl(fun(Form, S) -> used({form, Form}, Mfa, S) end, State3, Forms),
    lists:foldl(fun(Site, S) -> site(Site, Mfa, S) end, State4, Sites).

%% Edges

edge({M, F, A} = Mfa, Reason, #state{modules = Modules} = State) ->
    case Modules of
        #{M := #{functions := #{{F, A} := _}}} ->
            %% Also of what is live: the program may not have been the first to call it.
            enter(Mfa, Reason, used(Mfa, caller(Reason), used(M, caller(Reason), State)));
        _ ->
            State
    end.

enter(Mfa, _, #state{live = Live} = State) when is_map_key(Mfa, Live) -> State;
enter(Mfa, Reason, State) ->
    case gate(Mfa, Reason, State) of
        open -> live(Mfa, Reason, State);
        {shut, Feature} -> shut(Feature, Mfa, Reason, State);
        {turn_on, Feature} -> live(Mfa, Reason, turn_on(Feature, caller(Reason), Mfa, State))
    end.

shut(Feature, Mfa, Reason, #state{answered = false} = State) ->
    block(Feature, Mfa, Reason, State);
shut(Feature, {_, _, A} = Mfa, Reason, #state{features = Features} = State) ->
    Blocked = block(Feature, Mfa, Reason, State),
    case whittle_shake_feature:answer(Mfa, Features) of
        {ok, {call, {M, F}}} -> edge({M, F, A}, Reason, Blocked);
        {ok, {value, Term}} ->
            lists:foldl(fun(Atom, S) -> module(Atom, by(Reason), S) end, Blocked,
                        whittle_shake_summary:atoms(Term));
        _ -> Blocked
    end.

%% What turning a feature on has let in may have brought it to life already.
live(Mfa, _, #state{live = Live} = State) when is_map_key(Mfa, Live) -> State;
live(Mfa, Reason, #state{live = Live, new = New, todo = Todo} = State) ->
    State#state{live = Live#{Mfa => Reason}, new = [Mfa | New], todo = [Mfa | Todo]}.

gate(Mfa, Reason, #state{features = Features, on = On} = State) ->
    case whittle_shake_feature:of_call(home(caller(Reason)), Mfa, Features) of
        {ok, Feature} when is_map_key(Feature, On) -> open;
        {ok, Feature} ->
            case within(caller(Reason), Feature, State) of
                feature -> open;
                program -> {turn_on, Feature};
                other ->
                    case asked_at_start(Mfa, State) of
                        true -> open;
                        false -> {shut, Feature}
                    end
            end;
        none -> open
    end.

%% What has a value for an answer is called at every start; so where there are no answers it
%% is needed at hand, though the feature is off.
asked_at_start(_, #state{answered = true}) -> false;
asked_at_start(Mfa, #state{features = Features}) ->
    case whittle_shake_feature:answer(Mfa, Features) of
        {ok, {value, _}} -> true;
        _ -> false
    end.

%% Names come from nowhere in particular: who was found to mention one first is chance. What
%% the program's mention of a module turns on, {@link whittle_shake_feature:of_name/2} says.
caller({called, By}) -> By;
caller({whole, By}) -> By;
caller({applied, _, _}) -> {root, "names"};
caller({named, _, _}) -> {root, "names"}.

%% Where an edge comes from: the feature itself, the program, or somewhere else.
within({root, _}, _, _) -> other;
within({M, _, _}, Feature, #state{program = Program, features = Features}) ->
    case whittle_shake_feature:of_module(M, Features) of
        {ok, Feature} -> feature;
        _ when is_map_key(M, Program) -> program;
        _ -> other
    end.

block(Feature, Mfa, Reason, #state{blocked = Blocked} = State) ->
    State#state{blocked = maps:update_with(Feature, fun(L) -> [{Mfa, Reason} | L] end,
                                           [{Mfa, Reason}], Blocked)}.

home({root, _}) -> none;
home({M, _, _}) -> M.

turn_on(Feature, _, _, #state{on = On} = State) when is_map_key(Feature, On) ->
    State;
turn_on(Feature, Origin, What, #state{off = Off} = State) ->
    case lists:member(Feature, Off) of
        true -> State#state{refused = [{Feature, Origin, What} | State#state.refused]};
        false -> turned_on(Feature, Origin, What, State)
    end.

turned_on(Feature, Origin, What,
          #state{on = On, blocked = Blocked, features = Features} = State) ->
    Waiting = maps:get(Feature, Blocked, []),
    Turned = State#state{on = On#{Feature => {Origin, What}},
                         blocked = maps:remove(Feature, Blocked)},
    Needed = lists:foldl(fun(Need, S) -> turn_on(Need, Origin, What, S) end, Turned,
                         whittle_shake_feature:needs(Feature, Features)),
    Brought = lists:foldl(fun(Atom, S) -> atom(Atom, {root, feature(Feature)}, S) end, Needed,
                          whittle_shake_feature:brings(Feature, Features)),
    lists:foldl(fun({Mfa, Reason}, S) -> edge(Mfa, Reason, S) end, Brought, Waiting).

feature(Name) -> ["the feature ", atom_to_list(Name)].

%% Names

atom(Atom, Origin, State) ->
    name(Atom, Origin, module(Atom, Origin, used(Atom, Origin, State))).

%% The first element of a tuple says what the tuple is, as a rule; but `{Module, Args}'
%% is a child's specification, and `{Function, ...}' what a module keeps for a call of another
%% whose functions it chooses.
tag(Tag, Origin, State) ->
    chosen(Tag, Origin, module(Tag, Origin, used({Tag}, Origin, State))).

chosen(F, _, #state{tags = Tags} = State) when is_map_key(F, Tags) -> State;
chosen(F, Origin, #state{tags = Tags, named = Named} = State) ->
    lists:foldl(fun({M, A}, #state{choices = Choices} = S) ->
                        case Choices of
                            #{{M, A} := By} -> edge({M, F, A}, {applied, By, Origin}, S);
                            _ -> S
                        end
                end, State#state{tags = Tags#{F => Origin}}, maps:get(F, Named, [])).

module(M, Origin, #state{known = Known} = State) ->
    case whittle_shake_known:means(Origin, M, Known) of
        true -> meant(M, Origin, State);
        false -> State
    end.

%% A name that is a module's without doubt: that of a call.
meant(M, Origin, #state{modules = Modules, about = About} = State) ->
    case Modules of
        #{M := #{exports := Exports}} ->
            Ready = by_program(whittle_shake_feature:of_name(M, State#state.features), Origin, M,
                               State),
            case is_map_key(M, About) of
                true -> Ready;
                false ->
                    lists:foldl(fun({F, A}, S) -> dynamic(M, F, A, Origin, S) end,
                                Ready#state{about = About#{M => Origin}}, Exports)
            end;
        _ -> State
    end.

%% Calls of a module or function by the program, a name, a tag or a form that it mentions may
%% turn on what is no part of that module.
used(What, Origin, #state{features = Features} = State) ->
    lists:foldl(fun({Feature, All}, S) -> used(What, All, Feature, Origin, S) end, State,
                whittle_shake_feature:of_use(What, Features)).

used(What, All, Feature, Origin, #state{met = Met} = State) ->
    case within(Origin, Feature, State) of
        program ->
            Now = Met#{What => []},
            case lists:all(fun(Use) -> is_map_key(Use, Now) end, All) of
                true -> turn_on(Feature, Origin, called(What), State#state{met = Now});
                false -> State#state{met = Now}
            end;
        _ -> State
    end.

called({_, _, _} = Mfa) -> Mfa;
called(Name) when is_atom(Name) -> Name;
called(_) -> none.

by_program(none, _, _, State) -> State;
by_program({ok, Feature}, Origin, What, State) ->
    case within(Origin, Feature, State) of
        program -> turn_on(Feature, Origin, What, State);
        _ -> State
    end.

%% An export of a module whose name is about.
dynamic(M, F, A, Origin, #state{sites = Sites, names = Names} = State) ->
    case {Sites, Names} of
        {#{{F, A} := By}, _} -> edge({M, F, A}, {applied, By, Origin}, State);
        {_, #{F := By}} -> edge({M, F, A}, {named, Origin, By}, State);
        _ -> State
    end.

name(F, _, #state{names = Names} = State) when is_map_key(F, Names) -> State;
name(F, Origin, #state{names = Names, named = Named} = State) ->
    lists:foldl(fun({M, A}, #state{about = About} = S) ->
                        case About of
                            #{M := By} -> edge({M, F, A}, {named, By, Origin}, S);
                            _ -> S
                        end
                end, State#state{names = Names#{F => Origin}}, maps:get(F, Named, [])).

site({any, any, _}, _, State) -> State;
site({M, any, A}, Mfa, State) -> choice(M, A, Mfa, meant(M, Mfa, State));
site({any, F, A}, _, #state{sites = Sites} = State) when is_map_key({F, A}, Sites) -> State;
site({any, F, A}, Mfa, #state{sites = Sites, named = Named} = State) ->
    lists:foldl(fun({M, Arity}, #state{about = About} = S) ->
                        case About of
                            #{M := By} when Arity =:= A ->
                                edge({M, F, A}, {applied, Mfa, By}, S);
                            _ -> S
                        end
                end, State#state{sites = Sites#{{F, A} => Mfa}}, maps:get(F, Named, []));
site({M, F, A}, Mfa, State) -> edge({M, F, A}, {called, Mfa}, State).

%% A call of a function of this module that comes from elsewhere.
choice(M, A, _, #state{choices = Choices} = State) when is_map_key({M, A}, Choices) -> State;
choice(M, A, Mfa, #state{modules = Modules, choices = Choices, tags = Tags} = State) ->
    #{exports := Exports} = maps:get(M, Modules, #{exports => []}),
    lists:foldl(fun({F, Arity}, S) ->
                        case Tags of
                            #{F := By} when Arity =:= A -> edge({M, F, A}, {applied, Mfa, By}, S);
                            _ -> S
                        end
                end, State#state{choices = Choices#{{M, A} => Mfa}}, Exports).
