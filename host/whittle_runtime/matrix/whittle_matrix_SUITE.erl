%% Every release of OTP, flavour and native part that can be built for this
%% machine, built and booted (make matrix). Hours on a small machine, when nothing
%% is in the cache; not part of make test.
-module(whittle_matrix_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, suite/0]).
-export([releases/1, flavours/1, natives/1]).

suite() ->
    [{timetrap, {hours, 6}}].

all() ->
    [releases, flavours, natives].

releases(_) ->
    [booted(Otp, size, []) || Otp <- whittle_runtime:otps()].

flavours(_) ->
    Targets = whittle_runtime:targets(),
    [#{flavours := Flavours}] = [T || T = #{name := "x86_64"} <- Targets],
    [booted(whittle_runtime:default_otp(), Flavour, []) || Flavour <- Flavours].

natives(_) ->
    Vm = vm(whittle_runtime:default_otp(), size, [crypto, asn1]),
    Code = "{ok, _} = application:ensure_all_started(ssl),"
        " Key = public_key:generate_key({rsa, 2048, 65537}),"
        " Signed = public_key:sign(<<\"x\">>, sha256, Key),"
        " true = public_key:verify(<<\"x\">>, sha256, Signed,"
        "   {'RSAPublicKey', element(3, Key), element(4, Key)}),"
        " Hash = crypto:hash(sha256, <<>>), 32 = byte_size(Hash), io:format(\"ok\")",
    ?assertEqual("ok", boot(Vm, Code)).

booted(Otp, Flavour, Natives) ->
    Vm = vm(Otp, Flavour, Natives),
    Code = "io:format(\"~s ~p\", [erlang:system_info(otp_release),"
        " erlang:system_info(emu_flavor)])",
    Emulator = case Flavour of size -> "emu"; speed -> "jit" end,
    ?assertEqual(Otp ++ " " ++ Emulator, boot(Vm, Code)).

vm(Otp, Flavour, Natives) ->
    {ok, Vm} = whittle_runtime:ensure(#{target => "x86_64", otp => Otp,
                                        flavour => Flavour, natives => Natives},
                                      #{progress => fun show/1}),
    Vm.

%% Without a pack a VM is a plain beam.smp, for the libraries of its OTP.
boot(#{otp := Otp, executable := Vm, erts_vsn := Erts}, Code) ->
    {ok, #{root := Root}} = whittle_runtime:otp(Otp, #{progress => fun show/1}),
    Bin = filename:join([Root, "erts-" ++ Erts, "bin"]),
    {ok, Said} = whittle_exec:capture(
                   "env", ["ROOTDIR=" ++ Root, "BINDIR=" ++ Bin, "EMU=beam", Vm, "--",
                           "-root", Root, "-bindir", Bin, "-progname", "erl", "--",
                           "-home", "/", "--", "-noshell", "-eval", Code ++ ", halt()."]),
    Said.

show(#{task := Task, step := Step, percent := Percent}) ->
    ct:pal("~ts: ~ts ~b %", [Task, Step, Percent]).
