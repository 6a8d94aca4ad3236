%% @doc Runs the study `otp': the same programs on several releases of OTP and on a given source,
%% compared with the last stored run.
%%
%% Design. The study is an ordinary one (priv/studies/otp.study) with one factor, `otp'. This module
%% adds the level `given' for a tarball and leaves out the releases whose source this machine cannot
%% get. Everything that would end the run comes first: the checks of the tarball, the patches, the
%% sources. Then, for each level, it builds the VM and the applications, counts their bytes by
%% object and by module ({@link whittle_measure_otp_bytes}), and runs the quick checks ({@link
%% whittle_measure_otp_checks}). Then the engine of studies measures start, memory and speed.
%%
%% A store is a directory with one numbered directory for each run ({@link
%% whittle_measure_otp_store}). A run is complete when its `otp.json' exists, which is written last;
%% so a run that stopped is never compared with, and `resume' continues it. {@link
%% whittle_measure_otp_moved} compares two runs. It is pure. Only its totals and the times decide
%% about a regression: every release changes some modules by more than any bound, so objects and
%% modules explain and do not decide.
%%
%% Trust: a build runs programs of the tarball. So a tarball needs a SHA-256 from the user, from
%% FILE.sha256 beside it, or from Whittle's table of sources (`whittle_runtime:given/2').
-module(whittle_measure_otp).

-import(whittle_work, [steps/1]).

-export([run/1, format_error/1]).

-export_type([request/0, outcome/0, reason/0]).

