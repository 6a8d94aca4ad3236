%% @doc Finds out where the memory of a program is, and which settings of the VM save some of it.
%%
%% {@link explain/2} joins the account of the VM with that of the kernel. {@link tune/2} runs the
%% program with many settings, and recommends some of them. docs/tune.md describes both.
-module(whittle_tune).

-export([explain/2, explain_node/1, explain_serial/2]).
-export([rows/1, tops/1, changes/1, json/1, unexplained/1]).
-export([tune/2, signature/0, recording/1, tables/1, found_json/1]).
-export([format_error/1, details/1, code/1]).

-export_type([account/0, options/0, search/0, event/0, tuned/0, reason/0]).

-type account() :: whittle_measure_account:account().

%% How to run a program.
-type options() ::
        #{arguments => string(),                % of the program, in the syntax of sh
          workload => string(),                 % a command of sh, which runs beside the program
          ready => string(),                    % a regular expression for the line that says that
                                                % the program is ready; default: its first line
          seconds => pos_integer(),             % see whittle_tune_program:options()
          tell => fun((whittle_make:event()) -> term())}.

%% How to search.
-type search() ::
        #{arguments => string(), workload => string(), ready => string(), seconds => pos_integer(),
          out := file:filename(),               % the file of settings; the samples are beside it
          ram => pos_integer(),                 % bytes that the peak may take; default: no limit
          slowdown => float(),                  % 0.05 allows 5 %; default: 0.05
          time => pos_integer(),                % seconds for the search; default: 600
          blocks => pos_integer(),              % see whittle_tune_search:options()
          command => unicode:chardata(),        % the user's, for the page
          'try' => [whittle_tune_settings:tried()],   % keys of applications, and their values
          record => boolean(),                  % record the functions that the workload calls, for
                                                % `--seen only'; default: false
          tell => fun((whittle_make:event() | event()) -> term())}.

-type event() :: whittle_tune_search:event().

-type tuned() :: #{found := whittle_tune_search:found(),
                   out := file:filename(), dir := file:filename(), page := file:filename(),
                   notes := [unicode:chardata()]}.

%% `share': a run took longer than its share of the time of the search.
-type reason() :: {share, whittle_measure_observe:error()}
                | whittle_tune_search:error() | whittle_measure:reason()
                | whittle_tune_subject:error() | whittle_tune_program:error()
                | whittle_tune_node:error() | {serial, whittle_tune_serial:error()}
                | {pack, whittle_pack:error()}.

%% The seconds for which a program runs before its account is taken, and the longest workload.
-define(SECONDS, 10).
-define(LONGEST, 600).

%% The lines of a failed program that the command prints.
-define(DETAILS, 8).

%% @doc Runs a program and explains its memory.
-spec explain(file:filename(), options()) -> {ok, account()} | {error, reason()}.
explain(Path, Options) ->
    whittle_tune_subject:with(
      Path, Options,
      fun(Subject) ->
              case whittle_tune_program:explain(Subject, run_options(Options)) of
                  {ok, Account, _} -> {ok, Account};
                  {error, _} = Error -> Error
              end
      end).

run_options(Options) ->
    Seconds = case Options of
                  #{seconds := Given} -> Given;
                  #{workload := _} -> ?LONGEST;
                  _ -> ?SECONDS
              end,
    (maps:with([workload, ready], Options))#{seconds => Seconds}.

%% @doc Explains the memory of a running node.
-spec explain_node(string()) -> {ok, account()} | {error, reason()}.
explain_node(Name) -> whittle_tune_node:account(Name).

%% @doc Explains the memory of a program that contains the application whittle_console, over its
%% serial console. The line is `DEVICE', `DEVICE:RATE' (default: 115200 bits per second),
%% `tcp:HOST:PORT' or `unix:PATH'.
-spec explain_serial(string(), fun((whittle_tune_serial:event()) -> term())) ->
          {ok, account()} | {error, reason()}.
explain_serial(Line, Tell) ->
    case whittle_tune_serial:account(Line, Tell) of
        {ok, _} = Ok -> Ok;
        {error, Reason} -> {error, {serial, Reason}}
    end.

