%% Summarizes the results of OTP's suites: counts, failures with their reasons, and wrong known
%% reasons. All functions are pure.
-module(otp_suites_table).

-export([account/2, reason/4, explained/1, markdown/2, json/1, summary/1]).
-export_type([known/0, account/0, failure/0]).

%% A line of acceptance/otp-suites.config. Case has the form of the table; a `*' at its end matches
%% anything.
-type known() ::
        {App :: string(), Suite :: string(), Case :: string(),
         ours                           % a fault of this project
         | environment                  % the stock interpreter fails too, or can
         | static,                      % a static VM can load nothing
         Reason :: string()}.

-type failure() ::
        #{app := string(), suite := string(), variant := static | dynamic,
          'case' := string(),
          said := string(),             % by common_test
          kind := ours | environment | static | none,
          why := string(),              % from the known reasons
          stock := passed | failed | unknown,
          dynamic := passed | failed | unknown}.

-type account() ::
        #{rows := [row()],
          failures := [failure()],
          stale := [known()]}.          % reasons that explain no result of this run

-type row() ::
        #{app := string(), suite := string(), variant := static | dynamic,
          passed := non_neg_integer(), failed := non_neg_integer(),
          skipped := non_neg_integer(), lost := non_neg_integer(),
          seconds := non_neg_integer()}.

%% Summarizes all results by variant.
-spec account([{otp_suites_tree:variant(), otp_suites_run:result()}], [known()]) ->
          account().
account(Results, Known) ->
    Outcomes = maps:from_list([{{Variant, App, Suite, Path}, Outcome}
                               || {Variant, #{app := App, suite := Suite, cases := Cases}}
                                      <- Results,
                                  {Path, Outcome, _} <- Cases]),
    Shown = lists:sort(fun({V, A}, {W, B}) -> place(A, V) =< place(B, W) end,
                       [R || R = {Variant, _} <- Results, Variant =/= stock]),
    Failures = [failure(Variant, Result, Case, Known, Outcomes)
                || {Variant, Result = #{cases := Cases}} <- Shown,
                   Case = {_, failed, _} <- Cases],
    #{rows => [row(Variant, Result) || {Variant, Result} <- Shown],
      failures => Failures,
      stale => [K || K <- Known, is_run(K, Shown), not explains_any(K, Failures)]}.

place(#{app := App, suite := Suite}, Variant) ->
    {App, Suite, Variant =:= dynamic}.

row(Variant, #{app := App, suite := Suite, cases := Cases, seconds := Seconds}) ->
    Count = fun(Which) -> length([C || C = {_, Outcome, _} <- Cases, Outcome =:= Which]) end,
    #{app => App, suite => Suite, variant => Variant, seconds => Seconds,
      passed => Count(passed), failed => Count(failed), skipped => Count(skipped),
      lost => Count(lost)}.

failure(Variant, #{app := App, suite := Suite}, {Path, failed, Said}, Known, Outcomes) ->
    On = fun(Other) ->
                 case Outcomes of
                     #{{Other, App, Suite, Path} := passed} -> passed;
                     #{{Other, App, Suite, Path} := failed} -> failed;
                     #{} -> unnamed(Path, [C || {{V, A, S, _}, _} = C <- maps:to_list(Outcomes),
                                                {V, A, S} =:= {Other, App, Suite}])
                 end
         end,
    {Kind, Why} =
        case {reason(App, Suite, Path, Known), Variant, On(dynamic)} of
            {{static, Reason}, static, passed} -> {static, Reason};
            %% The dynamic VM fails too, so loading is not the reason.
            {{static, _}, _, _} -> {none, ""};
            {Found, _, _} -> Found
        end,
    #{app => App, suite => Suite, variant => Variant, 'case' => Path, said => Said,
      kind => Kind, why => Why, stock => On(stock), dynamic => On(dynamic)}.

%% Before and after cases, a result names only failures.
unnamed(Path, [_ | _]) ->
    case lists:last(string:split(Path, "/", all)) of
        "init_per_" ++ _ -> passed;
        "end_per_" ++ _ -> passed;
        _ -> unknown
    end;
unnamed(_, []) ->
    unknown.

%% Finds the first known reason for a case. Exact names come before those with a `*'.
-spec reason(string(), string(), string(), [known()]) ->
          {ours | environment | static, string()} | {none, string()}.
reason(App, Suite, Path, Known) ->
    case [{Kind, Why} || {_, _, _, Kind, Why} = Entry <- Known,
                         matches(Entry, App, Suite, Path)] of
        [First | _] -> First;
        [] -> {none, ""}
    end.

matches({App, Suite, Pattern, _, _}, App, Suite, Path) ->
    case lists:reverse(Pattern) of
        "*" ++ Start -> lists:prefix(lists:reverse(Start), Path);
        _ -> Pattern =:= Path
    end;
