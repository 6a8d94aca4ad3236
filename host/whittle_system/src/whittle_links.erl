%% @hidden Finds symbolic links that lead out of an input.
%%
%% Readers follow links, as rebar3 and relx make them. One that leads to a file elsewhere on
%% the machine puts that file into the output, and only who looks for it sees that: so each
%% is told ({@link whittle_complete}), or refused.
-module(whittle_links).

-include_lib("kernel/include/file.hrl").

-export([outside/3, root/2, identity/1]).

-export_type([link/0, identity/0]).

%% Path below the directory, `<<>>' for the directory itself, and where the link points.
-type link() :: {whittle_system:path(), file:filename_all()}.

%% Two paths that have the same one lead to the same directory.
-type identity() :: {Device :: non_neg_integer(), Inode :: non_neg_integer()}.

%% More links one behind the other are a loop for Linux too.
-define(MOST, 40).

%% @doc The links that lead out of `Root' on the way to files, given by their paths below a
%% directory. What a link to a directory leads to counts as inside from there on: a further
%% link below it is told when it leads out of both. The directory itself is inside, unless it
%% is such a link.
-spec outside(file:filename(), file:filename(), [whittle_system:path()]) -> [link()].
outside(Root, Dir, Paths) ->
    Ways = lists:usort(lists:append([ways(Path) || Path <- Paths])),
    Own = [{<<>>, Is} || {error, _} <- [file:read_link_all(Dir)], Is <- [identity(Dir)],
                         Is =/= none],
    outside(Ways, Dir, [{<<>>, identity(Root)} | Own], []).

%% @doc The directory that counts as the input for the links of an application or a release:
%% of what rebar3 has built, `_build/PROFILE/{lib,checkouts,rel}/NAME', the project, since
%% rebar3 builds with links into it; of others the second argument.
-spec root(file:filename(), file:filename()) -> file:filename().
root(Dir, Otherwise) ->
    Parts = [Part || Part <- filename:split(filename:absname(Dir)), Part =/= "."],
    case lists:reverse(Parts) of
        [_, Kind, _, "_build" | Above] when Kind =:= "lib"; Kind =:= "checkouts"; Kind =:= "rel" ->
            Project = filename:join(lists:reverse(Above)),
            case filelib:is_regular(filename:join(Project, "rebar.config")) of
                true -> Project;
                false -> Otherwise
            end;
        _ ->
            Otherwise
    end.

%% @doc Identifies the directory that a path leads to; `none' where the path leads to none.
-spec identity(file:filename_all()) -> identity() | none.
identity(Dir) ->
    case file:read_file_info(Dir) of
        {ok, #file_info{type = directory, major_device = Device, inode = Inode}} ->
            {Device, Inode};
        _ ->
            none
    end.

%% Internal

%% Each directory on the way, then the file.
ways(Path) ->
    [<<>>, Path | [binary:part(Path, 0, At) || {At, 1} <- binary:matches(Path, <<"/">>)]].

%% In their order a directory comes before what is below it.
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

%% What a link to a file leads to: a place that is no link.
target(Place, Left) when Left > 0 ->
    case file:read_link_all(Place) of
        {ok, To} -> target(filename:absname(To, filename:dirname(Place)), Left - 1);
        {error, _} -> Place
    end;
target(Place, 0) ->
    Place.

%% Up from a directory until the one that is looked for, or the top. The system's `..'
%% goes from where a link leads to.
is_within(Place, Inside) ->
    Above = filename:join(Place, ".."),
    Is = identity(Place),
    lists:member(Is, Inside)
        orelse Is =/= none andalso Is =/= identity(Above) andalso is_within(Above, Inside).
