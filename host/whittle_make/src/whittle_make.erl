%% @doc Builds an output from an application, a project, a release or an escript.
%%
%% This module alone defines the order of a build: check the request, read the input, run the
%% passes ({@link passes/1}), get the VM, write the output with its plan. {@link make/1} does all
%% of it; {@link system/1} stops before the VM. The command, the tests, the benchmarks and the
%% studies call these two functions.
-module(whittle_make).

-import(whittle_work, [steps/1]).

-export([check/1, check_options/2, make/1, system/1, prices/1, passes/1, check_shake/2]).
-export([format_error/1, details/1, code/1]).

-export_type([request/0, system_request/0, shake/0, event/0, step/0, timings/0, made/0,
              prepared/0, reason/0]).

-type request() ::
        #{input := file:filename(),         % the path of the application, release or escript
          otp => string(),                  % release, "29"; default: the newest known
          passes => [module()],             % default: see passes/1
          target => string(),               % default: this machine's
          flavor => size | speed,           % the interpreter or the JIT; default: size
          vm => whole | program,            % program: without the parts of ERTS that the program
                                            % cannot reach (whittle_runtime:cut()), which needs
                                            % `missing => crash'; default: whole
          optimize => mix | whittle_runtime:level(), % how the compiler optimizes the VM;
                                            % default: mix, the flavor's own levels and profile
          out => file:filename(),           % default: the system's name, in this directory
          format => exe | dir,              % default: exe
          libs => [file:filename()],        % directories of further applications; default: none.
                                            % Whittle's own libraries come after them
          add => [whittle_system:app_name()], % applications to add; default: none
          natives => [file:filename()],     % descriptions of C to link in; default: none
          outside_links => note | refuse,   % default: note
          includes => auto | keep,          % include files; default: auto, which keeps them
                                            % if the output contains the compiler
          attributes => auto | keep,        % of modules; default: auto, which keeps them if
                                            % a module names them
          shake => none | shake(),          % default: none
          settings => file:filename(),      % of `whittle tune'; default: none
          ca_certs => file:filename(),      % PEM, for machines without /etc/ssl; default: none
          runtime => whittle_runtime:options(), % the cache directory, and more
          tell => fun((event()) -> term())}.% receives each event, in the calling process

%% The keys of request() that a system depends on, and one more.
-type system_request() ::
        #{otp_lib => file:filename(),       % `lib' of an installed OTP, instead of one that
                                            % Whittle builds
          input := file:filename(), otp => string(), passes => [module()],
          flavor => size | speed, libs => [file:filename()], add => [whittle_system:app_name()],
          natives => [file:filename()], outside_links => note | refuse, includes => auto | keep,
          attributes => auto | keep, shake => none | shake(), settings => file:filename(),
          runtime => whittle_runtime:options(), tell => fun((event()) -> term())}.

%% The options of {@link whittle_shake:plan/2}, and two files that the build reads at its start.
-type shake() ::
        #{unit := modules | functions,
          missing => load | crash,
          on => [whittle_shake_feature:name()],
          off => [whittle_shake_feature:name()],
          only => [mfa()],
          declared => #{whittle_shake_dynamic:kind() => whittle_shake:declared()},
          %% with an `evidence_file'; `only' with `load' only; default: keep with `load', refuse
          %% with `crash'
          seen => refuse | keep | only,
          keep_file => file:filename(),     % names of functions to keep
          evidence_file => file:filename()}.% the recording of `whittle trace'

%% The start and the end of a step; a note for a person; the reason why the build waits for another
%% program; the progress of a build of the VM. A step that fails does not end.
-type event() :: {started | ended, step() | pass() | part()}
               %% prices/1: one pass, and each feature in it
               | {started | ended, prices} | {pricing, whittle_shake_feature:name()}
               | {note | waiting, unicode:chardata()}
               | {runtime, whittle_runtime:progress()}.

%% The steps of make/1, in order. system/1 has those up to `passes' without `output'.
-type step() ::
        check                               % the request
      | needs                               % the input, as far as possible without an OTP
      | otp                                 % find or build OTP
      | read                                % the input
      | output                              % check the output's path, if the request has none
      | passes                              % each pass is a step in it
      | stock                               % measure the stock VM
      | runtime                             % find or build the VM
      | pack                                % write the output
      | ledger.                             % sum up

