%% @hidden Formats the errors of this application as lines for a person.
-module(whittle_system_error).

-export([format/1, details/1]).

-export_type([error/0]).

-type app() :: whittle_system:app_name().
-type path() :: file:filename_all().
-type text() :: unicode:chardata().

%% The applications that ask for another one; none: an option does.
-type askers() :: [app()] | release.
-type asked() :: {app(), askers()}.

-type error() ::
        %% The input
        {no_such_path | packed_release | no_release_file | no_application | mix_project | not_a_file
         | no_escript | empty_escript | no_app_file | bad_start_data | bad_own_boot | large_boot
         | no_otp | bad_boot_file,
         path()}
      | {boot_names, {path(), Limit :: pos_integer()}}
      | {no_program, {Program :: text(), Package :: text()}}
      | {no_temporary, {path(), file:posix() | badarg}}
      | {not_locked, {path(), file:posix()}}
      | {not_fetched, {path(), Said :: text()}}
      | {not_compiled, {path() | text(), Command :: text(), Output :: binary()} | binary()}
      | {unreadable, {path(), whittle_includes:reason() | {odd_name, text()}
                             | {too_many_paths, Limit :: pos_integer()}}}
      | {odd_name, {path(), Kind :: text(), Name :: text(), Why :: text()}}
      | {other_script, {path(), Interpreter :: text()}}
      | {bad_config | bad_flags | bad_app_file | bad_rel_file | bad_native,
         {path(), Why :: text()}}
      | {bad_archive, {path(), whittle_zip:error() | term()}}
      | {no_main, {path(), module()}}
      | {no_device_application, {app(), path()}}
        %% Applications
      | {several_app_files, {path(), [path()]}}
      | {no_vsn, {app(), path()}}
      | {absent_modules, {app(), [module()], path()}}
      | {absent_start_module, {app(), module()}}
      | {application_twice, {app(), [path()]}}
      | {reserved_name, {Kind :: text(), Name :: atom(), path() | text()}}
      | {name_of_otp, {app(), path()}}
      | {archived_application, {app(), path()}}
      | {missing_applications, {[asked()], Otp :: string()}}
      | {unsupported_application, {app(), askers(), Why :: text()}}
      | {absent_programs, {app(), askers(), [path()]}}
      | {circular_applications, [app()]}
      | {prebuilt_nif, {path(), app(), [module()]}}
      | {outside_links, [{Whose :: text(), path(), To :: path()}]}
      | {behind_link, {Link :: path(), To :: path(), path(), Reason :: term()}}
      | {native_unused, {path() | none, Name :: text(), module()}}
      | {absent_applications, {[{app(), Vsn :: string()}], path()}}
        %% Modules
      | {bad_beam, {Where :: text(), whittle_beam:error()}}
      | {misnamed_module, {path(), module()}}
      | {needs_newer_otp, {app(), module(), pos_integer(), Why :: text(), Otp :: string()}}
      | {too_old, {app(), module(), [non_neg_integer()], Otp :: string()}}
      | {module_twice, {module(), One :: text(), Other :: text()}}
      | {source_twice, {path(), Name :: text(), [path()]}}.

%% The lines of a failed compiler that an error shows.
-define(SHOWN_LINES, 30).

%% @doc Formats an error as one line that ends with the next step. It escapes control characters,
%% which names may contain.
-spec format(whittle_system:error()) -> unicode:chardata().
format(Error) -> whittle_file_name:printable(text(Error)).

%% @doc Returns the lines that belong above the line of {@link format/1}: the first lines of a
%% compiler that failed.
-spec details(error()) -> [unicode:chardata()].
details({not_compiled, {_, _, Output}}) ->
    lists:sublist([whittle_file_name:printable(Line) || Line <- string:lexemes(Output, "\r\n")],
                  ?SHOWN_LINES);
details(_) -> [].

%% Internal

%% The input
text({no_such_path, Path}) when Path =:= ""; Path =:= <<>> ->
    "the path is empty: name an application, a release or an escript";
text({no_such_path, Path}) ->
    line("~ts does not exist: name an application, a release or an escript", [Path]);
text({no_release_file, Path}) ->
    line("~ts holds the libraries of a release (lib/NAME-VSN) or an ERTS (erts-VSN), but no "
         "releases/VSN/NAME.rel, which lists its applications: build the release again", [Path]);
