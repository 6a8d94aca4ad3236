%% @doc Starts the application.
%% @hidden
-module(whittle_board_device_sup).
-behaviour(application).
-behaviour(supervisor).

-export([start/2, stop/1]).
-export([init/1]).

%% @private
-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_, _) ->
    {ok, Check} = application:get_env(whittle_board_device, check),
    {ok, Applications} = application:get_env(whittle_board_device, applications),
    case {whittle_board_device_health:is_check(Check),
          whittle_board_device_health:is_applications(Applications)} of
        {true, true} -> started(Applications, Check);
        {false, _} -> {error, {bad_setting, {check, Check}}};
        {true, false} -> {error, {bad_setting, {applications, Applications}}}
    end.

%% init/1 never returns `ignore'.
started(Applications, Check) ->
    case supervisor:start_link({local, ?MODULE}, ?MODULE, {Applications, Check}) of
        {ok, _} = Ok -> Ok;
        {error, _} = Error -> Error
    end.

%% @private
-spec stop(term()) -> ok.
stop(_) -> ok.

%% @private
-spec init({whittle_board_device:applications(), whittle_board_device:check() | none}) ->
          {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init({Applications, Check}) ->
    {ok, {#{intensity => 5, period => 10},
          [#{id => watch, start => {whittle_board_device_watch, start_link,
                                    [Applications, Check]}}
           | [#{id => slots, start => {whittle_board_device_slots, start_link, []}}
              || whittle_board_device_card:is_here()]]}}.
