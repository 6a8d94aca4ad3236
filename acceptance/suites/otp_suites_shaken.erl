%% Shakes kernel and stdlib of an OTP installation in place, for OTP's own suites, which call all of
%% it. It works like `whittle build --shake functions' for a program that starts and ends. The
%% other functions become companions, which the VM loads at the first call.
%% ```
%% otp/lib/{kernel,stdlib}-VSN/ebin/M.beam    the hot code
%% otp/companions/M~cold.beam                 the cold code
%% '''
%%
%% The loader, `whittle_start_cold', is a part of kernel here. Each boot script loads it first, also
%% the scripts that suites create.
-module(otp_suites_shaken).

-export([shake/1]).

-spec shake(file:filename()) -> ok.
shake(Otp) ->
    Lib = filename:join(Otp, "lib"),
    Companions = filename:join(Otp, "companions"),
    ok = filelib:ensure_path(Companions),
    %% Strip nothing: the suites read debug information.
    {ok, #{system := Shaken}} = whittle_make:system(
                                  #{input => running:example("hello"), otp_lib => Lib,
                                    passes => [whittle_make_shake],
                                    shake => #{unit => functions}}),
    [begin
         #{modules := Modules} = App = app(Name, Shaken),
         Ebin = filename:join([Otp, whittle_system:app_dir(App), "ebin"]),
         [ok = file:write_file(filename:join(place(M, Ebin, Companions),
                                             atom_to_list(M) ++ ".beam"), Beam)
          || {M, Beam} <- maps:to_list(Modules)]
     end || Name <- [kernel, stdlib]],
    [Kernel] = filelib:wildcard(filename:join(Lib, "kernel-*/ebin")),
    loader(Companions, Kernel),
    [edit(fun with_loader/1, File) || Boot <- ["bin/*.boot", "releases/*/*.boot"],
                                      File <- filelib:wildcard(filename:join(Otp, Boot))],
    [Maker] = filelib:wildcard(filename:join(Lib, "sasl-*/ebin/systools_make.beam")),
    edit(fun making_with_loader/1, Maker).

app(Name, System) ->
    {ok, App} = whittle_system:app(Name, System),
    App.

place(Module, Ebin, Companions) ->
    case whittle_system:companion_of(Module) of
        {ok, _} -> Companions;
        none -> Ebin
    end.

%% The same loader as on a device, but it searches in another place.
loader(Companions, Ebin) ->
    Source = proplists:get_value(source, whittle_start_cold:module_info(compile)),
    {ok, _} = compile:file(Source, [{outdir, Ebin}, {d, 'COMPANIONS', Companions}, report]),
    edit(fun(Text) ->
                 {ok, [{application, kernel, Props}]} = whittle_term:parse(Text),
                 {modules, Modules} = lists:keyfind(modules, 1, Props),
                 Listed = {modules, [whittle_start_cold | Modules]},
                 io_lib:format("~p.~n", [{application, kernel,
                                          lists:keyreplace(modules, 1, Props, Listed)}])
         end, filename:join(Ebin, "kernel.app")).

with_loader(Boot) ->
    {script, Id, Instructions} = binary_to_term(Boot),
    {Before, [{primLoad, First} | After]} =
        lists:splitwith(fun(I) -> element(1, I) =/= primLoad end, Instructions),
    term_to_binary({script, Id, Before ++ [{primLoad, [whittle_start_cold | First]} | After]}).

%% A function contains the list of modules that boot scripts load first.
making_with_loader(Bytes) ->
    {ok, Beam} = whittle_beam:read(Bytes),
    {ok, Maker} = whittle_beam:disassemble(Beam),
    #{{mandatory_modules, 0} := #{code := [{move, [{literal, List}, X]} | Code]} = Function} =
        whittle_beam_module:functions(Maker),
    More = {literal, term_to_binary([whittle_start_cold | binary_to_term(List)])},
    {ok, Made} = whittle_beam:assemble(
                   #{}, whittle_beam_module:put(Function#{code := [{move, [More, X]} | Code]},
                                                Maker)),
    Made.

edit(Change, File) ->
    {ok, Bytes} = file:read_file(File),
    ok = file:write_file(File, Change(Bytes)).
