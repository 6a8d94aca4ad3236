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
%% A function has one reason, the most plausible one: what is called by name is followed to
%% its end first, then what is called by a known name in a module that is not known, then
%% what two names in one function make possible, then what two names anywhere do, and last what
%% a run was seen to call. Each step is breadth first, so
%% the way to a function is short. The search has an order of its own: that of large maps
%% differs from VM to VM.
%%
%% Names also come in from data, where the program asks for it: from the attributes of
%% modules ({@link attributes/3}), from the list of modules in an `.app' file, and from the
%% files that are packed ({@link whittle_shake_data}).
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
          made := [{atom(), origin()}],         % labels that the VM makes
          data := whittle_shake_data:data(),    % names that come in when the program reads
          lists := whittle_shake_data:lists(),  % who lists modules, and which
          known := whittle_shake_known:known(),
          features := whittle_shake_feature:features(),
          answered := boolean(),                % whether a feature that is off answers
          priced => boolean(),                  % whether what it would bring is looked for;
                                                % default: true
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
        {modules, program, features, known, traps, answered, data, lists,
         kept = #{} :: #{mfa() => []},
         named = #{} :: #{atom() => [{module(), arity()}]},  % exports by name
         live = #{} :: #{mfa() => reason()},
         new = [] :: [mfa()],               % live ones, of this search
         about = #{} :: #{module() => origin()},
         names = #{} :: #{atom() => origin()},
         tags = #{} :: #{atom() => origin()},
         sites = #{} :: #{whittle_shake_summary:fa() => mfa()},
         choices = #{} :: #{{module(), arity()} => mfa()},
         %% First elements of tuples and keys of maps, and the modules whose functions they name.
         labels = #{} :: #{atom() => origin()},
         labelled = #{} :: #{module() => origin()},
         on = #{}, off = [], blocked = #{},
         met = #{} :: #{whittle_shake_feature:use() => []}, % in the program
         refused = [],                      % features that are off and used nevertheless
         %% Who goes by attributes, who reads modules' files, and the functions that return some.
         reader = none :: none | mfa(),
         files = none :: none | mfa(),
         %% What reads terms as text, who calls it, and who mentions `modules'.
         text_readers = #{} :: #{mfa() => []},
         consults = none :: none | mfa(),
         modules_key = none :: none | mfa(),
         returned = [] :: [mfa()],
         %% What is to be followed, the most plausible first, and how plausible it is at most.
         todo = {queue:new(), queue:new(), queue:new(), queue:new(), queue:new()},
         pending = #{} :: #{mfa() => 1..5}}).

%% @doc Follows all edges from the roots.
-spec reach(input()) -> reached().
reach(#{modules := Modules, program := Program, calls := Calls, kept := Kept, traps := Traps,
        atoms := Atoms, made := Made, data := Data, lists := Lists, known := Known,
        features := Features, answered := Answered, on := On, off := Off} = Input) ->
    State0 = #state{modules = Modules, program = Program, features = Features, known = Known,
                    traps = Traps, answered = Answered, off = Off, named = by_name(Modules),
                    data = Data, lists = Lists,
                    text_readers = case Data of #{consults := By} -> By; none -> #{} end,
                    kept = maps:from_list([{Mfa, []} || {Mfa, _} <- Kept])},
    State1 = lists:foldl(fun({Name, Origin}, State) -> turn_on(Name, Origin, none, State) end,
                         State0, On),
    State2 = lists:foldl(fun({Mfa, Origin}, State) ->
                                 push(of_option(Origin), Mfa, {called, Origin}, State)
                         end, State1, Kept),
    State3 = lists:foldl(fun({Mfa, Origin}, State) -> edge(Mfa, {called, Origin}, State) end,
                         State2, Calls),
    State4 = lists:foldl(fun({Atom, Origin}, State) -> atom(Atom, Origin, State) end,
                         State3, Atoms),
    %% The VM's atoms come last: where code or configuration has a name too, that is the reason.
    State5 = lists:foldl(fun({Atom, Origin}, State) -> key(Atom, Origin, State) end,
                         follow(State4), Made),
    #state{live = Live, about = About, on = NowOn, blocked = Blocked, refused = Refused} =
        State6 = follow(State5),
    #{live => Live, modules => About, on => NowOn, blocked => Blocked,
      refused => lists:reverse(Refused), program => Program,
      prices => case Input of
                    #{priced := false} -> #{};
                    #{} -> maps:map(fun(Name, _) -> price(Name, State6) end, Blocked)
                end}.

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

