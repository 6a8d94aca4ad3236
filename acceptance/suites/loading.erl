%% Helps the suites that run `whittle load' against servers of other authors.
-module(loading).

-export([unpacked/1, libraries/1, certificate/1, kept/1, stopped/1, server/4, has_ipv6/0]).
-export([load/4, shown/5]).

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

%% The process of init_per_suite ends before the cases. This one keeps the port of a server. An
%% error of the start is that of {@link running:until/2}.
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
        {'DOWN', Monitor, process, Keeper, {{ended, _, _} = Ended, _}} -> error(Ended);
        {'DOWN', Monitor, process, Keeper, Reason} -> error(Reason)
    end.

-spec stopped(pid()) -> ok.
stopped(Keeper) ->
    Monitor = monitor(process, Keeper),
    Keeper ! stop,
    receive {'DOWN', Monitor, process, Keeper, normal} -> ok end.

%% Starts a server. A process for each connection calls the function with its socket.
-spec server(gen_tcp | ssl, inet:ip_address(), [term()], fun((term()) -> term())) ->
          inet:port_number().
server(Module, Address, Options, Serve) ->
    Test = self(),
    Family = case tuple_size(Address) of 8 -> [inet6]; 4 -> [] end,
    Pid = spawn_link(fun() ->
                             {ok, Socket} = Module:listen(0, Family ++ Options
                                                          ++ [binary, {ip, Address},
                                                              {active, false}, {backlog, 100}]),
                             {ok, {_, Port}} = case Module of
                                                   gen_tcp -> inet:sockname(Socket);
                                                   ssl -> ssl:sockname(Socket)
                                               end,
                             Test ! {self(), Port},
                             accept(Module, Socket, Serve)
                     end),
    receive {Pid, Port} -> Port end.

%% The handshake of one client must not delay the others.
accept(Module, Socket, Serve) ->
    {ok, New} = case Module of
                    gen_tcp -> gen_tcp:accept(Socket);
                    ssl -> ssl:transport_accept(Socket)
                end,
    Pid = spawn_link(fun() ->
                             receive go -> ok end,
                             {ok, Client} = case Module of
                                                gen_tcp -> {ok, New};
                                                ssl -> ssl:handshake(New)
                                            end,
                             Serve(Client)
                     end),
    ok = Module:controlling_process(New, Pid),
    Pid ! go,
    accept(Module, Socket, Serve).

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
    {Result, _, _} = shown(Dir, Scenario, [], Code, Counts),
    Result.

%% Does the same with options of the command, and also returns the output and the directory of the
%% results.
-spec shown(file:filename(), iodata(), [string()], 0 | 1, counts()) ->
          {map(), Output :: binary(), file:filename()}.
shown(Dir, Scenario, Options, Code, Counts) ->
    shown(Dir, unicode:characters_to_list(Scenario), Options, Code, Counts, [1, 4, 16]).

%% `{Times, Name}' is a multiple of another count.
-type counts() :: #{name() => pos_integer() | {Times :: pos_integer(), name()}}.

-type name() :: held | ended | errors | Step :: binary().

shown(Dir, Scenario, Options, Code, Counts, [Factor | Others]) ->
    {Ended, Result, Output, Out} = run(Dir, slower(Scenario, Factor), Options),
    case Others =/= [] andalso lacks(Counts, Result) andalso is_slow(Result) of
        true ->
            ct:log("the run reached not all of ~0tp, so its times become longer: ~tp",
                   [Counts, Result]),
            shown(Dir, Scenario, Options, Code, Counts, Others);
        false when Ended =:= Code ->
            %% The notes about it have its exit code.
            _ = [ct:pal("an agent was lost:~n~ts", [Output]) || map_get(<<"lost">>, Result) > 0],
            {Result, Output, Out};
        false -> error({exit_code, Ended, Output, Result})
    end.

run(Dir, Scenario, Options) ->
    File = filename:join(Dir, "users.load"),
    ok = file:write_file(File, unicode:characters_to_binary(Scenario)),
    Out = File ++ integer_to_list(erlang:unique_integer([positive])),
    {Code, Output} = running:whittle(["load", File, "-o", Out | Options]),
    case file:read_file(filename:join(Out, "result.json")) of
        {ok, Json} ->
            #{<<"held">> := _} = Result = jiffy:decode(Json, [return_maps]),
            {Code, Result, Output, Out};
        {error, _} -> error({Code, Output})
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
