%% @doc Takes out of each module what running it does not need.
%%
%% Kept are the chunks that the loader reads, line numbers with them, since stack
%% traces are worth more than their bytes. Debug information, documentation,
%% Elixir's checker data, names of local functions and the compiler's notes go. Of
%% a source file that was compiled by its absolute path, as rebar3 does it, stack
%% traces keep the name alone: the path is of the machine that it was built on, and
%% the same sources in another place give the same bytes.
%%
%% <b>Attributes</b> (`Attr') are read at run time by some programs. To ask for
%% them takes the atom `attributes' (`M:module_info(attributes)', `beam_lib:
%% chunks(M, [attributes])', a match on `M:module_info()') or the chunk's name,
%% and the atom has to be in the asking module's atom table or in a literal. So
%% they are dropped where no module holds that atom, and no module outside of
%% OTP calls `beam_lib'; else they are all kept, with a note that names who may
%% ask. A program that builds the atom at run time is not seen: `attributes =>
%% keep' is for it (`--keep-attributes' on the command line). Every module that
%% Elixir compiles can be asked for its attributes, so that an Elixir system
%% keeps them.
%%
%% <b>Types</b> (`Type') are read by the JIT alone: `types => drop' is for the
%% interpreter, whose loader does not look at them.
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
doc() -> "modules without what running them does not need".

%% @private
-spec run(whittle_system:system(), whittle_pass:options()) ->
          {ok, whittle_system:system()} | {error, whittle_system:error()}.
run(System, Options) ->
    Strip = maps:get(strip, Options, #{}),
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

%% Modules of OTP that hold the atom and read attributes of modules that others
%% name to them, which counts against those others, or of files.
reads_files() ->
    [beam_lib,                  % the reader itself: its callers count
     compile, v3_kernel, sys_pre_attributes, % the compiler's own forms
     beam_disasm,
     whittle_start_info].       % answers whoever asks a module that is not loaded

note([], System) -> System;
note(asked_for, System) ->
    whittle_system:note("module attributes are kept, as asked for", System);
note(Readers, System) ->
    Shown = lists:join(", ", [atom_to_list(M) || M <- lists:sublist(Readers, 5)]),
    Which = case Readers of
                [_] -> ["module ", Shown];
                [_, _, _, _, _, _ | _] ->
                    [whittle_number:text(length(Readers)), " modules (", Shown, ", …)"];
                _ -> [whittle_number:text(length(Readers)), " modules (", Shown, ")"]
            end,
    whittle_system:note(["kept module attributes: ", Which, " may read them"], System).