%% The defaults of a search.
-define(TIME, 600).
-define(SLOWDOWN, 0.05).

%% @doc Searches settings for a program, and writes them to a file. The samples and the page are in
%% the directory with the name of the file and `.tuning'.
-spec tune(file:filename(), search()) -> {ok, tuned()} | {error, reason()}.
tune(Path, #{out := Out} = Options) ->
    Dir = Out ++ ".tuning",
    whittle_work:steps(
      [fun(_) -> unused(Dir) end,
       fun(_) ->
               name_limit(
                 Options,
                 whittle_tune_subject:with(
                   Path, Options,
                   fun(Subject) ->
                           Search = search(Dir, Options),
                           whittle_work:steps(
                             [fun(_) -> recording(Subject, Search, Options) end,
                              fun(Recording) ->
                                      with(Recording, Out,
                                           whittle_tune_search:run(Path, Subject, Search))
                              end])
                   end))
       end,
       fun(Found) ->
               whittle_work:steps(
                 [fun(_) -> whittle_tune_report:write(Out, Path, Found) end,
                  fun(_) -> whittle_tune_report:page(Dir, Found) end,
                  fun(#{page := Page, notes := Notes}) ->
                          {ok, #{found => Found, out => Out, dir => Dir, page => Page,
                                 notes => Notes}}
                  end])
       end]).

%% @doc Returns the first bytes of each file of settings.
-spec signature() -> binary().
signature() -> whittle_tune_report:signature().

%% @doc Returns the path of the recording that a search writes with the option `record'.
-spec recording(file:filename()) -> file:filename().
recording(Out) -> Out ++ ".trace".