text({packed_release, Path}) ->
    line("~ts is a packed archive: unpack it first and name the release's directory", [Path]);
text({no_application, Path}) ->
    line("~ts holds no application and no release: name a directory with "
         "ebin/*.app, src/*.app.src, rebar.config or releases/", [Path]);
text({mix_project, Path}) ->
    line("~ts is a Mix project: run `MIX_ENV=prod mix release' in it and name "
         "the directory that it prints", [Path]);
text({no_program, {Program, From}}) ->
    line("~ts is not on the PATH: install it (~ts)", [Program, From]);
text({no_temporary, {Dir, Reason}}) ->
    line("~ts cannot be written (~ts): ~tsname another directory with TMPDIR",
         [Dir, file:format_error(Reason),
          ["free space there, or " || Reason =:= enospc orelse Reason =:= edquot]]);
text({not_locked, {Dir, Reason}}) ->
    line("~ts cannot be locked (~ts), and two builds must not write its _build at once: check its "
         "permissions, or copy it to a file system with locks", [Dir, file:format_error(Reason)]);
text({not_fetched, {Dir, Line}}) ->
    line("~ts lacks a dependency, and Whittle fetches none: run `rebar3 get-deps' in it and try "
         "again; rebar3 printed: ~ts", [Dir, Line]);
text({not_compiled, {Dir, Command, Output}}) ->
    line("~ts does not compile: correct it and try again; ~ts printed: ~ts",
         [Dir, Command, first_error(Output)]);
text({unreadable, {File, eloop}}) ->
    line("~ts is a symbolic link in a loop: remove it", [File]);
text({unreadable, {Dir, {too_many_paths, Limit}}}) ->
    line("more than ~ts paths lead to files below ~ts, and Whittle reads no more: remove "
         "symbolic links that lead to the same directories, or put the files into an archive",
         [whittle_number:text(Limit), Dir]);
text({unreadable, {File, {Kind, _} = Reason}})
  when Kind =:= long_attribute; Kind =:= too_many_atoms ->
    line("~ts ~ts", [File, whittle_includes:format_error(Reason)]);
text({unreadable, {File, eilseq}}) ->
    line("~ts has a name that is not UTF-8: rename it", [File]);
text({unreadable, {File, eftype}}) ->
    line("~ts ~ts: remove it, or put a regular file there",
         [File, whittle_file:format_error(eftype)]);
text({unreadable, {File, {odd_name, Why}}}) ->
    line("the name ~ts ~ts: rename the file", [File, Why]);
text({odd_name, {File, Kind, Name, Why}}) ->
    line("~ts: ~ts `~ts' ~ts: rename it, because it becomes part of file names in the "
         "output", [File, Kind, Name, Why]);
text({unreadable, {File, enomem}}) ->
    line("~ts ~ts: remove it, or build on a machine with more memory",
         [File, whittle_file:format_error(enomem)]);
text({unreadable, {File, efbig}}) ->
    line("~ts is larger than Whittle allows (docs/inputs.md of Whittle's source has the limits): "
         "correct or remove it",
         [File]);
text({unreadable, {File, enotdir}}) ->
    line("~ts is a file, but only a directory may have this name: rename the file", [File]);
text({unreadable, {File, enoent}}) ->
    line("~ts is a link without a target: remove it", [File]);
text({unreadable, {File, eisdir}}) ->
    line("~ts is a directory, but only a file may have this name: rename the directory", [File]);
text({unreadable, {File, Reason}}) ->
    line("~ts ~ts: check its permissions", [File, whittle_file:format_error(Reason)]);
text({empty_escript, File}) ->
    line("~ts has no code behind its first lines: add a function main/1", [File]);
text({no_escript, File}) ->
    line("~ts is not an escript: name an escript (a file that begins with #!), or the directory "
         "of an application, a project or a release",
         [File]);
text({other_script, {File, Interpreter}}) ->
    line("~ts is a script for ~ts, not an escript: name an escript, or the directory of a "
         "release instead of its start script", [File, Interpreter]);
text({not_a_file, Path}) ->
    line("~ts is neither a file nor a directory: name an application, a release or an escript",
         [Path]);
