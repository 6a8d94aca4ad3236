%% @doc Decides what a node does whose files of Mnesia are damaged (docket_mnesia_files).
%%
%% Such a node has lost rows. It leaves its generation, so that no other node takes what is left.
%% When another node has all rows, it removes its files, and takes those rows. A service of one node
%% does not start. A file that cannot be read, for example because it belongs to another user, is no
%% damage: the node waits.
%% @hidden
-module(docket_mnesia_damage).

-export([check_own/0, check_or_clear/1, check_new/0, has_half_joined/0, clear/0, note_starting/0,
         note_started/0, write_failed/0, format_error/1]).

-import(docket_operator, [say/1]).

-export_type([error/0]).

-type error() :: {files, docket_mnesia_files:error()}
               | {directory, {file:filename(), Reason :: term()}}.

%% @doc Checks the files before this node loads its own rows.
-spec check_own() -> docket_attempt:result(error()).
check_own() ->
    case {check(), docket_config:get(force), docket_cluster:nodes()} of
        {ok, _, _} -> ok;
        {{error, {directory, _}} = Error, _, _} -> Error;
        {{error, {files, Reason}} = Error, IsForced, Nodes} ->
            case {is_loss(Reason), IsForced, Nodes} of
                {false, _, _} -> Error;
                {true, true, _} -> forced();
                {true, false, [_]} -> Error;
                {true, false, _} ->
                    ok = docket_generation:leave(),
                    ok = docket_generation:give_back(),
                    {wait, ["does not load its cases, and waits for those of another node: ",
                            reason(Reason)]}
            end
    end.

forced() ->
    case in_directory(fun docket_mnesia_files:set_aside/1) of
        {ok, Reasons} ->
            say([lists:join(", ", [reason(Reason) || Reason <- Reasons]),
                 "; DOCKET_FORCE is on: this node goes on with what is left"]);
        {error, _} = Error -> Error
    end.

%% @doc Checks the files before this node takes the rows of others, which have all of them, and
%% removes damaged ones. With a damaged log, Mnesia would not start.
-spec check_or_clear([node()]) -> docket_attempt:result(error()).
check_or_clear(Nodes) ->
    case check() of
        ok -> ok;
        {error, {directory, _}} = Error -> Error;
        {error, {files, Reason}} = Error ->
            case is_loss(Reason) andalso clear() of
                false -> Error;
                ok -> {wait, ["removes its cases, and takes those of ", docket_config:names(Nodes),
                              ": ", reason(Reason)]};
                NotCleared -> NotCleared
            end
    end.

%% @doc Tells whether this node has only the first files of a database that it was about to join: it
%% ended, or Mnesia did not start. It has no rows, so it joins anew, with a new copy of the schema.
-spec has_half_joined() -> boolean().
has_half_joined() ->
    case docket_generation:current() of
        {_, []} ->
            case check() of
                {error, {files, {missing, _}}} -> true;
                _ -> false
            end;
        %% The check reads all files.
        _ -> false
    end.

is_loss({unreadable, _}) -> false;
is_loss({not_changed, _}) -> false;
is_loss(_) -> true.

check() -> in_directory(fun docket_mnesia_files:check/1).

%% @doc Removes all files of Mnesia: those of a former life must not become a part of the database
%% that this node joins.
-spec clear() -> ok | {error, error()}.
clear() ->
    ok = docket_generation:leave(),
    in_directory(fun docket_mnesia_files:remove/1).

%% @doc Checks that the directory has no tables, because this node is about to make a new database.
-spec check_new() -> ok | {error, error()}.
check_new() -> in_directory(fun docket_mnesia_files:check_new/1).

%% @doc Notes that Mnesia is about to start.
-spec note_starting() -> ok.
note_starting() -> in_directory(fun docket_mnesia_files:note_starting/1).

%% @doc Notes that Mnesia has started.
-spec note_started() -> ok | {error, error()}.
note_started() -> in_directory(fun docket_mnesia_files:note_started/1).

%% @doc Repairs the logs after a write that may have failed, unless Mnesia still runs.
-spec write_failed() -> ok.
write_failed() ->
    case mnesia:system_info(is_running) =:= no
        andalso in_directory(fun docket_mnesia_files:cut/1) of
        {error, Error} -> say(format_error(Error));
        _ -> ok
    end.

in_directory(Fun) ->
    case docket_config:get(dir) of
        none -> ok;
        Dir ->
            case Fun(Dir) of
                ok -> ok;
                {ok, _} = Done -> Done;
                {error, Reason} when is_atom(Reason) -> {error, {directory, {Dir, Reason}}};
                {error, {write, NotWritten}} -> {error, {directory, NotWritten}};
                {error, Reason} -> {error, {files, Reason}}
            end
    end.

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({directory, Error}) -> docket_directory:format_error({write, Error});
format_error({files, {What, _} = Reason}) when What =:= damaged; What =:= missing ->
    [reason(Reason), ": put back a copy of the directory"
     | case docket_config:get(force) of
           %% The same damage has come again.
           true -> "";
           false -> ", or start once with DOCKET_FORCE=true to go on with what is left"
       end];
format_error({files, {What, _} = Reason}) when What =:= no_schema; What =:= bad_schema ->
    [reason(Reason), ", which describes its tables: put back a copy of the directory, or choose an "
     "empty one (DOCKET_DIR)"];
format_error({files, {_, {_, Full}} = Reason}) when Full =:= enospc; Full =:= edquot ->
    [reason(Reason), ": free space there"];
format_error({files, Reason}) -> [reason(Reason), ": check that this user may do that"].

reason({no_schema, Dir}) -> ["the directory ", Dir, " lacks the file schema.DAT"];
reason({bad_schema, Dir}) -> ["in the directory ", Dir, ", the file schema.DAT is damaged"];
reason({damaged, File}) -> ["the file ", File, " is damaged"];
reason({missing, File}) -> ["the file ", File, " is missing"];
reason({unreadable, {File, Reason}}) ->
    ["the file ", File, " cannot be read (", file:format_error(Reason), $)];
reason({not_changed, {File, Reason}}) ->
    ["the file ", File, " cannot be changed or removed (", file:format_error(Reason), $)].
