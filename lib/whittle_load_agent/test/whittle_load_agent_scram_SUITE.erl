%% Tests SCRAM with the examples of RFC 5802 (section 5) and RFC 7677 (section 3).
-module(whittle_load_agent_scram_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([examples/1, refused/1]).

suite() -> [{timetrap, {minutes, 1}}].

all() -> [examples, refused].

init_per_testcase(_, Config) ->
    {ok, _} = application:ensure_all_started(crypto),
    Config.

end_per_testcase(_, _) -> ok.

examples(_) ->
    [begin
         {First, State} = whittle_load_agent_scram:first(Mechanism, <<"user">>, <<"pencil">>,
                                                         Nonce),
         ?assertEqual(<<"n,,n=user,r=", Nonce/binary>>, iolist_to_binary(First)),
         {ok, Answer, Proved} = whittle_load_agent_scram:answer(Challenge, State),
         [_, Sent] = binary:split(iolist_to_binary(Answer), <<",p=">>),
         ?assertEqual(Proof, Sent),
         ?assertEqual(ok, whittle_load_agent_scram:verify(<<"v=", Signature/binary>>, Proved)),
         ?assertEqual({error, bad_server}, whittle_load_agent_scram:verify(<<"v=eA==">>, Proved)),
         ?assertEqual({error, bad_server},
                      whittle_load_agent_scram:verify(<<"v=", Signature/binary>>, State))
     end || {Mechanism, Nonce, Challenge, Proof, Signature} <-
                [{<<"SCRAM-SHA-1">>, <<"fyko+d2lbbFgONRv9qkxdawL">>,
                  <<"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096">>,
                  <<"v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=">>, <<"rmF9pqV8S7suAoZWja4dJRkFsKQ=">>},
                 {<<"SCRAM-SHA-256">>, <<"rOprNGfwEbeRWgbNEkqO">>,
                  <<"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,",
                    "s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096">>,
                  <<"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=">>,
                  <<"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=">>}]].

refused(_) ->
    {_, State} = whittle_load_agent_scram:first(<<"SCRAM-SHA-1">>, <<"a=b,c">>, <<"p">>, <<"abc">>),
    [?assertEqual({Challenge, {error, bad_challenge}},
                  {Challenge, whittle_load_agent_scram:answer(Challenge, State)})
     || Challenge <- [<<>>, <<"r=abc,s=eA==,i=4096">>, <<"r=xyzd,s=eA==,i=4096">>,
                      <<"r=abcd,s=eA==,i=0">>, <<"r=abcd,s=eA==,i=100001">>,
                      <<"r=abcd,s=!,i=4096">>, <<"r=abcd,s=eA==,i=x">>, <<"r=abcd,s=eA==">>]].
