%% Tests programs that run beside the caller.
-module(whittle_program_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([output_before_end/1, own_environment/1, stopped/1, no_program/1, slow_filter/1]).

all() -> [output_before_end, own_environment, stopped, no_program, slow_filter].

%% The program ends before the caller reads its first piece of output. Both streams keep the order.
output_before_end(_) ->
    Busy = [spawn_link(fun Loop() -> Loop() end) || _ <- lists:seq(1, 4)],
    Expected = [{<<"first\nlast\n">>, 0}],
    ?assertEqual(Expected,
                 lists:usort([begin
                                  {ok, Started} = whittle_program:start(
                                                    "/bin/sh", ["-c", "echo first; echo last >&2"],
                                                    #{}),
                                  rest(Started, <<>>)
                              end || _ <- lists:seq(1, 50)])),
    [begin unlink(Pid), exit(Pid, kill) end || Pid <- Busy].

rest(Started, Before) ->
    case whittle_program:next(Started, infinity) of
        {output, Bytes} -> rest(Started, <<Before/binary, Bytes/binary>>);
        {ended, Status} -> {Before, Status}
    end.

%% The variables are for the program, and change nothing about how it runs.
own_environment(_) ->
    Run = fun(Variable) ->
                  {ok, Started} = whittle_program:start("/bin/sh", ["-c", "echo last"],
                                                        #{env => [Variable]}),
                  {Output, Status} = rest(Started, <<>>),
                  {lists:last(binary:split(Output, <<"\n">>, [global, trim])), Status}
          end,
    [?assertEqual({Variable, {<<"last">>, 0}}, {Variable, Run(Variable)})
     || Variable <- [{"PATH", "/nonexistent"}, {"LD_PRELOAD", "/nonexistent.so"}]].

%% No output stays behind in the mailbox or in the process dictionary.
stopped(_) ->
    Keys = get_keys(),
    {ok, Started} = whittle_program:start("/bin/sh", ["-c", "yes & yes"], #{}),
    {output, _} = whittle_program:next(Started, infinity),
    ok = whittle_program:stop(Started),
    receive Message -> error(Message) after 0 -> ok end,
    ?assertEqual(Keys, get_keys()).

no_program(_) ->
    {ok, Started} = whittle_program:start("/no/such/program", [], #{}),
    ?assertMatch({_, 127}, rest(Started, <<>>)).

%% A command that neither reads nor ends is killed, with the programs that it started. They hold the
%% pipe of another program, which ends with the last of them.
slow_filter(Config) ->
    Fifo = filename:join(proplists:get_value(priv_dir, Config), "held"),
    {ok, _} = whittle_program:capture("mkfifo", [Fifo]),
    {ok, Held} = whittle_program:start("/bin/cat", [Fifo], #{}),
    _ = process_flag(trap_exit, true),
    Command = "{ tail -f /dev/null >'" ++ Fifo ++ "'; }",
    ?assertEqual({error, timeout},
                 whittle_program:filter(Command, binary:copy(<<0>>, 1_000_000), 1000, 1)),
    %% If the kill came before the command had opened the pipe, nobody else opens it.
    {ok, Writer} = file:open(Fifo, [read, write, raw]),
    ok = file:close(Writer),
    ?assertEqual({<<>>, 0}, rest(Held, <<>>)),
    receive {_, {data, _}} = Message -> error(Message) after 0 -> ok end,
    ?assertMatch({ok, <<"abc">>}, whittle_program:filter("cat", <<"abc">>, 1000, 60_000)),
    ?assertEqual([], [Timeout || {timeout, _, _} = Timeout <- element(2, process_info(self(),
                                                                                     messages))]).
