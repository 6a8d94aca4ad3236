-module(shapes_SUITE).

-include_lib("common_test/include/ct.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2, kinds/1, weeks/1, main/1]).

all() -> [kinds, weeks, main].

init_per_testcase(Case, Config) -> [{named, Case} | Config].

end_per_testcase(_, _) -> ok.

kinds(Config) ->
    kinds = ?config(named, Config),
    directory = shapes:kind(?config(priv_dir, Config)).

weeks(_) -> {2026, 53} = shapes:week({2027, 1, 3}).

main(_) ->
    ok = shapes:main(["1 + 2 + 3"]).
