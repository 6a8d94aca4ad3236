%% @hidden Fetches Debian source packages with apt, which checks their signatures.
%%
%% The machine's own apt is left alone: a private state (package lists, list of
%% sources) lives in a directory that is removed again. The archive's address is
%% the machine's own, as apt itself reports it, with the suite exchanged; what
%% comes from there counts only if Debian's keyring has signed it. The address
%% belongs to the machine's owner: no error shows it.
-module(whittle_apt).

-export([fetch/5]).
%% Pure parts, for tests
-export([archive/2, choose/2, scrub/2, percents/1]).

-define(KEYRING, "/usr/share/keyrings/debian-archive-keyring.gpg").

%% @doc Downloads a package's source into a directory, from the first of the
%% suites that holds the release; `tell' hears how much of what has come. Options for
%% tests: `keyring' (a file), `archive' (an address instead of the machine's).
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
    %% Names the indexes that apt would fetch, without fetching any.
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

%% @doc The archive's address in what `apt-get update --print-uris' says: the one
%% that serves the machine's own suite, else the first that serves a whole one
%% (security and updates suites have a dash in their names).
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
           %% Root would download as a user that cannot write here.
           "-o", "APT::Sandbox::User=root",
           %% Whatever this machine's owner allows for his own.
           "-o", "Acquire::AllowInsecureRepositories=false",
           "-o", "Acquire::AllowWeakRepositories=false",
           "-o", "APT::Get::AllowUnauthenticated=false",
           %% Only the list of sources is wanted, and half of one is none.
           "-o", "Acquire::Languages=none",
           %% It says on its output how much has come; percents/1 reads that.
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

%% What apt needs before it runs.
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

%% @doc The percentages in a piece of apt's output: "dlstatus:1:23.456:Retrieving ...".
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

%% @doc The version of the source package, among those that `apt-cache showsrc'
%% shows, whose upstream version belongs to the release.
-spec choose(string(), string()) -> {ok, string()} | none.
choose(Shown, Release) ->
    Versions = [string:trim(V) || "Version:" ++ V <- string:lexemes(Shown, "\n")],
    case [V || V <- Versions, lists:prefix(Release ++ ".", upstream(V))] of
        [] -> none;
        Fitting -> {ok, lists:last(Fitting)}
    end.

%% `1:29.1.1+dfsg-1' is upstream's `29.1.1'.
upstream(Version) ->
    {match, [Upstream]} = re:run(Version, "^(?:[0-9]+:)?([0-9.]+)",
                                 [{capture, all_but_first, list}]),
    string:trim(Upstream, trailing, ".").

described(Dir, Suite) ->
    case filelib:wildcard(filename:join(Dir, "*.dsc")) of
        [Dsc] ->
            {ok, Text} = file:read_file(Dsc),
            {match, [Version]} = re:run(Text, "^Version: (\\S+)",
                                        [multiline, {capture, all_but_first, list}]),
            {ok, #{kind => debian, vsn => upstream(Version),
                   main => filename:basename(Dsc),
                   origin => "Debian " ++ Suite ++ " "
                             ++ filename:basename(Dsc, ".dsc")}};
        _ ->
            {error, {bad_suite, "apt brought no source package"}}
    end.

%% @doc A message of apt without addresses: those of the archive's host, and
%% anything that looks like a URI.
-spec scrub(string(), string()) -> string().
scrub(Text, Archive) ->
    Plain = re:replace(Text, "[a-z+]+:/\\S*", "<archive>", [global, {return, list}]),
    case uri_string:parse(Archive) of
        #{host := Host} when Host =/= "" ->
            lists:flatten(string:replace(Plain, Host, "<archive>", all));
        _ ->
            Plain
    end.
