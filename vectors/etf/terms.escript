#!/usr/bin/env escript
%% -*- erlang -*-
%% Erlang's side of the tests of the external term format.
%%
%%   terms.escript generate FILE   writes the vectors that this release makes
%%   terms.escript partner         talks {packet, 4} on standard input and output
%%
%% A vector is a line of three fields, tabs between them: a name, what the term
%% is, and its bytes in hex. What the term is stands in a notation of its own
%% (describe/1), which shares nothing with the format under test: two sides that
%% describe a term in the same words have the same term.
%%
%% The partner answers these requests, all in external term format:
%%   {check, Bytes}   -> {Description, Bytes again, deterministic, compressed, minor 1, minor 0}
%%                       or error
%%   {read, Inputs}   -> for each input the description of its term, or error
%%   {random, N, Seed} -> N such answers in a list, for random terms
%%   {order, A, B}    -> less | equal | more, and whether A =:= B
%%   {print, Terms}   -> what ~tp makes of each
%%   {parse, Texts}   -> the term that each text is
-mode(compile).

main(["generate", File]) ->
    Lines = [[Name, $\t, describe(binary_to_term(Bytes)), $\t, hex(Bytes), $\n]
             || {Name, Bytes} <- vectors()],
    Head = ["# Written by vectors/etf/terms.escript generate, on OTP ",
            erlang:system_info(otp_release), "\n"],
    ok = file:write_file(File, [Head, Lines]);
main(["partner"]) ->
    Port = open_port({fd, 0, 1}, [binary, {packet, 4}, eof]),
    serve(Port);
main(_) ->
    io:format(standard_error, "usage: terms.escript generate FILE | partner~n", []),
    halt(2).

serve(Port) ->
    receive
        {Port, {data, Request}} ->
            port_command(Port, term_to_binary(answer(binary_to_term(Request)))),
            serve(Port);
        {Port, eof} ->
            ok
    end.

answer({check, Bytes}) ->
    try binary_to_term(Bytes) of
        Term -> forms(Term)
    catch
        error:badarg -> error
    end;
answer({read, Inputs}) ->
    [try binary_to_term(Bytes) of
         Term -> iolist_to_binary(describe(Term))
     catch
         error:badarg -> error
     end || Bytes <- Inputs];
answer({random, Count, Seed}) ->
    rand:seed(exsplus, {Seed, 1, 2}),
    [forms(random(3)) || _ <- lists:seq(1, Count)];
answer({order, A, B}) ->
    X = binary_to_term(A),
    Y = binary_to_term(B),
    Order = if X < Y -> less; X > Y -> more; true -> equal end,
    {Order, X =:= Y};
answer({print, Terms}) ->
    [unicode:characters_to_binary(io_lib:format("~tp", [Term])) || Term <- Terms];
answer({parse, Texts}) ->
    [begin
         {ok, Tokens, _} = erl_scan:string(unicode:characters_to_list([Text, ". "])),
         {ok, Term} = erl_parse:parse_term(Tokens),
         Term
     end || Text <- Texts].

forms(Term) ->
    {iolist_to_binary(describe(Term)),
     term_to_binary(Term),
     term_to_binary(Term, [deterministic]),
     term_to_binary(Term, [compressed]),
     term_to_binary(Term, [{minor_version, 1}]),
     term_to_binary(Term, [{minor_version, 0}])}.

%%% A term in words

describe(Term) when is_integer(Term) -> ["i", integer_to_list(Term)];
describe(Term) when is_float(Term) -> ["f", hex(<<Term/float>>)];
describe(Term) when is_atom(Term) -> ["a", hex(atom_to_binary(Term, utf8))];
describe(Term) when is_binary(Term) -> ["b", hex(Term)];
describe(Term) when is_bitstring(Term) ->
    Bits = bit_size(Term) rem 8,
    ["B", integer_to_list(Bits), ":", hex(<<Term/bitstring, 0:(8 - Bits)>>)];
describe([]) -> "[]";
describe(Term) when is_list(Term) -> ["[", describe_items(Term), "]"];
describe(Term) when is_tuple(Term) -> ["{", join([describe(T) || T <- tuple_to_list(Term)]), "}"];
describe(Term) when is_map(Term) ->
    Pairs = [iolist_to_binary([describe(K), "=>", describe(V)]) || {K, V} <- maps:to_list(Term)],
    ["#{", join(lists:sort(Pairs)), "}"];
