%% @doc Implements `whittle measure otp': it runs the study of OTP's releases, and shows what moved
%% against the last stored run.
-module(whittle_cmd_measure_otp).

-export([run/2]).

%% The number of objects and of modules that the table shows. The JSON has all.
-define(SHOWN, 12).

%% @doc Runs the study. The exit code is 1 if a number is worse than the bound allows, or if a check
%% failed.
-spec run(whittle_command_line:values(), map()) ->
          {ok, whittle:result()} | {error, whittle:failure()}.
run(Values, Request) ->
    whittle_work:steps(
      [fun(_) -> sum(Values, Request) end,
       fun(With) -> bound(Values, With) end,
       fun(With) ->
               Named = maps:with([source, against], Values),
               failed(whittle_measure_otp:run(
                        maps:merge(With, Named#{dir => maps:get(out, Values, "otp.measured"),
                                                resume => is_map_key(resume, Values)})))
       end,
       fun(Outcome) -> whittle_progress:clear(), reported(Outcome, Values) end]).

failed({ok, _} = Ok) -> Ok;
failed({error, Reason}) -> whittle_failure:measure(Reason).

sum(#{sha256 := _} = Values, _) when not is_map_key(source, Values) ->
    whittle_failure:usage("--sha256 is the checksum of a tarball; name the tarball with --source");
sum(#{sha256 := Text}, Request) ->
    case re:run(Text, "^[0-9a-fA-F]{64}$", [unicode, {capture, none}]) of
        match -> {ok, Request#{sha256 => string:lowercase(Text)}};
        nomatch ->
            whittle_failure:usage(["--sha256 cannot be `", Text, "'; give the 64 hexadecimal "
                                   "digits of a SHA-256"])
    end;
sum(_, Request) -> {ok, Request}.

