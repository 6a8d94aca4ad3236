%% @doc Defines the responses: the numbers that a study takes from a build or from a run.
%%
%% A study lists its responses as maps. `kind' chooses what to measure, and the other keys are the
%% options of that kind. Each kind has one row in {@link kinds/0}, with its unit and its direction.
-module(whittle_measure_response).

-export([kinds/0, check/1, needs/1, applies/2, is_exact/1, lacks/1, unit/1, better/1, title/1,
         value/2, pauses/0]).

-export_type([request/0, outcome/0, unit/0]).

-type request() ::
        #{name := atom(),
          kind := atom(),
          title => unicode:chardata(),
          programs => [atom()],                   % default: all that have what it measures
          unit => unit(),                         % of `printed', `reported' and `command'
          better => less | more,                  % likewise; default: less
          pattern => string(),                    % of `printed' and `reported': its first group
                                                  % is the number
          line => atom(),                         % of `account': a group of lines
          allocator => atom(),                    % of `allocator'
          part => whittle_measure_account:part(), % of `allocator'; default: carriers
          command => [string(), ...]}.            % of `command': prints the number

-type unit() :: bytes | milliseconds | count | string().

%% What a run left: the output that was built and what the runner saw.
-type outcome() ::
        #{out => file:filename(),                 % absent for a command and for stock
          size => pos_integer(),
          vm => {file:filename(), file:filename()}, % the VM in the output, and its symbols
          library => pos_integer(),               % the bytes of a library
          first_line => non_neg_integer(),        % microseconds since the start
          ready => non_neg_integer(),             % microseconds since the start
          ended => non_neg_integer(),             % microseconds since the start
          memory => [{non_neg_integer(), whittle_measure_process:memory()}],
          peak => non_neg_integer(),              % the most resident bytes that the kernel saw
          workload => non_neg_integer(),          % microseconds that the workload took
          reported => binary(),                   % the end of the workload's output
          work => whittle_measure_process:work(), % between ready and the end
          cpu => float(),                         % milliseconds until the last reading
          %% milliseconds of the processes in other groups, which may go on after the end
          cpu_apart => [{Pid :: pos_integer(), non_neg_integer()}],
          watched => pos_integer(),               % milliseconds between ready and the end
          %% of a program that still runs at the end, if a response needs the account
          account => {ok, whittle_measure_account:account()}
                   | {error, whittle_measure_snapshot:error()},
          %% the longest pause by a garbage collection, and the counts of pauses by their lengths,
          %% in nanoseconds, if a response needs them
          pauses => {non_neg_integer(), [{non_neg_integer(), pos_integer()}]} | none,
          output => binary(),
          directory => file:filename(),
          %% what the caller of whittle_measure_observe read at the end
          snapshot => {ok, whittle_measure_account:account()}
                    | {error, whittle_measure_snapshot:error()},
          extra => boolean(),
          end_of_vm => ok | timeout}.

-define(IS_PAUSE(Kind), Kind =:= gc_pause_p50; Kind =:= gc_pause_p99; Kind =:= gc_pause_p999;
        Kind =:= gc_pause_max).
-define(MICROSECONDS, "\x{b5}s").

