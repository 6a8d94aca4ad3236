%% @doc Reads and writes the card that the board started from: its boot state and its other slot.
%%
%% The boot loader tells the program in variables where it runs: WHITTLE_SLOT is `a' or `b',
%% WHITTLE_CARD is the name of the card in /dev, and WHITTLE_BOARD the name of the board.
%% docs/cards.md of Whittle has the order of the writes and its reasons. After each step the card
%% has the bytes, so a power cut leaves a card that boots.
%% @hidden
-module(whittle_board_device_card).

-export([is_here/0, open/0, close/1, info/1, confirm/1]).
-export([start/1, write/2, finish/1]).
-export([format_error/1]).

-export_type([card/0, info/0, image/0, error/0]).

-opaque card() :: #{fd := file:fd(), layout := whittle_card:layout(), slot := whittle_card:slot(),
                    board := binary()}.

%% An image that is not complete yet.
-opaque image() :: #{card := card(), written := non_neg_integer()}.

-type info() ::
        #{slot := whittle_card:slot(),          % the one that runs
          on_trial := boolean(),                % nobody has confirmed it yet
          next := whittle_card:slot(),          % the one that the next boot starts
          failed := boolean()}.                 % the image in the other slot started on trial, or
                                                % was damaged, and nobody confirmed it

-type error() :: no_card                        % the program did not start from a card
               | no_layout                      % the card's first sector is damaged
               | other_card                     % the card in /dev is that of another board
               | on_trial                       % the running image is not confirmed
               | not_an_image
               | not_for_a_card                 % an image whose kernel has no driver for it
               | damaged_image
               | {other_board, Image :: binary(), Here :: binary()}
               | {too_large, Slot :: pos_integer()} % bytes
               | {card, file:posix() | badarg | terminated | eof}
               | {unreadable, file:posix() | badarg | terminated | system_limit}.

-define(SECTOR, 512).
-define(PIECE, 65536).
%% The end of an image: the number of bytes of its label, and a mark (whittle_board_label).
-define(MARK, "Whittle image 1\n").
-define(TAIL, 20).
-define(MOST_LABEL, 65536).

%% @doc Tells whether the program started from a card.
-spec is_here() -> boolean().
is_here() -> running() =/= none.

%% @doc Opens the card, and reads its partition table.
-spec open() -> {ok, card()} | {error, error()}.
open() ->
    case {running(), os:getenv("WHITTLE_CARD"), os:getenv("WHITTLE_BOARD")} of
        {Slot, Name, Board} when Slot =/= none, Name =/= false, Board =/= false ->
            case opened(filename:join("/dev", Name)) of
                {ok, Fd} -> opened(Fd, Slot, list_to_binary(Board));
                {error, Reason} -> {error, {card, Reason}}
            end;
        _ -> {error, no_card}
    end.

running() ->
    case os:getenv("WHITTLE_SLOT") of
        "a" -> a;
        "b" -> b;
        _ -> none
    end.

%% open/2 alone would make a file in the place of a missing card.
opened(Path) ->
    case file:read_file_info(Path) of
        {ok, _} -> file:open(Path, [read, write, raw, binary]);
        {error, _} = Error -> Error
    end.

