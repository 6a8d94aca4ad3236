%% Tests that a power cut at any place leaves a card that boots.
%%
%% A trace records the writes and syncs of each operation on a file in place of the card. Then the
%% test cuts the power after each of them. Before a sync the card may have any of the writes since
%% the last one. The write of the cut may be torn at any byte, and the erase block around it may
%% have any bytes. For each such card a model of the boot loader starts a slot. The model takes its
%% rules from whittle_card; card_boot_SUITE compares them with U-Boot.
-module(whittle_board_device_cut_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([install/1, install_again/1, install_after_failure/1, install_into_first/1, cancelled/1,
         confirm/1, confirm_without_state/1, start_on_trial/1]).

all() ->
    [install, install_again, install_after_failure, install_into_first, cancelled, confirm,
     confirm_without_state, start_on_trial].

-define(SECTOR, 512).
-define(BLOCK, (4 * 1024 * 1024)).

init_per_testcase(Case, Config) ->
    Dir = filename:absname(proplists:get_value(priv_dir, Config)),
    [{card, filename:join(Dir, "cut-" ++ atom_to_list(Case))} | Config].

end_per_testcase(_, Config) ->
    _ = application:stop(whittle_board_device),
    [os:unsetenv(Name) || Name <- ["WHITTLE_CARD", "WHITTLE_BOARD", "WHITTLE_SLOT"]],
    _ = file:delete(proplists:get_value(card, Config)),
    ok.

%% A new card gets an image. Before its first byte, the slot is empty.
install(Config) ->
    Start = card(Config, a, whittle_card:new_state()),
    Calls = installed(),
    #{b := {B, _}} = layout(),
    {Before, [{write, _, _} | _]} =
        lists:splitwith(fun({write, At, _}) -> At =/= (B + 1) * ?SECTOR; (sync) -> true end, Calls),
    ?assertEqual({sync, none}, {lists:last(Before), image_in(b, written(Start, Before))}),
    checked(Start, a, Calls).

%% The slot already has an image whose trial has not begun.
install_again(Config) ->
    Start = card(Config, a, whittle_card:marked(whittle_card:new_state(), b)),
    checked(Start, a, installed()).

%% The trial of the other slot is over.
install_after_failure(Config) ->
    {b, State} = whittle_card:started(whittle_card:marked(whittle_card:new_state(), b)),
    Start = card(Config, a, State),
    checked(Start, a, installed()).

%% Slot B is the good one.
install_into_first(Config) ->
    Start = card(Config, b, whittle_card:confirmed(whittle_card:new_state(), b)),
    checked(Start, b, installed()).

%% The bytes of half an image never start.
cancelled(Config) ->
    Start = card(Config, a, whittle_card:marked(whittle_card:new_state(), b)),
    checked(Start, a,
            recorded(fun() ->
                             {ok, Install} = whittle_board_device:start_install(),
                             ok = whittle_board_device:write(Install, rand:bytes(9000)),
                             ok = whittle_board_device:cancel(Install)
                     end)).

%% Before the confirmation, a boot starts slot A; after it, slot B.
confirm(Config) ->
    {b, State} = whittle_card:started(whittle_card:marked(whittle_card:new_state(), b)),
    Start = card(Config, b, State),
    Calls = recorded(fun() -> ok = whittle_board_device:confirm() end),
    ?assertMatch([{write, _, _}, sync], Calls),
    checked(Start, a, true, Calls),
    ?assertEqual({b, second}, boot(written(Start, Calls))).

%% Both copies of the state are damaged, so slot A counts as the good one.
confirm_without_state(Config) ->
    #{state := {One, Two}} = layout(),
    Start = card(Config, b, none),
    Calls = recorded(fun() -> ok = whittle_board_device:confirm() end),
    [{write, At, _}, sync] = Calls,
    ?assert(lists:member(At, [One * ?SECTOR, Two * ?SECTOR])),
    checked(Start, a, true, Calls),
    ?assertEqual({b, second}, boot(written(Start, Calls))).

%% The boot loader writes the state before it starts a slot on trial.
start_on_trial(Config) ->
    Start = card(Config, a, whittle_card:marked(whittle_card:new_state(), b)),
    {b, Calls} = started(Start),
    checked(Start, a, Calls),
    ?assertEqual({a, first}, boot(written(Start, Calls))).

%%% The card and its boot loader

layout() -> whittle_card:layout(#{slot => 4, data => 1}).

%% Makes a card with two images, starts the application in a slot of it, and returns its bytes.
card(Config, Running, State) ->
    Card = proplists:get_value(card, Config),
    #{sectors := Sectors, a := {A, _}, b := {B, _}, state := {One, Two}} = layout(),
    First = whittle_card:first_sector(layout(), #{board => <<"desk">>, boot => 0}),
    Copies = case State of
                 none -> [rand:bytes(?SECTOR), rand:bytes(?SECTOR)];
                 #{sequence := Sequence} ->
                     %% The other copy has what was before.
                     [whittle_card:state(State),
                      whittle_card:state((whittle_card:new_state())#{sequence := Sequence - 1})]
             end,
    {ok, Fd} = file:open(Card, [write, raw, binary]),
    ok = file:pwrite(Fd, [{Sector * ?SECTOR, Bytes}
                          || {Sector, Bytes} <- lists:zip([One, Two], Copies)
                                 ++ [{0, First}, {A, in_slot(image(first))},
                                     {B, in_slot(image(second))},
                                     {Sectors - 1, <<0:?SECTOR/unit:8>>}]]),
    ok = file:close(Fd),
    [true = os:putenv(Name, Value) || {Name, Value} <- [{"WHITTLE_CARD", Card},
                                                        {"WHITTLE_BOARD", "desk"},
                                                        {"WHITTLE_SLOT", atom_to_list(Running)}]],
    ok = application:start(whittle_board_device),
    {ok, Bytes} = file:read_file(Card),
    {Bytes, []}.

in_slot(Image) ->
    Head = whittle_card:head(#{size => byte_size(Image), crc32 => erlang:crc32(Image)}),
    <<Head/binary, Image/binary>>.

%% An image with the label that whittle_board_label writes. The old images are longer than the new
%% one, so that bytes of both may be in a slot.
image(Name) ->
    Size = case Name of new -> 1000; _ -> 1500 end,
    Bytes = binary:copy(atom_to_binary(Name), Size),
    Text = <<"sha256 0\nboard desk\ncrc32 ", (integer_to_binary(erlang:crc32(Bytes), 16))/binary,
             "\npart 5 5 a\n">>,
    <<Bytes/binary, Text/binary, (byte_size(Text)):32, "Whittle image 1\n">>.

%% Returns the slot that the boot loader starts, and its image. `none' is a board that starts
%% nothing; `unknown', one that starts bytes of no image.
boot(Disk) ->
    case first(Disk) of
        error -> {none, none};
        State ->
            {Slot, _} = whittle_card:started(State),
            case {image_in(Slot, Disk), image_in(whittle_card:other(Slot), Disk)} of
                {none, none} -> {none, none};
                {none, Image} -> {whittle_card:other(Slot), Image};
                {Image, _} -> {Slot, Image}
            end
    end.

%% Without the table or the partition of the script, no board boots.
first({Before, Writes} = Disk) ->
    #{boot := {Boot, Boots}} = layout(),
    case untouched({0, Boot + Boots}, Writes) of
        true ->
            {ok, {_, _}} = whittle_card:read_first_sector(binary:part(Before, 0, ?SECTOR)),
            element(1, state(Disk));
        false -> error
    end.

untouched({Sector, Count}, Writes) ->
    lists:all(fun({At, Bytes}) ->
                      At >= (Sector + Count) * ?SECTOR
                          orelse At + byte_size(Bytes) =< Sector * ?SECTOR
              end, Writes).

state(Disk) ->
    #{state := {One, Two}} = layout(),
    case whittle_card:read_state(sector(Disk, One), sector(Disk, Two)) of
        {ok, Read} -> Read;
        error -> {whittle_card:new_state(), 1}
    end.

image_in(Slot, Disk) ->
    #{Slot := {Sector, _}} = layout(),
    case whittle_card:read_head(sector(Disk, Sector)) of
        {ok, #{size := Size, crc32 := Crc}} ->
            Image = read(Disk, (Sector + 1) * ?SECTOR, Size),
            case {erlang:crc32(Image), [Name || Name <- [first, second, new],
                                                image(Name) =:= Image]} of
                {Crc, [Name]} -> Name;
                {Crc, []} -> unknown;
                _ -> none
            end;
        error -> none
    end.

%% The calls with which the boot loader begins a trial.
started(Disk) ->
    #{state := Copies} = layout(),
    {State, Copy} = state(Disk),
    case whittle_card:started(State) of
        {Slot, State} -> {Slot, []};
        {Slot, Next} ->
            {Slot, [{write, element(Copy, Copies) * ?SECTOR, whittle_card:state(Next)}, sync]}
    end.

%% The bytes of a disk are those before, with later writes over them, the last one first.
sector(Disk, Sector) -> read(Disk, Sector * ?SECTOR, ?SECTOR).

read({Before, Writes}, At, Size) ->
    lists:foldr(fun({From, Bytes}, Read) -> over(Read, At, From, Bytes) end,
                binary:part(Before, At, Size), Writes).

over(Read, At, From, Bytes) ->
    Start = max(At, From),
    End = min(At + byte_size(Read), From + byte_size(Bytes)),
    case End > Start of
        true ->
            <<Left:(Start - At)/binary, _:(End - Start)/binary, Right/binary>> = Read,
            <<Left/binary, (binary:part(Bytes, Start - From, End - Start))/binary, Right/binary>>;
        false -> Read
    end.

written({Before, Writes}, Calls) ->
    {Before, lists:reverse([{At, Bytes} || {write, At, Bytes} <- Calls]) ++ Writes}.

%%% The record

%% Installs an image in pieces, and returns the calls.
installed() ->
    Image = image(new),
    Size = byte_size(Image) div 5 + 1,
    Calls = recorded(fun() ->
                             {ok, Install} = whittle_board_device:start_install(),
                             [ok = whittle_board_device:write(Install, Piece)
                              || Piece <- pieces(Image, Size)],
                             ok = whittle_board_device:finish(Install)
                     end),
    %% `ok' means that the card has everything.
    sync = lists:last(Calls),
    Calls.

pieces(Bytes, Size) when byte_size(Bytes) =< Size -> [Bytes];
pieces(Bytes, Size) ->
    <<Piece:Size/binary, Rest/binary>> = Bytes,
    [Piece | pieces(Rest, Size)].

%% Returns the writes and syncs of the process that changes the card.
recorded(Fun) ->
    Server = whereis(whittle_board_device_slots),
    1 = erlang:trace(Server, true, [call]),
    Functions = [{file, pwrite, 3}, {file, sync, 1}],
    [1 = erlang:trace_pattern(Function, true, [global]) || Function <- Functions],
    Fun(),
    Delivered = erlang:trace_delivered(Server),
    receive {trace_delivered, Server, Delivered} -> ok end,
    [1 = erlang:trace_pattern(Function, false, [global]) || Function <- Functions],
    1 = erlang:trace(Server, false, [call]),
    calls().

calls() ->
    receive
        {trace, _, call, {file, sync, _}} -> [sync | calls()];
        {trace, _, call, {file, pwrite, [_, At, Bytes]}} ->
            [{write, At, iolist_to_binary(Bytes)} | calls()]
    after 0 -> []
    end.

%%% The cuts

%% Cuts the power after each call. Good is the slot that was confirmed before. Only a confirmation
%% makes the other one good.
checked(Start, Good, Calls) -> checked(Start, Good, false, Calls).

checked(Start, Good, Confirmed, Calls) ->
    cut(Start, [], Calls, {Good, Confirmed}, rand:bytes(?BLOCK)).

%% The first argument is the card of the last sync, the second the writes since then, the last one
%% first.
cut(_, _, [], _, _) -> ok;
cut(Card, Writes, [sync | Calls], Good, Garbage) ->
    cut(written(Card, lists:reverse(Writes)), [], Calls, Good, Garbage);
cut(Card, Writes, [{write, At, Bytes} = Write | Calls], Good, Garbage) ->
    Block = At div ?BLOCK * ?BLOCK,
    ?assertEqual(Block, (At + byte_size(Bytes) - 1) div ?BLOCK * ?BLOCK),
    Before = written(Card, lists:reverse(Writes)),
    [holds(Card, written(Before, [{write, At, binary:part(Bytes, 0, Torn)}]), Good)
     || Torn <- places(byte_size(Bytes))],
    holds(Card, written(Before, [{write, Block, Garbage}]), Good),
    [holds(Card, written(Card, lists:reverse(Some)), Good) || Some <- subsets([Write | Writes])],
    cut(Card, [Write | Writes], Calls, Good, Garbage).

places(Size) when Size =< ?SECTOR -> lists:seq(0, Size - 1);
places(Size) -> lists:seq(0, Size - 1, ?SECTOR) ++ [rand:uniform(Size) - 1 || _ <- [1, 2, 3]].

subsets([]) -> [[]];
subsets([Write | Writes]) ->
    Others = subsets(Writes),
    Others ++ [[Write | Other] || Other <- Others].

%% Checks a card after a cut. Card is the one of the last sync.
holds(Card, Cut, {Good, Confirmed}) ->
    %% The good slot stays as it was.
    #{Good := Part} = layout(),
    ?assert(untouched(Part, element(2, Cut))),
    %% The state does not go back.
    {#{sequence := Last}, _} = state(Card),
    {#{sequence := Sequence, good := Now, trial := Trial, tries := Tries}, _} = state(Cut),
    ?assert(Sequence >= Last),
    ?assert(Now =:= Good orelse Confirmed),
    %% A slot whose trial is to begin has a whole image. Otherwise the trial would be lost.
    ?assert(Tries =:= 0 orelse lists:member(image_in(Trial, Cut), [first, second, new])),
    %% The board starts a whole image, and then the good one.
    {_, Image} = boot(Cut),
    ?assert(lists:member(Image, [first, second, new])),
    {_, Calls} = started(Cut),
    ?assertEqual({Now, image_in(Now, Card)}, boot(written(Cut, Calls))).
