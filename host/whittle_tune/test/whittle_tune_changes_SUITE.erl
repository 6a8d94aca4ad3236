%% Tests the gains of changes to code against a program that has made some of these changes: on the
%% OTP releases of this machine, from a crash dump and on a running VM.
-module(whittle_tune_changes_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([from_a_dump/1, from_a_running_vm/1, no_such_function/1, cut_off/1, rows_compress/1,
         small_gains/1]).

all() -> [from_a_dump, from_a_running_vm, no_such_function, cut_off, rows_compress, small_gains].

%% `wasteful' waits with a heap full of garbage, and `thrifty' has the same terms and hibernates.
%% `holder' needs 100 bytes of a large binary, and `whole' needs all of another one. `capture'
%% keeps a function with variables.
-define(PROGRAM,
        "-module(tuned_program).\n"
        "-export([main/0, woken/1]).\n"
        "main() ->\n"
        "  Self = self(),\n"
        "  [spawn(fun() -> register(Name, self()), State = state(Name), Self ! Name,\n"
        "                  wait(Name, State) end)\n"
        "   || Name <- [wasteful, thrifty, holder, whole, capture]],\n"
        "  [receive Name -> ok end || Name <- [wasteful, thrifty, holder, whole, capture]],\n"
        "  ets:new(compressible, [named_table, {heir, whereis(whole), none}]),\n"
        "  _ = [ets:insert(compressible, {N, lists:duplicate(60, N)})\n"
        "       || N <- lists:seq(1, 2000)],\n"
        "  _ = [list_to_atom(\"made_\" ++ integer_to_list(N)) || N <- lists:seq(1, 100)],\n"
        "  io:put_chars([\"ready \", lists:last(text()), $\\n]).\n"
        "state(holder) -> <<Part:100/binary, _/binary>> = binary:copy(<<7>>, 300000), Part;\n"
        "state(whole) -> binary:copy(<<8>>, 300000);\n"
        "state(_) -> Sum = lists:sum(lists:seq(1, 50000)),\n"
        "  {state, Sum, Sum * 1.5, #{key => Sum, other => <<\"text\">>}, lists:seq(1, 200),\n"
        "   1 bsl 200, maps:from_list([{N, N} || N <- lists:seq(1, 100)])}.\n"
        "wait(thrifty, State) -> erlang:hibernate(?MODULE, woken, [State]);\n"
        "wait(capture, State) -> put(kept, fun() -> State end), receive stop -> ok end;\n"
        "wait(_, State) -> spend(), receive stop -> State end.\n"
        "spend() -> lists:sum(lists:seq(1, 20000)).\n"
        "woken(State) -> receive stop -> State end.\n"
        "text() -> \"").

%% The characters of the literal string.
-define(TEXT, 2000).

init_per_suite(Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "changes"),
    ok = filelib:ensure_path(Dir),
    File = filename:join(Dir, "tuned_program.erl"),
    ok = file:write_file(File, [?PROGRAM, lists:duplicate(?TEXT, $s), "\".\n"]),
    [{dir, Dir} | Config].

end_per_suite(_) -> ok.

from_a_dump(Config) ->
    [begin
         {ok, #{vm := #{processes := Processes}} = Account} =
             whittle_tune:explain(program(Erl, Config), #{seconds => 1}),
         #{changes := #{changes := Changes, notes := Notes}} = Account,
         Where = fun(What) -> {Erl, What, Changes} end,
         %% The gain of hibernation is that of the process that did hibernate.
         #{now := Now, then := Then} = change(hibernate, "wasteful", Changes),
         [Thrifty] = [Memory || #{name := <<"thrifty">>, memory := Memory} <- Processes],
         ?assert(Now > 3 * Then, Where(hibernate)),
         ?assert(abs(Then - Thrifty) < Thrifty div 5, Where({Then, Thrifty})),
         ?assertEqual(none, change(hibernate, "thrifty", Changes), Where(thrifty)),
         %% The variables of a function are not in the dump, so this process has no figure.
         ?assertEqual(none, change(hibernate, "capture", Changes), Where(capture)),
         ?assertMatch([_ | _], [Note || Note <- Notes, find(Note, "functions with variables")]),
         #{now := Large, then := Small} = change(binary, "holder", Changes),
         ?assert(Large >= 300_000 andalso Large < 301_000, Where(Large)),
         ?assert(Small >= 100 andalso Small < 300, Where(Small)),
         ?assertEqual(none, change(binary, "whole", Changes), Where(whole)),
         #{now := Atoms, then := 0} = change(atoms, "made_N", Changes),
         ?assert(Atoms > 100 * 40 andalso Atoms < 100 * 120, Where(Atoms)),
         #{now := List, then := Binary} = change(literals, "\"ssss", Changes),
         ?assertEqual(?TEXT * 16, List),
         ?assert(Binary > ?TEXT andalso Binary < ?TEXT + 200, Where(Binary)),
         ?assertMatch([_ | _], [Note || Note <- Notes, find(Note, "--node NAME")]),
         #{changes := #{list := [_ | _]}} = Json = whittle_tune:json(Account),
         _ = iolist_to_binary(whittle_json:encode(Json)),
         {[Head | _], Notes} = whittle_tune:changes(Account),
         ?assertEqual(["change to the code", "bytes now", "bytes then", "measured by"], Head)
     end || Erl <- erls()].

%% A running VM tells its tables too, and keeps running.
from_a_running_vm(Config) ->
    [begin
         Peer = peer(Erl, Config),
         Call = call(Peer),
         ok = Call(tuned_program, main, []),
         [ok = waiting(Name, Call) || Name <- [wasteful, thrifty, capture]],
         Procs = iolist_to_binary(Call(erlang, system_info, [procs])),
         #{changes := Changes, notes := [_]} = whittle_tune_live:changes(Call, Procs),
         Memory = fun(Name) ->
                          {memory, Bytes} = Call(erlang, process_info,
                                                 [Call(erlang, whereis, [Name]), memory]),
                          Bytes
                  end,
         #{now := Now, then := Then} = change(hibernate, "wasteful", Changes),
         ?assert(Now > 3 * Then, {Erl, Changes}),
         Thrifty = Memory(thrifty),
         ?assert(abs(Then - Thrifty) < Thrifty div 5, {Erl, Then, Thrifty}),
         #{} = change(hibernate, "capture", Changes),
         %% The sample tells the size of the whole table.
         #{now := Plain, then := Compressed} = change(table, "compressible", Changes),
         Rows = Call(ets, tab2list, [compressible]),
         {Words, Fewer} = whittle_tune_live:memory(Rows, [set]),
         ?assert(abs(Plain - Compressed - 8 * (Words - Fewer)) < (Plain - Compressed) / 10,
                 {Erl, Plain, Compressed, Words, Fewer}),
         peer:stop(Peer)
     end || Erl <- erls()].

%% A shaken node may lack a function: a note says so, and the rest is measured.
no_such_function(_) ->
    Call = fun(ets, all, []) -> throw({call, undef});
              (Module, Function, Arguments) -> apply(Module, Function, Arguments)
           end,
    Procs = iolist_to_binary(erlang:system_info(procs)),
    #{changes := Changes, notes := Notes} = whittle_tune_live:changes(Call, Procs),
    ?assertEqual([], [Change || #{kind := table} = Change <- Changes]),
    ?assertMatch([_], [Note || Note <- Notes, find(Note, "ETS tables of the node cannot be")]).

%% Half a dump gives changes too, and says that it is half a dump.
cut_off(_) ->
    Text = <<"=erl_crash_dump:0.5\nmade by a [64-bit] VM\n=proc:<0.1.0>\nState: Waiting\n"
             "Name: one\nStack+heap: 1000\nOldHeap: 0\nMemory: 9000\n"
             "Message queue length: 0\n=proc_heap:<0.1.0>\n1000:t2:I1,I2\n10">>,
    #{changes := [#{then := 1024}], notes := Notes} = whittle_tune_changes:from_dump(Text),
    ?assertMatch([_], [Note || Note <- Notes, find(Note, "is not complete")]),
    #{changes := []} = whittle_tune_changes:from_dump(<<>>).

%% Compression would make some rows larger; such a table is never listed.
rows_compress(_) ->
    {Plain, Compressed} = whittle_tune_live:memory([{N, lists:duplicate(60, N)}
                                                    || N <- lists:seq(1, 100)], [set]),
    ?assert(Compressed < 0.4 * Plain),
    {Small, Larger} = whittle_tune_live:memory([{N} || N <- lists:seq(1, 100)], [set]),
    ?assert(Larger >= Small).

small_gains(_) ->
    Change = fun(Kind, Now, Then) -> #{kind => Kind, name => "x", now => Now, then => Then,
                                       how => "x"} end,
    Few = [Change(atoms, 9000, 0), Change(hibernate, 8000, 1000), Change(hibernate, 20_000, 100)],
    ?assertEqual(lists:reverse(Few),
                 whittle_tune_changes:worth([Change(table, 4000, 0) | Few])),
    ?assertEqual(8, length(whittle_tune_changes:worth(lists:duplicate(20, hd(Few))))).

%% Internal functions

erls() ->
    [filename:join([code:root_dir(), "bin", "erl"])
     | [Erl || Lib <- whittle_runtime:otp_libs(#{}),
               Erl <- [filename:join([filename:dirname(Lib), "bin", "erl"])],
               filelib:is_regular(Erl)]].

%% Each release compiles the program for itself.
compiled(Erl, Config) ->
    Dir = proplists:get_value(dir, Config),
    "" = os:cmd("'" ++ filename:join(filename:dirname(Erl), "erlc") ++ "' -o '" ++ Dir ++ "' '"
                ++ filename:join(Dir, "tuned_program.erl") ++ "'"),
    Dir.

program(Erl, Config) ->
    Dir = compiled(Erl, Config),
    File = filename:join(Dir, "program"),
    ok = file:write_file(File, ["#!/bin/sh\nexec '", Erl, "' -noshell -pa '", Dir,
                                "' -s tuned_program main\n"]),
    ok = file:change_mode(File, 8#755),
    File.

peer(Erl, Config) ->
    {ok, Peer, _} = peer:start_link(#{exec => Erl, connection => standard_io,
                                      args => ["-pa", compiled(Erl, Config)]}),
    Peer.

call(Peer) -> fun(Module, Function, Arguments) -> peer:call(Peer, Module, Function, Arguments) end.

%% Asks until the process waits for a message.
waiting(Name, Call) ->
    case Call(erlang, process_info, [Call(erlang, whereis, [Name]), status]) of
        {status, waiting} -> ok;
        _ -> waiting(Name, Call)
    end.

change(Kind, Name, Changes) ->
    case [Change || #{kind := Of, name := Named} = Change <- Changes, Of =:= Kind,
                    string:prefix(unicode:characters_to_list(Named), Name) =/= nomatch] of
        [Change | _] -> Change;
        [] -> none
    end.

find(Text, Part) -> string:find(unicode:characters_to_list(Text), Part) =/= nomatch.
