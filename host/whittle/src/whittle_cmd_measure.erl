%% @doc Implements `whittle measure'. It runs studies ({@link whittle_measure}), shows their
%% progress and prints their tables.
-module(whittle_cmd_measure).
-behaviour(whittle).

-export([command/0, run/1]).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "measure", arguments => ["STUDY", "[DIR]", "[DIR]"],
      words => ["list", "report", "compare" | whittle_measure:names()],
      help => "run a study, which measures the cost of build options and VM settings "
              "(docs/measure.md of Whittle's source)",
      forms => forms(),
      options => [#{name => out, long => "out", short => $o, value => "DIR",
                    help => "the directory of the samples and the page (default: STUDY.measured)"},
                  #{name => only, long => "only", value => "FACTOR=LEVEL", many => true,
                    help => "measure only this level of a factor; you can repeat this option"},
                  #{name => blocks, long => "blocks", value => "N",
                    help => "run each combination N times (default: the study's number)"},
                  #{name => seconds, long => "seconds", value => "N",
                    help => "watch each program for N seconds (default: the study's number)"},
                  #{name => resume, long => "resume",
                    help => "continue the study in the directory"},
                  #{name => source, long => "source", value => "TARBALL",
                    help => "otp: also measure the OTP of this source (docs/otp-releases.md of "
                            "Whittle's source)"},
                  #{name => sha256, long => "sha256", value => "SUM",
                    help => "otp: the SHA-256 of that source"},
                  #{name => bound, long => "bound", value => "PERCENT",
                    help => "otp: exit with 1 if a number is worse by more (default: 2%)"},
                  #{name => against, long => "against", value => "DIR",
                    help => "otp: compare with this run (default: the last complete one)"},
                  #{name => differs, long => "differs", value => "FACTOR", many => true,
                    help => "compare: the runs may have different levels of this factor"},
                  #{name => png, long => "png",
                    help => "also write each chart as a PNG file beside the page"},
                  whittle_command_line:json()]}.

forms() ->
    Study = [out, only, blocks, seconds, resume, png, json],
    [#{arguments => ["STUDY"], help => "run a study", options => Study},
     #{arguments => ["otp"], help => "compare the releases of OTP with those of the last run",
       options => [source, sha256, bound, against | Study]},
     #{arguments => ["list"], help => "list the studies that come with Whittle",
       options => [json]},
     #{arguments => ["report", "DIR"], help => "write the tables and the page of a run again",
       options => [png, json]},
     #{arguments => ["compare", "DIR", "DIR"], help => "compare two runs of a study",
       options => [differs, json]}].

%% @doc Runs the form of the command that its arguments have.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{arguments := ["otp"]} = Values) ->
    whittle_work:steps(
      [fun(_) -> only(maps:get(only, Values, [])) end,
       fun(Only) -> number(blocks, blocks, Values, #{only => Only}) end,
       fun(Request) -> number(seconds, duration, Values, Request) end,
       fun(Request) -> whittle_cmd_measure_otp:run(Values, Request#{tell => fun tell/1}) end]);
run(#{arguments := ["otp", Word | _]}) -> unexpected(Word);
run(#{arguments := ["list"]}) -> {ok, list(whittle_measure:studies())};
run(#{arguments := ["list", Word | _]}) -> unexpected(Word);
run(#{arguments := ["report"]}) -> needs("report", "DIR");
run(#{arguments := ["report", Dir]} = Values) -> reported(Dir, Values);
run(#{arguments := ["report", _, Word]}) -> unexpected(Word);
run(#{arguments := ["compare", One, Other]} = Values) -> compared(One, Other, Values);
run(#{arguments := ["compare" | _]}) -> needs("compare", "two directories");
run(#{arguments := [Name]} = Values) -> study(Name, Values);
run(#{arguments := [Name, Word | _]}) ->
    unexpected(Word, whittle_suggestion:hint(Name, ["report", "compare"])).

unexpected(Word) -> unexpected(Word, "").

%% The hint is about the word before the unexpected one.
unexpected(Word, Hint) ->
    whittle_failure:usage(["unexpected argument `", Word, $', Hint,
                           "; see `whittle help measure'"]).

needs(Part, What) ->
    whittle_failure:usage(["`whittle measure ", Part, "' needs ", What,
                           "; see `whittle help measure'"]).

