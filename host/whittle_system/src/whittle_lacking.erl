%% @doc Finds what a system lacks: applications that are asked for and not there, before any
%% OTP is, and applications that are called and not asked for.
-module(whittle_lacking).

-export([missing/4, called/3]).

-export_type([missing/0, called/0]).

%% Applications that are nowhere, each with those that ask for it; `[]' is the user.
-type missing() :: [{whittle_system:app_name(), [whittle_system:app_name()]}].

-type called() ::
        #{application := whittle_system:app_name(),     % that is called
          by := [whittle_system:app_name()],
          modules := pos_integer(),                     % that call it
          caller := module(),                           % one of them, and what
          function := mfa()}.                           % it calls

%% @doc What is neither given nor in the library directories nor OTP's, in any release of
%% OTP; asked for by the named applications, or by what these need in turn. All of it.
-spec missing([whittle_system:app_name()],
              #{whittle_system:app_name() => whittle_system:app()},
              #{whittle_system:app_name() => file:filename()},
              fun((file:filename()) -> {ok, whittle_system:app()} | error)) -> missing().
missing(Names, Given, Libs, Read) ->
    Asks = asks([{Name, []} || Name <- Names], {Given, Libs, Read}, #{}),
    [{Name, lists:usort(By)} || {Name, {missing, By}} <- lists:sort(maps:to_list(Asks))].

%% @doc Modules that call by name what another application has and the system lacks. The
%% homes tell that application of a module; only callers of the input count, since OTP's own
%% applications say what they need, and ask before they call what they can do without.
-spec called(fun((module()) -> {ok, whittle_system:app_name()} | none),
             #{module() => []}, [whittle_system:app()]) -> [called()].
called(Home, Here, Apps) ->
    Calls = [{App, {Name, Module, Mfa}}
             || #{name := Name, modules := Modules, origin := #{kind := input}} <- Apps,
                {Module, Bytes} <- lists:sort(maps:to_list(Modules)),
                {ok, Beam} <- [whittle_beam:read(Bytes)],
                {Callee, _, _} = Mfa <- whittle_beam:imports(Beam),
                not is_map_key(Callee, Here), {ok, App} <- [Home(Callee)]],
    [called(App, lists:sort(By))
     || {App, By} <- lists:sort(maps:to_list(maps:groups_from_list(
                                               fun({App, _}) -> App end,
                                               fun({_, By}) -> By end, Calls)))].

%% Internal

asks([{Name, By} | Rest], From, Asks) ->
    case {Asks, ask(Name, From)} of
        {#{Name := {missing, Before}}, _} ->
            asks(Rest, From, Asks#{Name := {missing, By ++ Before}});
        {#{Name := there}, _} ->
            asks(Rest, From, Asks);
        {_, missing} ->
            asks(Rest, From, Asks#{Name => {missing, By}});
        {_, {there, Needs}} ->
            asks([{Need, [Name]} || Need <- Needs] ++ Rest, From, Asks#{Name => there})
    end;
asks([], _, Asks) ->
    Asks.

ask(Name, {Given, Libs, Read}) ->
    case {whittle_otp:is_otp(Name), Given, Libs} of
        {_, #{Name := App}, _} -> {there, needed(App)};
        {true, _, _} -> {there, []};
        {false, _, #{Name := Dir}} ->
            case Read(Dir) of
                {ok, App} -> {there, needed(App)};
                error -> {there, []}            % reading it says why
            end;
        {false, _, _} -> missing
    end.

needed(App) ->
    #{needed := Needed} = whittle_needs:direct(App),
    Needed.

called(App, [{_, Module, Mfa} | _] = By) ->
    #{application => App, by => lists:usort([Name || {Name, _, _} <- By]),
      modules => length(lists:usort([M || {_, M, _} <- By])), caller => Module, function => Mfa}.
