%% Tests the limits of inflating data and of decoding terms.
-module(whittle_bounded_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([inflates_to_the_end/1, inflates_up_to_the_limit/1, terms/1, compressed_terms/1,
         compressed_twice/1, names_of_terms/1, atoms/1, damaged_terms/1, atoms_in_turn/1, turns/1,
         check_text/1, suggested_limit/1]).
-export([decode_at_once/1]).

all() ->
    [inflates_to_the_end, inflates_up_to_the_limit, terms, compressed_terms, compressed_twice,
     names_of_terms, atoms, damaged_terms, atoms_in_turn, turns, check_text, suggested_limit].

%% All bytes may be present although the end and the checksum are missing.
inflates_to_the_end(_) ->
    Plain = binary:copy(<<"plain">>, 9),
    [begin
         ?assertEqual({ok, Plain}, whittle_bounded:inflate(Bits, Deflated, byte_size(Plain))),
         ?assertEqual([], [Size || Size <- lists:seq(0, byte_size(Deflated) - 1),
                                   {ok, _} <- [whittle_bounded:inflate(
                                                 Bits, binary:part(Deflated, 0, Size),
                                                 byte_size(Plain))]])
     end || {Bits, Deflated} <- [{15, zlib:compress(Plain)}, {31, zlib:gzip(Plain)},
                                 {-15, zlib:zip(Plain)}]].

inflates_up_to_the_limit(_) ->
    Plain = binary:copy(<<0>>, 100_000),
    Deflated = zlib:compress(Plain),
    ?assertEqual({ok, Plain}, whittle_bounded:inflate(15, Deflated, 100_000)),
    ?assertEqual({error, wrong_size}, whittle_bounded:inflate(15, Deflated, 99_999)),
    ?assertEqual({error, wrong_size}, whittle_bounded:inflate(15, Deflated, 1 bsl 40)),
    ?assertEqual({error, not_deflated}, whittle_bounded:inflate(15, <<"plain">>, 100)),
    ?assertEqual({error, not_deflated}, whittle_bounded:inflate(31, Deflated, 100_000)).

%% Each term comes back, and no change of its bytes stops the VM.
terms(_) ->
    made:holds(300, proper_types:term(),
               fun(Term) ->
                       Bytes = term_to_binary(Term),
                       {ok, Term} =:= whittle_bounded:term(Bytes, byte_size(Bytes))
                           andalso {error, too_large}
                               =:= whittle_bounded:term(Bytes, byte_size(Bytes) - 1)
               end),
    made:holds(1000, proper_types:binary(),
               fun(Bytes) ->
                       case whittle_bounded:term(<<131, Bytes/binary>>, 1000) of
                           {ok, _} -> true;
                           {error, _} -> true
                       end
               end).

%% The limit is that of the term, not of its compressed bytes.
compressed_terms(_) ->
    Term = lists:duplicate(100_000, 0),
    Bytes = term_to_binary(Term, [compressed]),
    <<131, 80, Size:32, Deflated/binary>> = Bytes,
    ?assertEqual({ok, Term}, whittle_bounded:term(Bytes, Size)),
    ?assertEqual({error, too_large}, whittle_bounded:term(Bytes, Size - 1)),
    %% The size is too small or too large.
    [?assertEqual({error, not_a_term},
                  whittle_bounded:term(<<131, 80, Wrong:32, Deflated/binary>>, 1 bsl 30))
     || Wrong <- [Size - 1, Size + 1, 0]].

%% The inner term would inflate without a limit.
compressed_twice(_) ->
    <<131, Inner/binary>> = term_to_binary(lists:duplicate(100_000, 0), [compressed]),
    Twice = <<131, 80, (byte_size(Inner)):32, (zlib:compress(Inner))/binary>>,
    ?assertEqual({error, not_a_term}, whittle_bounded:term(Twice, 1000)).

%% The count reads every kind of term, and finds the names that are no atoms yet.
names_of_terms(_) ->
    Of = fun(Bytes) -> whittle_term_names:add(Bytes, #{}, 1000) end,
    Here = [fun lists:map/2, fun(X) -> {X, self()} end, self(), make_ref(), hd(erlang:ports()),
            <<1:3>>, 1.5, 1 bsl 3000, "text", <<"bytes">>, [a | b], #{[] => {}}],
    [?assertEqual({Term, {ok, #{}}}, {Term, Of(term_to_binary(Term))}) || Term <- [Here | Here]],
    made:holds(300, proper_types:term(), fun(Term) -> {ok, #{}} =:= Of(term_to_binary(Term)) end),
    New = <<"whittle_names_", (integer_to_binary(erlang:unique_integer([positive])))/binary>>,
    Old = binary_to_list(New) ++ [16#E9],
    Latin1 = list_to_binary(Old),
    Terms = [{<<$w, (byte_size(New)), New/binary>>, New},
             {<<$v, (byte_size(New)):16, New/binary>>, New},
             {<<$s, (byte_size(Latin1)), Latin1/binary>>, unicode:characters_to_binary(Old)},
             {<<$d, (byte_size(Latin1)):16, Latin1/binary>>, unicode:characters_to_binary(Old)}],
    [begin
         ?assertEqual({ok, #{Name => []}},
                      Of(<<131, $h, 3, Atom/binary, $t, 1:32, $a, 1, Atom/binary, $j>>)),
         ?assertEqual({ok, #{Name => []}}, Of(<<131, $X, Atom/binary, 0:96>>)),
         ?assertEqual({ok, #{Name => []}}, Of(<<131, $Z, 2:16, Atom/binary, 0:96>>))
     end || {Atom, Name} <- Terms],
    [?assertEqual(unknown, Of(Bytes)) || Bytes <- [<<>>, <<131>>, <<131, $h, 2, $j>>, <<131, 1>>,
                                                   <<131, $w, 9, "short">>]],
    ?assertEqual(too_many, whittle_term_names:add(<<131, $h, 1, $w, (byte_size(New)), New/binary>>,
                                                  #{}, 1)).

%% A term with more new atoms than this VM has room for is refused before an atom is made. A term
%% may name the same atoms many times.
atoms(_) -> made:in_small_vm(fun atoms/0).

atoms() ->
    Many = erlang:system_info(atom_limit),
    Term = fun(Names) ->
                   iolist_to_binary([131, $l, <<Many:32>>,
                                     [[$w, length(N), N] || N <- Names], $j])
           end,
    Before = erlang:system_info(atom_count),
    New = Term(names("atoms", Many)),
    ?assertMatch({error, {too_many_atoms, Limit}} when Limit * 3 div 4 >= Before + Many,
                 whittle_bounded:term(New, byte_size(New))),
    ?assert(erlang:system_info(atom_count) < Before + Many div 8),
    Often = Term(lists:duplicate(Many, "ok")),
    {ok, Read} = whittle_bounded:term(Often, byte_size(Often)),
    ?assertEqual({Many, ok}, {length(Read), hd(Read)}).

%% Each of these terms fits into the atom table of a small VM, but not two of them. The VM's
%% schedulers decode them at once.
atoms_in_turn(_) ->
    {ok, Peer, _} = peer:start(#{connection => standard_io,
                                 args => ["+t", "32768", "-pa" | code:get_path()]}),
    try
        Room = peer:call(Peer, erlang, system_info, [atom_limit]) * 3 div 4
            - peer:call(Peer, erlang, system_info, [atom_count]),
        Results = peer:call(Peer, ?MODULE, decode_at_once, [Room * 2 div 3], 60_000),
        ?assertEqual([ok | lists:duplicate(19, too_many_atoms)], lists:sort(Results))
    after
        peer:stop(Peer)
    end.

%% Runs in the small VM.
decode_at_once(Count) ->
    {module, _} = code:ensure_loaded(whittle_term_names),
    Terms = [iolist_to_binary([131, $l, <<Count:32>>, [[$w, length(N), N] || N <- Names], $j])
             || Each <- lists:seq(1, 20), Names <- [names([$a + Each], Count)]],
    Of = fun(Term) ->
                 fun() ->
                         receive go -> ok end,
                         exit(case whittle_bounded:term(Term, byte_size(Term)) of
                                  {ok, _} -> ok;
                                  {error, {Why, _}} -> Why
                              end)
                 end
         end,
    Started = [spawn_monitor(Of(Term)) || Term <- Terms],
    [Pid ! go || {Pid, _} <- Started],
    [receive {'DOWN', Monitor, _, _, Result} -> Result end || {_, Monitor} <- Started].

names(Prefix, Count) -> [Prefix ++ [$_ | integer_to_list(N)] || N <- lists:seq(1, Count)].

%% Each process has the turn alone, in the order of the requests. The next one gets it when a
%% process is done, fails or ends, also while it waits.
turns(_) ->
    Self = self(),
    ?assertEqual(done, whittle_turn:take(fun() -> done end)),
    Asks = fun(Name) ->
                   Pid = spawn(fun() ->
                                       catch whittle_turn:take(fun() -> has(Name, Self) end)
                               end),
                   %% The process waits for an answer, so its request is in the server's queue.
                   waits(Pid),
                   Pid
           end,
    [First, Second, Third, Fourth] = [Asks(N) || N <- [1, 2, 3, 4]],
    Has = fun() -> receive {has, Name} -> Name end end,
    ?assertEqual(1, Has()),
    #{waiting := Waiting} = sys:get_state(whittle_turn),
    ?assertEqual(3, queue:len(Waiting)),
    exit(Third, kill),
    exit(First, kill),
    ?assertEqual(2, Has()),
    Second ! fail,
    ?assertEqual(4, Has()),
    #{has := {Fourth, _}, waiting := Nobody} = sys:get_state(whittle_turn),
    ?assert(queue:is_empty(Nobody)),
    Fourth ! go,
    ?assertEqual(done, whittle_turn:take(fun() -> done end)).

has(Name, Teller) ->
    Teller ! {has, Name},
    receive
        fail -> error(failed);
        go -> ok
    end.

waits(Pid) ->
    case process_info(Pid, status) of
        {status, waiting} -> ok;
        _ -> erlang:yield(), waits(Pid)
    end.

%% A term that is long enough to have too many names, and is damaged.
damaged_terms(_) -> made:in_small_vm(fun damaged_terms/0).

damaged_terms() ->
    Long = iolist_to_binary([131, $l, <<200_000:32>>, lists:duplicate(200_000, <<$w, 1, $x>>), 1]),
    ?assertEqual({error, not_a_term}, whittle_bounded:check_terms([Long])),
    ?assertEqual({error, not_a_term}, whittle_bounded:term(Long, byte_size(Long))).

%% Names count once, and names that are atoms already do not count.
check_text(_) -> made:in_small_vm(fun check_text/0).

check_text() ->
    Room = erlang:system_info(atom_limit),
    [?assertEqual(ok, whittle_bounded:check_text(Text))
     || Text <- [<<"[a, 'b c', \"d\"].">>, binary:copy(<<"lists,">>, Room),
                 binary:copy(<<"bounded_new_name,">>, Room)]],
    ?assertMatch({error, {too_many_atoms, _}}, whittle_bounded:check_text(many_names(Room))).

many_names(Count) ->
    iolist_to_binary([[$z, integer_to_binary(N), $,] || N <- lists:seq(1, Count)]).

%% A VM with the limit that the error and its text name has room. A limit of 131,072, the next
%% multiple of 65,536, would not leave a quarter free.
suggested_limit(_) ->
    Text = many_names(110_000),
    {error, {too_many_atoms, Limit}} =
        made:in_small_vm(fun() -> whittle_bounded:check_text(Text) end),
    Line = unicode:characters_to_list(whittle_bounded:too_many_atoms(Limit)),
    ?assertMatch({match, _}, re:run(Line, ["WHITTLE_ATOMS=", integer_to_list(Limit), "$"])),
    {ok, Peer, _} = peer:start(#{connection => standard_io,
                                 args => ["+t", integer_to_list(Limit), "-pa" | code:get_path()]}),
    try ?assertEqual(ok, peer:call(Peer, whittle_bounded, check_text, [Text]))
    after peer:stop(Peer)
    end.
