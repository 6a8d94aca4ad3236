%% @hidden Reads and checks the descriptions of boards.
%%
%% A description is a file of `{Key, Value}.' terms: `priv/boards/NAME.config', or a file of the
%% user. docs/boards.md explains how to write one. Only this module knows the format.
-module(whittle_board_data).

-export([all/0, load/1, shipped/1, options/2]).

-export_type([board/0, card/0, feature/0, option/0, error/0]).

-type board() ::
        #{name := string(),             % the file's name
          summary := string(),          % one line for a person
          target := string(),           % a name that whittle_runtime:targets/0 lists
          tested := string(),           % how far the board was tried, for a person
          arch := string(),             % Linux's name of the processor
          cross := string(),            % the beginning of the names of gcc and binutils
          image := whittle_board_form:form(), % of the bootable file
          memory := pos_integer(),      % megabytes of the emulated board
          least_memory := pos_integer(), % the fewest megabytes in which an image has booted
          console := string(),          % a name in /dev
          cmdline := string(),          % words for the kernel
          devices := [string()],        % further devices, for a person
          emulator := [string()],       % the command, without the image, the memory, and the
                                        % ends of `console', `serial' and `network'
                                        % (whittle_board_emulator)
          card => card(),               % absent if Whittle makes no cards for the board
          kernel := [{feature(), [option()]}]}. % in addition to priv/kernel.config

-type card() ::
        #{slot := pos_integer(),        % megabytes of each slot, a multiple of 4
          data := pos_integer(),        % megabytes of the data partition
          device := string(),           % its name in /dev
          interface := string(),        % U-Boot's command for it, as virtio or mmc
          number := non_neg_integer(),  % of the device in U-Boot
          work := pos_integer(),        % an address of memory where U-Boot may put a sector
          load := pos_integer(),        % the address for the image
          start := string(),            % U-Boot's commands that start the image at ${load}
          memory_start := non_neg_integer(), % the first address of the memory
          loader := pos_integer(),      % megabytes at the end of the memory that U-Boot takes
          memory := pos_integer(),      % as in board(), for a card
          least_memory := pos_integer(), % also enough for an image as large as a slot
          firmware := file:filename(),  % the emulator's U-Boot
          environment := [{string(), string()}], % of this U-Boot
          emulator := [string()]}.      % words in addition to the board's

-type feature() :: base | serial | gpio | network | watchdog | card.

%% A name without CONFIG_, its value, and the reason.
-type option() :: {string(), y | n, string()}.

