%% @doc Saves the reasons of a plan in a file beside the output.
%%
%% The file has the reason of each function that is in, and the possible callers of each that is
%% not.
-module(whittle_shake_saved).

-export([new/2, to_binary/2, from_binary/2, is_plan/1]).
-export([why/2, hint/2, weights/1]).

-export_type([saved/0, verdict/0, weight/0, error/0]).

-type saved() ::
        #{reached := whittle_shake_reach:reached(),
          missing := load | crash,                  % the fate of the rest
          homes := #{module() => whittle_system:app_name()}, % of the program's modules
          unseen := #{mfa() => []},                 % reached but cold
          %% modules that could not be split, or not profitably
          whole := #{module() => []},
          %% estimates of all functions, see whittle_shake_summary
          sizes := #{mfa() => non_neg_integer()}}.

%% A kept function has the path from a root to it, last step first. An unseen function is reached,
%% but cold because a run did not call it; an unsplit one is hot all the same, because all of its
%% module is hot. The others are not reached. They have their possible callers and the features that
%% are off. A `whole' function is hot like an unsplit one.
-type verdict() ::
        {kept | unseen | unsplit, [{mfa(), whittle_shake_reach:reason()}]}
      | {cut | cold | whole, [{whittle_shake_feature:name(), whittle_shake_reach:reason()}]}.

-type weight() ::
        #{name := binary(),
          functions := non_neg_integer(),
          bytes := non_neg_integer(),               % of code and literals, estimated
          share := float()}.                        % of all live code, 0 to 1

-type error() :: no_plan | {plan_version, term()} | plan_of_another.

-define(VERSION, 6).
%% The largest size of a plan, in bytes after decompression. A plan of 200 applications takes a
%% tenth of it.
-define(MAX_PLAN, 256 * 1024 * 1024).

%% @doc Makes the saved form of a plan and the system that the plan was carried out on.
-spec new(whittle_shake:plan(), whittle_system:system()) -> saved().
new(#{reached := #{live := Live, program := Program} = Reached, missing := Missing,
      summaries := Summaries,
      hot := Hot}, System) ->
    #{reached => Reached, missing => Missing, whole => whittle_shake_companion:unsplit(System),
      homes => maps:from_list([{M, Name} || {Name, M, _} <- whittle_system:modules(System),
                                            is_map_key(M, Program)]),
      unseen => maps:map(fun(_, _) -> [] end, maps:without(maps:keys(Hot), Live)),
      sizes => maps:from_list([{{M, F, A}, Bytes}
                               || {M, #{functions := Functions}} <- maps:to_list(Summaries),
                                  {{F, A}, #{bytes := Bytes}} <- maps:to_list(Functions)])}.

%% @doc Writes the file for an output. The file holds the SHA-256 of the output.
-spec to_binary(Output :: binary(), saved()) -> binary().
to_binary(Output, Saved) ->
    term_to_binary({whittle_plan, ?VERSION, crypto:hash(sha256, Output), Saved},
                   [{compressed, 6}]).

%% @doc Reads the file that {@link to_binary/2} wrote for this output. Errors: `no_plan' (another
%% kind of file), `plan_version', `plan_of_another' output.
-spec from_binary(Output :: binary(), binary()) -> {ok, saved()} | {error, error()}.
from_binary(Output, Bytes) ->
    Hash = crypto:hash(sha256, Output),
    case whittle_bounded:term(Bytes, ?MAX_PLAN) of
        {ok, {whittle_plan, ?VERSION, Hash, Saved}} ->
            case is_saved(Saved) of
                true -> {ok, Saved};
                false -> {error, no_plan}
            end;
        {ok, {whittle_plan, ?VERSION, _, _}} -> {error, plan_of_another};
        {ok, {whittle_plan, Version, _, _}} -> {error, {plan_version, Version}};
        _ -> {error, no_plan}
    end.

