%% @doc Starts and stops a case-management server, and does the work of its requests.
%%
%% A request is an operation (docket_cases:operation()). It waits for its turn (docket_gate), and
%% then runs in the store (docket_store).
-module(docket).
-behaviour(application).

-export([start/2, stop/1]).
-export([run/1, picture/1, ready/0, port/0]).

-import(docket_operator, [say/1]).

-export_type([refusal/0]).

%% `busy': too many requests wait, or this one has waited too long. The same request may succeed
%% later. `slow': the picture was not done at the deadline.
-type refusal() :: busy | slow.

%% @private
-spec start(application:start_type(), term()) ->
          {ok, pid(), docket_directory:lock()} | {error, term()}.
start(_, _) ->
    case docket_config:load() of
        ok ->
            _ = [say([Name, " is no setting of docket, and has no effect: correct or remove it"])
                 || Name <- docket_config:unknown()],
            _ = [say("this program takes no arguments, and ignores them: give settings as "
                     "environment variables, such as DOCKET_PORT=8081")
                 || init:get_plain_arguments() =/= []],
            %% When Mnesia fails, its reports hold rows of the tables.
            _ = logger:update_formatter_config(default, #{depth => 15, chars_limit => 4000}),
            case locked() of
                {ok, Lock} -> started(checked(), Lock);
                {error, _} = Error -> started(Error, none)
            end;
        {error, Reason} = Refused ->
            say(docket_config:format_error(Reason)),
            Refused
    end.

locked() ->
    case docket_config:get(dir) of
        none -> {ok, none};
        Dir -> of_kind(directory, docket_directory:lock(Dir))
    end.

%% The check of the store writes to the directory, so it comes after the lock.
checked() ->
    docket_attempt:steps([fun() -> of_kind(store, docket_store:check()) end, fun identified/0,
                          fun supervised/0]).

identified() ->
    case docket_config:get(dir) of
        none -> ok;
        Dir -> of_kind(identity, docket_identity:check(Dir))
    end.

supervised() ->
    ok = docket_counts:define(fun ready/0),
    docket_sup:start_link().

of_kind(Kind, {error, Reason}) -> {error, {Kind, Reason}};
of_kind(_, Done) -> Done.

started({ok, Pid}, Lock) ->
    io:format("docket: http on port ~b~n", [port()]),
    {ok, Pid, Lock};
started({error, Reason} = Error, Lock) ->
    ok = docket_directory:unlock(Lock),
    say(case init:get_status() of
            {stopping, _} -> "the server ends before it was ready, because it was told to end";
            _ -> ["the server cannot start: ", why(Reason)]
        end),
    Error.

%% The reason inside of those of the supervisors
why({shutdown, {failed_to_start_child, _, Reason}}) -> why(Reason);
why({shutdown, Reason}) -> why(Reason);
why({directory, Reason}) -> docket_directory:format_error(Reason);
why({identity, Reason}) -> docket_identity:format_error(Reason);
why({store, Reason}) -> docket_store:format_error(Reason);
why({listen, eaddrnotavail}) ->
    io_lib:format("this machine has no address ~s; choose another one with DOCKET_IP",
                  [inet:ntoa(docket_config:get(ip))]);
why({listen, Reason}) ->
    io_lib:format("port ~b cannot be opened (~ts); choose another one with DOCKET_PORT",
                  [docket_config:get(port), inet:format_error(Reason)]);
why(Reason) -> io_lib:format("~0tp", [Reason]).

%% @private
-spec stop(docket_directory:lock()) -> ok.
stop(Lock) -> docket_directory:unlock(Lock).

%% @doc Runs one operation. The process that calls this does the work.
-spec run(docket_cases:operation()) ->
          {ok, term()} | {error, docket_cases:refusal() | docket_store:refusal() | refusal()}.
run(Operation) -> gated(docket_store_gate, fun() -> docket_store:run(Operation) end).

%% @doc Computes a picture of the Mandelbrot set, as a PNG file.
-spec picture(docket_picture:area()) -> {ok, iodata()} | {error, refusal()}.
picture(Area) ->
    gated(docket_picture_gate,
          fun() ->
                  case docket_compute:rows(Area, docket_cluster:connected(),
                                           docket_deadline:new()) of
                      {ok, Rows} -> {ok, docket_png:gray(docket_picture:width(Area), Rows)};
                      {error, _} = Error -> Error
                  end
          end).

gated(Gate, Fun) ->
    case docket_gate:enter(Gate) of
        {ok, Place} ->
            try Fun() after docket_gate:leave(Gate, Place) end;
        {error, busy} = Error ->
            ok = docket_counts:refused(Gate),
            Error
    end.

%% @doc Tells whether this node can serve requests: its tables are loaded, and it is in the
%% majority.
-spec ready() -> boolean().
ready() -> docket_cluster:is_majority() andalso docket_store:ready().

%% @doc Returns the port that the server listens on.
-spec port() -> inet:port_number().
port() -> docket_http:port().