%% @doc Lists the kinds of responses: name, unit, direction and help. The study gives the unit of
%% the kinds with the unit `given'.
-spec kinds() -> [{atom(), unit() | given, less | more, unicode:chardata()}].
kinds() ->
    [{size, bytes, less, "the size of the output"},
     {squashfs_xz, bytes, less, "the size of a squashfs image of the output, with xz"},
     {squashfs_zstd, bytes, less, "the size of a squashfs image of the output, with zstd"},
     {vm, bytes, less, "the size of the VM in the output, without symbols"},
     {vm_symbols, bytes, less, "the size of the VM with its table of symbols"},
     {library, bytes, less, "the size of the applications as files"},
     {first_line, milliseconds, less, "the time from the start to the first line of output"},
     {ready, milliseconds, less, "the time from the start to the line that `ready' describes"},
     {run_time, milliseconds, less, "the time from the start to the end"},
     {workload_time, milliseconds, less, "the time of the workload"},
     {rss_max, bytes, less, "the largest resident set"},
     {rss_peak, bytes, less, "the largest resident set, as the kernel counts it"},
     {rss_mean, bytes, less, "the mean resident set after the program is ready"},
     {rss_min, bytes, less, "the smallest resident set after the program is ready"},
     {pss_max, bytes, less, "the largest proportional set"},
     {pss_mean, bytes, less, "the mean proportional set after the program is ready"},
     {anonymous_max, bytes, less, "the largest anonymous memory"},
     {anonymous_mean, bytes, less, "the mean anonymous memory after the program is ready"},
     {file_mean, bytes, less, "the mean memory of mapped files after the program is ready"},
     {account, bytes, less, "a part of the account of the VM's memory at the end; `line' names it"},
     {allocator, bytes, less, "the blocks, the carriers or the free space of one of the VM's "
      "allocators at the end"},
     {gc_pause_p50, ?MICROSECONDS, less, "the median pause by a garbage collection"},
     {gc_pause_p99, ?MICROSECONDS, less, "the pause that 1 % of the garbage collections exceed"},
     {gc_pause_p999, ?MICROSECONDS, less, "the pause that 0.1 % of the garbage collections exceed"},
     {gc_pause_max, ?MICROSECONDS, less, "the longest pause by a garbage collection"},
     {cpu, milliseconds, less, "the CPU time between ready and the end"},
     {cpu_per_minute, milliseconds, less, "the CPU time in each minute after ready"},
     {wakeups_per_minute, count, less, "the voluntary context switches in each minute after ready"},
     {printed, given, less, "a number that the program prints; `pattern' finds it"},
     {reported, given, less, "a number that the workload prints; `pattern' finds it"},
     {command, given, less, "a number that a command prints; it gets the output's path in $OUT"}].