bound(#{bound := Text}, Request) ->
    case re:run(Text, "^([0-9]{1,3}(?:\\.[0-9]{1,3})?)%?$",
                [unicode, {capture, all_but_first, list}]) of
        {match, [Number]} ->
            Percent = case lists:member($., Number) of
                          true -> list_to_float(Number);
                          false -> list_to_integer(Number)
                      end,
            {ok, Request#{bound => Percent / 100}};
        nomatch ->
            whittle_failure:usage(["--bound cannot be `", Text, "'; give a percentage from 0 to "
                                   "999, such as 2%"])
    end;
bound(_, Request) -> {ok, Request}.

reported(#{dir := Dir, against := Against, moved := Moved}, Values) ->
    whittle_work:steps(
      [fun(_) -> whittle_cmd_measure_page:write(Dir, Values) end,
       fun({_, Files}) ->
               #{regressions := Regressions} = Moved,
               {ok, #{text => [text(Moved, Against), "the run: ", Dir, "\n", Files, verdict(Moved)],
                      json => json(Moved, Dir, Against),
                      exit => min(1, length(Regressions))}}
       end]).

%% Internal functions: the text

text(#{subjects := Subjects, notes := Notes}, Against) ->
    [[subject(Subject, Against) || Subject <- Subjects], [["note: ", Note, $\n] || Note <- Notes]].

subject(#{vsn := Vsn, before := Before, bytes := Bytes, objects := Objects, modules := Modules,
          timed := Timed, checks := Checks, failed := Failed}, Against) ->
    Title = case Before of
                none -> ["OTP ", Vsn, ", compared with nothing\n"];
                #{vsn := Was} -> ["OTP ", Vsn, " against OTP ", Was, " of ", Against, $\n]
            end,
    [Title, $\n,
     whittle_table:text([["bytes", "before", "now", "change", "verdict"]
                         | [exact(Row) || Row <- Bytes]]), $\n,
     parts("object", Before, Objects), parts("module", Before, Modules),
     whittle_table:text([["start, memory, speed", "before", "now", "ratio", "verdict"]
                         | [timed(Row) || Row <- Timed]]), $\n,
     [[failed_runs(Row) || Row <- Failed], [$\n || Failed =/= []]],
     whittle_table:text([["check", "result"]
                         | [[Name, case Passed of true -> "passed"; false -> ["FAILED: ", Line] end]
                            || #{<<"name">> := Name, <<"passed">> := Passed, <<"line">> := Line}
                                   <- Checks]]), $\n].

parts(What, none, Rows) ->
    table(["largest ", What, "s"], length(Rows), Rows);
parts(What, _, []) -> ["no ", What, " moved\n\n"];
parts(What, _, Rows) -> table([What, "s that moved"], length(Rows), Rows).

table(Title, Count, Rows) ->
    [whittle_table:text([[Title, "before", "now", "change", ""]
                         | [part(Row) ++ [""] || Row <- lists:sublist(Rows, ?SHOWN)]]),
     [["and ", whittle_number:text(Count - ?SHOWN), " more (--json has all)\n"]
      || Count > ?SHOWN], $\n].

exact(#{verdict := Verdict} = Row) -> part(Row) ++ [word(Verdict)].

part(#{name := Name, before := Before, 'after' := After}) ->
    [Name, bytes(Before), bytes(After), change(Before, After)].

bytes(none) -> "-";
bytes(Bytes) -> Bytes.

change(Before, After) when is_integer(Before), is_integer(After), Before =/= After ->
    [case After > Before of true -> "+"; false -> "-" end, whittle_number:text(abs(After - Before)),
     [io_lib:format(" (~.2f %)", [100 * abs(After - Before) / Before]) || Before > 0]];
change(_, _) -> "".

timed(#{name := Name, unit := Unit, before := Before, 'after' := After, ratio := Ratio,
        verdict := Verdict}) ->
    [Name, value(Before, Unit), value(After, Unit),
     case Ratio of
         none -> "-";
         {Middle, Low, High} -> io_lib:format("~.3f (~.3f to ~.3f)", [Middle, Low, High])
     end, word(Verdict)].

failed_runs(#{name := Name, 'after' := {Failed, Runs}, first := First}) ->
    io_lib:format("~b of ~b runs of ~ts failed: ~ts\n", [Failed, Runs, Name, First]).

value(none, _) -> "-";
value(Value, bytes) -> [whittle_number:text(round(Value)), " bytes"];
value(Value, milliseconds) -> io_lib:format("~.1f ms", [Value]);
value(Value, _) -> io_lib:format("~.3f", [float(Value)]).

word(new) -> "";
word(same) -> "the same";
word(none) -> "no difference";
word(noisy) -> "not judged";
word(not_compared) -> "not compared";
word(regression) -> "REGRESSION";
word(Other) -> atom_to_list(Other).

verdict(#{regressions := [], bound := Bound, subjects := Subjects}) ->
    case [Before || #{before := #{} = Before} <- Subjects] of
        [] -> "no earlier run; this one is stored\n";
        _ -> io_lib:format("no regression beyond ~s\n", [percent(Bound)])
    end;
verdict(#{regressions := Lines, bound := Bound}) ->
    [io_lib:format("regressions beyond ~s:\n", [percent(Bound)]), [["  ", Line, $\n]
                                                                   || Line <- Lines]].

percent(Bound) -> [float_to_list(100.0 * Bound, [{decimals, 3}, compact]), " %"].

%% Internal functions: JSON

json(#{subjects := Subjects} = Moved, Dir, Against) ->
    (maps:with([bound, notes, regressions], Moved))
        #{run => unicode:characters_to_binary(Dir),
          against => case Against of none -> null; _ -> unicode:characters_to_binary(Against) end,
          subjects => [json(Subject) || Subject <- Subjects]}.

json(#{before := Earlier, bytes := Bytes, objects := Objects, modules := Modules, timed := Timed,
       failed := Failed} = Subject) ->
    Subject#{before := null(Earlier), bytes := [row(Row) || Row <- Bytes],
             objects := [row(Row) || Row <- Objects], modules := [row(Row) || Row <- Modules],
             timed := [row(Row) || Row <- Timed],
             failed := [Row#{before := tuple_to_list(Before), 'after' := tuple_to_list(After)}
                        || #{before := Before, 'after' := After} = Row <- Failed]}.

row(Row) ->
    maps:map(fun(ratio, {Middle, Low, High}) -> [Middle, Low, High];
                (unit, Unit) when is_list(Unit) -> unicode:characters_to_binary(Unit);
                (_, Value) -> null(Value)
             end, Row).

null(none) -> null;
null(Value) -> Value.
