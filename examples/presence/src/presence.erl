%% @doc Starts and stops a chat server that shows who is present and passes messages on.
%%
%% Connections speak XMPP or lines of text. Several VMs form one service (presence_cluster).
%%
%% When the application stops, it drains: it accepts nobody, tells every client, and waits until
%% the clients have closed their connections, at most `drain_timeout' milliseconds.
-module(presence).
-behaviour(application).

-export([start/2, prep_stop/1, stop/1]).
-export([ports/0]).

%% @private
-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_, _) ->
    case presence_config:load() of
        ok ->
            ok = presence_counts:define(),
            case presence_sup:start_link() of
                {ok, Pid} ->
                    io:format("presence:~s~n",
                              [[io_lib:format(" ~s on port ~b", [Name, Port])
                                || {Name, Port} <- ports()]]),
                    {ok, Pid};
                {error, Reason} = Error ->
                    say(["the server cannot start: ", why(Reason)]),
                    Error
            end;
        {error, Reason} ->
            say(presence_config:format_error(Reason)),
            {error, Reason}
    end.

say(Text) -> io:format(standard_error, "presence: ~ts~n", [Text]).

%% The reason inside of those of the supervisors
why({shutdown, {failed_to_start_child, _, Reason}}) -> why(Reason);
why({cannot_listen, {Name, Port, Reason}}) ->
    io_lib:format("port ~b of `~s' cannot be opened (~ts); choose another one",
                  [Port, Name, inet:format_error(Reason)]);
why({cannot_listen, Reason}) ->
    io_lib:format("the port for metrics cannot be opened (~ts); choose another one with "
                  "PRESENCE_METRICS_PORT", [inet:format_error(Reason)]);
why(Reason) -> io_lib:format("~0tp", [Reason]).

%% @private
-spec prep_stop(State) -> State.
prep_stop(State) ->
    ok = presence_listener_sup:stop(),
    ok = presence_groups:drain(presence_config:get(drain_timeout)),
    State.

%% @private
-spec stop(term()) -> ok.
stop(_) -> ok.

%% @doc Lists the ports that this VM listens on, each with the name of its listener: `xmpp',
%% `xmpps', `lines' and `metrics'.
-spec ports() -> [{atom(), inet:port_number()}].
ports() -> presence_listener_sup:ports() ++ presence_sup:metrics_port().