%% @doc Checks a response of a study. The error is one line.
-spec check(term()) -> {ok, request()} | {error, unicode:chardata()}.
check(Kind) when is_atom(Kind) -> check(#{name => Kind, kind => Kind});
check(#{kind := Kind} = Request) when is_atom(Kind) ->
    Named = maps:merge(#{name => Kind}, Request),
    case lists:keyfind(Kind, 1, kinds()) of
        false ->
            {error, io_lib:format("there is no response ~tp; the responses are ~ts",
                                  [Kind, lists:join(", ", [atom_to_list(Known)
                                                           || {Known, _, _, _} <- kinds()])])};
        _ ->
            Allowed = [name, kind, title, programs] ++ options(Kind),
            case {maps:keys(Named) -- Allowed, required(Kind) -- maps:keys(Named)} of
                {[Unknown | _], _} ->
                    {error, io_lib:format("response ~tp: there is no key ~tp", [Kind, Unknown])};
                {_, [Missing | _]} ->
                    {error, io_lib:format("response ~tp: the key ~tp is missing", [Kind, Missing])};
                {[], []} ->
                    values(Kind, Named)
            end
    end;
check(Other) ->
    {error, io_lib:format("~tP is not a response: write a kind, or a map with the key kind",
                          [Other, 8])}.

options(Kind) when Kind =:= printed; Kind =:= reported -> [pattern, unit, better];
options(command) -> [command, unit, better];
options(account) -> [line];
options(allocator) -> [allocator, part];
options(_) -> [].

required(account) -> [line];
required(allocator) -> [allocator];
required(Kind) when Kind =:= printed; Kind =:= reported -> [pattern, unit];
required(command) -> [command, unit];
required(_) -> [].

values(Kind, Request) ->
    Wrong = [Key || {Key, Value} <- maps:to_list(Request), not is_sound(Key, Value)],
    case Wrong of
        [] -> {ok, Request};
        [Key | _] ->
            {error, io_lib:format("response ~tp: the value of ~tp is wrong: ~tP",
                                  [Kind, Key, maps:get(Key, Request), 8])}
    end.

%% The name becomes a part of file names.
is_sound(name, Name) -> is_atom(Name) andalso whittle_file_name:check(Name) =:= ok;
is_sound(kind, Kind) -> is_atom(Kind);
is_sound(unit, Unit) -> lists:member(Unit, [bytes, milliseconds, count]) orelse is_text(Unit);
is_sound(better, Better) -> Better =:= less orelse Better =:= more;
is_sound(pattern, Text) -> is_text(Text) andalso element(1, re:compile(Text, [unicode])) =:= ok;
is_sound(command, Words) ->
    is_list(Words) andalso Words =/= [] andalso lists:all(fun is_text/1, Words);
is_sound(programs, Names) ->
    is_list(Names) andalso Names =/= [] andalso lists:all(fun is_atom/1, Names);
is_sound(line, Line) -> lists:keymember(Line, 1, whittle_measure_account:groups());
is_sound(allocator, Name) -> lists:member(Name, whittle_measure_account:allocators());
is_sound(part, Part) -> lists:member(Part, [blocks, carriers, free]);
is_sound(title, Text) -> is_text(Text).

is_text(Text) -> is_list(Text) andalso Text =/= [] andalso io_lib:printable_unicode_list(Text).

-define(OF_OUTPUT, [size, squashfs_xz, squashfs_zstd, vm, vm_symbols]).

%% @doc Tells what a response needs: only the build, or a run of the program.
-spec needs(request()) -> build | run.
needs(#{kind := command}) -> build;
needs(Response) ->
    case is_exact(Response) of
        true -> build;
        false -> run
    end.

%% @doc Tells whether a response depends on nothing but the build. One measurement of it is exact.
%% A command may print another number each time.
-spec is_exact(request()) -> boolean().
is_exact(#{kind := Kind}) -> Kind =:= library orelse lists:member(Kind, ?OF_OUTPUT).

%% @doc Tells whether a program has what a response measures. A command has no output of a build,
%% and nothing runs a library.
-spec applies(request(), whittle_measure_study:program()) -> boolean().
applies(#{programs := Names} = Response, #{name := Name} = Program) ->
    lists:member(Name, Names) andalso applies(maps:remove(programs, Response), Program);
applies(#{kind := Kind}, #{library := _}) -> Kind =:= library;
applies(#{kind := library}, _) -> false;
applies(#{kind := Kind}, #{command := _}) -> not lists:member(Kind, ?OF_OUTPUT);
applies(_, _) -> true.

%% @doc Finds a program that a response needs and that this machine does not have. The other element
%% is the next thing to do.
-spec lacks(request()) -> none | {string(), unicode:chardata()}.
lacks(#{kind := Kind}) when Kind =:= squashfs_xz; Kind =:= squashfs_zstd ->
    lacks("mksquashfs", "run `tools/setup measure', which installs the package squashfs-tools");
lacks(#{kind := command, command := [Program | _]}) ->
    lacks(Program, "correct the study or install the program");
lacks(_) -> none.

lacks(Program, Remedy) ->
    case os:find_executable(Program) of
        false -> {Program, Remedy};
        _ -> none
    end.

%% @doc Returns the unit of a response.
-spec unit(request()) -> unit().
unit(#{unit := Unit}) -> Unit;
unit(#{kind := Kind}) -> element(2, lists:keyfind(Kind, 1, kinds())).

%% @doc Returns the direction that is better.
-spec better(request()) -> less | more.
better(#{better := Better}) -> Better;
better(#{kind := Kind}) -> element(3, lists:keyfind(Kind, 1, kinds())).

%% @doc Returns the title of a response, for tables and charts.
-spec title(request()) -> unicode:chardata().
title(#{title := Title}) -> Title;
title(#{kind := account, line := Line}) ->
    {Line, Title} = lists:keyfind(Line, 1, whittle_measure_account:groups()),
    Title;
title(#{kind := allocator, allocator := Name} = Response) ->
    [atom_to_list(Name), $\s, part_title(maps:get(part, Response, carriers))];
title(#{name := Name, kind := Name}) -> element(4, lists:keyfind(Name, 1, kinds()));
title(#{name := Name}) -> atom_to_list(Name).

part_title(free) -> "free space";
part_title(Part) -> atom_to_list(Part).

%% @doc Lists the kinds of responses that are pauses by garbage collections.
-spec pauses() -> [atom()].
pauses() -> [gc_pause_p50, gc_pause_p99, gc_pause_p999, gc_pause_max].

%% @doc Takes the number of a response from an outcome. The error is one line. `none' means that the
%% response does not apply: the stock OTP and commands have no output.
-spec value(request(), outcome()) -> {ok, number()} | none | {error, unicode:chardata()}.
value(#{kind := library}, #{library := Bytes}) -> {ok, Bytes};
value(#{kind := library}, _) -> none;
value(_, #{library := _}) -> none;
value(#{kind := size}, #{size := Size}) -> {ok, Size};
value(#{kind := vm}, #{vm := {Vm, _}}) -> {ok, filelib:file_size(Vm)};
value(#{kind := vm_symbols}, #{vm := {Vm, Symbols}}) -> with_symbols(Vm, Symbols);
value(#{kind := Kind}, Outcome) when (Kind =:= size orelse Kind =:= squashfs_xz
                                      orelse Kind =:= squashfs_zstd orelse Kind =:= vm
                                      orelse Kind =:= vm_symbols),
                                     not is_map_key(out, Outcome) -> none;
value(#{kind := squashfs_xz}, Outcome) -> squashfs("xz", Outcome);
value(#{kind := squashfs_zstd}, Outcome) -> squashfs("zstd", Outcome);
value(#{kind := first_line}, Outcome) -> milliseconds(found(first_line, Outcome));
value(#{kind := ready}, Outcome) -> milliseconds(found(ready, Outcome));
value(#{kind := run_time}, Outcome) -> milliseconds(found(ended, Outcome));
value(#{kind := rss_max}, Outcome) -> memory(rss, fun lists:max/1, 0, Outcome);
value(#{kind := rss_peak}, #{peak := Peak}) -> {ok, Peak};
value(#{kind := rss_peak}, _) -> {error, "the program ended before its memory was read"};
value(#{kind := workload_time}, Outcome) -> milliseconds(found(workload, Outcome));
value(#{kind := rss_mean}, Outcome) -> of_ready(rss, fun mean/1, Outcome);
value(#{kind := rss_min}, Outcome) -> of_ready(rss, fun lists:min/1, Outcome);
value(#{kind := pss_max}, Outcome) -> memory(pss, fun lists:max/1, 0, Outcome);
value(#{kind := pss_mean}, Outcome) -> of_ready(pss, fun mean/1, Outcome);
value(#{kind := anonymous_max}, Outcome) -> memory(anonymous, fun lists:max/1, 0, Outcome);
value(#{kind := anonymous_mean}, Outcome) -> of_ready(anonymous, fun mean/1, Outcome);
value(#{kind := file_mean}, Outcome) -> of_ready(file, fun mean/1, Outcome);
value(#{kind := cpu}, Outcome) -> work(cpu, Outcome);
value(#{kind := cpu_per_minute}, Outcome) -> per_minute(work(cpu, Outcome), Outcome);
value(#{kind := wakeups_per_minute}, Outcome) -> per_minute(work(wakeups, Outcome), Outcome);
value(#{kind := account, line := Line}, Outcome) ->
    of_account(fun(Account) -> whittle_measure_account:bytes(Line, Account) end, Outcome);
value(#{kind := allocator, allocator := Name} = Response, Outcome) ->
    Part = maps:get(part, Response, carriers),
    of_account(fun(Account) -> whittle_measure_account:part(Name, Part, Account) end, Outcome);
value(#{kind := gc_pause_max}, #{pauses := {Longest, [_ | _]}}) -> {ok, Longest / 1000};
value(#{kind := Kind}, #{pauses := {_, [_ | _] = Counts}}) when ?IS_PAUSE(Kind) ->
    Share = case Kind of
                gc_pause_p50 -> 0.5;
                gc_pause_p99 -> 0.99;
                gc_pause_p999 -> 0.999
            end,
    Rank = max(1, ceil(Share * lists:sum([Count || {_, Count} <- Counts]))),
    {ok, ranked(Rank, Counts) / 1000};
value(#{kind := Kind}, #{pauses := {_, []}}) when ?IS_PAUSE(Kind) ->
    {error, "the VM collected no garbage, or ended before it told Whittle about it"};
value(#{kind := Kind}, #{pauses := none}) when ?IS_PAUSE(Kind) ->
    {error, "the VM loaded no counter of garbage collections: use a VM that loads it "
     "(docs/measure.md of Whittle's source), or remove the response"};
value(#{kind := printed, pattern := Pattern}, #{output := Output}) ->
    found_in("program", Pattern, Output);
value(#{kind := reported, pattern := Pattern}, #{reported := Output}) ->
    found_in("workload", Pattern, Output);
value(#{kind := reported}, _) -> {error, missing(workload)};
value(#{kind := command, command := [Program | Arguments]}, Outcome) ->
    command(Program, Arguments, Outcome).

found_in(Who, Pattern, Output) ->
    Captured = {capture, all_but_first, binary},
    %% Bytes that are no UTF-8 may stand beside the number.
    Found = try re:run(Output, Pattern, [unicode, Captured])
            catch error:badarg ->
                    re:run(Output, unicode:characters_to_binary(Pattern), [Captured])
            end,
    case Found of
        {match, [Text | _]} -> number(Text);
        nomatch -> {error, ["the ", Who, " did not print the number that the pattern describes"]}
    end.

of_account(Take, #{account := {ok, Account}}) ->
    case Take(Account) of
        none -> none;
        Bytes -> {ok, Bytes}
    end;
of_account(_, #{account := {error, Reason}}) ->
    {error, whittle_measure_snapshot:format_error(Reason)};
of_account(_, _) ->
    {error, "the program ended by itself, so there was no account at the end: let it run for "
     "longer than the duration of the study, or give it a workload"}.

ranked(Rank, [{Time, Count} | _]) when Rank =< Count -> Time;
ranked(Rank, [{_, Count} | Longer]) -> ranked(Rank - Count, Longer).

found(Key, Outcome) ->
    case Outcome of
        #{Key := Value} -> {ok, Value};
        _ -> {error, missing(Key)}
    end.

missing(first_line) -> "the program printed no line";
missing(ready) -> "the program did not print the line that says that it is ready";
missing(workload) -> "the run had no workload";
missing(ended) -> "the program did not end by itself".

milliseconds({ok, Microseconds}) -> {ok, Microseconds / 1000};
milliseconds({error, _} = Error) -> Error.

of_ready(Field, Fun, #{ready := Ready} = Outcome) -> memory(Field, Fun, Ready, Outcome);
of_ready(_, _, _) -> {error, missing(ready)}.

memory(Field, Fun, Since, #{memory := Memory}) ->
    case [Bytes || {At, #{Field := Bytes}} <- Memory, At >= Since, Bytes > 0] of
        [] -> {error, "the program ended before Whittle read its memory"};
        Each -> {ok, Fun(Each)}
    end.

mean(Values) -> lists:sum(Values) / length(Values).

work(Field, #{work := Work}) -> {ok, maps:get(Field, Work)};
work(_, _) -> {error, "the program ended before Whittle read its CPU time and context switches"}.

per_minute({ok, Number}, #{watched := Milliseconds}) -> {ok, Number * 60_000 / Milliseconds};
per_minute({error, _} = Error, _) -> Error.

%% The linker keeps the symbols of a VM in a file of their own. In the VM they would take the same
%% bytes, and the headers of two sections.
with_symbols(Vm, Symbols) ->
    case whittle_pack:symbols_size(Symbols) of
        {ok, Bytes} -> {ok, filelib:file_size(Vm) + Bytes};
        {error, Reason} -> {error, whittle_pack:format_error(Reason)}
    end.

squashfs(Compression, #{out := Out, directory := Directory}) ->
    Image = filename:join(Directory, "image." ++ Compression),
    _ = file:delete(Image),
    %% The same times make the same image from the same output.
    case whittle_program:capture("mksquashfs", [Out, Image, "-comp", Compression, "-all-root",
                                                "-all-time", "0", "-mkfs-time", "0",
                                                "-no-progress", "-quiet", "-b", "1M"]) of
        {ok, _} ->
            Size = filelib:file_size(Image),
            ok = file:delete(Image),
            {ok, Size};
        {error, not_found} ->
            {error, "mksquashfs is not on the PATH: install the Debian package squashfs-tools"};
        {error, {status, _, Text}} ->
            {error, ["mksquashfs failed: ", string:trim(Text)]}
    end.

command(Program, Arguments, Outcome) ->
    case os:find_executable(Program) of
        false ->
            {error, [Program, " is not on the PATH: install it, or correct the study"]};
        Path ->
            Out = [{"OUT", Value} || #{out := Value} <- [Outcome]],
            case whittle_program:run(Path, Arguments, #{env => Out, of_user => true}) of
                {0, Output} -> number(string:trim(Output));
                {Status, Output} ->
                    {error, io_lib:format("~ts ended with exit code ~b: ~ts",
                                          [Program, Status, string:trim(Output)])}
            end
    end.

%% Both `12' and `1.5e3' are numbers.
number(Text) ->
    case {string:to_float(Text), string:to_integer(Text)} of
        {{Float, <<>>}, _} when is_float(Float) -> {ok, Float};
        {_, {Integer, <<>>}} when is_integer(Integer) -> {ok, Integer};
        _ -> {error, io_lib:format("`~ts' is not a number", [Text])}
    end.
