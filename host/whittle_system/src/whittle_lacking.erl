%% @hidden Finds the applications that an input needs and that are missing, before any OTP is
%% built.
-module(whittle_lacking).

-export([missing/4]).

-export_type([missing/0]).

%% Missing applications, each with the applications that need it. `[]' stands for the user.
-type missing() :: [{whittle_system:app_name(), [whittle_system:app_name()]}].

%% @doc Lists all missing applications. An application is missing if it is not given, not in a
%% library directory, and not in an OTP that Whittle builds. An application that cannot work in
%% one file counts as missing too. The search covers the named applications and all their
%% dependencies.
-spec missing([whittle_system:app_name()],
              #{whittle_system:app_name() => whittle_system:app()},
              #{whittle_system:app_name() => file:filename()},
              fun((file:filename()) -> {ok, whittle_system:app()} | error)) -> missing().
missing(Names, Given, Libs, Read) ->
    Asks = asks([{Name, []} || Name <- Names], {Given, Libs, Read}, #{}),
    [{Name, lists:usort(By)} || {Name, {missing, By}} <- lists:sort(maps:to_list(Asks))].

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
    Built = whittle_otp:is_otp(Name) andalso not whittle_otp:is_left_out(Name),
    case {whittle_otp:unsupported(Name), Given, Libs} of
        {_, #{Name := App}, _} -> {there, needed(App)};
        {false, _, _} when Built -> {there, []};
        {false, _, #{Name := Dir}} ->
            case Read(Dir) of
                {ok, App} -> {there, needed(App)};
                error -> {there, []}            % the read reports the reason
            end;
        _ -> missing
    end.

needed(App) ->
    #{needed := Needed} = whittle_needs:direct(App),
    Needed.
