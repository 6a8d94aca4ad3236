%% Tests the parser of the stream with whole streams, with streams in any pieces, and with hostile
%% bytes.
-module(presence_xml_SUITE).
-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([stream/1, entities/1, refused/1, bounds/1, costs/1, any_pieces/1, hostile/1, written/1,
         linear/1]).

-define(LARGEST, 1000).

all() -> [stream, entities, refused, bounds, costs, any_pieces, hostile, written, linear].

init_per_testcase(_, Config) -> Config.

end_per_testcase(_, _) -> ok.

stream(_) ->
    {ok, Events, State} =
        feed(<<"<?xml version='1.0'?>\n<stream:stream to='a'> <iq id='1' type=\"get\" >"
               "<query xmlns='x'/></iq>\n<presence/><message><body>hi</body></message>">>, new()),
    ?assertEqual([{opened, {<<"stream:stream">>, [{<<"to">>, <<"a">>}], []}},
                  {stanza, {<<"iq">>, [{<<"id">>, <<"1">>}, {<<"type">>, <<"get">>}],
                            [{<<"query">>, [{<<"xmlns">>, <<"x">>}], []}]}},
                  {stanza, {<<"presence">>, [], []}},
                  {stanza, {<<"message">>, [], [{<<"body">>, [], [<<"hi">>]}]}}], Events),
    %% Between two stanzas the state takes no memory of its own.
    ?assertEqual(0, erts_debug:flat_size(State)),
    ?assertMatch({ok, [closed], _}, feed(<<"</stream:stream>">>, State)),
    ?assertEqual({ok, [], State}, feed(binary:copy(<<" \n">>, ?LARGEST), State)).

entities(_) ->
    ?assertEqual(<<"<&>\"'", 16#20ac/utf8, "A">>,
                 text(<<"&lt;&amp;&gt;&quot;&apos;&#8364;&#x41;">>)),
    ?assertEqual(<<"a<b>&c">>, text(<<"a<![CDATA[<b>&]]>c">>)).

text(Xml) ->
    {ok, [{stanza, Element}], _} = feed(<<"<a>", Xml/binary, "</a>">>, opened()),
    presence_xml:text(Element).

