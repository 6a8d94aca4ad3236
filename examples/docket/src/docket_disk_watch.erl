%% @doc Notices that Mnesia could not write its log. Mnesia only reports that as a warning: it goes
%% on with rows that the disk does not have, and `mnesia:sync_log/0' succeeds.
%% @hidden
-module(docket_disk_watch).

-export([start/0, forget/0, has_failed/0]).
-export([filter/2]).

%% @doc Begins to watch the reports of this node.
-spec start() -> ok.
start() ->
    ok = forget(),
    _ = logger:add_primary_filter(?MODULE, {fun ?MODULE:filter/2, none}),
    ok.

%% @doc Forgets failures, because the log begins anew.
-spec forget() -> ok.
forget() -> persistent_term:put(?MODULE, false).

%% @doc Tells whether a write has failed. The process of Mnesia that reports a failure has done so
%% when this returns.
-spec has_failed() -> boolean().
has_failed() ->
    try sys:get_state(mnesia_monitor) of
        _ -> persistent_term:get(?MODULE, false)
    catch exit:_ -> true
    end.

%% @private The text is that of mnesia_monitor (OTP 25 to 29).
-spec filter(logger:log_event(), none) -> ignore.
filter(#{level := warning, msg := {Format, [_ | _]}}, _) when is_list(Format) ->
    case string:find(Format, "Log file ~p error reason") of
        nomatch -> ignore;
        _ ->
            ok = persistent_term:put(?MODULE, true),
            ignore
    end;
filter(_, _) -> ignore.
