%% @doc Compares two runs of the study `otp': which numbers moved, and which are regressions.
%%
%% Totals of bytes are exact. A total is a regression if it grew by more than the bound. A time or
%% a peak of memory is one if the whole interval of its ratio lies beyond the bound. A check that
%% fails is one in any case. A program is one if a larger part of its runs failed than before, or
%% if it failed and there is no earlier run.
%%
%% Objects and modules are listed, and are no regressions by themselves.
%%
%% Another machine or compiler makes times incomparable. Their bytes are compared, with a note. If
%% the machine was too noisy in one of the runs, the ratios of times stand there without a verdict.
%% @hidden
-module(whittle_measure_otp_moved).

-export([moved/3]).

-export_type([moved/0, subject/0, exact/0, timed/0]).

-type moved() :: #{bound := float(),
                   notes := [binary()],               % reasons why numbers are not compared
                   subjects := [subject()],
                   regressions := [binary()]}.        % one line each

-type subject() ::
        #{level := binary(), vsn := binary(),
          before := none | #{level := binary(), vsn := binary()},
          bytes := [exact()],                         % totals
          objects := [exact()],                       % those that moved, the largest first
          modules := [exact()],
          timed := [timed()],
          failed := [failed()],                       % programs with failed runs
          checks := [#{binary() => term()}]}.

-type exact() :: #{name := binary(), before := non_neg_integer() | none,
                   'after' := non_neg_integer() | none, verdict := verdict()}.

-type timed() :: #{name := binary(), unit := whittle_measure_response:unit(),
                   before := float() | none, 'after' := float() | none,
                   ratio := none | {float(), Low :: float(), High :: float()},
                   verdict := verdict()}.

%% The runs of a program that failed, or that lack a number. `first' is the line of the first one.
-type failed() :: #{name := binary(), before := share(), 'after' := share(), first := binary()}.

-type share() :: {Failed :: non_neg_integer(), Runs :: non_neg_integer()}.

%% The verdict on a time is `noisy' if the machine was, and `not_compared' if it was another one.
-type verdict() :: new | same | smaller | larger | regression | none | noisy | not_compared.

%% hello ends after a fraction of a second, between two readings of its memory.
-define(UNSEEN, [{hello, rss_peak}]).

%% @doc Compares a run with an earlier one, or with none.
-spec moved(whittle_measure_otp_store:stored(), whittle_measure_otp_store:stored() | none,
            float()) -> moved().
moved(#{facts := #{<<"subjects">> := Subjects} = Facts} = New, Old, Bound) ->
    {Times, Bytes, Noise} = reasons(New, Old),
    Judged = case {Times, Noise} of
                 {[_ | _], _} -> not_compared;
                 {[], [_ | _]} -> noisy;
                 {[], []} -> judged
             end,
    Compared = [subject(Subject, New, other(Subject, Old, Bytes), Judged, Bound)
                || Subject <- Subjects],
    #{bound => Bound,
      notes => [unicode:characters_to_binary(Note)
                || Note <- Bytes ++ Times ++ [Note || Judged =:= noisy, Note <- Noise]]
          ++ maps:get(<<"left_out">>, Facts, []),
      subjects => Compared,
      regressions => lists:append([regressions(Each) || Each <- Compared])}.

%% Internal functions: what is comparable

