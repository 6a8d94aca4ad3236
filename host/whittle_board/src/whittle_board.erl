%% @doc Makes bootable images for boards, reads them, and boots them in an emulator.
%%
%% A board is data ({@link board/1}). An image is one file that a boot loader or an emulator starts:
%% a kernel, the first process (native/init) and one executable of Whittle. docs/boards.md describes
%% boards and images. A card is one file with a boot partition and two images; docs/cards.md
%% describes it.
-module(whittle_board).

-include_lib("kernel/include/file.hrl").

-import(whittle_work, [steps/1]).

-export([boards/0, board/1, check/2, check_form/2, check_output/1, image/1]).
-export([kind/1, label/1, card/1, emulator/2, memory/1, serial/1, forward/1]).
-export([write/3]).
-export([format_error/1, details/1]).

-export_type([request/0, form/0, made/0, command/0, error/0]).

-type request() ::
        #{board := whittle_board_data:board(),
          program := file:filename(),       % an executable of Whittle for the board's target
          natives := [atom()],              % the C libraries in its VM; they and `env' choose the
                                            % features of the kernel
          name := binary(),                 % of the program
          version := binary(),
          out := file:filename(),
          form => form(),                   % default: image
          env => [string()],                % "NAME=VALUE", the program's environment
          runtime => whittle_runtime:options()}.

%% An image; an image for a slot, with a driver for the card; or a card with this image in its
%% slots.
-type form() :: image | slot | card.

-type made() :: #{out := file:filename(), size := pos_integer(),
                  label := whittle_board_label:label(),
                  card => whittle_board_card:card()}.    % of the form `card'

%% How to start an emulator.
-type command() ::
        #{words := [string()],
          board := whittle_board_data:board(), % with the memory that a card needs
          %% The file that the emulator needs, for a card. Its path is that of the options.
          environment => binary(),
          notes := [unicode:chardata()]}.   % damaged parts without which the board boots

