%% @doc Measures on a running node which changes to its program's code would save memory.
%%
%% The node runs no code that it lacks: all calls are of BIFs and of `erlang' and `ets'. If a shaken
%% node lacks one of these functions, a note says so. The measurement collects the garbage of the
%% largest processes that wait, and reads rows of tables. It changes nothing else.
%% @hidden
-module(whittle_tune_live).

-import(whittle_measure_dump, [sections/1, fields/1, number/2, name/1]).

-export([changes/2, memory/2]).

-export_type([call/0]).

%% Calls a function on the node. It throws `{call, Reason}' if that fails.
-type call() :: fun((module(), atom(), [term()]) -> term()).

%% The processes and tables that it measures.
-define(MOST, 16).
-define(LEAST_BYTES, 4096).
%% The rows of a table that it reads, and their bytes in the table.
-define(ROWS, 1000).
-define(SAMPLE_BYTES, 1_000_000).

%% @doc Measures the changes. `Procs' is the node's answer to `erlang:system_info(procs)'.
-spec changes(call(), binary()) -> whittle_tune_changes:changes().
changes(Call, Procs) ->
    {Processes, NoProcesses} = tried(fun() -> processes(Call, Procs) end, "processes"),
    {Tables, NoTables} = tried(fun() -> tables(Call) end, "ETS tables"),
    #{changes => whittle_tune_changes:worth(Processes ++ Tables),
      notes => NoProcesses ++ NoTables
          ++ ["A running node does not show the binaries that live for a few of their bytes, its "
              "atoms and its literals. To measure these: `whittle tune --explain PATH'"]}.

tried(Measure, Name) ->
    try {Measure(), []}
    catch throw:{call, Reason} ->
            {[], [io_lib:format("The ~ts of the node cannot be measured (~0tP).",
                                [Name, Reason, 8])]}
    end.

%% Internal functions: processes

%% A full collection leaves what hibernation leaves, and a free part of the heap besides.
processes(Call, Procs) ->
    Word = Call(erlang, system_info, [wordsize]),
    Before = listed(Procs),
    Largest = lists:sublist(
                lists:reverse(
                  lists:keysort(2, [{Text, Word * heap(Fields)}
                                    || {Text, #{<<"State">> := <<"Waiting">>} = Fields}
                                           <- maps:to_list(Before),
                                       number(<<"Message queue length">>, Fields) =:= 0,
                                       Word * heap(Fields) >= ?LEAST_BYTES])), ?MOST),
    _ = [Call(erlang, garbage_collect, [Call(erlang, list_to_pid, [binary_to_list(Text)])])
         || {Text, _} <- Largest],
    After = listed(iolist_to_binary(Call(erlang, system_info, [procs]))),
    [#{kind => hibernate, name => name(Old), now => Now,
       then => min(Now, max(0, number(<<"Memory">>, New)
                            - Word * (number(<<"Heap unused">>, New)
                                      + number(<<"OldHeap unused">>, New)))),
       how => "a garbage collection on the node"}
     || {Text, _} <- Largest, #{Text := Old} <- [Before], #{Text := New} <- [After],
        Now <- [number(<<"Memory">>, Old)]].

heap(Fields) -> number(<<"Stack+heap">>, Fields) + number(<<"OldHeap">>, Fields).

listed(Text) ->
    maps:from_list([{Pid, fields(Lines)} || {<<"proc:", Pid/binary>>, Lines} <- sections(Text)]).

%% Internal functions: tables

tables(Call) ->
    Word = Call(erlang, system_info, [wordsize]),
    Info = fun(Table, Key) -> Call(ets, info, [Table, Key]) end,
    Sizes = [{Word * Words, Table} || Table <- Call(ets, all, []),
                                      Words <- [Info(Table, memory)], is_integer(Words),
                                      Word * Words >= ?LEAST_BYTES],
    Largest = lists:sublist(lists:reverse(lists:sort(Sizes)), ?MOST),
    lists:append([table(Call, Info, Table, Bytes, Word) || {Bytes, Table} <- Largest]).

%% Rows of a private table cannot be read. A table may end at any time. Compression leaves the
%% structure of the table as it is.
table(Call, Info, Table, Bytes, Word) ->
    case {Info(Table, size), Info(Table, protection), Info(Table, compressed)} of
        {Size, Protection, false} when is_integer(Size), Size > 0, Protection =/= private ->
            Limit = max(1, min(?ROWS, ?SAMPLE_BYTES * Size div Bytes)),
            case Call(ets, select, [Table, [{'$1', [], ['$1']}], Limit]) of
                {Rows, _} ->
                    Options = [Info(Table, type), {keypos, Info(Table, keypos)}],
                    {Plain, Compressed} = memory(Rows, Options),
                    All = min(Bytes, Word * Plain * Size div length(Rows)),
                    [#{kind => table, name => io_lib:format("~0tp", [Info(Table, name)]),
                       now => Bytes,
                       then => Bytes - All + round(All * min(1, Compressed / max(1, Plain))),
                       how => io_lib:format("~b of ~b rows in a compressed table",
                                            [length(Rows), Size])}];
                '$end_of_table' -> []
            end;
        _ -> []
    end.

%% @doc Returns the words that rows take in a table and in a compressed one, without those of an
%% empty table.
-spec memory([tuple()], [term()]) -> {non_neg_integer(), non_neg_integer()}.
memory(Rows, Options) ->
    {words(Rows, Options), words(Rows, [compressed | Options])}.

words(Rows, Options) ->
    Table = ets:new(rows, [private | Options]),
    Empty = ets:info(Table, memory),
    true = ets:insert(Table, Rows),
    Words = ets:info(Table, memory),
    true = ets:delete(Table),
    Words - Empty.
