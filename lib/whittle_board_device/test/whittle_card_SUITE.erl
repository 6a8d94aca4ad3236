%% Tests the format of cards: the partition table, the heads of slots, the boot state and its moves.
-module(whittle_card_SUITE).

-include_lib("proper/include/proper.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([records/1, changed_record/1, layouts/1, hostile_names/1, changed_table/1, strange_tables/1,
         heads/1, states/1, copies/1, torn_write/1, moves/1, uboot/1]).

all() ->
    [records, changed_record, layouts, hostile_names, changed_table, strange_tables, heads, states,
     copies, torn_write, moves, uboot].

init_per_testcase(_, Config) -> Config.

end_per_testcase(_, _) -> ok.

records(_) ->
    holds(?FORALL(Pairs, list({key(), text()}),
                  begin
                      Wanted = maps:from_list(Pairs),
                      Record = whittle_card:record(4096, maps:to_list(Wanted)),
                      byte_size(Record) =:= 4096
                          andalso whittle_card:read_record(Record) =:= {ok, Wanted}
                  end)).

key() -> ?LET(Chars, non_empty(resize(6, list(integer($a, $z)))), list_to_binary(Chars)).

text() -> ?LET(Chars, resize(12, list(integer(1, 255))), list_to_binary(Chars)).

%% A change of any bit is noticed.
changed_record(_) ->
    Record = whittle_card:state(whittle_card:new_state()),
    [begin
         <<Before:At, Bit:1, After/bitstring>> = Record,
         ?assertEqual(error, whittle_card:read_record(<<Before:At, (1 - Bit):1, After/bitstring>>))
     end || At <- lists:seq(0, bit_size(Record) - 1)],
    [?assertEqual(error, whittle_card:read_record(binary:part(Record, 0, Size)))
     || Size <- [0, 1, 3, 4, 511]].

layouts(_) ->
    holds(?FORALL({Slot, Data, Board, Crc}, {integer(1, 64), integer(1, 64), key(), crc()},
                  begin
                      Layout = whittle_card:layout(#{slot => 4 * Slot, data => Data}),
                      Label = #{board => Board, boot => Crc},
                      First = whittle_card:first_sector(Layout, Label),
                      #{a := {A, As}, b := {B, Bs}, data := {D, Ds}, state := {One, Two},
                        boot := {Boot, Boots}, sectors := All} = Layout,
                      byte_size(First) =:= 512
                          andalso whittle_card:read_first_sector(First) =:= {ok, {Layout, Label}}
                          andalso D + Ds =:= All
                          %% No two of these parts share an erase block of 4 MB.
                          andalso apart([{0, Boot + Boots}, {One, 1}, {A, As}, {Two, 1}, {B, Bs},
                                         {D, Ds}])
                  end)).

apart([{From, Count}, {Next, _} = Part | Parts]) ->
    (From + Count - 1) div 8192 < Next div 8192 andalso apart([Part | Parts]);
apart([_]) -> true.

