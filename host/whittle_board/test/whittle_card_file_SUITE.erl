%% Tests the bytes of cards, the script of U-Boot, and the checks before a disk is written. mtools,
%% fsck.fat and mkimage read or write the same formats for a comparison, if they are here.
-module(whittle_card_file_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([parts/1, same_bytes/1, too_large/1, damaged/1, next/1, installed/1, other_board/1, cut/1,
         any_bytes/1, kinds/1, board_without_cards/1, boards/1, command/1, fat/1, fat_files/1,
         wrapped/1, environment/1, free_disk/1, refused_disk/1, mounts/1, numbers/1, copied/1,
         loop_device/1, claimed_elsewhere/1, no_disk/1, errors/1]).

all() ->
    [parts, same_bytes, too_large, damaged, next, installed, other_board, cut, any_bytes, kinds,
     board_without_cards, boards, command, fat, fat_files, wrapped, environment, free_disk,
     refused_disk, mounts, numbers, copied, loop_device, claimed_elsewhere, no_disk, errors].

-define(SECTOR, 512).

init_per_testcase(Case, Config) -> made:dir(Case, Config).

end_per_testcase(_, _) -> ok.

board() ->
    {ok, #{card := Card} = Board} = whittle_board:board("qemu-arm"),
    Board#{card := Card#{slot := 4, data := 1}}.

image(Bytes) ->
    Parts = [#{name => <<"all">>, stored => byte_size(Bytes), raw => 7}],
    whittle_board_label:add_for_slot(Bytes, #{board => <<"qemu-arm">>, target => <<"armv7">>,
                                              name => <<"n">>, version => <<"1">>,
                                              parts => Parts}).

card(Bytes) ->
    {ok, Card} = whittle_board_card:make(board(), image(Bytes)),
    Card.

layout() -> whittle_card:layout(#{slot => 4, data => 1}).

parts(_) ->
    made:holds(20, proper_types:binary(),
               fun(Bytes) ->
                       Card = card(Bytes),
                       {ok, #{size := Size, parts := Parts, a := {image, Label},
                              b := {image, Label}, damaged := [], good := a, trial := none,
                              board := <<"qemu-arm">>}} =
                           whittle_board_card:read(Card),
                       Size =:= byte_size(Card)
                           andalso lists:sum([B || #{bytes := B} <- Parts]) =:= Size
                           andalso lists:all(fun(#{bytes := B, data := D}) -> D =< B end, Parts)
               end).

same_bytes(_) -> ?assertEqual(card(<<"one">>), card(<<"one">>)).

too_large(_) ->
    Room = 4 * 1024 * 1024 - ?SECTOR,
    Most = Room - (byte_size(image(<<0:(Room - 2000)/unit:8>>)) - (Room - 2000)),
    ?assertMatch({ok, _}, whittle_board_card:make(board(), image(<<0:Most/unit:8>>))),
    ?assertEqual({error, {too_large, Room}},
                 whittle_board_card:make(board(), image(<<0:(Most + 1)/unit:8>>))).

%% One damaged slot or copy of the state does not matter; other damage does.
damaged(_) ->
    #{a := {A, _}, b := {B, _}, boot := {Boot, _}, state := {One, Two}} = layout(),
    Card = card(rand:bytes(3000)),
    [?assertMatch({ok, #{damaged := [Part]}}, whittle_board_card:read(changed(Card, [Sector])))
     || {Part, Sector} <- [{<<"copy 1 of the boot state">>, One},
                           {<<"copy 2 of the boot state">>, Two},
                           {<<"slot A">>, A}, {<<"slot A">>, A + 2}, {<<"slot B">>, B},
                           {<<"slot B">>, B + 6}]],
    {ok, #{damaged := [_, _, _]}} = whittle_board_card:read(changed(Card, [One, Two, B])),
    [?assertEqual({error, {damaged, Part}}, whittle_board_card:read(changed(Card, Sectors)))
     || {Part, Sectors} <- [{<<"the first sector">>, [0]}, {<<"the boot partition">>, [Boot]},
                            {<<"the boot partition">>, [Boot + 7]},
                            {<<"both slots">>, [A, B + 1]}]],
    %% An empty slot is no damage.
    {ok, #{b := empty, damaged := []}} = whittle_board_card:read(zeroed(Card, B)).

%% The next boot starts the slot on trial if it has a try left and an image, and the other slot if
%% the first one has none.
next(_) ->
    #{a := {A, _}, b := {B, _}, state := {One, Two}} = layout(),
    Card = card(<<"x">>),
    Marked = whittle_card:marked(whittle_card:new_state(), b),
    {b, Tried} = whittle_card:started(Marked),
    [begin
         Bytes = changed(sector(sector(Card, One, whittle_card:state(State)), Two,
                                <<0:?SECTOR/unit:8>>), Damaged),
         {ok, #{next := Next, tries := Tries} = Read} = whittle_board_card:read(Bytes),
         ?assertEqual({State, Damaged, Slot}, {State, Damaged, Next}),
         ?assertEqual(maps:get(tries, State), Tries),
         Table = unicode:characters_to_list(whittle_image_table:card(Read, "x.card")),
         ?assertNotEqual({nomatch, Table}, {string:find(Table, "\n\n" ++ Text), Table})
     end || {State, Damaged, Slot, Text} <-
                [{whittle_card:new_state(), [], a, "The next boot starts slot A.\nDamaged"},
                 {whittle_card:new_state(), [A], b, "The next boot starts slot B.\n"},
                 {Marked, [], b, "The next boot starts slot B on trial.\n"},
                 {Marked, [A], b, "The next boot starts slot B on trial.\n"},
                 {Marked, [B], a, "The next boot starts slot A.\n"},
                 {Tried, [], a, "The next boot starts slot A.\nThe trial of slot B is over, and "
                  "nobody confirmed its image.\n"},
                 {whittle_card:confirmed(Tried, b), [], b, "The next boot starts slot B.\n"}]].

sector(Card, Sector, Bytes) ->
    At = Sector * ?SECTOR,
    <<Before:At/binary, _:?SECTOR/binary, After/binary>> = Card,
    <<Before/binary, Bytes/binary, After/binary>>.

%% The library of the board reads the label that Whittle writes, and Whittle the card that the board
%% has written.
installed(Config) ->
    Dir = proplists:get_value(dir, Config),
    [Card, New] = [filename:join(Dir, Name) || Name <- ["a.card", "new.slot"]],
    ok = file:write_file(Card, card(<<"old">>)),
    ok = file:write_file(New, image(rand:bytes(70_000))),
    Variables = [{"WHITTLE_CARD", Card}, {"WHITTLE_BOARD", "qemu-arm"}, {"WHITTLE_SLOT", "a"}],
    [true = os:putenv(Name, Value) || {Name, Value} <- Variables],
    ok = application:start(whittle_board_device),
    try
        ?assertEqual(ok, whittle_board_device:install(New)),
        ?assertMatch({ok, #{next := b, good := a, tries := 1, damaged := []}},
                     whittle_board:card(Card))
    after
        _ = application:stop(whittle_board_device),
        [os:unsetenv(Name) || {Name, _} <- Variables]
    end.

%% The label of the card has a good sum, and names another board than the images, or no name at all.
other_board(_) ->
    <<First:?SECTOR/binary, Rest/binary>> = card(<<"x">>),
    {ok, {Layout, Label}} = whittle_card:read_first_sector(First),
    [?assertEqual({error, {damaged, Part}},
                  whittle_board_card:read(
                    <<(whittle_card:first_sector(Layout, Label#{board := Name}))/binary,
                      Rest/binary>>))
     || {Name, Part} <- [{<<"qemu-aarch64">>, <<"slot A has an image for another board">>},
                         {<<255, 254>>, <<"the first sector">>},
                         {<<"../x">>, <<"the first sector">>}]].

changed(Card, []) -> Card;
changed(Card, [Sector | Sectors]) ->
    At = Sector * ?SECTOR + 20,
    <<Before:At/binary, Byte, After/binary>> = Card,
    changed(<<Before/binary, (Byte bxor 1), After/binary>>, Sectors).

zeroed(Card, Sector) -> sector(Card, Sector, <<0:?SECTOR/unit:8>>).

cut(_) ->
    Card = card(<<"x">>),
    [?assertEqual({Size, {error, cut}},
                  {Size, whittle_board_card:read(binary:part(Card, 0, Size))})
     || Size <- [512, 513, 1024 * 1024, byte_size(Card) - 1]],
    %% A disk may be larger than its card.
    ?assertMatch({ok, _}, whittle_board_card:read(<<Card/binary, 1>>)).

any_bytes(_) ->
    made:holds(300, proper_types:binary(),
               fun(Bytes) -> whittle_board_card:read(Bytes) =:= {error, not_a_card} end),
    ?assertEqual({error, {damaged, <<"the first sector">>}},
                 whittle_board_card:read(binary:part(card(<<"x">>), 0, 511))).

%% The command finds out by the first and the last bytes what a file is.
kinds(Config) ->
    File = filename:join(proplists:get_value(dir, Config), "a.card"),
    Card = card(<<"x">>),
    ok = file:write_file(File, Card),
    ?assertEqual(card, whittle_board:kind(File)),
    ?assertEqual(ok, whittle_board:check_output(File)),
    {ok, #{size := Size}} = whittle_board:card(File),
    ?assertEqual(byte_size(Card), Size),
    {ok, #{words := Words, notes := [], environment := _}} =
        whittle_board:emulator(File, #{environment => "/e"}),
    ?assert(lists:member("if=none,id=card,format=raw,snapshot=on,file=" ++ File, Words)),
    {error, NoNetwork} = whittle_board:emulator(File, #{environment => "/e", forward => [{1, 1}]}),
    said(NoNetwork, "has no network"),
    ok = file:write_file(File, binary:part(Card, 0, 5000)),
    ?assertEqual(card, whittle_board:kind(File)),
    {error, Cut} = whittle_board:emulator(File, #{environment => "/e"}),
    said(Cut, "is a card without its end"),
    ok = file:write_file(File, changed(Card, [2048])),
    {error, Damaged} = whittle_board:card(File),
    said(Damaged, "is a damaged card (the boot partition)"),
    %% A text is no card, also if it has the same word at the same place.
    ok = file:write_file(File, "the card=5 of hearts"),
    ?assertEqual(other, whittle_board:kind(File)),
    ?assertEqual({error, {not_ours, File}}, whittle_board:check_output(File)),
    %% An image for a slot boots without a card too.
    ok = file:write_file(File, image(<<"x">>)),
    ?assertEqual(image, whittle_board:kind(File)),
    ?assertMatch({ok, #{crc32 := _}}, whittle_board:label(File)),
    {error, NoCard} = whittle_board:card(File),
    said(NoCard, "is no card").

%% The label of a card may name a board without cards.
board_without_cards(Config) ->
    File = filename:join(proplists:get_value(dir, Config), "a.card"),
    {ok, Emulated} = whittle_board:board("qemu-aarch64"),
    ?assertNot(is_map_key(card, Emulated)),
    Image = whittle_board_label:add_for_slot(<<"x">>,
                                             #{board => <<"qemu-aarch64">>, target => <<"aarch64">>,
                                               name => <<"n">>, version => <<"1">>,
                                               parts => [#{name => <<"all">>, stored => 1,
                                                           raw => 1}]}),
    {ok, Card} = whittle_board_card:make((board())#{name := "qemu-aarch64"}, Image),
    ok = file:write_file(File, Card),
    case os:find_executable("qemu-system-aarch64") of
        false -> {skip, "no qemu-system-aarch64: tools/setup board"};
        _ ->
            {error, Reason} = whittle_board:emulator(File, #{environment => "/e"}),
            ?assertEqual({card_without_board, {File, "qemu-aarch64"}}, Reason),
            said(Reason, "the description of its board qemu-aarch64 has no card")
    end.

%% Mistakes in the description of a card.
boards(Config) ->
    {ok, Good} = file:consult(filename:join(code:priv_dir(whittle_board),
                                            "boards/qemu-arm.config")),
    {card, Pairs} = lists:keyfind(card, 1, Good),
    [begin
         File = filename:join(proplists:get_value(dir, Config), "mine.config"),
         Terms = lists:keystore(card, 1, Good, {card, Wrong}),
         ok = file:write_file(File, [io_lib:format("~tp.~n", [Term]) || Term <- Terms]),
         {error, {bad_board, _} = Reason} = whittle_board:board(File),
         said(Reason, Text)
     end || {Wrong, Text} <-
                [{5, "the value of card must be a list"},
                 {[slot], "the value of card must be a list"},
                 {lists:keydelete(load, 1, Pairs), "in card, the key load is missing"},
                 {[{speed, 4} | Pairs], "in card, there is no key speed"},
                 {[{slot, 4} | Pairs], "in card, slot is there twice"},
                 {lists:keystore(slot, 1, Pairs, {slot, 6}),
                  "in card, the value of slot must be a number of megabytes from 4 to 256"},
                 %% U-Boot would read an image of 12 MB over itself.
                 {lists:keystore(slot, 1, Pairs, {slot, 12}),
                  "in card, the value of least_memory must be 35 at least: 4 MB below the image, "
                  "12 MB for a slot, and 19 MB for the boot loader"},
                 {lists:keystore(load, 1, Pairs, {load, 16#3FF00000}),
                  "in card, the value of load must not be below that of memory_start"},
                 {lists:keystore(memory, 1, Pairs, {memory, 31}),
                  "in card, the value of memory must not be below that of least_memory"},
                 {lists:keystore(start, 1, Pairs, {start, "a\"b"}),
                  "in card, the value of start must be a string without"},
                 {lists:keystore(environment, 1, Pairs, {environment, [{"a", 5}]}),
                  "in card, the value of environment must be a list"}]],
    ok = file:write_file(filename:join(proplists:get_value(dir, Config), "mine.config"),
                         [io_lib:format("~tp.~n", [Term])
                          || Term <- lists:keystore(arch, 1, Good, {arch, "m68k"})]),
    {error, Arch} = whittle_board:board(filename:join(proplists:get_value(dir, Config),
                                                      "mine.config")),
    said(Arch, "in card, U-Boot's number of the processor m68k is not known"),
    #{name := Name} = Board = maps:remove(card, board()),
    ?assertEqual({error, {no_cards, Name}}, whittle_board:check_form(Board, slot)),
    ?assertEqual(ok, whittle_board:check_form(Board, image)).

command(_) ->
    Words = whittle_board_emulator:card_command(board(), "a,b", #{environment => "/e,f"}),
    ?assert(lists:member("loader,file=/e,,f,addr=0x4000000,force-raw=on", Words)),
    ?assert(lists:member("if=none,id=card,format=raw,snapshot=on,file=a,,b", Words)),
    ?assert(lists:member("32M", Words)),
    ?assertNot(lists:member("-kernel", Words)),
    Kept = whittle_board_emulator:card_command(board(), "a", #{environment => "/e", keep => true,
                                                              memory => 64}),
    ?assert(lists:member("if=none,id=card,format=raw,snapshot=off,file=a", Kept)),
    ?assert(lists:member("64M", Kept)).

%% Reads the file systems back, as Microsoft's description of FAT says.
fat(_) ->
    made:holds(200, proper_types:list(proper_types:non_empty(proper_types:binary())),
               fun(Contents) ->
                       Numbered = lists:sublist(lists:enumerate(Contents), 16),
                       Files = [{"f" ++ integer_to_list(N) ++ ".bin", Bytes}
                                || {N, Bytes} <- Numbered],
                       Volume = whittle_board_fat:volume(2048, 2048, Files),
                       byte_size(Volume) =:= 2048 * ?SECTOR andalso
                           read_fat(Volume) =:= [{string:uppercase(Name), Bytes}
                                                 || {Name, Bytes} <- Files]
               end).

read_fat(<<_:11/binary, 512:16/little, Cluster, 1:16/little, 2, Entries:16/little, _:16,
           16#F8, Fat:16/little, _/binary>> = Volume) ->
    Table = binary:part(Volume, ?SECTOR, Fat * ?SECTOR),
    Table = binary:part(Volume, (1 + Fat) * ?SECTOR, Fat * ?SECTOR),
    Root = (1 + 2 * Fat) * ?SECTOR,
    Data = Root + Entries * 32,
    [{string:trim(binary_to_list(Stem)) ++ "." ++ string:trim(binary_to_list(Extension)),
      binary:part(iolist_to_binary([binary:part(Volume, Data + (N - 2) * Cluster * ?SECTOR,
                                                Cluster * ?SECTOR)
                                    || N <- chain(Table, First)]), 0, Size)}
     || <<Stem:8/binary, Extension:3/binary, _:15/binary, First:16/little, Size:32/little>>
            <= binary:part(Volume, Root, Entries * 32), Stem =/= <<0:64>>].

chain(_, Last) when Last >= 16#FF8 -> [];
chain(Table, N) ->
    <<Pair:24/little>> = binary:part(Table, N div 2 * 3, 3),
    [N | chain(Table, case N rem 2 of
                          0 -> Pair band 16#FFF;
                          1 -> Pair bsr 12
                      end)].

%% Other programs read the same file system.
fat_files(Config) ->
    File = filename:join(proplists:get_value(dir, Config), "volume"),
    Bytes = rand:bytes(30_000),
    ok = file:write_file(File, whittle_board_fat:volume(2048, 2048, [{"boot.scr", Bytes},
                                                                     {"b.txt", <<"two">>}])),
    case {os:find_executable("fsck.fat"), os:find_executable("mtype")} of
        {Check, Type} when Check =/= false, Type =/= false ->
            Said = os:cmd(Check ++ " -n " ++ File ++ "; echo code $?"),
            ?assertNotEqual({nomatch, Said}, {string:find(Said, "2 files, 16/510 clusters\ncode 0"),
                                              Said}),
            Out = File ++ ".out",
            "" = os:cmd("mtype -i " ++ File ++ " ::boot.scr >" ++ Out),
            ?assertEqual({ok, Bytes}, file:read_file(Out)),
            ?assertEqual("two", os:cmd("mtype -i " ++ File ++ " ::B.TXT"));
        _ -> {skip, "no mtools or fsck.fat: tools/setup board"}
    end.

%% mkimage writes the same bytes.
wrapped(Config) ->
    case os:find_executable("mkimage") of
        false -> {skip, "no mkimage: tools/setup board"};
        _ ->
            In = filename:join(proplists:get_value(dir, Config), "script"),
            [begin
                 Script = whittle_board_uboot:script(board(), layout()),
                 ok = file:write_file(In, Script),
                 _ = os:cmd("SOURCE_DATE_EPOCH=0 mkimage -A " ++ Arch ++ " -O linux -T script"
                            " -C none -n Whittle -d " ++ In ++ " " ++ In ++ ".scr"),
                 ?assertEqual({ok, whittle_board_uboot:wrapped(Arch, Script)},
                              file:read_file(In ++ ".scr"))
             end || Arch <- ["arm", "arm64", "mips", "riscv"]]
    end.

%% The flash memory has zeros after the environment.
environment(_) ->
    Bytes = whittle_board_uboot:environment([{"a", "b"}, {"bootdelay", "-2"}]),
    Room = 16#40000 - byte_size(Bytes),
    ?assertEqual({ok, #{<<"a">> => <<"b">>, <<"bootdelay">> => <<"-2">>}},
                 whittle_card:read_record(<<Bytes/binary, 0:Room/unit:8>>)).

free() ->
    #{device => "/dev/sdx", number => "8:368", whole => true, size => 5000, sector => 512,
      read_only => false, mounts => [], swap => false, holders => []}.

free_disk(_) ->
    ?assertEqual(ok, whittle_board_disk:refusal(free(), 5000)),
    ?assertEqual(ok, whittle_board_disk:refusal(free(), 1)).

refused_disk(_) ->
    [?assertEqual({error, Reason},
                  whittle_board_disk:refusal(maps:merge(free(), Facts), 5000))
     || {Reason, Facts} <-
            [{{small, "/dev/sdx", 4999, 5000}, #{size => 4999}},
             {{partition, "/dev/sdx"}, #{whole => false}},
             {{read_only, "/dev/sdx"}, #{read_only => true}},
             {{sectors, "/dev/sdx", 4096}, #{sector => 4096}},
             {{mounted, "/dev/sdx", "/media/card"}, #{mounts => ["/media/card"]}},
             {{system, "/dev/sdx"}, #{mounts => ["/boot", "/"]}},
             {{swap, "/dev/sdx"}, #{swap => true}},
             {{held, "/dev/sdx", "dm-0"}, #{holders => ["dm-0"]}}]].

%% Lines of /proc/self/mountinfo. Two lines have the same disk. One has a space in its place. A
%% btrfs has a device of its own.
mounts(_) ->
    Text = <<"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n"
             "30 22 8:1 /home /home rw - ext4 /dev/root rw\n"
             "31 22 8:17 / /media/my\\040card\\134x rw,nosuid shared:2 - vfat /dev/x rw\n"
             "32 22 0:5 / /dev rw - devtmpfs udev rw\n"
             "33 22 0:44 / /data rw - btrfs /dev/null rw\n"
             "strange line\n"/utf8>>,
    [?assertEqual({Numbers, Places}, {Numbers, whittle_board_disk:mounts(Text, Numbers)})
     || {Numbers, Places} <- [{["8:1"], ["/", "/home"]},
                              {["8:16", "8:17"], ["/media/my card\\x"]},
                              {["8:2"], []}, {["1:3"], ["/data"]}]],
    ?assertEqual([], whittle_board_disk:mounts(<<>>, ["8:1"])).

%% Linux's own numbers: 8:0, 8:17, 259:3, and a minor number with more than 8 bits.
numbers(_) ->
    ?assertEqual(["8:0", "8:17", "259:3", "8:256", "253:1048575"],
                 [whittle_board_disk:number(N)
                  || N <- [16#800, 16#811, 16#10303, 16#100800, 16#FFF0FDFF]]).

%% The disk is no card before it has shown all other bytes. Between the bytes and each look at them,
%% the disk gets them and the kernel forgets them.
copied(Config) ->
    Dir = proplists:get_value(dir, Config),
    Card = <<First:?SECTOR/binary, _/binary>> = card(rand:bytes(5_000)),
    Size = byte_size(Card),
    Disk = filename:join(Dir, "disk"),
    ok = file:write_file(Disk, rand:bytes(Size + 5)),
    {ok, Calls} = calls([{file, pwrite, 3}, {file, pread, 3}, {file, sync, 1}, {file, advise, 4}],
                        fun() -> copy(Disk, Card) end),
    [{pwrite, 0, <<0:?SECTOR/unit:8>>}, sync | Rest] = Calls,
    {Before, [{pwrite, 0, First}, sync, advise, {pread, 0, ?SECTOR}]} =
        lists:splitwith(fun(Call) -> Call =/= {pwrite, 0, First} end, Rest),
    {Writes, [sync, advise | Reads]} = lists:splitwith(fun(Call) -> Call =/= sync end, Before),
    ?assertEqual(Size, lists:foldl(fun({pwrite, At, Bytes}, At) -> At + byte_size(Bytes) end,
                                   ?SECTOR, Writes)),
    ?assertEqual(Size, lists:foldl(fun({pread, At, Count}, At) -> At + Count end,
                                   ?SECTOR, Reads)),
    {ok, <<Written:Size/binary, _:5/binary>>} = file:read_file(Disk),
    ?assert(Written =:= Card).

copy(Disk, Card) ->
    {ok, Fd} = file:open(Disk, [read, write, raw, binary]),
    ok = whittle_board_disk:copy(Fd, Card, fun(_) -> ok end),
    file:close(Fd).

%% Returns the calls of these functions while a process of its own runs a function.
calls(Functions, Fun) ->
    {Pid, Monitor} = spawn_monitor(fun() ->
                                           receive go -> exit({result, Fun()}) end
                                   end),
    1 = erlang:trace(Pid, true, [call]),
    [1 = erlang:trace_pattern(Function, true, [global]) || Function <- Functions],
    Pid ! go,
    {result, Result} = receive {'DOWN', Monitor, _, _, Reason} -> Reason end,
    Ref = erlang:trace_delivered(Pid),
    receive {trace_delivered, _, Ref} -> ok end,
    [1 = erlang:trace_pattern(Function, false, [global]) || Function <- Functions],
    {Result, traced()}.

traced() ->
    receive
        {trace, _, call, {_, Name, _}} when Name =:= sync; Name =:= advise -> [Name | traced()];
        {trace, _, call, {_, Name, [_, At, What]}} -> [{Name, At, What} | traced()];
        {trace, _, call, {_, Name, _}} -> [Name | traced()]
    after 0 -> []
    end.

%% Writes to a loop device, if this machine has one and the test is root.
loop_device(Config) ->
    Dir = proplists:get_value(dir, Config),
    [Disk, File] = [filename:join(Dir, Name) || Name <- ["disk", "a.card"]],
    Card = card(rand:bytes(10_000)),
    Larger = byte_size(Card) + 1024 * 1024,
    ok = file:write_file(Disk, binary:copy(<<16#5A>>, Larger)),
    ok = file:write_file(File, Card),
    case string:trim(os:cmd("losetup -f --show " ++ Disk ++ " 2>/dev/null")) of
        "/dev/loop" ++ _ = Loop ->
            try
                ?assertEqual({ok, #{size => byte_size(Card)}}, written(File, Loop)),
                noted(File, Loop),
                _ = os:cmd("blockdev --flushbufs " ++ Loop),
                {ok, Written} = file:read_file(Disk),
                Size = byte_size(Card),
                ?assert(binary:part(Written, 0, Size) =:= Card),
                %% It leaves the rest of the disk alone.
                ?assertEqual(binary:copy(<<16#5A>>, Larger - Size),
                             binary:part(Written, Size, Larger - Size)),
                ?assertMatch({ok, #{mounts := []}}, whittle_board_disk:facts(Loop)),
                in_use(Loop, Dir, File, Disk)
            after
                os:cmd("losetup -d " ++ Loop)
            end;
        _ -> {skip, "no loop device, or not root"}
    end.

written(File, Device) -> whittle_board:write(File, Device, fun(_) -> ok end).

%% A command that is stopped before the end says that the disk has a part of the card.
noted(File, Loop) ->
    Test = self(),
    Tell = fun(Event) -> Test ! {Event, whittle_unfinished:changes()} end,
    {ok, _} = whittle_board:write(File, Loop, Tell),
    [_ | _] = Told = told(),
    [?assertEqual([{Event, Loop ++ " has a part of the card, and its old contents are lost: write "
                    "the card again"}], [{Event, lists:flatten(Text)} || Text <- Texts])
     || {Event, Texts} <- Told],
    ?assertEqual([], whittle_unfinished:changes()).

told() ->
    receive {{What, Percent}, _} = Told when What =:= writing; What =:= reading, Percent =< 100 ->
            [Told | told()]
    after 0 -> []
    end.

in_use(Loop, Dir, File, Disk) ->
    _ = os:cmd("blockdev --setro " ++ Loop),
    ?assertEqual({error, {disk, {read_only, Loop}}}, written(File, Loop)),
    _ = os:cmd("blockdev --setrw " ++ Loop),
    Place = filename:join(Dir, "place"),
    ok = file:make_dir(Place),
    _ = os:cmd("mkfs.fat " ++ Loop),
    case os:cmd("mount " ++ Loop ++ " " ++ Place) of
        "" ->
            try
                {ok, Before} = file:read_file(Disk),
                ?assertEqual({error, {disk, {mounted, Loop, Place}}},
                             written(File, Loop)),
                ?assert({ok, Before} =:= file:read_file(Disk))
            after
                os:cmd("umount " ++ Place)
            end;
        Why -> {comment, "cannot mount: " ++ Why}
    end.

%% Uses of a disk that no file of this process names: a mount in another namespace, and a loop
%% device over the disk.
claimed_elsewhere(Config) ->
    Dir = proplists:get_value(dir, Config),
    [Disk, File, Place, None] = [filename:join(Dir, Name)
                                 || Name <- ["disk", "a.card", "place", "none"]],
    %% A disk that is gone is no file of that name.
    ?assertEqual({error, enoent}, whittle_board_claim:with(None, fun(_) -> ok end)),
    ?assertEqual({error, enoent}, file:read_file_info(None)),
    Card = card(<<"x">>),
    ok = file:write_file(File, Card),
    ok = file:write_file(Disk, <<0:(byte_size(Card))/unit:8>>),
    ok = file:make_dir(Place),
    case string:trim(os:cmd("losetup -f --show " ++ Disk ++ " 2>/dev/null")) of
        "/dev/loop" ++ _ = Loop ->
            try
                _ = os:cmd("mke2fs -q " ++ Loop),
                elsewhere(Loop, Place, File),
                over(Loop, File),
                {ok, After} = file:read_file(Disk),
                ?assertNotEqual(Card, After),
                %% Nobody uses it any more.
                ?assertEqual(ok, whittle_board_disk:write(Loop, Card, fun(_) -> ok end))
            after
                os:cmd("losetup -d " ++ Loop)
            end;
        _ -> {skip, "no loop device, or not root"}
    end.

elsewhere(Loop, Place, File) ->
    Script = "mount " ++ Loop ++ " " ++ Place ++ " && echo mounted && exec cat",
    Port = open_port({spawn_executable, os:find_executable("unshare")},
                     [{args, ["-m", "--propagation", "private", "sh", "-c", Script]}, {line, 100},
                      stderr_to_stdout, exit_status]),
    receive
        {Port, {data, {eol, "mounted"}}} ->
            ?assertMatch({ok, #{mounts := [], holders := []}}, whittle_board_disk:facts(Loop)),
            ?assertEqual({error, {disk, {busy, Loop}}}, written(File, Loop)),
            {os_pid, Os} = erlang:port_info(Port, os_pid),
            _ = os:cmd("kill " ++ integer_to_list(Os)),
            receive {Port, {exit_status, _}} -> ok end;
        {Port, {exit_status, _}} -> ok          % this machine does not mount
    end.

over(Loop, File) ->
    case string:trim(os:cmd("losetup -f --show " ++ Loop ++ " 2>/dev/null")) of
        "/dev/" ++ Name ->
            try ?assertEqual({error, {disk, {held, Loop, Name}}}, written(File, Loop))
            after os:cmd("losetup -d /dev/" ++ Name)
            end;
        _ -> ok
    end.

no_disk(Config) ->
    Dir = proplists:get_value(dir, Config),
    File = filename:join(Dir, "a.card"),
    ok = file:write_file(File, card(<<"x">>)),
    [?assertEqual({error, {disk, {no_disk, Device, Reason}}}, written(File, Device))
     || {Device, Reason} <- [{filename:join(Dir, "none"), enoent}, {Dir, not_a_disk},
                             {File, not_a_disk}, {"/dev/null", not_a_disk}]],
    %% It writes the bytes that it has checked: the file may change.
    ?assertMatch({{error, _}, [whole]},
                 calls([{whittle_file, whole, 2}], fun() -> written(File, "/dev/null") end)),
    ?assertEqual({error, {not_a_card, "/bin/sh"}}, written("/bin/sh", "/dev/null")).

%% Each error is one line without a period at its end.
errors(_) ->
    [begin
         Text = lists:flatten(unicode:characters_to_list(whittle_board:format_error(Error))),
         ?assertNot(lists:member($\n, Text)),
         ?assertNotEqual($., lists:last(Text))
     end || Error <- [{no_cards, "b"}, {card_without_board, {"a", "b"}}, {not_a_card, "a"},
                      {cut_card, "a"},
                      {damaged_card, {"a", <<"both slots">>}},
                      {too_large, #{image => 5, slot => 4, board => "b"}},
                      {no_firmware, #{board => "b", file => "/f"}}
                      | [{disk, Reason} || Reason <-
                             [{no_disk, "/d", not_a_disk}, {no_disk, "/d", enoent},
                              {partition, "/d"}, {read_only, "/d"}, {system, "/d"},
                              {mounted, "/d", "/m"}, {swap, "/d"}, {held, "/d", "dm-0"},
                              {busy, "/d"}, {changed, "/d"}, {sectors, "/d", 4096}, no_perl,
                              {small, "/d", 1, 2}, {failed, "/d", eio}, {failed, "/d", eacces},
                              {differs, "/d", 1024}]]]].

said(Reason, Part) ->
    Text = unicode:characters_to_list(whittle_board:format_error(Reason)),
    ?assertNotEqual({nomatch, Text}, {string:find(Text, Part), Text}).
