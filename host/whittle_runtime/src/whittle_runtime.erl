%% @doc Builds the VM for a target from source, and keeps what it built.
%%
%% Three things come out of here. A <em>runtime</em> is one static executable
%% without an application: ERTS, Whittle's launcher and the static NIFs that
%% were asked for. An <em>OTP</em> is the same release installed on this machine
%% as usual: its applications are read for the pack, and it is the baseline
%% of every figure. <em>Suites</em> are OTP's own, compiled.
%%
%% How they are made is written in docs/runtime.md.
-module(whittle_runtime).

%% What the other rooms call
-export([ensure/2, otp/2, has_otp/2, otp_libs/1, suites/2, targets/0, default_target/0,
         otps/0, default_otp/0,
         format_error/1, last_words/1]).
%% What is kept
-export([cached/1, uncache/2, undo/0, reading/2, alone/2]).

-export_type([spec/0, options/0, native/0, runtime/0, otp/0, suites/0, component/0,
              progress/0, reason/0]).

-type spec() ::
        #{target := string(),           % a name that targets/0 lists
          otp := string(),              % an OTP release: "29"
          flavour := size | speed,      % the interpreter, or the JIT
          natives := [native()],        % to link in
          linkage => static | dynamic}. % default: static; dynamic: needs musl's
                                        % libc.so, and can load NIFs, which OTP's
                                        % own suites do

-type options() ::
        #{cache => file:filename(),     % default: see whittle_cache:root/1
          source => file:filename() | none,
                                        % OTP's source (default: WHITTLE_SOURCE);
                                        % none: what whittle_source finds
          native => file:filename(),    % the launcher and the patches
                                        % (default: this project's native/)
          progress => fun((progress()) -> term())}.

%% A NIF of OTP, or C that somebody brings: whittle_system's, as it stands.
-type native() ::
        crypto | asn1
      | #{kind := nif | driver,
          name := string(),             % of the library, a C identifier
          sources := [binary()],        % of the files, those to compile
          include := [string()],        % directories of the files
          cflags := [string()],
          libs := [crypto | ssl | zlib],% that Whittle links, when one is asked for
          archives := #{string() => binary()},  % by target, "" for any: compiled
          files := #{binary() => binary()},
          paths => [binary()],          % of what was read; does not change the VM
          module := module()}.          % that loads it

-type runtime() ::
        #{target := string(),
          otp := string(),              % "29"
          otp_vsn := string(),          % "29.1.1"
          erts_vsn := string(),         % "17.1"
          flavour := size | speed,
          natives := [atom()],          % by name
          executable := file:filename(),% stripped, without a pack
          symbols := file:filename(),   % its debug symbols
          programs := #{string() => file:filename()}, % for the pack's bin, by name
          components := [component()],
          id := string(),               % hex digits that name all inputs
          dir := file:filename()}.

-type otp() ::
        #{otp := string(),              % "29"
          vsn := string(),              % "29.1.1"
          erts_vsn := string(),
          root := file:filename(),      % what code:root_dir() says in it
          lib := file:filename(),       % the directory of the applications
          id := string(),
          dir := file:filename()}.

%% OTP's own test suites, laid out as its makefiles release them.
-type suites() ::
        #{otp := string(),              % "29"
          vsn := string(),              % "29.1.1"
          apps := [string()],           % below dir: APP_test, and test_server
          id := string(),
          dir := file:filename()}.

%% A piece of other people's work that is linked into a runtime.
-type component() ::
        #{name := string(),
          version := string(),
          license := string(),          % an SPDX expression
          copyright := string(),
          homepage := string(),
          notices := [file:filename()]}.% licence texts, below dir

-type progress() ::
        #{task := string(),             % "OTP 29 for x86_64, flavour size"
          step := string(),             % "configure"
          index := pos_integer(),       % this step's place among ...
          'of' := pos_integer(),        % ... so many
          percent := 0..100}.           % of the task, estimated

%% The reasons of errors; format_error/1 makes a line of each.
-type reason() :: whittle_runtime_error:reason().