text({bad_config, {File, Why}}) ->
    line("~ts is not a valid configuration (~ts): correct it, because the program would not start "
         "with it",
         [File, Why]);
text({bad_flags, {File, Why}}) ->
    line("the flags in ~ts are wrong (~ts): correct them", [File, Why]);
text({bad_archive, {File, Why}}) ->
    line("the archive in ~ts ~ts: build the escript again", [File, archive(Why)]);
text({no_main, {File, Module}}) ->
    line("~ts has no ~ts:main/1: name the module with `%%! -escript main MODULE' "
         "and export main/1", [File, Module]);
text({no_device_application, {Name, Dir}}) ->
    line("~ts is not built: run `rebar3 compile' in Whittle's own tree (Whittle looked in ~ts)",
         [Name, Dir]);
%% Applications
text({no_app_file, Dir}) ->
    line("~ts holds no .app file: compile the application first", [Dir]);
text({several_app_files, {Dir, Paths}}) ->
    line("~ts holds several files that describe an application (~ts): remove all but one",
         [Dir, list(Paths)]);
text({bad_app_file, {File, Why}}) ->
    line("~ts: ~ts; correct the file", [File, Why]);
text({no_vsn, {Name, File}}) ->
    line("application ~ts has no version: set `vsn' in ~ts", [Name, File]);
text({absent_modules, {Name, Modules, File}}) ->
    line("application ~ts lists modules that do not exist (~ts): compile it "
         "again, or remove them from ~ts", [Name, list(Modules), File]);
text({absent_start_module, {Name, Module}}) ->
    line("application ~ts starts with module ~ts (`mod' in its .app file), which does not exist: "
         "compile it, or correct `mod'", [Name, Module]);
text({application_twice, {Name, Paths}}) ->
    line("the input has application ~ts twice (~ts): remove one of the two", [Name, list(Paths)]);
text({reserved_name, {Kind, Name, Dir}}) ->
    line("~ts has the ~ts ~ts, and Whittle adds its own of that name to every output: rename yours",
         [Dir, Kind, Name]);
text({name_of_otp, {Name, Dir}}) ->
    line("~ts has the application ~ts, and every output has OTP's part of that name: rename yours",
         [Dir, Name]);
text({archived_application, {Name, File}}) ->
    line("application ~ts is in ~ts, and Whittle does not read archives (.ez): unpack it into the "
         "same directory (unzip ~ts -d ~ts)", [Name, File, File, filename:dirname(File)]);
text({missing_applications, {[{erts, Askers}], _}}) ->
    line("erts, which ~ts, is the VM itself, and every output has it: ~ts",
         [askers(Askers), remedy(erts, Askers)]);
text({missing_applications, {[{Name, Askers}], Otp}}) ->
    case lack(Name) of
        {unsupported, Why} -> text({unsupported_application, {Name, Askers, Why}});
        left_out ->
            line("Whittle does not build OTP's ~ts, which ~ts: add it to the release, add its "
                 "parent directory to ERL_LIBS, or ~ts",
                 [Name, askers(Askers), remedy(Name, Askers)]);
        nowhere ->
            line("application ~ts~ts, which ~ts, is neither in the input nor in OTP ~ts: add it "
                 "to the release, add its parent directory to ERL_LIBS, or ~ts",
                 [Name, hint(Name), askers(Askers), Otp, remedy(Name, Askers)])
    end;
text({missing_applications, {Missing, Otp}}) ->
    Lacks = [{Name, Askers, lack(Name)} || {Name, Askers} <- Missing],
    Addable = [Name || {Name, _, Lack} <- Lacks, not is_tuple(Lack)],
    line("~b applications cannot be packed: ~ts; ~ts",
         [length(Missing),
          list([[atom_to_list(Name), [hint(Name) || Lack =:= nowhere], ", which ",
                 askers(Askers), " (", lack(Name, Lack, Otp), $)]
                || {Name, Askers, Lack} <- Lacks]),
          lists:join("; or ",
                     [["add ", list(Addable), " to the release, or add their parent directories to "
                       "ERL_LIBS"] || Addable =/= []]
                     ++ ["remove them from the .app files that name them"
                         || lists:any(fun({_, Askers}) -> Askers =/= [] end, Missing)]
                     ++ [remedy(Name, []) || {Name, []} <- Missing])]);
