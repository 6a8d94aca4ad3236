%% @doc Makes applications, releases and escripts in a directory for a test.
-module(made).

-export([dir/2, app/4, beam/1, file/2, so/0, passes/0]).
-export([tool/3, ended/1, expect/2, holds/3, worded/2, in_small_vm/1, work/1, damaged_literal/1]).

%% The time that a program may be silent. After it the test fails and shows the earlier output.
-define(PATIENCE_MS, 600_000).

%% @doc Adds a directory for the case to its configuration. All suites of an application share one
%% private directory, and two of them may have a case of the same name.
dir(Case, Config) ->
    Data = string:trim(proplists:get_value(data_dir, Config), trailing, "/"),
    Suite = filename:basename(Data, "_data"),
    Dir = filename:join([proplists:get_value(priv_dir, Config), Suite, atom_to_list(Case)]),
    ok = filelib:ensure_path(Dir),
    [{dir, Dir} | Config].

%% @doc Makes a compiled application `DIR' from the source of its modules. The given keys replace
%% those of a plain `.app' file.
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

%% @doc Compiles the source of a module to a BEAM file.
beam(Source) ->
    {ok, Tokens, _} = erl_scan:string(Source),
    {ok, _, Beam} = compile:forms(forms(Tokens, []), [debug_info, return_errors]),
    Beam.

forms([], []) -> [];
forms([{dot, _} = Dot | Rest], Form) ->
    {ok, Parsed} = erl_parse:parse_form(lists:reverse([Dot | Form])),
    [Parsed | forms(Rest, [])];
forms([Token | Rest], Form) -> forms(Rest, [Token | Form]).

%% @doc Writes a file, and makes its directories.
file(File, Bytes) ->
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, if is_binary(Bytes) -> Bytes;
                                  true -> unicode:characters_to_binary(Bytes)
                               end),
    File.

%% @doc Returns the first bytes of a shared object.
so() -> <<127, "ELF", 2, 1, 1, 0, 0:64, 3:16/little>>.

%% @doc Runs a program in a directory and returns its output. The program must succeed.
tool(Program, Arguments, Dir) ->
    Port = open_port({spawn_executable, os:find_executable(Program)},
                     [{args, Arguments}, {cd, Dir}, exit_status, stderr_to_stdout, binary,
                      {env, [{"MIX_ENV", "prod"}, {"REBAR_COLOR", "none"},
                             {"HEX_OFFLINE", "1"}]}]),
    case ended(Port) of
        {0, Output} -> Output;
        {Status, Output} -> error({tool_failed, Status, Output})
    end.

%% @doc Waits for the end of a program. It returns the exit code and the output.
ended(Port) -> ended(Port, []).

ended(Port, Output) ->
    receive
        {Port, {data, Data}} -> ended(Port, [Output, Data]);
        {Port, {exit_status, Status}} -> {Status, iolist_to_binary(Output)}
    after ?PATIENCE_MS -> error({still_running, iolist_to_binary(Output)})
    end.

%% @doc Waits until a program prints text that matches the expression. It returns the groups.
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

%% @doc Checks that a property holds for a number of samples of a type. Debian's package of PropEr
%% has no header, so this function calls PropEr's functions directly. It cannot report an exception
%% on this OTP, so an exception counts as `false' here, and the error has it. It shrinks a
%% counterexample in few steps, because a step of some properties takes a second.
holds(Samples, Type, Property) ->
    _ = erase(?MODULE),
    Checked = fun(Sample) ->
                      try Property(Sample)
                      catch Class:Reason:Stack ->
                              _ = put(?MODULE, {Class, Reason, Stack}),
                              false
                      end
              end,
    Options = [{numtests, Samples}, {max_shrinks, 100}, quiet],
    case proper:quickcheck(proper:forall(Type, Checked), Options) of
        true -> true;
        _ -> error({counterexample, proper:counterexample(), get(?MODULE)})
    end.

%% @doc Lists the tags of the errors that a function formats, in the order of their names. They are
%% in the debug information of its module.
worded(Module, Function) ->
    {ok, {_, [{debug_info, {debug_info_v1, Backend, Data}}]}} =
        beam_lib:chunks(code:which(Module), [debug_info]),
    {ok, Forms} = Backend:debug_info(erlang_v1, Module, Data, []),
    [Clauses] = [Clauses || {function, _, Name, 1, Clauses} <- Forms, Name =:= Function],
    lists:usort([Tag || {clause, _, [{tuple, _, [{atom, _, Tag} | _]}], _, _} <- Clauses]).

%% @doc Lists the passes that have entries in the ledger, in order. A test may run their result on
%% an installed OTP, without the applications that Whittle adds.
passes() -> whittle_make:passes(none) -- [whittle_pass_md5, whittle_pass_start].

%% @doc Calls a function in a VM with a small atom table. A test that needs more names than a VM has
%% room for takes a sixteenth of the time there.
in_small_vm(Fun) ->
    {ok, Peer, _} = peer:start(#{connection => standard_io,
                                 args => ["+t", "65536", "-pa" | code:get_path()]}),
    try peer:call(Peer, erlang, apply, [Fun, []], ?PATIENCE_MS)
    after peer:stop(Peer)
    end.

%% @doc Returns the reductions of a function. They do not depend on the machine or its load. The
%% heap has room for everything, because collections would count too.
work(Fun) ->
    {Pid, Monitor} = spawn_opt(fun() ->
                                       {reductions, Before} = process_info(self(), reductions),
                                       Fun(),
                                       {reductions, After} = process_info(self(), reductions),
                                       exit({work, After - Before})
                               end, [monitor, {min_heap_size, 20_000_000},
                                     {min_bin_vheap_size, 20_000_000}]),     % words
    receive
        {'DOWN', Monitor, process, Pid, {work, Work}} -> Work;
        {'DOWN', Monitor, process, Pid, Reason} -> error(Reason)
    end.

%% @doc Adds a literal that cannot be decoded to a module with one literal. No instruction mentions
%% it.
damaged_literal(Bytes) ->
    {ok, _, Chunks} = beam_lib:all_chunks(Bytes),
    <<_:32, Deflated/binary>> = proplists:get_value("LitT", Chunks),
    <<1:32, First/binary>> = zlib:uncompress(Deflated),
    Two = <<2:32, First/binary, 4:32, 131, $h, 2, $j>>,
    Table = <<(byte_size(Two)):32, (zlib:compress(Two))/binary>>,
    {ok, Damaged} = beam_lib:build_module(lists:keystore("LitT", 1, Chunks, {"LitT", Table})),
    Damaged.
