%% @hidden Describes the artifacts of a VM that has only the parts which one program needs.
%%
%% {@link objects/1} describes the objects that all programs share, {@link vm/2} the VM of one
%% program. {@link whittle_runtime_build} builds them.
-module(whittle_runtime_relink).

-export([objects/1, vm/2]).

-type given() ::
        #{target := whittle_target:target(), how := whittle_recipe_vm:how(),
          spec := whittle_runtime:spec(), erts := file:filename(), level := [string()],
          listed := [string()], _ => _}.

%% Directories of ERTS whose C code may name BIFs.
-define(SOURCES, ["beam", "nifs", "sys", "drivers"]).

%% @doc Returns the keys of the job that makes the objects.
-spec objects(given()) -> map().
objects(#{target := Target, how := How, erts := Erts, level := Level, listed := Listed,
          spec := #{otp := Release, flavor := Flavor, natives := Natives}}) ->
    #{name := For} = Target,
    Title = string:join([atom_to_list(Flavor) | Level], "-"),
    #{name => string:join(["objects-" ++ Release, For, Title | Listed], "-"),
      task => "objects of the VM for " ++ For ++ ", flavor " ++ Title,
      recipe => whittle_recipe_relink:parts(Target, {Release, How}, Natives,
                                            whittle_recipe_vm:link_flags(Target, How)),
      describe => fun(_) -> {ok, #{named => named(Erts)}} end, verify => []}.

%% @doc Returns the keys of the job that links the VM of one program, the parts that this VM does
%% without, and the components of other projects that it lacks (`priv/components.config').
-spec vm(given(), Objects :: #{dir := file:filename(), named := whittle_runtime_tables:named(),
                               _ => _}) ->
          {map(), whittle_runtime:without(), Lacks :: [string()]}.
vm(#{target := Target, erts := Erts, level := Level,
     spec := #{otp := Release, flavor := Flavor, natives := Natives, cut := Cut}},
   #{dir := Objects, named := Named}) ->
    #{name := For} = Target,
    #{functions := Functions, libraries := Libraries, programs := Programs,
      preloaded := Preloaded} = Cut,
    #{table := Table} = Texts = texts(Erts),
    Bifs = whittle_runtime_tables:bifs(Texts),
    Kept = whittle_runtime_tables:kept(Bifs, Named, Functions),
    {Preload, Bytes} = whittle_runtime_tables:preload(generated("preload.c", Erts), Preloaded),
    Drivers = read(filename:join([Objects, "natives", "driver_tab.c"])),
    Title = string:join([atom_to_list(Flavor) | Level], "-"),
    {#{name => string:join(["runtime-" ++ Release, For, Title, "program"], "-"),
       task => "VM of this program for " ++ For,
       recipe => whittle_recipe_relink:relink(Target, Flavor, Natives,
                                               Libraries ++ Programs),
       files => #{"bif_table.c" => text(whittle_runtime_tables:bif_table(Table, Bifs, Kept)),
                  "preload.c" => text(Preload),
                  "preloaded" => Bytes,
                  "driver_tab.c" =>
                      text(whittle_runtime_tables:driver_table(Drivers, Libraries))}},
     #{bifs => lists:sort([Name || #{name := Name} <- Bifs, not is_map_key(Name, Kept)]),
       libraries => [Library || Library <- lists:sort(Libraries),
                                Library =:= "terminfo"
                                    orelse whittle_runtime_tables:has_library(Library, Drivers)],
       programs => lists:sort(Programs),
       preloaded => lists:sort([M || M <- whittle_runtime_tables:preloaded(
                                            generated("preload.c", Erts)),
                                     not is_map_key(M, Preloaded)])},
     ["ncurses" || lists:member("terminfo", Libraries)]
     ++ ["pcre2" || not whittle_runtime_tables:has_regexps(Kept)]}.

%% Internal

named(Erts) ->
    Root = filename:join([Erts, "erts", "emulator"]),
    Files = [File || Part <- ?SOURCES,
                     File <- filelib:wildcard("**/*.{c,h,tab}", filename:join(Root, Part)),
                     %% The interpreter has no code of the JIT. These tables list all BIFs.
                     string:find(File, "jit/") =:= nomatch,
                     not lists:member(File, ["erl_bif_lists.c", "bif.tab"]),
                     filelib:is_regular(filename:join([Root, Part, File]))],
    whittle_runtime_tables:named(
      [{File, read(Path)} || File <- Files, Part <- ?SOURCES,
                             Path <- [filename:join([Root, Part, File])],
                             filelib:is_regular(Path)], texts(Erts)).

texts(Erts) ->
    #{table => generated("erl_bif_table.c", Erts), header => generated("erl_atom_table.h", Erts),
      atoms => generated("erl_atom_table.c", Erts)}.

generated(Name, Erts) ->
    [File] = filelib:wildcard("erts/emulator/*/opt/*/" ++ Name, Erts),
    read(filename:join(Erts, File)).

%% The files belong to artifacts, which the cache has verified.
read(File) ->
    {ok, Bytes} = file:read_file(File),
    Bytes.

text(Data) -> iolist_to_binary(Data).
