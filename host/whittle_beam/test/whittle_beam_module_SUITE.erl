%% @doc Tests modules as values: every module of the tests' OTP, functions that a test removes or
%% adds, and damaged files.
-module(whittle_beam_module_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([documented/1, numbers/1, identity/1, functions_removed/1, runs_without/1,
         references/1, uses/1, missing/1, stubs/1, lambdas/1, options/1, tables_gone/1,
         newest/1, misuse/1, atoms/1, literals/1, cut/1, lies/1, mutations/1,
         heap_of_strings/1, lines/1]).

all() ->
    [documented, numbers, identity, functions_removed, runs_without, references, uses,
     missing, stubs, lambdas, options, tables_gone, newest, misuse, atoms, literals, cut,
     lies, mutations, heap_of_strings, lines].

%% The example of docs/beam-files.md works.
documented(_) ->
    Bytes = beam(lists),
    {ok, Beam} = whittle_beam:read(Bytes),
    {ok, Module} = whittle_beam:disassemble(Beam),
    #{{map, 2} := Map} = whittle_beam_module:functions(Module),
    [{local, {map_1, 2}}] = whittle_beam_module:references(Map),
    Small = whittle_beam_module:keep(#{{map, 2} => [], {map_1, 2} => []}, Module),
    [] = whittle_beam_module:missing(Small),
    {ok, Less} = whittle_beam:assemble(#{}, Small),
    ?assertEqual(ok, beam_checks:loads(lists, Less)).

%% Writes numbers as OTP's assembler does, and reads them back.
numbers(_) ->
    Edges = [N + D || Bits <- [4, 8, 11, 15, 16, 31, 32, 63, 64, 72, 128, 1000],
                      N <- [1 bsl Bits], D <- [-1, 0, 1]],
    [begin
         Bytes = iolist_to_binary(lists:reverse(whittle_beam_compact:put(Tag, N, []))),
         ?assertEqual(iolist_to_binary([beam_asm:encode(Tag, N)]), Bytes),
         Read = case Tag of
                    1 -> whittle_beam_compact:integer(<<Bytes/binary, "rest">>);
                    _ -> whittle_beam_compact:number(<<Bytes/binary, "rest">>)
                end,
         ?assertEqual({N, <<"rest">>}, Read),
         [?assertEqual(error, whittle_beam_compact:integer(binary:part(Bytes, 0, Size)))
          || Size <- lists:seq(0, byte_size(Bytes) - 1)]
     end || Tag <- [0, 1, 2, 3, 4, 5], N <- lists:seq(0, 300) ++ Edges ++ [-E || E <- Edges],
            N >= 0 orelse Tag =:= 1],
    %% A damaged length does not create a number larger than any compiler's.
    ?assertEqual(error, whittle_beam_compact:number(<<16#F8, 16#58, 255, 255, 255, 255, 255,
                                                      0:(8 * 8192)>>)).

%% A file of OTP's compiler keeps every byte, stripped or not.
identity(_) ->
    [begin
         {ok, Beam} = whittle_beam:read(Bytes),
         ?assertEqual({whittle_beam:module(Beam), same_bytes},
                      {whittle_beam:module(Beam), beam_checks:identity(Bytes)}),
         ?assertEqual(same_bytes, beam_checks:identity(whittle_beam:strip(#{}, Beam)))
     end || Bytes <- beams([kernel, stdlib, compiler]) ++ newer()].

%% Returns kernel and stdlib of the OTP for outputs, if `make test' names it.
newer() ->
    case os:getenv("WHITTLE_OTP_ROOT", "") of
        "" -> [];
        Root -> read(filename:join(Root, "lib/{kernel,stdlib}-*/ebin/*.beam"))
    end.

%% Keeps half of the exports and what they need, in another order. OTP's disassembler and loader
%% accept the file, and so does a second assembly.
functions_removed(_) ->
    Counts = [begin
                  {All, Kept, Small} = beam_checks:without(Bytes, random(Bytes)),
                  {All, Kept, byte_size(Small) / byte_size(Bytes)}
              end || Bytes <- beams([kernel, stdlib])],
    {All, Kept, Ratios} = lists:unzip3(Counts),
    ?assert(lists:sum(Kept) < 0.9 * lists:sum(All)),
    ?assert(lists:sum(Ratios) < 0.95 * length(Ratios)).

%% Real modules, without a random part of their unreachable functions, give the same results and
%% the same errors from the same lines. They run under other names beside the complete modules.
runs_without(_) ->
    Modules = [queue, gb_sets, gb_trees, orddict, ordsets, dict, array, proplists,
               base64, uri_string, sofs, erl_scan, erl_parse, io_lib_format, io_lib_pretty],
    Calls = [compare_runs(Module, Seed) || Module <- Modules, Seed <- [1, 2, 3]],
    ?assert(lists:sum(Calls) > 10_000).

compare_runs(Module, Seed) ->
    {ok, #{functions := All} = Whole} = taken(beam(Module)),
    Exports = [{F, A} || #{name := F, arity := A, exported := true} <- All],
    Random = rand:seed_s(exsss, {Seed, erlang:phash2(Module), 0}),
    Roots = beam_checks:some(Exports, Random),
    Needed = beam_checks:closure(Roots ++ [{module_info, 0}, {module_info, 1}], Whole),
    %% And some unneeded functions, with everything that these need.
    Unneeded = [Key || Key <- maps:keys(whittle_beam_module:functions(Whole)),
                       not is_map_key(Key, Needed)],
    Extra = beam_checks:closure(beam_checks:some(Unneeded, Random), Whole),
    Keys = maps:merge(Needed, Extra),
    Kept = whittle_beam_module:keep(Keys, Whole),
    Name = list_to_atom(lists:concat([Module, "_less", Seed])),
    {ok, Less} = whittle_beam:assemble(#{}, Kept#{module := Name}),
    {module, Name} = code:load_binary(Name, "", Less),
    ?assertEqual([Each || Each <- Exports, is_map_key(Each, Keys)],
                 [{F, A} || {F, A} <- Exports, erlang:function_exported(Name, F, A)]),
    Calls = [{F, Arguments} || {F, A} <- Roots, F =/= module_info, A =< 3,
                               Arguments <- arguments(A)],
    [begin
         %% Both calls are on one line, because it may appear in a result or a stack.
         [Expected, Got] = [outcome(Each, F, Arguments) || Each <- [Module, Name]],
         ?assertEqual({F, Arguments, Expected}, {F, Arguments, Got})
     end || {F, Arguments} <- Calls],
    true = code:delete(Name),
    _ = code:purge(Name),
    length(Calls).

arguments(0) -> [[]];
arguments(N) ->
    Some = [[], "f(X) -> {X, <<1:8>>}.", [{b, 1}, {a, 2}], <<"YWJj">>, 3, a, {[3], [1]},
            fun(X) -> X =/= 1 end, gb_trees:from_orddict([{1, a}])],
    [[First | Rest] || First <- Some, Rest <- arguments(N - 1)].

%% References and funs always differ. Of the stack only the module's own entries count.
outcome(Name, F, Arguments) ->
    try apply(Name, F, Arguments) of
        Result -> {result, told(Result)}
    catch
        Class:Reason:Stack ->
            {Class, told(Reason),
             [{Called, case Arity of _ when is_list(Arity) -> length(Arity); _ -> Arity end,
               proplists:get_value(line, Where)}
              || {In, Called, Arity, Where} <- Stack, In =:= Name]}
    end.

told(Term) ->
    re:replace(io_lib:format("~0tp", [Term]), "#(Fun|Ref)<[^>]*>|_less[0-9]+", "",
               [global, unicode, {return, binary}]).

%% The references of the functions are the contents of the tables.
references(_) ->
    [begin
         {ok, Beam} = whittle_beam:read(Bytes),
         {ok, #{functions := Functions} = Module} = whittle_beam:disassemble(Beam),
         All = lists:append([whittle_beam_module:references(Each) || Each <- Functions]),
         ?assertEqual(lists:usort(whittle_beam:imports(Beam)),
                      lists:usort([Called || {call, Called} <- All])),
         ?assertEqual(lists:sort([{Key, Index}
                                  || {Key, #{lambdas := Made}}
                                         <- maps:to_list(whittle_beam_module:functions(Module)),
                                     #{index := Index} <- Made]),
                      lists:usort([{Key, Index} || {lambda, Key, Index} <- All])),
         ?assertEqual([], whittle_beam_module:missing(Module)),
         Literals = lists:usort([Term || {literal, Term, _} <- All]),
         [?assertMatch({ok, _}, whittle_beam:literal(Term)) || Term <- Literals]
     end || Bytes <- beams([kernel, stdlib])].

%% Each place of an atom has its use.
uses(_) ->
    Uses = fun(Text) ->
                   {ok, Module} = taken(made:beam("-module(m).\n-export([f/1]).\n" ++ Text)),
                   #{{f, 1} := F} = whittle_beam_module:functions(Module),
                   lists:usort([Use || {atom, there, Use} <- whittle_beam_module:references(F)])
           end,
    [?assertEqual({Text, Expected}, {Text, Uses(Text)})
     || {Text, Expected} <-
            [{"f(_) -> there.", [value]},
             {"f(X) -> g(X, there).\ng(X, Y) -> self() ! X, Y.", [value]},
             {"f(X) -> [there | X].", [value]},
             {"f(X) -> {there, X}.", [tag]},
             {"f(X) -> {X, there}.", [value]},
             {"f(X) -> X#{there => 1}.", [key]},
             {"f(X) -> X#{1 => there}.", [value]},
             {"f(X) -> X#{there := 1}.", [key]},
             {"f(X) -> X#{1 := there}.", [value]},
             {"f(#{1 := there}) -> 1.", [compared]},
             {"f(#{1 := X, there := _}) -> X.", [key]},
             {"f(X) -> receive there -> X after X -> there end.", [compared, value]},
             {"f(X) -> catch exit({X, there}).", [value]},
             {"f(X) -> case X of 1 -> there; 2 -> X end.", [value]},
             {"f(X) -> setelement(1, {X, 2}, there).", [value]},
             {"f(X) -> apply(X, there, []).", [value]},
             {"f(X) -> there:X().", [value]},
             {"f(X) -> there:there(X).", []},
             {"f(X) -> try X:a() catch there -> 1 end.", [compared]},
             {"f(#{there := X}) -> X.", [key]},
             {"f(there) -> 1; f(_) -> 2.", [compared]},
             {"f(X) when X =:= there -> 1; f(a) -> 2; f(b) -> 3.", [compared]},
             {"f({there, X}) -> X.", [compared]},
             {"f(X) -> fun() -> {X, a} end.", []},
             {"f(X) -> X =:= there.", [argument]},
             {"f(X) -> error({X, a}, [there, X]).", [value]}]].

%% The error for a call of a missing function names both functions.
missing(_) ->
    {ok, Module} = taken(made:beam("-module(m).\n-export([f/1]).\n"
                                   "f(X) -> g(X), ok.\ng(X) -> self() ! X.\n")),
    Less = whittle_beam_module:keep(#{{f, 1} => []}, Module),
    ?assertEqual([{{f, 1}, {g, 1}}], whittle_beam_module:missing(Less)),
    ?assertEqual({error, {missing, {{f, 1}, {g, 1}}}}, whittle_beam:assemble(#{}, Less)),
    ?assertEqual(<<"lacks the function g/1, which its function f/1 calls; compile the module "
                   "again">>,
                 iolist_to_binary(whittle_beam:format_error({missing, {{f, 1}, {g, 1}}}))),
    {ok, Maker} = taken(made:beam("-module(m).\n-export([f/1]).\nf(X) -> fun() -> X end.\n")),
    Alone = whittle_beam_module:keep(#{{f, 1} => []}, Maker),
    ?assertEqual({error, {missing, {{f, 1}, {'-f/1-fun-0-', 1}}}},
                 whittle_beam:assemble(#{}, Alone)).

%% Another module can answer the calls of a removed function.
stubs(_) ->
    {ok, Module} = taken(made:beam("-module(m_stubs).\n-export([f/1, g/1, h/0]).\n"
                                   "f(X) -> [g(X), k(X)].\ng(X) -> self() ! X.\n"
                                   "h() -> 1.\nk(X) -> self() ! X.\n")),
    Less = whittle_beam_module:keep(#{{f, 1} => []}, Module),
    Elsewhere = whittle_beam_module:function(
                  g, 1, true, [{call_ext_only, [1, {extfunc, erlang, abs, 1}]}]),
    Undefined = whittle_beam_module:function(
                  h, 0, true, [{move, [{atom, undef}, {x, 0}]},
                               {call_ext_only, [1, {extfunc, erlang, error, 1}]}]),
    %% This function has its own labels and a literal.
    Chooses = whittle_beam_module:function(
                k, 1, false, [{is_eq_exact, [{f, 7}, {x, 0}, {integer, -3}]},
                              {move, [{literal, term_to_binary({three})}, {x, 0}]},
                              {return, []}, {label, [7]}, {jump, [{f, 1}]}]),
    Whole = lists:foldl(fun whittle_beam_module:put/2, Less, [Elsewhere, Undefined, Chooses]),
    {ok, Bytes} = whittle_beam:assemble(#{}, Whole),
    {module, m_stubs} = code:load_binary(m_stubs, "", Bytes),
    ?assertEqual([3, {three}], m_stubs:f(-3)),
    ?assertEqual(3, m_stubs:g(-3)),
    ?assertError(undef, m_stubs:h()),
    ?assertError(function_clause, m_stubs:f(-4)),
    %% put/2 replaces an existing function in its place.
    Other = whittle_beam_module:put(
              whittle_beam_module:function(g, 1, true, [{return, []}]), Whole),
    ?assertEqual([F || #{name := F} <- maps:get(functions, Whole)],
                 [F || #{name := F} <- maps:get(functions, Other)]).

%% A fun keeps its index and its older identity if earlier funs disappear.
lambdas(_) ->
    {ok, Module} = taken(made:beam("-module(m_lambdas).\n-export([a/1, b/1]).\n"
                                   "a(X) -> fun() -> {a, X} end.\nb(X) -> fun() -> {b, X} end.\n")),
    #{{'-b/1-fun-0-', 1} := #{lambdas := [#{index := 1, free := 1, uniq := Uniq}] = Made}} =
        whittle_beam_module:functions(Module),
    Less = whittle_beam_module:keep(beam_checks:closure([{b, 1}], Module), Module),
    {ok, Bytes} = whittle_beam:assemble(#{}, Less),
    {module, m_lambdas} = code:load_binary(m_lambdas, "", Bytes),
    Fun = m_lambdas:b(1),
    ?assertEqual({b, 1}, Fun()),
    ?assertEqual({new_index, 1}, erlang:fun_info(Fun, new_index)),
    ?assertEqual({uniq, Uniq}, erlang:fun_info(Fun, uniq)),
    {ok, Again} = taken(Bytes),
    ?assertMatch(#{{'-b/1-fun-0-', 1} := #{lambdas := Made}},
                 whittle_beam_module:functions(Again)),
    %% A fun stays if only its function stays, because a fun may come from outside.
    Body = whittle_beam_module:keep(#{{'-b/1-fun-0-', 1} => []}, Module),
    {ok, Alone} = whittle_beam:assemble(#{}, Body),
    {ok, Beam} = whittle_beam:read(Alone),
    ?assertMatch({ok, <<1:32, _:20/binary, Uniq:32>>}, whittle_beam:chunk(<<"FunT">>, Beam)).

%% Literals in each form, and a file without the chunk that only the JIT reads.
options(_) ->
    {ok, Module} = taken(beam(uri_string)),
    Put = fun(Options) ->
                  {ok, Bytes} = whittle_beam:assemble(Options, Module),
                  {ok, Beam} = whittle_beam:read(Bytes),
                  Beam
          end,
    Chunk = fun(Id, Options) -> whittle_beam:chunk(Id, Put(Options)) end,
    {ok, <<Size:32, _/binary>>} = Deflated = Chunk(<<"LitT">>, #{}),
    {ok, <<0:32, Plain:Size/binary>>} = Chunk(<<"LitT">>, #{literals => plain}),
    {ok, <<Size:32, Stored/binary>>} = Chunk(<<"LitT">>, #{literals => stored}),
    ?assertEqual(Plain, zlib:uncompress(Stored)),
    ?assertEqual(Deflated, Chunk(<<"LitT">>, #{literals => deflated})),
    ?assertEqual(error, Chunk(<<"Type">>, #{types => drop})),
    {ok, Untyped} = whittle_beam:disassemble(Put(#{types => drop})),
    ?assertEqual(nomatch, re:run(io_lib:format("~p", [Untyped]), "{tr,")),
    {ok, Bytes} = whittle_beam:assemble(#{types => drop}, Module),
    ?assertEqual(ok, beam_checks:loads(uri_string, Bytes)).

%% Entries that only the removed functions used disappear from every table.
tables_gone(_) ->
    Text = "-module(m).\n-export([f/1, g/1]).\nf(X) -> X.\n"
        "-file(\"other.erl\", 10).\n"
        "g(X) -> lists:map(fun(Y) -> {only_here, [there, \"text\"], <<\"string\", Y>>} end,\n"
        "                  X ++ here(X, 4.5)).\nhere(X, Y) -> X + Y.\n",
    Bytes = made:beam(Text),
    {ok, Whole} = taken(Bytes),
    {ok, Less} = whittle_beam:assemble(
                   #{}, whittle_beam_module:keep(beam_checks:closure([{f, 1}], Whole), Whole)),
    [?assertMatch({_, {_, _}}, {Word, binary:match(uncompressed(Bytes), Word)})
     || Word <- words()],
    [?assertEqual({Word, nomatch}, {Word, binary:match(uncompressed(Less), Word)})
     || Word <- words()],
    {ok, Beam} = whittle_beam:read(Less),
    ?assertEqual([<<"FunT">>, <<"LitT">>],
                 [Id || Id <- [<<"FunT">>, <<"LitT">>, <<"Code">>],
                        whittle_beam:chunk(Id, Beam) =:= error]),
    ?assertEqual([], whittle_beam:imports(Beam)),
    %% The compiler gives the same function the same code in a module of its own.
    {ok, Alone} = whittle_beam:read(
                    made:beam("-module(m).\n-export([f/1]).\nf(X) -> X.\n")),
    %% (Except the highest instruction, which the original file had.)
    #{form := #{max_opcode := Max}} = Whole,
    {ok, #{form := Form} = AloneWhole} = whittle_beam:disassemble(Alone),
    {ok, Same} = whittle_beam:assemble(
                   #{}, whittle_beam_module:keep(#{{f, 1} => []},
                                                 AloneWhole#{form := Form#{max_opcode := Max}})),
    {ok, SameBeam} = whittle_beam:read(Same),
    ?assertNotEqual(whittle_beam:chunk(<<"Code">>, Alone), whittle_beam:chunk(<<"Code">>, Beam)),
    [?assertEqual({Id, whittle_beam:chunk(Id, SameBeam)}, {Id, whittle_beam:chunk(Id, Beam)})
     || Id <- [<<"AtU8">>, <<"Code">>, <<"StrT">>, <<"ImpT">>, <<"ExpT">>, <<"LocT">>,
               <<"Line">>, <<"Type">>]].

words() ->
    [<<"only_here">>, <<"there">>, <<"text">>, <<"string">>, <<"other.erl">>, <<"lists">>,
     <<"map">>, <<"-g/1-fun-0-">>, <<"here">>].

%% Strips the chunks that contain their own record of the source.
uncompressed(Bytes) ->
    {ok, Beam} = whittle_beam:read(Bytes),
    whittle_beam:strip(#{literals => {plain, 28}}, Beam).

%% Only OTP 28 and 29 write these: native records, debug information, executable lines.
newest(Config) ->
    case os:getenv("WHITTLE_OTP_ROOT", "") of
        "" -> {skip, "WHITTLE_OTP_ROOT is not set"};
        Root -> newest(Root, proplists:get_value(priv_dir, Config))
    end.

newest(Root, Dir) ->
    Source = filename:join(Dir, "newest.erl"),
    ok = file:write_file(
           Source, "-module(newest).\n-export([all/0, gone/1]).\n"
           "-record #point{x = 1, y = [a, b], z}.\n"
           "all() -> P = make(3), move(P, 4).\n"
           "make(Z) -> #point{z = Z}.\n"
           "move(#point{x = X} = P, By) -> P#point{x = X + By}.\n"
           "gone(X) -> Y = [X], {gone, Y}.\n"),
    [begin
         "" = os:cmd(lists:flatten(io_lib:format("~ts/bin/erlc ~ts -o ~ts ~ts",
                                                 [Root, Options, Dir, Source]))),
         {ok, Bytes} = file:read_file(filename:join(Dir, "newest.beam")),
         {ok, #{records := [_]} = Module} = taken(Bytes),
         [{atom, x, key}, {atom, y, key}, {literal, Default, value}, {atom, z, key}] =
             whittle_beam_module:record_references(Module),
         ?assertEqual({ok, [a, b]}, whittle_beam:literal(Default)),
         {ok, Same} = whittle_beam:assemble(#{}, Module),
         %% The debug chunk loses the items without a reference from an instruction.
         ?assert(Same =:= Bytes orelse lists:member(<<"DbgB">>, Chunks)),
         ?assertEqual(normal(Bytes), normal(Same)),
         Keys = beam_checks:closure([{all, 0}, {module_info, 0}, {module_info, 1}], Module),
         {ok, Less} = whittle_beam:assemble(#{}, whittle_beam_module:keep(Keys, Module)),
         {ok, Again} = taken(Less),
         ok = damaged(Chunks, Less),
         ?assertEqual({ok, Less}, whittle_beam:assemble(#{}, Again)),
         [?assertMatch({ok, _}, whittle_beam_module:chunk(Id, Again)) || Id <- Chunks],
         ok = file:write_file(filename:join(Dir, "newest.beam"), Less),
         ?assertEqual("{point,5,[a,b],3} undef",
                      os:cmd(lists:flatten(
                               io_lib:format(
                                 "~ts/bin/erl ~ts -noshell -pa ~ts -eval "
                                 "'~ts' 2>&1", [Root, Flags, Dir, newest_program()]))))
     end || {Options, Flags, Chunks} <- [{"", "", [<<"Recs">>]},
                                         {"+beam_debug_info", "+D", [<<"Recs">>, <<"DbgB">>]},
                                         {"+line_coverage", "+JPcover true", []}]].

%% Cuts these chunks at every length, and changes every byte of them.
damaged(Ids, Bytes) ->
    {ok, Beam} = whittle_beam:read(Bytes),
    Chunks = whittle_beam:chunks(Beam),
    Bad = lists:append([[binary:part(Data, 0, At), changed(At, <<255>>, Data),
                         changed(At, <<(binary:at(Data, At) bxor 16)>>, Data)]
                        || {Id, Data} <- Chunks, lists:member(Id, Ids),
                           At <- lists:seq(0, byte_size(Data) - 1)]),
    _ = bounded(fun() ->
                        [answer(form(lists:keyreplace(Id, 1, Chunks, {Id, Data})))
                         || Id <- Ids, Data <- Bad]
                end),
    ok.

normal(Bytes) ->
    {ok, #{functions := Functions}} = taken(Bytes),
    lists:map(fun beam_checks:normal/1, Functions).

newest_program() ->
    "P = newest:all(),"
        "[X, Y, Z] = [records:get(K, P) || K <- [x, y, z]],"
        "Gone = try newest:gone(1) catch error:E -> E end,"
        "io:format(\"~w ~w\", [{point, X, Y, Z}, Gone]), halt().".

%% Invalid instructions are an error of the caller, not of the file.
misuse(_) ->
    {ok, Module} = taken(beam(queue)),
    [?assertError({no_instruction, {{made, 0}, Instruction}},
                  whittle_beam:assemble(#{}, whittle_beam_module:put(
                                               whittle_beam_module:function(
                                                 made, 0, false, [Instruction]), Module)))
     || Instruction <- [{no_such, []}, {move, [{x, 0}]}]],
    Put = fun(Code) ->
                  whittle_beam:assemble(#{}, whittle_beam_module:put(
                                               whittle_beam_module:function(made, 0, false, Code),
                                               Module))
          end,
    ?assertEqual({error, {no_label, {{made, 0}, 9}}}, Put([{jump, [{f, 9}]}])),
    ?assertEqual({error, {label_twice, {made, 0}}}, Put([{label, [3]}, {label, [3]}])),
    ?assertEqual({error, {label_twice, {made, 0}}}, Put([{label, [2]}])),
    #{functions := [First | _]} = Module,
    ?assertMatch({error, {function_twice, {_, _}}},
                 whittle_beam:assemble(#{}, maps:update_with(functions,
                                                             fun(All) -> [First | All] end,
                                                             Module))).

%% Reading refuses more names than the VM has room for, and the VM continues.
atoms(_) ->
    {ok, Peer, _} = peer:start(#{connection => standard_io, args => ["+t", "40000"]}),
    try
        [true = peer:call(Peer, code, add_path, [filename:dirname(code:which(Module))])
         || Module <- [whittle_beam, whittle_bounded]],
        Names = [<<"hostile_", (integer_to_binary(N))/binary>> || N <- lists:seq(1, 60000)],
        Form = form([{<<"AtU8">>, iolist_to_binary([<<60000:32>> |
                                                    [[byte_size(Name), Name] || Name <- Names]])},
                     {<<"Code">>, <<16:32, 0:32, 1:32, 2:32, 1:32, 3>>}, {<<"StrT">>, <<>>},
                     {<<"ImpT">>, <<0:32>>}, {<<"ExpT">>, <<0:32>>}]),
        ?assertMatch({error, {too_many_atoms, _}}, peer:call(Peer, whittle_beam, read, [Form])),
        %% The same in a literal.
        Literal = term_to_binary([binary_to_atom(Name) || Name <- lists:sublist(Names, 40000)]),
        ?assertMatch({error, {too_many_atoms, _}},
                     peer:call(Peer, whittle_beam, literal, [Literal])),
        ?assertMatch({ok, _}, peer:call(Peer, whittle_beam, read, [beam(lists)]))
    after
        peer:stop(Peer)
    end.

%% The loader takes a literal only if it is not deflated by itself.
literals(_) ->
    Bomb = term_to_binary(lists:duplicate(1_000_000, 0), [compressed]),
    {ok, Beam} = whittle_beam:read(beam(queue)),
    Table = <<1:32, (byte_size(Bomb)):32, Bomb/binary>>,
    Chunks = lists:keystore(<<"LitT">>, 1, whittle_beam:chunks(Beam),
                            {<<"LitT">>, <<0:32, Table/binary>>}),
    ?assertEqual({error, {damaged, {<<"LitT">>, not_a_term}}}, whittle_beam:read(form(Chunks))),
    ?assertEqual({ok, {a, "b"}}, whittle_beam:literal(term_to_binary({a, "b"}))),
    ?assertEqual({error, {damaged, {<<"LitT">>, not_a_term}}}, whittle_beam:literal(<<131, 104>>)).

%% Cuts every chunk at every length.
cut(_) ->
    {ok, Beam} = whittle_beam:read(everything()),
    Chunks = whittle_beam:chunks(Beam),
    Answers = bounded(
                fun() ->
                        [answer(form(lists:keyreplace(Id, 1, Chunks,
                                                      {Id, binary:part(Data, 0, Size)})))
                         || {Id, Data} <- Chunks, not lists:member(Id, [<<"Dbgi">>, <<"Docs">>]),
                            Size <- lists:seq(0, byte_size(Data) - 1)]
                end),
    ?assert(length([refused || refused <- Answers]) > length(Answers) div 2).

%% Replaces every byte and every word of the file by other values.
lies(_) ->
    {ok, Beam} = whittle_beam:read(everything()),
    Bytes = whittle_beam:strip(#{keep => [<<"LocT">>]}, Beam),
    {ok, Plain} = whittle_beam:read(whittle_beam:strip(#{literals => {plain, 28}}, Beam)),
    {ok, PlainLiterals} = whittle_beam:chunk(<<"LitT">>, Plain),
    Forms = [Bytes, form(lists:keyreplace(<<"LitT">>, 1, whittle_beam:chunks(Plain),
                                          {<<"LitT">>, PlainLiterals}))],
    [begin
         Last = byte_size(Form) - 1,
         bounded(fun() ->
                         [answer(changed(At, <<Byte>>, Form))
                          || At <- lists:seq(0, Last),
                             Old <- [binary:at(Form, At)],
                             Byte <- lists:usort([0, 255, Old + 1, Old - 1, Old bxor 16,
                                                  Old bxor 128]), Byte =/= Old]
                 end),
         bounded(fun() ->
                         [answer(changed(At, <<Word:32>>, Form))
                          || At <- lists:seq(0, Last - 3, 4),
                             Word <- [16#FFFFFFFF, 16#7FFFFFFF, 16#80000000, 16#10000000, 0, 1]]
                 end)
     end || Form <- Forms].

%% Changes several bytes at random, in larger files.
mutations(_) ->
    [begin
         Place = {proper_types:range(0, byte_size(Bytes) - 1), proper_types:byte()},
         made:holds(1000, proper_types:non_empty(proper_types:list(Place)),
                    fun(Changes) ->
                            Bad = lists:foldl(fun({At, Byte}, Form) ->
                                                      changed(At, <<Byte>>, Form)
                                              end, Bytes, Changes),
                            [_] = bounded(fun() -> [answer(Bad)] end),
                            true
                    end)
     end || Bytes <- [beam(queue), beam(base64)]].

%% Strings may overlap: a small file cannot ask for gigabytes of them.
heap_of_strings(_) ->
    Size = 1_000_000,
    Strings = << <<(rand:uniform(256) - 1)>> || _ <- lists:seq(1, Size) >>,
    Name = whittle_beam_module:function(
             made, 0, true,
             [{bs_match_string, [{f, 1}, {x, 0}, 8 * Length,
                                 {string, binary:part(Strings, Size - Length, Length)}]}
              || Length <- lists:seq(Size div 2, Size, 1000)]),
    {ok, Module} = taken(beam(queue)),
    ?assertEqual({error, {damaged, {<<"StrT">>, too_large}}},
                 whittle_beam:assemble(#{}, whittle_beam_module:put(Name, Module))).

%% Errors keep their lines.
lines(_) ->
    Text = "-module(m_lines).\n-export([f/1, g/1]).\nf(X) ->\n  X + a.\n\n"
        "-file(\"other.erl\", 7).\ng(X) ->\n\n  X + b.\n",
    {ok, Module} = taken(made:beam(Text)),
    {ok, Bytes} = whittle_beam:assemble(
                    #{}, whittle_beam_module:keep(#{{g, 1} => []}, Module)),
    {module, m_lines} = code:load_binary(m_lines, "", Bytes),
    ?assertMatch({m_lines, g, 1, [{file, "other.erl"}, {line, 9} | _]},
                 try apply(m_lines, g, [1])
                 catch error:badarith:Stack -> lists:keyfind(m_lines, 1, Stack)
                 end).

%% Internal functions

taken(Bytes) ->
    {ok, Beam} = whittle_beam:read(Bytes),
    whittle_beam:disassemble(Beam).

%% For any bytes the answer is a value that can be assembled, or an error of one line.
answer(Bytes) ->
    case whittle_beam:read(Bytes) of
        {ok, Beam} ->
            case whittle_beam:disassemble(Beam) of
                {ok, #{functions := Functions} = Module} ->
                    _ = [whittle_beam_module:references(Each) || Each <- Functions],
                    answer_of(whittle_beam:assemble(#{}, Module));
                Error -> answer_of(Error)
            end;
        Error -> answer_of(Error)
    end.

answer_of({ok, Bytes}) when is_binary(Bytes) -> taken;
answer_of({error, Error}) ->
    Line = unicode:characters_to_binary(whittle_beam:format_error(Error)),
    true = is_binary(Line) andalso binary:match(Line, <<"\n">>) =:= nomatch,
    refused.

%% Runs a function in a process with at most 64 MB.
bounded(Fun) ->
    Heap = #{size => 8 * 1024 * 1024, kill => true, error_logger => false},
    {_, Monitor} = spawn_opt(fun() -> exit({done, Fun()}) end, [monitor, {max_heap_size, Heap}]),
    receive
        {'DOWN', Monitor, process, _, {done, Result}} -> Result;
        {'DOWN', Monitor, process, _, Reason} -> error(Reason)
    end.

changed(At, New, Bytes) ->
    Size = byte_size(New),
    <<Before:At/binary, _:Size/binary, After/binary>> = Bytes,
    <<Before/binary, New/binary, After/binary>>.

%% Compiles a small module with all chunks and kinds of operands of this compiler.
everything() ->
    made:beam("-module(everything).\n-export([f/1, g/2, h/3]).\n"
              "f(X) when is_float(X) -> X * 2.5 + 1.0;\n"
              "f({a, Y}) -> [{b, Y}, \"text\" | f(Y)];\n"
              "f(X) when X > 123456789012345678901 -> X - 100000;\n"
              "f(X) -> try g(X, -70000) catch error:R -> {R, X} end.\n"
              "g(<<\"ab\", N:16, R/binary>>, M) -> fun(Z) -> {Z, N, R, M} end;\n"
              "g(X, Y) -> receive {X, Z} -> <<Y:8, \"cd\", Z/binary>> after 10 -> ok end.\n"
              "-file(\"other.hrl\", 3).\n"
              "h(#{k := V} = M, A, <<>>) -> M#{V => A, k := [self() | 1]};\n"
              "h(A, B, C) -> lists:map(fun(X) -> {X, A, B} end, C).\n").

random(Bytes) -> rand:seed_s(exsss, erlang:phash2(Bytes)).

beams(Apps) ->
    lists:append([read(filename:join([code:lib_dir(App), "ebin", "*.beam"])) || App <- Apps]).

read(Wildcard) ->
    [Bytes || File <- filelib:wildcard(Wildcard), {ok, Bytes} <- [file:read_file(File)]].

beam(Module) ->
    {Module, Bytes, _} = code:get_object_code(Module),
    Bytes.

form(Chunks) -> whittle_beam_form:write(Chunks).
