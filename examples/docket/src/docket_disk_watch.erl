%% @doc Notices that Mnesia could not write a log. Mnesia only reports that as an event: it goes on
%% with rows that the disk does not have, and `mnesia:sync_log/0' succeeds. When Mnesia is about to
%% end, this also silences mnesia_recover (docket_mnesia_decisions).
%% @hidden
-module(docket_disk_watch).
-behaviour(gen_event).

-export([start/0, failure/0, has_failed_write/0]).
-export([init/1, handle_event/2, handle_call/2]).

%% @doc Begins to watch the events of Mnesia, which has just started.
-spec start() -> ok | {error, term()}.
start() ->
    ok = persistent_term:put(?MODULE, false),
    case gen_event:add_handler(mnesia_event, ?MODULE, []) of
        ok -> ok;
        Other -> {error, {mnesia_event, Other}}
    end.

%% @doc Tells what has failed since the start: a write, or the files are gone, which counts more.
%% `not_running': Mnesia has ended, or does not answer within 5 seconds. The process of Mnesia that
%% notices a failed write has done so, and has sent the event, when this asks.
-spec failure() -> none | write | removed | not_running.
failure() ->
    try
        _ = sys:get_state(mnesia_monitor),
        ok = gen_event:call(mnesia_event, ?MODULE, sync),
        case {is_removed(), has_failed_write()} of
            {true, _} -> removed;
            {false, true} -> write;
            {false, false} -> none
        end
    catch exit:_ -> not_running
    end.

%% @doc Tells whether a write has failed since the start, also when Mnesia has ended.
-spec has_failed_write() -> boolean().
has_failed_write() -> persistent_term:get(?MODULE, false).

is_removed() ->
    case docket_config:get(dir) of
        none -> false;
        Dir -> not docket_mnesia_files:is_started(Dir)
    end.

%% @private
-spec init([]) -> {ok, []}.
init([]) -> {ok, []}.

%% @private The text is that of mnesia_monitor (OTP 27 to 29).
-spec handle_event(term(), []) -> {ok, []}.
handle_event({mnesia_system_event, {mnesia_info, "Warning Log file " ++ _, _}}, State) ->
    ok = persistent_term:put(?MODULE, true),
    {ok, State};
handle_event({mnesia_system_event, {mnesia_fatal, _, _, _}}, State) ->
    ok = docket_mnesia_decisions:silence(fatal),
    {ok, State};
handle_event(_, State) -> {ok, State}.

%% @private
-spec handle_call(sync, []) -> {ok, ok, []}.
handle_call(sync, State) -> {ok, ok, State}.