list(Studies) ->
    #{text => whittle_table:text([["study", "title"]
                                  | [[Name, Title] || {Name, Title} <- Studies]]),
      json => [#{name => binary(Name), title => binary(Title)} || {Name, Title} <- Studies]}.

%% Internal functions: a study

study(Name, Values) ->
    whittle_work:steps(
      [fun(_) -> only(maps:get(only, Values, [])) end,
       fun(Only) -> failed(whittle_measure:study(Name, Only)) end,
       fun(Study) -> number(blocks, blocks, Values, Study) end,
       fun(Study) -> number(seconds, duration, Values, Study) end,
       fun(Study) ->
               Dir = maps:get(out, Values, filename:basename(Name, ".study") ++ ".measured"),
               Command = whittle_command_line:to_shell(command(), [only, blocks, seconds], Values),
               failed(whittle_measure:run(Study, #{dir => Dir, tell => fun tell/1,
                                                   command => Command,
                                                   resume => is_map_key(resume, Values)}))
       end,
       fun(Dir) -> whittle_progress:clear(), reported(Dir, Values) end]).

failed({ok, _} = Ok) -> Ok;
failed({error, Reason}) -> whittle_failure:measure(Reason).

only(Words) ->
    case [Word || Word <- Words, length(string:split(Word, "=")) =/= 2] of
        [] -> {ok, [list_to_tuple(string:split(Word, "=")) || Word <- Words]};
        [Word | _] ->
            whittle_failure:usage(["--only cannot be `", Word, "'; give FACTOR=LEVEL; see `whittle "
                                   "help measure'"])
    end.

number(Option, Key, Values, Study) ->
    case Values of
        #{Option := Text} ->
            case string:to_integer(Text) of
                {Number, ""} when Number >= 1, Number =< 1_000_000 -> {ok, Study#{Key => Number}};
                _ -> whittle_failure:usage(["--", atom_to_list(Option), " cannot be `", Text,
                                            "'; give a whole number from 1 to 1000000"])
            end;
        _ -> {ok, Study}
    end.

tell({stage, Text}) -> whittle_progress:stage(Text);
tell({build, Index, Count, Name}) ->
    whittle_progress:step(io_lib:format("program ~b of ~b: ~ts", [Index, Count, Name]));
tell({make, {note, _}}) -> ok;
tell({make, {waiting, Text}}) -> whittle_progress:stage(Text);
tell({make, {runtime, Progress}}) -> whittle_progress:event(Progress);
tell({make, _}) -> ok;
tell({run, Index, Count, Key, {left, Seconds}}) ->
    whittle_progress:step(io_lib:format("run ~b of ~b, about ~ts left: ~ts",
                                        [Index, Count, time(Seconds),
                                         whittle_measure:levels(Key)]));
tell({failed, Key, Line}) -> whittle_progress:note([whittle_measure:levels(Key), ": ", Line]).

time(Seconds) when Seconds < 120 -> io_lib:format("~b s", [Seconds]);
time(Seconds) when Seconds < 7200 -> io_lib:format("~b min", [Seconds div 60]);
time(Seconds) -> io_lib:format("~b h ~b min", [Seconds div 3600, Seconds rem 3600 div 60]).

%% Internal functions: results

reported(Dir, Values) ->
    whittle_work:steps(
      [fun(_) -> whittle_cmd_measure_page:write(Dir, Values) end,
       fun({Report, Files}) ->
               {ok, #{text => [[[whittle_table:text(Table), [[Note, $\n] || Note <- Notes], $\n]
                                || {Table, Notes} <- whittle_measure:tables(Report)],
                               [[whittle_table:text(Titles), $\n]
                                || [_ | _] = Titles <- [whittle_measure:titles(Report)]],
                               noise(Report), Files],
                      json => whittle_measure:json(Report)}}
       end]).

noise(#{noise := #{verdict := quiet}}) -> "";
noise(Report) ->
    ["The machine was noisy: ", whittle_measure:noise(Report), ".\n"
     "Run the study again when the machine is quiet.\n"].

compared(One, Other, Values) ->
    case whittle_measure:compare(One, Other, maps:get(differs, Values, [])) of
        {ok, Comparisons} ->
            {ok, #{text => [[whittle_table:text(Table), $\n]
                             || Table <- whittle_measure:comparison_tables(Comparisons)]
                            ++ [[Note, $\n]
                                || Note <- whittle_measure:comparison_notes(Comparisons)],
                   json => whittle_measure:comparison_json(Comparisons)}};
        {error, Reason} -> whittle_failure:measure(Reason)
    end.

binary(Text) -> unicode:characters_to_binary(Text).
