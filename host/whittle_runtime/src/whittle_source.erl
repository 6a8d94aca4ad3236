%% @hidden Finds and checks the source of a component, and returns the lines that unpack it.
%%
%% A source is one of
%% <ul>
%% <li>a tarball that the user names (`source' with its `sha256', or the variable
%%     WHITTLE_SOURCE);</li>
%% <li>Debian's source package; apt fetches it and checks its signatures
%%     ({@link whittle_apt});</li>
%% <li>a publisher's release with a SHA-256 in `priv/sources.config'
%%     ({@link whittle_fetch}).</li>
%% </ul>
%% The cache keeps fetched sources with the checksums of their files. This module compares them
%% before each use. The name in the cache contains a hash of the ways to fetch the source:
%% when those change in `priv/sources.config', this module fetches the source again.
-module(whittle_source).

%% The table of sources
-export([releases/1, supported/3]).
%% A tarball that the user names
-export([given/2]).
%% Access to a source
-export([find/3, at_hand/3, verify/2, fingerprint/1, unpack/1, file/2]).

-export_type([source/0, component/0, digest/0]).

-type component() :: erlang | openssl | ncurses | musl | gcc | linux.

-type source() ::
        #{component := component(),
          release := string(),          % "29"
          vsn := string(),              % "29.1.1"
          kind := tarball | debian,
          main := file:filename(),      % the tarball or the .dsc file
          sums := #{file:filename() => digest()},
          origin := string()}.          % for a person

-type digest() :: string().             % SHA-256 in lower-case hex

-type way() :: {debian, Package :: string(), Suites :: [string()], Newest :: string()}
             | {release, Vsn :: string(), Address :: string(), digest()}.

%% @doc Lists the releases of a component in `priv/sources.config', newest first.
-spec releases(component()) -> [string()].
releases(Component) ->
    [R || {C, R, _} <- table(), C =:= Component].