%% The recording comes first: a program that cannot be recorded ends the search before it begins.
recording(Subject, #{run := Run}, #{record := true}) -> whittle_tune_program:record(Subject, Run);
recording(_, _, _) -> {ok, none}.

%% The recording lies beside the file of settings, which names it for the build.
with(_, _, {error, _} = Error) -> Error;
with(none, _, Result) -> Result;
with(Bytes, Out, {ok, Found}) ->
    File = recording(Out),
    case whittle_pack:write_beside(File, Bytes, whittle_shake_evidence:signature()) of
        ok -> {ok, Found#{build => #{evidence => filename:basename(File), seen => only}}};
        {error, Reason} -> {error, {pack, Reason}}
    end.

unused(Dir) ->
    case filelib:is_file(Dir) of
        true -> {error, {used, Dir}};
        false -> ok
    end.

%% A search takes many runs, so a workload that takes a part of its time such as this is too long.
-define(RUNS, 20).

longest(#{workload := _} = Options) ->
    #{seconds => max(1, maps:get(time, Options, ?TIME) div ?RUNS)};
longest(_) -> #{}.

%% Gives the error about a long workload another name if longest/1 chose the limit, and not the
%% user.
name_limit(Options, {error, {run, {workload_endless, _, _} = Error}})
  when not is_map_key(seconds, Options) -> {error, {share, Error}};
name_limit(_, Result) -> Result.

search(Dir, Options) ->
    (maps:with([blocks, 'try', command], Options))
    #{dir => Dir, ram => maps:get(ram, Options, none),
      slowdown => maps:get(slowdown, Options, ?SLOWDOWN), seconds => maps:get(time, Options, ?TIME),
      run => run_options(maps:merge(longest(Options), Options)),
      tell => maps:get(tell, Options, fun(_) -> ok end)}.

%% @doc Writes the tables of a search: the validation, the front, and the recommended settings.
-spec tables(tuned()) -> [[[unicode:chardata() | integer()]]].
tables(#{found := Found}) -> whittle_tune_report:tables(Found).

%% @doc Returns what a search found as data.
-spec found_json(tuned()) -> whittle_json:json().
found_json(#{found := #{account := Account} = Found, out := Out, dir := Dir, page := Page}) ->
    (whittle_tune_report:json(Found))#{account => json(Account),
                                       out => unicode:characters_to_binary(Out),
                                       samples => unicode:characters_to_binary(Dir),
                                       page => unicode:characters_to_binary(Page)}.

%% @doc Writes an account as the rows of a table. The first row is the head.
-spec rows(account()) -> [[unicode:chardata() | integer()]].
rows(Account) -> whittle_measure_account:rows(Account).

%% @doc Writes the tables of the largest processes and ETS tables.
-spec tops(account()) -> [[[unicode:chardata() | integer()]]].
tops(Account) -> whittle_measure_account:tops(Account).

%% @doc Returns the changes to the program's code that would save memory: the rows of a table, the
%% first of which is its head, and the lines below it.
-spec changes(account()) -> {[[unicode:chardata() | integer()]], [unicode:chardata()]}.
changes(#{changes := Changes}) ->
    {whittle_tune_changes:rows(Changes), whittle_tune_changes:notes(Changes)};
changes(_) -> {[], []}.

%% @doc Returns an account as data.
-spec json(account()) -> whittle_json:json().
json(#{changes := Changes} = Account) ->
    (whittle_measure_account:json(Account))#{changes => whittle_tune_changes:json(Changes)};
json(Account) -> whittle_measure_account:json(Account).

%% @doc Returns the part of the resident memory that the account does not explain, from 0 to 1.
-spec unexplained(account()) -> float().
unexplained(Account) -> whittle_measure_account:unexplained(Account).

%% @doc Formats an error as one line for a person. The line ends with the next thing to do.
-spec format_error(reason()) -> unicode:chardata().
format_error({make, Reason}) -> whittle_make:format_error(Reason);
format_error({used, Dir}) ->
    [Dir, " exists: it holds the samples of another search; name another file with -o"];
format_error({no_settings, Otp}) ->
    ["Whittle knows no settings for OTP ", Otp, ": use OTP 25 or newer"];
format_error({budget_below_code, Ram, Fixed, _}) ->
    ["the program's code and the VM alone take ", whittle_number:text(Fixed), " bytes, more than "
     "the budget of ", whittle_number:text(Ram), ": give a larger --ram, or build with --shake "
     "functions"];
format_error({short_work, Milliseconds}) ->
    io_lib:format("the work took ~b ms, too short to compare: give a workload of a second or more",
                  [Milliseconds]);
format_error({slow_end, Milliseconds}) ->
    io_lib:format("the program did not end within ~b s after SIGTERM, so its recording is not "
                  "complete: let the program end on SIGTERM, or leave out --record",
                  [Milliseconds div 1000]);
format_error(no_recording) ->
    "the run recorded no function of the program: name a program built without --shake, or leave "
        "out --record (docs/recordings.md of Whittle's source has the rules)";
format_error({short_time, Seconds, Needed}) ->
    io_lib:format("~b s are too short for a search with this workload: give --time ~bs, or a "
                  "shorter workload", [Seconds, Needed]);
format_error({fails_without, Line}) ->
    ["the program fails with its own settings: ", Line, ": correct the program or its arguments"];
format_error({no_program, Path}) when is_list(Path) ->
    [Path, " is neither a program nor an input of `whittle build': correct the path"];
format_error({other_processor, Path}) ->
    [Path, " is a program for another processor, and no output of Whittle: name a script that "
     "starts it under its emulator, or look at it on its own machine with --explain --node"];
format_error({no_emulator, Path, Target, Program}) ->
    [Path, " is built for ", Target, ", and the emulator ", Program, " is not on the PATH: install "
     "it (Debian package qemu-user), or look at the program on its board with --explain --node"];
format_error({run, {not_ready, Milliseconds, Output}}) ->
    Seconds = Milliseconds div 1000,
    io_lib:format("the program was not ready after ~b s (~ts): give --ready with a regular "
                  "expression that matches a line of the program; if the program needs more "
                  "time to get ready, give --seconds a number above ~b",
                  [Seconds, whittle_measure_observe:last(Output), Seconds]);
format_error({run, {workload_failed, _, _} = Reason}) ->
    [whittle_measure_observe:format_error(Reason), ": correct the command of --workload"];
format_error({run, {workload_endless, _, _} = Reason}) ->
    [whittle_measure_observe:format_error(Reason), ": give a command that ends, or a larger "
     "--seconds"];
format_error({share, Reason}) ->
    [whittle_measure_observe:format_error(Reason), ": its limit is a twentieth of --time: give a "
     "larger --time, or --seconds"];
format_error({run, {ended_early, _} = Reason}) ->
    [whittle_measure_observe:format_error(Reason), ": let the workload end first"];
format_error({run, Reason}) ->
    [whittle_measure_observe:format_error(Reason), ": correct the program or its arguments"];
format_error({too_soon, Milliseconds}) ->
    io_lib:format("the program ended after ~b ms, too soon to take its account: give it a longer "
                  "workload, and let it print a line when it is ready", [Milliseconds]);
format_error({no_dump, _} = Error) -> whittle_measure_snapshot:format_error(Error);
format_error({Tag, _, _} = Error) when Tag =:= account; Tag =:= slow_dump; Tag =:= old_dump ->
    whittle_measure_snapshot:format_error(Error);
format_error({directory, Dir, Reason}) ->
    [Dir, " cannot be written (", file:format_error(Reason),
     "): set TMPDIR to a directory with free space"];
format_error({no_distribution, Name}) ->
    ["Whittle cannot become a node to reach ", Name, ": give this machine a name (`hostname'), or "
     "run `whittle' on the machine of the node"];
format_error({no_answer, Name}) ->
    [case lists:member($@, Name) of
         true -> Name;
         false -> [Name, " (without @HOST this is a node of this machine)"]
     end, " does not answer: it is not running, or it has another cookie (set RELEASE_COOKIE or "
     "WHITTLE_COOKIE_FILE as for the node)"];
format_error({call_failed, Name, Reason}) ->
    io_lib:format("the call to ~ts failed (~0tp): look at its log", [Name, Reason]);
format_error({no_kernel, Name}) ->
    ["the file smaps of ", Name, " cannot be read: run `whittle' as the node's user"];
format_error({bad_name, Name}) ->
    ["`", Name, "' is not the name of a node: use letters, digits, _ and -; @HOST may follow"];
format_error({serial, Reason}) -> whittle_tune_serial:format_error(Reason);
format_error({pack, Reason}) ->
    [whittle_pack:format_error(Reason), "; all runs so far are kept"];
format_error({bad_cookie, _, _} = Error) -> whittle_tune_cookie:format_error(Error);
format_error(no_cookie) -> whittle_tune_cookie:format_error(no_cookie);
format_error({file, File, enospc}) ->
    [File, " cannot be written, because the disk is full: make room; all runs so far are kept"];
format_error(Error) -> whittle_measure:format_error(Error).

%% @doc Returns the lines that belong above the line of {@link format_error/1}: the last lines of a
%% program that failed.
-spec details(reason()) -> [unicode:chardata()].
details({make, Reason}) -> whittle_make:details(Reason);
details({budget_below_code, _, _, Account}) ->
    [io_lib:format("~12ts  ~ts", [whittle_number:text(Bytes), Name])
     || #{name := Name, bytes := Bytes} <- whittle_measure_account:lines(Account)];
details({Tag, {_, _, Output}}) when Tag =:= run, is_binary(Output);
                                    Tag =:= share, is_binary(Output) ->
    Lines = binary:split(Output, <<"\n">>, [global, trim_all]),
    [whittle_file_name:printable(Line)
     || Line <- lists:nthtail(max(0, length(Lines) - ?DETAILS), Lines)];
details(_) -> [].

%% @doc Returns the name of an error, for programs (docs/json.md).
-spec code(reason()) -> atom().
code({make, Reason}) -> whittle_make:code(Reason);
code({Tag, Reason}) when Tag =:= run; Tag =:= share; Tag =:= serial -> element(1, Reason);
code(Reason) when is_atom(Reason) -> Reason;
code(Reason) -> element(1, Reason).
