%% @hidden Keeps the functions that the program can reach, and makes the others cold or removes
%% them.
%%
%% The pass computes a plan and applies it. Its result contains the saved form of the plan, and
%% the costs of applications and dynamic calls.
-module(whittle_make_shake).
-behaviour(whittle_pass).

-import(whittle_work, [steps/1]).

-export([read_files/1]).
-export([name/0, doc/0, run/2]).
-export([format_error/1]).

-export_type([options/0, reason/0]).

%% The request's options, with the contents of the files that it names.
-type options() :: none | whittle_shake:options().

-type reason() :: {unreadable, {keep | evidence, file:filename(), file:posix() | badarg}}
                | {not_names, {file:filename(), string()}}
                | {bad_evidence, {file:filename(), whittle_shake_evidence:error()}}.

%% The largest file of function names and the largest recording, in bytes.
-define(MAX_FILE, 64 * 1024 * 1024).

%% @doc Reads the files that the options of tree shaking name.
-spec read_files(none | whittle_make:shake()) -> {ok, options()} | {error, reason()}.
read_files(none) -> {ok, none};
read_files(Shake) ->
    Options = maps:merge(#{missing => load, declared => #{}}, Shake),
    steps([fun(_) -> keep(Options) end, fun evidence/1]).

keep(#{keep_file := File} = Options) ->
    steps([fun(_) -> file(keep, File) end,
           fun(Bytes) ->
                   case whittle_shake_name:parse_file(Bytes) of
                       {ok, Names} -> {ok, (maps:remove(keep_file, Options))#{keep => Names}};
                       {error, Line} -> {error, {not_names, {File, Line}}}
                   end
           end]);
keep(Options) -> {ok, Options}.

evidence(#{evidence_file := File, missing := Missing} = Options) ->
    steps([fun(_) -> file(evidence, File) end,
           fun(Bytes) ->
                   case whittle_shake_evidence:from_binary(Bytes) of
                       {ok, Evidence} ->
                           %% With `load', missing code loads at its first call, so the build
                           %% need not refuse recorded functions that the plan lacks.
                           Seen = case Missing of load -> keep; crash -> refuse end,
                           {ok, maps:merge(#{seen => Seen, evidence => Evidence},
                                           maps:remove(evidence_file, Options))};
                       {error, Error} -> {error, {bad_evidence, {File, Error}}}
                   end
           end]);
evidence(Options) -> {ok, Options}.

file(Option, File) ->
    case whittle_file:whole(File, ?MAX_FILE) of
        {ok, Bytes} -> {ok, Bytes};
        {error, Reason} -> {error, {unreadable, {Option, File, Reason}}}
    end.

%% @private
-spec name() -> atom().
name() -> shake.

%% @private
-spec doc() -> string().
doc() -> "reachable code is hot; the rest is cold, or removed".

%% @private
-spec run(whittle_system:system(), whittle_pass:options()) ->
          {ok, whittle_system:system(), map()} | {error, {shake, whittle_shake:error()}}.
run(System, #{shake := Options, otp := Otp, tell := Tell}) ->
    Phase = fun(Name) -> _ = Tell({phase, Name}), ok end,
    Planned = steps([fun(_) -> Phase(facts) end,
                     fun(_) -> whittle_otp_lib:preloaded(Otp) end,
                     fun(Preloaded) -> whittle_shake:facts(System, Preloaded) end,
                     fun(Facts) ->
                             Phase(plan),
                             whittle_shake:plan(System, Options#{facts => Facts})
                     end]),
    case Planned of
        {ok, Plan} ->
            _ = [Tell({note, Note}) || Note <- whittle_shake:open_calls(Plan)
                                            ++ whittle_shake:warnings(Plan)],
            Phase(rewrite),
            Shaken = carry_out(Plan, System),
            Phase(account),
            {ok, Shaken, #{plan => whittle_shake_saved:new(Plan, Shaken),
                           costs => whittle_shake_cost:costs(Plan, System)}};
        {error, Error} -> {error, {shake, Error}}
    end.

carry_out(Plan, System) ->
    Done = whittle_shake:carry_out(Plan, System),
    lists:foldl(fun whittle_system:note/2, Done,
                whittle_shake:notes(Plan) ++ whittle_shake:unread_notes(System)
                ++ whittle_shake:load_notes(Plan, System, Done)).

%% @doc Formats an error as one line for a person. The line ends with the next thing to do.
-spec format_error(reason()) -> unicode:chardata().
format_error({unreadable, {Option, File, eftype}}) ->
    [File, $\s, whittle_file:format_error(eftype), ": name a regular file with --", atom_to_list(Option)];
format_error({unreadable, {Option, File, efbig}}) ->
    [File, " is larger than the 64 MB that whittle reads: check the path given to --",
     atom_to_list(Option)];
format_error({unreadable, {Option, File, Reason}}) ->
    [File, $\s, whittle_file:format_error(Reason), ": check the path given to --",
     atom_to_list(Option)];
format_error({not_names, {File, Line}}) ->
    [File, ": `", Line, "' is not of the form M, M:F or M:F/A: correct the line"];
format_error({bad_evidence, {File, Error}}) ->
    [File, $\s, whittle_shake_evidence:format_error(Error)].
