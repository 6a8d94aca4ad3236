%% @hidden Keeps the functions that the program can reach, and makes the others cold or removes
%% them.
%%
%% The pass computes a plan and applies it. Its result contains the saved form of the plan, and
%% the costs of applications and dynamic calls.
-module(whittle_make_shake).
-behaviour(whittle_pass).

-import(whittle_work, [steps/1]).

-export([check/2, read_files/1]).
-export([facts/2, plan/2, cut/3]).
-export([name/0, doc/0, run/2]).
-export([format_error/1]).

-export_type([options/0, conflict/0, reason/0]).

%% The request's options, with the contents of the files that it names.
-type options() :: none | whittle_shake:options().

%% Options that contradict each other, or a name that no feature has.
-type conflict() :: {unknown_feature, atom()}
                  | {on_and_off, whittle_shake_feature:name()}
                  | {needs_evidence, seen}
                  | {needs_load, seen}
                  | {needs_crash, vm}.

-type reason() :: conflict()
                | {unreadable, {keep | evidence, file:filename(), file:posix() | badarg}}
                | {not_names, {file:filename(), string()}}
                | {too_many_names, {file:filename(), Limit :: pos_integer()}}
                | {bad_evidence, {file:filename(), whittle_shake_evidence:error()}}.

%% The largest file of function names and the largest recording, in bytes.
-define(MAX_FILE, 64 * 1024 * 1024).

-define(KEYS, [unit, missing, on, off, only, declared, seen, keep_file, evidence_file]).

%% @doc Implements {@link whittle_make:check_shake/2}.
-spec check(none | whittle_make:shake(), Vm :: whole | program) -> ok | {error, conflict()}.
check(none, whole) -> ok;
check(none, program) -> {error, {needs_crash, vm}};
check(Shake, Vm) ->
    case is_map_key(unit, Shake) andalso maps:size(maps:without(?KEYS, Shake)) of
        0 -> steps([fun(_) -> go_together(Shake) end, fun(_) -> removes(Shake, Vm) end]);
        _ -> error(badarg, [Shake])
    end.