text({unsupported_application, {Name, Askers, Why}}) ->
    line("application ~ts, which ~ts, cannot work in one file (~ts): ~ts",
         [Name, askers(Askers), Why, remedy(Name, Askers)]);
text({absent_programs, {Name, Askers, Paths}}) ->
    line("application ~ts of OTP, which ~ts, runs programs that no output can contain "
         "(~ts): ~ts", [Name, askers(Askers), list(Paths), remedy(Name, Askers)]);
text({circular_applications, [Name]}) ->
    line("application ~ts lists itself as an application that it needs: remove it from the list "
         "`applications' in its own .app file", [Name]);
text({circular_applications, Circle}) ->
    line("applications need each other in a cycle (~ts): remove one of them from the list "
         "`applications' in the .app file of the one before it; if one of yours has the name of an "
         "OTP application, rename it", [list(Circle)]);
text({prebuilt_nif, {Path, Name, Loaders}}) ->
    line("application ~ts contains the shared object ~ts (loaded by ~ts), and Whittle's static "
         "VM cannot load shared objects: describe its sources with --native (docs/natives.md of "
         "Whittle's source), or remove the file if nothing loads it",
         [Name, Path, case Loaders of [] -> "none of its modules"; _ -> list(Loaders) end]);
text({outside_links, Links}) ->
    line("symbolic links point outside the input (~ts): replace them with files, or build "
         "without --no-outside-links",
         [list([outside(Link) || Link <- Links])]);
text({behind_link, {Link, To, File, Reason}}) ->
    line("~ts is a symbolic link out of the input, to ~ts, and ~ts behind it "
         "~ts: replace the link with the files that the program needs, or remove the link",
         [Link, To, File, reason(Reason)]);
text({bad_native, {File, Why}}) ->
    line("~ts: ~ts; correct this file (docs/natives.md of Whittle's source describes its format)",
         [File, Why]);
text({native_unused, {File, Name, Module}}) ->
    line("~ts: no application has the module ~ts, which should load ~ts: use {module, NAME} to "
         "name "
         "the module that loads it", [File, Module, Name]);
text({absent_applications, {[{Name, Vsn}], Dir}}) ->
    line("the release lists ~ts ~ts, which is neither in ~ts/lib nor in the "
         "chosen OTP: build the release again", [Name, Vsn, Dir]);
text({absent_applications, {Absent, Dir}}) ->
    line("the release lists applications that are neither in ~ts/lib nor in the chosen OTP "
         "(~ts): build the release again",
         [Dir, list([[atom_to_list(Name), $\s, Vsn] || {Name, Vsn} <- Absent])]);
text({bad_start_data, Dir}) ->
    line("~ts/releases does not say which version is current: build the release "
         "again", [Dir]);
text({bad_own_boot, File}) ->
    line("~ts is not a boot file: build the release again", [File]);
text({large_boot, File}) ->
    line("~ts has more than 16 MB (uncompressed), and Whittle reads no larger boot file: shorten "
         "the lists in the release's .app files, and build the release again", [File]);
text({boot_names, {File, Limit}}) ->
    line("~ts ~ts", [File, whittle_bounded:too_many_atoms(Limit)]);
text({bad_rel_file, {File, Why}}) ->
    line("~ts: ~ts; build the release again", [File, Why]);
%% Modules
text({bad_beam, {File, Error}}) ->
    line("~ts ~ts", [File, whittle_beam:format_error(Error)]);
text({misnamed_module, {File, Module}}) ->
    line("~ts holds module ~ts: give the file the module's name", [File, Module]);
text({needs_newer_otp, {Name, Module, Needs, Why, Otp}}) ->
    line("module ~ts of ~ts was compiled by OTP ~w (~ts), newer than the chosen "
         "OTP ~ts: compile it with OTP ~ts or older, or choose a newer `--otp' "
         "(`whittle help build' lists them)", [Module, Name, Needs, Why, Otp, Otp]);
text({too_old, {Name, Module, _Opcodes, Otp}}) ->
    line("module ~ts of ~ts was compiled by an OTP too old for OTP ~ts, and it has no debug "
         "information from which Whittle could compile it again: keep that information (relx: "
         "`{debug_info, keep}'; Mix: `strip_beams: false'), or compile the module with OTP ~ts, "
         "or build with `--otp 25'", [Module, Name, Otp, Otp]);
