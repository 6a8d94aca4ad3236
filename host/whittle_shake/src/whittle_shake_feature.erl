%% @doc Features: parts of OTP that a program may do without, as data.
%%
%% They are listed in `priv/features.config', one term each:
%% ```
%% {Name, #{means => "what a user has by it",
%%          modules => [module()],             % all of these
%%          functions => [mfa()],              % and these
%%          needs => [Name],                   % on with it
%%          flags => ["-sname"],               % of the VM, that turn it on
%%          env => [{App, Key, Value}],        % configuration that turns it on
%%          answers => [{mfa(), Term}]}}.      % what calls give where it is off
%% '''
%% A call to a function of a feature that is off, and that has no answer, raises `undef'.
-module(whittle_shake_feature).

-export([standard/0, names/1, means/2, needs/2, of_function/2, of_module/2, answers/2]).

-export_type([name/0, features/0, definition/0]).

-type name() :: atom().
-type definition() ::
        #{means := string(),
          modules => [module()],
          functions => [mfa()],
          needs => [name()],
          flags => [string()],
          env => [{atom(), atom(), term()}],
          answers => [{mfa(), term()}]}.
-opaque features() ::
          #{definitions := #{name() => definition()},
            modules := #{module() => name()},
            functions := #{mfa() => name()}}.

%% @doc The features of OTP's kernel and stdlib.
-spec standard() -> features().
standard() ->
    {ok, Terms} = file:consult(filename:join(code:priv_dir(whittle_shake), "features.config")),
    #{definitions => maps:from_list(Terms),
      modules => maps:from_list([{M, Name} || {Name, Feature} <- Terms,
                                              M <- maps:get(modules, Feature, [])]),
      functions => maps:from_list([{Mfa, Name} || {Name, Feature} <- Terms,
                                                  Mfa <- functions(Feature)])}.

functions(Feature) ->
    maps:get(functions, Feature, []) ++ [Mfa || {Mfa, _} <- maps:get(answers, Feature, [])].

%% @doc Their names, sorted.
-spec names(features()) -> [name()].
names(#{definitions := Definitions}) -> lists:sort(maps:keys(Definitions)).

%% @doc What a user has by it.
-spec means(name(), features()) -> string().
means(Name, #{definitions := Definitions}) ->
    #{Name := #{means := Means}} = Definitions,
    Means.

%% @doc The features that it cannot be without.
-spec needs(name(), features()) -> [name()].
needs(Name, #{definitions := Definitions}) ->
    #{Name := Feature} = Definitions,
    maps:get(needs, Feature, []).

%% @doc The feature that a function is part of.
-spec of_function(mfa(), features()) -> {ok, name()} | none.
of_function({M, _, _} = Mfa, #{functions := Functions, modules := Modules}) ->
    case {Functions, Modules} of
        {#{Mfa := Name}, _} -> {ok, Name};
        {_, #{M := Name}} -> {ok, Name};
        _ -> none
    end.

%% @doc The feature that a whole module is part of.
-spec of_module(module(), features()) -> {ok, name()} | none.
of_module(M, #{modules := Modules}) ->
    case Modules of
        #{M := Name} -> {ok, Name};
        _ -> none
    end.

%% @doc What functions answer where none of these features is on.
-spec answers([name()], features()) -> [{mfa(), term()}].
answers(On, #{definitions := Definitions}) ->
    [Answer || {Name, Feature} <- lists:sort(maps:to_list(Definitions)),
               not lists:member(Name, On), Answer <- maps:get(answers, Feature, [])].
