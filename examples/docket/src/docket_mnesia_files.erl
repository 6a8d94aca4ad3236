%% @doc Checks, cuts and removes the files of Mnesia while Mnesia does not run.
%%
%% Mnesia deletes a file that it cannot read, leaves damaged entries out, and goes on with the rest.
%% As the first node to load its rows it would then give this rest to all others. So a node checks
%% its files before Mnesia reads them (docket_mnesia_damage).
%%
%% The files of tables and logs are logs of the module disk_log (OTP 25 to 29), which tells how many
%% bytes it leaves out, but not where. A crash may cut off the end of a log that was open. Mnesia
%% repairs that, and it is no damage. If a write fails because the disk is full, Mnesia goes on
%% behind the part that was written; cut/1 removes what follows. A changed byte within the text of a
%% row cannot be noticed: the entries have no checksums.
%% @hidden
-module(docket_mnesia_files).

-export([check/1, check_new/1, set_aside/1, cut/1, remove/1, is_empty/1]).
-export([starting/1, started/1, is_started/1]).

-export_type([error/0]).

-type error() :: {damaged | missing, file:filename()}
               | {no_schema | bad_schema, Dir :: file:filename()}
               | {unreadable | not_removed, {file:filename(), file:posix() | badarg}}.

-define(SCHEMA, "schema.DAT").
-define(TABLE, ".DCD").
-define(LATEST, "LATEST.LOG").
-define(PREVIOUS, "PREVIOUS.LOG").
%% Mnesia has started with the other files, and has made its log.
-define(STARTED, "docket.started").
%% The changes of a table since its file was written
-define(CHANGES, ".DCL").
-define(LOGS, [?TABLE, ?CHANGES, ".LOG"]).
%% The beginning of the names of all tables
-define(OWN, "docket_").
-define(DECISIONS, ["DECISION.LOG", "PDECISION.LOG", "DECISION_TAB.LOG"]).
-define(MAGIC, 1, 2, 3, 4).
-define(CLOSED, 99, 88, 77, 11).
-define(HEAD_BYTES, 8).                 % of a log, and of an entry
-define(ENTRY, 98, 87, 76, 65).
%% From so many bytes on, an entry has a checksum of its size.
-define(LARGE, 65528).
-define(SUM_BYTES, 16).
-define(READ_AHEAD, 262144).

%% @doc Checks that the files of a directory have all that Mnesia has written to them.
-spec check(file:filename()) -> ok | {error, error()}.
check(Dir) -> docket_attempt:steps(checks(Dir)).

checks(Dir) ->
    case file:list_dir(Dir) of
        {ok, Names} ->
            [fun() -> tables(Dir) end, fun() -> latest(Dir) end
             | [fun() -> log(filename:join(Dir, Log)) end || Log <- logs(Names, ?LOGS)]];
        {error, Reason} -> [fun() -> {error, {unreadable, {Dir, Reason}}} end]
    end.

%% Other files in the directory may have such names too.
logs(Names, Extensions) ->
    [Name || Name <- lists:sort(Names), lists:member(filename:extension(Name), Extensions),
             lists:prefix(?OWN, Name) orelse lists:member(Name, [?LATEST, ?PREVIOUS | ?DECISIONS])].

%% @doc Makes Mnesia start with the files that are left of a damaged database. A damaged log gets
%% another name. Mnesia itself leaves out what is damaged in the file of a table.
-spec set_aside(file:filename()) -> ok | {error, error()}.
set_aside(Dir) ->
    docket_attempt:steps([fun() -> set_aside_one(Check()) end || Check <- checks(Dir)]).

set_aside_one({error, {damaged, File}}) ->
    case filename:extension(File) of
        ".LOG" -> done(File, file:rename(File, File ++ ".damaged"));
        _ -> ok
    end;
set_aside_one({error, {missing, File}}) ->
    case filename:extension(File) of
        ?TABLE -> empty_table(File);
        _ -> ok
    end;
set_aside_one(Result) -> Result.

empty_table(File) ->
    case disk_log:open([{name, ?MODULE}, {file, File}]) of
        {ok, Log} ->
            _ = disk_log:log(Log, mnesia_log:dcd_log_header()),
            done(File, disk_log:close(Log));
        {error, _} -> {error, {missing, File}}
    end.

done(_, ok) -> ok;
done(File, {error, Reason}) -> {error, {not_removed, {File, Reason}}}.

%% @doc Notes that Mnesia is about to start. It removes its former log then, and makes a new one.
-spec starting(file:filename()) -> ok.
starting(Dir) ->
    _ = file:delete(filename:join(Dir, ?STARTED)),
    ok.

