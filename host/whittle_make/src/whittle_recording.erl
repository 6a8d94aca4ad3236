%% @doc Records the functions that the Erlang VMs of a command call.
%%
%% {@link start/1} makes a directory with the recorder (device/whittle_trace). The environment of
%% {@link environment/1} loads the recorder into each VM, and each VM writes a file into the
%% directory. {@link collect/1} joins the files.
-module(whittle_recording).

-import(whittle_program, [quoted/1]).

-export([start/1, environment/1, collect/1, bytes/1, own/1, keep/1, remove/1]).

-export_type([vm_end/0]).

%% `cut_short': the VM ended before its last reading, or still runs.
-type vm_end() :: whole | cut_short.

%% The number of later OTP releases to record besides the host's own. They take nine years.
-define(NEWER, 9).

%% @doc Makes the directory of a recording, for a process whose number is Owner. The error holds the
%% directory that cannot be written.
-spec start(Owner :: string()) ->
          {ok, file:filename()} | {error, {file:filename(), file:posix() | badarg}}.
start(Owner) ->
    case whittle_unfinished:make_directory("whittle-trace", Owner) of
        {ok, Dir} ->
            case copy_recorder(Dir) of
                {ok, _} -> {ok, Dir};
                {error, Reason} ->
                    remove(Dir),
                    {error, {Dir, Reason}}
            end;
        {error, _} = Error ->
            Error
    end.

%% The second module starts the recorder in a VM that Whittle did not build.
copy_recorder(Dir) ->
    Ebin = filename:join([whittle_device:lib_dir(), "whittle_trace", "ebin"]),
    whittle_work:steps([fun(_) -> file:copy(filename:join(Ebin, File), filename:join(Dir, File)) end
                        || File <- [atom_to_list(Module) ++ ".beam"
                                    || Module <- whittle_device:recorder()]]).

%% @doc Returns the variables of the environment that record a command. `erl' puts ERL_OTP29_FLAGS
%% before all other flags of OTP 29, because the arguments after an `-extra' belong to the program.
%% Other releases ignore this variable. The recorder skips releases older than the host's, because
%% they cannot load code of the host's compiler. Whittle's executables ignore these variables and
%% use `WHITTLE_TRACE'.
-spec environment(file:filename()) -> [{string(), string()}].
environment(Dir) ->
    %% code:ensure_modules_loaded/1 ignores a module that it cannot load. `erl' splits the value at
    %% blanks, like a shell.
    Ours = ["-pa ", quoted(Dir), " -s code ensure_modules_loaded",
            [[$\s, atom_to_list(Module)] || Module <- whittle_device:recorder()]],
    Host = list_to_integer(erlang:system_info(otp_release)),
    [{"WHITTLE_TRACE", Dir}
     | [{Name, unicode:characters_to_list([Ours, $\s, whittle_environment:value(Name, "")])}
        || Otp <- lists:seq(Host, Host + ?NEWER),
           Name <- ["ERL_OTP" ++ integer_to_list(Otp) ++ "_FLAGS"]]].

%% @doc Reads the file of each VM and makes evidence from all. The command may have removed the
%% whole directory.
-spec collect(file:filename()) -> {whittle_shake_evidence:evidence(), [vm_end()]}.
collect(Dir) ->
    Names = case file:list_dir(Dir) of
                {ok, Found} -> Found;
                {error, _} -> []
            end,
    %% The recorder lies beside these files.
    Records = [whittle_shake_evidence:packets(Bytes)
               || Name <- Names, lists:member($-, Name),
                  {ok, Bytes} <- [file:read_file(filename:join(Dir, Name))]],
    {whittle_shake_evidence:merge([Calls || {Calls, _} <- Records]), [End || {_, End} <- Records]}.

%% @doc Returns a recording as the bytes of its file, or `empty' if no VM has recorded a function of
%% the program itself.
-spec bytes(file:filename()) -> {ok, binary()} | empty.
bytes(Dir) ->
    {Evidence, _} = collect(Dir),
    case own(Evidence) of
        [] -> empty;
        _ -> {ok, whittle_shake_evidence:to_binary(Evidence)}
    end.

%% @doc Lists the modules in evidence that belong neither to OTP nor to Whittle. It knows the
%% modules of the host's OTP and of each OTP that Whittle builds for. A recording of a stock VM with
%% any other OTP counts some OTP modules as the program's own.
-spec own(whittle_shake_evidence:evidence()) -> [module()].
own(Evidence) ->
    Known = maps:from_keys(
              modules(fun whittle_device:is_device/1, whittle_device:lib_dir())
              ++ [Name || Lib <- [code:lib_dir() | whittle_runtime:otp_libs(#{})],
                          Name <- modules(fun whittle_otp:is_otp/1, Lib)], []),
    [M || M <- whittle_shake_evidence:modules(Evidence), not is_map_key(atom_to_list(M), Known)].

modules(Is, Lib) ->
    [filename:basename(File, ".beam")
     || Dir <- filelib:wildcard("*/ebin", Lib),
        Is(list_to_atom(hd(string:split(filename:dirname(Dir), "-")))),
        File <- filelib:wildcard("*.beam", filename:join(Lib, Dir))].

%% @doc Renames the directory of a recording, so that no later command removes it as abandoned.
%% Returns the new name, or the old one if the rename fails.
-spec keep(file:filename()) -> file:filename().
keep(Dir) ->
    Kept = Dir ++ ".kept",
    case file:rename(Dir, Kept) of
        ok -> Kept;
        {error, _} -> Dir
    end.

%% @doc Removes the directory of a recording.
-spec remove(file:filename()) -> ok.
remove(Dir) -> whittle_unfinished:remove_directory(Dir).
