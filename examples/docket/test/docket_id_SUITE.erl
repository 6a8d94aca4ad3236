%% Tests the ids of cases: they grow, they differ, and their texts are exact.
-module(docket_id_SUITE).
-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([grow/1, differ/1, together/1, texts/1, bad_texts/1]).

all() -> [grow, differ, together, texts, bad_texts].

init_per_testcase(_, Config) -> Config.
end_per_testcase(_, _) -> ok.

-define(CHECK(Property),
        ?assertEqual(true, proper:quickcheck(Property, [{numtests, 300}, quiet, long_result]))).

%% With any clock, also one that goes back, a source gives growing ids.
grow(_) ->
    ?CHECK(?FORALL({Node, Times}, {range(0, 63), list(clock())},
                   begin
                       Source = docket_id:source(Node),
                       Ids = [docket_id:new(Source, Time) || Time <- Times],
                       Ids =:= lists:usort(Ids)
                   end)).

%% Two nodes make different ids at the same time.
differ(_) ->
    ?CHECK(?FORALL({One, Other, Time}, {range(0, 63), range(0, 63), clock()},
                   One =:= Other orelse docket_id:new(docket_id:source(One), Time)
                       =/= docket_id:new(docket_id:source(Other), Time))).

%% Processes that share a source get different ids.
together(_) ->
    Source = docket_id:source(5),
    Test = self(),
    Pids = [spawn_link(fun() -> Test ! {self(), [docket_id:new(Source, 1_800_000_000_000)
                                                 || _ <- lists:seq(1, 5000)]} end)
            || _ <- lists:seq(1, 8)],
    Ids = lists:append([receive {Pid, Own} -> Own end || Pid <- Pids]),
    ?assertEqual(40000, length(lists:usort(Ids))).

%% The text of an id leads back to it, and texts sort as the ids do.
texts(_) ->
    ?CHECK(?FORALL({One, Other}, {id(), id()},
                   {ok, One} =:= docket_id:from_text(docket_id:to_text(One))
                   andalso (One < Other) =:= (docket_id:to_text(One) < docket_id:to_text(Other)))).

%% Any other text is refused: another length, a letter that Base32 lacks, lower case, a 60th bit.
bad_texts(_) ->
    [?assertEqual({Text, error}, {Text, docket_id:from_text(Text)})
     || Text <- [<<>>, <<"1">>, <<"1JQVWW4ZG0000">>, <<"1JQVWW4ZG00U">>, <<"1jqvww4zg000">>,
                 <<"ZZZZZZZZZZZZ">>, <<"1JQVWW4ZG00 ">>, <<255, "JQVWW4ZG000">>]],
    ?CHECK(?FORALL(Text, binary(),
                   case docket_id:from_text(Text) of
                       {ok, Id} -> docket_id:to_text(Id) =:= Text;
                       error -> true
                   end)).

id() -> range(0, (1 bsl 59) - 1).
clock() -> range(1_500_000_000_000, 3_700_000_000_000).
