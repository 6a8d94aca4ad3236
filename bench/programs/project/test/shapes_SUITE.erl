-module(shapes_SUITE).

-include_lib("common_test/include/ct.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2, kinds/1, main/1]).

all() -> [kinds, main].

init_per_testcase(Case, Config) -> [{named, Case} | Config].

end_per_testcase(_, _) -> ok.

kinds(Config) ->
    kinds = ?config(named, Config),
    directory = shapes:kind(?config(priv_dir, Config)).

main(_) ->
    ok = shapes:main(["1 + 2 + 3"]).
