%% @doc Tests reading and stripping with every module of the tests' OTP, and with damaged files.
-module(whittle_beam_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([reads_as_beam_lib/1, strips_as_told/1, loader_takes_stripped/1, plain_literals/1,
         gzipped/1, paths/1, mentions/1, needs_otp/1, obsolete/1, long_atoms/1, refuses/1, damage/1,
         cut/1, inflates_no_further/1, terms/1, many_names/1, all_atoms/1, instructions/1,
         too_old/1, damaged_code/1]).

all() ->
    [reads_as_beam_lib, strips_as_told, loader_takes_stripped, plain_literals, gzipped,
     paths, mentions, needs_otp, obsolete, long_atoms, refuses, damage, cut, inflates_no_further,
     terms, many_names, all_atoms, instructions, too_old, damaged_code].

%% whittle_beam reads the same facts as beam_lib.
reads_as_beam_lib(_) ->
    [begin
         {ok, {Module, [{imports, Imports}, {exports, Exports}, {attributes, Attributes},
                        {atoms, Atoms}]}} =
             beam_lib:chunks(Bytes, [imports, exports, attributes, atoms]),
         {ok, Beam} = whittle_beam:read(Bytes),
         ?assertEqual(Module, whittle_beam:module(Beam)),
         ?assertEqual(Imports, lists:sort(whittle_beam:imports(Beam))),
         ?assertEqual(Exports, lists:sort(whittle_beam:exports(Beam))),
         ?assertEqual([Atom || {_, Atom} <- lists:sort(Atoms)], whittle_beam:atoms(Beam)),
         ?assertEqual(lists:sort(proplists:get_keys(Attributes)),
                      lists:usort(proplists:get_keys(whittle_beam:attributes(Beam)))),
         ?assertEqual(byte_size(Bytes),
                      12 + lists:sum([Size || {_, Size} <- whittle_beam:size(Beam)]))
     end || Bytes <- beams()].

strips_as_told(_) ->
    {ok, Beam} = whittle_beam:read(beam(lists)),
    Ids = fun(Options) ->
                  {ok, Stripped} = whittle_beam:read(whittle_beam:strip(Options, Beam)),
                  [Id || {Id, _} <- whittle_beam:chunks(Stripped)]
          end,
    Plain = Ids(#{}),
    ?assert(lists:member(<<"Line">>, Plain)),
    ?assert(lists:member(<<"Type">>, Plain)),
    [?assertNot(lists:member(Id, Plain))
     || Id <- [<<"Attr">>, <<"CInf">>, <<"Dbgi">>, <<"Docs">>, <<"LocT">>]],
    ?assertEqual([<<"Type">>], Plain -- Ids(#{types => drop})),
    ?assertEqual([<<"Attr">>], Ids(#{keep => [<<"Attr">>]}) -- Plain),
    ?assertEqual([Id || {Id, _} <- whittle_beam:chunks(Beam)], Ids(#{keep => all})).

%% The loader decides: it prepares every stripped module.
loader_takes_stripped(_) ->
    Otp = list_to_integer(erlang:system_info(otp_release)),
    [begin
         {ok, Beam} = whittle_beam:read(Bytes),
         Stripped = whittle_beam:strip(#{types => drop, literals => {plain, Otp}}, Beam),
         {ok, Again} = whittle_beam:read(Stripped),
         ?assertEqual(whittle_beam:imports(Beam), whittle_beam:imports(Again)),
         %% A second strip changes nothing.
         ?assertEqual(Stripped, whittle_beam:strip(#{literals => {plain, Otp}}, Again)),
         case erlang:prepare_loading(whittle_beam:module(Beam), Stripped) of
             {error, Reason} -> error({not_loaded, whittle_beam:module(Beam), Reason});
             _Prepared -> ok
         end
     end || Bytes <- beams()].

%% Files with absolute paths keep their names, and stack traces still distinguish two files.
paths(_) ->
    Forms = [{attribute, 1, file, {"/home/me/app/src/placed.erl", 1}},
             {attribute, 1, module, placed},
             {attribute, 2, export, [{one, 0}, {two, 0}]},
             raises(one, 5),
             {attribute, 1, file, {"include/rel.hrl", 300}},
             raises(two, 301)],
    {ok, placed, Bytes} = compile:forms(Forms, [binary]),
    {ok, Beam} = whittle_beam:read(Bytes),
    Stripped = whittle_beam:strip(#{paths => drop}, Beam),
    ?assertEqual(nomatch, binary:match(Stripped, <<"/home">>)),
    ?assertMatch({_, _}, binary:match(whittle_beam:strip(#{}, Beam), <<"/home/me">>)),
    {module, placed} = code:load_binary(placed, "", Stripped),
    ?assertEqual([{"placed.erl", 5}, {"include/rel.hrl", 301}],
                 [try placed:F()
                  catch error:F:Stack ->
                          [{placed, F, 0, [{file, File}, {line, At}]} | _] = Stack,
                          {File, At}
                  end || F <- [one, two]]),
    %% A chunk without paths stays unchanged, and so does an invalid chunk.
    [?assertEqual(Line, whittle_beam_code:without_directories(Line))
     || Each <- beams(), {ok, One} <- [whittle_beam:read(Each)],
        {ok, Line} <- [whittle_beam:chunk(<<"Line">>, One)],
        binary:match(Line, <<"/">>) =:= nomatch],
    {ok, Line} = whittle_beam:chunk(<<"Line">>, Beam),
    [?assertEqual(Cut, whittle_beam_code:without_directories(Cut))
     || Size <- lists:seq(0, byte_size(Line) - 1), Cut <- [binary:part(Line, 0, Size)]].

raises(Name, Line) ->
    Call = {call, Line, {remote, Line, {atom, Line, erlang}, {atom, Line, error}},
            [{atom, Line, Name}]},
    {function, Line, Name, 0, [{clause, Line, [], [], [Call]}]}.

%% Both forms hold the same literals, and the plain form compresses better.
plain_literals(_) ->
    {ok, Beam} = whittle_beam:read(beam(unicode_util)),
    [{ok, Deflated}, {ok, Stored}, {ok, Plain}] =
        [whittle_beam:read(whittle_beam:strip(#{literals => Literals}, Beam))
         || Literals <- [keep, {plain, 25}, {plain, 28}]],
    ?assertMatch({ok, <<0:32, _/binary>>}, whittle_beam:chunk(<<"LitT">>, Plain)),
    ?assertMatch(#{otp := 28}, whittle_beam:needs_otp(Plain)),
    {ok, <<Size:32, Inner/binary>>} = whittle_beam:chunk(<<"LitT">>, Stored),
    {ok, <<0:32, Same:Size/binary>>} = whittle_beam:chunk(<<"LitT">>, Plain),
    ?assertEqual(Same, zlib:uncompress(Inner)),
    {ok, <<Size:32, _/binary>>} = whittle_beam:chunk(<<"LitT">>, Deflated).

gzipped(_) ->
    Bytes = beam(lists),
    ?assert(whittle_beam:read(Bytes) =:= whittle_beam:read(zlib:gzip(Bytes))).

mentions(_) ->
    {ok, Lists} = whittle_beam:read(beam(lists)),
    ?assert(whittle_beam:mentions(lists, Lists)),
    ?assert(whittle_beam:mentions(keyfind, Lists)),
    ?assertNot(whittle_beam:mentions(an_atom_of_this_suite, Lists)),
    {ok, This} = whittle_beam:read(element(2, code:get_object_code(?MODULE))),
    ?assert(whittle_beam:mentions(only_in_a_literal, This)),
    _ = [{a, only_in_a_literal}],
    ok.

needs_otp(_) ->
    Host = list_to_integer(erlang:system_info(otp_release)),
    {ok, Lists} = whittle_beam:read(beam(lists)),
    ?assertMatch(#{otp := Host}, whittle_beam:needs_otp(Lists)),
    %% In a stripped module only the instructions show the release.
    {ok, Stripped} = whittle_beam:read(whittle_beam:strip(#{}, Lists)),
    #{otp := Least} = whittle_beam:needs_otp(Stripped),
    ?assert(Least =< Host),
    [begin
         {ok, Beam} = whittle_beam:read(with_opcode(Opcode, whittle_beam:strip(#{}, Lists))),
         ?assertMatch(#{otp := Otp}, whittle_beam:needs_otp(Beam))
     end || {Opcode, Otp} <- [{176, 24}, {177, 25}, {182, 26}, {183, 27}, {184, 28},
                              {185, 29}, {191, 29}, {192, 30}]].

obsolete(_) ->
    Bytes = form([{<<"Code">>, code_header()}, {<<"Atom">>, <<1:32, 1, "m">>}]),
    ?assertEqual({error, {obsolete, module_of_otp_20_or_older}}, whittle_beam:read(Bytes)).

%% OTP 28 may write the atom table in this form.
long_atoms(_) ->
    Name = binary:copy(<<"é"/utf8>>, 200),
    Size = byte_size(Name),
    Atoms = <<(-2):32, 1:4, 0:4, "m", (Size bsr 8):3, 1:2, 0:3, (Size band 255), Name/binary>>,
    {ok, Beam} = whittle_beam:read(form([{<<"AtU8">>, Atoms}, {<<"Code">>, code_header()},
                                         {<<"StrT">>, <<>>}, {<<"ImpT">>, <<0:32>>},
                                         {<<"ExpT">>, <<1:32, 2:32, 0:32, 1:32>>}])),
    ?assertEqual([m, binary_to_atom(Name)], whittle_beam:atoms(Beam)),
    ?assertEqual([{binary_to_atom(Name), 0}], whittle_beam:exports(Beam)),
    ?assertMatch(#{otp := 28}, whittle_beam:needs_otp(Beam)).

refuses(_) ->
    Chunks = [{<<"AtU8">>, <<1:32, 1, "m">>}, {<<"Code">>, code_header()}, {<<"StrT">>, <<>>},
              {<<"ImpT">>, <<0:32>>}, {<<"ExpT">>, <<0:32>>}],
    {ok, _} = whittle_beam:read(form(Chunks)),
    With = fun(Id, Data) -> whittle_beam:read(form(lists:keystore(Id, 1, Chunks, {Id, Data}))) end,
    [?assertMatch({error, {damaged, {Id, missing}}},
                  whittle_beam:read(form(lists:keydelete(Id, 1, Chunks)))) || {Id, _} <- Chunks],
    [?assertEqual({error, {damaged, {Id, twice}}}, whittle_beam:read(form(Chunks ++ [Chunk])))
     || {Id, _} = Chunk <- Chunks],
    [?assertEqual({error, {damaged, {Id, Why}}}, With(Id, Data))
     || {Id, Data, Why} <-
            [{<<"AtU8">>, <<0:32>>, empty}, {<<"AtU8">>, <<1:32, 2, "m">>, cut_off},
             {<<"AtU8">>, <<1:32, 1, 255>>, bad_atom}, {<<"Code">>, <<1:32>>, cut_off},
             {<<"Code">>, <<16:32, 1:32, 0:96>>, unknown_version},
             {<<"Code">>, <<16:32, 0:32, 0:32, 16#FFFFFFFF:32, 0:32, 3>>, wrong_size},
             {<<"Code">>, <<16:32, 0:32, 0:32, 1:32, 16#FFFFFFFF:32, 3>>, wrong_size},
             {<<"ImpT">>, <<1:32>>, wrong_size},
             {<<"ImpT">>, <<1:32, 1:32, 2:32, 0:32>>, wrong_index},
             {<<"ExpT">>, <<1:32, 0:32, 0:32, 0:32>>, wrong_index},
             {<<"FunT">>, <<1:32, 1:32, 0:32, 0:32, 0:96>>, wrong_index},
             {<<"LitT">>, <<0:32, 1:32, 2:32, 1, 2>>, not_a_term},
             {<<"LitT">>, <<9:32, "no stream">>, not_deflated}]],
    [?assertMatch({error, {not_beam, _}}, whittle_beam:read(Bytes))
     || Bytes <- [<<>>, <<"#!/bin/sh\n">>, <<"FOR1", 4:32, "AIFF">>]].

%% OTP's own disassembler finds the same instructions.
instructions(_) ->
    [begin
         {ok, Beam} = whittle_beam:read(Bytes),
         {ok, Code} = whittle_beam:chunk(<<"Code">>, Beam),
         {ok, Opcodes} = whittle_beam_code:opcodes(Code),
         <<_:8/binary, Max:32, _/binary>> = Code,
         ?assert(lists:last(Opcodes) =< Max)
     end || Bytes <- beams()],
    [begin
         {beam_file, _, _, _, _, Functions} = beam_disasm:file(beam(Module)),
         Names = lists:usort([name(I) || {function, _, _, _, Is} <- Functions, I <- Is]),
         {ok, Beam} = whittle_beam:read(beam(Module)),
         {ok, Code} = whittle_beam:chunk(<<"Code">>, Beam),
         {ok, Opcodes} = whittle_beam_code:opcodes(Code),
         Ours = lists:usort([element(1, beam_opcodes:opname(Opcode)) || Opcode <- Opcodes]),
         %% The disassembler uses its own names for tests and arithmetic.
         ?assertEqual([], [Name || Name <- Ours, not lists:member(Name, Names),
                                   not is_renamed(Name)])
     end || Module <- [lists, queue, gen_server, io_lib_format, zlib]].

name(I) when is_atom(I) -> I;
name(I) when element(1, I) =:= test -> element(2, I);
name(I) -> element(1, I).

is_renamed(Name) ->
    lists:member(Name, [int_code_end, gc_bif1, gc_bif2, gc_bif3, bif0, bif1, bif2]).

%% OTP 29 no longer loads bs_test_unit (131), which the compiler of OTP 25 writes.
too_old(_) ->
    Code = <<16:32, 0:32, 180:32, 2:32, 1:32,
             131, 16#15, 16#03, 16#80, 3>>,
    Old = form([{<<"AtU8">>, <<1:32, 1, "m">>}, {<<"Code">>, Code}, {<<"StrT">>, <<>>},
                {<<"ImpT">>, <<0:32>>}, {<<"ExpT">>, <<0:32>>}]),
    {ok, Beam} = whittle_beam:read(Old),
    ?assertEqual({ok, [131]}, whittle_beam_code:opcodes(Code)),
    ?assertEqual(ok, whittle_beam:loads_on(25, Beam)),
    ?assertEqual(ok, whittle_beam:loads_on(27, Beam)),
    ?assertEqual({error, {too_old, [131]}}, whittle_beam:loads_on(29, Beam)),
    ?assertMatch({error, {needs_newer, #{otp := 25}}}, whittle_beam:loads_on(24, Beam)).

damaged_code(_) ->
    {ok, Beam} = whittle_beam:read(beam(queue)),
    {ok, Code} = whittle_beam:chunk(<<"Code">>, Beam),
    made:holds(1000, {proper_types:range(20, byte_size(Code) - 1), proper_types:byte()},
               fun(Change) ->
                       case whittle_beam_code:opcodes(change(Change, Code)) of
                           {ok, [_ | _]} -> true;
                           error -> true
                       end
               end),
    [error = whittle_beam_code:opcodes(Bytes)
     || Bytes <- [<<>>, <<1:32>>, <<0:32>>, <<0:32, 255>>, <<0:32, 1>>, <<0:32, 1, 16#18>>]].

%% After any change of bytes, reading returns an answer, and a readable file can be written.
damage(_) ->
    Bytes = beam(queue),
    Place = {proper_types:range(0, byte_size(Bytes) - 1), proper_types:byte()},
    made:holds(1500, proper_types:non_empty(proper_types:list(Place)),
               fun(Changes) -> answers(lists:foldl(fun change/2, Bytes, Changes)) end).

cut(_) ->
    Bytes = beam(queue),
    made:holds(500, {proper_types:range(0, byte_size(Bytes)), proper_types:binary()},
               fun({Size, Tail}) ->
                       answers(<<(binary:part(Bytes, 0, Size))/binary, Tail/binary>>)
               end).

%% A literal table of 64 bytes that inflates to 64 MB: reading stops at the size that the table
%% claims.
inflates_no_further(_) ->
    Bomb = zlib:compress(binary:copy(<<0>>, 64 * 1024 * 1024)),
    {ok, Beam} = whittle_beam:read(beam(lists)),
    Chunks = lists:keystore(<<"LitT">>, 1, whittle_beam:chunks(Beam),
                            {<<"LitT">>, <<64:32, Bomb/binary>>}),
    1 = erlang:trace_pattern({zlib, safeInflate, 2}, true, [call_count]),
    ?assertEqual({error, {damaged, {<<"LitT">>, wrong_size}}}, whittle_beam:read(form(Chunks))),
    {call_count, Calls} = erlang:trace_info({zlib, safeInflate, 2}, call_count),
    1 = erlang:trace_pattern({zlib, safeInflate, 2}, false, [call_count]),
    %% Each call inflates some KB; the whole table would take thousands of calls.
    ?assert(Calls < 10).

%% The chunks `Attr' and `CInf' hold lists of terms. A chunk without such a list has no terms.
terms(_) ->
    Of = fun(Bytes) -> whittle_beam:terms(<<"Attr">>, Bytes) end,
    ?assertEqual({ok, [{vsn, [1]}]}, Of(term_to_binary([{vsn, [1]}]))),
    [?assertEqual({ok, []}, Of(Bytes))
     || Bytes <- [<<>>, <<131, 1>>, term_to_binary([a | b]), term_to_binary({a})]],
    Large = [{vsn, [binary:copy(<<0>>, 17 * 1024 * 1024)]}],
    [begin
         ?assertEqual({error, {damaged, {<<"Attr">>, too_large}}}, Of(Bytes)),
         Beam = form(lists:keystore(<<"CInf">>, 1, chunks_of(lists), {<<"CInf">>, Bytes})),
         {ok, Read} = whittle_beam:read(Beam),
         ?assertMatch(#{otp := _}, whittle_beam:needs_otp(Read))
     end || Options <- [[], [compressed]], Bytes <- [term_to_binary(Large, Options)]],
    made:in_small_vm(fun() -> ?assertMatch({error, {too_many_atoms, _}}, Of(many_atoms())) end).

%% A literal with more new names than this VM has room for is refused before an atom is made.
many_names(_) -> made:in_small_vm(fun many_names/0).

many_names() ->
    Term = many_atoms(),
    Table = <<1:32, (byte_size(Term)):32, Term/binary>>,
    Chunks = lists:keystore(<<"LitT">>, 1, chunks_of(lists), {<<"LitT">>, <<0:32, Table/binary>>}),
    Before = erlang:system_info(atom_count),
    ?assertMatch({error, {too_many_atoms, _}}, whittle_beam:read(form(Chunks))),
    ?assertMatch({error, {too_many_atoms, _}}, whittle_beam:literal(Term)),
    ?assert(erlang:system_info(atom_count) < Before + 8000),
    %% A long literal may look as if it had many names.
    Text = term_to_binary({here, binary:copy(<<"wwww">>, erlang:system_info(atom_limit))}),
    ?assertMatch({ok, {here, _}}, whittle_beam:literal(Text)).

%% The atoms of the table and those in literals. A literal that cannot be decoded is an error.
all_atoms(_) ->
    With = fun(Literal) ->
                   Table = <<0:32, 1:32, (byte_size(Literal)):32, Literal/binary>>,
                   Chunks = lists:keystore(<<"LitT">>, 1, chunks_of(lists), {<<"LitT">>, Table}),
                   {ok, Beam} = whittle_beam:read(form(Chunks)),
                   {whittle_beam:all_atoms(Beam), whittle_beam:atoms(Beam)}
           end,
    {{ok, All}, Table} = With(term_to_binary([{only_in_a_literal, #{here => fun erlang:abs/1}}])),
    ?assertEqual(lists:usort([only_in_a_literal, here, erlang, abs | Table]), All),
    ?assertMatch({{error, {damaged, {<<"LitT">>, not_a_term}}}, _}, With(<<131, $h, 2, $j>>)).

%% Internal functions

many_atoms() ->
    Names = lists:seq(16#30303030, 16#30303030 + erlang:system_info(atom_limit)),
    iolist_to_binary([131, $l, <<(length(Names)):32>>, [<<$w, 4, N:32>> || N <- Names], $j]).

chunks_of(Module) ->
    {ok, Beam} = whittle_beam:read(beam(Module)),
    whittle_beam:chunks(Beam).

answers(Bytes) ->
    case whittle_beam:read(Bytes) of
        {ok, Beam} ->
            _ = [whittle_beam:loads_on(Otp, Beam) || Otp <- [25, 29]],
            _ = {whittle_beam:imports(Beam), whittle_beam:exports(Beam),
                 whittle_beam:attributes(Beam)},
            {ok, _} = whittle_beam:read(whittle_beam:strip(#{literals => {plain, 25}}, Beam)),
            true;
        {error, Error} ->
            Line = unicode:characters_to_binary(whittle_beam:format_error(Error)),
            is_binary(Line) andalso binary:match(Line, <<"\n">>) =:= nomatch
    end.

change({At, Byte}, Bytes) ->
    <<Before:At/binary, _, After/binary>> = Bytes,
    <<Before/binary, Byte, After/binary>>.

beams() ->
    [Bytes || App <- [kernel, stdlib, compiler],
              File <- filelib:wildcard(filename:join([code:lib_dir(App), "ebin", "*.beam"])),
              {ok, Bytes} <- [file:read_file(File)]].

beam(Module) ->
    {Module, Bytes, _} = code:get_object_code(Module),
    Bytes.

with_opcode(Opcode, Bytes) ->
    [Before, <<Head:12/binary, _:32, After/binary>>] = binary:split(Bytes, <<"Code">>),
    <<Before/binary, "Code", Head/binary, Opcode:32, After/binary>>.

code_header() -> <<16:32, 0:32, 1:32, 2:32, 1:32>>.

form(Chunks) ->
    Body = << <<Id/binary, (byte_size(Data)):32, Data/binary,
                0:((-byte_size(Data) band 3) * 8)>> || {Id, Data} <- Chunks >>,
    <<"FOR1", (byte_size(Body) + 4):32, "BEAM", Body/binary>>.
