%% Builds images of examples/blinky for boards, and boots them in their emulators: alone, two alike
%% boards with a serial line between them (ARMv7), and two unlike ones (ARMv7 and 64-bit ARM). An
%% image of fixtures/answer tests the network, and images of fixtures/guarded test the watchdogs.
%%
%% The suite needs the kernels of the boards. Without one in the cache, the first case waits for its
%% build (3 minutes). The cases with a board whose target is not in WHITTLE_TARGETS do not run:
%% `make test' builds no VM for 64-bit ARM, `make boards' does.
-module(image_SUITE).

-import(machine, [expect/2]).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, groups/0, init_per_suite/1, end_per_suite/1, init_per_group/2, end_per_group/2]).
-export([parts/1, little_memory/1, changed/1, both_ways/1, cut/1, off_and_on/1]).
-export([dhcp/1, fixed/1, silent_server/1, no_network/1]).
-export([blocked/1, unhealthy/1, hung_kernel/1, healthy/1, never_healthy/1, no_library/1]).

%% Console, button and LED are those of the board: `whittle boards'. qemu presses for 100 ms. On a
%% busy machine the board may not run in this time. Then only its interrupt notices the press, and a
%% debounce would ignore it.
-define(FLAGS, "ERL_FLAGS=-blinky device '\"ttyAMA0\"' -blinky led {0,0} -blinky console true"
        " -blinky button '{0,3,#{debounce=>0}}'").
-define(LED, 1).
-define(BUTTON, 8).
%% The bars of the size of an image.
-define(MOST_BYTES, 2_500_000).
-define(MOST_BYTES_64, 3_500_000).
%% The period of the watchdogs. A program on a busy machine gives a sign in less than two thirds of
%% it, if the emulator does not stand still for the last third.
-define(PERIOD, "10").

all() -> [{group, alike}, {group, unlike}, {group, network}, {group, watchdogs}].

groups() ->
    Joined = [both_ways, cut, off_and_on],
    [{alike, [], [parts, little_memory, changed, no_network | Joined]},
     {unlike, [], [parts, little_memory, changed | Joined]},
     {network, [], [dhcp, fixed, silent_server]},
     {watchdogs, [], [{group, watchdog}, {group, watchdog_64}]},
     {watchdog, [], [blocked, unhealthy, hung_kernel, healthy, never_healthy,
                      no_library]},
     {watchdog_64, [], [blocked, healthy]}].

init_per_suite(Config) -> with_image("qemu-arm", Config).

end_per_suite(_) -> ok.

%% The board under test is the last one.
init_per_group(alike, Config) ->
    [{boards, ["qemu-arm", "qemu-arm"]}, {bar, ?MOST_BYTES} | Config];
init_per_group(unlike, Config) ->
    case with_image("qemu-aarch64", Config) of
        {skip, _} = Skip -> Skip;
        With -> [{boards, ["qemu-arm", "qemu-aarch64"]}, {bar, ?MOST_BYTES_64} | With]
    end;
init_per_group(watchdog, Config) -> on("qemu-arm", Config);
init_per_group(watchdog_64, Config) -> on("qemu-aarch64", Config);
init_per_group(_, Config) ->
    case missing("qemu-aarch64") of
        none -> Config;
        Why -> {skip, Why}
    end.

end_per_group(_, _) -> ok.

with_image(Name, Config) ->
    case missing(Name) of
        none ->
            Image = filename:join(running:directory("image", Config), Name ++ ".img"),
            build(running:example("blinky"), Image,
                  ["--board", Name, "--shake", "functions", "--missing", "crash",
                   "--feature", "+terms,-control", "--env", ?FLAGS]),
            [{Name, Image} | Config];
        Why -> {skip, Why}
    end.

missing(Name) ->
    {ok, #{target := Target, emulator := [Emulator | _]}} = whittle_board:board(Name),
    case {[T || #{name := T} <- emulated:targets(), T =:= Target], os:find_executable(Emulator)} of
        {[], _} ->
            Target ++ " is not in WHITTLE_TARGETS; `make boards' tests the board " ++ Name;
        {_, false} -> "no " ++ Emulator ++ ": tools/setup board";
        _ -> none
    end.

