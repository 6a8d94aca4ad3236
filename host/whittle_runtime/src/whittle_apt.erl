%% @hidden Fetches Debian source packages with apt, which checks their signatures.
%%
%% This module does not touch the state of the machine's own apt. It keeps a private state
%% (package lists, list of sources) in a directory, and removes that directory afterwards.
%% It uses the archive address that the machine's apt reports, and replaces the suite.
%% apt accepts a package only with a signature of Debian's keyring. The address belongs to
%% the owner of the machine, so no error message contains it.
-module(whittle_apt).

-export([fetch/5]).
%% Pure functions, exported for tests
-export([archive/2, choose/2, scrub/2, percents/1]).

-define(KEYRING, "/usr/share/keyrings/debian-archive-keyring.gpg").

%% @doc Downloads the source of a package into a directory.
%%
%% The source comes from the first suite that has the release. The function `tell' receives
%% the progress in percent. Two options are for tests: `keyring' names a keyring file;
%% `archive' is an address that replaces the machine's.
-spec fetch(string(), string(), [string()], file:filename(),
            #{tell => fun((string(), 0..100) -> term()),
              keyring => file:filename(), archive => string(), _ => _}) ->
          {ok, #{kind := debian, vsn := string(), main := string(),
                 origin := string()}} |
          {error, whittle_runtime:reason()}.
fetch(Package, Release, Suites, Dir, Options) ->
    Keyring = maps:get(keyring, Options, ?KEYRING),
    case missing(Keyring, machine_archive(Options)) of
        {error, Reason} ->
            {error, {no_apt, #{reason => Reason}}};
        {ok, Archive} ->
            State = Dir ++ ".apt",
            try from_suites(Suites, Package, Release,
                            #{archive => Archive, keyring => Keyring,
                              tell => maps:get(tell, Options, fun(_, _) -> ok end),
                              state => State, dir => Dir}, [])
            after
                file:del_dir_r(State)
            end
    end.

missing(Keyring, Archive) ->
    case {filelib:is_regular(Keyring), os:find_executable("dpkg-source")} of
        {false, _} -> {error, "Debian's keyring is not installed"};
        {true, false} -> {error, "the package dpkg-dev is not installed"};
        {true, _} -> Archive
    end.

machine_archive(#{archive := Archive}) ->
    {ok, Archive};
machine_archive(_) ->
    %% `--print-uris' prints the addresses of the indexes and fetches nothing.
    case whittle_program:capture("apt-get", ["update", "--print-uris"]) of
        {ok, Output} ->
            case archive(Output, codename()) of
                {ok, Archive} -> {ok, Archive};
                none -> {error, "apt has no Debian archive configured"}
            end;
        {error, not_found} ->
            {error, "apt-get is not installed"};
        {error, _} ->
            {error, "apt-get does not work here"}
    end.

codename() ->
    case file:read_file("/etc/os-release") of
        {ok, Text} ->
            case re:run(Text, "^VERSION_CODENAME=\"?([a-z]+)", [multiline,
                              {capture, all_but_first, list}]) of
                {match, [Name]} -> Name;
                nomatch -> ""
            end;
        {error, _} ->
            ""
    end.

%% @doc Finds the archive's address in the output of `apt-get update --print-uris'.
%%
%% It prefers the address that serves the machine's own suite. Otherwise it takes the first
%% address that serves a complete suite. The names of security and updates suites contain a
%% dash, so the pattern does not match them.
-spec archive(string(), string()) -> {ok, string()} | none.
archive(Output, Codename) ->
    Pattern = "^'(\\S+)/dists/([^/'-]+)/InRelease'",
    Found = case re:run(Output, Pattern, [global, multiline,
                                          {capture, all_but_first, list}]) of
                {match, Rows} -> Rows;
                nomatch -> []
            end,
    Own = [Uri || [Uri, Suite] <- Found, Suite =:= Codename],
    case Own ++ [Uri || [Uri, _] <- Found] of
        [Uri | _] -> {ok, Uri};
        [] -> none
    end.

from_suites([], Package, Release, _Context, Tried) ->
    {error, {no_apt, #{reason => lists:flatten(
                           [Package, " ", Release, ": ",
                            lists:join("; ", lists:reverse(Tried))])}}};
from_suites([Suite | Suites], Package, Release, Context, Tried) ->
    case from_suite(Suite, Package, Release, Context) of
        {error, {bad_suite, Reason}} ->
            #{archive := Archive} = Context,
            Line = Suite ++ ": " ++ scrub(Reason, Archive),
            from_suites(Suites, Package, Release, Context, [Line | Tried]);
        Result ->
            Result
    end.

