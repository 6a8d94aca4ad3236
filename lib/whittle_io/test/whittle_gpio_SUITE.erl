%% Tests whittle_gpio with the loopback chips of whittle_gpio_loopback.c. The suite compiles that
%% file into its private directory, for the OTP that runs it and with $CFLAGS. Each case has its
%% own chip.
-module(whittle_gpio_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").
-undef(LET). % assert.hrl's and proper's
-define(LET(X, RawType, Gen), proper_types:bind(RawType, fun(X) -> Gen end, false)).

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([chips/1, lines/1, names/1, refusals/1, misuse/1, values/1, values_like_a_model/1,
         packed_like_the_kernel_reads_it/1, too_many_settings/1, bias_and_drive/1, active_low/1,
         debounce/1, edges_in_order/1, each_edge/1, clocks/1, passive/1, once/1, some/1,
         asleep/1, asleep_with_credit/1, gaps/1, late_numbers/1, reconfigured/1, set_by_many/1,
         server_killed_in_use/1, busy/1,
         released/1, owner_dies/1, server_killed/1, handed_over/1, handed_over_in_order/1,
         unplugged/1, unplugged_passive/1, watched/1, descriptors/1, slow_chip/1,
         schedulers_stay_free/1, called_by_many/1, fuzzed/1, readme/1, upgraded/1]).

-define(WAIT, 20000).

all() ->
    [chips, lines, names, refusals, misuse, values, values_like_a_model,
     packed_like_the_kernel_reads_it, too_many_settings, bias_and_drive, active_low, debounce,
     edges_in_order, each_edge, clocks, passive, once, some, asleep, asleep_with_credit, gaps,
     late_numbers, reconfigured, set_by_many, busy, released, owner_dies, server_killed,
     server_killed_in_use, handed_over, handed_over_in_order, unplugged, unplugged_passive,
     watched, descriptors, slow_chip, schedulers_stay_free, called_by_many, fuzzed, readme,
     upgraded].

init_per_testcase(Case, Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "gpio"),
    case application:get_env(whittle_io, loopback) of
        {ok, _} -> ok;
        undefined -> load(Dir)
    end,
    %% The process of the previous case has just ended. What it held goes with it.
    until(fun() -> requests() =:= [] end),
    [{chip, "/dev/loopback/" ++ atom_to_list(Case)}, {dir, Dir} | Config].

end_per_testcase(_Case, _Config) -> ok.

%% The loopback is a separate library, so that two versions of our library share its chips
%% (upgraded/1).
load(Dir) ->
    Here = here(),
    Out = filename:join(Dir, "1"),
    ok = filelib:ensure_dir(filename:join(Out, "x")),
    Include = case filelib:wildcard(filename:join(code:root_dir(), "{usr,erts-*}/include")) of
                  [] -> "";
                  Found -> [" -I" ++ I || I <- Found]
              end,
    Stub = filename:join(Dir, "libgpio_loopback.so"),
    Cc = ["cc -O1 -g -std=gnu11 -Wall -Wextra -Werror -Wno-unused-parameter -fPIC -shared ",
          "-DWHITTLE_GPIO_LOOPBACK ", os:getenv("CFLAGS", ""), " -I", Here,
          "/../c_src", Include, " "],
    ok = run([Cc, "-o ", Stub, " ", Here, "/whittle_gpio_loopback.c -lpthread"]),
    ok = run([Cc, "-o ", Out, "/whittle_gpio_nif.so ", Here, "/../c_src/whittle_gpio.c ", Stub]),
    code:purge(whittle_gpio_nif),
    code:delete(whittle_gpio_nif),
    loaded_from(Out).

loaded_from(Dir) ->
    ok = application:set_env(whittle_io, nif_dir, Dir),
    {module, _} = code:load_file(whittle_gpio_nif),
    ok = application:unset_env(whittle_io, nif_dir),
    ok = application:set_env(whittle_io, loopback, Dir).

here() -> filename:dirname(proplists:get_value(source, ?MODULE:module_info(compile))).

run(Command) ->
    case os:cmd(lists:flatten([Command, " 2>&1 && printf done"])) of
        "done" -> ok;
        Output -> error({cc, Output})
    end.

%% ---- what there is ------------------------------------------------------------

chips(Config) ->
    Chip = chip(Config),
    ?assertEqual({ok, #{path => <<"/dev/loopback/chips">>, name => <<"chips">>,
                        label => <<"loopback chips">>, lines => 70}}, whittle_gpio:info(Chip)),
    {ok, Chips} = whittle_gpio:chips(),
    ?assert(lists:member(list_to_binary(Chip), Chips)),
    %% Finds the chip by its label, and with text in Elixir's form.
    ?assertEqual(whittle_gpio:info(Chip), whittle_gpio:info("loopback chips")),
    ?assertEqual(whittle_gpio:info(Chip), whittle_gpio:info(<<"loopback chips">>)).

lines(Config) ->
    Chip = chip(Config),
    {ok, Lines} = whittle_gpio:lines(Chip),
    ?assertEqual(lists:seq(0, 69), [Offset || #{offset := Offset} <- Lines]),
    ?assertEqual({ok, lists:nth(4, Lines)}, whittle_gpio:line_info(Chip, 3)),
    ?assertEqual({ok, lists:nth(4, Lines)}, whittle_gpio:line_info(Chip, "L3")),
    ?assertMatch({ok, #{used := true, consumer := <<"kernel">>}},
                 whittle_gpio:line_info(Chip, <<"hog">>)),
    {ok, _} = whittle_gpio:request(Chip, [{2, #{direction => output, drive => open_drain,
                                                bias => pull_up, active_low => true}},
                                          {3, #{edges => falling, debounce => 7000,
                                                bias => none, clock => realtime}}],
                                   #{consumer => "Prüfung"}),
    ?assertEqual({ok, #{offset => 2, name => <<"L2">>, consumer => <<"Prüfung"/utf8>>,
                        used => true, direction => output, active_low => true, bias => pull_up,
                        drive => open_drain, edges => none, debounce => 0,
                        clock => monotonic}},
                 whittle_gpio:line_info(Chip, 2)),
    ?assertEqual({ok, #{offset => 3, name => <<"L3">>, consumer => <<"Prüfung"/utf8>>,
                        used => true, direction => input, active_low => false, bias => none,
                        drive => push_pull, edges => falling, debounce => 7000,
                        clock => realtime}},
                 whittle_gpio:line_info(Chip, 3)).