%% @doc Notes that Mnesia has started, and has a log. From now on the log must be there.
-spec started(file:filename()) -> ok | {error, file:posix() | badarg | terminated}.
started(Dir) -> docket_directory:write(filename:join(Dir, ?STARTED), []).

%% @doc Checks that a directory has no tables, so that a new database may be made there.
-spec check_new(file:filename()) -> ok | {error, error()}.
check_new(Dir) ->
    case file:list_dir(Dir) of
        {ok, Names} ->
            case logs(Names, [?TABLE]) of
                [_ | _] -> {error, {no_schema, Dir}};
                [] -> ok
            end;
        {error, enoent} -> ok;
        {error, Reason} -> {error, {unreadable, {Dir, Reason}}}
    end.

%% @doc Cuts off what Mnesia has written to its logs behind a write that failed. Mnesia has ended,
%% and docket has acknowledged nothing since that write. This also works while the disk is full.
-spec cut(file:filename()) -> ok | {error, error()}.
cut(Dir) ->
    Files = [File || Name <- [?PREVIOUS, ?LATEST], File <- [filename:join(Dir, Name)],
                     filelib:is_regular(File), not is_empty(File)],
    docket_attempt:steps([fun() -> cut_log(File) end || File <- Files]).

cut_log(File) ->
    case file:open(File, [read, write, raw, binary]) of
        {ok, Device} ->
            {ok, Size} = file:position(Device, eof),
            Result = case entries(Device, Size) of
                         {_, End} when End < Size ->
                             {ok, End} = file:position(Device, End),
                             docket_attempt:steps([fun() -> file:truncate(Device) end,
                                                   fun() -> file:sync(Device) end]);
                         _ -> ok
                     end,
            _ = file:close(Device),
            done(File, Result);
        {error, Reason} -> done(File, {error, Reason})
    end.

%% @doc Removes the files of Mnesia from a directory. The schema goes last: without it, the rest
%% would belong to no database.
-spec remove(file:filename()) -> ok | {error, error()}.
remove(Dir) ->
    case file:list_dir(Dir) of
        {ok, Names} ->
            Files = logs(Names, [".TMP", ".DMP" | ?LOGS]) ++ [?STARTED, ?SCHEMA],
            docket_attempt:steps([fun() -> removed(filename:join(Dir, Name)) end
                                  || Name <- Files]);
        {error, enoent} -> ok;
        {error, Reason} -> {error, {unreadable, {Dir, Reason}}}
    end.

removed(File) ->
    case file:delete(File) of
        {error, enoent} -> ok;
        Result -> done(File, Result)
    end.

%% @doc Tells whether a log has no entry. A crash or a full disk may come between the creation of a
%% log and its first bytes.
-spec is_empty(file:filename()) -> boolean().
is_empty(File) -> filelib:file_size(File) < 2 * ?HEAD_BYTES.

%% @doc Tells whether the note of started/1 is still there. Without it, somebody has removed the
%% files of Mnesia while it ran.
-spec is_started(file:filename()) -> boolean().
is_started(Dir) ->
    element(1, file:read_file_info(filename:join(Dir, ?STARTED), [raw])) =:= ok.

%% While Mnesia runs, at least one of two logs is whole: it makes a new log when the former one has
%% its other name.
latest(Dir) ->
    [Started, Previous, Latest] = [filename:join(Dir, Name)
                                   || Name <- [?STARTED, ?PREVIOUS, ?LATEST]],
    case filelib:is_regular(Started) andalso not filelib:is_regular(Previous)
        andalso {filelib:is_regular(Latest), is_empty(Latest)} of
        {false, _} -> {error, {missing, Latest}};
        {true, true} -> {error, {damaged, Latest}};
        _ -> ok
    end.

%% Each table with a copy on this disk has its file.
tables(Dir) ->
    File = filename:join(Dir, ?SCHEMA),
    Options = [{file, File}, {keypos, 2}, {repair, false}, {access, read}],
    case dets:open_file(make_ref(), Options) of
        {ok, Schema} ->
            Tables = dets:foldl(fun({schema, Table, Properties}, Found) ->
                                        [Table || is_on_disk(Table, Properties)] ++ Found
                                end, [], Schema),
            ok = dets:close(Schema),
            present(Tables, File);
        %% Mnesia repairs a file that was open.
        {error, {needs_repair, _}} -> ok;
        {error, {file_error, _, Reason}} when Reason =/= enoent ->
            {error, {unreadable, {File, Reason}}};
        {error, _} -> {error, {bad_schema, Dir}}
    end.

is_on_disk(schema, _) -> false;
is_on_disk(_, Properties) ->
    lists:member(node(), proplists:get_value(disc_copies, Properties, [])).

