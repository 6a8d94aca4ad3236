%% @doc Checks the files of Ra before Ra opens them.
%%
%% Ra makes a file anew that is missing, and leaves out what it cannot read. A node would then start
%% without its cases, or without its vote, and a node that forgets its vote may break the promises
%% of Raft. So a small file next to Ra's directory notes the member. As long as it is there, all
%% files of that member must be there, and must be whole.
%%
%% A crash may cut off the end of a log (`.wal'), and Ra leaves that end out. It is no damage,
%% unless a whole record follows.
%% @hidden
-module(docket_ra_files).

-export([check/2, started/2, voted/2, forget/1, format_error/2]).

-export_type([error/0]).

-type error() :: {damaged | missing, file:filename()}
               | {unreadable, {file:filename(), file:posix() | badarg | terminated | system_limit}}
               | {write, {Dir :: file:filename(), Reason :: term()}}.

%% The names within the directory of the setting `dir'
-define(NOTE, "docket.member").
-define(RA, "ra").
-define(PROBE, "docket.probe.dets").
%% The names within Ra's directory
-define(NAMES, "names.dets").
-define(VOTES, "meta.dets").

%% @doc Checks that the files have all that Ra has written for the noted member. The server is the
%% name of the member in Ra's files. Without a note there is no member yet, or an earlier program
%% has made it.
-spec check(file:filename(), Server :: atom()) -> ok | {error, error()}.
check(Dir, Server) ->
    Note = filename:join(Dir, ?NOTE),
    case docket_directory:read(Note) of
        {error, enoent} -> ok;
        {error, Reason} -> {error, {unreadable, {Note, Reason}}};
        {ok, [{Uid, HasVoted}]} when is_binary(Uid), is_boolean(HasVoted) ->
            Own = filename:join([Dir, ?RA, binary_to_list(Uid)]),
            docket_attempt:steps(
              [fun() -> known(Dir, ?NAMES, Server, fun({_, Found}) -> Found =:= Uid end) end,
               fun() -> config(filename:join(Own, "config")) end,
               fun() -> logs(filename:join(Dir, ?RA), Own) end
               | [fun() -> known(Dir, ?VOTES, Uid, fun has_term/1) end || HasVoted]]);
        _ -> {error, {damaged, Note}}
    end.

%% @doc Notes that the member has its files.
-spec started(file:filename(), Uid :: binary()) -> ok | {error, error()}.
started(Dir, Uid) -> noted(Dir, {Uid, false}).

%% @doc Notes that the member has taken part in an election.
-spec voted(file:filename(), Uid :: binary()) -> ok | {error, error()}.
voted(Dir, Uid) -> noted(Dir, {Uid, true}).

noted(Dir, Member) ->
    Note = filename:join(Dir, ?NOTE),
    case docket_directory:read(Note) of
        {ok, [Member]} -> ok;
        _ -> written(Dir, docket_directory:write(Note, io_lib:format("~0p.~n", [Member])))
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

%% Ra makes such a file anew if it is missing.
known(Dir, Name, Key, IsFine) ->
    File = filename:join([Dir, ?RA, Name]),
    known(docket_dets:read(File, filename:join(Dir, ?PROBE), [],
                           fun(Table) -> dets:lookup(Table, Key) end), File, IsFine).

known({ok, [Row]}, File, IsFine) ->
    case IsFine(Row) of
        true -> ok;
        false -> {error, {damaged, File}}
    end;
known({error, {copy, {_, Reason}}}, File, _) -> unreadable(Reason, File);
known({error, {file_error, _, Reason}}, File, _) -> unreadable(Reason, File);
known(_, File, _) -> {error, {damaged, File}}.

unreadable(enoent, File) -> {error, {missing, File}};
unreadable(Reason, File) -> {error, {unreadable, {File, Reason}}}.

has_term({_, Term, _VotedFor, _LastApplied}) -> is_integer(Term) andalso Term > 0;
has_term(_) -> false.

%% The other files of the member

%% Ra writes this file in Latin-1.
config(File) ->
    case file:read_file(File) of
        {ok, Bytes} -> described(erl_scan:string(binary_to_list(Bytes)), File);
        {error, Reason} -> unreadable(Reason, File)
    end.

described({ok, Tokens, _}, File) ->
    case erl_parse:parse_term(Tokens) of
        {ok, #{}} -> ok;
        _ -> {error, {damaged, File}}
    end;
described(_, File) -> {error, {damaged, File}}.

%% Ra makes the next log before it removes the former one.
logs(Dir, Own) ->
    case [filename:join(Dir, Log) || Log <- lists:sort(filelib:wildcard("*.wal", Dir))] of
        [] -> {error, {missing, filename:join(Dir, "*.wal")}};
        Files -> logs(Files, Own, last)
    end.

logs([], Own, First) -> snapshots(filename:join(Own, "snapshots"), Own, First);
logs([File | More], Own, First) ->
    case file:read_file(File) of
        {ok, <<"RAWA", 1, Records/binary>>} ->
            case records(Records, First) of
                damaged -> {error, {damaged, File}};
                Least -> logs(More, Own, Least)
            end;
        {ok, _} -> {error, {damaged, File}};
        {error, Reason} -> {error, {unreadable, {File, Reason}}}
    end.

%% Returns the least index of the records (`last' is more than any number), or `damaged'.
records(<<_:1, 0:1, _:22, Bytes:16, _:Bytes/binary, Sum:32, Size:32, Entry:(Size + 16)/binary,
          Rest/binary>>, Least) ->
    record(Sum, Entry, Rest, Least);
records(<<_:1, 1:1, _:22, Sum:32, Size:32, Entry:(Size + 16)/binary, Rest/binary>>, Least) ->
    record(Sum, Entry, Rest, Least);
records(Rest, Least) ->
    case has_record(Rest) of
        true -> damaged;
        false -> Least
    end.

record(Sum, <<Index:64, _/binary>> = Entry, Rest, Least) ->
    case {erlang:adler32(Entry), Rest} of
        {Sum, _} -> records(Rest, min(Index, Least));
        {_, <<>>} -> Least;
        _ -> damaged
    end.

%% The numbers of a record, index and term, are small.
has_record(<<_:1, 1:1, _:22, Sum:32, Size:32, Entry:(Size + 16)/binary, _/binary>> = Records) ->
    case Entry of
        <<0:16, _:48, 0:16, _:48, _/binary>> ->
            erlang:adler32(Entry) =:= Sum orelse has_record(binary:part(Records, 1,
                                                                        byte_size(Records) - 1));
        _ -> has_record(binary:part(Records, 1, byte_size(Records) - 1))
    end;
has_record(<<_, Rest/binary>>) -> has_record(Rest);
has_record(<<>>) -> false.

%% Ra removes a snapshot that it cannot read. A crash may leave such a one too, but then there is an
%% earlier snapshot, or the log has its first record.
snapshots(Dir, Own, First) ->
    Snapshots = [filename:join(Dir, Name) || Name <- filelib:wildcard("*", Dir)],
    case lists:any(fun(Snapshot) -> docket_ra_snapshot:validate(Snapshot) =:= ok end, Snapshots)
        orelse First =< 1
        orelse filelib:is_regular(filename:join(Own, "00000001.segment")) of
        true -> ok;
        false when Snapshots =:= [] -> {error, {missing, filename:join(Dir, "*")}};
        false -> {error, {damaged, lists:last(lists:sort(Snapshots))}}
    end.

%% @doc Formats an error as one line for a person. The line says the next step for a service of so
%% many nodes.
-spec format_error(error(), Nodes :: pos_integer()) -> unicode:chardata().
format_error({write, Error}, _) -> docket_directory:format_error({write, Error});
format_error({unreadable, {File, Reason}}, _) ->
    ["the file ", File, " cannot be read (", file:format_error(Reason),
     "): check that this user may do that"];
format_error({What, File}, 1) ->
    ["the file ", File, is(What), ": put back a copy of the whole directory, or choose an empty "
     "one (DOCKET_DIR) to start without cases"];
format_error({What, File}, _) ->
    ["the file ", File, is(What), ": end this node, empty its directory, and start it again while "
     "most of the other nodes run; it then takes their cases"].

is(damaged) -> " is damaged";
is(missing) -> " is missing".
