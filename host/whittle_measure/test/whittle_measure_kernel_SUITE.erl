%% Tests whittle_measure_kernel: the kinds of mappings.
-module(whittle_measure_kernel_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([own/1, kinds/1, stack_below_others/1, emulated/1, no_process/1]).

all() -> [own, kinds, stack_below_others, emulated, no_process].

%% The groups of this VM add up to what the kernel says in smaps_rollup.
own(_) ->
    {ok, #{rss := Rss, groups := Groups}} =
        whittle_measure_kernel:read(list_to_integer(os:getpid())),
    ?assertEqual(Rss, lists:sum([Each || #{rss := Each} <- maps:values(Groups)])),
    #{rss := Rolled} = whittle_measure_process:memory(list_to_integer(os:getpid())),
    ?assert(abs(Rolled - Rss) < Rss div 5),
    #{program := #{rss := Program}, libraries := _, stacks := #{rss := Stacks}} = Groups,
    ?assert(Program > 1_000_000),
    ?assert(Stacks > 0 andalso Stacks < 10_000_000).

kinds(_) ->
    ?assertEqual(
       #{program => sizes(8, 4), data => sizes(8, 6), heap => sizes(68, 9),
         anonymous => sizes(4, 1), stacks => sizes(4, 2), libraries => sizes(4, 3),
         files => sizes(4, 4), jit => sizes(12, 5), system => sizes(4, 0)},
       groups([{"400000", 8, "r-xp", "/bin/vm", 4}, {"402000", 4, "rw-p", "/bin/vm", 3},
               {"403000", 4, "rw-p", "", 3},
               {"500000", 4, "rw-p", "[heap]", 4},
               {"10000000", 64, "rw-p", "", 5}, {"10010000", 65472, "---p", "", 0},
               {"20000000", 4, "rw-p", "", 1},
               {"20001000", 4, "---p", "", 0},
               {"20002000", 4, "rw-p", "[stack]", 2},
               {"20003000", 4, "r--p", "/lib/libc.so.6", 3},
               {"20004000", 4, "r--p", "/usr/lib/locale", 4},
               {"20005000", 4, "r-xp", "", 1},
               {"20006000", 8, "rw-s", "/memfd:vmem (deleted)", 4},
               {"20008000", 4, "r-xp", "[vdso]", 0}], [])).

%% The kernel joins a stack with the mapping above it. The page table then tells the stack's part.
stack_below_others(_) ->
    Mapping = [{"10000000", 4, "---p", "", 0}, {"10001000", 128, "rw-p", "", 60}],
    ?assertEqual(#{anonymous => sizes(128, 60)}, groups(Mapping, [])),
    %% The pointer is in the ninth page; four pages above its own belong to the stack.
    ?assertEqual(#{stacks => sizes(52, 8), anonymous => sizes(76, 52)},
                 groups(Mapping, [16#10009010], fun(16#10001000, 16#1000E000) -> 8192 end)),
    ?assertEqual(#{stacks => sizes(52, 16), anonymous => sizes(76, 44)},
                 groups(Mapping, [16#10009010])),
    %% Without a mapping above it, the whole mapping is the stack.
    ?assertEqual(#{stacks => sizes(128, 60), anonymous => sizes(0, 0)},
                 groups(Mapping, [16#1001F010])).

%% Below the file of an emulator lies the emulated program; the rest is the emulator's. Without such
%% a file, all mappings count.
emulated(_) ->
    Text = iolist_to_binary(
             ["00011000-00012000 r--p 00000000 fe:00 5 /out/vm\nRss: 4 kB\nPss: 2 kB\n"
              "Anonymous: 0 kB\n40002000-40003000 rw-p 00000000 00:00 0\nRss: 3 kB\nPss: 3 kB\n"
              "Anonymous: 3 kB\nVmFlags: rd\n",
              "564970e32000-564970e33000 r--p 00000000 fe:00 6 /usr/bin/qemu-arm\nRss: 4 kB\n"]),
    Found = fun(Emulator) ->
                    [{Path, Rss div 1024, Pss div 1024, Anonymous div 1024}
                     || #{path := Path, rss := Rss, pss := Pss, anonymous := Anonymous}
                            <- whittle_measure_mappings:parse(Text, Emulator)]
            end,
    Program = [{<<"/out/vm">>, 4, 2, 0}, {<<>>, 3, 3, 3}],
    ?assertEqual(Program, Found(<<"/usr/bin/qemu-arm">>)),
    ?assertEqual(Program ++ [{<<"/usr/bin/qemu-arm">>, 4, 0, 0}], Found(none)),
    ?assertEqual(Found(none), Found(<<"/out/vm">>)).

no_process(_) ->
    ?assertEqual({error, enoent}, whittle_measure_kernel:read(4_194_305)).

%% Internal functions

sizes(Size, Rss) -> #{size => 1024 * Size, rss => 1024 * Rss}.

groups(Mappings, Pointers) -> groups(Mappings, Pointers, fun(_, _) -> unknown end).

groups(Mappings, Pointers, Present) ->
    Text = [io_lib:format("~s-~.16b ~s 00000000 00:00 0   ~s\nSize: ~b kB\nRss: ~b kB\nPss: 0 kB\n",
                          [From, list_to_integer(From, 16) + 1024 * Size, Access, Path, Size, Rss])
            || {From, Size, Access, Path, Rss} <- Mappings],
    #{groups := Groups} = whittle_measure_kernel:parse(iolist_to_binary(Text), <<"/bin/vm">>,
                                                    Pointers, Present),
    Groups.
