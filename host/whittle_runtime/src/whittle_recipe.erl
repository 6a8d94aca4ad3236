%% @hidden A recipe: the steps that build something, as data; and the one place that
%% carries recipes out.
%%
%% A step is a few lines for sh. They name places only by variables (below), so
%% that a recipe is the same on every machine and can be part of a cache's key:
%%
%% <ul>
%% <li>WORK, where each step starts; OUT, what becomes the artefact;</li>
%% <li>JOBS, how many things to do at once;</li>
%% <li>whatever the caller adds: SOURCE, ERTS, LAUNCHER, ...</li>
%% </ul>
%%
%% Nothing else of the user's environment reaches a step, save PATH.
-module(whittle_recipe).

-export([run/5, essence/1]).

-export_type([recipe/0, step/0]).

-type recipe() :: [step()].

-type step() ::
        #{name := string(),             % "configure", for a person
          script := [string()],         % lines for sh; the first that fails ends it
          seconds := pos_integer(),     % about what it takes (two cores); weighs
                                        % the step in the percentage
          lines := pos_integer()}.      % about what it prints; tells how far it is

%% The last lines of the output that an error carries, how much of each, and the
%% bytes in which they are looked for. Kept here: on a full disk the log does not
%% have them.
-define(TAIL, 15).
-define(TAIL_WIDTH, 200).
-define(TAIL_BYTES, 16384).

%% Where the first error lies further back, the lines before it, those from it on, and the
%% last ones that an error carries: together as many as ?TAIL, with one between.
-define(BEFORE_FIRST, 2).
-define(FROM_FIRST, 7).
-define(LAST, 5).

%% As compilers, linkers and configure write what they stop at; make's own words come after.
-define(AN_ERROR, "\\berror: |undefined reference to |: cannot find -l|: not found$").

%% @doc Carries out a recipe in a workplace of the cache.
%%
%% `step_failed' carries the step, the log's path, and as `tail' the lines of the log around
%% the step's first error and its last lines; `disk_full' takes its place if the log says so.
-spec run(string(), recipe(), [{string(), string()}], whittle_cache:workplace(),
          whittle_runtime:options()) -> ok | {error, whittle_runtime:reason()}.
run(Task, Recipe, Variables, Place, Options) ->
    #{log := Path} = Place,
    case file:open(Path, [write, raw, binary]) of
        {ok, Log} ->
            Environment = environment(Variables, Place),
            Total = lists:sum([S || #{seconds := S} <- Recipe]),
            State = #{task => Task, 'of' => length(Recipe), total => Total,
                      tell => whittle_runtime_progress:teller(Options), log => Log, place => Place,
                      environment => Environment},
            try
                steps(Recipe, 1, 0, State)
            after
                file:close(Log)
            end;
        {error, Reason} ->
            {error, whittle_cache_dir:unwritten(Reason, filename:dirname(Path))}
    end.

%% @doc What of a recipe its result depends on: part of a cache's key. What a step
%% is called and how long it takes is not.
-spec essence(recipe()) -> [[string()]].
essence(Recipe) ->
    [Script || #{script := Script} <- Recipe].

environment(Variables, #{work := Work, out := Out}) ->
    [{"PATH", os:getenv("PATH", "/usr/bin:/bin")},
     {"HOME", Work}, {"TMPDIR", Work}, {"LC_ALL", "C"},
     %% Bytes must not depend on the day.
     {"SOURCE_DATE_EPOCH", "946684800"}, {"TZ", "UTC"},
     {"WORK", Work}, {"OUT", Out},
     {"JOBS", integer_to_list(erlang:system_info(schedulers_online))}
     | Variables].

steps([], _Index, _Done, _State) ->
    ok;
steps([Step | Steps], Index, Done, State) ->
    #{name := Name, script := Script, seconds := Seconds, lines := Expected} = Step,
    #{log := Log, place := #{work := Work}, environment := Environment} = State,
    %% A step that has no room either says so itself.
    _ = file:write(Log, ["=== ", Name, "\n"]),
    Shown = show(Step, Index, Done, -1, State),
    Fold = fun(Bytes, {Lines0, Shown0, Last}) ->
                   _ = file:write(Log, Bytes),
                   Lines = Lines0 + length(binary:matches(Bytes, <<"\n">>)),
                   %% Only the step's end makes it whole.
                   Share = min(0.98, Lines / Expected),
                   {Lines, show(Step, Index, Done + Seconds * Share, Shown0, State),
                    newest(<<Last/binary, Bytes/binary>>)}
           end,
    case whittle_program:script(Script, Work, Environment, {Fold, {0, Shown, <<>>}}) of
        {0, _} -> steps(Steps, Index + 1, Done + Seconds, State);
        {Status, {_, _, Last}} -> failed(Name, Status, Last, State)
    end.

newest(Bytes) ->
    binary:copy(binary:part(Bytes, byte_size(Bytes),
                            -min(byte_size(Bytes), ?TAIL_BYTES))).

%% Tells each percent once.
show(#{name := Name}, Index, Done, Shown, State) ->
    #{task := Task, 'of' := Of, total := Total, tell := Tell} = State,
    case trunc(100 * Done / Total) of
        Percent when Percent > Shown ->
            _ = Tell(#{task => Task, step => Name, index => Index, 'of' => Of,
                       percent => Percent}),
            Percent;
        _ ->
            Shown
    end.

failed(Step, Status, Last, #{place := #{log := Path, work := Work}}) ->
    case binary:match(Last, <<"No space left on device">>) of
        nomatch ->
            {error, {step_failed, #{step => Step, status => Status, log => Path,
                                    tail => [cut(Line) || Line <- telling(Step, Path, Last)]}}};
        _ ->
            {error, {disk_full, #{dir => Work}}}
    end.

cut(Line) ->
    binary:part(Line, 0, min(byte_size(Line), ?TAIL_WIDTH)).

%% The lines that tell a person most. Several jobs at once go on after one has failed, so the
%% first error may lie hundreds of lines before the end.
telling(Step, Path, Last) ->
    Lines = case file:read_file(Path) of
                {ok, Log} -> lines(of_step(Step, Log, Last));
                {error, _} -> lines(Last)
            end,
    Count = length(Lines),
    case first_error(Lines) of
        First when is_integer(First), First =< Count - ?TAIL ->
            From = max(0, First - 1 - ?BEFORE_FIRST),
            Around = lists:sublist(Lines, From + 1, ?BEFORE_FIRST + ?FROM_FIRST),
            Between = Count - From - length(Around) - ?LAST,
            Around ++ [<<"[", (integer_to_binary(Between))/binary, " lines]">>]
                ++ lists:nthtail(Count - ?LAST, Lines);
        _ ->
            lists:nthtail(max(0, Count - ?TAIL), Lines)
    end.

%% On a disk that was full for a while the log may lack the step's beginning.
of_step(Step, Log, Last) ->
    case binary:split(Log, iolist_to_binary(["=== ", Step, "\n"])) of
        [_, Said] when byte_size(Said) >= byte_size(Last) -> Said;
        _ -> Last
    end.

lines(Bytes) -> string:split(string:trim(Bytes, trailing, "\r\n \t"), "\n", all).

first_error(Lines) ->
    {ok, Pattern} = re:compile(?AN_ERROR),
    Found = [Number || {Number, Line} <- lists:enumerate(Lines),
                       re:run(Line, Pattern, [{capture, none}]) =:= match],
    case Found of
        [First | _] -> First;
        [] -> none
    end.
