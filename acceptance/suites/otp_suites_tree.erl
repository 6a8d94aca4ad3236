%% Creates the tree in which suites run. It has a copy of the stock installation, in which the VM
%% under test replaces `beam.smp' and ERTS's small programs. It also has a copy of the suites,
%% because they write into their own directories.
%%
%% ```
%% DIR/otp                  the installation; its `erl' is first on the PATH
%% DIR/APP_test             the suites of an application
%% DIR/test_server          OTP's own tools that compile the suites' C parts
%% DIR/home, DIR/logs       the user's home; common_test's logs
%% DIR/tree.config          the inputs of the tree; written last
%% '''
%%
%% Suites run as an ordinary user, because root cannot test half of the file permissions. Root runs
%% them as nobody.
-module(otp_suites_tree).

-export([ensure/3, user/0, environment/1]).
-export_type([variant/0, code/0, parts/0]).

%% static: the shipped VM. dynamic: the same objects, linked so that the VM can load NIFs and
%% drivers. stock: the stock interpreter, to separate Whittle's failures from the environment's.
-type variant() :: static | dynamic | stock.

%% The code of kernel and stdlib: OTP's; all of it rewritten by whittle_beam; or shaken, with
%% companions of the cold code.
-type code() :: stock | rewritten | shaken.

-type parts() ::
        #{otp := whittle_runtime:otp(),
          suites := whittle_runtime:suites(),
          vm := file:filename() | none,  % none: the stock interpreter
          %% The compiler of the suites' C parts: a command, or a target's.
          cc := string() | whittle_target:target(),
          emulator => [string()],        % the words that run the VM (default: none)
          code := code(),
          key := term()}.                % all inputs of the tree

-define(NOBODY, "65534").
-define(ROLES, ["erl_child_setup", "inet_gethost", "heart"]).

%% Returns the tree of a variant below Base, and creates it if it does not exist.
-spec ensure(variant(), parts(), file:filename()) -> file:filename().
ensure(Variant, Parts = #{key := Key}, Base) ->
    Dir = filename:join(reachable(Base), atom_to_list(Variant)),
    Own = [erlang:md5(Bytes) || File <- ["otp_suites_events.erl", "otp_suites_role.c"],
                                {ok, Bytes} <- [file:read_file(filename:join(here(), File))]],
    Made = {Key, Own},
    case file:consult(filename:join(Dir, "tree.config")) of
        {ok, [Made]} ->
            ok;
        _ ->
            make(Dir, Parts),
            ok = file:write_file(filename:join(Dir, "tree.config"),
                                 io_lib:format("~tp.~n", [Made]))
    end,
    Dir.

here() -> filename:dirname(code:which(?MODULE)).

remove(Dir) ->
    %% Suites may leave directories without permissions.
    _ = sh("test ! -e \"$DIR\" || { chmod -R u+rwX \"$DIR\"; rm -rf \"$DIR\"; }",
           [{"DIR", Dir}], "/"),
    ok.

%% The user nobody must be able to enter the tree; a checkout below root's home is not reachable.
reachable(Base) ->
    ok = filelib:ensure_path(Base),
    case sh(words(user(), ["test", "-x", Base]), [], "/") of
        {0, _} ->
            Base;
        _ ->
            Name = "whittle-otp-suites-" ++ integer_to_list(erlang:phash2(Base)),
            Elsewhere = filename:join("/var/tmp", Name),
            ok = filelib:ensure_path(Elsewhere),
            Elsewhere
    end.

make(Dir, #{otp := #{root := Root}, suites := #{dir := Suites}, vm := Vm, cc := Compiler,
            code := Code} = Parts) ->
    {Cc, Headers} = compiler(Compiler, Dir),
    remove(Dir),
    ok = filelib:ensure_path(Dir),
    Variables = [{"DIR", Dir}, {"OTP", Root}, {"SUITES", Suites}, {"TESTS", here()},
                 {"VM", case Vm of none -> ""; _ -> Vm end}, {"CC", Cc},
                 {"EMULATOR", lists:flatten(lists:join(" ", maps:get(emulator, Parts, [])))},
                 {"REWRITTEN", case Code of rewritten -> "kernel stdlib"; _ -> "" end}],
    done(sh(lists:join("\n",
              ["set -e",
               lists:join("\n", Headers),
               "cp -R \"$OTP\" \"$DIR/otp\"",
               "cp -pR \"$SUITES\"/*_test \"$SUITES/test_server\" \"$DIR\"",
               "for app in $REWRITTEN; do",
               "    \"$TESTS/../beam-files\" --rewrite \"$DIR\"/otp/lib/$app-*/ebin \"$OTP\"",
               "done",
               "cd \"$DIR\"/otp/erts-*/bin",
               %% The nodes that suites start use the program beam.smp.
               "case $VM,$EMULATOR in",
               "  ,) cp -f beam.emu beam.smp ;;",
               "  *,) cp -f \"$VM\" beam.smp; ln -f beam.smp beam.emu",
               "     for role in " ++ lists:join(" ", ?ROLES) ++ "; do",
               "         rm -f $role",
               "         musl-gcc -static -Os -DNAME=\"\\\"$role\\\"\" -o $role"
               "             \"$TESTS/otp_suites_role.c\"",
               "     done",
               "     cp -f \"${VM%/*}/epmd\" epmd ;;",
               %% The kernel runs scripts that run the emulator; -0 is qemu's for argv[0].
               "  *) cp -f \"$VM\" vm; rm -f beam.smp beam.emu",
               "     echo '#!/bin/sh' >beam.smp",
               "     echo \"exec $EMULATOR \\\"\\${0%/*}/vm\\\" \\\"\\$@\\\"\" >>beam.smp",
               "     cp beam.smp beam.emu; chmod 755 vm beam.smp beam.emu",
               "     for role in " ++ lists:join(" ", ?ROLES) ++ "; do",
               "         rm -f $role",
               "         sed \"s|^exec $EMULATOR|& -0 /.whittle/bin/$role|\" beam.smp >$role",
               "         chmod 755 $role",
               "     done",
               "     cp -f \"${VM%/*}/epmd\" epmd.target; chmod 755 epmd.target; rm -f epmd",
               "     sed 's|/vm\"|/epmd.target\"|' beam.smp >epmd; chmod 755 epmd ;;",
               "esac",
               %% Debian's source lacks these two files, which only style the reports.
               "(cd \"$DIR\"/otp/lib/common_test-*/priv &&"
               " touch jquery-latest.js jquery.tablesorter.min.js)",
               "\"$OTP/bin/erlc\" -o \"$DIR/test_server\" \"$TESTS/otp_suites_events.erl\"",
               "cd \"$DIR\"",
               "mkdir home logs"]),
            Variables, Dir)),
    _ = [otp_suites_shaken:shake(filename:join(Dir, "otp")) || Code =:= shaken],
    %% Also the installation, because suites add applications to it.
    done(sh("[ \"$(id -u)\" != 0 ] || chown -R " ?NOBODY ":" ?NOBODY " .", [], Dir)),
    Install = words(user(), ["erl", "-noinput", "-eval",
                             "ok = ts_install:install(install_local, []), halt()."]),
    done(sh(Install, [{"CC", Cc} | environment(Dir)], filename:join(Dir, "test_server"))).

%% Returns the compiler's command, and the lines that create its files.
compiler(Target, Dir) when is_map(Target) ->
    #{cc := Cc} = Target,
    {Cc ++ " -idirafter " ++ Dir ++ "/kernel",
     whittle_toolchain:kernel_headers(Target, "\"$DIR/kernel\"")};
compiler(Cc, _) ->
    {Cc, []}.

done({0, _}) -> ok;
done({_, Output}) -> throw({failed, "cannot make the suites' place", Output}).

%% Returns the words that run a command as the ordinary user.
-spec user() -> [string()].
user() ->
    case os:cmd("id -u") of
        "0\n" -> ["setpriv", "--reuid=" ?NOBODY, "--regid=" ?NOBODY, "--clear-groups"];
        _ -> []
    end.

%% Returns the environment, which contains only these variables.
-spec environment(file:filename()) -> [{string(), string() | false}].
environment(Dir) ->
    [{Name, false} || Setting <- os:getenv(), [Name | _] <- [string:split(Setting, "=")]]
        ++ [{"PATH", filename:join(Dir, "otp/bin") ++ ":/usr/local/bin:/usr/bin:/bin"},
            {"HOME", filename:join(Dir, "home")}, {"LANG", "C.UTF-8"}, {"TERM", "xterm"},
            {"SHELL", "/bin/sh"}].

words(User, Words) ->
    lists:join(" ", [[$', W, $'] || W <- User ++ Words]).

%% Runs lines of sh, and returns the exit code and the output.
sh(Script, Variables, Dir) ->
    running:run("/bin/sh", ["-c", unicode:characters_to_list(Script)],
                #{env => Variables, cd => Dir}).
