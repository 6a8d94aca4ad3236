%% @doc Whittle's own applications for the board, as they are put into a system:
%% `whittle_start' for their start and for escripts, `whittle_control' for
%% `--whittle-ping' and its kin. They are built beside the host's applications.
-module(whittle_device).

-export([read/1, add/1, is_device/1, lib_dir/0]).

%% What every system has.
-define(ADDED, [whittle_start, whittle_control]).

%% @doc Whether it is one of them that every system has.
-spec is_device(whittle_system:app_name()) -> boolean().
is_device(Name) -> lists:member(Name, ?ADDED).

%% @doc The directory where they are compiled, with the libraries that a program may list
%% among its applications, whittle_io say.
-spec lib_dir() -> file:filename().
lib_dir() -> filename:dirname(code:lib_dir(whittle_system)).

%% @doc Reads one of them.
-spec read(whittle_system:app_name()) ->
          {ok, whittle_system:app()} | {error, whittle_system:error()}.
read(Name) ->
    Dir = filename:join(lib_dir(), Name),
    case whittle_read_app:read(Dir, #{kind => device}) of
        {ok, App, _Notes} -> {ok, App};
        {error, {no_app_file, _}} -> {error, {no_device_application, {Name, Dir}}};
        {error, _} = Error -> Error
    end.

%% @doc Adds what every system has. They are roots, since nothing in the program calls
%% them; boot scripts name their modules themselves.
-spec add(whittle_system:system()) ->
          {ok, whittle_system:system()} | {error, whittle_system:error()}.
add(System) ->
    add(?ADDED, System).

add([], System) ->
    {ok, System};
add([Name | Names], System) ->
    case read(Name) of
        {ok, App} ->
            Roots = lists:usort([Name | whittle_system:roots(System)]),
            add(Names, whittle_system:set_roots(Roots, whittle_system:put_app(App, System)));
        {error, _} = Error ->
            Error
    end.
