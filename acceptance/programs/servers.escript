#!/usr/bin/env escript
%% Tests and measures two large servers of Debian's packages, RabbitMQ and ejabberd, as outputs.
%%
%% Each server runs in five ways: as the packages start it on the stock OTP (`stock'), built
%% whole (`whole'), with cold code that loads on demand (`load'), with only the traced code in
%% memory (`seen'), and without unreachable code (`crash'). A third-party client (pika, slixmpp)
%% uses each of them: first with an empty data directory, then after a restart. All answers must
%% equal those of `stock'.
%%
%% Model. Bytes are the size of the file; for `stock' they are those of the release with its VM.
%% The server is at rest ten seconds after its first start is complete. RSS and its anonymous
%% part are the kernel's values (VmRSS, RssAnon) for the VM's own process. The start time runs from
%% the command until the server reports that its start is complete, with the data directory of the
%% first use: the median of five.
%%
%% apt fetches the packages and checks their signatures; pip fetches the clients and checks their
%% hashes. The script unpacks both below out/programs and installs nothing. It uses an existing
%% build or result again; remove out/programs/SERVER to start again. Servers listen on 127.0.0.1
%% only.
%%
%% usage: escript acceptance/programs/servers.escript [rabbitmq|ejabberd]...    default: both
%% exit:  0 all answers are the same, 1 there is a difference (the output names it), 2 usage error
-mode(compile).

-define(OTP, "25").
-define(STARTS, 5).
-define(REST_MS, 10_000).

main(Words) ->
    Here = filename:dirname(filename:absname(escript:script_name())),
    Root = filename:dirname(filename:dirname(Here)),
    ok = code:add_pathsz(filelib:wildcard(filename:join(Root, "_build/default/lib/*/ebin"))),
    [begin
         {ok, Module, Code} = compile:file(File, [binary, report]),
         {module, Module} = code:load_binary(Module, File, Code)
     end || File <- [filename:join([Root, "acceptance", "suites", Name])
                     || Name <- ["running.erl", "packages.erl"]]
                ++ filelib:wildcard(filename:join([Here, "servers", "*.erl"]))],
    Known = #{"rabbitmq" => rabbitmq, "ejabberd" => ejabberd},
    Names = case Words of
                [] -> ["rabbitmq", "ejabberd"];
                _ -> Words
            end,
    case Names -- maps:keys(Known) of
        [] -> ok;
        [Unknown | _] ->
            io:format(standard_error, "servers: there is no server ~ts; there are rabbitmq and "
                      "ejabberd~n", [Unknown]),
            halt(2)
    end,
    os:putenv("ERL_EPMD_ADDRESS", "127.0.0.1"),
    Results = [{Name, server(maps:get(Name, Known), Here)} || Name <- Names],
    halt(case [failed || {_, failed} <- Results] of [] -> 0; _ -> 1 end).

server(Module, Here) ->
    try
        Python = debian:python(filename:join([Here, "servers", "requirements.txt"])),
        Built = builds(Module, Python, Here, maps:put(otp, ?OTP, Module:source(?OTP))),
        Results = [{Way, used(Module, Python, Here, Way, maps:get(Way, Built))}
                   || Way <- [stock, whole, load, seen, crash]],
        [{stock, #{answers := Expected}} | Others] = Results,
        print(Module, Built, Results),
        case [Way || {Way, #{answers := Answers}} <- Others, Answers =/= Expected] of
            [] -> ok;
            Different ->
                io:format(standard_error, "servers: ~s: ~p answer otherwise than stock: compare "
                          "~ts/*.txt~n", [Module, Different, debian:work([Module])]),
                failed
        end
    catch
        throw:{servers, Why} ->
            io:format(standard_error, "servers: ~s: ~ts~n", [Module, Why]),
            failed
    end.

%% Returns the program of each way: #{way => #{file, size, ...}}.
builds(Module, Python, Here, #{path := Path, options := Given, told := Told} = Source) ->
    Options = ["--otp", ?OTP | Given],
    Build = fun(Way, More) ->
                    maps:merge(Source, debian:build([Module, Way], Path, Options ++ More))
            end,
    Whole = #{stock := Stock} = Build(whole, []),
    Trace = recorded(Module, Python, Here, Whole),
    Shaken = ["--shake", "functions"],
    #{stock => Source#{size => Stock},
      whole => Whole,
      load => Build(load, Shaken),
      seen => Build(seen, Shaken ++ ["--evidence", Trace, "--seen", "only"]),
      crash => Build(crash, Shaken ++ ["--missing", "crash", "--evidence", Trace,
                               "--seen", "keep" | Told])}.

%% Records the server's calls while the client uses it, as one recording of all its starts.
recorded(Module, Python, Here, Whole) ->
    Record = debian:work([Module, "trace"]),
    case filelib:is_file(Record) of
        true -> Record;
        false ->
            io:format(standard_error, "servers: ~s: whole is traced~n", [Module]),
            Dir = debian:work([Module, "traced"]),
            _ = file:del_dir_r(Dir),
            ok = filelib:ensure_path(Dir),
            #{phases := Phases} = Module:use(),
            Files = [begin
                         File = filename:join(Dir, Phase ++ ".trace"),
                         Traced = Whole#{trace => File},
                         {_, {0, _}, Server} = client(Module, Python, Here, {trace, Traced}, Dir,
                                                       Phase),
                         stopped(Module, Server, traced, Phase),
                         File
                     end || Phase <- Phases],
            Read = fun(File) ->
                           {ok, Bytes} = file:read_file(File),
                           {ok, Evidence} = whittle_shake_evidence:from_binary(Bytes),
                           Evidence
                   end,
            Joined = whittle_shake_evidence:join([Read(File) || File <- Files]),
            ok = file:write_file(Record, whittle_shake_evidence:to_binary(Joined)),
            Record
    end.

%% Uses a server twice, with a restart between, and measures it.
used(Module, Python, Here, Way, Built) ->
    Kept = debian:work([Module, [Way, ".used"]]),
    case file:read_file(Kept) of
        {ok, Bytes} -> binary_to_term(Bytes);
        {error, _} ->
            Result = used_now(Module, Python, Here, Way, Built),
            ok = file:write_file(Kept, term_to_binary(Result)),
            Result
    end.

used_now(Module, Python, Here, Way, Built) ->
    io:format(standard_error, "servers: ~s: ~s is used~n", [Module, Way]),
    Dir = debian:work([Module, "data", Way]),
    _ = file:del_dir_r(Dir),
    ok = filelib:ensure_path(Dir),
    #{phases := Phases} = Module:use(),
    Run = fun(Phase) ->
                  {Memory, Answers, Server} =
                      client(Module, Python, Here, {Way, Built}, Dir, Phase),
                  stopped(Module, Server, Way, Phase),
                  {Memory, Answers}
          end,
    [{Memory, _} | _] = Ran = [Run(Phase) || Phase <- Phases],
    Answers = [Answer || {_, Answer} <- Ran],
    ok = file:write_file(debian:work([Module, [Way, ".txt"]]),
                         [Text || {_, Text} <- Answers]),
    [] = [Code || {Code, _} <- Answers, Code =/= 0 andalso Way =:= stock],
    Starts = [begin
                  {Server, Time} = started(Module, Way, Built, Dir),
                  stopped(Module, Server, Way, "start"),
                  Time
              end || _ <- lists:seq(1, ?STARTS)],
    Memory#{answers => Answers, starts => lists:sort(Starts)}.

%% Starts a server, measures it at rest, and runs the client.
client(Module, Python, Here, {Way, Built}, Dir, Phase) ->
    #{client := Client, phases := [First | _]} = Module:use(),
    {Server, _} = started(Module, Way, Built, Dir),
    Memory = case {Way, Phase} of
                 {trace, _} -> none;
                 {_, First} -> at_rest(Server);
                 _ -> none
             end,
    Answers = running:run(Python, [filename:join([Here, "servers", Client]) | Module:words(Dir)]
                          ++ [Phase], #{env => keep}),
    {Memory, Answers, Server}.

started(Module, Way, Built, Dir) ->
    {Program, Words, Env} = command(Module, Way, Built, Dir),
    From = erlang:monotonic_time(microsecond),
    Server = running:start(Program, Words, #{env => Env, cd => Dir}),
    _ = running:until(Server, Module:ready()),
    {Server, (erlang:monotonic_time(microsecond) - From) / 1000}.

command(Module, trace, #{trace := Trace} = Built, Dir) ->
    {File, Words, Env} = Module:command(whole, Built, Dir),
    {filename:join(running:root(), "whittle"), ["trace", "-o", Trace, "--", File | Words], Env};
command(Module, Way, Built, Dir) ->
    Module:command(Way, Built, Dir).

stopped(Module, Server, Way, Phase) ->
    ok = running:signal(Server, "TERM"),
    {Code, Said} = running:ended(Server),
    ok = file:write_file(debian:work([Module, [Way, "-", Phase, ".log"]]), Said),
    Code =:= 0 orelse debian:fail("~s ended with ~b after SIGTERM: ~ts", [Way, Code, Said]).

at_rest(Server) ->
    timer:sleep(?REST_MS),
    {os_pid, Pid} = erlang:port_info(Server, os_pid),
    {ok, Status} = file:read_file(["/proc/", integer_to_list(Pid), "/status"]),
    #{rss => number(Status, "VmRSS:\\s+(\\d+) kB"),
      anonymous => number(Status, "RssAnon:\\s+(\\d+) kB")}.

number(Text, Pattern) ->
    {match, [Number]} = re:run(Text, Pattern, [{capture, all_but_first, list}]),
    list_to_integer(Number).

print(Module, Built, Results) ->
    io:format("~n~s, OTP ~s~n~n| | ~ts |~n|---|~ts~n",
              [Module, ?OTP, lists:join(" | ", [atom_to_list(Way) || {Way, _} <- Results]),
               ["--:|" || _ <- Results]]),
    Row = fun(Name, Cell) ->
                  io:format("| ~s | ~ts |~n",
                            [Name, lists:join(" | ", [Cell(Way, Result)
                                                      || {Way, Result} <- Results])])
          end,
    Row("bytes", fun(Way, _) -> integer_to_list(maps:get(size, maps:get(Way, Built))) end),
    Row("RSS at rest, kB", fun(_, #{rss := Rss}) -> integer_to_list(Rss) end),
    Row("anonymous, kB", fun(_, #{anonymous := Kb}) -> integer_to_list(Kb) end),
    Row("start, ms (from, to)",
        fun(_, #{starts := Starts}) ->
                io_lib:format("~b (~b, ~b)",
                              [round(Time) || Time <- [lists:nth(?STARTS div 2 + 1, Starts),
                                                       hd(Starts), lists:last(Starts)]])
        end),
    [{stock, #{answers := Expected}} | _] = Results,
    Row("same answers", fun(_, #{answers := Answers}) ->
                                case Answers of Expected -> "yes"; _ -> "no" end
                        end).
