%% Tests the account over a serial console: with a VM on a pseudo-terminal, and with consoles that
%% this suite plays itself.
-module(whittle_tune_serial_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([console/1, worn_cable/1, own_console/1, tcp/1, long_answer/1, no_line/1, silent/1,
         shell/1, closes/1, always_lost/1, other_answer/1, flood/1, no_proc/1]).

%% Milliseconds. The consoles of this suite do not wait.
-define(SHORT, #{first => 90, next => 60, all => 60_000}).
-define(ANSWERS, #{first => 100_000, next => 1000, all => 100_000}).
%% The text of a console arrives within this time on a busy machine.
-define(TEXT, #{first => 9_000, next => 3_000, all => 60_000}).
-define(LONG, #{first => 120_000, next => 60_000, all => 300_000}).

suite() -> [{timetrap, {minutes, 2}}].

all() -> [console, worn_cable, own_console, tcp, long_answer, no_line, silent, shell, closes,
          always_lost, other_answer, flood, no_proc].

init_per_suite(Config) ->
    {ok, Started} = application:ensure_all_started(whittle_console_app()),
    [{started, Started} | Config].

%% The process that reads the standard input would take that of the test.
whittle_console_app() ->
    ok = load(application:load(whittle_console)),
    ok = application:set_env(whittle_console, read, false),
    whittle_console.

load(ok) -> ok;
load({error, {already_loaded, _}}) -> ok.

end_per_suite(Config) ->
    [ok = application:stop(Application) || Application <- proplists:get_value(started, Config)].

%% A VM of each OTP, whose console is a terminal in its usual mode. Its echo and its log lines stand
%% between the lines of the answer.
console(Config) ->
    [begin
         Cable = cable(0, Erl, "application:start(whittle_console), "
                       "spawn(fun F() -> io:put_chars(\"a line of the log\\n\"), "
                       "receive after 1 -> F() end end)", Config),
         {ok, Account} = whittle_tune_serial:account(path(Cable), fun(_) -> ok end, ?LONG),
         plausible(Otp, Account),
         %% Another request, with another name.
         {ok, _} = whittle_tune_serial:account(path(Cable) ++ ":9600", fun(_) -> ok end, ?LONG),
         unplug(Cable)
     end || {Otp, Erl} <- stock_vms:all()].

%% One of 2,000 bytes is lost or changed, so about one line in twelve. These are asked for again.
worn_cable(Config) ->
    {_, Erl} = hd(stock_vms:all()),
    Cable = cable(2000, Erl, "application:start(whittle_console)", Config),
    Self = self(),
    {ok, Account} = whittle_tune_serial:account(path(Cable), fun(Event) -> Self ! Event end,
                                                ?LONG#{next := 1000}),
    receive {console, _, Of} -> ?assert(Of > 1) end,
    plausible(any, Account),
    unplug(Cable).

%% A program that reads its console itself.
own_console(Config) ->
    {_, Erl} = hd(stock_vms:all()),
    Cable = cable(0, Erl, "application:load(whittle_console), "
                  "application:set_env(whittle_console, read, false), "
                  "application:start(whittle_console), "
                  "(fun F() -> Line = io:get_line(\"\"), case whittle_console:answer(Line) of "
                  "{ok, Answer} -> lists:foreach(fun io:put_chars/1, Answer); "
                  "no -> io:put_chars([\"you said \", Line]) end, F() end)()", Config),
    {ok, Account} = whittle_tune_serial:account(path(Cable), fun(_) -> ok end, ?LONG),
    plausible(any, Account),
    unplug(Cable).

plausible(Otp, #{rss := Rss, lines := Lines, changes := #{notes := [_]}, unexplained := Rest,
                 vm := #{otp := Vsn, process_count := Processes}}) ->
    ?assert(Rss > 5_000_000),
    ?assert(Processes > 10),
    ?assert(Otp =:= any orelse integer_to_binary(Otp) =:= Vsn),
    %% The program works between the two accounts, and a glibc VM has memory without a name.
    ?assert(abs(Rest) < Rss div 4),
    ?assertEqual(Rss, lists:sum([Bytes || #{bytes := Bytes} <- Lines])).

%% This VM answers, over a socket that gives the bytes in pieces.
tcp(_) ->
    {ok, #{rss := Rss}} = played(fun(Socket) -> answers(Socket, fun(Lines) -> Lines end) end,
                                 ?LONG),
    ?assert(Rss > 5_000_000).

%% A socket in the file system. The lines come in the wrong order, and each twice.
long_answer(_) ->
    %% The path of a socket has at most 107 bytes, and the directory of the test may have more.
    Path = string:trim(os:cmd("mktemp -u")),
    {ok, Listener} = gen_tcp:listen(0, [binary, {active, false}, {ifaddr, {local, Path}}]),
    ?assertMatch({ok, _}, played("unix:" ++ Path, Listener,
                                 fun(Socket) ->
                                         answers(Socket, fun(Lines) ->
                                                                 Back = lists:reverse(Lines),
                                                                 Back ++ Back
                                                         end)
                                 end, ?LONG)),
    ok = file:delete(Path).

no_line(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "no-line"),
    ok = file:write_file(File, ""),
    [?assertMatch({_, {match, _}}, {Line, re:run(Line, Pattern)})
     || {Name, Pattern} <-
            [{"/nowhere/tty", "^/nowhere/tty cannot be opened \\(no such file or directory\\): "},
             {File, "no-line is no serial line: give /dev/NAME, /dev/NAME:RATE, "},
             {File ++ ":9600", "no-line:9600 is no serial line: "},
             {"/dev/null", "^/dev/null is no serial line: "}, {"/", "^/ is no serial line: "},
             {"tcp:localhost", "^tcp:localhost is no serial line: give /dev/NAME, "},
             {"tcp::7", "is no serial line"}, {"tcp:localhost:70000", "is no serial line"},
             {"tcp:localhost:x", "is no serial line"}, {"unix:/nowhere/s", "cannot be opened"},
             {"unix:/" ++ lists:duplicate(300, $a), "is no serial line"}],
        Line <- [failed(Name, ?SHORT)]].

%% A console that says nothing, or something else.
silent(_) ->
    ?assertMatch({match, _}, re:run(played_failure(fun(Socket) -> listens(Socket, "") end),
                                    "^the program at tcp:localhost:\\d+ did not answer within 0 s: "
                                    "list the application whittle_console")),
    ?assertMatch({match, _}, re:run(played_failure(fun(Socket) ->
                                                           listens(Socket, "lamp on\r\n\e[1m\r\n")
                                                   end, ?TEXT),
                                    "\\(its last line is `.*\\): list the application")).

%% Each one waits for an answer. They wait at the same time.
shell(_) ->
    Play = fun(Prompt) ->
                   {Prompt, played_failure(fun(Socket) -> listens(Socket, Prompt) end, ?TEXT)}
           end,
    [?assertMatch({Prompt, {match, _}},
                  {Prompt, re:run(Text,
                                  "`.*'\\): a shell has the console; look at the node with")})
     || {Prompt, Text} <- whittle_work:map(Play, ["\r\n1> ", "iex(1)> ", "root@board:~# ",
                                                  "board login: "])].

closes(_) ->
    ?assertMatch({match, _}, re:run(played_failure(fun gen_tcp:close/1),
                                    "^tcp:localhost:\\d+ closed before the answer was complete: ")).

%% The third line never arrives whole.
always_lost(_) ->
    Lose = fun(Lines) -> [case binary:match(Line, <<" 3 ">>) of
                              nomatch -> Line;
                              _ -> binary:replace(Line, <<" 3 ">>, <<" 5 ">>)
                          end || Line <- Lines]
           end,
    ?assertMatch({match, _}, re:run(played_failure(fun(Socket) -> answers(Socket, Lose) end,
                                                   ?ANSWERS),
                                    "^1 of \\d+ lines of the answer from tcp:localhost:\\d+ were "
                                    "lost or damaged, each time: correct the rate")).

%% A complete answer that is no account: other bytes, another version, a term that is too large, and
%% a text of the kernel that does not look like one.
other_answer(_) ->
    Huge = <<131, 80, 16#ffffffff:32, 0>>,
    [?assertMatch({match, _}, re:run(played_failure(fun(Socket) -> sends(Socket, Bytes) end,
                                                    ?ANSWERS),
                                     "is no account: use the same version of Whittle"))
     || Bytes <- [<<"text">>, <<131, 80>>, Huge, compressed(lists:seq(1, 1000)),
                  compressed({whittle_console, 1, 8, <<"/p">>,
                              iolist_to_binary(["12-zz ", lists:duplicate(999, $x)]),
                              [], [<<>>, <<>>, <<>>]}),
                  compressed({whittle_console, 1, 8, <<"/p">>, <<"a">>, [],
                              [lists:duplicate(999, $x), <<>>, <<>>]})]].

%% The time for all ends an endless line.
flood(_) ->
    Noise = binary:copy(<<"x">>, 100_000),
    ?assertMatch({match, _},
                 re:run(played_failure(fun(Socket) -> floods(Socket, Noise) end,
                                       #{first => 60_000, next => 60_000, all => 3_000}),
                        "did not answer within 60 s \\(its last line is `x+")).

no_proc(_) ->
    Answer = compressed({whittle_console, 1, 8, <<>>, <<>>, [],
                         [binary:copy(<<"x">>, 999), <<>>, <<>>]}),
    ?assertMatch({match, _}, re:run(played_failure(fun(Socket) -> sends(Socket, Answer) end,
                                                   ?ANSWERS),
                                    "has no /proc, so its kernel does not tell")).

%% Consoles that this suite plays

played_failure(Play) -> played_failure(Play, ?SHORT).

played_failure(Play, Patience) ->
    {error, Reason} = played(Play, Patience),
    unicode:characters_to_binary(whittle_tune_serial:format_error(Reason)).

failed(Name, Patience) ->
    {error, Reason} = whittle_tune_serial:account(Name, fun(_) -> ok end, Patience),
    unicode:characters_to_binary(whittle_tune_serial:format_error(Reason)).

played(Play, Patience) ->
    {ok, Listener} = gen_tcp:listen(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Listener),
    played("tcp:localhost:" ++ integer_to_list(Port), Listener, Play, Patience).

played(Name, Listener, Play, Patience) ->
    {Player, Monitor} = spawn_monitor(fun() ->
                                              {ok, Socket} = gen_tcp:accept(Listener),
                                              Play(Socket)
                                      end),
    Result = whittle_tune_serial:account(Name, fun(_) -> ok end, Patience),
    exit(Player, kill),
    receive {'DOWN', Monitor, process, Player, _} -> ok end,
    ok = gen_tcp:close(Listener),
    Result.

%% Answers each request, as a function changes the lines.
answers(Socket, Change) ->
    ok = inet:setopts(Socket, [{packet, line}]),
    answers_on(Socket, Change).

answers_on(Socket, Change) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Line} ->
            _ = case whittle_console:answer(Line) of
                    {ok, Answer} -> gen_tcp:send(Socket, Change(Answer));
                    no -> ok
                end,
            answers_on(Socket, Change);
        {error, closed} -> ok
    end.

%% Answers the first request with the given bytes, in the lines of an answer.
sends(Socket, Bytes) ->
    ok = inet:setopts(Socket, [{packet, line}]),
    {ok, <<"\n">>} = gen_tcp:recv(Socket, 0),
    {ok, Line} = gen_tcp:recv(Socket, 0),
    {ok, {account, Id}} = whittle_console_line:request(Line),
    ok = gen_tcp:send(Socket, whittle_console_line:answer(Id, Bytes)),
    listens(Socket, "").

listens(Socket, Text) ->
    _ = gen_tcp:send(Socket, Text),
    case gen_tcp:recv(Socket, 0) of
        {ok, _} -> listens(Socket, Text);
        {error, closed} -> ok
    end.

floods(Socket, Noise) ->
    case gen_tcp:send(Socket, Noise) of
        ok -> floods(Socket, Noise);
        {error, _} -> ok
    end.

compressed(Term) -> term_to_binary(Term, [compressed]).

%% A VM on a console

cable(Every, Erl, Expression, Config) ->
    Script = filename:join(proplists:get_value(data_dir, Config), "cable.py"),
    Ebin = compiled(Erl, Config),
    Port = open_port({spawn_executable, os:find_executable("python3")},
                     [{args, [Script, integer_to_list(Every), "1", Erl, "-noshell", "-pa", Ebin,
                              "-eval", Expression]},
                      {line, 1000}, exit_status]),
    receive
        {Port, {data, {eol, Path}}} -> {Port, Path};
        {Port, {exit_status, Status}} -> error({cable, Status})
    end.

%% OTP 29 loads no code of older compilers.
compiled(Erl, Config) ->
    Ebin = filename:join([proplists:get_value(priv_dir, Config), "console",
                          integer_to_list(erlang:phash2(Erl)), "ebin"]),
    ok = filelib:ensure_path(Ebin),
    Modules = filename:dirname(code:which(whittle_console)),
    Name = "whittle_console.app",
    {ok, _} = file:copy(filename:join(Modules, Name), filename:join(Ebin, Name)),
    Sources = filename:join(filename:dirname(Modules), "src/*.erl"),
    _ = made:tool(filename:join(filename:dirname(Erl), "erlc"),
                  ["-o", Ebin | filelib:wildcard(Sources)], "/"),
    Ebin.

path({_, Path}) -> Path.

%% The script ends the program at the end of its input.
unplug({Port, _}) -> true = port_close(Port).
