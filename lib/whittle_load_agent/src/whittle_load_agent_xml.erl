%% @doc Reads a stream of XML as XMPP sends it: a root element whose children arrive one by one.
%%
%% RFC 6120, section 11.1, forbids comments, processing instructions, document types and entity
%% declarations, so this module reads elements, attributes, text, CDATA and the five predefined
%% entities only. Names keep their prefixes. Between two children the state is a few words.
%% @hidden
-module(whittle_load_agent_xml).

-export([new/0, feed/2, attribute/2, child/2, text/1, escape/1]).

-export_type([state/0, event/0, element/0]).

%% The bytes that are not read yet, those of the next child before them, the number of open
%% elements, and the piece that the bytes continue. A large child that arrives in small reads must
%% not be copied or searched by each, so the bytes before grow at their end, and nothing matches
%% them.
-opaque state() :: {binary(), binary(), non_neg_integer(), inside()}.

%% A tag, perhaps within a quote, or a piece until a pattern
-type inside() :: none | {tag, none | $" | $'} | {declaration | text | close, binary()}.

-type event() :: {opened, element()}                    % the root, without children
               | {child, element()}
               | closed.

-type element() :: {Name :: binary(), [{binary(), binary()}], [element() | binary()]}.

%% The largest child in bytes, and the most elements in each other. A server that sends more must
%% not fill the memory.
-define(LARGEST, 1_000_000).
-define(DEEPEST, 100).

%% @doc Makes the state at the beginning of a stream.
-spec new() -> state().
new() -> {<<>>, <<>>, 0, none}.

%% @doc Reads the next bytes of a stream.
-spec feed(binary(), state()) -> {ok, [event()], state()} | {error, bad_xml | too_long}.
feed(Bytes, {Before, Read, Depth, Inside}) ->
    try scan(<<Before/binary, Bytes/binary>>, 0, Inside, Read, Depth, [])
    catch throw:Reason -> {error, Reason}
    end.

%% @doc Returns the value of an attribute.
-spec attribute(binary(), element()) -> {ok, binary()} | none.
attribute(Name, {_, Attributes, _}) ->
    case lists:keyfind(Name, 1, Attributes) of
        {_, Value} -> {ok, Value};
        false -> none
    end.

%% @doc Returns the first child with a name.
-spec child(binary(), element()) -> {ok, element()} | none.
child(Name, {_, _, Children}) ->
    case [Child || {Of, _, _} = Child <- Children, Of =:= Name] of
        [First | _] -> {ok, First};
        [] -> none
    end.

%% @doc Returns the text between the tags of an element.
-spec text(element()) -> binary().
text({_, _, Children}) -> iolist_to_binary([Text || Text <- Children, is_binary(Text)]).

%% @doc Writes a text so that it can stand in an element or in an attribute.
-spec escape(binary()) -> iodata().
escape(Text) ->
    case binary:match(Text, [<<"<">>, <<"&">>, <<">">>, <<"\"">>, <<"'">>]) of
        nomatch -> Text;
        _ -> [escaped(Byte) || <<Byte>> <= Text]
    end.

escaped($<) -> "&lt;";
escaped($>) -> "&gt;";
escaped($&) -> "&amp;";
escaped($") -> "&quot;";
escaped($') -> "&apos;";
escaped(Byte) -> Byte.

%% Internal functions: where a child ends

%% Position is that of the next piece to read. A child begins with the bytes in Read and goes on at
%% the first byte.
scan(Bytes, Position, Inside, Read, Depth, Events) ->
    case piece(Bytes, Position, Inside) of
        {more, At, Next} ->
            _ = [throw(too_long) || byte_size(Read) + byte_size(Bytes) > ?LARGEST],
            Longer = case Next of
                         %% Text between two children has no meaning.
                         none when Depth =< 1 -> Read;
                         _ -> <<Read/binary, (binary:part(Bytes, 0, At))/binary>>
                     end,
            {ok, lists:reverse(Events), {binary:copy(rest(Bytes, At)), Longer, Depth, Next}};
        {declaration, End} when Depth =:= 0 -> scan(rest(Bytes, End), 0, none, <<>>, 0, Events);
        {declaration, _} -> throw(bad_xml);
        {_, _} when Depth > ?DEEPEST -> throw(too_long);
        {text, End} when Depth =< 1 -> scan(rest(Bytes, End), 0, none, <<>>, Depth, Events);
        {text, End} -> scan(Bytes, End, none, Read, Depth, Events);
        {open, End} when Depth =:= 0 ->
            scan(rest(Bytes, End), 0, none, <<>>, 1,
                 [{opened, root(whole(Read, Bytes, End))} | Events]);
        {open, End} -> scan(Bytes, End, none, Read, Depth + 1, Events);
        {empty, End} when Depth =:= 1 -> complete(Bytes, End, Read, Events);
        {empty, End} when Depth > 1 -> scan(Bytes, End, none, Read, Depth, Events);
        {close, End} when Depth =:= 2 -> complete(Bytes, End, Read, Events);
        {close, End} when Depth > 2 -> scan(Bytes, End, none, Read, Depth - 1, Events);
        {close, End} when Depth =:= 1 ->
            scan(rest(Bytes, End), 0, none, <<>>, 0, [closed | Events]);
        _ -> throw(bad_xml)
    end.

complete(Bytes, End, Read, Events) ->
    {Element, <<>>} = element(whole(Read, Bytes, End)),
    scan(rest(Bytes, End), 0, none, <<>>, 1, [{child, Element} | Events]).

whole(<<>>, Bytes, End) -> binary:part(Bytes, 0, End);
whole(Read, Bytes, End) -> <<Read/binary, (binary:part(Bytes, 0, End))/binary>>.

rest(Bytes, End) -> binary:part(Bytes, End, byte_size(Bytes) - End).

%% The kind and the end of the next piece. With `more' the piece has no end yet; nobody needs to
%% search the bytes before the position again.
piece(Bytes, At, {tag, Quote}) -> end_of_tag(Bytes, At, Quote);
piece(Bytes, At, {Kind, Pattern}) -> until(Bytes, At, Kind, Pattern);
piece(Bytes, At, none) ->
    case Bytes of
        <<_:At/binary, "<?", _/binary>> -> until(Bytes, At, declaration, <<"?>">>);
        <<_:At/binary, "<![CDATA[", _/binary>> -> until(Bytes, At, text, <<"]]>">>);
        <<_:At/binary, "<!", Rest/binary>> when byte_size(Rest) < 7 ->
            case binary:longest_common_prefix([Rest, <<"[CDATA[">>]) =:= byte_size(Rest) of
                true -> {more, At, none};
                false -> throw(bad_xml)
            end;
        <<_:At/binary, "<!", _/binary>> -> throw(bad_xml);
        <<_:At/binary, "</", _/binary>> -> until(Bytes, At, close, <<">">>);
        <<_:At/binary, "<", _, _/binary>> -> end_of_tag(Bytes, At + 1, none);
        <<_:At/binary, "<">> -> {more, At, none};
        _ ->
            case binary:match(Bytes, <<"<">>, [{scope, {At, byte_size(Bytes) - At}}]) of
                {End, 1} -> {text, End};
                nomatch -> {more, byte_size(Bytes), none}
            end
    end.

%% The last bytes may be the first ones of the pattern.
until(Bytes, At, Kind, Pattern) ->
    case binary:match(Bytes, Pattern, [{scope, {At, byte_size(Bytes) - At}}]) of
        {Found, Length} -> {Kind, Found + Length};
        nomatch -> {more, max(At, byte_size(Bytes) - byte_size(Pattern) + 1), {Kind, Pattern}}
    end.

%% A `>' in quotes does not end the tag. The last byte may be the `/' of an empty element. A tag is
%% short, and a loop is faster there than binary:match/2, which compiles its patterns each time.
end_of_tag(Bytes, At, Quote) ->
    <<_:At/binary, Rest/binary>> = Bytes,
    in_tag(Rest, Quote, At, At, Bytes).

%% Since is the first byte that may be the `/'.
in_tag(<<$>, _/binary>>, none, At, Since, Bytes) ->
    %% If a read ended within the tag, the byte before may be missing: it was a quote.
    case At > Since andalso binary:at(Bytes, At - 1) of
        $/ -> {empty, At + 1};
        _ -> {open, At + 1}
    end;
in_tag(<<Quote, Rest/binary>>, none, At, _, Bytes) when Quote =:= $"; Quote =:= $' ->
    in_tag(Rest, Quote, At + 1, At + 1, Bytes);
in_tag(<<Quote, Rest/binary>>, Quote, At, _, Bytes) -> in_tag(Rest, none, At + 1, At + 1, Bytes);
in_tag(<<_, Rest/binary>>, Quote, At, Since, Bytes) -> in_tag(Rest, Quote, At + 1, Since, Bytes);
in_tag(<<>>, none, At, Since, _) -> {more, max(Since, At - 1), {tag, none}};
in_tag(<<>>, Quote, At, _, _) -> {more, At, {tag, Quote}}.

%% Internal functions: elements

root(Bytes) ->
    case opening(Bytes) of
        {Name, Attributes, open, <<>>} -> {Name, Attributes, []};
        _ -> throw(bad_xml)
    end.

element(Bytes) ->
    case opening(Bytes) of
        {Name, Attributes, empty, Rest} -> {{Name, Attributes, []}, Rest};
        {Name, Attributes, open, Rest} ->
            {Children, Last} = content(Rest, Name, []),
            {{Name, Attributes, Children}, Last}
    end.

content(Bytes, Name, Children) ->
    Length = byte_size(Name),
    case Bytes of
        <<"</", Name:Length/binary, Rest/binary>> ->
            case blank(Rest) of
                <<">", Last/binary>> -> {lists:reverse(Children), Last};
                _ -> throw(bad_xml)
            end;
        <<"</", _/binary>> -> throw(bad_xml);
        <<"<![CDATA[", Rest/binary>> ->
            case binary:split(Rest, <<"]]>">>) of
                [Text, Last] -> content(Last, Name, [Text | Children]);
                [_] -> throw(bad_xml)
            end;
        <<"<", _/binary>> ->
            {Child, Rest} = element(Bytes),
            content(Rest, Name, [Child | Children]);
        <<>> -> throw(bad_xml);
        _ ->
            case binary:match(Bytes, <<"<">>) of
                {End, 1} ->
                    content(rest(Bytes, End), Name,
                            [unescaped(binary:part(Bytes, 0, End)) | Children]);
                nomatch -> throw(bad_xml)
            end
    end.

opening(<<"<", Bytes/binary>>) ->
    {Name, Rest} = name(Bytes),
    attributes(blank(Rest), Name, []).

attributes(<<"/>", Rest/binary>>, Name, Attributes) ->
    {Name, lists:reverse(Attributes), empty, Rest};
attributes(<<">", Rest/binary>>, Name, Attributes) ->
    {Name, lists:reverse(Attributes), open, Rest};
attributes(Bytes, Name, Attributes) ->
    {Attribute, Rest} = name(Bytes),
    case blank(Rest) of
        <<"=", After/binary>> ->
            case blank(After) of
                <<Quote, Text/binary>> when Quote =:= $"; Quote =:= $' ->
                    case index(Text, Quote, 0) of
                        none -> throw(bad_xml);
                        Length ->
                            <<Value:Length/binary, _, Last/binary>> = Text,
                            attributes(blank(Last), Name,
                                       [{Attribute, unescaped(Value)} | Attributes])
                    end;
                _ -> throw(bad_xml)
            end;
        _ -> throw(bad_xml)
    end.

name(Bytes) ->
    case name_length(Bytes, 0) of
        0 -> throw(bad_xml);
        Length -> {binary:part(Bytes, 0, Length), rest(Bytes, Length)}
    end.

name_length(<<Char, Rest/binary>>, Length)
  when Char =/= $\s, Char =/= $>, Char =/= $/, Char =/= $=, Char =/= $\n, Char =/= $\t,
       Char =/= $\r, Char =/= $<, Char =/= $", Char =/= $' ->
    name_length(Rest, Length + 1);
name_length(_, Length) -> Length.

blank(<<Char, Rest/binary>>) when Char =:= $\s; Char =:= $\n; Char =:= $\t; Char =:= $\r ->
    blank(Rest);
blank(Bytes) -> Bytes.

%% The result is a copy, so it does not keep the whole stanza.
unescaped(Text) ->
    case index(Text, $&, 0) of
        none -> binary:copy(Text);
        _ -> iolist_to_binary(pieces(Text))
    end.

%% The position of a byte
index(<<Byte, _/binary>>, Byte, At) -> At;
index(<<_, Rest/binary>>, Byte, At) -> index(Rest, Byte, At + 1);
index(<<>>, _, _) -> none.

pieces(Text) ->
    case binary:split(Text, <<"&">>) of
        [_] -> [Text];
        [Before, After] ->
            case binary:split(After, <<";">>) of
                [Entity, Rest] -> [Before, entity(Entity) | pieces(Rest)];
                [_] -> throw(bad_xml)
            end
    end.

entity(<<"lt">>) -> <<"<">>;
entity(<<"gt">>) -> <<">">>;
entity(<<"amp">>) -> <<"&">>;
entity(<<"quot">>) -> <<"\"">>;
entity(<<"apos">>) -> <<"'">>;
entity(<<"#x", Hex/binary>>) -> character(Hex, 16);
entity(<<"#", Digits/binary>>) -> character(Digits, 10);
entity(_) -> throw(bad_xml).

character(Digits, Base) when byte_size(Digits) < 8 ->
    try <<(binary_to_integer(Digits, Base))/utf8>>
    catch error:badarg -> throw(bad_xml)
    end;
character(_, _) -> throw(bad_xml).
