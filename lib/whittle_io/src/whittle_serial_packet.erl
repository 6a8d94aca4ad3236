%% @hidden Keeps the input bytes until their delivery, and finds the ends of messages. The module
%% is pure.
-module(whittle_serial_packet).

-export([new/2, push/2, pop/1, take/2, silent/1, change/3, size/1, is_partial/1]).
-export_type([input/0, mode/0]).

%% `gap' is raw with silence between messages.
-type mode() :: raw | gap | line | 1 | 2 | 4.

-record(input, {mode :: mode(), limit :: pos_integer(),
                %% Messages that silence has ended, and errors, oldest first.
                ended = queue:new() :: queue:queue(binary() | {error, atom()}),
                ended_size = 0 :: non_neg_integer(),
                %% The later bytes, and the number of them without an end of a line.
                bytes = <<>> :: binary(), scanned = 0 :: non_neg_integer()}).
-opaque input() :: #input{}.

%% @doc Makes an empty input. A message has Limit bytes at most.
-spec new(mode(), pos_integer()) -> input().
new(Mode, Limit) -> #input{mode = Mode, limit = Limit}.

%% @doc Adds the arrived bytes.
-spec push(binary(), input()) -> input().
push(More, #input{bytes = <<>>} = Input) -> cut(Input#input{bytes = More});
push(More, #input{bytes = Bytes} = Input) ->
    cut(Input#input{bytes = <<Bytes/binary, More/binary>>}).

%% Without silence, the length ends a message.
cut(#input{mode = gap, bytes = Bytes, limit = Limit} = Input) when byte_size(Bytes) >= Limit ->
    <<Message:Limit/binary, Rest/binary>> = Bytes,
    cut(ended(Message, Input#input{bytes = Rest}));
cut(Input) -> Input.

%% @doc Takes the next message out. In mode raw it is all input. An error means that the line has
%% dropped bytes.
-spec pop(input()) -> {ok, binary(), input()} | {error, atom(), input()} | {more, input()}.
pop(#input{ended = Ended, ended_size = Size} = Input) ->
    case queue:out(Ended) of
        {{value, {error, Reason}}, Ended1} -> {error, Reason, Input#input{ended = Ended1}};
        {{value, Message}, Ended1} ->
            {ok, Message, Input#input{ended = Ended1, ended_size = Size - cost(Message)}};
        {empty, _} -> next(Input)
    end.

next(#input{bytes = <<>>} = Input) -> {more, Input};
next(#input{mode = raw, bytes = Bytes} = Input) -> {ok, Bytes, Input#input{bytes = <<>>}};
next(#input{mode = gap} = Input) -> {more, Input};
next(#input{mode = line, bytes = Bytes, scanned = Scanned, limit = Limit} = Input) ->
    Size = byte_size(Bytes),
    case binary:match(Bytes, <<"\n">>, [{scope, {Scanned, Size - Scanned}}]) of
        {At, 1} when At < Limit -> split(0, At + 1, Input);
        nomatch when Size < Limit -> {more, Input#input{scanned = Size}};
        _ -> split(0, Limit, Input)
    end;
next(#input{mode = Head, bytes = Bytes, limit = Limit} = Input) ->
    case Bytes of
        <<Size:Head/unit:8, _/binary>> when Size > Limit ->
            %% The start of the next frame is unknown, and is not within these bytes.
            {error, emsgsize, Input#input{bytes = <<>>}};
        <<Size:Head/unit:8, Rest/binary>> when byte_size(Rest) >= Size ->
            split(Head, Size, Input);
        _ -> {more, Input}
    end.

split(Head, Size, #input{bytes = Bytes} = Input) ->
    <<_:Head/binary, Message:Size/binary, Rest/binary>> = Bytes,
    {ok, own(Message, Rest), Input#input{bytes = Rest, scanned = 0}}.

%% A small message must not keep all bytes of its read in memory.
own(Message, Rest) when byte_size(Message) =< 64, byte_size(Rest) > 0 -> binary:copy(Message);
own(Message, _) -> Message.

%% @doc Takes Count bytes out in mode raw, once they are present.
-spec take(pos_integer(), input()) -> {ok, binary(), input()} | {more, input()}.
take(Count, #input{mode = raw, ended_size = 0, bytes = Bytes} = Input) ->
    case Bytes of
        <<Taken:Count/binary, Rest/binary>> -> {ok, own(Taken, Rest), Input#input{bytes = Rest}};
        _ -> {more, Input}
    end;
take(_, Input) -> pop(Input).

%% @doc Ends a message after silence. The function drops the bytes if a length says that the
%% message has more of them.
-spec silent(input()) -> input().
silent(#input{mode = raw} = Input) -> Input;
silent(#input{mode = Mode, bytes = Bytes} = Input) ->
    case next(Input) of
        {ok, Message, Input1} -> silent(ended(Message, Input1));
        {error, Reason, Input1} -> silent(failed(Reason, Input1));
        {more, _} when Bytes =:= <<>> -> Input;
        {more, _} when is_atom(Mode) -> ended(Bytes, Input#input{bytes = <<>>, scanned = 0});
        {more, _} -> failed(etimedout, Input#input{bytes = <<>>})
    end.

ended(Message, #input{ended = Ended, ended_size = Size} = Input) ->
    Input#input{ended = queue:in(Message, Ended), ended_size = Size + cost(Message)}.

%% An empty message takes memory too.
cost(Message) -> max(1, byte_size(Message)).

%% Keeps one error for many in a row, because noise that nobody reads must not fill the memory.
failed(Reason, #input{ended = Ended} = Input) ->
    case queue:peek_r(Ended) of
        {value, {error, _}} -> Input;
        _ -> Input#input{ended = queue:in({error, Reason}, Ended)}
    end.

%% @doc Changes mode and limit, also for the bytes of an unfinished message.
-spec change(mode(), pos_integer(), input()) -> input().
change(raw, Limit, #input{ended = Ended, bytes = Bytes}) ->
    Messages = [Message || Message <- queue:to_list(Ended), is_binary(Message)],
    #input{mode = raw, limit = Limit, bytes = iolist_to_binary([Messages, Bytes])};
change(Mode, Limit, Input) -> cut(Input#input{mode = Mode, limit = Limit, scanned = 0}).

%% @doc Counts the bytes in the input.
-spec size(input()) -> non_neg_integer().
size(#input{ended_size = Size, bytes = Bytes}) -> Size + byte_size(Bytes).

%% @doc Tells whether silence would end a message.
-spec is_partial(input()) -> boolean().
is_partial(#input{bytes = Bytes}) -> Bytes =/= <<>>.
