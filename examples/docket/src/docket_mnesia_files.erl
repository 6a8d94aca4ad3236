%% @doc Checks the files of Mnesia before Mnesia reads them.
%%
%% Mnesia deletes a file that it cannot read, leaves damaged entries out, and goes on with the rest.
%% As the first node to load its rows it would then give this rest to all others. So a node looks
%% at its files first, and does not change them.
%%
%% The files of tables and logs are logs of the module disk_log (OTP 25 to 29), which tells how many
%% bytes it leaves out, but not where. A crash may cut off the end of a log that was open. Mnesia
%% repairs that, and it is no damage. If a write fails because the disk is full, Mnesia goes on
%% behind the part that was written; cut/1 removes what follows. A changed byte within the text of a
%% row cannot be noticed: the entries have no checksums.
%% @hidden
-module(docket_mnesia_files).

-export([check/1, check_new/1, cut/1, remove/1, is_empty/1]).

-export_type([error/0]).

-type error() :: {damaged | missing, file:filename()}
               | {no_schema, Dir :: file:filename()}
               | {unreadable, {file:filename(), file:posix()}}.

-define(SCHEMA, "schema.DAT").
-define(TABLE, ".DCD").
-define(LOGS, [?TABLE, ".DCL", ".LOG"]).
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
check(Dir) ->
    case file:list_dir(Dir) of
        {ok, Names} ->
            Logs = [Name || Name <- lists:sort(Names),
                            lists:member(filename:extension(Name), ?LOGS)],
            docket_attempt:steps([fun() -> tables(Dir) end
                                  | [fun() -> log(filename:join(Dir, Log)) end || Log <- Logs]]);
        {error, Reason} -> {error, {unreadable, {Dir, Reason}}}
    end.

%% @doc Checks that a directory has no tables, so that a new database may be made there.
-spec check_new(file:filename()) -> ok | {error, error()}.
check_new(Dir) ->
    case file:list_dir(Dir) of
        {ok, Names} ->
            case lists:member(?TABLE, [filename:extension(Name) || Name <- Names]) of
                true -> {error, {no_schema, Dir}};
                false -> ok
            end;
        {error, Reason} -> {error, {unreadable, {Dir, Reason}}}
    end.

%% @doc Cuts off what Mnesia has written to its logs behind a write that failed. Mnesia has ended,
%% and docket has acknowledged nothing since that write. This also works while the disk is full.
-spec cut(file:filename()) -> ok.
cut(Dir) ->
    Files = [File || Name <- ["PREVIOUS.LOG", "LATEST.LOG"], File <- [filename:join(Dir, Name)],
                     filelib:is_regular(File), not is_empty(File)],
    lists:foreach(fun cut_log/1, Files).

cut_log(File) ->
    {ok, Device} = file:open(File, [read, write, raw, binary]),
    {ok, Size} = file:position(Device, eof),
    _ = case entries(Device, Size) of
            {_, End} when End < Size ->
                {ok, End} = file:position(Device, End),
                [file:truncate(Device), file:sync(Device)];
            _ -> []
        end,
    ok = file:close(Device).

%% @doc Removes the files of Mnesia from a directory. The schema goes last: without it, the rest
%% would belong to no database.
-spec remove(file:filename()) -> ok | {error, error()}.
remove(Dir) ->
    case file:list_dir(Dir) of
        {ok, Names} ->
            Files = [Name || Name <- Names, Extension <- [filename:extension(Name)],
                             lists:member(Extension, [".TMP", ".DMP" | ?LOGS])],
            docket_attempt:steps([fun() -> removed(filename:join(Dir, Name)) end
                                  || Name <- Files ++ [?SCHEMA]]);
        {error, Reason} -> {error, {unreadable, {Dir, Reason}}}
    end.

removed(File) ->
    case file:delete(File) of
        {error, Reason} when Reason =/= enoent -> {error, {unreadable, {File, Reason}}};
        _ -> ok
    end.

%% @doc Tells whether a log has no entry. A crash or a full disk may come between the creation of a
%% log and its first bytes.
-spec is_empty(file:filename()) -> boolean().
is_empty(File) -> filelib:file_size(File) < 2 * ?HEAD_BYTES.

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
        {error, _} -> {error, {damaged, File}}
    end.

is_on_disk(schema, _) -> false;
is_on_disk(_, Properties) ->
    lists:member(node(), proplists:get_value(disc_copies, Properties, [])).

present({error, _}, File) -> {error, {damaged, File}};
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
            IsSound = is_empty(File) andalso filename:extension(File) =/= ?TABLE
                orelse is_sound(Device, Size),
            ok = file:close(Device),
            case IsSound of
                true -> ok;
                false -> {error, {damaged, File}}
            end;
        {error, Reason} -> {error, {unreadable, {File, Reason}}}
    end.

is_sound(Device, Size) ->
    case entries(Device, Size) of
        {_, Size} -> true;
        {open, End} ->
            case file:pread(Device, End, Size - End) of
                {ok, Rest} -> not has_entry(Rest);
                _ -> false
            end;
        _ -> false
    end.

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
    try binary_to_term(Binary) of
        _ -> true
    catch error:badarg -> false
    end.

%% An entry behind one that cannot be read was not cut off by a crash.
has_entry(Rest) ->
    lists:any(fun({At, _}) -> At >= 4 andalso is_whole(binary:part(Rest, At - 4,
                                                                   byte_size(Rest) - At + 4))
              end, binary:matches(Rest, <<?ENTRY>>)).

is_whole(<<Size:32, ?ENTRY, Rest/binary>>) ->
    Bytes = Size + sum_bytes(Size),
    Bytes =< byte_size(Rest) andalso is_entry(Size, binary:part(Rest, 0, Bytes)).
