%% @doc Reads the log of a member of Ra, and checks that it has all entries.
%%
%% Ra writes an entry to a log that all members have in common (`.wal'), with the name of the
%% member. When this log is large, and at each start, Ra moves its entries into segments of each
%% member (`.segment'), and removes it. So the log of a member is in its segments and then in the
%% `.wal', and a part of it may be in both. The later copy of an entry counts. The formats are those
%% of Ra 2.2.0 (`ra_log_wal', `ra_log_segment').
%%
%% A crash may cut off the end of a `.wal', and Ra leaves that end out. It is no damage, unless a
%% whole record follows. A crash may also leave damaged entries in a segment, while the `.wal' still
%% has them.
%%
%% The sum of a record does not cover the name of its member, and Ra drops the records of a member
%% that it does not know. A `.wal' may have records of a former member, but a new member writes its
%% first one before it counts. So the last records must not all have other names.
%% @hidden
-module(docket_ra_log).

-export([last/3]).

-export_type([error/0]).

%% `no_log': the directory has no `.wal'. `lacks': the segments and the `.wal' have not all entries.
-type error() :: {damaged, file:filename()} | {no_log | lacks, Dir :: file:filename()}
               | {unreadable, {file:filename(), file:posix() | badarg | terminated | system_limit}}.

