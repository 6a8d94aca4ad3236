%% @doc Builds VMs for a suite, and runs an expression in a VM without a pack.
-module(bare_vm).

-export([ensure/1, ensure/2, eval/2]).

%% @doc Returns the VM of x86_64 for a specification.
%%
%% Missing keys have the command's defaults. The VM comes from the user's cache or a new build.
ensure(Spec) -> ensure(Spec, #{}).

ensure(Spec, Options) ->
    {ok, Vm} = whittle_runtime:ensure(maps:merge(spec(), Spec),
                                      Options#{progress => fun show/1}),
    Vm.

spec() ->
    #{target => "x86_64", otp => whittle_runtime:default_otp(), flavor => size, natives => []}.

%% @doc Evaluates an expression in a VM, and returns the exit code and the output.
%%
%% Without a pack the VM is a plain beam.smp: it boots the same OTP's applications on this machine.
eval(#{otp := Otp, executable := Vm, erts_vsn := Erts}, Code) ->
    {ok, #{root := Root}} = whittle_runtime:otp(Otp, #{progress => fun show/1}),
    Bin = filename:join([Root, "erts-" ++ Erts, "bin"]),
    case whittle_program:capture(
           "env", ["ROOTDIR=" ++ Root, "BINDIR=" ++ Bin, "EMU=beam", Vm, "--", "-root", Root,
                   "-bindir", Bin, "-progname", "erl", "--", "-home", "/", "--", "-noshell",
                   "-eval", Code]) of
        {ok, Said} -> {0, Said};
        {error, {status, Status, Said}} -> {Status, Said}
    end.

show(#{task := Task, step := Step, percent := Percent}) ->
    ct:pal("~ts: ~ts ~b %", [Task, Step, Percent]).
