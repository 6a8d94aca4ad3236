%% Tests the reader of XMPP streams. xmerl is the reference for what an element contains.
-module(whittle_load_agent_xml_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").
-include_lib("xmerl/include/xmerl.hrl").

-export([suite/0, all/0, init_per_testcase/2, end_per_testcase/2]).
-export([stream/1, any_pieces/1, same_as_xmerl/1, entities/1, refused/1, limits/1, noise/1,
         small_between/1, small_reads/1, single_bytes/1]).

-define(OPEN, "<?xml version='1.0'?><stream:stream from='a>b' xmlns=\"jabber:client\">").

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [stream, any_pieces, same_as_xmerl, entities, refused, limits, noise, small_between,
     small_reads, single_bytes].

init_per_testcase(_, Config) -> Config.

end_per_testcase(_, _) -> ok.

%% Each read copies and searches only bytes that are new.
small_reads(_) ->
    {ok, _, Opened} = whittle_load_agent_xml:feed(<<?OPEN, "<a>">>, whittle_load_agent_xml:new()),
    Last = lists:foldl(fun(_, State) ->
                               {ok, [], Next} = whittle_load_agent_xml:feed(<<"<b/>text<c/>x">>,
                                                                            State),
                               ?assert(byte_size(element(1, Next)) < 20),
                               Next
                       end, Opened, lists:seq(1, 1000)),
    {ok, [{child, {<<"a">>, [], Children}}], _} = whittle_load_agent_xml:feed(<<"</a>">>, Last),
    ?assertEqual(4000, length(Children)).

%% No read leaves more to search again than the next one may need, wherever the stream is cut.
single_bytes(_) ->
    Long = binary:copy(<<"/>' a ?]">>, 100),
    Attributes = [[" x", integer_to_list(N), "=\"/\""] || N <- lists:seq(1, 100)],
    Bytes = iolist_to_binary(
              ["<?xml version='1.0' ", binary:copy(<<"?">>, 100), "?>",
               "<stream:stream a=\"", Long, "\">", "<![CDATA[", Long, "]]>",
               "<b c=\"", Long, "\"/>", "<d", Attributes, "><e/><f g='h'/></d",
               binary:copy(<<" ">>, 100), ">", "<i><![CDATA[", Long, "]]]>j</i>", Long, "<k/>",
               "</stream:stream>"]),
    {Whole, _} = fed([Bytes]),
    ?assertMatch([{opened, _}, {child, {<<"b">>, _, _}}, {child, {<<"d">>, _, _}},
                  {child, {<<"i">>, _, _}}, {child, {<<"k">>, _, _}}, closed], Whole),
    {Singly, _} = lists:foldl(fun(Byte, {Events, State}) ->
                                      {ok, More, Next} =
                                          whittle_load_agent_xml:feed(<<Byte>>, State),
                                      ?assert(byte_size(element(1, Next)) < 10),
                                      {Events ++ More, Next}
                              end, {[], whittle_load_agent_xml:new()}, binary_to_list(Bytes)),
    ?assertEqual(Whole, Singly).

stream(_) ->
    {Events, _} = fed([<<?OPEN, " \n<a/><b c='d'>e<f><f>g</f></f></b>", "</stream:stream>">>]),
    ?assertEqual([{opened, {<<"stream:stream">>, [{<<"from">>, <<"a>b">>},
                                                  {<<"xmlns">>, <<"jabber:client">>}], []}},
                  {child, {<<"a">>, [], []}},
                  {child, {<<"b">>, [{<<"c">>, <<"d">>}],
                           [<<"e">>, {<<"f">>, [], [{<<"f">>, [], [<<"g">>]}]}]}},
                  closed], Events),
    {child, B} = lists:nth(3, Events),
    ?assertEqual({ok, <<"d">>}, whittle_load_agent_xml:attribute(<<"c">>, B)),
    ?assertEqual(none, whittle_load_agent_xml:attribute(<<"x">>, B)),
    ?assertMatch({ok, {<<"f">>, _, _}}, whittle_load_agent_xml:child(<<"f">>, B)),
    ?assertEqual(none, whittle_load_agent_xml:child(<<"g">>, B)),
    ?assertEqual(<<"e">>, whittle_load_agent_xml:text(B)).

%% The events do not depend on the pieces in which the bytes arrive.
any_pieces(_) ->
    ?assert(proper:quickcheck(
              ?FORALL({Elements, Cuts}, {few(4, element(2)), list(integer(0, 30))},
                      begin
                          Bytes = iolist_to_binary([?OPEN, [written(E) || E <- Elements],
                                                    "</stream:stream>"]),
                          {[{opened, _} | Events], _} = fed(pieces(Bytes, Cuts)),
                          Events =:= [{child, merged(E)} || E <- Elements] ++ [closed]
                      end), [{to_file, user}, 500])).

same_as_xmerl(_) ->
    ?assert(proper:quickcheck(
              ?FORALL(Element, element(3),
                      begin
                          Text = iolist_to_binary(written(Element)),
                          {[{opened, _}, {child, Read}], _} = fed([<<?OPEN, Text/binary>>]),
                          {Xmerl, []} = xmerl_scan:string(binary_to_list(Text),
                                                          [{quiet, true}]),
                          Read =:= of_xmerl(Xmerl)
                      end), [{to_file, user}, 300])).

entities(_) ->
    {[_, {child, Element}], _} =
        fed([<<?OPEN, "<a b='&quot;&#65;&apos;'>&lt;&gt;&amp;&#x20AC;<![CDATA[<&>]]></a>">>]),
    ?assertEqual({<<"a">>, [{<<"b">>, <<"\"A'">>}], [<<"<>&", 16#E2, 16#82, 16#AC>>, <<"<&>">>]},
                 Element),
    ?assertEqual(<<"&lt;a b=&quot;&apos;&quot;&gt;&amp;">>,
                 iolist_to_binary(whittle_load_agent_xml:escape(<<"<a b=\"'\">&">>))).

refused(_) ->
    [?assertEqual({Bad, {error, bad_xml}}, {Bad, feed([<<?OPEN>>, Bad])})
     || Bad <- [<<"<!-- c -->">>, <<"<?pi x?>">>, <<"<!DOCTYPE a>">>, <<"<a></b>">>,
                <<"<a>&x;</a>">>,
                <<"<a>&#xFFFFFFF;</a>">>, <<"<a>&#xD800;</a>">>, <<"<a b></a>">>, <<"<a b=c></a>">>,
                <<"<a 'b'/>">>, <<"< a/>">>, <<"<a>&lt</a>">>]],
    ?assertEqual({error, bad_xml}, feed([<<"</a>">>])),
    ?assertEqual({error, bad_xml}, feed([<<"<a/>">>])).

limits(_) ->
    Long = binary:copy(<<"a">>, 1_000_001),
    ?assertEqual({error, too_long}, feed([<<?OPEN>>, <<"<a>">>, Long])),
    ?assertEqual({error, too_long}, feed([<<?OPEN>>, <<"<", Long/binary>>])),
    ?assertEqual({error, too_long}, feed([<<?OPEN>>, binary:copy(<<"<a>">>, 200)])).

%% Bytes from outside end with events or an error.
noise(_) ->
    ?assert(proper:quickcheck(
              ?FORALL(Pieces, list(oneof([binary(), <<"<a>">>, <<"</a>">>, <<"<a b='">>, <<"'">>,
                                          <<"&amp;">>, <<"<![CDATA[">>, <<"]]>">>, <<"/>">>,
                                          <<?OPEN>>])),
                      case feed(Pieces) of
                          {ok, _, _} -> true;
                          {error, Reason} -> lists:member(Reason, [bad_xml, too_long])
                      end), [{to_file, user}, 1000])).

%% A user that waits keeps a few words only.
small_between(_) ->
    {_, State} = fed([<<?OPEN>>, binary:copy(<<"<a>text</a>">>, 1000), <<" ">>]),
    ?assert(erts_debug:flat_size(State) < 10).

feed(Pieces) -> feed(Pieces, [], whittle_load_agent_xml:new()).

feed([], Events, State) -> {ok, Events, State};
feed([Piece | Pieces], Events, State) ->
    case whittle_load_agent_xml:feed(Piece, State) of
        {ok, More, Next} -> feed(Pieces, Events ++ More, Next);
        {error, _} = Error -> Error
    end.

fed(Pieces) ->
    {ok, Events, State} = feed(Pieces),
    {Events, State}.

pieces(Bytes, [Cut | Cuts]) when Cut < byte_size(Bytes) ->
    <<Piece:Cut/binary, Rest/binary>> = Bytes,
    [Piece | pieces(Rest, Cuts)];
pieces(Bytes, _) -> [Bytes].

element(0) -> {name(), attributes(), []};
element(Depth) ->
    ?LET({Name, Attributes, Children},
         {name(), attributes(), few(3, oneof([text(), ?LAZY(element(Depth - 1))]))},
         {Name, Attributes, Children}).

few(Most, Type) -> ?LET(N, integer(0, Most), vector(N, Type)).

name() -> oneof([<<"a">>, <<"b">>, <<"message">>, <<"x-y">>, <<"c.d">>]).

attributes() ->
    ?LET({Names, Values}, {list(name()), vector(5, text())},
         [{Name, Value} || {Name, Value} <- lists:zip(lists:usort(Names),
                                                      lists:sublist(Values,
                                                                    length(lists:usort(Names))))]).

%% No line ends, because XML changes those in attributes.
text() -> ?LET(Chars, non_empty(list(oneof([$<, $>, $&, $", $', $a, $\s, integer($0, $~)]))),
               list_to_binary(Chars)).

written({Name, Attributes, Children}) ->
    [$<, Name, [[$\s, Attribute, "=\"", whittle_load_agent_xml:escape(Value), $"]
                || {Attribute, Value} <- Attributes], $>,
     [case Child of
          _ when is_binary(Child) -> whittle_load_agent_xml:escape(Child);
          _ -> written(Child)
      end || Child <- Children], "</", Name, $>].

%% Two texts beside each other are one.
merged({Name, Attributes, Children}) -> {Name, Attributes, together(Children)}.

together([A, B | Rest]) when is_binary(A), is_binary(B) ->
    together([<<A/binary, B/binary>> | Rest]);
together([A | Rest]) when is_binary(A) -> [A | together(Rest)];
together([Element | Rest]) -> [merged(Element) | together(Rest)];
together([]) -> [].

of_xmerl(#xmlElement{name = Name, attributes = Attributes, content = Content}) ->
    {atom_to_binary(Name),
     [{atom_to_binary(A), list_to_binary(V)} || #xmlAttribute{name = A, value = V} <- Attributes],
     together([case Child of
                   #xmlText{value = Text} -> unicode:characters_to_binary(Text);
                   _ -> of_xmerl(Child)
               end || Child <- Content])}.
