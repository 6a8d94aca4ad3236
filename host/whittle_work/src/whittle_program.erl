%% @doc Runs other programs, and ends them when the caller or this VM ends.
%%
%% Each program leads a process group of its own. `priv/guard.sh' ends the group when the caller's
%% port closes. {@link filter/3} needs no guard, because its command reads its input until the
%% caller ends.
-module(whittle_program).

-export([capture/2, capture/3, run/3, script/4, filter/3, filter/4, kill_all/1, quoted/1]).
-export([start/3, next/2, stop/1, pid/1]).

-export_type([settings/0, started/0]).

%% The milliseconds until a killed program has closed its output
-define(DROP_MS, 5000).

%% A program that {@link start/3} has started. Only the process that started it can use it.
-opaque started() :: {port(), pos_integer()}.

-type settings() ::
        #{cd => file:filename(),                % working directory; default: the caller's
          env => whittle_environment:variables(),
          of_user => true}.                     % the program is the user's: it also gets the
                                                % user's variables for Erlang
                                                % (whittle_environment)

%% @doc Runs a program from the PATH and returns its output on both streams. The error is
%% `not_found' if no such program exists, or the exit status with the output.
-spec capture(string(), [string()]) ->
          {ok, string()} | {error, not_found | {status, pos_integer(), string()}}.
capture(Program, Arguments) ->
    capture(Program, Arguments, fun(_) -> ok end).

%% @doc Runs a program like {@link capture/2}, and passes each piece of its output to `Watch' at
%% once.
-spec capture(string(), [string()], fun((binary()) -> term())) ->
          {ok, string()} | {error, not_found | {status, pos_integer(), string()}}.
capture(Program, Arguments, Watch) ->
    case os:find_executable(Program) of
        false ->
            {error, not_found};
        Path ->
            Keep = fun(Bytes, Acc) -> _ = Watch(Bytes), [Bytes | Acc] end,
            {Status, Acc} = guarded([Path | Arguments], [{env, [{"LC_ALL", "C"}]}], Keep, []),
            Output = unicode:characters_to_list(lists:reverse(Acc), latin1),
            case Status of
                0 -> {ok, Output};
                _ -> {error, {status, Status, Output}}
            end
    end.

%% @doc Runs a program and returns its exit status and its output on both streams.
-spec run(file:filename(), [string()], settings()) -> {non_neg_integer(), binary()}.
run(Program, Arguments, Settings) ->
    {Status, Output} = guarded([Program | Arguments], port_settings(Settings),
                               fun(Bytes, Acc) -> [Acc, Bytes] end, []),
    {Status, iolist_to_binary(Output)}.

%% @doc Runs lines of sh in a directory, with exactly the given environment. `Fold' receives each
%% piece of the output of both streams. The script ends at the first line that fails.
-spec script([string()], file:filename(), [{string(), string()}],
             {fun((binary(), Acc) -> Acc), Acc}) -> {non_neg_integer(), Acc}.
script(Lines, Directory, Environment, {Fold, Acc}) ->
    Assignments = [Name ++ "=" ++ Value || {Name, Value} <- Environment],
    %% Other users may not write to the files of the script, whatever the caller's umask is.
    Text = lists:join("\n", ["set -eu", "umask 022" | Lines]),
    guarded(["env", "-i"] ++ Assignments ++ ["sh", "-c", lists:flatten(Text)],
            [{cd, Directory}], Fold, Acc).

%% @doc Sends bytes through a shell command and returns the output of the command. The output may
%% have at most `Limit' bytes. The error holds the exit status and the text from stderr. The
%% calling process must trap exits, because a command can end before it reads all bytes.
-spec filter(string(), binary(), non_neg_integer() | infinity) ->
          {ok, binary()} | {error, {pos_integer(), binary()}}.
filter(Command, Input, Limit) ->
    case filter(Command, Input, Limit, infinity) of
        {error, {_, _}} = Error -> Error;
        {ok, _} = Done -> Done
    end.

%% @doc Sends bytes through a shell command like {@link filter/3}. If the command has not ended
%% after the given number of milliseconds, this function kills it, and the error is `timeout'.
-spec filter(string(), binary(), non_neg_integer() | infinity, timeout()) ->
          {ok, binary()} | {error, timeout | {pos_integer(), binary()}}.