text({module_twice, {Module, One, Other}}) ->
    line("module ~ts is in both ~ts and ~ts: rename one of the modules, or remove one of the "
         "applications", [Module, One, Other]);
text({source_twice, {Dir, Name, Files}}) ->
    line("module ~ts has two sources in ~ts (~ts): rename or remove one of "
         "them", [Name, Dir, list(Files)]);
%% The chosen OTP
text({no_otp, Lib}) ->
    line("~ts is not the lib directory of an OTP installation: run `whittle clean --kind otp "
         "--yes', "
         "and build again",
         [Lib]);
text({bad_boot_file, File}) ->
    line("~ts is not a boot file: run `whittle clean --kind otp --yes', and build again", [File]).

reason(eilseq) -> "has a name that is not UTF-8";
reason({odd_name, Why}) -> ["has a name that ", Why];
reason(enoent) -> "is a link without a target";
reason(eloop) -> "is a link in a loop";
reason(enotdir) -> "is a file, and only a directory may have this name";
reason(Reason) -> whittle_file:format_error(Reason).

outside({Whose, <<>>, To}) -> [Whose, " itself is a link to ", To];
outside({Whose, Path, To}) -> [Whose, ": ", Path, " to ", To].

archive(damaged) -> "is damaged";
archive(too_large) -> "inflates to more than 256 MB";
archive({odd_path, {Path, Why}}) -> ["holds the path `", Path, "', which ", Why].

line(Format, Arguments) ->
    io_lib:format(Format, [shown(Argument) || Argument <- Arguments]).

list(Things) ->
    lists:join(", ", [if is_integer(Thing) -> integer_to_list(Thing);
                         true -> io_lib:format("~ts", [shown(Thing)])
                      end || Thing <- Things]).

%% Quotes a name with a blank, so that a reader sees where it ends.
shown(Name) when is_atom(Name) ->
    case string:lexemes(atom_to_list(Name), " ") of
        [_, _ | _] -> io_lib:format("~tp", [Name]);
        _ -> Name
    end;
shown(Other) -> Other.

%% Finds the reason why an application is missing.
lack(Name) ->
    case {whittle_otp:unsupported(Name), whittle_otp:is_left_out(Name)} of
        {false, true} -> left_out;
        {false, false} -> nowhere;
        {Why, _} -> {unsupported, Why}
    end.

%% Finds the application of OTP that a misspelled name means.
hint(Name) ->
    whittle_suggestion:hint(atom_to_list(Name), [atom_to_list(Otp) || Otp <- whittle_otp:names(),
                                                                      Otp =/= Name,
                                                                      lack(Otp) =:= nowhere]).

lack(_, {unsupported, Why}, _) -> ["cannot work in one file: ", Why];
lack(Name, left_out, _) -> ["Whittle does not build OTP's ", atom_to_list(Name)];
lack(_, nowhere, Otp) -> ["is neither in the input nor in OTP ", Otp].

remedy(Name, []) -> ["leave out --app ", atom_to_list(Name)];
remedy(_, release) -> "remove it from the release";
remedy(_, _) -> "remove it from the .app file that names it".

askers([]) -> "you asked for";
askers(release) -> "the release lists";
askers(Names) -> [list(Names), case Names of [_] -> " needs"; _ -> " need" end].

%% A compiler's error begins with the place: `file.erl:7:'. The errors after the first one often
%% follow from it. If it has no line, as for an unknown parse transform, it comes last.
first_error(Output) ->
    Lines = case re:run(Output, "^[^ %\\s].*:\\d+:.*$", [multiline, global,
                                                         {capture, first, binary}]) of
                {match, Found} -> lists:append(Found);
                nomatch -> []
            end,
    case [Line || Line <- Lines, binary:match(Line, <<": Warning: ">>) =:= nomatch] of
        [First | _] -> First;
        [] -> tail(Output)
    end.

%% The last lines of the output, on one line
tail(Output) ->
    Lines = string:lexemes(Output, "\r\n"),
    lists:join(" | ", lists:nthtail(max(0, length(Lines) - 5), Lines)).
