%% Builds and starts RabbitMQ with its management plugin, from Debian's package `rabbitmq-server'.
%%
%% The release has the package's applications that the management plugin needs, and `vm.args'
%% with the flags of the package's own script. `rabbit:boot/0' starts all of them, so the release
%% starts none. No `.app' file of the package names `mnesia', so the release names it.
-module(rabbitmq).

-export([source/1, use/0, words/1, command/3, ready/0]).

-define(AMQP, 21672).
-define(HTTP, 21673).
-define(VM_ARGS, ["-noinput", "-s rabbit boot", "+W w", "-syslog logger []",
                  "-syslog syslog_error_logger false",
                  "-kernel prevent_overlapping_partitions false",
                  "-kernel inet_dist_use_interface {127,0,0,1}"]).

%% Returns the arguments of `whittle build': a release and the options of each way.
-spec source(string()) -> #{path := file:filename(), options := [string()], told := [string()]}.
source(Otp) ->
    #{path => release(Otp), options => [], told => told()}.

%% Names of functions that RabbitMQ creates from text or reads from data; docs/shaking.md.
told() -> ["--atoms", "none", "--code", "none", "--data", "none", "--remote", "none"].

-spec use() -> #{client := string(), phases := [string()]}.
use() -> #{client => "rabbitmq_client.py", phases => ["fill", "drain"]}.

-spec words(file:filename()) -> [string()].
words(_Dir) -> [integer_to_list(Port) || Port <- [?AMQP, ?HTTP]].

-spec ready() -> binary().
ready() -> <<"Server startup complete">>.

%% Returns the command that starts it in a data directory.
-spec command(atom(), map(), file:filename()) ->
          {file:filename(), [string()], [{string(), string()}]}.
command(stock, #{otp := Otp, path := Release}, Dir) ->
    Libs = filename:join(Release, "lib"),
    Words = lists:append([string:lexemes(Line, " ") || Line <- ?VM_ARGS]),
    {filename:join(debian:otp_root(Otp), "bin/erl"), ["-boot", "start_sasl" | Words],
     [{"ERL_LIBS", Libs} | settings(Dir, Libs)]};
command(_, #{file := File}, Dir) ->
    {File, [], settings(Dir, "/.whittle/lib")}.

settings(Dir, Plugins) ->
    Write = fun(Name, Text) ->
                    File = filename:join(Dir, Name),
                    ok = file:write_file(File, Text),
                    File
            end,
    _ = Write("rabbitmq.conf", io_lib:format("listeners.tcp.1 = 127.0.0.1:~b~n"
                                             "management.tcp.ip = 127.0.0.1~n"
                                             "management.tcp.port = ~b~n", [?AMQP, ?HTTP])),
    [{"HOME", Dir}, {"RABBITMQ_NODENAME", "whittle_bench@localhost"},
     {"RABBITMQ_MNESIA_BASE", filename:join(Dir, "db")},
     {"RABBITMQ_LOG_BASE", filename:join(Dir, "log")}, {"RABBITMQ_LOGS", "-"},
     {"RABBITMQ_PLUGINS_DIR", Plugins}, {"RABBITMQ_CONF_ENV_FILE", "/dev/null"},
     {"RABBITMQ_ENABLED_PLUGINS_FILE", Write("enabled_plugins", "[rabbitmq_management].\n")},
     {"RABBITMQ_CONFIG_FILE", filename:join(Dir, "rabbitmq")},
     {"RABBITMQ_ADVANCED_CONFIG_FILE", filename:join(Dir, "advanced")},
     {"ERL_EPMD_ADDRESS", "127.0.0.1"}].

%% Creates a release directory of the package's applications.
release(Otp) ->
    [Package] = debian:packages(["rabbitmq-server"]),
    [Plugins] = filelib:wildcard(filename:join(Package, "usr/lib/rabbitmq/lib/*/plugins")),
    Found = maps:from_list([{App, {filename:dirname(filename:dirname(File)), Keys}}
                            || File <- filelib:wildcard(filename:join(Plugins, "*/ebin/*.app")),
                               {App, Keys} <- [debian:application(File)]]),
    servers_release:make(debian:work([rabbitmq, "release"]),
                         #{name => "rabbitmq", otp => Otp, found => Found,
                           roots => [rabbitmq_management, rabbit, mnesia],
                           vm_args => ?VM_ARGS}).
