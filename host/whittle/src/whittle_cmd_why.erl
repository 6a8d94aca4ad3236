%% @doc Implements `whittle why'. It explains why an executable contains a function, or why the
%% build removed it. It reads the plan that `whittle build --shake' wrote beside the output.
-module(whittle_cmd_why).
-behaviour(whittle).

-import(whittle_shake_name, [origin/1]).

-export([command/0, run/1]).

%% The number of functions to name in a line about many.
-define(SHOWN, 8).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "why", arguments => ["OUT", "NAME"],
      help => "explain why an executable contains a function (M, M:F or M:F/A) or not",
      options => [whittle_command_line:json()]}.

%% @doc Shows the path to each function that the name matches.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{arguments := [Out, Text]}) ->
    whittle_work:steps([fun(_) ->
                                whittle_failure:no_image(Out, "why", "an executable: build it "
                                                         "without --board")
                        end,
                        fun(_) -> explained(Out, Text) end]).

%% Internal

explained(Out, Text) ->
    case {whittle_shake_name:parse(Text), whittle_plan_file:read(Out)} of
        {error, _} -> whittle_failure:usage(no_name(Text));
        {_, {error, Error}} -> whittle_failure:make({plan_file, Error});
        {{ok, Name}, {ok, Plan}} ->
            case whittle_shake_saved:why(Name, Plan) of
                [] ->
                    {Kind, Code} = kind(Name),
                    whittle_failure:work(Code, ["the input of the build had no ", Kind, $\s, Text,
                                                whittle_shake_saved:hint(Name, Plan),
                                                ": correct the name"]);
                Verdicts -> {ok, #{text => text(Name, Verdicts),
                                   json => [json(Verdict) || Verdict <- Verdicts]}}
            end
    end.

no_name(Text) ->
    case re:run(Text, "^[^/:]+:[^/:]+/(\\d+)$", [unicode, {capture, all_but_first, list}]) of
        {match, [Arity]} when length(Arity) > 3; Arity > "255", length(Arity) =:= 3 ->
            ["`", Text, "' names an arity above 255, and no function has more arguments: "
             "correct the arity"];
        _ -> ["`", Text, "' is not of the form M, M:F or M:F/A"]
    end.

kind({_}) -> {"module", no_such_module};
kind(_) -> {"function", no_such_function}.

%% Writes the verdicts. For a whole module it writes only the last step of each path, leaves out
%% functions that the compiler generated, and puts all uncalled functions on one line.
text({_Module} = Name, Verdicts) ->
    Written = [Verdict || {Mfa, _} = Verdict <- Verdicts, whittle_shake_name:written(Mfa) =:= Mfa],
    {Uncalled, Others} = lists:partition(fun({_, {Gone, []}}) -> Gone =/= kept; (_) -> false end,
                                         Written),
    [[[line(Verdict), $\n] || Verdict <- Others],
     [[uncalled(Name, Uncalled, Others), $\n] || Uncalled =/= []]];
text(_, Verdicts) ->
    [text(Verdict) || Verdict <- Verdicts].

uncalled(Name, [{_, {Gone, []}} | _] = Uncalled, Others) ->
    [whittle_shake_name:text(Name), ": ",
     case {length(Uncalled), Others} of
         {1, _} -> "1 function";
         {N, []} -> ["all ", whittle_number:text(N), " functions"];
         {N, _} -> [whittle_number:text(N), " functions"]
     end, several(Gone, length(Uncalled)),
     case Gone of whole -> ", although"; _ -> ", because" end, " no kept function calls ",
     case Uncalled of [_] -> "it"; _ -> "them" end, ": ",
     lists:join(", ", [io_lib:format("~tp/~b", [F, A])
                       || {{_, F, A}, _} <- lists:sublist(Uncalled, ?SHOWN)]),
     [io_lib:format(" and ~b more", [length(Uncalled) - ?SHOWN]) || length(Uncalled) > ?SHOWN]].

