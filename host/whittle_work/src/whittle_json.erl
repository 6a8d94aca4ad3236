%% @doc Encodes terms as JSON text (RFC 8259), and decodes texts of unknown origin. OTP 25 has no
%% module for that.
%%
%% A map becomes an object, with its keys in order. A list becomes an array. A binary becomes a
%% string in UTF-8. The atoms `true', `false' and `null' keep their meaning, and other atoms
%% become strings.
-module(whittle_json).

-export([encode/1, decode/1]).

-export_type([json/0]).

-type json() :: #{atom() | binary() => json()} | [json()] | binary()
              | integer() | float() | atom().

%% The most digits of a number in a text of unknown origin.
-define(LONGEST_NUMBER, 20_000).

%% @doc Encodes a term as JSON on one line, without a newline at its end. The function raises
%% `badarg' for a text that is not UTF-8.
-spec encode(json()) -> iodata().
encode(Map) when is_map(Map) ->
    Members = lists:sort([{key(Key), Value} || {Key, Value} <- maps:to_list(Map)]),
    [${, join([[string(Key), $:, encode(Value)] || {Key, Value} <- Members]), $}];
encode(List) when is_list(List) -> [$[, join([encode(Value) || Value <- List]), $]];
encode(true) -> <<"true">>;
encode(false) -> <<"false">>;
encode(null) -> <<"null">>;
encode(Atom) when is_atom(Atom) -> string(atom_to_binary(Atom));
encode(Integer) when is_integer(Integer) -> integer_to_binary(Integer);
encode(Float) when is_float(Float) -> float_to_binary(Float, [short]);
encode(Text) when is_binary(Text) -> string(Text).

%% @doc Decodes a text of unknown origin. An object becomes a map whose keys are binaries. A text
%% with more than 20,000 digits in a row is an error: jiffy reads a number in a time that grows with
%% the square of its digits, in which no signal can end the VM.
-spec decode(binary()) -> {ok, term()} | error.
decode(Text) ->
    try false = has_long_number(Text, 0), {ok, jiffy:decode(Text, [return_maps])}
    catch _:_ -> error
    end.

has_long_number(_, Digits) when Digits > ?LONGEST_NUMBER -> true;
has_long_number(<<C, Rest/binary>>, Digits) when C >= $0, C =< $9 ->
    has_long_number(Rest, Digits + 1);
has_long_number(<<_, Rest/binary>>, _) -> has_long_number(Rest, 0);
has_long_number(<<>>, _) -> false.

key(Key) when is_atom(Key) -> atom_to_binary(Key);
key(Key) when is_binary(Key) -> Key.

join(Parts) -> lists:join($,, Parts).

string(Text) ->
    case unicode:characters_to_list(Text) of
        Chars when is_list(Chars) ->
            [$", unicode:characters_to_binary([escape(Char) || Char <- Chars]), $"];
        _ ->
            error(badarg, [Text])
    end.

escape($") -> "\\\"";
escape($\\) -> "\\\\";
escape($\n) -> "\\n";
escape($\r) -> "\\r";
escape($\t) -> "\\t";
escape(Char) when Char < 32 -> io_lib:format("\\u~4.16.0b", [Char]);
escape(Char) -> Char.
