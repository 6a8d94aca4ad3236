%% Tests the checks of bodies and queries: what is right, what each fault gives, and that no bytes
%% crash them.
-module(docket_input_SUITE).
-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([right/1, faults/1, queries/1, parties/1, any_bytes/1, written/1]).

all() -> [right, faults, queries, parties, any_bytes, written].

init_per_testcase(_, Config) -> Config.
end_per_testcase(_, _) -> ok.

-define(CHECK(Property),
        ?assertEqual(true, proper:quickcheck(Property, [{numtests, 500}, quiet, long_result]))).

right(_) ->
    ?assertEqual({ok, #{title => <<"a b">>, parties => []}},
                 docket_input:new(<<"{\"title\": \" a b \"}\n">>)),
    ?assertEqual({ok, #{title => <<"ä"/utf8>>, parties => [{<<"Bob">>, <<"x">>}]}},
                 docket_input:new(<<"{\"title\":\"\\u00e4\","
                                    "\"parties\":[{\"name\":\"Bob\",\"role\":\"x\"}]}">>)),
    ?assertEqual({ok, {3, #{state => closed}}},
                 docket_input:change(<<"{\"state\":\"closed\",\"version\":3}">>, none)),
    ?assertEqual({ok, {3, #{title => <<"x">>}}},
                 docket_input:change(<<"{\"title\":\"x\"}">>, "\"3\"")).

%% Each faulty body with words of its error
faults(_) ->
    Deep = binary:copy(<<"[">>, 60000),
    Digits = binary:copy(<<"9">>, 60000),
    [?assertMatch({_, {match, _}}, {Body, re:run(why(docket_input:new(Body)), Words)})
     || {Body, Words} <-
            [{<<>>, "not JSON"}, {<<"{">>, "not JSON"}, {<<"[]">>, "must be a JSON object"},
             {<<"{\"title\":\"a\"} x">>, "not JSON"}, {<<"{\"title\":\"", 255, "\"}">>, "not JSON"},
             {<<"{\"title\":\"\\ud800\"}">>, "not JSON"}, {<<"{}">>, "give title"},
             {<<"{\"title\":null}">>, "title takes.*is no text"},
             {<<"{\"title\":\"  \"}">>, "title takes.*only blanks"},
             {<<"{\"title\":\"a\\nb\"}">>, "control"},
             {<<"{\"title\":\"\\u202eabc\"}">>, "direction of a text"},
             {<<"{\"title\":\"", (binary:copy(<<"a">>, 201))/binary, "\"}">>,
              "1 to 200 characters, and this one has 201"},
             {<<"{\"title\":\"a\",\"title\":\"a\"}">>, "twice"},
             {<<"{\"title\":\"a\",\"owner\":\"bob\"}">>, "unknown name \"owner\""},
             {<<"{\"title\":\"a\",\"parties\":{}}">>, "parties takes"},
             {<<"{\"title\":\"a\",\"parties\":[1]}">>, "a party is"},
             {<<"{\"title\":\"a\",\"parties\":[{\"name\":\"b\",\"role\":\"c\",\"x\":1}]}">>,
              "a party is"},
             {<<"{\"title\":\"a\",\"parties\":[{\"name\":\"\",\"role\":\"c\"}]}">>,
              "name of a party"},
             {<<"{\"title\":", Deep/binary>>, "not JSON"},
             {<<"{\"title\":", Digits/binary, "}">>, "too many digits"},
             {<<"{\"title\":1.", Digits/binary, "}">>, "title takes.*is no text"},
             {binary:copy(<<" ">>, 65537), "larger than 65536"}]],
    [?assertMatch({_, {match, _}}, {Given, re:run(why(docket_input:change(Body, IfMatch)), Words)})
     || {Body, IfMatch, Words} = Given <-
            [{<<"{\"title\":\"a\"}">>, none, "give the version"},
             {<<"{\"title\":\"a\",\"version\":1}">>, "\"1\"", "not both"},
             {<<"{\"title\":\"a\",\"version\":\"1\"}">>, none, "whole number"},
             {<<"{\"title\":\"a\",\"version\":0}">>, none, "whole number"},
             {<<"{\"title\":\"a\",\"version\":1.5}">>, none, "whole number"},
             {<<"{\"version\":1}">>, none, "give title, parties or state"},
             {<<"{\"state\":\"ajar\",\"version\":1}">>, none, "open or closed"},
             {<<"{\"title\":\"a\"}">>, "W/\"x\"", "If-Match"}]].

why({error, Why}) -> iolist_to_binary(Why).

queries(_) ->
    ?assertEqual({ok, #{before => last, most => 20, filter => #{}}}, docket_input:list([])),
    ?assertEqual({ok, #{before => 0, most => 5, filter => #{state => open, text => <<"x">>}}},
                 docket_input:list([{<<"limit">>, <<"5">>}, {<<"before">>, <<"000000000000">>},
                                    {<<"state">>, <<"open">>}, {<<"search">>, <<" x ">>}])),
    [?assertMatch({_, {error, _}}, {Query, docket_input:list(Query)})
     || Query <- [[{<<"limit">>, <<"101">>}], [{<<"limit">>, <<"-1">>}], [{<<"limit">>, <<"1e1">>}],
                  [{<<"before">>, <<"x">>}], [{<<"state">>, <<"x">>}], [{<<"x">>, <<"x">>}]]],
    {match, _} = re:run(why(docket_input:version([{<<"version">>, <<"1">>}, {<<"x">>, <<"2">>}],
                                                 none)), "unknown name \"x\": give version"),
    ?assertEqual({ok, 3}, docket_input:version([{<<"version">>, <<"3">>}], none)),
    ?assertEqual({ok, none}, docket_input:none([])),
    {match, _} = re:run(why(docket_input:none([{<<"x">>, <<"1">>}])), "unknown name \"x\""),
    ?assertEqual({ok, #{'after' => 7, most => 100}}, docket_input:events([{<<"after">>, <<"7">>}])),
    ?assertMatch({ok, #{'after' := 0}}, docket_input:events([{<<"after">>, <<"0">>}])),
    [?assertEqual({Text, <<"after is 0, or a whole number above 0 of at most 15 digits">>},
                  {Text, why(docket_input:events([{<<"after">>, Text}]))})
     || Text <- [<<"x">>, <<"-1">>, <<"1000000000000000">>]],
    ?assertEqual({ok, {<<"a">>, <<"text/plain; charset=utf-8">>}},
                 docket_input:document([{<<"name">>, <<"a">>}], "text/plain; charset=utf-8")),
    ?assertEqual({ok, {<<"a">>, <<"application/octet-stream">>}},
                 docket_input:document([{<<"name">>, <<"a">>}], "")),
    {error, Other} = docket_input:document([{<<"name">>, <<"a">>}, {<<"x">>, <<"1">>}], ""),
    {match, _} = re:run(Other, "unknown name \"x\": give name"),
    [?assertMatch({_, {error, _}}, {Given, docket_input:document(Query, Type)})
     || {Query, Type} = Given <- [{[], ""}, {[{<<"name">>, <<"a\r\nb">>}], ""},
                                  {[{<<"name">>, <<"a">>}], "text/html\r\nX: y"},
                                  {[{<<"name">>, <<"a">>}], "text"}, {[{<<"nam">>, <<"a">>}], ""}]],
    {ok, _} = docket_input:area([{<<"width">>, <<"7">>}, {<<"x">>, <<"-0.5">>}]),
    [?assertMatch({_, {error, _}}, {Text, docket_input:area([{<<"x">>, Text}])})
     || Text <- [<<"nan">>, <<"1e999">>, <<"">>, binary:copy(<<"1">>, 1000)]].

%% A form has rows of parties, some of them empty.
parties(_) ->
    Form = #{<<"name1">> => <<"Miller, Ann">>, <<"role1">> => <<"heir, first">>,
             <<"name2">> => <<" ">>, <<"role2">> => <<>>, <<"name20">> => <<"Carol">>,
             <<"name21">> => <<"x">>},
    ?assertEqual([#{<<"name">> => <<"Miller, Ann">>, <<"role">> => <<"heir, first">>},
                  #{<<"name">> => <<"Carol">>, <<"role">> => <<>>}],
                 docket_input:parties(Form)),
    ?assertEqual([{<<"Miller, Ann">>, <<"heir, first">>}, {<<" ">>, <<>>}, {<<"Carol">>, <<>>}],
                 docket_input:rows(Form)).

%% Any bytes give a result or a sentence.
any_bytes(_) ->
    ?CHECK(?FORALL({Bytes, Query}, {bytes(), list({bytes(), bytes()})},
                   lists:all(fun({ok, _}) -> true;
                                ({error, Why}) -> is_binary(unicode:characters_to_binary(Why))
                             end,
                             [addressed(Bytes), docket_input:new(Bytes),
                              docket_input:change(Bytes, none),
                              docket_input:change(Bytes, binary_to_list(Bytes)),
                              docket_input:list(valid(Query)),
                              docket_input:events(valid(Query)), docket_input:area(valid(Query)),
                              docket_input:document(valid(Query), binary_to_list(Bytes)),
                              docket_input:number(Bytes), docket_input:user(Bytes),
                              docket_input:form(Bytes)]))).

addressed(Bytes) ->
    case docket_input:address(Bytes) of
        {ok, _, _} -> {ok, Bytes};
        error -> {error, "a bad address"}
    end.

%% Bytes that are often close to JSON, an address or a form
bytes() ->
    oneof([binary(), ?LET(Bytes, binary(), <<"{}", Bytes/binary>>),
           ?LET(Parts, list(oneof([<<"/">>, <<"?">>, <<"&">>, <<"#">>, <<"&#">>, <<"x">>, <<"=">>,
                                   <<";">>, <<"%">>, <<"%2F">>, <<"99999999">>, <<"1">>,
                                   binary(1)])),
                iolist_to_binary(Parts)),
           ?LET(Parts, list(oneof([<<"{">>, <<"}">>, <<"\"title\"">>, <<":">>, <<",">>, <<"[">>,
                                             <<"]">>, <<"\"a\"">>, <<"1">>, <<"null">>,
                                                 <<"\"parties\"">>,
                                             <<"\"version\"">>, binary(2)])),
                                                 iolist_to_binary(Parts))]).

%% docket_http passes on texts only.
valid(Query) -> [Pair || {Name, Value} = Pair <- Query, is_text(Name), is_text(Value)].

is_text(Bytes) -> is_list(unicode:characters_to_list(Bytes)).

%% Fields that JSON writes come back.
written(_) ->
    ?CHECK(?FORALL({Title, Names}, {line(200), resize(20, list(line(50)))},
                   begin
                       Fields = #{title => Title, parties => [#{name => N, role => N}
                                                              || N <- Names]},
                       {ok, Read} = docket_input:new(iolist_to_binary(json:encode(Fields))),
                       Read =:= #{title => Title, parties => [{N, N} || N <- Names]}
                   end)).

line(Most) ->
    ?LET(Chars,
         non_empty(list(oneof([range($!, $~), range(16#C0, 16#2FF), range(16#1F600, 16#1F64F)]))),
         unicode:characters_to_binary(lists:sublist(Chars, Most))).
