%% Builds an image of examples/blinky for the board qemu-arm, and boots it in the emulator: alone,
%% and two of them with a serial line between them.
%%
%% The suite needs the kernel of the board. Without it in the cache, the first case waits for its
%% build (3 minutes).
-module(image_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([parts/1, little_memory/1, changed/1, both_ways/1, cut/1, off_and_on/1]).

%% Console, button and LED are those of the board: `whittle boards'. qemu presses for 100 ms. On a
%% busy machine the board may not run in this time. Then only its interrupt notices the press, and a
%% debounce would ignore it.
-define(FLAGS, "ERL_FLAGS=-blinky device '\"ttyAMA0\"' -blinky led {0,0} -blinky console true"
        " -blinky button '{0,3,#{debounce=>0}}'").
-define(LED, 1).
-define(BUTTON, 8).
%% The bar of the size of an image.
-define(MOST_BYTES, 2_500_000).

all() -> [parts, little_memory, changed, both_ways, cut, off_and_on].

init_per_suite(Config) ->
    case machine:missing() of
        [] ->
            Dir = running:directory("image", Config),
            Before = os:getenv("ERL_LIBS", ""),
            %% `whittle build' finds whittle_io there.
            true = os:putenv("ERL_LIBS", filename:dirname(code:lib_dir(whittle_io))),
            Image = filename:join(Dir, "blinky.img"),
            try
                running:build(running:example("blinky"), Image,
                              ["--board", "qemu-arm", "--shake", "functions", "--missing", "crash",
                               "--feature", "+terms,-control", "--env", ?FLAGS])
            after
                os:putenv("ERL_LIBS", Before)
            end,
            [{image, Image} | Config];
        Missing -> {skip, "no " ++ string:join(Missing, ", ") ++ ": tools/setup board"}
    end.

end_per_suite(_) -> ok.

image(Config) -> proplists:get_value(image, Config).

%% `whittle size' accounts for every byte.
parts(Config) ->
    Image = image(Config),
    {0, Json} = running:whittle(["size", Image, "--json"]),
    #{<<"size">> := Size, <<"parts">> := Parts, <<"board">> := <<"qemu-arm">>} =
        jiffy:decode(Json, [return_maps]),
    ?assertEqual(filelib:file_size(Image), Size),
    ?assertEqual(Size, lists:sum([Stored || #{<<"stored">> := Stored} <- Parts])),
    ?assert(Size =< ?MOST_BYTES).

%% The board's own 16 MB. The end of the input ends the program, and init switches the power off.
little_memory(Config) ->
    Board = machine:boot(image(Config), ["--memory", "16M", "--no-reboot"]),
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
                   machine:stop(B),
                   expect(A, "down [0-9A-F]{16}"),
                   press(A),
                   waits(A, "taken 2, waiting 1"),
                   with_board(Config,
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

%% Asks until the board has noticed the press.
waits(Board, Words) ->
    machine:say(Board, "info\n"),
    case re:run(expect(Board, "^boot .*taken"), Words, [{capture, none}]) of
        match -> ok;
        nomatch -> waits(Board, Words)
    end.

%%% Two boards and the line between them

joined(Config, Fun) ->
    with_board(Config,
               fun(A) ->
                       with_board(Config,
                                  fun(B) ->
                                          Wire = wire(machine:uart(A), machine:uart(B)),
                                          [expect(Board, "up [0-9A-F]{16}") || Board <- [A, B]],
                                          Fun(A, B, Wire)
                                  end)
               end).

with_board(Config, Fun) ->
    Board = machine:boot(image(Config), []),
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

%% Waits for a line that contains the expression, and skips other lines.
expect(Board, Expression) ->
    case machine:line(Board) of
        ended -> error({ended, Expression});
        Line ->
            case re:run(Line, Expression, [{capture, none}]) of
                match -> Line;
                nomatch -> expect(Board, Expression)
            end
    end.
