%% @hidden Lists the files of a directory that Whittle wrote, with their SHA-256, and finds those
%% that came or changed since.
%%
%% The list has the format of sha256sum(1): `cd DIR && sha256sum -c tree/etc/sums' checks it too. It
%% does not name itself.
-module(whittle_pack_sums).

-include_lib("kernel/include/file.hrl").

-export([text/1, edits/2]).

-export_type([edit/0]).

%% A path below the directory
-type edit() :: {new | changed, binary()}.

%% The longest list in bytes. A line has 66 bytes and a path.
-define(MOST, 256 * 1024 * 1024).

%% @doc Writes the list.
-spec text([{Path :: binary(), iodata()}]) -> binary().
text(Files) ->
    iolist_to_binary([[whittle_digest:bytes(Bytes), "  ", Path, $\n]
                      || {Path, Bytes} <- lists:sort(Files)]).

%% @doc Finds the files of a directory that its list does not name, and those with other contents
%% than the list says. Missing files do not count. The result is `error' if there is no list.
-spec edits(file:filename_all(), List :: binary()) -> {ok, [edit()]} | error.
edits(Dir, List) ->
    case whittle_file:whole(filename:join(Dir, List), ?MOST) of
        {ok, Text} ->
            Sums = maps:from_list([{Path, Sum} || <<Sum:64/binary, "  ", Path/binary>>
                                                      <- binary:split(Text, <<"\n">>, [global])]),
            {ok, lists:append([edit(Dir, Path, Sums) || Path <- below(Dir, <<>>), Path =/= List])};
        {error, _} -> error
    end.

edit(Dir, Path, Sums) ->
    case Sums of
        #{Path := Sum} ->
            File = filename:join(Dir, Path),
            case {file:read_link_info(File), whittle_digest:file(File)} of
                {{ok, #file_info{type = regular}}, {ok, Digest}} ->
                    [{changed, Path} || list_to_binary(Digest) =/= Sum];
                _ -> [{changed, Path}]
            end;
        _ -> [{new, shown(Path)}]
    end.

%% Lists everything that is no directory, and directories that cannot be read, sorted.
below(Dir, Path) ->
    case file:list_dir_all(filename:join(Dir, Path)) of
        {ok, Names} ->
            lists:append([entry(Dir, joined(Path, Name))
                          || Name <- lists:sort([binary(Name) || Name <- Names])]);
        {error, _} -> [Path]
    end.

entry(Dir, Path) ->
    case file:read_link_info(filename:join(Dir, Path)) of
        {ok, #file_info{type = directory}} -> below(Dir, Path);
        _ -> [Path]
    end.

joined(<<>>, Name) -> Name;
joined(Path, Name) -> filename:join(Path, Name).

%% A name that is no UTF-8 comes as a binary.
binary(Name) when is_binary(Name) -> Name;
binary(Name) -> unicode:characters_to_binary(Name).

%% Shows the bytes of a path that is no UTF-8 as Latin-1.
shown(Path) ->
    case unicode:characters_to_binary(Path) of
        Path -> Path;
        _ -> unicode:characters_to_binary(Path, latin1)
    end.
