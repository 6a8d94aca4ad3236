%% Lays out a release directory of unpacked applications and of OTP's, as relx does.
-module(servers_release).

-export([make/2]).

%% `found' maps an application to its directory and the keys of its .app file. `roots' are the
%% applications that the server starts itself. The other applications come from OTP.
-type spec() :: #{name := string(), otp := string(), vm_args := [string()],
                  found := #{atom() => {file:filename(), [{atom(), term()}]}},
                  roots := [atom()]}.

-spec make(file:filename(), spec()) -> file:filename().
make(Dir, #{name := Name, otp := Otp, found := Found, roots := Roots, vm_args := VmArgs}) ->
    _ = file:del_dir_r(Dir),
    Lib = filename:join(debian:otp_root(Otp), "lib"),
    All = closure([kernel, stdlib, sasl | Roots], [], fun(App) -> keys(App, Found, Lib) end),
    Settings = filename:join([Dir, "releases", "1"]),
    ok = filelib:ensure_path(Settings),
    ok = filelib:ensure_path(filename:join(Dir, "lib")),
    To = fun(App, Keys) -> filename:join([Dir, "lib", lists:concat([App, "-", vsn(Keys)])]) end,
    [{0, _} = running:run("/bin/cp", ["-rL", From, To(App, Keys)])
     || App <- All, #{App := {From, Keys}} <- [Found]],
    Apps = [{App, vsn(keys(App, Found, Lib)), started(App)} || App <- All],
    Term = {release, {Name, "1"}, {erts, erts(Otp)}, Apps},
    ok = file:write_file(filename:join(Settings, Name ++ ".rel"), io_lib:format("~p.~n", [Term])),
    ok = file:write_file(filename:join(Settings, "vm.args"), [[Line, "\n"] || Line <- VmArgs]),
    ok = file:write_file(filename:join(Settings, "sys.config"), "[].\n"),
    Dir.

closure([], Seen, _) -> lists:reverse(Seen);
closure([App | Rest], Seen, Keys) ->
    case lists:member(App, Seen) of
        true -> closure(Rest, Seen, Keys);
        false ->
            Needs = proplists:get_value(applications, Keys(App), []),
            closure(Rest ++ Needs, [App | Seen], Keys)
    end.

keys(App, Found, Lib) ->
    case Found of
        #{App := {_, Keys}} -> Keys;
        #{} ->
            Pattern = lists:concat([App, "-*/ebin/", App, ".app"]),
            case filelib:wildcard(filename:join(Lib, Pattern)) of
                [File] -> element(2, debian:application(File));
                [] -> debian:fail("the application ~s is neither in the packages nor in OTP", [App])
            end
    end.

vsn(Keys) -> proplists:get_value(vsn, Keys).

started(App) ->
    case lists:member(App, [kernel, stdlib, sasl]) of
        true -> permanent;
        false -> none
    end.

erts(Otp) ->
    [Erts] = filelib:wildcard("erts-*", debian:otp_root(Otp)),
    "erts-" ++ Version = Erts,
    Version.
