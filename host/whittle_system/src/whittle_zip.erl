%% @hidden Reads the files of a zip archive in memory. It trusts nothing in the archive.
%%
%% OTP's `zip' inflates all data, whatever size the archive declares, so a few kilobytes can fill
%% the memory. In this module each file must have exactly the size in the archive's directory and
%% the right checksum, and all files together must stay below a limit. The module refuses
%% encrypted files, archives on several disks and archives of more than 4 GB.
%%
%% The layout follows PKWARE's APPNOTE.TXT 6.3, sections 4.3.7, 4.3.12 and 4.3.16.
-module(whittle_zip).

-export([files/2]).

-export_type([error/0]).

-type error() :: damaged
               | too_large                              % above the limit
               | {odd_path, {binary(), Why :: string()}}.

-define(DIRECTORY_END, 16#06054b50).
-define(DIRECTORY_ENTRY, 16#02014b50).
-define(LOCAL_ENTRY, 16#04034b50).

%% @doc Reads the files by path, in the archive's order, without its directories. `Limit' is for
%% the total size in bytes.
-spec files(binary(), pos_integer()) -> {ok, [{binary(), binary()}]} | {error, error()}.
files(Archive, Limit) ->
    try
        {Count, Size, Offset, EndAt} = directory_end(Archive),
        At = EndAt - Size,
        %% If other data precedes the archive, offsets may count from either beginning.
        Shift = At - Offset,
        Entries = entries(Count, part(Archive, At, Size)),
        ok = check_paths([Path || #{path := Path} <- Entries]),
        ok = check_sizes(Entries, Limit),
        {ok, [{Path, file(Entry, Shift, Archive)} || #{path := Path} = Entry <- Entries]}
    catch
        throw:{?MODULE, Error} -> {error, Error}
    end.

%% Internal

%% Finds the end record of the directory. Only a comment of at most 64 KB may follow it in the
%% file. The last record counts whose comment ends with the file.
directory_end(Archive) ->
    Size = byte_size(Archive),
    From = max(0, Size - 22 - 16#ffff),
    Found = [End || {At, 4} <- lists:reverse(binary:matches(
                                               Archive, <<?DIRECTORY_END:32/little>>,
                                               [{scope, {From, Size - From}}])),
                    End <- directory_end(At, part(Archive, At, Size - At))],
    case Found of
        [End | _] -> End;
        [] -> fail(damaged)
    end.

directory_end(At, <<_:32, 0:16, 0:16, Count:16/little, Count:16/little, Size:32/little,
                    Offset:32/little, Comment:16/little, _:Comment/binary>>)
  when Size =< At, Offset =< At - Size ->
    [{Count, Size, Offset, At}];
directory_end(_, _) ->
    [].

entries(0, <<>>) ->
    [];
entries(Count, <<?DIRECTORY_ENTRY:32/little, _:4/binary, Flags:16/little, Method:16/little,
                 _:4/binary, Crc:32/little, Stored:32/little, Size:32/little, Name:16/little,
                 Extra:16/little, Comment:16/little, _:8/binary, Offset:32/little,
                 Path:Name/binary, _:Extra/binary, _:Comment/binary, Rest/binary>>)
  when Count > 0, Flags band 1 =:= 0 ->
    Entry = #{path => Path, method => Method, crc => Crc, stored => Stored, size => Size,
              offset => Offset},
    [Entry || Path =:= <<>> orelse binary:last(Path) =/= $/] ++ entries(Count - 1, Rest);
entries(_, _) ->
    fail(damaged).

check_paths(Paths) ->
    case whittle_file_name:check_paths(Paths) of
        ok -> ok;
        {error, Bad} -> fail({odd_path, Bad})
    end.

check_sizes(Entries, Limit) ->
    case lists:sum([Size || #{size := Size} <- Entries]) of
        Sum when Sum =< Limit -> ok;
        _ -> fail(too_large)
    end.

file(#{offset := Offset, stored := Stored, size := Size, crc := Crc, method := Method},
     Shift, Archive) ->
    case part(Archive, Shift + Offset, 30) of
        <<?LOCAL_ENTRY:32/little, _:22/binary, Name:16/little, Extra:16/little>> ->
            Data = part(Archive, Shift + Offset + 30 + Name + Extra, Stored),
            Bytes = plain(Method, Data, Size),
            erlang:crc32(Bytes) =:= Crc orelse fail(damaged),
            Bytes;
        _ ->
            fail(damaged)
    end.

plain(0, Data, Size) when byte_size(Data) =:= Size ->
    Data;
plain(8, Data, Size) ->
    case whittle_bounded:inflate(-15, Data, Size) of
        {ok, Bytes} when byte_size(Bytes) =:= Size -> Bytes;
        _ -> fail(damaged)
    end;
plain(_, _, _) ->
    fail(damaged).

part(Bytes, At, Size) when At >= 0, Size >= 0, At + Size =< byte_size(Bytes) ->
    binary:part(Bytes, At, Size);
part(_, _, _) ->
    fail(damaged).

-spec fail(error()) -> no_return().
fail(Error) -> throw({?MODULE, Error}).
