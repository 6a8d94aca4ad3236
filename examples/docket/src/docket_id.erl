%% @doc Makes the ids of cases: numbers that grow with time, differ between nodes, and have 12
%% characters.
%%
%% An id has 59 bits, so that the VM holds it in a word: 41 bits of milliseconds since 2020 (until
%% 2089), 6 bits for the node, and 12 bits for the ids that a node makes within a millisecond. Its
%% text has the characters of Crockford's Base32 (https://www.crockford.com/base32.html), so texts
%% sort as the numbers do.
%% @hidden
-module(docket_id).

-export([source/1, new/2, to_text/1, from_text/1]).

-export_type([id/0, source/0]).

-type id() :: 0..576460752303423487.

-opaque source() :: {Node :: 0..63, Last :: atomics:atomics_ref()}.

-define(SINCE, 1577836800000).          % 2020-01-01T00:00:00Z in milliseconds
-define(ALPHABET, "0123456789ABCDEFGHJKMNPQRSTVWXYZ").

%% @doc Makes a source of ids for the node with this number.
-spec source(0..63) -> source().
source(Node) -> {Node, atomics:new(1, [{signed, false}])}.

%% @doc Makes an id. Now is the time in milliseconds since 1970. If the clock goes back, the ids of
%% this source grow nevertheless.
-spec new(source(), Now :: integer()) -> id().
new({Node, Last}, Now) ->
    Step = step(Last, atomics:get(Last, 1), max(0, Now - ?SINCE) bsl 12),
    (((Step bsr 12) band 16#1FFFFFFFFFF) bsl 18) bor (Node bsl 12) bor (Step band 16#FFF).

step(Last, Before, Wanted) ->
    Next = max(Wanted, Before + 1),
    case atomics:compare_exchange(Last, 1, Before, Next) of
        ok -> Next;
        Other -> step(Last, Other, Wanted)
    end.

%% @doc Writes an id as 12 characters.
-spec to_text(id()) -> binary().
to_text(Id) -> << <<(element(Digit + 1, list_to_tuple(?ALPHABET)))>> || <<Digit:5>> <= <<Id:60>> >>.

%% @doc Reads an id. Only the text that to_text/1 writes is valid: each id has one address.
-spec from_text(binary()) -> {ok, id()} | error.
from_text(Text) when byte_size(Text) =:= 12 ->
    try << <<(digit(Char)):5>> || <<Char>> <= Text >> of
        <<0:1, Id:59>> -> {ok, Id};
        _ -> error
    catch throw:bad_digit -> error
    end;
from_text(_) -> error.

digit(Char) -> digit(Char, ?ALPHABET, 0).

digit(Char, [Char | _], N) -> N;
digit(Char, [_ | More], N) -> digit(Char, More, N + 1);
digit(_, [], _) -> throw(bad_digit).
