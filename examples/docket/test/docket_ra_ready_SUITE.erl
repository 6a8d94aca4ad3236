%% Tests that one question to the leader serves many who ask whether the node is ready. No Ra runs.
-module(docket_ra_ready_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([together/1, afresh/1, failed/1, gone/1]).

all() -> [together, afresh, failed, gone].

init_per_testcase(_, Config) -> Config.

end_per_testcase(_, _) -> ok.

%% The question waits for the test, which answers it.
started() ->
    Test = self(),
    {ok, Pid} = docket_ra_ready:start_link(fun() ->
                                                   Test ! {asked, self()},
                                                   receive {answer, Answer} -> Answer end
                                           end),
    Pid.

ended(Pid) ->
    true = unlink(Pid),
    gen_server:stop(Pid).

asker() ->
    Test = self(),
    spawn_link(fun() -> Test ! {self(), docket_ra_ready:ask()} end).

answered(Answer) ->
    receive {asked, Asker} -> Asker ! {answer, Answer} end,
    ok.

together(_) ->
    Pid = started(),
    Askers = [asker() || _ <- lists:seq(1, 20)],
    ok = answered(true),
    _ = [receive {Each, Ready} -> ?assert(Ready) end || Each <- Askers],
    %% A fresh answer needs no question.
    ?assert(docket_ra_ready:ask()),
    receive {asked, _} -> error(asked_again) after 0 -> ok end,
    ended(Pid).

%% An answer gets old.
afresh(_) ->
    Pid = started(),
    First = asker(),
    ok = answered(true),
    receive {First, Ready} -> ?assert(Ready) end,
    ?assertEqual(false, until_asked()),
    ended(Pid).

until_asked() ->
    Asker = asker(),
    receive
        {asked, Question} ->
            Question ! {answer, false},
            receive {Asker, Answer} -> Answer end;
        {Asker, true} -> until_asked()
    end.

failed(_) ->
    {ok, Pid} = docket_ra_ready:start_link(fun() -> exit(noproc) end),
    ?assertNot(docket_ra_ready:ask()),
    ended(Pid).

gone(_) -> ?assertNot(docket_ra_ready:ask()).
