%% @hidden Builds the artifacts of `whittle_runtime' from sources, recipes and the cache.
%%
%% The key of an artifact contains all that can influence its bytes: the checksums of the source,
%% the recipe, the target's description, the content of patches and launcher, the keys of the
%% artifacts that it uses, and the compiler's version.
-module(whittle_runtime_build).

-import(whittle_runtime_job, [build/2]).
-import(whittle_work, [steps/1]).

-export([check/2, patches_apply/2, otp/2, has_otp/2, runtime/2, vm_bytes/2, suites/2, artifact/2,
         levels/0]).

%% NIFs of OTP. A specification contains the sources of other NIFs.
-define(NATIVES, [crypto, asn1]).
%% The levels of optimization. `mix' is the flavor's own.
-define(LEVELS, [mix, o2, o3, os, oz, unprofiled, record]).
%% The OpenSSL release for crypto, in priv/sources.config.
-define(OPENSSL, "3.0").

%% Host programs that every build uses, each with its Debian package.
-define(TOOLS, [{"gcc", "gcc"}, {"make", "make"}, {"perl", "perl"},
                {"patch", "patch"}, {"tar", "tar"}, {"xz", "xz-utils"},
                {"tic", "ncurses-bin"}, {"infocmp", "ncurses-bin"}]).

%% @doc Implements {@link whittle_runtime:levels/0}.
-spec levels() -> [mix | whittle_runtime:level(), ...].
levels() -> ?LEVELS.

%% @doc Implements {@link whittle_runtime:otp/2}.
-spec otp(string(), whittle_runtime:options()) ->
          {ok, whittle_runtime:otp()} | {error, whittle_runtime:reason()}.
otp(Release, Options) ->
    steps([fun(_) -> tools([{"g++", "g++"} | ?TOOLS]) end,
           fun(_) -> whittle_source:find(erlang, Release, Options) end,
           fun(Source) -> otp_of(Source, Release, Options) end]).

%% @doc Implements {@link whittle_runtime:has_otp/2}.
-spec has_otp(string(), whittle_runtime:options()) -> boolean().
has_otp(Release, Options) ->
    case whittle_source:at_hand(erlang, Release, Options) of
        {ok, Source} ->
            Job = #{name := Name} = otp_job(Source, Release),
            case whittle_runtime_job:key(Job) of
                {ok, Key} -> whittle_cache:is_kept(Name, Key, Options);
                {error, _} -> false
            end;
        none -> false
    end.

otp_job(Source = #{vsn := Vsn}, Release) ->
    #{name => "otp-" ++ Release,
      task => "OTP " ++ Vsn ++ " for this machine",
      recipe => whittle_recipe_otp:recipe(Source),
      source => Source, inputs => #{},
      identify => ["gcc --version", "g++ --version", "uname -m"],
      variables => [], verify => [],
      describe => fun(Out) -> {ok, whittle_recipe_otp:describe(Out, Release)} end}.

otp_of(Source, Release, Options) ->
    case build(otp_job(Source, Release), Options) of
        {ok, Otp = #{dir := Dir}} ->
            {ok, Otp#{root => Dir, lib => filename:join(Dir, "lib"),
                      stock_programs => whittle_recipe_otp:stock_programs(Dir)}};
        Error ->
            Error
    end.

%% @doc Implements {@link whittle_runtime:suites/2}.
-spec suites(string(), whittle_runtime:options()) ->
          {ok, whittle_runtime:suites()} | {error, whittle_runtime:reason()}.
suites(Release, Options) ->
    steps([fun(_) -> otp(Release, Options) end,
           fun(Otp) ->
                   steps([fun(_) -> whittle_source:find(erlang, Release, Options) end,
                          fun(Source) -> suites_of(Source, Otp, Options) end])
           end]).

suites_of(Source = #{vsn := Vsn}, #{otp := Release, root := Root, id := Id}, Options) ->
    build(#{name => "suites-" ++ Release,
            task => "test suites of OTP " ++ Vsn,
            recipe => whittle_recipe_suites:recipe(Source),
            source => Source, inputs => #{otp => Id}, identify => [],
            variables => [{"OTP", Root}], verify => [],
            describe => fun(_) -> {ok, #{otp => Release, vsn => Vsn,
                                         apps => whittle_recipe_suites:apps()}}
                        end}, Options).

