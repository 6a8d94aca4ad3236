%% Helps the suites that run `whittle load' against servers of other authors.
-module(loading).

-export([unpacked/1, libraries/1, certificate/1, listens/2, kept/1, stopped/1, has_ipv6/0, load/3]).

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
listens(Address, Port) -> listens(Address, Port, 400).

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
-spec load(file:filename(), iodata(), 0 | 1) -> map().
load(Dir, Scenario, Code) ->
    File = filename:join(Dir, "users.load"),
    ok = file:write_file(File, Scenario),
    case running:whittle(["load", File, "--json"]) of
        {Code, Output} ->
            %% The messages of the agents stand beside it.
            Lines = binary:split(Output, <<"\n">>, [global]),
            [Json] = [Line || <<"{\"", _/binary>> = Line <- Lines],
            jiffy:decode(Json, [return_maps]);
        Other -> error(Other)
    end.
