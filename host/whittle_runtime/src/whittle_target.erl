%% @hidden Targets: what a runtime can be built for, each described by one file.
%%
%% A description is `priv/targets/NAME.config', a file of `{Key, Value}.' terms
%% whose keys are those of {@link target()}. Nothing outside the descriptions
%% knows the name of a processor: to add a target is to add a file.
-module(whittle_target).

-export([all/0, load/1, for_flavour/2]).

-export_type([target/0, library/0]).

-type target() ::
        #{name := string(),             % the file's name
          summary := string(),          % one line for a person
          cpu := string(),              % which processors run it, for a person
          triple := string(),           % OTP's --host, as config.sub takes it
          word_size := 32 | 64,         % bits
          endian := little | big,
          float := hard | softfp | soft,% soft: no instruction of an FPU is used;
                                        % softfp: some are, numbers are passed as
                                        % without
          page_size := pos_integer(),   % largest page of its kernels, in bytes
          cc := string(),               % commands, each words that sh expands and
          cxx := string(),              % splits: "gcc -march=..."
          cxx_libs := string(),         % what C++ is linked with; "" for both: there
                                        % is none
          ar := string(),
          ranlib := string(),
          strip := string(),
          objcopy := string(),
          libc := string(),             % musl's name of the target, where musl is built
                                        % from source; "" if cc brings it
          soft_float := string(),       % the processor's directory in libgcc, where
                                        % floats are computed by functions that the
                                        % compiler's own libgcc lacks; ""
          kernel_headers := [string()], % directories of Linux's headers, which sh
                                        % expands; [] if the compiler finds them
          cflags := [string()],         % what the processor needs
          ldflags := [string()],
          configure := [string()],      % further arguments for OTP's configure
          openssl := string(),          % the name in OpenSSL's Configure
          flavours := [size | speed],
          emulator := [string()],       % words that run it here, of which the last is
                                        % the emulator; [] if this machine does
          identify := [string()],       % commands whose output names compiler
                                        % and C library; part of the cache's key
          packages := [string()],       % Debian packages that bring them
          libraries := [library()],     % what the compiler links in
          notes := [string()]}.         % what a user should know

-type library() ::
        #{name := string(),
          license := string(),          % an SPDX expression
          copyright := string(),
          homepage := string(),
          version := string(),          % a command for sh that prints it
          notices := [string()],        % file names, which sh expands: "gcc-$(gcc
                                        % -dumpversion)"; taken where they exist
          flavours => [size | speed]}.  % that it is linked into (default: all)

%% @doc All targets, ordered by name.
-spec all() -> [target()].
all() ->
    Files = filelib:wildcard(filename:join(directory(), "*.config")),
    [read(File) || File <- lists:sort(Files)].

%% @doc One target. `unknown_target' tells the names there are.
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

%% @doc A target as one flavour sees it: with only the libraries that are linked into
%% that. What is added for the one does not change what the other is built from.
-spec for_flavour(target(), size | speed) -> target().
for_flavour(Target = #{libraries := Libraries}, Flavour) ->
    Target#{libraries := [maps:remove(flavours, Library)
                          || Library <- Libraries,
                             lists:member(Flavour, maps:get(flavours, Library, [Flavour]))]}.

%% A description is part of the program: a wrong one is misuse.
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
     flavours, emulator, identify, packages, libraries, notes].

directory() ->
    filename:join(code:priv_dir(whittle_runtime), "targets").
