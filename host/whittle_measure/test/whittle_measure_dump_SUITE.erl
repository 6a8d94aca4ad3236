%% Tests whittle_measure_dump on the text of VMs.
-module(whittle_measure_dump_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([own_text/1, processes/1, tables/1, word_size/1, blocks_of_others/1, block_of_the_dump/1,
         cut_off/1]).

all() -> [own_text, processes, tables, word_size, blocks_of_others, block_of_the_dump, cut_off].

%% The numbers in the text of this VM are those of erlang:memory/0 and of the allocators.
own_text(_) ->
    #{memory := #{<<"code">> := Code, <<"atom">> := Atoms},
      areas := #{<<"process_table">> := Table},
      allocators := #{<<"eheap_alloc">> := #{blocks := Heap, carriers := Carriers}},
      otp := Otp, atom_count := Count, process_count := Processes}
        = whittle_measure_dump:parse(iolist_to_binary(
                                    [[$\n, erlang:system_info(Item)]
                                     || Item <- [system_version, info, procs]])),
    ?assertEqual(list_to_binary(erlang:system_info(otp_release)), Otp),
    ?assert(abs(Code - erlang:memory(code)) < 200_000),
    ?assert(abs(Atoms - erlang:memory(atom)) < 100_000),
    ?assert(abs(Count - erlang:system_info(atom_count)) < 1000),
    ?assert(abs(Processes - length(processes())) < 20),
    ?assertEqual(element(2, lists:keyfind(process_table, 1,
                                          erlang:system_info(allocated_areas))), Table),
    ?assert(Heap > 0 andalso Heap < Carriers).

processes(_) ->
    #{processes := Processes} =
        whittle_measure_dump:parse(<<"=erl_crash_dump:0.5\nSystem version: Erlang/OTP 27 [64-bit]\n"
                                  "=proc:<0.0.0>\nState: Waiting\nName: init\nHeap unused: 10\n"
                                  "OldHeap unused: 20\nMemory: 5000\n"
                                  "=proc:<0.1.0>\nSpawned as: m:f/1\nMemory: 7000\n">>),
    ?assertEqual([#{name => <<"m:f/1">>, memory => 7000, unused => 0},
                  #{name => <<"init">>, memory => 5000, unused => 240}], Processes).

tables(_) ->
    ?assertMatch(#{tables := [#{name := <<"large">>, memory := 800},
                              #{name := <<"small">>, memory := 80}]},
                 whittle_measure_dump:parse(<<"=erl_crash_dump:0.5\nErlang/OTP 27 [64-bit]\n"
                                           "=ets:<0.1.0>\nName: small\nWords: 10\n"
                                           "=ets:<0.1.0>\nName: large\nWords: 100\n">>)).

%% A VM with 32 bits does not name its word size.
word_size(_) ->
    ?assertMatch(#{tables := [#{memory := 40}]},
                 whittle_measure_dump:parse(<<"=erl_crash_dump:0.5\nErlang/OTP 27 [smp:1:1]\n"
                                           "=ets:<0.1.0>\nWords: 10\n">>)).

%% A carrier may hold blocks of another allocator, and wait in a pool.
blocks_of_others(_) ->
    ?assertMatch(#{allocators := #{<<"ets_alloc">> := #{blocks := 15, carriers := 130,
                                                        most_blocks := 35, most_carriers := 190}}},
                 whittle_measure_dump:parse(
                   <<"=allocator:ets_alloc[0]\nmbcs blocks[ets_alloc] size: 1 2 10\n"
                     "mbcs blocks[eheap_alloc] size: 2 3 11\nmbcs carriers size: 30 40 50\n"
                     "=allocator:ets_alloc[1]\nmbcs blocks size: 4 5 6\n"
                     "mbcs carriers size: 40 50 60\n"
                     "sbcs blocks size: 8 8 8\nsbcs carriers size: 60 70 80\n">>)).

block_of_the_dump(_) ->
    ?assertMatch(#{allocators := #{<<"temp_alloc">> := #{blocks := 16384, carriers := 16384}}},
                 whittle_measure_dump:parse(
                   <<"=allocator:temp_alloc[0]\nmbcs blocks[temp_alloc] size: 65544 65544 65544\n"
                     "mbcs carriers size: 1064960 1064960 1064960\n"
                     "mbcs mseg carriers size: 1048576\nmbcs sys_alloc carriers size: 16384\n">>)).

%% A text that ends anywhere gives the numbers before its end.
cut_off(_) ->
    Text = iolist_to_binary([erlang:system_info(info), erlang:system_info(procs)]),
    [#{memory := _, processes := _}
         = whittle_measure_dump:parse(binary:part(Text, 0, byte_size(Text) * Part div 20))
     || Part <- lists:seq(0, 20)].