opened(Fd, Slot, Board) ->
    case read(Fd, 0, ?SECTOR) of
        {ok, Bytes} ->
            case whittle_card:read_first_sector(Bytes) of
                {ok, {Layout, #{board := Board}}} ->
                    {ok, #{fd => Fd, layout => Layout, slot => Slot, board => Board}};
                %% The name in /dev may belong to another disk.
                {ok, _} -> failed(Fd, other_card);
                {error, _} -> failed(Fd, no_layout)
            end;
        {error, Reason} -> failed(Fd, Reason)
    end.

failed(Fd, Reason) ->
    _ = file:close(Fd),
    {error, Reason}.

%% @doc Closes the card.
-spec close(card()) -> ok.
close(#{fd := Fd}) ->
    _ = file:close(Fd),
    ok.

%% @doc Tells which slot runs, and which one the next boot starts.
-spec info(card()) -> {ok, info()} | {error, error()}.
info(#{slot := Slot} = Card) ->
    case state(Card) of
        {ok, {#{good := Good, trial := Trial, tries := Tries} = State, _}} ->
            {Next, _} = whittle_card:started(State),
            {ok, #{slot => Slot, on_trial => Slot =/= Good, next => Next,
                   failed => Trial =:= whittle_card:other(Slot) andalso Tries =:= 0}};
        {error, _} = Error -> Error
    end.

%% @doc Makes the running slot the good one. It writes nothing if it is that already.
-spec confirm(card()) -> ok | {error, error()}.
confirm(#{slot := Slot} = Card) ->
    case state(Card) of
        {ok, {#{good := Slot}, _}} -> ok;
        {ok, {State, Copy}} -> write_state(Card, whittle_card:confirmed(State, Slot), Copy);
        {error, _} = Error -> Error
    end.

%% @doc Begins an image in the other slot. From now on that slot does not start.
-spec start(card()) -> {ok, image()} | {error, error()}.
start(#{slot := Slot} = Card) ->
    case state(Card) of
        {ok, {#{good := Slot, trial := none}, _}} -> emptied(Card);
        {ok, {#{good := Slot} = State, Copy}} ->
            case write_state(Card, whittle_card:cleared(State), Copy) of
                ok -> emptied(Card);
                {error, _} = Error -> Error
            end;
        %% The other slot has the only image that somebody has confirmed.
        {ok, _} -> {error, on_trial};
        {error, _} = Error -> Error
    end.

emptied(Card) ->
    case write_synced(Card, first(Card), <<0:?SECTOR/unit:8>>) of
        ok -> {ok, #{card => Card, written => 0}};
        {error, _} = Error -> Error
    end.

%% @doc Writes the next bytes of an image.
-spec write(image(), iodata()) -> {ok, image()} | {error, error()}.
write(#{card := #{fd := Fd} = Card, written := Written} = Image, Bytes) ->
    Size = iolist_size(Bytes),
    case room(Card) of
        Room when Written + Size > Room -> {error, {too_large, Room}};
        _ ->
            case file:pwrite(Fd, (first(Card) + 1) * ?SECTOR + Written, Bytes) of
                ok -> {ok, Image#{written := Written + Size}};
                {error, Reason} -> {error, {card, Reason}}
            end
    end.

%% @doc Reads the image back from the card and checks it. If it is whole and for this board, the
%% next boot starts it on trial.
-spec finish(image()) -> ok | {error, error()}.
finish(#{card := #{fd := Fd} = Card, written := Size}) ->
    From = (first(Card) + 1) * ?SECTOR,
    case synced(Fd) of
        ok ->
            %% Otherwise the reads would show the kernel's memory, not the card.
            _ = file:advise(Fd, 0, 0, dont_need),
            case checked(Card, From, Size) of
                {ok, Crc} -> mark(Card, #{size => Size, crc32 => Crc});
                {error, _} = Error -> Error
            end;
        {error, _} = Error -> Error
    end.

mark(#{slot := Slot} = Card, Head) ->
    case write_synced(Card, first(Card), whittle_card:head(Head)) of
        ok ->
            case state(Card) of
                %% The slot that runs was the good one at the start, also if both copies are
                %% damaged now.
                {ok, {State, Copy}} ->
                    write_state(Card, whittle_card:marked(State#{good := Slot},
                                                          whittle_card:other(Slot)), Copy);
                {error, _} = Error -> Error
            end;
        {error, _} = Error -> Error
    end.

%% Returns the CRC32 of the whole image, after a check of its label.
checked(_, _, Size) when Size =< ?TAIL -> {error, not_an_image};
checked(#{fd := Fd} = Card, From, Size) ->
    case read(Fd, From + Size - ?TAIL, ?TAIL) of
        {ok, <<Length:32, ?MARK>>} when Length > 0, Length =< ?MOST_LABEL, Length =< Size - ?TAIL ->
            case read(Fd, From + Size - ?TAIL - Length, Length) of
                {ok, Text} -> labeled(Card, From, Size - ?TAIL - Length, Text, Length);
                {error, _} = Error -> Error
            end;
        {ok, _} -> {error, not_an_image};
        {error, _} = Error -> Error
    end.

labeled(#{fd := Fd, board := Here}, From, Rest, Text, Length) ->
    Lines = binary:split(Text, <<"\n">>, [global]),
    case {field(<<"board ">>, Lines), field(<<"crc32 ">>, Lines)} of
        {none, _} -> {error, damaged_image};
        {Board, _} when Board =/= Here -> {error, {other_board, Board, Here}};
        {_, none} -> {error, not_for_a_card};
        {_, Digits} ->
            case crc32(Fd, From, Rest, erlang:crc32(<<>>)) of
                {ok, Crc} ->
                    case try binary_to_integer(Digits, 16) catch error:badarg -> error end of
                        Crc -> crc32(Fd, From + Rest, Length + ?TAIL, Crc);
                        _ -> {error, damaged_image}
                    end;
                {error, _} = Error -> Error
            end
    end.

field(_, []) -> none;
field(Name, [Line | Lines]) ->
    Size = byte_size(Name),
    case Line of
        <<Name:Size/binary, Value/binary>> -> Value;
        _ -> field(Name, Lines)
    end.

crc32(_, _, 0, Crc) -> {ok, Crc};
crc32(Fd, At, Left, Crc) ->
    case read(Fd, At, min(Left, ?PIECE)) of
        {ok, Bytes} ->
            crc32(Fd, At + byte_size(Bytes), Left - byte_size(Bytes), erlang:crc32(Crc, Bytes));
        {error, _} = Error -> Error
    end.

%% The boot loader also takes the state of a new card if no copy is valid.
state(#{fd := Fd, layout := #{state := {One, Two}}}) ->
    case {read(Fd, One * ?SECTOR, ?SECTOR), read(Fd, Two * ?SECTOR, ?SECTOR)} of
        {{ok, Copy1}, {ok, Copy2}} ->
            case whittle_card:read_state(Copy1, Copy2) of
                {ok, _} = Read -> Read;
                error -> {ok, {whittle_card:new_state(), 1}}
            end;
        {{error, _} = Error, _} -> Error;
        {_, Error} -> Error
    end.

write_state(#{layout := #{state := Sectors}} = Card, State, Copy) ->
    write_synced(Card, element(Copy, Sectors), whittle_card:state(State)).

write_synced(#{fd := Fd}, Sector, Bytes) ->
    case file:pwrite(Fd, Sector * ?SECTOR, Bytes) of
        ok -> synced(Fd);
        {error, Reason} -> {error, {card, Reason}}
    end.

synced(Fd) ->
    case file:sync(Fd) of
        ok -> ok;
        {error, Reason} -> {error, {card, Reason}}
    end.

read(Fd, At, Size) ->
    case file:pread(Fd, At, Size) of
        {ok, Bytes} when byte_size(Bytes) =:= Size -> {ok, Bytes};
        {error, Reason} -> {error, {card, Reason}};
        _ -> {error, {card, eof}}
    end.

%% The first sector of the other slot.
first(Card) -> element(1, part(Card)).

%% The bytes of an image that the other slot holds.
room(Card) -> (element(2, part(Card)) - 1) * ?SECTOR.

part(#{layout := Layout, slot := Slot}) -> map_get(whittle_card:other(Slot), Layout).

%% @doc Formats an error as one line.
-spec format_error(error()) -> unicode:chardata().
format_error(no_card) ->
    "the program did not start from a slot of a card: build the card with --format card; on a desk "
        "there is none";
format_error(no_layout) -> "the first sector of the card is damaged: write the card again";
format_error(other_card) ->
    "the disk in the place of the card is a card for another board: remove it, and start the board "
        "again";
format_error(on_trial) ->
    "the running image is on trial, and the other slot has the image to fall back to: confirm "
        "first";
format_error(not_an_image) ->
    "these bytes do not end as an image does: send a whole file that `whittle build' made with "
        "--format slot";
format_error(not_for_a_card) -> "this image is not for a card: build it with --format slot";
format_error(damaged_image) -> "the image is damaged: send it again";
format_error({other_board, Board, Here}) ->
    ["the image is for the board ", Board, ", and this is ", Here, ": build it for ", Here];
format_error({too_large, Bytes}) ->
    ["the image is larger than the ", integer_to_binary(Bytes),
     " bytes that a slot holds: build a smaller one, or a card with larger slots"];
format_error({card, eof}) -> "the card ends too early: write it again";
format_error({card, Reason}) -> ["the card: ", file:format_error(Reason)];
format_error({unreadable, Reason}) -> ["the file: ", file:format_error(Reason)].
