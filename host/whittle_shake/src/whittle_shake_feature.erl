%% @hidden Describes features: parts of OTP that a program may do without.
%%
%% `priv/features.config' lists them, one term each:
%% ```
%% {Name, #{means => "the benefit for a user",
%%          modules => [module()],             % calls to them from other modules
%%          except => [mfa()],                 % except calls to these
%%          functions => [mfa()],              % calls to these from anywhere
%%          words => [module()],               % modules whose names are also common atoms: a
%%                                             % mention of the name does not turn the feature
%%                                             % on, a call does
%%          used => [use() | [use()]],         % uses in the program that turn it on: a called
%%                                             % module or function, a mentioned name, `{Tag}'
%%                                             % for a tuple that begins with it, `{form, Form}'
%%                                             % for data of this form; a list needs all its
%%                                             % uses, anywhere in the program
%%          needs => [Name],                   % features that it turns on
%%          recommends => [Name],              % features that it turns on, unless an option
%%                                             % turns them off
%%          vm => program,                     % a part of ERTS: only a VM for one program
%%                                             % can do without it
%%          starts => true,                    % stock nodes start with it: it is on where
%%                                             % nothing answers for it
%%          brings => [atom()],                % names that it makes from text
%%          flags => ["-sname"],               % packed flags of the VM that turn it on
%%          files => ["sys.config"],           % packed files that turn it on
%%          config => [use() | [use()]],       % names, tags and forms in packed configuration and
%%                                             % other packed data that turn it on; the names of
%%                                             % its modules do so too, unless they are `words'
%%          answers => [{mfa(), answer()}]}}.  % results of calls where it is off
%% '''
%% A call to a function of a feature that is off and has no answer raises `undef'.
-module(whittle_shake_feature).

-export([standard/1, new/1, names/1, means/2, needs/2, recommends/2, brings/2, starts/1]).
-export([is_of_vm/2]).
-export([asked_for/2, of_call/3, of_module/2, of_name/2, of_use/2, answer/2, answers/2, goes_on/1]).

-export_type([name/0, features/0, definition/0, use/0, answer/0]).

-type name() :: atom().
-type definition() ::
        #{means := string(),
          modules => [module()],
          except => [mfa()],
          functions => [mfa()],
          words => [module()],
          used => [use() | [use()]],
          needs => [name()],
          recommends => [name()],
          vm => program,
          starts => true,
          brings => [atom()],
          flags => [string()],
          files => [string()],
          config => [use() | [use()]],
          answers => [{mfa(), answer()}]}.
-type use() :: module() | mfa() | {Tag :: atom()} | {form, whittle_shake_summary:form()}.
%% A term, or another function of the same arity whose result it gives.
-type answer() :: {value, term()} | {call, {module(), Function :: atom()}}.
-opaque features() ::
          #{definitions := #{name() => definition()},
            modules := #{module() => name()},
            functions := #{mfa() => name()},
            except := #{mfa() => []},
            words := #{module() => []},
            used := #{use() => [{name(), All :: [use()]}]},
            answers := #{mfa() => answer()}}.

%% @doc Reads the features of OTP's kernel and stdlib, and of ERTS for a VM for one program.
-spec standard(Vm :: whole | program) -> features().
standard(Vm) ->
    {ok, Terms} = file:consult(filename:join(code:priv_dir(whittle_shake), "features.config")),
    new(of_vm(Vm, Terms)).

of_vm(program, Terms) -> Terms;
of_vm(whole, Terms) ->
    {Parts, Here} = lists:partition(fun({_, Feature}) -> is_map_key(vm, Feature) end, Terms),
    Names = [Name || {Name, _} <- Parts],
    [{Name, maps:map(fun(Key, Value) when Key =:= needs; Key =:= recommends -> Value -- Names;
                        (_, Value) -> Value
                     end, Feature)} || {Name, Feature} <- Here].

%% @doc Makes features from these definitions.
-spec new([{name(), definition()}]) -> features().
new(Terms) ->
    #{definitions => maps:from_list(Terms),
      modules => maps:from_list([{M, Name} || {Name, Feature} <- Terms,
                                              M <- maps:get(modules, Feature, [])]),
      functions => maps:from_list([{Mfa, Name} || {Name, Feature} <- Terms,
                                                  Mfa <- functions(Feature)]),
      except => maps:from_list([{Mfa, []} || {_, Feature} <- Terms,
                                             Mfa <- maps:get(except, Feature, [])]),
      words => maps:from_list([{M, []} || {_, Feature} <- Terms,
                                          M <- maps:get(words, Feature, [])]),
      used => maps:groups_from_list(fun({Use, _}) -> Use end, fun({_, Means}) -> Means end,
                                    [{Use, {Name, All}} || {Name, Feature} <- Terms,
                                                           All <- used(Feature), Use <- All]),
      answers => maps:from_list([Answer || {_, Feature} <- Terms,
                                           Answer <- maps:get(answers, Feature, [])])}.

functions(Feature) ->
    maps:get(functions, Feature, []) ++ [Mfa || {Mfa, _} <- maps:get(answers, Feature, [])].

used(Feature) -> all(maps:get(used, Feature, [])).

%% Each use may be a list of uses that are needed together.
all(Uses) ->
    [case Use of
         [_ | _] -> Use;
         _ -> [Use]
     end || Use <- Uses].