%% The entries behind the index `from', each with the damaged segment that it is in, if any.
%% `writer' tells whether the present `.wal' has a record of this member, or only of others.
%% `others' is the last `.wal' with records, if all of them are of others.
-record(log, {uid :: binary(), from :: integer(), last :: integer(),
              writer = none :: none | own | other, others = none :: none | file:filename(),
              entries = #{} :: #{Index :: non_neg_integer() => whole | file:filename()}}).

-define(INDEX_BYTES, 32).               % of an entry in the index of a segment
-define(ZEROS, 104).                    % bits after the last record, in a log that ends in zeros

%% @doc Returns the index of the last entry. All entries behind the given index must be there, and
%% be whole: behind that of the snapshot, or behind -1.
-spec last(Dir :: file:filename(), Uid :: binary(), From :: integer()) ->
          {ok, integer()} | {error, error()}.
last(Dir, Uid, From) ->
    Own = filename:join(Dir, binary_to_list(Uid)),
    case files("*.wal", Dir) of
        [] -> {error, {no_log, Dir}};
        Logs ->
            Files = [{fun add_segment/2, File} || File <- files("*.segment", Own)]
                ++ [{fun add_log/2, File} || File <- Logs],
            add_files(Files, #log{uid = Uid, from = From, last = From}, Own)
    end.

files(Pattern, Dir) ->
    [filename:join(Dir, Name) || Name <- lists:sort(filelib:wildcard(Pattern, Dir))].

add_files([], #log{from = From, others = none} = Log, Own) -> check_entries(From + 1, Log, Own);
add_files([], #log{others = File}, _) -> {error, {damaged, File}};
add_files([{Add, File} | More], Log, Own) ->
    case Add(File, Log) of
        #log{} = Added -> add_files(More, Added, Own);
        damaged -> {error, {damaged, File}};
        {error, Reason} -> {error, {unreadable, {File, Reason}}}
    end.

check_entries(Index, #log{last = Last}, _) when Index > Last -> {ok, Last};
check_entries(Index, #log{entries = Entries} = Log, Own) ->
    case Entries of
        #{Index := whole} -> check_entries(Index + 1, Log, Own);
        #{Index := Segment} -> {error, {damaged, Segment}};
        _ -> {error, {lacks, Own}}
    end.

%% A new leader overwrites the entries that were never acknowledged: those behind a last one do not
%% count.
add_entry(Index, Is, #log{from = From, entries = Entries} = Log) ->
    Log#log{last = max(Index, From), entries = Entries#{Index => Is}}.

%% The segments of a member

add_segment(File, Log) ->
    docket_directory:in_file(File, [read],
                             fun(Device, Size) -> add_indexed(Device, Size, File, Log) end).

%% A crash may come between the creation of a segment and its first bytes.
add_indexed(_, 0, _, Log) -> Log;
add_indexed(Device, Size, File, Log) ->
    case file:pread(Device, 0, 8) of
        {ok, <<"RASG", 2:16, Count:16>>} ->
            case file:pread(Device, 8, Count * ?INDEX_BYTES) of
                {ok, Index} -> add_entries(Index, Device, Size, File, Log);
                eof -> Log;
                {error, _} = Error -> Error
            end;
        {error, _} = Error -> Error;
        _ -> damaged
    end.

%% The rest of the index is not in use.
add_entries(<<0:(8 * ?INDEX_BYTES), _/binary>>, _, _, _, Log) -> Log;
add_entries(<<Index:64, _Term:64, At:64, Bytes:32, Sum:32, Rest/binary>>, Device, Size, File,
            #log{from = From} = Log) ->
    case Index =< From orelse is_whole(Device, At, Bytes, Size, Sum) of
        true -> add_entries(Rest, Device, Size, File, add_entry(Index, whole, Log));
        false -> add_entries(Rest, Device, Size, File, add_entry(Index, File, Log));
        {error, _} = Error -> Error
    end;
add_entries(_, _, _, _, Log) -> Log.

is_whole(_, At, Bytes, Size, _) when At + Bytes > Size -> false;
is_whole(Device, At, Bytes, _, Sum) ->
    case file:pread(Device, At, Bytes) of
        {ok, Entry} -> erlang:crc32(Entry) =:= Sum;
        eof -> false;
        {error, _} = Error -> Error
    end.

%% The log of all members

add_log(File, Log) ->
    case file:read_file(File) of
        {ok, <<"RAWA", 1, Records/binary>>} ->
            noted(File, add_records(Records, #{}, Log#log{writer = none}));
        {ok, _} -> damaged;
        {error, _} = Error -> Error
    end.

noted(_, #log{writer = own} = Log) -> Log#log{others = none};
noted(File, #log{writer = other} = Log) -> Log#log{others = File};
noted(_, Added) -> Added.

%% The first record of a member has its name, and the further ones only the number that stands
%% before that name.
add_records(<<0:24, Bytes:16, _:Bytes/binary, 0:64, _/binary>> = Rest, _, Log) ->
    ended(Rest, Log);
add_records(<<_:1, 0:1, Number:22, Bytes:16, Uid:Bytes/binary, Sum:32, Size:32,
              Entry:(Size + 16)/binary, Rest/binary>>, Names, Log) ->
    add_record(Uid, Sum, Entry, Rest, Names#{Number => Uid}, Log);
add_records(<<_:1, 1:1, Number:22, Sum:32, Size:32, Entry:(Size + 16)/binary, Rest/binary>>, Names,
            Log) ->
    case Names of
        #{Number := Uid} -> add_record(Uid, Sum, Entry, Rest, Names, Log);
        _ -> damaged
    end;
add_records(Rest, _, Log) -> ended(Rest, Log).

add_record(Uid, Sum, <<Index:64, _/binary>> = Entry, Rest, Names, Log) ->
    case {erlang:adler32(Entry), Log} of
        {Sum, #log{uid = Uid}} ->
            add_records(Rest, Names, add_entry(Index, whole, Log#log{writer = own}));
        {Sum, #log{writer = none}} -> add_records(Rest, Names, Log#log{writer = other});
        {Sum, _} -> add_records(Rest, Names, Log);
        _ ->
            case Rest of
                <<0:?ZEROS, _/binary>> -> ended(Rest, Log);
                _ when byte_size(Rest) * 8 < ?ZEROS -> Log;
                _ -> damaged
            end
    end.

%% For Ra, the log ends here. After a loss of power, the rest of a file may have only zeros.
ended(Rest, Log) ->
    case has_record(Rest) of
        true -> damaged;
        false -> Log
    end.

has_record(<<_, Rest/binary>> = Records) -> begins_record(Records) orelse has_record(Rest);
has_record(<<>>) -> false.

%% The numbers of a record, index and term, are small.
begins_record(<<_:1, 1:1, _:22, Sum:32, Size:32, Entry:(Size + 16)/binary, _/binary>>) ->
    case Entry of
        <<0:16, _:48, 0:16, _:48, _/binary>> -> erlang:adler32(Entry) =:= Sum;
        _ -> false
    end;
begins_record(_) -> false.
