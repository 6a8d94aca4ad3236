%% @doc Runs agents on other machines, over ssh.
%%
%% On each host, one session of ssh makes a directory of its own, tells the kind of the machine, and
%% removes the directory when its standard input ends, however this program ends. The agent is
%% copied into the directory through ssh, and each agent has a session whose standard input and
%% output are its link. ssh never asks a question (BatchMode).
%% @hidden
-module(whittle_load_hosts).

-export([check/1, with_agents/4, format_error/1]).

-export_type([error/0]).

-type error() :: {host_name, string()}
               | {no_ssh, Program :: string()}
               | {host, {Host :: string(), Why :: {ssh, unicode:chardata()} | timeout | slow_copy
                                | {machine, string()}}}.

-record(host, {name :: string(),
               keeper :: port(),
               machine = "" :: string(),       % of uname -sm
               dir = "" :: string()}).

%% A program that is run instead of ssh, with the same arguments
-define(SSH, "WHITTLE_SSH").
-define(CONNECT_S, 15).
-define(PATIENCE_MS, 60_000).
-define(END_MS, 10_000).
%% The longest time for the copy of an agent. At 16 kB per second an agent of 4 MB needs 250 s.
-define(COPY_MS, 300_000).
%% The longest line of the keeper's output
-define(LINE_BYTES, 1000).
%% The most lines that a host may print before the keeper's own
-define(MOST_LINES, 1000).
%% The most bytes that ssh may print while it copies.
-define(PRINTED, 100_000).

%% @doc Checks names of hosts: HOST or USER@HOST. ssh must not take a name for an option.
-spec check([string()]) -> ok | {error, error()}.
check(Names) ->
    case [Name || Name <- Names,
                  re:run(Name, "^([A-Za-z0-9_][A-Za-z0-9._-]*@)?[A-Za-z0-9_:][A-Za-z0-9._:%-]*$",
                         [unicode, dollar_endonly, {capture, none}]) =:= nomatch] of
        [] -> ok;
        [Wrong | _] -> {error, {host_name, Wrong}}
    end.

%% @doc Prepares all hosts, calls a function with a command for each, and tidies up. `Build' makes
%% the executable for a target.
-spec with_agents([string(), ...], fun((string()) -> {ok, file:filename()} | {error, Reason}),
                  fun((file:filename()) -> whittle_load_build:command()),
                  fun(([whittle_load_build:command(), ...]) -> Result)) ->
          Result | {error, Reason | error()}.
with_agents(Names, Build, Command, Fun) ->
    Program = case os:getenv(?SSH, "") of "" -> "ssh"; Other -> Other end,
    case os:find_executable(Program) of
        false -> {error, {no_ssh, Program}};
        Ssh ->
            Hosts = [#host{name = Name, keeper = keeper(Ssh, Name)} || Name <- Names],
            try
                whittle_work:steps([fun(_) -> whittle_work:each(fun met/1, Hosts) end,
                                    fun(Met) -> whittle_work:each(copy(Ssh, Build), Met) end,
                                    fun(Ready) ->
                                            Fun([remote(Ssh, Host, Command) || Host <- Ready])
                                    end])
            after
                [ended(Host) || Host <- Hosts]
            end
    end.

%% Internal functions: the keeper of the directory

keeper(Ssh, Name) ->
    Script = "umask 077; d=$(mktemp -d \"${TMPDIR:-/tmp}/whittle-load-XXXXXXXXXX\") || exit 3; "
        "trap 'rm -rf \"$d\"' EXIT; trap 'exit 1' HUP INT TERM; "
        "echo \"whittle $(uname -s) $(uname -m) $d\"; while read -r line; do "
        "[ \"$line\" = end ] && break; done; rm -rf \"$d\"; echo done",
    %% Nobody reads this port during the run, so the output has a bound outside of the VM.
    Bounded = "\"$@\" 2>&1 | exec dd bs=1000 count=1000 2>/dev/null",
    open_port({spawn_executable, "/bin/sh"},
              [{args, ["-c", Bounded, "sh", Ssh | arguments(Name, Script)]},
               {line, ?LINE_BYTES}, exit_status]).

%% Each login shell understands these quotes.
arguments(Name, Script) ->
    ["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=" ++ integer_to_list(?CONNECT_S),
     "-o", "ServerAliveInterval=15", "--", Name,
     "exec sh -c " ++ unicode:characters_to_list(whittle_program:quoted(Script))].

met(Host) -> met(Host, {?MOST_LINES, ""}, now_ms() + ?PATIENCE_MS).

%% Before its line, a host may print others, such as a greeting. An error shows the last one.
met(#host{name = Name}, {0, Last}, _) ->
    {error, {host, {Name, {ssh, ["it prints too many lines, such as `", Last, "'"]}}}};
