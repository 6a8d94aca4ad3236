%% @hidden Makes the info files, the license texts and the SBOM of an output.
%%
%% `etc/info.txt' and `etc/info.json' are for `--whittle-info'. `etc/licenses.txt' holds the
%% notices of all linked parts. `etc/bom.json' is the bill of materials ({@link
%% whittle_pack_bom}). All of them derive from the system and the runtime alone, so the same
%% inputs give the same bytes.
-module(whittle_pack_licenses).

-export([files/3]).

-export_type([part/0]).

%% A piece of the output with its own author.
-type part() ::
        #{kind := component | application,
          name := binary(),
          version := binary(),
          license := binary(),           % SPDX expression, or NOASSERTION
          copyright := binary(),         % or NOASSERTION
          homepage := binary(),          % or NOASSERTION
          notices := [binary()],         % their texts
          modules := non_neg_integer(),
          size := non_neg_integer(),     % bytes before compression; 0 for a part
                                         % that is linked into the VM
          sha256 := binary()}.           % hexadecimal; of the modules and files
                                         % of an application; empty for a component

-define(UNKNOWN, <<"NOASSERTION">>).

%% @doc Makes the files, by virtual path. `Vm' is the executable of the runtime.
-spec files(whittle_system:system(), whittle_runtime:runtime(), Vm :: binary()) ->
          {ok, [whittle_pack_format:file()]}
        | {error, {unreadable, {file:filename_all(), file:posix()}}}.
files(System, Runtime, Vm) ->
    case parts(System, Runtime) of
        {ok, Parts} -> {ok, notices(info(System, Runtime, Vm, Parts), Parts)};
        Error -> Error
    end.

%% Internal: parts

%% Lists the components that are linked into the VM, then the applications.
parts(System, #{components := Components, dir := Dir}) ->
    Read = [{File, file:read_file(filename:join(Dir, File))}
            || #{notices := Files} <- Components, File <- Files],
    case [{File, Reason} || {File, {error, Reason}} <- Read] of
        [] ->
            Texts = maps:from_list([{File, Text} || {File, {ok, Text}} <- Read]),
            {ok, [component(Component, Texts) || Component <- Components]
                 ++ [application(App) || App <- whittle_system:apps(System)]};
        [{File, Reason} | _] ->
            {error, {unreadable, {filename:join(Dir, File), Reason}}}
    end.

component(#{name := Name, version := Version, license := License,
            copyright := Copyright, homepage := Homepage, notices := Files},
          Texts) ->
    #{kind => component, name => text(Name), version => text(Version),
      license => known(License), copyright => known(Copyright),
      homepage => known(Homepage), notices => [maps:get(F, Texts) || F <- Files],
      modules => 0, size => 0, sha256 => <<>>}.

application(#{name := Name, vsn := Vsn, modules := Modules, files := Files,
              spec := {application, _, Properties}, origin := #{kind := Kind}}) ->
    Beams = lists:sort(maps:to_list(Modules)),
    Others = lists:sort([{Path, Bytes}
                         || {Path, #{bytes := Bytes}} <- maps:to_list(Files)]),
    All = [Bytes || {_, Bytes} <- Beams ++ Others],
    #{kind => application, name => text(Name), version => text(Vsn),
      license => license(Kind, proplists:get_value(licenses, Properties, [])),
      copyright => ?UNKNOWN, homepage => ?UNKNOWN,
      notices => [Bytes || {Path, Bytes} <- Others, whittle_system:is_notice(Path)],
      modules => length(Beams), size => iolist_size(All),
      sha256 => sha256(All)}.

license(otp, _) -> <<"Apache-2.0">>;
license(device, _) -> <<"Apache-2.0">>;
license(_, [_ | _] = Names) when length(Names) > 0 ->
    case lists:all(fun is_identifier/1, Names) of
        true -> text(lists:join(" AND ", Names));
        false -> ?UNKNOWN
    end;
license(_, _) -> ?UNKNOWN.

%% Tells whether a license name can be an SPDX identifier. Any other text would make the document
%% invalid.
is_identifier(Name) ->
    io_lib:latin1_char_list(Name)
        andalso re:run(Name, "^[A-Za-z0-9.+-]+$", [dollar_endonly]) =/= nomatch.

known("") -> ?UNKNOWN;
known(Text) -> text(Text).

%% Internal: files

notices(Info, Parts) ->
    Json = iolist_to_binary([whittle_json:encode(Info), $\n]),
    [file(<<"etc/bom.json">>, [whittle_json:encode(whittle_pack_bom:document(Info, Parts)), $\n]),
     file(<<"etc/info.json">>, Json),
     file(<<"etc/info.txt">>, info_text(Info)),
     file(<<"etc/licenses.txt">>, licenses(Parts))].

file(Path, Text) ->
    #{path => Path, mode => 8#644, bytes => iolist_to_binary(Text)}.

info(System, #{target := Target, flavor := Flavor, otp_vsn := OtpVsn,
               erts_vsn := ErtsVsn} = Runtime, Vm, Parts) ->
    (without(Runtime))#{
      name => text(whittle_system:name(System)),
      version => text(whittle_system:vsn(System)),
      target => text(Target),
      flavor => text(Flavor),
      otp => text(OtpVsn),
      erts => text(ErtsVsn),
      vm => #{size => byte_size(Vm), sha256 => sha256(Vm)},
      linked => [maps:with([name, version, license], Part)
                 || #{kind := component} = Part <- Parts],
      applications => [maps:with([name, version, license, modules, size, sha256], Part)
                       || #{kind := application} = Part <- Parts]}.

%% The parts of ERTS that the VM of one program lacks.
without(#{without := #{bifs := Bifs, libraries := Libraries, programs := Programs,
                       preloaded := Preloaded}}) ->
    #{without => #{bifs => [text(io_lib:format("~ts:~ts/~b", [M, F, A])) || {M, F, A} <- Bifs],
                   libraries => [text(Library) || Library <- Libraries],
                   programs => [text(Program) || Program <- Programs],
                   modules => [atom_to_binary(M) || M <- Preloaded]}};
without(#{}) -> #{}.

info_text(#{name := Name, version := Version, target := Target, flavor := Flavor,
            otp := Otp, erts := Erts, vm := #{size := VmSize, sha256 := VmSum},
            linked := Linked, applications := Applications} = Info) ->
    %% io_lib returns characters, and a file holds bytes.
    Row = fun(Format, Values) ->
                  unicode:characters_to_binary(io_lib:format(Format ++ "~n", Values))
          end,
    [Row("~ts ~ts", [Name, Version]),
     Row("target ~ts, flavor ~ts, OTP ~ts, ERTS ~ts", [Target, Flavor, Otp, Erts]),
     Row("vm ~b bytes, sha256 ~ts", [VmSize, VmSum]),
     [Row("linked ~ts ~ts (~ts)", [N, V, L])
      || #{name := N, version := V, license := L} <- Linked],
     [Row("application ~ts ~ts (~ts), ~b modules, ~b bytes, sha256 ~ts",
          [N, V, L, Modules, Size, Sum])
      || #{name := N, version := V, license := L, modules := Modules,
           size := Size, sha256 := Sum} <- Applications],
     [[[Row("without the library ~ts", [Library]) || Library <- Libraries],
       [Row("without the program ~ts", [Program]) || Program <- Programs],
       [Row("without the built-in module ~ts", [M]) || M <- Modules],
       [Row("without the BIF ~ts", [Bif]) || Bif <- Bifs]]
      || #{without := #{bifs := Bifs, libraries := Libraries, programs := Programs,
                        modules := Modules}} <- [Info]]].

licenses(Parts) ->
    Sections = [[Name, $\s, Version, " (", License, ")\n",
                 [[Copyright, $\n] || Copyright =/= ?UNKNOWN]]
                || #{name := Name, version := Version, license := License,
                     copyright := Copyright} <- Parts],
    %% The file contains each notice once, even if several parts share it.
    Notices = lists:uniq([Notice || #{notices := Texts} <- Parts, Notice <- Texts]),
    [Sections, [["\n", lists:duplicate(72, $-), "\n\n", Notice] || Notice <- Notices]].

text(Atom) when is_atom(Atom) -> atom_to_binary(Atom);
text(Chars) -> unicode:characters_to_binary(Chars).

sha256(Bytes) -> list_to_binary(whittle_digest:bytes(Bytes)).
