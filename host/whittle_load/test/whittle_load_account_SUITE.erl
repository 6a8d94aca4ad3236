%% Tests the account of a connection: on the stock VM, and its parsers on texts of the kernel.
-module(whittle_load_account_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1]).
-export([measures/1, talks/1, ended_program/1, choices/1, wrong_choices/1, all_kinds/1, slopes/1,
         whole_machine/1, tables/1, slabs/1, kernel/1, no_kernel/1, fields/1, any_text/1]).

suite() -> [{timetrap, {minutes, 3}}].

all() ->
    [measures, talks, ended_program, choices, wrong_choices, all_kinds, slopes, whole_machine,
     tables, slabs, kernel, no_kernel, fields, any_text].

%% The program is compiled for the stock VM, whose blocks have about the same sizes.
init_per_suite(Config) ->
    {ok, _} = application:ensure_all_started(whittle_load),
    Dir = proplists:get_value(priv_dir, Config),
    Source = filename:join([code:priv_dir(whittle_load), "programs", "connections", "src"]),
    {ok, connections} = compile:file(filename:join(Source, "connections"), [{outdir, Dir}]),
    {ok, _} = file:copy(filename:join(Source, "connections.app.src"),
                        filename:join(Dir, "connections.app")),
    [{command, {os:find_executable("erl"),
                ["-noinput", "-pa", Dir, "-eval", "ok = application:start(connections)"],
                [{"ERL_ZFLAGS", "+sbwt none +P 32768"}]}} | Config].

end_per_suite(_) -> ok.

%% A connection has a process and a port at each end. A process of the VM takes at least 300 bytes,
%% the kernel's two sockets more than 2 kB.
measures(Config) ->
    as_root(fun() ->
                    #{server := Server, client := Client, kernel := Kernel} = costs(Config, #{}),
                    [?assert(slope("process", End) > 300) || End <- [Server, Client]],
                    [?assert(slope("port, socket", End) > 300) || End <- [Server, Client]],
                    ?assert(slope("TCP", Kernel) > 2000),
                    ?assertEqual([], filelib:wildcard("/sys/fs/cgroup/memory/whittle-load-"
                                                      ++ os:getpid() ++ "-*"))
            end).