filter(Command, Input, Limit, Timeout) ->
    %% The script keeps stderr apart. If the command fails, the text of stderr follows the output,
    %% and its length in ten digits follows the text. When this VM has ended, nobody reads the text,
    %% and printf must not complain on the terminal.
    Script = "exec 3>&1; words=$( { head -c \"$1\" | " ++ Command ++ " >&3; } 2>&1 ) || {"
        " status=$?; printf '%s%010d' \"$words\" ${#words} 2>/dev/null; exit $status; }",
    Port = open_port({spawn_executable, "/bin/sh"},
                     [{args, ["-c", Script, "sh", integer_to_list(byte_size(Input))]},
                      {env, [{"LC_ALL", "C"}]},      % counts lengths in bytes
                      binary, use_stdio, exit_status, hide]),
    true = port_command(Port, Input),
    Timer = case Timeout of
                infinity -> none;
                _ -> erlang:start_timer(Timeout, self(), filter)
            end,
    Result = filtered(Port, Timer, Limit, 0, []),
    _ = [erlang:cancel_timer(Timer) || is_reference(Timer)],
    receive {timeout, Timer, filter} -> Result
    after 0 -> Result
    end.

%% @doc Starts a program and returns at once. The caller reads the output with {@link next/2}. It
%% must call {@link next/2} until the program ends, or {@link stop/1}.
-spec start(file:filename(), [string()], settings()) ->
          {ok, started()} | {error, {status, non_neg_integer(), binary()}}.
start(Program, Arguments, Settings) ->
    %% The shell prints its process number and becomes the program.
    Port = guarded_port(["/bin/sh", "-c", "echo $$; exec \"$0\" \"$@\"", Program | Arguments],
                        port_settings(Settings)),
    number(Port, <<>>).

number(Port, Before) ->
    case binary:split(Before, <<"\n">>) of
        [Line, Rest] ->
            case re:run(Line, "^[0-9]+$", [{capture, none}]) of
                match ->
                    keep(Port, Rest),
                    {ok, {Port, binary_to_integer(Line)}};
                %% A warning of the shell, or of its loader
                nomatch -> number(Port, Rest)
            end;
        [_] ->
            receive
                {Port, {data, Bytes}} -> number(Port, <<Before/binary, Bytes/binary>>);
                {Port, {exit_status, Status}} -> {error, {status, Status, Before}}
            end
    end.

%% Output can come in one piece with the process number. It waits in the process dictionary, where
%% {@link next/2} takes it before any message of the port.
keep(_, <<>>) -> ok;
keep(Port, Output) ->
    undefined = put({?MODULE, Port}, Output),
    ok.

%% @doc Returns the process number of a program that was started.
-spec pid(started()) -> pos_integer().
pid({_, Pid}) -> Pid.

%% @doc Waits for the next piece of output on both streams, for the end of the program, or for the
%% given number of milliseconds.
-spec next(started(), timeout()) -> {output, binary()} | {ended, non_neg_integer()} | timeout.
next({Port, _}, Timeout) ->
    case erase({?MODULE, Port}) of
        undefined ->
            receive
                {Port, {data, Bytes}} -> {output, Bytes};
                {Port, {exit_status, Status}} -> {ended, Status}
            after Timeout -> timeout
            end;
        First -> {output, First}
    end.

%% @doc Ends a program and all programs that it started, and drops the rest of its output.
-spec stop(started()) -> ok.
stop({Port, _} = Started) ->
    ok = kill(Port),
    drop(Started).

kill(Port) ->
    case erlang:port_info(Port, os_pid) of
        {os_pid, Leader} -> kill_group(Leader);
        undefined -> ok
    end.

%% A program that has just been forked makes its group a moment later. Then only its own number
%% reaches it, and it has started nothing yet.
kill_group(Leader) ->
    _ = os:cmd(io_lib:format("kill -s KILL -- -~b || kill -s KILL ~b; kill -s KILL -- -~b",
                             [Leader, Leader, Leader])),
    ok.

