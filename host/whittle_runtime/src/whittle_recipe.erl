%% @hidden Runs recipes: lists of build steps, which are data.
%%
%% A step is a few lines for sh. Steps name places only by the variables below. So a recipe is
%% the same on every machine and can be part of a cache key:
%%
%% <ul>
%% <li>WORK: the directory in which each step starts;</li>
%% <li>OUT: the directory that becomes the artifact;</li>
%% <li>JOBS: the number of parallel jobs;</li>
%% <li>further variables of the caller: SOURCE, ERTS, LAUNCHER, ...</li>
%% </ul>
%%
%% Of the user's environment a step receives only PATH.
-module(whittle_recipe).

-export([run/5, essence/1]).

-export_type([recipe/0, step/0]).

-type recipe() :: [step()].

-type step() ::
        #{name := string(),             % "configure", for a person
          script := [string()],         % lines for sh; sh stops at the first failure
          seconds := pos_integer(),     % approximate duration on two cores: the
                                        % step's weight in the percentage
          lines := pos_integer()}.      % approximate lines of output, for progress

%% The number of last lines that an error carries, the width of each, and the number of bytes
%% that this module keeps to find them. The log may lack them if the disk is full.
-define(TAIL, 15).
-define(TAIL_WIDTH, 200).
-define(TAIL_BYTES, 16384).

%% An error carries these lines if the first error lies further back: lines before it, lines
%% from it on, and the last lines. With one line between they are ?TAIL lines.
-define(BEFORE_FIRST, 2).
-define(FROM_FIRST, 7).
-define(LAST, 5).

%% The errors of compilers, linkers and configure. make prints its own messages after them.
-define(AN_ERROR, "\\berror: |undefined reference to |: cannot find -l|: not found$").

%% @doc Runs a recipe in a work directory of the cache.
%%
%% The error `step_failed' carries the step, the path of the log, and `tail': the log's lines
%% around the step's first error, and its last lines. If the log reports a full disk, the error
%% is `disk_full' instead.
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

%% @doc Returns the part of a recipe that determines its result, for the cache key.
%%
%% The names and durations of the steps do not belong to it.
-spec essence(recipe()) -> [[string()]].
essence(Recipe) ->
    [Script || #{script := Script} <- Recipe].

environment(Variables, #{work := Work, out := Out}) ->
    [{"PATH", os:getenv("PATH", "/usr/bin:/bin")},
     {"HOME", Work}, {"TMPDIR", Work}, {"LC_ALL", "C"},
     %% A fixed date, so that the result does not depend on the day.
     {"SOURCE_DATE_EPOCH", "946684800"}, {"TZ", "UTC"},
     {"WORK", Work}, {"OUT", Out},
     {"JOBS", integer_to_list(erlang:system_info(schedulers_online))}
     | Variables].

steps([], _Index, _Done, _State) ->
    ok;
steps([Step | Steps], Index, Done, State) ->
    #{name := Name, script := Script, seconds := Seconds, lines := Expected} = Step,
    #{log := Log, place := #{work := Work}, environment := Environment} = State,
    %% If the disk is full, the step itself reports that.
    _ = file:write(Log, ["=== ", Name, "\n"]),
    Shown = show(Step, Index, Done, -1, State),
    Fold = fun(Bytes, {Lines0, Shown0, Last}) ->
                   _ = file:write(Log, Bytes),
                   Lines = Lines0 + length(binary:matches(Bytes, <<"\n">>)),
                   %% The step reaches its full share only at its end.
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

%% Reports each percentage once.
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

%% Selects the most useful lines. Parallel jobs continue after one of them has failed, so the
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

%% The log may lack the step's beginning if the disk was full for a while.
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
