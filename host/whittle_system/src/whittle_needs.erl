%% @hidden What needs what: the graph that the `.app' files draw.
-module(whittle_needs).

-export([direct/1, reachable/2, start_order/2]).

%% @doc What an application's `.app' file asks for: `needed' must be there
%% (`applications' that are not optional, and `included_applications');
%% `optional' may be.
-spec direct(whittle_system:app()) ->
          #{needed := [whittle_system:app_name()],
            optional := [whittle_system:app_name()]}.
direct(#{spec := {application, _, Props}}) ->
    Get = fun(Key) -> proplists:get_value(Key, Props, []) end,
    Optional = Get(optional_applications),
    #{needed => (Get(applications) -- Optional) ++ Get(included_applications),
      optional => Optional}.

%% @doc The applications that the named ones reach, themselves too; optional
%% ones where they are there. Sorted.
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

%% @doc Puts applications into an order in which each comes after those that it
%% needs; those that do not need each other stay as they were. The error holds
%% a circle.
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
