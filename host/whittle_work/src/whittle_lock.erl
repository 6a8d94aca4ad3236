%% @doc Locks files and directories between programs, with flock(1).
%%
%% A lock belongs to the process that took it. It ends with that process, even if the VM is
%% killed, because flock(1) runs a shell that ends when the VM's end of its input closes. You
%% never have to clean up a lock. The locked file stays.
-module(whittle_lock).

-include_lib("kernel/include/file.hrl").

-export([take/2, release/1, held/1]).

-export_type([lock/0, options/0]).

-opaque lock() :: port().

-type options() ::
        #{mode => exclusive | shared,           % default: exclusive
          wait => infinity | non_neg_integer()}.% seconds, default: 0

%% The exit code that flock(1) returns if another program holds the lock. flock(1) itself uses no
%% such code.
-define(BUSY, 99).

%% @doc Locks a directory or a file. It creates a missing file. It returns `busy' if another
%% program still holds the lock at the end of the timeout. It returns the error `no_flock' if
%% flock(1) is not installed, and otherwise the reason why it cannot lock the path.
-spec take(file:filename_all(), options()) ->
          {ok, lock()} | busy | {error, no_flock | file:posix()}.
take(Path, Options) ->
    case {os:find_executable("flock"), lockable(Path)} of
        {false, _} -> {error, no_flock};
        {Flock, ok} -> take(Flock, Path, Options);
        {_, {error, _} = Error} -> Error
    end.

%% @doc Releases a lock. The next program can take the lock as soon as this function returns. Only
%% the process that took the lock may call it.
-spec release(lock()) -> ok.
release(Port) ->
    try port_command(Port, "\n") of
        true -> receive {Port, {exit_status, _}} -> ok end
    catch
        error:badarg -> ok      % something killed the program
    end.

%% @doc Lists the names of the locked files in a directory. The error `no_answer' means that
%% something ended the program that tries the locks.
-spec held(file:filename()) -> {ok, [string()]} | {error, no_flock | no_answer}.
held(Dir) ->
    case os:find_executable("flock") of
        false ->
            {error, no_flock};
        Flock ->
            Script = "cd \"$1\" 2>/dev/null || exit 0; for file in *; do "
                "[ -f \"$file\" ] || continue; \"$2\" -n -E \"$3\" \"./$file\" true 2>/dev/null; "
                "[ $? != \"$3\" ] || echo \"$file\"; done; exit 0",
            Port = shell(Script, [Dir, Flock, integer_to_list(?BUSY)]),
            said(Port, [])
    end.

%% Internal

%% Refuses a FIFO, since opening it may block forever, and a symbolic link without a target, since
%% it leads to a file elsewhere.
lockable(Path) ->
    case {file:read_file_info(Path), file:read_link_info(Path)} of
        {{ok, #file_info{type = Type}}, _} when Type =:= regular; Type =:= directory -> ok;
        {{ok, _}, _} -> {error, einval};
        {{error, enoent}, {error, enoent}} -> ok;
        {{error, Reason}, _} -> {error, Reason}
    end.

take(Flock, Path, Options) ->
    Words = [mode(Options)] ++ wait(Options) ++ ["-E", integer_to_list(?BUSY), text(Path)],
    %% The exit code is enough. The messages of flock(1) are dropped.
    Port = shell("exec \"$@\" 2>/dev/null",
                 [Flock | Words] ++ ["sh", "-c", "echo held; read -r line"]),
    receive
        {Port, {data, <<"held\n">>}} -> {ok, Port};
        {Port, {exit_status, ?BUSY}} -> busy;
        {Port, {exit_status, _}} -> {error, why_not(Path)}
    end.

mode(#{mode := shared}) -> "-s";
mode(_) -> "-x".

wait(#{wait := infinity}) -> [];
wait(#{wait := Seconds}) when Seconds > 0 -> ["-w", integer_to_list(Seconds)];
wait(_) -> ["-n"].

%% Finds the reason for a failure, since flock(1) has no exit code for it. If the file can be
%% opened, its file system does not support locks.
why_not(Path) ->
    case file:open(Path, [append, raw]) of
        {ok, File} ->
            ok = file:close(File),
            enolck;
        {error, Reason} ->
            Reason
    end.

%% A port cannot report a missing program. sh always exists.
shell(Script, Words) ->
    open_port({spawn_executable, "/bin/sh"},
              [{args, ["-c", Script, "sh" | Words]}, exit_status, binary, hide]).

said(Port, Before) ->
    receive
        {Port, {data, Bytes}} -> said(Port, [Before, Bytes]);
        {Port, {exit_status, 0}} ->
            {ok, string:lexemes(unicode:characters_to_list(iolist_to_binary(Before)), "\n")};
        {Port, {exit_status, _}} -> {error, no_answer}
    end.

%% flock(1) would take a relative path that begins with a dash for an option.
text(Path) -> unicode:characters_to_list(filename:absname(Path)).
