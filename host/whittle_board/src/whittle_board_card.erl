%% @hidden Makes a card from an image, and checks the bytes of a card. This module is pure.
%%
%% docs/cards.md describes the format, and whittle_card writes and reads its records.
-module(whittle_board_card).

-export([make/2, is_card/1, read/1]).

-export_type([card/0, contents/0, part/0, error/0]).

-type contents() :: {image, whittle_board_label:label()} | empty | damaged.

-type card() ::
        #{board := binary(),
          size := pos_integer(),        % bytes
          data := non_neg_integer(),    % bytes of the sectors that are not zero
          good := whittle_card:slot(), trial := whittle_card:slot() | none,
          tries := non_neg_integer(),   % how often the trial slot may still start
          next := whittle_card:slot(),  % the one that the next boot starts
          a := contents(), b := contents(),
          damaged := [binary()],        % parts, if the board boots all the same
          parts := [part()]}.

%% The bytes of all parts add up to those of the card.
-type part() :: #{name := binary(), bytes := non_neg_integer(), data := non_neg_integer()}.

-type error() :: not_a_card | cut | {damaged, Part :: binary()} | {too_large, pos_integer()}.

-define(SECTOR, 512).

%% @doc Makes a card with a labeled image in both slots. The error has the bytes that a slot holds.
-spec make(whittle_board_data:board(), binary()) ->
          {ok, binary()} | {error, {too_large, pos_integer()}}.
