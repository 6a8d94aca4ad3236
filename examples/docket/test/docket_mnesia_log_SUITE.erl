%% Tests how logs are read, cut and salvaged: those that disk_log writes, with all kinds of damage.
-module(docket_mnesia_log_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([cut/1, garbage/1, hole/1, changed/1, large/1, unknown/1, unreadable/1, salvaged/1,
         salvaged_inside/1, positions/1]).
%% For other suites
-export([with_other_byte/2]).

all() -> [cut, garbage, hole, changed, large, unknown, unreadable, salvaged, salvaged_inside,
     positions].

init_per_testcase(Case, Config) -> docket_nodes:prepared(Case, "", Config).

end_per_testcase(_, _) -> ok.

%% A log may end anywhere, because a crash or a full disk cut it off. One that was closed, or is
%% complete when it gets its name, ends behind an entry.
cut(Config) ->
    {File, Log, Ends} = log(Config, [{entry, N, <<"some text">>} || N <- lists:seq(1, 5)]),
    [begin
         IsSound = Tail =:= torn orelse lists:member(Size, Ends)
             orelse Tail =:= torn_if_open andalso (State =:= open orelse Size < 16),
         ?assertEqual({Tail, State, Size, if IsSound -> ok; true -> damaged end},
                      {Tail, State, Size,
                       checked(File, in_state(State, binary:part(Log, 0, Size)), Tail)})
     end || Tail <- [none, torn_if_open, torn], State <- [open, closed],
            Size <- lists:seq(0, byte_size(Log))].

%% A process that is killed leaves no other bytes behind the last entry.
garbage(Config) ->
    {File, Log, _} = log(Config, [some, entries]),
    [?assertEqual({Bytes, damaged},
                  {Bytes, checked(File, in_state(open, <<Log/binary, Bytes/binary>>))})
     || Bytes <- [<<0:64>>, <<0:8000>>, <<0, 0, 0, 9, 98, 87, 0, 0>>, <<0, 0, 0, 9, 99>>]].

%% A write has failed, and others followed. What they wrote goes away.
hole(Config) ->
    {File, Log, Ends} = log(Config, [{entry, N, <<"some text">>} || N <- lists:seq(1, 5)]),
    Third = lists:nth(4, Ends),
    <<Before:Third/binary, _:5/binary, After/binary>> = Log,
    [begin
         Holed = in_state(State, <<Before/binary, After/binary>>),
         ?assertEqual(damaged, checked(File, Holed)),
         ok = file:write_file(File, Holed),
         ok = docket_mnesia_log:cut(File),
         ?assertEqual({ok, in_state(State, Before)}, file:read_file(File)),
         ok = docket_mnesia_log:cut(File),
         ?assertEqual({ok, in_state(State, Before)}, file:read_file(File))
     end || State <- [open, closed]].

%% A changed byte in the head of a log or of an entry shows, if entries follow. At the end, only the
%% size of an entry may be wrong.
changed(Config) ->
    {File, Log, Ends} = log(Config, [{entry, N, <<"some text">>} || N <- lists:seq(1, 5)]),
    Last = lists:nth(5, Ends),
    Heads = lists:seq(0, 3)
        ++ [End + Byte || End <- lists:droplast(Ends), Byte <- [0, 1, 2, 4, 5, 6, 7]],
    [begin
         Expected = case At >= Last andalso At < Last + 4 of
                        true -> ok;
                        false -> damaged
                    end,
         ?assertEqual({State, At, Expected},
                      {State, At, checked(File, with_other_byte(At, in_state(State, Log)))})
     end || State <- [open, closed], At <- Heads].

%% An entry of 64 KB or more has a checksum of its size.
large(Config) ->
    Large = {entry, binary:copy(<<"x">>, 200000)},
    {File, Log, [_, First | _]} = log(Config, [small, Large, small]),
    ?assertEqual(ok, checked(File, in_state(closed, Log))),
    [?assertEqual({State, At, damaged},
                  {State, At, checked(File, with_other_byte(First + At, in_state(State, Log)))})
     || State <- [open, closed], At <- [0, 1, 2, 3, 4, 8, 23]],
    [?assertEqual(ok, checked(File, in_state(open, binary:part(Log, 0, First + Size))))
     || Size <- [1, 20, 100000]].

%% An entry that can be decoded may have another form than the reader expects.
unknown(Config) ->
    {File, Log, _} = log(Config, [{row, N} || N <- lists:seq(1, 5)]),
    ok = file:write_file(File, Log),
    [?assertEqual({Tail, Expected}, {Tail, docket_mnesia_log:check(File, Tail, IsKnown)})
     || Tail <- [none, torn_if_open, torn],
        {IsKnown, Expected} <- [{fun({row, N}) -> N < 6 end, ok},
                                {fun({row, N}) -> N =/= 3 end, damaged},
                                {fun({row, N}) -> N =/= 5 end, damaged}]].

%% A file that cannot be read is not damaged. Linux refuses to read the speed of `lo'.
unreadable(_) ->
    File = "/sys/class/net/lo/speed",
    case file:read_file(File) of
        {error, einval} ->
            [?assertEqual({error, einval},
                          docket_mnesia_log:check(File, Tail, fun(_) -> true end))
             || Tail <- [none, torn]];
        Other -> {skip, {File, Other}}
    end.

%% The entries that are left of a log are all of them that are whole and known, or those before the
%% first damage.
salvaged(Config) ->
    Large = {row, 3, binary:copy(<<98, 87, 76, 65>>, 80000)},
    {File, Log, Ends} = log(Config, [{row, 1, <<"text">>}, {row, 2, <<"text">>}, Large,
                                     {row, 4, <<>>}, {row, 5, <<>>}]),
    [Head, First, Second, Third | _] = Ends,
    Start = binary:part(Log, 0, First),
    Rest = binary:part(Log, Second, byte_size(Log) - Second),
    New = File ++ ".new",
    [begin
         ok = file:write_file(File, in_state(State, Damaged)),
         [begin
              ok = docket_mnesia_log:salvage(File, New, Which,
                                             fun({row, N, _}) -> lists:member(N, Known) end),
              ?assertEqual({State, Which, Left}, {State, Which, rows(New)}),
              ?assertEqual(ok, docket_mnesia_log:check(New, none, fun(_) -> true end))
          end || {Which, Left} <- [{all, All}, {first, Before}]],
         ?assertEqual({ok, in_state(State, Damaged)}, file:read_file(File))
     end || State <- [open, closed],
            {Damaged, Known, All, Before} <-
                [{<<Start/binary, Rest/binary>>, [1, 3, 5], [1, 3, 5], [1, 3]},
                 {with_other_byte(First, Log), [1, 2, 3, 4, 5], [1, 3, 4, 5], [1]},
                 {with_other_byte(Second + 3, Log), [1, 2, 3, 4, 5], [1, 2, 4, 5], [1, 2]},
                 {with_other_byte(0, Log), [1, 2, 3, 4, 5], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5]},
                 {<<Start/binary, 0, Rest/binary>>, [1, 2, 3, 4, 5], [1, 3, 4, 5], [1]},
                 {binary:part(Log, 0, Third - 1), [1, 2, 3, 4, 5], [1, 2], [1, 2]},
                 {binary:part(Log, 0, Head), [], [], []}, {<<>>, [], [], []}]],
    ok = docket_mnesia_log:write(New, [{row, 1, <<>>}, {row, 2, <<>>}]),
    ?assertEqual([1, 2], rows(New)).

%% A row may hold the bytes of an entry. A damage of that row does not make them a row of their own.
salvaged_inside(Config) ->
    Inside = term_to_binary({row, 9, <<"of another user">>}),
    Entry = <<(byte_size(Inside)):32, 98, 87, 76, 65, Inside/binary>>,
    {File, Log, [_, First, Second | _]} =
        log(Config, [{row, 1, <<"text">>}, {row, 2, Entry}, {row, 3, <<"text">>}]),
    [begin
         %% The byte that says that a term follows
         ok = file:write_file(File, with_other_byte(First + 8, Damaged)),
         ok = docket_mnesia_log:salvage(File, File ++ ".new", all, fun(_) -> true end),
         ?assertEqual({Left, Left}, {Left, rows(File ++ ".new")})
     end || {Damaged, Left} <- [{Log, [1, 3]}, {binary:part(Log, 0, Second), [1]}]].

%% Each change of the position makes a file read ahead again.
positions(Config) ->
    {File, Log, _} = log(Config, [{row, N, <<"text">>} || N <- lists:seq(1, 100)]),
    ok = file:write_file(File, Log),
    Position = {file, position, 2},
    1 = erlang:trace_pattern(Position, true, [call_count]),
    ok = docket_mnesia_log:salvage(File, File ++ ".new", all, fun(_) -> true end),
    {call_count, Calls} = erlang:trace_info(Position, call_count),
    _ = erlang:trace_pattern(Position, false, [call_count]),
    ?assert(Calls < 5),
    ?assertEqual(100, length(rows(File ++ ".new"))).

rows(File) ->
    {ok, Log} = disk_log:open([{name, make_ref()}, {file, File}, {mode, read_only}]),
    Rows = rows(Log, disk_log:chunk(Log, start)),
    ok = disk_log:close(Log),
    [N || {row, N, _} <- Rows].

rows(_, eof) -> [];
rows(Log, {Next, Rows}) -> Rows ++ rows(Log, disk_log:chunk(Log, Next)).

%% Writes a log, and returns its bytes and where the head and each entry end.
log(Config, Entries) ->
    File = filename:join(proplists:get_value(dir, Config), "some.log"),
    {ok, Log} = disk_log:open([{name, make_ref()}, {file, File}]),
    Ends = [begin
                ok = Append(),
                ok = disk_log:sync(Log),
                filelib:file_size(File)
            end || Append <- [fun() -> ok end
                              | [fun() -> disk_log:log(Log, Entry) end || Entry <- Entries]]],
    ok = disk_log:close(Log),
    {ok, Bytes} = file:read_file(File),
    ok = file:delete(File),
    {File, Bytes, Ends}.

in_state(closed, Log) -> Log;
in_state(open, <<Magic:4/binary, _:4/binary, Entries/binary>>) ->
    <<Magic/binary, 6, 7, 8, 9, Entries/binary>>;
in_state(open, Short) -> Short.

with_other_byte(At, Bytes) ->
    <<Before:At/binary, Byte, Rest/binary>> = Bytes,
    <<Before/binary, (Byte bxor 64), Rest/binary>>.

checked(File, Bytes) -> checked(File, Bytes, torn).

checked(File, Bytes, Tail) ->
    ok = file:write_file(File, Bytes),
    docket_mnesia_log:check(File, Tail, fun(_) -> true end).
