%% Tests the limits of inflating data and of decoding terms.
-module(whittle_bounded_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([inflates_to_the_end/1, inflates_up_to_the_limit/1, terms/1, compressed_terms/1, atoms/1,
         text_fits/1]).

all() ->
    [inflates_to_the_end, inflates_up_to_the_limit, terms, compressed_terms, atoms, text_fits].

%% All bytes may be present although the end and the checksum are missing.
inflates_to_the_end(_) ->
    Plain = binary:copy(<<"plain">>, 9),
    [begin
         ?assertEqual({ok, Plain}, whittle_bounded:inflate(Bits, Deflated, byte_size(Plain))),
         ?assertEqual([], [Size || Size <- lists:seq(0, byte_size(Deflated) - 1),
                                   {ok, _} <- [whittle_bounded:inflate(
                                                 Bits, binary:part(Deflated, 0, Size),
                                                 byte_size(Plain))]])
     end || {Bits, Deflated} <- [{15, zlib:compress(Plain)}, {31, zlib:gzip(Plain)},
                                 {-15, zlib:zip(Plain)}]].

inflates_up_to_the_limit(_) ->
    Plain = binary:copy(<<0>>, 100_000),
    Deflated = zlib:compress(Plain),
    ?assertEqual({ok, Plain}, whittle_bounded:inflate(15, Deflated, 100_000)),
    ?assertEqual({error, wrong_size}, whittle_bounded:inflate(15, Deflated, 99_999)),
    ?assertEqual({error, wrong_size}, whittle_bounded:inflate(15, Deflated, 1 bsl 40)),
    ?assertEqual({error, not_deflated}, whittle_bounded:inflate(15, <<"plain">>, 100)),
    ?assertEqual({error, not_deflated}, whittle_bounded:inflate(31, Deflated, 100_000)).

%% Each term comes back, and no change of its bytes stops the VM.
terms(_) ->
    made:holds(300, proper_types:term(),
               fun(Term) ->
                       Bytes = term_to_binary(Term),
                       {ok, Term} =:= whittle_bounded:term(Bytes, byte_size(Bytes))
                           andalso error =:= whittle_bounded:term(Bytes, byte_size(Bytes) - 1)
               end),
    made:holds(1000, proper_types:binary(),
               fun(Bytes) ->
                       case whittle_bounded:term(<<131, Bytes/binary>>, 1000) of
                           {ok, _} -> true;
                           error -> true
                       end
               end).

%% The limit is that of the term, not of its compressed bytes.
compressed_terms(_) ->
    Term = lists:duplicate(100_000, 0),
    Bytes = term_to_binary(Term, [compressed]),
    <<131, 80, Size:32, Deflated/binary>> = Bytes,
    ?assertEqual({ok, Term}, whittle_bounded:term(Bytes, Size)),
    ?assertEqual(error, whittle_bounded:term(Bytes, Size - 1)),
    %% The size is too small or too large.
    [?assertEqual(error, whittle_bounded:term(<<131, 80, Wrong:32, Deflated/binary>>, 1 bsl 30))
     || Wrong <- [Size - 1, Size + 1, 0]].

%% A term with more atoms than this VM has room for is refused before an atom is made. A file of
%% Whittle's own may name one atom many times.
atoms(_) ->
    Many = erlang:system_info(atom_limit),
    Bytes = iolist_to_binary([131, 108, <<Many:32>>, lists:duplicate(Many, [119, 2, "ok"]), 106]),
    ?assertEqual(error, whittle_bounded:term(Bytes, byte_size(Bytes))),
    {ok, Read} = whittle_bounded:own_term(Bytes, byte_size(Bytes)),
    ?assertEqual({Many, ok}, {length(Read), hd(Read)}).

%% Names count once, and names that are atoms already do not count.
text_fits(_) ->
    Room = erlang:system_info(atom_limit),
    ?assert(whittle_bounded:text_fits(<<"[a, 'b c', \"d\"].">>)),
    ?assert(whittle_bounded:text_fits(binary:copy(<<"lists,">>, Room))),
    ?assert(whittle_bounded:text_fits(binary:copy(<<"bounded_new_name,">>, Room))),
    New = iolist_to_binary([[$z, integer_to_binary(N), $,] || N <- lists:seq(1, Room)]),
    ?assertNot(whittle_bounded:text_fits(New)).
