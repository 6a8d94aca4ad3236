%% @hidden Collects the entry points of a program.
%%
%% They are the functions that the VM and the boot script call, and the names and funs in the
%% configuration. The module also lists the data in the configuration that turns features on.
-module(whittle_shake_roots).

-export([start/0, result/0, application/1, recording/0, calls/3, named_calls/3, traps/1, atoms/2,
         uses/1, variables/1, made/0, flags/1]).

%% @doc Returns the origin of everything that each start does.
-spec start() -> whittle_shake_reach:origin().
start() -> root("the start").

%% @doc Returns the origin of names that a program gets from the VM: in messages, errors, results.
-spec result() -> whittle_shake_reach:origin().
result() -> root("a result of the VM").

%% @doc Returns the text that a person reads for names in the description of an application.
-spec application(whittle_system:app_name()) -> unicode:chardata().
application(Name) -> io_lib:format("the application ~ts", [Name]).

%% @doc Returns the text that a person reads for the functions and features of a recording.
-spec recording() -> string().
recording() -> "the recording".

%% @doc Lists the functions that the VM and the boot script call, each with its caller.
-spec calls(whittle_system:system(), #{module() => whittle_shake_summary:summary()},
            {Missing :: load | crash, Vm :: whole | program}) ->
          [{mfa(), whittle_shake_reach:origin()}].
calls(System, Modules, {Missing, Vm}) ->
    vm(Vm, Modules) ++ boot(System)
        ++ device([{whittle_start_load, whittle_start}, {whittle_control, whittle_control}]
                  ++ [case Missing of
                          load -> {whittle_start_cold, whittle_start};
                          crash -> {whittle_start_removed, whittle_start}
                      end],
                  System, Modules).

