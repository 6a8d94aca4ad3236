%% Tests how the log of a member of Ra is read: segments and logs in the formats of Ra 2.2.0, with
%% all kinds of damage.
-module(docket_ra_log_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([joined/1, writers/1, gap/1, overwritten/1, twice/1, zeros/1, torn/1, segments/1,
         unfinished/1]).

-define(UID, <<"MEMBER">>).

all() -> [joined, writers, gap, overwritten, twice, zeros, torn, segments, unfinished].

init_per_testcase(Case, Config0) ->
    Config = docket_nodes:prepared(Case, "", Config0),
    Dir = proplists:get_value(dir, Config),
    ok = filelib:ensure_path(filename:join(Dir, ?UID)),
    Config.

end_per_testcase(_, _) -> ok.

%% A member that has joined begins with the entry 0, goes on behind a snapshot, and needs that. The
%% log also has the entries of a former member.
joined(Config) ->
    ok = write_log(1, [{<<"FORMER">>, N} || N <- lists:seq(0, 9)]
                   ++ [{?UID, 0} | [{?UID, N} || N <- [7, 8, 9]]], Config),
    ?assertEqual({ok, 9}, last(6, Config)),
    ?assertMatch({error, {lacks, _}}, last(-1, Config)),
    ?assertMatch({error, {lacks, _}}, last(5, Config)),
    ?assertEqual({ok, 9}, docket_ra_log:last(proplists:get_value(dir, Config), <<"FORMER">>, -1)).

%% A log in which all records have another name is one whose name of the member is damaged.
writers(Config) ->
    ok = write_log(1, [{<<"NEMBER">>, N} || N <- [0, 1]], Config),
    ok = write_log(2, [], Config),
    ?assertEqual({error, {damaged, log(1, Config)}}, last(-1, Config)),
    %% An earlier log may be of a former member.
    ok = write_log(2, [{?UID, 0}], Config),
    ?assertEqual({ok, 0}, last(-1, Config)),
    ok = write_log(3, [{<<"NEMBER">>, 1}], Config),
    ?assertEqual({error, {damaged, log(3, Config)}}, last(-1, Config)).

%% Each entry between the snapshot and the last one must be there.
gap(Config) ->
    Dir = proplists:get_value(dir, Config),
    ?assertEqual({error, {no_log, Dir}}, last(-1, Config)),
    ok = write_log(3, [], Config),
    ?assertEqual({ok, -1}, last(-1, Config)),
    ?assertEqual({ok, 6}, last(6, Config)),
    ok = write_segment(1, [0, 1, 2], Config),
    ok = write_segment(2, [3, 4], Config),
    ok = write_log(3, [{?UID, N} || N <- [5, 6]], Config),
    ?assertEqual({ok, 6}, last(-1, Config)),
    ok = file:delete(segment(2, Config)),
    ?assertMatch({error, {lacks, _}}, last(-1, Config)),
    ?assertMatch({error, {lacks, _}}, last(2, Config)),
    ?assertEqual({ok, 6}, last(4, Config)),
    ?assertEqual({ok, 9}, last(9, Config)).

%% A new leader has other entries in place of the last ones.
overwritten(Config) ->
    ok = write_segment(1, [0, 1, 2, 3, 4, 5, 3, 4], Config),
    ok = write_log(2, [], Config),
    ?assertEqual({ok, 4}, last(-1, Config)),
    ok = write_log(2, [{?UID, 2}], Config),
    ?assertEqual({ok, 2}, last(-1, Config)).

%% A crash came while Ra moved the log into a segment. The log still has what is damaged there.
twice(Config) ->
    ok = write_segment(1, [0, 1, 2, 3], Config),
    {ok, Bytes} = file:read_file(segment(1, Config)),
    ok = file:write_file(segment(1, Config), binary:part(Bytes, 0, byte_size(Bytes) - 1)),
    ok = write_log(2, [], Config),
    ?assertEqual({error, {damaged, segment(1, Config)}}, last(-1, Config)),
    ok = write_log(2, [{?UID, N} || N <- [2, 3]], Config),
    ?assertEqual({ok, 3}, last(-1, Config)),
    ok = file:write_file(segment(2, Config), <<>>),
    ?assertEqual({ok, 3}, last(-1, Config)).

%% After a loss of power, a file may end in zeros, also behind a record that is not whole. A record
%% must not follow.
zeros(Config) ->
    Records = [{?UID, N} || N <- [0, 1, 2]],
    ok = write_log(1, Records, Config),
    {ok, Log} = file:read_file(log(1, Config)),
    Short = byte_size(Log) - 5,
    [_, _, Last] = records(Records),
    [begin
         ok = file:write_file(log(1, Config), Bytes),
         ?assertEqual({Bytes, Expected}, {Bytes, last(-1, Config)})
     end || {Bytes, Expected} <-
                [{[Log, <<0:(8 * Size)>>], {ok, 2}} || Size <- [1, 12, 13, 29, 30, 4096]]
                ++ [{[binary:part(Log, 0, Short), <<0:(8 * Size)>>], {ok, 1}}
                    || Size <- [0, 3, 4096]]
                ++ [{[Log, <<0:4096>>, Last], {error, {damaged, log(1, Config)}}}]].

%% A log may end anywhere, because a crash cut it off.
torn(Config) ->
    ok = write_log(1, [{?UID, N} || N <- [0, 1]], Config),
    {ok, Log} = file:read_file(log(1, Config)),
    [begin
         ok = file:write_file(log(1, Config), binary:part(Log, 0, Size)),
         ?assertMatch({Size, {ok, _}}, {Size, last(-1, Config)})
     end || Size <- lists:seq(5, byte_size(Log))],
    %% A changed byte before the last record, also in the number of its member
    [_, Second] = records([{?UID, N} || N <- [0, 1]]),
    [begin
         ok = file:write_file(log(1, Config), with_other_byte(At, Log)),
         ?assertEqual({At, {error, {damaged, log(1, Config)}}}, {At, last(-1, Config)})
     end || At <- [0, 4, 8, 20, 40, byte_size(Log) - byte_size(Second) + 2]].

%% A segment has a sum of each entry.
segments(Config) ->
    ok = write_segment(1, [0, 1, 2], Config),
    ok = write_log(2, [], Config),
    {ok, Bytes} = file:read_file(segment(1, Config)),
    End = byte_size(Bytes),
    [begin
         ok = file:write_file(segment(1, Config), Damaged),
         ?assertEqual({Number, Expected}, {Number, last(From, Config)})
     end || {Number, {Damaged, From, Expected}} <-
                lists:enumerate(
                  [{Bytes, -1, {ok, 2}},
                   {with_other_byte(0, Bytes), -1, {error, {damaged, segment(1, Config)}}},
                   {with_other_byte(End - 1, Bytes), -1, {error, {damaged, segment(1, Config)}}},
                   {with_other_byte(End - 1, Bytes), 2, {ok, 2}},
                   {binary:part(Bytes, 0, End div 2), -1, {error, {damaged, segment(1, Config)}}},
                   %% The index of the second entry, and its size
                   {with_other_byte(8 + 32 + 7, Bytes), -1,
                    {error, {lacks, filename:dirname(segment(1, Config))}}},
                   {with_other_byte(8 + 32 + 24, Bytes), -1,
                    {error, {damaged, segment(1, Config)}}}])].

%% A member that is about to take a snapshot may have the beginning of an earlier log.
unfinished(Config) ->
    ok = write_segment(1, [0, 1, 2, 21, 22], Config),
    ok = write_log(2, [{?UID, 23}], Config),
    ?assertEqual({ok, 23}, last(20, Config)),
    ?assertMatch({error, {lacks, _}}, last(10, Config)).

last(From, Config) -> docket_ra_log:last(proplists:get_value(dir, Config), ?UID, From).

log(Number, Config) ->
    filename:join(proplists:get_value(dir, Config), io_lib:format("~8..0b.wal", [Number])).

segment(Number, Config) ->
    filename:join([proplists:get_value(dir, Config), binary_to_list(?UID),
                   io_lib:format("~8..0b.segment", [Number])]).

write_log(Number, Entries, Config) ->
    file:write_file(log(Number, Config), ["RAWA", 1 | records(Entries)]).

records(Entries) -> records(Entries, []).

records([], _) -> [];
records([{Uid, Index} | More], Names) ->
    Entry = <<Index:64, 1:64, (text(Index))/binary>>,
    {Head, Known} = case lists:member(Uid, Names) of
                        true -> {<<1:2, (number(Uid, Names)):22>>, Names};
                        false ->
                            {<<0:2, (length(Names)):22, (byte_size(Uid)):16, Uid/binary>>,
                             Names ++ [Uid]}
                    end,
    [<<Head/binary, (erlang:adler32(Entry)):32, (byte_size(Entry) - 16):32, Entry/binary>>
     | records(More, Known)].

number(Uid, [Uid | _]) -> 0;
number(Uid, [_ | Names]) -> 1 + number(Uid, Names).

text(Index) -> term_to_binary({some, text, Index}).

%% With an index for eight entries
write_segment(Number, Entries, Config) ->
    {Index, _} = lists:mapfoldl(fun(Each, At) ->
                                        Text = text(Each),
                                        Size = byte_size(Text),
                                        {<<Each:64, 1:64, At:64, Size:32,
                                           (erlang:crc32(Text)):32>>, At + Size}
                                end, 8 + 8 * 32, Entries),
    Free = 8 * 32 * (8 - length(Entries)),
    file:write_file(segment(Number, Config),
                    [<<"RASG", 2:16, 8:16>>, Index, <<0:Free>> | [text(Each) || Each <- Entries]]).

with_other_byte(At, Bytes) -> docket_mnesia_log_SUITE:with_other_byte(At, Bytes).
