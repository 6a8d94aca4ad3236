%% Tests evidence: its file, the build that it belongs to, and the functions that a plan would
%% cut.
-module(whittle_shake_evidence_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([turns_a_feature_on/1]).
-export([all/0]).
-export([comes_back/1, damaged/1, other_files/1, packets_that_are_whole/1, no_packets/1, merged/1]).
-export([of_this_code/1, as_it_is_packed/1, other_code/1, compiled_anew/1, kept_whole/1,
         nothing_of_it/1, other_program/1]).
-export([vm_beside/1, vm_of_another_otp/1, own_in_another_version/1, ran_on_another_otp/1,
         who_asked/1, nothing_of_its_own/1]).
-export([what_is_live/1, nobody_calls_it/1, first_of_a_chain/1, a_circle/1, in_c/1,
         module_info_of_what_is_gone/1]).
-export([answered/1, behind_an_answer/1, called_beside_an_answer/1, answer_that_ends/1,
         without_an_answer/1, done_without/1, called_from_elsewhere/1]).

all() -> [F || {F, 1} <- ?MODULE:module_info(exports), F =/= module_info].

%% The file

comes_back(_) ->
    made:holds(200, vms(),
               fun(Vms) ->
                       Evidence = whittle_shake_evidence:merge(Vms),
                       {ok, Evidence} =:= whittle_shake_evidence:from_binary(
                                            whittle_shake_evidence:to_binary(Evidence))
               end).

damaged(_) ->
    made:holds(1000, {proper_types:non_empty(vms()), damage()},
               fun({Vms, Damage}) ->
                       Bytes = whittle_shake_evidence:to_binary(whittle_shake_evidence:merge(Vms)),
                       Damaged = damage(Damage, Bytes),
                       Damaged =:= Bytes
                           orelse error =:= element(1, whittle_shake_evidence:from_binary(Damaged))
               end).

vms() -> proper_types:list(proper_types:resize(6, proper_types:list(calls()))).

calls() ->
    {proper_types:atom(), proper_types:binary(16),
     proper_types:list({name(), proper_types:range(0, 255)})}.

%% Uses few atoms, because atoms made at random stay in the VM.
name() -> proper_types:oneof([f, '', 'F g', 'x\'y', '\n', '\x{e9}\x{3b1}', '-main/1-lc$^0/1-0-']).

damage() ->
    {proper_types:oneof([cut, flip, insert]), proper_types:non_neg_integer(),
     proper_types:range(1, 255)}.

damage({cut, At, _}, Bytes) -> binary:part(Bytes, 0, At rem byte_size(Bytes));
damage({flip, At, Bits}, Bytes) ->
    Place = At rem byte_size(Bytes),
    <<Before:Place/binary, Byte, After/binary>> = Bytes,
    <<Before/binary, (Byte bxor Bits), After/binary>>;
damage({insert, At, Byte}, Bytes) ->
    Place = At rem byte_size(Bytes),
    <<Before:Place/binary, After/binary>> = Bytes,
    <<Before/binary, Byte, After/binary>>.

other_files(_) ->
    [?assertEqual({Bytes, {error, Error}}, {Bytes, whittle_shake_evidence:from_binary(Bytes)})
     || {Bytes, Error} <- [{<<>>, no_evidence}, {<<"lists:map/2\n">>, no_evidence},
                           {<<"whittle evidence 2\n">>, damaged},
                           {<<"whittle evidence 2">>, damaged},
                           {<<"whittle evidence 1\nx">>, {version, <<"1">>}}]],
    %% The sum is right, but the content is not evidence.
    [?assertEqual({Terms, {error, damaged}}, {Terms, whittle_shake_evidence:from_binary(
                                                       with_sum(Terms))})
     || Terms <- [<<"lists.\n">>, <<"{1">>, <<"{1,[]}.\n">>, <<"{1,lists}.\n">>,
                  <<"{0,", (vm("[]"))/binary, "}.\n">>, <<"{a,", (vm("[]"))/binary, "}.\n">>,
                  <<"{1,[lists]}.\n">>, <<"{1,[{lists,<<\"00\">>,[]}]}.\n">>,
                  <<"{1,[{lists,no,[]}]}.\n">>,
                  <<"{1,", (vm("[{1,2}]"))/binary, "}.\n">>,
                  <<"{1,", (vm("[a|b]"))/binary, "}.\n">>]],
    ?assertMatch({ok, _}, whittle_shake_evidence:from_binary(
                            with_sum(<<"{1,", (vm("[{map,2}]"))/binary, "}.\n">>))).

vm(Functions) ->
    iolist_to_binary(["[{lists,<<\"", binary:copy(<<"0">>, 32), "\">>,", Functions, "}]"]).

with_sum(Terms) ->
    <<"whittle evidence 2\n", (binary:encode_hex(crypto:hash(sha256, Terms)))/binary, $\n,
      Terms/binary>>.

%% The node was killed while it wrote.
packets_that_are_whole(_) ->
    One = [{lists, <<1:128>>, [{map, 2}]}],
    Bytes = <<(packet(One))/binary, (packet([{sets, <<2:128>>, [{new, 0}]}]))/binary>>,
    [?assertEqual({One, cut_short}, whittle_shake_evidence:packets(binary:part(Bytes, 0, Size)))
     || Size <- lists:seq(byte_size(packet(One)), byte_size(Bytes) - 1)],
    ?assertMatch({[_, {sets, _, _}], cut_short}, whittle_shake_evidence:packets(Bytes)),
    %% The recorder reads until the node has ended.
    Last = packet(last),
    ?assertMatch({[_, {sets, _, _}], whole},
                 whittle_shake_evidence:packets(<<Bytes/binary, Last/binary>>)),
    ?assertMatch({[{lists, _, _}, _, {sets, _, _}], whole},
                 whittle_shake_evidence:packets(<<(packet(One))/binary, Last/binary,
                                                  Bytes/binary>>)).

no_packets(_) ->
    [?assertEqual({[], cut_short}, whittle_shake_evidence:packets(Bytes))
     || Bytes <- [<<>>, <<1, 2>>, <<4:32, "none">>, packet(no_list), packet([a | b]),
                  packet([{lists, <<>>, []}]), bomb()]].

%% The reader refuses a packet of a few kilobytes that inflates to a gigabyte. After a full flush,
%% the same zeros deflate to the same bytes. The checksum at the end is wrong, but nothing may read
%% so far.
bomb() ->
    Zeros = binary:copy(<<0>>, 1024 * 1024),
    Z = zlib:open(),
    ok = zlib:deflateInit(Z),
    Size = 1024 * byte_size(Zeros),
    Deflated = [zlib:deflate(Z, <<109, Size:32>>, full)
                | lists:duplicate(1024, iolist_to_binary(zlib:deflate(Z, Zeros, full)))],
    Bytes = iolist_to_binary([<<131, 80, (Size + 5):32>>, Deflated, zlib:deflate(Z, <<>>, finish)]),
    ok = zlib:close(Z),
    <<(byte_size(Bytes)):32, Bytes/binary>>.

packet(Term) ->
    Bytes = term_to_binary(Term),
    <<(byte_size(Bytes)):32, Bytes/binary>>.

%% The evidence comes from several nodes, some with another version of a module.
merged(_) ->
    Vm = [{m, <<1:128>>, [{f, 1}, {g, 0}]}, {m, <<2:128>>, [{f, 1}]}],
    Next = [{m, <<2:128>>, [{i, 0}]}, {m, <<1:128>>, [{f, 1}]}, {m, <<1:128>>, [{h, 0}]}],
    Other = [{m, <<1:128>>, [{f, 1}]}],
    Evidence = whittle_shake_evidence:merge([Vm, Next, [], Other]),
    ?assertEqual({5, 2}, whittle_shake_evidence:size(Evidence)),
    ?assertEqual(Evidence, whittle_shake_evidence:join(
                             [whittle_shake_evidence:merge(Vms) || Vms <- [[Vm], [Other, Next]]])),
    ?assertEqual([m], whittle_shake_evidence:modules(Evidence)),
    ?assertEqual([{m, <<1:128>>, [{f, 1}, {g, 0}, {h, 0}]}, {m, <<2:128>>, [{f, 1}, {i, 0}]}],
                 whittle_shake_evidence:calls(Evidence)).

%% The build: functions in the program are called, and functions of OTP are called with `otp'

of_this_code(_) ->
    ?assertEqual({ok, seen([{lists, map, 2}])},
                 of_system([[calls_of(lists, [{map, 2}]), {no_part_of_it, <<1:128>>, [{f, 0}]}]],
                           [lists, sets])).

%% The literals are not compressed. The module itself says which module it was.
as_it_is_packed(_) ->
    {ok, Beam} = whittle_beam:read(code(unicode_util)),
    Packed = whittle_beam:strip(#{keep => all, literals => {plain, 25}}, Beam),
    {ok, Plain} = whittle_beam:read(Packed),
    Md5 = whittle_beam:identity(whittle_beam:chunks(Plain)),
    ?assertEqual(unicode_util:module_info(md5), Md5),
    ?assertEqual({ok, seen([{unicode_util, gc, 1}])},
                 of_system([[{unicode_util, Md5, [{gc, 1}]}]], [unicode_util])).

%% One built version is enough, because a node may have loaded others since.
other_code(_) ->
    Other = {sets, <<1:128>>, [{new, 0}]},
    {error, Error} = of_system([[calls_of(lists, [{map, 2}])], [Other]], [lists, sets]),
    ?assertEqual({other_code, sets}, Error),
    ?assertEqual("the recording is of another version of the program: its module sets is "
                 "different; record again with `whittle trace', with the program and the OTP of "
                 "this build", words(Error)),
    [?assertEqual({ok, seen([{lists, map, 2}, {sets, size, 1}])},
                  of_system([[calls_of(lists, [{map, 2}]), calls_of(sets, [{size, 1}]), Other]],
                            Own, Otp)) || {Own, Otp} <- [{[lists, sets], []}, {[lists], [sets]}]].

