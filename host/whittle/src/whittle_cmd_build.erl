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
           #{name => target, long => "target", value => "TARGET",
             one_of => fun() -> [Name || #{name := Name} <- whittle_runtime:targets()] end,
             usual => fun whittle_runtime:default_target/0,
             help => "the machine to build for; `whittle targets' describes each"},
           #{name => board, long => "board", value => "BOARD",
             offered => fun() -> [Name || #{name := Name} <- whittle_board:boards()] end,
             help => "make a bootable image for this board; `whittle boards' describes each"},
           #{name => env, long => "env", value => "NAME=VALUE", many => true,
             help => "with --board: set a variable of the program's environment; you can repeat "
                     "this option"},
           #{name => otp, long => "otp", value => "VSN",
             one_of => fun whittle_runtime:otps/0, why_not => fun no_otp/1,
             default => fun whittle_runtime:default_otp/0,
             help => "the OTP release that the executable contains"},
           #{name => vm, long => "vm", value => "FLAVOR",
             one_of => fun() -> [size, speed, program] end,
             default => fun() -> size end,
             help => "size: the small interpreter; speed: the JIT; program: the small interpreter "
                     "without the parts that the program cannot reach (BIFs, NIFs, drivers, "
                     "built-in modules), with --shake functions --missing crash"},
           #{name => format, long => "format", value => "FORMAT",
             one_of => fun() -> [exe, dir] end,
             default => fun() -> exe end,
             help => "exe: one file; dir: a directory with the files unpacked"},
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
                    "it (default); crash: remove it, so that a call raises undef"},
           #{name => feature, long => "feature", value => "+X,-Y", list => true,
             offered => fun() -> [[Sign | atom_to_list(Name)]
                                  || {Name, _} <- whittle_shake:features(), Sign <- "+-"]
                        end,
             help => "features (parts of OTP) to turn on (+X) and off (-Y); `whittle features' "
                     "lists them"},
           #{name => keep, long => "keep", value => "FILE",
             help => "a file of entry points, one M, M:F or M:F/A on each line; % begins a "
                     "comment"},
           #{name => evidence, long => "evidence", value => "FILE",
             help => "a recording of `whittle trace'; --seen sets how the build uses it"},
           #{name => seen, long => "seen", value => "WAY",
             one_of => fun() -> [refuse, keep, only] end,
             help => "how to use the recording; refuse: fail if the build would remove a recorded "
                     "function (default with --missing crash); keep: keep the recorded "
                     "functions (default with --missing load); only: keep only the "
                     "recorded functions in memory, and load any other function when "
                     "something calls it"},
           #{name => remote, long => "remote", value => "NAMES",
             help => "the functions that other nodes call, separated by commas; or none"},
           #{name => data, long => "data", value => "NAMES",
             help => "the functions that the program calls by names from data (binary_to_term, "
                    "file:consult), separated by commas; or none"},
           #{name => atoms, long => "atoms", value => "NAMES",
             help => "the functions that the program calls by names from text (list_to_atom), "
                    "separated by commas; or none"},
           #{name => code, long => "code", value => "NAMES",
             help => "the functions that plugins and upgrades call (code that the program loads "
                    "while it runs: code:load_binary), separated by commas; or none"},
           #{name => native, long => "native", value => "FILES", list => true,
             help => "link in the NIFs and drivers that these files describe (docs/natives.md "
                     "of Whittle's source); commas separate the files"},
           #{name => settings, long => "settings", value => "FILE",
             help => "the VM settings that `whittle tune' found"},
           #{name => app, long => "app", value => "NAME", many => true,
             help => "pack this application too, with the applications that it needs; you can "
                     "repeat this option"},
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
run(#{env := _}) ->
    whittle_failure:usage("--env needs --board: an executable has the environment of its caller");
run(Values) ->
    run(maps:merge(#{target => whittle_runtime:default_target()}, Values), none).

run(Values, Board) ->
    whittle_work:steps([fun(_) -> no_output(Values) end,
                        fun(_) -> check_names(Values) end,
                        fun(_) -> check_vm(Values) end,
                        fun(_) -> whittle_shake_options:options(Values) end,
                        fun(Shake) when Board =:= none ->
                                made(whittle_make:make(request(Values, Shake)));
                           (Shake) ->
                                whittle_build_image:make(request(Values, Shake), Board, Values,
                                                         fun made/1)
                        end]).

%% Internal: the request

%% Says why the value of --otp is not possible. A similar number would be no help.
no_otp(Value) ->
    case string:to_integer(Value) of
        {Otp, ""} ->
            Supported = [list_to_integer(Each) || Each <- whittle_runtime:otps()],
            case {lists:min(Supported), lists:max(Supported)} of
                {Least, _} when Otp < Least ->
                    io_lib:format("Whittle supports no release older than OTP ~b", [Least]);
                {_, Most} when Otp > Most ->
                    io_lib:format("Whittle supports no release newer than OTP ~b", [Most]);
                _ ->
                    "Whittle does not support this release"
            end;
        _ ->
            ""
    end.

%% An output and the input of its build often have the same name.
no_output(#{arguments := [Path]}) ->
    Input = "an application, a release or an escript: name the input of that build",
    whittle_work:steps([fun(_) -> whittle_failure:no_image(Path, "build", Input) end,
                        fun(_) -> whittle_failure:no_executable(Path, "build", Input) end]).

check_names(Values) ->
    case [{Name, Why} || Name <- maps:get(app, Values, []),
                         {error, Why} <- [whittle_file_name:check(Name)]] of
        [] -> ok;
        [{Name, Why} | _] ->
            whittle_failure:usage(["--app: the application's name `",
                                   whittle_file_name:printable(Name), "' ", Why])
    end.

%% A wrong specification of the VM is a usage error.
check_vm(#{target := Target, otp := Otp, vm := Vm}) ->
    Spec = #{target => Target, otp => Otp, flavor => flavor(Vm), natives => []},
    case whittle_runtime:check(with_cut(Vm, Spec)) of
        ok -> ok;
        {error, Reason} -> whittle_failure:usage(whittle_runtime:format_error(Reason))
    end.

with_cut(program, Spec) -> Spec#{cut => whittle_runtime:empty_cut()};
with_cut(_, Spec) -> Spec.

request(#{arguments := [Path], otp := Otp, target := Target, vm := Vm} = Values, Shake) ->
    (maps:with([out, format, ca_certs, settings], Values))
    #{input => Path, otp => Otp, target => Target, flavor => flavor(Vm), shake => Shake,
      vm => case Vm of program -> program; _ -> whole end,
      libs => string:lexemes(whittle_environment:value("ERL_LIBS", ""), ":"),
      add => [list_to_atom(Name) || Name <- maps:get(app, Values, [])],
      natives => maps:get(native, Values, []),
      outside_links => choice(no_outside_links, Values, refuse, note),
      includes => choice(keep_include, Values, keep, auto),
      attributes => choice(keep_attributes, Values, keep, auto),
      tell => fun tell/1}.

flavor(program) -> size;
flavor(Flavor) -> Flavor.

choice(Flag, Values, Given, _) when is_map_key(Flag, Values) -> Given;
choice(_, _, _, Default) -> Default.

tell({started, read}) -> whittle_progress:step("reading");
tell({started, shake}) -> whittle_progress:step("shaking");
tell({started, pack}) -> whittle_progress:step("packing");
tell({Event, _}) when Event =:= started; Event =:= ended -> ok;
tell({note, Note}) -> whittle_progress:note(Note);
tell({waiting, Text}) -> whittle_progress:stage(Text);
tell({runtime, Progress}) -> whittle_progress:event(Progress).

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
     ["\nBytes and memory are estimates before compression. \"retained\" is the code that the\n"
      "build would not contain without that application or dynamic call.\n"
      || #{costs := _} <- [Ledger]],
     [[$\n, [["note: ", Note, $\n] || Note <- Notes]] || Notes =/= []]].

share(_, 0) -> "";
share(Size, Stock) -> io_lib:format("~.1f % of the stock release", [100 * Size / Stock]).
