%% Builds a card of fixtures/slots for the board qemu-arm, and boots it in qemu from U-Boot. The
%% program says its letter and its slot. The card has the program `one' in both slots; the tests
%% install `two' over TCP.
%%
%% The suite needs a kernel of its own, whose build takes 3 minutes. So `make test' skips it, and
%% `make boards' runs it.
-module(card_SUITE).

-import(machine, [expect/2]).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2, end_per_testcase/2]).
-export([parts/1, same_bytes/1, not_confirmed/1, crashed/1, confirmed/1, damaged_slot/1,
         damaged_first/1, torn_state/1, refused/1, damaged_card/1, written/1]).

all() ->
    [parts, same_bytes, not_confirmed, crashed, confirmed, damaged_slot, damaged_first, torn_state,
     refused, damaged_card, written].

%% The bar of a card with two slots (bytes that hold data). The network is about 0.5 MB of the
%% image.
-define(MOST_BYTES, 5_500_000).
-define(SECTOR, 512).

init_per_suite(Config) ->
    case missing() of
        none ->
            Dir = running:directory("card", Config),
            [Card, Two] = [filename:join(Dir, Name) || Name <- ["one.card", "two.slot"]],
            build(Card, "one", "card"),
            build(Two, "two", "slot"),
            [{one, Card}, {two, Two} | Config];
        Why -> {skip, Why}
    end.

end_per_suite(_) -> ok.

%% Each case has a card of its own.
init_per_testcase(Case, Config) ->
    Card = filename:join(proplists:get_value(priv_dir, Config), atom_to_list(Case) ++ ".card"),
    {ok, _} = file:copy(proplists:get_value(one, Config), Card),
    [{card, Card} | Config].

end_per_testcase(_, Config) ->
    _ = file:delete(proplists:get_value(card, Config)),
    ok.

