%% @doc Parses terms in text form. It reads from memory the same texts that `file:consult/1' of
%% OTP 29 reads from files.
-module(whittle_term).

-export([parse/1, to_text/1, has_new_strings/1, new_keywords/1, tokens/1, all_tokens/1]).
-export([begins/2, text/1, is_text/1, all/2]).

%% The most letters and digits in a row. The time to read a number grows with the square of its
%% digits: 4 ms for so many, and minutes for millions of them, in which no signal can end the VM.
-define(LONGEST_WORD, 20_000).

%% The most bits that the binaries of a term may claim. A segment such as `0:99999999999' needs few
%% bytes of text and gigabytes of memory.
-define(MOST_BITS, 80_000_000).

-define(IS_WORD(C), (C >= $0 andalso C =< $9 orelse C >= $a andalso C =< $z
                     orelse C >= $A andalso C =< $Z orelse C =:= $_)).

%% @doc Parses the terms of a text. The error is a message for people.
-spec parse(binary()) -> {ok, [term()]} | {error, unicode:chardata()}.
parse(Bytes) ->
    case {whittle_bounded:check_text(Bytes), long_words(Bytes)} of
        {ok, []} -> terms(source(Bytes), 1, []);
        {ok, _} ->
            {error, io_lib:format("it has more than ~b letters and digits in a row: divide them",
                                  [?LONGEST_WORD])};
        {{error, {too_many_atoms, Limit}}, _} ->
            {error, ["it ", whittle_bounded:too_many_atoms(Limit)]}
    end.

%% @doc Writes a file with one term that `file:consult/1' of each OTP reads. OTP 25 writes the atoms
%% `maybe' and `else' without quotes, and they are keywords of OTP 27.
-spec to_text(term()) -> binary().
to_text(Term) ->
    {ok, Tokens, _} = erl_scan:string(lists:flatten(io_lib:format("~tp", [Term])), 1,
                                      [return, text]),
    Written = [case erl_scan:text(Token) of
                   Word when Word =:= "maybe"; Word =:= "else" -> [$', Word, $'];
                   Text -> Text
               end || Token <- Tokens],
    unicode:characters_to_binary(["%% coding: utf-8\n", Written, ".\n"]).

%% @doc Tells whether a text has strings in a syntax that OTP 27 introduced.
-spec has_new_strings(binary()) -> boolean().
has_new_strings(Bytes) ->
    Text = text(Bytes),
    whittle_syntax:older(Text) =/= Text.

%% @doc Lists the atoms of a text that are keywords since OTP 27, because they have no quotes.
-spec new_keywords(binary()) -> [string()].
new_keywords(Bytes) ->
    case all_tokens(Bytes) of
        {ok, Tokens} ->
            lists:usort([Word || Token <- Tokens, Word <- [erl_scan:text(Token)],
                                 Word =:= "maybe" orelse Word =:= "else"]);
        error -> []
    end.

%% @doc Reads the tokens of a text of unknown origin. It skips text that is no token, back to the
%% end of the previous form, and takes numbers of more than 20,000 digits for 0. A text with more
%% names than this VM has room for has no tokens here.
-spec tokens(binary()) -> [erl_scan:token()].
tokens(Bytes) ->
    case whittle_bounded:check_text(Bytes) of
        ok -> tokens(source(without(long_words(Bytes), Bytes)), []);
        {error, _} -> []
    end.

%% @doc Reads all tokens of a text of unknown origin, also white space and comments, each with its
%% text. It returns `error' if erl_scan cannot read all of the text, or not safely.
-spec all_tokens(binary()) -> {ok, [erl_scan:token()]} | error.
all_tokens(Bytes) ->
    case whittle_bounded:check_text(Bytes) =:= ok andalso long_words(Bytes) =:= []
         andalso erl_scan:string(source(Bytes), 1, [return, text]) of
        {ok, Tokens, _} -> {ok, Tokens};
        _ -> error
    end.

%% @doc Tells whether a text begins with a term. The term must end within the given number of
%% bytes. The last term of a text may end without a newline.
-spec begins(binary(), pos_integer()) -> boolean().
begins(Bytes, Within) ->
    Begin = binary:part(Bytes, 0, min(Within, byte_size(Bytes))),
    First = without(long_words(Begin), Begin),
    case whittle_bounded:check_text(First) =:= ok andalso erl_scan:tokens([], source(First), 1) of
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

%% @doc Tells whether a text has the encoding that its first lines declare, or UTF-8 if they declare
%% none.
-spec is_text(binary()) -> boolean().
is_text(Bytes) ->
    epp:read_encoding_from_binary(Bytes) =:= latin1
        orelse is_list(unicode:characters_to_list(Bytes)).

%% The text may be for a newer OTP than the one that runs.
source(Bytes) ->
    case list_to_integer(erlang:system_info(otp_release)) < 27 of
        true -> whittle_syntax:older(text(Bytes));
        false -> text(Bytes)
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

%% Finds the place and the length of each word that is too long.
long_words(Bytes) -> long_words(Bytes, 0, 0, []).

long_words(<<C, Rest/binary>>, At, Length, Found) when ?IS_WORD(C) ->
    long_words(Rest, At + 1, Length + 1, Found);
long_words(<<_, Rest/binary>>, At, Length, Found) ->
    long_words(Rest, At + 1, 0, noted(At, Length, Found));
long_words(<<>>, At, Length, Found) ->
    lists:reverse(noted(At, Length, Found)).

noted(End, Length, Found) when Length > ?LONGEST_WORD -> [{End - Length, Length} | Found];
noted(_, _, Found) -> Found.

%% Puts `0' in the place of each of these words.
without([], Bytes) -> Bytes;
without(Words, Bytes) -> iolist_to_binary(without(Words, 0, Bytes)).

