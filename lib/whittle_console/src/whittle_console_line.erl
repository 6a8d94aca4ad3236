%% @doc Reads requests and writes answers as lines.
%%
%% `whittle-console? ID account', `whittle-console? ID again 3,7-9' and `whittle-console? ID done'
%% are requests. ID is any word of letters and digits, which the asker invents. A request for lines
%% that names many of them gets the first ones; the asker then asks for the others. Each line of an
%% answer is `whittle-console! ID N OF CRC DATA': the number of the line, the number of all lines,
%% the CRC-32 of the text `ID N OF DATA' in hexadecimal digits, and data in base64. All functions
%% are pure.
%% @hidden
-module(whittle_console_line).

-export([request/1, answer/2]).

-export_type([request/0]).

-type request() :: {account | done, binary()} | {again, binary(), [pos_integer()]}.

%% A line of a terminal in its usual mode has at most 4095 bytes.
-define(MOST_LINE, 4095).
-define(MOST_ID, 32).
%% More lines would be longer than any answer.
-define(MOST_NUMBER, 1_000_000).
%% The lines that one request gets at most. At 115,200 bits per second, they take a minute.
-define(MOST_AGAIN, 4096).
%% A multiple of 3, so that only the last line is padded. The line then has about 170 characters:
%% a log line in its middle costs few bytes.
-define(CHUNK, 90).

%% @doc Reads a line. Characters before the request may be noise of the line.
-spec request(unicode:chardata()) -> {ok, request()} | no.
request(Line) ->
    %% A request has no character above 255. The module unicode would keep large tables in a shaken
    %% program.
    Text = try iolist_to_binary(Line)
           catch error:badarg -> <<>>
           end,
    case byte_size(Text) =< ?MOST_LINE
        andalso binary:split(Text, <<"whittle-console? ">>) of
        [_, Words] -> words(binary:split(Words, [<<" ">>, <<"\r">>, <<"\n">>], [global, trim_all]));
        _ -> no
    end.

words([Id | Words]) ->
    case byte_size(Id) =< ?MOST_ID andalso is_word(Id) andalso Words of
        [<<"account">>] -> {ok, {account, Id}};
        [<<"done">>] -> {ok, {done, Id}};
        [<<"again">>, Ranges] ->
            try [range(Range) || Range <- binary:split(Ranges, <<",">>, [global])] of
                Read -> {ok, {again, Id, numbers(Read, ?MOST_AGAIN)}}
            catch throw:bad_range -> no
            end;
        _ -> no
    end;
words([]) -> no.

is_word(Text) ->
    lists:all(fun(Char) ->
                      (Char >= $0 andalso Char =< $9) orelse (Char >= $a andalso Char =< $z)
                          orelse (Char >= $A andalso Char =< $Z)
              end, binary_to_list(Text)).

numbers([], _) -> [];
numbers([{From, To} | Ranges], Left) ->
    Numbers = lists:seq(From, min(To, From + Left - 1)),
    Numbers ++ numbers(Ranges, Left - length(Numbers)).

range(Text) ->
    case [number(Part) || Part <- binary:split(Text, <<"-">>)] of
        [One] -> {One, One};
        [From, To] when From =< To -> {From, To};
        _ -> throw(bad_range)
    end.

number(Text) ->
    try binary_to_integer(Text) of
        Number when Number > 0, Number =< ?MOST_NUMBER -> Number;
        _ -> throw(bad_range)
    catch error:badarg -> throw(bad_range)
    end.

%% @doc Writes bytes as the lines of an answer. There is at least one.
-spec answer(binary(), binary()) -> [iodata(), ...].
answer(Id, Bytes) ->
    Chunks = chunks(Bytes),
    Of = integer_to_binary(length(Chunks)),
    [line(Id, integer_to_binary(Number), Of, base64:encode(Chunk))
     || {Number, Chunk} <- lists:zip(lists:seq(1, length(Chunks)), Chunks)].

chunks(<<Chunk:?CHUNK/binary, Rest/binary>>) when Rest =/= <<>> -> [Chunk | chunks(Rest)];
chunks(Last) -> [Last].

line(Id, Number, Of, Data) ->
    Crc = erlang:crc32([Id, $\s, Number, $\s, Of, $\s, Data]),
    iolist_to_binary(["whittle-console! ", Id, $\s, Number, $\s, Of, $\s,
                      integer_to_binary(Crc, 16), $\s, Data, $\n]).
