%% Two links, joined by two wires of bytes that a property cuts, garbles and doubles while
%% owners are killed and instances restarted: in the end all presses were shown once.
-module(blinky_link_SUITE).
-include_lib("proper/include/proper.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([shown_once/1, shown_once_restarted/1, too_many/1, asked_twice/1, one_in_doubt/1,
         waits_for_the_next/1, reports_bounded/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [shown_once, shown_once_restarted, too_many, asked_twice, one_in_doubt, waits_for_the_next,
     reports_bounded].

init_per_testcase(_, Config) -> Config.
end_per_testcase(_, _) -> ok.

-define(KEEP, 4).

%% An end: its link, the bytes on their way to it, those of them that begin a frame.
-record(e, {link, wire = <<>>, bytes = <<>>}).
%% All: ends a and b; what happened, the latest first, as {boot, what}; boots drawn.
-record(w, {a, b, log = [], boots = 2}).

%%% Properties

%% Without restarts: exactly once, in order, and each that was not taken is in a gap.
shown_once(_) -> check(step([press, carry, noise, owner]), fun all_shown/1, 2000).

%% With them: never twice; once if neither has restarted since it was taken, or word of doubt.
shown_once_restarted(_) ->
    check(step([press, carry, noise, owner, restart]), fun none_twice/1, 3000).

step(Kinds) ->
    oneof(lists:append([kind(Kind) || Kind <- Kinds])).

kind(press) -> [{press, side()}, {press, side()}, {edges, side(), range(1, 3)}];
kind(carry) -> [{carry, side(), range(1, 80)}, {carry, side(), 200}, {beat, side()},
                {retry, side()}, {carry_both, range(1, 6)}];
kind(noise) -> [{drop, side(), range(1, 60)}, {garble, side(), range(0, 60)},
                {double, side(), range(1, 80)}];
%% Killed with nothing under way, or after it has written and before it has sent.
kind(owner) -> [{owner, side()}, {mute, {press, side()}}, {mute, {carry, side(), 200}}];
kind(restart) -> [{restart, side()}].

side() -> oneof([a, b]).

check(Step, Holds, Times) ->
    Quiet = fun(_, _) -> ok end,
    Property = ?FORALL(Steps, resize(80, list(Step)), held(Holds, Steps)),
    case proper:quickcheck(Property, [{numtests, Times}, {on_output, Quiet}]) of
        true -> ok;
        Other -> error({property, Other, proper:counterexample()})
    end.

%% A proper that is older than the OTP that runs it fails on an exception itself.
held(Holds, Steps) ->
    try Holds(play(Steps))
    catch Class:Reason:Stack ->
            io:format("~p~n", [{Class, Reason, Stack}]),
            false
    end.

all_shown(#w{log = Log0}) ->
    Log = lists:reverse(Log0),
    lists:all(
      fun({Here, There}) ->
              Taken = [Seq || {Boot, {taken, Seq}} <- Log, Boot =:= Here],
              Shown = [Seq || {Boot, {shown, From, Seq, _}} <- Log, Boot =:= There, From =:= Here],
              NotTaken = lists:sum([N || {Boot, {not_taken, N}} <- Log, Boot =:= Here]),
              Gaps = lists:sum([N || {Boot, {gap, From, _, _, N}} <- Log, Boot =:= There,
                                     From =:= Here]),
              Taken =:= Shown andalso NotTaken =:= Gaps
      end, [{1, 2}, {2, 1}])
        andalso [] =:= [R || {_, R} <- Log, lists:member(element(1, R), [ended, missing])]
        andalso [] =:= [R || {_, {gap, _, _, doubt, _} = R} <- Log].

none_twice(#w{a = A, b = B, log = Log0}) ->
    Log = lists:reverse(Log0),
    Shown = [{From, Seq} || {_, {shown, From, Seq, _}} <- Log],
    Doubt = [{From, Seq} || {_, {gap, From, Seq, doubt, _}} <- Log],
    Taken = [{Boot, Seq} || {Boot, {taken, Seq}} <- Log],
    Alive = [boot(A), boot(B)],
    [] =:= Shown -- lists:usort(Shown)
        andalso [] =:= Shown -- Taken
        andalso [] =:= lists:usort(Doubt) -- Taken
        andalso [] =:= [R || {_, {missing, _, _, _} = R} <- Log]
        %% Of those that live all are accounted for.
        andalso [] =:= [Press || {Boot, _} = Press <- Taken, lists:member(Boot, Alive)]
                       -- (Shown ++ Doubt)
        %% Of those that ended, up to the number that was last reported with their end, and no
        %% further; numbers have no holes.
        andalso lists:all(
                  fun({{There, Boot}, Last}) ->
                          Numbers = [Seq || {By, R} <- Log, By =:= There, {From, Seq} <- told(R),
                                            From =:= Boot],
                          case {Numbers, Last} of
                              {[], none} -> true;
                              {[First | _], _} -> Numbers =:= lists:seq(First, Last)
                          end
                  end, ended(Log0, Alive)).

ended(Latest, Alive) ->
    maps:to_list(lists:foldr(fun({There, {ended, Boot, Last}}, Known) ->
                                     Known#{{There, Boot} => Last};
                                (_, Known) -> Known
                             end, #{}, [Entry || {_, {ended, Boot, _}} = Entry <- Latest,
                                                 not lists:member(Boot, Alive)])).

told({shown, From, Seq, _}) -> [{From, Seq}];
told({gap, From, Seq, _, _}) -> [{From, Seq}];
told(_) -> [].

%%% The world

play(Steps) ->
    World = #w{a = #e{link = blinky_link:new(1, ?KEEP)}, b = #e{link = blinky_link:new(2, ?KEEP)}},
    settle(lists:foldl(fun step/2, World, Steps), 0).

step({press, Side}, World) -> take(Side, press, 1, World);
step({edges, Side, N}, World) -> take(Side, {gap, edges, N}, N, World);
step({carry, Side, Size}, World) -> carry(Side, Size, World);
step({carry_both, Times}, World) ->
    lists:foldl(fun(_, W) -> carry(b, 1000, carry(a, 1000, W)) end, World, lists:seq(1, Times));
step({beat, Side}, World) -> act(Side, fun blinky_link:beat/1, World);
step({retry, Side}, World) -> act(Side, fun blinky_link:retry/1, World);
step({drop, Side, Size}, World) ->
    wire(Side, fun(Wire) -> element(2, cut(Size, Wire)) end, World);
step({garble, Side, At}, World) ->
    wire(Side, fun(Wire) ->
                       case cut(At, Wire) of
                           {Before, <<Byte, After/binary>>} ->
                               <<Before/binary, (Byte bxor 4), After/binary>>;
                           _ -> Wire
                       end
               end, World);
step({double, Side, Size}, World) ->
    wire(Side, fun(Wire) ->
                       {Before, After} = cut(Size, Wire),
                       <<Before/binary, Before/binary, After/binary>>
               end, World);
step({owner, Side}, World) -> owner(Side, World);
step({mute, Step}, #w{a = A, b = B} = World) ->
    Muted = #w{a = A1, b = B1} = step(Step, World),
    case element(2, Step) of
        a -> owner(a, Muted#w{b = B1#e{wire = B#e.wire}});
        b -> owner(b, Muted#w{a = A1#e{wire = A#e.wire}})
    end;
step({restart, Side}, #w{boots = Boots} = World) ->
    End = get_end(Side, World),
    owner(Side, put_end(Side, End#e{link = blinky_link:new(Boots + 1, ?KEEP)},
                        World#w{boots = Boots + 1})).

%% The next owner has the table, and nothing else.
owner(Side, World) ->
    End = get_end(Side, World),
    act(Side, fun blinky_link:resume/1, put_end(Side, End#e{bytes = <<>>}, World)).

take(Side, Item, Count, #w{log = Log} = World) ->
    #e{link = Link} = End = get_end(Side, World),
    {Result, Link1, Effects} = blinky_link:take(api, make_ref(), Item, Link),
    Boot = boot(End),
    Entry = case Result of
                {ok, {Boot, Seq}} when Item =:= press -> {taken, Seq};
                _ -> {not_taken, Count}
            end,
    effects(Side, Effects, put_end(Side, End#e{link = Link1},
                                   World#w{log = [{Boot, Entry} | Log]})).

carry(Side, Size, World) ->
    #e{wire = Wire, bytes = Bytes} = End = get_end(Side, World),
    {Now, Later} = cut(Size, Wire),
    {Frames, Rest, _} = blinky_frame:decode(<<Bytes/binary, Now/binary>>),
    lists:foldl(fun(Frame, W) -> act(Side, fun(L) -> blinky_link:received(Frame, L) end, W) end,
                put_end(Side, End#e{wire = Later, bytes = Rest}, World), Frames).

act(Side, Function, World) ->
    #e{link = Link} = End = get_end(Side, World),
    {Link1, Effects} = Function(Link),
    effects(Side, Effects, put_end(Side, End#e{link = Link1}, World)).

effects(Side, Effects, World) -> lists:foldl(fun(E, W) -> effect(Side, E, W) end, World, Effects).

effect(Side, {send, Frame}, World) ->
    wire(other(Side), fun(Wire) -> <<Wire/binary, (blinky_frame:encode(Frame))/binary>> end,
         World);
effect(_, await, World) -> World;
effect(Side, report, #w{log = Log} = World) ->
    #e{link = Link} = End = get_end(Side, World),
    case blinky_link:reports(Link) of
        [] -> World;
        Reports ->
            {Last, _} = lists:last(Reports),
            put_end(Side, End#e{link = blinky_link:reported(Last, Link)},
                    World#w{log = [{boot(End), R} || {_, R} <- lists:reverse(Reports)] ++ Log})
    end.

%% The line is whole again. A hundred rounds hand over all that can wait, many times.
settle(#w{a = A, b = B} = World, Round) ->
    Info = [blinky_link:info(E#e.link) || E <- [A, B]],
    case [I || #{waiting := N, up := Up} = I <- Info, N > 0 orelse not Up] of
        [] when Round > 1 -> World;
        _ when Round < 100 ->
            settle(lists:foldl(fun step/2, World,
                               [{beat, a}, {beat, b}, {carry, a, 10000}, {carry, b, 10000},
                                {retry, a}, {retry, b}, {carry_both, 4}]), Round + 1);
        Left -> error({not_settled, Left})
    end.

cut(Size, Bytes) -> split_binary(Bytes, min(Size, byte_size(Bytes))).

wire(Side, Function, World) ->
    #e{wire = Wire} = End = get_end(Side, World),
    put_end(Side, End#e{wire = Function(Wire)}, World).

boot(#e{link = Link}) -> maps:get(boot, blinky_link:info(Link)).

get_end(a, #w{a = A}) -> A;
get_end(b, #w{b = B}) -> B.

put_end(a, End, World) -> World#w{a = End};
put_end(b, End, World) -> World#w{b = End}.

other(a) -> b;
other(b) -> a.

%%% Cases

seen(Steps) ->
    #w{log = Log} = play(Steps),
    [Entry || {_, What} = Entry <- lists:reverse(Log),
              lists:member(element(1, What), [shown, gap, ended])].

too_many(_) ->
    Shown = [{2, {shown, 1, N, N rem 2}} || N <- lists:seq(1, ?KEEP)]
        ++ [{2, {gap, 1, 5, full, 3}}],
    Shown = seen(lists:duplicate(?KEEP + 3, {press, a})).

%% An owner that was killed before it could answer is asked again: it is one press.
asked_twice(_) ->
    {{ok, {7, 1}}, Link, _} = blinky_link:take(button, 5, press, blinky_link:new(7, ?KEEP)),
    {{ok, {7, 1}}, Link, []} = blinky_link:take(button, 5, press, Link),
    {{ok, {7, 2}}, _, _} = blinky_link:take(button, 6, press, Link).

%% It ends after it has shown the press and before word of that has come.
one_in_doubt(_) ->
    Met = [{beat, a}, {beat, b}, {carry_both, 3}],
    [{2, {shown, 1, 1, 1}}, {1, {ended, 2, none}}, {3, {gap, 1, 1, doubt, 1}}] =
        seen(Met ++ [{press, a}, {carry, b, 1000}, {carry, a, 1000}, {carry, b, 1000},
                     {drop, a, 1000}, {restart, b}]).

%% What is pressed while nobody is there is no matter of doubt.
waits_for_the_next(_) ->
    Met = [{beat, a}, {beat, b}, {carry_both, 3}],
    [{1, {ended, 2, none}}, {3, {shown, 1, 1, 1}}, {3, {shown, 1, 2, 0}}] =
        seen(Met ++ [{press, a}, {retry, a}, {press, a}, {drop, b, 1000}, {restart, b}]).

reports_bounded(_) ->
    Link = lists:foldl(fun(N, L) -> element(1, blinky_link:note({line, N}, L)) end,
                       blinky_link:new(1, ?KEEP), lists:seq(1, 1000)),
    256 = length(blinky_link:reports(Link)),
    {745, {line, 745}} = hd(blinky_link:reports(Link)),
    [{1000, _}] = blinky_link:reports(blinky_link:reported(999, Link)).
