%% @doc Which parameters of a function it pays to know: those that it calls, or that
%% name the module of a call or the tag of a tuple, there or in what it passes them to.
-module(whittle_shake_contexts).

-export([new/1, operative/2]).

-export_type([t/0]).

-opaque t() :: #{mfa() => [non_neg_integer()]}.

-type facts() :: #{module() => #{{atom(), arity()} => whittle_shake_facts:facts()}}.

%% @doc The parameters of each function; and all atoms that are expected as tags.
-spec new(facts()) -> {t(), #{atom() => []}}.
new(Facts) ->
    All = [{{M, F, A}, Each} || {M, Functions} <- maps:to_list(Facts),
                                {{F, A}, Each} <- maps:to_list(Functions)],
    Direct = lists:append([[{Mfa, I} || I <- direct(Each)] || {Mfa, Each} <- All]),
    %% From a callee's parameter to the callers' that are passed there.
    Passed = lists:foldl(fun({Mfa, Each}, Map) -> passed(Mfa, Each, Map) end, #{}, All),
    Found = reach(Direct, Passed, #{}),
    {maps:map(fun(_, Is) -> lists:usort(Is) end,
              maps:groups_from_list(fun({Mfa, _}) -> Mfa end, fun({_, I}) -> I end,
                                    maps:keys(Found))),
     lists:foldl(fun({_, Each}, Tags) -> tags(Each, Tags) end, #{}, All)}.

%% @doc Those of one function.
-spec operative(mfa(), t()) -> [non_neg_integer()].
operative(Mfa, Operative) -> maps:get(Mfa, Operative, []).

%% Internal

reach([Param | Todo], Passed, Found) ->
    case Found of
        #{Param := []} -> reach(Todo, Passed, Found);
        _ -> reach(maps:get(Param, Passed, []) ++ Todo, Passed, Found#{Param => []})
    end;
reach([], _, Found) -> Found.

direct(#{sites := Sites}) -> lists:usort(lists:append([of_site(Site) || Site <- Sites])).

of_site({apply, _, M, _, _}) -> params(M);
of_site({make_fun, _, M, _}) -> params(M);
of_site({get, _, _, {{param, I}, _}, _}) -> [I];
of_site({call_fun, _, Fun, _}) -> params(Fun);
of_site(_) -> [].

params({Tokens, _, _}) -> [I || {param, I} <- Tokens];
params(none) -> [].

passed(Mfa, #{sites := Sites}, Map) ->
    lists:foldl(fun({call, _, Called, Args}, Now) -> passed(Mfa, Called, 0, Args, Now);
                   ({lambda, _, {F, A}, Free}, Now) ->
                        {M, _, _} = Mfa,
                        passed(Mfa, {M, F, A}, A - length(Free), Free, Now);
                   (_, Now) -> Now
                end, Map, Sites).

passed(Mfa, Called, I, [Arg | Args], Map) ->
    Next = lists:foldl(fun(P, Now) ->
                               maps:update_with({Called, I}, fun(L) -> [{Mfa, P} | L] end,
                                                [{Mfa, P}], Now)
                       end, Map, params(Arg)),
    passed(Mfa, Called, I + 1, Args, Next);
passed(_, _, _, [], Map) -> Map.

tags(#{sites := Sites}, Tags) ->
    lists:foldl(fun({get, _, _, {{tag, Tag}, _}, _}, Now) -> Now#{Tag => []};
                   (_, Now) -> Now
                end, Tags, Sites).
