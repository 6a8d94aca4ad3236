%% @doc Reads and writes the format of a card: its first sector, the heads of its slots, and the
%% boot state.
%%
%% A card has a boot partition, two slots for images, and a data partition. docs/cards.md of Whittle
%% describes the format. The host makes cards with this module, and the board changes them. The
%% module is pure. It avoids OTP's larger modules, because it becomes a part of small programs.
-module(whittle_card).

-export([layout/1, other/1]).
-export([first_sector/2, read_first_sector/1]).
-export([head/1, read_head/1]).
-export([new_state/0, state/1, read_state/2]).
-export([cleared/1, marked/2, started/1, confirmed/2]).
-export([record/2, read_record/1]).

-export_type([layout/0, part/0, slot/0, label/0, head/0, state/0, copy/0]).

-type slot() :: a | b.

%% The first sector and the number of sectors.
-type part() :: {non_neg_integer(), pos_integer()}.

-type layout() ::
        #{boot := part(), a := part(), b := part(), data := part(),
          state := {Copy1 :: pos_integer(), Copy2 :: pos_integer()}, % sectors
          sectors := pos_integer()}.    % of the whole card

-type label() ::
        #{board := binary(),
          boot := 0..16#ffffffff}.      % the CRC32 of the boot partition

-type head() :: #{size := pos_integer(),            % bytes of the image
                  crc32 := 0..16#ffffffff}.         % of the image

-type state() ::
        #{sequence := 1..16#7ffffffe,
          good := slot(),               % the slot that was confirmed last
          trial := slot() | none,       % the slot that is to start on trial, or did
          tries := non_neg_integer()}.  % how often the trial slot may still start

-type copy() :: 1 | 2.

