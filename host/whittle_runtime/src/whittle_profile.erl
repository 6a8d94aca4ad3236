%% @hidden Finds the profile that belongs to a VM.
%%
%% A profile tells the compiler how often a training program executed each part of ERTS.
%% `native/profiles/RELEASE-TARGET-gcc-VERSION.tar.xz' contains one `.gcda' file of gcc for each
%% object that it describes. Only the gcc that counted can read them, so the name has its version
%% without the last number. tools/profile makes a profile (docs/runtime-size.md).
-module(whittle_profile).

-export([for/3, name/2]).

%% @doc Returns the name and the SHA-256 of the profile for a release and a target, or `none' if
%% the directory has none for the target's compiler. The error `no_native' names a profile that
%% nobody can read.
-spec for(file:filename(), string(), whittle_target:target()) ->
          {ok, none | {string(), whittle_source:digest()}} | {error, whittle_runtime:reason()}.
for(Dir, Release, Target) ->
    case name(Release, Target) of
        none ->
            {ok, none};
        Name ->
            File = filename:join(Dir, Name),
            case whittle_digest:file(File) of
                {ok, Digest} -> {ok, {Name, Digest}};
                {error, enoent} -> {ok, none};
                {error, Reason} -> {error, {no_native, #{file => File, reason => Reason}}}
            end
    end.

%% @doc Returns the file name of the profile for a release and a target's compiler. The result is
%% `none' if that compiler is not gcc.
-spec name(string(), whittle_target:target()) -> none | string().
name(Release, #{name := Name, cc := Cc}) ->
    case whittle_program:capture("sh", ["-c", Cc ++ " -dumpfullversion"]) of
        {ok, Version} ->
            case re:run(Version, "^[0-9]+[.][0-9]+", [{capture, first, list}]) of
                {match, [Number]} -> Release ++ "-" ++ Name ++ "-gcc-" ++ Number ++ ".tar.xz";
                nomatch -> none
            end;
        {error, _} ->
            none
    end.
