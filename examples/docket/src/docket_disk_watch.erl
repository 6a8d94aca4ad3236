%% @doc Notices that Mnesia could not write a log. Mnesia only reports that as an event: it goes on
%% with rows that the disk does not have, and `mnesia:sync_log/0' succeeds. When Mnesia is about to
%% end, this also silences mnesia_recover (docket_mnesia_decisions).
%% @hidden
-module(docket_disk_watch).
-behaviour(gen_event).

-export([start/0, has_failed/0]).
-export([init/1, handle_event/2, handle_call/2]).

%% @doc Begins to watch the events of Mnesia, which has just started.
-spec start() -> ok | {error, term()}.
start() ->
    case gen_event:add_handler(mnesia_event, ?MODULE, []) of
        ok -> ok;
        Other -> {error, {mnesia_event, Other}}
    end.

%% @doc Tells whether a write has failed since the start, or the files are gone. The process of
%% Mnesia that notices a failure has done so, and has sent the event, when this asks.
-spec has_failed() -> boolean().
has_failed() ->
    try
        _ = sys:get_state(mnesia_monitor),
        gen_event:call(mnesia_event, ?MODULE, has_failed) =/= false orelse is_removed()
    catch exit:_ -> true
    end.

is_removed() ->
    case docket_config:get(dir) of
        none -> false;
        Dir -> not docket_mnesia_files:is_started(Dir)
    end.

%% @private
-spec init([]) -> {ok, HasFailed :: boolean()}.
init([]) -> {ok, false}.

%% @private The text is that of mnesia_monitor (OTP 25 to 29).
-spec handle_event(term(), boolean()) -> {ok, boolean()}.
handle_event({mnesia_system_event, {mnesia_info, "Warning Log file " ++ _, _}}, _) -> {ok, true};
handle_event({mnesia_system_event, {mnesia_fatal, _, _, _}}, HasFailed) ->
    ok = docket_mnesia_decisions:silence(fatal),
    {ok, HasFailed};
handle_event(_, HasFailed) -> {ok, HasFailed}.

%% @private
-spec handle_call(has_failed, boolean()) -> {ok, boolean(), boolean()}.
handle_call(has_failed, HasFailed) -> {ok, HasFailed, HasFailed}.
