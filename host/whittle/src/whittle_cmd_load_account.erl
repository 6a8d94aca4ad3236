%% @doc Carries out `whittle load account': measures what a connection costs at each end.
%% @hidden
-module(whittle_cmd_load_account).

-export([options/0, run/1]).

%% These fit under the usual hard limit of descriptors (20,000), and the slopes need thousands.
-define(CONNECTIONS, "8000").
-define(LEAST, 100).
-define(MOST, 100_000).

%% @doc Describes the options that only the account has.
-spec options() -> [whittle_command_line:option()].
options() ->
    [#{name => only, long => "only", value => "FACTOR=VALUE,...", list => true,
       help => "account: measure all combinations of these values; the other factors have their "
               "default"},
     #{name => connections, long => "connections", value => "N",
       help => "account: measure with up to N connections, or a third of N with TLS "
               "(default: " ?CONNECTIONS ")"}].

%% @doc Measures, and writes the tables.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(Values) ->
    case string:to_integer(maps:get(connections, Values, ?CONNECTIONS)) of
        {Connections, ""} when Connections >= ?LEAST, Connections =< ?MOST ->
            measured(whittle_load:account(maps:get(only, Values, []),
                                          #{connections => Connections, tell => fun tell/1}));
        _ ->
            whittle_failure:usage(
              io_lib:format("--connections cannot be `~ts'; give a whole number from ~b to ~b",
                            [maps:get(connections, Values), ?LEAST, ?MOST]))
    end.

tell({runtime, Progress}) -> whittle_progress:event(Progress);
tell({measuring, _, _, _, _} = Event) ->
    whittle_progress:step(whittle_load:account_progress(Event));
tell(_) -> ok.

measured({ok, Accounts}) ->
    {ok, #{text => lists:join($\n, [whittle_table:text(Table)
                                    || Table <- whittle_load:account_tables(Accounts)]),
           json => whittle_load:account_json(Accounts)}};
measured({error, Reason})
  when Reason =:= impossible; element(1, Reason) =:= choice; element(1, Reason) =:= factor;
       element(1, Reason) =:= value ->
    whittle_failure:usage(whittle_load:format_error(Reason));
measured({error, Reason}) -> whittle_failure:load(Reason).
