%% @doc Checks the files of Ra before Ra opens them.
%%
%% Ra makes a file anew that is missing, and leaves out what it cannot read. A node would then start
%% without its cases, or without its vote, and a node that forgets its vote may break the promises
%% of Raft. So a small file next to Ra's directory notes the member. As long as it is there, all
%% files of that member must be there, and must be whole: also its log (docket_ra_log), with all
%% changes behind the snapshot.
%%
%% Ra may lose the last segment, or the end of the log, without a gap. So the log must have all
%% changes that this node has done, which Ra saves with the vote. But a node of several also does
%% changes that other nodes have on their disks, and this one only in its memory. So for such a node
%% the note says how many of them the log had at the last start.
%% @hidden
-module(docket_ra_files).

-export([check/2, has/2, note_started/2, note_voted/2, forget/1, format_error/2]).

-export_type([error/0]).

-type error() :: {damaged | missing, file:filename()}
               | {write, {Dir :: file:filename(), Reason :: term()}}
               | docket_ra_log:error().

%% The names within the directory of the setting `dir'
-define(NOTE, "docket.member").
-define(RA, "ra").
-define(PROBE, "docket.probe.dets").
%% The names within Ra's directory
-define(NAMES, "names.dets").
-define(VOTES, "meta.dets").
%% The name within the directory of a member
-define(CONFIG, "config").

%% What the note says of the member: its name in Ra's files, whether it has taken part in an
%% election, and the index of the last change that its log must have
-record(member, {uid :: binary(), has_voted = false :: boolean(), least = 0 :: non_neg_integer()}).

%% @doc Checks that the files have all that Ra has written for the noted member, and notes the last
%% change of its log. The server is the name of the member in Ra's files. Without a note there is no
%% member yet, or an earlier program has made it.
-spec check(file:filename(), Server :: atom()) -> ok | {error, error()}.
check(Dir, Server) ->
    case read_note(Dir) of
        none -> ok;
        #member{uid = Uid} = Member ->
            docket_attempt:steps([fun() -> check_name(Dir, Server, Uid) end,
                                  fun() -> check_config(filename:join(own(Dir, Uid), ?CONFIG)) end,
                                  fun() -> check_votes(Dir, Member) end]);
        {error, _} = Error -> Error
    end.

%% @doc Tells whether the directory still has the files of the member. Ra does not notice when it
%% was removed or unmounted, and goes on to write the open files.
-spec has(file:filename(), Uid :: binary()) -> boolean().
has(Dir, Uid) ->
    {Is, _} = file:read_file_info(filename:join(own(Dir, Uid), ?CONFIG), [raw]),
    Is =:= ok.

own(Dir, Uid) -> filename:join([Dir, ?RA, binary_to_list(Uid)]).

%% @doc Notes that the member has its files.
-spec note_started(file:filename(), Uid :: binary()) -> ok | {error, error()}.
note_started(Dir, Uid) -> write_note(Dir, #member{uid = Uid}).

%% @doc Notes that the member has taken part in an election.
-spec note_voted(file:filename(), Uid :: binary()) -> ok | {error, error()}.
note_voted(Dir, Uid) ->
    case read_note(Dir) of
        #member{uid = Uid} = Member -> write_note(Dir, Member#member{has_voted = true});
        _ -> write_note(Dir, #member{uid = Uid, has_voted = true})
    end.

read_note(Dir) ->
    Note = filename:join(Dir, ?NOTE),
    case docket_directory:read(Note) of
        {error, enoent} -> none;
        {error, Reason} -> {error, {unreadable, {Note, Reason}}};
        {ok, [{Uid, HasVoted, Least}]}
          when is_binary(Uid), is_boolean(HasVoted), is_integer(Least), Least >= 0 ->
            #member{uid = Uid, has_voted = HasVoted, least = Least};
        %% An earlier program has written it.
        {ok, [{Uid, HasVoted}]} when is_binary(Uid), is_boolean(HasVoted) ->
            #member{uid = Uid, has_voted = HasVoted};
        _ -> {error, {damaged, Note}}
    end.

write_note(Dir, #member{uid = Uid, has_voted = HasVoted, least = Least} = Member) ->
    case read_note(Dir) of
        Member -> ok;
        _ ->
            Note = io_lib:format("~0p.~n", [{Uid, HasVoted, Least}]),
            written(Dir, docket_directory:write(filename:join(Dir, ?NOTE), Note))
    end.

%% @doc Removes the note, before the files of the member go.
-spec forget(file:filename()) -> ok | {error, error()}.
forget(Dir) ->
    case file:delete(filename:join(Dir, ?NOTE)) of
        {error, enoent} -> ok;
        Result -> written(Dir, Result)
    end.

written(_, ok) -> ok;
written(Dir, {error, Reason}) -> {error, {write, {Dir, Reason}}}.

%% The tables of Ra

check_name(Dir, Server, Uid) ->
    case read_row(Dir, ?NAMES, Server) of
        {ok, {_, Uid}, _} -> ok;
        {ok, _, File} -> {error, {damaged, File}};
        {error, _} = Error -> Error
    end.

%% A member without an election has no row, and has done no change.
check_votes(Dir, #member{has_voted = false} = Member) -> check_log(Dir, Member, 0);
check_votes(Dir, #member{uid = Uid} = Member) ->
    case read_row(Dir, ?VOTES, Uid) of
        {ok, {_, Term, _VotedFor, Done}, _} when is_integer(Term), Term > 0, is_integer(Done) ->
            check_log(Dir, Member, Done);
        {ok, {_, Term, _VotedFor, undefined}, _} when is_integer(Term), Term > 0 ->
            check_log(Dir, Member, 0);
        {ok, _, File} -> {error, {damaged, File}};
        {error, _} = Error -> Error
    end.

%% Ra makes such a file anew if it is missing.
read_row(Dir, Name, Key) ->
    File = filename:join([Dir, ?RA, Name]),
    case docket_dets:read(File, filename:join(Dir, ?PROBE), [],
                          fun(Table) -> dets:lookup(Table, Key) end) of
        {ok, [Row]} -> {ok, Row, File};
        {error, {copy, NotCopied}} -> {error, {write, NotCopied}};
        {error, {file_error, _, Reason}} -> unreadable(Reason, File);
        _ -> {error, {damaged, File}}
    end.

unreadable(enoent, File) -> {error, {missing, File}};
unreadable(Reason, File) -> {error, {unreadable, {File, Reason}}}.

%% The other files of the member

%% Ra writes this file in Latin-1.
check_config(File) ->
    case file:read_file(File) of
        {ok, Bytes} -> check_term(erl_scan:string(binary_to_list(Bytes)), File);
        {error, Reason} -> unreadable(Reason, File)
    end.

check_term({ok, Tokens, _}, File) ->
    case erl_parse:parse_term(Tokens) of
        {ok, #{}} -> ok;
        _ -> {error, {damaged, File}}
    end;
check_term(_, File) -> {error, {damaged, File}}.

%% Ra removes a snapshot that it cannot read. A crash may leave such a one too, but then there is an
%% earlier snapshot, or the log has all changes.
check_log(Dir, #member{uid = Uid, least = Least} = Member, Done) ->
    Own = own(Dir, Uid),
    {From, Damaged} = read_snapshots(lists:reverse(files(filename:join(Own, "snapshots")))),
    Needed = case docket_cluster:nodes() of [_] -> Done; _ -> Least end,
    case docket_ra_log:last(filename:join(Dir, ?RA), Uid, From) of
        {ok, Last} when Last >= Needed, Last >= 0 ->
            write_note(Dir, Member#member{least = max(Least, min(Last, Done))});
        {error, {What, _}} = Error when What =/= lacks -> Error;
        _ when Damaged =/= [] -> {error, {damaged, hd(Damaged)}};
        _ -> {error, {lacks, Own}}
    end.

files(Dir) -> [filename:join(Dir, Name) || Name <- lists:sort(filelib:wildcard("*", Dir))].

%% Returns the index of the first snapshot that is whole, and the ones before it.
read_snapshots([]) -> {-1, []};
read_snapshots([Snapshot | Earlier]) ->
    case docket_attempt:steps([fun() -> docket_ra_snapshot:validate(Snapshot) end,
                               fun() -> docket_ra_snapshot:read_meta(Snapshot) end]) of
        {ok, #{index := Index}} -> {Index, []};
        {error, _} ->
            {Index, Damaged} = read_snapshots(Earlier),
            {Index, [Snapshot | Damaged]}
    end.

%% @doc Formats an error as one line for a person. The line says the next step for a service of so
%% many nodes.
-spec format_error(error(), Nodes :: pos_integer()) -> unicode:chardata().
format_error({write, Error}, _) -> docket_directory:format_error({write, Error});
format_error({unreadable, {File, Reason}}, _) ->
    ["the file ", File, " cannot be read (", file:format_error(Reason),
     "): check that this user may do that"];
format_error(Error, 1) ->
    [why(Error), ": put back a copy of the whole directory, or choose an empty "
     "one (DOCKET_DIR) to start without cases"];
format_error(Error, _) ->
    [why(Error), ": end this node, empty its directory, and start it again while "
     "most of the other nodes run; it then takes their cases"].

why({damaged, File}) -> ["the file ", File, " is damaged"];
why({missing, File}) -> ["the file ", File, " is missing"];
why({no_log, Dir}) -> ["the directory ", Dir, " has no log (.wal)"];
why({lacks, Dir}) -> ["the directory ", Dir, " lacks changes: a segment, a snapshot, or the end of "
                      "the log is missing"].
