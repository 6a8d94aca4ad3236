%% Checks every BEAM file below some directories, or rewrites it in place. acceptance/beam-files
%% compiles this module with the OTP in which it runs.
-module(beam_files).

-export([main/1]).

-spec main([string()]) -> no_return().
main(["check" | Dirs]) ->
    Files = files(Dirs),
    {Time, Results} = timer:tc(fun() -> [alone(fun check/1, File) || File <- Files] end),
    Wrong = wrong(Files, Results),
    Whole = [Result || {_, _, _, _} = Result <- Results],
    Sum = fun(N) -> lists:sum([element(N, Result) || Result <- Whole]) end,
    io:format("| ~s | ~b | ~b | ~b | ~b | ~b of ~b | ~b | ~b s |~n",
              [erlang:system_info(otp_release), length(Files), Sum(1) div 1000,
               length([same || {_, same_bytes, _, _} <- Whole]),
               length([same || {_, same_functions, _, _} <- Whole]),
               Sum(4), Sum(3), length(Wrong), Time div 1_000_000]),
    finish(Wrong);
main(["rewrite", Dir]) ->
    Files = files([Dir]),
    Results = [alone(fun rewrite/1, File) || File <- Files],
    Wrong = wrong(Files, Results),
    io:format("~b modules rewritten~n", [length(Files) - length(Wrong)]),
    finish(Wrong).

wrong(Files, Results) ->
    [{File, Why} || {File, {wrong, Why}} <- lists:zip(Files, Results)].

finish(Wrong) ->
    [io:format(standard_error, "~ts: ~0tP~n", [File, Why, 40]) || {File, Why} <- Wrong],
    halt(min(1, length(Wrong))).

files(Dirs) ->
    lists:append([filelib:fold_files(Dir, "\\.beam$", true, fun(File, Files) -> [File | Files] end,
                                     []) || Dir <- Dirs]).

alone(Fun, File) ->
    {_, Monitor} = spawn_monitor(fun() -> exit({done, Fun(File)}) end),
    receive
        {'DOWN', Monitor, process, _, {done, Result}} -> Result;
        {'DOWN', Monitor, process, _, Reason} -> {wrong, Reason}
    end.

%% Checks the file unstripped, stripped, and with half of its exports.
check(File) ->
    {ok, Bytes} = file:read_file(File),
    {ok, Beam} = whittle_beam:read(Bytes),
    case {beam_checks:identity(Bytes), beam_checks:identity(whittle_beam:strip(#{}, Beam)),
          beam_checks:without(Bytes, rand:seed_s(exsss, erlang:phash2(Bytes)))} of
        {Same, Same, {All, Kept, _}} when is_atom(Same) -> {byte_size(Bytes), Same, All, Kept};
        {Same, Stripped, {_, _, _}} -> {wrong, {Same, Stripped}};
        {_, _, Wrong} -> Wrong
    end.

rewrite(File) ->
    {ok, Bytes} = file:read_file(File),
    {ok, Beam} = whittle_beam:read(with_tables(Bytes)),
    {ok, Module} = whittle_beam:disassemble(Beam),
    {ok, Rewritten} = whittle_beam:assemble(#{}, beam_checks:moved(Module)),
    ok = file:write_file(File, Rewritten).

%% A build also makes tables of some functions (whittle_make_tables).
with_tables(Bytes) ->
    {ok, {_, [{abstract_code, Code}]}} = beam_lib:chunks(Bytes, [abstract_code]),
    case Code of
        {raw_abstract_v1, Forms} ->
            case whittle_table_forms:rewrite(Forms) of
                {changed, New, _} ->
                    {ok, _, Compiled} = compile:forms(New, [debug_info, deterministic]),
                    Compiled;
                unchanged -> Bytes
            end;
        no_abstract_code -> Bytes
    end.
