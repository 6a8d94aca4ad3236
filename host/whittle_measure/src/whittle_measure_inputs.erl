%% @doc Computes the digests of what a study measures, and names what has changed since.
%%
%% A study that goes on must measure the same things as before. So the digests cover contents, and
%% not only names.
%% @hidden
-module(whittle_measure_inputs).

-include_lib("kernel/include/file.hrl").

-export([check/3, digests/2]).

%% The key of the study's own digest.
-define(STUDY, <<"the study">>).

%% @doc Checks, before anything is built, that a directory will do for a study: that it holds no
%% samples, or samples of the same study if the study goes on.
-spec check(file:filename(), Resume :: boolean(), whittle_measure_study:study()) ->
          ok | {error, whittle_measure_samples:error()}.
check(Dir, false, _) -> whittle_measure_samples:unused(Dir);
check(Dir, true, Study) ->
    case whittle_measure_samples:read(Dir) of
        {ok, Facts, Samples} ->
            case changes(Study, Facts) of
                [] -> whittle_measure_samples:fit(Dir, Study, Samples);
                Names -> {error, {changed, Names}}
            end;
        {error, _} = Error -> Error
    end.

%% @doc Returns the digests of the study, of the output or program of each build, and of each
%% program and script that the study's commands name.
-spec digests(whittle_measure_study:study(),
              #{whittle_measure_subject:build() => whittle_measure_subject:prepared()}) ->
          #{binary() => binary()}.
digests(#{base := Base, programs := Programs} = Study, Prepared) ->
    Builds = [{text(whittle_measure_subject:name(Build)), of_build(Made)}
              || {Build, Made} <- maps:to_list(Prepared)],
    Named = [{text(["the file ", Name]), of_file(File)}
             || Program <- Programs, {Name, File} <- named(Program, Base)],
    maps:from_list([{?STUDY, of_study(Study)} | Builds ++ Named]).

%% Internal functions: changes

%% Names what differs between a study and the facts of an earlier part of its run: the keys of
%% the study, or the study as a whole if its facts do not tell.
changes(Study, Facts) ->
    case {of_study(Study), Facts} of
        {Digest, #{<<"inputs">> := #{?STUDY := Digest}}} -> [];
        {_, #{<<"term">> := Text}} when is_binary(Text) ->
            case whittle_term:parse(Text) of
                {ok, [Before]} when is_map(Before) -> of_keys(declared(Study), declared(Before));
                _ -> [?STUDY]
            end;
        _ -> [?STUDY]
    end.

of_keys(Study, Before) ->
    case [Key || Key <- lists:usort(maps:keys(Study) ++ maps:keys(Before)),
                 maps:find(Key, Study) =/= maps:find(Key, Before)] of
        [] -> [?STUDY];
        Keys -> [text(io_lib:format("the study's key ~tp", [Key])) || Key <- Keys]
    end.

%% Internal functions: digests

of_study(Study) -> hash(term_to_binary(declared(Study), [deterministic])).

%% The study without the place of its file.
declared(Study) -> maps:without([base, file], Study).

of_build(#{sha256 := Sum}) when is_binary(Sum) -> Sum;
of_build(#{program := File}) -> of_file(File).

of_file(File) ->
    case whittle_digest:file(File) of
        {ok, Sum} -> list_to_binary(Sum);
        {error, _} -> <<"unreadable">>
    end.

hash(Bytes) -> list_to_binary(whittle_digest:bytes(Bytes)).

%% Internal functions: the files that commands name

%% The programs and scripts in the command, the wrapper and the workload of a program, as the study
%% writes them. Any other file may be one that a run writes.
named(Program, Base) ->
    Words = lists:nthtail(1, maps:get(command, Program, [none])) ++ maps:get(wrapper, Program, [])
        ++ words(maps:get(workload, Program, "")),
    [{Word, File} || Word <- lists:usort(Words), File <- lists:sublist(files(Word, Base), 1)].

words(Command) ->
    string:lexemes(string:replace(Command, "${WHITTLE_BASE}", "$WHITTLE_BASE", all),
                   " \t\r\n\"'`;&|<>(){}=").

files(Word, Base) ->
    Path = lists:flatten(string:replace(Word, "$WHITTLE_BASE", filename:absname(Base))),
    [File || File <- [filename:absname(Path), filename:absname(filename:join(Base, Path))],
             filelib:is_regular(File), is_program(File)].

is_program(File) ->
    {ok, #file_info{mode = Mode}} = file:read_file_info(File),
    Mode band 8#111 =/= 0 orelse whittle_file:first(File, 2) =:= {ok, <<"#!">>}.

text(Chars) -> unicode:characters_to_binary(Chars).