matches(_, _, _, _) ->
    false.

is_run({App, Suite, _, _, _}, Shown) ->
    lists:any(fun({_, #{app := A, suite := S}}) -> {A, S} =:= {App, Suite} end, Shown).

explains_any(Known, Failures) ->
    lists:any(fun(#{app := App, suite := Suite, 'case' := Path}) ->
                      matches(Known, App, Suite, Path)
              end, Failures).

%% Tells whether each failure has a known reason.
-spec explained(account()) -> boolean().
explained(#{failures := Failures}) ->
    [] =:= [F || F = #{kind := none} <- Failures].

%% Formats one line, which counts failures with known reasons separately.
-spec summary(account()) -> unicode:chardata().
summary(#{rows := Rows, failures := Failures}) ->
    Unknown = [F || F = #{kind := none} <- Failures],
    [number(sum(passed, Rows)), " passed, ", number(length(Unknown)), " failed, ",
     number(length(Failures) - length(Unknown)), " failed for known reasons"].

%%% Output for people

%% Formats the table. 'of' is "OTP 29.1.1, VM 0123..."; all is the number of suites.
-spec markdown(account(), #{'of' := string(), all := non_neg_integer()}) ->
          unicode:chardata().
markdown(#{rows := Rows, failures := Failures, stale := Stale}, #{'of' := What, all := All}) ->
    ["<!-- Written by acceptance/otp-suites --table; see otp-suites.md. -->\n"
     "# What OTP's own suites say\n\n", What, "\n\n",
     totals(Rows, All),
     "\n| suite | passed | failed | skipped | not run | seconds |\n"
     "|---|--:|--:|--:|--:|--:|\n",
     [["| ", name(Row), [[" | ", number(maps:get(Key, Row))]
                         || Key <- [passed, failed, skipped, lost, seconds]], " |\n"]
      || Row <- Rows],
     case Failures of
         [] -> "";
         _ -> ["\n| failed | whose | stock VM | why |\n|---|---|---|---|\n",
               lists:uniq([line(F, Failures) || F <- Failures])]
     end,
     [["\nKnown, but did not fail: ", App, " ", Suite, " ", Case, "\n"]
      || {App, Suite, Case, _, _} <- Stale]].

totals(Rows, All) ->
    [["- ", atom_to_list(Variant), ": ", number(length(Of)), " of ", number(All), " suites, ",
      number(sum(passed, Of)), " passed, ", number(sum(failed, Of)), " failed, ",
      number(sum(skipped, Of)), " skipped, ", number(sum(lost, Of)), " not run, in ",
      number(sum(seconds, Of) div 60), " minutes\n"]
     || Variant <- [static, dynamic],
        Of <- [[R || R = #{variant := V} <- Rows, V =:= Variant]], Of =/= []].

sum(Key, Rows) ->
    lists:sum([maps:get(Key, R) || R <- Rows]).

name(#{app := App, suite := Suite, variant := Variant}) ->
    [App, " ", Suite, case Variant of static -> ""; dynamic -> ", dynamic" end].

%% For cases that a static VM cannot load there is one line in each suite.
line(#{app := App, suite := Suite, kind := static, why := Why} = Failure, Failures) ->
    Like = [F || F = #{app := A, suite := S, kind := static, why := W} <- Failures,
                 {A, S, W} =:= {App, Suite, Why}],
    ["| ", name(Failure), ": ", number(length(Like)), " cases | static | - | ", Why, " |\n"];
line(#{'case' := Path, kind := Kind, why := Why, said := Said, stock := Stock} = Failure, _) ->
    {Whose, Text} = case Kind of
                        none -> {"**unknown**", ["said: ", string:slice(Said, 0, 300)]};
                        _ -> {atom_to_list(Kind), Why}
                    end,
    ["| ", name(Failure), " ", Path, " | ", Whose, " | ",
     case Stock of unknown -> "-"; _ -> atom_to_list(Stock) end,
     " | ", string:replace(Text, "|", "\\|", all), " |\n"].

number(N) -> integer_to_list(N).

%%% Output for programs

-spec json(account()) -> iodata().
json(#{rows := Rows, failures := Failures, stale := Stale}) ->
    whittle_json:encode(#{rows => [members(R) || R <- Rows],
                          failures => [members(F) || F <- Failures],
                          stale => [[text(App), text(Suite), text(Case)]
                                    || {App, Suite, Case, _, _} <- Stale]}).

members(Map) -> maps:map(fun(_, Text) when is_list(Text) -> text(Text);
                            (_, Value) -> Value
                         end, Map).

text(Chars) -> unicode:characters_to_binary(Chars).
