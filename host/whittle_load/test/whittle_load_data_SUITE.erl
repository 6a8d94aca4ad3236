%% Tests the reading of data and traces.
-module(whittle_load_data_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").

-export([all/0]).
-export([tables/1, wrong_tables/1, written_and_read/1, noise/1, traces/1, wrong_traces/1]).

all() -> [tables, wrong_tables, written_and_read, noise, traces, wrong_traces].

tables(_) ->
    [?assertEqual({Text, {ok, Expected}}, {Text, whittle_load_data:rows(Text)})
     || {Text, Expected} <-
            [{<<"user,password\nann,x\nbob,y\n">>,
              {["user", "password"], [{<<"ann">>, <<"x">>}, {<<"bob">>, <<"y">>}]}},
             {<<"a\r\n1\r\n2">>, {["a"], [{<<"1">>}, {<<"2">>}]}},
             {<<"a,b\n\"x, \"\"y\"\"\n\",\n">>,
              {["a", "b"], [{<<"x, \"y\"\n">>, <<>>}]}},
             {<<"a,,\n1,2,3\n">>, {["a", "", ""], [{<<"1">>, <<"2">>, <<"3">>}]}}]].

%% A field with newlines counts its lines.
wrong_tables(_) ->
    [?assertEqual({Text, {error, Message}}, {Text, whittle_load_data:rows(Text)})
     || {Text, Message} <-
            [{<<>>, "the file is empty: its first line has the names of the columns"},
             {<<"a,b\n">>, "the file has no line behind the names of the columns"},
             {<<"a,b\n1,2\n1\n">>, "line 3 does not have the 2 fields of the first line"},
             {<<"a\n\"x\ny\"\n1,2\n">>,
              "line 4 does not have the 1 fields of the first line"},
             {<<"user,room,user\n1,2,3\n">>,
              "line 1 has two columns with the name `user': rename one"},
             {<<"\"a\n\",\"a\n\"\n1,2\n">>,
              "line 1 has two columns with the name `a\\x{A}': rename one"},
             {<<"a,", 255, "\n1,2\n">>, "line 1 is not UTF-8: store the file in UTF-8"},
             {<<"na\xefve,b\n1,2\n">>, "line 1 is not UTF-8: store the file in UTF-8"},
             {<<"a\n\"x\n">>, "line 2 has a quote that does not end, or text behind one"},
             {<<"a\n\"x\"y\n">>, "line 2 has a quote that does not end, or text behind one"}]].

written_and_read(_) ->
    ?assert(proper:quickcheck(
              ?FORALL({Width, Seed}, {integer(1, 4), non_empty(list(list(binary())))},
                      begin
                          Filled = [Row ++ lists:duplicate(Width, <<>>) || Row <- Seed],
                          Rows = [list_to_tuple(lists:sublist(Row, Width)) || Row <- Filled],
                          Names = [[$a + N] || N <- lists:seq(1, Width)],
                          Text = iolist_to_binary(
                                   [[lists:join(",", [quoted(Field) || Field <- Fields]), "\n"]
                                    || Fields <- [Names | [tuple_to_list(Row) || Row <- Rows]]]),
                          {ok, {Names, Rows}} =:= whittle_load_data:rows(Text)
                      end), [{numtests, 300}, {to_file, user}])).

quoted(Field) -> [$", binary:replace(iolist_to_binary(Field), <<$">>, <<$", $">>, [global]), $"].

noise(_) ->
    ?assert(proper:quickcheck(
              ?FORALL(Pieces, list(oneof([<<"\"">>, <<",">>, <<"\n">>, <<"\r">>, <<"x">>,
                                          binary()])),
                      begin
                          Text = iolist_to_binary(Pieces),
                          is_answer(whittle_load_data:rows(Text))
                              andalso is_answer(whittle_load_data:starts(Text))
                      end), [{numtests, 1000}, {to_file, user}])).

is_answer({ok, _}) -> true;
is_answer({error, [_ | _]}) -> true;
is_answer(_) -> false.

traces(_) ->
    ?assertEqual({ok, [0, 500_000_000, 500_000_000, 2_000_000_000]},
                 whittle_load_data:starts(<<"0\n0.5\r\n0.5\n2\n">>)).

wrong_traces(_) ->
    [?assertEqual({Text, {error, Message}}, {Text, whittle_load_data:starts(Text)})
     || {Text, Message} <-
            [{<<>>, "the file is empty: write one start in seconds on each line"},
             {<<"1\n0.5\n">>, "line 2 is before the one above it"},
             {<<"1\nx\n">>, "line 2 is not a number of seconds"},
             {<<"-1\n">>, "line 1 is not a number of seconds"}]].
