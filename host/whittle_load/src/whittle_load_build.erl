%% @doc Builds the executable of the agents.
%% @hidden
-module(whittle_load_build).

-export([with_agent/4, format_error/1]).

-export_type([error/0]).

-type error() :: {make, whittle_make:reason()}
               | {directory, {file:filename(), file:posix() | badarg}}.

-define(OWN, whittle_load_own_modules).

%% @doc Builds an agent, calls a function with the command that starts it, and removes it.
-spec with_agent(whittle_load_scenario:scenario(), whittle_load_limits:spread(),
                 fun((whittle_make:event()) -> term()), fun((Command) -> Result)) ->
          Result | {error, error()}
              when Command :: {file:filename(), [string()], [{string(), string() | false}]}.
with_agent(#{target := #{client := Client, transport := Transport, host := Host,
                         options := Given}, own := Own, rows := Rows},
           #{files := Files}, Tell, Fun) ->
    case whittle_unfinished:make_directory("whittle-load") of
        {ok, Dir} ->
            try
                Request = #{input => code:lib_dir(whittle_load_agent),
                            out => filename:join(Dir, "agent"), tell => Tell,
                            libs => [Dir],
                            add => added(Own, Dir) ++ [ssl || Transport =:= tls]
                                ++ [crypto || #{mechanism := scram} <- [Given]],
                            shake => #{unit => functions, missing => crash,
                                       on => [inet6 || tuple_size(Host) =:= 8],
                                       declared => declared(Transport,
                                                           [{Client} | data_module(Rows)])}},
                case whittle_make:make(Request) of
                    {ok, #{out := Out}} -> Fun(command(Out, Files));
                    {error, Reason} -> {error, {make, Reason}}
                end
            after whittle_unfinished:remove_directory(Dir)
            end;
        {error, {Dir, Reason}} -> {error, {directory, {Dir, Reason}}}
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

%% The VM's table of ports follows the limit of descriptors. A process may raise its own up to the
%% hard limit.
command(Agent, Files) ->
    Script = "ulimit -Sn \"$1\" || ulimit -Sn \"$(ulimit -Hn)\"; shift; exec \"$@\"",
    {"/bin/sh", ["-c", Script, "sh", integer_to_list(max(1024, Files)), Agent], environment()}.

%% Agents share processors with each other, so their schedulers must not spin. Each connection needs
%% a process and a port. By default a VM whose wall clock jumps makes its monotonic time up to 1 %
%% faster or slower, until both agree (erl(1), +C).
environment() ->
    [{"WHITTLE_LOAD_AGENT", "stdio"},
     {"ERL_ZFLAGS", "+sbwt none +sbwtdcpu none +sbwtdio none +P 262144 +C multi_time_warp "
                     "-noinput"}].

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
