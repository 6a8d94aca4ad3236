%% @hidden Computes dependencies between applications from their `.app' files.
-module(whittle_needs).

-export([direct/1, reachable/2, start_order/2]).

%% @doc Reads the direct dependencies of an application from its `.app' file. The applications in
%% `needed' must exist: the `applications' that are not optional, and the `included_applications'.
%% Those in `optional' may exist.
-spec direct(whittle_system:app()) ->
          #{needed := [whittle_system:app_name()],
            optional := [whittle_system:app_name()]}.
direct(#{spec := {application, _, Props}}) ->
    Get = fun(Key) -> proplists:get_value(Key, Props, []) end,
    Optional = Get(optional_applications),
    #{needed => (Get(applications) -- Optional) ++ Get(included_applications),
      optional => Optional}.

%% @doc Lists the named applications and all that they depend on, sorted. The list contains an
%% optional application if it exists.
-spec reachable([whittle_system:app_name()],
                #{whittle_system:app_name() => whittle_system:app()}) ->
          [whittle_system:app_name()].
reachable(Roots, Apps) ->
    reachable(Roots, Apps, []).

reachable([Name | Rest], Apps, Seen) ->
    case {lists:member(Name, Seen), Apps} of
        {false, #{Name := App}} ->
            #{needed := Needed, optional := Optional} = direct(App),
            reachable(Needed ++ Optional ++ Rest, Apps, [Name | Seen]);
        _ ->
            reachable(Rest, Apps, Seen)
    end;
reachable([], _, Seen) ->
    lists:sort(Seen).

%% @doc Sorts applications so that each comes after those that it needs. Independent applications
%% keep their order. The error holds a cycle.
-spec start_order([whittle_system:app_name()],
                  #{whittle_system:app_name() => whittle_system:app()}) ->
          {ok, [whittle_system:app_name()]}
        | {error, {circular_applications, [whittle_system:app_name()]}}.
start_order(Names, Apps) ->
    try
        {ok, lists:reverse(lists:foldl(fun(Name, Done) ->
                                               visit(Name, [], Done, Apps)
                                       end, [], Names))}
    catch
        throw:{circle, Circle} -> {error, {circular_applications, Circle}}
    end.

visit(Name, Path, Done, Apps) ->
    case {lists:member(Name, Done), lists:member(Name, Path), Apps} of
        {true, _, _} -> Done;
        {false, true, _} ->
            Circle = lists:takewhile(fun(On) -> On =/= Name end, Path),
            throw({circle, [Name | lists:reverse(Circle)]});
        {false, false, #{Name := App}} ->
            #{needed := Needed, optional := Optional} = direct(App),
            [Name | lists:foldl(fun(Need, Before) ->
                                        visit(Need, [Name | Path], Before, Apps)
                                end, Done, Needed ++ Optional)];
        {false, false, _} -> Done
    end.
