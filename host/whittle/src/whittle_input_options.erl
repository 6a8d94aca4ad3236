%% @doc Describes the options on the command line that say what to build for which machine, and
%% makes their part of a request of {@link whittle_make}.
-module(whittle_input_options).

-export([target/0, otp/0, native/0, app/0, check_apps/1, check_vm/1, flavor/1, request/1]).

%% @doc Describes `--target'. A command fills in the default.
-spec target() -> whittle_command_line:option().
target() ->
    #{name => target, long => "target", value => "TARGET",
      one_of => fun() -> [Name || #{name := Name} <- whittle_runtime:targets()] end,
      usual => fun whittle_runtime:default_target/0,
      help => "the machine to build for; `whittle targets' describes each"}.

%% @doc Describes `--otp'.
-spec otp() -> whittle_command_line:option().
otp() ->
    #{name => otp, long => "otp", value => "VSN",
      one_of => fun whittle_runtime:otps/0, why_not => fun no_otp/1,
      default => fun whittle_runtime:default_otp/0,
      help => "the OTP release that the executable contains"}.

%% @doc Describes `--native'.
-spec native() -> whittle_command_line:option().
native() ->
    #{name => native, long => "native", value => "FILES", list => true,
      help => "link in the NIFs and drivers that these files describe (docs/natives.md "
              "of Whittle's source); commas separate the files"}.

%% @doc Describes `--app'.
-spec app() -> whittle_command_line:option().
app() ->
    #{name => app, long => "app", value => "NAME", many => true,
      help => "pack this application too, with the applications that it needs; you can "
              "repeat this option"}.

%% @doc Checks the names in `--app'.
-spec check_apps(whittle_command_line:values()) -> ok | {error, whittle:failure()}.
check_apps(Values) ->
    case [{Name, Why} || Name <- maps:get(app, Values, []),
                         {error, Why} <- [whittle_file_name:check(Name)]] of
        [] -> ok;
        [{Name, Why} | _] ->
            whittle_failure:usage(["--app: the application's name `",
                                   whittle_file_name:printable(Name), "' ", Why])
    end.

%% @doc Checks the specification of the VM. A wrong one is a usage error. The value of `vm' is that
%% of `build --vm'.
-spec check_vm(whittle_command_line:values()) -> ok | {error, whittle:failure()}.
check_vm(#{target := Target, otp := Otp, vm := Vm}) ->
    Spec = #{target => Target, otp => Otp, flavor => flavor(Vm), natives => []},
    case whittle_runtime:check(with_cut(Vm, Spec)) of
        ok -> ok;
        {error, Reason} -> whittle_failure:usage(whittle_runtime:format_error(Reason))
    end.

with_cut(program, Spec) -> Spec#{cut => whittle_runtime:empty_cut()};
with_cut(_, Spec) -> Spec.

%% @doc Returns the flavor for a value of `build --vm'.
-spec flavor(size | speed | program) -> size | speed.
flavor(program) -> size;
flavor(Flavor) -> Flavor.

%% @doc Makes the part of a request that these options set.
-spec request(whittle_command_line:values()) -> #{atom() => term()}.
request(#{arguments := [Path], otp := Otp, target := Target} = Values) ->
    #{input => Path, otp => Otp, target => Target,
      libs => string:lexemes(whittle_environment:value("ERL_LIBS", ""), ":"),
      add => [list_to_atom(Name) || Name <- maps:get(app, Values, [])],
      natives => maps:get(native, Values, [])}.

%% Internal

%% Says why the value of --otp is not possible. A similar number would be no help.
no_otp(Value) ->
    case string:to_integer(Value) of
        {Otp, ""} ->
            Supported = [list_to_integer(Each) || Each <- whittle_runtime:otps()],
            case {lists:min(Supported), lists:max(Supported)} of
                {Least, _} when Otp < Least ->
                    io_lib:format("Whittle supports no release older than OTP ~b", [Least]);
                {_, Most} when Otp > Most ->
                    io_lib:format("Whittle supports no release newer than OTP ~b", [Most]);
                _ ->
                    "Whittle does not support this release"
            end;
        _ ->
            ""
    end.