describe(Term) when is_pid(Term) ->
    <<131, $X, Rest/binary>> = term_to_binary(Term),
    {Node, <<Id:32, Serial:32, Creation:32>>} = node_name(Rest),
    words("pid", Node, [Id, Serial, Creation]);
describe(Term) when is_port(Term) ->
    <<131, Tag, Rest/binary>> = term_to_binary(Term),
    case node_name(Rest) of
        {Node, <<Id:64, Creation:32>>} when Tag =:= $x -> words("port", Node, [Id, Creation]);
        {Node, <<Id:32, Creation:32>>} -> words("port", Node, [Id, Creation])
    end;
describe(Term) when is_reference(Term) ->
    <<131, $Z, _:16, Rest/binary>> = term_to_binary(Term),
    {Node, <<Creation:32, Words/binary>>} = node_name(Rest),
    words("ref", Node, [Creation | [Word || <<Word:32>> <= Words]]);
describe(Term) when is_function(Term) ->
    Info = fun(Key) -> element(2, erlang:fun_info(Term, Key)) end,
    case Info(type) of
        external ->
            ["fun(", join([describe(Info(Key)) || Key <- [module, name, arity]]), ")"];
        local ->
            %% Erlang takes 32 bits for a signed number, and the format does not say.
            NewIndex = Info(new_index) band 16#FFFFFFFF,
            Parts = [Info(module), Info(arity), Info(new_uniq), NewIndex, Info(index), Info(uniq)],
            ["fun(", join([describe(Part) || Part <- Parts ++ Info(env)]), ")"]
    end;
describe(Term) ->
    %% The only type left is OTP 29's native record.
    Get = fun(Function, Args) -> apply(records, Function, Args) end,
    Fields = Get(get_field_names, [Term]),
    Head = [Get(get_module, [Term]), Get(get_name, [Term]), Get(is_exported, [Term])],
    ["record(", join([describe(T) || T <- Head] ++
        [[describe(F), "=", describe(Get(get, [F, Term]))] || F <- Fields]), ")"].

describe_items([Last]) -> describe(Last);
describe_items([Item | Rest]) when is_list(Rest) -> [describe(Item), "," | describe_items(Rest)];
describe_items([Item | Tail]) -> [describe(Item), "|", describe(Tail)].

words(Kind, Node, Numbers) ->
    [Kind, "(", join([["a", hex(Node)] | [integer_to_list(N) || N <- Numbers]]), ")"].

node_name(<<$w, Size, Name:Size/binary, Rest/binary>>) -> {Name, Rest};
node_name(<<$d, Size:16, Name:Size/binary, Rest/binary>>) ->
    {unicode:characters_to_binary(Name, latin1), Rest};
node_name(<<$v, Size:16, Name:Size/binary, Rest/binary>>) -> {Name, Rest}.

join(Parts) -> lists:join(",", Parts).

hex(Bytes) -> << <<(if N < 10 -> $0 + N; true -> $a - 10 + N end)>> || <<N:4>> <= Bytes >>.

%%% The vectors

%% Each is the bytes of a term, of this release's making unless it is a tag that
%% this release only reads.
vectors() ->
    [{Name, term_to_binary(Term)} || {Name, Term} <- written()]
    ++ [{[Name, " compressed"], term_to_binary(Term, [compressed])}
        || {Name, Term} <- lists_() ++ maps_() ++ natives(), large(Term)]
    ++ [{[Name, " minor 1"], term_to_binary(Term, [{minor_version, 1}])}
        || {Name, Term} <- small()]
    ++ [{[Name, " minor 0"], term_to_binary(Term, [{minor_version, 0}])}
        || {Name, Term} <- floats()]
    ++ read().

large(Term) -> byte_size(term_to_binary(Term)) > 64.

written() ->
    small() ++ floats() ++ bigs() ++ lists_() ++ tuples() ++ binaries() ++ maps_() ++ funs()
        ++ natives().