make(#{name := Name, arch := Arch, card := Sizes} = Board, Image) ->
    #{boot := {From, Sectors}, a := {A, Count}, b := {B, Count}, sectors := All,
      state := {Copy1, Copy2}} = Layout = whittle_card:layout(maps:with([slot, data], Sizes)),
    case (Count - 1) * ?SECTOR of
        Room when byte_size(Image) > Room -> {error, {too_large, Room}};
        _ ->
            Script = whittle_board_uboot:wrapped(Arch, whittle_board_uboot:script(Board, Layout)),
            Boot = whittle_board_fat:volume(From, Sectors, [{"boot.scr", Script}]),
            Label = #{board => list_to_binary(Name), boot => erlang:crc32(Boot)},
            Head = whittle_card:head(#{size => byte_size(Image), crc32 => erlang:crc32(Image)}),
            Slot = <<Head/binary, Image/binary>>,
            State = whittle_card:state(whittle_card:new_state()),
            {ok, placed(All, [{0, whittle_card:first_sector(Layout, Label)}, {From, Boot},
                              {Copy1, State}, {A, Slot}, {Copy2, State}, {B, Slot}])}
    end.

%% The places are in order.
placed(Sectors, Places) ->
    {End, Bytes} = lists:foldl(fun({Sector, Part}, {At, Before}) ->
                                       Gap = Sector * ?SECTOR - At,
                                       {At + Gap + byte_size(Part),
                                        [Before, <<0:Gap/unit:8>>, Part]}
                               end, {0, []}, Places),
    iolist_to_binary([Bytes, <<0:(Sectors * ?SECTOR - End)/unit:8>>]).

%% @doc Tells whether the first sector of a file is that of a card, also of a damaged one.
-spec is_card(binary()) -> boolean().
is_card(First) -> whittle_card:read_first_sector(First) =/= {error, no_card}.

%% @doc Checks the bytes of a card. Bytes after its end do not count. An error means that the board
%% cannot boot from it.
-spec read(binary()) -> {ok, card()} | {error, error()}.
read(Bytes) ->
    case whittle_card:read_first_sector(binary:part(Bytes, 0, min(?SECTOR, byte_size(Bytes)))) of
        {error, no_card} -> {error, not_a_card};
        {error, damaged} -> {error, {damaged, <<"the first sector">>}};
        {ok, {#{sectors := Sectors}, _}} when byte_size(Bytes) < Sectors * ?SECTOR -> {error, cut};
        {ok, {#{boot := Part} = Layout, #{boot := Crc} = Label}} ->
            case erlang:crc32(part(Bytes, Part)) of
                Crc -> whole(Bytes, Layout, Label);
                _ -> {error, {damaged, <<"the boot partition">>}}
            end
    end.

%% Internal

part(Bytes, {Sector, Count}) -> binary:part(Bytes, Sector * ?SECTOR, Count * ?SECTOR).

whole(Bytes, #{a := A, b := B, state := {Copy1, Copy2}, sectors := Sectors} = Layout,
      #{board := Board}) ->
    [One, Two] = [part(Bytes, {Copy, 1}) || Copy <- [Copy1, Copy2]],
    #{good := Good, trial := Trial, tries := Tries} = State = state(One, Two),
    Slots = [{a, A, contents(part(Bytes, A))}, {b, B, contents(part(Bytes, B))}],
    Foreign = [Slot || {Slot, _, {image, #{board := Other}}} <- Slots, Other =/= Board],
    case {Foreign, [Slot || {Slot, _, {image, _}} <- Slots]} of
        {[Slot | _], _} ->
            {error, {damaged, <<(name(Slot))/binary, " has an image for another board">>}};
        {[], []} -> {error, {damaged, <<"both slots">>}};
        _ ->
            {ok, #{board => Board, size => Sectors * ?SECTOR, good => Good, trial => Trial,
                   tries => Tries, next => next(State, Slots),
                   a => element(3, hd(Slots)), b => element(3, lists:last(Slots)),
                   data => data(binary:part(Bytes, 0, Sectors * ?SECTOR)),
                   damaged => [<<"copy 1 of the boot state">> || not is_state(One)]
                       ++ [<<"copy 2 of the boot state">> || not is_state(Two)]
                       ++ [name(Slot) || {Slot, _, damaged} <- Slots],
                   parts => parts(Bytes, Layout, Slots)}}
    end.

%% The boot loader starts the other slot if the first one has no image.
next(State, Slots) ->
    {First, _} = whittle_card:started(State),
    case lists:keyfind(First, 1, Slots) of
        {First, _, {image, _}} -> First;
        _ -> whittle_card:other(First)
    end.

state(One, Two) ->
    case whittle_card:read_state(One, Two) of
        {ok, {State, _}} -> State;
        error -> whittle_card:new_state()
    end.

is_state(Copy) -> whittle_card:read_state(Copy, <<>>) =/= error.

name(a) -> <<"slot A">>;
name(b) -> <<"slot B">>.

contents(<<0:?SECTOR/unit:8, _/binary>>) -> empty;
contents(<<Head:?SECTOR/binary, Rest/binary>>) ->
    case whittle_card:read_head(Head) of
        {ok, #{size := Size, crc32 := Crc}} when Size =< byte_size(Rest) ->
            Image = binary:part(Rest, 0, Size),
            case {erlang:crc32(Image), whittle_board_label:read(Image)} of
                {Crc, {ok, Label}} -> {image, Label};
                _ -> damaged
            end;
        _ -> damaged
    end.

%% The unused space between two parts is one line of its own.
parts(Bytes, #{boot := Boot, data := Data, state := {Copy1, Copy2}, sectors := Sectors}, Slots) ->
    Places = lists:sort(
               [{{0, 1}, <<"first sector: label and partition table">>},
                {{Copy1, 1}, <<"boot state, copy 1">>}, {{Copy2, 1}, <<"boot state, copy 2">>},
                {Boot, <<"boot partition">>}, {Data, <<"data partition">>}]
               ++ [{Place, {Slot, Contents}} || {Slot, Place, Contents} <- Slots]),
    {End, Lines} = lists:foldl(
                     fun({{First, Count} = Place, Named}, {At, Before}) ->
                             {First + Count, [lines(Named, part(Bytes, Place)),
                                              gap(Bytes, At, First) | Before]}
                     end, {0, []}, Places),
    lists:append(lists:reverse([gap(Bytes, End, Sectors) | Lines])).

gap(_, At, At) -> [];
gap(Bytes, At, End) -> [line(<<"unused">>, part(Bytes, {At, End - At}))].

lines({Slot, {image, #{parts := Parts}}}, <<Head:?SECTOR/binary, Rest/binary>>) ->
    Named = fun(Text) -> <<(name(Slot))/binary, ": ", Text/binary>> end,
    Size = lists:sum([Stored || #{stored := Stored} <- Parts]),
    <<_:Size/binary, Unused/binary>> = Rest,
    [line(Named(<<"head">>), Head)]
        ++ [#{name => Named(Name), bytes => Stored, data => Stored}
            || #{name := Name, stored := Stored} <- Parts]
        ++ [line(Named(<<"unused">>), Unused)];
lines({Slot, Word}, Bytes) ->
    [line(<<(name(Slot))/binary, ": ", (atom_to_binary(Word))/binary>>, Bytes)];
lines(Name, Bytes) -> [line(Name, Bytes)].

line(Name, Bytes) -> #{name => Name, bytes => byte_size(Bytes), data => data(Bytes)}.

%% Counts whole sectors, because a disk stores these. Unused space may begin within one.
data(Bytes) -> data(Bytes, 0).

data(<<0:?SECTOR/unit:8, Rest/binary>>, Sum) -> data(Rest, Sum);
data(<<_:?SECTOR/binary, Rest/binary>>, Sum) -> data(Rest, Sum + ?SECTOR);
data(Last, Sum) ->
    case <<0:(byte_size(Last))/unit:8>> of
        Last -> Sum;
        _ -> Sum + byte_size(Last)
    end.
