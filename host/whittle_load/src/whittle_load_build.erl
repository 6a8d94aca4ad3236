%% @doc Builds the executable of the agents.
%% @hidden
-module(whittle_load_build).

-export([with_agent/5, command/2, processes/1, open/1, format_error/1]).

-export_type([command/0, error/0]).

%% A program, its arguments and its environment
-type command() :: {file:filename(), [string()], [{string(), string() | false}]}.

-type error() :: {make, whittle_make:reason()}
               | {directory, {file:filename(), file:posix() | badarg}}.

-define(OWN, whittle_load_own_modules).

%% @doc Builds an agent for each kind of machine, calls a function with the commands that start
%% agents, and removes the files. Without hosts, the agents run on this machine.
-spec with_agent(whittle_load_scenario:scenario(),
                 #{files := pos_integer(), _ => _}, Hosts :: [string()],
                 fun((_) -> term()),              % gets each whittle_make:event()
                 fun(([command(), ...]) -> Result)) ->
          Result | {error, error() | whittle_load_hosts:error()}.
with_agent(Scenario, #{files := Files}, Hosts, Tell, Fun) ->
    case whittle_unfinished:make_directory("whittle-load") of
        {ok, Dir} ->
            try Hosts of
                [] ->
                    case built(#{}, Scenario, filename:join(Dir, "agent"), Tell) of
                        {ok, Out} -> Fun([command(Out, Files)]);
                        {error, _} = Error -> Error
                    end;
                _ ->
                    whittle_load_hosts:with_agents(
                      Hosts, fun(Target) -> for_target(Target, Scenario, Dir, Tell) end,
                      fun(Agent) -> command(Agent, Files) end, Fun)
            after whittle_unfinished:remove_directory(Dir)
            end;
        {error, {Dir, Reason}} -> {error, {directory, {Dir, Reason}}}
    end.

%% Several hosts may have the same target.
for_target(Target, Scenario, Dir, Tell) ->
    Out = filename:join(Dir, "agent-" ++ Target),
    case filelib:is_regular(Out) of
        true -> {ok, Out};
        false -> built(#{target => Target}, Scenario, Out, Tell)
    end.

built(More, #{target := #{client := Client, transport := Transport, host := Host,
                          options := Given}, own := Own, rows := Rows}, Out, Tell) ->
    Dir = filename:dirname(Out),
    Request = #{input => code:lib_dir(whittle_load_agent), out => Out, tell => Tell,
                libs => [Dir],
                add => added(Own, Dir) ++ [ssl || Transport =:= tls]
                    ++ [crypto || #{mechanism := scram} <- [Given]],
                shake => #{unit => functions, missing => crash,
                           on => [inet6 || tuple_size(Host) =:= 8],
                           declared => declared(Transport, [{Client} | data_module(Rows)])}},
    case whittle_make:make(maps:merge(Request, More)) of
        {ok, #{out := Made}} -> {ok, Made};
        {error, Reason} -> {error, {make, Reason}}
    end.

%% Writes the modules of the scenario as an application.
added([], _) -> [];
added(Own, Dir) ->
    Ebin = filename:join([Dir, atom_to_list(?OWN), "ebin"]),
    ok = filelib:ensure_path(Ebin),
    [ok = file:write_file(filename:join(Ebin, atom_to_list(Module) ++ ".beam"), Beam)
     || #{module := Module, beam := Beam} <- Own],
    App = {application, ?OWN,
           [{description, "Modules of a scenario"}, {vsn, "1"}, {registered, []},
            {modules, [Module || #{module := Module} <- Own]},
            {applications, [kernel, stdlib, whittle_load_agent]}]},
    ok = file:write_file(filename:join(Ebin, atom_to_list(?OWN) ++ ".app"),
                         io_lib:format("~tp.~n", [App])),
    [?OWN].

data_module({function, Module}) -> [{Module}];
data_module(_) -> [].

%% The plan names the client and the module of the data. ssl makes atoms of the names of ciphers and
%% of its own tables and messages; none of them names a module or function.
declared(tcp, Modules) -> #{data => Modules};
declared(tls, Modules) -> #{data => Modules, atoms => []}.

%% @doc Starts a command, without the user's variables for Erlang: they are for the user's programs,
%% and could break an agent, which has only the code that it needs. The port carries messages behind
%% their length in four bytes.
-spec open(command()) -> port().
open({Program, Arguments, Environment}) ->
    open_port({spawn_executable, Program},
              [{args, Arguments}, {env, whittle_environment:withheld(Environment)}, {packet, 4},
               binary, exit_status]).

%% @doc Makes the command that starts an executable with so many descriptors.
%%
%% The VM's table of ports follows the limit of descriptors. A process may raise its own up to the
%% hard limit.
-spec command(file:filename(), pos_integer()) -> command().
command(Agent, Files) ->
    Script = "ulimit -Sn \"$1\" || ulimit -Sn \"$(ulimit -Hn)\"; shift; exec \"$@\"",
    {"/bin/sh", ["-c", Script, "sh", integer_to_list(max(1024, Files)), Agent],
     environment(Files)}.

%% An agent has one scheduler: with two, each message costs more, because the schedulers wake each
%% other (bench/load/README.md). More agents use more processors. They share them, so their
%% schedulers must not spin. Each connection needs a process and a port. By default a VM whose wall
%% clock jumps makes its monotonic time up to 1 % faster or slower, until both agree (erl(1), +C).
%% The VM keeps 16 bytes for each possible process.
environment(Files) ->
    [{"WHITTLE_LOAD_AGENT", "stdio"},
     {"ERL_ZFLAGS", "+S 1:1 +SDcpu 1:1 +SDio 1 +sbwt none +sbwtdcpu none +sbwtdio none +P "
      ++ integer_to_list(processes(Files)) ++ " +C multi_time_warp -noinput"}].

%% @doc Returns the most processes of an agent with so many descriptors.
-spec processes(pos_integer()) -> pos_integer().
processes(Files) when Files =< 30_000 -> 32_768;
processes(_) -> 262_144.

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({make, Reason}) ->
    case whittle_make:code(Reason) of
        cannot_write ->
            "the executable of the agents cannot be written: set TMPDIR to a directory of yours "
            "with 10 MB of free space";
        _ -> whittle_make:format_error(Reason)
    end;
format_error({directory, {Dir, Reason}}) ->
    [Dir, ": ", file:format_error(Reason), ": set TMPDIR to a directory of yours"].