refused(_) ->
    [?assertEqual({Xml, {error, Why}}, {Xml, feed(Xml, opened())})
     || {Xml, Why} <- [{<<"<a></b>">>, not_well_formed}, {<<"<a b='1' b='2'/>">>, not_well_formed},
                       {<<"<a b=1/>">>, not_well_formed}, {<<"<a b/>">>, not_well_formed},
                       {<<"<a b='<'/>">>, not_well_formed},
                       {<<"<a b='1'c='2'/>">>, not_well_formed},
                       {<<"text<a/>">>, not_well_formed}, {<<"< a/>">>, not_well_formed},
                       {<<"<a>&nope;</a>">>, restricted_xml}, {<<"<a>&</a>">>, not_well_formed},
                       {<<"<a>&#0;</a>">>, not_well_formed}, {<<"<a>&#-65;</a>">>, not_well_formed},
                       {<<"<a>&#99999999;</a>">>, not_well_formed},
                       {<<"<a>", 0, "</a>">>, not_well_formed},
                       {<<"<a>", 255, "</a>">>, not_well_formed},
                       {<<"<a b='", 16#ed, 16#a0, 16#80, "'/>">>, not_well_formed},
                       {<<"<!-- comment -->">>, restricted_xml},
                       {<<"<!DOCTYPE a [<!ENTITY b 'c'>]>">>, restricted_xml},
                       {<<"<?php ?>">>, restricted_xml}, {<<"<![CDATA[x]]>">>, restricted_xml}]],
    ?assertEqual({error, not_well_formed}, feed(<<"<a/>">>, new())),
    ?assertEqual({error, not_well_formed}, feed(<<"</a>">>, new())).

%% A client must not fill the memory: by a long tag, text, attribute, many children, or depth.
bounds(_) ->
    Long = binary:copy(<<"x">>, ?LARGEST),
    [?assertEqual({error, policy_violation}, feed(Xml, opened()))
     || Xml <- [<<"<", Long/binary>>, <<"<a b='", Long/binary>>, <<"<a>", Long/binary>>,
                <<"<a><![CDATA[", Long/binary>>, <<"</", Long/binary>>,
                <<"<a>", (binary:copy(<<"<b/>">>, ?LARGEST div 4))/binary>>,
                binary:copy(<<"<a>">>, 20),
                <<"<a", (list_to_binary([[" b", integer_to_list(N), "=''"]
                                         || N <- lists:seq(1, 33)]))/binary, "/>">>]],
    %% Many stanzas may follow each other, and blanks between them.
    {ok, Events, _} = feed(binary:copy(<<"<a/> ">>, ?LARGEST), opened()),
    ?assertEqual(?LARGEST, length(Events)).

%% Small elements and attributes take many times their bytes, so they cost more. An unfinished
%% stanza takes a few times the bytes that a stanza may have, with any content.
costs(_) ->
    Attributes = list_to_binary([[" ", C, "=''"] || C <- lists:seq($a, $z)]),
    [begin
         Fed = (fun Feed(State, N) ->
                        case presence_xml:feed(Piece, ?LARGEST, State) of
                            {ok, [], Next} when N < ?LARGEST ->
                                ?assert(8 * erts_debug:flat_size(Next) < 5 * ?LARGEST),
                                Feed(Next, N + 1);
                            Other -> Other
                        end
                end)(element(3, feed(<<"<a>">>, opened())), 0),
         ?assertEqual({Piece, {error, policy_violation}}, {Piece, Fed})
     end || Piece <- [<<"<b/>">>, <<"<b></b>">>, <<"x<b/>">>, <<"<![CDATA[]]>">>,
                      <<"<b", Attributes/binary, "/>">>,
                      <<"<b", Attributes/binary, "></b>">>]].

%% The pieces in which bytes arrive make no difference.
any_pieces(_) ->
    holds(?FORALL({Elements, Cuts}, {few(element(2)), list(range(1, 7))},
                  begin
                      Bytes = iolist_to_binary(["<s>", [xml(E) || E <- Elements], "</s>"]),
                      {ok, Whole, _} = presence_xml:feed(Bytes, 1_000_000, new()),
                      Expected = [{opened, {<<"s">>, [], []}}]
                          ++ [{stanza, joined(E)} || E <- Elements] ++ [closed],
                      Expected =:= [normal(E) || E <- Whole]
                          andalso Expected =:= [normal(E)
                                                || E <- pieces(Bytes, Cuts, new())]
                  end)).

%% Whatever comes, the answer is a result, and the state stays small.
hostile(_) ->
    Word = oneof([<<"<">>, <<">">>, <<"/">>, <<"'">>, <<"\"">>, <<"=">>, <<"&">>, <<";">>, <<"a">>,
                  <<" ">>, <<"<a>">>, <<"</a>">>, <<"<a b='">>, <<"<![CDATA[">>, <<"]]>">>,
                  <<"<!">>, <<"<?">>, <<"?>">>, <<"&#">>, <<"&lt;">>, binary(3),
                  ?LET(N, range(1, 300), binary:copy(<<"y">>, N))]),
    holds(?FORALL({Opened, Words}, {boolean(), list(Word)},
                  survives(Words, case Opened of true -> opened(); false -> new() end))).

survives([], _) -> true;
survives([Word | Words], State) ->
    case feed(Word, State) of
        {ok, _, Next} -> size_of(Next) < 50 * ?LARGEST andalso survives(Words, Next);
        {error, Why} -> lists:member(Why, [not_well_formed, restricted_xml, policy_violation])
    end.

size_of(State) -> erts_debug:flat_size(State) * erlang:system_info(wordsize)
                      + byte_size(term_to_binary(State)).

%% The parser reads what escape/1 writes.
written(_) ->
    holds(?FORALL(Text, ?LET(T, list(union([char_of_xml(), $<, $&, $', $", $>])),
                             unicode:characters_to_binary(T)),
                  iolist_to_binary([Text]) =:=
                      text(iolist_to_binary(presence_xml:escape(Text))))).

%% A long tag that comes byte by byte costs work in proportion to its length. Reductions count the
%% work, so the machine does not matter.
linear(_) ->
    Work = fun(N) ->
                   Tag = <<"<a b='", (binary:copy(<<"'' ">>, N))/binary>>,
                   {_, Before} = process_info(self(), reductions),
                   _ = lists:foldl(fun(Byte, S) ->
                                           {ok, [], Next} = presence_xml:feed(<<Byte>>, 100_000, S),
                                           Next
                                   end, opened(), binary_to_list(Tag)),
                   {_, After} = process_info(self(), reductions),
                   After - Before
           end,
    _ = Work(10),
    ?assert(Work(2000) < 20 * Work(400)).

%% Generators

element(0) -> ?LET({Name, Attributes}, {name(), attribute_list()}, {Name, Attributes, []});
element(Depth) ->
    ?LET({Name, Attributes, Children},
         {name(), attribute_list(), few(oneof([value(), ?LAZY(element(Depth - 1))]))},
         {Name, Attributes, Children}).

attribute_list() -> ?LET(Attributes, few({name(), value()}), lists:ukeysort(1, Attributes)).

few(Type) -> ?LET(N, range(0, 3), vector(N, Type)).

name() ->
    ?LET({First, N}, {range($a, $z), range(0, 5)},
         ?LET(Rest, vector(N, oneof([range($a, $z), $:, $-, $1])), list_to_binary([First | Rest]))).

value() ->
    ?LET(N, range(0, 10),
         ?LET(Text, vector(N, union([char_of_xml(), $<, $&, $', $"])),
              unicode:characters_to_binary(Text))).

char_of_xml() -> union([range($\s, $~), 16#e4, 16#20ac, 16#1f600, $\n, $\t]).

xml({Name, Attributes, Children}) ->
    [$<, Name, [[$\s, Key, "='", presence_xml:escape(Value), $'] || {Key, Value} <- Attributes],
     case Children of
         [] -> "/>";
         _ -> [$>, [case Child of
                        {_, _, _} -> xml(Child);
                        Text -> presence_xml:escape(Text)
                    end || Child <- Children], "</", Name, $>]
     end].

%% Texts next to each other are one text, and an empty text is none.
joined({Name, Attributes, Children}) -> {Name, Attributes, texts(Children)}.

texts([A, B | Rest]) when is_binary(A), is_binary(B) -> texts([<<A/binary, B/binary>> | Rest]);
texts([<<>> | Rest]) -> texts(Rest);
texts([{_, _, _} = Child | Rest]) -> [joined(Child) | texts(Rest)];
texts([Text | Rest]) -> [Text | texts(Rest)];
texts([]) -> [].

normal({stanza, Element}) -> {stanza, joined(Element)};
normal(Event) -> Event.

pieces(<<>>, _, _) -> [];
pieces(Bytes, [], State) -> pieces(Bytes, [5], State);
pieces(Bytes, [Cut | Cuts], State) ->
    Length = min(Cut, byte_size(Bytes)),
    <<Piece:Length/binary, Rest/binary>> = Bytes,
    {ok, Events, Next} = presence_xml:feed(Piece, 1_000_000, State),
    Events ++ pieces(Rest, Cuts, Next).

new() -> presence_xml:new().

opened() ->
    {ok, _, State} = feed(<<"<s>">>, new()),
    State.

feed(Bytes, State) -> presence_xml:feed(Bytes, ?LARGEST, State).

holds(Property) ->
    ?assert(proper:quickcheck(Property, [{numtests, 300}, {to_file, user}, noshrink])).
