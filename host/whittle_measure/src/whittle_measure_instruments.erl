%% @doc Adds to a run what its responses need beside the program: the account of the VM at the end,
%% and the counts of the pauses by garbage collections.
%% @hidden
-module(whittle_measure_instruments).

-export([is_counter_needed/1, attach/4, read/3]).

%% @doc Tells whether a response needs the counter of pauses in the VM.
-spec is_counter_needed(whittle_measure_response:request()) -> boolean().
is_counter_needed(#{kind := Kind}) -> lists:member(Kind, whittle_measure_response:pauses()).

is_account_needed(#{kind := Kind}) -> Kind =:= account orelse Kind =:= allocator.

%% @doc Changes the command and the settings of a run as its responses need it. Files of the run
%% lie in `Dir'.
-spec attach([whittle_measure_response:request()], whittle_measure_observe:subject(),
             whittle_measure_observe:settings(), file:filename()) ->
          {whittle_measure_observe:subject(), whittle_measure_observe:settings()}.
attach(Responses, Subject, Settings, Dir) ->
    _ = [file:delete(File) || File <- [dump(Dir), counts(Dir)]],
    with_counter(lists:any(fun is_counter_needed/1, Responses), Dir,
                 with_account(lists:any(fun is_account_needed/1, Responses), Dir,
                              {Subject, Settings})).

with_account(false, _, Run) -> Run;
with_account(true, Dir, {Subject, Settings}) ->
    Dump = dump(Dir),
    {whittle_measure_snapshot:dumping(Subject, Dump),
     Settings#{last => fun(Started) ->
                               #{account => whittle_measure_snapshot:take(Started, Dump)}
                       end}}.

with_counter(false, _, Run) -> Run;
with_counter(true, Dir, {#{environment := Before} = Subject, Settings}) ->
    Ebin = filename:join([whittle_device:lib_dir(), "whittle_trace", "ebin"]),
    Flags = unicode:characters_to_list(
              ["-pa ", whittle_program:quoted(filename:absname(Ebin)),
               " -s code ensure_modules_loaded whittle_trace_pauses"]),
    %% Flags behind an `-extra' would belong to the program.
    {Subject#{environment := [{"WHITTLE_PAUSES", counts(Dir)}
                              | with_flags("ERL_AFLAGS", Flags, Before)]},
     Settings}.

with_flags(Name, Flags, Environment) ->
    Old = proplists:get_value(Name, Environment, whittle_environment:value(Name, "")),
    [{Name, Flags ++ " " ++ Old} | proplists:delete(Name, Environment)].

dump(Dir) -> filename:absname(filename:join(Dir, "dump")).

counts(Dir) -> filename:absname(filename:join(Dir, "pauses")).

%% @doc Adds the counts of pauses to the outcome of a run, and removes the files of the run.
-spec read([whittle_measure_response:request()], file:filename(),
           whittle_measure_response:outcome()) -> whittle_measure_response:outcome().
read(Responses, Dir, Outcome) ->
    Seen = case lists:any(fun is_counter_needed/1, Responses) of
               true -> Outcome#{pauses => counted(file:read_file(counts(Dir)))};
               false -> Outcome
           end,
    _ = [file:delete(File) || File <- [dump(Dir), counts(Dir)]],
    Seen.

%% A crash of the machine may have damaged the file.
counted({ok, Bytes}) ->
    try
        {pauses, Longest, Counts} = binary_to_term(Bytes, [safe]),
        true = is_integer(Longest),
        true = lists:all(fun({Bucket, Count}) -> is_integer(Bucket) andalso is_integer(Count) end,
                         Counts),
        {Longest, lists:sort(Counts)}
    catch
        error:_ -> none
    end;
counted({error, _}) -> none.