met(#host{name = Name, keeper = Port} = Host, {Left, Last}, Until) ->
    receive
        {Port, {data, {eol, "whittle " ++ Words}}} ->
            case re:run(Words, "^(\\S+ \\S+) (/.*)$", [{capture, all_but_first, list}]) of
                {match, [Machine, Dir]} -> {ok, Host#host{machine = Machine, dir = Dir}};
                nomatch -> {error, {host, {Name, {machine, Words}}}}
            end;
        {Port, {data, {_, Line}}} ->
            case string:trim(Line) of
                "" -> met(Host, {Left - 1, Last}, Until);
                Text -> met(Host, {Left - 1, Text}, Until)
            end;
        {Port, {exit_status, _}} -> {error, {host, {Name, {ssh, said([Last])}}}}
    after max(0, Until - now_ms()) -> {error, {host, {Name, timeout}}}
    end.

now_ms() -> erlang:monotonic_time(millisecond).

said(Lines) ->
    case [Line || Line <- Lines, string:trim(Line) =/= ""] of
        [Last | _] -> string:trim(Last);
        [] -> "it ended without a message"
    end.

%% The answer tells that the directory is gone. A session that has ended breaks the port, and its
%% exit signal must not reach this process.
ended(#host{keeper = Port}) ->
    true = unlink(Port),
    _ = catch port_command(Port, "end\n"),
    ok = removed(Port, ?MOST_LINES, now_ms() + ?END_MS),
    catch port_close(Port).

removed(_, 0, _) -> ok;
removed(Port, Left, Until) ->
    case erlang:port_info(Port) of
        undefined -> ok;
        _ ->
            receive
                {Port, {exit_status, _}} -> ok;
                {Port, {data, _}} -> removed(Port, Left - 1, Until)
            after max(0, Until - now_ms()) -> ok
            end
    end.

%% Internal functions: the agent

copy(Ssh, Build) ->
    fun(#host{name = Name, machine = Machine, dir = Dir} = Host) ->
            case target(Machine) of
                {ok, Target} ->
                    case Build(Target) of
                        {ok, File} -> copied(Ssh, File, agent(Dir), Host);
                        {error, _} = Error -> Error
                    end;
                error -> {error, {host, {Name, {machine, Machine}}}}
            end
    end.

agent(Dir) -> Dir ++ "/agent".

copied(Ssh, File, Agent, #host{name = Name} = Host) ->
    {ok, Bytes} = file:read_file(File),
    Path = unicode:characters_to_list(whittle_program:quoted(Agent)),
    Words = [Ssh | arguments(Name, "cat >" ++ Path ++ " && chmod 700 " ++ Path)],
    Line = unicode:characters_to_list(lists:join($\s, [whittle_program:quoted(Word)
                                                       || Word <- Words])),
    case traps(fun() -> whittle_program:filter(Line, Bytes, ?PRINTED, ?COPY_MS) end) of
        {ok, _} -> {ok, Host};
        {error, timeout} -> {error, {host, {Name, slow_copy}}};
        {error, {_, Text}} ->
            {error, {host, {Name, {ssh, said(lists:reverse(string:lexemes(
                                                             binary_to_list(Text), "\n")))}}}}
    end.

%% {@link whittle_program:filter/4} needs a process that traps exits.
traps(Fun) ->
    Before = process_flag(trap_exit, true),
    try Fun() after process_flag(trap_exit, Before) end.

target("Linux " ++ Machine) ->
    case Machine of
        "x86_64" -> {ok, "x86_64"};
        "aarch64" -> {ok, "aarch64"};
        "armv7" ++ _ -> {ok, "armv7"};
        "armv8l" -> {ok, "armv7"};
        "armv6" ++ _ -> {ok, "armv6"};
        "riscv64" -> {ok, "riscv64"};
        "mips" -> {ok, "mips"};
        _ -> error
    end;
target(_) -> error.

%% The command of an agent here becomes one of ssh. Its environment goes along as words of env(1).
remote(Ssh, #host{name = Name, dir = Dir}, Command) ->
    {Program, Arguments, Environment} = Command(agent(Dir)),
    Words = ["env"] ++ [Variable ++ "=" ++ Value || {Variable, Value} <- Environment,
                                                    is_list(Value)]
        ++ [Program | Arguments],
    Line = unicode:characters_to_list(["exec " | lists:join($\s, [whittle_program:quoted(Word)
                                                                  || Word <- Words])]),
    {Ssh, arguments(Name, Line), []}.

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({host_name, Name}) ->
    ["--hosts cannot have `", Name, "': write HOST or USER@HOST, and options of ssh into "
     "~/.ssh/config"];
format_error({no_ssh, "ssh"}) ->
    "there is no program `ssh' on the PATH: install it (Debian package openssh-client)";
format_error({no_ssh, Program}) ->
    ["the program ", Program, " of the variable " ?SSH " is not there, or not executable: correct "
     "or unset the variable"];
format_error({host, {Name, {ssh, Text}}}) ->
    [Name, ": ssh: ", Text,
     case [Hint || {Pattern, Hint} <- hints(), string:find(Text, Pattern) =/= nomatch] of
         [Hint | _] -> [": ", Hint, $\s, Name];
         [] -> ""
     end];
format_error({host, {Name, timeout}}) ->
    [Name, io_lib:format(": ssh gave no answer within ~b s: try `ssh ", [?PATIENCE_MS div 1000]),
     Name, "'"];
format_error({host, {Name, slow_copy}}) ->
    [Name, io_lib:format(": the copy of the agent did not end within ~b s: try `ssh ",
                         [?COPY_MS div 1000]), Name, "', or use a faster line"];
format_error({host, {Name, {machine, Machine}}}) ->
    [Name, ": Whittle builds no agent for `", Machine, "'; `whittle targets' lists the targets"].

hints() ->
    [{"Host key verification failed", "compare and accept the key of the host once, with ssh"},
     {"HOST IDENTIFICATION HAS CHANGED", "find out why the key changed, with ssh"},
     {"Permission denied", "ssh may not ask for a password here; install a key, with ssh-copy-id"}].