-type request() ::
        #{dir := file:filename(),             % the store
          source => file:filename(),          % a tarball of OTP
          sha256 => string(),                 % its checksum
          only => [{string(), string()}],     % as of whittle_measure:study/2
          against => file:filename(),         % a run, or a store; default: the last run in `dir'
          bound => float(),                   % of a regression; default: 0.02
          resume => boolean(),                % continue the last run that is not complete
          blocks => pos_integer(),            % default: the study's
          duration => pos_integer(),          % default: the study's
          tell => fun((term()) -> term())}.   % receives the events of a study, and {stage, Text}

-type outcome() ::
        #{dir := file:filename(),             % of this run
          against := file:filename() | none,
          moved := whittle_measure_otp_moved:moved()}.

-type reason() :: {make, whittle_make:reason()}
                | error()
                | whittle_measure_study:error()
                | whittle_measure_run:reason().

%% The errors of the comparison of releases itself.
-type error() :: {no_otp, unicode:chardata(), whittle_runtime:reason()}
               | {nothing_left, [unicode:chardata()]}
               | {no_given, []}
               | whittle_measure_otp_bytes:error()
               | whittle_measure_otp_store:error().

%% A level of the study, with what the build of it needs.
-type level() :: #{name := atom(), otp := string(), vsn := string(), sha256 := string() | null,
                   options := whittle_runtime:options()}.

-define(BOUND, 0.02).

%% @doc Runs the study and compares it. A regression is part of the outcome, not an error.
-spec run(request()) -> {ok, outcome()} | {error, reason()}.
run(Request) ->
    Tell = maps:get(tell, Request, fun(_) -> ok end),
    steps([fun(_) -> whittle_measure_otp_store:before(Request) end,
           fun(Before) ->
                   steps([fun(_) -> given(Request) end,
                          fun(Given) -> study(Given, Request) end,
                          fun({Study, Given}) -> available(Study, Given, Request, Tell) end,
                          fun(Chosen) -> measured(Chosen, Before, Request, Tell) end])
           end]).

%% Internal functions: the study and its levels

given(#{source := File} = Request) ->
    steps([fun(_) -> runtime(whittle_runtime:given(File, maps:get(sha256, Request, none))) end,
           fun(Given) ->
                   steps([fun(_) -> runtime(whittle_runtime:patches_apply(Given, #{})) end,
                          fun(_) -> {ok, Given} end])
           end]);
given(_) -> {ok, none}.

runtime({error, Reason}) -> {error, {make, {runtime, Reason}}};
runtime(Done) -> Done.

study(Given, #{} = Request) ->
    Only = maps:get(only, Request, []),
    case Given =:= none andalso lists:member({"otp", "given"}, Only) of
        true -> {error, {no_given, []}};
        false ->
            steps([fun(_) -> whittle_measure_study:read("otp") end,
                   fun(Study) -> whittle_measure_study:only(Only, with(Given, Study)) end,
                   fun(Study) -> {ok, {maps:merge(Study, maps:with([blocks, duration], Request)),
                                       Given}} end])
    end.

%% WHITTLE_SOURCE is for one release, so the other levels do not use it.
with(Given, #{factors := [#{name := otp, levels := Levels} = Factor]} = Study) ->
    Known = [Level#{request := Own#{runtime => #{source => none}}}
             || #{request := Own} = Level <- Levels],
    Study#{factors := [Factor#{levels := Known ++ added(Given)}]}.

added(none) -> [];
added(#{file := File, sha256 := Sum, release := Release, vsn := Vsn}) ->
    [#{name => given, title => "OTP " ++ Vsn, runner => whittle, library => #{}, flags => [],
       environment => [],
       request => #{otp => Release, runtime => #{source => File, sha256 => Sum}}}].

%% A release that the user asked for must be there; any other may be absent, with a line about it.
available(#{factors := [#{levels := Levels}]} = Study, Given, Request, Tell) ->
    Asked = [Level || {"otp", Level} <- maps:get(only, Request, [])],
    Found = [{Level, source(Level, Given, Tell)} || Level <- Levels],
    case [{no_otp, Otp, Reason}
          || {#{name := Name, request := #{otp := Otp}}, {error, Reason}} <- Found,
             lists:member(atom_to_list(Name), Asked)] of
        [Error | _] -> {error, Error};
        [] ->
            LeftOut = [no_otp(Otp, Reason)
                       || {#{request := #{otp := Otp}}, {error, Reason}} <- Found],
            case [Level || {_, {ok, Level}} <- Found] of
                [] -> {error, {nothing_left, LeftOut}};
                Kept ->
                    Only = [{"otp", atom_to_list(Name)} || #{name := Name} <- Kept],
                    {ok, Smaller} = whittle_measure_study:only(Only, Study),
                    {ok, {Smaller, Kept, LeftOut}}
            end
    end.

-spec source(map(), term(), fun()) -> {ok, level()} | {error, whittle_runtime:reason()}.
source(#{name := given, request := #{otp := Otp, runtime := Options}}, #{vsn := Vsn, sha256 := Sum},
       _) ->
    {ok, #{name => given, otp => Otp, vsn => Vsn, sha256 => Sum, options => Options}};
source(#{name := Name, request := #{otp := Otp, runtime := Options}}, _, Tell) ->
    Fetching = Options#{progress => fun(Progress) -> Tell({make, {runtime, Progress}}) end},
    case whittle_runtime:source(Otp, Fetching) of
        {ok, Vsn} ->
            {ok, #{name => Name, otp => Otp, vsn => Vsn, sha256 => null, options => Options}};
        {error, _} = Error -> Error
    end.

%% Internal functions: the run

measured({Study, Levels, LeftOut}, Before, #{dir := Store} = Request, Tell) ->
    Resume = maps:get(resume, Request, false),
    steps([fun(_) -> whittle_measure_otp_store:place(Store, Resume) end,
           fun({Dir, Continue}) ->
                   steps([fun(_) -> subjects(Levels, Study, Tell) end,
                          fun(Subjects) ->
                                  Tell({stage, "start, memory and speed"}),
                                  steps([fun(_) -> whittle_measure_run:run(
                                                     Study, #{dir => Dir, tell => Tell,
                                                              resume => Continue}) end,
                                         fun(_) -> stored(Dir, Subjects, LeftOut) end])
                          end,
                          fun(_) -> compared(Dir, Before, Request) end])
           end]).

subjects(Levels, Study, Tell) ->
    steps([fun(_) -> {ok, []} end
           | [fun(Before) ->
                      case subject(Level, Study, Tell) of
                          {ok, Subject} -> {ok, Before ++ [Subject]};
                          {error, _} = Error -> Error
                      end
              end || Level <- Levels]]).

%% Builds a level, counts its bytes, and runs the quick checks.
subject(#{name := Name, otp := Otp, vsn := Vsn, sha256 := Sum} = Level, Study, Tell) ->
    Tell({stage, ["OTP ", Vsn, ": the VM and the applications"]}),
    steps([fun(_) -> whittle_measure_otp_bytes:count(input(hello, Study),
                                                     maps:with([otp, options], Level),
                                                     fun(Event) -> Tell({make, Event}) end) end,
           fun(Counted) ->
                   Tell({stage, ["OTP ", Vsn, ": the quick checks"]}),
                   Checks = whittle_measure_otp_checks:run(
                              [{Of, input(Of, Study)} || Of <- [hello, mixed]],
                              maps:with([otp, options], Level),
                              fun(Event) -> Tell({make, Event}) end),
                   {ok, Counted#{level => Name, release => list_to_binary(Otp),
                                 vsn => list_to_binary(Vsn), checks => Checks,
                                 sha256 => case Sum of null -> null; _ -> list_to_binary(Sum) end}}
           end]).

input(Name, #{programs := Programs, base := Base}) ->
    [Input] = [Input || #{name := Each, input := Input} <- Programs, Each =:= Name],
    filename:join(Base, Input).

stored(Dir, Subjects, LeftOut) ->
    [#{compiler := Compiler} | _] = Subjects,
    Facts = #{format => 1, target => list_to_binary(whittle_runtime:default_target()),
              compiler => Compiler, machine => whittle_measure_machine:facts(),
              left_out => [unicode:characters_to_binary(Line) || Line <- LeftOut],
              subjects => [maps:remove(compiler, Subject) || Subject <- Subjects]},
    whittle_measure_otp_store:write(Dir, Facts).

compared(Dir, Before, Request) ->
    Bound = maps:get(bound, Request, ?BOUND),
    steps([fun(_) -> whittle_measure_otp_store:read(Dir) end,
           fun(New) ->
                   Moved = whittle_measure_otp_moved:moved(New, Before, Bound),
                   {ok, #{dir => Dir, moved => Moved,
                          against => case Before of none -> none; #{dir := Old} -> Old end}}
           end]).

%% @doc Formats an error of this comparison as one line for a person. The other reasons have a
%% `format_error/1' in their own modules.
-spec format_error(error()) -> unicode:chardata().
format_error({no_otp, Otp, Reason}) -> no_otp(Otp, Reason);
format_error({nothing_left, Lines}) ->
    ["no release of OTP is left to measure: ", lists:join("; ", Lines)];
format_error({no_given, []}) ->
    "--only otp=given needs a tarball of OTP's source: name it with --source FILE";
format_error({no_objects, File, Why}) ->
    ["the symbols in ", File, " cannot be listed: ", Why];
format_error(Error) -> whittle_measure_otp_store:format_error(Error).

no_otp(Otp, {no_source, #{}} = Reason) ->
    Text = lists:flatten(unicode:characters_to_list(whittle_runtime:format_error(Reason))),
    [hd(string:split(Text, "; name a tarball", trailing)),
     "; get a tarball of OTP ", Otp, " and name it with --source FILE"];
no_otp(_, Reason) -> whittle_runtime:format_error(Reason).
