%% Says terms in JSON and reads them back, by jiffy.
-module(speaks).
-behaviour(application).

-export([start/2, stop/1]).

-spec start(term(), term()) -> no_return().
start(_, _) ->
    Term = {[{<<"text">>, <<"größer"/utf8>>}, {<<"numbers">>, [1, -2.5, 1.0e-300, 1 bsl 70]},
             {<<"deep">>, {[{<<"true">>, true}, {<<"null">>, null}]}}]},
    io:format("~ts~n", [jiffy:encode(Term)]),
    %% Long enough for jiffy to give its scheduler back in between.
    Long = lists:duplicate(20000, Term),
    Encoded = iolist_to_binary(jiffy:encode(Long)),
    io:format("~b bytes, the same ~p~n", [byte_size(Encoded), jiffy:decode(Encoded) =:= Long]),
    {'EXIT', {Why, _}} = catch jiffy:decode(<<"{\"a\":">>),
    io:format("~0p~n", [Why]),
    halt().

-spec stop(term()) -> ok.
stop(_) -> ok.
