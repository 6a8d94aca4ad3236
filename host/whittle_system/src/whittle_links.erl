%% @hidden Finds symbolic links that point outside an input.
%%
%% Readers follow links, because rebar3 and relx make them. A link to a file elsewhere on the
%% machine puts that file into the output, and the user may not notice. So the build reports each
%% such link ({@link whittle_complete}) or refuses it.
-module(whittle_links).

-include_lib("kernel/include/file.hrl").

-export([outside/3, is_refused/2, blame/3, root/2, identity/1]).

-export_type([link/0, identity/0]).

%% The path below the directory, `<<>>' for the directory itself, and the target of the link.
-type link() :: {whittle_system:path(), file:filename_all()}.

%% Two paths with the same identity lead to the same directory.
-type identity() :: {Device :: non_neg_integer(), Inode :: non_neg_integer()}.

%% Linux too treats a longer chain of links as a loop.
-define(MOST, 40).

%% @doc Finds the links out of `Root' on the paths to files. The paths start at a directory. After
%% a link to a directory, the target counts as inside too. A further link below it is listed only
%% if it leads out of both. The directory itself counts as inside, unless it is such a link.
-spec outside(file:filename(), file:filename(), [whittle_system:path()]) -> [link()].
outside(Root, Dir, Paths) ->
    Ways = lists:usort(lists:append([ways(Path) || Path <- Paths])),
    Own = [{<<>>, Is} || {error, _} <- [file:read_link_all(Dir)], Is <- [identity(Dir)],
                         Is =/= none],
    outside(Ways, Dir, [{<<>>, identity(Root)} | Own], []).

%% @doc Tells whether a path is a link out of the input, and the context refuses such links.
-spec is_refused(file:filename(), whittle_read_app:context()) -> boolean().
is_refused(File, #{root := Root, outside_links := refuse}) ->
    case file:read_link_all(File) of
        {ok, _} ->
            Name = unicode:characters_to_binary(filename:basename(File)),
            outside(Root, filename:dirname(File), [Name]) =/= [];
        {error, _} -> false
    end;
is_refused(_, _) ->
    false.

%% @doc Names the link out of the input that leads to an unreadable file, if there is one. If the
%% context refuses such links, the error names those of all files. `Whose' describes the owner of
%% the directory that contains the files.
-spec blame({unreadable, {file:filename(), term()}}, {Whose :: unicode:chardata(),
                                                      file:filename(), [whittle_read_app:source()]},
            whittle_read_app:context()) -> whittle_system:error().
blame({unreadable, {File, Reason}} = Error, {Whose, Dir, Files}, #{root := Root} = Context) ->
    Path = case string:prefix(whittle_file:absolute(File), whittle_file:absolute(Dir) ++ "/") of
               nomatch -> <<>>;
               Below -> unicode:characters_to_binary(Below)
           end,
    case {outside(Root, Dir, [Path]), maps:get(outside_links, Context, note)} of
        {[], _} -> Error;
        %% The link itself has no readable target: the error names it already.
        {[{Path, _} | _], note} -> Error;
        {[{At, To} | _], note} ->
            Link = filename:join(Dir, unicode:characters_to_list(At)),
            {behind_link, {Link, To, File, Reason}};
        {_, refuse} ->
            All = [Path | [Other || {Other, _, _} <- Files]],
            {outside_links, [{Whose, At, To} || {At, To} <- outside(Root, Dir, All)]}
    end;
blame(Error, _, _) ->
    Error.

%% @doc Finds the directory that counts as the input for the links of an application or a release.
%% For a directory `_build/PROFILE/{lib,checkouts,rel}/NAME' this is the project, because rebar3
%% makes links into the project. For any other directory it is the second argument.
-spec root(file:filename(), file:filename()) -> file:filename().
root(Dir, Otherwise) ->
    case lists:reverse(filename:split(whittle_file:absolute(Dir))) of
        [_, Kind, _, "_build" | Above] when Kind =:= "lib"; Kind =:= "checkouts"; Kind =:= "rel" ->
            Project = filename:join(lists:reverse(Above)),
            case filelib:is_regular(filename:join(Project, "rebar.config")) of
                true -> Project;
                false -> Otherwise
            end;
        _ ->
            Otherwise
    end.

%% @doc Identifies the directory of a path. It returns `none' if the path leads to no directory.
-spec identity(file:filename_all()) -> identity() | none.
identity(Dir) ->
    case file:read_file_info(Dir) of
        {ok, #file_info{type = directory, major_device = Device, inode = Inode}} ->
            {Device, Inode};
        _ ->
            none
    end.

%% Internal

%% Lists each directory on the path, then the file.
ways(Path) ->
    [<<>>, Path | [binary:part(Path, 0, At) || {At, 1} <- binary:matches(Path, <<"/">>)]].

%% The order puts a directory before its contents.
outside([Way | Ways], Dir, Inside, Found) ->
    Place = filename:join(Dir, unicode:characters_to_list(Way)),
    case file:read_link_all(Place) of
        {ok, To} ->
            case leads_to(Place, [Is || {Above, Is} <- Inside, is_below(Way, Above)]) of
                inside -> outside(Ways, Dir, Inside, Found);
                {outside, Is} -> outside(Ways, Dir, [{Way, Is} | Inside], [{Way, To} | Found])
            end;
        {error, _} ->
            outside(Ways, Dir, Inside, Found)
    end;
outside([], _, _, Found) ->
    lists:reverse(Found).

is_below(_, <<>>) -> true;
is_below(Path, Dir) -> binary:longest_common_prefix([Path, <<Dir/binary, $/>>]) > byte_size(Dir).

leads_to(Place, Inside) ->
    Is = identity(Place),
    Dir = case Is of
              none -> filename:dirname(target(Place, ?MOST));
              _ -> Place
          end,
    case is_within(Dir, Inside) of
        true -> inside;
        false -> {outside, Is}
    end.

%% Follows links to a file that is not a link.
target(Place, Left) when Left > 0 ->
    case file:read_link_all(Place) of
        {ok, To} -> target(filename:absname(To, filename:dirname(Place)), Left - 1);
        {error, _} -> Place
    end;
target(Place, 0) ->
    Place.

%% Goes up from a directory to the wanted one or to the root directory. `..' of the file system
%% starts from the target of a link.
is_within(Place, Inside) ->
    Above = filename:join(Place, ".."),
    Is = identity(Place),
    lists:member(Is, Inside)
        orelse Is =/= none andalso Is =/= identity(Above) andalso is_within(Above, Inside).
