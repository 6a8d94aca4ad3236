%% @doc Writes a system into a directory and runs it on an installed OTP. In tests this replaces
%% the launcher and its virtual root.
-module(staged).

-export([write/2, run/3, run/4, start/3, start/4, stop/1, options/0, copy/2]).

%% @doc Returns the reader's options for the OTP that runs the tests, or for the one whose lib
%% directory `WHITTLE_TEST_OTP' names.
options() ->
    #{otp_lib => os:getenv("WHITTLE_TEST_OTP", code:lib_dir())}.

%% @doc Writes the system below a directory that replaces the virtual root.
write(System, Dir) ->
    [made:file(filename:join([Dir, whittle_system:app_dir(App), "ebin",
                             atom_to_list(Module) ++ ".beam"]), Beam)
     || #{modules := Modules} = App <- whittle_system:apps(System),
        {Module, Beam} <- maps:to_list(Modules)],
    [made:file(filename:join([Dir, whittle_system:app_dir(App), "ebin",
                             atom_to_list(Name) ++ ".app"]),
              unicode:characters_to_binary(io_lib:format("~tp.~n", [Spec])))
     || #{name := Name, spec := Spec} = App <- whittle_system:apps(System)],
    [made:file(filename:join([Dir, whittle_system:app_dir(App), Path]), Bytes)
     || #{files := Files} = App <- whittle_system:apps(System),
        {Path, #{bytes := Bytes}} <- maps:to_list(Files)],
    [made:file(filename:join([Dir, "releases", whittle_system:vsn(System), Path]), Bytes)
     || {Path, #{bytes := Bytes}} <- maps:to_list(whittle_system:files(System))],
    Config = case whittle_system:files(System) of
                 #{<<"sys.config">> := #{bytes := Own}} -> Own;
                 _ -> <<"[].\n">>
             end,
    made:file(filename:join(Dir, "etc/sys.config"), Config),
    made:file(filename:join(Dir, "boot/start.boot"),
             term_to_binary(rooted(whittle_system:boot(System), Dir))),
    Dir.

%% @doc Runs a staged system with plain arguments to its end. It returns the exit code and the
%% output.
run(System, Dir, Arguments) ->
    run(System, Dir, Arguments, Dir).

run(System, Dir, Arguments, Cwd) ->
    made:ended(start(System, Dir, ["-extra" | Arguments], Cwd)).

%% @doc Starts a staged system. The flags come before `-extra'.
start(System, Dir, Flags) ->
    start(System, Dir, Flags, Dir).

start(System, Dir, Flags, Cwd) ->
    #{otp_lib := Lib} = options(),
    Erl = case whittle_system:otp(System) =:= erlang:system_info(otp_release) of
              true -> os:find_executable("erl");
              false -> filename:join(filename:dirname(Lib), "bin/erl")
          end,
    Args = filename:join([Dir, "releases", whittle_system:vsn(System), "vm.args"]),
    open_port({spawn_executable, Erl},
              [{args, ["-boot", filename:join(Dir, "boot/start"), "-noshell", "-noinput",
                       "-config", filename:join(Dir, "etc/sys")]
                    ++ [A || filelib:is_regular(Args), A <- ["-args_file", Args]]
                    ++ Flags},
               {env, [{binary_to_list(Name), rooted(binary_to_list(Value), Dir)}
                      || {Name, {_, Value}} <- maps:to_list(whittle_system:env(System))]},
               exit_status, stderr_to_stdout, binary, {cd, Cwd}]).

%% @doc Stops a system that was started, and waits for its end.
stop(Port) ->
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    os:cmd("kill -TERM " ++ integer_to_list(Pid)),
    made:ended(Port).

%% @doc Copies a directory without its build products.
copy(From, To) ->
    ok = filelib:ensure_path(To),
    {ok, Names} = file:list_dir(From),
    lists:foreach(fun("_build") -> ok;
                     (Name) ->
                          Source = filename:join(From, Name),
                          Target = filename:join(To, Name),
                          case filelib:is_dir(Source) of
                              true -> copy(Source, Target);
                              false -> {ok, _} = file:copy(Source, Target)
                          end
                  end, Names),
    To.

%% Replaces the virtual root by the directory in all paths.
rooted("/.whittle" ++ Rest, Dir) -> Dir ++ Rest;
rooted(Term, Dir) when is_tuple(Term) ->
    list_to_tuple([rooted(E, Dir) || E <- tuple_to_list(Term)]);
rooted([Head | Tail], Dir) -> [rooted(Head, Dir) | rooted(Tail, Dir)];
rooted(Term, _) -> Term.
