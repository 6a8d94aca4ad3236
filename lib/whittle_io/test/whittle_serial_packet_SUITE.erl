%% Tests the messages that arrive for any split of the input.
-module(whittle_serial_packet_SUITE).
-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([split_anywhere/1, silence_anywhere/1, changed_anywhere/1, garbage/1, bounded_errors/1,
         takes/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() -> [split_anywhere, silence_anywhere, changed_anywhere, garbage, bounded_errors, takes].

init_per_testcase(_, Config) -> Config.
end_per_testcase(_, _) -> ok.

holds(Property) ->
    ?assertEqual(true, proper:quickcheck(Property, [quiet, long_result, {numtests, 2000}])).

mode() -> oneof([raw, line, 1, 2, 4]).

message(line) -> ?LET(Text, binary(), without_end(Text));
message(_) -> binary().

without_end(Text) -> binary:replace(Text, <<"\n">>, <<"-">>, [global]).

wire(raw, Message) -> Message;
wire(line, Message) -> <<Message/binary, "\n">>;
wire(Head, Message) -> <<(byte_size(Message)):Head/unit:8, Message/binary>>.

%% Cuts bytes at places that come from numbers.
pieces(<<>>, _) -> [];
pieces(Bytes, []) -> [Bytes];
pieces(Bytes, [N | Ns]) ->
    Size = N rem (byte_size(Bytes) + 1),
    <<Piece:Size/binary, Rest/binary>> = Bytes,
    [Piece | pieces(Rest, Ns)].

pushed(Pieces, Input) -> lists:foldl(fun push_pop/2, {[], Input}, Pieces).

push_pop(Piece, {Popped, Input}) ->
    {More, Input1} = pop_all(whittle_serial_packet:push(Piece, Input)),
    {Popped ++ More, Input1}.

pop_all(Input) ->
    case whittle_serial_packet:pop(Input) of
        {ok, Message, Input1} ->
            {More, Input2} = pop_all(Input1),
            {[Message | More], Input2};
        {error, Reason, Input1} ->
            {More, Input2} = pop_all(Input1),
            {[{error, Reason} | More], Input2};
        {more, Input1} -> {[], Input1}
    end.

split_anywhere(_) ->
    holds(?FORALL({Mode, Cuts}, {mode(), list(non_neg_integer())},
                  ?FORALL(Messages, list(message(Mode)),
                          begin
                              Wire = << <<(wire(Mode, M))/binary>> || M <- Messages >>,
                              {Popped, Left} = pushed(pieces(Wire, Cuts),
                                                      whittle_serial_packet:new(Mode, 1000)),
                              0 = whittle_serial_packet:size(Left),
                              case Mode of
                                  raw -> iolist_to_binary(Popped) =:= Wire;
                                  line -> Popped =:= [wire(line, M) || M <- Messages];
                                  _ -> Popped =:= Messages
                              end
                          end))).

%% A frame that stops gives one error, and the next frame is complete.
silence_anywhere(_) ->
    holds(?FORALL({Head, Message, Cut, Next}, {oneof([1, 2, 4]), binary(), nat(), binary()},
                  begin
                      Wire = wire(Head, Message),
                      Size = 1 + Cut rem byte_size(Wire),
                      {First, Input} = pushed([binary:part(Wire, 0, Size)],
                                              whittle_serial_packet:new(Head, 1000)),
                      {Second, Input1} = pop_all(whittle_serial_packet:silent(Input)),
                      {Third, _} = pushed([wire(Head, Next)], Input1),
                      case Size =:= byte_size(Wire) of
                          true -> {First, Second, Third} =:= {[Message], [], [Next]};
                          false ->
                              {First, Second, Third} =:= {[], [{error, etimedout}], [Next]}
                      end
                  end)).

%% In the modes for text no byte is ever lost, for any changes of the mode at any time.
changed_anywhere(_) ->
    Step = oneof([{push, binary()}, {change, oneof([raw, gap, line]), range(1, 50)}, silent, pop]),
    holds(?FORALL(Steps, list(Step),
                  begin
                      Empty = {<<>>, whittle_serial_packet:new(raw, 9)},
                      {Out, Input} = lists:foldl(fun step/2, Empty, Steps ++ [{change, raw, 9}]),
                      {Rest, _} = pop_all(Input),
                      iolist_to_binary([Out | Rest])
                          =:= << <<Bytes/binary>> || {push, Bytes} <- Steps >>
                  end)).

step({push, Bytes}, {Out, Input}) -> {Out, whittle_serial_packet:push(Bytes, Input)};
step({change, Mode, Limit}, {Out, Input}) ->
    {Out, whittle_serial_packet:change(Mode, Limit, Input)};
step(silent, {Out, Input}) -> {Out, whittle_serial_packet:silent(Input)};
step(pop, {Out, Input}) ->
    case whittle_serial_packet:pop(Input) of
        {ok, Bytes, Input1} -> {<<Out/binary, Bytes/binary>>, Input1};
        {more, Input1} -> {Out, Input1}
    end.

%% For any input, no message is longer than the limit, which also bounds the kept bytes.
garbage(_) ->
    holds(?FORALL({Mode, Limit, Pieces},
                  {oneof([gap, line, 1, 2, 4]), range(1, 300), list(binary())},
                  begin
                      {Popped, Left} = pushed(Pieces, whittle_serial_packet:new(Mode, Limit)),
                      whittle_serial_packet:size(Left) =< Limit + 4
                          andalso lists:all(fun({error, R}) -> R =:= emsgsize;
                                               (M) -> byte_size(M) =< Limit
                                            end, Popped)
                  end)).

%% Nobody pops, and noise with silences comes forever.
bounded_errors(_) ->
    Noise = fun(_, I) -> whittle_serial_packet:silent(whittle_serial_packet:push(<<9, 1>>, I)) end,
    Input = lists:foldl(Noise, whittle_serial_packet:new(1, 10), lists:seq(1, 1000)),
    ?assertEqual(0, whittle_serial_packet:size(Input)),
    {Popped, _} = pop_all(Input),
    ?assertEqual([{error, etimedout}], Popped).

takes(_) ->
    holds(?FORALL({Bytes, Count}, {binary(), pos_integer()},
                  begin
                      Input = whittle_serial_packet:push(Bytes, whittle_serial_packet:new(raw, 9)),
                      case whittle_serial_packet:take(Count, Input) of
                          {ok, Taken, Rest} ->
                              Taken =:= binary:part(Bytes, 0, Count)
                                  andalso whittle_serial_packet:size(Rest)
                                      =:= byte_size(Bytes) - Count;
                          {more, _} -> byte_size(Bytes) < Count
                      end
                  end)).
