#!/usr/bin/env escript
%% Compares start, memory and size of built examples with the same OTP, started through `erl`. All
%% figures come from one run, turn by turn.
%%
%% usage: escript bench/figures.escript OTP_ROOT RUNS HELLO SMALLEST RELAY [cold]
%%
%% HELLO and SMALLEST are the same program, whole and as small as Whittle makes it.
%%
%% Model. The baseline is the OTP in OTP_ROOT with its interpreter (as in flavor `size`), in
%% interactive mode, with `-noshell`. systools makes its boot script for the same applications.
%% Start is the time from the start of the process to the first byte of its output, hello's one
%% line. Both programs start in turn, RUNS times. With `cold`, the script drops the page cache
%% before each start (as root). Memory is the figure of at_rest.escript for relay without changes,
%% on its own port, 7000, without a node name, a third of RUNS times in turn. (A port in a flag
%% would make the VM load its parser.)
-mode(compile).

main([Root, Runs, Hello, Smallest, Relay | Cold]) ->
    Work = string:trim(os:cmd("mktemp -d")),
    Stock = fun(App, Dir) -> stock(Root, App, Dir, Work) end,
    HelloStock = Stock("hello", ebin("hello")),
    RelayStock = Stock("relay", ebin("relay")),
    N = list_to_integer(Runs),
    [sizes(What, File) || {What, File} <- [{"whole", Hello}, {"smallest", Smallest}]],
    second_build(),
    starts("warm", N, {Hello, []}, HelloStock, fun() -> ok end),
    starts("warm, smallest", N, {Smallest, []}, HelloStock, fun() -> ok end),
    [starts("cold", N, {Hello, []}, HelloStock, fun drop_page_cache/0) || Cold =/= []],
    idle(Relay, RelayStock, N),
    os:cmd("rm -rf " ++ Work),
    ok.

ebin(App) ->
    [Dir | _] = filelib:wildcard("examples/" ++ App ++ "/_build/default/lib/" ++ App ++ "/ebin"),
    filename:absname(Dir).

%% Makes the command line of the baseline.
stock(Root, App, Ebin, Work) ->
    Erl = filename:join([Root, "bin", "erl"]),
    Rel = filename:join(Work, App),
    Script = lists:flatten(io_lib:format(
        "{ok, [{application, A, P}]} = file:consult(\"~s/~s.app\"),"
        "Vsn = fun(N) -> application:load(N), {ok, V} = application:get_key(N, vsn), {N, V} end,"
        "T = {release, {\"~s\", \"1\"}, {erts, erlang:system_info(version)},"
        "     [Vsn(kernel), Vsn(stdlib), {A, proplists:get_value(vsn, P)}]},"
        "ok = file:write_file(\"~s.rel\", io_lib:format(\"~~p.~~n\", [T])),"
        "{ok, _, _} = systools:make_script(\"~s\", [{path, [\"~s\"]}, {outdir, \"~s\"},"
        "                                           silent, no_warn_sasl, local]), halt().",
        [Ebin, App, App, Rel, Rel, Ebin, Work])),
    Output = os:cmd(Erl ++ " -noshell -eval '" ++ Script ++ "'"),
    filelib:is_regular(Rel ++ ".boot") orelse error({no_boot_script, Output}),
    {Erl, ["-emu_flavor", "emu", "-noshell", "-boot", Rel]}.

sizes(What, Hello) ->
    Raw = filelib:file_size(Hello),
    {match, [Vm]} = re:run(os:cmd("./whittle size --json " ++ Hello),
                           "\"name\":\"vm\",[^}]*\"stored\":(\\d+)",
                           [{capture, all_but_first, list}]),
    Line = fun(Name, Bytes) ->
                   io:format("hello ~-9s ~-12s ~10s bytes~n", [What, Name, thousands(Bytes)])
           end,
    Line("of it the VM", list_to_integer(Vm)),
    Xz = list_to_integer(string:trim(os:cmd("xz -9e -k -c " ++ Hello ++ " | wc -c"))),
    Line("the file", Raw),
    Line("under xz -9e", Xz).

%% The cache has all earlier builds.
second_build() ->
    Times = [begin
                 {Us, ""} = timer:tc(fun() -> os:cmd("./whittle build examples/hello"
                                                     " -o out/hello 2>&1 >/dev/null") end),
                 Us / 1000
             end || _ <- lists:seq(1, 3)],
    io:format("second build of hello       ~s~n", [spread(Times)]).

starts(What, N, Ours, Stock, Before) ->
    Times = [begin
                 Before(), One = start(Ours),
                 Before(), Other = start(Stock),
                 {One, Other}
             end || _ <- lists:seq(1, N)],
    {OurTimes, StockTimes} = lists:unzip(Times),
    io:format("first line, ~s: ours        ~s~n", [What, spread(OurTimes)]),
    io:format("first line, ~s: erl         ~s~n", [What, spread(StockTimes)]),
    io:format("first line, ~s: ours / erl  ~.2f (median of ~b pairs: ~.2f)~n",
              [What, median(OurTimes) / median(StockTimes), N,
               median([A / B || {A, B} <- Times])]).

%% Measures the milliseconds to the first byte of output.
start({Program, Words}) ->
    From = erlang:monotonic_time(microsecond),
    Port = open_port({spawn_executable, Program}, [{args, Words}, exit_status, binary]),
    receive
        {Port, {data, _}} ->
            Ms = (erlang:monotonic_time(microsecond) - From) / 1000,
            receive {Port, {exit_status, 0}} -> Ms end;
        {Port, {exit_status, Code}} ->
            error({ended_without_a_line, Program, Code})
    end.

idle(Relay, {Erl, Words}, Runs) ->
    Stock = lists:join($\s, [Erl | Words]),
    Said = os:cmd(io_lib:format("escript bench/at_rest.escript ~b erl='~ts' relay='~ts'",
                                [(Runs + 2) div 3, Stock, Relay])),
    string:prefix(Said, "at rest") =/= nomatch orelse error({no_figures_at_rest, Said}),
    io:put_chars(Said).

drop_page_cache() ->
    os:cmd("sync; echo 3 > /proc/sys/vm/drop_caches").

spread(Times) ->
    Sorted = lists:sort(Times),
    io_lib:format("~6.1f ms (~.1f to ~.1f)", [median(Times), hd(Sorted), lists:last(Sorted)]).

median(Times) -> lists:nth((length(Times) + 1) div 2, lists:sort(Times)).

thousands(Number) ->
    Text = lists:reverse(integer_to_list(Number)),
    lists:reverse(lists:flatten(lists:join(",", threes(Text)))).

threes([A, B, C | [_ | _] = Rest]) -> [[A, B, C] | threes(Rest)];
threes(Rest) -> [Rest].
