%% @hidden Finds the functions that a program can call, starting from the entry points.
%%
%% Each found function has a reason. A call by name leads to its function. If
%% `Module:Function(...)' has a known function name, it leads to the functions of that name and
%% arity in all mentioned modules. If the function name is unknown too, it leads to those exports
%% of mentioned modules whose names are mentioned. A name is <i>mentioned</i> where a live
%% function moves it, stores it or passes it on, and where a root says so. A live module of the
%% program's own applications is mentioned too: the VM gives its name in a stack trace. All
%% mentioned names form one pool for the whole system, because an atom may travel by any message,
%% table or argument. `module:Function(...)' leads to those exports of its module whose names are
%% labels. In an application of OTP, whose names may come from a text, it leads to all exports of
%% that arity.
%%
%% <b>Features</b> ({@link whittle_shake_feature}) are off at first. An edge from OTP's kernel or
%% stdlib into a feature that is off leads nowhere, and the search remembers it. An edge from the
%% program turns the feature on, and the search then follows the remembered edges.
%%
%% A function has one reason, the most plausible one. The search first follows calls by name to
%% their end. Then it follows known function names in unknown modules, then pairs of names in one
%% function, then pairs of names anywhere, and last the calls that a run recorded. Each step is
%% breadth first, so the path to a function is short. The search has an order of its own, because
%% the order of large maps differs from VM to VM.
%%
%% Names also come in from data, where the program reads it: from the attributes of modules, from
%% the list of modules in an `.app' file, and from the packed files
%% ({@link whittle_shake_data}).
%%
%% The module has more than 600 lines, because all steps of the search read and write one state.
-module(whittle_shake_reach).

-export([reach/1, why/2, by/1]).

-export_type([input/0, reached/0, reason/0, origin/0]).

-type input() ::
        #{modules := #{module() => whittle_shake_summary:summary()},
          program := #{module() => []},         % modules that turn features on
          own => #{module() => []},             % of these, those that are not of OTP; default: all
          calls := [{mfa(), origin()}],         % roots
          kept := [{mfa(), origin()}],          % roots of any feature
          %% calls that the code does not show: those in C, and epp's
          traps := #{mfa() => [mfa()]},
          atoms := [{atom(), origin()}],        % names that are mentioned from the start
          made := [{atom(), origin()}],         % labels that the VM makes
          data := whittle_shake_data:data(),    % names that come in when the program reads
          lists := whittle_shake_data:lists(),  % functions that list modules, and the modules
          known := whittle_shake_known:known(),
          features := whittle_shake_feature:features(),
          answered := boolean(),                % whether a feature that is off answers
          %% whether to find the functions that each feature would add; default: true
          priced => boolean(),
          on := [{whittle_shake_feature:name(), origin()}],
          off := [whittle_shake_feature:name()]}. % features to leave off

-type reached() ::
        #{live := #{mfa() => reason()},
          modules := #{module() => origin()},   % mentioned modules
          on := #{whittle_shake_feature:name() => {origin(), mfa() | module() | none}},
          blocked := #{whittle_shake_feature:name() => [{mfa(), reason()}]},
          refused := [{whittle_shake_feature:name(), origin(), mfa() | module() | none}],
          %% functions that the feature would add
          prices := #{whittle_shake_feature:name() => [mfa()]},
          program := #{module() => []},
          own := #{module() => []}}.            % of these, those that are not of OTP

%% The origin of a function or a name: a live function, or a root as text.
-type origin() :: mfa() | {root, unicode:chardata()}.

-type reason() ::
        {called, origin()}
      | {applied, By :: mfa(), Module :: origin()}      % that function has the name and arity
      | {chosen, By :: mfa()}                           % that function calls some function of
                                                        % the module
      | {named, Module :: origin(), Function :: origin()} % both names are mentioned
      | {whole, mfa()}.                                 % its module cannot be split

-record(state,
        {modules, program, own, features, known, traps, answered, data, lists,
         kept = #{} :: #{mfa() => []},
         named = #{} :: #{atom() => [{module(), arity()}]},  % exports by name
         live = #{} :: #{mfa() => reason()},
         new = [] :: [mfa()],               % live functions found by this search
         about = #{} :: #{module() => origin()},
         names = #{} :: #{atom() => origin()},
         tags = #{} :: #{atom() => origin()},
         sites = #{} :: #{whittle_shake_summary:fa() => mfa()},
         choices = #{} :: #{{module(), arity()} => mfa()},
         %% First elements of tuples and keys of maps, and the modules whose functions they name.
         labels = #{} :: #{atom() => origin()},
         labeled = #{} :: #{module() => origin()},
         on = #{}, off = [], blocked = #{},
         met = #{} :: #{whittle_shake_feature:use() => []}, % uses found in the program
         refused = [],                      % features that are off but used
         %% The functions that read attributes, that read modules' files, and that return
         %% attributes.
         reader = none :: none | mfa(),
         files = none :: none | mfa(),
         %% The functions that read terms as text, one that calls them, and one that mentions
         %% `modules'.
         text_readers = #{} :: #{mfa() => []},
         consults = none :: none | mfa(),
         modules_key = none :: none | mfa(),
         returned = [] :: [mfa()],
         %% The functions to follow, the most plausible first, and the best plausibility of each.
         todo = {queue:new(), queue:new(), queue:new(), queue:new(), queue:new()},
         pending = #{} :: #{mfa() => 1..5}}).