small() ->
    Long = lists:duplicate(255, $x),
    Wide = lists:duplicate(255, 16#1F6F0),
    [{["integer ", integer_to_list(N)], N}
     || N <- [0, 1, 255, 256, -1, -128, 65535, 2147483647, -2147483648, 2147483648,
              -2147483649, 4294967295]]
    ++ [{["atom ", Name], list_to_atom(Text)}
        || {Name, Text} <- [{"empty", ""}, {"true", "true"}, {"nil", "nil"},
                            {"undefined", "undefined"}, {"plain", "ok"},
                            {"quoted", "Hello, world"}, {"latin 1", [16#E5, 16#E4, 16#F6]},
                            {"greek", [16#3BB]}, {"astral", [16#1F6F0]},
                            {"127", lists:duplicate(127, $y)}, {"255", Long}, {"255 wide", Wide}]]
    ++ [{"nil", []}, {"pair", {a, 1}}].

floats() ->
    [{["float ", integer_to_list(N)], F}
     || {N, F} <- lists:zip(lists:seq(1, 11),
            [0.0, -0.0, 1.0, -1.5, 0.1, 3.141592653589793, 1.7976931348623157e308, 5.0e-324,
             2.2250738585072014e-308, 1.0e22, 9007199254740993.0])].

bigs() ->
    [{[Sign, "big 2^", integer_to_list(Bits), " ", integer_to_list(Off)],
      list_to_integer([Sign, $1]) * ((1 bsl Bits) + Off)}
     || Bits <- [32, 47, 48, 53, 55, 56, 59, 60, 63, 64, 65, 128, 2032, 2040],
        Off <- [-1, 0, 1], Sign <- "+-"].

lists_() ->
    Bytes = [N rem 256 || N <- lists:seq(0, 299)],
    [{"string", "abc"}, {"string of all bytes", Bytes}, {"string of one", [0]},
     {"list with 256", [1, 2, 256]}, {"list with -1", [-1]}, {"list with a float", [1, 2.0]},
     {"string of 600", lists:duplicate(600, 7)},
     {"nested", [[], [[]], [[[a]]]]}, {"improper", [a | b]}, {"improper 2", [1, 2, 3 | <<"t">>]},
     {"improper map tail", [x | #{}]}, {"string in a list", [[1, 2, 3], "z"]},
     {"proplist", [{a, 1}, b, {c, [d]}]},
     {"deep", lists:foldl(fun(_, Acc) -> [Acc] end, [], lists:seq(1, 200))}].

tuples() ->
    [{["tuple ", integer_to_list(N)], list_to_tuple(lists:duplicate(N, N rem 7))}
     || N <- [0, 1, 2, 3, 255, 256]]
    ++ [{"record", {person, <<"Joe">>, 68}}, {"nested tuples", {{{{}}}}}].

binaries() ->
    [{["binary ", integer_to_list(N)], list_to_binary([N2 rem 251 || N2 <- lists:seq(1, N)])}
     || N <- [0, 1, 2, 3, 4, 5, 8, 11, 12, 13, 16, 17, 64, 65, 255, 256]]
    ++ [{["text ", integer_to_list(N)], list_to_binary(lists:duplicate(N, $q))}
        || N <- [1, 3, 4, 8, 9, 12, 13, 40, 41, 1024, 1025]]
    ++ [{["bits ", integer_to_list(N)], <<16#A5A5A5A5A5:N>>}
        || N <- [1, 2, 3, 4, 5, 6, 7, 9, 15, 17, 31, 33]]
    ++ [{"utf-8", unicode:characters_to_binary([16#E5, 16#3BB, 16#4FE1, 16#1F6F0])},
        {"utf-8 with a byte order mark", <<16#EF, 16#BB, 16#BF, "x">>},
        {"utf-8 long", unicode:characters_to_binary(lists:duplicate(50, 16#4FE1))},
        {"not utf-8", <<255, 254, 0, 128>>}, {"surrogate", <<16#ED, 16#A0, 16#80>>},
        {"overlong", <<16#C0, 16#80>>}].

maps_() ->
    Flat = maps:from_list([{N, N * N} || N <- lists:seq(1, 32)]),
    Hash = maps:from_list([{{N}, integer_to_binary(N)} || N <- lists:seq(1, 40)]),
    [{"map empty", #{}}, {"map atom keys", #{a => 1, b => 2}},
     {"map text keys", #{<<"a">> => 1, <<"b">> => 2}},
     {"map 1 and 1.0", #{1 => int, 1.0 => float}}, {"map of keys of all kinds",
        #{1 => a, {x, 2} => b, [] => c, "s" => d, #{} => e, <<1:3>> => f, -1.5 => g}},
     {"map 32", Flat}, {"map 33", Flat#{0 => zero}}, {"map 40", Hash},
     {"maps alike", [#{name => <<"a">>, age => N} || N <- lists:seq(1, 20)]},
     {"map in map", #{a => #{a => #{a => 1}}}},
     {"struct", #{'__struct__' => 'Elixir.Date', year => 2026}},
     {"map dangerous", #{<<"constructor">> => 1, <<"toString">> => 2, hasOwnProperty => 3}}].

funs() ->
    X = <<"held">>, Y = {1.5, [X]},
    [{"fun external", fun erlang:abs/1}, {"fun local", fun() -> ok end},
     {"fun closure", fun(A, B) -> {A, B, X, Y} end},
     {"fun in fun", begin F = fun() -> X end, fun() -> F() end end},
     {"pid", self_of("pid")}, {"reference made here", make_ref()}].

self_of("pid") -> list_to_pid("<0.42.7>").

natives() ->
    case has_records() of
        false -> [];
        true ->
            Make = fun(Module, Name, Fields, Exported) ->
                apply(records, create, [Module, Name, Fields, #{is_exported => Exported}])
            end,
            [{"native record", Make(shop, item, [{name, <<"nut">>}, {price, 1.5}], true)},
             {"native record not exported", Make(shop, item, [{z, 1}, {a, #{}}], false)},
             {"native record empty", Make(shop, nothing, [], true)},
             {"native record inside", [Make(m, r, [{r, Make(m, s, [{x, {1}}], true)}], false)]}]
    end.

%% Asked once: looking for a module that is not there searches every folder.
has_records() ->
    case persistent_term:get(?MODULE, undefined) of
        undefined ->
            Has = code:ensure_loaded(records) =:= {module, records},
            persistent_term:put(?MODULE, Has),
            Has;
        Has -> Has
    end.

%% Tags that this release reads and does not write, and terms of other nodes.
read() ->
    Node = <<$w, 5, "n@far">>,
    [{"pid of another node", <<131, $X, Node/binary, 1:32, 2:32, 16#89ABCDEF:32>>},
     {"pid old tag", <<131, $g, $d, 5:16, "n@far", 1:32, 2:32, 3>>},
     {"pid large", <<131, $X, Node/binary, 16#FFFFFFFF:32, 16#FFFFFFFF:32, 1:32>>},
     {"port of another node", <<131, $Y, Node/binary, 77:32, 9:32>>},
     {"port old tag", <<131, $f, $d, 5:16, "n@far", 77:32, 2>>},
     {"port wide", <<131, $x, Node/binary, 16#123456789ABCDEF0:64, 9:32>>},
     {"reference old tag", <<131, $e, $d, 5:16, "n@far", 99:32, 1>>},
     {"reference new tag", <<131, $r, 3:16, $d, 5:16, "n@far", 1, 1:32, 2:32, 3:32>>}]
    ++ [{["reference of ", integer_to_list(N), " words"],
         <<131, $Z, N:16, Node/binary, 5:32, <<<<W:32>> || W <- lists:seq(1, N)>>/binary>>}
        || N <- [1, 2, 3, 5]]
    ++ [{"atom small latin 1", <<131, $s, 3, 16#E5, 16#E4, 16#F6>>},
        {"atom latin 1 long", <<131, $d, 2:16, "ok">>},
        {"atom utf-8 long head", <<131, $v, 2:16, "ok">>},
        {"integer in a big", <<131, $n, 1, 0, 7>>}, {"big with zeros", <<131, $n, 12, 1, 5, 0:88>>},
        {"big large head", <<131, $o, 4:32, 0, 1, 2, 3, 4>>}, {"big of nothing", <<131, $n, 0, 1>>},
        {"list of none", <<131, $l, 0:32, 97, 5>>},
        {"list then list", <<131, $l, 1:32, 97, 1, $l, 1:32, 97, 2, $j>>},
        {"list then string", <<131, $l, 1:32, 97, 1, $k, 2:16, 8, 9>>},
        {"string empty", <<131, $k, 0:16>>},
        {"bits of 8", <<131, $M, 2:32, 8, 1, 2>>}, {"bits dirty", <<131, $M, 1:32, 3, 255>>},
        {"tuple large head", <<131, $i, 1:32, 97, 1>>},
        {"tuple large head of none", <<131, $i, 0:32>>},
        {"integer small in four bytes", <<131, $b, 5:32>>},
        {"fun of an unknown module",
         <<131, $p, 57:32, 2, 1:128, 3:32, 1:32, $w, 3, "far", 97, 1, 98, 77:32,
           $X, Node/binary, 1:32, 2:32, 3:32, 97, 42>>}].

%%% Random terms

random(Depth) ->
    Leaves = 11 + length(natives_random()),
    case rand:uniform(case Depth of 0 -> Leaves; _ -> Leaves + 6 end) of
        1 -> rand:uniform(300) - 20;
        2 -> random_integer();
        3 -> random_float();
        4 -> random_atom();
        5 -> random_text();
        6 -> rand_bytes(rand:uniform(40) - 1);
        7 -> random_bits();
        8 -> random_identifier();
        9 -> random_fun();
        10 -> [rand:uniform(256) - 1 || _ <- lists:seq(1, rand:uniform(10))];
        11 -> lists:nth(rand:uniform(6), [[], {}, #{}, <<>>, true, nil]);
        N when N > 11, N =< Leaves -> (lists:nth(N - 11, natives_random()))(Depth);
        N when N =:= Leaves + 1; N =:= Leaves + 2 -> list_to_tuple(some(Depth));
        N when N =:= Leaves + 3 -> some(Depth);
        N when N =:= Leaves + 4 -> some(Depth) ++ random(Depth - 1);
        N when N =:= Leaves + 5 ->
            [maps:from_list([{K, random(Depth - 1)} || K <- [a, b, c, <<"d">>]])
             || _ <- lists:seq(1, 3)];
        _ ->
            maps:from_list([{random(Depth - 1), random(Depth - 1)}
                            || _ <- lists:seq(1, rand:uniform(8) - 1)])
    end.

some(Depth) -> [random(Depth - 1) || _ <- lists:seq(1, rand:uniform(6) - 1)].

natives_random() ->
    case has_records() of
        false -> [];
        true -> [fun(Depth) ->
                  Fields = lists:sublist([x, y, z, 'field four'], rand:uniform(5) - 1),
                  Value = fun() ->
                              case Depth of 0 -> random_integer(); _ -> random(Depth - 1) end
                          end,
                  apply(records, create, [random_atom(), random_atom(),
                                          [{F, Value()} || F <- Fields],
                                          #{is_exported => rand:uniform(2) =:= 1}])
              end]
    end.

random_integer() ->
    Sign = lists:nth(rand:uniform(2), [1, -1]),
    Bytes = lists:nth(rand:uniform(8), [1, 4, 5, 6, 7, 8, 25, 260]),
    Sign * binary:decode_unsigned(rand_bytes(Bytes)).

random_float() ->
    case <<(rand:uniform(1 bsl 64) - 1):64>> of
        <<Float/float>> -> Float;
        _ -> float(rand:uniform(100))
    end.

random_atom() ->
    lists:nth(rand:uniform(8), [ok, error, 'with space', 'åäö', list_to_atom([16#3BB, 16#1F6F0]),
                                '', true, node@host]).

random_text() ->
    Point = fun() ->
                lists:nth(rand:uniform(6), [$a + rand:uniform(25), $\s, $0 + rand:uniform(9),
                                            16#E5, 16#4FE1, 16#1F6F0])
            end,
    unicode:characters_to_binary([Point() || _ <- lists:seq(1, rand:uniform(60) - 1)]).

random_bits() -> Bits = rand:uniform(40), <<(rand:uniform(1 bsl 40) - 1):Bits>>.

random_identifier() ->
    Node = lists:nth(rand:uniform(2), [<<$w, 5, "n@far">>, <<$w, 6, "m@near">>]),
    Word = fun() -> rand:uniform(1 bsl 32) - 1 end,
    Creation = rand:uniform(1 bsl 32) - 1,
    binary_to_term(
      case rand:uniform(5) of
          1 -> <<131, $X, Node/binary, (Word()):32, (Word()):32, Creation:32>>;
          2 -> <<131, $Y, Node/binary, (rand:uniform(1 bsl 28) - 1):32, Creation:32>>;
          3 -> <<131, $x, Node/binary, (rand:uniform(1 bsl 64) - 1):64, Creation:32>>;
          4 -> <<131, $Z, 3:16, Node/binary, Creation:32, (Word()):32, (Word()):32, (Word()):32>>;
          5 -> term_to_binary(lists:nth(rand:uniform(3), [self(), make_ref(), hd(erlang:ports())]))
      end).

random_fun() ->
    X = rand:uniform(1000), Y = random_text(),
    lists:nth(rand:uniform(5),
        [fun erlang:abs/1, fun lists:map/2, fun() -> X end, fun(A) -> {A, X, Y} end,
         fun(A, B, C) -> [A, B, C | Y] end]).

rand_bytes(Size) -> list_to_binary([rand:uniform(256) - 1 || _ <- lists:seq(1, Size)]).
