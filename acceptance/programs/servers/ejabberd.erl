%% Builds and starts ejabberd from Debian's packages, with its NIFs from the packages' sources.
%%
%% The release has the applications of ejabberd.app, those that ejabberd starts itself beside them,
%% and `vm.args' with the flags of the package's own script. acceptance/programs/ejabberd describes
%% the libraries in C.
-module(ejabberd).

-export([source/1, use/0, words/1, command/3, ready/0]).

-define(XMPP, 21222).
-define(HTTP, 21280).
-define(VM_ARGS, ["-noinput", "-sname whittle_bench@localhost", "-s ejabberd",
                  "-kernel inet_dist_use_interface {127,0,0,1}"]).
-define(PACKAGES, ["ejabberd", "erlang-base64url", "erlang-goldrush", "erlang-idna", "erlang-jiffy",
                   "erlang-jose", "erlang-lager", "erlang-p1-acme", "erlang-p1-cache-tab",
                   "erlang-p1-eimp", "erlang-p1-mqtree", "erlang-p1-pkix", "erlang-p1-stringprep",
                   "erlang-p1-stun", "erlang-p1-tls", "erlang-p1-utils", "erlang-p1-xml",
                   "erlang-p1-xmpp", "erlang-p1-yaml", "erlang-p1-yconf", "erlang-p1-zlib",
                   "erlang-unicode-util-compat"]).
%% Applications that ejabberd calls or starts, and its .app file does not name.
-define(ROOTS, [ejabberd, mnesia, os_mon, inets, compiler, fast_xml, fast_tls, fast_yaml, xmpp,
                pkix, p1_acme, stringprep, cache_tab, mqtree, ezlib, yconf, jose, jiffy, idna,
                p1_utils, stun, eimp, base64url]).
%% Sources of the NIFs: application, source package, major version.
-define(SOURCES, [{cache_tab, "erlang-p1-cache-tab", "1"}, {ezlib, "erlang-p1-zlib", "1"},
                  {fast_tls, "erlang-p1-tls", "1"}, {fast_xml, "erlang-p1-xml", "1"},
                  {fast_yaml, "erlang-p1-yaml", "1"}, {jiffy, "erlang-jiffy", "1"},
                  {mqtree, "erlang-p1-mqtree", "1"}, {stringprep, "erlang-p1-stringprep", "1"},
                  {xmpp, "erlang-p1-xmpp", "1"}]).
%% Further sources for one of them: destination, package, version, directories.
-define(WITH, [{fast_xml, "c_src/expat", "expat", "2", "expat/lib"},
               {fast_yaml, "c_src/libyaml", "libyaml", "0", "."}]).

%% Returns the arguments of `whittle build': a release and the options of each way.
-spec source(string()) -> #{path := file:filename(), options := [string()], told := [string()]}.
source(Otp) ->
    {Stock, Release} = releases(Otp),
    #{path => Release, stock_path => Stock,
      options => ["--native", lists:append(lists:join(",", [native(One) || One <- ?SOURCES]))],
      told => ["--atoms", "none", "--code", "none", "--data", "none", "--remote", "none"]}.

-spec use() -> #{client := string(), phases := [string()]}.
use() -> #{client => "ejabberd_client.py", phases => ["first", "again"]}.

-spec words(file:filename()) -> [string()].
words(Dir) ->
    [integer_to_list(?XMPP), integer_to_list(?HTTP), filename:join(Dir, "certificate.pem")].

%% The last listener in its configuration is the one for users.
-spec ready() -> binary().
ready() -> <<" for ejabberd_c2s">>.

%% Returns the command that starts it in a data directory.
-spec command(atom(), map(), file:filename()) ->
          {file:filename(), [string()], [{string(), string()}]}.
