%% Tests how a program is prepared for the stock OTP, with the OTP that runs the tests.
-module(whittle_measure_stock_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([in_place/1, copied/1, completed/1, refused/1]).

all() -> [in_place, copied, completed, refused].

init_per_testcase(Case, Config) -> made:dir(Case, Config).

end_per_testcase(_, _) -> ok.

%% OTP runs the application where it lies.
in_place(Config) ->
    Dir = app([], Config),
    {ok, Prepared} = prepare(Config),
    ?assertEqual(filename:join(Dir, "ebin"), ran_from(Prepared)),
    ?assertNot(filelib:is_dir(in("made.lib", Config))).

%% The modules of the system count, not those of the input. A copy has all files.
copied(Config) ->
    Dir = app([], Config),
    made:file(filename:join(Dir, "priv/tool"), "tool"),
    ok = file:change_mode(filename:join(Dir, "priv/tool"), 8#755),
    {ok, #{sha256 := Before}} = prepare(Config),
    System = system(Config),
    made:file(filename:join(Dir, "ebin/plain.beam"), "another"),
    {ok, #{sha256 := Sum} = Prepared} = prepare(System, Config),
    ?assertEqual(Before, Sum),
    ?assertEqual(in("made.lib/plain/ebin", Config), ran_from(Prepared)),
    Tool = in("made.lib/plain/priv/tool", Config),
    ?assertEqual({ok, <<"tool">>}, file:read_file(Tool)),
    ?assertEqual("755\n", os:cmd("stat -c %a '" ++ Tool ++ "'")).

%% systools demands keys without which the VM starts the application.
completed(Config) ->
    Dir = app([], Config),
    made:file(filename:join(Dir, "ebin/plain.app"),
              "{application, plain, [{vsn, \"1\"}, {mod, {plain, []}}]}."),
    {ok, Prepared} = prepare(Config),
    ?assertEqual(in("made.lib/plain/ebin", Config), ran_from(Prepared)).

%% The output is the reason of systools, without the expression that called it.
refused(Config) ->
    app([{start_phases, none}], Config),
    {error, {stock, "made", Output}} = prepare(Config),
    ?assertMatch({_, {match, _}}, {Output, re:run(Output, "plain.*start_phases", [dotall])}),
    ?assertMatch({_, nomatch}, {Output, re:run(Output, "make_script|badmatch")}).

%% Internal

app(Keys, Config) ->
    made:app(in("plain", Config), plain, [{mod, {plain, []}} | Keys],
             [{plain, "-module(plain). -export([start/2, stop/1]).\n"
                      "start(_, _) -> io:put_chars(filename:dirname(code:which(plain))), halt()."
                      "\nstop(_) -> ok."}]).

prepare(Config) -> prepare(system(Config), Config).

prepare(System, Config) ->
    whittle_measure_stock:prepare(System, code:root_dir(), in("made", Config), []).

system(Config) ->
    {ok, System} = whittle_read:read(in("plain", Config), #{otp_lib => code:lib_dir()}),
    System.

ran_from(#{program := Erl, arguments := Arguments}) ->
    {0, Output} = whittle_program:run(Erl, Arguments, #{}),
    unicode:characters_to_list(Output).

in(Path, Config) -> filename:join(proplists:get_value(dir, Config), Path).