names(Config) ->
    Chip = chip(Config),
    ?assertEqual({error, enxio}, whittle_gpio:find("no such line")),
    ?assertEqual({error, enxio}, whittle_gpio:find("")),
    {ok, _} = whittle_gpio:info(Chip),
    {ok, {_, 65}} = whittle_gpio:find(<<"hog">>),
    %% A name means the first line with that name. Answers use the name of the request.
    {ok, R} = whittle_gpio:request(Chip, ["L0", <<"float">>, 5], #{bias => pull_up}),
    ?assertEqual({ok, #{"L0" => 1, <<"float">> => 1, 5 => 1}}, whittle_gpio:get(R)),
    ?assertEqual({ok, 1}, whittle_gpio:get(R, 64)),
    ?assertMatch({ok, #{consumer := <<"whittle">>}}, whittle_gpio:line_info(Chip, 0)),
    ?assertEqual({error, enxio}, whittle_gpio:request(Chip, ["L1", "no such line"])),
    ?assertMatch({ok, #{used := false}}, whittle_gpio:line_info(Chip, 1)).

refusals(Config) ->
    Chip = chip(Config),
    ?assertEqual({error, enoent}, whittle_gpio:info("/dev/loopback/none")),
    ?assertEqual({error, enoent}, whittle_gpio:info(4711)),
    ?assertEqual({error, enoent}, whittle_gpio:info("no such label")),
    ?assertEqual({error, enoent}, whittle_gpio:request(4711, [0])),
    ?assertEqual({error, eacces}, whittle_gpio:request("/dev/loopback/denied", [0])),
    ?assertEqual({error, enotty}, whittle_gpio:info("/dev/null")),
    ?assertEqual({error, enotty}, whittle_gpio:request("/dev/null", [0])),
    ?assertEqual({error, enametoolong}, whittle_gpio:info("/" ++ lists:duplicate(300, $x))),
    ?assertEqual({error, einval}, whittle_gpio:line_info(Chip, 70)),
    ?assertEqual({error, einval}, whittle_gpio:request(Chip, [70])),
    ?assertEqual({error, einval}, whittle_gpio:request(Chip, [])),
    ?assertEqual({error, einval}, whittle_gpio:request(Chip, lists:seq(0, 64))),
    ?assertEqual({error, einval},
                 whittle_gpio:request(Chip, [0], #{direction => output, edges => both})),
    ?assertEqual({error, einval}, whittle_gpio:request(Chip, [0], #{drive => open_drain})),
    ?assertEqual({error, einval},
                 whittle_gpio:request(Chip, [0], #{direction => as_is, bias => none})),
    {ok, R} = whittle_gpio:request(Chip, [0]),
    ?assertEqual({error, eperm}, whittle_gpio:set(R, 0, 1)),
    ?assertEqual({error, einval}, whittle_gpio:set(R, 1, 1)),
    ?assertEqual({error, einval}, whittle_gpio:set_bits(R, 2, 2)),
    ?assertEqual({error, einval}, whittle_gpio:get(R, "L7")),
    ?assertEqual({error, einval}, whittle_gpio:configure(R, [1], #{bias => none})),
    ?assertEqual({error, einval}, whittle_gpio:configure(R, #{drive => open_drain})).

misuse(Config) ->
    Chip = chip(Config),
    [?assertMatch({error, {bad_option, _}}, whittle_gpio:request(Chip, Lines, Options))
     || {Lines, Options} <-
            [{[0], #{direction => sideways}}, {[0], #{colour => red}}, {[0], #{value => 2}},
             {[0], #{debounce => -1}}, {[0], #{consumer => lists:duplicate(32, $x)}},
             {[0], #{backlog => 0}}, {[0], #{active => 0}}, {[{0, #{active => true}}], #{}},
             {[-1], #{}}, {[0 | 1], #{}}, {[led], #{}}, {["a\0b"], #{}}, {[[led]], #{}},
             {lines, #{}}, {[0], []}]],
    ?assertMatch({error, {bad_option, _}}, whittle_gpio:info({chip, 0})),
    {ok, R} = whittle_gpio:request(Chip, [0], #{direction => output}),
    ?assertError(badarg, whittle_gpio:set(R, 0, 2)),
    ?assertError(badarg, whittle_gpio:set(R, 0, true)),
    ?assertError(badarg, whittle_gpio:get(make_ref(), 0)),
    ?assertError(badarg, whittle_gpio:release(make_ref())),
    ?assertMatch({error, {bad_option, _}}, whittle_gpio:set_active(R, twice)),
    ?assertMatch({error, {bad_option, _}}, whittle_gpio:configure(R, #{backlog => 1})),
    ?assertMatch({error, {bad_option, _}}, whittle_gpio:configure(R, [])),
    ?assertMatch({error, {bad_option, _}}, whittle_gpio:configure(R, 0, #{})),
    [?assertMatch({error, {bad_option, _}}, Result)
     || Result <- [whittle_gpio:request({chip, 0}, [0]), whittle_gpio:watch(Chip, 0),
                   whittle_gpio:watch(-1, [0]), whittle_gpio:lines(chip), whittle_gpio:find(led),
                   whittle_gpio:line_info(1.5, 0), whittle_gpio:line_info(Chip, -1),
                   whittle_gpio:line_info(Chip, 1 bsl 40), whittle_gpio:line_info(Chip, foo),
                   whittle_gpio:info(1 bsl 3000), whittle_gpio:configure(R, [0 | x], #{}),
                   whittle_gpio:configure(R, [foo], #{})]],
    ?assertEqual("this is not a valid option, chip or line: foo",
                 whittle_gpio:format_error({error, {bad_option, foo}})),
    ?assertEqual("no such device", whittle_gpio:format_error(enodev)),
    %% None of these calls did any harm.
    ?assertEqual(ok, whittle_gpio:set(R, 0, 1)).

%% ---- values -------------------------------------------------------------------

values(Config) ->
    Chip = chip(Config),
    {ok, Out} = whittle_gpio:request(Chip, [0, {"L2", #{value => 1}}, 4],
                                     #{direction => output}),
    {ok, In} = whittle_gpio:request(Chip, [1, 3, 5]),
    ?assertEqual({ok, #{1 => 0, 3 => 1, 5 => 0}}, whittle_gpio:get(In)),
    ?assertEqual({ok, #{0 => 0, "L2" => 1, 4 => 0}}, whittle_gpio:get(Out)),
    ok = whittle_gpio:set(Out, #{0 => 1, "L2" => 0}),
    ?assertEqual({ok, 1}, whittle_gpio:get_bits(In)),
    ok = whittle_gpio:set(Out, [{4, 1}, {2, 1}, {0, 1}, {0, 0}]),
    ?assertEqual({ok, 2#110}, whittle_gpio:get_bits(In)),
    ok = whittle_gpio:set_bits(Out, 2#001, 2#011),
    ?assertEqual({ok, 2#101}, whittle_gpio:get_bits(In)),
    ?assertEqual({ok, [1, 0, 1, 1]}, whittle_gpio:get_many(In, [5, 3, 1, 5])),
    ?assertEqual({ok, []}, whittle_gpio:get_many(In, [])),
    ?assertEqual(ok, whittle_gpio:set(Out, #{})),
    ok = whittle_gpio:set(Out, 4, 0),
    ?assertEqual({ok, 0}, whittle_gpio:get(In, 5)),
    %% Sets 64 lines at once.
    Wide = "/dev/loopback/wide",
    {ok, All} = whittle_gpio:request(Wide, [{I, #{direction => case I rem 2 of
                                                                   0 -> output;
                                                                   1 -> input
                                                               end}} || I <- lists:seq(0, 63)]),
    ok = whittle_gpio:set_bits(All, 16#5055050555005555, 16#5555555555555555),
    ?assertEqual({ok, 16#F0FF0F0FFF00FFFF}, whittle_gpio:get_bits(All)).

%% Compares sets of many lines, some active low, with a map.
values_like_a_model(Config) ->
    Chip = chip(Config),
    check(?FORALL({Lows, Steps},
                  {vector(16, boolean()),
                   list(list({range(0, 7), range(0, 1)}))},
                  begin
                      Even = [2 * I || I <- lists:seq(0, 7)],
                      Low = maps:from_list(lists:zip(lists:seq(0, 15), Lows)),
                      Spec = fun(I, Options) -> {I, Options#{active_low => map_get(I, Low)}} end,
                      {ok, Out} = whittle_gpio:request(Chip, [Spec(I, #{direction => output})
                                                              || I <- Even]),
                      {ok, In} = whittle_gpio:request(Chip, [Spec(I + 1, #{}) || I <- Even]),
                      Start = maps:from_list([{I, 0} || I <- Even]),
                      try
                          lists:foldl(
                            fun(Step, Model0) ->
                                    Sets = [{2 * I, V} || {I, V} <- Step],
                                    ok = whittle_gpio:set(Out, Sets),
                                    Model = maps:merge(Model0, maps:from_list(Sets)),
                                    {ok, Model} = whittle_gpio:get(Out),
                                    Seen = maps:from_list([{I + 1, across(I, V, Low)}
                                                           || {I, V} <- maps:to_list(Model)]),
                                    {ok, Seen} = whittle_gpio:get(In),
                                    Model
                            end, Start, [[] | Steps]),
                          true
                      after
                          ok = whittle_gpio:release(Out),
                          ok = whittle_gpio:release(In)
                      end
                  end)).

across(I, Value, Low) ->
    case map_get(I, Low) =:= map_get(I + 1, Low) of
        true -> Value;
        false -> 1 - Value
    end.

%% For each line, the kernel's reading of flags and attributes gives the requested options. (The
%% first attribute that names a line counts.)
packed_like_the_kernel_reads_it(_Config) ->
    check(?FORALL(Each, ?SUCHTHAT(L, list(line_options()), length(L) =< 64),
                  case whittle_gpio_config:pack(Each) of
                      {ok, Packed = {_, Attributes}} ->
                          length(Attributes) =< 10
                              andalso [expected(O) || O <- Each]
                              =:= [read(I, Packed) || {I, _} <- indexed(Each)];
                      {error, e2big} ->
                          Values = [1 || #{direction := output} <- Each],
                          length(lists:usort([maps:with([direction, bias, active_low, edges], O)
                                              || O <- Each]))
                              + length(lists:usort([D || #{debounce := D} <- Each, D > 0]))
                              + length(lists:usort(Values)) > 11
                  end)).

line_options() ->
    ?LET(Keys, {oneof([output, input]), oneof([none, pull_up, as_is]), boolean(),
                oneof([none, rising, falling, both]), oneof([0, 1000, 5000]), range(0, 1)},
         case Keys of
             {output, Bias, Low, _, _, Value} ->
                 #{direction => output, bias => Bias, active_low => Low, value => Value};
             {input, Bias, Low, Edges, Debounce, _} ->
                 #{direction => input, bias => Bias, active_low => Low, edges => Edges,
                   debounce => Debounce}
         end).

expected(Options) ->
    {maps:with([direction, bias, active_low, edges, debounce],
               maps:merge(#{edges => none, debounce => 0}, Options)),
     maps:get(value, Options, none)}.

read(Index, {Default, Attributes}) ->
    First = fun(Id, Otherwise) ->
                    case [V || {I, V, Mask} <- Attributes,
                               I =:= Id, (Mask bsr Index) band 1 =:= 1] of
                        [V | _] -> V;
                        [] -> Otherwise
                    end
            end,
    Info = whittle_gpio_config:line_info({Index, <<>>, <<>>, First(1, Default), First(3, 0)}),
    {maps:with([direction, bias, active_low, edges, debounce], Info),
     case First(2, none) of none -> none; Values -> (Values bsr Index) band 1 end}.

indexed(List) -> lists:zip(lists:seq(0, length(List) - 1), List).

too_many_settings(Config) ->
    Chip = chip(Config),
    Lines = fun(N) -> [{I, #{debounce => 1000 * (I + 1)}} || I <- lists:seq(0, N - 1)] end,
    {ok, R} = whittle_gpio:request(Chip, Lines(10)),
    ok = whittle_gpio:release(R),
    ?assertEqual({error, e2big}, whittle_gpio:request(Chip, Lines(11))).

bias_and_drive(Config) ->
    Chip = chip(Config),
    {ok, F} = whittle_gpio:request(Chip, ["float"], #{bias => pull_up}),
    ?assertEqual({ok, 1}, whittle_gpio:get(F, "float")),
    ok = whittle_gpio:configure(F, #{bias => pull_down}),
    ?assertEqual({ok, 0}, whittle_gpio:get(F, "float")),
    ok = whittle_gpio:configure(F, #{bias => none}),
    ?assertEqual({ok, 0}, whittle_gpio:get(F, "float")),
    {ok, R} = whittle_gpio:request(Chip, [{0, #{direction => output, drive => open_drain}},
                                          {1, #{bias => pull_up}},
                                          {2, #{direction => output, drive => open_source}},
                                          {3, #{bias => pull_down}}]),
    ?assertEqual({ok, [0, 0]}, whittle_gpio:get_many(R, [1, 3])),
    ok = whittle_gpio:set(R, #{0 => 1, 2 => 1}),
    ?assertEqual({ok, [1, 1]}, whittle_gpio:get_many(R, [1, 3])),
    %% The line drives nothing, and the other line pulls. So the level is not its own value.
    ok = whittle_gpio:configure(R, [1], #{bias => pull_down}),
    ?assertEqual({ok, [0, 0]}, whittle_gpio:get_many(R, [0, 1])),
    %% That level does not become its value: when no line pulls it down, it is high again.
    ok = whittle_gpio:configure(R, [1], #{bias => pull_up}),
    ?assertEqual({ok, [1, 1]}, whittle_gpio:get_many(R, [0, 1])).

active_low(Config) ->
    {Out, In} = wire(chip(Config), #{edges => both, active_low => true}),
    ?assertEqual({ok, 1}, whittle_gpio:get(In, 1)),
    ok = whittle_gpio:set(Out, 0, 1),
    ?assertMatch(#{edge := falling}, event(In)),
    ?assertEqual({ok, 0}, whittle_gpio:get(In, 1)),
    ok = whittle_gpio:configure(Out, #{active_low => true}),
    %% The line keeps its value, so its level changes.
    ?assertMatch(#{edge := rising}, event(In)).

%% ---- edges --------------------------------------------------------------------

%% A level that does not last does not make an edge. The period is long compared with the time
%% between two calls on a busy machine.
debounce(Config) ->
    {Out, In} = wire(chip(Config), #{edges => both, debounce => 500000}),
    Toggles = [1, 0, 1, 0, 1, 0, 1],
    [ok = whittle_gpio:set(Out, 0, V) || V <- Toggles],
    ?assertEqual({ok, 0}, whittle_gpio:get(In, 1)),
    ?assertMatch(#{edge := rising, seqno := 1, line_seqno := 1}, event(In)),
    ?assertEqual({ok, 1}, whittle_gpio:get(In, 1)),
    ok = whittle_gpio:configure(In, #{debounce => 0}),
    ok = whittle_gpio:set(Out, 0, 0),
    ?assertMatch(#{edge := falling, seqno := 2}, event(In)).

edges_in_order(Config) ->
    Chip = chip(Config),
    {ok, Out} = whittle_gpio:request(Chip, [0, 2], #{direction => output}),
    {ok, In} = whittle_gpio:request(Chip, [1, "L3"], #{edges => both, event_buffer => 1024}),
    [ok = whittle_gpio:set_bits(Out, N rem 4, 3) || N <- lists:seq(1, 400)],
    Events = [event(In) || _ <- lists:seq(1, 600)],
    ?assertEqual(lists:seq(1, 600), [N || #{seqno := N} <- Events]),
    ?assertEqual(lists:seq(1, 400), [N || #{line := 1, line_seqno := N} <- Events]),
    ?assertEqual(lists:seq(1, 200), [N || #{line := "L3", line_seqno := N} <- Events]),
    ?assertEqual(lists:flatten(lists:duplicate(200, [rising, falling])),
                 [E || #{line := 1, edge := E} <- Events]),
    Times = [T || #{timestamp := T} <- Events],
    ?assertEqual(lists:sort(Times), Times),
    ?assertEqual({ok, #{delivered => 600, lost => 0, held_up => 0}}, whittle_gpio:stats(In)),
    none(In).

each_edge(Config) ->
    Chip = chip(Config),
    {ok, Out} = whittle_gpio:request(Chip, [0, 2, 4], #{direction => output}),
    {ok, In} = whittle_gpio:request(Chip, [{1, #{edges => rising}}, {3, #{edges => falling}}, 5]),
    [ok = whittle_gpio:set_bits(Out, Bits, 7) || Bits <- [7, 0, 7, 0]],
    ?assertEqual([{1, rising}, {3, falling}, {1, rising}, {3, falling}],
                 [{L, E} || #{line := L, edge := E} <- [event(In) || _ <- "1234"]]),
    none(In).

clocks(Config) ->
    Chip = chip(Config),
    {ok, Out} = whittle_gpio:request(Chip, [0, 2], #{direction => output}),
    {ok, In} = whittle_gpio:request(Chip, [{1, #{clock => realtime}}, 3], #{edges => both}),
    Wall0 = os:system_time(nanosecond),
    ok = whittle_gpio:set_bits(Out, 3, 3),
    #{line := 1, timestamp := Wall} = event(In),
    #{line := 3, timestamp := Mono} = event(In),
    Wall1 = os:system_time(nanosecond),
    ?assert(Wall0 =< Wall andalso Wall =< Wall1),
    %% The timestamp is the machine's time, not Erlang's, which starts at another point.
    ?assert(Mono < Wall0).

passive(Config) ->
    {Out, In} = wire(chip(Config), #{edges => both, active => false}),
    [ok = whittle_gpio:set(Out, 0, V) || V <- [1, 0, 1]],
    none(In),
    ok = whittle_gpio:set_active(In, true),
    ?assertEqual([1, 2, 3], [N || #{seqno := N} <- [event(In) || _ <- "123"]]),
    ok = whittle_gpio:set_active(In, false),
    ok = whittle_gpio:set(Out, 0, 0),
    none(In),
    ok = whittle_gpio:set_active(In, once),
    ?assertMatch(#{seqno := 4}, event(In)).

once(Config) ->
    {Out, In} = wire(chip(Config), #{edges => both, active => once}),
    [ok = whittle_gpio:set(Out, 0, N rem 2) || N <- lists:seq(1, 10)],
    [begin
         ?assertMatch(#{seqno := N}, event(In)),
         none(In),
         ok = whittle_gpio:set_active(In, once)
     end || N <- lists:seq(1, 10)].

some(Config) ->
    {Out, In} = wire(chip(Config), #{edges => both, active => 1, event_buffer => 1000}),
    ok = whittle_gpio:set_active(In, 2),
    [ok = whittle_gpio:set(Out, 0, N rem 2) || N <- lists:seq(1, 300)],
    [?assertMatch(#{seqno := N}, event(In)) || N <- [1, 2, 3]],
    receive {gpio_passive, In} -> ok after ?WAIT -> error(not_told) end,
    none(In),
    ok = whittle_gpio:set_active(In, 200),
    [?assertMatch(#{seqno := N}, event(In)) || N <- lists:seq(4, 203)],
    receive {gpio_passive, In} -> ok after ?WAIT -> error(not_told) end,
    none(In).

%% An owner never reads its mailbox, and more than 20,000 edges come. No more than the backlog and
%% one batch arrive. The arrived and the lost events together are all edges.
asleep(Config) ->
    {Out, In} = wire(chip(Config), #{edges => both, backlog => 100, event_buffer => 64}),
    Server = whittle_gpio_nif:server(In),
    Self = self(),
    spawn_link(fun() ->
                       %% The full mailbox has stopped the server once. A fixed number of edges
                       %% could all come before the server runs.
                       Before = until_held_up(Out, In, 0),
                       Last = Before + 20000,
                       toggle(Out, Before, Last),
                       {ok, _} = whittle_gpio:get(Out),
                       Self ! {toggled, Last}
               end),
    Edges = receive {toggled, Count} -> Count after ?WAIT -> error(slow) end,
    {message_queue_len, Waiting} = process_info(self(), message_queue_len),
    %% Each event may have a message about a loss before it.
    ?assert(Waiting =< 2 * (100 + 64)),
    {memory, Memory} = process_info(Server, memory),
    ?assert(Memory < 200000),
    {Delivered, Lost} = counted(In, Edges, 0, 0),
    ?assertEqual(Edges, Delivered + Lost),
    ?assert(Lost > 10000),
    ?assertMatch({ok, #{delivered := Delivered, lost := Lost}}, whittle_gpio:stats(In)),
    none(In).

until_held_up(Out, In, Before) ->
    case whittle_gpio:stats(In) of
        {ok, #{held_up := 0}} ->
            toggle(Out, Before, Before + 64),
            until_held_up(Out, In, Before + 64);
        {ok, _} -> Before
    end.

%% Makes the edges with the numbers after `Before', up to `Last'.
toggle(Out, Before, Last) ->
    [begin
         ok = whittle_gpio:set(Out, 0, N rem 2),
         N rem 64 =:= 0 andalso erlang:yield()
     end || N <- lists:seq(Before + 1, Last)].

%% Collects until the event with this number has come. The message about a loss comes directly
%% before the event that shows it.
counted(In, Last, Delivered, Lost) ->
    receive
        {gpio_lost, In, Count} ->
            receive
                {gpio, In, #{seqno := Seqno}} when Seqno =:= Delivered + Lost + Count + 1 ->
                    counted(In, Seqno, Last, Delivered + 1, Lost + Count)
            after ?WAIT -> error(loss_without_event)
            end;
        {gpio, In, #{seqno := Seqno}} when Seqno =:= Delivered + Lost + 1 ->
            counted(In, Seqno, Last, Delivered + 1, Lost)
    after ?WAIT -> error({stopped_at, Delivered, Lost})
    end.

counted(_, Last, Last, Delivered, Lost) -> {Delivered, Lost};
counted(In, _, Last, Delivered, Lost) -> counted(In, Last, Delivered, Lost).

%% With a count of events, only the kernel's queue keeps the events that the owner did not ask for.
asleep_with_credit(Config) ->
    {Out, In} = wire(chip(Config), #{edges => both, active => 10, event_buffer => 32}),
    ok = whittle_gpio:set(Out, 0, 1),
    ?assertMatch(#{seqno := 1}, event(In)),
    ok = whittle_gpio:set_active(In, false),
    [ok = whittle_gpio:set(Out, 0, N rem 2) || N <- lists:seq(2, 1001)],
    none(In),
    ok = whittle_gpio:set_active(In, true),
    ?assertEqual(1000 - 32, receive {gpio_lost, In, Count} -> Count after ?WAIT -> none end),
    ?assertEqual(lists:seq(970, 1001),
                 [N || #{seqno := N} <- [event(In) || _ <- lists:seq(1, 32)]]),
    none(In).

gaps(_Config) ->
    ?assertEqual({0, 2}, whittle_gpio_request:gap(1, 1)),
    ?assertEqual({5, 7}, whittle_gpio_request:gap(6, 1)),
    ?assertEqual({-1, 7}, whittle_gpio_request:gap(6, 7)),
    ?assertEqual({0, 0}, whittle_gpio_request:gap(16#FFFFFFFF, 16#FFFFFFFF)),
    ?assertEqual({3, 2}, whittle_gpio_request:gap(1, 16#FFFFFFFE)),
    ?assertEqual({-1, 1}, whittle_gpio_request:gap(16#FFFFFFFF, 1)).

%% Any part of the numbers may come, and the order may differ within a few places. The sum is the
%% number of missing events, up to the highest number that came.
late_numbers(_Config) ->
    check(?FORALL({First, Kept, Keys},
                  {range(0, 16#FFFFFFFF), list(boolean()), list(range(0, 3))},
                  begin
                      Numbers = [(First + I) band 16#FFFFFFFF || {I, true} <- indexed(Kept)],
                      Positions = [I || {I, true} <- indexed(Kept)],
                      Order = lists:sort(lists:zipwith3(fun(I, K, N) -> {I + K, N} end, Positions,
                                                        padded(Keys, length(Numbers)), Numbers)),
                      Count = fun({_, N}, {Sum, Next}) ->
                                      {Gap, Next1} = whittle_gpio_request:gap(N, Next),
                                      {Sum + Gap, Next1}
                              end,
                      {Lost, _} = lists:foldl(Count, {0, First}, Order),
                      Lost =:= lists:max([0 | [P + 1 || P <- Positions]]) - length(Positions)
                  end)).

padded(List, N) -> lists:sublist(List ++ lists:duplicate(N, 0), N).

%% ---- requests -----------------------------------------------------------------

reconfigured(Config) ->
    Chip = chip(Config),
    {ok, Out} = whittle_gpio:request(Chip, [0, 2], #{direction => output}),
    ok = whittle_gpio:set(Out, 0, 1),
    {ok, In} = whittle_gpio:request(Chip, [1, 3], #{edges => rising}),
    ok = whittle_gpio:configure(Out, #{bias => pull_up}),
    ?assertEqual({ok, #{1 => 1, 3 => 0}}, whittle_gpio:get(In)),
    none(In),
    ok = whittle_gpio:configure(Out, [2], #{value => 1}),
    ?assertMatch(#{line := 3, edge := rising}, event(In)),
    ok = whittle_gpio:configure(In, [1], #{edges => falling}),
    ok = whittle_gpio:set_bits(Out, 0, 3),
    ?assertMatch(#{line := 1, edge := falling, seqno := 2}, event(In)),
    %% The output becomes the input.
    ok = whittle_gpio:configure(Out, [0], #{direction => input, bias => as_is}),
    ok = whittle_gpio:configure(In, [1], #{direction => output, edges => none, value => 1}),
    ?assertEqual({ok, 1}, whittle_gpio:get(Out, 0)),
    ?assertEqual({error, eperm}, whittle_gpio:set(Out, 0, 0)),
    %% The line becomes an output again. Its last value as an output was 1, and it keeps its level
    %% now.
    ok = whittle_gpio:configure(Out, [0], #{direction => output}),
    ok = whittle_gpio:set(Out, 0, 1),
    ok = whittle_gpio:configure(Out, [0], #{direction => input}),
    ok = whittle_gpio:set(In, 1, 0),
    ok = whittle_gpio:configure(Out, [0], #{direction => output}),
    ok = whittle_gpio:release(In),
    ?assertEqual({ok, 0}, whittle_gpio:get(Out, 0)).

%% The last set value is the last value that the kernel got, with any number of processes and slow
%% calls.
set_by_many(Config) ->
    {ok, R} = whittle_gpio:request(chip(Config), ["slow"], #{direction => output}),
    Test = self(),
    Setters = [spawn_link(fun Set() ->
                                  receive go -> ok end,
                                  ok = whittle_gpio:set_bits(R, Value, 1),
                                  Test ! done,
                                  Set()
                          end) || Value <- [0, 1, 0, 1]],
    [begin
         [Setter ! go || Setter <- Setters],
         [receive done -> ok end || _ <- Setters],
         Before = whittle_gpio:get_bits(R),
         ok = whittle_gpio:configure(R, #{bias => Bias}),
         ?assertEqual(Before, whittle_gpio:get_bits(R))
     end || _ <- lists:seq(1, 10), Bias <- [pull_up, pull_down]].

busy(Config) ->
    Chip = chip(Config),
    {ok, R} = whittle_gpio:request(Chip, [1, 2]),
    ?assertEqual({error, ebusy}, whittle_gpio:request(Chip, [2])),
    ?assertEqual({error, ebusy}, whittle_gpio:request(Chip, [0, 1])),
    ?assertEqual({error, ebusy}, whittle_gpio:request(Chip, ["hog"])),
    ?assertEqual({error, ebusy}, whittle_gpio:request(Chip, [5, 5])),
    ?assertMatch({ok, #{used := false}}, whittle_gpio:line_info(Chip, 0)),
    ok = whittle_gpio:release(R),
    {ok, _} = whittle_gpio:request(Chip, [0, 1, 2, 5]).

released(Config) ->
    Chip = chip(Config),
    {ok, R} = whittle_gpio:request(Chip, [0], #{edges => both}),
    ok = whittle_gpio:release(R),
    [?assertEqual({error, closed}, Result)
     || Result <- [whittle_gpio:release(R), whittle_gpio:get(R), whittle_gpio:get(R, 0),
                   whittle_gpio:get_many(R, [0]), whittle_gpio:get_bits(R),
                   whittle_gpio:set(R, 0, 1), whittle_gpio:set_bits(R, 1, 1),
                   whittle_gpio:configure(R, #{}), whittle_gpio:set_active(R, once),
                   whittle_gpio:controlling_process(R, self()), whittle_gpio:stats(R)]],
    none(R),
    %% Any process may release.
    {ok, R2} = whittle_gpio:request(Chip, [0]),
    Self = self(),
    spawn_link(fun() -> Self ! {done, whittle_gpio:release(R2)} end),
    ?assertEqual(ok, receive {done, Result} -> Result after ?WAIT -> late end).

owner_dies(Config) ->
    Chip = chip(Config),
    Before = descriptors(),
    Self = self(),
    {Owner, Monitor} =
        spawn_monitor(fun() ->
                              {ok, R} = whittle_gpio:request(Chip, [0], #{edges => both}),
                              Self ! {made, R},
                              receive die -> ok end
                      end),
    R = receive {made, Made} -> Made after ?WAIT -> error(late) end,
    ?assertEqual({error, ebusy}, whittle_gpio:request(Chip, [0])),
    Server = whittle_gpio_nif:server(R),
    ServerMonitor = erlang:monitor(process, Server),
    Owner ! die,
    receive {'DOWN', Monitor, _, _, _} -> ok end,
    receive {'DOWN', ServerMonitor, _, _, Reason} -> ?assertEqual(normal, Reason) end,
    ?assertEqual({error, closed}, whittle_gpio:get(R)),
    ?assertEqual(Before, descriptors()),
    {ok, _} = whittle_gpio:request(Chip, [0]).

server_killed(Config) ->
    Chip = chip(Config),
    {_, In} = wire(Chip, #{edges => both}),
    exit(whittle_gpio_nif:server(In), kill),
    until(fun() -> whittle_gpio:get(In) =:= {error, closed} end),
    until(fun() -> case whittle_gpio:request(Chip, [1]) of
                       {ok, _} -> true;
                       {error, ebusy} -> false
                   end
          end).

%% Other processes are inside the kernel with the descriptor.
server_killed_in_use(Config) ->
    Before = descriptors(),
    [begin
         {ok, R} = whittle_gpio:request(chip(Config), ["slow"], #{direction => output}),
         Callers = [spawn_monitor(fun() -> use("slow", R, K) end) || K <- lists:seq(1, 4)],
         {ok, _} = whittle_gpio:get(R, "slow"),
         exit(whittle_gpio_nif:server(R), kill),
         [receive {'DOWN', M, process, P, Reason} -> ?assertEqual(normal, Reason)
          after ?WAIT -> error(stuck)
          end || {P, M} <- Callers],
         until(fun() -> descriptors() =:= Before end)
     end || _ <- lists:seq(1, 30)].

use(Line, R, K) ->
    case case K rem 2 of 0 -> whittle_gpio:get(R, Line); 1 -> whittle_gpio:set(R, Line, 1) end of
        {error, closed} -> ok;
        {error, Other} -> error(Other);
        _ -> use(Line, R, K)
    end.

handed_over(Config) ->
    {Out, In} = wire(chip(Config), #{edges => both}),
    Self = self(),
    Other = spawn_link(fun() -> relay(Self) end),
    ?assertEqual({error, not_owner}, asked(Other, fun() ->
                                                          whittle_gpio:controlling_process(In, Self)
                                                  end)),
    ok = whittle_gpio:controlling_process(In, Other),
    ok = whittle_gpio:set(Out, 0, 1),
    ?assertMatch(#{seqno := 1}, receive {relayed, {gpio, In, E}} -> E after ?WAIT -> late end),
    ?assertEqual({error, not_owner}, whittle_gpio:controlling_process(In, Self)),
    ?assertEqual(ok, asked(Other, fun() -> whittle_gpio:controlling_process(In, Self) end)),
    unlink(Other),
    exit(Other, kill),
    ok = whittle_gpio:set(Out, 0, 0),
    ?assertMatch(#{seqno := 2}, event(In)),
    %% The new owner is dead, so the request is released.
    Monitor = erlang:monitor(process, whittle_gpio_nif:server(In)),
    ok = whittle_gpio:controlling_process(In, Other),
    receive {'DOWN', Monitor, _, _, normal} -> ok end,
    ?assertEqual({error, closed}, whittle_gpio:get(In)).

asked(Pid, Fun) ->
    Pid ! {call, self(), Fun},
    receive {answer, Answer} -> Answer after ?WAIT -> late end.

relay(To) ->
    receive
        {call, From, Fun} -> From ! {answer, Fun()};
        Message -> To ! {relayed, Message}
    end,
    relay(To).

%% No event is lost, doubled or out of order while the request changes its owner under load.
handed_over_in_order(Config) ->
    {Out, In} = wire(chip(Config), #{edges => both, event_buffer => 1024, backlog => 5000}),
    Self = self(),
    Others = [spawn_link(fun() -> keeper(In, []) end) || _ <- "123"],
    spawn_link(fun() -> [ok = whittle_gpio:set(Out, 0, N rem 2) || N <- lists:seq(1, 900)],
                        Self ! toggled
               end),
    ok = whittle_gpio:controlling_process(In, hd(Others)),
    [A, B, C] = Others,
    [ok = asked(From, fun() -> whittle_gpio:controlling_process(In, To) end)
     || {From, To} <- lists:append(lists:duplicate(20, [{A, B}, {B, C}, {C, A}]))],
    receive toggled -> ok after ?WAIT -> error(late) end,
    A ! {until, 900, self()},
    Numbers = receive {numbers, Ns} -> Ns after ?WAIT -> late end,
    ?assertEqual(lists:seq(1, 900), Numbers).

%% Takes no event out of its mailbox before somebody asks for them.
keeper(In, Numbers) ->
    receive
        {call, From, Fun} ->
            From ! {answer, Fun()},
            keeper(In, Numbers);
        {until, Last, From} ->
            From ! {numbers, [receive {gpio, In, #{seqno := S}} -> S end
                              || _ <- lists:seq(1, Last)]}
    end.

unplugged(Config) ->
    Chip = chip(Config),
    {_, In} = wire(Chip, #{edges => both}),
    {ok, Other} = whittle_gpio:request(Chip, [4]),
    {ok, Plug} = whittle_gpio:request(Chip, ["unplug"], #{direction => output, active => false}),
    Before = descriptors(),
    ok = whittle_gpio:set(Plug, "unplug", 1),
    [begin
         ?assertEqual(enodev, receive {gpio_error, R, Reason} -> Reason after ?WAIT -> late end),
         ?assertEqual(closed, receive {gpio_closed, R} -> closed after ?WAIT -> late end),
         ?assertEqual({error, closed}, whittle_gpio:get(R))
     end || R <- [In, Other]],
    ?assertEqual({error, enodev}, whittle_gpio:get(Plug)),
    ?assert(descriptors() < Before).

%% A passive owner gets events again as soon as it asks for them, in the mode that it chooses.
unplugged_passive(Config) ->
    Chip = chip(Config),
    {_, In} = wire(Chip, #{edges => both, active => false}),
    {ok, Plug} = whittle_gpio:request(Chip, ["unplug"], #{direction => output}),
    ok = whittle_gpio:set(Plug, "unplug", 1),
    none(In),
    ?assertEqual({error, enodev}, whittle_gpio:get(In)),
    ?assertEqual({error, enodev}, whittle_gpio:configure(In, #{edges => none})),
    ok = whittle_gpio:set_active(In, once),
    ?assertEqual(enodev, receive {gpio_error, In, Reason} -> Reason after ?WAIT -> late end).

watched(Config) ->
    Chip = chip(Config),
    {ok, W, [#{offset := 0, used := false}, #{offset := 2}]} =
        whittle_gpio:watch(Chip, ["L0", 2]),
    {ok, R} = whittle_gpio:request(Chip, [0, 1], #{direction => output, consumer => "led"}),
    ?assertMatch(#{line := "L0", change := requested,
                   info := #{consumer := <<"led">>, direction := output}}, change(W)),
    ok = whittle_gpio:configure(R, #{active_low => true}),
    ?assertMatch(#{line := "L0", change := configured, info := #{active_low := true}}, change(W)),
    ok = whittle_gpio:release(R),
    ?assertMatch(#{line := "L0", change := released, info := #{used := false}}, change(W)),
    %% A watch has no values and no settings.
    ?assertError(badarg, whittle_gpio:get(W)),
    ?assertEqual({error, einval}, whittle_gpio:configure(W, #{})),
    ?assertEqual({error, einval}, whittle_gpio:watch(Chip, [70])),
    ok = whittle_gpio:release(W),
    {ok, R2} = whittle_gpio:request(Chip, [0]),
    ok = whittle_gpio:release(R2),
    receive {gpio_changed, W, Late} -> error(Late) after 0 -> ok end.

change(W) -> receive {gpio_changed, W, Change} -> Change after ?WAIT -> late end.

%% ---- the machine --------------------------------------------------------------

%% After thousands of requests there are as many descriptors and processes as before, for every way
%% in which a request can end.
descriptors(Config) ->
    Chip = chip(Config),
    {ok, _} = whittle_gpio:info(Chip),
    Before = descriptors(),
    [begin
         {ok, R} = whittle_gpio:request(Chip, [0, 1, N rem 60 + 2], #{edges => both}),
         {error, ebusy} = whittle_gpio:request(Chip, [0]),
         {error, einval} = whittle_gpio:request(Chip, [63, 70]),
         {error, einval} = whittle_gpio:watch(Chip, [0, 70]),
         {ok, W, _} = whittle_gpio:watch(Chip, [0]),
         ok = whittle_gpio:release(R),
         ok = whittle_gpio:release(W)
     end || N <- lists:seq(1, 3000)],
    [begin
         {Owner, Monitor} = spawn_monitor(fun() -> {ok, _} = whittle_gpio:request(Chip, [N]) end),
         receive {'DOWN', Monitor, process, Owner, normal} -> ok end
     end || N <- lists:seq(0, 63)],
    until(fun() -> requests() =:= [] end),
    ?assertEqual(Before, descriptors()).

%% Returns the processes of requests.
requests() ->
    [P || P <- processes(),
          proc_lib:translate_initial_call(P) =:= {whittle_gpio_request, init, 1}].

%% The first long call is the last one on a normal scheduler: with one scheduler, another process
%% runs while this one is in the chip's call.
slow_chip(Config) ->
    {ok, R} = whittle_gpio:request(chip(Config), ["slow"]),
    {ok, _} = whittle_gpio:get(R),
    Online = erlang:system_flag(schedulers_online, 1),
    try
        Self = self(),
        Rounds = 20,
        Witness = spawn_link(fun() -> Self ! {ran, witness(Rounds, 0)} end),
        [begin
             Witness ! started,
             {ok, _} = whittle_gpio:get(R),
             Witness ! done
         end || _ <- lists:seq(1, Rounds)],
        Ran = receive {ran, N} -> N after ?WAIT -> late end,
        ?assert(Ran >= Rounds div 2)
    after
        erlang:system_flag(schedulers_online, Online)
    end.

%% Counts how often the process ran between `started' and `done'.
witness(0, Ran) ->
    Ran;
witness(Rounds, Ran) ->
    receive started -> ok end,
    {message_queue_len, Length} = process_info(self(), message_queue_len),
    receive done -> ok end,
    witness(Rounds - 1, case Length of 0 -> Ran + 1; _ -> Ran end).

%% With floods of edges and with owners that read or do not read, no call holds a scheduler. The
%% bound is much longer than delays on a loaded machine, and much shorter than a call that waits.
schedulers_stay_free(Config) ->
    {Out, In} = wire(chip(Config), #{edges => both}),
    Before = erlang:system_monitor(self(), [{long_schedule, 1000}]),
    try
        Sleeper = spawn_link(fun() -> receive stop -> ok end end),
        {Out2, In2} = wire("/dev/loopback/stay_free_2", #{edges => both}),
        ok = whittle_gpio:controlling_process(In2, Sleeper),
        [begin
             ok = whittle_gpio:set(Out, 0, N rem 2),
             ok = whittle_gpio:set(Out2, 0, N rem 2)
         end || N <- lists:seq(1, 50000)],
        _ = counted(In, 50000, 0, 0),
        unlink(Sleeper),
        exit(Sleeper, kill),
        receive {monitor, Pid, long_schedule, Info} -> error({Pid, Info}) after 0 -> ok end
    after
        erlang:system_monitor(Before)
    end.

%% Many processes call while another one releases the request.
called_by_many(Config) ->
    Chip = chip(Config),
    [begin
         {ok, R} = whittle_gpio:request(Chip, [{0, #{edges => both}}, {1, #{direction => output}}]),
         Callers = [spawn_monitor(fun() -> hammer(R, K) end) || K <- lists:seq(1, 8)],
         ok = whittle_gpio:release(R),
         %% The lines are free as soon as release returns.
         {ok, R2} = whittle_gpio:request(Chip, [0, 1]),
         [receive {'DOWN', M, process, P, Reason} -> ?assertEqual(normal, Reason)
          after ?WAIT -> error(stuck)
          end || {P, M} <- Callers],
         ok = whittle_gpio:release(R2)
     end || _ <- lists:seq(1, 200)].

hammer(R, K) ->
    Result = case K rem 4 of
                 0 -> whittle_gpio:set(R, 1, (K div 4) rem 2);
                 1 -> whittle_gpio:configure(R, [0], #{edges => rising});
                 _ -> whittle_gpio:get(R)
             end,
    case Result of
        {error, closed} -> ok;
        {error, Other} -> error(Other);
        _ -> hammer(R, K)
    end.

%% Each function answers or raises badarg, for any arguments.
fuzzed(Config) ->
    Chip = list_to_binary(chip(Config)),
    {ok, R} = whittle_gpio:request(Chip, [0, 1], #{edges => both}),
    {ok, W, _} = whittle_gpio:watch(Chip, [3]),
    Word = oneof([R, W, Chip, <<"x">>, <<>>, map, bits, all, {one, any()}, {list, list(any())},
                  {one, 0}, {list, [0, 1]}, [], make_ref(), integer(), -1, 1 bsl 63, 1 bsl 64,
                  1 bsl 32, list(integer()), list({range(0, 3), range(0, 2)}), {3, 3},
                  [{1, 1 bsl 63, 3}], list({range(0, 4), integer(), integer()}),
                  [0 | 1], lists:seq(0, 99), any()]),
    Functions = [{chip, 1}, {lines, 3}, {request, 7}, {watch, 3}, {configure, 3}, {server, 1},
                 {get, 2}, {set, 2}, {arm, 2}, {read, 2}, {written, 1}, {close, 1}],
    Closed = fun(H) ->
                     ok = whittle_gpio_nif:stop(H),
                     receive {whittle_gpio_stopped, H} -> ok =:= whittle_gpio_nif:close(H) end
             end,
    check(?FORALL({{Name, Arity}, Words}, {oneof(Functions), vector(7, Word)},
                  begin
                      try apply(whittle_gpio_nif, Name, lists:sublist(Words, Arity)) of
                          {ok, H} when Name =:= request -> Closed(H);
                          {ok, H, _} -> Closed(H);
                          _ -> true
                      catch
                          error:badarg -> true
                      end
                  end), 20000),
    ?assertMatch({ok, _}, whittle_gpio:get(R)).

%% Runs the README's example.
readme(Config) ->
    {ok, Text} = file:read_file(filename:join(here(), "../README.md")),
    [_, Gpio] = binary:split(Text, <<"## GPIO\n">>),
    {match, [Block]} = re:run(Gpio, "```erlang\n(.*?)```", [dotall, {capture, [1], list}]),
    Shown = string:replace(Block, "gpiochip0", chip(Config), all),
    {ok, Tokens, _} = erl_scan:string(lists:flatten(Shown)),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    {value, ok, _} = erl_eval:exprs(Expressions, []).

%% New code, with its own library, takes over the open requests, and the VM unloads the old
%% library.
upgraded(Config) ->
    {Out, In} = wire(chip(Config), #{edges => both}),
    ok = whittle_gpio:set(Out, 0, 1),
    ?assertMatch(#{seqno := 1}, event(In)),
    {ok, Old} = application:get_env(whittle_io, loopback),
    New = filename:join(proplists:get_value(dir, Config), "2"),
    ok = filelib:ensure_dir(filename:join(New, "x")),
    {ok, _} = file:copy(filename:join(Old, "whittle_gpio_nif.so"),
                        filename:join(New, "whittle_gpio_nif.so")),
    Before = mapped("/gpio/1/"),
    ok = loaded_from(New),
    ?assert(mapped("/gpio/2/")),
    true = code:soft_purge(whittle_gpio_nif),
    ?assertEqual({true, false}, {Before, mapped("/gpio/1/")}),
    ok = whittle_gpio:set(Out, 0, 0),
    ?assertMatch(#{seqno := 2, edge := falling}, event(In)),
    ?assertEqual({ok, 0}, whittle_gpio:get(In, 1)),
    Before2 = descriptors(),
    exit(whittle_gpio_nif:server(In), kill),
    until(fun() -> descriptors() < Before2 end),
    ok = whittle_gpio:release(Out).

mapped(Part) ->
    {ok, Maps} = file:read_file("/proc/self/maps"),
    binary:match(Maps, list_to_binary(Part ++ "whittle_gpio_nif.so")) =/= nomatch.

%% ---- ways ---------------------------------------------------------------------

chip(Config) -> proplists:get_value(chip, Config).

%% Returns lines 0 and 1 of a chip: an output, and an input with these options.
wire(Chip, Options) ->
    {ok, Out} = whittle_gpio:request(Chip, [0], #{direction => output}),
    {ok, In} = whittle_gpio:request(Chip, [1], Options),
    {Out, In}.

event(R) -> receive {gpio, R, Event} -> Event after ?WAIT -> late end.

%% Checks that no event has come, after the request's process has finished its work.
none(R) ->
    _ = whittle_gpio:stats(R),
    receive Message when element(2, Message) =:= R -> error(Message) after 0 -> ok end.

descriptors() ->
    {ok, Fds} = file:list_dir("/proc/self/fd"),
    length(Fds).

until(Fun) -> until(Fun, erlang:monotonic_time(millisecond) + ?WAIT).

until(Fun, End) ->
    case Fun() of
        true -> ok;
        false ->
            erlang:monotonic_time(millisecond) < End orelse error(never),
            erlang:yield(),
            until(Fun, End)
    end.

check(Property) -> check(Property, 300).

check(Property, Times) ->
    Quiet = fun(_, _) -> ok end,
    case proper:quickcheck(Property, [{numtests, Times}, {on_output, Quiet}, noshrink]) of
        true -> ok;
        Other -> error({property, Other, proper:counterexample()})
    end.
