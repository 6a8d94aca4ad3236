%% @doc Implements `whittle run'. It starts an executable, or the emulator of a board with an image
%% or a card, in place of the command. So this program receives the terminal, the signals and the
%% exit code.
-module(whittle_cmd_run).
-behaviour(whittle).

-import(whittle_program, [quoted/1]).

-include_lib("kernel/include/file.hrl").

-export([command/0, run/1]).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "run", arguments => ["OUT", "[ARGUMENT...]"],
      help => "run an executable, in an emulator if it is for another machine; or boot an image or "
              "a card of a board in an emulator. The options are for an image or a card, and stand "
              "before or after its name",
      options =>
          [#{name => memory, long => "memory", value => "SIZE",
             help => "the memory of the board: 24M (default: the board's)"},
           #{name => serial, long => "serial", value => "END",
             help => "the other end of the board's serial line: pty, tcp:PORT (on 127.0.0.1) or "
                     "unix:PATH (default: nothing)"},
           #{name => forward, long => "forward", value => "PORT[:PORT],...",
             help => "ports of 127.0.0.1 that lead to the board's ports: 7000, or 8080:80 for its "
                     "port 80; the image needs WHITTLE_NETWORK"},
           #{name => monitor, long => "monitor", value => "PATH",
             help => "a Unix socket for the monitor of the emulator"},
           #{name => no_reboot, long => "no-reboot",
             help => "end the emulator when the board reboots"},
           #{name => keep, long => "keep",
             help => "let the board write to the file of its card (default: the emulator drops "
                     "what the board writes)"}]}.

%% @doc Hands the executable and its arguments to the script, after its emulator if its target needs
%% one.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{arguments := [Out | Arguments]} = Before) ->
    case whittle_board:kind(Out) of
        other -> execute(Out, Arguments, Before);
        _ -> boot(Out, Arguments, Before)
    end.

boot(Image, Words, Before) ->
    whittle_work:steps(
      [fun(_) ->
               case whittle_command_line:parse_after(command(), Words) of
                   {ok, After} -> both(given(Before), given(After));
                   {error, Line} -> whittle_failure:usage(Line)
               end
       end,
       fun(Values) -> keep(whittle_board:kind(Image), Values) end,
       fun(Values) ->
               options([memory, serial, forward, monitor, no_reboot, keep], Values, #{})
       end,
       fun(Options) -> with_place(whittle_board:kind(Image), Options) end,
       fun({Place, Options}) ->
               Started = whittle_work:steps(
                           [fun(_) -> failed(whittle_board:emulator(Image, Options)) end,
                            fun(Command) -> environment(Command, Options) end,
                            fun(#{words := Program, board := Board, notes := Notes}) ->
                                    ok = note_low_memory(Options, Board),
                                    ok = lists:foreach(fun whittle_progress:note/1, Notes),
                                    start(Program)
                            end]),
               ok = dropped(Place, Started),
               Started
       end]).

failed({error, Reason}) -> whittle_failure:board(Reason);
failed(Ok) -> Ok.

keep(card, Values) -> {ok, Values};
keep(_, #{keep := true}) ->
    whittle_failure:usage("--keep is for a card (--format card): an image does not change");
keep(_, Values) -> {ok, Values}.

%% The boot loader's environment is a file for the emulator, which replaces the script. So the
%% directory belongs to the script's process; a later command removes it.
with_place(card, Options) ->
    Owner = os:getenv("WHITTLE_OWNER", os:getpid()),
    case whittle_unfinished:make_directory("whittle-run", Owner) of
        {ok, Dir} -> {ok, {Dir, Options#{environment => filename:join(Dir, "environment")}}};
        {error, Reason} -> whittle_failure:board({no_place, Reason})
    end;
with_place(_, Options) -> {ok, {none, Options}}.

environment(#{environment := Bytes} = Command, #{environment := File}) ->
    case file:write_file(File, Bytes) of
        ok -> {ok, Command};
        {error, Reason} -> whittle_failure:board({no_place, {filename:dirname(File), Reason}})
    end;
environment(Command, _) -> {ok, Command}.

dropped(none, _) -> ok;
dropped(Dir, {ok, _}) -> whittle_unfinished:done(Dir);
dropped(Dir, {error, _}) -> whittle_unfinished:remove_directory(Dir).

%% Linux prints nothing if its memory ends before it has a console.
note_low_memory(#{memory := Megabytes}, #{name := Name, least_memory := Least})
  when Megabytes < Least ->
    whittle_progress:note(io_lib:format("~b MB of memory are too few for the board ~ts, which may "
                                        "then print nothing: give ~b MB at least "
                                        "(docs/boards.md)", [Megabytes, Name, Least]));
note_low_memory(_, _) -> ok.

given(Values) -> maps:remove(arguments, Values).

both(Before, After) ->
    case [Name || Name <- maps:keys(Before), not lists:member(Name, [no_reboot, keep]),
                  is_map_key(Name, After)] of
        [] -> {ok, maps:merge(Before, After)};
        [Name | _] ->
            whittle_failure:usage(["--", atom_to_list(Name), " is given twice: give it once; see "
                                   "`whittle help run'"])
    end.