%% @doc The runtime for a specification, from the cache or built now.
%%
%% A build takes minutes and tells `progress' where it is, from the calling
%% process. When the calling process or the whole VM dies, the build is ended
%% too. Nothing half built is ever found by a later call.
-spec ensure(spec(), options()) -> {ok, runtime()} | {error, reason()}.
ensure(Spec, Options) ->
    whittle_runtime_build:runtime(Spec, Options).

%% @doc An OTP release, built and installed on this machine, from the cache or
%% built now. The same options as {@link ensure/2}.
-spec otp(string(), options()) -> {ok, otp()} | {error, reason()}.
otp(Release, Options) ->
    whittle_runtime_build:otp(Release, Options).

%% @doc Whether {@link otp/2} would find the OTP in the cache, and so build nothing.
-spec has_otp(string(), options()) -> boolean().
has_otp(Release, Options) ->
    whittle_runtime_build:has_otp(Release, Options).

%% @doc The `lib' directories of the OTP releases that were built here before: those in the
%% cache.
-spec otp_libs(options()) -> [file:filename()].
otp_libs(Options) ->
    [filename:join(Dir, "lib") || Dir <- whittle_cache:artefacts("otp", Options)].

%% @doc OTP's own test suites, compiled by the stock OTP of the same release. The
%% same options as {@link ensure/2}. The directory is shared: who runs them copies
%% it first, for they write where they lie.
-spec suites(string(), options()) -> {ok, suites()} | {error, reason()}.
suites(Release, Options) ->
    whittle_runtime_build:suites(Release, Options).

%% @doc The targets that can be built for, by name.
-spec targets() -> [whittle_target:target()].
targets() ->
    whittle_target:all().

%% @doc The target that is taken when none is named: the first that this machine runs
%% by itself, or else the first.
-spec default_target() -> string().
default_target() ->
    Targets = targets(),
    [#{name := Name} | _] = [T || T = #{emulator := []} <- Targets] ++ Targets,
    Name.

%% @doc The OTP releases that can be built, newest first.
-spec otps() -> [string()].
otps() ->
    whittle_source:releases(erlang).

%% @doc The OTP release that is taken when none is named.
-spec default_otp() -> string().
default_otp() ->
    hd(otps()).

%% @doc What is in the cache, with sizes and ages.
-spec cached(options()) -> {ok, [whittle_cache_clean:entry()]} | {error, reason()}.
cached(Options) ->
    whittle_cache_clean:entries(Options).

%% @doc Removes one of {@link cached/1} from the cache, unless a build needs it or it is not
%% Whittle's.
-spec uncache(whittle_cache_clean:entry(), options()) ->
          ok | {error, whittle_cache_clean:left()}.
uncache(Entry, Options) ->
    whittle_cache_clean:remove(Entry, Options).

%% @doc Calls the function while nobody removes anything from the cache: for a whole build, which
%% reads artefacts until its output is written. It waits for a {@link alone/2} that goes on.
-spec reading(fun(() -> Result), options()) -> Result.
reading(Fun, Options) ->
    whittle_cache:reading(Fun, Options).

%% @doc Calls the function while no {@link reading/2} goes on. Errors: `build_running' at once
%% where one does, `no_tool', `cache_unwritable'.
-spec alone(fun(() -> Result), options()) -> Result | {error, reason()}.
alone(Fun, Options) ->
    whittle_cache:alone(Fun, Options).

%% @doc Removes what the builds of this VM have begun, and returns what it could not remove, each
%% with the reason. Their programs must not run any more, and the VM must end afterwards.
-spec undo() -> [{file:filename(), file:posix() | badarg}].
undo() ->
    whittle_cache_clean:undo().

%% @doc One line for a person. It ends with what to do next.
-spec format_error(reason()) -> unicode:chardata().
format_error(Reason) ->
    whittle_runtime_error:format(Reason).

%% @doc The lines in which a step of a build says why it failed, oldest first, as text: those
%% around its first error and the last ones; none for an error that is not about a step.
-spec last_words(reason()) -> [unicode:chardata()].
last_words(Reason) ->
    whittle_runtime_error:last_words(Reason).
