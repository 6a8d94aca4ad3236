%% @doc Keeps the samples of a run in a directory: in `samples.jsonl' one JSON object per line
%% (jsonlines.org) for each second, and in `run.json' the facts about the run.
%%
%% The disk has each line before the next second. The last line has the key `end'. It is missing if
%% somebody killed the coordinator. A line that a full disk or a crash cut is no sample.
%% @hidden
-module(whittle_load_samples).

-export([free/1, check/1, create/2, append/2, finish/2, close/1, remove/1, read/1, write/3]).
-export([format_error/1]).

-export_type([log/0, facts/0, ending/0, error/0]).

%% Of a JSON object: the keys `agents', `duration' (nanoseconds), `holds', `thresholds' (texts),
%% and others that only people read.
-type facts() :: #{binary() => term()}.

-type ending() :: #{lost := [pos_integer()],
                    stopped := none | {Why :: asked | {kept, unicode:chardata()},
                                       After :: non_neg_integer()}}.

-opaque log() :: #{file := file:filename(), device := file:fd(),
                   %% The size of all whole lines
                   size := atomics:atomics_ref()}.

-type error() :: {exists, file:filename()}
               | {not_empty, {Directory :: file:filename(), First :: file:filename_all()}}
               | {no_samples, file:filename()}
               | {damaged, {file:filename(), pos_integer()}}
               | {cannot_write, {file:filename(), file:posix() | badarg | terminated}}.

%% A second of ten steps has 20 kB.
-define(MOST, 1 bsl 30).
-define(TRIES, 10_000).
-define(MOST_THRESHOLDS, 1000).
%% The files of a run and of its report
-define(FILES, ["samples.jsonl", "run.json", "result.json", "page.html", "seconds.csv",
                "steps.csv", "phases.csv"]).

%% @doc Returns the name, or the name with the least number that no file or directory has.
-spec free(file:filename()) -> file:filename().
free(Name) ->
    hd([Each || N <- lists:seq(1, ?TRIES),
                Each <- [case N of 1 -> Name; _ -> Name ++ "-" ++ integer_to_list(N) end],
                not exists(Each)]).

exists(Name) ->
    case file:read_link_info(Name) of
        {error, enoent} -> false;
        _ -> true
    end.

%% @doc Checks that a directory may become that of a run: it does not exist, or it is empty. The
%% error is `exists' if it holds a file with the name of a file of a run, and else `not_empty'.
-spec check(file:filename()) -> ok | {error, error()}.
check(Dir) ->
    case file:list_dir_all(Dir) of
        {ok, [_ | _] = Names} ->
            case [Name || Name <- Names, lists:member(Name, ?FILES)] of
                [] -> {error, {not_empty, {Dir, hd(lists:sort(Names))}}};
                _ -> {error, {exists, Dir}}
            end;
        _ -> ok
    end.

