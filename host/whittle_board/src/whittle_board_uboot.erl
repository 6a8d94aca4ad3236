%% @hidden Writes what U-Boot reads: the script that chooses a slot of a card, and the environment
%% that starts the script. This module is pure; docs/cards.md describes what the script does.
-module(whittle_board_uboot).

-export([script/2, environment/1, wrapped/2, knows/1]).

%% The bytes of the environment in the flash memory of qemu's boards.
-define(ENVIRONMENT, 16#40000).
%% Numbers of U-Boot's include/image.h: a script as a kind of image, the operating system Linux, and
%% no compression.
-define(SCRIPT, 6).
-define(LINUX, 5).
-define(NONE, 0).

%% @doc Writes the script for a board and a layout of its card. U-Boot takes numbers as hexadecimal.
-spec script(whittle_board_data:board(), whittle_card:layout()) -> binary().
script(#{name := Name, cmdline := Words,
         card := #{interface := Interface, number := Number, device := Device, work := Work,
                   load := Load, start := Start}},
       #{a := {A, Size}, b := {B, Size}, state := {Copy1, Copy2}}) ->
    Read = fun(To, At, Count) -> [Interface, " read ", To, $\s, At, $\s, Count] end,
    Other = hex(Work + 512),
    State = fun(From) -> ["env import -c ", From, " 200 seq good trial tries"] end,
    %% A number that `itest' would take for a negative one, or that has no next one, does not count.
    Copy = fun(Key, To, At) ->
                   [["setenv ", Key, " 0"],
                    ["if ", Read(To, hex(At), "1"), "; then if ", State(To),
                     "; then setenv ", Key, " ${seq}; fi; fi"],
                    ["if itest 0x${", Key, "} -eq 7fffffff; then setenv ", Key, " 0; fi"]]
           end,
    Lines =
        [[Interface, " dev ", integer_to_list(Number)]]
        ++ Copy("one", hex(Work), Copy1) ++ Copy("two", Other, Copy2) ++
        ["setenv seq 0",
         "setenv good a",
         "setenv trial none",
         "setenv tries 0",
         %% The next write replaces the other copy.
         ["setenv place ", hex(Copy1)],
         ["if itest 0x${two} -gt 0; then ", State(Other), "; fi"],
         "if itest 0x${one} -gt 0; then if itest 0x${one} -gt 0x${two}; then",
         ["setenv place ", hex(Copy2)],
         State(hex(Work)),
         "fi; fi",
         "setenv first a",
         "if test \"${good}\" = b; then setenv first b; fi",
         %% The card must have the lower number of tries before the trial begins. Otherwise a bad
         %% image would start for ever. A worn card may drop a write without an error.
         "if itest 0x${tries} -gt 0; then",
         "if test \"${trial}\" = a -o \"${trial}\" = b; then",
         "setexpr tries ${tries} - 1",
         "setexpr seq ${seq} + 1",
         ["if env export -c -s 200 ", hex(Work), " good seq trial tries; then"],
         ["if ", Interface, " write ", hex(Work), " ${place} 1; then"],
         ["if ", Read(Other, "${place}", "1"), "; then"],
         ["if cmp.b ", hex(Work), $\s, Other, " 200; then setenv first ${trial}; fi"],
         "fi; fi; fi; fi; fi",
         "setenv second b",
         "if test \"${first}\" = b; then setenv second a; fi",
         "for slot in ${first} ${second}; do",
         ["setenv at ", hex(A)],
         ["if test \"${slot}\" = b; then setenv at ", hex(B), "; fi"],
         "setenv size 0",
         "setenv crc 0",
         Read(hex(Work), "${at}", "1"),
         ["if env import -c ", hex(Work), " 200 size crc; then"],
         %% `itest' takes large numbers for negative ones.
         ["if itest 0x${size} -gt 0 && itest 0x${size} -le ", hex((Size - 1) * 512), "; then"],
         "setexpr at ${at} + 1",
         "setexpr count ${size} + 1ff",
         "setexpr count ${count} / 200",
         Read(hex(Load), "${at}", "${count}"),
         ["crc32 ", hex(Load), " ${size} ", hex(Work)],
         ["if itest.l *", hex(Work), " == 0x${crc}; then"],
         ["setenv bootargs \"", Words, " WHITTLE_BOARD=", Name, " WHITTLE_CARD=", Device,
          " WHITTLE_SLOT=${slot}\""],
         ["setenv load ", hex(Load)],
         Start,
         "fi; fi; fi",
         "echo \"whittle: slot ${slot} is empty or damaged\"",
         "done",
         "echo \"whittle: no slot starts: write the card again\"",
         %% One read may have failed. Nobody is near many boards to switch them off and on.
         "sleep 5",
         "reset"],
    iolist_to_binary([[Line, $\n] || Line <- Lines]).

%% @doc Writes the environment of U-Boot in a flash memory that is otherwise zero. It does without
%% the zeros at its end.
-spec environment([{string(), string()}]) -> binary().
environment(Variables) ->
    Record = whittle_card:record(?ENVIRONMENT, [{list_to_binary(Name), list_to_binary(Value)}
                                                || {Name, Value} <- Variables]),
    Texts = lists:sum([length(Name) + length(Value) + 2 || {Name, Value} <- Variables]),
    binary:part(Record, 0, 4 + Texts + 1).

%% @doc Gives a script the head that U-Boot wants, which mkimage otherwise writes. The date is 0.
-spec wrapped(Arch :: string(), binary()) -> binary().
wrapped(Arch, Script) ->
    Data = <<(byte_size(Script)):32, 0:32, Script/binary>>,
    Head = fun(Crc) ->
                   <<16#27051956:32, Crc:32, 0:32, (byte_size(Data)):32, 0:32, 0:32,
                     (erlang:crc32(Data)):32, ?LINUX, (arch(Arch)), ?SCRIPT, ?NONE,
                     "Whittle", 0:25/unit:8>>
           end,
    <<(Head(erlang:crc32(Head(0))))/binary, Data/binary>>.

%% @doc Tells whether U-Boot has a number for a processor.
-spec knows(Arch :: term()) -> boolean().
knows(Arch) -> lists:keymember(Arch, 1, archs()).

%% Internal

arch(Name) ->
    {Name, Number} = lists:keyfind(Name, 1, archs()),
    Number.

%% U-Boot's numbers of the processors that Linux calls so.
archs() -> [{"arm", 2}, {"arm64", 22}, {"mips", 5}, {"riscv", 26}].

hex(Number) -> string:lowercase(integer_to_list(Number, 16)).
