%% @doc Applications, releases and escripts that a test makes in a directory.
-module(made).

-export([dir/2, app/4, beam/1, file/2, so/0, passes/0]).
-export([tool/3, ended/1, expect/2, holds/3]).

%% How long a program may be silent before a test gives up on it and says what came before.
-define(PATIENCE_MS, 600_000).

%% @doc A case's configuration with a directory of its own.
dir(Case, Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), atom_to_list(Case)),
    ok = filelib:ensure_path(Dir),
    [{dir, Dir} | Config].

%% @doc A compiled application `DIR' with the given modules' source; keys that
%% are given replace those of a plain `.app' file.
app(Dir, Name, Props, Sources) ->
    Modules = [Module || {Module, _} <- Sources],
    [file(filename:join([Dir, "ebin", atom_to_list(Module) ++ ".beam"]), beam(Source))
     || {Module, Source} <- Sources],
    Plain = [{description, "made"}, {vsn, "1"}, {modules, Modules}, {registered, []},
             {applications, [kernel, stdlib]}],
    All = lists:foldl(fun({Key, _} = Prop, Now) -> lists:keystore(Key, 1, Now, Prop) end,
                      Plain, Props),
    file(filename:join([Dir, "ebin", atom_to_list(Name) ++ ".app"]),
         io_lib:format("~tp.~n", [{application, Name, All}])),
    Dir.

%% @doc The BEAM file of a module's source.
beam(Source) ->
    {ok, Tokens, _} = erl_scan:string(Source),
    {ok, _, Beam} = compile:forms(forms(Tokens, []), [debug_info, return_errors]),
    Beam.

forms([], []) -> [];
forms([{dot, _} = Dot | Rest], Form) ->
    {ok, Parsed} = erl_parse:parse_form(lists:reverse([Dot | Form])),
    [Parsed | forms(Rest, [])];
forms([Token | Rest], Form) -> forms(Rest, [Token | Form]).

%% @doc Writes a file with its directories.
file(File, Bytes) ->
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, if is_binary(Bytes) -> Bytes;
                                  true -> unicode:characters_to_binary(Bytes)
                               end),
    File.

%% @doc The first bytes of a shared object.
so() -> <<127, "ELF", 2, 1, 1, 0, 0:64, 3:16/little>>.

%% @doc Runs a program in a directory; it has to succeed. What it prints.
tool(Program, Arguments, Dir) ->
    Port = open_port({spawn_executable, os:find_executable(Program)},
                     [{args, Arguments}, {cd, Dir}, exit_status, stderr_to_stdout, binary,
                      {env, [{"MIX_ENV", "prod"}, {"REBAR_COLOR", "none"},
                             {"HEX_OFFLINE", "1"}]}]),
    case ended(Port) of
        {0, Output} -> Output;
        {Status, Output} -> error({tool_failed, Status, Output})
    end.

%% @doc Waits for the end of a program: its exit code, and what it prints until then.
ended(Port) -> ended(Port, []).

ended(Port, Output) ->
    receive
        {Port, {data, Data}} -> ended(Port, [Output, Data]);
        {Port, {exit_status, Status}} -> {Status, iolist_to_binary(Output)}
    after ?PATIENCE_MS -> error({still_running, iolist_to_binary(Output)})
    end.

%% @doc Waits until a program has printed what the expression matches; its groups.
expect(Port, Expression) -> expect(Port, Expression, <<>>).

expect(Port, Expression, Output) ->
    receive
        {Port, {data, Data}} ->
            Now = <<Output/binary, Data/binary>>,
            case re:run(Now, Expression, [{capture, all_but_first, list}]) of
                {match, Groups} -> Groups;
                nomatch -> expect(Port, Expression, Now)
            end;
        {Port, {exit_status, Status}} -> error({ended, Status, Output})
    after ?PATIENCE_MS -> error({no_match, Expression, Output})
    end.

%% @doc Whether a property holds for that many samples of a type. PropEr's
%% header is not in Debian's package, so its functions are called by name.
holds(Samples, Type, Property) ->
    case proper:quickcheck(proper:forall(Type, Property), [{numtests, Samples}, quiet]) of
        true -> true;
        _ -> error({counterexample, proper:counterexample()})
    end.

%% The passes of a build that this application has, in order.
passes() ->
    [Pass || Pass <- whittle_make:passes(none),
             lists:prefix("whittle_pass_", atom_to_list(Pass))].