missing() ->
    {ok, #{target := Target, emulator := [Emulator | _], card := #{firmware := Firmware}}} =
        whittle_board:board("qemu-arm"),
    Targets = [Name || #{name := Name} <- emulated:targets()],
    case {[Target, "aarch64"] -- Targets, os:find_executable(Emulator),
          filelib:is_regular(Firmware)} of
        {[_ | _] = Absent, _, _} ->
            string:join(Absent, " and ") ++ ": not in WHITTLE_TARGETS; `make boards' tests cards";
        {_, false, _} -> "no " ++ Emulator ++ ": tools/setup board";
        {_, _, false} -> "no " ++ Firmware ++ ": tools/setup board";
        _ -> none
    end.

build(Out, Letter, Format) ->
    Before = os:getenv("ERL_LIBS", ""),
    %% `whittle build' finds whittle_board_device there.
    true = os:putenv("ERL_LIBS", filename:dirname(code:lib_dir(whittle_io))),
    try running:build(running:fixture("slots"), Out,
                      ["--board", "qemu-arm", "--format", Format, "--shake", "functions",
                       "--missing", "crash", "--feature", "+terms,-control", "--env",
                       "LETTER=" ++ Letter, "--env", "WHITTLE_NETWORK=dhcp", "--env",
                       "WHITTLE_END=reboot"])
    after
        os:putenv("ERL_LIBS", Before)
    end.

%% `whittle size' accounts for every byte.
parts(Config) ->
    Card = proplists:get_value(card, Config),
    {0, Json} = running:whittle(["size", Card, "--json"]),
    #{<<"size">> := Size, <<"data">> := Data, <<"parts">> := Parts, <<"board">> := <<"qemu-arm">>,
      <<"slots">> := #{<<"a">> := Slot, <<"b">> := Slot}} = jiffy:decode(Json, [return_maps]),
    ?assertMatch(#{<<"status">> := <<"image">>, <<"name">> := <<"slots">>}, Slot),
    ?assertEqual(filelib:file_size(Card), Size),
    ?assertEqual(Size, lists:sum([Bytes || #{<<"bytes">> := Bytes} <- Parts])),
    ?assert(Data =< ?MOST_BYTES).

same_bytes(Config) ->
    Again = proplists:get_value(card, Config) ++ ".again",
    build(Again, "one", "card"),
    ?assert(file:read_file(proplists:get_value(one, Config)) =:= file:read_file(Again)).

%% The first boot starts slot A. A new image starts once, and without a confirmation the old one
%% comes back. The card's file does not change.
not_confirmed(Config) ->
    Before = file:read_file(proplists:get_value(card, Config)),
    on_board(Config, [],
             fun(Board, Port) ->
                     expect(Board, "^one in slot a, trial false, next a, failed false$"),
                     expect(Board, "^listens$"),
                     ?assertEqual(<<"ok\n">>, installed(Port, two(Config))),
                     said(Board, "info", "^one in slot a, trial false, next b, failed false$"),
                     said(Board, "end", "^two in slot b, trial true, next a, failed false$"),
                     expect(Board, "^listens$"),
                     ?assertEqual(<<"the running image is on trial, and the other slot has the "
                                    "image to fall back to: confirm first\n">>,
                                  installed(Port, two(Config))),
                     said(Board, "end", "^one in slot a, trial false, next a, failed true$")
             end),
    ?assert(Before =:= file:read_file(proplists:get_value(card, Config))).

crashed(Config) ->
    on_board(Config, [],
             fun(Board, Port) ->
                     expect(Board, "^listens$"),
                     ?assertEqual(<<"ok\n">>, installed(Port, two(Config))),
                     said(Board, "end", "^two in slot b, trial true"),
                     said(Board, "crash", "^one in slot a, trial false, next a, failed true$")
             end).

confirmed(Config) ->
    on_board(Config, [],
             fun(Board, Port) ->
                     expect(Board, "^listens$"),
                     ?assertEqual(<<"ok\n">>, installed(Port, two(Config))),
                     said(Board, "end", "^two in slot b, trial true"),
                     said(Board, "confirm", "^confirm ok$"),
                     expect(Board, "^two in slot b, trial false, next b, failed false$"),
                     said(Board, "end", "^two in slot b, trial false, next b, failed false$"),
                     %% Now slot A is the other one.
                     expect(Board, "^listens$"),
                     ?assertEqual(<<"ok\n">>, installed(Port, two(Config))),
                     said(Board, "end", "^two in slot a, trial true, next b"),
                     said(Board, "end", "^two in slot b, trial false, next b, failed true$")
             end).

%% The new image is damaged while the board is off.
damaged_slot(Config) ->
    Card = proplists:get_value(card, Config),
    on_board(Config, ["--keep"],
             fun(Board, Port) ->
                     expect(Board, "^listens$"),
                     ?assertEqual(<<"ok\n">>, installed(Port, two(Config))),
                     said(Board, "info", "next b")
             end),
    #{b := {Sector, _}} = layout(Card),
    change(Card, (Sector + 1000) * ?SECTOR),
    on_board(Config, ["--keep"],
             fun(Board, _) ->
                     expect(Board, "note: slot B is damaged, and the board boots without it"),
                     expect(Board, "^one in slot a, trial false, next a, failed true$"),
                     ?assert(says(Board, <<"whittle: slot b is empty or damaged">>))
             end).

%% A new card boots without its slot A.
damaged_first(Config) ->
    Card = proplists:get_value(card, Config),
    #{a := {Sector, _}} = layout(Card),
    change(Card, (Sector + 1000) * ?SECTOR),
    on_board(Config, [], fun(Board, _) -> expect(Board, "^one in slot b, trial true, next a") end).

%% One copy of the boot state has any bytes, after a confirmation. Slot A has another program then,
%% so the state decides.
torn_state(Config) ->
    Card = proplists:get_value(card, Config),
    on_board(Config, ["--keep"],
             fun(Board, Port) ->
                     expect(Board, "^listens$"),
                     ?assertEqual(<<"ok\n">>, installed(Port, two(Config))),
                     said(Board, "end", "^two in slot b, trial true"),
                     said(Board, "confirm", "^confirm ok$"),
                     said(Board, "info", "next b")
             end),
    #{state := {One, Two}} = layout(Card),
    [First, Second] = [bytes(Card, Sector * ?SECTOR) || Sector <- [One, Two]],
    {ok, {#{sequence := Sequence, good := b}, Older}} = whittle_card:read_state(First, Second),
    ?assert(Sequence > 2),
    %% The older copy, which the next write would replace.
    write(Card, element(Older, {One, Two}) * ?SECTOR, rand:bytes(?SECTOR)),
    on_board(Config, [],
             fun(Board, _) -> expect(Board, "^two in slot b, trial false, next b") end),
    %% The newer copy: the older one has the trial, whose only try is over.
    write(Card, One * ?SECTOR, First),
    write(Card, Two * ?SECTOR, Second),
    write(Card, element(3 - Older, {One, Two}) * ?SECTOR, rand:bytes(?SECTOR)),
    on_board(Config, [],
             fun(Board, _) ->
                     expect(Board, "^one in slot a, trial false, next a, failed true$")
             end),
    %% Without both, the card starts as a new one.
    [write(Card, Sector * ?SECTOR, rand:bytes(?SECTOR)) || Sector <- [One, Two]],
    on_board(Config, [],
             fun(Board, _) ->
                     expect(Board, "^one in slot a, trial false, next a, failed false$")
             end).

%% The board takes no damaged image, and goes on with its own.
refused(Config) ->
    <<Before:100_000/binary, Byte, After/binary>> = Image = two(Config),
    on_board(Config, [],
             fun(Board, Port) ->
                     expect(Board, "^listens$"),
                     ?assertEqual(<<"the image is damaged: send it again\n">>,
                                  installed(Port, [Before, Byte bxor 1, After])),
                     ?assertMatch(<<"these bytes do not end as an image does", _/binary>>,
                                  installed(Port, binary:part(Image, 0, 1_000_000))),
                     said(Board, "end", "^one in slot a, trial false, next a, failed false$"),
                     expect(Board, "^listens$"),
                     ?assertEqual(<<"ok\n">>, installed(Port, Image))
             end).

%% One line for each card that cannot boot.
damaged_card(Config) ->
    Card = proplists:get_value(card, Config),
    {ok, Bytes} = file:read_file(Card),
    #{boot := {Boot, _}, a := {A, _}, b := {B, _}} = layout(Card),
    [begin
         ok = file:write_file(Card, Bytes),
         _ = Damage(),
         {1, Said} = running:whittle(["run", Card]),
         ?assertMatch({_, {match, _}}, {Said, re:run(Said, ["^whittle: .*", Line, "[^\n]*\n$"])})
     end || {Line, Damage} <-
                [{"is a damaged card .the first sector.", fun() -> change(Card, 450) end},
                 {"is a damaged card .the boot partition.",
                  fun() -> change(Card, Boot * ?SECTOR + 5000) end},
                 {"is a damaged card .both slots.",
                  fun() -> [change(Card, (Slot + 9) * ?SECTOR) || Slot <- [A, B]] end},
                 {"is a card without its end",
                  fun() -> file:write_file(Card, binary:part(Bytes, 0, 20_000_000)) end}]].

%% `whittle write' to a loop device, if this machine has one.
written(Config) ->
    Card = proplists:get_value(card, Config),
    Disk = Card ++ ".disk",
    {ok, _} = file:copy(Card, Disk),
    change(Disk, 5000),
    case string:trim(os:cmd("losetup -f --show " ++ Disk ++ " 2>/dev/null")) of
        "/dev/loop" ++ _ = Loop ->
            try
                {0, Json} = running:whittle(["write", Card, Loop, "--json"]),
                ?assertMatch(#{<<"size">> := _}, jiffy:decode(Json, [return_maps])),
                _ = os:cmd("blockdev --flushbufs " ++ Loop),
                ?assert(file:read_file(Card) =:= file:read_file(Disk))
            after
                os:cmd("losetup -d " ++ Loop),
                file:delete(Disk)
            end;
        _ -> {skip, "no loop device, or not root"}
    end.

%%% The board

two(Config) ->
    {ok, Bytes} = file:read_file(proplists:get_value(two, Config)),
    Bytes.

on_board(Config, Options, Fun) ->
    Port = running:free_port(),
    Board = machine:boot(proplists:get_value(card, Config),
                         Options ++ ["--forward", integer_to_list(Port) ++ ":7000"]),
    %% The socket takes only some hundred bytes that nobody reads: each has a buffer of its own.
    ok = inet:setopts(machine:uart(Board), [{active, true}]),
    try Fun(Board, Port)
    catch Class:Reason:Stack ->
            %% The board may be silent for the same reason.
            _ = (catch machine:stop(Board)),
            erlang:raise(Class, Reason, Stack)
    end,
    machine:stop(Board).

%% Sends an image, and returns the answer of the board.
installed(Port, Image) ->
    {ok, Socket} = gen_tcp:connect("127.0.0.1", Port, [binary, {active, false}]),
    %% The board may have answered before it has everything.
    _ = gen_tcp:send(Socket, Image),
    _ = gen_tcp:shutdown(Socket, write),
    {ok, Answer} = gen_tcp:recv(Socket, 0),
    ok = gen_tcp:close(Socket),
    Answer.

said(Board, Command, Expression) ->
    machine:say(Board, [Command, $\n]),
    expect(Board, Expression).

%% Tells whether the boot loader has said a text on the serial line.
says(Board, Text) -> says(machine:uart(Board), Text, <<>>).

says(Uart, Text, Before) ->
    case binary:match(Before, Text) of
        nomatch ->
            receive
                {tcp, Uart, More} -> says(Uart, Text, <<Before/binary, More/binary>>)
            after 0 -> {false, Before}
            end;
        _ -> true
    end.

%%% The bytes of a card

layout(Card) ->
    {ok, {Layout, _}} = whittle_card:read_first_sector(bytes(Card, 0)),
    Layout.

bytes(Card, At) ->
    {ok, Fd} = file:open(Card, [read, raw, binary]),
    {ok, Bytes} = file:pread(Fd, At, ?SECTOR),
    ok = file:close(Fd),
    Bytes.

change(Card, At) ->
    <<Byte, _/binary>> = bytes(Card, At),
    write(Card, At, <<(Byte bxor 1)>>).

write(Card, At, Bytes) ->
    {ok, Fd} = file:open(Card, [read, write, raw, binary]),
    ok = file:pwrite(Fd, At, Bytes),
    ok = file:close(Fd).