%% Somebody may have written another term into the file. The deeper terms are only printed.
is_saved(#{reached := #{live := Live, modules := Modules, on := On, blocked := Blocked,
                        refused := Refused, prices := Prices, program := Program},
           missing := Missing, homes := Homes, unseen := Unseen, whole := Whole, sizes := Sizes}) ->
    lists:all(fun is_map/1, [Live, Modules, On, Blocked, Prices, Program, Homes, Unseen, Whole,
                             Sizes])
        andalso is_list(Refused) andalso (Missing =:= load orelse Missing =:= crash)
        andalso lists:all(fun is_mfa/1, maps:keys(Sizes) ++ maps:keys(Live) ++ maps:keys(Unseen))
        andalso lists:all(fun(N) -> is_integer(N) andalso N >= 0 end, maps:values(Sizes))
        andalso lists:all(fun is_reason/1, maps:values(Live))
        andalso lists:all(fun is_atom/1, maps:values(Homes))
        andalso lists:all(fun is_edges/1, maps:values(Blocked))
        andalso lists:all(fun is_atom/1, maps:keys(On) ++ maps:keys(Blocked) ++ maps:keys(Prices))
        andalso lists:all(fun(Mfas) -> are_sized(Mfas, Sizes) end,
                          [maps:keys(Live) | maps:values(Prices)])
        andalso are_rooted(maps:keys(Live), Live, #{});
is_saved(_) -> false.

are_sized(Mfas, Sizes) -> whittle_term:all(fun(Mfa) -> is_map_key(Mfa, Sizes) end, Mfas).

%% Tells whether each path of reasons ends at a root. A search along a circle would never end.
are_rooted([Mfa | Mfas], Live, Rooted) ->
    case rooted(Mfa, Live, Rooted, #{}) of
        {ok, Now} -> are_rooted(Mfas, Live, Now);
        error -> false
    end;
are_rooted([], _, _) -> true.

rooted(Mfa, _, Rooted, Path) when is_map_key(Mfa, Rooted) -> {ok, maps:merge(Rooted, Path)};
rooted(Mfa, _, _, Path) when is_map_key(Mfa, Path) -> error;
rooted(Mfa, Live, Rooted, Path) ->
    case Live of
        #{Mfa := Reason} ->
            case whittle_shake_reach:by(Reason) of
                {root, _} -> {ok, maps:merge(Rooted, Path#{Mfa => []})};
                By -> rooted(By, Live, Rooted, Path#{Mfa => []})
            end;
        #{} -> error
    end.

is_edges([{Mfa, Reason} | Edges]) -> is_mfa(Mfa) andalso is_reason(Reason) andalso is_edges(Edges);
is_edges(Edges) -> Edges =:= [].

is_mfa({M, F, A}) -> is_atom(M) andalso is_atom(F) andalso is_integer(A) andalso A >= 0;
is_mfa(_) -> false.

is_reason({called, From}) -> is_origin(From);
is_reason({applied, By, From}) -> is_mfa(By) andalso is_origin(From);
is_reason({chosen, By}) -> is_mfa(By);
is_reason({named, Module, Function}) -> is_origin(Module) andalso is_origin(Function);
is_reason({whole, Mfa}) -> is_mfa(Mfa);
is_reason(_) -> false.

is_origin({root, Text}) ->
    try is_binary(unicode:characters_to_binary(Text))
    catch error:badarg -> false
    end;
is_origin(Mfa) -> is_mfa(Mfa).

%% @doc Tests whether these bytes are a plan, of any output and version.
-spec is_plan(binary()) -> boolean().
is_plan(Bytes) ->
    case from_binary(<<>>, Bytes) of
        {error, no_plan} -> false;
        _ -> true
    end.

%% @doc Returns the verdict on each function that the name matches, sorted. The list is empty if
%% the system never had such a function.
-spec why(whittle_shake_name:name(), saved()) -> [{mfa(), verdict()}].
why(Name, #{reached := #{blocked := Blocked} = Reached, sizes := Sizes} = Saved) ->
    [{Mfa, case whittle_shake_reach:why(Mfa, Reached) of
               [] -> {gone(Mfa, Saved), [{Feature, Reason}
                                   || {Feature, Edges} <- lists:sort(maps:to_list(Blocked)),
                                      {To, Reason} <- Edges, To =:= Mfa]};
               Way -> {there(Mfa, Saved), Way}
           end}
     || Mfa <- lists:sort([Mfa || Mfa <- maps:keys(Sizes), matches(Name, Mfa)])].

%% @doc Writes the hint after a name that no function matches ({@link whittle_shake_name:hint/2}).
-spec hint(whittle_shake_name:name(), saved()) -> unicode:chardata().
hint(Name, #{sizes := Sizes}) ->
    whittle_shake_name:hint(Name, maps:groups_from_list(fun({M, _, _}) -> M end,
                                                        fun({_, F, A}) -> {F, A} end,
                                                        maps:keys(Sizes))).

there({M, _, _} = Mfa, #{unseen := Unseen, whole := Whole}) when is_map_key(Mfa, Unseen) ->
    case Whole of
        #{M := _} -> unsplit;
        #{} -> unseen
    end;
there(_, _) -> kept.

gone(_, #{missing := crash}) -> cut;
gone({M, _, _}, #{whole := Whole}) when is_map_key(M, Whole) -> whole;
gone(_, _) -> cold.

matches({M}, {M, _, _}) -> true;
matches({M, F}, {M, F, _}) -> true;
matches(Name, Name) -> true;
matches(_, _) -> false.

%% @doc Sums up the hot functions by their cause, the largest first. A function counts for the
%% program's application that contains it, or else for the last such application on its path
%% ({@link why/2}). If the path has none, the function counts for the root of the path. Then come
%% the features. A feature that is `on' weighs its own code, and one that is `off' weighs the code
%% that it would add.
-spec weights(saved()) -> #{roots := [weight()], on := [weight()], off := [weight()]}.
weights(#{reached := #{live := Live, on := On, prices := Prices}, sizes := Sizes,
          homes := Homes} = Saved) ->
    Here = [Mfa || Mfa <- maps:keys(Live), there(Mfa, Saved) =/= unseen],
    All = lists:sum([maps:get(Mfa, Sizes) || Mfa <- Here]),
    Roots = maps:groups_from_list(fun(Mfa) -> root(Mfa, Live, Homes) end, Here),
    Features = whittle_shake_feature:standard(program),
    Own = maps:map(fun(Name, _) ->
                           [Mfa || {M, _, _} = Mfa <- Here,
                                   whittle_shake_feature:of_module(M, Features) =:= {ok, Name}]
                   end, On),
    Weigh = fun(Groups) ->
                    heaviest([weight(Name, Mfas, Sizes, All)
                              || {Name, Mfas} <- maps:to_list(Groups)])
            end,
    #{roots => Weigh(Roots), on => Weigh(Own), off => Weigh(Prices)}.

root({M, _, _}, _, Homes) when is_map_key(M, Homes) ->
    unicode:characters_to_binary(whittle_shake_roots:application(map_get(M, Homes)));
root(Mfa, Live, Homes) ->
    case whittle_shake_reach:by(maps:get(Mfa, Live)) of
        {root, Words} -> unicode:characters_to_binary(Words);
        By -> root(By, Live, Homes)
    end.

weight(Name, Mfas, Sizes, All) ->
    Bytes = lists:sum([maps:get(Mfa, Sizes) || Mfa <- Mfas]),
    #{name => unicode:characters_to_binary(case is_atom(Name) of
                                               true -> atom_to_list(Name);
                                               false -> Name
                                           end),
      functions => length(Mfas), bytes => Bytes, share => Bytes / max(1, All)}.

heaviest(Weights) ->
    lists:sort(fun(#{bytes := A, name := N}, #{bytes := B, name := M}) -> {-A, N} =< {-B, M} end,
               Weights).