-define(SECTOR, 512).
-define(PER_MB, 2048).
%% Flash memory erases blocks of at most this many sectors (4 MB), and a power cut may destroy the
%% block that it erases. So each part that the board writes begins a block, and each copy of the
%% boot state has a whole one. The first block has the table and the boot partition, which no board
%% writes.
-define(BLOCK, 8192).
%% A damaged label begins so behind its CRC32. No other file does: a text has no zero byte.
-define(BEGIN, "card=1", 0, "board=").
%% The bytes of the first sector before the disk's number and the partition table.
-define(CODE, 440).
%% Types of partitions: FAT12, data without a file system, Linux.
-define(FAT, 16#01).
-define(RAW, 16#DA).
-define(LINUX, 16#83).

%% @doc Computes the layout of a card. The sizes are megabytes; that of a slot is a multiple of 4.
-spec layout(#{slot := pos_integer(), data := pos_integer()}) -> layout().
layout(#{slot := Slot, data := Data}) ->
    0 = Slot * ?PER_MB rem ?BLOCK,
    A = 2 * ?BLOCK,
    Copy2 = A + Slot * ?PER_MB,
    B = Copy2 + ?BLOCK,
    Last = B + Slot * ?PER_MB,
    #{boot => {?PER_MB, ?PER_MB}, a => {A, Slot * ?PER_MB}, b => {B, Slot * ?PER_MB},
      data => {Last, Data * ?PER_MB}, state => {A - ?BLOCK, Copy2},
      sectors => Last + Data * ?PER_MB}.

%% @doc Returns the other slot.
-spec other(slot()) -> slot().
other(a) -> b;
other(b) -> a.

%% @doc Writes the first sector.
-spec first_sector(layout(), label()) -> <<_:4096>>.
first_sector(#{boot := Boot, a := A, b := B, data := Data}, #{board := Board, boot := Crc}) ->
    Table = <<(entry(16#80, ?FAT, Boot))/binary, (entry(0, ?RAW, A))/binary,
              (entry(0, ?RAW, B))/binary, (entry(0, ?LINUX, Data))/binary>>,
    Label = record(?CODE, [{<<"card">>, <<"1">>}, {<<"board">>, Board}, {<<"boot">>, hex(Crc)},
                           {<<"table">>, hex(erlang:crc32(Table))}]),
    <<Label/binary, 0:48, Table/binary, 16#55, 16#AA>>.

%% The addresses of cylinders, heads and sectors have the value for "too large".
entry(Active, Type, {First, Count}) ->
    <<Active, 16#FE, 16#FF, 16#FF, Type, 16#FE, 16#FF, 16#FF, First:32/little, Count:32/little>>.

%% @doc Reads the first sector. `no_card' means that it is that of another disk; `damaged', that it
%% was that of a card.
-spec read_first_sector(binary()) -> {ok, {layout(), label()}} | {error, no_card | damaged}.
read_first_sector(<<Label:?CODE/binary, _:6/binary, Table:64/binary, 16#55, 16#AA>>) ->
    case {read_record(Label), Label} of
        {{ok, #{<<"card">> := <<"1">>, <<"board">> := Board, <<"boot">> := Boot,
                <<"table">> := Sum}}, _} ->
            case {number(Boot), number(Sum), erlang:crc32(Table), partitions(Table)} of
                {{ok, Crc}, {ok, Same}, Same, {ok, Layout}} ->
                    case is_name(Board) of
                        true -> {ok, {Layout, #{board => Board, boot => Crc}}};
                        false -> {error, damaged}
                    end;
                _ -> {error, damaged}
            end;
        {_, <<_:4/binary, ?BEGIN, _/binary>>} -> {error, damaged};
        _ -> {error, no_card}
    end;
read_first_sector(<<_:4/binary, ?BEGIN, _/binary>>) -> {error, damaged};
read_first_sector(_) -> {error, no_card}.

%% The name of a board consists of these characters, and commands show it.
is_name(<<>>) -> false;
is_name(Name) ->
    [] =:= [C || <<C>> <= Name, not (C >= $a andalso C =< $z orelse C >= $A andalso C =< $Z
                                     orelse C >= $0 andalso C =< $9
                                     orelse C =:= $_ orelse C =:= $. orelse C =:= $-)].

partitions(Table) ->
    case [{Type, First, Count} || <<_:4/binary, Type, _:3/binary, First:32/little, Count:32/little>>
                                      <= Table] of
        [{?FAT, Boot, Boots}, {?RAW, A, As}, {?RAW, B, Bs}, {?LINUX, Data, Datas}]
          when Boot > 0, Boots > 0, Boot + Boots =< A - ?BLOCK, A rem ?BLOCK =:= 0, As > 1,
               (A + As) rem ?BLOCK =:= 0, A + As + ?BLOCK =< B, B rem ?BLOCK =:= 0, Bs > 1,
               B + Bs =< Data, Data rem ?BLOCK =:= 0, Datas > 0 ->
            {ok, #{boot => {Boot, Boots}, a => {A, As}, b => {B, Bs}, data => {Data, Datas},
                   state => {A - ?BLOCK, A + As}, sectors => Data + Datas}};
        _ -> error
    end.

%% @doc Writes the head of a slot.
-spec head(head()) -> <<_:4096>>.
head(#{size := Size, crc32 := Crc}) ->
    record(?SECTOR, [{<<"size">>, hex(Size)}, {<<"crc">>, hex(swapped(Crc))}]).

%% @doc Reads the head of a slot. A slot without an image gives an error, as a damaged head does.
-spec read_head(binary()) -> {ok, head()} | error.
read_head(Bytes) ->
    case read_record(Bytes) of
        {ok, #{<<"size">> := Size, <<"crc">> := Crc}} ->
            case {number(Size), number(Crc)} of
                {{ok, N}, {ok, Sum}} when N > 0, Sum =< 16#ffffffff ->
                    {ok, #{size => N, crc32 => swapped(Sum)}};
                _ -> error
            end;
        _ -> error
    end.

%% U-Boot stores the first byte of a CRC32 first, and compares numbers of its processor.
swapped(Crc) ->
    <<Number:32/little>> = <<Crc:32>>,
    Number.

%% @doc Returns the boot state of a new card.
-spec new_state() -> state().
new_state() -> #{sequence => 1, good => a, trial => none, tries => 0}.

%% @doc Writes a boot state.
-spec state(state()) -> <<_:4096>>.
state(#{sequence := Sequence, good := Good, trial := Trial, tries := Tries}) ->
    record(?SECTOR, [{<<"good">>, atom_to_binary(Good)}, {<<"seq">>, hex(Sequence)},
                     {<<"trial">>, atom_to_binary(Trial)}, {<<"tries">>, hex(Tries)}]).

%% @doc Reads the boot state from its two copies. The result names the copy that the next write must
%% replace. If both copies are valid and have the same number, copy 2 counts, as for the boot
%% loader.
-spec read_state(binary(), binary()) -> {ok, {state(), Next :: copy()}} | error.
read_state(Copy1, Copy2) ->
    case {read_copy(Copy1), read_copy(Copy2)} of
        {error, error} -> error;
        {error, State} -> {ok, {State, 1}};
        {State, error} -> {ok, {State, 2}};
        {#{sequence := One} = State, #{sequence := Two}} when One > Two -> {ok, {State, 2}};
        {_, State} -> {ok, {State, 1}}
    end.

read_copy(Bytes) ->
    case read_record(Bytes) of
        {ok, #{<<"seq">> := Sequence, <<"good">> := Good, <<"trial">> := Trial,
               <<"tries">> := Tries}} ->
            case {number(Sequence), slot(Good), slot(Trial), number(Tries)} of
                %% The boot loader calculates with 31 bits, and needs a next number.
                {{ok, S}, G, T, {ok, N}} when S > 0, S < 16#7fffffff, G =/= none, G =/= error,
                                              T =/= error ->
                    #{sequence => S, good => G, trial => T, tries => N};
                _ -> error
            end;
        _ -> error
    end.

slot(<<"a">>) -> a;
slot(<<"b">>) -> b;
slot(<<"none">>) -> none;
slot(_) -> error.

%% @doc Returns the state without a trial.
-spec cleared(state()) -> state().
cleared(State) -> next(State#{trial := none, tries := 0}).

%% @doc Returns the state in which a slot is to start once on trial.
-spec marked(state(), slot()) -> state().
marked(State, Slot) -> next(State#{trial := Slot, tries := 1}).

%% @doc Returns the slot that the boot loader starts first, and the state that it writes before.
%% The script of U-Boot does the same; the tests compare both.
-spec started(state()) -> {slot(), state()}.
started(#{trial := Trial, tries := Tries} = State) when Trial =/= none, Tries > 0 ->
    {Trial, next(State#{tries := Tries - 1})};
started(#{good := Good} = State) -> {Good, State}.

%% @doc Returns the state in which a slot is the good one.
-spec confirmed(state(), slot()) -> state().
confirmed(State, Slot) -> next(State#{good := Slot, trial := none, tries := 0}).

next(#{sequence := Sequence} = State) -> State#{sequence := Sequence + 1}.

%% @doc Writes a record of the given number of bytes. The texts must fit, and contain no zero byte.
%% The sorted keys are in the order in which U-Boot writes them.
-spec record(pos_integer(), [{binary(), binary()}]) -> binary().
record(Size, Pairs) ->
    Texts = << <<Key/binary, $=, Value/binary, 0>> || {Key, Value} <- Pairs>>,
    Room = Size - 4 - byte_size(Texts),
    true = Room >= 1,
    Body = <<Texts/binary, 0:Room/unit:8>>,
    <<(erlang:crc32(Body)):32/little, Body/binary>>.

%% @doc Reads a record. All bytes count for its CRC32.
-spec read_record(binary()) -> {ok, #{binary() => binary()}} | error.
read_record(<<Crc:32/little, Body/binary>>) ->
    case erlang:crc32(Body) of
        Crc -> {ok, pairs(Body, #{})};
        _ -> error
    end;
read_record(_) -> error.

pairs(Bytes, Read) ->
    case binary:split(Bytes, <<0>>) of
        [<<>> | _] -> Read;
        [Text | Rest] ->
            Next = case binary:split(Text, <<"=">>) of
                       [Key, Value] -> Read#{Key => Value};
                       [_] -> Read
                   end,
            case Rest of
                [More] -> pairs(More, Next);
                [] -> Next
            end
    end.

hex(Number) -> integer_to_binary(Number, 16).

%% The limit keeps hostile numbers small.
number(Digits) when byte_size(Digits) =< 8 ->
    try binary_to_integer(Digits, 16) of
        Number when Number >= 0 -> {ok, Number};
        _ -> error
    catch error:badarg -> error
    end;
number(_) -> error.
