%% @hidden Formats the errors of whittle_runtime.
-module(whittle_runtime_error).

-export([format/1, step_output/1]).

-export_type([reason/0]).

%% Each reason has a map with the facts for its line.
-type reason() ::
        %% Unknown names, and natives that cannot be linked
        {unsupported_otp, #{otp := string(), known := [string()]}}
      | {unknown_target, #{target := string(), known := [string()]}}
      | {unsupported_flavor, #{flavor := atom(), target := string(), known := [atom()]}}
      | {unsupported_level, #{level := term(), known := [atom()]}}
      | {no_cut, #{}}
      | {no_cxx, #{native := string(), target := string()}}
      | {native_twice, #{native := string()}}
      | {native_by_module, #{native := string(), module := module(), otp := string()}}
      | {no_archive, #{native := string(), target := string(), known := [string()]}}
      | {unsupported_native, #{native := atom(), known := [atom()]}}
        %% Sources
      | {no_source, #{component := atom(), release := string(), tried := [reason()]}}
      | {unreadable, #{file := file:filename(), reason := file:posix() | badarg}}
      | {not_a_source, #{file := file:filename()}}
      | {not_in_source, #{file := file:filename(), path := string()}}
      | {bad_archive, #{file := file:filename(), why := string()}}
      | {old_otp, #{file := file:filename(), vsn := string(), oldest := string()}}
      | {unchecked_source, #{file := file:filename(), actual := string()}}
      | {wrong_source, #{file := file:filename(), vsn := string(), otp := string()}}
      | {bad_checksum, #{file := string(), expected := string(), actual := string()}}
      | {damaged_source, #{file := file:filename()}}
      | {no_apt, #{reason := string()}}
      | {unreachable, #{address := string(), reason := string()}}
        %% The machine
      | {no_compiler, #{missing := [string()], packages := [string()]}}
      | {no_tool, #{tool := string(), package := string()}}
      | {bad_tool, #{command := string(), status := pos_integer(), output := string()}}
      | {no_notice, #{component := string()}}
      | {disk_full, #{dir := file:filename()}}
      | {no_cache, #{}}
      | {cache_space, #{dir := file:filename()}}
      | {cache_link, #{link := file:filename()}}
      | {build_running, #{lock := file:filename()}}
      | {changed_artifact, #{file := file:filename(), dir := file:filename(), why := string()}}
      | {open_artifact, #{file := file:filename(), dir := file:filename(),
                          why := writable | not_sticky | {owner, non_neg_integer()}}}
      | {cache_unwritable, #{dir := file:filename(), reason := file:posix() | badarg}}
        %% Builds
      | {bad_patch, #{patch := string(), otp := string(), log := file:filename(),
                      tail := [binary()]}}
      | {bad_profile, #{profile := string(), log := file:filename(), tail := [binary()]}}
      | {unfit_patches, #{otp := string(), patches := pos_integer(), tail := [binary()]}}
      | {bad_series, #{file := file:filename(), line := pos_integer()}}
      | {no_native, #{file := file:filename(), reason := file:posix() | badarg}}
      | {step_failed, #{step := string(), status := non_neg_integer(), log := file:filename(),
                        tail := [binary()]}}.

%% @doc Formats a reason as one line, without a full stop at its end.
-spec format(reason()) -> unicode:chardata().
%% Unknown names
format({unsupported_otp, #{otp := Otp, known := Known}}) ->
    ["Whittle does not support OTP ", Otp, "; use one of ", commas(Known)];
format({unknown_target, #{target := Target, known := Known}}) ->
    ["there is no target ", Target, "; use one of ", commas(Known)];
format({unsupported_flavor, #{flavor := Flavor, target := Target,
                               known := Known}}) ->
    ["target ", Target, " has no flavor ", atom_to_list(Flavor),
     "; use one of ", commas([atom_to_list(K) || K <- Known])];
format({unsupported_level, #{level := Level, known := Known}}) ->
    [io_lib:format("there is no level of optimization ~0tP", [Level, 8]), "; use one of ",
     commas([atom_to_list(K) || K <- Known])];
format({no_cut, #{}}) ->
    "Whittle can make a VM for one program only with OTP 29 and flavor size; take --otp 29, or "
    "build a whole VM (--vm size)";
format({no_cxx, #{native := Native, target := Target}}) ->
    ["the library ", Native, " contains C++, and target ", Target, " has no C++ compiler; use"
     " another target, or a version of the library in C"];
format({native_twice, #{native := Native}}) ->
    ["two libraries have the name ", Native, "; rename one of them, also in its C source"];
format({native_by_module, #{native := Native, module := Module, otp := Otp}}) ->
    ["OTP ", Otp, " finds a linked NIF by the name of the module that loads it, but the module ",
     atom_to_list(Module), " loads the NIF ", Native, "; give both the same name, or use OTP 28 or"
     " newer"];
format({no_archive, #{native := Native, target := Target, known := Known}}) ->
    ["the library ", Native, " has compiled archives for ", commas(Known), ", but none for ",
     Target, "; add an archive for ", Target];
format({unsupported_native, #{native := Native, known := Known}}) ->
    ["Whittle has no native library ", atom_to_list(Native), "; use one of ",
     commas([atom_to_list(K) || K <- Known])];
%% Sources
format({no_source, #{component := Component, release := Release,
                     tried := Tried}}) ->
    ["Whittle cannot get the source of ", title(Component), " ", Release, " (",
     lists:join("; ", [reason(T) || T <- Tried]), "); ", instead(Component)];
format({unreadable, #{file := File, reason := Reason}}) ->
    ["Whittle cannot read the source ", File, ": ", file:format_error(Reason),
     "; name a tarball of OTP's source that you can read"];
format({not_in_source, #{file := File, path := Path}}) ->
    [File, " has no file ", Path, "; correct the path"];
format({not_a_source, #{file := File}}) ->
    [File, " is not a tarball of OTP's source; name one (otp_src_VSN.tar.gz)"];
format({bad_archive, #{file := File, why := Why}}) ->
    [File, " ", Why, "; name a complete tarball of OTP's source (otp_src_VSN.tar.gz)"];
format({old_otp, #{file := File, vsn := Vsn, oldest := Oldest}}) ->
    [File, " contains OTP ", Vsn, "; name a tarball of OTP ", Oldest, " or newer"];
format({unchecked_source, #{file := File, actual := Actual}}) ->
    [File, " has the SHA-256 ", Actual, ", which nothing confirms; compare it with the one that"
     " the publisher gives, and repeat the command with --sha256 ", Actual];
format({wrong_source, #{file := File, vsn := Vsn, otp := Otp}}) ->
    [File, " contains OTP ", Vsn, ", but the build needs OTP ", Otp,
     "; name a tarball of OTP ", Otp, ", or build for the OTP of this tarball"];
format({bad_checksum, #{file := File, expected := Expected, actual := Actual}}) ->
    [File, " has the SHA-256 ", Actual, " instead of ", Expected,
     "; the file is damaged or another file: fetch it again"];
format({damaged_source, #{file := File}}) ->
    ["the cached source ", File, " was damaged, and Whittle removed it; run the command"
     " again to fetch the source"];
format({no_apt, #{reason := Reason}}) ->
    ["apt did not deliver the source: ", Reason, "; name a tarball with WHITTLE_SOURCE=FILE"];
format({unreachable, #{address := Address, reason := Reason}}) ->
    [Address, ": ", Reason, "; check the network, or name a tarball with"
     " WHITTLE_SOURCE=FILE"];
%% The machine
format({no_compiler, #{missing := Missing, packages := Packages}}) ->
    ["this machine cannot compile, because it lacks ", commas(Missing), "; install the"
     " packages ", lists:join(" ", Packages)];
format({no_tool, #{tool := Tool, package := Package}}) ->
    ["this machine has no program ", Tool, "; install the package ", Package];
format({bad_tool, #{command := Command, status := Status, output := Output}}) ->
    ["the command `", Command, "' ",
     case Status of
         _ when Status > 128, Status =< 128 + 64 ->
             ["was ended by signal ", integer_to_list(Status - 128)];
         _ ->
             Lines = [[": ", Line] || [_ | _] = Line <- [hd(string:split(Output, "\n"))]],
             ["failed with exit code ", integer_to_list(Status) | Lines]
     end,
     "; run it in the same shell to find the cause, for example a limit that is too low"
     " (ulimit -a)"];
format({no_notice, #{component := Component}}) ->
    ["the license of ", Component, " requires a notice in every copy, but this machine has no such"
     " notice; install the package of ", Component, " again, with the documents in"
     " /usr/share/doc"];
format({disk_full, #{dir := Dir}}) ->
    ["the disk is full (", Dir, "); free space there, or set WHITTLE_CACHE to a"
     " directory with 2 GB free"];
format({no_cache, #{}}) ->
    "HOME is not set, so Whittle has no place for the VMs that it builds; set WHITTLE_CACHE"
        " to a directory of yours";
format({cache_space, #{dir := Dir}}) ->
    ["the path of the cache contains white space (", Dir, "), and compilers split it there; set"
     " WHITTLE_CACHE to a directory whose path has none"];
format({cache_link, #{link := Link}}) ->
    [Link, " is a symbolic link, and `whittle clean' does not follow links; remove the link, or set"
     " WHITTLE_CACHE to the directory to use"];
format({build_running, #{lock := Lock}}) ->
    ["a build is running and reads the cache (the build holds the lock ", Lock, "), so Whittle"
     " removed nothing; run `whittle clean --yes' again when the build has ended"];
format({changed_artifact, #{file := File, dir := Dir, why := Why}}) ->
    [File, " ", Why, "; remove the directory ", Dir, " and build again"];
format({open_artifact, #{file := File, dir := Dir, why := {owner, Uid}}}) ->
    [File, " belongs to another user (number ", integer_to_list(Uid), "), who can change the"
     " result; remove ", Dir, ", or set WHITTLE_CACHE to a directory of yours"];
format({open_artifact, #{file := Dir, why := not_sticky}}) ->
    ["all users can write to ", Dir, ", and so replace the cache below it; run chmod o-w ", Dir,
     ", or set WHITTLE_CACHE to another directory"];
format({open_artifact, #{file := File, dir := Dir, why := writable}}) ->
    ["other users can write to ", File, ", and so change the result; remove ", Dir, ", or run"
     " chmod -R go-w ", Dir, " if you trust its contents"];
format({cache_unwritable, #{dir := Dir, reason := Reason}}) ->
    ["Whittle cannot write in ", Dir, ": ", file:format_error(Reason),
     "; set WHITTLE_CACHE to a directory of yours"];
%% Builds
format({bad_patch, #{patch := Patch, otp := Otp, log := Log}}) ->
    ["the patch ", Patch, " does not apply to OTP ", Otp, " (log: ", Log, "); correct the patch, or"
     " the OTP releases that the series file gives for it"];
format({bad_profile, #{profile := Profile, log := Log}}) ->
    ["native/profiles/", Profile, " cannot be unpacked, or lacks the counts of an object (log: ",
     Log, "); if the log names a full disk, free space; otherwise restore the file, or make it"
     " again with `make profile`"];
format({unfit_patches, #{otp := Otp, patches := Count}}) ->
    [case Count of 1 -> "1 patch does"; _ -> [integer_to_list(Count), " patches do"] end,
     " not apply to OTP ", Otp, " at the places above, so nothing was built; port them in"
     " native/patches, and give their OTP releases in its series file"];
format({bad_series, #{file := File, line := Line}}) ->
    [File, ":", integer_to_list(Line), " does not have the form"
     " \"PATCH OTP[,OTP...]\"; correct this line"];
format({no_native, #{file := File, reason := Reason}}) ->
    ["Whittle cannot read its own file ", File, ": ", file:format_error(Reason),
     "; restore this file in Whittle's source tree"];
format({step_failed, #{step := Step, status := Status, log := Log}}) ->
    ["the build failed in the step ", Step, " (exit code ",
     integer_to_list(Status), "); read the log ", Log].

%% @doc See {@link whittle_runtime:step_output/1}.
-spec step_output(reason()) -> [unicode:chardata()].
step_output({_, #{tail := Lines}}) -> [text(Line) || Line <- Lines];
step_output(_) -> [].

%% A log may contain bytes that are not UTF-8.
text(Line) ->
    case unicode:characters_to_list(Line) of
        Chars when is_list(Chars) -> Chars;
        _ -> binary_to_list(Line)
    end.

reason({no_apt, #{reason := Reason}}) -> ["apt: ", Reason];
reason({unreachable, #{address := Address, reason := Reason}}) ->
    [Address, ": ", Reason];
reason(Reason) -> format(Reason).

instead(erlang) ->
    "name a tarball of it with WHITTLE_SOURCE=FILE, or connect this machine to the"
    " network";
instead(_) ->
    "connect this machine to the network".

title(erlang) -> "Erlang/OTP";
title(openssl) -> "OpenSSL";
title(ncurses) -> "ncurses";
title(musl) -> "musl";
title(gcc) -> "gcc";
title(linux) -> "Linux".

commas(Names) ->
    lists:join(", ", Names).