%% @doc Checks that the table has a release. Otherwise the error is `unsupported_otp'. If the
%% options name a tarball, the release can be any: {@link given/2} has checked the tarball, and
%% {@link find/3} compares the two.
-spec supported(component(), string(), whittle_runtime:options()) ->
          ok | {error, whittle_runtime:reason()}.
supported(erlang, _, #{source := File}) when File =/= none -> ok;
supported(Component, Release, _) -> supported(Component, Release).

-spec supported(component(), string()) -> ok | {error, whittle_runtime:reason()}.
supported(Component, Release) ->
    Known = releases(Component),
    case lists:member(Release, Known) of
        true -> ok;
        false -> {error, {unsupported_otp, #{otp => Release, known => Known}}}
    end.

%% @doc Checks a tarball of OTP that the user names, before a build: first its checksum, then its
%% members and its version.
%%
%% Sum is the SHA-256 that the user gives. Without it, the tarball needs a file FILE.sha256 beside
%% it, or the name and the checksum of a release in `priv/sources.config'. Otherwise the error is
%% `unchecked_source', which contains the checksum to confirm: a build runs the tarball's programs.
-spec given(file:filename(), digest() | none) ->
          {ok, #{file := file:filename(), sha256 := digest(), top := string(), vsn := string(),
                 release := string()}}
        | {error, whittle_runtime:reason()}.
given(File, Sum) ->
    Main = filename:absname(File),
    whittle_work:steps(
      [fun(_) -> whittle_source_archive:file(Main) end,
       fun(_) -> confirmed(Main, Sum) end,
       fun(Actual) ->
               case whittle_source_archive:read(Main) of
                   {ok, Described} -> {ok, Described#{file => Main, sha256 => Actual}};
                   {error, _} = Error -> Error
               end
       end]).

confirmed(Main, Given) ->
    Expected = case Given of
                   none -> expected_sum(Main);
                   _ -> string:lowercase(Given)
               end,
    case {whittle_digest:file(Main), Expected} of
        {{ok, Sum}, Sum} -> {ok, Sum};
        {{ok, Sum}, unknown} ->
            {error, {unchecked_source, #{file => Main, actual => Sum}}};
        {{ok, Sum}, Other} ->
            {error, {bad_checksum, #{file => Main, expected => Other, actual => Sum}}};
        {{error, Reason}, _} ->
            {error, {unreadable, #{file => Main, reason => Reason}}}
    end.

%% @doc Finds the source of a component's release, or fetches it.
%%
%% Options: `source' names a tarball (only for `erlang') and `sha256' its checksum; `cache' is the
%% root of the cache; `progress' is as in {@link whittle_runtime:ensure/2}; `ways', for tests,
%% replaces the row of `priv/sources.config'. Errors: `no_source' (neither network nor tarball),
%% `bad_checksum', `not_a_source', `wrong_source', and the errors of the cache.
-spec find(component(), string(), #{ways => [way()], _ => _}) ->
          {ok, source()} | {error, whittle_runtime:reason()}.
find(Component, Release, Options) ->
    case local(Component, Options) of
        none -> fetched(Component, Release, Options);
        File -> from_tarball(Component, Release, File, Options)
    end.

%% @doc Returns the source of {@link find/3} if nothing has to be fetched for it.
-spec at_hand(component(), string(), #{ways => [way()], _ => _}) -> {ok, source()} | none.
at_hand(Component, Release, Options) ->
    case {local(Component, Options), supported(Component, Release)} of
        {none, ok} ->
            Name = kept_name(Component, Release, ways(Component, Release, Options)),
            case whittle_cache:sources(Name, Options) of
                [Source | _] -> {ok, Source};
                [] -> none
            end;
        {none, {error, _}} ->
            none;
        {File, _} ->
            case from_tarball(Component, Release, File, Options) of
                {ok, _} = Found -> Found;
                {error, _} -> none
            end
    end.

%% @doc Compares a source's files with their checksums.
%%
%% It removes a damaged source from the cache, so that the next call fetches it again.
-spec verify(source(), whittle_runtime:options()) -> ok | {error, whittle_runtime:reason()}.
verify(Source = #{sums := Sums}, Options) ->
    Wrong = [File || {File, Sum} <- maps:to_list(Sums), whittle_digest:file(File) =/= {ok, Sum}],
    case Wrong of
        [] ->
            ok;
        [File | _] ->
            whittle_cache:forget_source(Source, Options),
            {error, {damaged_source, #{file => File}}}
    end.

%% @doc Returns a value that identifies a source: its checksums, without any path.
-spec fingerprint(source()) -> term().
fingerprint(#{component := Component, sums := Sums}) ->
    {Component, lists:sort(maps:values(Sums))}.

%% @doc Returns lines for sh that unpack a source into `./src'.
%%
%% The variable SOURCE holds the path of the main file.
-spec unpack(source()) -> [string()].
unpack(#{kind := tarball}) ->
    ["mkdir src",
     "tar -xf \"$SOURCE\" -C src --strip-components=1"];
unpack(#{kind := debian}) ->
    %% Apply Debian's own patches: in stable suites they contain security fixes.
    ["dpkg-source --extract \"$SOURCE\" src"].

%% @doc Reads one file of a source, as its publisher wrote it. The path begins below the directory
%% of the tarball.
-spec file(source(), string()) -> {ok, binary()} | {error, whittle_runtime:reason()}.
file(#{main := Main, kind := Kind, sums := Sums}, Path) ->
    [Tarball | _] = case Kind of
                        tarball -> [Main];
                        debian -> [File || File <- maps:keys(Sums),
                                           string:find(File, ".orig.tar.") =/= nomatch]
                    end,
    Arguments = ["-xOf", Tarball, "--occurrence=1", "--wildcards", "*/" ++ Path],
    case whittle_program:capture("tar", Arguments) of
        {ok, [_ | _] = Bytes} -> {ok, list_to_binary(Bytes)};
        _ -> {error, {not_in_source, #{file => Tarball, path => Path}}}
    end.

%%% The user's tarball

local(erlang, #{source := none}) ->
    none;
local(erlang, #{source := File}) ->
    File;
local(erlang, _) ->
    case os:getenv("WHITTLE_SOURCE", "") of
        "" -> none;
        File -> File
    end;
local(_, _) ->
    none.

from_tarball(Component, Release, File, Options) ->
    Main = filename:absname(File),
    case whittle_digest:file(Main) of
        {ok, Sum} ->
            case maps:get(sha256, Options, expected_sum(Main)) of
                Other when is_list(Other), Other =/= Sum ->
                    {error, {bad_checksum, #{file => File, expected => Other,
                                             actual => Sum}}};
                _ ->
                    check_version(#{component => Component, release => Release,
                                    kind => tarball, main => Main,
                                    sums => #{Main => Sum},
                                    origin => filename:basename(File)})
            end;
        {error, Reason} ->
            {error, {unreadable, #{file => File, reason => Reason}}}
    end.

%% Finds the expected checksum of a tarball: in the file beside it (FILE.sha256), or in the table,
%% for the release with the tarball's name.
expected_sum(Main) ->
    Name = filename:basename(Main),
    Beside = case whittle_file:text(Main ++ ".sha256") of
                 {ok, Bytes} -> listed_sums(Bytes, Name);
                 {error, _} -> []
             end,
    Pins = [Sum || {_, _, Ways} <- table(),
                   {release, _, Address, Sum} <- Ways,
                   filename:basename(Address) =:= Name],
    case Beside ++ Pins of
        [Sum | _] -> Sum;
        [] -> unknown
    end.

%% A line has a checksum and the name of its file, as sha256sum(1) prints them, or a checksum alone.
%% The line of another file does not count. A name may contain blanks.
listed_sums(Bytes, Name) ->
    [string:lowercase(Sum)
     || Line <- string:lexemes(whittle_term:text(Bytes), ["\r\n", $\n]),
        [Sum | Rest] <- [string:split(string:trim(Line), " ")],
        File <- [string:trim(lists:append(Rest), leading, " *")],
        File =:= "" orelse filename:basename(File) =:= Name].

%% The longest OTP_VERSION in bytes that is read.
-define(LONGEST_VERSION, "100").

%% OTP_VERSION is near the beginning of OTP's tarballs, so tar stops soon. A hostile tarball may
%% have one that fills the memory.
check_version(Source = #{main := Main, release := Release}) ->
    Script = "tar -xOf \"$1\" --occurrence=1 --wildcards '*/OTP_VERSION' 2>/dev/null |"
        " head -c \"$2\"",
    case whittle_program:capture("sh", ["-c", Script, "sh", Main, ?LONGEST_VERSION]) of
        {ok, Output} ->
            Vsn = string:trim(Output),
            %% The file may hold anything, and the error prints the version.
            case {re:run(Vsn, "^[0-9][0-9A-Za-z.+-]{0,63}$", [dollar_endonly, {capture, none}]),
                  is_of(Vsn, Release)} of
                {match, true} ->
                    {ok, Source#{vsn => Vsn}};
                {match, false} ->
                    {error, {wrong_source, #{file => Main, vsn => Vsn,
                                             otp => Release}}};
                {nomatch, _} ->
                    {error, {not_a_source, #{file => Main}}}
            end;
        {error, _} ->
            {error, {not_a_source, #{file => Main}}}
    end.

is_of(Vsn, Release) ->
    Vsn =:= Release orelse lists:prefix(Release ++ ".", Vsn).

%%% Fetched sources in the cache

fetched(Component, Release, Options) ->
    case supported(Component, Release) of
        ok ->
            Ways = ways(Component, Release, Options),
            Make = fun(Dir) -> fetch(Component, Release, Ways, Dir, Options) end,
            whittle_cache:source(kept_name(Component, Release, Ways), Make, Options);
        Error ->
            Error
    end.

ways(_, _, #{ways := Ways}) ->
    Ways;
ways(Component, Release, _) ->
    hd([Ways || {C, R, Ways} <- table(), C =:= Component, R =:= Release]).

name(Component, Release) ->
    atom_to_list(Component) ++ "-" ++ Release.

%% Uses the ways as text: the external format of a term differs between OTP releases.
kept_name(Component, Release, Ways) ->
    Text = unicode:characters_to_binary(io_lib:format("~0tp", [Ways])),
    Hex = whittle_digest:bytes(Text),
    name(Component, Release) ++ "-" ++ string:slice(Hex, 0, 8).

%% Fetches a source. The file names in the result are relative to Dir.
fetch(Component, Release, Ways, Dir, Options) ->
    Name = name(Component, Release),
    Older = [Source || Source <- whittle_cache:sources(Name, Options),
                       is_way_of(Source, Ways), is_whole(Source)],
    case Older of
        [Source | _] ->
            take_over(Source, Dir);
        [] ->
            Tell = fun(What, Percent) ->
                           whittle_runtime_progress:tell(Name, What, Percent, Options)
                   end,
            Tell("fetching the source", 0),
            first(Ways, #{component => Component, release => Release}, Dir,
                  Options#{tell => Tell}, [])
    end.

%%% Reusing a copy that came by other ways, if one of the present ways names the same file

is_way_of(#{kind := debian, main := Main}, Ways) ->
    lists:any(fun({debian, Package, _, Newest}) ->
                      filename:basename(Main) =:= Package ++ "_" ++ Newest ++ ".dsc";
                 (_) -> false
              end, Ways);
is_way_of(#{kind := tarball, main := Main, sums := Sums}, Ways) ->
    lists:any(fun({release, _, _, Sum}) -> maps:get(Main, Sums, none) =:= Sum;
                 (_) -> false
              end, Ways).

is_whole(#{sums := Sums}) ->
    lists:all(fun({File, Sum}) -> whittle_digest:file(File) =:= {ok, Sum} end, maps:to_list(Sums)).

%% Links or copies the files. The older copy stays for callers that still ask for it. Hard
%% links share the bytes if the file system supports them.
take_over(Source = #{main := Main, sums := Sums}, Dir) ->
    Relative = maps:from_list([{filename:basename(File), Sum}
                               || {File, Sum} <- maps:to_list(Sums)]),
    Copied = [link_or_copy(File, filename:join(Dir, filename:basename(File)))
              || File <- maps:keys(Sums)],
    case [Reason || {error, Reason} <- Copied] of
        [] -> {ok, Source#{main := filename:basename(Main), sums := Relative}};
        [Reason | _] -> {error, whittle_cache_dir:unwritten(Reason, Dir)}
    end.

link_or_copy(File, To) ->
    case file:make_link(File, To) of
        ok -> ok;
        {error, _} -> file:copy(File, To)
    end.

%%% Trying the ways in turn

first([], Base, _Dir, _Options, Tried) ->
    #{component := Component, release := Release} = Base,
    {error, {no_source, #{component => Component, release => Release,
                          tried => lists:reverse(Tried)}}};
first([Way | Ways], Base, Dir, Options, Tried) ->
    case take(Way, maps:get(release, Base), Dir, Options) of
        {ok, Found = #{main := _, vsn := _, kind := _, origin := _}} ->
            with_sums(maps:merge(Base, Found), Dir);
        {error, Failure = {Tag, _}} when Tag =:= bad_checksum; Tag =:= disk_full;
                                           Tag =:= cache_unwritable ->
            {error, Failure};
        {error, Reason} ->
            first(Ways, Base, Dir, Options, [Reason | Tried])
    end.

take({debian, Package, Suites, _Newest}, Release, Dir, Options) ->
    whittle_apt:fetch(Package, Release, Suites, Dir, Options);
take({release, Vsn, Address, Sum}, _Release, Dir, Options) ->
    Name = filename:basename(Address),
    case whittle_fetch:get(Address, filename:join(Dir, Name), Sum, Options) of
        ok ->
            {ok, #{kind => tarball, vsn => Vsn, main => Name, origin => Address}};
        Error ->
            Error
    end.

with_sums(Found, Dir) ->
    {ok, Names} = file:list_dir(Dir),
    Digests = [{Name, whittle_digest:file(filename:join(Dir, Name))} || Name <- Names],
    case [{Name, Reason} || {Name, {error, Reason}} <- Digests] of
        [] ->
            {ok, Found#{sums => maps:from_list([{Name, Sum} || {Name, {ok, Sum}} <- Digests])}};
        [{Name, Reason} | _] ->
            {error, {unreadable, #{file => filename:join(Dir, Name), reason => Reason}}}
    end.

table() ->
    File = filename:join(code:priv_dir(whittle_runtime), "sources.config"),
    {ok, Rows} = file:consult(File),
    Rows.
