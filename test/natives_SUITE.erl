%% What needs C beyond ERTS, or a disk: crypto, TLS, mnesia.
-module(natives_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([crypto/1, tls/1, database_on_disk/1]).

all() -> [crypto, tls, database_on_disk].

init_per_suite(Config) ->
    Out = filename:join(proplists:get_value(priv_dir, Config), "keeper"),
    [{keeper, running:build(running:fixture("keeper"), Out)} | Config].

end_per_suite(_Config) -> ok.

%% The digest is that of FIPS 180-4's example.
crypto(Config) ->
    ?assertEqual({0, <<"{<<\"BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD\">>,"
                       "true,<<\"text\">>,true,16}\n">>},
                 keeper(Config, ["crypto"])).

tls(Config) ->
    ?assertEqual({0, <<"{'tlsv1.3',{ok,<<\"hellohello\">>}}\n">>}, keeper(Config, ["tls"])).

%% Each start finds what the one before has written.
database_on_disk(Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "database"),
    ?assertEqual({0, <<"{true,1}\n">>}, keeper(Config, ["count", Dir])),
    ?assertEqual({0, <<"{false,2}\n">>}, keeper(Config, ["count", Dir])),
    ?assert(filelib:is_regular(filename:join(Dir, "schema.DAT"))).

keeper(Config, Words) -> running:run(proplists:get_value(keeper, Config), Words).
