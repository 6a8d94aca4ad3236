%% @hidden Writes an initramfs: an archive of cpio's format `newc', which Linux unpacks into its
%% first root. This module is pure.
-module(whittle_board_cpio).

-export([archive/1]).

-export_type([entry/0]).

-type entry() :: {directory, binary()}
               | {file, binary(), Mode :: 0..8#777, binary()}
               | {device, binary(), {Major :: non_neg_integer(), Minor :: non_neg_integer()}}.

%% @doc Writes the entries in their order. A path has no slash at its beginning. Everything belongs
%% to root and has the date 0.
-spec archive([entry()]) -> binary().
archive(Entries) ->
    Numbered = lists:enumerate([fields(Entry) || Entry <- Entries]
                               ++ [{<<"TRAILER!!!">>, 0, <<>>, {0, 0}}]),
    iolist_to_binary([record(Number, Fields) || {Number, Fields} <- Numbered]).

fields({directory, Path}) -> {Path, 8#040755, <<>>, {0, 0}};
fields({file, Path, Mode, Bytes}) -> {Path, 8#100000 bor Mode, Bytes, {0, 0}};
fields({device, Path, Numbers}) -> {Path, 8#020600, <<>>, Numbers}.

%% The header has 13 fields: number, mode, user, group, links, date, size, the device of the file
%% (2), the numbers of a device file (2), the size of the name, a checksum that is not used.
record(Number, {Path, Mode, Bytes, {Major, Minor}}) ->
    Size = byte_size(Path) + 1,
    Fields = [Number, Mode, 0, 0, 1, 0, byte_size(Bytes), 0, 0, Major, Minor, Size, 0],
    Head = ["070701", [io_lib:format("~8.16.0B", [Field]) || Field <- Fields], Path, 0],
    [Head, padding(6 + 8 * length(Fields) + Size), Bytes, padding(byte_size(Bytes))].

%% The name and the bytes end at multiples of four.
padding(Size) -> lists:duplicate(-Size band 3, 0).
