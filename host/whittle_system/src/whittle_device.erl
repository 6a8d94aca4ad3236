%% @doc Whittle's own applications for the board, as they are put into a system:
%% `whittle_start' for escripts, `whittle_control' for `--whittle-ping' and its
%% kin. They are built beside the host's applications.
-module(whittle_device).

-export([read/1, add_control/1]).

%% @doc Reads one of them.
-spec read(whittle_system:app_name()) ->
          {ok, whittle_system:app()} | {error, whittle_system:error()}.
read(Name) ->
    Dir = filename:join(filename:dirname(code:lib_dir(whittle_system)), Name),
    case whittle_read_app:read(Dir, #{kind => device}) of
        {ok, App, _Notes} -> {ok, App};
        {error, {no_app_file, _}} -> {error, {no_device_application, {Name, Dir}}};
        {error, _} = Error -> Error
    end.

%% @doc Adds what answers for a running node. It is a root, since nothing in the
%% program calls it, and is in no boot script but that of {@link
%% whittle_boot:control/1}.
-spec add_control(whittle_system:system()) ->
          {ok, whittle_system:system()} | {error, whittle_system:error()}.
add_control(System) ->
    case read(whittle_control) of
        {ok, #{name := Name} = App} ->
            Roots = [Name | whittle_system:roots(System)],
            {ok, whittle_system:set_roots(Roots, whittle_system:put_app(App, System))};
        {error, _} = Error ->
            Error
    end.
