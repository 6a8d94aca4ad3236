%% @doc Reads a stream of XML as XMPP sends it: a root element whose children arrive one by one.
%%
%% RFC 6120, section 11.1, forbids comments, processing instructions, document types and entity
%% declarations, so this module reads elements, attributes, text, CDATA and the five predefined
%% entities only. Names keep their prefixes. Between two children the state is a few words.
%% @hidden
-module(whittle_load_agent_xml).

-export([new/0, feed/2, attribute/2, child/2, text/1, escape/1]).

-export_type([state/0, event/0, element/0]).

%% The bytes that are not read yet, those of the next child before them with their size, and the
%% number of open elements. A large child that arrives in small reads must not be copied by each.
-opaque state() :: {binary(), {iodata(), non_neg_integer()}, non_neg_integer()}.

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
new() -> {<<>>, {[], 0}, 0}.

%% @doc Reads the next bytes of a stream.
-spec feed(binary(), state()) -> {ok, [event()], state()} | {error, bad_xml | too_long}.
feed(Bytes, {Before, Read, Depth}) ->
    try scan(<<Before/binary, Bytes/binary>>, 0, Read, Depth, [])
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

%% Position is that of the next tag or text to read. A child begins with the bytes in Read and goes
%% on at the first byte.
scan(Bytes, Position, {Before, Size} = Read, Depth, Events) ->
    case tag(Bytes, Position) of
        more ->
            _ = [throw(too_long) || Size + byte_size(Bytes) > ?LARGEST],
            At = case Bytes of
                     <<_:Position/binary, "<", _/binary>> -> Position;
                     %% The text so far, or nothing
                     _ -> byte_size(Bytes)
                 end,
            Next = case Depth of
                       %% Text between two children has no meaning.
                       _ when Depth =< 1 -> Read;
                       _ -> {[Before, binary:copy(binary:part(Bytes, 0, At))], Size + At}
                   end,
            {ok, lists:reverse(Events), {binary:copy(rest(Bytes, At)), Next, Depth}};
        {declaration, End} when Depth =:= 0 -> scan(rest(Bytes, End), 0, Read, 0, Events);
        {declaration, _} -> throw(bad_xml);
        {_, _} when Depth > ?DEEPEST -> throw(too_long);
        {text, End} when Depth =< 1 -> scan(rest(Bytes, End), 0, Read, Depth, Events);
        {text, End} -> scan(Bytes, End, Read, Depth, Events);
        {open, End} when Depth =:= 0 ->
            scan(rest(Bytes, End), 0, Read, 1,
                 [{opened, root(binary:part(Bytes, 0, End))} | Events]);
        {open, End} -> scan(Bytes, End, Read, Depth + 1, Events);
        {empty, End} when Depth =:= 1 -> complete(Bytes, End, Read, Events);
        {empty, End} when Depth > 1 -> scan(Bytes, End, Read, Depth, Events);
        {close, End} when Depth =:= 2 -> complete(Bytes, End, Read, Events);
        {close, End} when Depth > 2 -> scan(Bytes, End, Read, Depth - 1, Events);
        {close, End} when Depth =:= 1 -> scan(rest(Bytes, End), 0, Read, 0, [closed | Events]);
        _ -> throw(bad_xml)
    end.

complete(Bytes, End, {Before, _}, Events) ->
    {Element, <<>>} = element(iolist_to_binary([Before, binary:part(Bytes, 0, End)])),
    scan(rest(Bytes, End), 0, {[], 0}, 1, [{child, Element} | Events]).

rest(Bytes, End) -> binary:part(Bytes, End, byte_size(Bytes) - End).

%% The kind and the end of the next piece.
tag(Bytes, At) ->
    case Bytes of
        <<_:At/binary, "<?", _/binary>> -> until(Bytes, At, <<"?>">>, declaration);
        <<_:At/binary, "<![CDATA[", _/binary>> -> until(Bytes, At, <<"]]>">>, text);
        <<_:At/binary, "<!", Rest/binary>> when byte_size(Rest) < 7 ->
            case binary:longest_common_prefix([Rest, <<"[CDATA[">>]) =:= byte_size(Rest) of
                true -> more;
                false -> throw(bad_xml)
            end;
        <<_:At/binary, "<!", _/binary>> -> throw(bad_xml);
        <<_:At/binary, "</", _/binary>> -> until(Bytes, At, <<">">>, close);
        <<_:At/binary, "<", _, _/binary>> -> end_of_tag(Bytes, At + 1);
        <<_:At/binary, "<">> -> more;
        <<_:At/binary>> -> more;
        _ ->
            case binary:match(Bytes, <<"<">>, [{scope, {At, byte_size(Bytes) - At}}]) of
                {End, 1} -> {text, End};
                nomatch -> more
            end
    end.

until(Bytes, At, Pattern, Kind) ->
    case binary:match(Bytes, Pattern, [{scope, {At, byte_size(Bytes) - At}}]) of
        {Found, Length} -> {Kind, Found + Length};
        nomatch -> more
    end.

%% A `>' in quotes does not end the tag.
end_of_tag(Bytes, At) ->
    Scope = {At, byte_size(Bytes) - At},
    case binary:match(Bytes, [<<">">>, <<"\"">>, <<"'">>], [{scope, Scope}]) of
        nomatch -> more;
        {Found, 1} ->
            case binary:at(Bytes, Found) of
                $> ->
                    case binary:at(Bytes, Found - 1) of
                        $/ -> {empty, Found + 1};
                        _ -> {open, Found + 1}
                    end;
                Quote ->
                    case binary:match(Bytes, <<Quote>>,
                                      [{scope, {Found + 1, byte_size(Bytes) - Found - 1}}]) of
                        {Closed, 1} -> end_of_tag(Bytes, Closed + 1);
                        nomatch -> more
                    end
            end
    end.

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
    {Name, Rest} = name(Bytes, 0),
    attributes(blank(Rest), Name, []).

attributes(<<"/>", Rest/binary>>, Name, Attributes) ->
    {Name, lists:reverse(Attributes), empty, Rest};
attributes(<<">", Rest/binary>>, Name, Attributes) ->
    {Name, lists:reverse(Attributes), open, Rest};
attributes(Bytes, Name, Attributes) ->
    {Attribute, Rest} = name(Bytes, 0),
    case blank(Rest) of
        <<"=", After/binary>> ->
            case blank(After) of
                <<Quote, Text/binary>> when Quote =:= $"; Quote =:= $' ->
                    case binary:split(Text, <<Quote>>) of
                        [Value, Last] ->
                            attributes(blank(Last), Name,
                                       [{Attribute, unescaped(Value)} | Attributes]);
                        [_] -> throw(bad_xml)
                    end;
                _ -> throw(bad_xml)
            end;
        _ -> throw(bad_xml)
    end.

name(Bytes, Length) ->
    case Bytes of
        <<_:Length/binary, Char, _/binary>>
          when Char =/= $\s, Char =/= $>, Char =/= $/, Char =/= $=, Char =/= $\n, Char =/= $\t,
               Char =/= $\r, Char =/= $<, Char =/= $", Char =/= $' ->
            name(Bytes, Length + 1);
        <<Name:Length/binary, Rest/binary>> when Length > 0 -> {Name, Rest};
        _ -> throw(bad_xml)
    end.

blank(<<Char, Rest/binary>>) when Char =:= $\s; Char =:= $\n; Char =:= $\t; Char =:= $\r ->
    blank(Rest);
blank(Bytes) -> Bytes.

%% The result is a copy, so it does not keep the whole stanza.
unescaped(Text) -> iolist_to_binary(pieces(Text)).

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
