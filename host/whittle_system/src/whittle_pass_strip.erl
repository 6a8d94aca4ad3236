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
%% For passes that rewrite every module
-export([read_all/1, each/2, rewrite/3]).

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
    case read_all(System) of
        {ok, Beams} ->
            Readers = readers(Strip, Beams, System),
            Chunks = #{keep => [<<"Attr">> || Readers =/= []],
                       types => maps:get(types, Strip, keep), paths => drop},
            {ok, note(Readers, rewrite(Beams, Chunks, System))};
        {error, _} = Error -> Error
    end.

%% @doc All modules of a system, checked, with the application of each.
-spec read_all(whittle_system:system()) ->
          {ok, [{whittle_system:app_name(), module(), whittle_beam:beam()}]}
        | {error, whittle_system:error()}.
read_all(System) ->
    read_all(whittle_system:modules(System), []).

%% @doc What a function finds in each module of a system, which is checked before, on all
%% schedulers: see {@link whittle_each:map/2}.
-spec each(fun((module(), whittle_beam:beam()) -> Result), whittle_system:system()) ->
          {ok, [{module(), Result}]} | {error, whittle_system:error()}.
each(Fun, System) ->
    Found = whittle_each:map(
              fun({App, Module, Bytes}) ->
                      case checked(App, Module, Bytes) of
                          {ok, Beam} -> {ok, {Module, Fun(Module, Beam)}};
                          {error, _} = Error -> Error
                      end
              end, whittle_system:modules(System)),
    case [Error || {error, _} = Error <- Found] of
        [Error | _] -> Error;
        [] -> {ok, [Of || {ok, Of} <- Found]}
    end.

%% @doc Replaces each module by what {@link whittle_beam:strip/2} makes of it.
-spec rewrite([{whittle_system:app_name(), module(), whittle_beam:beam()}],
              whittle_beam:strip_options(), whittle_system:system()) ->
          whittle_system:system().
rewrite(Beams, Options, System) ->
    Small = maps:from_list([{Module, whittle_beam:strip(Options, Beam)}
                            || {_, Module, Beam} <- Beams]),
    lists:foldl(fun(#{modules := Modules} = App, Now) ->
                        Names = maps:keys(Modules),
                        whittle_system:put_app(App#{modules := maps:with(Names, Small)}, Now)
                end, System, whittle_system:apps(System)).

%% Internal

read_all([{App, Module, Bytes} | Rest], Read) ->
    case checked(App, Module, Bytes) of
        {ok, Beam} -> read_all(Rest, [{App, Module, Beam} | Read]);
        {error, _} = Error -> Error
    end;
read_all([], Read) ->
    {ok, lists:reverse(Read)}.

checked(App, Module, Bytes) ->
    case whittle_beam:read(Bytes) of
        {ok, _} = Read -> Read;
        {error, Error} -> {error, {bad_beam, {module_name(App, Module), Error}}}
    end.

module_name(App, Module) -> io_lib:format("module ~ts of ~ts", [Module, App]).

readers(#{attributes := keep}, _, _) -> asked_for;
readers(_, Beams, System) ->
    Otp = [Name || #{name := Name, origin := #{kind := otp}} <- whittle_system:apps(System)],
    lists:uniq([Module || {App, Part, Beam} <- Beams, Module <- [whole(Part)],
                          not lists:member(Module, reads_files()),
                          whittle_beam:mentions(attributes, Beam)
                              orelse (not (lists:member(App, Otp) orelse whittle_otp:is_otp(App))
                                      andalso calls_beam_lib(Beam))]).

whole(Module) ->
    case whittle_system:companion_of(Module) of
        {ok, Whole} -> Whole;
        none -> Module
    end.

calls_beam_lib(Beam) ->
    lists:any(fun({Module, _, _}) -> Module =:= beam_lib end, whittle_beam:imports(Beam)).

%% Modules of OTP that hold the atom and read attributes of modules that others
%% name to them, which counts against those others, or of files.
reads_files() ->
    [beam_lib,                  % the reader itself: its callers count
     compile, v3_kernel, sys_pre_attributes, % the compiler's own forms
     beam_disasm].

note([], System) -> System;
note(asked_for, System) ->
    whittle_system:note("module attributes are kept, as asked for", System);
note(Readers, System) ->
    Shown = lists:sublist(Readers, 5),
    More = length(Readers) - length(Shown),
    whittle_system:note(["module attributes are kept: ",
                         lists:join(", ", [atom_to_list(M) || M <- Shown]),
                         [io_lib:format(" and ~w more", [More]) || More > 0],
                         " may read them"], System).