follow(#state{live = Live, new = New, pending = Pending} = State) ->
    case pop(State#state.todo) of
        none ->
            State;
        {{Mfa, _}, Todo} when is_map_key(Mfa, Live) ->
            follow(State#state{todo = Todo});
        {{Mfa, Reason}, Todo} ->
            follow(followed(Mfa, State#state{live = Live#{Mfa => Reason}, new = [Mfa | New],
                                             todo = Todo, pending = maps:remove(Mfa, Pending)}))
    end.

followed({M, F, A} = Mfa, #state{modules = Modules} = State) ->
    #{M := #{functions := #{{F, A} := Func} = Functions, whole := Whole}} = Modules,
    #{calls := Calls} = Func,
    Traps = maps:get(Mfa, State#state.traps, []),
    Next = mentions(Mfa, Func#{calls := Traps ++ Calls}, State),
    case Whole of
        true -> lists:foldl(fun({F1, A1}, S) -> edge({M, F1, A1}, {whole, Mfa}, S) end,
                            Next, lists:sort(maps:keys(Functions)));
        false -> Next
    end.

%% The first of the most plausible that wait.
pop(Todo) -> pop(1, Todo).

pop(Level, Todo) when Level > tuple_size(Todo) -> none;
pop(Level, Todo) ->
    case queue:out(element(Level, Todo)) of
        {{value, First}, Rest} -> {First, setelement(Level, Todo, Rest)};
        {empty, _} -> pop(Level + 1, Todo)
    end.

mentions(Mfa, #{calls := Calls, atoms := Atoms, tags := Tags, keys := Keys, forms := Forms,
                sites := Sites} = Func,
         State) ->
    State1 = lists:foldl(fun(To, S) -> edge(To, {called, Mfa}, S) end, State, Calls),
    State2 = pairs(Mfa, Atoms, lists:foldl(fun(Atom, S) -> atom(Atom, Mfa, S) end, State1, Atoms)),
    State3 = lists:foldl(fun(Tag, S) -> tag(Tag, Mfa, S) end, State2, Tags),
    State4 = lists:foldl(fun(Key, S) -> key(Key, Mfa, S) end, State3, Keys),
    State5 = lists:foldl(fun(Form, S) -> form(Form, Mfa, S) end, State4, Forms),
    State6 = lists:foldl(fun(Site, S) -> site(Site, Mfa, S) end, State5, Sites),
    of_program(Mfa, Func, State6).

%% Names in data

%% What the program can do to get names from where code does not show them.
of_program({M, _, _} = Mfa, #{calls := Calls} = Func, #state{program = Program} = State)
  when is_map_key(M, Program) ->
    read(Calls, consulted(Mfa, Func, listed(Mfa, attributes_of_files(Mfa, Calls, State))));
of_program(_, _, State) ->
    State.

%% A key of a map may be a module of the program's: `#{a => 1}' is a table of them as well as a
%% record. OTP's have common words for names. It may also be the name of a function.
key(Key, Mfa, #state{program = Program} = State) when is_map_key(Key, Program) ->
    label(Key, Mfa, module(Key, Mfa, State));
key(Key, Mfa, State) ->
    label(Key, Mfa, State).

%% Who goes by attributes and reads modules' files has those of any module. It need not be one
%% function that does both.
attributes_of_files(Mfa, Calls, #state{files = none} = State) ->
    case lists:keymember(beam_lib, 1, Calls) of
        true -> attributes_of_files(Mfa, Calls, State#state{files = Mfa});
        false -> State
    end;
attributes_of_files(_, _, #state{reader = none} = State) -> State;
attributes_of_files(_, _, #state{files = By} = State) -> site({any, module_info, 1}, By, State).

%% Who asks which modules there are has their names.
listed(Mfa, #state{lists = #{by := By}} = State) when is_map_key(Mfa, By) ->
    all_listed(Mfa, State);
listed(_, State) ->
    State.

all_listed(Mfa, #state{lists = #{modules := Modules}} = State) ->
    lists:foldl(fun(M, S) -> module(M, Mfa, S) end, State#state{lists = none}, Modules).

%% A program that reads terms as text and mentions `modules' may read `.app' files: they list all
%% modules. It need not be one function that does both.
consulted(_, _, #state{lists = none} = State) ->
    State;
consulted(Mfa, #{calls := Calls, atoms := Atoms, tags := Tags, forms := Forms},
          #state{text_readers = Readers, consults = Consults, modules_key = Key} = State) ->
    Reads = first(Consults, Mfa, lists:any(fun(Call) -> is_map_key(Call, Readers) end, Calls)),
    Names = first(Key, Mfa, lists:member(modules, Atoms ++ Tags ++ Forms)),
    Next = State#state{consults = Reads, modules_key = Names},
    case Reads =/= none andalso Names =/= none of
        true -> all_listed(Names, Next);
        false -> Next
    end.

first(none, Mfa, true) -> Mfa;
first(Before, _, _) -> Before.

%% Who reads terms or Erlang text may read what is packed.
read(_, #state{data = none} = State) ->
    State;
read(Calls, #state{data = #{readers := Readers, names := Names}} = State) ->
    case lists:any(fun(Call) -> is_map_key(Call, Readers) end, Calls) of
        true ->
            {Called, Atoms} = Names(),
            Now = lists:foldl(fun({To, Origin}, S) -> edge(To, {called, Origin}, S) end,
                              State#state{data = none}, Called),
            lists:foldl(fun({Atom, Origin}, S) -> atom(Atom, Origin, S) end, Now, Atoms);
        false -> State
    end.

form(attributes, {M, _, _} = Mfa, #state{reader = none, program = Program} = State)
  when is_map_key(M, Program) ->
    #state{returned = Returned} = State,
    lists:foldl(fun attributes/2, State#state{reader = Mfa}, lists:reverse(Returned));
form(own_attributes, Mfa, #state{reader = none, returned = Returned} = State) ->
    State#state{returned = [Mfa | Returned]};
form(own_attributes, Mfa, State) ->
    attributes(Mfa, State);
form(Form, Mfa, State) ->
    used({form, Form}, Mfa, State).

%% A function that returns its module's attributes mentions the names in them, where the
%% program goes by attributes.
attributes({M, _, _} = Mfa, #state{modules = Modules} = State) ->
    #{M := #{attributes := Atoms}} = Modules,
    lists:foldl(fun(Atom, S) -> atom(Atom, Mfa, S) end, State, Atoms).

%% Edges

edge({M, F, A} = Mfa, Reason, #state{modules = Modules} = State) ->
    case Modules of
        #{M := #{functions := #{{F, A} := _}}} ->
            %% Also of what is live: the program may not have been the first to call it.
            enter(Mfa, Reason, used(Mfa, caller(Reason), used(M, caller(Reason), State)));
        _ ->
            State
    end.

enter(Mfa, Reason, #state{live = Live} = State) when is_map_key(Mfa, Live) ->
    better(Mfa, Reason, State);
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

live(Mfa, Reason, State) -> push(plausible(Reason), Mfa, Reason, State).

plausible({called, _}) -> 1;
plausible({applied, _, _}) -> 2;
plausible({whole, _}) -> 2;
plausible({named, By, By}) -> 3;
plausible({named, _, _}) -> 4.

%% To be followed, but where that waits already for a reason that is as good. What turning a
%% feature on has let in may have brought it to life.
push(_, Mfa, _, #state{live = Live} = State) when is_map_key(Mfa, Live) -> State;
push(Level, Mfa, Reason, #state{todo = Todo, pending = Pending} = State) ->
    case Pending of
        #{Mfa := Waiting} when Waiting =< Level -> State;
        _ -> State#state{todo = setelement(Level, Todo,
                                           queue:in({Mfa, Reason}, element(Level, Todo))),
                         pending = Pending#{Mfa => Level}}
    end.

%% A person who names a function knows why; a run that called it had a way to it.
of_option({root, "the evidence"}) -> 5;
of_option(_) -> 1.

%% A reason that is found late may be the more plausible one. It is taken where its own way
%% does not come through the function.
better(Mfa, Reason, #state{live = Live} = State) ->
    case plausible(Reason) < plausible(map_get(Mfa, Live))
        andalso not comes_through(Mfa, by(Reason), Live) of
        true -> State#state{live = Live#{Mfa := Reason}};
        false -> State
    end.

comes_through(Mfa, Mfa, _) -> true;
comes_through(Mfa, By, Live) when is_map_key(By, Live) ->
    comes_through(Mfa, by(map_get(By, Live)), Live);
comes_through(_, _, _) -> false.

%% What options name is kept whatever feature it is of.
gate(Mfa, _, #state{kept = Kept}) when is_map_key(Mfa, Kept) -> open;
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

%% A function that mentions both names, as `spawn(?MODULE, init, [])' does, is likely to be the
%% one that makes the call. What is about has it live in any case: this is a better reason.
pairs(Mfa, Atoms, #state{about = About, named = Named} = State) ->
    case [M || M <- Atoms, is_map_key(M, About)] of
        [] -> State;
        Ms -> lists:foldl(fun({M, F, A}, S) -> edge({M, F, A}, {named, Mfa, Mfa}, S) end, State,
                          [{M, F, A} || F <- Atoms, {M, A} <- maps:get(F, Named, []),
                                        lists:member(M, Ms)])
    end.

%% The first element of a tuple says what the tuple is, as a rule; but `{Module, Args}'
%% is a child's specification, and `{Function, Args}' what a program sends or keeps for a call.
tag(Tag, Origin, State) ->
    label(Tag, Origin, chosen(Tag, Origin, module(Tag, Origin, used({Tag}, Origin, State)))).

%% Most first elements and keys are labels and no names. So they name functions only of the modules
%% that the program consists of or mentions: `apply(M, F, Args)' may get all three from anywhere.
label(F, _, #state{labels = Labels} = State) when is_map_key(F, Labels) -> State;
label(F, Origin, #state{labels = Labels, labelled = Labelled, named = Named} = State) ->
    lists:foldl(fun({M, A}, S) ->
                        case Labelled of
                            #{M := By} -> edge({M, F, A}, {named, By, Origin}, S);
                            _ -> S
                        end
                end, State#state{labels = Labels#{F => Origin}}, maps:get(F, Named, [])).

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
            Ready = labelled(M, Exports, Origin,
                             by_program(whittle_shake_feature:of_name(M, State#state.features),
                                        Origin, M, State)),
            case is_map_key(M, About) of
                true -> Ready;
                false ->
                    lists:foldl(fun({F, A}, S) -> dynamic(M, F, A, Origin, S) end,
                                Ready#state{about = About#{M => Origin}}, Exports)
            end;
        _ -> State
    end.

%% A module that is about, and is the program's or mentioned by it or by its configuration.
labelled(M, _, _, #state{labelled = Labelled} = State) when is_map_key(M, Labelled) -> State;
labelled(M, Exports, Origin, #state{program = Program} = State) ->
    case is_map_key(M, Program) orelse is_of_program(Origin, Program) of
        true ->
            lists:foldl(fun({F, A}, #state{labels = Labels} = S) ->
                                case Labels of
                                    #{F := By} -> edge({M, F, A}, {named, Origin, By}, S);
                                    _ -> S
                                end
                        end, State#state{labelled = (State#state.labelled)#{M => Origin}}, Exports);
        false -> State
    end.

is_of_program({root, _}, _) -> true;
is_of_program({M, _, _}, Program) -> is_map_key(M, Program).

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