%% @doc Begins a directory that {@link check/1} has checked.
-spec create(file:filename(), whittle_json:json()) -> {ok, log()} | {error, error()}.
create(Dir, Facts) ->
    File = samples(Dir),
    whittle_work:steps(
      [fun(_) -> named(Dir, filelib:ensure_path(Dir)) end,
       fun(_) ->
               case file:open(File, [write, exclusive, raw, binary]) of
                   {ok, Device} ->
                       {ok, #{file => File, device => Device, size => atomics:new(1, [])}};
                   {error, eexist} -> {error, {exists, Dir}};
                   {error, Reason} -> {error, {cannot_write, {File, Reason}}}
               end
       end,
       fun(Log) ->
               case write(Dir, "run.json", [whittle_json:encode(Facts), $\n]) of
                   ok -> {ok, Log};
                   {error, _} = Error ->
                       ok = close(Log),
                       ok = remove(Dir),
                       Error
               end
       end]).

%% @doc Writes a file of the directory, whole or not at all.
-spec write(file:filename(), file:filename(), iodata()) -> ok | {error, error()}.
write(Dir, Name, Bytes) ->
    File = filename:join(Dir, Name),
    named(File, whittle_file:replace(File, Bytes)).

%% @doc Appends a second, and waits until the disk has it.
-spec append(log(), whittle_load_second:second()) -> ok | {error, error()}.
append(Log, Second) -> line(Log, whittle_load_second:to_json(Second)).

%% @doc Appends the last line.
-spec finish(log(), ending()) -> ok | {error, error()}.
finish(Log, #{lost := Lost, stopped := Stopped}) ->
    line(Log, #{'end' => #{lost => Lost, stopped => stopped(Stopped)}}).

stopped(none) -> null;
stopped({asked, After}) -> #{reason => asked, 'after' => After};
stopped({{kept, Why}, After}) ->
    #{reason => kept, text => unicode:characters_to_binary(Why), 'after' => After}.

line(#{file := File, device := Device, size := Size}, Json) ->
    Line = [whittle_json:encode(Json), $\n],
    Written = case file:write(Device, Line) of
                  ok -> file:datasync(Device);
                  {error, _} = Failed -> Failed
              end,
    case Written of
        ok -> atomics:add(Size, 1, iolist_size(Line));
        {error, _} = Error ->
            _ = file:position(Device, atomics:get(Size, 1)),
            _ = file:truncate(Device),
            named(File, Error)
    end.

%% @doc Closes the file.
-spec close(log()) -> ok.
close(#{device := Device}) ->
    _ = file:close(Device),
    ok.

%% @doc Removes the files of a run that did not begin, and the directory if nothing else is in it.
-spec remove(file:filename()) -> ok.
remove(Dir) ->
    _ = [file:delete(filename:join(Dir, Name)) || Name <- ["samples.jsonl", "run.json"]],
    _ = file:del_dir(Dir),
    ok.

named(_, ok) -> ok;
named(File, {error, Reason}) -> {error, {cannot_write, {File, Reason}}}.

%% @doc Reads a directory. Without its last line the samples have no ending.
-spec read(file:filename()) ->
          {ok, facts(), [whittle_load_second:second()], none | ending()} | {error, error()}.
read(Dir) ->
    Facts = filename:join(Dir, "run.json"),
    case {whittle_file:whole(Facts, ?MOST), whittle_file:whole(samples(Dir), ?MOST)} of
        {{ok, Object}, {ok, Lines}} ->
            case {facts(whittle_json:decode(Object)), lines(Lines)} of
                {{ok, Map}, {ok, Seconds, Ending}} -> {ok, Map, Seconds, Ending};
                {{ok, _}, {error, Line}} -> {error, {damaged, {samples(Dir), Line}}};
                {error, _} -> {error, {damaged, {Facts, 1}}}
            end;
        _ -> {error, {no_samples, Dir}}
    end.

facts({ok, #{<<"agents">> := Agents, <<"duration">> := Duration, <<"holds">> := Holds,
             <<"thresholds">> := Thresholds, <<"machine">> := Machine} = Facts})
  when is_boolean(Holds), length(Thresholds) =< ?MOST_THRESHOLDS, is_map(Machine) ->
    case lists:all(fun whittle_load_second:is_count/1, [Agents, Duration]) andalso Agents > 0
        andalso lists:all(fun is_binary/1,
                          [maps:get(<<"scenario">>, Facts, <<>>) | Thresholds])
        andalso whittle_load_phases:is_spans(maps:get(<<"phases">>, Facts, [])) of
        true -> {ok, Facts};
        false -> error
    end;
facts(_) -> error.

%% A last line without its newline was cut.
lines(Bytes) ->
    [_ | Reversed] = lists:reverse(binary:split(Bytes, <<"\n">>, [global])),
    case Reversed of
        [Last | Before] ->
            case ending(whittle_json:decode(Last)) of
                {ok, Ending} -> seconds(lists:reverse(Before), 1, [], Ending);
                error -> seconds(lists:reverse(Reversed), 1, [], none)
            end;
        [] -> {ok, [], none}
    end.

seconds([], _, Seconds, Ending) -> {ok, lists:reverse(Seconds), Ending};
seconds([Line | Lines], N, Seconds, Ending) ->
    Read = case whittle_json:decode(Line) of
               {ok, Json} -> whittle_load_second:from_json(Json);
               error -> error
           end,
    case Read of
        {ok, Second} -> seconds(Lines, N + 1, [Second | Seconds], Ending);
        error -> {error, N}
    end.

ending({ok, #{<<"end">> := #{<<"lost">> := Lost, <<"stopped">> := Stopped}}}) when is_list(Lost) ->
    case {lists:all(fun(N) -> is_integer(N) andalso N > 0 end, Lost), was_stopped(Stopped)} of
        {true, {ok, Why}} -> {ok, #{lost => Lost, stopped => Why}};
        _ -> error
    end;
ending(_) -> error.

was_stopped(null) -> {ok, none};
was_stopped(#{<<"reason">> := Reason, <<"after">> := After} = Stopped) ->
    Text = maps:get(<<"text">>, Stopped, none),
    case whittle_load_second:is_count(After) andalso Reason of
        <<"asked">> -> {ok, {asked, After}};
        <<"kept">> when is_binary(Text) -> {ok, {{kept, Text}, After}};
        _ -> error
    end;
was_stopped(_) -> error.

samples(Dir) -> filename:join(Dir, "samples.jsonl").

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({exists, Dir}) ->
    [Dir, " holds the results of a run, or files with their names: name another directory with "
     "-o"];
format_error({not_empty, {Dir, Name}}) ->
    [Dir, " holds ", whittle_file_name:printable(Name), ", and the results of a run need a new or "
     "an empty directory: name one with -o"];
format_error({no_samples, Dir}) ->
    [Dir, " holds no results of a run: name a directory that `whittle load' wrote"];
format_error({damaged, {File, Line}}) ->
    case filename:basename(File) of
        "run.json" -> [File, " does not have the facts of a run: run the scenario again"];
        _ -> io_lib:format("~ts, line ~b, is not the sample of a second: remove that line",
                           [File, Line])
    end;
format_error({cannot_write, {File, enospc}}) ->
    [File, " cannot be written, because the disk is full: free space, or name another directory "
     "with -o"];
format_error({cannot_write, {File, Reason}}) ->
    [File, " cannot be written (", file:format_error(Reason), "): name another directory with -o"].
