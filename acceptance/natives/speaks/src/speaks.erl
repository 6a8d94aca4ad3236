%% Encodes terms as JSON and decodes them, with jiffy.
-module(speaks).
-behaviour(application).

-export([start/2, stop/1]).

-spec start(term(), term()) -> no_return().
start(_, _) ->
    Term = {[{<<"text">>, <<"größer"/utf8>>}, {<<"numbers">>, [1, -2.5, 1.0e-300, 1 bsl 70]},
             {<<"deep">>, {[{<<"true">>, true}, {<<"null">>, null}]}}]},
    io:format("~ts~n", [jiffy:encode(Term)]),
    %% Long enough that jiffy yields to its scheduler meanwhile.
    Long = lists:duplicate(20000, Term),
    Encoded = iolist_to_binary(jiffy:encode(Long)),
    io:format("~b bytes, the same ~p~n", [byte_size(Encoded), jiffy:decode(Encoded) =:= Long]),
    {'EXIT', {Why, _}} = catch jiffy:decode(<<"{\"a\":">>),
    io:format("~0p~n", [Why]),
    halt().

-spec stop(term()) -> ok.
stop(_) -> ok.
