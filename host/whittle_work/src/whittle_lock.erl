%% @doc Locks files and directories between programs, with flock(1).
%%
%% A lock belongs to the process that took it and ends with that process, also when this VM is
%% killed: flock(1) runs a shell for as long as our end of its input is open. So there is no lock
%% to clean up. The locked file stays.
-module(whittle_lock).

-include_lib("kernel/include/file.hrl").

-export([take/2, release/1, held/1]).

-export_type([lock/0, options/0]).

-opaque lock() :: port().

-type options() ::
        #{mode => exclusive | shared,           % default: exclusive
          wait => infinity | non_neg_integer()}.% seconds, default: 0

%% The exit code of flock(1) when another program holds the lock; none of its own codes.
-define(BUSY, 99).

%% @doc Locks a directory, or a file, which is created where it is missing. `busy' means that
%% another program still holds the lock when the time is over. Errors: `no_flock' where
%% flock(1) is not installed, and the reason why the path cannot be locked.
-spec take(file:filename_all(), options()) ->
          {ok, lock()} | busy | {error, no_flock | file:posix()}.
take(Path, Options) ->
    case {os:find_executable("flock"), lockable(Path)} of
        {false, _} -> {error, no_flock};
        {Flock, ok} -> take(Flock, Path, Options);
        {_, {error, _} = Error} -> Error
    end.

%% @doc Releases a lock. The next program can take it when this function returns. The process
%% that took the lock calls it.
-spec release(lock()) -> ok.
release(Port) ->
    try port_command(Port, "\n") of
        true -> receive {Port, {exit_status, _}} -> ok end
    catch
        error:badarg -> ok      % the program was killed
    end.

%% @doc The names of the files in a directory that are locked now.
-spec held(file:filename()) -> {ok, [string()]} | {error, no_flock}.
held(Dir) ->
    case os:find_executable("flock") of
        false ->
            {error, no_flock};
        Flock ->
            Script = "cd \"$1\" 2>/dev/null || exit 0; for file in *; do "
                "[ -f \"$file\" ] || continue; \"$2\" -n -E \"$3\" \"$file\" true 2>/dev/null; "
                "[ $? != \"$3\" ] || echo \"$file\"; done; exit 0",
            Port = shell(Script, [Dir, Flock, integer_to_list(?BUSY)]),
            {ok, string:lexemes(said(Port, []), "\n")}
    end.

%% Internal

%% To open a FIFO may never end, and a link without a target leads to a file elsewhere.
lockable(Path) ->
    case {file:read_file_info(Path), file:read_link_info(Path)} of
        {{ok, #file_info{type = Type}}, _} when Type =:= regular; Type =:= directory -> ok;
        {{ok, _}, _} -> {error, einval};
        {{error, enoent}, {error, enoent}} -> ok;
        {{error, Reason}, _} -> {error, Reason}
    end.

take(Flock, Path, Options) ->
    Words = [mode(Options)] ++ wait(Options) ++ ["-E", integer_to_list(?BUSY), text(Path)],
    %% The exit code tells enough; the words of flock(1) are not shown.
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

%% flock(1) gives no code for the reason. Where the file can be opened, its file system has
%% no locks.
why_not(Path) ->
    case file:open(Path, [append, raw]) of
        {ok, File} ->
            ok = file:close(File),
            enolck;
        {error, Reason} ->
            Reason
    end.

%% A port cannot tell that a program is missing; sh is never missing.
shell(Script, Words) ->
    open_port({spawn_executable, "/bin/sh"},
              [{args, ["-c", Script, "sh" | Words]}, exit_status, binary, hide]).

said(Port, Before) ->
    receive
        {Port, {data, Bytes}} -> said(Port, [Before, Bytes]);
        {Port, {exit_status, 0}} -> unicode:characters_to_list(iolist_to_binary(Before))
    end.

text(Path) -> unicode:characters_to_list(Path).
