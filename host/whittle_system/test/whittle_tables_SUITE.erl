%% Tests which modules are compiled again with tables, and what they keep.
-module(whittle_tables_SUITE).
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([changed/1, unchanged/1, options/1, not_compiled/1, candidate/1]).

all() -> [changed, unchanged, options, not_compiled, candidate].

init_per_suite(Config) ->
    {ok, Otp} = whittle_otp_lib:open(code:lib_dir()),
    [{otp, Otp} | Config].

end_per_suite(_) -> ok.

%% The module keeps its MD5, its attributes and the options of its compiler.
changed(Config) ->
    Beam = beam("", [debug_info]),
    {changed, Bytes} = rewrite(Beam, Config),
    {ok, New} = whittle_beam:read(Bytes),
    ?assertEqual(identity(Beam), identity(New)),
    [?assertEqual({Id, whittle_beam:chunk(Id, Beam)}, {Id, whittle_beam:chunk(Id, New)})
     || Id <- [<<"Attr">>, <<"CInf">>]],
    ?assert(lists:member({binary, at, 2}, whittle_beam:imports(New))),
    {module, with_table} = code:load_binary(with_table, "", Bytes),
    ?assertEqual([{700, 0}, {1200, 3}, none, none],
                 [with_table:f(X) || X <- [700, 1200, 5.5, 9999]]),
    true = code:delete(with_table).

unchanged(Config) ->
    [?assertEqual({Text, Options, unchanged}, {Text, Options, rewrite(beam(Text, Options), Config)})
     || {Text, Options} <- [{"", []},
                            {"", [debug_info, tuple_calls]},
                            {"-export([g/0]). g() -> fun() -> 1 end.", [debug_info]}]].

%% The caller's variable is not for these modules.
options(Config) ->
    true = os:putenv("ERL_COMPILER_OPTIONS", "[export_all]"),
    try
        {changed, Bytes} = rewrite(beam("h() -> 1.", [debug_info, nowarn_unused_function]), Config),
        {ok, New} = whittle_beam:read(Bytes),
        ?assertNot(lists:member({h, 0}, whittle_beam:exports(New)))
    after
        os:unsetenv("ERL_COMPILER_OPTIONS")
    end.

%% A passing reason is no answer that a cache may keep.
not_compiled(Config) ->
    true = os:putenv("TMPDIR", "/dev/null"),
    try ?assertEqual({error, not_compiled}, rewrite(beam("", [debug_info]), Config))
    after
        os:unsetenv("TMPDIR")
    end.

candidate(_) ->
    ?assertNot(whittle_tables:is_candidate(beam("", [debug_info]))),
    {ok, Large} = file:read_file(code:which(unicode_util)),
    {ok, Beam} = whittle_beam:read(Large),
    ?assert(whittle_tables:is_candidate(Beam)).

%% Internal functions

rewrite(Beam, Config) ->
    whittle_tables:rewrite(with_table, Beam, proplists:get_value(otp, Config)).

identity(Beam) -> whittle_beam:identity(whittle_beam:chunks(Beam)).

beam(More, Options) ->
    Clauses = [io_lib:format("f(~b) -> {~b, ~b};", [N, N, N rem 7]) || N <- lists:seq(700, 1300)],
    Forms = [begin
                 {ok, Tokens, _} = erl_scan:string(lists:flatten([Form, "."])),
                 {ok, Parsed} = erl_parse:parse_form(Tokens),
                 Parsed
             end || Form <- ["-module(with_table)", "-export([f/1])"] ++ string:lexemes(More, ".")
                            ++ [[Clauses, "f(_) -> none"]]],
    {ok, with_table, Bytes} = compile:forms(Forms, Options),
    {ok, Beam} = whittle_beam:read(Bytes),
    Beam.
