-module(shapes_tests).

-include_lib("eunit/include/eunit.hrl").
-include("shapes.hrl").

area_test() -> ?assertEqual(6, shapes:area(#rectangle{width = 2, height = 3})).

name_test() -> ?assertEqual(shapes, shapes:name()).

kind_test_() -> [?_assertEqual(directory, shapes:kind(".")), ?_assertError(_, shapes:kind("no"))].

week_test() -> ?assertEqual({2026, 53}, shapes:week({2027, 1, 3})).
