%% @hidden Writes the recipe of an OTP installation on this machine.
%%
%% It builds OTP with its makers' options and the features that the host supports: the JIT if
%% possible, and also the interpreter (`erl -emu_flavor emu'). So each flavor of a runtime has a
%% counterpart for measurements. It omits applications that draw windows and applications that no
%% program ships; they would lengthen the build by half.
%%
%% It compiles BEAM files with `deterministic' (without paths), and with debug information as
%% usual. Whittle's passes strip that information. The baseline of the figures must be the
%% files that OTP's makers install.
-module(whittle_recipe_otp).

-export([recipe/1, describe/2, stock_programs/1]).

%% Omitted: wx and the applications that need it, interfaces to other languages and systems that
%% the host would have to install, and large protocol stacks that projects add as libraries.
-define(WITHOUT, ["wx", "debugger", "observer", "et", "reltool", "dialyzer",
                  "jinterface", "odbc", "megaco", "diameter", "snmp"]).

%% @doc Returns the recipe for a source. Variables: SOURCE, the source's main file.
-spec recipe(whittle_source:source()) -> whittle_recipe:recipe().
recipe(Source) ->
    Without = [" --without-" ++ A || A <- ?WITHOUT],
    [#{name => "unpack", seconds => 12, lines => 40,
       script => whittle_source:unpack(Source)},
     #{name => "configure", seconds => 40, lines => 1000,
       script => ["cd src", "export ERL_TOP=\"$PWD\"",
                  %% OTP finds its install directory at run time.
                  lists:flatten(["./configure --prefix=/otp --without-javac",
                                 Without])]},
     #{name => "compile", seconds => 400, lines => 2000,
       script => ["cd src", "export ERL_TOP=\"$PWD\"",
                  "export ERL_COMPILER_OPTIONS=deterministic",
                  "make -j\"$JOBS\""]},
     #{name => "interpreter", seconds => 60, lines => 400,
       script => ["cd src", "export ERL_TOP=\"$PWD\"",
                  "make -j\"$JOBS\" -C erts/emulator FLAVOR=emu opt"]},
     #{name => "install", seconds => 12, lines => 500,
       script => ["cd src", "export ERL_TOP=\"$PWD\"",
                  "export ERL_COMPILER_OPTIONS=deterministic",
                  %% Debian's source lacks these two files. They only style common_test's
                  %% reports, but the installation requires them.
                  "(cd lib/common_test/priv && touch jquery-latest.js"
                  " jquery.tablesorter.min.js)",
                  "make install DESTDIR=\"$WORK/stage\"",
                  "mv \"$WORK\"/stage/otp/lib/erlang/* \"$OUT\"",
                  "cp bin/*-*-*/beam.emu* \"$OUT\"/erts-*/bin/",
                  %% Strip, as distributions do: the symbols have 80 MB, and the ledger
                  %% compares with the files that a release would ship.
                  "for file in \"$OUT\"/erts-*/bin/*; do"
                  " strip \"$file\" 2>/dev/null || true; done",
                  "cp OTP_VERSION \"$OUT\"/OTP_VERSION"]}].

%% @doc Describes the OTP that is installed in a directory.
-spec describe(file:filename(), string()) -> map().
describe(Out, Release) ->
    {ok, Vsn} = file:read_file(filename:join(Out, "OTP_VERSION")),
    [Erts] = filelib:wildcard("erts-*", Out),
    #{otp => Release,
      vsn => string:trim(binary_to_list(Vsn)),
      erts_vsn => string:prefix(Erts, "erts-")}.

%% @doc Lists the programs of the stock ERTS below an installation's root. The recipe adds two that
%% OTP's makers do not install: the interpreter beside the JIT, and `yielding_c_fun'.
-spec stock_programs(file:filename()) -> [file:filename()].
stock_programs(Root) ->
    Files = [File || File <- whittle_file:found("erts-*/bin/*", Root),
                     filelib:is_regular(File)],
    Names = [filename:basename(File) || File <- Files],
    Added = ["yielding_c_fun" | ["beam.emu" || lists:member("beam.smp", Names)]],
    [File || File <- Files, not lists:member(filename:basename(File), Added)].
