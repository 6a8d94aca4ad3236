%% @doc Implements `whittle features'. It lists the features that a program can do without, and with
%% `--vm', what each adds to one program.
-module(whittle_cmd_features).
-behaviour(whittle).

-export([command/0, run/1]).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "features", arguments => ["[PATH]"],
      help => "list the features (parts of OTP) that `build --feature' turns on or off",
      options => [#{name => vm, long => "vm",
                    help => "show how many bytes each feature adds to the code and the VM of the "
                            "program PATH, if `build --vm program' builds it; the options below "
                            "need this one, and mean the same as for `build'"},
                  whittle_input_options:target(), otp()]
          ++ whittle_shake_options:described()
          ++ [whittle_input_options:native(), whittle_input_options:app(),
              whittle_command_line:json()]}.

%% @doc Lists the features with their descriptions, or with their prices.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{arguments := [], vm := true}) ->
    whittle_failure:usage("--vm needs a program: name an application, a release or an escript");
run(#{arguments := [_], vm := true} = Values) ->
    Given = (maps:merge(#{target => whittle_runtime:default_target(),
                          otp => whittle_runtime:default_otp()}, Values))
        #{vm := program, shake => functions, missing => crash},
    whittle_work:steps(
      [fun(_) -> whittle_input_options:check_apps(Given) end,
       fun(_) -> whittle_input_options:check_vm(Given) end,
       fun(_) -> whittle_shake_options:options(Given) end,
       fun(Shake) ->
               priced(whittle_make:prices((whittle_input_options:request(Given))
                                          #{shake => Shake, tell => fun tell/1}))
       end]);
run(#{arguments := [Path | _]}) ->
    whittle_failure:usage(["`", Path, "' has no effect without --vm"]);
run(Values) ->
    case maps:keys(maps:without([arguments, json], Values)) of
        [Name | _] -> whittle_failure:usage(["--", atom_to_list(Name),
                                             " has no effect without --vm"]);
        [] -> {ok, listed()}
    end.

%% Internal

%% Without --vm this command has no default, so that it can refuse the option.
otp() ->
    Option = whittle_input_options:otp(),
    maps:remove(default, Option#{usual => fun whittle_runtime:default_otp/0}).

listed() ->
    Features = whittle_shake:features(),
    Rows = [[atom_to_list(Name), Means] || {Name, Means} <- Features],
    #{text => whittle_table:text([["feature", ""] | Rows]),
      json => [#{name => Name, means => unicode:characters_to_binary(Means)}
               || {Name, Means} <- Features]}.

priced({ok, Prices}) -> {ok, #{text => text(Prices), json => json(Prices)}};
priced({error, Reason}) -> whittle_failure:make(Reason).

tell({started, prices}) ->
    whittle_progress:stage("pricing the features: for each a plan and a link, which take a few "
                           "seconds");
tell(Event) -> whittle_progress:making(Event).

text(#{code := Code, vm := Vm, features := Features}) ->
    [whittle_table:text([["feature", "", "code", "vm", ""], ["(the program)", "", Code, Vm, ""]
                         | [row(Feature) || Feature <- Features]]),
     "\nThe bytes of code are estimates before compression. A feature that is on adds its bytes\n"
     "to the program; -X in `whittle build --feature' turns it off. One that is off would add\n"
     "them; +X turns it on. Two features may share code, so do not add them up.\n"].

row(#{name := Name, is_on := false, code := Code, vm := Vm}) ->
    [atom_to_list(Name), "off", Code, Vm, ""];
row(#{name := Name, code := Code, vm := Vm, because := Because}) ->
    [atom_to_list(Name), "on", Code, Vm, ["because of ", Because]];
row(#{name := Name, because := Because}) ->
    [atom_to_list(Name), "on", "", "", ["needed by ", Because]].

json(#{features := Features} = Prices) ->
    Prices#{features := [case Feature of
                             #{because := Why} ->
                                 Feature#{because := unicode:characters_to_binary(Why)};
                             #{} -> Feature
                         end || Feature <- Features]}.
