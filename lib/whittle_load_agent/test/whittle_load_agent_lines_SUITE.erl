%% Tests the client for lines of text.
-module(whittle_load_agent_lines_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([steps/1, any_pieces/1, endless_line/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> [steps, any_pieces, endless_line].

init_per_testcase(_, Config) -> Config.

end_per_testcase(_, _) -> ok.

steps(_) ->
    User = #{id => 7, row => {<<"alice">>, <<"pw">>}, random => 1234, clock => 0},
    State = whittle_load_agent_lines:init(#{}, User),
    {sent, Out, State} =
        whittle_load_agent_lines:step({send, [<<"hi ">>, id, <<" ">>, {column, 1}]}, User, State),
    ?assertEqual(<<"hi 7 alice\n">>, iolist_to_binary(Out)),
    {await, Asked, Await, State} =
        whittle_load_agent_lines:step({ask, [{random, 100}], [<<"re">>]}, User, State),
    ?assertEqual(<<"34\n">>, iolist_to_binary(Asked)),
    ?assert(whittle_load_agent_lines:match(Await, <<"reply">>)),
    ?assertNot(whittle_load_agent_lines:match(Await, <<"r">>)),
    ?assertNot(whittle_load_agent_lines:match(Await, <<"no reply">>)).

%% The lines do not depend on the pieces in which their bytes arrive.
any_pieces(_) ->
    ?assert(proper:quickcheck(
              ?FORALL({Lines, Rest, Cuts}, {list(line()), line(), list(non_neg_integer())},
                      begin
                          Bytes = iolist_to_binary([[[Line, $\n] || Line <- Lines], Rest]),
                          {Events, State} = fed(pieces(Bytes, Cuts), <<>>),
                          {Events, State} =:= {Lines, Rest}
                      end), [{to_file, user}, 300])).

endless_line(_) ->
    Piece = binary:copy(<<"a">>, 400_000),
    {ok, [], [], One} = whittle_load_agent_lines:data(Piece, <<>>),
    {ok, [], [], Two} = whittle_load_agent_lines:data(Piece, One),
    ?assertEqual({error, too_long}, whittle_load_agent_lines:data(Piece, Two)).

line() -> ?LET(Bytes, list(integer(0, 255)), list_to_binary([B || B <- Bytes, B =/= $\n])).

pieces(Bytes, [Cut | Cuts]) when Cut < byte_size(Bytes) ->
    <<Piece:Cut/binary, Rest/binary>> = Bytes,
    [Piece | pieces(Rest, Cuts)];
pieces(Bytes, _) -> [Bytes].

fed(Pieces, State) ->
    lists:foldl(fun(Piece, {Events, Before}) ->
                        {ok, More, [], After} = whittle_load_agent_lines:data(Piece, Before),
                        {Events ++ More, After}
                end, {[], State}, Pieces).