%% @doc Lists the functions that the VM's flags, the configuration and scripts call, each with its
%% origin.
-spec named_calls(whittle_system:system(), whittle_shake_source:names(),
                  #{module() => whittle_shake_summary:summary()}) ->
          [{mfa(), whittle_shake_reach:origin()}].
named_calls(System, Names, Modules) ->
    flag_calls(System, Modules)
        ++ [{Fun, From} || {From, Term} <- settings(System),
                           Fun <- whittle_shake_summary:funs(Term)]
        ++ [{Mfa, From} || {From, Text} <- templates(System),
                           {Calls, _} <- [whittle_shake_source:in_erlang(Text, Modules)],
                           Mfa <- Calls]
        ++ whittle_shake_source:calls(Names, Modules).

%% @doc Maps functions to those that they call, although no code names these. A function in C
%% continues in Erlang: the emulator looks its traps up by name (`erts_export_put' in erl_bif_re.c
%% and erl_unicode.c). And the function that starts a node names another one in the command line.
-spec traps(Vm :: whole | program) -> #{mfa() => [mfa()]}.
traps(program) -> maps:merge(traps(whole), whittle_shake_vm:traps());
traps(whole) ->
    maps:from_list(
      [{{re, F, A}, [{re, ucompile, 2}]} || {F, A} <- [{compile, 1}, {compile, 2}]]
      ++ [{{re, F, A}, [{re, ucompile, 2}, {re, urun, 3}, {re, grun, 3}]}
          || {F, A} <- [{run, 2}, {run, 3}, {internal_run, 4}]]
      ++ [{{unicode, characters_to_binary, 2}, [{unicode, characters_to_binary_int, 2}]},
          {{unicode, characters_to_list, 2}, [{unicode, characters_to_list_int, 2}]},
          {{slave, start, 5}, [{slave, slave_start, 1}]}]).

%% @doc Lists the atoms of the applications' environment, of `sys.config', of the VM's flags, and
%% of scripts. Keys that only describe an application (its modules, its registered names, the
%% applications that it needs) serve tools, and are left out.
-spec atoms(whittle_system:system(), whittle_shake_source:names()) ->
          [{atom(), whittle_shake_reach:origin()}].
atoms(System, Names) ->
    [{Atom, From} || {From, Term} <- settings(System), Atom <- whittle_shake_summary:atoms(Term)]
        ++ [{Atom, From} || {From, Text} <- templates(System),
                            {_, Atoms} <- [whittle_shake_source:in_erlang(Text, #{})],
                            Atom <- Atoms]
        ++ [{Atom, root(From)} || {From, Words} <- flag_words(System), Atom <- flag_atoms(Words)]
        ++ [{Atom, root("the boot script")}
            || {_, _, Args} <- boot_calls(System), Atom <- whittle_shake_summary:atoms(Args)]
        ++ whittle_shake_source:atoms(Names).

%% @doc Lists the data with a known form in the configuration and in the VM's flags, and the first
%% elements of the tuples there, each with its origin.
-spec uses(whittle_system:system()) ->
          [{whittle_shake_feature:use(), whittle_shake_reach:origin()}].
uses(System) ->
    [{Use, From} || {From, Term} <- settings(System), Use <- whittle_shake_summary:uses(Term)]
        ++ [{Use, From} || {From, Text} <- templates(System),
                           Use <- whittle_shake_source:uses(Text)]
        ++ [{Use, root(From)}
            || {From, Words} <- flag_words(System), Word <- Words,
               Use <- whittle_shake_source:uses(unicode:characters_to_binary([Word, ". "]))].

%% @doc Lists the environment variables from which a `sys.config.src' gets terms at each start. A
%% variable that each start sets to a packed value does not count.
-spec variables(whittle_system:system()) -> [binary()].
variables(System) ->
    Fixed = [Name || {Name, {always, _}} <- maps:to_list(whittle_system:env(System))],
    lists:usort([Name || {Path, #{bytes := Bytes}} <- maps:to_list(whittle_system:files(System)),
                         filename:basename(Path) =:= <<"sys.config.src">>,
                         Name <- whittle_template:terms_from(Bytes)]) -- Fixed.

%% @doc Lists the atoms that the VM makes: tags of messages, reasons of errors, parts of results.
-spec made() -> [{atom(), whittle_shake_reach:origin()}].
made() ->
    {ok, Terms} = file:consult(filename:join(code:priv_dir(whittle_shake), "atoms.config")),
    [{Atom, result()} || {_, Atoms} <- Terms, Atom <- Atoms].

%% @doc Lists the packed flags of the VM. They stand in `vm.args' and in the variables that hold
%% flags, and begin with a dash. For settings of an application it adds `-App Key Value'.
-spec flags(whittle_system:system()) -> [string()].
flags(System) ->
    Apps = ["-" ++ atom_to_list(Name) || #{name := Name} <- whittle_system:apps(System)],
    lists:append([[Word || [$- | _] = Word <- Words]
                  ++ ["-App Key Value" || sets_application(Words, Apps)]
                  || {_, Words} <- flag_words(System)]).

sets_application([Flag | Words], Apps) ->
    lists:member(Flag, Apps) andalso is_setting(Words) orelse sets_application(Words, Apps);
sets_application([], _) -> false.

is_setting([[Key | _], [Value | _] | _]) -> Key =/= $- andalso Value =/= $-;
is_setting(_) -> false.

%% Internal

%% The C code calls functions of these modules by name (erts/emulator/beam, `am_' and BIF_TRAP),
%% and passes funs of them to processes that it starts.
vm(whole, Modules) -> exports([erlang, erts_internal | called()], Modules);
vm(program, Modules) ->
    exports(called(), Modules)
        ++ [{Mfa, root("the VM")} || Mfa <- whittle_shake_vm:roots(Modules)].

called() ->
    [error_handler, erl_init, erts_code_purger, erts_dirty_process_signal_handler,
     erts_literal_area_collector, erts_trace_cleaner, prim_eval].

exports(Called, Modules) ->
    [{{M, F, A}, root("the VM")}
     || M <- Called, #{exports := Exports} <- [maps:get(M, Modules, #{exports => []})],
        {F, A} <- Exports].

boot(System) ->
    [{{M, F, length(Args)}, root("the boot script")} || {M, F, Args} <- boot_calls(System)]
        ++ [{{M, main, 1}, root("the escript")}
            || M <- [whittle_system:main(System)], M =/= undefined].

%% Leaves out the arguments with which an application is loaded, because of_app/1 has them.
boot_calls(System) ->
    {script, _, Instructions} = whittle_system:boot(System),
    lists:append([call(Instruction) || Instruction <- Instructions]).

call({kernelProcess, _, {application_controller, start, [_]}}) ->
    [{application_controller, start, [[]]}];
call({kernelProcess, _, Call}) -> [Call];
call({apply, {application, load, [_]}}) -> [{application, load, [[]]}];
call({apply, {application, start_boot, [_, Type]}}) -> [{application, start_boot, [[], Type]}];
call({apply, Call}) -> [Call];
call(_) -> [].

%% The pack adds these modules to boot scripts: the loader, and the module that answers
%% --whittle-ping. The VM calls one of them for a cold function, and `error_handler' calls one for
%% a removed function.
device(Ours, System, Modules) ->
    [{{M, F, A}, start()}
     || {M, App} <- Ours,
        {ok, #{modules := Here}} <- [whittle_system:app(App, System)], is_map_key(M, Here),
        #{M := #{exports := Exports}} <- [Modules], {F, A} <- Exports].

%% The terms that configure the applications, each with its origin.
settings(System) ->
    Read = [{Path, Terms}
            || {Path, #{bytes := Bytes}} <- lists:sort(maps:to_list(whittle_system:files(System))),
               Terms <- of_file(filename:basename(Path), filename:extension(Path), Bytes, System)],
    lists:append([of_app(App) || App <- whittle_system:apps(System)])
        ++ [{root(Path), Terms} || {Path, Terms} <- Read]
        ++ further(Read, System).

%% The kernel also reads the files that its configuration and the flag `-config' name. A program may
%% have them in `priv'. Their paths are known only at a start, so the last name counts.
further(Read, System) ->
    Names = maps:from_list([{last_name(Name), []} || Name <- further_names(Read, System)]),
    [{root(Path), terms(Bytes)}
     || {Path, Bytes} <- whittle_system:input_files(System),
        is_map_key(filename:basename(Path), Names)].

further_names(Read, System) ->
    [Name || {Path, [Config]} <- Read,
             lists:member(filename:basename(Path), [<<"sys.config">>, <<"sys.config.src">>]),
             length(Config) >= 0, Name <- Config, io_lib:char_list(Name)]
        ++ lists:append([configs(Words) || {_, Words} <- flag_words(System)]).

configs(["-config", Name | Words]) -> [Name | configs(Words)];
configs([_ | Words]) -> configs(Words);
configs([]) -> [].

%% The kernel adds the extension too.
last_name(Name) ->
    unicode:characters_to_binary(filename:rootname(filename:basename(Name), ".config")
                                 ++ ".config").

of_app(#{name := Name, spec := {application, _, Props}}) ->
    [{root(application(Name)), Value} || {Key, Value} <- Props,
                                          lists:member(Key, [mod, env, start_phases])].

%% A configuration file that is not a term is left out here. If it is a template, templates/1 has
%% it. Otherwise its reader reports the fault.
of_file(_, <<".config">>, Bytes, _) -> [terms(Bytes)];
of_file(<<"sys.config.src">>, _, Bytes, System) -> [terms(template(Bytes, System))];
of_file(_, _, _, _) -> [].

%% The templates that become terms only with their values from the environment, each with its
%% origin.
templates(System) ->
    [{root(Path), Text}
     || {Path, #{bytes := Bytes}} <- lists:sort(maps:to_list(whittle_system:files(System))),
        filename:basename(Path) =:= <<"sys.config.src">>,
        Text <- [template(Bytes, System)], {error, _} <- [whittle_term:parse(Text)]].

%% A start uses the variables of `env.sh', and the defaults of those that nobody sets.
template(Bytes, System) ->
    Values = maps:map(fun(_, {_, Value}) -> Value end, whittle_system:env(System)),
    whittle_template:completed(Bytes, Values, <<"0">>).

terms(Bytes) ->
    case whittle_term:parse(Bytes) of
        {ok, Terms} -> Terms;
        {error, _} -> []
    end.

%% Reads the flags in `vm.args', which is a template too, and in the variables that `env.sh' sets
%% for the VM.
flag_words(System) ->
    [{Path, words(template(Bytes, System))}
     || {Path, #{bytes := Bytes}} <- lists:sort(maps:to_list(whittle_system:files(System))),
        filename:basename(Path) =:= <<"vm.args">>]
        ++ [{["the variable ", Name], words(Value)}
            || {<<"ERL_", _/binary>> = Name, {_, Value}}
                   <- lists:sort(maps:to_list(whittle_system:env(System)))]
        ++ node_words(whittle_system:env(System)).

%% The launcher makes a flag of this variable.
node_words(#{<<"RELEASE_DISTRIBUTION">> := {_, <<"none">>}}) -> [];
node_words(#{<<"RELEASE_NODE">> := {_, <<_, _/binary>> = Node}}) ->
    [{"the variable RELEASE_NODE", ["-sname", whittle_term:text(Node)]}];
node_words(_) -> [].

words(Bytes) ->
    with_env([whittle_term:text(Word) || Word <- whittle_vm_args:words(Bytes)]).

%% `-env ERL_FLAGS "-s a"' sets a variable with flags.
with_env(["-env", "ERL_" ++ _, Value | Words]) ->
    words(unicode:characters_to_binary(Value)) ++ with_env(Words);
with_env([Word | Words]) -> [Word | with_env(Words)];
with_env([]) -> [].

in_erlang(Word, Modules) ->
    whittle_shake_source:in_erlang(unicode:characters_to_binary(Word), Modules).

%% `-s M F A', `-run', `-epmd_module M' and similar flags name functions in separate arguments.
%% `-eval' and `-App Key Value' name them in Erlang text. `-proto_dist inet_tls' means the module
%% `inet_tls_dist'.
flag_atoms(["-proto_dist", Name | Words]) -> known_atom(Name ++ "_dist") ++ flag_atoms(Words);
flag_atoms([Word | Words]) ->
    {_, Atoms} = in_erlang(Word, #{}),
    known_atom(Word) ++ Atoms ++ flag_atoms(Words);
flag_atoms([]) -> [].

%% The names of all modules and functions of the system are atoms already. Other words of a long
%% file would only fill the atom table.
known_atom(Word) ->
    try
        [list_to_existing_atom(Word)]
    catch
        error:_ -> []
    end.

flag_calls(System, Modules) ->
    [{Mfa, root(From)} || {From, Words} <- flag_words(System), Word <- Words,
                          {Calls, _} <- [in_erlang(Word, Modules)],
                          Mfa <- Calls].

root(Words) -> {root, Words}.