-type error() ::
        whittle_board_data:error()
      | whittle_board_image:error()
      | {runtime, whittle_runtime:reason()}
      | {pack, whittle_pack:error()}
      | {other_target, #{board := string(), target := string(), given := string()}}
      | {bad_variable, {string(), unicode:chardata()}}
      | {unreadable, {file:filename(), file:posix() | badarg}}
      | {not_an_image, file:filename()}
      | {cut_image, file:filename()}
      | {damaged_image, file:filename()}
      | {not_ours, file:filename()}
      | {no_cards, Board :: string()}
      | {card_without_board, {file:filename(), Board :: string()}}
      | {too_large, #{image := pos_integer(), slot := pos_integer(), board := string()}}
      | {not_a_card, file:filename()}
      | {cut_card, file:filename()}
      | {damaged_card, {file:filename(), Part :: binary()}}
      | {disk, whittle_board_disk:error()}
      | {no_firmware, #{board := string(), file := file:filename()}}
      | {no_socket, file:filename()}
      | {no_network, file:filename()}
      | {no_emulator, #{board := string(), program := string()}}.

%% The limits of native/init/init.c, less the variables that the kernel sets.
-define(MOST_BYTES, 4096).
-define(MOST_VARIABLES, 48).
%% The largest image that is read.
-define(MOST_IMAGE, 1024 * 1024 * 1024).
%% The bytes at both ends that tell whether a file is an image.
-define(HEAD, 1024).
-define(TAIL, 64).

%% @doc Lists the boards that come with Whittle, ordered by name.
-spec boards() -> [whittle_board_data:board()].
boards() -> whittle_board_data:all().

%% @doc Returns a board by its name. A name with a slash is the path of a description.
-spec board(string()) -> {ok, whittle_board_data:board()} | {error, error()}.
board(Name) -> whittle_board_data:load(Name).

%% @doc Checks a board against the target that the user gave (or `any'), and the variables for the
%% program's environment, before a build.
-spec check(whittle_board_data:board(), #{target := string() | any, env := [string()]}) ->
          ok | {error, error()}.
check(#{name := Name, target := Target} = Board, #{target := Given, env := Lines}) ->
    case lists:member(Given, [any, Target]) of
        true -> variables(Board, Lines);
        false -> {error, {other_target, #{board => Name, target => Target, given => Given}}}
    end.

%% @doc Checks that an image or a card can be written to a path, as far as this is possible without
%% writing. An existing file must be an image or a card.
-spec check_output(file:filename()) -> ok | {error, error()}.
check_output(Out) ->
    case whittle_pack:check_beside(Out) of
        ok ->
            case filelib:is_regular(Out) andalso filelib:file_size(Out) > 0
                andalso not is_ours(Out) of
                true -> {error, {not_ours, Out}};
                false -> ok
            end;
        {error, Reason} -> {error, {pack, Reason}}
    end.

%% @doc Makes an image or a card. The file is complete or does not exist. The kernel and init come
%% from the cache or from a build, whose progress goes to the option `progress' of `runtime'.
-spec image(request()) -> {ok, made()} | {error, error()}.
image(#{board := Board, program := Program, natives := Natives, out := Out} = Request) ->
    #{name := BoardName, target := Target} = Board,
    Options = maps:get(runtime, Request, #{}),
    Env = maps:get(env, Request, []),
    Form = maps:get(form, Request, image),
    Features = whittle_board_kernel:features(Natives, Env) ++ [card || Form =/= image],
    steps([fun(_) -> variables(Board, Env) end,
           fun(_) -> check_form(Board, Form) end,
           fun(_) -> runtime(whittle_board_kernel:init(Board, Features, Options)) end,
           fun(#{dir := Init}) ->
                   steps([fun(_) -> runtime(whittle_board_kernel:kernel(Board, Features, Options))
                          end,
                          fun(#{dir := Kernel}) -> {ok, {Kernel, Init}} end])
           end,
           fun({Kernel, Init}) ->
                   case whittle_file:whole(Program, ?MOST_IMAGE) of
                       {ok, Bytes} ->
                           Environment = unicode:characters_to_binary([[L, $\n] || L <- Env]),
                           whittle_board_image:assemble(Board, Kernel, Init,
                                                        #{program => Bytes,
                                                          environment => Environment});
                       {error, Reason} -> {error, {unreadable, {Program, Reason}}}
                   end
           end,
           fun({Bytes, Parts}) ->
                   Network = [{network, text(Value)} || "WHITTLE_NETWORK=" ++ Value <- Env],
                   Label = (maps:from_list(Network))#{
                             board => text(BoardName), target => text(Target),
                             name => text(maps:get(name, Request)),
                             version => text(maps:get(version, Request)), parts => Parts},
                   written(Form, Board, Out, case Form of
                                                 image -> whittle_board_label:add(Bytes, Label);
                                                 _ -> whittle_board_label:add_for_slot(Bytes,
                                                                                       Label)
                                             end)
           end]).

%% @doc Checks that Whittle makes this form for a board.
-spec check_form(whittle_board_data:board(), form()) -> ok | {error, error()}.
check_form(#{name := Name} = Board, Form) when Form =/= image, not is_map_key(card, Board) ->
    {error, {no_cards, Name}};
check_form(_, _) -> ok.

%% @doc Tells whether a file is a card, ends as an image does, or only begins as one does (`cut').
%% It reads only both ends.
-spec kind(file:filename()) -> image | card | cut | other.
kind(File) ->
    case {is_card(File), is_image(File), part(File, bof, ?HEAD)} of
        {true, _, _} -> card;
        {false, true, _} -> image;
        {false, false, {ok, Bytes}} ->
            case whittle_board_label:is_kernel(Bytes) of
                true -> cut;
                false -> other
            end;
        {false, false, error} -> other
    end.

%% @doc Reads the label of an image: its board, its program, and all parts with their stored and raw
%% bytes. The error `damaged_image' means that a byte of the image has changed.
-spec label(file:filename()) -> {ok, #{size := pos_integer(), _ => _}} | {error, error()}.
label(File) ->
    case whittle_file:whole(File, ?MOST_IMAGE) of
        {ok, Bytes} ->
            case whittle_board_label:read(Bytes) of
                {ok, Label} -> {ok, Label#{size => byte_size(Bytes)}};
                {error, no_label} ->
                    case whittle_board_label:is_kernel(Bytes) of
                        true -> {error, {cut_image, File}};
                        false -> {error, {not_an_image, File}}
                    end;
                {error, damaged} -> {error, {damaged_image, File}}
            end;
        {error, Reason} -> {error, {unreadable, {File, Reason}}}
    end.

%% @doc Checks a card, and returns its contents and all its parts. An error means that no board
%% boots from it.
-spec card(file:filename()) -> {ok, whittle_board_card:card()} | {error, error()}.
card(File) ->
    case read_card(File) of
        {ok, {Card, _}} -> {ok, Card};
        {error, _} = Error -> Error
    end.

%% Returns the very bytes that were checked: the file may change.
read_card(File) ->
    case whittle_file:whole(File, ?MOST_IMAGE) of
        {ok, Bytes} ->
            case whittle_board_card:read(Bytes) of
                {ok, #{size := Size} = Card} -> {ok, {Card, binary:part(Bytes, 0, Size)}};
                {error, not_a_card} -> {error, {not_a_card, File}};
                {error, cut} -> {error, {cut_card, File}};
                {error, {damaged, Part}} -> {error, {damaged_card, {File, Part}}}
            end;
        {error, Reason} -> {error, {unreadable, {File, Reason}}}
    end.

%% @doc Writes a card to a disk, and reads all of it back. It refuses a disk that is in use. The
%% function receives the progress.
-spec write(file:filename(), file:filename(), fun((whittle_board_disk:event()) -> term())) ->
          {ok, #{size := pos_integer()}} | {error, error()}.
write(File, Device, Tell) ->
    steps([fun(_) -> read_card(File) end,
           fun({#{size := Size}, Bytes}) ->
                   case whittle_board_disk:write(Device, Bytes, Tell) of
                       ok -> {ok, #{size => Size}};
                       {error, Reason} -> {error, {disk, Reason}}
                   end
           end]).

%% @doc Returns the command that boots an image or a card.
-spec emulator(file:filename(), whittle_board_emulator:options()) ->
          {ok, command()} | {error, error()}.
emulator(File, Options) ->
    steps([fun(_) -> bootable(File) end,
           fun(Label) ->
                   case [Path || Path <- whittle_board_emulator:sockets(Options),
                                 not is_free(Path)] of
                       [] -> {ok, Label};
                       [Path | _] -> {error, {no_socket, Path}}
                   end
           end,
           %% A path in the label would choose a program of this machine: the emulator.
           fun(#{board := Name} = Label) ->
                   case maps:get(forward, Options, []) =:= [] orelse is_map_key(network, Label) of
                       true ->
                           case whittle_board_data:shipped(unicode:characters_to_list(Name)) of
                               {ok, Board} -> {ok, {Label, Board}};
                               {error, _} = Error -> Error
                           end;
                       false -> {error, {no_network, File}}
                   end
           end,
           fun({Label, #{name := Name, emulator := [Program | _]} = Board}) ->
                   case os:find_executable(Program) of
                       false -> {error, {no_emulator, #{board => Name, program => Program}}};
                       _ -> command(Label, Board, File, Options)
                   end
           end]).

%% A card has a network if the image in one of its slots has it.
bootable(File) ->
    case kind(File) of
        card ->
            case card(File) of
                {ok, #{a := A, b := B} = Card} ->
                    Networks = [maps:with([network], Label) || {image, Label} <- [A, B]],
                    {ok, lists:foldl(fun maps:merge/2, Card, Networks)};
                {error, _} = Error -> Error
            end;
        _ -> label(File)
    end.

command(#{damaged := Damaged}, #{name := Name} = Board, File, Options) ->
    case Board of
        #{card := #{firmware := Firmware, memory := Memory, least_memory := Least,
                    environment := Variables}} ->
            case filelib:is_regular(Firmware) of
                true ->
                    Words = whittle_board_emulator:card_command(Board, File, Options),
                    {ok, #{words => Words,
                           board => Board#{memory := Memory, least_memory := Least},
                           environment => whittle_board_uboot:environment(Variables),
                           notes => [[Part, " is damaged, and the board boots without it"]
                                     || Part <- Damaged]}};
                false -> {error, {no_firmware, #{board => Name, file => Firmware}}}
            end;
        _ -> {error, {card_without_board, {File, Name}}}
    end;
command(_, Board, File, Options) ->
    {ok, #{words => whittle_board_emulator:command(Board, File, Options), board => Board,
           notes => []}}.

%% qemu removes whatever is at the path of a socket.
is_free(Path) ->
    case file:read_link_info(Path) of
        {error, enoent} -> true;
        {ok, #file_info{type = other, mode = Mode}} when Mode band 8#170000 =:= 8#140000 ->
            %% A socket. Nobody must listen there.
            case gen_tcp:connect({local, Path}, 0, []) of
                {ok, Socket} ->
                    ok = gen_tcp:close(Socket),
                    false;
                {error, _} -> true
            end;
        _ -> false
    end.

%% @doc Reads a size of memory in megabytes: `24M' or `1G'.
-spec memory(string()) -> {ok, pos_integer()} | error.
memory(Text) -> whittle_board_emulator:memory(Text).

%% @doc Reads the other end of an emulated serial line: `pty', `tcp:PORT' or `unix:PATH'.
-spec serial(string()) -> {ok, whittle_board_emulator:serial()} | error.
serial(Text) -> whittle_board_emulator:serial(Text).

%% @doc Reads ports of this machine and the board's ports that they lead to: `7000' or
%% `8080:80,7000'.
-spec forward(string()) -> {ok, [whittle_board_emulator:forward(), ...]} | error.
forward(Text) -> whittle_board_emulator:forward(Text).

%% @doc Formats an error as one line for a person. The line ends with the next thing to do.
-spec format_error(error()) -> unicode:chardata().
format_error({unknown_board, #{board := Name, known := Known}}) ->
    ["there is no board ", whittle_file_name:printable(Name),
     whittle_suggestion:hint(Name, Known), "; use one of ", lists:join(", ", Known),
     ", or the path of a description (./FILE.config)"];
format_error({bad_board, #{file := File, why := Why}}) ->
    [File, " does not describe a board: ", Why, "; docs/boards.md describes the keys"];
format_error({other_target, #{board := Name, target := Target, given := Given}}) ->
    ["the board ", Name, " needs the target ", Target, ", not ", Given,
     ": leave out --target"];
format_error({bad_variable, {Line, Why}}) ->
    ["the variable `", whittle_file_name:printable(Line), "' ", Why];
format_error({link, _}) ->
    "the link of the image failed, as the lines above say: report this as a bug of Whittle";
format_error({no_place, {Dir, Reason}}) ->
    ["cannot write to ", Dir, " (", file:format_error(Reason),
     "): free space there, or set TMPDIR to another directory"];
format_error({unreadable, {File, Reason}}) ->
    [File, " ", whittle_file:format_error(Reason), ": name another file"];
format_error({not_an_image, File}) ->
    [File, " is no image of a board: build one with `whittle build PATH --board NAME'"];
format_error({cut_image, File}) ->
    [File, " is a cut or damaged image, or a kernel that Whittle did not make (its end is not that "
     "of an image): copy it again, or build it again"];
format_error({damaged_image, File}) ->
    [File, " is damaged: copy it again, or build it again"];
format_error({not_ours, File}) ->
    [File, " exists and is no image or card of a board: name another file with -o"];
format_error({no_cards, Board}) ->
    ["the description of the board ", Board, " has no card: leave out --format, or add the key "
     "`card' (docs/boards.md)"];
format_error({card_without_board, {File, Board}}) ->
    [File, " cannot start: the description of its board ", Board, " has no card: build the card "
     "again, for another board"];
format_error({too_large, #{image := Size, slot := Room, board := Board}}) ->
    ["the image has ", whittle_number:text(Size), " bytes, and a slot of a card for ", Board,
     " holds ", whittle_number:text(Room), ": make the program smaller (--shake functions "
     "--missing crash), or the slots larger (`slot' in the board's description)"];
format_error({not_a_card, File}) ->
    [File, " is no card: build one with `whittle build PATH --board NAME --format card'"];
format_error({cut_card, File}) ->
    [File, " is a card without its end: copy it again, or build it again"];
format_error({damaged_card, {File, Part}}) ->
    [File, " is a damaged card (", Part, "): copy it again, or build it again"];
format_error({disk, Reason}) -> whittle_board_disk:format_error(Reason);
format_error({no_firmware, #{board := Board, file := File}}) ->
    ["the boot loader for cards of ", Board, " is missing (", File, "): install it (Debian "
     "package u-boot-qemu)"];
format_error({no_socket, Path}) ->
    [Path, " is another file, or the socket of a program that runs, and the emulator would remove "
     "it: name another path"];
format_error({no_network, File}) ->
    [File, " has no network, which --forward needs: build it with --env WHITTLE_NETWORK=dhcp"];
format_error({no_emulator, #{board := Name, program := Program}}) ->
    ["the emulator ", Program, " of the board ", Name, " is not on the PATH: install it"
     " (tools/setup board)"];
format_error({runtime, Reason}) -> whittle_runtime:format_error(Reason);
format_error({pack, Reason}) -> whittle_pack:format_error(Reason).

%% @doc Returns the lines that belong above the line of {@link format_error/1}: the last output of a
%% failed program.
-spec details(error()) -> [unicode:chardata()].
details({link, #{tail := Lines}}) -> Lines;
details({runtime, Reason}) -> whittle_runtime:step_output(Reason);
details(_) -> [].

%% Internal

is_ours(File) -> is_image(File) orelse is_card(File).

is_card(File) ->
    case part(File, bof, 512) of
        {ok, First} -> whittle_board_card:is_card(First);
        error -> false
    end.

is_image(File) ->
    case part(File, {eof, -?TAIL}, ?TAIL) of
        {ok, Bytes} -> whittle_board_label:is_image(Bytes);
        error -> false
    end.

part(File, From, Size) ->
    case whittle_file:check(File) =:= ok andalso file:open(File, [read, raw, binary]) of
        {ok, Fd} ->
            Read = case file:position(Fd, From) of
                       {ok, _} -> file:read(Fd, Size);
                       {error, _} = Error -> Error
                   end,
            ok = file:close(Fd),
            case Read of
                {ok, _} -> Read;
                _ -> error
            end;
        _ -> error
    end.

runtime({error, Reason}) -> {error, {runtime, Reason}};
runtime({ok, _} = Ok) -> Ok.

written(card, #{name := Name} = Board, Out, Image) ->
    case whittle_board_card:make(Board, Image) of
        {ok, Bytes} ->
            {ok, #{size := Size} = Card} = whittle_board_card:read(Bytes),
            {ok, Label} = whittle_board_label:read(Image),
            written(Out, Bytes, #{size => Size, label => Label, card => Card});
        {error, {too_large, Room}} ->
            {error, {too_large, #{image => byte_size(Image), slot => Room, board => Name}}}
    end;
written(_, _, Out, Image) ->
    {ok, Label} = whittle_board_label:read(Image),
    written(Out, Image, #{size => byte_size(Image), label => Label}).

written(Out, Bytes, Made) ->
    case whittle_pack:write_beside(Out, Bytes, fun is_ours/1) of
        ok -> {ok, Made#{out => Out}};
        {error, Reason} -> {error, {pack, Reason}}
    end.

variables(Board, Lines) ->
    Bytes = lists:sum([byte_size(text(Line)) + 1 || Line <- Lines]),
    Wrong = [{Line, Why} || Line <- Lines, Why <- [wrong(Board, Line)], Why =/= ok]
        ++ [{hd(Lines), "and the others have more than 4,096 bytes: shorten them"}
            || Bytes > ?MOST_BYTES]
        ++ [{hd(Lines), "and the others are more than 48: give fewer"}
            || length(Lines) > ?MOST_VARIABLES],
    case Wrong of
        [] -> ok;
        [First | _] -> {error, {bad_variable, First}}
    end.

wrong(Board, Line) ->
    case string:split(Line, "=") of
        [Name, Value] ->
            IsName = re:run(Name, "^[A-Za-z_][A-Za-z0-9_]*$",
                            [unicode, dollar_endonly]) =/= nomatch,
            case lists:any(fun(C) -> C < 32 end, Value) of
                _ when not IsName -> "has no name of letters, digits and _ before the =";
                true -> "contains a control character: a value has one line";
                false -> policy(Board, Name, Value)
            end;
        [_] -> "has no =: write NAME=VALUE"
    end.

policy(_, Name, Value) when Name =:= "WHITTLE_END"; Name =:= "WHITTLE_CRASH" ->
    case lists:member(Value, ["poweroff", "reboot", "restart", "halt"]) of
        true -> ok;
        false -> "must be poweroff, reboot, restart or halt"
    end;
policy(_, "WHITTLE_NETWORK", Value) ->
    case whittle_board_network:is_valid(Value) of
        true -> ok;
        false -> "must be dhcp or ADDRESS/BITS[,GATEWAY[,NAME SERVER]] with IPv4 addresses"
    end;
policy(#{name := Board, kernel := Kernel}, "WHITTLE_WATCHDOG", Value) ->
    case {whittle_board_watchdog:is_valid(Value), lists:keymember(watchdog, 1, Kernel)} of
        {true, true} -> ok;
        {true, false} -> ["needs a watchdog, and the description of the board ", Board,
                          " names none: leave it out"];
        {false, _} -> "must be SECONDS[,START] with numbers from 2 to 999"
    end;
policy(_, Name, _) when Name =:= "WHITTLE_HEALTH"; Name =:= "WHITTLE_RESET" ->
    "would replace a variable that init sets: give it another name";
policy(_, Name, _)
  when Name =:= "WHITTLE_BOARD"; Name =:= "WHITTLE_CARD"; Name =:= "WHITTLE_SLOT" ->
    "would replace a variable that the boot loader sets: give it another name";
policy(_, _, _) -> ok.

text(Chars) -> unicode:characters_to_binary(Chars).