without([{At, Length} | Words], From, Bytes) ->
    [binary:part(Bytes, From, At - From), $0 | without(Words, At + Length, Bytes)];
without([], From, Bytes) ->
    [binary:part(Bytes, From, byte_size(Bytes) - From)].

is_term(Tokens) ->
    case parse_term(Tokens) of
        {error, {_, ?MODULE, _}} -> true;
        Parsed -> element(1, Parsed) =:= ok
    end.

%% erl_parse makes the binaries of a term, so their size is bounded before.
parse_term(Tokens) ->
    case bits(Tokens, 0) > ?MOST_BITS of
        true -> {error, {element(2, hd(Tokens)), ?MODULE, too_large}};
        false -> erl_parse:parse_term(Tokens)
    end.

%% Adds up the sizes of segments. The size behind a string is that of each of its characters.
bits([{string, _, Text} | Tokens], Characters) -> bits(Tokens, Characters + length(Text));
bits([{':', _} | Tokens], Characters) ->
    {Size, Behind} = size_of(Tokens),
    {Unit, Rest} = unit_of(Behind),
    Size * Unit * max(1, Characters) + bits(Rest, 0);
bits([_ | Tokens], _) -> bits(Tokens, 0);
bits([], _) -> 0.

size_of([{Sign, _} | Tokens]) when Sign =:= '('; Sign =:= '+'; Sign =:= '-' -> size_of(Tokens);
size_of([{integer, _, Size} | Tokens]) -> {Size, Tokens};
size_of([{char, _, Size} | Tokens]) -> {Size, Tokens};
size_of(Tokens) -> {0, Tokens}.

%% Returns the unit of a segment from the tokens behind its size: `/little-unit:8'.
unit_of([{')', _} | Tokens]) -> unit_of(Tokens);
unit_of([{'/', _} | Tokens]) -> unit_of(Tokens, 1);
unit_of(Tokens) -> {1, Tokens}.

unit_of([{atom, _, unit}, {':', _}, {integer, _, Unit} | Tokens], Other) ->
    unit_of(Tokens, max(Unit, Other));
unit_of([{'-', _} | Tokens], Unit) -> unit_of(Tokens, Unit);
unit_of([{atom, _, _}, {'-', _} | Tokens], Unit) -> unit_of(Tokens, Unit);
unit_of(Tokens, Unit) -> {Unit, Tokens}.

terms(Text, Line, Terms) ->
    case erl_scan:tokens([], Text, Line) of
        {done, {ok, Tokens, Next}, Rest} ->
            case parse_term(Tokens) of
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
            case parse_term(Tokens) of
                {ok, Term} -> {ok, lists:reverse([Term | Terms])};
                {error, Error} -> {error, message(Error)}
            end;
        {done, {error, Error, _}, _} -> {error, message(Error)}
    end.

message({Line, erl_parse, [_, []]}) ->
    io_lib:format("line ~w: the text ends inside a term; end every term with a full stop",
                  [line(Line)]);
message({Line, ?MODULE, too_large}) ->
    io_lib:format("line ~w: the binaries of the term may have at most ~ts bytes: make them smaller",
                  [line(Line), whittle_number:text(?MOST_BITS div 8)]);
message({Line, Module, Error}) ->
    io_lib:format("line ~w: ~ts", [line(Line), Module:format_error(Error)]).

line({Line, _}) -> Line;
line(Line) -> Line.
