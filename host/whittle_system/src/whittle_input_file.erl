%% @hidden Reads files of applications and releases.
-module(whittle_input_file).

-export([read/1]).

%% The limits in bytes for a module and for any other file. The second is the largest block of a
%% pack.
-define(MOST_CODE, 64 * 1024 * 1024).
-define(MOST, 16#ffffffff).

%% @doc Reads a file of an application or a release. The name of the file sets the limit of {@link
%% whittle_file:whole/2}: 4 MB for texts, 64 MB for modules, 4 GB for other files.
-spec read(file:filename_all()) -> {ok, binary()} | {error, file:posix() | badarg}.
read(File) ->
    Name = name(File),
    InEbin = name(filename:dirname(File)) =:= "ebin",
    case filename:extension(Name) of
        _ when Name =:= "sys.config"; Name =:= "sys.config.src";
               Name =:= "vm.args"; Name =:= "vm.args.src"; Name =:= "native.config" ->
            whittle_file:text(File);
        ".app" when InEbin -> whittle_file:text(File);
        Text when Text =:= ".rel"; Text =:= ".erl"; Text =:= ".hrl" -> whittle_file:text(File);
        ".beam" -> whittle_file:whole(File, ?MOST_CODE);
        _ -> whittle_file:whole(File, ?MOST)
    end.

%% Internal

%% A path is a binary if a part of it is one.
name(Path) ->
    case filename:basename(Path) of
        Name when is_binary(Name) -> binary_to_list(Name);
        Name -> Name
    end.
