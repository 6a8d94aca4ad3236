%% @doc Implements `whittle build'. It makes a request from the options, lets {@link whittle_make}
%% build it, and prints the ledger.
-module(whittle_cmd_build).
-behaviour(whittle).

-export([command/0, run/1]).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "build", arguments => ["PATH"],
      help => "build one executable, or an image for a board, from an application, a release or an "
              "escript",
      options =>
          [#{name => out, long => "out", short => $o, value => "OUT",
             help => "the path of the output (default: the name of the application or release, in "
                     "this directory)"},
           whittle_input_options:target(),
           #{name => board, long => "board", value => "BOARD",
             offered => fun() -> [Name || #{name := Name} <- whittle_board:boards()] end,
             help => "make a bootable image for this board; `whittle boards' describes each"},
           #{name => env, long => "env", value => "NAME=VALUE", many => true,
             help => "with --board: set a variable of the program's environment; you can repeat "
                     "this option"},
           whittle_input_options:otp(),
           #{name => vm, long => "vm", value => "FLAVOR",
             one_of => fun() -> [size, speed, program] end,
             default => fun() -> size end,
             help => "size: the small interpreter; speed: the JIT; program: the small interpreter "
                     "without the parts that the program cannot reach (BIFs, NIFs, drivers, "
                     "built-in modules), with --shake functions --missing crash"},
           #{name => format, long => "format", value => "FORMAT",
             one_of => fun() -> [exe, dir, image, slot, card] end,
             usual => fun() -> "exe, or image with --board" end,
             help => "exe: one file; dir: a directory with the files unpacked; with --board, "
                     "image: a bootable file; card: the bytes of a card with two slots for images; "
                     "slot: an image for a slot of a card"},
           #{name => keep_include, long => "keep-include",
             help => "keep include files (default: only if the output contains the compiler)"},
           #{name => keep_attributes, long => "keep-attributes",
             help => "keep the attributes of modules (default: only if a module reads them)"},
           #{name => shake, long => "shake", value => "UNIT",
             one_of => fun() -> [none, modules, functions] end,
             default => fun() -> none end,
             help => "tree shaking: find the modules or functions that the program cannot reach; "
                    "--missing sets what happens to them"},
           #{name => missing, long => "missing", value => "WAY",
             one_of => fun() -> [load, crash] end,
             help => "load: keep unreachable code in the file, and load it when something calls "
                    "it (default); crash: remove it, so that a call raises undef"}]
          ++ whittle_shake_options:described() ++
          [whittle_input_options:native(),
           #{name => settings, long => "settings", value => "FILE",
             help => "the VM settings that `whittle tune' found"},
           whittle_input_options:app(),
           #{name => no_outside_links, long => "no-outside-links",
             help => "refuse symbolic links that point outside the input"},
           #{name => ca_certs, long => "ca-certs", value => "FILE",
             help => "pack the CA certificates in this PEM file, for machines without /etc/ssl"},
           whittle_command_line:json()]}.

%% @doc Builds an output.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{board := Name} = Values) ->
    whittle_work:steps([fun(_) -> whittle_build_image:board(Name, Values) end,
                        fun(#{target := Target} = Board) ->
                                run(maps:remove(board, Values#{target => Target}), Board)
                        end]);
run(#{format := Format}) when Format =:= image; Format =:= slot; Format =:= card ->
    whittle_failure:usage(["--format ", atom_to_list(Format), " needs --board: `whittle boards' "
                           "lists the boards"]);
run(#{env := _}) ->
    whittle_failure:usage("--env needs --board: an executable has the environment of its caller");
run(Values) ->
    run(maps:merge(#{target => whittle_runtime:default_target()}, Values), none).

run(Values, Board) ->
    whittle_work:steps([fun(_) -> no_output(Values) end,
                        fun(_) -> whittle_input_options:check_apps(Values) end,
                        fun(_) -> whittle_input_options:check_vm(Values) end,
                        fun(_) -> whittle_shake_options:options(Values) end,
                        fun(Shake) when Board =:= none ->
                                made(whittle_make:make(request(Values, Shake)));
                           (Shake) ->
                                whittle_build_image:make(request(Values, Shake), Board, Values,
                                                         fun made/1)
                        end]).

%% Internal: the request

%% An output and the input of its build often have the same name.
no_output(#{arguments := [Path]}) ->
    Input = "an application, a release or an escript: name the input of that build",
    whittle_work:steps([fun(_) -> whittle_failure:no_image(Path, "build", Input) end,
                        fun(_) -> whittle_failure:no_executable(Path, "build", Input) end]).

request(#{vm := Vm} = Values, Shake) ->
    Input = whittle_input_options:request(Values),
    Format = case Values of #{format := dir} -> dir; _ -> exe end,
    (maps:merge((maps:with([out, ca_certs, settings], Values))#{format => Format}, Input))
    #{flavor => whittle_input_options:flavor(Vm), shake => Shake,
      vm => case Vm of program -> program; _ -> whole end,
      outside_links => choice(no_outside_links, Values, refuse, note),
      includes => choice(keep_include, Values, keep, auto),
      attributes => choice(keep_attributes, Values, keep, auto),
      tell => fun tell/1}.

choice(Flag, Values, Given, _) when is_map_key(Flag, Values) -> Given;
choice(_, _, _, Default) -> Default.

tell({started, read}) -> whittle_progress:step("reading");
tell({started, shake}) -> whittle_progress:step("shaking");
tell({started, pack}) -> whittle_progress:step("packing");
tell(Event) -> whittle_progress:making(Event).

%% Internal: the result

made({ok, #{ledger := Ledger, sha256 := Sum}}) ->
    {ok, #{text => text(Ledger), json => Ledger#{sha256 => case Sum of
                                                               none -> null;
                                                               _ -> Sum
                                                           end}}};
made({error, Reason}) -> whittle_failure:make(Reason).

%% Writes a table, then the notes.
text(#{out := Out, size := Size, vm := Vm, code := Code, target := Target,
       flavor := Flavor, otp := Otp, name := Name, version := Version,
       stock := #{size := Stock, vm := StockVm}, passes := Passes, notes := Notes} = Ledger) ->
    [Name, $\s, Version, " for ", Target, ", OTP ", Otp, ", flavor ",
     atom_to_binary(Flavor), "\n\n",
     whittle_table:text(
       [["", "bytes", ""],
        ["stock release", Stock,
         ["unstripped code, and the stock VM: ", whittle_number:text(StockVm)]]]
       ++ [[["code: ", Pass], Bytes, Doc]
           || #{pass := Pass, bytes := Bytes, doc := Doc} <- Passes]
       ++ [["code: stored", Code, "compressed, with licenses and SBOM"],
           ["vm", Vm, ""],
           [Out, Size, share(Size, Stock)]]),
     [[$\n, whittle_table:text(Table)]
      || #{costs := Costs} <- [Ledger], Table <- whittle_cost_tables:tables(Costs)],
     ["\nBytes and memory are estimates before compression. \"retained\" is the code that is hot\n"
      "only because of that application or dynamic call.\n"
      || #{costs := _} <- [Ledger]],
     [[$\n, [["note: ", Note, $\n] || Note <- Notes]] || Notes =/= []]].

share(_, 0) -> "";
share(Size, Stock) -> io_lib:format("~.1f % of the stock release", [100 * Size / Stock]).
