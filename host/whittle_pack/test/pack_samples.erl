%% A small system and a stand-in for a runtime, for the suites of this room.
-module(pack_samples).

-export([probe/2, system/0, runtime/2, blocks/0, check/3]).

%% Compiles probe.c with a compiler's command line into Dir.
probe(Compiler, Dir) ->
    Source = filename:join([filename:dirname(code:which(?MODULE)), "probe", "probe.c"]),
    Out = filename:join(Dir, "probe"),
    Command = [Compiler, " -Os -o '", Out, "' '", Source, "' && echo compiled"],
    case os:cmd(unicode:characters_to_list([Command, " 2>&1"])) of
        "compiled\n" -> Out;
        Words -> error({Compiler, Words})
    end.

runtime(Executable, Dir) ->
    ok = file:write_file(filename:join(Dir, "APACHE"), "Apache License, Version 2.0\n"),
    #{target => "x86_64-linux-musl", otp => "29", otp_vsn => "29.1.1",
      erts_vsn => "17.1", flavour => size, natives => [],
      description => #{}, executable => Executable, symbols => Executable ++ ".debug",
      components => [#{name => "erlang", version => "29.1.1",
                       license => "Apache-2.0", copyright => "Ericsson AB",
                       homepage => "https://www.erlang.org",
                       notices => ["APACHE"]},
                     #{name => "zlib", version => "1.3.1", license => "Zlib",
                       copyright => "", homepage => "", notices => ["APACHE"]}],
      id => "0123", dir => Dir}.

system() ->
    Boot = {script, {"sample", "1.0"},
            [{preLoaded, [init]},
             {path, ["/.whittle/lib/kernel-11.0/ebin"]},
             {primLoad, [gen, file]},
             {kernel_load_completed},
             {primLoad, [later]},
             {progress, started}]},
    Steps =
        [fun(S) -> whittle_system:put_app(app(kernel, "11.0", otp, [gen, file, later], []), S) end,
         fun(S) -> whittle_system:put_app(
                     app(sample, "1.0", input, [sample],
                         [{<<"priv/tool.sh">>, 8#755, <<"#!/bin/sh\n">>},
                          {<<"priv/LICENSE">>, 8#644, <<"Sample's own licence\n">>},
                          {<<"include/sample.hrl">>, 8#644, <<"-record(sample, {}).\n">>}]),
                     S) end,
         fun(S) -> whittle_system:set_boot(Boot, S) end,
         fun(S) -> whittle_system:put_file(<<"sys.config">>, file(<<"[].\n">>), S) end,
         fun(S) -> whittle_system:put_file(<<"vm.args">>, file(<<"-sname sample\n">>), S) end,
         fun(S) -> whittle_system:put_file(<<"runtime.exs">>, file(<<"import Config\n">>), S) end,
         fun(S) -> whittle_system:put_env(<<"RELEASE_NAME">>, {default, <<"sample">>}, S) end,
         fun(S) -> whittle_system:put_env(<<"RELEASE_ROOT">>, {always, <<"/.whittle">>}, S) end],
    lists:foldl(fun(Step, S) -> Step(S) end,
                whittle_system:new(#{name => "sample", vsn => "1.0", otp => "29",
                                     erts => "17.1"}), Steps).

app(Name, Vsn, Kind, Modules, Files) ->
    #{name => Name, vsn => Vsn,
      spec => {application, Name, [{vsn, Vsn}, {modules, Modules}]},
      modules => maps:from_list([{M, <<"FOR1 ", (atom_to_binary(M))/binary>>}
                                 || M <- Modules]),
      files => maps:from_list([{Path, #{mode => Mode, bytes => Bytes}}
                               || {Path, Mode, Bytes} <- Files]),
      origin => #{kind => Kind, path => "/nowhere", asked_by => []}}.

file(Bytes) -> #{mode => 8#644, bytes => Bytes}.

%% Blocks of files, with paths that are all different; a generator. (Debian's
%% package of PropEr has no headers, hence no macros.)
blocks() ->
    proper_types:bind(
      proper_types:list(proper_types:list({proper_types:range(0, 8#777), content()})),
      fun(Contents) -> [[] | [block(B, Files) || {B, Files} <- number(Contents)]] end,
      false).

block(B, Files) ->
    [#{path => path(B, F), mode => Mode, bytes => Bytes}
     || {F, {Mode, Bytes}} <- number(Files)].

path(B, F) -> unicode:characters_to_binary(io_lib:format("dir~b/\x{fc}~b.beam", [B, F])).

number(List) -> lists:zip(lists:seq(1, length(List)), List).

%% Compressible, not compressible, empty.
content() ->
    proper_types:oneof(
      [proper_types:binary(), <<>>,
       proper_types:bind({proper_types:byte(), proper_types:range(0, 3000)},
                         fun({Byte, Size}) -> binary:copy(<<Byte>>, Size) end, false)]).

%% Holds a property for so many samples of a generator.
check(Times, Generator, Property) ->
    case proper:quickcheck(proper:forall(Generator, Property), [quiet, {numtests, Times}]) of
        true -> ok;
        _ -> error({counterexample, proper:counterexample()})
    end.