several(cut, 1) -> " was removed";
several(cut, _) -> " were removed";
several(cold, 1) -> " is cold";
several(cold, _) -> " are cold";
several(whole, 1) -> " is loaded at once with its module";
several(whole, _) -> " are loaded at once with their module".

line({Mfa, {kept, [{_, Reason} | _]}}) -> [whittle_shake_name:text(Mfa), ":", step(Reason)];
line({Mfa, {unseen, _}}) ->
    [whittle_shake_name:text(Mfa), gone(cold), ": the recorded run did not call it"];
line({Mfa, {unsplit, _}}) ->
    [whittle_shake_name:text(Mfa), gone(whole), "; the recorded run did not call it"];
line({Mfa, {Gone, _}}) -> [whittle_shake_name:text(Mfa), gone(Gone)].

text({Mfa, {kept, Way}}) ->
    [whittle_shake_name:text(Mfa), " is kept\n", [[step(Reason), $\n] || {_, Reason} <- Way], $\n];
text({Mfa, {unseen, Way}}) ->
    [whittle_shake_name:text(Mfa), gone(cold),
     ": the recorded run did not call it. The path to it:\n",
     [[step(Reason), $\n] || {_, Reason} <- Way], $\n];
text({Mfa, {unsplit, Way}}) ->
    [whittle_shake_name:text(Mfa), ": the recorded run did not call it, but the VM loads it with "
     "its module, because splitting the module saves nothing. The path to it:\n",
     [[step(Reason), $\n] || {_, Reason} <- Way], $\n];
text({Mfa, {whole, []}}) ->
    [whittle_shake_name:text(Mfa), ": no kept function calls it, but the VM loads it with its "
     "module, because splitting the module saves nothing\n\n"];
text({Mfa, {Gone, []}}) ->
    [whittle_shake_name:text(Mfa), gone(Gone), ": no kept function calls it\n\n"];
text({Mfa, {Gone, Edges}}) ->
    [whittle_shake_name:text(Mfa), gone(Gone), $\n,
     [["  the feature ", atom_to_list(Feature), " is off:",
       string:slice(step(Reason), 1), $\n]
      || {Feature, Reason} <- lists:sublist(Edges, 5)], $\n].

gone(cut) -> " was removed";
gone(cold) -> " is cold (the VM loads it when something calls it)";
gone(whole) -> " is loaded at once with its module, because splitting the module saves nothing".

step({called, By}) -> ["  called by ", origin(By)];
step({applied, By, Module}) ->
    ["  may be called by ", origin(By), ", which calls a function of this name in a module that it "
     "chooses while it runs; ", origin(Module), " mentions the module"];
step({chosen, By}) ->
    ["  may be called by ", origin(By), ", which chooses a function of this module while it "
     "runs"];
step({named, By, By}) ->
    ["  may be called: ", origin(By), " mentions its module and its name"];
step({named, Module, Function}) ->
    ["  may be called: ", origin(Module), " mentions its module, and ", origin(Function),
     " mentions the function"];
step({whole, By}) -> ["  Whittle keeps its whole module for ", origin(By)].

json({Mfa, {There, Way}}) when There =:= kept; There =:= unsplit; There =:= unseen ->
    #{function => string_of(whittle_shake_name:text(Mfa)), kept => There =/= unseen,
      cold => There =:= unseen, way => [reason(Reason) || {_, Reason} <- Way]};
json({Mfa, {Gone, Edges}}) ->
    #{function => string_of(whittle_shake_name:text(Mfa)), kept => Gone =:= whole,
      cold => Gone =:= cold,
      way => [(reason(Reason))#{feature => Feature} || {Feature, Reason} <- Edges]}.

reason({Kind, By}) -> #{kind => Kind, by => string_of(origin(By))};
reason({applied, By, Module}) ->
    #{kind => applied, by => string_of(origin(By)), module => string_of(origin(Module))};
reason({named, Module, Function}) ->
    #{kind => named, module => string_of(origin(Module)), function => string_of(origin(Function))}.

string_of(Text) -> unicode:characters_to_binary(Text).
