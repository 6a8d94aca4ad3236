%% @doc Checks the program's health again and again, and gives a sign after each check that passes.
%% @hidden
-module(whittle_board_device_watch).
-behaviour(gen_server).

-include_lib("kernel/include/logger.hrl").

-export([start_link/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% The time of a check without a watchdog.
-define(DESK_MS, 5000).
%% The checks in one period. Each may take all the time until the next one. So the time from one
%% sign to the next is less than two thirds of the period.
-define(CHECKS, 3).

-record(watch, {watchdog :: {port(), Period :: pos_integer()} | none,
                limit :: pos_integer(),         % the milliseconds of a check, and between two
                applications :: whittle_board_device_health:applications(),
                check :: whittle_board_device_health:check() | none,
                said = booting :: ok | whittle_board_device_health:error()}).

-opaque watch() :: #watch{}.
-export_type([watch/0]).

%% @doc Starts the process.
-spec start_link(whittle_board_device_health:applications(),
                 whittle_board_device_health:check() | none) ->
          {ok, pid()} | {error, term()} | ignore.
start_link(Applications, Check) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, {Applications, Check}, []).

%% @private
-spec init({whittle_board_device_health:applications(),
            whittle_board_device_health:check() | none}) -> {ok, watch()}.
init({Applications, Check}) ->
    Watch = #watch{watchdog = none, limit = ?DESK_MS, applications = Applications, check = Check},
    case whittle_board_device_init:watchdog() of
        {ok, #{period := Period} = Watchdog} ->
            Port = whittle_board_device_init:open(Watchdog),
            self() ! {check, erlang:monotonic_time(millisecond)},
            {ok, Watch#watch{watchdog = {Port, Period}, limit = Period * 1000 div ?CHECKS}};
        none ->
            ?LOG_NOTICE("whittle_board_device: there is no watchdog here, so nobody checks the "
                        "program's health"),
            {ok, Watch}
    end.

%% @private
-spec handle_call({set_check, whittle_board_device_health:check() | none} | health,
                  gen_server:from(), watch()) ->
          {reply, ok | {error, whittle_board_device_health:error()}, watch()}.
handle_call({set_check, Check}, _, Watch) ->
    {reply, ok, Watch#watch{check = Check}};
handle_call(health, _, Watch) ->
    case checked(Watch) of
        {ok, _} -> {reply, ok, Watch};
        {error, _} = Error -> {reply, Error, Watch}
    end.

%% @private
-spec handle_cast(term(), watch()) -> {noreply, watch()}.
handle_cast(_, Watch) -> {noreply, Watch}.

%% @private
-spec handle_info(term(), watch()) -> {noreply, watch()}.
handle_info({check, At}, #watch{watchdog = {Port, _}, limit = Limit} = Watch) ->
    Result = checked(Watch),
    Next = max(At + Limit, erlang:monotonic_time(millisecond)),
    _ = erlang:send_after(Next, self(), {check, Next}, [{abs, true}]),
    case Result of
        {ok, Applications} ->
            ok = whittle_board_device_init:sign(Port),
            {noreply, said(ok, Watch#watch{applications = Applications})};
        {error, Reason} ->
            {noreply, said(Reason, Watch)}
    end;
handle_info(_, Watch) ->
    {noreply, Watch}.

checked(#watch{applications = Applications, check = Check, limit = Limit}) ->
    whittle_board_device_health:run(Applications, Check, Limit).

%% Logs a fault once, and its end.
said(Result, #watch{said = Result} = Watch) -> Watch;
said(booting, Watch) -> Watch;
said(ok, #watch{said = Before} = Watch) ->
    _ = [?LOG_NOTICE("whittle_board_device: the program is healthy again") || Before =/= booting],
    Watch#watch{said = ok};
said(Reason, #watch{watchdog = {_, Period}} = Watch) ->
    ?LOG_ERROR("whittle_board_device: ~ts; the watchdog resets the board if this lasts (~b seconds "
               "from the last sign of health)",
               [whittle_board_device_health:format_error(Reason), Period]),
    Watch#watch{said = Reason}.
