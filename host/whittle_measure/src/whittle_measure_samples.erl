%% @doc Keeps the samples of a study in a directory: one JSON object per line in `samples.jsonl'
%% (jsonlines.org), and the facts about the run in `study.json'.
%%
%% Each run appends one line and waits until the disk has it. A line that a full disk or a crash cut
%% is not a sample; the next run of the study measures it again.
-module(whittle_measure_samples).

-export([unused/1, claim/1, alone/2, create/2, open/2, amend/2, read/1, read_study/1, fit/3,
         append/2, keep_log/3, close/1, with_maker/2, whittle/0, named/2]).
-export([runs/1, builds/1, notes/2]).
-export([format_error/1]).

-export_type([facts/0, sample/0, log/0, error/0]).

%% The last bytes of the output of a failed program that stay.
-define(LOG, 64 * 1024).

%% The limit in bytes of a file of samples. A run with its curve and account has 5 kB.
-define(MOST, 1 bsl 30).

%% What must not change between the parts of one study: the study and the digest of each program.
-type facts() :: #{binary() => term()}.

%% A line, as whittle_json decodes it. docs/measure.md describes its keys.
-type sample() :: #{binary() => term()}.

-opaque log() :: file:fd().

-type error() :: {exists, file:filename()}
               | {of_a_load_test, file:filename()}
               | {not_empty, {Directory :: file:filename(), First :: file:filename_all()}}
               | {empty, file:filename()}
               | {in_use, file:filename()}
               | {no_samples, file:filename()}
               | {changed, [binary()]}
               | {damaged, file:filename(), pos_integer()}
               | {damaged_study, file:filename(), unicode:chardata()}
               | {unknown_cell, file:filename(), {Line :: pos_integer(),
                                                  Cell :: #{binary() => binary()}}}
               | {link, file:filename()}
               | {file, file:filename(), file:posix() | badarg | terminated}.

%% @doc Checks that a study can begin in a directory: it does not exist, is empty, or has the mark
%% of claim/1 and no sample. Any other file is an error.
-spec unused(file:filename()) -> ok | {error, error()}.
unused(Dir) ->
    IsLoad = filelib:is_file(filename:join(Dir, "run.json")),
    case filelib:is_file(samples(Dir)) of
        true when IsLoad -> {error, {of_a_load_test, Dir}};
        true ->
            case filelib:file_size(samples(Dir)) of
                0 -> ok;
                _ -> {error, {exists, Dir}}
            end;
        false ->
            case [Name || {ok, Names} <- [file:list_dir_all(Dir)], Name <- lists:sort(Names)] of
                [] -> ok;
                [First | _] -> {error, {not_empty, {Dir, First}}}
            end
    end.

%% @doc Marks a directory as one of a study, before anything else is written there. The mark is the
%% file of the samples, which is empty until the first one.
-spec claim(file:filename()) -> ok | {error, error()}.
claim(Dir) ->
    case file:read_link_all(samples(Dir)) of
        {ok, _} -> {error, {link, samples(Dir)}};
        {error, _} -> named(samples(Dir), file:write_file(samples(Dir), "", [append]))
    end.

%% @doc Calls the function while no other run writes into the directory, which must exist. The error
%% is `in_use' if another run does. If the directory cannot be locked (its file system has no
%% locks), the call comes nevertheless.
-spec alone(file:filename(), fun(() -> Result)) -> Result | {error, error()}.
alone(Dir, Fun) ->
    case whittle_lock:take(Dir, #{wait => 0}) of
        {ok, Lock} ->
            try Fun()
            after
                whittle_lock:release(Lock)
            end;
        busy -> {error, {in_use, Dir}};
        {error, _} -> Fun()
    end.

%% @doc Begins a directory. The error is `exists' if it holds samples.
-spec create(file:filename(), #{atom() => term()}) -> {ok, log()} | {error, error()}.
create(Dir, Facts) ->
    whittle_work:steps(
      [fun(_) -> unused(Dir) end,
       fun(_) -> named(Dir, filelib:ensure_path(Dir)) end,
       fun(_) -> write_facts(Dir, Facts) end,
       fun(_) -> append_to(Dir) end]).

%% @doc Continues a directory. The error is `changed', with the names of the facts that differ.
-spec open(file:filename(), #{atom() => term()}) ->
          {ok, log(), [sample()]} | {error, error()}.
open(Dir, Facts) ->
    case read(Dir) of
        {ok, Before, Samples} ->
            {ok, Now} = whittle_json:decode(iolist_to_binary(whittle_json:encode(Facts))),
            case changes(Now, Before) of
                [] ->
                    case append_to(Dir) of
                        {ok, Log} -> {ok, Log, Samples};
                        {error, _} = Error -> Error
                    end;
                Names -> {error, {changed, Names}}
            end;
        {error, _} = Error -> Error
    end.

changes(#{<<"inputs">> := New}, Before) ->
    Old = maps:get(<<"inputs">>, Before, #{}),
    [Name || Name <- lists:usort(maps:keys(New) ++ maps:keys(Old)),
             maps:get(Name, New, none) =/= maps:get(Name, Old, none)].

%% @doc Changes some facts of a directory, for runs whose cells are known only later. The other
%% facts stay.
-spec amend(file:filename(), #{binary() => term()}) -> ok | {error, error()}.
amend(Dir, Changes) ->
    case read(Dir) of
        {ok, Facts, _} -> write_facts(Dir, maps:merge(Facts, Changes));
        {error, _} = Error -> Error
    end.

%% A full disk or a crash leaves the facts that were there before.
write_facts(Dir, Facts) ->
    named(facts(Dir), whittle_file:replace(facts(Dir), [whittle_json:encode(Facts), $\n])).

%% @doc Reads the facts and the samples of a directory.
-spec read(file:filename()) -> {ok, facts(), [sample()]} | {error, error()}.
read(Dir) ->
    case {whittle_file:whole(facts(Dir), ?MOST), whittle_file:whole(samples(Dir), ?MOST)} of
        {{ok, Facts}, {ok, Lines}} ->
            case {whittle_json:decode(Facts), decoded_lines(Lines)} of
                {{ok, Map}, {ok, Samples}} when is_map(Map) -> {ok, Map, Samples};
                {{ok, Map}, {error, Line}} when is_map(Map) ->
                    {error, {damaged, samples(Dir), Line}};
                _ -> {error, {damaged, facts(Dir), 1}}
            end;
        _ -> {error, {no_samples, Dir}}
    end.

%% @doc Reads the facts, the study that they contain as a text, and the samples of a directory. Each
%% sample is of a cell of that study.
-spec read_study(file:filename()) ->
          {ok, {facts(), whittle_measure_study:study(), [sample()]}} | {error, error()}.
read_study(Dir) ->
    case read(Dir) of
        {ok, Facts, Samples} ->
            case whittle_measure_stored:study(Facts) of
                {ok, Study} ->
                    case fit(Dir, Study, Samples) of
                        ok -> {ok, {Facts, Study, Samples}};
                        {error, _} = Error -> Error
                    end;
                {error, Key} -> {error, {damaged_study, facts(Dir), Key}}
            end;
        {error, _} = Error -> Error
    end.

%% @doc Checks that each sample of a directory is of a cell of the study.
-spec fit(file:filename(), whittle_measure_study:study(), [sample()]) -> ok | {error, error()}.
fit(Dir, Study, Samples) ->
    case whittle_measure_stored:unknown(Study, Samples) of
        none -> ok;
        %% Each line is a sample.
        {Line, Cell} -> {error, {unknown_cell, samples(Dir), {Line, Cell}}}
    end.

%% @doc Keeps the samples of runs that count, without those that warmed up.
-spec runs([sample()]) -> [sample()].
runs(Samples) ->
    [Sample || #{<<"block">> := Block} = Sample <- Samples, is_integer(Block), Block > 0].

%% @doc Keeps the samples of builds.
-spec builds([sample()]) -> [sample()].
builds(Samples) -> [Sample || #{<<"block">> := <<"build">>} = Sample <- Samples].

%% @doc Lists the lines that a reader of the results needs: that the directory lacks runs.
-spec notes(file:filename(), {Runs :: non_neg_integer(), Planned :: non_neg_integer()}) ->
          [unicode:chardata()].
notes(Dir, {Runs, Planned}) ->
    Cut = case whittle_file:whole(samples(Dir), ?MOST) of
              {ok, Bytes} when Bytes =/= <<>> -> binary:last(Bytes) =/= $\n;
              _ -> false
          end,
    [[samples(Dir), " ends in the middle of a line, which does not count"] || Cut]
        ++ [io_lib:format("~ts has ~b of the ~b runs of the study: continue it with --resume",
                          [samples(Dir), Runs, Planned]) || Runs < Planned].

%% A last line without its end was cut.
decoded_lines(Bytes) ->
    [_ | Reversed] = lists:reverse(binary:split(Bytes, <<"\n">>, [global])),
    Lines = [whittle_json:decode(Line) || Line <- lists:reverse(Reversed)],
    case [Number || {Number, Line} <- lists:enumerate(Lines), not is_sample(Line)] of
        [] -> {ok, [Sample || {ok, Sample} <- Lines]};
        [Number | _] -> {error, Number}
    end.

is_sample({ok, Term}) -> whittle_measure_stored:is_sample(Term);
is_sample(error) -> false.

%% @doc Appends a sample.
-spec append(log(), map()) -> ok | {error, error()}.
append(Log, Sample) ->
    named("samples.jsonl",
          case file:write(Log, [whittle_json:encode(Sample), $\n]) of
              ok -> file:datasync(Log);
              {error, _} = Error -> Error
          end).

%% @doc Keeps the end of what a failed program printed, in a file beside the samples. `Run' is the
%% run's block and position. The result is the key of the sample that names the file.
-spec keep_log(file:filename(), {integer(), pos_integer()}, binary()) ->
          {ok, #{log => binary()}} | {error, error()}.
keep_log(_, _, <<>>) -> {ok, #{}};
keep_log(Dir, {Block, Position}, Output) ->
    Name = lists:flatten(io_lib:format("logs/~b-~b.log", [Block, Position])),
    File = filename:join(Dir, Name),
    Kept = binary:part(Output, byte_size(Output), -min(byte_size(Output), ?LOG)),
    Written = case filelib:ensure_dir(File) of
                  ok -> file:write_file(File, Kept);
                  {error, _} = Error -> Error
              end,
    case named(File, Written) of
        ok -> {ok, #{log => list_to_binary(Name)}};
        {error, _} = Failed -> Failed
    end.

%% @doc Closes the log.
-spec close(log()) -> ok.
close(Log) ->
    _ = file:close(Log),
    ok.

append_to(Dir) ->
    File = samples(Dir),
    ok = drop_cut_line(File),
    case file:open(File, [append, raw, binary]) of
        {ok, _} = Ok -> Ok;
        {error, Reason} -> {error, {file, File, Reason}}
    end.

drop_cut_line(File) ->
    case whittle_file:whole(File, ?MOST) of
        {ok, Bytes} ->
            case binary:matches(Bytes, <<"\n">>) of
                [] -> cut(File, 0);
                Matches ->
                    {Last, 1} = lists:last(Matches),
                    cut(File, Last + 1)
            end;
        {error, enoent} -> ok
    end.

cut(File, Size) ->
    {ok, Fd} = file:open(File, [read, write, raw]),
    {ok, Size} = file:position(Fd, Size),
    ok = file:truncate(Fd),
    file:close(Fd).

%% @doc Adds what has made a run to the facts: the versions of Whittle and of its OTP, and the
%% command of a user, if there is one.
-spec with_maker(#{command => unicode:chardata(), atom() => term()}, map()) -> map().
with_maker(Options, Facts) ->
    maps:merge(Facts#{whittle => whittle(),
                      otp_of_the_command => list_to_binary(erlang:system_info(otp_release))},
               maps:map(fun(command, Text) -> unicode:characters_to_binary(Text) end,
                        maps:with([command], Options))).

%% @doc Returns the version of Whittle, which all of its applications have.
-spec whittle() -> binary().
whittle() ->
    _ = application:load(whittle_measure),
    {ok, Vsn} = application:get_key(whittle_measure, vsn),
    list_to_binary(Vsn).

%% @doc Adds the name of a file to the error of a write.
-spec named(file:filename(), ok | {error, file:posix() | badarg | terminated}) ->
          ok | {error, error()}.
named(_, ok) -> ok;
named(File, {error, Reason}) -> {error, {file, File, Reason}}.

facts(Dir) -> filename:join(Dir, "study.json").

samples(Dir) -> filename:join(Dir, "samples.jsonl").

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({exists, Dir}) ->
    [Dir, " holds samples of a study: continue it with --resume, or name another directory with "
     "-o"];
format_error({of_a_load_test, Dir}) ->
    [Dir, " holds results of `whittle load': name another directory with -o"];
format_error({not_empty, {Dir, Name}}) ->
    [Dir, " holds ", whittle_file_name:printable(Name), ", and a study needs a new or an empty "
     "directory: name one with -o"];
format_error({empty, Dir}) ->
    [samples(Dir), " has no samples: continue the study with --resume, or start it again"];
format_error({link, File}) ->
    [File, " is a symbolic link: name another directory with -o"];
format_error({in_use, Dir}) ->
    ["another program runs a study in ", Dir, ": wait for its end, or name another directory with "
     "-o"];
format_error({no_samples, Dir}) ->
    [Dir, " holds no samples of a study: name a directory that `whittle measure' wrote"];
format_error({changed, Names}) ->
    ["the study cannot be continued, because these inputs have changed: ",
     lists:join(", ", Names), "; start it anew with another directory (-o)"];
format_error({damaged, File, Line}) ->
    case filename:basename(File) of
        "study.json" ->
            [File, " is not a JSON object: start the study again in another directory (-o)"];
        _ -> io_lib:format("~ts, line ~b, is not a sample of a study: remove that line",
                           [File, Line])
    end;
format_error({damaged_study, File, Key}) ->
    [File, " does not describe a study that has run (", Key, " is missing or wrong): start the "
     "study again in another directory (-o)"];
format_error({unknown_cell, File, {Line, Cell}}) ->
    io_lib:format("~ts, line ~b, is a sample of ~ts, but the study has no such program or no such "
                  "levels: remove that line",
                  [File, Line, whittle_file_name:printable(whittle_measure_table:levels(Cell))]);
format_error({file, File, enospc}) ->
    [File, " cannot be written, because the disk is full: make room and continue with --resume"];
format_error({file, File, Reason}) ->
    [File, " cannot be written (", file:format_error(Reason), "): check its permissions"].
