%% @hidden Writes the recipe of OTP's own test suites, ready to run.
%%
%% The artifact has the layout of OTP's makefiles: a directory `APP_test' for each application,
%% and `test_server' beside them. When the suites run, they configure and compile their C parts
%% with `test_server' (docs/otp-suites.md). The stock OTP of the same release compiles the
%% Erlang parts here; the VM under test would take several times as long.
-module(whittle_recipe_suites).

-export([recipe/1, apps/0]).

%% The place of each application's tests in the source.
-define(APPS, [{"emulator", "erts/emulator/test"},
               {"kernel", "lib/kernel/test"},
               {"stdlib", "lib/stdlib/test"}]).

%% @doc Lists the applications whose suites the recipe builds.
-spec apps() -> [string()].
apps() ->
    [App || {App, _} <- ?APPS].

%% @doc Returns the recipe for a source.
%%
%% Variables: SOURCE, the source's main file; OTP, the root of the stock OTP that compiles.
-spec recipe(whittle_source:source()) -> whittle_recipe:recipe().
recipe(Source) ->
    Top = "export ERL_TOP=\"$WORK/src\"",
    [#{name => "unpack", seconds => 12, lines => 40,
       script => whittle_source:unpack(Source)},
     #{name => "configure", seconds => 25, lines => 500,
       %% Configure only for the makefiles of the tests: the recipe builds nothing of lib/.
       script => ["rm -f src/lib/*/configure", "cd src", Top,
                  "./configure --without-termcap --without-ssl --without-javac"
                  " --without-wx --without-odbc --disable-jit"]},
     #{name => "lay out", seconds => 5, lines => 200,
       script => [Top, "export PATH=\"$OTP/bin:$PATH\""]
           ++ ["make -C \"src/" ++ Dir ++ "\" release_tests TESTROOT=\"$OUT\""
               || {_, Dir} <- ?APPS]
           ++ ["mkdir \"$OUT/test_server\"",
               "cd src/lib/common_test/test_server",
               "cp *.erl *.hrl conf_vars.in configure config.sub config.guess"
               " install-sh ts.config ts.unix.config \"$OUT/test_server\""]},
     #{name => "compile", seconds => 300, lines => 300,
       script => [Top, "export PATH=\"$OTP/bin:$PATH\"",
                  "cd \"$OUT/test_server\"", "erlc +nowarn_deprecated_catch ts*.erl",
                  "echo \"" ++ string:join(apps(), "\n") ++ "\" |"
                  " xargs -P \"$JOBS\" -I APP"
                  " sh -c 'cd \"$OUT/APP_test\" && erl -noinput -make'"]}].
