%% @doc Checks, mends and removes the files of Mnesia while Mnesia does not run.
%%
%% Mnesia deletes a file that it cannot read, leaves damaged entries out, and goes on with the rest.
%% As the first node to load its rows it would then give this rest to all others. So a node checks
%% its files before Mnesia reads them (docket_mnesia_damage).
%%
%% The files of tables and logs are logs of disk_log (docket_mnesia_log). A crash may cut off the
%% end of a log that was open. Mnesia repairs that, and it is no damage. If a write fails because
%% the disk is full, Mnesia goes on behind the part that was written; cut/1 removes what follows. A
%% changed byte within the text of a row cannot be noticed.
%% @hidden
-module(docket_mnesia_files).

-export([check/1, check_new/1, set_aside/1, cut/1, remove/1]).
-export([note_starting/1, note_started/1, is_started/1, is_log/1]).

-export_type([error/0]).

-type error() :: {damaged | missing, file:filename()}
               | {no_schema | bad_schema, Dir :: file:filename()}
               | {unreadable | not_changed, {file:filename(), file:posix() | badarg}}
               | {write, {Dir :: file:filename(), file:posix()}}.

-define(SCHEMA, "schema.DAT").
-define(SCHEMA_COPY, "docket.schema").
-define(TABLE, ".DCD").
-define(LATEST, "LATEST.LOG").
-define(PREVIOUS, "PREVIOUS.LOG").
%% Mnesia has started with the other files, and has made its log.
-define(STARTED, "docket.started").
%% The changes of a table since its file was written
-define(CHANGES, ".DCL").
-define(LOGS, [?TABLE, ?CHANGES, ".LOG"]).
%% The rest of a damaged file, until it takes its place
-define(LEFT, ".left").
%% The beginning of the names of all tables
-define(OWN, "docket_").
-define(DECISIONS, "DECISION_TAB.LOG").
%% Mnesia writes a file of a table or of decisions under this name first.
-define(NEW, ".TMP").
-define(NEW_DECISIONS, "DECISION_TAB.TMP").

%% @doc Checks that the files of a directory have all that Mnesia has written to them.
-spec check(file:filename()) -> ok | {error, error()}.
check(Dir) ->
    case {file:list_dir(Dir), schema(Dir)} of
        {{ok, Names}, {ok, Schema}} ->
            docket_attempt:steps(
              [fun() -> check_tables(Dir, Schema) end, fun() -> check_latest(Dir) end
               | [fun() -> check_log(filename:join(Dir, Log), Schema) end
                  || Log <- logs(Names, ?LOGS)]]
              ++ [fun() -> check_unknown(Dir, logs(Names, [?TABLE]), Schema) end]);
        {{ok, _}, Error} -> Error;
        {{error, Reason}, _} -> {error, {unreadable, {Dir, Reason}}}
    end.

logs(Names, Extensions) ->
    [Name || Name <- lists:sort(Names), lists:member(filename:extension(Name), Extensions),
             is_log(Name)].

%% @doc Makes Mnesia start with what is left of a damaged database, and returns all damages. A
%% damaged file gets another name. In place of a table comes one with the rows that are left, and in
%% place of a log its changes before the damage. With some damages Mnesia does not start. With
%% others it drops the whole file.
-spec set_aside(file:filename()) -> {ok, [error()]} | {error, error()}.
set_aside(Dir) ->
    %% A node that ended meanwhile has left them.
    _ = [file:delete(filename:join(Dir, Name))
         || Name <- filelib:wildcard("*" ++ ?LEFT, Dir), is_log(filename:rootname(Name))],
    set_aside(Dir, []).

set_aside(Dir, Before) ->
    case check(Dir) of
        ok -> {ok, lists:reverse(Before)};
        {error, Error} ->
            case lists:member(Error, Before) orelse mend(Dir, Error) of
                ok -> set_aside(Dir, [Error | Before]);
                true -> {error, Error};
                {error, _} = NotMended -> NotMended
            end
    end.

%% The damaged file keeps its name until the rest takes its place in one step: this node may end at
%% any time.
mend(Dir, {damaged, File}) ->
    Left = File ++ ?LEFT,
    done(File, docket_attempt:steps([fun() -> salvaged(Dir, File, Left) end,
                                     fun() -> kept(File, unused(File)) end,
                                     fun() -> take_place(Left, File) end]));
mend(_, {missing, File}) -> done(File, replaced(File));
mend(_, Error) -> {error, Error}.