build(Path, Image, Options) ->
    Before = os:getenv("ERL_LIBS", ""),
    %% `whittle build' finds whittle_io there.
    true = os:putenv("ERL_LIBS", filename:dirname(code:lib_dir(whittle_io))),
    try running:build(Path, Image, Options)
    after
        os:putenv("ERL_LIBS", Before)
    end.

%% Returns the image of the board under test.
image(Config) -> image(lists:last(proplists:get_value(boards, Config)), Config).

image(Name, Config) -> proplists:get_value(Name, Config).

%% `whittle size' accounts for every byte.
parts(Config) ->
    Image = image(Config),
    {0, Json} = running:whittle(["size", Image, "--json"]),
    #{<<"size">> := Size, <<"parts">> := Parts, <<"board">> := Board} =
        jiffy:decode(Json, [return_maps]),
    ?assertEqual(lists:last(proplists:get_value(boards, Config)), binary_to_list(Board)),
    ?assertEqual(filelib:file_size(Image), Size),
    ?assertEqual(Size, lists:sum([Stored || #{<<"stored">> := Stored} <- Parts])),
    ?assert(Size =< proplists:get_value(bar, Config)).

%% The board's own memory. The end of the input ends the program, and init switches the power off.
little_memory(Config) ->
    Board = machine:boot(image(Config), ["--no-reboot"]),
    try
        expect(Board, "line open"),
        machine:say(Board, "press\n"),
        expect(Board, "taken [0-9A-F]{16} 1"),
        machine:say(Board, [4]),
        machine:ended(Board)
    after
        machine:stop(Board)
    end.

%% A damaged image does not boot.
changed(Config) ->
    {ok, <<Before:1_000_000/binary, Byte, After/binary>>} = file:read_file(image(Config)),
    Other = filename:join(proplists:get_value(priv_dir, Config), "damaged.img"),
    ok = file:write_file(Other, [Before, Byte bxor 1, After]),
    {1, Said} = running:whittle(["run", Other]),
    ?assertNotEqual(nomatch, string:find(Said, "is damaged: copy it again")),
    ok = file:write_file(Other, Before),
    [begin
         {1, Cut} = running:whittle(Words),
         ?assertNotEqual({Words, nomatch}, {Words, string:find(Cut, "is a cut or damaged image")})
     end || Words <- [["run", Other], ["run", "--memory", "24M", Other], ["size", Other],
                      ["why", Other, "lists"]]].

%% A press on one board toggles the LED of the other.
both_ways(Config) ->
    joined(Config,
           fun(A, B, _) ->
                   [begin
                        press(Pressed),
                        expect(Other, "shown [0-9A-F]{16} " ++ integer_to_list(N) ++ ": LED "
                               ++ Word),
                        ?assertEqual(Led, machine:lines(Other) band ?LED)
                    end || {Pressed, Other, N, Word, Led}
                               <- [{A, B, 1, "on", 1}, {B, A, 1, "on", 1},
                                   {A, B, 2, "off", 0}, {B, A, 2, "off", 0}]]
           end).

%% Presses wait while the line is cut.
cut(Config) ->
    joined(Config,
           fun(A, B, Wire) ->
                   press(A),
                   expect(B, "shown [0-9A-F]{16} 1: LED on"),
                   waits(A, "taken 1, waiting 0"),
                   Wire ! cut,
                   expect(A, "down [0-9A-F]{16}"),
                   press(A),
                   waits(A, "taken 2, waiting 1"),
                   ?assertEqual(1, machine:lines(B) band ?LED),
                   Wire ! join,
                   expect(B, "shown [0-9A-F]{16} 2: LED off"),
                   ?assertEqual(0, machine:lines(B) band ?LED)
           end).

%% A press waits for a board that is off.
off_and_on(Config) ->
    joined(Config,
           fun(A, B, Wire) ->
                   press(A),
                   expect(B, "shown [0-9A-F]{16} 1: LED on"),
                   waits(A, "taken 1, waiting 0"),
                   machine:stop(B),
                   expect(A, "down [0-9A-F]{16}"),
                   press(A),
                   waits(A, "taken 2, waiting 1"),
                   with_board(image(Config),
                              fun(Again) ->
                                      plug(Wire, machine:uart(A), machine:uart(Again)),
                                      expect(Again, "shown [0-9A-F]{16} 2: LED on"),
                                      ?assertEqual(1, machine:lines(Again) band ?LED)
                              end)
           end).

%% qemu holds the button down for 100 ms. A press in this time would be none.
press(Board) ->
    case machine:lines(Board) band ?BUTTON of
        0 -> machine:press(Board);
        _ -> press(Board)
    end.

%% Asks until the board has noticed the press, or the answer of the other board.
waits(Board, Words) ->
    machine:say(Board, "info\n"),
    case re:run(expect(Board, "^boot .*taken"), Words, [{capture, none}]) of
        match -> ok;
        nomatch -> waits(Board, Words)
    end.

%%% The network. fixtures/answer says its address and its name servers. qemu has a DHCP server,
%%% which gives 10.0.2.15 and the name server 10.0.2.3.

dhcp(Config) ->
    ?assertEqual(<<"{[{10,0,2,15}],[{10,0,2,3}]}\n">>, answered(answering("dhcp", Config))).

fixed(Config) ->
    Image = answering("10.0.2.15/24,10.0.2.2,10.0.2.9", Config),
    ?assertEqual(<<"{[{10,0,2,15}],[{10,0,2,9}]}\n">>, answered(Image)).

%% The program starts without an answer of a DHCP server.
silent_server(Config) ->
    Board = machine:boot_unwired(answering("dhcp", Config)),
    try
        expect(Board, "^init: no DHCP server answers on eth0: the program starts without a "
               "network$"),
        expect(Board, "^listens$")
    after
        machine:stop(Board)
    end.

%% An image has a network only if it asks for one.
no_network(Config) ->
    {1, Said} = running:whittle(["run", image(Config), "--forward", "7000"]),
    ?assertNotEqual(nomatch, string:find(Said, ".img has no network, which --forward needs")).

answering(Network, Config) ->
    Image = filename:join(running:directory("image", Config), "answer.img"),
    build(running:fixture("answer"), Image,
          ["--board", "qemu-aarch64", "--env", "WHITTLE_NETWORK=" ++ Network]).

%% Returns the answer of the board's port 7000, after a connection from this machine.
answered(Image) ->
    Port = running:free_port(),
    Board = machine:boot(Image, ["--forward", integer_to_list(Port) ++ ":7000"]),
    try
        expect(Board, "^listens$"),
        {ok, Socket} = gen_tcp:connect("127.0.0.1", Port, [binary, {active, false}]),
        {ok, Answer} = gen_tcp:recv(Socket, 0),
        ok = gen_tcp:close(Socket),
        Answer
    after
        machine:stop(Board)
    end.

%%% The watchdog. fixtures/guarded says why the board started, and a line in each period. So at the
%%% line of the second period it has given signs, and only the period counts.

%% No process of the usual priority gets a turn. The watchdog resets the board, and the program runs
%% again, healthy.
blocked(Config) ->
    guarded(Config, "",
            fun(Board) ->
                    expect(Board, "^period 2$"),
                    machine:say(Board, "block\n"),
                    expect(Board, "^reset watchdog, watchdog {ok," ?PERIOD "}$"),
                    unreset(Board, "^period 3$")
            end).

%% The program's own check fails, or does not end.
unhealthy(Config) ->
    guarded(Config, "",
            fun(Board) ->
                    [begin
                         expect(Board, "^period 2$"),
                         machine:say(Board, [Command, $\n]),
                         expect(Board, Fault),
                         expect(Board, "^reset watchdog")
                     end || {Command, Fault} <-
                                [{"fail", "the program's own check returned broken instead of ok"},
                                 {"wait", "the program's own check did not end in time"}]]
            end).

%% A watchdog in software would hang with the kernel.
hung_kernel(Config) ->
    guarded(Config, "",
            fun(Board) ->
                    expect(Board, "^period 2$"),
                    machine:hang(Board),
                    expect(Board, "^reset watchdog")
            end).

%% The watchdog leaves a healthy board alone, and does not hold up its end.
healthy(Config) ->
    guarded(Config, "",
            fun(Board) ->
                    unreset(Board, "^period 5$"),
                    machine:say(Board, "end\n"),
                    unreset(Board, ended)
            end).

%% A program without a sign has its own time: 20 seconds here, in place of 10.
never_healthy(Config) ->
    guarded(Config, ",20",
            fun(Board) ->
                    machine:say(Board, "fail\n"),
                    unreset(Board, "^period 1$"),
                    expect(Board, "^reset watchdog")
            end).

%% A program that cannot give signs gets a note.
no_library(Config) ->
    Image = filename:join(running:directory("image", Config), "hello.img"),
    {0, Said} = running:whittle(["build", running:example("hello"), "--board",
                                 proplists:get_value(board, Config), "-o", Image,
                                 "--env", "WHITTLE_WATCHDOG=" ?PERIOD]),
    ?assertNotEqual({nomatch, Said},
                    {string:find(Said, "the program does not contain whittle_board_device"), Said}).

%% `make boards' runs these cases, which take minutes, and `make test' does not.
on(Name, Config) ->
    case {missing("qemu-aarch64"), missing(Name)} of
        {none, none} -> [{board, Name} | Config];
        {none, Why} -> {skip, Why};
        {Why, _} -> {skip, Why}
    end.

%% Boots the board with its watchdog.
guarded(Config, Start, Fun) ->
    Name = proplists:get_value(board, Config),
    Image = filename:join(running:directory("image", Config), "guarded.img"),
    build(running:fixture("guarded"), Image,
          ["--board", Name, "--shake", "functions", "--missing", "crash",
           "--feature", "+terms,-control", "--env", "WHITTLE_WATCHDOG=" ?PERIOD ++ Start]),
    Board = machine:boot(Image, ["--memory", "32M"]),
    try
        expect(Board, "^reset unknown"),
        Fun(Board)
    after
        machine:stop(Board)
    end.

%% Waits for a line, or for the end of the board, and fails if the board starts again before.
unreset(Board, Expected) ->
    case machine:line(Board) of
        ended when Expected =:= ended -> ok;
        ended -> error({ended, Expected});
        <<"reset ", _/binary>> -> error({reset, Expected});
        Line ->
            case Expected =/= ended andalso re:run(Line, Expected, [{capture, none}]) of
                match -> ok;
                _ -> unreset(Board, Expected)
            end
    end.

%%% Two boards and the line between them

joined(Config, Fun) ->
    [One, Other] = [image(Name, Config) || Name <- proplists:get_value(boards, Config)],
    with_board(One,
               fun(A) ->
                       with_board(Other,
                                  fun(B) ->
                                          Wire = wire(machine:uart(A), machine:uart(B)),
                                          [expect(Board, "up [0-9A-F]{16}") || Board <- [A, B]],
                                          Fun(A, B, Wire)
                                  end)
               end).

with_board(Image, Fun) ->
    Board = machine:boot(Image, []),
    try Fun(Board)
    after
        machine:stop(Board)
    end.

wire(One, Other) ->
    Wire = spawn_link(fun() -> carry(#{}, true) end),
    plug(Wire, One, Other),
    Wire.

%% A socket that the wire has already stays there.
plug(Wire, One, Other) ->
    _ = [gen_tcp:controlling_process(End, Wire) || End <- [One, Other]],
    Wire ! {plug, One, Other},
    ok.

carry(Ends, Joined) ->
    receive
        {tcp, From, Bytes} ->
            _ = [gen_tcp:send(maps:get(From, Ends), Bytes) || Joined],
            carry(Ends, Joined);
        {plug, One, Other} ->
            [ok = inet:setopts(End, [{active, true}]) || End <- [One, Other]],
            carry(#{One => Other, Other => One}, Joined);
        cut -> carry(Ends, false);
        join -> carry(Ends, true);
        {tcp_closed, _} -> carry(Ends, Joined)
    end.
