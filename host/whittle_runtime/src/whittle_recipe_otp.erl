%% @hidden The recipe of an OTP that is installed on this machine.
%%
%% As its makers build it, with what the host has: the JIT where there is one,
%% and beside it the interpreter (`erl -emu_flavor emu'), so that each flavour of
%% a runtime has its like to be measured against. Left out are applications that
%% draw windows or that no program ships: building them takes half as long again.
%%
%% The BEAM files are compiled with `deterministic' (no paths in them), and with
%% debug information as usual: the passes strip it, and the baseline of the
%% figures must be what OTP's makers install.
-module(whittle_recipe_otp).

-export([recipe/1, describe/2]).

%% wx and what needs it, interfaces to other languages and systems that a host
%% would have to have, and large protocol stacks that come as libraries where
%% they are wanted.
-define(WITHOUT, ["wx", "debugger", "observer", "et", "reltool", "dialyzer",
                  "jinterface", "odbc", "megaco", "diameter", "snmp"]).

%% @doc The recipe for a source. Variables: SOURCE, the source's main file.
-spec recipe(whittle_source:source()) -> whittle_recipe:recipe().
recipe(Source) ->
    Without = [" --without-" ++ A || A <- ?WITHOUT],
    [#{name => "unpack", seconds => 12, lines => 40,
       script => whittle_source:unpack(Source)},
     #{name => "configure", seconds => 40, lines => 1000,
       script => ["cd src", "export ERL_TOP=\"$PWD\"",
                  %% Where it is installed is found at run time.
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
                  %% Debian's source comes without these two, which only dress
                  %% common_test's reports; the installation asks for them.
                  "(cd lib/common_test/priv && touch jquery-latest.js"
                  " jquery.tablesorter.min.js)",
                  "make install DESTDIR=\"$WORK/stage\"",
                  "mv \"$WORK\"/stage/otp/lib/erlang/* \"$OUT\"",
                  "cp bin/*-*-*/beam.emu* \"$OUT\"/erts-*/bin/",
                  %% As distributions install it; 80 MB of symbols otherwise, and
                  %% the ledger compares with what a release would ship.
                  "for file in \"$OUT\"/erts-*/bin/*; do"
                  " strip \"$file\" 2>/dev/null || true; done",
                  "cp OTP_VERSION \"$OUT\"/OTP_VERSION"]}].

%% @doc What was installed in a directory.
-spec describe(file:filename(), string()) -> map().
describe(Out, Release) ->
    {ok, Vsn} = file:read_file(filename:join(Out, "OTP_VERSION")),
    [Erts] = filelib:wildcard("erts-*", Out),
    #{otp => Release,
      vsn => string:trim(binary_to_list(Vsn)),
      erts_vsn => string:prefix(Erts, "erts-")}.
