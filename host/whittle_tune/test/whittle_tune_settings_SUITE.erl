%% Tests that each setting in priv/settings has the effect that its file says: on a VM of this OTP
%% and of each OTP in the cache that has a file.
-module(whittle_tune_settings_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([complete/1, releases/1, bounds/1, defaults/1, commands/1]).

all() -> [complete, releases, bounds, defaults, commands].

%% Each setting has all keys, and only known ones.
complete(_) ->
    [begin
         {ok, Settings} = whittle_tune_settings:read(Otp),
         Names = [Name || #{name := Name} <- Settings],
         ?assertEqual(lists:usort(Names), lists:sort(Names)),
         [begin
              Given = maps:keys(Setting),
              ?assertEqual({Name, []}, {Name, [name, values, default, effect, risk, probe, shows]
                                                  -- Given}),
              ?assertEqual({Name, []}, {Name, Given -- [name, flags, environment, values, unit,
                                                        default, effect, risk, probe, shows,
                                                        beside]}),
              ?assertEqual({Name, 1}, {Name, length([flags, environment] -- Given)}),
              ?assertEqual({Name, is_tuple(Values)}, {Name, is_map_key(unit, Setting)}),
              ?assert(is_legal(whittle_tune_settings:default(Setting), Values), Name)
          end || #{name := Name, values := Values} = Setting <- Settings]
     end || Otp <- whittle_tune_settings:releases()].

is_legal(Value, {Least, Most}) -> Value >= Least andalso Value =< Most;
is_legal(Value, Values) -> lists:member(Value, Values).

releases(_) ->
    ?assertEqual([25, 29], whittle_tune_settings:releases()),
    ?assertEqual(whittle_tune_settings:read(25), whittle_tune_settings:read(27)),
    ?assertEqual(whittle_tune_settings:read(29), whittle_tune_settings:read(30)),
    ?assertEqual({error, {no_settings, "24"}}, whittle_tune_settings:read(24)).

%% A VM starts with the least and the largest value of each setting, and has this value then.
bounds(_) ->
    whittle_work:map(fun({Erl, Setting, Settings}) -> bounds(Erl, Setting, Settings) end,
                     [{Erl, Setting, Settings} || {Erl, Settings} <- vms(), Setting <- Settings]).

bounds(Erl, #{name := Name, values := Values, shows := Shows} = Setting, Settings) ->
    Tried = case Values of
                {Least, Most} -> [Least, Most];
                _ -> Values
            end,
    Beside = maps:get(beside, Setting, []),
    Shown = [shown(Erl, Setting, Beside, #{Name => Value}, Settings) || Value <- Tried],
    case Shows of
        value -> ?assertEqual({Erl, Name, Tried}, {Erl, Name, Shown});
        {times, Factor} -> ?assertEqual({Erl, Name, [Factor * Value || Value <- Tried]},
                                        {Erl, Name, Shown});
        other -> ?assertEqual({Erl, Name, length(Tried)}, {Erl, Name, length(lists:usort(Shown))});
        more -> ?assertMatch({Erl, Name, [Few, Many]} when Few < Many, {Erl, Name, Shown})
    end.

%% The default in the file is that of the VM. One VM without settings shows all of them.
defaults(_) ->
    Compared = [{Erl, [Each || #{shows := Shows} = Each <- Settings, Shows =/= more], Settings}
                || {Erl, Settings} <- vms()],
    whittle_work:map(
      fun({Erl, #{name := Name} = Setting, Without, Settings}) ->
              Value = whittle_tune_settings:default(Setting),
              ?assertEqual({Erl, Name, Without},
                           {Erl, Name, shown(Erl, Setting, [], #{Name => Value}, Settings)})
      end,
      [{Erl, Setting, Without, Settings}
       || {Erl, Some, Settings} <- Compared,
          {Setting, Without} <- lists:zip(Some, all_shown(Erl, Some, [], #{}, Settings))]).

commands(_) ->
    {ok, Settings} = whittle_tune_settings:read(29),
    ?assertEqual({["+P", "1024", "+S", "2:2", "+Mea", "min"], [{"ERL_FULLSWEEP_AFTER", "0"}]},
                 whittle_tune_settings:command(#{fullsweep => 0, schedulers => 2, processes => 1024,
                                                 allocators => min, lines => true}, Settings)),
    {ok, Setting} = whittle_tune_settings:find(processes, Settings),
    ?assertEqual([1024, 5000, 1_048_576],
                 [whittle_tune_settings:fitted(N, Setting) || N <- [1, 5000, 5_000_000]]),
    ?assertEqual(error, whittle_tune_settings:find(colour, Settings)).

%% Internal functions

%% The `erl' of each release with a file, with its settings.
vms() ->
    [{Erl, Settings} || {Otp, Erl} <- stock_vms:all(),
                        lists:member(Otp, whittle_tune_settings:releases()),
                        {ok, Settings} <- [whittle_tune_settings:read(Otp)]].

shown(Erl, Setting, Beside, Values, Settings) ->
    [Value] = all_shown(Erl, [Setting], Beside, Values, Settings),
    Value.

%% Starts a VM with these values, and asks it for all of the settings.
all_shown(Erl, Asked, Beside, Values, Settings) ->
    {Flags, Environment} = whittle_tune_settings:command(Values, Settings),
    Probes = lists:join(", ", ["(fun() -> " ++ Probe ++ " end)()" || #{probe := Probe} <- Asked]),
    {Status, Output} = whittle_program:run(
                         Erl, Beside ++ Flags
                             ++ ["-noshell", "-eval",
                                 lists:append(["io:format(\"~w.\", [["] ++ Probes
                                              ++ ["]]), halt()."])],
                         #{env => [{"ERL_CRASH_DUMP_SECONDS", "0"} | Environment]}),
    ?assertEqual({Erl, Values, 0, Output}, {Erl, Values, Status, Output}),
    {ok, [Shown]} = whittle_term:parse(Output),
    Shown.
