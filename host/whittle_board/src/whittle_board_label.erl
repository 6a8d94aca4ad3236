%% @hidden Writes and reads the label at the end of an image: its board, its program and its parts.
%%
%% A boot loader ignores the bytes after a kernel. The label is lines `KEY VALUE', then the number
%% of bytes of these lines as 32 bits, then a mark. Its line `sha256' is the digest of all bytes
%% before the label. This module is pure.
-module(whittle_board_label).

-export([add/2, add_for_slot/2, read/1, is_image/1, is_kernel/1]).

-export_type([label/0, part/0, error/0]).

-type label() ::
        #{board := binary(), target := binary(), name := binary(), version := binary(),
          network => binary(),          % the value of WHITTLE_NETWORK; absent without a network
          crc32 => binary(),            % of the bytes before the label, as hexadecimal digits; only
                                        % in an image for a slot, which the board itself checks
          parts := [part()]}.

-type part() :: #{name := binary(), stored := non_neg_integer(), raw := non_neg_integer()}.

-type error() :: no_label | damaged.

-define(MARK, "Whittle image 1\n").
%% The largest label. A label has about 400 bytes.
-define(MOST, 65536).

%% @doc Adds a label to an image for a slot of a card.
-spec add_for_slot(binary(), label()) -> binary().
add_for_slot(Image, Label) ->
    add(Image, Label#{crc32 => integer_to_binary(erlang:crc32(Image), 16)}).

%% @doc Adds a label to an image. Values must not contain a newline.
-spec add(binary(), label()) -> binary().
add(Image, #{parts := Parts} = Label) ->
    Lines = [["sha256 ", whittle_digest:bytes(Image), $\n]]
        ++ [[atom_to_list(Key), $\s, Value, $\n]
            || Key <- keys() ++ [network, crc32], #{Key := Value} <- [Label]]
        ++ [[io_lib:format("part ~b ~b ", [Stored, Raw]), Name, $\n]
            || #{name := Name, stored := Stored, raw := Raw} <- Parts],
    Text = iolist_to_binary(Lines),
    true = byte_size(Text) =< ?MOST,
    <<Image/binary, Text/binary, (byte_size(Text)):32, ?MARK>>.

%% @doc Tells whether the last bytes of a file are those of a label.
-spec is_image(binary()) -> boolean().
is_image(Bytes) ->
    Size = length(?MARK),
    byte_size(Bytes) >= Size andalso binary:part(Bytes, byte_size(Bytes), -Size) =:= <<?MARK>>.

%% @doc Tells whether the first bytes of a file are those of a kernel of Linux: a zImage for ARM, an
%% Image for 64-bit ARM or RISC-V, or a bzImage. The marks are those of Linux's documents on
%% booting. Other files of gzip also begin with the bytes of gzip, so the mark of a compressed Image
%% contains the date and the name that whittle_board_form gives it.
-spec is_kernel(binary()) -> boolean().
is_kernel(Bytes) ->
    lists:any(fun({At, Mark}) ->
                      byte_size(Bytes) >= At + byte_size(Mark)
                          andalso binary:part(Bytes, At, byte_size(Mark)) =:= Mark
              end, [{36, <<16#016F2818:32/little>>}, {56, <<"ARM", 16#64>>}, {56, <<"RSC", 5>>},
                    {514, <<"HdrS">>},
                    {0, <<16#1F, 16#8B, 8, 8, 1:32/little, 2, 3, "Image", 0>>}]).

%% @doc Reads the label of an image and checks the digest. The last part is the label itself, so the
%% stored bytes of all parts add up to the image.
-spec read(binary()) -> {ok, label()} | {error, error()}.
read(Bytes) ->
    Tail = length(?MARK) + 4,
    case is_image(Bytes) andalso byte_size(Bytes) >= Tail of
        true ->
            <<Size:32, _/binary>> = binary:part(Bytes, byte_size(Bytes), -Tail),
            Rest = byte_size(Bytes) - Tail - Size,
            case Size =< ?MOST andalso Rest >= 0 of
                true ->
                    <<Image:Rest/binary, Text:Size/binary, _/binary>> = Bytes,
                    parsed(Image, Text, Tail);
                false -> {error, damaged}
            end;
        false -> {error, no_label}
    end.

%% Internal

keys() -> [board, target, name, version].

parsed(Image, Text, Tail) ->
    Lines = [binary:split(Line, <<" ">>) || Line <- binary:split(Text, <<"\n">>, [global, trim])],
    Named = maps:from_list([{Key, Value} || [Key, Value] <- Lines]),
    Values = [{Key, Value} || Key <- keys(), #{} <- [Named],
                              {ok, Value} <- [maps:find(atom_to_binary(Key), Named)]],
    Parts = [part(Value) || [<<"part">>, Value] <- Lines],
    Sum = iolist_to_binary(whittle_digest:bytes(Image)),
    Utf8 = unicode:characters_to_binary(Text),
    case Named of
        #{<<"sha256">> := Sum} when length(Values) =:= 4, Text =:= Utf8 ->
            Stored = [S || #{stored := S} <- Parts],
            case length(Stored) =:= length(Parts) andalso lists:sum(Stored) =:= byte_size(Image) of
                true ->
                    Own = byte_size(Text) + Tail,
                    Others = [{Key, Value} || Key <- [network, crc32],
                                              {ok, Value} <- [maps:find(atom_to_binary(Key),
                                                                        Named)]],
                    {ok, (maps:from_list(Others ++ Values))#{
                           parts => Parts ++ [#{name => <<"label">>, stored => Own,
                                                raw => Own}]}};
                false -> {error, damaged}
            end;
        _ -> {error, damaged}
    end.

part(Value) ->
    case re:run(Value, "^([0-9]{1,12}) ([0-9]{1,12}) (.+)$", [{capture, all_but_first, binary}]) of
        {match, [Stored, Raw, Name]} ->
            #{name => Name, stored => binary_to_integer(Stored), raw => binary_to_integer(Raw)};
        nomatch -> damaged
    end.