%% The names of the passes that passes/1 lists, in order.
-type pass() :: applications | modules | files | md5 | tables | shake | strip | literals | start.

%% The steps in the pass `shake', in order.
-type part() :: facts | plan | rewrite | costs.

%% The milliseconds of each step, in order. Each step is there once.
-type timings() :: [{step(), non_neg_integer()}].

%% A system that is ready for the pack.
-type prepared() ::
        #{system := whittle_system:system(),
          otp := whittle_runtime:otp() | #{lib := file:filename()},
          plan := whittle_shake_saved:saved() | none, % none: not shaken
          costs := whittle_shake_cost:costs() | none,
          timings := timings()}.

-type made() ::
        #{out := file:filename(),
          system := whittle_system:system(),
          plan := whittle_shake_saved:saved() | none,
          ledger := whittle_ledger:ledger(),
          runtime := whittle_runtime:runtime(),
          otp := whittle_runtime:otp(),
          size := pos_integer(),            % bytes of the output
          sha256 := binary() | none,        % in lower-case hex; none for a directory
          timings := timings()}.

-type reason() ::
        {system, whittle_system:error()}
      | {shake, whittle_shake:error()}
      | {pack, whittle_pack:error()}
      | {runtime, whittle_runtime:reason()}
      | {plan_file, whittle_plan_file:error()}
      | whittle_make_shake:reason()
      | whittle_make_settings:error()
      | whittle_make_request:error()
      | {input_is_output, file:filename()}
      | {output_is_packed, {Out :: file:filename(), Dir :: file:filename_all()}}.

%% The keys of system_request(), and those that only request() has.
-define(SYSTEM_KEYS, [otp_lib, input, otp, passes, flavor, libs, add, natives, outside_links,
                      includes, attributes, shake, settings, runtime, tell]).
-define(OUTPUT_KEYS, [target, vm, optimize, out, format, ca_certs]).

%% @doc Checks a request as {@link make/1} does first, and builds nothing.
%%
%% It also looks for the applications in `add', which a build finds missing only after it has read
%% the input. For them it compiles a rebar3 project. The request may lack the input, if something
%% makes the input later. A request with an unknown key is a `badarg'. A value that an option cannot
%% have is the error `bad_value'.
-spec check(map()) -> ok | {error, reason()}.
check(Request) ->
    known_output_keys(maps:merge(#{input => later}, Request)),
    case steps([fun(_) -> check_output_request(#{request => with_defaults(Request)}) end,
                fun check_added/1]) of
        {error, _} = Error -> Error;
        _ -> ok
    end.

%% @doc Checks some options of a request, for example those in a file of a user: only `Keys' may be
%% there, and each value must have its form. It reads no file.
-spec check_options(map(), Keys :: [atom()]) -> ok | {error, reason()}.
check_options(Options, Keys) -> whittle_make_request:check(Options, Keys).

%% @doc Builds an output and its plan file. Each is complete or does not exist.
%%
%% A request with an unknown key, or without the input, is a `badarg'.
-spec make(request()) -> {ok, made()} | {error, reason()}.
make(Request) ->
    known_output_keys(Request),
    in_order(Request,
             [{check, fun check_output_request/1},
              with_cache(to_system() ++ [{output, fun name_output/1}, {passes, fun run_passes/1},
                                         {stock, fun measure_stock/1},
                                         {runtime, fun get_runtime/1}, {pack, fun write/1}]),
              {ledger, fun sum_up/1}],
             [out, system, plan, ledger, runtime, otp, size, sha256, timings]).

%% @doc Builds the system of an output without the VM and the file, for tests and measurements.
%%
%% A request with an unknown key, or without the input, is a `badarg'.
-spec system(system_request()) -> {ok, prepared()} | {error, reason()}.
system(Request) ->
    known_keys(Request, ?SYSTEM_KEYS),
    in_order(Request, [{check, fun check_request/1},
                       with_cache(to_system() ++ [{passes, fun run_passes/1}])],
             [system, otp, plan, costs, timings]).

%% @doc Computes what each feature adds to a program in a build with `vm => program'. For each
%% feature it makes a plan and links a VM, in one or two seconds, and keeps neither.
%%
%% The request has the keys of {@link system/1} and `target', without `otp_lib', `passes' and
%% `flavor'. `shake' has `missing => crash'.
-spec prices(request()) -> {ok, whittle_make_prices:prices()} | {error, reason()}.
prices(Request) ->
    known_keys(Request, [target | ?SYSTEM_KEYS -- [otp_lib, passes, flavor]]),
    Steps = [{check, fun check_priced_request/1},
             with_cache(to_system() ++ [{passes, fun run_passes/1}])],
    Passes = before_plan() ++ [whittle_make_prices],
    steps([fun(_) -> in_order(Request#{vm => program, passes => Passes}, Steps, [prices]) end,
           fun(#{prices := Prices}) -> {ok, Prices} end]).

%% @doc Lists the passes of a build, in order.
%%
%% The pass that removes most comes first. The passes that read every module come last.
-spec passes(none | shake()) -> [module()].
passes(Shake) ->
    before_plan()
        ++ [whittle_make_shake || Shake =/= none]
        ++ [whittle_pass_strip, whittle_pass_literals, whittle_pass_start].

before_plan() ->
    [whittle_pass_applications, whittle_pass_modules, whittle_pass_files, whittle_pass_md5,
     whittle_make_tables].

%% @doc Checks the options of tree shaking without reading the files that they name.
%%
%% A VM for one program (`vm') needs `missing => crash'.
%% {@link make/1} and {@link system/1} do the same first. An unknown key, or no `unit', is a
%% `badarg'.
-spec check_shake(none | shake(), Vm :: whole | program) ->
          ok | {error, whittle_make_shake:conflict()}.
check_shake(Shake, Vm) -> whittle_make_shake:check(Shake, Vm).

%% @doc Formats an error as one line for a person. The line ends with the next thing to do.
-spec format_error(reason()) -> unicode:chardata().
format_error({system, Error}) -> whittle_system:format_error(Error);
format_error({shake, Error}) -> whittle_shake:format_error(Error);
format_error({pack, Error}) -> whittle_pack:format_error(Error);
format_error({runtime, Error}) -> whittle_runtime:format_error(Error);
format_error({plan_file, Error}) -> whittle_plan_file:format_error(Error);
format_error({input_is_output, Out}) ->
    [Out, " is the input, a part of it or a directory above it, and would be overwritten: name "
     "another output with -o"];
format_error({output_is_packed, {Out, Dir}}) ->
    [Out, " would be in ", Dir, ", whose files Whittle packs: name another output with -o"];
format_error({unreadable, {settings, _, _}} = Error) -> whittle_make_settings:format_error(Error);
format_error({bad_settings, _} = Error) -> whittle_make_settings:format_error(Error);
format_error({unknown_option, _} = Error) -> whittle_make_request:format_error(Error);
format_error({bad_value, _} = Error) -> whittle_make_request:format_error(Error);
format_error(Error) -> whittle_make_shake:format_error(Error).

%% @doc Returns the lines that belong above the line of {@link format_error/1}.
%%
%% They are the last output of a failed program, or a list.
-spec details(reason()) -> [unicode:chardata()].
details({system, Error}) -> whittle_system:details(Error);
details({shake, Error}) -> whittle_shake:details(Error);
details({runtime, Error}) -> whittle_runtime:step_output(Error);
details(_) -> [].

%% @doc Returns the name of an error, for programs (docs/json.md).
-spec code(reason()) -> atom().
code({Room, Error}) when Room =:= system; Room =:= shake; Room =:= pack; Room =:= runtime;
                         Room =:= plan_file -> name(Error);
code(Reason) -> name(Reason).

name({in, {_File, Error}}) -> name(Error);
name(Reason) when is_tuple(Reason), is_atom(element(1, Reason)) -> element(1, Reason);
name(Reason) when is_atom(Reason) -> Reason.

%% Internal functions: the order

to_system() -> [{needs, fun check_needs/1}, {otp, fun get_otp/1}, {read, fun read/1}].

%% Prevents the removal of artifacts from the cache while these steps read them.
with_cache(Steps) ->
    fun(Build) ->
            whittle_runtime:reading(fun() -> run(Steps, Build) end, runtime_options(Build))
    end.

%% Runs the steps; each adds to the build. The result has the keys in Keys.
in_order(Request, Steps, Keys) ->
    case run(Steps, #{request => with_defaults(Request), timings => []}) of
        {ok, #{timings := Timings} = Done} ->
            {ok, maps:with(Keys, Done#{timings := lists:reverse(Timings)})};
        {error, _} = Error -> Error
    end.

run(Steps, Build) ->
    steps([fun(_) -> {ok, Build} end | [fun(Before) -> timed(Step, Before) end || Step <- Steps]]).

timed(Several, Before) when is_function(Several) -> Several(Before);
timed({Name, Step}, Before) ->
    tell({started, Name}, Before),
    Start = erlang:monotonic_time(millisecond),
    case Step(Before) of
        {ok, #{timings := Timings} = After} ->
            tell({ended, Name}, After),
            {ok, After#{timings := [{Name, since(Start)} | Timings]}};
        {error, _} = Error -> Error
    end.

since(Start) -> erlang:monotonic_time(millisecond) - Start.

known_output_keys(Request) -> known_keys(Request, (?SYSTEM_KEYS -- [otp_lib]) ++ ?OUTPUT_KEYS).

known_keys(Request, Known) ->
    case is_map_key(input, Request) andalso maps:size(maps:without(Known, Request)) of
        0 -> ok;
        _ -> error(badarg, [Request])
    end.

with_defaults(Request) ->
    maps:merge(#{otp => whittle_runtime:default_otp(), target => whittle_runtime:default_target(),
                 flavor => size, vm => whole, optimize => mix, format => exe, libs => [], add => [],
                 natives => [], outside_links => note, includes => auto, attributes => auto,
                 shake => none,
                 runtime => #{}, tell => fun(_) -> ok end}, Request).

tell(Event, #{request := #{tell := Tell}}) ->
    _ = Tell(Event),
    ok.

teller(Build) -> fun(Event) -> tell(Event, Build) end.

%% Internal functions: the steps, in their order

%% A check of a VM for one program needs no plan yet.
check_vm(Build) ->
    Spec = vm(Build#{cut => whittle_runtime:empty_cut()}, []),
    in(runtime, whittle_runtime:check(Spec, runtime_options(Build))).

vm(#{request := #{vm := Vm} = Request} = Build, Natives) ->
    Spec = (maps:with([target, otp, flavor, optimize], Request))#{natives => Natives},
    case Vm of
        whole -> Spec;
        program -> Spec#{cut => maps:get(cut, Build)}
    end.

check_request(#{request := Request} = Build) ->
    steps([fun(_) -> whittle_make_request:values(Request) end,
           fun(_) -> check_system(Build) end]).

%% Checks what the system of an output depends on.
check_system(#{request := Request} = Build) ->
    #{natives := Files, shake := Shake, vm := Vm} = Request,
    steps([fun(_) -> check_shake(Shake, Vm) end,
           fun(_) -> check_input(Request) end,
           fun(_) -> settings(Build) end,
           fun(Settings) -> {ok, with_settings(Settings, Build)} end,
           fun(With) ->
                   case whittle_native:read_all(Files) of
                       {ok, Natives} -> {ok, With#{natives => Natives}};
                       {error, _} = Error -> in(system, Error)
                   end
           end,
           fun(#{request := #{shake := Both}} = With) ->
                   case whittle_make_shake:read_files(Both) of
                       {ok, Read} -> {ok, With#{shake => Read}};
                       {error, _} = Error -> Error
                   end
           end]).

check_input(#{input := Input}) -> in(system, whittle_read:check(Input));
check_input(_) -> ok.

with_settings(Settings, #{request := #{shake := Shake} = Request} = Build) ->
    {Both, Notes} = whittle_make_settings:shake(Settings, Shake),
    Build#{settings => Settings, settings_notes => Notes, request => Request#{shake => Both}}.

settings(#{request := #{settings := File}}) -> whittle_make_settings:read(File);
settings(_) -> {ok, #{flags => [], environment => []}}.

check_priced_request(#{request := Request} = Build) ->
    steps([fun(_) -> whittle_make_request:values(Request) end,
           fun(_) -> check_vm(Build) end,
           fun(_) -> check_system(Build) end]).

check_output_request(#{request := Request} = Build) ->
    steps([fun(_) -> whittle_make_request:values(Request) end,
           fun(_) -> check_vm(Build) end,
           fun(_) -> in(pack, whittle_pack:check_certificates(pack_options(Build))) end,
           fun(_) -> check_system(Build) end,
           fun check_given_output/1]).

check_given_output(#{request := #{out := Out}} = Build) -> check_output(Out, Build);
check_given_output(Build) -> {ok, Build}.

%% A build of a missing OTP takes minutes; an existing one takes a moment to read.
check_needs(#{request := #{otp_lib := _}} = Build) -> {ok, Build};
check_needs(#{request := #{otp := Release}} = Build) ->
    case whittle_runtime:has_otp(Release, runtime_options(Build)) of
        false -> steps([fun(_) -> check_applications(Build) end, fun(_) -> {ok, Build} end]);
        true -> {ok, Build}
    end.

check_added(#{request := #{add := []}}) -> ok;
check_added(Build) -> check_applications(Build).

check_applications(#{request := #{otp := Release, add := Add, outside_links := Links} = Request}
                   = Build) ->
    Needs = #{libs => libs(Build), add => Add, outside_links => Links, otp => Release,
              tell => teller(Build)},
    in(system, whittle_read:check_input(maps:get(input, Request, none), Needs)).

libs(#{request := #{libs := Libs}}) -> Libs ++ [whittle_device:lib_dir()].

get_otp(Build) ->
    steps([fun(_) -> installed_otp(Build) end,
           fun(#{lib := Lib} = Otp) ->
                   steps([fun(_) -> in(system, whittle_otp_lib:open(Lib)) end,
                          fun(Opened) -> {ok, Build#{otp => Otp, otp_lib => Opened}} end])
           end]).

installed_otp(#{request := #{otp_lib := Lib}}) -> {ok, #{lib => Lib}};
installed_otp(#{request := #{otp := Release}} = Build) ->
    in(runtime, whittle_runtime:otp(Release, runtime_options(Build))).

read(#{request := #{input := Input, add := Add, outside_links := Links}, otp_lib := Otp,
       natives := Natives} = Build) ->
    steps([fun(_) -> in(system, whittle_read:read(
                                  Input, #{otp_lib => Otp, libs => libs(Build),
                                           natives => Natives, add => Add,
                                           outside_links => Links, tell => teller(Build)})) end,
           fun(System) -> in(system, whittle_device:add(System)) end,
           fun(System) ->
                   With = whittle_make_settings:add(maps:get(settings, Build), System),
                   Noted = lists:foldl(fun whittle_system:note/2, With,
                                       maps:get(settings_notes, Build)),
                   {ok, Build#{system => Noted}}
           end]).

name_output(#{system := System} = Build) ->
    steps([fun(_) -> in(pack, whittle_pack:check_name(whittle_system:name(System),
                                                      pack_options(Build))) end,
           fun(_) -> named_output(Build) end,
           fun(Named) ->
                   case packed_dir(Named) of
                       none -> {ok, Named};
                       Dir -> {error, {output_is_packed, {maps:get(out, Named), Dir}}}
                   end
           end]).

named_output(#{out := _} = Build) -> {ok, Build};
named_output(#{system := System} = Build) -> check_output(whittle_system:name(System), Build).

%% The next build would pack an output that is among the files of an application.
packed_dir(#{out := Out, system := System}) ->
    Packed = [filename:join(Path, Top) || #{origin := #{kind := input, path := Path}}
                                              <- whittle_system:apps(System),
                                          Top <- ["priv", "include"]],
    case lists:search(fun(Dir) -> whittle_file:is_in(Out, Dir) end, Packed) of
        {value, Dir} -> Dir;
        false -> none
    end.

check_output(Given, #{request := #{input := Input, format := Format}} = Build) ->
    Out = case Format of
              dir -> filename:join([Given]);   % removes a slash at the end
              exe -> Given
          end,
    steps([fun(_) -> is_other_file(Input, Out) end,
           fun(_) -> check_place(Input, Out, pack_options(Build)) end,
           fun(_) -> check_plan(Out, Build) end,
           fun(_) -> {ok, Build#{out => Out}} end]).

%% The advice to remove what is there would cost the user the input.
check_place(Input, Out, Options) ->
    case whittle_pack:check_output(Out, Options) of
        {error, Why} = Error ->
            Overlap = is_at_or_in(Out, Input) orelse is_at_or_in(Input, Out),
            case Overlap andalso whittle_pack:advises_removal(Why) of
                true -> {error, {input_is_output, Out}};
                false -> in(pack, Error)
            end;
        ok -> ok
    end.

%% Tells whether a path is a directory or leads into it. If it is the directory, a file below the
%% path is in the directory.
is_at_or_in(Path, Dir) ->
    whittle_file:is_in(Path, Dir) orelse whittle_file:is_in(filename:join(Path, "name"), Dir).

check_plan(_, #{shake := none}) -> ok;
check_plan(Out, _) -> in(plan_file, whittle_plan_file:check(Out)).

is_other_file(Input, Out) ->
    case whittle_file:is_same(Input, Out) of
        true -> {error, {input_is_output, Out}};
        false -> ok
    end.

run_passes(#{request := #{flavor := Flavor, includes := Includes, attributes := Attributes,
                         vm := Vm} = Request,
             shake := Shake, system := System, otp_lib := Otp} = Build) ->
    %% Only the JIT reads the types that the compiler found.
    Types = case Flavor of size -> drop; speed -> keep end,
    Options = #{strip => #{types => Types, attributes => Attributes}, includes => Includes,
                shake => Shake, vm => Vm, otp => Otp, tables => tables(Flavor, Build),
                weigh => fun(Cut, Natives) -> vm_bytes(Build#{cut => Cut}, Natives) end,
                tell => teller(Build)},
    case whittle_pass:run(maps:get(passes, Request, passes(Shake)), Options, System) of
        {ok, Smaller, Results} ->
            Shaken = maps:get(shake, Results, #{plan => none, costs => none}),
            {ok, maps:merge(Build#{system := Smaller},
                            maps:merge(Shaken, maps:with([prices], Results)))};
        {error, _} = Error -> Error
    end.

tables(size, Build) -> runtime_options(Build);
tables(speed, _) -> none.

vm_bytes(Build, Natives) ->
    in(runtime, whittle_runtime:vm_bytes(vm(Build, Natives), runtime_options(Build))).

%% Measures a stock ERTS in a release, without debug information.
measure_stock(#{otp := #{stock_programs := Programs}} = Build) ->
    steps([fun(_) -> in(pack, whittle_work:each(fun whittle_pack:loaded_size/1, Programs)) end,
           fun(Sizes) -> {ok, Build#{stock_vm => lists:sum(Sizes)}} end]).

get_runtime(#{system := System} = Build) ->
    Spec = vm(Build, whittle_system:natives(System)),
    steps([fun(_) -> in(runtime, whittle_runtime:ensure(Spec, runtime_options(Build))) end,
           fun(Runtime) -> {ok, Build#{runtime => Runtime}} end]).

write(#{system := System, runtime := Runtime, out := Out, plan := Plan} = Build) ->
    Options = maps:merge(pack_options(Build), whittle_plan_file:beside(Out, Plan)),
    steps([fun(_) -> in(pack, whittle_pack:write(System, Runtime, Out, Options)) end,
           fun(Written) -> {ok, maps:merge(Build, Written)} end]).

sum_up(#{system := System, runtime := Runtime, out := Out, costs := Costs, size := Size,
          vm := Vm, notes := Notes, stock_vm := Stock} = Build) ->
    Ledger = whittle_ledger:new(#{system => System, runtime => Runtime, out => Out,
                                  stock_vm => Stock, costs => Costs,
                                  notes => Notes,
                                  contents => #{size => Size, vm => Vm, code => Size - Vm}}),
    {ok, Build#{ledger => Ledger}}.

runtime_options(#{request := #{runtime := Options}} = Build) ->
    Options#{progress => fun(Progress) -> tell({runtime, Progress}, Build) end}.

pack_options(#{request := Request}) -> maps:with([format, ca_certs], Request).

%% Tags an error with the application that returned it.
in(_, ok) -> ok;
in(_, {ok, _} = Ok) -> Ok;
in(Room, {error, Error}) -> {error, {Room, Error}}.