%% A VM that ran the program has another version of one of its modules.
compiled_anew(_) ->
    Vm = [calls_of(lists, [{map, 2}]), {sets, <<1:128>>, [{new, 0}]}],
    ?assertEqual({ok, (seen([{lists, map, 2}]))#{anew := [sets]}},
                 of_system([Vm], [lists, sets])),
    ?assertEqual({ok, (seen([{lists, map, 2}]))#{anew := [sets], counted := 2}},
                 of_system([Vm, [calls_of(lists, [{map, 2}])]], [lists, sets])).

nothing_of_it(_) ->
    ?assertEqual({error, nothing_of_it}, of_system([[calls_of(lists, [{map, 2}])]], [sets])),
    ?assertEqual({error, nothing_of_it}, of_system([], [sets])),
    ?assertEqual("the recording has no function of the program: record it with `whittle trace' "
                 "from a build without --shake, and end the run with init:stop/0 or SIGTERM, not "
                 "with halt/1", words(nothing_of_it)).

%% The modules name the other program. An error of another kind stays the same.
other_program(_) ->
    Relay = [relay, relay_client, relay_nodes, relay_sup],
    System = put_app(s, input, [sets], put_app(stdlib, otp, [lists], system())),
    Of = fun(Error, Own) -> whittle_shake_evidence:other_program(Error, Own, System) end,
    [?assertEqual({other_program, {"s", Relay}}, Of(Error, Relay))
     || Error <- [nothing_of_it, {other_code, lists}]],
    [?assertEqual(Error, Of(Error, Own))
     || {Error, Own} <- [{nothing_of_it, []}, {{other_code, sets}, [sets | Relay]},
                         {damaged, Relay}]],
    ?assertEqual("the recording is of another program (modules relay, relay_client, relay_nodes "
                 "and 1 more), and this build is of s: name the recording of s with --evidence, "
                 "or build the program of relay",
                 words({other_program, {"s", [relay, relay_client, relay_nodes, relay_sup]}})),
    ?assertEqual("the recording is of another program (module relay), and this build is of s: "
                 "name the recording of s with --evidence, or build the program of relay",
                 words({other_program, {"s", [relay]}})).

%% The VM belongs to the same OTP or to another. Its other calls do not belong to the program.
vm_beside(_) ->
    Program = [calls_of(lists, [{map, 2}]), calls_of(sets, [{new, 0}])],
    [?assertEqual({ok, (seen([{lists, map, 2}, {sets, new, 0}]))#{passed := 2}},
                  of_system([Program, Beside, Beside], [lists], [sets, gb_sets]))
     || Beside <- [[calls_of(sets, [{size, 1}])], [{sets, <<1:128>>, [{size, 1}]}],
                   [{gb_sets, <<1:128>>, [{size, 1}]}]]].

%% The VM has a module of the program, because tests may use one of them.
vm_of_another_otp(_) ->
    Program = [calls_of(lists, [{map, 2}])],
    Tests = [calls_of(lists, [{nth, 2}]), {gb_sets, <<1:128>>, [{size, 1}]}],
    ?assertEqual({ok, (seen([{lists, map, 2}]))#{passed := 1}},
                 of_system([Tests, Program], [lists], [sets, gb_sets])).

own_in_another_version(_) ->
    Program = [calls_of(lists, [{map, 2}])],
    ?assertEqual({error, {other_code, sets}},
                 of_system([Program, [{sets, <<1:128>>, [{new, 0}]}]], [lists, sets])).

ran_on_another_otp(_) ->
    Old = {gb_sets, <<1:128>>, [{size, 1}]},
    ?assertEqual({error, {other_code, gb_sets}},
                 of_system([[calls_of(lists, [{map, 2}]), Old], [calls_of(sets, [{new, 0}])]],
                           [lists], [sets, gb_sets])),
    ?assertEqual({error, {other_code, gb_sets}}, of_system([[Old]], [lists], [gb_sets])).

%% The short node of `--whittle-ping' counts like the program, but does not replace it.
who_asked(_) ->
    Asks = [calls_of(ordsets, [{new, 0}])],
    System = put_app(whittle_control, device, [ordsets],
                     put_app(s, input, [lists], put_app(stdlib, otp, [sets], system()))),
    Of = fun(Vms) ->
                 whittle_shake_evidence:of_system(whittle_shake_evidence:merge(Vms), System)
         end,
    ?assertEqual({ok, (seen([{lists, map, 2}, {ordsets, new, 0}]))#{counted := 2}},
                 Of([Asks, [calls_of(lists, [{map, 2}])]])),
    ?assertEqual({error, nothing_of_it}, Of([Asks])).

%% The program has only modules of OTP. So all VMs that ran on that OTP count.
nothing_of_its_own(_) ->
    Vm = [calls_of(sets, [{new, 0}])],
    ?assertEqual({ok, (seen([{sets, new, 0}]))#{passed := 1}},
                 of_system([Vm, [{gb_sets, <<1:128>>, [{size, 1}]}]], [], [sets, gb_sets])),
    ?assertEqual({error, {other_code, gb_sets}},
                 of_system([[{gb_sets, <<1:128>>, [{size, 1}]}]], [], [sets, gb_sets])).

seen(Mfas) -> #{seen => Mfas, anew => [], counted => 1, passed => 0}.

of_system(Vms, Own) -> of_system(Vms, Own, []).

of_system(Vms, Own, Otp) ->
    whittle_shake_evidence:of_system(whittle_shake_evidence:merge(Vms),
                                     put_app(s, input, Own, put_app(stdlib, otp, Otp, system()))).

system() -> whittle_system:new(#{name => "s", vsn => "1", otp => "25"}).

put_app(Name, Kind, Modules, System) ->
    whittle_system:put_app(#{name => Name, vsn => "1", spec => {application, Name, []},
                             files => #{}, origin => #{kind => Kind},
                             modules => maps:from_list([{M, code(M)} || M <- Modules])}, System).

calls_of(M, Functions) -> {M, M:module_info(md5), Functions}.

code(M) ->
    {M, Bytes, _} = code:get_object_code(M),
    Bytes.

%% Functions that a plan would cut: `m' is the program, `f' belongs to a feature that is off, `x'

what_is_live(_) ->
    ?assertEqual([], unplanned([{m, a, 0}], #{})).

nobody_calls_it(_) ->
    Unplanned = unplanned([{m, a, 0}, {m, c, 0}], #{}),
    ?assertEqual([{{m, c, 0}, no_edge}], Unplanned),
    ?assertEqual("the build would remove 1 function that the recorded run called: keep all of them "
                 "with --seen keep, or name each one with --keep FILE or turn its feature on or "
                 "off with --feature",
                 words({unplanned, Unplanned})),
    ?assertEqual(["m:c/0: Whittle found no kept function that calls it"],
                 details({unplanned, Unplanned})).

%% m:c/0 calls m:d/0.
first_of_a_chain(_) ->
    ?assertEqual([{{m, c, 0}, no_edge}], unplanned([{m, c, 0}, {m, d, 0}], #{})).

a_circle(_) ->
    ?assertEqual([{{m, e, 0}, no_edge}, {{m, g, 0}, no_edge}],
                 unplanned([{m, e, 0}, {m, g, 0}], #{})).

in_c(_) ->
    ?assertEqual([], unplanned([{m, nif, 0}], #{})).

module_info_of_what_is_gone(_) ->
    ?assertEqual([], unplanned([{m, module_info, 1}], #{})),
    ?assertEqual([{{f, module_info, 1}, {feature, x}}], unplanned([{f, module_info, 1}], #{})).

%% A feature

answered(_) ->
    ?assertEqual([], unplanned([{f, start, 0}], feature([start()]))).

%% The module and the name of the callback are mentioned.
behind_an_answer(_) ->
    ?assertEqual([], unplanned([{f, start, 0}, {f, init, 1}],
                               feature([start(), {{f, init, 1}, {named, {m, a, 0}, {m, a, 0}}}]))).

called_beside_an_answer(_) ->
    Edges = [start(), {{f, stop, 0}, {called, {m, a, 0}}}],
    ?assertEqual([{{f, stop, 0}, {feature, x}}],
                 unplanned([{m, a, 0}, {f, start, 0}, {f, stop, 0}], feature(Edges))),
    %% The functions that the run did not call bring it.
    ?assertEqual([], unplanned([{f, start, 0}, {f, stop, 0}], feature(Edges))).

answer_that_ends(_) ->
    Ends = {call, {whittle_start_without, terms}},
    [{Mfa, {feature, x}}] = unplanned([{f, start, 0}], (feature([start()]))#{
                                        answers => [{{f, start, 0}, Ends}]}),
    ?assertEqual({f, start, 0}, Mfa).

without_an_answer(_) ->
    Unplanned = unplanned([{f, stop, 0}], feature([{{f, stop, 0}, {called, {m, b, 0}}}])),
    ?assertEqual([{{f, stop, 0}, {feature, x}}], Unplanned),
    ?assertEqual(["f:stop/0: the feature x is off"], details({unplanned, Unplanned})).

%% `--feature -x'.
done_without(_) ->
    Plan = feature([{{f, stop, 0}, {called, {m, b, 0}}}]),
    ?assertEqual([], whittle_shake_unplanned:unplanned([{f, stop, 0}], doing([x]), plan(Plan))),
    ?assertEqual([], whittle_shake_unplanned:unplanned([{f, stop, 0}], doing([x]), plan(#{}))).

%% A function of the feature that another node called, as `--whittle-rpc' does.
called_from_elsewhere(_) ->
    ?assertEqual([{{f, stop, 0}, {feature, x}}], unplanned([{f, stop, 0}], #{})),
    ?assertEqual([{{f, stop, 0}, no_edge}], unplanned([{f, stop, 0}], #{on => #{x => []}})),
    %% It does not hide other functions from a person who does without the feature: neither those
    %% that it calls, nor any other.
    [?assertEqual([{{m, e, 0}, no_edge}, {{m, g, 0}, no_edge}],
                  whittle_shake_unplanned:unplanned([{f, F, 0}, {m, e, 0}, {m, g, 0}],
                                                    doing([x]), plan(#{})))
     || F <- [start, stop]].

%% The evidence turns the feature on, and no option does.
turns_a_feature_on(_) ->
    Beams = [{M, made:beam(Source)}
             || {M, Source} <-
                    [{a, "-module(a). -export([main/0]). main() -> lib:go()."},
                     {lib, "-module(lib). -export([go/0]). go() -> erl_erts_errors:format()."},
                     {erl_erts_errors, "-module(erl_erts_errors). -export([format/0]). "
                      "format() -> ok."}]],
    App = fun(Name, Kind, Modules) ->
                  #{name => Name, vsn => "1", files => #{}, origin => #{kind => Kind},
                    modules => maps:with(Modules, maps:from_list(Beams)),
                    spec => {application, Name, []}}
          end,
    System = lists:foldl(fun whittle_system:put_app/2,
                         whittle_system:set_boot({script, {"s", "1"}, []},
                                                 whittle_system:new(#{name => "s", vsn => "1",
                                                                      otp => "25"})),
                         [App(a, input, [a]), App(stdlib, otp, [lib, erl_erts_errors])]),
    Called = [{M, identity(Beam), [F]}
              || {{M, Beam}, F} <- lists:zip(Beams, [{main, 0}, {go, 0}, {format, 0}])],
    {ok, Plan} = whittle_shake:plan(System, #{facts => facts(System), unit => functions,
                                              missing => crash, keep => [{a, main, 0}],
                                              evidence => whittle_shake_evidence:merge([Called]),
                                              seen => keep}),
    Notes = [unicode:characters_to_list(Note) || Note <- whittle_shake:notes(Plan)],
    ?assertEqual(["feature errors is on because of the recording"],
                 [Note || "feature " ++ _ = Note <- Notes]),
    ?assert(lists:member("the recording has 3 functions; 3 of them belong to modules of the build",
                         Notes)).

%% All functions of a module that the program compiles anew stay, in each kind of build.
kept_whole(_) ->
    Beams = [{M, made:beam(Source)}
             || {M, Source} <- [{a, "-module(a). -export([main/0]). main() -> gen:one()."},
                                {gen, "-module(gen). -export([one/0, two/0]). "
                                 "one() -> 1. two() -> 2."}]],
    App = #{name => a, vsn => "1", files => #{}, origin => #{kind => input},
            modules => maps:from_list(Beams), spec => {application, a, []}},
    System = whittle_system:put_app(App, whittle_system:set_boot({script, {"s", "1"}, []},
                                                                 system())),
    Called = [{a, identity(proplists:get_value(a, Beams)), [{main, 0}]},
              {gen, <<1:128>>, [{one, 0}]}],
    [begin
         {ok, Plan} = whittle_shake:plan(System, Ways#{facts => facts(System), unit => functions,
                                                       keep => [{a, main, 0}],
                                                       evidence =>
                                                           whittle_shake_evidence:merge([Called])}),
         #{hot := Hot} = Plan,
         ?assertEqual({Ways, true}, {Ways, is_map_key({gen, two, 0}, Hot)}),
         ?assertEqual(["the recording has another version of gen: the program recompiled it "
                       "during the run, or you changed it after the run; the build keeps all of "
                       "its functions"],
                      [Text || Note <- whittle_shake:notes(Plan),
                               "the recording has another" ++ _ = Text
                                   <- [unicode:characters_to_list(Note)]])
     end || Ways <- [#{missing => crash, seen => refuse}, #{missing => crash, seen => keep},
                     #{missing => load, seen => keep}, #{missing => load, seen => only}]].

%% Internal

identity(Bytes) ->
    {ok, Beam} = whittle_beam:read(Bytes),
    whittle_beam:identity(whittle_beam:chunks(Beam)).

facts(System) ->
    {ok, Facts} = whittle_shake:facts(System, #{}),
    Facts.

start() -> {{f, start, 0}, {called, {m, a, 0}}}.

feature(Edges) ->
    #{blocked => #{x => Edges}, prices => #{x => [{f, F, A} || {F, A} <- [{start, 0}, {stop, 0},
                                                                          {init, 1}]]},
      answers => [{{f, start, 0}, {value, ignore}}]}.

unplanned(Seen, Given) -> whittle_shake_unplanned:unplanned(Seen, doing([]), plan(Given)).

doing(Off) -> #{features => whittle_shake_feature:new([{x, #{modules => [f]}}]), off => Off}.

plan(Given) ->
    Calls = #{m => #{{a, 0} => [], {b, 0} => [], {c, 0} => [{m, d, 0}], {d, 0} => [],
                     {e, 0} => [{m, g, 0}], {g, 0} => [{m, e, 0}],
                     {nif, 0} => [{erlang, nif_error, 1}], {module_info, 1} => []},
              f => #{{start, 0} => [], {stop, 0} => [{m, e, 0}], {init, 1} => [],
                     {module_info, 1} => []}},
    Live = maps:from_list([{{m, F, 0}, {called, {root, "a test"}}} || F <- [a, b]]),
    #{reached => #{live => Live, on => maps:get(on, Given, #{}),
                   blocked => maps:get(blocked, Given, #{}),
                   prices => maps:get(prices, Given, #{})},
      answers => maps:get(answers, Given, []),
      summaries => maps:map(fun(_, Functions) ->
                                    #{functions => maps:map(fun(_, To) -> #{calls => To} end,
                                                            Functions)}
                            end, Calls)}.

details(Error) ->
    [unicode:characters_to_list(Line) || Line <- whittle_shake:details(Error)].

words(Error) ->
    unicode:characters_to_list(whittle_shake:format_error(Error)).
