%% @doc `whittle why': why a function is in an executable, or what cut it. Reads the plan
%% that `whittle build --shake' wrote beside the output.
-module(whittle_cmd_why).
-behaviour(whittle).

-import(whittle_shake_name, [origin/1]).

-export([run/1]).
-export([plan_file/1, write/2, read/1]).

%% @doc The way to each function that the name names.
-spec run(whittle_words:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{arguments := [Out, Text]}) ->
    case {whittle_shake_name:parse(Text), read(Out)} of
        {error, _} -> {error, {words, ["`", Text, "' is no M, M:F or M:F/A"]}};
        {_, {error, _} = Error} -> Error;
        {{ok, Name}, {ok, Account}} ->
            case whittle_shake_account:why(Name, Account) of
                [] -> {error, {work, ["there never was a function ", Text,
                                      ": correct the name"]}};
                Verdicts -> {ok, #{text => [text(Verdict) || Verdict <- Verdicts],
                                   json => [json(Verdict) || Verdict <- Verdicts]}}
            end
    end.

%% @doc Where the plan of an output lies.
-spec plan_file(file:filename()) -> file:filename().
plan_file(Out) -> Out ++ ".plan".

%% @doc Writes the plan of an output that is there.
-spec write(file:filename(), whittle_shake_account:account()) ->
          ok | {error, whittle_pack:error()}.
write(Out, Account) ->
    case file:read_file(executable(Out)) of
        {ok, Bytes} -> whittle_pack:write_beside(
                         plan_file(Out), whittle_shake_account:to_binary(Bytes, Account));
        {error, Reason} -> {error, {unreadable, {Out, Reason}}}
    end.

%% @doc Reads it back.
-spec read(file:filename()) ->
          {ok, whittle_shake_account:account()} | {error, whittle:failure()}.
read(Out) ->
    case {file:read_file(executable(Out)), file:read_file(plan_file(Out))} of
        {{error, Reason}, _} ->
            {error, {work, whittle_pack:format_error({unreadable, {Out, Reason}})}};
        {_, {error, enoent}} ->
            {error, {work, [plan_file(Out), " is not there: build with --shake functions, "
                            "and keep it beside the output"]}};
        {_, {error, Reason}} ->
            {error, {work, whittle_pack:format_error({unreadable, {plan_file(Out), Reason}})}};
        {{ok, Bytes}, {ok, Plan}} ->
            case whittle_shake_account:from_binary(Bytes, Plan) of
                {ok, Account} -> {ok, Account};
                {error, Error} -> {error, {work, [plan_file(Out), " ", wrong(Error),
                                                  ": build again"]}}
            end
    end.

%% Internal

%% Of a directory, its bill of materials: it has the sum of each part.
executable(Out) ->
    case filelib:is_dir(Out) of
        true -> filename:join(Out, "tree/etc/bom.json");
        false -> Out
    end.

wrong(no_plan) -> "is no plan";
wrong(plan_of_another) -> "is the plan of another build";
wrong({plan_version, _}) -> "was written by another version of whittle".

text({Mfa, {kept, Way}}) ->
    [whittle_shake_name:text(Mfa), " is in\n", [[step(Reason), $\n] || {_, Reason} <- Way], $\n];
text({Mfa, {Gone, []}}) ->
    [whittle_shake_name:text(Mfa), gone(Gone), ": nothing that is in calls it\n\n"];
text({Mfa, {Gone, Edges}}) ->
    [whittle_shake_name:text(Mfa), gone(Gone), $\n,
     [["  the feature ", atom_to_list(Feature), " is off:",
       string:slice(step(Reason), 1), $\n]
      || {Feature, Reason} <- lists:sublist(Edges, 5)], $\n].

gone(cut) -> " was cut";
gone(cold) -> " is cold, loaded when it is called".

step({called, By}) -> ["  called by ", origin(By)];
step({applied, By, Module}) ->
    ["  called by ", origin(By), ", which applies its name to a module; the module's name is in ",
     origin(Module)];
step({named, Module, Function}) ->
    ["  may be called: its module's name is in ", origin(Module), ", its own in ",
     origin(Function)];
step({whole, By}) -> ["  its module is kept whole, for ", origin(By)].

json({Mfa, {kept, Way}}) ->
    #{function => string_of(whittle_shake_name:text(Mfa)), kept => true, cold => false,
      way => [reason(Reason) || {_, Reason} <- Way]};
json({Mfa, {Gone, Edges}}) ->
    #{function => string_of(whittle_shake_name:text(Mfa)), kept => false, cold => Gone =:= cold,
      way => [(reason(Reason))#{feature => Feature} || {Feature, Reason} <- Edges]}.

reason({Kind, By}) -> #{kind => Kind, by => string_of(origin(By))};
reason({applied, By, Module}) ->
    #{kind => applied, by => string_of(origin(By)), module => string_of(origin(Module))};
reason({named, Module, Function}) ->
    #{kind => named, module => string_of(origin(Module)), function => string_of(origin(Function))}.

string_of(Text) -> unicode:characters_to_binary(Text).
