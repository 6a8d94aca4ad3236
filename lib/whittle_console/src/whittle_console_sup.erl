%% @doc Starts the application: the process that answers, and the one that reads the console.
%% @hidden
-module(whittle_console_sup).
-behaviour(application).
-behaviour(supervisor).

-export([start/2, stop/1]).
-export([init/1]).

%% @private
-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_, _) ->
    %% init/1 never returns `ignore'.
    case application:get_env(whittle_console, read, true) of
        Read when is_boolean(Read) -> started();
        Other -> {error, {read_is_not_boolean, Other}}
    end.

started() ->
    case supervisor:start_link({local, ?MODULE}, ?MODULE, []) of
        {ok, _} = Ok -> Ok;
        {error, _} = Error -> Error
    end.

%% @private
-spec stop(term()) -> ok.
stop(_) -> ok.

%% A reader that ends has read the end of the input.
%% @private
-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    {ok, {#{strategy => one_for_one, intensity => 5, period => 10},
          [#{id => answers, start => {whittle_console, start_link, []}}]
          ++ [#{id => reader, start => {whittle_console_reader, start_link, []},
                restart => transient}
              || application:get_env(whittle_console, read) =:= {ok, true}]}}.
