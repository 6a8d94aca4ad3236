%% @hidden Removes the parts of each module that the VM does not need to run it.
%%
%% The pass keeps the chunks that the loader reads. It keeps line numbers, because stack traces
%% are worth more than their bytes. It removes debug information, documentation, Elixir's checker
%% data, names of local functions and the compiler's notes. rebar3 compiles a source file by its
%% absolute path. For such a file, stack traces keep only the file name. The path names the build
%% machine, and the same sources in another directory must give the same bytes.
%%
%% <b>Attributes</b> (`Attr'): some programs read them at run time. A program needs the atom
%% `attributes' (`M:module_info(attributes)', `beam_lib:chunks(M, [attributes])', a match on
%% `M:module_info()') or the chunk's name to ask for them. This atom must be in the atom table or
%% in a literal of the module that asks. The pass removes the attributes if no module holds that
%% atom and no module outside of OTP calls `beam_lib'. Otherwise it keeps all attributes, and a
%% note names the modules that may ask. The pass cannot detect a program that builds the atom at
%% run time. Use `attributes => keep' for it (`--keep-attributes' on the command line). Every
%% module that Elixir compiles can return its attributes on request, so an Elixir system keeps
%% them.
%%
%% <b>Types</b> (`Type'): only the JIT reads them. Use `types => drop' for the interpreter, whose
%% loader ignores them.
-module(whittle_pass_strip).
-behaviour(whittle_pass).

-export([name/0, doc/0, run/2]).

-export_type([options/0]).

-type options() ::
        #{attributes => auto | keep,        % default: auto
          types => keep | drop}.            % default: keep

%% @private
-spec name() -> atom().
name() -> strip.

%% @private
-spec doc() -> string().
doc() -> "without debug data and other parts that the program does not need".

%% @private
-spec run(whittle_system:system(), whittle_pass:options()) ->
          {ok, whittle_system:system()} | {error, whittle_pass:reason()}.
run(System, Options) ->
    case stripped(System, maps:get(strip, Options, #{})) of
        {ok, Small} -> {ok, Small};
        {error, Error} -> {error, {system, Error}}
    end.

stripped(System, Strip) ->
    whittle_work:steps(
      [fun(_) -> readers(Strip, System) end,
       fun(Readers) ->
               Chunks = #{keep => [<<"Attr">> || Readers =/= []],
                          types => maps:get(types, Strip, keep), paths => drop},
               case whittle_modules:rewrite(Chunks, System) of
                   {ok, Small} -> {ok, note(Readers, Small)};
                   {error, _} = Error -> Error
               end
       end]).

%% Internal

readers(#{attributes := keep}, _) -> {ok, asked_for};
readers(_, System) ->
    Otp = [Name || #{name := Name, origin := #{kind := otp}} <- whittle_system:apps(System)],
    Reader = fun(App, Part, Beam) ->
                     Module = whole(Part),
                     [Module || not lists:member(Module, reads_files()),
                                whittle_beam:mentions(attributes, Beam)
                                    orelse (not (lists:member(App, Otp)
                                                 orelse whittle_otp:is_otp(App))
                                            andalso calls_reader(Beam))]
             end,
    case whittle_modules:each(Reader, System) of
        {ok, Readers} -> {ok, lists:uniq(lists:append(Readers))};
        {error, _} = Error -> Error
    end.

whole(Module) ->
    case whittle_system:companion_of(Module) of
        {ok, Whole} -> Whole;
        none -> Module
    end.

%% `module_info/0' returns the attributes too.
calls_reader(Beam) ->
    lists:any(fun({Module, Function, Arity}) ->
                      Module =:= beam_lib orelse {Function, Arity} =:= {module_info, 0}
              end, whittle_beam:imports(Beam)).

%% Lists the modules of OTP that hold the atom and do not need other modules' attributes
%% themselves. They read attributes of files, or of modules that their callers name. The callers
%% then count.
reads_files() ->
    [beam_lib,                  % the reader itself: its callers count
     compile, v3_kernel, sys_pre_attributes, % the compiler's own forms
     beam_disasm,
     whittle_start_info].       % answers for modules that are not loaded

note([], System) -> System;
note(asked_for, System) ->
    whittle_system:note("the modules keep their attributes, because of --keep-attributes", System);
note(Readers, System) ->
    Shown = lists:join(", ", [atom_to_list(M) || M <- lists:sublist(Readers, 5)]),
    Which = case Readers of
                [_] -> ["module ", Shown];
                [_, _, _, _, _, _ | _] ->
                    [whittle_number:text(length(Readers)), " modules (", Shown, ", …)"];
                _ -> [whittle_number:text(length(Readers)), " modules (", Shown, ")"]
            end,
    whittle_system:note(["the modules keep their attributes: ", Which, " may read them"], System).
