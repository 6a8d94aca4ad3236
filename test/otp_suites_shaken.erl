%% Shakes kernel and stdlib of an installation, where they lie, as `whittle build --shake
%% functions' does for a program that starts and is done: what is left over is in companions,
%% which are loaded when they are called. For OTP's own suites, which call all of it.
%%
%% ```
%% otp/lib/{kernel,stdlib}-VSN/ebin/M.beam    what is hot
%% otp/companions/M~cold.beam                 what is cold
%% otp/companions/whittle_start_cold.beam     what loads it: first of all, by each boot script
%% '''
-module(otp_suites_shaken).

-export([shake/1]).

-spec shake(file:filename()) -> ok.
shake(Otp) ->
    Lib = filename:join(Otp, "lib"),
    Companions = filename:join(Otp, "companions"),
    ok = filelib:ensure_path(Companions),
    {ok, Read} = whittle_read:read(running:example("hello"), #{otp_lib => Lib}),
    {ok, System} = whittle_device:add(Read),
    {ok, Libs} = whittle_otp_lib:open(Lib),
    {ok, Preloaded} = whittle_otp_lib:preloaded(Libs),
    {ok, Plan} = whittle_shake:plan(System, #{preloaded => Preloaded, unit => functions}),
    Shaken = whittle_shake:carry_out(Plan, System),
    [begin
         {ok, #{modules := Modules} = App} = whittle_system:app(Name, Shaken),
         Ebin = filename:join([Otp, whittle_system:app_dir(App), "ebin"]),
         [ok = file:write_file(filename:join(place(M, Ebin, Companions),
                                             atom_to_list(M) ++ ".beam"), Beam)
          || {M, Beam} <- maps:to_list(Modules)]
     end || Name <- [kernel, stdlib]],
    loader(Companions),
    [with_loader(File) || Boot <- ["bin/*.boot", "releases/*/*.boot"],
                          File <- filelib:wildcard(filename:join(Otp, Boot))],
    ok.

place(Module, Ebin, Companions) ->
    case whittle_system:companion_of(Module) of
        {ok, _} -> Companions;
        none -> Ebin
    end.

%% As on a device, but for where it looks.
loader(Companions) ->
    Source = proplists:get_value(source, whittle_start_cold:module_info(compile)),
    {ok, _} = compile:file(Source, [{outdir, Companions}, {d, 'COMPANIONS', Companions}, report]),
    ok.

with_loader(File) ->
    {ok, Bytes} = file:read_file(File),
    {script, Id, Instructions} = binary_to_term(Bytes),
    {Before, After} = lists:splitwith(fun(I) -> element(1, I) =/= path end, Instructions),
    Loader = [{path, ["$ROOT/companions"]}, {primLoad, [whittle_start_cold]}],
    ok = file:write_file(File, term_to_binary({script, Id, Before ++ Loader ++ After})).
