%% Tests the script of U-Boot on cards whose images are not Linux but card_image.c, which says its
%% letter and its slot, and switches the board off. So a boot takes a second. U-Boot and
%% whittle_card must agree: the slot that starts, and the state that the card then has, are those of
%% whittle_card:started/1. card_SUITE boots whole images.
-module(card_boot_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([states/1, higher_number/1, strange_records/1, torn_copies/1, damaged_slots/1,
         starts_again/1, damaged_trial/1, hostile_heads/1, large_image/1, read_only/1,
         keys_of_the_line/1]).

all() ->
    [states, higher_number, strange_records, torn_copies, damaged_slots, starts_again,
     damaged_trial, hostile_heads, large_image, read_only, keys_of_the_line].

-define(SECTOR, 512).
%% 60 times the duration of a boot here.
-define(PATIENCE_MS, 60_000).
-define(CC, "arm-linux-gnueabihf-").

init_per_suite(Config) ->
    {ok, #{emulator := [Emulator | _], card := #{firmware := Firmware}}} =
        whittle_board:board("qemu-arm"),
    case [Name || Name <- [Emulator, ?CC "gcc"], os:find_executable(Name) =:= false]
        ++ [Firmware || not filelib:is_regular(Firmware)] of
        [] ->
            [{one, image("one", Config)}, {two, image("two", Config)} | Config];
        [Missing | _] -> {skip, "no " ++ Missing ++ ": tools/setup cross board"}
    end.

end_per_suite(_) -> ok.

init_per_testcase(Case, Config) ->
    Card = filename:join(proplists:get_value(priv_dir, Config), atom_to_list(Case) ++ ".card"),
    {ok, Board} = whittle_board:board("qemu-arm"),
    {ok, Bytes} = whittle_board_card:make(Board, proplists:get_value(one, Config)),
    ok = file:write_file(Card, Bytes),
    ok = file:write_file(Card ++ ".environment",
                         whittle_board_uboot:environment(environment(Board))),
    put_image(Card, b, proplists:get_value(two, Config)),
    [{card, Card} | Config].

environment(#{card := #{environment := Variables}}) -> Variables.

end_per_testcase(_, Config) ->
    _ = file:delete(proplists:get_value(card, Config)),
    ok.

%% Compiles the image with a letter, and gives it a label.
image(Letter, Config) ->
    Out = filename:join(proplists:get_value(priv_dir, Config), Letter),
    Source = filename:join([running:root(), "acceptance/suites/card_image.c"]),
    Script = Out ++ ".lds",
    ok = file:write_file(Script, "SECTIONS { . = 0; .head : { *(.head) }"
                         " .text : { *(.text*) *(.rodata*) *(.data*) *(.got*) } _end = .;"
                         " /DISCARD/ : { *(.note*) *(.comment*) *(.ARM*) } }\n"),
    Elf = Out ++ ".elf",
    Flags = "-march=armv7-a -marm -mfloat-abi=soft -mgeneral-regs-only -Os -fpie -ffreestanding"
        " -nostdlib -fno-stack-protector -static -Wl,--build-id=none,-T," ++ Script,
    Command = lists:append([?CC "gcc -DLETTER='\"", Letter, "\"' ", Flags, " -o ", Elf, " ", Source,
                            " && " ?CC "objcopy -O binary ", Elf, " ", Out]),
    {0, _} = running:run("/bin/sh", ["-c", Command], #{env => keep}),
    {ok, Bytes} = file:read_file(Out),
    Size = byte_size(Bytes),
    whittle_board_label:add_for_slot(Bytes, #{board => <<"qemu-arm">>, target => <<"armv7">>,
                                              name => <<"n">>, version => <<"1">>,
                                              parts => [#{name => <<"all">>, stored => Size,
                                                          raw => Size}]}).

%% All states, in both copies.
states(Config) ->
    Card = proplists:get_value(card, Config),
    [begin
         State = #{sequence => 16#2A, good => Good, trial => Trial, tries => Tries},
         #{state := {One, Two}} = layout(Card),
         write(Card, One, whittle_card:state(State)),
         write(Card, Two, whittle_card:state(State#{sequence := 16#29, good := a, tries := 0})),
         {Slot, Next} = whittle_card:started(State),
         ?assertEqual({State, image_in(Slot)}, {State, boot(Config)}),
         ?assertEqual({State, Next}, {State, state(Card)})
     end || Good <- [a, b], Trial <- [none, a, b], Tries <- [0, 1, 2]].

image_in(a) -> "one in slot a";
image_in(b) -> "two in slot b".

%% The copy with the higher number counts, also if it has more digits, and the state that U-Boot
%% writes is in the place of the other copy.
higher_number(Config) ->
    Card = proplists:get_value(card, Config),
    #{state := {One, Two}} = layout(Card),
    [begin
         [Copy1, Copy2] = [whittle_card:state(#{sequence => Sequence, good => Good, trial => b,
                                                tries => Tries})
                           || {Sequence, Good, Tries} <- [First, Second]],
         write(Card, One, Copy1),
         write(Card, Two, Copy2),
         ?assertEqual({First, Second, image_in(Slot)}, {First, Second, boot(Config)}),
         ?assertEqual(Copy1 =:= read(Card, One), Stays =:= 1 orelse Stays =:= both),
         ?assertEqual(Copy2 =:= read(Card, Two), Stays =:= 2 orelse Stays =:= both)
     end || {First, Second, Slot, Stays} <-
                [{{16#F, a, 0}, {16#10, b, 0}, b, both}, {{16#10, b, 0}, {16#F, a, 0}, b, both},
                 {{16#100, a, 1}, {16#FF, a, 0}, b, 1}, {{9, a, 0}, {16#A, a, 1}, b, 2},
                 {{5, a, 1}, {5, a, 1}, b, 2}]].

%% Valid records that nobody writes. U-Boot and whittle_card both leave them out, and U-Boot writes
%% no state over the only one that counts.
strange_records(Config) ->
    Card = proplists:get_value(card, Config),
    #{state := {One, Two}} = layout(Card),
    Good = record("5", "a", "b", "1"),
    [begin
         write(Card, One, Copy1),
         write(Card, Two, Copy2),
         ?assertEqual({N, image_in(Slot)}, {N, boot(Config)}),
         ?assertEqual({N, Stays}, {N, [Copy1 =:= read(Card, One), Copy2 =:= read(Card, Two)]}),
         {#{good := a, trial := b, tries := 0}, _} = {state(Card), N}
     end || {N, Copy1, Copy2, Slot, Stays} <-
                [{1, record("80000000", "b", "none", "0"), Good, b, [false, true]},
                 {2, Good, record("80000000", "b", "none", "0"), b, [true, false]},
                 {3, record("7FFFFFFF", "b", "b", "1"), Good, b, [false, true]},
                 {4, Good, record("0", "b", "none", "0"), b, [true, false]},
                 {5, record("FFFFFFFF", "b", "none", "0"), Good, b, [false, true]}]].

record(Sequence, Good, Trial, Tries) ->
    whittle_card:record(?SECTOR, [{<<"good">>, list_to_binary(Good)},
                                  {<<"seq">>, list_to_binary(Sequence)},
                                  {<<"trial">>, list_to_binary(Trial)},
                                  {<<"tries">>, list_to_binary(Tries)}]).

%% A copy with any bytes does not count. Without both copies the card starts as a new one.
torn_copies(Config) ->
    Card = proplists:get_value(card, Config),
    #{state := {One, Two}} = layout(Card),
    Good = whittle_card:state(#{sequence => 5, good => b, trial => none, tries => 0}),
    <<Half:256/binary, _/binary>> = Good,
    [begin
         write(Card, One, Copy1),
         write(Card, Two, Copy2),
         ?assertEqual(image_in(Slot), boot(Config))
     end || {Copy1, Copy2, Slot} <- [{Good, rand:bytes(?SECTOR), b}, {rand:bytes(?SECTOR), Good, b},
                                     {Good, <<0:?SECTOR/unit:8>>, b},
                                     {<<Half/binary, -1:256/unit:8>>, Good, b},
                                     {rand:bytes(?SECTOR), rand:bytes(?SECTOR), a}]].

%% A damaged or empty slot does not start.
damaged_slots(Config) ->
    Card = proplists:get_value(card, Config),
    #{a := {A, _}, b := {B, _}} = layout(Card),
    [Head, First] = [read(Card, A), read(Card, A + 1)],
    [begin
         write(Card, Sector, Bytes),
         ?assertEqual("two in slot b", boot(Config)),
         write(Card, A, Head),
         write(Card, A + 1, First)
     end || {Sector, Bytes} <- [{A, changed(Head)}, {A, <<0:?SECTOR/unit:8>>},
                                {A + 1, changed(First)}]],
    ?assertEqual("one in slot a", boot(Config)),
    write(Card, A, changed(Head)),
    write(Card, B, changed(read(Card, B))),
    ?assertEqual(none, boot(Config)).

%% A board that starts nothing tries again: without a slot, and without a script.
starts_again(Config) ->
    Card = proplists:get_value(card, Config),
    #{a := {A, _}, b := {B, _}, boot := {Boot, _}} = layout(Card),
    [write(Card, Slot, changed(read(Card, Slot))) || Slot <- [A, B]],
    ?assertEqual([none, none], boots(Config, 2)),
    write(Card, Boot, <<0:?SECTOR/unit:8>>),
    ?assertEqual([no_script, no_script], boots(Config, 2)).

%% A damaged image on trial costs its try, and the good slot starts.
damaged_trial(Config) ->
    Card = proplists:get_value(card, Config),
    #{b := {B, _}} = layout(Card),
    State = whittle_card:marked(state(Card), b),
    set_state(Card, State),
    write(Card, B + 1, changed(read(Card, B + 1))),
    ?assertEqual("one in slot a", boot(Config)),
    {b, Next} = whittle_card:started(State),
    ?assertEqual(Next, state(Card)).

%% A head with a valid sum but an impossible size.
hostile_heads(Config) ->
    Card = proplists:get_value(card, Config),
    #{a := {A, _}} = layout(Card),
    [begin
         write(Card, A, whittle_card:head(#{size => Size, crc32 => 0})),
         ?assertEqual("two in slot b", boot(Config))
     end || Size <- [1, 8 * 1024 * 1024, 16#7FFFFFFF, 16#FFFFFFFF]].

%% An image as large as a slot, with the least memory: U-Boot must not read it over itself.
large_image(Config) ->
    Card = proplists:get_value(card, Config),
    {ok, #{card := #{least_memory := Megabytes}}} = whittle_board:board("qemu-arm"),
    #{a := {_, Sectors}} = layout(Card),
    Image = proplists:get_value(two, Config),
    Rest = rand:bytes((Sectors - 1) * ?SECTOR - byte_size(Image)),
    put_image(Card, a, <<Image/binary, Rest/binary>>),
    ?assertEqual("two in slot a",
                 boot(Config, fun(Words) -> memory(Words, Megabytes) end)).

memory(["-m", _ | Words], Megabytes) -> ["-m", integer_to_list(Megabytes) ++ "M" | Words];
memory([Word | Words], Megabytes) -> [Word | memory(Words, Megabytes)].

%% If the card takes no state, no trial begins: it would begin on each boot.
read_only(Config) ->
    set_state(proplists:get_value(card, Config),
              whittle_card:marked(state(proplists:get_value(card, Config)), b)),
    ReadOnly = fun(Words) ->
                       [lists:append(string:replace(Word, "id=card,", "id=card,readonly=on,"))
                        || Word <- Words]
               end,
    ?assertEqual("one in slot a", boot(Config, ReadOnly)).

%% Bytes on the serial line do not stop the boot.
keys_of_the_line(Config) ->
    ?assertEqual("one in slot a", boot(Config, fun(Words) -> Words end, "\r\n  \3\3x\r\n")).

%%% The board

boot(Config) -> boot(Config, fun(Words) -> Words end).

boot(Config, Change) -> boot(Config, Change, "").

boot(Config, Change, Typed) ->
    [Image] = boots(Config, 1, Change, Typed),
    Image.

boots(Config, Times) -> boots(Config, Times, fun(Words) -> Words end, "").

%% Returns for each boot the line of the image that starts, or `none', or `no_script'. The serial
%% line is the standard input and output of qemu in place of the console.
boots(Config, Times, Change, Typed) ->
    Card = proplists:get_value(card, Config),
    {ok, Board} = whittle_board:board("qemu-arm"),
    Words = whittle_board_emulator:card_command(Board, Card,
                                                #{environment => Card ++ ".environment",
                                                  keep => true}),
    [Program | Arguments] = Change([case Word of
                                        "stdio,id=console" ++ _ -> "null,id=console,mux=on";
                                        "null,id=serial" -> "stdio,id=serial,signal=off";
                                        _ -> Word
                                    end || Word <- Words]),
    Port = open_port({spawn_executable, os:find_executable(Program)},
                     [{args, Arguments}, {line, 1000}, exit_status, binary, stderr_to_stdout,
                      hide]),
    {os_pid, Os} = erlang:port_info(Port, os_pid),
    true = port_command(Port, Typed),
    %% U-Boot may repeat lines for ever.
    Timer = erlang:send_after(?PATIENCE_MS, self(), {Port, late}),
    try [started(Port, []) || _ <- lists:seq(1, Times)]
    after
        _ = erlang:cancel_timer(Timer),
        os:cmd("kill -9 " ++ integer_to_list(Os)),
        gone(Port)
    end.

started(Port, Said) ->
    receive
        {Port, {data, {_, Line}}} ->
            case re:run(Line, "^image (.*?)\r?$|(no slot starts)|(Wrong image format)",
                        [{capture, all_but_first, list}]) of
                {match, [Image]} -> Image;
                {match, ["", _]} -> none;
                {match, ["", "", _]} -> no_script;
                nomatch -> started(Port, [Line | Said])
            end;
        {Port, {exit_status, Code}} -> error({ended, Code, lists:reverse(Said)});
        {Port, late} -> error({late, lists:sublist(lists:reverse(Said), 100)})
    end.

%% qemu must not hold the file any more. A port has no information after its program has ended.
gone(Port) ->
    case erlang:port_info(Port) of
        undefined -> ok;
        _ ->
            receive {Port, _} -> ok after 20 -> ok end,
            gone(Port)
    end.

%%% The bytes of a card

layout(Card) ->
    {ok, {Layout, _}} = whittle_card:read_first_sector(read(Card, 0)),
    Layout.

state(Card) ->
    #{state := {One, Two}} = layout(Card),
    {ok, {State, _}} = whittle_card:read_state(read(Card, One), read(Card, Two)),
    State.

set_state(Card, State) ->
    #{state := {One, _}} = layout(Card),
    write(Card, One, whittle_card:state(State)).

put_image(Card, Slot, Image) ->
    #{Slot := {Sector, _}} = layout(Card),
    write(Card, Sector, whittle_card:head(#{size => byte_size(Image),
                                            crc32 => erlang:crc32(Image)})),
    write(Card, Sector + 1, Image).

changed(<<Before:100/binary, Byte, After/binary>>) ->
    <<Before/binary, (Byte bxor 1), After/binary>>.

read(Card, Sector) ->
    {ok, Fd} = file:open(Card, [read, raw, binary]),
    {ok, Bytes} = file:pread(Fd, Sector * ?SECTOR, ?SECTOR),
    ok = file:close(Fd),
    Bytes.

write(Card, Sector, Bytes) ->
    {ok, Fd} = file:open(Card, [read, write, raw, binary]),
    ok = file:pwrite(Fd, Sector * ?SECTOR, Bytes),
    ok = file:close(Fd).
