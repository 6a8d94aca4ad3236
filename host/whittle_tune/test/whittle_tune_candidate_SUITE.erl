%% Tests the proposals: every value lies in the range of its setting.
-module(whittle_tune_candidate_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([legal/1, tried/1, tables_from_the_account/1, binaries_from_the_account/1,
         carriers_from_the_account/1, combinations/1, smallest/1, near/1]).

all() -> [legal, tried, tables_from_the_account, binaries_from_the_account,
          carriers_from_the_account, combinations, smallest, near].

legal(_) ->
    [begin
         {ok, Settings} = whittle_tune_settings:read(Otp),
         Moves = whittle_tune_candidate:moves(account(100, 10, 1_000_000), Settings),
         All = Moves ++ whittle_tune_candidate:references(Settings)
             ++ whittle_tune_candidate:combined("mix_", Moves, 100)
             ++ whittle_tune_candidate:extremes(Moves)
             ++ lists:append([whittle_tune_candidate:neighbours(Move, Settings) || Move <- Moves]),
         Names = [Name || #{name := Name} <- All],
         ?assertEqual(lists:sort(Names), lists:usort(Names)),
         [begin
              {ok, #{values := Range}} = whittle_tune_settings:find(Key, Settings),
              ?assert(is_legal(Value, Range), {Name, Key, Value})
          end || #{name := Name, values := Values} <- All, {Key, Value} <- maps:to_list(Values)]
     end || Otp <- whittle_tune_settings:releases()].

is_legal(Value, {Least, Most}) -> is_integer(Value) andalso Value >= Least andalso Value =< Most;
is_legal(Value, Values) -> lists:member(Value, Values).

%% Twice the most that there ever was, as a power of 2, and never below the VM's floor.
tables_from_the_account(_) ->
    ?assertMatch(#{processes := 1024, ports := 1024}, values(tables, account(40, 3, 1000))),
    ?assertMatch(#{processes := 8192, ports := 2048}, values(tables, account(3000, 700, 1000))),
    %% There were more processes before: their structures took 6 MB.
    #{vm := #{allocators := Allocators} = Vm} = Account = account(45, 1, 1000),
    Before = Vm#{allocators := Allocators#{<<"fix_alloc">> := #{most_blocks => 6_000_000,
                                                                        carriers => 1}}},
    ?assertMatch(#{processes := 32768}, values(tables, Account#{vm := Before})),
    %% The table is never larger than it is now.
    ?assertMatch(#{processes := 16384},
                 values(tables, Account#{vm := Before#{areas := #{<<"process_table">> =>
                                                                      16384 * 12}}})).

%% More than all binaries that there ever were, in words; nothing if the VM does not count them.
binaries_from_the_account(_) ->
    #{vm := #{allocators := Allocators} = Vm} = Account = account(45, 1, 1000),
    With = fun(Most, Carriers) ->
                   Binaries = #{most_blocks => Most, carriers => Carriers},
                   Account#{vm := Vm#{allocators := Allocators#{<<"binary_alloc">> => Binaries}}}
           end,
    [?assertEqual({Most, #{binary_heap => Words}},
                  {Most, values(kept_binaries, With(Most, 1))})
     || {Most, Words} <- [{1000, 46422}, {25_000_000, 46422 * 256}, {1 bsl 40, 31_936_144}]],
    {ok, Settings} = whittle_tune_settings:read(29),
    [?assertEqual([], [Name || #{name := kept_binaries = Name}
                                   <- whittle_tune_candidate:moves(Without, Settings)])
     || Without <- [Account, With(25_000_000, 0)]].

carriers_from_the_account(_) ->
    ?assertMatch(#{heap_carrier_least := 16, heap_carrier_most := 32},
                 values(fitted_carriers, account(40, 3, 50_000))),
    ?assertMatch(#{heap_carrier_least := 2048, heap_carrier_most := 2048},
                 values(fitted_carriers, account(40, 3, 12_000_000))).

%% A combination has one way to get memory and one way to collect it, and joins all else.
combinations(_) ->
    Group = fun(Group, Move) -> Move#{group => Group} end,
    Useful = [Group(allocation, move(min, allocators, min)), move(tables, processes, 1024),
              Group(allocation, move(small_carriers, carrier_least, 32)),
              Group(collection, move(fullsweep_0, fullsweep, 0)),
              move(dirty_threads, dirty_io_schedulers, 1)],
    [First | _] = Mixes = whittle_tune_candidate:combined("mix_", Useful, 4),
    ?assertEqual(4, length(Mixes)),
    ?assertEqual(#{allocators => min, processes => 1024, fullsweep => 0, dirty_io_schedulers => 1},
                 maps:get(values, First)),
    [?assertNot(is_map_key(allocators, Values) andalso is_map_key(carrier_least, Values))
     || #{values := Values} <- whittle_tune_candidate:combined("mix_", Useful, 100)],
    ?assertEqual([], whittle_tune_candidate:combined("mix_", [], 4)).

move(Name, Key, Value) -> #{name => Name, values => #{Key => Value}}.

%% Each value of a key of an application is a move; a combination has one of them.
tried(_) ->
    Settings = whittle_tune_settings:tried([{"relay", "workers", ["2", "{a,8}"]},
                                            {"kernel", "key", ["true"]}]),
    Moves = whittle_tune_candidate:tried(Settings),
    ?assertEqual(['relay workers=2', 'relay workers={a,8}', 'kernel key=true'],
                 [Name || #{name := Name} <- Moves]),
    [#{values := Values} | _] = whittle_tune_candidate:combined("mix_", Moves, 9),
    ?assertEqual([{"relay", "workers", "2"}, {"kernel", "key", "true"}],
                 whittle_tune_settings:config(Values, Settings)),
    ?assertEqual({[], []}, whittle_tune_settings:command(Values, Settings)),
    Text = whittle_tune_report:text("p", #{best => best, settings => Settings,
                                           candidates => [#{name => best, values => Values}]}),
    {ok, [#{config := [{relay, [{workers, 2}]}, {kernel, [{key, true}]}]}]} =
        whittle_term:parse(Text),
    %% Many groups have more choices than a search can run.
    Many = whittle_tune_settings:tried([{"a", [Char], ["1", "2", "3"]}
                                        || Char <- lists:seq($a, $z)]),
    ?assertEqual(6, length(whittle_tune_candidate:combined(
                             "mix_", whittle_tune_candidate:tried(Many), 6))).

%% The extremes contain the moves that name them, and lack a move that is not there.
smallest(_) ->
    Moves = [(move(tables, processes, 1024))#{always => [all_min, all_small]},
             (move(min, allocators, min))#{always => [all_min]},
             (move(one_small, carrier_least, 32))#{always => [all_small]},
             move(one_instance, instances, false)],
    ?assertEqual([#{name => all_min, values => #{processes => 1024, allocators => min}},
                  #{name => all_small, values => #{processes => 1024, carrier_least => 32}}],
                 whittle_tune_candidate:extremes(Moves)),
    ?assertEqual([#{name => all_min, values => #{allocators => min}},
                  #{name => all_small, values => #{carrier_least => 32}}],
                 whittle_tune_candidate:extremes(tl(Moves))),
    {ok, Settings} = whittle_tune_settings:read(29),
    Real = whittle_tune_candidate:extremes(
             whittle_tune_candidate:moves(account(100, 10, 1_000_000), Settings)),
    ?assertMatch([#{name := all_kept, values := #{heap_single := 64, heap := 128} = Kept},
                  #{name := all_least, values := #{small_types := malloc, binary_heap := 4181}},
                  #{name := all_min, values := #{allocators := min}},
                  #{name := all_small, values := #{instances := false}}]
                   when not is_map_key(small_types, Kept), Real).

%% Tables stay as they are.
near(_) ->
    {ok, Settings} = whittle_tune_settings:read(29),
    Near = whittle_tune_candidate:neighbours(
             #{name => mix_1, values => #{processes => 2048, carrier_least => 64, fullsweep => 10,
                                          allocators => default}}, Settings),
    ?assertEqual([mix_1_carriers_half, mix_1_carriers_twice, mix_1_fullsweep_half,
                  mix_1_fullsweep_twice], lists:sort([Name || #{name := Name} <- Near])),
    [?assertMatch(#{processes := 2048, allocators := default}, Values)
     || #{values := Values} <- Near].

%% Internal functions

values(Name, Account) ->
    {ok, Settings} = whittle_tune_settings:read(29),
    [Values] = [Values || #{name := Of, values := Values}
                              <- whittle_tune_candidate:moves(Account, Settings), Of =:= Name],
    Values.

account(Processes, Ports, Heap) ->
    Allocator = #{blocks => Heap, most_blocks => Heap, carriers => Heap, most_carriers => Heap},
    Whole = #{blocks => 100, most_blocks => 100, carriers => 100, most_carriers => 100},
    #{vm => #{areas => #{}, process_count => Processes, port_count => Ports,
              allocators => #{<<"eheap_alloc">> => Allocator, <<"fix_alloc">> => Whole,
                              <<"driver_alloc">> => Whole}}}.