%% @doc Lists the names of the features, sorted.
-spec names(features()) -> [name()].
names(#{definitions := Definitions}) -> lists:sort(maps:keys(Definitions)).

%% @doc Tells whether a feature is a part of ERTS.
-spec is_of_vm(name(), features()) -> boolean().
is_of_vm(Name, #{definitions := Definitions}) -> is_map_key(vm, maps:get(Name, Definitions)).

%% @doc Returns the benefit of a feature for a user.
-spec means(name(), features()) -> string().
means(Name, #{definitions := Definitions}) ->
    #{Name := #{means := Means}} = Definitions,
    Means.

%% @doc Lists the features that a feature needs.
-spec needs(name(), features()) -> [name()].
needs(Name, #{definitions := Definitions}) ->
    #{Name := Feature} = Definitions,
    maps:get(needs, Feature, []).

%% @doc Lists the features that a feature turns on, unless an option turns them off.
-spec recommends(name(), features()) -> [name()].
recommends(Name, #{definitions := Definitions}) ->
    #{Name := Feature} = Definitions,
    maps:get(recommends, Feature, []).

%% @doc Lists the features that a stock node starts with, sorted.
-spec starts(features()) -> [name()].
starts(#{definitions := Definitions}) ->
    [Name || {Name, #{starts := true}} <- lists:sort(maps:to_list(Definitions))].

%% @doc Lists the names of modules and functions that a feature makes from text.
-spec brings(name(), features()) -> [atom()].
brings(Name, #{definitions := Definitions}) ->
    #{Name := Feature} = Definitions,
    maps:get(brings, Feature, []).

%% @doc Lists the features that packed data turns on, each with its reason. The data is flags, files
%% by their names, and what stands in configurations and in files that the program reads: names,
%% tags, forms, and calls. The name of a module of the feature counts, unless it is in `words'.
-spec asked_for(#{flags => [string()], files => [string()],
                  config := [{use(), whittle_shake_reach:origin()}]}, features()) ->
          [{name(), whittle_shake_reach:origin()}].
asked_for(#{config := Config} = Data, #{definitions := Definitions} = Features) ->
    %% Each use keeps its first origin.
    Uses = maps:from_list(lists:reverse(Config)),
    Called = maps:merge(Uses, maps:from_list([{M, []} || {{M, _, _}, _} <- Config])),
    [{Name, {root, ["the packed ", Word]}}
     || {Name, Feature} <- lists:sort(maps:to_list(Definitions)), Key <- [files, flags],
        Word <- maps:get(Key, Feature, []), lists:member(Word, maps:get(Key, Data, []))]
        ++ [{Name, where(All, Uses)}
            || {Name, Feature} <- lists:sort(maps:to_list(Definitions)),
               All <- in_config(Feature), are_in(All, Uses)]
        ++ [{Name, where([Mfa], Uses)}
            || {{_, _, _}, _} = {Mfa, _} <- Config, Name <- called(Mfa, Called, Features)].

in_config(Feature) ->
    all(maps:get(config, Feature, []))
        ++ [[M] || M <- maps:get(modules, Feature, []) -- maps:get(words, Feature, [])].

are_in(All, Uses) -> lists:all(fun(Use) -> is_map_key(Use, Uses) end, All).

%% Lists the features that a call in packed data enters, or uses.
called({M, _, _} = Mfa, Called, Features) ->
    [Name || {ok, Name} <- [of_call(none, Mfa, Features)]]
        ++ [Name || Use <- [Mfa, M], {Name, All} <- of_use(Use, Features), are_in(All, Called)].

where([First | _] = All, Uses) ->
    #{First := {root, From}} = Uses,
    {root, [lists:join(" with ", lists:map(fun text/1, All)), " in ", From]}.

text({form, ipv6}) -> "an IPv6 address";
text({form, Form}) -> ["data of the form ", atom_to_list(Form)];
text({Tag}) -> io_lib:format("{~tp, ...}", [Tag]);
text({_, _, _} = Mfa) -> whittle_shake_name:text(Mfa);
text(Name) -> atom_to_list(Name).

%% @doc Finds the feature that a call from a module to a function enters.
-spec of_call(module() | none, mfa(), features()) -> {ok, name()} | none.
of_call(From, {M, _, _} = Mfa,
        #{functions := Functions, modules := Modules, except := Except}) ->
    case {Functions, Modules} of
        {#{Mfa := Name}, _} -> {ok, Name};
        {_, #{M := Name}} when From =/= M, not is_map_key(Mfa, Except) -> {ok, Name};
        _ -> none
    end.

%% @doc Finds the feature that a whole module belongs to.
-spec of_module(module(), features()) -> {ok, name()} | none.
of_module(M, #{modules := Modules}) ->
    case Modules of
        #{M := Name} -> {ok, Name};
        _ -> none
    end.

%% @doc Finds the feature that a mention of a module's name turns on.
-spec of_name(module(), features()) -> {ok, name()} | none.
of_name(M, #{modules := Modules, words := Words}) ->
    case Modules of
        #{M := Name} when not is_map_key(M, Words) -> {ok, Name};
        _ -> none
    end.

%% @doc Lists the features that this use may turn on, each with all the uses that it needs.
-spec of_use(use(), features()) -> [{name(), All :: [use()]}].
of_use(What, #{used := Used}) -> maps:get(What, Used, []).

%% @doc Returns the answer of a function whose feature is off.
-spec answer(mfa(), features()) -> {ok, answer()} | none.
answer(Mfa, #{answers := Answers}) ->
    case Answers of
        #{Mfa := Answer} -> {ok, Answer};
        _ -> none
    end.

%% @doc Tells whether a program continues after an answer. Otherwise the program prints which
%% feature it is built without, and ends.
-spec goes_on(answer()) -> boolean().
goes_on({call, {whittle_start_without, F}}) -> not lists:member(F, [terms, control]);
goes_on(_) -> true.

%% @doc Lists those of these functions that have an answer, each with its answer.
-spec answers([mfa()], features()) -> [{mfa(), answer()}].
answers(Mfas, #{answers := Answers}) ->
    lists:sort(maps:to_list(maps:with(Mfas, Answers))).
