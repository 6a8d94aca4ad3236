%% @doc What a plan says of itself once it is carried out: why each function is in, what
%% would have called those that are not. It lies beside the output, in a file of its own.
-module(whittle_shake_saved).

-export([new/2, to_binary/2, from_binary/2, is_plan/1]).
-export([why/2, weights/1]).

-export_type([saved/0, verdict/0, weight/0, error/0]).

-type saved() ::
        #{reached := whittle_shake_reach:reached(),
          missing := load | crash,                  % what became of the rest
          homes := #{module() => whittle_system:app_name()}, % of the program's modules
          unseen := #{mfa() => []},                 % reached, and nevertheless cold
          whole := #{module() => []},               % that could not be parted, or not with profit
          sizes := #{mfa() => non_neg_integer()}}.  % of all functions that there were; about,
                                                    % see whittle_shake_summary

%% Kept, with the way from a root to it, last step first; or cold in spite of that, as a run
%% did not call it; or not reached, with who would call it and the feature that is off: `whole'
%% is at hand nevertheless, as all of its module.
-type verdict() ::
        {kept | unseen, [{mfa(), whittle_shake_reach:reason()}]}
      | {cut | cold | whole, [{whittle_shake_feature:name(), whittle_shake_reach:reason()}]}.

-type weight() ::
        #{name := binary(),
          functions := non_neg_integer(),
          bytes := non_neg_integer(),               % about, of code and literals
          share := float()}.                        % of all that is live, 0 to 1

-type error() :: no_plan | {plan_version, term()} | plan_of_another.

-define(VERSION, 5).
%% Bytes of a plan, inflated: one of 200 applications has a tenth of it.
-define(MAX_PLAN, 256 * 1024 * 1024).

%% @doc Of a plan, and the system that it was carried out on.
-spec new(whittle_shake:plan(), whittle_system:system()) -> saved().
new(#{reached := #{live := Live, program := Program} = Reached, missing := Missing,
      summaries := Summaries,
      hot := Hot}, System) ->
    #{reached => Reached, missing => Missing, whole => whole(System),
      homes => maps:from_list([{M, Name} || {Name, M, _} <- whittle_system:modules(System),
                                            is_map_key(M, Program)]),
      unseen => maps:map(fun(_, _) -> [] end, maps:without(maps:keys(Hot), Live)),
      sizes => maps:from_list([{{M, F, A}, Bytes}
                               || {M, #{functions := Functions}} <- maps:to_list(Summaries),
                                  {{F, A}, #{bytes := Bytes}} <- maps:to_list(Functions)])}.

%% @doc The file for an output: it holds the output's SHA-256.
-spec to_binary(Output :: binary(), saved()) -> binary().
to_binary(Output, Saved) ->
    term_to_binary({whittle_plan, ?VERSION, crypto:hash(sha256, Output), Saved},
                   [{compressed, 6}]).

%% @doc Reads what {@link to_binary/2} wrote for this output. Errors: `no_plan' (another
%% kind of file), `plan_version', `plan_of_another' output.
-spec from_binary(Output :: binary(), binary()) -> {ok, saved()} | {error, error()}.
from_binary(Output, Bytes) ->
    Hash = crypto:hash(sha256, Output),
    case whittle_bounded:own_term(Bytes, ?MAX_PLAN) of
        {ok, {whittle_plan, ?VERSION, Hash, Saved}} -> {ok, Saved};
        {ok, {whittle_plan, ?VERSION, _, _}} -> {error, plan_of_another};
        {ok, {whittle_plan, Version, _, _}} -> {error, {plan_version, Version}};
        _ -> {error, no_plan}
    end.

%% @doc Whether these are the bytes of a plan, of any output and version.
-spec is_plan(binary()) -> boolean().
is_plan(Bytes) ->
    case from_binary(<<>>, Bytes) of
        {error, no_plan} -> false;
        _ -> true
    end.

%% @doc The verdict on each function that the name names, sorted; `[]' where there never
%% was one.
-spec why(whittle_shake_name:name(), saved()) -> [{mfa(), verdict()}].
why(Name, #{reached := #{blocked := Blocked} = Reached, sizes := Sizes} = Saved) ->
    [{Mfa, case whittle_shake_reach:why(Mfa, Reached) of
               [] -> {gone(Mfa, Saved), [{Feature, Reason}
                                   || {Feature, Edges} <- lists:sort(maps:to_list(Blocked)),
                                      {To, Reason} <- Edges, To =:= Mfa]};
               Way -> {there(Mfa, Saved), Way}
           end}
     || Mfa <- lists:sort([Mfa || Mfa <- maps:keys(Sizes), matches(Name, Mfa)])].

whole(System) ->
    Cold = whittle_system:cold(System),
    maps:from_keys([M || {_, M, _} <- whittle_system:modules(System), not is_map_key(M, Cold),
                         not is_map_key(whittle_system:companion(M), Cold)], []).

there({M, _, _} = Mfa, #{unseen := Unseen, whole := Whole})
  when is_map_key(Mfa, Unseen), not is_map_key(M, Whole) -> unseen;
there(_, _) -> kept.

gone(_, #{missing := crash}) -> cut;
gone({M, _, _}, #{whole := Whole}) when is_map_key(M, Whole) -> whole;
gone(_, _) -> cold.

matches({M}, {M, _, _}) -> true;
matches({M, F}, {M, F, _}) -> true;
matches(Name, Name) -> true;
matches(_, _) -> false.

%% @doc What brings the functions that are at hand, the largest first. A function counts for
%% the application of the program that it is of, or that its way ({@link why/2}) comes through
%% last; where its way comes through none, for the root at which the way begins. Then the
%% features: of those that are `on' their
%% own code, of those that are `off' what would come in with each.
-spec weights(saved()) -> #{roots := [weight()], on := [weight()], off := [weight()]}.
weights(#{reached := #{live := Live, on := On, prices := Prices}, sizes := Sizes,
          homes := Homes} = Saved) ->
    Here = [Mfa || Mfa <- maps:keys(Live), there(Mfa, Saved) =:= kept],
    All = lists:sum([maps:get(Mfa, Sizes) || Mfa <- Here]),
    Roots = maps:groups_from_list(fun(Mfa) -> root(Mfa, Live, Homes) end, Here),
    Features = whittle_shake_feature:standard(),
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
