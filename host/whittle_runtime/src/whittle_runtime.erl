%% @doc Builds the VM for a target from source, and keeps the result in a cache.
%%
%% It builds three things. A <em>runtime</em> is one static executable without an application: it
%% contains ERTS, Whittle's launcher and the static NIFs of the specification. An <em>OTP</em>
%% is the same release, installed on this machine as usual: Whittle packs its applications, and
%% it is the baseline of every figure. <em>Suites</em> are OTP's own test suites, compiled.
%%
%% docs/runtime.md describes the builds.
-module(whittle_runtime).

%% Builds
-export([empty_cut/0, check/1, check/2, ensure/2, vm_bytes/2, otp/2, has_otp/2, otp_libs/1,
         suites/2, targets/0, emulator/1, default_target/0, otps/0, default_otp/0, levels/0,
         format_error/1, step_output/1]).
%% Other artifacts
-export([artifact/2, kept/4, unwritten/2]).
%% Sources
-export([given/2, patches_apply/2, source/2, source_file/3]).
%% The cache
-export([cached/1, uncache/2, reading/2, alone/2]).

-export_type([cut/0, without/0]).
-export_type([job/0, given/0, spec/0, level/0, options/0, native/0, runtime/0, otp/0, suites/0,
              component/0, progress/0, reason/0]).

-type spec() ::
        #{target := string(),           % a name that targets/0 lists
          otp := string(),              % an OTP release: "29"
          flavor := size | speed,      % the interpreter, or the JIT
          natives := [native()],        % linked into the VM
          optimize => mix | level(),    % default: mix, the flavor's own levels and profile
          linkage => static | dynamic,  % default: static; dynamic needs musl's libc.so
                                        % and can load NIFs, as OTP's own suites do
          cut => cut()}.                % default: nothing, the VM has all parts of ERTS

%% The parts of ERTS that one program does without. A BIF that is no function here stays in the VM.
-type cut() ::
        #{functions := #{mfa() => _},   % nothing calls these; some of them are BIFs
          libraries := [string()],      % ERTS's own NIFs and drivers: "zlib", "inet"
          programs := [string()],       % OTP's programs in the VM's executable: "heart"
          preloaded := #{module() => binary()}}. % the modules that are built into the VM

%% The parts that the VM of a program does not have.
-type without() :: #{bifs := [mfa()], libraries := [string()], programs := [string()],
                     preloaded := [module()]}.

%% How the compiler optimizes ERTS, the launcher and OTP's NIFs, at compilation and at the link. It
%% is for measurements: the mix of a flavor is smaller or faster. `o2', `o3', `os' and `oz' are one
%% level for all these files. `unprofiled' is the mix without a profile. The VM of `record' writes a
%% profile (tools/profile). docs/runtime.md has the details.
-type level() :: o2 | o3 | os | oz | unprofiled | record.