%% Not all file systems have links.
kept(File, Other) ->
    case file:make_link(File, Other) of
        ok -> ok;
        {error, _} ->
            case file:copy(File, Other) of
                {ok, _} -> ok;
                {error, _} = Error -> Error
            end
    end.

%% Of a log, only the changes before the damage stay: a later one may build on a lost one. Nothing
%% of the decisions stays: Mnesia starts without them.
salvaged(Dir, File, Left) ->
    {ok, Schema} = schema(Dir),
    {_, IsKnown} = expected(File, Schema),
    case {filename:extension(File), filename:basename(File)} of
        {".LOG", Name} when Name =/= ?LATEST, Name =/= ?PREVIOUS -> ok;
        {".LOG", _} -> docket_mnesia_log:salvage(File, Left, first, IsKnown);
        _ -> docket_mnesia_log:salvage(File, Left, all, IsKnown)
    end.

take_place(Left, File) ->
    case docket_mnesia_log:is_empty(Left) of
        true ->
            _ = file:delete(Left),
            replaced(File);
        false -> file:rename(Left, File)
    end.

%% Nothing is left of a file. Mnesia makes a new log.
replaced(File) ->
    case {filename:extension(File), filename:basename(File)} of
        {?TABLE, _} -> docket_mnesia_log:write(File, [mnesia_log:dcd_log_header()]);
        {_, ?LATEST} ->
            ok = note_starting(filename:dirname(File)),
            deleted(File);
        _ -> deleted(File)
    end.

deleted(File) ->
    case file:delete(File) of
        {error, enoent} -> ok;
        Result -> Result
    end.

%% An earlier damage may have set a file aside too.
unused(File) -> unused(File ++ ".damaged", 2).

unused(Name, Next) ->
    case filelib:is_regular(Name) of
        false -> Name;
        true -> unused(filename:rootname(Name) ++ io_lib:format(".damaged~b", [Next]), Next + 1)
    end.

done(_, ok) -> ok;
done(File, {error, Reason}) -> {error, {not_changed, {File, Reason}}}.

%% @doc Notes that Mnesia is about to start. It removes its former log then, and makes a new one.
-spec note_starting(file:filename()) -> ok.
note_starting(Dir) ->
    _ = file:delete(filename:join(Dir, ?STARTED)),
    ok.

%% @doc Notes that Mnesia has started, and has a log. From now on the log must be there.
-spec note_started(file:filename()) -> ok | {error, file:posix() | badarg | terminated}.
note_started(Dir) -> docket_directory:write(filename:join(Dir, ?STARTED), []).

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
    docket_attempt:steps([fun() -> done(File, docket_mnesia_log:cut(File)) end
                          || Name <- [?PREVIOUS, ?LATEST], File <- [filename:join(Dir, Name)],
                             filelib:is_regular(File)]).

%% @doc Removes the files of Mnesia from a directory. The schema goes last: without it, the rest
%% would belong to no database.
-spec remove(file:filename()) -> ok | {error, error()}.
remove(Dir) ->
    case file:list_dir(Dir) of
        {ok, Names} ->
            Files = logs(Names, [?NEW, ".DMP" | ?LOGS]) ++ [?STARTED, ?SCHEMA],
            docket_attempt:steps([fun() -> removed(filename:join(Dir, Name)) end
                                  || Name <- Files]);
        {error, enoent} -> ok;
        {error, Reason} -> {error, {unreadable, {Dir, Reason}}}
    end.

removed(File) -> done(File, deleted(File)).

%% @doc Tells whether the note of note_started/1 is there. Without it, somebody has removed the
%% files of Mnesia while it ran.
-spec is_started(file:filename()) -> boolean().
is_started(Dir) ->
    element(1, file:read_file_info(filename:join(Dir, ?STARTED), [raw])) =:= ok.

%% @doc Tells whether a name is that of a log of Mnesia: of a table, its changes, or all changes.
%% Other files in the directory may have such names too.
-spec is_log(file:filename()) -> boolean().
is_log(Name) ->
    lists:member(Name, [?LATEST, ?PREVIOUS, ?DECISIONS, ?NEW_DECISIONS])
        orelse lists:prefix(?OWN, Name)
        andalso lists:member(filename:extension(Name), [?TABLE, ?CHANGES, ?NEW, ".DMP"]).