%% All connections talk, also those of a raw socket.
talks(Config) ->
    as_root(fun() -> costs(Config, #{traffic => talking, transport => socket}) end).

as_root(Test) ->
    case whittle_load_memory:read() of
        {ok, _} -> Test();
        {error, {memory, {"/proc/slabinfo", eacces}}} -> {skip, "only root can read the slabs"}
    end.

costs(Config, Change) ->
    [Base | _] = whittle_load_account:kinds([]),
    {ok, Points} = whittle_load_account:points(maps:merge(Base, Change), 200,
                                               proplists:get_value(command, Config),
                                               fun(_) -> ok end),
    ?assertEqual([40, 60, 80, 100, 120, 140, 160, 180, 200], [N || {N, _, _, _} <- Points]),
    whittle_load_account:costs(Points).

slope(Name, Parts) ->
    {_, #{slope := Slope}} = lists:keyfind(Name, 1, Parts),
    Slope.

ended_program(_) ->
    [Base | _] = whittle_load_account:kinds([]),
    {error, Reason} = whittle_load_account:points(Base, 100, {"/bin/sh", ["-c", "exit 7"], []},
                                                  fun(_) -> ok end),
    ?assertEqual("the server ended (exit code 7): its messages stand above",
                 lists:flatten(whittle_load:format_error(Reason))).

choices(_) ->
    ?assertMatch({ok, [#{transport := socket, active := once, hibernate := true}]},
                 whittle_load_account_text:choices(["transport=socket"])),
    {ok, Kinds} = whittle_load_account_text:choices(["active=true", "active=10", "hibernate=no"]),
    ?assertMatch([#{active := 10, hibernate := false}, #{active := true, hibernate := false}],
                 Kinds).

wrong_choices(_) ->
    [?assertEqual({Choice, Text}, {Choice, begin
                                               {error, Reason} =
                                                   whittle_load_account_text:choices([Choice]),
                                               lists:flatten(whittle_load:format_error(Reason))
                                           end})
     || {Choice, Text} <-
            [{"tls", "--only cannot be `tls': give FACTOR=VALUE, such as transport=inet"},
             {"transprt=inet", "there is no factor `transprt' (did you mean transport?); take one "
               "of transport, security, active, buffer, hibernate, traffic"},
             {"active=11", "`active' cannot be `11': take one of once, true, 10"}]],
    ?assertEqual({error, impossible},
                 whittle_load_account_text:choices(["transport=socket", "security=tls"])).

%% No kind occurs twice, and each value of each factor occurs.
all_kinds(_) ->
    Kinds = whittle_load_account:kinds([]),
    ?assertEqual(length(Kinds), length(lists:usort(Kinds))),
    [?assertMatch([_ | _], [Kind || Kind <- Kinds, maps:get(Factor, Kind) =:= Value])
     || {Factor, Values} <- whittle_load_account:factors(), {_, Value} <- Values].

%% Exact points give exact slopes, and a part that nobody measures is unexplained.
slopes(_) ->
    #{server := Server, kernel := Kernel, total := #{slope := Total}, measured := Measured,
      unexplained := #{slope := Unexplained, interval := {Low, High}}} =
        whittle_load_account:costs([point(N) || N <- [100, 200, 300, 400]]),
    ?assert(abs(slope("port, socket", Server) - 1500) < 1.0e-6),
    ?assert(abs(slope("free in carriers", Server) - 100) < 1.0e-6),
    ?assert(abs(slope("TCP", Kernel) - 5000) < 1.0e-6),
    ?assert(abs(slope("kernel, client", Measured) - 4000) < 1.0e-6),
    %% 2 ends of 1,700 bytes in pages, and 4,000 of the kernel. Parts: 1,600 in carriers, of which
    %% 10 are not touched, and 5,000 in slabs
    ?assert(abs(Total - 11_400) < 1.0e-6),
    ?assert(abs(Unexplained - 3_220) < 1.0e-6),
    ?assert(Low =< Unexplained andalso Unexplained =< High).

%% Without control groups, the kernel's memory is that of all programs.
whole_machine(_) ->
    #{measured := Measured} =
        whittle_load_account:costs([{N, Server#{kernel := none}, Client, Kernel}
                                    || {N, Server, Client, Kernel}
                                           <- [point(N) || N <- [100, 200, 300]]]),
    ?assert(abs(slope("kernel", Measured) - 5060) < 1.0e-6),
    ?assertEqual(3, length(Measured)).

tables(_) ->
    [Kind | _] = whittle_load_account:kinds([]),
    Accounts = [{Kind, 400, whittle_load_account:costs([point(N) || N <- [100, 200, 300, 400]])}],
    [Sums | _] = whittle_load_account_text:tables(Accounts),
    ?assertEqual([["bytes per connection", "server's VM", "client's VM", "kernel, server",
                   "kernel, client", "sum", "parts", "unexplained"],
                  ["inet once 64 hibernates", "1,700 ±0", "1,700 ±0", "4,000 ±0", "4,000 ±0",
                   "11,400 ±0", 8180, "28.2 %"]],
                 [[case Cell of
                       _ when is_integer(Cell) -> Cell;
                       _ -> unicode:characters_to_list(Cell)
                   end || Cell <- Row] || Row <- Sums]),
    [#{connections := 400, transport := inet}] = whittle_load_account_text:json(Accounts),
    _ = whittle_json:encode(whittle_load_account_text:json(Accounts)).

point(N) ->
    Vm = #{allocators => #{driver_alloc => #{blocks => 1500 * N, carriers => 1600 * N},
                           %% Blocks of a moment
                           temp_alloc => #{blocks => 0, carriers => 50 * N}},
           process => #{anonymous => 1700 * N + 5_000_000, files => 1_000_000, tables => 0,
                       untouched => 10 * N},
           kernel => 4000 * N},
    {N, Vm, Vm, #{slabs => #{<<"TCP">> => 5000 * N, <<"ext4_inode_cache">> => rand:uniform(1000)},
                  other => 60 * N}}.

slabs(_) ->
    ?assertEqual(#{<<"TCP">> => 30 * 4096 * 8 / 13, <<"dentry">> => 2000 * 4096 / 21},
                 whittle_load_memory:parse_slabs(slab_text())).

slab_text() ->
    <<"slabinfo - version: 2.1\n"
      "# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables "
      "<limit> <batchcount> <sharedfactor> : slabdata <active_slabs> <num_slabs> <sharedavail>\n"
      "TCP                   30     36   2432   13    8 : tunables    0    0    0 : slabdata      "
      "3      3      0\n"
      "dentry              2000   2100    192   21    1 : tunables    0    0    0 : slabdata    "
      "100    100      0\n">>.

kernel(_) ->
    ?assertEqual({ok, #{slabs => whittle_load_memory:parse_slabs(slab_text()),
                        other => 1024 * (1000 - 100 - 50 - 200 - 300 - 120 - 20 - 10) - 4096 * 7}},
                 whittle_load_memory:kernel(
                   [slab_text(),
                    <<"MemTotal:  1000 kB\nMemFree:  100 kB\nBuffers: 50 kB\nCached: 200 kB\n"
                      "AnonPages: 300 kB\nSlab: 120 kB\nPageTables: 20 kB\nKernelStack: 10 kB\n">>,
                    <<"  pagesets\n    cpu: 0\n              count:    3\n    cpu: 1\n"
                      "              count:    4\n">>])).

no_kernel(_) ->
    ?assertEqual(error, whittle_load_memory:kernel([<<>>, <<"MemTotal: 12 kB\n">>, <<>>])).

fields(_) ->
    ?assertEqual(#{<<"RssAnon">> => 1024, <<"Active(anon)">> => 2048},
                 whittle_load_memory:parse_fields(<<"Name:\terl\nRssAnon:\t       1 kB\n"
                                                    "Active(anon): 2 kB\nSize: x kB\n">>)).

%% No bytes make the parsers fail.
any_text(_) ->
    Broken = proper_types:bind({proper_types:integer(0, byte_size(slab_text()) - 1),
                                proper_types:byte()},
                               fun({At, Byte}) ->
                                       <<Before:At/binary, _, After/binary>> = slab_text(),
                                       <<Before/binary, Byte, After/binary>>
                               end, false),
    made:holds(500, proper_types:oneof([proper_types:binary(), Broken]),
               fun(Text) ->
                       is_map(whittle_load_memory:parse_slabs(Text))
                           andalso is_map(whittle_load_memory:parse_fields(Text))
               end).
