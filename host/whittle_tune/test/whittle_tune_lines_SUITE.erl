%% Tests the lines of a serial console with the code that writes them.
-module(whittle_tune_lines_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([lossy/1, long_gap/1, hostile/1, missing_only/1, foreign/1, requests/1]).

all() -> [lossy, long_gap, hostile, missing_only, foreign, requests].

%% A line that loses, changes and adds bytes, and log lines between the others, in pieces of any
%% size: the answer is complete after some requests, and then equals that of the program.
lossy(_) ->
    true = made:holds(
             50, {proper_types:binary(), proper_types:integer(1, 1 bsl 32)},
             fun({Bytes, Seed}) ->
                     _ = rand:seed(exsss, Seed),
                     Sent = whittle_console_line:answer(<<"i1">>, payload(Bytes)),
                     Lines = asked(Sent, whittle_tune_lines:new(<<"i1">>), 100),
                     {ok, #{word := 8, smaps := Got}} = whittle_tune_lines:decode(Lines),
                     Got =:= Bytes
             end).

%% Random digits, so that the answer has some lines after its compression.
payload(Bytes) ->
    term_to_binary({whittle_console, 1, 8, "/program", Bytes, [],
                    [binary:encode_hex(rand:bytes(2000)), <<"b">>, <<"c">>]}, [compressed]).

asked(Sent, Lines0, Left) when Left > 0 ->
    {Request, Lines1} = whittle_tune_lines:request(account, Lines0),
    Text = iolist_to_binary(Request),
    {ok, Parsed} = whittle_console_line:request(Text),
    Answer = case Parsed of
                 {account, <<"i1">>} -> Sent;
                 {again, <<"i1">>, Numbers} -> [lists:nth(Number, Sent) || Number <- Numbers]
             end,
    Echo = [Text, "a log line: 17 whittle-console\r\n"],
    Bytes = worn(iolist_to_binary([Echo | Answer])),
    Lines = lists:foldl(fun whittle_tune_lines:feed/2, Lines1, pieces(Bytes)),
    case whittle_tune_lines:state(Lines) of
        {complete, Of, Of} -> Lines;
        _ -> asked(Sent, Lines, Left - 1)
    end.

%% If nearly all of a large answer is lost, the program sends it in several parts.
long_gap(_) ->
    Sent = whittle_console_line:answer(<<"i1">>, payload(rand:bytes(500_000))),
    ?assert(length(Sent) > 5000),
    {_, New} = whittle_tune_lines:request(account, whittle_tune_lines:new(<<"i1">>)),
    Ends = whittle_tune_lines:feed(iolist_to_binary([hd(Sent), lists:last(Sent)]), New),
    ?assertEqual(2, again(list_to_tuple(Sent), Ends, 0)).

%% Counts the requests until the answer is complete.
again(Sent, Lines0, Requests) ->
    case whittle_tune_lines:state(Lines0) of
        {complete, Of, Of} -> Requests;
        _ when Requests < 5 ->
            {Request, Lines} = whittle_tune_lines:request(account, Lines0),
            {ok, {again, <<"i1">>, Numbers}} =
                whittle_console_line:request(iolist_to_binary(Request)),
            Answer = iolist_to_binary([element(Number, Sent) || Number <- Numbers]),
            again(Sent, whittle_tune_lines:feed(Answer, Lines), Requests + 1)
    end.

%% One of 300 bytes is lost, changed or doubled.
worn(Bytes) ->
    << <<(case rand:uniform(900) of
              1 -> <<>>;
              2 -> <<(rand:uniform(256) - 1)>>;
              3 -> <<Byte, Byte>>;
              _ -> <<Byte>>
          end)/binary>> || <<Byte>> <= Bytes >>.

pieces(<<>>) -> [];
pieces(Bytes) ->
    Size = min(byte_size(Bytes), rand:uniform(400)),
    <<Piece:Size/binary, Rest/binary>> = Bytes,
    [Piece | pieces(Rest)].

%% Any bytes leave the collection empty, also those that look like lines of an answer.
hostile(_) ->
    Words = [<<"whittle-console! ">>, <<"i1 ">>, <<"1 ">>, <<"2 ">>, <<"-1 ">>, <<"999999999 ">>,
             <<"FF ">>, <<"\n">>, <<"\r\n">>, <<" ">>, <<"AAAA">>, <<"=">>, <<0>>, <<255, 254>>],
    Part = proper_types:oneof([proper_types:binary() | Words]),
    true = made:holds(
             500, proper_types:list(Part),
             fun(Parts) ->
                     Lines = whittle_tune_lines:feed(iolist_to_binary(Parts),
                                                     whittle_tune_lines:new(<<"i1">>)),
                     is_binary(whittle_tune_lines:last(Lines))
                         andalso whittle_tune_lines:state(Lines) =:= {none, 0, 0}
             end),
    true = made:holds(
             500, proper_types:list(Part),
             fun(Parts) ->
                     case whittle_console_line:request(iolist_to_binary(Parts)) of
                         no -> true;
                         {ok, Request} -> is_tuple(Request)
                     end
             end).

%% The second request names only the lines that are missing.
missing_only(_) ->
    Sent = whittle_console_line:answer(<<"i1">>, rand:bytes(20 * 90)),
    ?assertEqual(20, length(Sent)),
    Came = [Line || {Number, Line} <- lists:enumerate(Sent),
                    not lists:member(Number, [2, 7, 8, 9, 20])],
    {_, Lines0} = whittle_tune_lines:request(account, whittle_tune_lines:new(<<"i1">>)),
    Lines = whittle_tune_lines:feed(iolist_to_binary(Came), Lines0),
    ?assertEqual({partial, 15, 20}, whittle_tune_lines:state(Lines)),
    {Request, Again} = whittle_tune_lines:request(account, Lines),
    ?assertEqual(<<"\nwhittle-console? i1 again 2,7-9,20\n">>, iolist_to_binary(Request)),
    ?assertEqual({ok, {again, <<"i1">>, [2, 7, 8, 9, 20]}},
                 whittle_console_line:request(iolist_to_binary(Request))),
    Last = whittle_tune_lines:feed(lists:last(Sent), Again),
    ?assertEqual({missing, 16, 20}, whittle_tune_lines:state(Last)).

%% Answers to another request, and log lines, say nothing; the last log line is kept.
foreign(_) ->
    Others = whittle_console_line:answer(<<"i2">>, <<"bytes">>),
    Lines = whittle_tune_lines:feed(iolist_to_binary(["\nwhittle-console? i1 account\r\n", Others,
                                                      "temperature 21\r\n\r\n", "iex> "]),
                                    whittle_tune_lines:new(<<"i1">>)),
    ?assertEqual({none, 0, 0}, whittle_tune_lines:state(Lines)),
    ?assertEqual(<<"iex>">>, whittle_tune_lines:last(Lines)),
    %% White space inside a line begins again at each of its characters.
    Long = iolist_to_binary(["x", lists:duplicate(1_000_000, $\s), "y"]),
    Wide = whittle_tune_lines:feed(<<" ", Long/binary, " \r\n">>, Lines#{rest := <<>>}),
    ?assertEqual(Long, whittle_tune_lines:last(Wide)).

requests(_) ->
    [?assertEqual({Line, no}, {Line, whittle_console_line:request(Line)})
     || Line <- ["", "press", "whittle-console?", "whittle-console? ", "whittle-console? a",
                 "whittle-console? a b", "whittle-console? a account more",
                 "whittle-console? a; account", "whittle-console? a again", [16#d800],
                 "whittle-console? a again 0", "whittle-console? a again 3-1",
                 "whittle-console? a again 1,,2", "whittle-console? a again 1-1000001",
                 "whittle-console? a again -", "whittle-console? a again 1000001",
                 <<255, "whittle-console? a accoun">>,
                 ["whittle-console? ", lists:duplicate(33, $a), " account"],
                 lists:duplicate(5000, $x) ++ "whittle-console? a account"]],
    [?assertEqual({Line, {ok, Request}}, {Line, whittle_console_line:request(Line)})
     || {Line, Request} <- [{"whittle-console? aZ9 account\n", {account, <<"aZ9">>}},
                            {"noise whittle-console? a done\r\n", {done, <<"a">>}},
                            {"whittle-console? a again 3,7-9\n", {again, <<"a">>, [3, 7, 8, 9]}}]],
    %% A board would not survive all numbers of such a line.
    {ok, {again, _, Numbers}} = whittle_console_line:request(
                                  ["whittle-console? a again 1-4095",
                                   lists:duplicate(400, ",1-4095")]),
    ?assertEqual(4096, length(Numbers)).
