%% Tests programs that run beside the caller.
-module(whittle_program_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([output_before_end/1, stopped/1, no_program/1]).

all() -> [output_before_end, stopped, no_program].

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
