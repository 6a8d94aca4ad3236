%% @doc Makes boot scripts. A boot script controls the VM from its first module to the start of
%% the last application.
%%
%% This module makes a script from the `start_clean.boot' of the chosen OTP and from the
%% applications of the system. `start_clean.boot' lists the preloaded modules, the modules that
%% the kernel needs first, and the processes that start it. Further steps load and start the
%% applications in order, with calls between two of them. These steps come from the release's own
%% boot script if it has one, because `mix release' puts calls there.
%%
%% The VM loads code lazily. It loads only the modules before `kernel_load_completed' at once. The
%% lists after it name the modules that `-mode embedded' would load.
-module(whittle_boot).

-export([read/1, steps/1, own_steps/1, generate/2, refresh/1, set_start_modules/2, make_atoms/1,
         atoms/1,
         watch_cold/1, set_traced/1, early_modules/0, start_modules/1, control/1,
         loaded_at_once/3, root/0]).

-export_type([step/0, plan/0]).

-type step() :: {load, whittle_system:app_name()}
              | {start, whittle_system:app_name(), permanent | transient | temporary}
              | {apply, mfa_args()}
              | {progress, atom()}.
-type mfa_args() :: {module(), atom(), [term()]}.

-type plan() ::
        #{template := whittle_system:boot_script(),     % start_clean of OTP
          order := [whittle_system:app_name()],         % the order of the applications' code
          steps := [step()]}.                           % how they load and start

%% @doc Returns the virtual root. The launcher serves the pack below it.
-spec root() -> string().
root() -> "/.whittle".

%% The boot file of 300 applications has a tenth of this size.
-define(MAX_BYTES, 16 * 1024 * 1024).

%% @doc Reads the boot script in a file. Errors: the file has more than 16 MB, or claims to inflate
%% to more (`efbig'); it has more names than this VM has room for (`too_many_atoms'); it is another
%% file (`not_a_script').
-spec read(file:filename()) ->
          {ok, whittle_system:boot_script()}
              | {error, not_a_script | whittle_bounded:too_many() | file:posix() | badarg}.
read(File) ->
    case whittle_file:whole(File, ?MAX_BYTES) of
        {ok, Bytes} ->
            case whittle_bounded:term(Bytes, ?MAX_BYTES) of
                {ok, {script, {_, _}, Steps} = Script} when length(Steps) >= 0 -> {ok, Script};
                {error, too_large} -> {error, efbig};
                {error, {too_many_atoms, _}} = Error -> Error;
                _ -> {error, not_a_script}
            end;
        {error, _} = Error -> Error
    end.

%% @doc Makes the steps that load and start applications of the given start types in the given
%% order, like `systools'.
-spec steps([{whittle_system:app_name(), whittle_system:start_type()}]) ->
          [step()].
steps(Types) ->
    [{load, Name} || {Name, Type} <- Types, Type =/= none, Name =/= kernel] ++
    [{progress, applications_loaded}] ++
    [{start, Name, Type} || {Name, Type} <- Types,
                            Type =/= none, Type =/= load].

%% @doc Takes the steps from a release's own boot script. It keeps an apply that this module does
%% not know. It drops `erlangrc', which reads a file of the user.
-spec own_steps(whittle_system:boot_script()) -> [step()].
own_steps({script, _, Instructions}) ->
    [_Started | After] =
        lists:dropwhile(fun(Instruction) ->
                                Instruction =/= {progress, init_kernel_started}
                        end, Instructions),
    lists:append([step(Instruction) || Instruction <- After]).

step({apply, {application, load, [{application, Name, _}]}}) ->
    [{load, Name}];
step({apply, {application, start_boot, [Name]}}) ->
    [{start, Name, temporary}];
step({apply, {application, start_boot, [Name, Type]}}) ->
    [{start, Name, Type}];
step({apply, {c, erlangrc, _}}) -> [];
step({apply, {os, set_signal, [sigterm, handle]}}) -> [];
step({apply, MFA}) -> [{apply, MFA}];
step({progress, started}) -> [];
step({progress, What}) -> [{progress, What}];
step(_) -> [].

%% @doc Generates the boot script of the system. The kernel's part comes from the template, the
%% applications' code follows in the plan's order, and then the plan's steps.
-spec generate(plan(), whittle_system:system()) -> whittle_system:system().
generate(#{template := {script, _, Template}, order := Order, steps := Steps},
         System) ->
    Apps = maps:from_list([{Name, App} || #{name := Name} = App
                                              <- whittle_system:apps(System)]),
    {Before, [{kernel_load_completed} | _]} = at_kernel_load(Template),
    [Needed | _] = [Modules || {primLoad, Modules} <- Before],
    Kernel = maps:get(kernel, Apps),
    Stdlib = maps:get(stdlib, Apps),
    {Asked, Ask} = features(Stdlib),
    First = (Needed -- evaluator())
        ++ [Module || Module <- (Asked ++ user(Kernel)) -- Needed,
                      lists:any(fun(#{modules := Here}) -> is_map_key(Module, Here) end,
                                [Kernel, Stdlib])],
    Instructions =
        [hd(Template),                                  % the preloaded modules
         {progress, preloaded}] ++
        load([Kernel, Stdlib], First) ++
        [{kernel_load_completed},
         {progress, kernel_load_completed}] ++
        lists:append([load([App], modules(App))
                      || Name <- Order, App <- [maps:get(Name, Apps)]]) ++
        [{progress, modules_loaded},
         {path, [ebin(maps:get(Name, Apps)) || Name <- Order]}] ++
        Ask ++
        [kernel_process(Instruction, Kernel)
         || {kernelProcess, _, _} = Instruction <- Template] ++
        [{progress, init_kernel_started}] ++
        [Instruction || Step <- Steps, Instruction <- instruction(Step, Apps)] ++
        [{progress, started}],
    Id = {whittle_system:name(System), whittle_system:vsn(System)},
    refresh(whittle_system:set_boot({script, Id, Instructions}, System)).

%% @doc Updates the boot script to the contents of the system. It removes the load and start of
%% removed applications and modules. It removes the load of cold modules before the kernel is up.
%% It updates the applications' terms. Every pass ends with this update.
-spec refresh(whittle_system:system()) -> whittle_system:system().
refresh(System) ->
    Apps = maps:from_list([{Name, App} || #{name := Name} = App
                                              <- whittle_system:apps(System)]),
    Dirs = [ebin(App) || App <- maps:values(Apps)],
    Here = maps:from_list([{Module, []} || {_, Module, _}
                                               <- whittle_system:modules(System)]),
    {script, Id, Instructions} = whittle_system:boot(System),
    {Before, After} = at_kernel_load(Instructions),
    Hot = maps:without(maps:keys(whittle_system:cold(System)), Here),
    Fresh = lists:append([refresh(Instruction, Apps, Dirs, Those)
                          || {Part, Those} <- [{Before, Hot}, {After, Here}],
                             Instruction <- Part]),
    whittle_system:set_boot({script, Id, Fresh}, System).

refresh({path, Path}, _, Dirs, _) ->
    [{path, Left} || Left <- [[Dir || Dir <- Path, lists:member(Dir, Dirs)]],
                     Left =/= []];
refresh({primLoad, Modules}, _, _, Here) ->
    [{primLoad, Left} || Left <- [[M || M <- Modules, is_map_key(M, Here)]],
                         Left =/= []];
refresh({kernelProcess, _, _} = Process, #{kernel := Kernel}, _, _) ->
    [kernel_process(Process, Kernel)];
refresh({apply, {application, load, [{application, Name, _}]}}, Apps, _, _) ->
    instruction({load, Name}, Apps);
refresh({apply, {application, start_boot, [Name, Type]}}, Apps, _, _) ->
    instruction({start, Name, Type}, Apps);
refresh({apply, {os, set_signal, [sigterm, handle]}}, _, _, _) ->
    [];   % the kernel's start includes it
refresh({apply, {code, del_path, ["."]}}, _, _, _) ->
    [];   % the kernel's start includes it
refresh({apply, {erl_features, _, _}} = Apply, _, _, Here) ->
    [Apply || is_map_key(erl_features, Here)];
refresh(Instruction, _, _, _) ->
    [Instruction].

%% @doc Sets further modules to load before the kernel starts. To load them together costs less
%% than to load each one on its first call. The function skips a module that the system lacks or
%% that is cold. The list replaces an earlier list.
-spec set_start_modules([module()], whittle_system:system()) ->
          whittle_system:system().
set_start_modules(Modules, System) ->
    {script, Id, Instructions} = whittle_system:boot(System),
    {Before, After} = at_kernel_load(Instructions),
    %% The first list is the kernel's own. Lists from earlier calls follow it.
    {Head, [First | _]} = lists:splitwith(fun(I) -> element(1, I) =/= primLoad end,
                                          Before),
    {primLoad, Needed} = First,
    Cold = whittle_system:cold(System),
    Own = [{App, [M || M <- Modules, is_map_key(M, Here), not is_map_key(M, Cold),
                       not lists:member(M, Needed)]}
           || #{modules := Here} = App <- whittle_system:apps(System)],
    Lists = lists:append([load([App], Ms) || {App, [_ | _] = Ms} <- Own]),
    whittle_system:set_boot({script, Id, Head ++ [First] ++ Lists ++ After}, System).

%% @doc Makes a system that `whittle trace' can record from its start. The recorder is the first
%% kernel process, so it is the last one to stop.
-spec set_traced(whittle_system:system()) -> whittle_system:system().
set_traced(System) ->
    {script, Id, Instructions} = whittle_system:boot(System),
    {Before, After} = lists:splitwith(fun(I) -> element(1, I) =/= kernelProcess end,
                                      Instructions),
    Recorder = {kernelProcess, whittle_trace, {whittle_start_trace, start_link, []}},
    whittle_system:set_boot({script, Id, Before ++ [Recorder | After]}, System).

%% @doc Lists the modules that a node has loaded when it prints its first line, beyond those that
%% the kernel's own boot needs. Their file explains how they were found.
-spec early_modules() -> [module()].
early_modules() ->
    {ok, Modules} = file:consult(filename:join(code:priv_dir(whittle_system),
                                               "early_modules.config")),
    Modules.

%% @doc Makes the start create the atoms of all modules before any application of the system runs.
%% {@link atoms/1} lists the atoms.
-spec make_atoms(whittle_system:system()) -> whittle_system:system().
make_atoms(System) -> when_loaded(make_atoms(), System).

%% @doc Makes the start register the modules that are cold as a whole, for reports of their first
%% call.
-spec watch_cold(whittle_system:system()) -> whittle_system:system().
watch_cold(System) ->
    case [M || M <- lists:sort(maps:keys(whittle_system:cold(System))),
               whittle_system:companion_of(M) =:= none] of
        [] -> System;
        Modules ->
            Numbered = maps:from_list([{M, N} || {N, M} <- lists:enumerate(Modules)]),
            when_loaded({apply, {whittle_start_cold, watch, [Numbered]}}, System)
    end.

%% @doc Lists the names of the atoms that the start has to create. These are the atoms of the
%% modules that the start does not load, without the atoms of those that it loads. The result is
%% `none' if the start creates no atoms.
-spec atoms(whittle_system:system()) -> {ok, [binary()]} | none.
atoms(System) ->
    {script, _, Instructions} = whittle_system:boot(System),
    case lists:member(make_atoms(), Instructions) of
        true ->
            {AtOnce, ByInit} = start_modules(System),
            Atoms = [{Module, all_atoms(Bytes)}
                     || {_, Module, Bytes} <- whittle_system:modules(System)],
            {Loaded, Others} = lists:partition(fun({Module, _}) ->
                                                       lists:member(Module, AtOnce ++ ByInit)
                                               end, Atoms),
            Union = fun(Each) -> ordsets:union([These || {_, These} <- Each]) end,
            {ok, [atom_to_binary(Atom)
                  || Atom <- ordsets:subtract(Union(Others), Union(Loaded))]};
        false ->
            none
    end.

%% The shaker has decoded all literals before it adds make_atoms/0 (whittle_shake:facts/2).
all_atoms(Bytes) ->
    {ok, Beam} = whittle_beam:read(Bytes),
    {ok, Atoms} = whittle_beam:all_atoms(Beam),
    Atoms.

make_atoms() -> {apply, {whittle_start_cold, make_atoms, [root() ++ "/boot/atoms"]}}.

%% @doc Makes the boot script of the short-lived node that queries a running one. It is like the
%% system's script, but it starts only kernel and stdlib, and the code path includes
%% `whittle_control'.
-spec control(whittle_system:system()) -> whittle_system:boot_script().
control(System) ->
    {script, Id, Instructions} = whittle_system:boot(System),
    {ok, App} = whittle_system:app(whittle_control, System),
    {Before, After} = at_kernel_load(Instructions),
    {script, Id, Before ++ lists:append([in_control(I, ebin(App)) || I <- After])}.

%% The distribution of the running node may need any application. With TLS it needs ssl.
in_control({path, Path}, Dir) -> [{path, [Dir | Path]}];
in_control({primLoad, _}, _) -> [];
in_control({apply, {application, load, [{application, stdlib, _}]}} = I, _) -> [I];
in_control({apply, {application, start_boot, [Name | _]}} = I, _)
  when Name =:= kernel; Name =:= stdlib -> [I];
in_control({apply, {erl_features, _, _}} = I, _) -> [I];
in_control({apply, {os, set_signal, _}} = I, _) -> [I];
in_control({apply, {code, del_path, _}} = I, _) -> [I];
in_control({apply, _}, _) -> [];
in_control(Instruction, _) -> [Instruction].

%% @doc Lists the modules to load before the kernel is up, in order. The first list holds modules
%% that can load all at once. The second list holds modules that `init' must load because of their
%% `on_load' function (prim_tty of OTP 27).
-spec start_modules(whittle_system:system()) -> {AtOnce :: [module()], ByInit :: [module()]}.
start_modules(System) ->
    {script, _, Instructions} = whittle_system:boot(System),
    {Before, _} = at_kernel_load(Instructions),
    Beams = maps:from_list([{Module, Bytes}
                            || {_, Module, Bytes} <- whittle_system:modules(System)]),
    lists:partition(fun(Module) -> not has_on_load(maps:get(Module, Beams)) end,
                    lists:append([Modules || {primLoad, Modules} <- Before])).

has_on_load(Bytes) ->
    case whittle_beam:read(Bytes) of
        {ok, Beam} -> whittle_beam:has_on_load(Beam);
        {error, _} -> false
    end.

%% @doc Makes a boot script in which {@link whittle_start_load} loads the modules that `init'
%% loads in the given script before the kernel is up. `File' holds these modules. `Places' gives
%% the path, the offset in the file and the size of each. `init' still loads a module without a
%% place. A system without `whittle_start' keeps its script unchanged.
-spec loaded_at_once(whittle_system:boot_script(), {file:filename(), Places},
                     whittle_system:system()) -> whittle_system:boot_script()
              when Places :: [{module(), file:filename(),
                               {non_neg_integer(), pos_integer()}}].
loaded_at_once({script, Id, Instructions} = Script, {File, Places}, System) ->
    case whittle_system:app(whittle_start, System) of
        {ok, App} ->
            {Before, After} = at_kernel_load(Instructions),
            {Head, Loads} = lists:splitwith(fun(I) -> element(1, I) =/= path end, Before),
            Placed = [Module || {Module, _, _} <- Places],
            {script, Id, Head ++ load([App], [whittle_start_load])
             ++ [{apply, {whittle_start_load, modules, [File, Places]}}]
             ++ left(Loads, Placed) ++ [not_raising(Instruction) || Instruction <- After]};
        error ->
            Script
    end.

left([{path, _} = Path, {primLoad, Modules} | Loads], Placed) ->
    [I || Left <- [Modules -- Placed], Left =/= [], I <- [Path, {primLoad, Left}]]
        ++ left(Loads, Placed);
left(Rest, _) ->
    Rest.

%% Internal

%% If the kernel could not start, the code server has ended. An instruction that raises would then
%% end the VM before it tells why the kernel could not start.
not_raising({apply, {code, del_path, ["."]}}) ->
    {apply, {whittle_start_load, drop_current_directory, []}};
not_raising(Instruction) -> Instruction.

%% Adds an instruction before the kernel's processes start.
when_loaded(Instruction, System) ->
    {script, Id, Instructions} = whittle_system:boot(System),
    {Before, [Completed | After]} = at_kernel_load(Instructions),
    whittle_system:set_boot({script, Id, Before ++ [Completed, Instruction | After]}, System).

%% Splits the instructions. The first part loads the modules that the kernel needs to load others.
at_kernel_load(Instructions) ->
    lists:splitwith(fun(I) -> I =/= {kernel_load_completed} end, Instructions).

%% OTP's list names these modules although nothing calls them before the code server is up. After
%% that the code server loads them on their first call. They are a quarter of the loaded code of
%% an idle node (bench/README.md).
evaluator() -> [erl_eval, erl_lint, erl_parse].

%% Finds the modules that the module erl_features needs. The scanner loads it. If it is loaded, the
%% loader of OTP 25 and 26 asks it whether a module may be loaded. erl_features then reads the
%% arguments of init, once, and calls other modules. Until the code server is up, `init' itself
%% loads each module on its first call, such as the parser for a sys.config. init would then wait
%% for itself forever. So the kernel's list includes these modules, and erl_features reads the
%% arguments before `init' has to load a module.
features(#{modules := #{erl_features := Bytes}}) ->
    {ok, Beam} = whittle_beam:read(Bytes),
    case lists:member({load_allowed, 1}, whittle_beam:exports(Beam)) of
        true ->
            {[erl_features | lists:usort([Module || {Module, _, _} <- whittle_beam:imports(Beam)])],
             [{apply, {erl_features, keywords, []}}]};
        false ->
            {[], []}
    end;
features(_) ->
    {[], []}.

%% The code server of OTP 25 asks the current directory first, until no_current_directory/0. The
%% kernel loads these modules before.
user(#{modules := #{user := _}}) -> [user, user_drv, group, edlin];
user(_) -> [].

load(_, []) -> [];
load(Apps, Modules) ->
    [{path, [ebin(App) || App <- Apps]}, {primLoad, Modules}].

instruction({progress, _} = Progress, _) -> [Progress];
instruction({apply, _} = Apply, _) -> [Apply];
instruction({load, Name}, Apps) ->
    case Apps of
        #{Name := App} -> [{apply, {application, load, [load_term(App)]}}];
        _ -> []
    end;
instruction({start, Name, Type}, Apps) ->
    [{apply, {application, start_boot, [Name, Type]}} || is_map_key(Name, Apps)]
        ++ [Instruction || Name =:= kernel,
                           Instruction <- [signals_are_heard(), no_current_directory()]].

%% Tells the launcher that the kernel handles SIGTERM from now on. Before that the launcher holds
%% the signal back, because no process would receive it (docs/launcher.md).
signals_are_heard() -> {apply, {os, set_signal, [sigterm, handle]}}.

%% In interactive mode, the code server also looks for modules in the current directory. A start
%% script of a release uses embedded mode, which does not. Whoever can write to the directory that a
%% program starts in must not replace its modules.
no_current_directory() -> {apply, {code, del_path, ["."]}}.

%% The application controller starts with the kernel's own term.
kernel_process({kernelProcess, application_controller, _}, Kernel) ->
    {kernelProcess, application_controller,
     {application_controller, start, [load_term(Kernel)]}};
kernel_process(Process, _) ->
    Process.

%% Keeps the properties that application:load/1 reads. Other tools read the rest of an .app file.
load_term(#{spec := {application, Name, Props}} = App) ->
    Used = [description, vsn, id, registered, applications,
            optional_applications, included_applications, env, mod,
            start_phases, maxT, maxP],
    Kept = [{Key, Value} || {Key, Value} <- Props, lists:member(Key, Used)],
    {application, Name, Kept ++ [{modules, listed(App)}]}.

%% Lists the modules that the .app file names and that the system still has.
listed(#{modules := Modules, spec := {application, _, Props}}) ->
    [M || M <- proplists:get_value(modules, Props, []), is_map_key(M, Modules)].

modules(App) -> lists:sort(listed(App)).

ebin(App) ->
    root() ++ "/" ++ unicode:characters_to_list(whittle_system:app_dir(App))
        ++ "/ebin".