%% @doc Follows all edges from the roots.
-spec reach(input()) -> reached().
reach(#{modules := Modules, program := Program, calls := Calls, kept := Kept, traps := Traps,
        atoms := Atoms, made := Made, data := Data, lists := Lists, known := Known,
        features := Features, answered := Answered, on := On, off := Off} = Input) ->
    Own = maps:get(own, Input, Program),
    State0 = #state{modules = Modules, program = Program, own = Own,
                    features = Features, known = Known,
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
    State5 = lists:foldl(fun({Atom, Origin}, State) when is_map_key(Atom, Own) ->
                                 label(Atom, Origin, module(Atom, Origin, State));
                            ({Atom, Origin}, State) -> label(Atom, Origin, State)
                         end, follow(State4), Made),
    #state{live = Live, about = About, on = NowOn, blocked = Blocked, refused = Refused} =
        State6 = mention_running(follow(State5)),
    #{live => Live, modules => About, on => NowOn, blocked => Blocked,
      refused => lists:reverse(Refused), program => Program, own => Own,
      prices => case Input of
                    #{priced := false} -> #{};
                    #{} -> maps:map(fun(Name, _) -> price(Name, State6) end, Blocked)
                end}.

%% @doc Returns the path from a root to a function, each step with its reason.
-spec why(mfa(), reached()) -> [{mfa(), reason()}].
why(Mfa, #{live := Live}) -> chain(Mfa, Live).

%% @doc Returns the origin in a reason.
-spec by(reason()) -> origin().
by({called, By}) -> By;
by({applied, By, _}) -> By;
by({chosen, By}) -> By;
by({named, By, _}) -> By;
by({whole, By}) -> By.

%% Internal

%% The VM gives a program the names of the modules that run, although no code holds them: in a stack
%% trace, by erlang:fun_info/2, by process_info/2.
mention_running(#state{live = Live, own = Own, about = About} = State) ->
    Ms = maps:from_list([{M, []} || {M, _, _} <- maps:keys(Live), is_map_key(M, Own),
                                    not is_map_key(M, About)]),
    case lists:sort(maps:keys(Ms)) of
        [] -> State;
        Sorted ->
            Origin = whittle_shake_roots:result(),
            mention_running(follow(lists:foldl(fun(M, S) -> meant(M, Origin, S) end, State,
                                               Sorted)))
    end.

%% Finds the functions that come to life when the feature is turned on at the end. The search
%% continues from the finished state, so it costs only what it finds. It leaves out what
%% mention_running/1 would find anew.
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

%% Takes the first of the most plausible waiting functions.
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
    State2 = lists:foldl(fun(Atom, S) -> atom(Atom, Mfa, S) end, State1, Atoms),
    State3 = lists:foldl(fun(Tag, S) -> tag(Tag, Mfa, S) end, State2, Tags),
    State4 = lists:foldl(fun(Key, S) -> key(Key, Mfa, S) end, State3, Keys),
    State5 = lists:foldl(fun(Form, S) -> form(Form, Mfa, S) end, pairs(Mfa, Func, State4), Forms),
    State6 = lists:foldl(fun(Site, S) -> site(Site, Mfa, S) end, State5, Sites),
    of_program(Mfa, Func, State6).

%% Names in data

%% Handles the ways in which the program gets names that the code does not show.
of_program({M, _, _} = Mfa, #{calls := Calls} = Func, #state{program = Program} = State)
  when is_map_key(M, Program) ->
    read(Calls, consulted(Mfa, Func, listed(Mfa, attributes_of_files(Mfa, Calls, State))));
of_program(_, _, State) ->
    State.

%% A key of a map may be a module of the program: `#{a => 1}' may be a table of modules or a
%% record. The names of OTP's modules are common atoms, so they do not count. A key may also be
%% the name of a function.
key(Key, Mfa, #state{program = Program} = State) when is_map_key(Key, Program) ->
    label(Key, Mfa, module(Key, Mfa, option(Key, Mfa, State)));
key(Key, Mfa, State) ->
    label(Key, Mfa, option(Key, Mfa, State)).

%% A key of a map in the program may become an option: `maps:keys(#{compressed => 1})'.
option(Name, Mfa, #state{own = Own} = State) ->
    case is_of_program(Mfa, Own) of
        true -> used(Name, Mfa, State);
        false -> State
    end.

%% If the program uses attributes and reads modules' files, it has the attributes of any module.
%% Two different functions may do these two things.
attributes_of_files(Mfa, Calls, #state{files = none} = State) ->
    case lists:keymember(beam_lib, 1, Calls) of
        true -> attributes_of_files(Mfa, Calls, State#state{files = Mfa});
        false -> State
    end;
attributes_of_files(_, _, #state{reader = none} = State) -> State;
attributes_of_files(_, _, #state{files = By} = State) -> site({any, module_info, 1}, By, State).

%% A function that asks which modules exist gets their names.
listed(Mfa, #state{lists = #{by := By}} = State) when is_map_key(Mfa, By) ->
    all_listed(Mfa, State);
listed(_, State) ->
    State.

all_listed(Mfa, #state{lists = #{modules := Modules}} = State) ->
    lists:foldl(fun(M, S) -> module(M, Mfa, S) end, State#state{lists = none}, Modules).

%% A program that reads terms as text and mentions `modules' may read `.app' files, which list all
%% modules. Two different functions may do these two things.
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

%% A function that reads terms or Erlang text may read the packed files.
read(_, #state{data = none} = State) ->
    State;
read(Calls, #state{data = #{readers := Readers, found := Found}} = State) ->
    case lists:any(fun(Call) -> is_map_key(Call, Readers) end, Calls) of
        true -> in_data(Found(), State#state{data = none});
        false -> State
    end.

in_data(#{calls := Calls, atoms := Atoms, uses := Uses}, #state{features = Features} = State) ->
    Asked = whittle_shake_feature:asked_for(#{config => Atoms ++ Uses ++ Calls}, Features),
    On = lists:foldl(fun({Feature, Origin}, S) -> turn_on(Feature, Origin, none, S) end,
                     State, Asked),
    Called = lists:foldl(fun({To, Origin}, S) -> edge(To, {called, Origin}, S) end, On, Calls),
    lists:foldl(fun({Atom, Origin}, S) -> atom(Atom, Origin, S) end, Called, Atoms).

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

%% A function that returns its module's attributes mentions the names in them and calls the funs,
%% where the program uses attributes.
attributes({M, _, _} = Mfa, #state{modules = Modules} = State) ->
    #{M := #{attributes := Names}} = Modules,
    lists:foldl(fun(Atom, S) when is_atom(Atom) -> atom(Atom, Mfa, S);
                   (Fun, S) -> edge(Fun, {called, Mfa}, S)
                end, State, Names).

%% Edges

edge({M, F, A} = Mfa, Reason, #state{modules = Modules} = State) ->
    case Modules of
        #{M := #{functions := #{{F, A} := _}}} ->
            %% Live functions need this too, because another module may have called them before
            %% the program.
            By = caller(Reason),
            enter(Mfa, Reason, asked(Mfa, By, used(Mfa, By, used(M, By, State))));
        %% `error_handler' calls this function for every function that a module lacks.
        #{M := #{functions := #{{'$handle_undefined_function', 2} := _}}} ->
            edge({M, '$handle_undefined_function', 2}, Reason, State);
        _ ->
            State
    end.

%% The program calls a feature that is on since the start. So the call is its reason, as it is
%% where no feature is on at the start.
asked(Mfa, {M, _, _} = By, #state{answered = false, program = Program, features = Features,
                                  on = On} = State) when is_map_key(M, Program) ->
    case whittle_shake_feature:of_call(M, Mfa, Features) of
        {ok, Feature} when is_map_key(Feature, On) ->
            case within(By, Feature, State) of
                program -> turn_on(Feature, By, Mfa, State);
                _ -> State
            end;
        _ -> State
    end;
asked(_, _, State) ->
    State.

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
plausible({chosen, _}) -> 2;
plausible({whole, _}) -> 2;
plausible({named, By, By}) -> 3;
plausible({named, _, _}) -> 4.

%% Adds a function to the waiting ones, unless it waits already for a reason that is as good.
%% Turning a feature on may have made the function live already.
push(_, Mfa, _, #state{live = Live} = State) when is_map_key(Mfa, Live) -> State;
push(Level, Mfa, Reason, #state{todo = Todo, pending = Pending} = State) ->
    case Pending of
        #{Mfa := Waiting} when Waiting =< Level -> State;
        _ -> State#state{todo = setelement(Level, Todo,
                                           queue:in({Mfa, Reason}, element(Level, Todo))),
                         pending = Pending#{Mfa => Level}}
    end.

%% A person who names a function knows the reason. A run that called it had a path to it.
of_option({root, "the recording"}) -> 5;
of_option(_) -> 1.

%% A later reason may be more plausible. The search takes it if the path of that reason does not
%% contain the function.
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

%% A function that an option names stays in any case.
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

%% Every start calls a function whose answer is a value. So, without answers, the program needs
%% the function hot although the feature is off.
asked_at_start(_, #state{answered = true}) -> false;
asked_at_start(Mfa, #state{features = Features}) ->
    case whittle_shake_feature:answer(Mfa, Features) of
        {ok, {value, _}} -> true;
        _ -> false
    end.

%% The first function that mentions a name is found by chance, so it does not count as the caller.
%% {@link whittle_shake_feature:of_name/2} decides which features a mention in the program turns
%% on.
caller({called, By}) -> By;
caller({whole, By}) -> By;
caller({applied, _, _}) -> {root, "names"};
caller({chosen, _}) -> {root, "names"};
caller({named, _, _}) -> {root, "names"}.

%% Returns the source of an edge: the feature itself, the program, or another part.
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

turn_on(Feature, Origin, What, #state{on = On} = State) when is_map_key(Feature, On) ->
    Start = whittle_shake_roots:start(),
    case On of
        #{Feature := {Start, _}} when Origin =/= Start ->
            needed(Feature, Origin, What, State#state{on = On#{Feature := {Origin, What}}});
        _ -> State
    end;
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
    Needed = needed(Feature, Origin, What, Turned),
    Brought = lists:foldl(fun(Atom, S) -> atom(Atom, {root, feature(Feature)}, S) end, Needed,
                          whittle_shake_feature:brings(Feature, Features)),
    lists:foldl(fun({Mfa, Reason}, S) -> edge(Mfa, Reason, S) end, Brought, Waiting).

needed(Feature, Origin, What, #state{features = Features, off = Off} = State) ->
    lists:foldl(fun(Need, S) -> turn_on(Need, Origin, What, S) end, State,
                whittle_shake_feature:needs(Feature, Features)
                ++ (whittle_shake_feature:recommends(Feature, Features) -- Off)).

feature(Name) -> ["the feature ", atom_to_list(Name)].

%% Names

atom(Atom, Origin, State) ->
    name(Atom, Origin, module(Atom, Origin, used(Atom, Origin, State))).

%% If one function mentions both names, as in `spawn(?MODULE, init, [])' or in the specification
%% of a child `{Module, start_link, []}', it probably makes the call. The exported function is live
%% in any case, but this reason is better. Where the function's name is a label, the pair has the
%% conditions of labels.
pairs(Mfa, #{atoms := Atoms, tags := Tags, keys := Keys},
      #state{about = About, labeled = Labeled, own = Own, known = Known} = State) ->
    Ms = maps:from_keys([M || M <- Atoms ++ Tags ++ Keys, is_map_key(M, About),
                              whittle_shake_known:means(Mfa, M, Known)], []),
    Labels = [F || is_of_program(Mfa, Own), F <- Tags ++ Keys],
    paired(Mfa, Labels, maps:with(maps:keys(Ms), Labeled), paired(Mfa, Atoms, Ms, State)).

paired(_, _, Ms, State) when map_size(Ms) =:= 0 -> State;
paired(Mfa, Fs, Ms, #state{named = Named} = State) ->
    lists:foldl(fun({M, F, A}, S) -> edge({M, F, A}, {named, Mfa, Mfa}, S) end, State,
                [{M, F, A} || F <- Fs, {M, A} <- maps:get(F, Named, []), is_map_key(M, Ms)]).

%% The first element of a tuple is usually a tag. But `{Module, Args}' is the specification of a
%% child, and a program sends or keeps `{Function, Args}' for a call.
tag(Tag, Origin, State) ->
    Asked = text_of_error(Tag, Origin, State),
    label(Tag, Origin, chosen(Tag, Origin, module(Tag, Origin, used({Tag}, Origin, Asked)))).

%% `erl_error' asks a module for the text of an error that it raised with `{error_info, #{}}'.
text_of_error(error_info, {M, _, _} = Origin, State) ->
    edge({M, format_error, 2}, {called, Origin}, State);
text_of_error(_, _, State) -> State.

%% Most tags and keys are labels and do not name functions. So only labels of the program's own code
%% and of its data name functions, and only functions of modules that the program contains or
%% mentions: `apply(M, F, Args)' may get all three from anywhere.
label(F, _, #state{labels = Labels} = State) when is_map_key(F, Labels) -> State;
label(F, Origin, #state{own = Own} = State) ->
    case is_of_program(Origin, Own) of
        true -> own_label(F, Origin, State);
        false -> State
    end.

own_label(F, Origin, #state{labels = Labels, labeled = Labeled, named = Named} = State) ->
    lists:foldl(fun({M, A}, S) ->
                        case Labeled of
                            #{M := By} -> edge({M, F, A}, {named, By, Origin}, S);
                            _ -> S
                        end
                end, State#state{labels = Labels#{F => Origin}}, maps:get(F, Named, [])).

chosen(F, _, #state{tags = Tags} = State) when is_map_key(F, Tags) -> State;
chosen(F, Origin, #state{tags = Tags, named = Named} = State) ->
    lists:foldl(fun({M, A}, #state{choices = Choices} = S) ->
                        case Choices of
                            #{{M, A} := By} -> edge({M, F, A}, {chosen, By}, S);
                            _ -> S
                        end
                end, State#state{tags = Tags#{F => Origin}}, maps:get(F, Named, [])).

module(M, Origin, #state{known = Known} = State) ->
    case whittle_shake_known:means(Origin, M, Known) of
        true -> meant(M, Origin, State);
        false -> State
    end.

%% A name that certainly means a module, because a call has it.
meant(M, Origin, #state{modules = Modules, about = About} = State) ->
    case Modules of
        #{M := #{exports := Exports}} ->
            Ready = labeled(M, Exports, Origin,
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

%% Handles a mentioned module of the program's own, or a module of kernel or stdlib that the
%% program's own code or its configuration mentions. The other applications of OTP have too many
%% functions with the names of labels: a label `file' would keep the whole compiler.
labeled(M, _, _, #state{labeled = Labeled} = State) when is_map_key(M, Labeled) -> State;
labeled(M, Exports, Origin, #state{program = Program, own = Own} = State) ->
    case is_map_key(M, Own)
        orelse (not is_map_key(M, Program) andalso is_of_program(Origin, Own)) of
        true ->
            lists:foldl(fun({F, A}, #state{labels = Labels} = S) ->
                                case Labels of
                                    #{F := By} -> edge({M, F, A}, {named, Origin, By}, S);
                                    _ -> S
                                end
                        end, State#state{labeled = (State#state.labeled)#{M => Origin}}, Exports);
        false -> State
    end.

%% Recorded names are certain already and say nothing about data.
is_of_program({root, "the recording"}, _) -> false;
is_of_program({root, _}, _) -> true;
is_of_program({M, _, _}, Program) -> is_map_key(M, Program).

%% A call, a name, a tag or a form in the program may turn on a feature outside the called module.
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

%% Handles an export of a mentioned module.
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
site({M, any, A}, Mfa, State) -> choice(M, A, Mfa, computed(M, A, Mfa, meant(M, Mfa, State)));
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

%% Some of OTP's applications compute names of functions in OTP's applications: xmerl makes them
%% from the text of an XPath expression. There are few such calls, so all functions of that arity
%% stay. Each module has module_info, and none of these calls means it.
computed(M, A, {By, _, _} = Mfa, #state{modules = Modules, program = Program, own = Own} = State)
  when is_map_key(M, Program), not is_map_key(M, Own), not is_map_key(By, Own) ->
    #{exports := Exports} = maps:get(M, Modules, #{exports => []}),
    lists:foldl(fun(F, S) -> edge({M, F, A}, {chosen, Mfa}, S) end, State,
                [F || {F, Arity} <- Exports, Arity =:= A, F =/= module_info]);
computed(_, _, _, State) -> State.

%% Handles a call to a function of this module whose name comes from elsewhere.
choice(M, A, _, #state{choices = Choices} = State) when is_map_key({M, A}, Choices) -> State;
choice(M, A, Mfa, #state{modules = Modules, choices = Choices, tags = Tags} = State) ->
    #{exports := Exports} = maps:get(M, Modules, #{exports => []}),
    lists:foldl(fun({F, Arity}, S) ->
                        case Tags of
                            #{F := _} when Arity =:= A -> edge({M, F, A}, {chosen, Mfa}, S);
                            _ -> S
                        end
                end, State#state{choices = Choices#{{M, A} => Mfa}}, Exports).
