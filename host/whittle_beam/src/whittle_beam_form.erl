%% @hidden Reads and writes the IFF form of a BEAM file and the stream of its literals.
%%
%% The form is `FOR1' of type `BEAM', with chunks that are padded to four bytes.
-module(whittle_beam_form).

-export([chunks/1, write/1, size/1]).
-export([stored/1]).

-type chunk() :: {whittle_beam:chunk_id(), binary()}.

%% A file that claims to inflate to more than this counts as damaged.
-define(MAX_INFLATED, 256 * 1024 * 1024).

%% @doc Returns the chunks in the file's order. It inflates a gzipped file.
-spec chunks(binary()) -> {ok, [chunk()]} | {error, whittle_beam:error()}.
chunks(<<31, 139, _/binary>> = Gzipped) ->
    case whittle_bounded:inflate(31, Gzipped, ?MAX_INFLATED) of
        {ok, Bytes} -> plain(Bytes);
        {error, Why} -> {error, {damaged, {file, Why}}}
    end;
chunks(Bytes) ->
    plain(Bytes).

%% @doc Writes the file with these chunks.
-spec write([chunk()]) -> binary().
write(Chunks) ->
    Body = [[<<Id/binary, (byte_size(Data)):32>>, Data, padding(Data)]
            || {Id, Data} <- Chunks],
    iolist_to_binary([<<"FOR1", (4 + iolist_size(Body)):32, "BEAM">>, Body]).

%% @doc Returns the size of a chunk with its header and padding.
-spec size(binary()) -> pos_integer().
size(Data) -> 8 + padded(byte_size(Data)).

%% @doc Writes a zlib stream that stores its data uncompressed.
%%
%% Older loaders read only zlib streams. An outer compressor can still compress the data.
-spec stored(binary()) -> binary().
stored(Plain) ->
    Z = zlib:open(),
    ok = zlib:deflateInit(Z, none),
    Stream = iolist_to_binary(zlib:deflate(Z, Plain, finish)),
    ok = zlib:close(Z),
    Stream.

%% Internal functions

%% The loader ignores bytes after the form, so this function drops them.
plain(<<"FOR1", Size:32, "BEAM", Rest/binary>>) when Size >= 4, Size - 4 =< byte_size(Rest) ->
    read(binary:part(Rest, 0, Size - 4), []);
plain(<<"FOR1", _:32, "BEAM", _/binary>>) ->
    {error, {damaged, {file, cut_off}}};
plain(Bytes) ->
    {error, {not_beam, binary:part(Bytes, 0, min(4, byte_size(Bytes)))}}.

read(<<Id:4/binary, Size:32, Rest/binary>>, Chunks) ->
    Stored = padded(Size),
    case Rest of
        <<Data:Size/binary, _:(Stored - Size)/binary, More/binary>> ->
            read(More, [{Id, Data} | Chunks]);
        %% Other writers than OTP's omit the padding of the last chunk.
        <<Data:Size/binary, Tail/binary>> when byte_size(Tail) < 4 ->
            {ok, lists:reverse(Chunks, [{Id, Data}])};
        _ ->
            {error, {damaged, {Id, cut_off}}}
    end;
read(<<>>, Chunks) ->
    {ok, lists:reverse(Chunks)};
read(_, _) ->
    {error, {damaged, {file, cut_off}}}.

padded(Size) -> (Size + 3) band bnot 3.

padding(Data) ->
    binary:copy(<<0>>, padded(byte_size(Data)) - byte_size(Data)).