command(stock, #{otp := Otp, stock_path := Release}, Dir) ->
    Words = lists:append([string:lexemes(Line, " ") || Line <- ?VM_ARGS]),
    {filename:join(debian:otp_root(Otp), "bin/erl"), Words ++ mnesia("\"", Dir),
     [{"ERL_LIBS", filename:join(Release, "lib")} | settings(Dir)]};
command(_, #{file := File}, Dir) ->
    {File, [], [{"ERL_FLAGS", lists:append(lists:join(" ", mnesia("\\\"", Dir)))} | settings(Dir)]}.

%% The value is an Erlang string, so its quotes must reach the VM.
mnesia(Quote, Dir) -> ["-mnesia", "dir", Quote ++ filename:join(Dir, "db") ++ Quote].

settings(Dir) ->
    Certificate = filename:join(Dir, "certificate.pem"),
    Key = filename:join(Dir, "both.pem"),
    Config = filename:join(Dir, "ejabberd.yml"),
    Make = "openssl req -x509 -newkey rsa:2048 -nodes -keyout \"$1.key\" -out \"$1\" -days 30"
        " -subj /CN=localhost 2>&1 && cat \"$1.key\" \"$1\" >\"$2\"",
    _ = filelib:is_file(Key)
        orelse ({0, _} = running:run("/bin/sh", ["-c", Make, "sh", Certificate, Key],
                                     #{env => keep})),
    {ok, Text} = file:read_file(filename:join([running:root(), "acceptance", "programs", "servers",
                                               "ejabberd.yml"])),
    ok = file:write_file(Config, lists:foldl(fun({Name, Value}, Filled) ->
                                                     string:replace(Filled, Name, Value, all)
                                             end, Text,
                                             [{"@CERTIFICATE@", Key},
                                              {"@XMPP@", integer_to_list(?XMPP)},
                                              {"@HTTP@", integer_to_list(?HTTP)}])),
    [{"HOME", Dir}, {"EJABBERD_CONFIG_PATH", Config}, {"ERL_EPMD_ADDRESS", "127.0.0.1"},
     {"RELEASE_COOKIE", "bench"}, {"EJABBERD_LOG_PATH", filename:join(Dir, "ejabberd.log")}].

%% Returns the packages' files, and the same with the modules that load the NIFs of the sources.
releases(Otp) ->
    Dirs = debian:packages(?PACKAGES),
    Files = [File || Dir <- Dirs,
                     File <- filelib:wildcard(filename:join(Dir, "usr/lib/**/ebin/*.app"))],
    Found = maps:from_list([{App, {filename:dirname(filename:dirname(File)), Keys}}
                            || File <- Files, {App, Keys} <- [debian:application(File)]]),
    [Stock, Release] =
        [servers_release:make(debian:work([ejabberd, Name]),
                              #{name => "ejabberd", otp => Otp, found => Found, roots => ?ROOTS,
                                vm_args => ?VM_ARGS}) || Name <- ["stock-release", "release"]],
    [loader(Source, Release) || Source <- ?SOURCES],
    {Stock, Release}.

%% A NIF and the module that loads it must have one version: that of the source.
loader({App, Package, Major}, Release) ->
    Source = debian:source(Package, Major),
    [Ebin] = filelib:wildcard(filename:join([Release, "lib", lists:concat([App, "-*"]), "ebin"])),
    {ok, Natives} = file:consult(described(lists:concat([App, ".config"]))),
    Includes = [{i, filename:join(Source, "include")}
                | [{i, Include} || Include <- filelib:wildcard(filename:join([Release, "lib", "*",
                                                                              "include"]))]],
    [{ok, _} = compile:file(filename:join([Source, "src", Name]),
                            [debug_info, {outdir, Ebin} | Includes])
     || {nif, Name, _} <- Natives].

%% Writes the description of an application's NIFs into the directory of its source.
native({App, Package, Major}) ->
    Dir = debian:source(Package, Major),
    [begin
         From = filename:join(debian:source(Other, Version), Below),
         To = filename:join(Dir, Where),
         filelib:is_dir(To)
             orelse ({0, _} = running:run("/bin/cp", ["-R", From, To], #{env => keep}))
     end || {For, Where, Other, Version, Below} <- ?WITH, For =:= App],
    Expat = filename:join(Dir, "c_src/expat"),
    filelib:is_dir(Expat)
        andalso ({ok, _} = file:copy(described("expat_config.h"),
                                     filename:join(Expat, "expat_config.h"))),
    File = filename:join(Dir, "native.config"),
    {ok, _} = file:copy(described(atom_to_list(App) ++ ".config"), File),
    File.

described(Name) -> filename:join([running:root(), "acceptance", "programs", "ejabberd", Name]).