present({error, _}, File) -> {error, {bad_schema, filename:dirname(File)}};
present(Tables, File) ->
    Files = [filename:join(filename:dirname(File), atom_to_list(Table) ++ ?TABLE)
             || Table <- lists:sort(Tables)],
    case [Missing || Missing <- Files, not filelib:is_regular(Missing)] of
        [] -> ok;
        [First | _] -> {error, {missing, First}}
    end.

log(File) ->
    case file:open(File, [read, raw, binary, {read_ahead, ?READ_AHEAD}]) of
        {ok, Device} ->
            {ok, Size} = file:position(Device, eof),
            IsSound = is_sound(filename:extension(File), Device, Size, has_previous(File)),
            ok = file:close(Device),
            case IsSound of
                true -> ok;
                false -> {error, {damaged, File}}
            end;
        {error, Reason} -> {error, {unreadable, {File, Reason}}}
    end.

%% While the former log is there, Mnesia writes its changes into the files of the tables. If that
%% fails because the disk is full, Mnesia does it again.
has_previous(File) ->
    filelib:is_regular(filename:join(filename:dirname(File), ?PREVIOUS)).

%% disk_log also calls a log closed whose last write has failed.
is_sound(Extension, _, Size, _) when Size < 2 * ?HEAD_BYTES, Extension =/= ?TABLE -> true;
is_sound(Extension, Device, Size, HasPrevious) ->
    case entries(Device, Size) of
        {_, Size} -> true;
        %% It got its name when it was complete.
        _ when Extension =:= ?TABLE -> false;
        {closed, _} when Extension =:= ?CHANGES, not HasPrevious -> false;
        {_, End} ->
            case file:pread(Device, End, Size - End) of
                {ok, Rest} -> is_torn(Rest);
                _ -> false
            end;
        none -> false
    end.

%% A write that did not end leaves the beginning of an entry. Behind it is no other entry. A row may
%% hold the bytes of an entry; a log that was torn in such a row counts as damaged.
is_torn(Rest) when byte_size(Rest) < ?HEAD_BYTES ->
    Magic = binary:part(Rest, min(4, byte_size(Rest)), max(0, byte_size(Rest) - 4)),
    Magic =:= binary:part(<<?ENTRY>>, 0, byte_size(Magic));
is_torn(<<Size:32, ?ENTRY, Entry/binary>>) ->
    Size + sum_bytes(Size) > byte_size(Entry) andalso not has_entry(Entry);
is_torn(_) -> false.

%% Returns where the entries of a log end, before the first one that cannot be read.
entries(Device, Size) ->
    {ok, 0} = file:position(Device, bof),
    case file:read(Device, ?HEAD_BYTES) of
        {ok, <<?MAGIC, ?CLOSED>>} -> {closed, entries(Device, ?HEAD_BYTES, Size)};
        {ok, <<?MAGIC, _:4/binary>>} -> {open, entries(Device, ?HEAD_BYTES, Size)};
        _ -> none
    end.

entries(_, Size, Size) -> Size;
entries(Device, At, Size) ->
    case entry(Device, Size - At) of
        {ok, Bytes} -> entries(Device, At + Bytes, Size);
        none -> At
    end.

%% Returns the size of the next entry. A damaged size must not make this read the whole file.
entry(Device, Left) ->
    case file:read(Device, ?HEAD_BYTES) of
        {ok, <<Size:32, ?ENTRY>>} ->
            Bytes = Size + sum_bytes(Size),
            case Bytes =< Left - ?HEAD_BYTES andalso file:read(Device, Bytes) of
                {ok, Entry} ->
                    case is_entry(Size, Entry) of
                        true -> {ok, ?HEAD_BYTES + Bytes};
                        false -> none
                    end;
                _ -> none
            end;
        _ -> none
    end.

sum_bytes(Size) when Size < ?LARGE -> 0;
sum_bytes(_) -> ?SUM_BYTES.

is_entry(Size, Entry) ->
    {Sum, Term} = split_binary(Entry, sum_bytes(Size)),
    (Sum =:= <<>> orelse Sum =:= erlang:md5(<<Size:32>>)) andalso is_term(Term).

is_term(Binary) ->
    try binary_to_term(Binary, [used]) of
        {_, Used} -> Used =:= byte_size(Binary)
    catch error:badarg -> false
    end.

has_entry(Rest) ->
    lists:any(fun({At, _}) -> At >= 4 andalso is_whole(binary:part(Rest, At - 4,
                                                                   byte_size(Rest) - At + 4))
              end, binary:matches(Rest, <<?ENTRY>>)).

is_whole(<<Size:32, ?ENTRY, Rest/binary>>) ->
    Bytes = Size + sum_bytes(Size),
    Bytes =< byte_size(Rest) andalso is_entry(Size, binary:part(Rest, 0, Bytes)).