-type options() ::
        #{cache => file:filename(),     % default: see whittle_cache_dir:root/1
          source => file:filename() | none,
                                        % OTP's source (default: WHITTLE_SOURCE);
                                        % none: whittle_source searches
          sha256 => string(),           % the checksum of `source'
          native => file:filename(),    % the launcher and the patches
                                        % (default: this project's native/)
          progress => fun((progress()) -> term())}.

%% A tarball of OTP's source that passed the checks of given/2.
-type given() ::
        #{file := file:filename(),      % absolute
          sha256 := string(),           % in lower-case hex
          top := string(),              % its only directory
          vsn := string(),              % "29.1.1"
          release := string()}.         % "29"

%% A NIF of OTP, or C code of an application as whittle_system returns it.
-type native() ::
        crypto | asn1
      | #{kind := nif | driver,
          name := string(),             % the library's name, a C identifier
          sources := [binary()],        % the files to compile
          include := [string()],        % include directories among the files
          cflags := [string()],
          libs := [crypto | ssl | zlib],% libraries that Whittle links on demand
          archives := #{string() => binary()},  % compiled, by target; "" is any target
          files := #{binary() => binary()},
          paths => [binary()],          % files that were read; do not change the VM
          module := module()}.          % the module that loads it

-type runtime() ::
        #{target := string(),
          otp := string(),              % "29"
          otp_vsn := string(),          % "29.1.1"
          erts_vsn := string(),         % "17.1"
          flavor := size | speed,
          natives := [atom()],          % their names
          executable := file:filename(),% stripped, without a pack
          symbols := file:filename(),   % the executable's debug symbols
          programs := #{string() => file:filename()}, % by name, for the pack's bin/
          components := [component()],
          without => without(),         % of the VM of one program
          id := string(),               % hex digits, a hash of all inputs
          dir := file:filename()}.

-type otp() ::
        #{otp := string(),              % "29"
          vsn := string(),              % "29.1.1"
          erts_vsn := string(),
          root := file:filename(),      % its code:root_dir()
          lib := file:filename(),       % the directory of its applications
          stock_programs := [file:filename()], % its ERTS, as OTP's makers install it
          id := string(),
          dir := file:filename()}.

%% OTP's own test suites, in the layout of OTP's makefiles.
-type suites() ::
        #{otp := string(),              % "29"
          vsn := string(),              % "29.1.1"
          apps := [string()],           % below dir: APP_test, and test_server
          id := string(),
          dir := file:filename()}.

%% A third-party component that the linker puts into a runtime.
-type component() ::
        #{name := string(),
          version := string(),
          license := string(),          % an SPDX expression
          copyright := string(),
          homepage := string(),
          notices := [file:filename()]}.% license texts, below dir

-type progress() ::
        #{task := string(),             % "OTP 29 for x86_64, flavor size"
          step := string(),             % "configure"
          index := pos_integer(),       % the number of this step
          'of' := pos_integer(),        % the number of steps
          percent := 0..100}.           % estimated share of the task

%% An artifact that another application describes: a kernel, for example. Its key contains all keys
%% of the job except `task' and `tools', and the versions of the target's compiler.
-type job() ::
        #{name := string(),             % the beginning of its name in the cache
          task := string(),             % for a person: "Linux 6.1 for qemu-arm"
          target := string(),
          tools := [{string(), string()}], % programs that it needs, each with its Debian package
          source => {linux, string()},  % a component and its release (priv/sources.config)
          recipe := whittle_recipe:recipe(),
          files := #{file:filename() => binary()}}. % in the work directory

%% The reasons of errors. format_error/1 formats each as one line.
-type reason() :: whittle_runtime_error:reason().

%% @doc Returns a cut for the check of a specification, before a plan has decided the cut.
-spec empty_cut() -> cut().
empty_cut() -> #{functions => #{}, libraries => [], programs => [], preloaded => #{}}.

%% @doc Checks a specification without building anything. {@link ensure/2} does the same first.
-spec check(spec()) -> ok | {error, reason()}.
check(Spec) ->
    check(Spec, #{}).

%% @doc Does the same for a build with these options. If they name a source, `otp' can be any
%% release.
-spec check(spec(), options()) -> ok | {error, reason()}.
check(Spec, Options) ->
    whittle_runtime_build:check(Spec, Options).

%% @doc Checks a tarball of OTP that the user names, before a build: its checksum, its members, its
%% version. The second argument is the checksum that the user gives.
%%
%% Errors: `unreadable', `bad_archive', `bad_checksum', `unchecked_source' (nothing confirms the
%% checksum), `old_otp' (older than 25), `no_tool'.
-spec given(file:filename(), string() | none) -> {ok, given()} | {error, reason()}.
given(File, Sum) ->
    whittle_source:given(File, Sum).

