%% @doc Sources: finds the source of a component, checked, and says how to unpack
%% it.
%%
%% A source is one of
%% <ul>
%% <li>a tarball the user names (`source', or the variable WHITTLE_SOURCE);</li>
%% <li>Debian's source package, which apt fetches and whose signatures it checks
%%     ({@link whittle_apt});</li>
%% <li>a publisher's release whose SHA-256 is written in `priv/sources.config'
%%     ({@link whittle_fetch}).</li>
%% </ul>
%% What was fetched stays in the cache with the sums of its files, and is checked
%% against them before each use.
-module(whittle_source).

%% What there is
-export([releases/1, supported/2]).
%% Getting it
-export([find/3, verify/2, fingerprint/1, unpack/1, digest/1]).

-export_type([source/0, component/0, digest/0]).

-type component() :: erlang | openssl.

-type source() ::
        #{component := component(),
          release := string(),          % "29"
          vsn := string(),              % "29.1.1"
          kind := tarball | debian,
          main := file:filename(),      % the tarball, or the .dsc
          sums := #{file:filename() => digest()},
          origin := string()}.          % for a person

-type digest() :: string().             % SHA-256 in lower-case hex

%% @doc The releases of a component that `priv/sources.config' names, newest
%% first.
-spec releases(component()) -> [string()].
releases(Component) ->
    [R || {C, R, _} <- table(), C =:= Component].

%% @doc Whether a release is among them; `unsupported_otp' if not.
-spec supported(component(), string()) -> ok | whittle_runtime:error().
supported(Component, Release) ->
    Known = releases(Component),
    case lists:member(Release, Known) of
        true -> ok;
        false -> {error, {unsupported_otp, #{otp => Release, known => Known}}}
    end.

%% @doc The source of a component's release.
%%
%% Options: `source' names a tarball (only for `erlang'); `cache' is the cache's
%% root; `progress' as in {@link whittle_runtime:ensure/2}. Errors: `no_source'
%% (neither network nor tarball), `bad_checksum', `not_a_source', `wrong_source',
%% and those of the cache.
-spec find(component(), string(), whittle_runtime:options()) ->
          {ok, source()} | whittle_runtime:error().
find(Component, Release, Options) ->
    case local(Component, Options) of
        none -> fetched(Component, Release, Options);
        File -> from_tarball(Component, Release, File)
    end.

%% @doc Checks a source's files against their sums. One that was damaged in the
%% cache is removed there, so that the next try fetches it anew.
-spec verify(source(), whittle_runtime:options()) -> ok | whittle_runtime:error().
verify(#{component := Component, release := Release, sums := Sums}, Options) ->
    Wrong = [File || {File, Sum} <- maps:to_list(Sums), digest(File) =/= {ok, Sum}],
    case Wrong of
        [] ->
            ok;
        [File | _] ->
            whittle_cache:forget_source(name(Component, Release), Options),
            {error, {damaged_source, #{file => File}}}
    end.

%% @doc What tells a source from every other: its sums, without any path.
-spec fingerprint(source()) -> term().
fingerprint(#{component := Component, sums := Sums}) ->
    {Component, lists:sort(maps:values(Sums))}.

%% @doc Lines for sh that unpack a source into `./src'. The variable SOURCE holds
%% the path of its main file.
-spec unpack(source()) -> [string()].
unpack(#{kind := tarball}) ->
    ["mkdir src",
     "tar -xf \"$SOURCE\" -C src --strip-components=1"];
unpack(#{kind := debian}) ->
    %% With Debian's own patches: its stable suites carry security fixes there.
    ["dpkg-source --extract \"$SOURCE\" src"].

%% @doc The SHA-256 of a file.
-spec digest(file:filename()) -> {ok, digest()} | {error, file:posix()}.
digest(File) ->
    case file:open(File, [read, raw, binary]) of
        {ok, Handle} ->
            Result = digest(Handle, crypto:hash_init(sha256)),
            _ = file:close(Handle),
            Result;
        {error, Reason} ->
            {error, Reason}
    end.

digest(Handle, State) ->
    case file:read(Handle, 1 bsl 20) of
        {ok, Bytes} -> digest(Handle, crypto:hash_update(State, Bytes));
        eof -> {ok, whittle_cache:hex(crypto:hash_final(State))};
        {error, Reason} -> {error, Reason}
    end.

%%% A tarball that the user names

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

from_tarball(Component, Release, File) ->
    Main = filename:absname(File),
    case digest(Main) of
        {ok, Sum} ->
            case expected_sum(Main) of
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
            {error, {unreadable_source, #{file => File, reason => Reason}}}
    end.

%% A tarball is checked against the sum that lies beside it (FILE.sha256, as
%% sha256sum writes it), or the one of the release that bears its name.
expected_sum(Main) ->
    case file:read_file(Main ++ ".sha256") of
        {ok, Bytes} ->
            hd(string:lexemes(string:lowercase(binary_to_list(Bytes)), " \n\t")
               ++ [""]);
        {error, _} ->
            Name = filename:basename(Main),
            Pins = [Sum || {_, _, Ways} <- table(),
                           {release, _, Address, Sum} <- Ways,
                           filename:basename(Address) =:= Name],
            case Pins of
                [Sum | _] -> Sum;
                [] -> unknown
            end
    end.

%% OTP_VERSION lies at the head of OTP's tarballs, so tar soon stops.
check_version(Source = #{main := Main, release := Release}) ->
    Arguments = ["-xOf", Main, "--occurrence=1", "--wildcards", "*/OTP_VERSION"],
    case whittle_exec:capture("tar", Arguments) of
        {ok, Output} ->
            Vsn = string:trim(Output),
            case is_of(Vsn, Release) of
                true ->
                    {ok, Source#{vsn => Vsn}};
                false ->
                    {error, {wrong_source, #{file => Main, vsn => Vsn,
                                             otp => Release}}}
            end;
        {error, _} ->
            {error, {not_a_source, #{file => Main}}}
    end.

is_of(Vsn, Release) ->
    Vsn =:= Release orelse lists:prefix(Release ++ ".", Vsn).

%%% Sources that are fetched, and kept in the cache

fetched(Component, Release, Options) ->
    case supported(Component, Release) of
        ok ->
            Name = name(Component, Release),
            Make = fun(Dir) -> fetch(Component, Release, Dir, Options) end,
            whittle_cache:source(Name, Make, Options);
        Error ->
            Error
    end.

name(Component, Release) ->
    atom_to_list(Component) ++ "-" ++ Release.

%% Fetches into Dir by the first way that works; file names are relative to Dir.
fetch(Component, Release, Dir, Options) ->
    {_, _, Ways} = hd([Row || Row = {C, R, _} <- table(),
                              C =:= Component, R =:= Release]),
    Base = #{component => Component, release => Release},
    whittle_plan:tell(name(Component, Release), "fetching the source", Options),
    first(Ways, Base, Dir, Options, []).

first([], Base, _Dir, _Options, Tried) ->
    #{component := Component, release := Release} = Base,
    {error, {no_source, #{component => Component, release => Release,
                          tried => lists:reverse(Tried)}}};
first([Way | Ways], Base, Dir, Options, Tried) ->
    case take(Way, maps:get(release, Base), Dir, Options) of
        {ok, Found = #{main := _, vsn := _, kind := _, origin := _}} ->
            with_sums(maps:merge(Base, Found), Dir);
        {error, Failure = {Tag, _}} when Tag =:= bad_checksum; Tag =:= disk_full ->
            {error, Failure};
        {error, Reason} ->
            first(Ways, Base, Dir, Options, [Reason | Tried])
    end.

take({debian, Package, Suites}, Release, Dir, Options) ->
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
    Sums = [{Name, Sum} || Name <- Names,
                           {ok, Sum} <- [digest(filename:join(Dir, Name))]],
    {ok, Found#{sums => maps:from_list(Sums)}}.

table() ->
    File = filename:join(code:priv_dir(whittle_runtime), "sources.config"),
    {ok, Rows} = file:consult(File),
    Rows.