crc() -> integer(0, 16#ffffffff).

%% A label with a good sum may have any bytes as its board.
hostile_names(_) ->
    Layout = whittle_card:layout(#{slot => 8, data => 4}),
    [?assertEqual({Name, {error, damaged}},
                  {Name, whittle_card:read_first_sector(
                           whittle_card:first_sector(Layout, #{board => Name, boot => 1}))})
     || Name <- [<<>>, <<255, 254>>, <<"a b">>, <<"a/b">>, <<"a\n">>, <<"\e[2J">>, <<"ä"/utf8>>]],
    ?assertMatch({ok, _}, whittle_card:read_first_sector(
                            whittle_card:first_sector(Layout, #{board => <<"My_board-2.0">>,
                                                                boot => 1}))).

%% A change of any byte gives an error, except in the number of the disk, which nobody reads.
changed_table(_) ->
    First = whittle_card:first_sector(whittle_card:layout(#{slot => 8, data => 4}),
                                      #{board => <<"qemu-arm">>, boot => 16#12345678}),
    [begin
         <<Before:At/binary, Byte, After/binary>> = First,
         Changed = <<Before/binary, (Byte bxor 16#10), After/binary>>,
         ?assertMatch({At, {error, _}}, {At, whittle_card:read_first_sector(Changed)})
     end || At <- lists:seq(0, 511), At < 440 orelse At >= 446],
    [?assertMatch({Size, {error, _}},
                  {Size, whittle_card:read_first_sector(binary:part(First, 0, Size))})
     || Size <- lists:seq(0, 511)].

%% Tables of other disks, and tables whose parts overlap.
strange_tables(_) ->
    ?assertEqual({error, no_card}, whittle_card:read_first_sector(<<0:512/unit:8>>)),
    ?assertEqual({error, no_card}, whittle_card:read_first_sector(<<0:510/unit:8, 16#55, 16#AA>>)),
    %% Parts that would share an erase block with another one.
    Right = whittle_card:layout(#{slot => 8, data => 4}),
    [begin
         #{Part := {First, Count}} = Right,
         Sector = whittle_card:first_sector(Right#{Part := {First + By, Count - By}},
                                            #{board => <<"x">>, boot => 0}),
         ?assertEqual({Part, By, {error, damaged}},
                      {Part, By, whittle_card:read_first_sector(Sector)})
     end || Part <- [a, b, data], By <- [-8191, -1, 1, 8191]],
    holds(?FORALL({Boot, A, B, Data}, {part(), part(), part(), part()},
                  begin
                      Layout = #{boot => Boot, a => A, b => B, data => Data},
                      First = whittle_card:first_sector(Layout, #{board => <<"x">>, boot => 0}),
                      case whittle_card:read_first_sector(First) of
                          {ok, {#{boot := Boot, a := A, b := B, data := Data}, _}} ->
                              lists:sort([Boot, A, B, Data]) =:= [Boot, A, B, Data]
                                  andalso element(1, Boot) + element(2, Boot) =< element(1, A);
                          {error, damaged} -> true
                      end
                  end)).

part() -> {integer(0, 20000), integer(0, 20000)}.

heads(_) ->
    holds(?FORALL({Size, Crc}, {integer(1, 16#ffffffff), crc()},
                  begin
                      Head = #{size => Size, crc32 => Crc},
                      whittle_card:read_head(whittle_card:head(Head)) =:= {ok, Head}
                  end)),
    ?assertEqual(error, whittle_card:read_head(<<0:512/unit:8>>)),
    %% As U-Boot's `crc32' leaves the sum in the memory of a little-endian processor.
    {ok, #{<<"crc">> := <<"44332211">>}} =
        whittle_card:read_record(whittle_card:head(#{size => 1, crc32 => 16#11223344})).

states(_) ->
    holds(?FORALL(State, state(),
                  whittle_card:read_state(whittle_card:state(State), <<>>) =:= {ok, {State, 2}})).

state() ->
    ?LET({Sequence, Good, Trial, Tries},
         {integer(1, 16#7ffffff0), oneof([a, b]), oneof([a, b, none]), integer(0, 9)},
         #{sequence => Sequence, good => Good, trial => Trial, tries => Tries}).

%% The copy with the higher number counts, and a write replaces the other one. Hostile records are
%% no states.
copies(_) ->
    holds(?FORALL({#{sequence := One} = State1, #{sequence := Two} = State2}, {state(), state()},
                  begin
                      [Copy1, Copy2] = [whittle_card:state(State) || State <- [State1, State2]],
                      Wanted = case One > Two of
                                   true -> {State1, 2};
                                   false -> {State2, 1}
                               end,
                      whittle_card:read_state(Copy1, Copy2) =:= {ok, Wanted}
                          andalso whittle_card:read_state(<<1:512/unit:8>>, Copy2)
                                      =:= {ok, {State2, 1}}
                          andalso whittle_card:read_state(Copy1, <<1:512/unit:8>>)
                                      =:= {ok, {State1, 2}}
                  end)),
    ?assertEqual(error, whittle_card:read_state(<<>>, <<0:512/unit:8>>)),
    Good = [{<<"good">>, <<"a">>}, {<<"seq">>, <<"1">>}, {<<"trial">>, <<"none">>},
            {<<"tries">>, <<"0">>}],
    {ok, _} = whittle_card:read_state(whittle_card:record(512, Good), <<>>),
    [?assertEqual(error,
                  whittle_card:read_state(
                    whittle_card:record(512, lists:keystore(Key, 1, Good, {Key, Value})), <<>>))
     || {Key, Value} <- [{<<"good">>, <<"none">>}, {<<"good">>, <<"c">>}, {<<"seq">>, <<"x">>},
                         {<<"seq">>, <<"-1">>}, {<<"seq">>, <<"123456789">>}, {<<"seq">>, <<"0">>},
                         {<<"seq">>, <<"7fffffff">>}, {<<"seq">>, <<"80000000">>},
                         {<<"trial">>, <<>>}, {<<"tries">>, <<"1 ">>}]].

%% A write that stops at any byte leaves the old state or the new one.
torn_write(_) ->
    holds(?FORALL({#{sequence := Sequence} = State, Slot, At},
                  {?SUCHTHAT(#{sequence := S}, state(), S > 1), oneof([a, b]), integer(0, 512)},
                  begin
                      Old = whittle_card:state(State),
                      New = whittle_card:marked(State, Slot),
                      <<Begin:At/binary, _/binary>> = whittle_card:state(New),
                      %% The other copy has the state before the old one.
                      Before = whittle_card:state(State#{sequence := Sequence - 1, good := a}),
                      <<_:At/binary, End/binary>> = Before,
                      {ok, {Read, _}} = whittle_card:read_state(Old, <<Begin/binary, End/binary>>),
                      Read =:= State orelse Read =:= New
                  end)).

%% Whatever happens, the good slot is the one that somebody confirmed last, and a slot on trial
%% starts once.
moves(_) ->
    New = whittle_card:new_state(),
    ?assertEqual({a, New}, whittle_card:started(New)),
    Marked = whittle_card:marked(New, b),
    {b, Tried} = whittle_card:started(Marked),
    ?assertEqual({a, Tried}, whittle_card:started(Tried)),
    Confirmed = whittle_card:confirmed(Tried, b),
    ?assertMatch({b, Confirmed}, whittle_card:started(Confirmed)),
    ?assertMatch({a, _}, whittle_card:started(whittle_card:cleared(Marked))),
    Sequences = [Sequence || #{sequence := Sequence} <- [New, Marked, Tried, Confirmed]],
    ?assertEqual([1, 2, 3, 4], Sequences),
    ?assertEqual([b, a], [whittle_card:other(Slot) || Slot <- [a, b]]).

%% U-Boot 2023.01 wrote a record that begins so: `env export -c -s 200' of these variables.
uboot(_) ->
    Pairs = [{<<"good">>, <<"a">>}, {<<"seq">>, <<"2a">>}, {<<"trial">>, <<"b">>},
             {<<"tries">>, <<"0">>}],
    Record = whittle_card:record(512, Pairs),
    ?assertEqual(<<16#81, 16#27, 16#AC, 16#8C, "good=a", 0, "seq=2a", 0, "trial=b", 0, "tries=0", 0,
                   0>>, binary:part(Record, 0, 35)),
    ?assertEqual({ok, {#{sequence => 42, good => a, trial => b, tries => 0}, 2}},
                 whittle_card:read_state(Record, <<>>)).

holds(Property) ->
    ?assertEqual(true, proper:quickcheck(Property, [{numtests, 300}, {to_file, user}])).