%% @doc Tries the patches for ERTS on a tarball. The error `unfit_patches' names each place to which
%% one does not apply; {@link step_output/1} returns them as lines.
-spec patches_apply(given(), options()) -> ok | {error, reason()}.
patches_apply(Given, Options) ->
    whittle_runtime_build:patches_apply(Given, Options).

%% @doc Returns an artifact that another application describes, from the cache or from a new build.
%%
%% The result has the artifact's directory `dir', its `id', and the version of the source (`vsn', ""
%% without a source). It takes the same options as {@link ensure/2}.
-spec artifact(job(), options()) ->
          {ok, #{dir := file:filename(), id := string(), vsn := string(), _ => _}}
        | {error, reason()}.
artifact(Job, Options) ->
    whittle_runtime_build:artifact(Job, Options).

%% @doc Returns an artifact that a function writes, from the cache or from that function.
%%
%% `Inputs' is all that the artifact depends on. The function writes into the directory `out', and
%% returns a map that describes the artifact. The result has that map, with the artifact's directory
%% `dir' and its `id'.
-spec kept(Name :: string(), Inputs :: term(),
           fun((#{out := file:filename(), _ => _}) -> {ok, map()} | {error, Reason}),
           options()) ->
          {ok, #{dir := file:filename(), id := string(), _ => _}} | {error, Reason | reason()}.
kept(Name, Inputs, Make, Options) ->
    whittle_work:steps([fun(_) -> whittle_cache:artifact(Name, Inputs, Make, Options) end,
                        fun(#{dir := Dir} = Kept) ->
                                case whittle_cache:verify(Dir, [], Options) of
                                    ok -> {ok, Kept};
                                    {error, _} = Error -> Error
                                end
                        end]).

%% @doc Returns the reason for a function of {@link kept/4} that could not write into a directory:
%% `disk_full' or `cache_unwritable'.
-spec unwritten(file:posix(), file:filename()) -> reason().
unwritten(Reason, Dir) ->
    whittle_cache_dir:unwritten(Reason, Dir).

%% @doc Finds or fetches the source of a release, and returns its version.
-spec source(string(), options()) -> {ok, string()} | {error, reason()}.
source(Release, Options) ->
    case whittle_source:find(erlang, Release, Options) of
        {ok, #{vsn := Vsn}} -> {ok, Vsn};
        {error, _} = Error -> Error
    end.

%% @doc Returns the runtime for a specification, from the cache or from a new build.
%%
%% A build takes minutes. It calls `progress' from the calling process. When the calling process
%% or the whole VM dies, the build ends too. A later call never finds an incomplete result.
-spec ensure(spec(), options()) -> {ok, runtime()} | {error, reason()}.
ensure(Spec, Options) ->
    whittle_runtime_build:runtime(Spec, Options).

%% @doc Returns the bytes of the VM that {@link ensure/2} would build for one program, and keeps
%% only this number. The specification has a `cut'.
-spec vm_bytes(spec(), options()) -> {ok, pos_integer()} | {error, reason()}.
vm_bytes(Spec, Options) ->
    whittle_runtime_build:vm_bytes(Spec, Options).

%% @doc Returns an OTP release on this machine, from the cache or from a new build.
%%
%% It takes the same options as {@link ensure/2}.
-spec otp(string(), options()) -> {ok, otp()} | {error, reason()}.
otp(Release, Options) ->
    whittle_runtime_build:otp(Release, Options).

%% @doc Tells whether the cache has the result of {@link otp/2}, so that it would build nothing.
-spec has_otp(string(), options()) -> boolean().
has_otp(Release, Options) ->
    whittle_runtime_build:has_otp(Release, Options).

%% @doc Lists the `lib' directories of the OTP releases in the cache.
-spec otp_libs(options()) -> [file:filename()].
otp_libs(Options) ->
    [filename:join(Dir, "lib") || Dir <- whittle_cache:artifacts("otp", Options)].

%% @doc Returns OTP's own test suites, compiled by the stock OTP of the same release.
%%
%% It takes the same options as {@link ensure/2}. Copy the directory before you run the suites:
%% other runs share it, and suites write into their own directory.
-spec suites(string(), options()) -> {ok, suites()} | {error, reason()}.
suites(Release, Options) ->
    whittle_runtime_build:suites(Release, Options).

%% @doc Lists the targets, ordered by name.
-spec targets() -> [whittle_target:target()].
targets() ->
    whittle_target:all().

%% @doc Returns the command that runs an executable of a known target on this machine: the words
%% before the executable's path. The list is empty if the target needs no emulator.
%%
%% The executable starts further programs, which are copies of itself. So the launcher receives the
%% path of the emulator in `WHITTLE_EMULATOR' (native/launcher/process.c).
-spec emulator(string()) -> {ok, [string()]} | {error, {no_emulator, #{target := string(),
                                                                       program := string()}}}.
emulator(Target) ->
    [Described] = [Described || #{name := Name} = Described <- targets(), Name =:= Target],
    whittle_target:emulator(Described).

%% @doc Returns the name of the default target.
%%
%% It is the first target whose programs this machine runs directly, else the first target.
-spec default_target() -> string().
default_target() ->
    Targets = targets(),
    [#{name := Name} | _] = [T || T = #{emulator := []} <- Targets] ++ Targets,
    Name.

%% @doc Lists the OTP releases that Whittle can build, newest first.
-spec otps() -> [string()].
otps() ->
    whittle_source:releases(erlang).

%% @doc Returns the default OTP release.
-spec default_otp() -> string().
default_otp() ->
    hd(otps()).

%% @doc Lists the values of `optimize'.
-spec levels() -> [mix | level(), ...].
levels() ->
    whittle_runtime_build:levels().

%% @doc Lists the contents of the cache, with sizes and ages.
-spec cached(options()) -> {ok, [whittle_cache_clean:entry()]} | {error, reason()}.
cached(Options) ->
    whittle_cache_clean:entries(Options).

%% @doc Removes an entry of {@link cached/1} from the cache.
%%
%% The entry stays if a build needs it, or if Whittle did not create it.
-spec uncache(whittle_cache_clean:entry(), options()) ->
          ok | {error, whittle_cache_clean:left()}.
uncache(Entry, Options) ->
    whittle_cache_clean:remove(Entry, Options).

%% @doc Calls the function while nobody removes anything from the cache.
%%
%% Use it around a whole build, which reads artifacts until it has written its output. It waits
%% while an {@link alone/2} runs.
-spec reading(fun(() -> Result), options()) -> Result.
reading(Fun, Options) ->
    whittle_cache:reading(Fun, Options).

%% @doc Calls the function while no {@link reading/2} runs.
%%
%% If one runs, the error is `build_running', at once. Other errors: `no_tool',
%% `cache_unwritable'.
-spec alone(fun(() -> Result), options()) -> Result | {error, reason()}.
alone(Fun, Options) ->
    whittle_cache:alone(Fun, Options).

%% @doc Reads a file of OTP's source, which is fetched and compared with its checksums first. The
%% path begins below the directory of the tarball.
-spec source_file(string(), string(), options()) -> {ok, binary()} | {error, reason()}.
source_file(Otp, Path, Options) ->
    whittle_work:steps(
      [fun(_) -> whittle_source:find(erlang, Otp, Options) end,
       fun(Source) ->
               case whittle_source:verify(Source, Options) of
                   ok -> whittle_source:file(Source, Path);
                   {error, _} = Error -> Error
               end
       end]).

%% @doc Formats an error as one line for a person. The line ends with the next thing to do.
-spec format_error(reason()) -> unicode:chardata().
format_error(Reason) ->
    whittle_runtime_error:format(Reason).

%% @doc Returns the lines of a build step's output that explain its failure, oldest first.
%%
%% They are the lines around the first error, and the last lines. An error that does not
%% concern a step has none.
-spec step_output(reason()) -> [unicode:chardata()].
step_output(Reason) ->
    whittle_runtime_error:step_output(Reason).