-type error() :: {unknown_board, #{board := string(), known := [string()]}}
               | {bad_board, #{file := file:filename(), why := unicode:chardata()}}.

%% @doc Lists the boards of `priv/boards', ordered by name. A mistake in one of these files is a bug
%% and crashes.
-spec all() -> [board()].
all() ->
    [begin
         {ok, Board} = read(File),
         Board
     end || File <- lists:sort(filelib:wildcard(filename:join([priv(), "boards", "*.config"])))].

%% @doc Returns a board of `priv/boards' by its name. A name with a slash is the path of a user's
%% description.
-spec load(string()) -> {ok, board()} | {error, error()}.
load(Name) ->
    case lists:member($/, Name) of
        true -> with_target(Name, read(Name));
        false -> shipped(Name)
    end.

%% @doc Returns a board of `priv/boards' by its name.
-spec shipped(string()) -> {ok, board()} | {error, error()}.
shipped(Name) ->
    Boards = all(),
    case [Board || #{name := N} = Board <- Boards, N =:= Name] of
        [Board] -> {ok, Board};
        [] -> {error, {unknown_board, #{board => Name, known => [N || #{name := N} <- Boards]}}}
    end.

with_target(File, {ok, #{target := Target}} = Read) ->
    Known = [Name || #{name := Name} <- whittle_runtime:targets()],
    case lists:member(Target, Known) of
        true -> Read;
        false -> bad(File, ["the value of target must be one of ", lists:join(", ", Known)])
    end;
with_target(_, Error) -> Error.

%% @doc Returns the options of a board's kernel for the given features, each once. The board's own
%% value of an option counts.
-spec options(board(), [feature()]) -> [option()].
options(#{kernel := Own}, Features) ->
    {ok, Common} = file:consult(filename:join(priv(), "kernel.config")),
    Named = [Option || {Feature, Options} <- Own ++ Common,
                       lists:member(Feature, [base | Features]),
                       Option <- Options],
    lists:ukeysort(1, Named).

%% Internal

read(File) ->
    case whittle_file:text(File) of
        {ok, Text} ->
            case whittle_term:parse(Text) of
                {ok, Terms} -> checked(File, Terms);
                {error, Why} -> bad(File, Why)
            end;
        {error, Reason} ->
            bad(File, ["the file ", whittle_file:format_error(Reason)])
    end.

checked(File, Terms) ->
    Keys = [Key || {Key, _} <- Terms],
    Name = filename:basename(File, ".config"),
    %% The name becomes a line of the image's label, and a part of file names in the cache.
    Mistakes = ["its file name must consist of letters, digits, _, . and -" || not is_word(Name)]
        ++ ["a term is not {Key, Value}" || length(Keys) =/= length(Terms)]
        ++ [io_lib:format("~0tp is there twice", [Key]) || Key <- lists:usort(Keys -- keys()),
                                                           lists:member(Key, keys())]
        ++ [["there is no key ", whittle_file_name:printable(lists:flatten(
                                                               io_lib:format("~0tp", [Key])))]
            || Key <- lists:usort(Keys), not lists:member(Key, keys())]
        ++ [["the key ", atom_to_list(Key), " is missing"] || Key <- keys() -- [card | Keys]]
        ++ wrong_values(Terms, values())
        ++ [["in card, ", Mistake] || {card, Pairs} <- Terms, Mistake <- wrong_card(Pairs)]
        ++ [["in card, U-Boot's number of the processor ", Arch, " is not known"]
            || {card, _} <- Terms, {arch, Arch} <- Terms, not whittle_board_uboot:knows(Arch)],
    case Mistakes of
        [] ->
            Board = (maps:from_list(Terms))#{name => Name},
            {ok, maps:map(fun(card, Pairs) -> maps:from_list(Pairs);
                             (_, Value) -> Value
                          end, Board)};
        [Mistake | _] -> bad(File, Mistake)
    end.

wrong_values(Pairs, Values) ->
    [["the value of ", atom_to_list(Key), " must be ", Wanted]
     || {Key, Value} <- Pairs, {K, Wanted, Is} <- Values, K =:= Key, not Is(Value)].

wrong_card(Pairs) ->
    Wanted = lists:sort([Key || {Key, _, _} <- card_values()]),
    try lists:sort([Key || {Key, _} <- Pairs]) of
        Wanted ->
            case wrong_values(Pairs, card_values()) of
                [] -> no_room(maps:from_list(Pairs));
                Mistakes -> Mistakes
            end;
        Given ->
            [["the key ", atom_to_list(Key), " is missing"] || Key <- Wanted -- Given]
                ++ [io_lib:format("~0tp is there twice", [Key])
                    || Key <- lists:usort(Given -- Wanted), lists:member(Key, Wanted)]
                ++ [["there is no key ", whittle_file_name:printable(
                                           lists:flatten(io_lib:format("~0tp", [Key])))]
                    || Key <- lists:usort(Given), not lists:member(Key, Wanted)]
    catch error:_ -> []                 % wrong_values/2 has named this mistake
    end.

%% U-Boot reads an image of any size over itself without an error.
no_room(#{slot := Slot, load := Load, memory_start := Start, loader := Loader, memory := Memory,
          least_memory := Least}) ->
    case ceil((Load - Start) / (1024 * 1024)) of
        Below when Below < 0 -> ["the value of load must not be below that of memory_start"];
        Below when Least < Below + Slot + Loader ->
            [io_lib:format("the value of least_memory must be ~b at least: ~b MB below the image, "
                           "~b MB for a slot, and ~b MB for the boot loader",
                           [Below + Slot + Loader, Below, Slot, Loader])];
        _ -> ["the value of memory must not be below that of least_memory" || Memory < Least]
    end.

bad(File, Why) -> {error, {bad_board, #{file => File, why => Why}}}.

keys() -> [Key || {Key, _, _} <- values()].

values() ->
    [{summary, "a string", fun is_text/1},
     {target, "a word", fun is_word/1},
     {tested, "a string", fun is_text/1},
     {arch, "a word", fun is_word/1},
     {cross, "a word", fun is_word/1},
     {image, ["one of ", lists:join(", ", [atom_to_list(F) || F <- whittle_board_form:names()])],
      fun(Value) -> lists:member(Value, whittle_board_form:names()) end},
     {memory, "a number of megabytes from 4 to 3072", fun is_memory/1},
     {least_memory, "a number of megabytes from 4 to 3072", fun is_memory/1},
     {console, "a word", fun is_word/1},
     %% U-Boot's shell would replace words after a $.
     {cmdline, "a string without quotation marks, backslashes and $",
      fun(Value) -> is_cmdline(Value) andalso not lists:member($$, Value) end},
     {devices, "a list of strings", fun is_texts/1},
     {emulator, "a list of words that begins with a program",
      fun(Value) -> is_texts(Value) andalso Value =/= [] end},
     {card, "a list of {Key, Value}",
      fun(Value) -> whittle_term:all(fun({_, _}) -> true; (_) -> false end, Value) end},
     {kernel, "a list of {base | serial | gpio | network | watchdog | card,"
      " [{Option, y | n, Reason}]}",
      fun is_kernel/1}].

card_values() ->
    %% whittle_board reads a card as a whole, up to 1 GB.
    [{slot, "a number of megabytes from 4 to 256, a multiple of 4",
      fun(Value) -> is_within(4, 256, Value) andalso Value rem 4 =:= 0 end},
     {data, "a number of megabytes from 1 to 256", fun(Value) -> is_within(1, 256, Value) end},
     {device, "a word", fun is_word/1},
     {interface, "a word", fun is_word/1},
     {number, "a number from 0 to 9", fun(Value) -> is_within(0, 9, Value) end},
     {work, "an address below 4 GB", fun(Value) -> is_within(1, 16#ffffffff, Value) end},
     {load, "an address below 4 GB", fun(Value) -> is_within(1, 16#ffffffff, Value) end},
     {start, "a string without quotation marks and backslashes", fun is_cmdline/1},
     {memory_start, "an address below 4 GB", fun(Value) -> is_within(0, 16#ffffffff, Value) end},
     {loader, "a number of megabytes from 1 to 256", fun(Value) -> is_within(1, 256, Value) end},
     {memory, "a number of megabytes from 4 to 3072", fun is_memory/1},
     {least_memory, "a number of megabytes from 4 to 3072", fun is_memory/1},
     {firmware, "a string", fun is_text/1},
     {environment, "a list of {Name, Value} with strings",
      fun(Value) ->
              whittle_term:all(fun({N, V}) -> is_word(N) andalso is_cmdline(V);
                                  (_) -> false
                               end, Value)
      end},
     {emulator, "a list of strings", fun is_texts/1}].

is_within(Least, Most, Value) -> is_integer(Value) andalso Value >= Least andalso Value =< Most.

is_text(Value) -> io_lib:printable_unicode_list(Value) andalso Value =/= "".

is_texts(Value) -> whittle_term:all(fun is_text/1, Value).

is_memory(Value) -> is_integer(Value) andalso Value >= 4 andalso Value =< 3072.

%% Words of this kind become parts of shell commands.
is_word(Value) ->
    is_text(Value)
        andalso re:run(Value, "^[A-Za-z0-9_.-]+$", [unicode, dollar_endonly]) =/= nomatch.

is_cmdline(Value) ->
    is_text(Value) andalso [C || C <- Value, C =:= $" orelse C =:= $\\ orelse C < 32
                                                orelse C > 126] =:= [].

is_kernel(Value) ->
    whittle_term:all(fun({Feature, Options}) ->
                             lists:member(Feature, [base, serial, gpio, network, watchdog, card])
                                 andalso whittle_term:all(fun is_option/1, Options);
                        (_) -> false
                     end, Value).

is_option({Name, Value, Reason}) ->
    is_text(Name) andalso re:run(Name, "^[A-Z0-9_]+$", [unicode, dollar_endonly]) =/= nomatch
        andalso (Value =:= y orelse Value =:= n) andalso is_text(Reason);
is_option(_) -> false.

priv() -> code:priv_dir(whittle_board).