%% While Mnesia runs, at least one of two logs is whole: it makes a new log when the former one has
%% its other name.
check_latest(Dir) ->
    [Started, Previous, Latest] = [filename:join(Dir, Name)
                                   || Name <- [?STARTED, ?PREVIOUS, ?LATEST]],
    case filelib:is_regular(Started) andalso not filelib:is_regular(Previous)
        andalso {filelib:is_regular(Latest), docket_mnesia_log:is_empty(Latest)} of
        {false, _} -> {error, {missing, Latest}};
        {true, true} -> {error, {damaged, Latest}};
        _ -> ok
    end.

%% Each table with a copy on this disk has its file.
check_tables(Dir, Schema) ->
    Files = [filename:join(Dir, Name) || Name <- names(Schema)],
    case [Missing || Missing <- Files, not filelib:is_regular(Missing)] of
        [] -> ok;
        [First | _] -> {error, {missing, First}}
    end.

names(Schema) ->
    [atom_to_list(Table) ++ ?TABLE || {Table, Properties} <- lists:sort(Schema),
                                      is_on_disk(Table, Properties)].

is_on_disk(schema, _) -> false;
is_on_disk(_, Properties) ->
    lists:member(node(), proplists:get_value(disc_copies, Properties, [])).

%% A damaged schema may lack a table, and docket would make a new one. Mnesia makes the file of a
%% new table before the schema has it, but without rows.
check_unknown(Dir, Files, Schema) ->
    IsHeader = fun docket_mnesia_entry:is_header/1,
    case [File || File <- Files -- names(Schema),
                  docket_mnesia_log:check(filename:join(Dir, File), none, IsHeader) =/= ok] of
        [] -> ok;
        [_ | _] -> {error, {bad_schema, Dir}}
    end.

%% Returns the tables with their properties. Mnesia repairs a file that was open, and that must
%% leave the description of the schema itself.
schema(Dir) ->
    File = filename:join(Dir, ?SCHEMA),
    case docket_dets:read(File, filename:join(Dir, ?SCHEMA_COPY), [{keypos, 2}], fun described/1) of
        {ok, Tables} ->
            case is_list(Tables) andalso lists:keymember(schema, 1, Tables) of
                true -> {ok, Tables};
                false -> {error, {bad_schema, Dir}}
            end;
        {error, {copy, NotCopied}} -> {error, {write, NotCopied}};
        {error, {file_error, _, Reason}} when Reason =/= enoent ->
            {error, {unreadable, {File, Reason}}};
        {error, _} -> {error, {bad_schema, Dir}}
    end.

described(Schema) ->
    dets:foldl(fun(Row, Found) ->
                       case Row of
                           {schema, Table, Properties} -> [{Table, Properties} | Found];
                           _ -> Found
                       end
               end, [], Schema).

check_log(File, Schema) ->
    {Tail, IsKnown} = expected(File, Schema),
    case docket_mnesia_log:check(File, Tail, IsKnown) of
        ok -> ok;
        damaged -> {error, {damaged, File}};
        {error, Reason} -> {error, {unreadable, {File, Reason}}}
    end.

%% Tells how a file may end, and which entries it has. Mnesia gives the file of a table and the one
%% of decisions their names when they are complete. While the former log is there, Mnesia writes its
%% changes into the files of the tables. If that fails because the disk is full, Mnesia does it
%% again.
expected(File, Schema) ->
    Name = filename:basename(File),
    Table = filename:rootname(Name),
    HasPrevious = filelib:is_regular(filename:join(filename:dirname(File), ?PREVIOUS)),
    {Tail, IsKnown} =
        case filename:extension(File) of
            ?TABLE -> {none, fun(Entry) -> docket_mnesia_entry:is_row(Table, Entry) end};
            ?CHANGES ->
                {case HasPrevious of true -> torn; false -> torn_if_open end,
                 fun(Entry) -> docket_mnesia_entry:is_change(Table, Entry) end};
            _ when Name =:= ?DECISIONS -> {none, fun docket_mnesia_entry:is_decided/1};
            _ -> {torn, fun docket_mnesia_entry:is_logged/1}
        end,
    case is_later(Schema) of
        true -> {Tail, fun(_) -> true end};
        false -> {Tail, IsKnown}
    end.

%% A later program may have written rows of other forms. This one refuses the database afterwards.
is_later(Schema) ->
    [] =/= [Version || {_, Properties} <- Schema,
                       {docket_version, Version} <- proplists:get_value(user_properties,
                                                                        Properties, []),
                       Version > docket_case:newest()].
