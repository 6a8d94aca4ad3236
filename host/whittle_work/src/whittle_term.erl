%% @doc Parses terms in text form. It reads from memory the same texts that `file:consult/1' reads
%% from files.
-module(whittle_term).

-export([parse/1, tokens/1, begins/2, text/1, all/2]).

%% @doc Parses the terms of a text. The error is a message for people.
-spec parse(binary()) -> {ok, [term()]} | {error, unicode:chardata()}.
parse(Bytes) ->
    case whittle_bounded:check_text(Bytes) of
        ok -> terms(text(Bytes), 1, []);
        {error, {too_many_atoms, Limit}} -> {error, ["it ", whittle_bounded:too_many_atoms(Limit)]}
    end.

%% @doc Reads the tokens of a text of unknown origin. It skips text that is no token, back to the
%% end of the previous form. A text with more names than this VM has room for has no tokens here.
-spec tokens(binary()) -> [erl_scan:token()].
tokens(Bytes) ->
    case whittle_bounded:check_text(Bytes) of
        ok -> tokens(text(Bytes), []);
        {error, _} -> []
    end.

%% @doc Tells whether a text begins with a term. The term must end within the given number of
%% bytes. The last term of a text may end without a newline.
-spec begins(binary(), pos_integer()) -> boolean().
begins(Bytes, Within) ->
    First = binary:part(Bytes, 0, min(Within, byte_size(Bytes))),
    case whittle_bounded:check_text(First) =:= ok andalso erl_scan:tokens([], text(First), 1) of
        {done, {ok, Tokens, _}, _} -> is_term(Tokens);
        {more, Continuation} when byte_size(Bytes) < Within ->
            case erl_scan:tokens(Continuation, eof, 1) of
                {done, {ok, Tokens, _}, _} -> is_term(Tokens);
                _ -> false
            end;
        _ -> false
    end.

%% @doc Tells whether a term is a list whose elements all pass a test. Terms that a person wrote may
%% be another kind of term, or an improper list: these give false.
-spec all(fun((term()) -> boolean()), term()) -> boolean().
all(Test, List) when length(List) >= 0 -> lists:all(Test, List);
all(_, _) -> false.

%% @doc Decodes a text from UTF-8. It decodes from Latin-1 if the first lines of the text declare
%% that encoding or if the text is not valid UTF-8.
-spec text(binary()) -> string().
text(Bytes) ->
    Encoding = case epp:read_encoding_from_binary(Bytes) of
                   none -> utf8;
                   Named -> Named
               end,
    case unicode:characters_to_list(Bytes, Encoding) of
        Text when is_list(Text) -> Text;
        _ -> binary_to_list(Bytes)
    end.

tokens(Text, Found) ->
    case erl_scan:tokens([], Text, 1) of
        {done, {ok, Tokens, _}, Rest} -> tokens(Rest, [Tokens | Found]);
        {done, {error, _, _}, [_ | _] = Rest} -> tokens(Rest, Found);
        {more, Continuation} -> last_tokens(erl_scan:tokens(Continuation, eof, 1), Found);
        {done, _, _} -> lists:append(lists:reverse(Found))
    end.

last_tokens({done, {ok, Tokens, _}, _}, Found) ->
    lists:append(lists:reverse([Tokens | Found]));
last_tokens(_, Found) ->
    lists:append(lists:reverse(Found)).

is_term(Tokens) -> element(1, erl_parse:parse_term(Tokens)) =:= ok.

terms(Text, Line, Terms) ->
    case erl_scan:tokens([], Text, Line) of
        {done, {ok, Tokens, Next}, Rest} ->
            case erl_parse:parse_term(Tokens) of
                {ok, Term} -> terms(Rest, Next, [Term | Terms]);
                {error, Error} -> {error, message(Error)}
            end;
        {done, {eof, _}, _} -> {ok, lists:reverse(Terms)};
        {done, {error, Error, _}, _} -> {error, message(Error)};
        {more, _} when Text =:= eof -> {ok, lists:reverse(Terms)};
        {more, Continuation} -> last_terms(Continuation, Line, Terms)
    end.

%% Parses the end of the text. The rest must be white space or one complete term.
last_terms(Continuation, Line, Terms) ->
    case erl_scan:tokens(Continuation, eof, Line) of
        {done, {eof, _}, _} -> {ok, lists:reverse(Terms)};
        {done, {ok, Tokens, _}, _} ->
            case erl_parse:parse_term(Tokens) of
                {ok, Term} -> {ok, lists:reverse([Term | Terms])};
                {error, Error} -> {error, message(Error)}
            end;
        {done, {error, Error, _}, _} -> {error, message(Error)}
    end.

message({Line, erl_parse, [_, []]}) ->
    io_lib:format("line ~w: the text ends inside a term; end every term with a full stop",
                  [line(Line)]);
message({Line, Module, Error}) ->
    io_lib:format("line ~w: ~ts", [line(Line), Module:format_error(Error)]).

line({Line, _}) -> Line;
line(Line) -> Line.