%% The port of a killed group sends its exit status last. A process outside of the group may hold
%% the output for longer: then the port is closed.
drop(Started) -> drop(Started, erlang:monotonic_time(millisecond) + ?DROP_MS).

drop({Port, _} = Started, Until) ->
    Left = max(0, Until - erlang:monotonic_time(millisecond)),
    case next(Started, case erlang:port_info(Port) of undefined -> 0; _ -> Left end) of
        {output, _} when Left > 0 -> drop(Started, Until);
        {ended, _} -> ok;
        _ ->
            _ = catch port_close(Port),
            flushed(Port)
    end.

flushed(Port) ->
    receive {Port, _} -> flushed(Port)
    after 0 -> ok
    end.

%% @doc Kills all programs that run for this VM and all programs that they started. For each
%% program it waits up to the given number of milliseconds.
-spec kill_all(non_neg_integer()) -> ok.
kill_all(Wait) ->
    %% A port closes when no process holds the output of the program any more.
    Programs = [{erlang:monitor(port, Port), Pid}
                || Port <- erlang:ports(),
                   {os_pid, Pid} <- [erlang:port_info(Port, os_pid)], is_integer(Pid)],
    _ = [ok = kill_group(Pid) || {_, Pid} <- Programs],
    lists:foreach(fun({Monitor, _}) ->
                          receive {'DOWN', Monitor, port, _, _} -> ok
                          after Wait -> ok
                          end
                  end, Programs).

%% @doc Quotes a word for the shell. Between single quotes no character is special.
-spec quoted(unicode:chardata()) -> binary().
quoted(Word) ->
    unicode:characters_to_binary([$', string:replace(Word, "'", "'\\''", all), $']).

%% Internal

port_settings(#{of_user := true} = Settings) ->
    Env = whittle_environment:given_back(maps:get(env, Settings, [])),
    port_settings(maps:remove(of_user, Settings#{env => Env}));
port_settings(Settings) ->
    maps:to_list(Settings).

guarded(Words, Settings, Fold, Acc) ->
    drain(guarded_port(Words, Settings), Fold, Acc).

guarded_port(Words, Settings) ->
    %% The path must be absolute, because the program may start in another directory.
    Guard = filename:absname(filename:join(code:priv_dir(whittle_work), "guard.sh")),
    open_port({spawn_executable, "/bin/sh"},
              [{args, [Guard | Words]}, exit_status, stderr_to_stdout, binary, hide | Settings]).

drain(Port, Fold, Acc) ->
    receive
        {Port, {data, Bytes}} -> drain(Port, Fold, Fold(Bytes, Acc));
        {Port, {exit_status, Status}} -> {Status, Acc}
    end.

filtered(Port, Timer, Limit, Size, Parts) ->
    receive
        {timeout, Timer, filter} ->
            ok = kill(Port),
            ok = close(Port),
            ok = flushed(Port),
            {error, timeout};
        {Port, {data, Part}} when Size + byte_size(Part) =< Limit ->
            filtered(Port, Timer, Limit, Size + byte_size(Part), [Part | Parts]);
        {Port, {data, _}} ->
            ok = close(Port),
            {error, {1, <<"the output has more bytes than expected">>}};
        {Port, {exit_status, 0}} ->
            {ok, iolist_to_binary(lists:reverse(Parts))};
        {Port, {exit_status, Code}} ->
            {error, {Code, second_stream(iolist_to_binary(lists:reverse(Parts)))}};
        {'EXIT', Port, Reason} ->   % the program ended before it read all of its input
            {error, {1, iolist_to_binary(io_lib:format("~p", [Reason]))}}
    end.

%% The port may have closed by itself before this process reads its last message.
close(Port) ->
    try port_close(Port) of
        true -> ok
    catch
        error:badarg -> ok
    end.

%% Separates stderr from the output. If something killed the shell, the length is missing.
second_stream(Answer) ->
    try
        {Said, Length} = split_binary(Answer, byte_size(Answer) - 10),
        binary:part(Said, byte_size(Said), -binary_to_integer(Length))
    catch
        error:badarg -> <<>>
    end.
