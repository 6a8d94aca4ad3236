%% @doc Decides what one end of the line sends, shows and reports. Pure: a link is a
%% value, and effects come back as data.
%%
%% == Numbers ==
%% An instance, from start to end of its VM, has a boot number, drawn at random. What it has
%% taken to tell the other side are its items: presses, and gaps, which say what was not
%% taken. Items are numbered from 1. So (boot, sequence) names a press for good; no number
%% comes again (at ten presses a second, 32 bits last for 13 years).
%%
%% == An item's way ==
%% One item at a time, the eldest. Each frame has its sender's boot and that of the instance it
%% is meant for.
%%
%% <ol>
%% <li>`ask': I have item N. `grant': I am here to take N.</li>
%% <li>`item': N, for the boot that granted it and for no other. `ack': N is shown here.</li>
%% </ol>
%%
%% Either is sent again until the answer comes. An item whose number is not above the last
%% one shown is acknowledged again and not shown. `hello' is a sign of life: one at each beat.
%% After three beats without any frame the other side is away; then nothing but hello is sent.
%%
%% == When an instance ends ==
%% <ul>
%% <li>The sender: what it had taken and not yet handed over ended with it. The other side
%%     sees the new boot and reports the old one with the last number that it had from it:
%%     what that had taken after it is lost.</li>
%% <li>The receiver: items that were not sent to it go to the new boot. One may have been:
%%     granted, sent, and not acknowledged. Whether it was shown nobody can know any more.
%%     It is not sent again, so that it cannot be shown twice; its number is handed on as a
%%     gap, `doubt'. That is what asking first is for: the time in which an end of the other
%%     side leaves a doubt is that between grant and ack, not that of its absence.</li>
%% </ul>
%%
%% == Bounds ==
%% `keep' items wait at most, and a gap. A press beyond is not taken: it is counted in that
%% gap, `full'. Reports that nobody has asked for are kept up to 256, the latest;
%% they are numbered too.
-module(blinky_link).

-export([new/2, resume/1, take/4, sources/2, received/2, beat/1, retry/1, note/2]).
-export([reports/1, reported/2, led/1, info/1]).
-export_type([link/0, effect/0, report/0, source/0]).

-define(SILENT_BEATS, 3).
-define(REPORTS, 256).
%% Boots of the other side that have ended, with the last number shown of each: frames of
%% theirs may still be on their way, and come twice.
-define(ENDED, 8).

-type boot() :: blinky_frame:boot().
-type seq() :: blinky_frame:seq().
-type source() :: term().
%% A taker of items, one at a time: asked again about the last one, it gets the same number.
-type effect() :: {send, blinky_frame:frame()}
                | await                         % call retry/1 in a while
                | report.                       % reports/1 has more
-type report() :: {up | down, boot()}
                | {shown, boot(), seq(), Led :: 0 | 1}
                | {gap, boot(), seq(), blinky_frame:reason(), Count :: non_neg_integer()}
                  %% Items that were handed to nobody: it cannot happen, or one of us errs.
                | {missing, boot(), From :: seq(), To :: seq()}
                | {ended, boot(), Last :: seq() | none}
                | {line, term()}.

-record(link, {boot :: boot(), keep :: pos_integer(),
               %% The other side; the last number shown of it.
               peer = none :: boot() | none, last = none :: seq() | none,
               up = false :: boolean(), silent = 0 :: non_neg_integer(),
               ended = [] :: [{boot(), seq() | none}],
               %% The items to hand over, and the boot that the eldest was sent to.
               items = queue:new() :: queue:queue({seq(), blinky_frame:item()}),
               next = 1 :: seq(), sent = none :: boot() | none,
               sources = #{} :: #{source() => {term(), seq() | full}},
               led = 0 :: 0 | 1,
               reports = queue:new() :: queue:queue({pos_integer(), report()}),
               next_report = 1 :: pos_integer()}).
-opaque link() :: #link{}.

%% @doc Makes the link of an instance that begins. Keep: 2 at least.
-spec new(boot(), pos_integer()) -> link().
new(Boot, Keep) -> #link{boot = Boot, keep = max(2, Keep)}.

%% @doc Goes on after a pause in which effects may have been lost.
-spec resume(link()) -> {link(), [effect()]}.
resume(Link) -> {Link, [hello(Link), report | outgoing(Link)]}.

%% @doc Takes an item; Id is the source's own name for it, another for each. `full': it is
%% counted, and not taken.
-spec take(source(), term(), blinky_frame:item(), link()) ->
          {{ok, {boot(), seq()}} | {error, full}, link(), [effect()]}.
