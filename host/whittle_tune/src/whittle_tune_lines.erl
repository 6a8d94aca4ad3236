%% @doc Collects an answer from the lines of a console.
%%
%% The console also shows the echo of the request and other output of the program, and loses bytes.
%% Only a line whose checksum is right counts. The application whittle_console writes the lines; the
%% head of its module whittle_console_line describes them. All functions are pure.
%% @hidden
-module(whittle_tune_lines).

-export([new/1, request/2, feed/2, state/1, last/1, decode/1]).

-export_type([lines/0, answer/0]).

-opaque lines() ::
        #{id := binary(),                       % of the request
          rest := binary(),                     % the line that has not ended
          all := none | pos_integer(),           % the number of lines of the answer
          parts := #{pos_integer() => binary()},
          end_seen := boolean(),                % the last line has come since the last request
          last := binary()}.                    % the last line of anything else

%% The account as the program's VM and its kernel describe it.
-type answer() :: #{word := 4 | 8, program := binary(), smaps := binary(),
                    threads := [binary()], texts := [binary()]}.

%% A longer line is no line of an answer.
-define(MOST_LINE, 1024).
%% An answer of more lines, or of more bytes when it is inflated, is none.
-define(MOST_LINES, 200_000).
-define(MOST_BYTES, 32_000_000).
%% The numbers of lines in a request for what is missing. A terminal takes 4095 bytes.
-define(MOST_RANGES, 100).

%% @doc Returns an empty collection for a request with a name of letters and digits.
-spec new(binary()) -> lines().
new(Id) -> #{id => Id, rest => <<>>, all => none, parts => #{}, end_seen => false, last => <<>>}.

%% @doc Returns the next request, and the collection that waits for its answer. The line end before
%% it ends a line that noise may have begun.
-spec request(account | done, lines()) -> {iodata(), lines()}.
request(done, Lines) -> {line(<<"done">>, Lines), Lines};
request(account, #{all := Of, parts := Parts} = Lines) ->
    Waiting = Lines#{end_seen := false},
    case Of =/= none andalso map_size(Parts) > 0 of
        true ->
            Missing = [Number || Number <- lists:seq(1, Of), not is_map_key(Number, Parts)],
            Ranges = lists:sublist(ranges(Missing), ?MOST_RANGES),
            {line(["again ", lists:join($,, Ranges)], Lines), Waiting};
        false -> {line(<<"account">>, Lines), Waiting}
    end.

line(Words, #{id := Id}) -> ["\nwhittle-console? ", Id, $\s, Words, $\n].

ranges([]) -> [];
ranges([From | Numbers]) -> ranges(From, From, Numbers).

ranges(From, To, [Next | Numbers]) when Next =:= To + 1 -> ranges(From, Next, Numbers);
ranges(From, From, Numbers) -> [integer_to_binary(From) | ranges(Numbers)];
ranges(From, To, Numbers) ->
    [[integer_to_binary(From), $-, integer_to_binary(To)] | ranges(Numbers)].

%% @doc Adds bytes of the console.
-spec feed(binary(), lines()) -> lines().
feed(Bytes, #{rest := Rest} = Lines) ->
    [First | More] = binary:split(Bytes, <<"\n">>, [global]),
    whole([<<Rest/binary, First/binary>> | More], Lines).

whole([Rest], Lines) ->
    %% The beginning of a line that is too long says nothing.
    Lines#{rest := binary:part(Rest, byte_size(Rest), -min(byte_size(Rest), ?MOST_LINE))};
whole([Line | More], Lines) -> whole(More, one(Line, Lines)).

%% A line of the program may stand before the mark, if its end was lost.
one(Line, #{id := Id, all := Of, parts := Parts} = Lines) ->
    case binary:split(Line, [<<"whittle-console! ">>], [global]) of
        [_] -> other(Line, Lines);
        Split ->
            case part(lists:last(Split)) of
                {Id, Number, All, Data} when Of =:= none orelse Of =:= All ->
                    Lines#{all := All, parts := Parts#{Number => Data}, end_seen := Number =:= All
                                                          orelse map_get(end_seen, Lines)};
                _ -> Lines
            end
    end.

part(Text) ->
    case binary:split(Text, [<<" ">>, <<"\r">>], [global, trim_all]) of
        [Id, Number, Of, Crc, Data] ->
            try
                {N, All} = {binary_to_integer(Number), binary_to_integer(Of)},
                Sum = binary_to_integer(Crc, 16),
                Sum = erlang:crc32([Id, $\s, Number, $\s, Of, $\s, Data]),
                true = N >= 1 andalso N =< All andalso All =< ?MOST_LINES,
                {Id, N, All, base64:decode(Data)}
            catch error:_ -> damaged
            end;
        _ -> damaged
    end.

%% The echo of the request says nothing about the program.
other(Line, Lines) ->
    case {whittle_trim:blanks(Line), binary:match(Line, <<"whittle-console?">>)} of
        {<<>>, _} -> Lines;
        {Text, nomatch} -> Lines#{last := Text};
        _ -> Lines
    end.

%% @doc Tells how much of the answer is there: `none' if no line of it has come, `partial' if lines
%% are missing and more may come, `missing' if they are missing although the last line has come.
-spec state(lines()) -> {none, 0, 0} | {partial | missing | complete, pos_integer(), pos_integer()}.
state(#{all := none}) -> {none, 0, 0};
state(#{all := Of, parts := Parts}) when map_size(Parts) =:= Of -> {complete, Of, Of};
state(#{all := Of, parts := Parts, end_seen := true}) -> {missing, map_size(Parts), Of};
state(#{all := Of, parts := Parts}) -> {partial, map_size(Parts), Of}.

%% @doc Returns the last line that the console showed beside the answer, also one without an end:
%% the prompt of a shell is such a line.
-spec last(lines()) -> binary().
last(#{rest := Rest, last := Last}) ->
    case {whittle_trim:blanks(Rest), binary:match(Rest, <<"whittle-console">>)} of
        {<<>>, _} -> Last;
        {Text, nomatch} -> Text;
        _ -> Last
    end.

%% @doc Reads a complete answer. The error is `bad_answer' if it is none of this version.
-spec decode(lines()) -> {ok, answer()} | {error, bad_answer}.
decode(#{all := Of, parts := Parts}) ->
    term(iolist_to_binary([maps:get(Number, Parts) || Number <- lists:seq(1, Of)])).

%% 131 and 80 begin a compressed term (Erlang's external term format); then comes its size.
term(<<131, 80, Size:32, _/binary>> = Bytes) when Size =< ?MOST_BYTES ->
    try answer(binary_to_term(Bytes, [safe]))
    catch error:_ -> {error, bad_answer}
    end;
term(_) -> {error, bad_answer}.

answer({whittle_console, 1, Word, Program, Smaps, Threads, [_, _, _] = Texts})
  when Word =:= 4 orelse Word =:= 8, is_binary(Smaps) ->
    Path = unicode:characters_to_binary(Program),
    case lists:all(fun is_binary/1, [Path | Threads ++ Texts]) of
        true -> {ok, #{word => Word, program => Path, smaps => Smaps, threads => Threads,
                       texts => Texts}};
        false -> {error, bad_answer}
    end;
answer(_) -> {error, bad_answer}.
