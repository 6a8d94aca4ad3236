%% @doc Reads what the user names — an application, a rebar3 project, a release
%% or an escript — into a system that is whole: the applications that it needs
%% and does not hold come from the chosen OTP.
%%
%% A reader gives a {@type found()}: the applications that are there, which of
%% them were asked for, and how they start. What follows is the same for all:
%% <ol>
%% <li>OTP's own applications in the input give way to those of the chosen OTP,
%%     unless they are of the same ERTS;</li>
%% <li>what is needed and absent is read from the chosen OTP;</li>
%% <li>the boot script is made.</li>
%% </ol>
-module(whittle_read).

-export([check/1, check_needs/2, read/2]).

-export_type([options/0, needs/0, found/0]).

-type options() ::
        #{otp_lib := file:filename() | whittle_otp_lib:otp_lib(), % lib/ of the chosen OTP
          libs => [file:filename()],        % where to look for what neither the input
                                            % nor OTP has; default: nowhere
          outside_links => note | refuse,   % links that lead out of the input;
                                            % default: note
          natives => [{file:filename(), whittle_native:native()}],
                                            % C to link in, and who says so; default:
                                            % none
          add => [whittle_system:app_name()]}.  % applications to take in that
                                            % nothing asks for: they are there, and
                                            % nothing starts them; default: none

%% What check_needs/2 is told; `otp' is a release, for its error.
-type needs() :: #{libs => [file:filename()], add => [whittle_system:app_name()],
                   otp := string()}.

-type found() ::
        #{name := string(),
          vsn := string(),
          apps := [whittle_system:app()],
          roots := [whittle_system:app_name()],
          starts := all | none              % every application, or only OTP's
                  | [{whittle_system:app_name(), whittle_system:start_type()}],
          boot => whittle_system:boot_script(),     % the input's own
          erts => string(),                 % that the input was made for
          imported => [whittle_system:app_name()],  % asked for by calls alone:
                                            % taken where OTP has them
          main => module(),                 % of an escript: what it needs and
                                            % nobody has is noted, no error
          files => #{whittle_system:path() => whittle_system:file()},
          links => [whittle_links:link()],  % of the release's own files, those that
                                            % lead out of the input
          env => #{binary() => whittle_system:env_value()},
          notes => [unicode:chardata()]}.

%% @doc Whether it is an input at all: what can be said before there is an OTP.
-spec check(file:filename()) -> ok | {error, whittle_system:error()}.
check(Path) ->
    case kind(Path) of
        {error, _} = Error -> Error;
        _ -> ok
    end.

%% @doc Whether the applications that an input needs are there, as far as can be told before
%% there is an OTP; the error names all that are missing. A rebar3 project is compiled for
%% that.
-spec check_needs(file:filename(), needs()) -> ok | {error, whittle_system:error()}.
check_needs(Path, Options) ->
    Found = case kind(Path) of
                application ->
                    Apps = [App || {ok, App} <- [whittle_read_app:described(Path)]],
                    {ok, #{apps => Apps, roots => [Name || #{name := Name} <- Apps]}};
                project -> whittle_read_source:project(Path);
                release -> whittle_read_release:read(Path, none);
                escript -> {ok, #{apps => [], roots => []}};
                {error, _} = NoInput -> NoInput
            end,
    case Found of
        {ok, Read} -> whittle_complete:check(Read, Options);
        {error, _} = Error -> Error
    end.

%% @doc Reads an input. The error's tag says what is wrong; see
%% {@link whittle_system:format_error/1}.
-spec read(file:filename(), options()) ->
          {ok, whittle_system:system()} | {error, whittle_system:error()}.
read(Path, #{otp_lib := Lib} = Options) ->
    whittle_work:steps(
      [fun(_) -> whittle_otp_lib:open(Lib) end,
       fun(Otp) -> found(Path, Otp) end,
       fun({Otp, Found}) -> whittle_complete:complete(Found, Otp, Options) end]).

found(Path, Otp) ->
    Result = case kind(Path) of
                 application -> whittle_read_source:application(Path, Otp);
                 project -> whittle_read_source:project(Path);
                 release -> whittle_read_release:read(Path, Otp);
                 escript -> whittle_read_escript:read(Path, Otp);
                 {error, _} = NoInput -> NoInput
             end,
    case Result of
        {ok, Found} -> {ok, {Otp, Found}};
        {error, _} = Error -> Error
    end.

%% A release may hold a rebar.config of an application; a project may hold a
%% release that was built: what the directory itself is decides.
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
                     {project, "{apps,lib}/*/src/*.app.src"}],
            case [Kind || {Kind, Pattern} <- Kinds, Has(Pattern)] of
                [mix_project | _] -> {error, {mix_project, Path}};
                [Kind | _] -> Kind;
                [] -> {error, {no_application, Path}}
            end
    end.

%% As `rebar3 tar' and `mix release' pack a release: of gzip, or of tar alone.
is_tarball(Path) ->
    case whittle_file:first(Path, 512) of
        {ok, <<16#1F, 16#8B, _/binary>>} -> true;
        {ok, <<_:257/binary, "ustar", _/binary>>} -> true;
        _ -> false
    end.
