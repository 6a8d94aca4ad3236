%% Tests the answers to the lines of a console. host/whittle_tune tests them with the asker, on a
%% pseudo-terminal.
-module(whittle_console_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([account/1, again/1, many_lines/1, done/1, other_lines/1, hostile/1, not_started/1]).
-export([wrong_setting/1]).

all() -> [account, again, many_lines, done, other_lines, hostile, not_started, wrong_setting].

%% The application without its reader, which would take the input of the test.
init_per_testcase(Case, Config) when Case =:= not_started; Case =:= wrong_setting -> Config;
init_per_testcase(_, Config) ->
    case application:load(whittle_console) of
        ok -> ok;
        {error, {already_loaded, _}} -> ok
    end,
    ok = application:set_env(whittle_console, read, false),
    ok = application:start(whittle_console),
    ?assertMatch([{answers, _, worker, _}], supervisor:which_children(whittle_console_sup)),
    Config.

end_per_testcase(Case, _) when Case =:= not_started; Case =:= wrong_setting -> ok;
end_per_testcase(_, _) -> ok = application:stop(whittle_console).

%% The lines have numbers and checksums, and their data is the account.
account(_) ->
    {ok, Lines} = whittle_console:answer("whittle-console? a1 account\n"),
    Count = integer_to_binary(length(Lines)),
    Data = [begin
                [<<"whittle-console!">>, <<"a1">> = Id, Text, Of, Crc, Base64] =
                    binary:split(iolist_to_binary(Line), [<<" ">>, <<"\n">>], [global, trim_all]),
                ?assertEqual({integer_to_binary(Number), Count}, {Text, Of}),
                ?assertEqual(erlang:crc32([Id, " ", Text, " ", Of, " ", Base64]),
                             binary_to_integer(Crc, 16)),
                base64:decode(Base64)
            end || {Number, Line} <- lists:zip(lists:seq(1, length(Lines)), Lines)],
    {whittle_console, 1, Word, _, Smaps, [_ | _], [Version, Info, Procs]} =
        binary_to_term(iolist_to_binary(Data), [safe]),
    ?assertEqual(erlang:system_info(wordsize), Word),
    [?assertMatch({_, _}, binary:match(Text, Part))
     || {Text, Part} <- [{Smaps, <<"Rss:">>}, {Version, <<"Erlang/OTP">>}, {Info, <<"=memory">>},
                         {Procs, <<"=proc:">>}]].

%% The lines of an answer stay the same, until another request.
again(_) ->
    {ok, Lines} = whittle_console:answer(<<"whittle-console? a1 account">>),
    ?assertEqual({ok, Lines}, whittle_console:answer(<<"whittle-console? a1 account">>)),
    ?assertEqual({ok, [lists:nth(Number, Lines) || Number <- [2, 1, 3]]},
                 whittle_console:answer("whittle-console? a1 again 2,1,3,999999")),
    ?assertEqual({ok, []}, whittle_console:answer("whittle-console? b2 again 1")),
    {ok, [_ | _]} = whittle_console:answer("whittle-console? b2 account"),
    ?assertEqual({ok, []}, whittle_console:answer("whittle-console? a1 again 1")).

%% One request gets a bounded number of lines, whatever it names.
many_lines(_) ->
    Request = fun(Ranges) ->
                      whittle_console_line:request(["whittle-console? a1 again ", Ranges])
              end,
    ?assertEqual({ok, {again, <<"a1">>, lists:seq(2, 4097)}}, Request("2-1000000")),
    ?assertEqual({ok, {again, <<"a1">>, [7 | lists:seq(1, 4095)]}}, Request("7,1-9000,5,3-9")),
    [?assertEqual({Ranges, no}, {Ranges, Request(Ranges)})
     || Ranges <- ["0", "3-2", "1-1000001", "1-2-3", "1,", "-", "x", "1 2"]].

done(_) ->
    {ok, [_ | _]} = whittle_console:answer("whittle-console? a1 account"),
    ?assertEqual({ok, []}, whittle_console:answer("whittle-console? b2 done")),
    {ok, [_]} = whittle_console:answer("whittle-console? a1 again 1"),
    ?assertEqual({ok, []}, whittle_console:answer("whittle-console? a1 done")),
    ?assertEqual({ok, []}, whittle_console:answer("whittle-console? a1 again 1")).

other_lines(_) ->
    [?assertEqual({Line, no}, {Line, whittle_console:answer(Line)})
     || Line <- ["", "\n", "lamp on\n", "whittle-console?", [16#20ac], <<255>>,
                 "whittle-console! a1 1 1 0 AAAA"]].

%% Any line is a request or none, and no request names more lines than one answer has.
hostile(_) ->
    Words = ["whittle-console? ", " ", "a1 ", "account", "again ", "done", "1", "-", ",",
             "99999999", "\n", [16#20ac]],
    ?assert(proper:quickcheck(
              ?FORALL(Pieces, list(oneof([oneof(Words), binary(2)])),
                      lists:all(fun(Line) -> is_answer(whittle_console_line:request(Line)) end,
                                [Pieces, ["whittle-console? ", Pieces],
                                 ["whittle-console? a1 again ", Pieces]])),
              [{numtests, 2000}, {to_file, user}])).

is_answer(no) -> true;
is_answer({ok, {again, Id, Numbers}}) -> is_binary(Id) andalso length(Numbers) =< 4096;
is_answer({ok, {Kind, Id}}) -> is_binary(Id) andalso lists:member(Kind, [account, done]).

%% Without the application, a request is a line as any other.
not_started(_) ->
    ?assertEqual(no, whittle_console:answer("whittle-console? a1 account")).

%% A value that only looks like `true' must not silently mean `false'.
wrong_setting(_) ->
    _ = application:load(whittle_console),
    [begin
         ok = application:set_env(whittle_console, read, Read),
         ?assertMatch({error, {{read_is_not_boolean, Read}, _}},
                      application:start(whittle_console))
     end || Read <- ["yes", 1, [], [true]]],
    ok = application:unload(whittle_console).