%% Returns the reasons not to compare times, not to compare bytes, and not to judge times.
reasons(_, none) -> {[], [], []};
reasons(#{facts := New, samples := Now}, #{facts := Old, samples := Then}) ->
    Differs = fun(Key) -> maps:get(Key, New, none) =/= maps:get(Key, Old, none) end,
    Machine = not whittle_measure_machine:is_same(
                      maps:get(<<"machine">>, New), maps:get(<<"machine">>, Old)),
    Noisy = [When || {When, Samples} <- [{"this run", Now}, {"the stored run", Then}],
                     #{verdict := noisy} <- [whittle_measure_analysis:noise(Samples)]],
    {["the stored run is of another machine, so times and memory are not compared" || Machine]
     ++ ["the stored run used another compiler, so times and memory are not compared, and a change "
         "of bytes may be the compiler's" || Differs(<<"compiler">>)],
     ["the stored run is for another target, so nothing is compared" || Differs(<<"target">>)],
     [["the machine was noisy in ", lists:join(" and in ", Noisy),
       ", so no time or memory is judged; measure again when it is quiet"] || Noisy =/= []]}.

%% Chooses the stored subject of the same release, or else of the newest. If two have this release,
%% the one of the same level counts.
other(_, none, _) -> none;
other(_, _, [_ | _]) -> none;
other(#{<<"level">> := Level, <<"release">> := Release}, #{facts := #{<<"subjects">> := All}} = Old,
      []) ->
    Rank = fun(#{<<"level">> := L, <<"release">> := R}) ->
                   {R =:= Release, binary_to_integer(R), L =:= Level}
           end,
    [{_, Best} | _] = lists:reverse(lists:keysort(1, [{Rank(Each), Each} || Each <- All])),
    Old#{subject => Best}.

%% Internal functions: a subject

subject(#{<<"level">> := Level, <<"vsn">> := Vsn, <<"checks">> := Checks} = Now, New, Other,
        Judged, Bound) ->
    Then = case Other of
               none -> none;
               #{subject := Subject} -> Subject
           end,
    Part = fun(_, none) -> none;
              (Key, Of) -> maps:get(Key, Of)
           end,
    Sizes = fun(none) -> none;
               (#{subject := #{<<"level">> := Of}, samples := Samples}) -> sizes(Of, Samples)
            end,
    Totals = exact(maps:merge(Part(<<"totals">>, Now), Sizes(New#{subject => Now})),
                   case Then of
                       none -> none;
                       _ -> maps:merge(Part(<<"totals">>, Then), Sizes(Other))
                   end, Bound),
    Parts = fun(Key) -> most_moved(exact(Part(Key, Now), Part(Key, Then), infinity)) end,
    #{level => Level, vsn => Vsn, checks => Checks,
      before => case Then of
                    none -> none;
                    #{<<"level">> := Of, <<"vsn">> := Was} -> #{level => Of, vsn => Was}
                end,
      bytes => Totals, objects => Parts(<<"objects">>), modules => Parts(<<"modules">>),
      timed => timed(New#{subject => Now}, Other, Judged, Bound),
      failed => failed(New#{subject => Now}, Other)}.

%% The sizes of the outputs of a level, by program.
sizes(Level, Samples) ->
    maps:from_list(
      [{Program, Size} || #{<<"cells">> := Cells, <<"values">> := #{<<"size">> := Size}}
                              <- whittle_measure_samples:builds(Samples),
                          #{<<"otp">> := Of, <<"program">> := Program} <- Cells, Of =:= Level]).

exact(New, none, _) ->
    [#{name => Name, before => none, 'after' => Size, verdict => new}
     || {Name, Size} <- lists:sort(maps:to_list(New))];
exact(New, Old, Bound) ->
    [begin
         [Before, After] = [maps:get(Name, Of, none) || Of <- [Old, New]],
         #{name => Name, before => Before, 'after' => After,
           verdict => exact_verdict(Before, After, Bound)}
     end || Name <- lists:usort(maps:keys(New) ++ maps:keys(Old))].

exact_verdict(none, _, _) -> new;
exact_verdict(_, none, _) -> smaller;
exact_verdict(Same, Same, _) -> same;
exact_verdict(Before, After, _) when After < Before -> smaller;
exact_verdict(_, _, infinity) -> larger;
exact_verdict(Before, After, Bound) when After > Before * (1 + Bound) -> regression;
exact_verdict(_, _, _) -> larger.

%% Without an earlier run, the largest.
most_moved(Rows) ->
    Change = fun(#{before := Before, 'after' := After}) -> abs(number(After) - number(Before)) end,
    Moved = [{-Change(Row), Name, Row} || #{name := Name, verdict := Verdict} = Row <- Rows,
                                          Verdict =/= same],
    [Row || {_, _, Row} <- lists:sort(Moved)].

number(none) -> 0;
number(Number) -> Number.

%% Internal functions: times and memory

timed(#{study := #{programs := Programs, responses := Responses}} = New, Old, Judged, Bound) ->
    [row(Program, Response, New, Old, Judged, Bound)
     || #{name := Program} <- Programs, #{name := Name} = Response <- Responses,
        not whittle_measure_response:is_exact(Response),
        not lists:member({Program, Name}, ?UNSEEN)].

row(Program, #{name := Name} = Response, New, Old, Judged, Bound) ->
    After = values(Program, Name, New),
    Before = case Old of none -> []; _ -> values(Program, Name, Old) end,
    {Ratio, Verdict} =
        case {logs(Before), logs(After)} of
            {[_, _ | _] = One, [_, _ | _] = Other} when Judged =/= not_compared ->
                {R, {L, H}} = whittle_measure_statistics:ratio_of_logs(One, Other),
                Better = whittle_measure_response:better(Response),
                {{R, L, H}, case Judged of
                                judged -> timed_verdict(Better, L, H, Bound);
                                noisy -> noisy
                            end};
            _ -> {none, case Old of none -> new; _ -> not_compared end}
        end,
    #{name => iolist_to_binary([atom_to_list(Program), ": ", atom_to_list(Name)]),
      unit => whittle_measure_response:unit(Response),
      before => median(Before), 'after' => median(After), ratio => Ratio, verdict => Verdict}.

values(Program, Name, #{subject := #{<<"level">> := Level}, samples := Samples}) ->
    [Program1, Name1] = [atom_to_binary(Each) || Each <- [Program, Name]],
    [Value || #{<<"cell">> := #{<<"program">> := Of, <<"otp">> := Otp}, <<"values">> := Values}
                  <- whittle_measure_samples:runs(Samples),
              Of =:= Program1, Otp =:= Level, {ok, Value} <- [maps:find(Name1, Values)]].

%% Counts the failed runs of each program, if one failed in this run.
failed(#{study := #{programs := Programs}} = New, Old) ->
    [#{name => atom_to_binary(Program), before => share(outcomes(Program, Old)),
       'after' => share(Now), first => First}
     || #{name := Program} <- Programs, Now <- [outcomes(Program, New)],
        [First | _] <- [lists:append(Now)]].

share(Outcomes) -> {length([Lines || [_ | _] = Lines <- Outcomes]), length(Outcomes)}.

%% The lines about the errors of each run.
outcomes(_, none) -> [];
outcomes(Program, #{subject := #{<<"level">> := Level}, samples := Samples}) ->
    Name = atom_to_binary(Program),
    [lists:sort(maps:values(maps:get(<<"failed">>, Sample, #{})))
     || #{<<"cell">> := #{<<"program">> := Of, <<"otp">> := Otp}} = Sample
            <- whittle_measure_samples:runs(Samples),
        Of =:= Name, Otp =:= Level].

median([]) -> none;
median(Values) -> whittle_measure_statistics:median(Values).

logs(Values) -> [math:log(Value) || Value <- Values, Value > 0].

timed_verdict(less, Low, _, Bound) when Low > 1 + Bound -> regression;
timed_verdict(less, Low, _, _) when Low > 1 -> larger;
timed_verdict(less, _, High, _) when High < 1 -> smaller;
timed_verdict(more, _, High, Bound) when High < 1 / (1 + Bound) -> regression;
timed_verdict(more, _, High, _) when High < 1 -> smaller;
timed_verdict(more, Low, _, _) when Low > 1 -> larger;
timed_verdict(_, _, _, _) -> none.

%% Internal functions: regressions

regressions(#{vsn := Vsn, bytes := Bytes, timed := Timed, checks := Checks, failed := Failed}) ->
    [line("OTP ~ts: ~ts grew from ~ts to ~ts bytes",
          [Vsn, Name, whittle_number:text(Before), whittle_number:text(After)])
     || #{name := Name, before := Before, 'after' := After, verdict := regression} <- Bytes]
        ++ [line("OTP ~ts: ~ts is ~.3f times as before (interval ~.3f to ~.3f)",
                 [Vsn, Name, Ratio, Low, High])
            || #{name := Name, ratio := {Ratio, Low, High}, verdict := regression} <- Timed]
        ++ [line("OTP ~ts: the check ~ts failed: ~ts", [Vsn, Name, Line])
            || #{<<"name">> := Name, <<"passed">> := false, <<"line">> := Line} <- Checks]
        ++ [line("OTP ~ts: ~b of ~b runs of ~ts failed (before: ~b of ~b): ~ts",
                 [Vsn, After, Runs, Name, Before, Earlier, First])
            || #{name := Name, before := {Before, Earlier}, 'after' := {After, Runs},
                 first := First} <- Failed,
               After * max(1, Earlier) > Before * Runs].

line(Format, Values) -> unicode:characters_to_binary(io_lib:format(Format, Values)).