take(Source, Id, Item, #link{sources = Sources, boot = Boot} = Link) ->
    case Sources of
        #{Source := {Id, full}} -> {{error, full}, Link, []};
        #{Source := {Id, Seq}} -> {{ok, {Boot, Seq}}, Link, []};
        #{} ->
            {Result, Link1} = put_in(Item, Link),
            Link2 = Link1#link{sources = Sources#{Source => {Id, Result}}},
            Effects = case queue:is_empty(Link#link.items) of
                          true -> outgoing(Link2);
                          false -> []
                      end,
            {case Result of
                 full -> {error, full};
                 Seq -> {ok, {Boot, Seq}}
             end, Link2, Effects}
    end.

%% @doc Forgets sources that will not ask again: those that Lives says no to.
-spec sources(fun((source()) -> boolean()), link()) -> link().
sources(Lives, #link{sources = Sources} = Link) ->
    Link#link{sources = maps:filter(fun(Source, _) -> Lives(Source) end, Sources)}.

put_in(press, #link{items = Items, keep = Keep} = Link) ->
    case queue:len(Items) >= Keep of
        true -> {full, gap(full, 1, Link)};
        false -> append(press, Link)
    end;
put_in({gap, Reason, Count}, #link{next = Next} = Link) ->
    case gap(Reason, Count, Link) of
        #link{next = Next} = Link1 -> {Next - 1, Link1};
        Link1 -> {Next, Link1}
    end.

append(Item, #link{items = Items, next = Next} = Link) ->
    {Next, Link#link{items = queue:in({Next, Item}, Items), next = Next + 1}}.

%% Gaps of one reason without another item between them are one, but for one that may be on
%% its way. Past `keep' all are `full', and so one.
gap(Reason0, Count, #link{items = Items, sent = Sent, keep = Keep} = Link) ->
    Length = queue:len(Items),
    Sole = Length =:= 1 andalso Sent =/= none,
    Reason = case Length >= Keep of
                 true -> full;
                 false -> Reason0
             end,
    case queue:peek_r(Items) of
        {value, {Seq, {gap, Reason, Before}}} when not Sole ->
            Sum = case Count * Before of
                      0 -> 0;
                      _ -> Before + Count
                  end,
            Link#link{items = queue:in({Seq, {gap, Reason, Sum}}, queue:drop_r(Items))};
        _ ->
            {_, Link1} = append({gap, Reason, Count}, Link),
            Link1
    end.

%% @doc Takes a frame that has come.
-spec received(blinky_frame:frame(), link()) -> {link(), [effect()]}.
received(#{from := Boot}, #link{boot = Boot} = Link) -> {Link, []};     % an echo
received(#{from := From} = Frame, #link{ended = Ended, up = Up} = Link0) ->
    case Up andalso lists:keymember(From, 1, Ended) of
        true -> {Link0, []};
        %% Nobody else is there: what had seemed to end has not. Frames of an instance before
        %% it, late or doubled, had come after its own.
        false ->
            {Link1, Before} = heard(From, Link0),
            {Link2, After} = act(Frame, Link1),
            {Link2, Before ++ After}
    end.

heard(Peer, #link{peer = Peer, up = true} = Link) -> {Link#link{silent = 0}, []};
heard(Peer, #link{peer = Peer} = Link0) ->
    Link = add({up, Peer}, Link0#link{up = true, silent = 0}),
    {Link, [hello(Link), report | outgoing(Link)]};
heard(New, #link{peer = none} = Link) -> heard(New, Link#link{peer = New});
heard(New, #link{peer = Old, last = Last, ended = Ended} = Link) ->
    Link1 = add({ended, Old, Last}, doubt(Link)),
    heard(New, Link1#link{peer = New, last = proplists:get_value(New, Ended, none), up = false,
                          ended = lists:sublist([{Old, Last} | lists:keydelete(New, 1, Ended)],
                                                ?ENDED)}).

%% Word of a gap may be told twice.
doubt(#link{sent = none} = Link) -> Link;
doubt(#link{items = Items} = Link) ->
    case queue:out(Items) of
        {{value, {Seq, press}}, Others} ->
            Link#link{items = queue:in_r({Seq, {gap, doubt, 1}}, Others), sent = none};
        _ -> Link#link{sent = none}
    end.

act(#{kind := hello}, Link) -> {Link, []};
act(#{kind := ask, seq := Seq}, Link) -> {Link, [{send, frame(grant, Seq, Link)}]};
act(#{to := To}, #link{boot = Boot} = Link) when To =/= Boot -> {Link, []};
act(#{kind := grant, seq := Seq}, #link{items = Items, sent = none, peer = Peer} = Link) ->
    case queue:peek(Items) of
        {value, {Seq, _}} ->
            Link1 = Link#link{sent = Peer},
            {Link1, outgoing(Link1)};
        _ -> {Link, []}
    end;
act(#{kind := ack, seq := Seq}, #link{items = Items, sent = Sent} = Link) when Sent =/= none ->
    case queue:out(Items) of
        {{value, {Seq, _}}, Others} ->
            Link1 = Link#link{items = Others, sent = none},
            {Link1, outgoing(Link1)};
        _ -> {Link, []}
    end;
act(#{kind := item, seq := Seq}, #link{last = Last} = Link)
  when is_integer(Last), Seq =< Last ->
    {Link, [{send, frame(ack, Seq, Link)}]};
act(#{kind := item, seq := Seq, item := Item}, Link) ->
    Link1 = show(Item, Seq, missing(Seq, Link)),
    {Link1#link{last = Seq}, [report, {send, frame(ack, Seq, Link1)}]};
act(_, Link) -> {Link, []}.

missing(Seq, #link{last = Last, peer = Peer} = Link) when is_integer(Last), Seq > Last + 1 ->
    add({missing, Peer, Last + 1, Seq - 1}, Link);
missing(_, Link) -> Link.

show(press, Seq, #link{peer = Peer, led = Led} = Link) ->
    add({shown, Peer, Seq, 1 - Led}, Link#link{led = 1 - Led});
show({gap, Reason, Count}, Seq, #link{peer = Peer} = Link) ->
    add({gap, Peer, Seq, Reason, Count}, Link).

%% @doc Notes that the time of one beat has passed since the last beat, or the start.
-spec beat(link()) -> {link(), [effect()]}.
beat(#link{up = true, silent = Silent, peer = Peer} = Link) when Silent + 1 >= ?SILENT_BEATS ->
    {add({down, Peer}, Link#link{up = false}), [hello(Link), report]};
beat(#link{silent = Silent} = Link) -> {Link#link{silent = Silent + 1}, [hello(Link)]}.

%% @doc Sends again, as no answer has come.
-spec retry(link()) -> {link(), [effect()]}.
retry(Link) -> {Link, outgoing(Link)}.

%% @doc Adds a report of the owner's own.
-spec note(report(), link()) -> {link(), [effect()]}.
note(Report, Link) -> {add(Report, Link), [report]}.

outgoing(#link{up = false}) -> [];
outgoing(#link{items = Items, sent = Sent} = Link) ->
    case {queue:peek(Items), Sent} of
        {empty, _} -> [];
        {{value, {Seq, _}}, none} -> [{send, frame(ask, Seq, Link)}, await];
        {{value, {Seq, Item}}, _} -> [{send, (frame(item, Seq, Link))#{item => Item}}, await]
    end.

hello(Link) -> {send, frame(hello, 0, Link)}.

frame(Kind, Seq, #link{boot = Boot, peer = Peer}) ->
    #{kind => Kind, from => Boot, seq => Seq,
      to => case Peer of
                none -> 0;
                _ -> Peer
            end}.

%%% Reports

add(Report, #link{reports = Reports, next_report = N} = Link) ->
    Kept = case queue:len(Reports) >= ?REPORTS of
               true -> queue:drop(Reports);
               false -> Reports
           end,
    Link#link{reports = queue:in({N, Report}, Kept), next_report = N + 1}.

%% @doc Gives the reports that were not given yet, by number, the eldest first.
-spec reports(link()) -> [{pos_integer(), report()}].
reports(#link{reports = Reports}) -> queue:to_list(Reports).

%% @doc Notes that all reports up to this number were given.
-spec reported(non_neg_integer(), link()) -> link().
reported(N, #link{reports = Reports} = Link) ->
    case queue:peek(Reports) of
        {value, {First, _}} when First =< N ->
            reported(N, Link#link{reports = queue:drop(Reports)});
        _ -> Link
    end.

%% @doc Tells whether the LED is on: each press that is shown toggles it.
-spec led(link()) -> 0 | 1.
led(#link{led = Led}) -> Led.

%% @doc Describes the link for people.
-spec info(link()) -> #{boot := boot(), peer := boot() | none, up := boolean(),
                        taken := seq(), waiting := non_neg_integer(),
                        last := seq() | none, led := 0 | 1}.
info(#link{boot = Boot, peer = Peer, up = Up, next = Next, items = Items, last = Last,
           led = Led}) ->
    #{boot => Boot, peer => Peer, up => Up, taken => Next - 1, waiting => queue:len(Items),
      last => Last, led => Led}.