from_suite(Suite, Package, Release, Context) ->
    #{archive := Archive, keyring := Keyring, state := State, dir := Dir, tell := Tell} = Context,
    Told = fun(What) -> fun(Bytes) -> [Tell(What, P) || P <- percents(Bytes)] end end,
    Quiet = fun(_) -> ok end,
    Apt = ["-o", "Dir::State::Lists=" ++ filename:join(State, "lists"),
           "-o", "Dir::Etc::SourceList=" ++ filename:join(State, "sources.list"),
           "-o", "Dir::Etc::SourceParts=-",
           "-o", "Dir::Cache=" ++ filename:join(State, "cache"),
           %% As root, apt would download as another user, who cannot write here.
           "-o", "APT::Sandbox::User=root",
           %% The owner of this machine may allow these; Whittle never does.
           "-o", "Acquire::AllowInsecureRepositories=false",
           "-o", "Acquire::AllowWeakRepositories=false",
           "-o", "APT::Get::AllowUnauthenticated=false",
           %% Whittle needs only the list of sources. A partial list is an error.
           "-o", "Acquire::Languages=none",
           %% apt then prints its progress on its output; percents/1 reads it.
           "-o", "APT::Status-Fd=1",
           "-o", "APT::Update::Error-Mode=any"],
    List = ["deb-src [signed-by=", Keyring, "] ", Archive, " ", Suite, " main\n"],
    Get = fun(Words, What) -> apt("apt-get", Apt ++ Words, Dir, Told(What)) end,
    Listed = case prepared(State, List) of
                 ok -> Get(["update"], "fetching the list of sources");
                 Unwritten -> Unwritten
             end,
    case Listed of
        {ok, _} ->
            case apt("apt-cache", Apt ++ ["showsrc", "--only-source", Package], Dir, Quiet) of
                {ok, Shown} -> chosen(choose(Shown, Release), Package, Suite, Dir, Get);
                Error -> Error
            end;
        Error ->
            Error
    end.

%% Creates the directories and the list of sources that apt needs.
prepared(State, List) ->
    Done = [filelib:ensure_path(filename:join([State, "lists", "partial"])),
            filelib:ensure_path(filename:join([State, "cache", "archives", "partial"])),
            file:write_file(filename:join(State, "sources.list"), List)],
    case [Reason || {error, Reason} <- Done] of
        [] -> ok;
        [Reason | _] -> {error, whittle_cache_dir:unwritten(Reason, State)}
    end.

chosen(none, _Package, _Suite, _Dir, _Get) ->
    {error, {bad_suite, "does not hold this release"}};
chosen({ok, Version}, Package, Suite, Dir, Get) ->
    case Get(["source", "--download-only", Package ++ "=" ++ Version], "fetching the source") of
        {ok, _} -> described(Dir, Suite);
        Error -> Error
    end.

%% @doc Reads the percentages in apt's output, "dlstatus:1:23.456:Retrieving ...".
-spec percents(binary()) -> [0..100].
percents(Bytes) ->
    case re:run(Bytes, "^dlstatus:[0-9]+:([0-9]{1,3})",
                [global, multiline, {capture, all_but_first, list}]) of
        {match, Found} -> [min(100, list_to_integer(Percent)) || [Percent] <- Found];
        nomatch -> []
    end.

apt(Program, Arguments, Dir, Watch) ->
    Command = ["cd \"$1\" && shift && exec \"$@\""],
    case whittle_program:capture("sh", ["-c" | Command]
                              ++ ["sh", Dir, Program | Arguments], Watch) of
        {ok, Output} ->
            {ok, Output};
        {error, {status, _, Output}} ->
            Errors = [Line || Line <- string:lexemes(Output, "\n"),
                              lists:prefix("E:", Line)],
            {error, failure(Output, hd(Errors ++ ["apt failed"]), Dir)}
    end.

failure(Output, Line, Dir) ->
    Network = "Could not (resolve|connect)|Temporary failure|timed out"
        "|unreachable|Cannot initiate the connection",
    case {re:run(Output, "No space left"), re:run(Output, Network)} of
        {{match, _}, _} -> {disk_full, #{dir => Dir}};
        {_, {match, _}} -> {bad_suite, "the archive cannot be reached"};
        _ -> {bad_suite, Line}
    end.

%% @doc Chooses the version of a source package that belongs to the release.
%%
%% The candidates are the versions in the output of `apt-cache showsrc'. The upstream part of
%% a version decides.
-spec choose(string(), string()) -> {ok, string()} | none.
choose(Shown, Release) ->
    Versions = [string:trim(V) || "Version:" ++ V <- string:lexemes(Shown, "\n")],
    case [V || V <- Versions, lists:prefix(Release ++ ".", upstream(V))] of
        [] -> none;
        Fitting -> {ok, lists:last(Fitting)}
    end.

%% The upstream version of `1:29.1.1+dfsg-1' is `29.1.1'.
upstream(Version) ->
    {match, [Upstream]} = re:run(Version, "^(?:[0-9]+:)?([0-9.]+)",
                                 [{capture, all_but_first, list}]),
    string:trim(Upstream, trailing, ".").

described(Dir, Suite) ->
    case whittle_file:found("*.dsc", Dir) of
        [Dsc] ->
            {ok, Text} = file:read_file(Dsc),
            {match, [Version]} = re:run(Text, "^Version: (\\S+)",
                                        [multiline, {capture, all_but_first, list}]),
            {ok, #{kind => debian, vsn => upstream(Version),
                   main => filename:basename(Dsc),
                   origin => "Debian " ++ Suite ++ " "
                             ++ filename:basename(Dsc, ".dsc")}};
        _ ->
            {error, {bad_suite, "apt delivered no source package"}}
    end.

%% @doc Removes addresses from a message of apt: the archive's host and every URI.
-spec scrub(string(), string()) -> string().
scrub(Text, Archive) ->
    Plain = re:replace(Text, "[a-z+]+:/\\S*", "<archive>", [global, {return, list}]),
    case uri_string:parse(Archive) of
        #{host := Host} when Host =/= "" ->
            lists:flatten(string:replace(Plain, Host, "<archive>", all));
        _ ->
            Plain
    end.