options([], _, Options) -> {ok, Options};
options([no_reboot | Names], Values, Options) ->
    options(Names, Values, Options#{reboot => not is_map_key(no_reboot, Values)});
options([keep | Names], Values, Options) ->
    options(Names, Values, Options#{keep => is_map_key(keep, Values)});
options([Name | Names], Values, Options) ->
    case Values of
        #{Name := Text} ->
            case read(Name, Text) of
                {ok, Value} -> options(Names, Values, Options#{Name => Value});
                error -> whittle_failure:usage(wrong(Name, Text))
            end;
        #{} -> options(Names, Values, Options)
    end.

read(memory, Text) -> whittle_board:memory(Text);
read(serial, Text) -> whittle_board:serial(Text);
read(forward, Text) -> whittle_board:forward(Text);
read(monitor, Path) -> {ok, Path}.

wrong(memory, Text) -> ["--memory cannot be `", Text, "'; write megabytes as 24M"];
wrong(serial, Text) -> ["--serial cannot be `", Text, "'; use pty, tcp:PORT or unix:PATH"];
wrong(forward, Text) -> ["--forward cannot be `", Text, "'; write ports as 7000 or 8080:80"].

%% Everything after the name of an executable is for the program.
execute(Out, Arguments, Before) ->
    whittle_work:steps([fun(_) -> target(Out) end,
                        fun(Target) -> no_options(Out, Target, given(Before)) end,
                        fun(Target) -> executable(Out, Target) end,
                        fun(Target) -> emulator(Target, Out) end,
                        fun(Emulator) ->
                                start(Emulator ++ [filename:absname(Out) | Arguments])
                        end]).

no_options(Out, Target, Given) ->
    case [Long || #{name := Name, long := Long} <- maps:get(options, command()),
                  is_map_key(Name, Given)] of
        [] -> {ok, Target};
        [Long | _] ->
            whittle_failure:usage(["--", Long, " is for an image or a card of a board, and ", Out,
                                   " is an executable: remove it; or write it after ", Out,
                                   " if it is for the program"])
    end.

target(Out) ->
    case whittle_pack:target(Out) of
        {ok, _} = Target -> Target;
        {error, Error} -> whittle_failure:make({pack, Error})
    end.

start(Words) ->
    case whittle_shell:hand_over(lists:join($\s, [quoted(Word) || Word <- Words])) of
        ok -> {ok, #{text => "", json => null}};
        {error, _} = Error -> Error
    end.

%% Checks that the file is executable. Copies often are not, and an emulator would not report it.
executable(Out, Target) ->
    case file:read_file_info(Out) of
        {ok, #file_info{mode = Mode}} when Mode band 8#111 =:= 0 ->
            whittle_failure:work([Out, " is not executable: run `chmod +x' on it"]);
        _ ->
            {ok, Target}
    end.

emulator(Target, Out) ->
    case whittle_runtime:emulator(Target) of
        {ok, _} = Command ->
            Command;
        {error, {no_emulator, #{program := Program}}} ->
            whittle_failure:work([Out, " is built for ", Target, ", and the emulator ", Program,
                                  " is not on the PATH: install it (Debian package qemu-user),"
                                  " or copy the file to the board"])
    end.
