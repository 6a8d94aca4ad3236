%% @hidden Walks through the directories below a directory of unknown origin.
%%
%% Links can form a circle, or a net in which the number of paths doubles with each level. The walk
%% enters each directory once, so its time depends only on the number of directories.
-module(whittle_walk).

-include_lib("kernel/include/file.hrl").

-export([directories/1]).

%% @doc Lists a directory and all directories below it, as paths that begin with its own. It
%% follows links, but lists each directory once: by its own path if it lies below, and else by the
%% first link to it. It omits directories that cannot be listed.
-spec directories(file:filename()) -> [file:filename()].
directories(Dir) -> lists:sort(followed([Dir], #{}, [])).

%% Internal

%% Links wait until all directories that the walk reaches without them are known.
followed([], _, Found) -> Found;
followed(Links, Seen, Found) ->
    {More, NowSeen, NowFound} = lists:foldl(fun entered/2, {[], Seen, Found}, Links),
    followed(lists:reverse(More), NowSeen, NowFound).

entered(Dir, {Links, Seen, Found} = State) ->
    case file:read_file_info(Dir) of
        {ok, #file_info{type = directory, major_device = Device, inode = Inode}}
          when not is_map_key({Device, Inode}, Seen) ->
            case file:list_dir(Dir) of
                {ok, Names} ->
                    lists:foldl(fun(Name, Before) -> entry(filename:join(Dir, Name), Before) end,
                                {Links, Seen#{{Device, Inode} => []}, [Dir | Found]},
                                lists:sort(Names));
                {error, _} -> State
            end;
        _ -> State
    end.

entry(File, {Links, Seen, Found} = State) ->
    case file:read_link_info(File) of
        {ok, #file_info{type = directory}} -> entered(File, State);
        {ok, #file_info{type = symlink}} -> {[File | Links], Seen, Found};
        _ -> State
    end.
