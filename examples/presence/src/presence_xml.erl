%% @doc Reads the XML stream of a client that is not trusted.
%%
%% A stream is a root element whose children (stanzas) arrive one by one. RFC 6120, section 11.1,
%% forbids comments, processing instructions, document types and own entities; the parser refuses
%% them. Names keep their prefixes.
%%
%% The memory is bounded: a stanza has at most `Largest' bytes, ?DEPTH nested elements and
%% ?ATTRIBUTES attributes in an element. Each tag, text and attribute counts ?COST bytes more,
%% because a small one takes up to 20 times its bytes. The time is linear in the bytes, however they
%% are cut: the parser keeps the open elements of an unfinished stanza, and the place up to which it
%% has searched for the end of a tag. Between two stanzas the state is an atom.
%% @hidden
-module(presence_xml).

-export([new/0, feed/3, attribute/2, child/2, text/1, escape/1]).

-export_type([state/0, event/0, element/0, error/0]).

-record(part, {rest :: binary(),                      % begins with the next piece
               search :: search(),
               open :: root | [element()],            % innermost first, children reversed
               read :: non_neg_integer()}).           % cost of this stanza before the rest

%% The place from which to search for the end of the next piece, and the quote that is open there.
-type search() :: {non_neg_integer(), none | $" | $'}.

-opaque state() :: root | stanzas | #part{}.

-type event() :: {opened, element()} | {stanza, element()} | closed.

-type element() :: {Name :: binary(), [{binary(), binary()}], [element() | binary()]}.

%% The names are those of the errors of a stream (RFC 6120, section 4.9.3).
-type error() :: not_well_formed | restricted_xml | policy_violation.

-define(DEPTH, 16).
-define(ATTRIBUTES, 32).
%% The terms of `<b/>' take 72 bytes, and those of an attribute 88.
-define(COST, 32).

%% @doc Makes the state at the beginning of a stream.
-spec new() -> state().
new() -> root.

%% @doc Reads the next bytes of a stream. If there is an error, the stream has to end; the events
%% before it are lost.
-spec feed(binary(), Largest :: pos_integer(), state()) ->
          {ok, [event()], state()} | {error, error()}.
feed(Bytes, Largest, State) ->
    try fed(Bytes, Largest, State)
    catch throw:Reason -> {error, Reason}
    end.

