%% @doc Writes a gray picture as a PNG file (https://www.w3.org/TR/png-3/).
%% @hidden
-module(docket_png).

-export([gray/2]).

%% @doc Writes a picture of this width, with a byte for each point, row after row.
-spec gray(Width :: pos_integer(), Points :: binary()) -> iodata().
gray(Width, Points) ->
    Height = byte_size(Points) div Width,
    %% A byte before each row chooses the filter; 0 is none.
    Rows = [[0, Row] || <<Row:Width/binary>> <= Points],
    [<<137, "PNG\r\n", 26, "\n">>,
     %% 8 bits for each point, gray, the only compression and filter method, not interlaced
     chunk(<<"IHDR">>, <<Width:32, Height:32, 8, 0, 0, 0, 0>>),
     chunk(<<"IDAT">>, zlib:compress(Rows)),
     chunk(<<"IEND">>, <<>>)].

chunk(Type, Data) ->
    [<<(byte_size(Data)):32>>, Type, Data, <<(erlang:crc32([Type, Data])):32>>].
