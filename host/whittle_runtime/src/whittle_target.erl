%% @hidden Reads the descriptions of targets. Each target has one file.
%%
%% A description is `priv/targets/NAME.config', a file of `{Key, Value}.' terms. The keys are
%% those of {@link target()}. No other code knows the name of a processor: to add a target, add
%% a file.
-module(whittle_target).

-export([all/0, load/1, for_flavor/2, emulator/1]).

-export_type([target/0, library/0]).

-type target() ::
        #{name := string(),             % the file's name
          summary := string(),          % one line for a person
          cpu := string(),              % the processors that run it, for a person
          triple := string(),           % OTP's --host, in the form of config.sub
          word_size := 32 | 64,         % bits
          endian := little | big,
          float := hard | softfp | soft,% soft: no FPU instructions;
                                        % softfp: FPU instructions, but functions pass
                                        % numbers as with soft
          page_size := pos_integer(),   % the largest page of its kernels, in bytes
          cc := string(),               % a command; sh expands and splits it:
          cxx := string(),              % "gcc -march=..."
          cxx_libs := string(),         % libraries to link for C++; cxx and cxx_libs
                                        % are "" if there is no C++ compiler
          ar := string(),
          ranlib := string(),
          strip := string(),
          objcopy := string(),
          libc := string(),             % musl's name of the target if Whittle builds
                                        % musl; "" if cc has the C library
          soft_float := string(),       % the processor's directory in libgcc if the
                                        % compiler's libgcc lacks floating-point
                                        % functions; else ""
          kernel_headers := [string()], % directories of Linux's headers, which sh
                                        % expands; [] if the compiler finds them
          cflags := [string()],         % flags for the processor
          ldflags := [string()],
          configure := [string()],      % additional arguments for OTP's configure
          openssl := string(),          % the target's name in OpenSSL's Configure
          flavors := [size | speed],
          emulator := [string()],       % the command that runs its programs here; the
                                        % last word is the emulator; [] if none is needed
          identify := [string()],       % commands; the first line that each prints tells
                                        % the version of compiler or C library, for the
                                        % cache key
          packages := [string()],       % Debian packages with compiler and C library
          libraries := [library()],     % libraries that the compiler links in
          notes := [string()]}.         % notes for a user

-type library() ::
        #{name := string(),
          license := string(),          % an SPDX expression
          copyright := string(),
          homepage := string(),
          version := string(),          % a command for sh that prints it
          notices := [string()],        % file names, which sh expands: "gcc-$(gcc
                                        % -dumpversion)"; files may be missing
          flavors => [size | speed]}.  % flavors that contain it (default: all)

%% @doc Lists all targets, ordered by name.
-spec all() -> [target()].
all() ->
    Files = filelib:wildcard(filename:join(directory(), "*.config")),
    [read(File) || File <- lists:sort(Files)].

%% @doc Reads one target. The error `unknown_target' lists the known names.
-spec load(string()) -> {ok, target()} | {error, {unknown_target, map()}}.
load(Name) ->
    Targets = all(),
    case [T || T = #{name := N} <- Targets, N =:= Name] of
        [Target] ->
            {ok, Target};
        [] ->
            Known = [N || #{name := N} <- Targets],
            {error, {unknown_target, #{target => Name, known => Known}}}
    end.

%% @doc Restricts a target to the libraries that one flavor contains.
%%
%% So a new library for one flavor does not change the cache key of the other.
-spec for_flavor(target(), size | speed) -> target().
for_flavor(Target = #{libraries := Libraries}, Flavor) ->
    Target#{libraries := [maps:remove(flavors, Library)
                          || Library <- Libraries,
                             lists:member(Flavor, maps:get(flavors, Library, [Flavor]))]}.

%% @doc Returns the command that runs the target's programs on this machine, as {@link
%% whittle_runtime:emulator/1} describes.
-spec emulator(target()) ->
          {ok, [string()]} | {error, {no_emulator, #{target := string(), program := string()}}}.
emulator(#{emulator := []}) ->
    {ok, []};
emulator(#{name := Name, emulator := Words}) ->
    Program = lists:last(Words),
    case os:find_executable(Program) of
        false -> {error, {no_emulator, #{target => Name, program => Program}}};
        %% PATH may contain relative directories, and the launcher takes an absolute path only.
        Path -> {ok, ["env", "WHITTLE_EMULATOR=" ++ filename:absname(Path) | Words]}
    end.

%% Reads a description. It is part of Whittle, so a mistake in it is a bug and crashes.
read(File) ->
    {ok, Terms} = file:consult(File),
    Target = maps:from_list(Terms),
    Missing = keys() -- maps:keys(Target),
    Unknown = maps:keys(Target) -- keys(),
    Missing =:= [] andalso Unknown =:= []
        orelse error({bad_target, File, #{missing => Missing, unknown => Unknown}}),
    Target#{name => filename:basename(File, ".config")}.

keys() ->
    [summary, cpu, triple, word_size, endian, float, page_size, cc, cxx, cxx_libs, ar, ranlib,
     strip, objcopy, libc, soft_float, kernel_headers, cflags, ldflags, configure, openssl,
     flavors, emulator, identify, packages, libraries, notes].

directory() ->
    filename:join(code:priv_dir(whittle_runtime), "targets").
