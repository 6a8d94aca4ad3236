%% @doc Terms to JSON text (RFC 8259), since OTP 25 has no such module.
%%
%% Maps are objects, in the order of their keys; lists are arrays; binaries are
%% strings in UTF-8; `true', `false' and `null' are themselves, other atoms are
%% strings.
-module(whittle_json).

-export([encode/1]).

-export_type([json/0]).

-type json() :: #{atom() | binary() => json()} | [json()] | binary()
              | integer() | float() | atom().

%% @doc One JSON text on one line, without an end of line. Text that is no
%% UTF-8 raises `badarg'.
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