%% @doc Implements {@link whittle_runtime:artifact/2}.
-spec artifact(whittle_runtime:job(), whittle_runtime:options()) ->
          {ok, #{dir := file:filename(), id := string(), vsn := string()}}
        | {error, whittle_runtime:reason()}.
artifact(#{target := Name, tools := Tools} = Job, Options) ->
    steps([fun(_) -> whittle_target:load(Name) end,
           fun(Target) -> tools(Target, Tools ++ [Tool || {Name1, _} = Tool <- ?TOOLS,
                                                          lists:member(Name1, ["make", "tar",
                                                                               "xz", "gcc"])]) end,
           fun(Target) -> whole_artifact(Job, Target, Options) end]).

whole_artifact(#{source := {Component, Release}} = Job, Target, Options) ->
    steps([fun(_) -> whittle_source:find(Component, Release, Options) end,
           fun(#{vsn := Vsn} = Source) ->
                   whole_artifact((maps:remove(source, Job))#{from => Source}, Vsn, Target,
                                  Options)
           end]);
whole_artifact(Job, Target, Options) ->
    whole_artifact(Job, "", Target, Options).

whole_artifact(#{name := Name, task := Task, recipe := Recipe, files := Files} = Job, Vsn,
               #{identify := Identify}, Options) ->
    Source = maps:from_list([{source, From} || #{from := From} <- [Job]]),
    build(Source#{name => Name, task => Task, recipe => Recipe, files => Files,
                  inputs => #{files => digests(Files)},
                  identify => Identify, variables => [], verify => [],
                  describe => fun(_) -> {ok, #{vsn => Vsn}} end}, Options).

%% @doc Implements {@link whittle_runtime:check/2}.
-spec check(whittle_runtime:spec(), whittle_runtime:options()) ->
          ok | {error, whittle_runtime:reason()}.
check(#{natives := Natives} = Spec, Options) ->
    case target(Spec#{natives := lists:usort(Natives)}, Options) of
        {ok, _} -> ok;
        {error, _} = Error -> Error
    end.

%% @doc Implements {@link whittle_runtime:patches_apply/2}.
-spec patches_apply(whittle_runtime:given(), whittle_runtime:options()) ->
          ok | {error, whittle_runtime:reason()}.
patches_apply(#{file := File, vsn := Vsn} = Given, Options) ->
    case whittle_patches:unfit(filename:join(native(Options), "patches"), Given, File) of
        {ok, []} -> ok;
        {ok, Misfits} ->
            Patches = lists:usort([Patch || #{patch := Patch} <- Misfits]),
            Lines = [unicode:characters_to_binary([Patch, ": ", Place, ": ", Why])
                     || #{patch := Patch, file := Place, why := Why} <- Misfits],
            {error, {unfit_patches, #{otp => Vsn, patches => length(Patches), tail => Lines}}};
        {error, _} = Error -> Error
    end.

%% @doc Implements {@link whittle_runtime:ensure/2}.
-spec runtime(whittle_runtime:spec(), whittle_runtime:options()) ->
          {ok, whittle_runtime:runtime()} | {error, whittle_runtime:reason()}.
runtime(Spec, Options) -> linked(Spec, fun executable/2, Options).

%% @doc Implements {@link whittle_runtime:vm_bytes/2}.
-spec vm_bytes(whittle_runtime:spec(), whittle_runtime:options()) ->
          {ok, pos_integer()} | {error, whittle_runtime:reason()}.
vm_bytes(#{cut := _} = Spec, Options) -> linked(Spec, fun weighed/2, Options).

%% Builds the parts of a VM, and calls the function with the job that links them.
linked(Spec0, Link, Options) ->
    Spec = Spec0#{natives := lists:usort(maps:get(natives, Spec0))},
    steps([fun(_) -> target(Spec, Options) end,
           fun(Target) -> tools(Target, ?TOOLS) end,
           fun(Target) -> how(Target, Spec, Options) end,
           fun({Target, How}) -> libraries(Target, How, Spec, Options) end,
           fun({Target, How, Parts}) -> job(Target, How, Spec, Parts, Options) end,
           fun(Job) -> Link(Job, Options) end]).

%% Chooses the profile of a flavor's own mix.
how(Target, #{otp := Release, flavor := Flavor} = Spec, Options) ->
    Level = level(Spec),
    Found = case {Flavor, Level} of
                {size, mix} -> whittle_profile:for(profiles(Options), Release, Target);
                _ -> {ok, none}
            end,
    case Found of
        {ok, Profile} -> {ok, {Target, {Flavor, Level, Profile}}};
        Error -> Error
    end.

name(none) -> none;
name({Profile, _Digest}) -> Profile.

profiles(Options) -> filename:join(native(Options), "profiles").

target(#{target := Name, otp := Release, flavor := Flavor, natives := Natives} = Spec, Options) ->
    steps([fun(_) -> whittle_source:supported(erlang, Release, Options) end,
           fun(_) -> is_level(level(Spec)) end,
           fun(_) -> whittle_target:load(Name) end,
           fun(Target) -> fits(Target, Flavor, Release, Natives) end,
           fun(Target) -> can_cut(Spec, Target) end]).

%% The tables of whittle_shake_vm are those of OTP 29. The recipe of the objects was tried with the
%% interpreter and its own mix of levels only.
can_cut(#{cut := _} = Spec, Target) ->
    case {Spec, level(Spec), maps:get(linkage, Spec, static)} of
        {#{otp := "29", flavor := size}, mix, static} -> {ok, Target};
        _ -> {error, {no_cut, #{}}}
    end;
can_cut(_, Target) -> {ok, Target}.

level(Spec) -> maps:get(optimize, Spec, mix).

is_level(Level) ->
    case lists:member(Level, ?LEVELS) of
        true -> ok;
        false -> {error, {unsupported_level, #{level => Level, known => ?LEVELS}}}
    end.

fits(Target = #{flavors := Flavors, name := Name}, Flavor, Release, Natives) ->
    Unknown = [N || N <- Natives, is_atom(N)] -- ?NATIVES,
    case {lists:member(Flavor, Flavors), Unknown} of
        {false, _} ->
            {error, {unsupported_flavor, #{flavor => Flavor, target => Name,
                                            known => Flavors}}};
        {true, [Native | _]} ->
            {error, {unsupported_native, #{native => Native, known => ?NATIVES}}};
        {true, []} ->
            Brought = [N || #{} = N <- Natives],
            case [Error || Native <- Brought,
                           {error, _} = Error <- [fits(Target, Native),
                                                  check_name(Native, Brought, Release)]] of
                [] -> {ok, whittle_target:for_flavor(Target, Flavor)};
                [Error | _] -> Error
            end
    end.

fits(#{name := For, cxx := Cxx}, #{name := Name, archives := Archives} = Native) ->
    IsThere = Archives =:= #{} orelse whittle_recipe_native:archive(For, Native) =/= none,
    case whittle_recipe_native:is_cxx(Native) andalso Cxx =:= "" of
        true -> {error, {no_cxx, #{native => Name, target => For}}};
        false when not IsThere ->
            {error, {no_archive, #{native => Name, target => For, known => maps:keys(Archives)}}};
        false -> ok
    end.

%%% The libraries of a runtime. Each is an artifact: soft_float, libc, terminfo, erts, crypto,
%%% zstd. A library comes before the libraries that use it.

libraries(Target, How, #{otp := Release, flavor := Flavor, natives := Natives}, Options) ->
    #{libc := Libc, soft_float := SoftFloat} = Target,
    {OfOtp, Brought} = lists:partition(fun is_atom/1, Natives),
    Wanted = [{soft_float, gcc, newest(gcc)} || SoftFloat =/= ""]
        ++ [{libc, musl, newest(musl)} || Libc =/= ""]
        ++ [{terminfo, ncurses, newest(ncurses)}, {erts, erlang, Release}]
        ++ [{openssl(Brought), openssl, ?OPENSSL}
            || whittle_recipe_vm:needs_openssl(OfOtp, Brought)]
        ++ [{zstd, erlang, newest(erlang)} || not whittle_recipe_vm:has_zstd(Release)],
    steps([fun(_) -> libraries(Wanted, Target, How, #{}, Options) end,
           fun(Parts) -> brought(Brought, Target, Flavor, Parts, Options) end,
           fun(Parts) -> {ok, {Target, How, Parts}} end]).

%% The VM contains one libcrypto. It comes with libssl if a native needs that.
openssl(Brought) ->
    case whittle_recipe_vm:needs_ssl(Brought) of
        true -> ssl;
        false -> crypto
    end.

%% The NIFs of ERTS in OTP 25 to 29 (`STATIC_NIF_LIBS' of erts/emulator/Makefile.in)
-define(OF_ERTS, ["erl_tracer", "prim_buffer", "prim_file", "prim_net", "prim_socket", "prim_tty",
                  "zlib", "zstd"]).

%% Checks a native's name. Two libraries of one name cannot be linked, nor a library with a name
%% of OTP's. OTP before 28 finds a linked NIF by the name of its module.
check_name(#{name := Name, kind := Kind, module := Module}, Brought, Release) ->
    Twice = length([Name || #{name := N} <- Brought, N =:= Name]) > 1
        orelse lists:member(Name, ["crypto", "asn1", "asn1rt_nif" | ?OF_ERTS]),
    case Kind =:= nif andalso list_to_integer(Release) < 28 andalso list_to_atom(Name) =/= Module of
        _ when Twice -> {error, {native_twice, #{native => Name}}};
        true -> {error, {native_by_module, #{native => Name, module => Module, otp => Release}}};
        false -> ok
    end.

%% Builds the natives of the applications.
brought([], _Target, _Flavor, Parts, _Options) ->
    {ok, Parts};
brought([#{name := Name} = Native | Natives], Target, Flavor, Parts, Options) ->
    #{erts := #{dir := Erts, id := Id, vsn := Vsn}} = Parts,
    #{name := For, identify := Identify} = Target,
    Openssl = [Built || whittle_recipe_native:needs_openssl(Native),
                        #{crypto := Built} <- [Parts]],
    Job = #{name => string:join(["native", Name, For, atom_to_list(Flavor)], "-"),
            task => Name ++ " for " ++ For,
            recipe => whittle_recipe_native:recipe(Target, Flavor, Native),
            identify => Identify,
            inputs => maps:merge((toolchain_ids(Parts))#{erts => Id, native => essence(Native)},
                                 maps:from_list([{openssl, O} || #{id := O} <- Openssl])),
            files => native_files(For, Native),
            variables => [{"ERTS", Erts} | toolchain_variables(Parts)]
                ++ [{"OPENSSL", Dir} || #{dir := Dir} <- Openssl],
            describe => fun(_) -> {ok, #{vsn => Vsn}} end},
    case build(Job, Options) of
        {ok, Built} ->
            brought(Natives, Target, Flavor, Parts#{{native, Name} => Built}, Options);
        Error ->
            Error
    end.

%% Returns all inputs of a native's compilation; checksums stand for file contents.
essence(#{files := Files, archives := Archives} = Native) ->
    maps:without([module, paths], Native#{files := digests(Files), archives := digests(Archives)}).

native_files(For, #{files := Files} = Native) ->
    Sources = maps:from_list([{filename:join("src", Path), Bytes}
                              || {Path, Bytes} <- maps:to_list(Files)]),
    case whittle_recipe_native:archive(For, Native) of
        {ok, Archive} -> Sources#{"archive.a" => Archive};
        none -> Sources
    end.

newest(Component) ->
    hd(whittle_source:releases(Component)).

libraries([], _Target, _How, Parts, _Options) ->
    {ok, Parts};
libraries([{Part, Component, Release} | Wanted], Target, {Flavor, _, _} = How, Parts, Options) ->
    %% The user's tarball is for the release of the VM, not for zstd's source.
    Sources = case Part of
                  zstd -> maps:remove(sha256, Options#{source => none});
                  _ -> Options
              end,
    case steps([fun(_) -> whittle_source:find(Component, Release, Sources) end,
                fun(Source) when Part =:= erts -> erts(Source, Target, How, Parts, Options);
                   (Source) -> library(Part, Source, Target, Flavor, Parts, Options)
                end]) of
        {ok, Built} ->
            Key = case Part of ssl -> crypto; _ -> Part end,
            libraries(Wanted, Target, How, Parts#{Key => Built}, Options);
        Error ->
            Error
    end.

library(soft_float, Source, Target, Flavor, Parts, Options) ->
    built(#{name => "soft-float", part => "floats without an FPU",
            recipe => whittle_recipe_lib:soft_float(Target, Source),
            source => Source, inputs => #{}, variables => []},
          Target, Flavor, Parts, Options);
library(libc, Source = #{vsn := Vsn}, Target, Flavor, Parts, Options) ->
    built(#{name => "musl", part => "musl " ++ Vsn,
            recipe => whittle_recipe_lib:libc(Target, Source),
            source => Source, inputs => #{}, variables => []},
          Target, Flavor, Parts, Options);
library(terminfo, Source = #{vsn := Vsn}, Target, Flavor, Parts, Options) ->
    built(#{name => "terminfo", part => "ncurses " ++ Vsn,
            recipe => whittle_recipe_lib:terminfo(Target, Flavor, Source),
            source => Source, inputs => #{}, variables => []},
          Target, Flavor, Parts, Options);
library(Part, Source = #{vsn := Vsn}, Target, Flavor, Parts, Options)
  when Part =:= crypto; Part =:= ssl ->
    {Name, Title} = case Part of
                        crypto -> {"openssl", "OpenSSL "};
                        ssl -> {"openssl-ssl", "OpenSSL with libssl "}
                    end,
    built(#{name => Name, part => Title ++ Vsn,
            recipe => whittle_recipe_lib:openssl(Target, Flavor, Source, Part),
            source => Source, inputs => #{}, variables => []},
          Target, Flavor, Parts, Options);
library(zstd, Source, Target, Flavor, Parts, Options) ->
    built(#{name => "zstd", part => "zstd",
            recipe => whittle_recipe_lib:zstd(Target, Flavor, Source),
            source => Source, inputs => #{}, variables => []},
          Target, Flavor, Parts, Options).

erts(#{release := Release, vsn := Vsn} = Source, Target, {Flavor, Level, Profile}, Parts,
     Options) ->
    #{terminfo := #{dir := Terminfo, id := TerminfoId}} = Parts,
    Patches = filename:join(native(Options), "patches"),
    case whittle_patches:for(Patches, Release) of
        {ok, Fitting} ->
            Recipe = whittle_recipe_vm:erts(Target, {Flavor, Level, name(Profile)}, Source,
                                            [P || {P, _} <- Fitting]),
            Built = built(#{name => "erts-" ++ Release, part => "ERTS of OTP " ++ Vsn,
                            level => named(Level),
                            recipe => Recipe, source => Source,
                            inputs => maps:merge(#{patches => Fitting, terminfo => TerminfoId},
                                                 maps:from_list([{profile, Profile}
                                                                 || Profile =/= none])),
                            variables => [{"PATCHES", Patches}, {"TERMINFO_LIB", Terminfo}]
                                ++ [{"PROFILES", profiles(Options)} || Profile =/= none]},
                          Target, Flavor, Parts, Options),
            input_error(Built, Vsn);
        Error ->
            Error
    end.

%% Gives a patch that does not apply, and a damaged profile, an error of its own.
input_error({error, {step_failed, #{step := "patch " ++ Patch, log := Log, tail := Tail}}}, Vsn) ->
    {error, {bad_patch, #{patch => Patch, otp => Vsn, log => Log, tail => Tail}}};
input_error({error, {step_failed, #{step := "profile " ++ Name, log := Log, tail := Tail}}}, _) ->
    {error, {bad_profile, #{profile => Name, log => Log, tail => Tail}}};
input_error(Result, _) ->
    Result.

built(Given = #{name := Name, part := Part, source := #{vsn := Vsn}, inputs := Inputs,
                variables := Variables}, Target, Flavor, Parts, Options) ->
    #{name := For, identify := Identify} = Target,
    Level = maps:get(level, Given, []),
    Job = maps:without([part, level], Given),
    Flavored = atom_to_list(Flavor),
    build(Job#{name := string:join([Name, For, Flavored | Level], "-"),
               inputs := maps:merge(Inputs, toolchain_ids(Parts)),
               variables := Variables ++ toolchain_variables(Parts),
               task => Part ++ " for " ++ For ++ ", flavor "
                   ++ string:join([Flavored | Level], ", "),
               identify => Identify,
               check => fun() -> whittle_components:check(Target) end,
               describe => fun(_) -> {ok, #{vsn => Vsn}} end}, Options).

%% Names the level of optimization for a person who looks into the cache, unless it is the flavor's.
named(Level) when Level =:= mix; Level =:= unprofiled -> [];
named(Level) -> [atom_to_list(Level)].

%% Returns the keys of the toolchain's artifacts that the compiler uses.
toolchain_ids(Parts) ->
    maps:map(fun(_, #{id := Id}) -> Id end, maps:with([soft_float, libc], Parts)).

toolchain_variables(Parts) ->
    [{"SOFT_FLOAT", Dir} || #{soft_float := #{dir := Dir}} <- [Parts]]
        ++ [{"LIBC", Dir} || #{libc := #{dir := Dir}} <- [Parts]].

%%% The executable

%% Returns the job that links a VM.
job(Target, {Flavor, Level, Profile}, Spec, #{erts := #{dir := Erts}} = Parts, Options) ->
    #{natives := Natives} = Spec,
    Names = [native_name(N) || N <- Natives],
    Given = #{target => Target, how => {Flavor, Level, name(Profile)},
              spec => maps:remove(cut, Spec), erts => Erts, level => named(Level),
              names => Names, listed => listed([atom_to_list(N) || N <- Names]),
              trees => maps:map(fun(_, #{dir := Dir}) -> Dir end, Parts),
              ids => maps:map(fun(_, #{id := Id}) -> Id end, Parts),
              versions => maps:map(fun(_, #{vsn := Vsn}) -> Vsn end, Parts),
              toolchain => toolchain_variables(Parts)},
    case Spec of
        #{cut := _} -> relinking(Given, Given#{spec := Spec}, Parts, Options);
        #{} -> {ok, whole(Given, Options)}
    end.

%% The job of a VM for one program links objects that all programs share.
relinking(Given, #{target := #{identify := Identify}, erts := Erts} = Cut, Parts, Options) ->
    steps([fun(_) ->
                   build(maps:merge(whole(Given, Options), whittle_runtime_relink:objects(Given)),
                         Options)
           end,
           fun(#{dir := Dir, id := Id} = Objects) ->
                   {#{files := Files} = Job, Without, Lacks} =
                       whittle_runtime_relink:vm(Cut, Objects),
                   {ok, Job#{inputs => (toolchain_ids(Parts))#{
                                         objects => Id, files => digests(Files),
                                         without => Without, lacks => Lacks,
                                         components => whittle_components:table()},
                             identify => Identify, verify => verified_always(),
                             variables => [{"ERTS", Erts}, {"PARTS", Dir}
                                           | toolchain_variables(Parts)],
                             describe => describe(Given, Lacks, #{without => Without})}}
           end]).

verified_always() -> ["vm" | whittle_recipe_vm:separate()].

digests(Files) ->
    maps:map(fun(_, Bytes) -> whittle_digest:bytes(Bytes) end, Files).

%% The job of a VM with all parts.
whole(#{target := Target, how := {Flavor, Level, _} = How, spec := Spec, erts := Erts,
        listed := Listed, trees := Trees, ids := Ids, toolchain := Toolchain} = Given, Options) ->
    #{name := Name, identify := Identify} = Target,
    #{otp := Release, natives := Natives} = Spec,
    Linkage = maps:get(linkage, Spec, static),
    Launcher = filename:join(native(Options), "launcher"),
    Cxx = filename:join(native(Options), "cxx"),
    #{name => string:join(["runtime-" ++ Release, Name,
                           atom_to_list(Flavor)
                           | named(Level) ++ Listed]
                          ++ [atom_to_list(Linkage) || Linkage =/= static],
                          "-"),
      task => "VM for " ++ Name ++ ", flavor "
          ++ string:join([atom_to_list(Flavor) | named(Level)], ", "),
      recipe => whittle_recipe_vm:link(Target, {Release, How}, Natives, Linkage),
      inputs => #{parts => Ids,
                  launcher => contents(Launcher),
                  cxx => case Flavor =:= speed orelse whittle_recipe_vm:needs_cxx(Natives) of
                             true -> contents(Cxx);
                             false -> none
                         end,
                  target => in_cache(maps:without([summary, cpu, notes, packages, identify],
                                                  Target)),
                  components => whittle_components:table()},
      identify => Identify,
      variables => [{"ERTS", Erts}, {"LAUNCHER", Launcher}, {"CXX_PARTS", Cxx}]
          ++ Toolchain
          ++ [{"TERMINFO_LIB", Dir} || #{terminfo := Dir} <- [Trees]]
          ++ [{"OPENSSL", Dir} || #{crypto := Dir} <- [Trees]]
          ++ [{"ZSTD", Dir} || #{zstd := Dir} <- [Trees]]
          ++ [{"NATIVE_" ++ N, Dir} || {{native, N}, Dir} <- maps:to_list(Trees)],
      describe => describe(Given, [], #{}), verify => verified_always()}.

describe(#{target := Target, how := {Flavor, _, _}, spec := Spec, erts := Erts, names := Names,
           trees := Trees, versions := Versions}, Lacks, More) ->
    fun(Out) ->
            Context = #{flavor => Flavor, target => Target, versions => Versions,
                        lacks => Lacks},
            case whittle_components:collect(Trees, Context, Out) of
                {ok, Components} ->
                    {ok, maps:merge((in_cache(Spec))#{natives := Names,
                                                      otp_vsn => maps:get(erts, Versions),
                                                      erts_vsn => erts_vsn(Erts),
                                                      components => Components}, More)};
                Error ->
                    Error
            end
    end.

executable(#{} = Job, Options) ->
    case build(Job, Options) of
        {ok, Built = #{dir := Dir, flavour := Flavor}} ->
            {ok, (maps:remove(flavour, Built))#{
                   flavor => Flavor,
                   executable => filename:join(Dir, "vm"),
                   symbols => filename:join(Dir, "vm.debug"),
                   programs => maps:from_list([{Program, filename:join(Dir, Program)}
                                               || Program <- whittle_recipe_vm:separate()])}};
        Error ->
            Error
    end.

%% Links a VM for its size only. The artifact has the size, and not the VM.
weighed(#{name := Name, recipe := Recipe} = Job, Options) ->
    Weighed = Job#{name := Name ++ "-bytes",
                   recipe := Recipe ++ whittle_recipe_relink:weigh(), verify := [],
                   describe := fun(Out) ->
                                       {ok, Text} = file:read_file(filename:join(Out, "bytes")),
                                       {ok, #{bytes => binary_to_integer(string:trim(Text))}}
                               end},
    %% This takes a second or two. A caller weighs many VMs, so it gets no progress of each.
    case build(Weighed, maps:remove(progress, Options)) of
        {ok, #{bytes := Bytes}} -> {ok, Bytes};
        {error, _} = Error -> Error
    end.

%% Spells the keys of a map as the cache spells them, because another spelling in an artifact's key
%% would build every VM again.
in_cache(Map) ->
    maps:from_list([{case Key of
                         flavor -> flavour;
                         flavors -> flavours;
                         _ -> Key
                     end, Value} || {Key, Value} <- maps:to_list(Map)]).

%% Names the natives for a person who looks into the cache. A file name has at most 255 bytes.
listed(Names) ->
    case length(lists:append(Names)) + length(Names) of
        Long when Long > 120 -> [integer_to_list(length(Names)) ++ "-natives"];
        _ -> Names
    end.

native_name(Native) when is_atom(Native) -> Native;
native_name(#{name := Name}) -> list_to_atom(Name).

erts_vsn(Erts) ->
    {ok, Text} = file:read_file(filename:join([Erts, "erts", "vsn.mk"])),
    {match, [Vsn]} = re:run(Text, "^VSN *= *([0-9.]+)",
                            [multiline, {capture, all_but_first, list}]),
    Vsn.

%% Reads the names and contents of a directory's files.
contents(Dir) ->
    {ok, Names} = file:list_dir(Dir),
    [{Name, element(2, {ok, _} = whittle_digest:file(File))}
     || Name <- lists:sort(Names),
        File <- [filename:join(Dir, Name)], filelib:is_regular(File)].

native(#{native := Dir}) -> filename:absname(Dir);
%% rebar3 links priv to the source tree, so native/ of the project lies above it.
native(_) -> filename:absname(filename:join(code:priv_dir(whittle_runtime), "../../../native")).

tools(Target, Tools) ->
    #{cc := Cc, ar := Ar, ranlib := Ranlib, strip := Strip, objcopy := Objcopy,
      kernel_headers := Headers, packages := Packages} = Target,
    Own = [hd(string:lexemes(C, " ")) || C <- [Cc, Ar, Ranlib, Strip, Objcopy]],
    Absent = [T || T <- lists:usort(Own), os:find_executable(T) =:= false]
        %% Only sh knows the paths that contain a `$'.
        ++ [D || D <- Headers, not lists:member($$, D), not filelib:is_dir(D)],
    case {Absent, tools(Tools)} of
        {[], ok} ->
            {ok, Target};
        {[], Error} ->
            Error;
        {Missing, _} ->
            {error, {no_compiler, #{missing => Missing, packages => Packages}}}
    end.

tools(Tools) ->
    case [{T, P} || {T, P} <- Tools, os:find_executable(T) =:= false] of
        [] ->
            ok;
        Missing ->
            {Names, Packages} = lists:unzip(Missing),
            {error, {no_compiler, #{missing => Names, packages => Packages}}}
    end.