%% Cold code may call any BIF.
removes(#{missing := crash}, program) -> ok;
removes(_, program) -> {error, {needs_crash, vm}};
removes(_, whole) -> ok.

go_together(Shake) ->
    On = maps:get(on, Shake, []),
    Off = maps:get(off, Shake, []),
    Known = [Name || {Name, _} <- whittle_shake:features()],
    case {[Name || Name <- On ++ Off, not lists:member(Name, Known)],
          [Name || Name <- On, lists:member(Name, Off)], Shake} of
        {[Name | _], _, _} -> {error, {unknown_feature, Name}};
        {[], [Name | _], _} -> {error, {on_and_off, Name}};
        {[], [], #{seen := _}} when not is_map_key(evidence_file, Shake) ->
            {error, {needs_evidence, seen}};
        %% The VM could not load the functions that the recorded run did not call.
        {[], [], #{seen := only, missing := crash}} -> {error, {needs_load, seen}};
        {[], [], _} -> ok
    end.

%% @doc Reads the files that the options of tree shaking name.
-spec read_files(none | whittle_make:shake()) -> {ok, options()} | {error, reason()}.
read_files(none) -> {ok, none};
read_files(Shake) ->
    Options = maps:merge(#{missing => load, declared => #{}}, Shake),
    steps([fun(_) -> keep(Options) end, fun evidence/1]).

keep(#{keep_file := File} = Options) ->
    steps([fun(_) -> file(keep, File) end,
           fun(Bytes) ->
                   case whittle_shake_name:parse_file(Bytes) of
                       {ok, Names} -> {ok, (maps:remove(keep_file, Options))#{keep => Names}};
                       {error, {too_many_atoms, Limit}} ->
                           {error, {too_many_names, {File, Limit}}};
                       {error, Line} -> {error, {not_names, {File, Line}}}
                   end
           end]);
keep(Options) -> {ok, Options}.

evidence(#{evidence_file := File, missing := Missing} = Options) ->
    steps([fun(_) -> file(evidence, File) end,
           fun(Bytes) ->
                   case whittle_shake_evidence:from_binary(Bytes) of
                       {ok, Evidence} ->
                           %% With `load', missing code loads at its first call, so the build
                           %% need not refuse recorded functions that the plan lacks.
                           Seen = case Missing of load -> keep; crash -> refuse end,
                           {ok, maps:merge(#{seen => Seen, evidence => Evidence},
                                           maps:remove(evidence_file, Options))};
                       {error, Error} -> {error, {bad_evidence, {File, Error}}}
                   end
           end]);
evidence(Options) -> {ok, Options}.

file(Option, File) ->
    case whittle_file:whole(File, ?MAX_FILE) of
        {ok, Bytes} -> {ok, Bytes};
        {error, Reason} -> {error, {unreadable, {Option, File, Reason}}}
    end.

%% @private
-spec name() -> atom().
name() -> shake.

%% @private
-spec doc() -> string().
doc() -> "reachable code is hot; the rest is cold, or removed".

%% @private
-spec run(whittle_system:system(), whittle_pass:options()) ->
          {ok, whittle_system:system(), map()} | {error, {shake, whittle_shake:error()}}.
run(System, #{shake := Given, otp := Otp} = All) ->
    Vm = maps:get(vm, All, whole),
    Options = Given#{vm => Vm},
    Part = fun(Name, Fun) -> whittle_pass:step(Name, Fun, All) end,
    Planned = steps([fun(_) -> Part(facts, fun() -> facts(System, Otp) end) end,
                     fun(Facts) ->
                             Part(plan, fun() -> plan(System, Options#{facts => Facts}) end)
                     end]),
    case Planned of
        {ok, Plan} ->
            _ = [whittle_pass:tell({note, Note}, All)
                 || Note <- whittle_shake:open_calls(Plan) ++ whittle_shake:warnings(Plan)],
            Shaken = Part(rewrite, fun() -> carry_out(Plan, System) end),
            Costs = Part(costs, fun() -> whittle_shake_cost:costs(Plan, System, Shaken) end),
            steps([fun(_) -> cut(Vm, Plan, Otp) end,
                   fun(Cut) ->
                           {ok, Shaken, Cut#{plan => whittle_shake_saved:new(Plan, Shaken),
                                             costs => Costs}}
                   end]);
        {error, _} = Error -> Error
    end.

%% @doc Collects the facts about a system and the built-in modules of its VM.
-spec facts(whittle_system:system(), whittle_otp_lib:otp_lib()) ->
          {ok, whittle_shake:facts()} | {error, {shake, whittle_shake:error()}}.
facts(System, Otp) ->
    in(steps([fun(_) -> whittle_otp_lib:preloaded(Otp) end,
              fun(Preloaded) -> whittle_shake:facts(System, Preloaded) end])).

%% @doc Returns the parts of the VM that the program does without. The VM contains modules as short
%% as those of ERTS's own build: without lines and attributes.
-spec cut(Vm :: whole | program, whittle_shake:plan(), whittle_otp_lib:otp_lib()) ->
          {ok, #{cut => whittle_shake:vm_cut()}} | {error, {shake, whittle_shake:error()}}.
cut(whole, _, _) -> {ok, #{}};
cut(program, Plan, Otp) ->
    in(steps([fun(_) -> whittle_otp_lib:preloaded(Otp) end,
              fun(Preloaded) ->
                      #{preloaded := Modules} = Cut = whittle_shake:vm_cut(Plan, Preloaded),
                      {ok, #{cut => Cut#{preloaded := maps:map(fun stripped/2, Modules)}}}
              end])).

stripped(_, Bytes) ->
    {ok, Beam} = whittle_beam:read(Bytes),
    whittle_beam:strip(#{types => drop, lines => drop}, Beam).

%% @doc Decides what the build keeps.
-spec plan(whittle_system:system(), whittle_shake:options()) ->
          {ok, whittle_shake:plan()} | {error, {shake, whittle_shake:error()}}.
plan(System, #{evidence := Evidence} = Options) ->
    case whittle_shake:plan(System, Options) of
        {error, Error} ->
            in({error, whittle_shake_evidence:other_program(Error, whittle_recording:own(Evidence),
                                                            System)});
        Planned ->
            in(Planned)
    end;
plan(System, Options) ->
    in(whittle_shake:plan(System, Options)).

in({ok, _} = Ok) -> Ok;
in({error, Error}) -> {error, {shake, Error}}.

carry_out(Plan, System) ->
    Done = whittle_shake:carry_out(Plan, System),
    lists:foldl(fun whittle_system:note/2, Done,
                whittle_shake:notes(Plan) ++ whittle_shake:unread_notes(Plan, System)
                ++ whittle_shake:load_notes(Plan, System, Done)).

%% @doc Formats an error as one line for a person. The line ends with the next thing to do.
-spec format_error(reason()) -> unicode:chardata().
format_error({unknown_feature, Name}) ->
    Known = [atom_to_list(One) || {One, _} <- whittle_shake:features()],
    ["there is no feature ", atom_to_list(Name),
     whittle_suggestion:hint(atom_to_list(Name), Known),
     ": take one that `whittle features' lists"];
format_error({on_and_off, Name}) ->
    ["the feature ", atom_to_list(Name), " is both in `on' and in `off': take it out of one"];
format_error({needs_evidence, Option}) ->
    ["the option `", atom_to_list(Option), "' has no effect without a recording: name one with "
     "`evidence_file'"];
format_error({needs_load, Option}) ->
    ["the option `", atom_to_list(Option), "' has the value `only', and `missing' has `crash', but "
     "the program must be able to load what the recorded run did not call: set `missing' to "
     "`load'"];
format_error({needs_crash, vm}) ->
    "a VM for one program needs a plan that removes code: set `shake' to a map whose `missing' is "
    "`crash', or `vm' to `whole'";
format_error({unreadable, {Option, File, eftype}}) ->
    [File, $\s, whittle_file:format_error(eftype), ": name a regular file with --",
     atom_to_list(Option)];
format_error({unreadable, {Option, File, efbig}}) ->
    [File, " is larger than the 64 MB that Whittle reads: check the path given to --",
     atom_to_list(Option)];
format_error({unreadable, {Option, File, Reason}}) ->
    [File, $\s, whittle_file:format_error(Reason), ": check the path given to --",
     atom_to_list(Option)];
format_error({not_names, {File, Line}}) ->
    [File, ": `", Line, "' is not of the form M, M:F or M:F/A: correct the line"];
format_error({too_many_names, {File, Limit}}) ->
    [File, $\s, whittle_bounded:too_many_atoms(Limit)];
format_error({bad_evidence, {File, Error}}) ->
    [File, $\s, whittle_shake_evidence:format_error(Error)].
