%% @doc Reads an input into a whole system. The input is an application, a rebar3 project, a
%% release or an escript. Applications that the input needs and lacks come from the chosen OTP.
%%
%% A reader returns a {@type found()}: the applications of the input, the applications that the user
%% asked for, and how they start. The next steps are the same for all inputs:
%% <ol>
%% <li>Replace OTP's own applications in the input by those of the chosen OTP, unless the ERTS is
%%     the same.</li>
%% <li>Read the needed applications that the input lacks from the chosen OTP.</li>
%% <li>Make the boot script.</li>
%% </ol>
-module(whittle_read).

-export([check/1, check_input/2, read/2]).

-export_type([options/0, needs/0, how/0, tell/0, found/0]).

-type options() ::
        #{otp_lib := file:filename() | whittle_otp_lib:otp_lib(), % lib/ of the chosen OTP
          libs => [file:filename()],        % where to look for applications that neither
                                            % the input nor OTP has; default: nowhere
          outside_links => note | refuse,   % links that lead out of the input;
                                            % default: note
          natives => [{file:filename(), whittle_native:native()}],
                                            % C to link in, with its description; default: none
          add => [whittle_system:app_name()],   % further applications to include; the
                                            % boot script does not start them; default: none
          tell => tell()}.

%% The options of check_input/2. `otp' is a release for its error.
-type needs() :: #{libs => [file:filename()], add => [whittle_system:app_name()],
                   outside_links => note | refuse, otp := string(), tell => tell()}.

%% The options that readers take.
-type how() :: #{libs := [file:filename()], outside_links := note | refuse, tell := tell()}.

%% Receives the reason of a wait, in the calling process. Default: nobody hears it.
-type tell() :: fun(({waiting, unicode:chardata()}) -> term()).

-type found() ::
        #{name := string(),
          vsn := string(),
          apps := [whittle_system:app()],
          roots := [whittle_system:app_name()],
          starts := all | none              % every application, or only OTP's
                  | [{whittle_system:app_name(), whittle_system:start_type()}],
          boot => whittle_system:boot_script(),     % the input's own
          erts => string(),                 % the ERTS that the input was made for
          imported => [whittle_system:app_name()],  % known only from calls: included if OTP
                                            % has them
          main => module(),                 % of an escript: if a dependency is missing
                                            % everywhere, this is a note and not an error
          files => #{whittle_system:path() => whittle_system:file()},
          links => [whittle_links:link()],  % links of the release's own files that
                                            % lead out of the input
          env => #{binary() => whittle_system:env_value()},
          notes => [unicode:chardata()]}.

%% @doc Checks that a path is an input, as far as this is possible without an OTP.
-spec check(file:filename()) -> ok | {error, whittle_system:error()}.
check(Path) ->
    case kind(Path) of
        {error, _} = Error -> Error;
        _ -> ok
    end.

%% @doc Checks an input as far as this is possible without an OTP: the files of an application, and
%% that all needed applications exist. The error names all missing applications. The function
%% compiles a rebar3 project for this check. Without an input, it checks the applications to add.
-spec check_input(file:filename() | none, needs()) -> ok | {error, whittle_system:error()}.
check_input(none, Options) -> whittle_complete:check(#{apps => [], roots => []}, Options);
check_input(Path, Options) ->
    Found = case kind(Path) of
                application ->
                    whittle_work:steps([fun(_) -> whittle_read_source:check(Path, how(Options)) end,
                                        fun(_) -> described(Path) end]);
                project -> whittle_read_source:project(Path, how(Options));
                release -> whittle_read_release:read(Path, none, how(Options));
                escript -> {ok, #{apps => [], roots => []}};
                {error, _} = NoInput -> NoInput
            end,
    case Found of
        {ok, Read} -> whittle_complete:check(Read, Options);
        {error, _} = Error -> Error
    end.

%% @doc Reads an input. The tag of the error names the problem. See {@link
%% whittle_system:format_error/1}.
-spec read(file:filename(), options()) ->
          {ok, whittle_system:system()} | {error, whittle_system:error()}.
read(Path, #{otp_lib := Lib} = Options) ->
    whittle_work:steps(
      [fun(_) -> whittle_otp_lib:open(Lib) end,
       fun(Otp) -> found(Path, Otp, how(Options)) end,
       fun({Otp, Found}) -> whittle_complete:complete(Found, Otp, Options) end]).

described(Path) ->
    Apps = [App || {ok, App} <- [whittle_read_app:described(Path)]],
    {ok, #{apps => Apps, roots => [Name || #{name := Name} <- Apps]}}.

how(Options) -> maps:merge(#{libs => [], outside_links => note, tell => fun(_) -> ok end},
                           maps:with([libs, outside_links, tell], Options)).

found(Path, Otp, How) ->
    Result = case kind(Path) of
                 application -> whittle_read_source:application(Path, Otp, How);
                 project -> whittle_read_source:project(Path, How);
                 release -> whittle_read_release:read(Path, Otp, How);
                 escript -> whittle_read_escript:read(Path, Otp, How);
                 {error, _} = NoInput -> NoInput
             end,
    case Result of
        {ok, Found} -> {ok, {Otp, Found}};
        {error, _} = Error -> Error
    end.

%% Determines the kind of an input by its directory. A release may contain the rebar.config of an
%% application, and a project may contain a built release.
kind(Path) ->
    Has = fun(Pattern) -> filelib:wildcard(Pattern, Path) =/= [] end,
    case {filelib:is_dir(Path), filelib:is_regular(Path)} of
        {false, false} ->
            case file:read_file_info(Path) of
                {ok, _} -> {error, {not_a_file, Path}};
                {error, Reason} when Reason =:= eacces; Reason =:= eloop ->
                    {error, {unreadable, {Path, Reason}}};
                {error, _} -> {error, {no_such_path, Path}}
            end;
        {false, true} ->
            case is_tarball(Path) of
                true -> {error, {packed_release, Path}};
                false -> escript
            end;
        {true, _} ->
            Kinds = [{release, "releases/*/*.rel"},
                     {project, "rebar.config"},
                     {mix_project, "mix.exs"},
                     {application, "ebin/*.app"},
                     {application, "src/*.app.src"},
                     %% A release may contain the sources of its applications.
                     {no_release_file, "lib/*-[0-9]*/ebin/*.app"},
                     {no_release_file, "erts-*/bin"},
                     {project, "{apps,lib}/*/src/*.app.src"}],
            case [Kind || {Kind, Pattern} <- Kinds, Has(Pattern)] of
                [Kind | _] when Kind =:= mix_project; Kind =:= no_release_file ->
                    {error, {Kind, Path}};
                [Kind | _] -> Kind;
                [] -> {error, {no_application, Path}}
            end
    end.

%% Recognizes a release tarball of `rebar3 tar' or `mix release', with gzip or plain tar, and a zip
%% archive, such as an application's (.ez).
is_tarball(Path) ->
    case whittle_file:first(Path, 512) of
        {ok, <<16#1F, 16#8B, _/binary>>} -> true;
        {ok, <<"PK", 3, 4, _/binary>>} -> true;
        {ok, <<_:257/binary, "ustar", _/binary>>} -> true;
        _ -> false
    end.
