%% Tests which references whittle_template finds. flags_SUITE compares it with the launcher.
-module(whittle_template_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, defaults/1, values/1, no_references/1, terms/1, many/1, any_text/1]).

all() -> [defaults, values, no_references, terms, many, any_text].

defaults(_) ->
    [?assertEqual({Text, Completed}, {Text, whittle_template:with_defaults(Text, <<"0">>)})
     || {Text, Completed} <- [{<<"a ${B} c">>, <<"a 0 c">>}, {<<"${B:-x y}">>, <<"x y">>},
                              {<<"${B:-}">>, <<"0">>}, {<<"${A}${B:-b}">>, <<"0b">>},
                              {<<"${B:-$}{c}">>, <<"${c}">>}, {<<"${a:b}">>, <<"0">>},
                              {<<"${B:-:-}">>, <<":-">>}, {<<"">>, <<"">>}]].

values(_) ->
    Values = #{<<"A">> => <<"a">>, <<"B">> => <<>>},
    ?assertEqual(<<"a a d 0 0">>,
                 whittle_template:completed(<<"${A} ${A:-d} ${B:-d} ${B} ${C}">>, Values, <<"0">>)).

no_references(_) ->
    Long = binary:copy(<<"N">>, 256),
    [?assertEqual(Text, whittle_template:with_defaults(Text, <<"0">>))
     || Text <- [<<"$B">>, <<"$ {B}">>, <<"${B">>, <<"${}">>, <<"${:-b}">>, <<"${B:-b">>,
                 <<"${", Long/binary, "}">>]],
    <<_, Name/binary>> = Long,
    ?assertEqual(<<"0">>, whittle_template:with_defaults(<<"${", Name/binary, "}">>, <<"0">>)).

terms(_) ->
    [?assertEqual({Text, Names}, {Text, whittle_template:terms_from(Text)})
     || {Text, Names} <- [{<<"[{a, ${B}}].">>, [<<"B">>]}, {<<"[{a, \"${B}\"}].">>, []},
                          {<<"[{a, '${B}'}].">>, [<<"B">>]}, {<<"[{a, ${B:-1}}].">>, []},
                          {<<"[{a, ${B:-1.5}}].">>, []}, {<<"[{a, ${B:-b}}].">>, [<<"B">>]},
                          {<<"[{a, ${B}}]. % ${C}">>, [<<"B">>]},
                          {<<"[{a, b${B:-1}}].">>, [<<"B">>]},
                          {<<"[{a, 1${B:-0}}, {c, ${D:--1}}, ${, $}].">>, [<<"B">>]},
                          {<<"[{a, 'b${B:-1}'}].">>, [<<"B">>]},
                          {<<"[\"${A}\", ${B}, \"${C}${D}\", x${E}].">>, [<<"B">>, <<"E">>]},
                          {<<"[{a, $${B}}, {c, \"${D}\"}].">>, [<<"B">>, <<"D">>]},
                          %% Nobody can say what is outside of the string.
                          {<<"[{a, \"${B}}].">>, [<<"B">>]},
                          {<<"[${B}, \"", 255, "\"].">>, [<<"B">>]},
                          {<<"[whittle_reference, \"${B}\"].">>, [<<"B">>]}]].

%% Neither the number of references nor the one of their starts makes it slow or fills the VM.
many(_) ->
    ?assertEqual([<<"A">>], whittle_template:terms_from(binary:copy(<<"${A}, ">>, 50_000))),
    Open = binary:copy(<<"${">>, 500_000),
    ?assertEqual(Open, whittle_template:with_defaults(Open, <<"0">>)).

any_text(_) ->
    Parts = proper_types:list(
              proper_types:oneof([<<"${">>, <<"}">>, <<":-">>, <<"A">>, <<"\"">>, <<"%">>, <<"\n">>,
                                  <<"x">>, <<"$">>, <<"~">>, <<255>>])),
    made:holds(500, Parts,
               fun(All) ->
                       Text = iolist_to_binary(All),
                       Names = whittle_template:terms_from(Text),
                       Names -- whittle_template:variables(Text) =:= []
                           andalso lists:all(fun(Name) -> binary:match(Text, Name) =/= nomatch end,
                                             Names)
               end).