fed(Bytes, Largest, root) -> pieces(Bytes, {0, none}, root, 0, Largest, []);
fed(Bytes, Largest, stanzas) -> pieces(Bytes, {0, none}, [], 0, Largest, []);
fed(Bytes, Largest, #part{rest = Rest, search = Search, open = Open, read = Read}) ->
    pieces(<<Rest/binary, Bytes/binary>>, Search, Open, Read, Largest, []).

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
    case lists:keyfind(Name, 1, [Child || Child <- Children, is_tuple(Child)]) of
        false -> none;
        Child -> {ok, Child}
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

%% Internal functions: pieces. A piece is a tag, a text before a tag, or a CDATA section.

pieces(Bytes, Search, Open, 0, Largest, Events) when Open =:= root; Open =:= [] ->
    %% Clients send blanks between stanzas to keep a connection alive.
    case blank(Bytes) of
        <<>> when Open =:= root -> {ok, lists:reverse(Events), root};
        <<>> -> {ok, lists:reverse(Events), stanzas};
        <<"<", _/binary>> = Tag -> next(Tag, Search, Open, 0, Largest, Events);
        _ -> throw(not_well_formed)
    end;
pieces(Bytes, Search, Open, Read, Largest, Events) ->
    next(Bytes, Search, Open, Read, Largest, Events).

next(Bytes, Search, Open, Read, Largest, Events) ->
    case piece(Bytes, Search, Open) of
        {more, Next} ->
            _ = [throw(policy_violation) || Read + byte_size(Bytes) > Largest],
            %% A copy, because a part would keep the whole message.
            {ok, lists:reverse(Events),
             #part{rest = binary:copy(Bytes), search = Next, open = Open, read = Read}};
        {Kind, End} ->
            _ = [throw(policy_violation) || Read + End > Largest],
            <<Piece:End/binary, Rest/binary>> = Bytes,
            case taken(Kind, Piece, Open) of
                {Event, Now} -> pieces(Rest, {0, none}, Now, 0, Largest, [Event | Events]);
                root -> pieces(Rest, {0, none}, root, 0, Largest, Events);
                Now ->
                    Cost = Read + End + ?COST * (1 + attributes(Kind, Now)),
                    _ = [throw(policy_violation) || Cost > Largest],
                    pieces(Rest, {0, none}, Now, Cost, Largest, Events)
            end
    end.

%% The attributes of the element that a tag has added
attributes(open, [{_, Attributes, []} | _]) -> length(Attributes);
attributes(open, [{_, _, [{_, Attributes, _} | _]} | _]) -> length(Attributes);
attributes(_, _) -> 0.

piece(<<"<?", _/binary>> = Bytes, {At, _}, root) -> found(Bytes, At, <<"?>">>, declaration);
piece(<<"<?", _/binary>>, _, _) -> throw(restricted_xml);
piece(<<"<!", Rest/binary>> = Bytes, {At, _}, Open) ->
    Length = min(byte_size(Rest), 7),
    case binary:longest_common_prefix([Rest, <<"[CDATA[">>]) of
        7 when is_list(Open), Open =/= [] -> found(Bytes, max(At, 9), <<"]]>">>, cdata);
        Length when Length < 7 -> {more, {0, none}};
        _ -> throw(restricted_xml)
    end;
piece(<<"</", _/binary>> = Bytes, {At, _}, _) -> found(Bytes, At, <<">">>, close);
piece(<<"<">>, _, _) -> {more, {0, none}};
piece(<<"<", _/binary>> = Bytes, {At, Quote}, _) -> tag(Bytes, max(At, 1), Quote);
piece(Bytes, {At, _}, _) ->
    case binary:match(Bytes, <<"<">>, [{scope, {At, byte_size(Bytes) - At}}]) of
        {End, 1} -> {text, End};
        nomatch -> {more, {byte_size(Bytes), none}}
    end.

found(Bytes, At, Pattern, Kind) ->
    case binary:match(Bytes, Pattern, [{scope, {At, byte_size(Bytes) - At}}]) of
        {Found, Length} -> {Kind, Found + Length};
        nomatch -> {more, {max(At, byte_size(Bytes) - byte_size(Pattern) + 1), none}}
    end.

%% A `>' in quotes does not end a tag.
tag(Bytes, At, none) ->
    case binary:match(Bytes, [<<">">>, <<"\"">>, <<"'">>],
                      [{scope, {At, byte_size(Bytes) - At}}]) of
        nomatch -> {more, {byte_size(Bytes), none}};
        {Found, 1} ->
            case binary:at(Bytes, Found) of
                $> -> {open, Found + 1};
                Quote -> tag(Bytes, Found + 1, Quote)
            end
    end;
tag(Bytes, At, Quote) ->
    case binary:match(Bytes, <<Quote>>, [{scope, {At, byte_size(Bytes) - At}}]) of
        nomatch -> {more, {byte_size(Bytes), Quote}};
        {Found, 1} -> tag(Bytes, Found + 1, none)
    end.

%% The open elements after a piece, with the event that it completes
taken(declaration, _, root) -> root;
taken(text, Text, [{Name, Attributes, Children} | Open]) ->
    [{Name, Attributes, [unescaped(Text) | Children]} | Open];
taken(cdata, Piece, [{Name, Attributes, Children} | Open]) ->
    Text = binary:part(Piece, 9, byte_size(Piece) - 12),
    [{Name, Attributes, [checked(binary:copy(Text)) | Children]} | Open];
taken(open, Piece, Open) ->
    case {element(Piece), Open} of
        {{empty, _}, root} -> throw(not_well_formed);
        {{open, Root}, root} -> {{opened, Root}, []};
        {{empty, Element}, _} -> complete(Element, Open);
        {{open, _}, _} when length(Open) >= ?DEPTH -> throw(policy_violation);
        {{open, Element}, _} -> [Element | Open]
    end;
taken(close, _, root) -> throw(not_well_formed);
taken(close, _, []) -> {closed, root};
taken(close, <<"</", Tag/binary>>, [{Name, Attributes, Children} | Open]) ->
    Length = byte_size(Name),
    case Tag of
        <<Name:Length/binary, Rest/binary>> ->
            case blank(Rest) of
                <<">">> -> complete({Name, Attributes, lists:reverse(Children)}, Open);
                _ -> throw(not_well_formed)
            end;
        _ -> throw(not_well_formed)
    end.

complete(Element, []) -> {{stanza, Element}, []};
complete(Element, [{Name, Attributes, Children} | Open]) ->
    [{Name, Attributes, [Element | Children]} | Open].

%% Internal functions: tags

element(<<"<", Bytes/binary>>) ->
    {Name, Rest} = name(Bytes, 0),
    attribute_list(Rest, binary:copy(Name), []).

attribute_list(Bytes, Name, Attributes) ->
    case {blank(Bytes), Bytes} of
        {<<"/>">>, _} -> {empty, {Name, lists:reverse(Attributes), []}};
        {<<">">>, _} -> {open, {Name, lists:reverse(Attributes), []}};
        %% A blank is between two attributes.
        {Same, Same} -> throw(not_well_formed);
        _ when length(Attributes) >= ?ATTRIBUTES -> throw(policy_violation);
        {Rest, _} -> attribute(Rest, Name, Attributes)
    end.

attribute(Bytes, Name, Attributes) ->
    {Key, Rest} = name(Bytes, 0),
    _ = [throw(not_well_formed) || lists:keymember(Key, 1, Attributes)],
    case blank(Rest) of
        <<"=", After/binary>> ->
            case blank(After) of
                <<Quote, Text/binary>> when Quote =:= $"; Quote =:= $' ->
                    case binary:split(Text, <<Quote>>) of
                        [Value, Last] ->
                            _ = [throw(not_well_formed)
                                 || binary:match(Value, <<"<">>) =/= nomatch],
                            attribute_list(Last, Name, [{binary:copy(Key), unescaped(Value)}
                                                        | Attributes]);
                        [_] -> throw(not_well_formed)
                    end;
                _ -> throw(not_well_formed)
            end;
        _ -> throw(not_well_formed)
    end.

%% XMPP defines no name with other characters.
name(Bytes, Length) ->
    case Bytes of
        <<_:Length/binary, Char, _/binary>>
          when Char >= $a, Char =< $z; Char >= $A, Char =< $Z; Char =:= $_;
               Length > 0, (Char >= $0 andalso Char =< $9 orelse Char =:= $: orelse Char =:= $-
                            orelse Char =:= $.) ->
            name(Bytes, Length + 1);
        <<Name:Length/binary, Rest/binary>> when Length > 0 -> {Name, Rest};
        _ -> throw(not_well_formed)
    end.

blank(<<Char, Rest/binary>>) when Char =:= $\s; Char =:= $\n; Char =:= $\t; Char =:= $\r ->
    blank(Rest);
blank(Bytes) -> Bytes.

%% Internal functions: texts

unescaped(Text) ->
    case binary:match(Text, <<"&">>) of
        nomatch -> checked(binary:copy(Text));
        _ -> checked(iolist_to_binary(entities(Text)))
    end.

entities(Text) ->
    case binary:split(Text, <<"&">>) of
        [_] -> [Text];
        [Before, After] ->
            case binary:split(After, <<";">>) of
                [Entity, Rest] -> [Before, entity(Entity) | entities(Rest)];
                [_] -> throw(not_well_formed)
            end
    end.

entity(<<"lt">>) -> "<";
entity(<<"gt">>) -> ">";
entity(<<"amp">>) -> "&";
entity(<<"quot">>) -> "\"";
entity(<<"apos">>) -> "'";
entity(<<"#x", Hex/binary>>) -> character(Hex, 16);
entity(<<"#", Digits/binary>>) -> character(Digits, 10);
entity(_) -> throw(restricted_xml).

character(<<Digit, _/binary>> = Digits, Base)
  when byte_size(Digits) < 8, Digit =/= $-, Digit =/= $+ ->
    try <<(binary_to_integer(Digits, Base))/utf8>>
    catch error:badarg -> throw(not_well_formed)
    end;
character(_, _) -> throw(not_well_formed).

%% Other clients get this text, so it has only characters that XML allows.
checked(Text) ->
    case is_xml(Text) of
        true -> Text;
        false -> throw(not_well_formed)
    end.

is_xml(<<Char/utf8, Rest/binary>>)
  when Char >= $\s, Char < 16#FFFE; Char > 16#FFFF; Char =:= $\n; Char =:= $\t; Char =:= $\r ->
    is_xml(Rest);
is_xml(Rest) -> Rest =:= <<>>.
