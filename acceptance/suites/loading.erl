%% Helps the suites that run `whittle load' against servers of other authors.
-module(loading).

-export([unpacked/1, libraries/1, certificate/1, listens/2, kept/1, stopped/1, has_ipv6/0, load/4]).

%% Unpacks packages of Debian, and returns their directories. Stops at the first that cannot be
%% fetched.
-spec unpacked([string()]) -> {ok, [file:filename()]} | {error, unicode:chardata()}.
unpacked(Names) ->
    Below = filename:join([running:root(), "out", "programs", "packages"]),
    Unpacked = lists:foldl(fun(Name, {ok, Dirs}) ->
                                   case packages:unpacked(Name, Below) of
                                       {ok, Dir} -> {ok, [Dir | Dirs]};
                                       {error, _} = Error -> Error
                                   end;
                              (_, {error, _} = Error) -> Error
                           end, {ok, []}, Names),
    case Unpacked of
        {ok, Dirs} -> {ok, lists:reverse(Dirs)};
        {error, Text} -> {error, lists:flatten(io_lib:format("~ts", [Text]))}
    end.

%% Returns the variable that makes a program find the libraries of packages.
-spec libraries([file:filename()]) -> {string(), string()}.
libraries(Dirs) ->
    Paths = [Path || Dir <- Dirs, Pattern <- ["lib/*-linux-gnu", "usr/lib/*-linux-gnu"],
                     Path <- filelib:wildcard(filename:join(Dir, Pattern))],
    {"LD_LIBRARY_PATH", lists:append(lists:join(":", Paths))}.

%% Makes a certificate: a file that also has its key.
-spec certificate(file:filename()) -> file:filename().
certificate(Dir) ->
    File = filename:join(Dir, "certificate.pem"),
    {0, _} = running:run("/bin/sh", ["-c", "openssl req -x509 -newkey rsa:2048 -nodes -keyout "
                                     "\"$1\" -out \"$1.cert\" -days 30 -subj /CN=localhost && "
                                     "cat \"$1.cert\" >>\"$1\"", "sh", File], #{}),
    File.

%% Waits until a server that prints nothing accepts connections.
-spec listens(inet:ip_address() | string(), inet:port_number()) -> ok.
listens(Address, Port) -> listens(Address, Port, 2400).

listens(Address, Port, Left) when Left > 0 ->
    case gen_tcp:connect(Address, Port, []) of
        {ok, Socket} -> gen_tcp:close(Socket);
        {error, econnrefused} -> receive after 50 -> listens(Address, Port, Left - 1) end
    end.

%% The process of init_per_suite ends before the cases. This one keeps the port of a server.
-spec kept(fun(() -> port())) -> pid().
kept(Start) ->
    Suite = self(),
    {Keeper, Monitor} = spawn_monitor(fun() ->
                                              Server = Start(),
                                              Suite ! {self(), started},
                                              receive stop -> ok end,
                                              ok = running:signal(Server, "TERM"),
                                              _ = running:ended(Server)
                                      end),
    receive
        {Keeper, started} ->
            true = demonitor(Monitor, [flush]),
            Keeper;
        {'DOWN', Monitor, process, Keeper, Reason} -> error(Reason)
    end.

-spec stopped(pid()) -> ok.
stopped(Keeper) ->
    Monitor = monitor(process, Keeper),
    Keeper ! stop,
    receive {'DOWN', Monitor, process, Keeper, normal} -> ok end.

%% Tells whether this machine has the address ::1.
-spec has_ipv6() -> boolean().
has_ipv6() ->
    case gen_tcp:listen(0, [inet6, {ip, {0, 0, 0, 0, 0, 0, 0, 1}}]) of
        {ok, Socket} -> gen_tcp:close(Socket) =:= ok;
        {error, _} -> false
    end.

%% Writes a scenario into a directory, runs it, and returns its result. It must have this exit code.
%%
%% The users need time for their steps, and a busy machine may take many times longer than a quiet
%% one. So the run must reach the counts: users that are `held' or have `ended', all `errors', and
%% the latencies of a step. If it does not, all times of the scenario become four times longer, and
%% then sixteen times. A run is not repeated if it lost an agent, or has errors that are not
%% time-outs: these are faults.
-spec load(file:filename(), iodata(), 0 | 1, counts()) -> map().
load(Dir, Scenario, Code, Counts) ->
    load(Dir, unicode:characters_to_list(Scenario), Code, Counts, [1, 4, 16]).

%% `{Times, Name}' is a multiple of another count.
-type counts() :: #{name() => pos_integer() | {Times :: pos_integer(), name()}}.

-type name() :: held | ended | errors | Step :: binary().

load(Dir, Scenario, Code, Counts, [Factor | Others]) ->
    {Ended, Result} = run(Dir, slower(Scenario, Factor)),
    case Others =/= [] andalso lacks(Counts, Result) andalso is_slow(Result) of
        true ->
            ct:log("the run reached not all of ~0tp, so its times become longer: ~tp",
                   [Counts, Result]),
            load(Dir, Scenario, Code, Counts, Others);
        false when Ended =:= Code -> Result;
        false -> error({exit_code, Ended, Result})
    end.

run(Dir, Scenario) ->
    File = filename:join(Dir, "users.load"),
    ok = file:write_file(File, unicode:characters_to_binary(Scenario)),
    Out = File ++ integer_to_list(erlang:unique_integer([positive])),
    {Code, Output} = running:whittle(["load", File, "-o", Out, "--json"]),
    %% The messages of the agents stand beside it.
    case [Line || <<"{\"", _/binary>> = Line <- binary:split(Output, <<"\n">>, [global])] of
        [Json] ->
            #{<<"held">> := _} = Result = jiffy:decode(Json, [return_maps]),
            {Code, Result};
        _ -> error({Code, Output})
    end.

lacks(Counts, Result) ->
    lists:any(fun({Name, {Times, Other}}) -> count(Name, Result) < Times * count(Other, Result);
                 ({Name, Least}) -> count(Name, Result) < Least
              end, maps:to_list(Counts)).

count(held, #{<<"held">> := Held}) -> Held;
count(ended, #{<<"events">> := #{<<"ended">> := Ended}}) -> Ended;
count(errors, #{<<"errors">> := Errors}) -> lists:sum([N || #{<<"count">> := N} <- Errors]);
count(Step, #{<<"latencies">> := Latencies}) ->
    case Latencies of
        #{Step := #{<<"count">> := N}} -> N;
        #{} -> 0
    end.

is_slow(#{<<"lost">> := Lost, <<"errors">> := Errors}) ->
    Lost =:= 0 andalso lists:all(fun(#{<<"kind">> := Kind}) -> Kind =:= <<"timeout">> end, Errors).

%% Multiplies all times of a scenario, also the longest time of a step if it is the default.
slower(Scenario, 1) -> Scenario;
slower(Scenario, Factor) ->
    [times(re:split(Scenario, "\"([0-9]+) (ms|s)\"", [unicode, {return, list}]), Factor),
     [io_lib:format("{timeout, \"~b s\"}.~n", [10 * Factor])
      || string:find(Scenario, "{timeout,") =:= nomatch]].

times([Text, Number, Unit | Others], Factor) ->
    [Text, io_lib:format("\"~b ~s\"", [Factor * list_to_integer(Number), Unit])
     | times(Others, Factor)];
times([Text], _) -> [Text].
