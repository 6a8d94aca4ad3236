%% Every release of OTP, flavor and native part that can be built for this
%% machine, built and booted (make matrix). Hours on a small machine, when nothing
%% is in the cache; not part of make test.
-module(whittle_matrix_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0]).
-export([releases/1, flavors/1, natives/1, same_bytes/1]).

suite() ->
    [{timetrap, {hours, 6}}].

all() ->
    [releases, flavors, natives, same_bytes].

releases(_) ->
    [booted(#{otp => Otp}) || Otp <- whittle_runtime:otps()].

flavors(_) ->
    Targets = whittle_runtime:targets(),
    [#{flavors := Flavors}] = [T || T = #{name := "x86_64"} <- Targets],
    [booted(#{flavor => Flavor}) || Flavor <- Flavors].

natives(_) ->
    Vm = bare_vm:ensure(#{natives => [crypto, asn1]}),
    Code = "{ok, _} = application:ensure_all_started(ssl),"
        " Key = public_key:generate_key({rsa, 2048, 65537}),"
        " Signed = public_key:sign(<<\"x\">>, sha256, Key),"
        " true = public_key:verify(<<\"x\">>, sha256, Signed,"
        "   {'RSAPublicKey', element(3, Key), element(4, Key)}),"
        " Hash = crypto:hash(sha256, <<>>), 32 = byte_size(Hash), io:format(\"ok\"), halt().",
    ?assertEqual({0, "ok"}, bare_vm:eval(Vm, Code)).

%% From the same sources, in two caches that hold nothing else, at other places.
same_bytes(Config) ->
    {ok, Root} = whittle_cache_dir:root(#{}),
    Sources = filename:join(Root, "sources"),
    ok = filelib:ensure_path(Sources),
    [One, Other] =
        [begin
             Cache = filename:join(proplists:get_value(priv_dir, Config), Name),
             ok = filelib:ensure_path(Cache),
             ok = file:make_symlink(Sources, filename:join(Cache, "sources")),
             #{executable := Vm, symbols := Symbols} = bare_vm:ensure(#{}, #{cache => Cache}),
             [Bytes || File <- [Vm, Symbols], {ok, Bytes} <- [file:read_file(File)]]
         end || Name <- ["a", "another"]],
    ?assertMatch([_, _], One),
    ?assert(One =:= Other).

booted(Spec) ->
    #{otp := Otp, flavor := Flavor} = Vm = bare_vm:ensure(Spec),
    Code = "io:format(\"~s ~p\", [erlang:system_info(otp_release),"
        " erlang:system_info(emu_flavor)]), halt().",
    Emulator = case Flavor of size -> "emu"; speed -> "jit" end,
    ?assertEqual({0, Otp ++ " " ++ Emulator}, bare_vm:eval(Vm, Code)).
