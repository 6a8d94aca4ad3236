%% @doc Describes a search as a study, for `whittle measure report': one factor, whose levels are
%% the candidates.
%%
%% The description is on the disk before the first run, so that the samples of a search that was
%% stopped can be read.
%% @hidden
-module(whittle_tune_study).

-export([facts/2, complete/4]).

-export_type([about/0]).

%% What is known before the first run.
-type about() :: #{path := file:filename(), seed := integer(), blocks := pos_integer(),
                   kinds := [workload_time | run_time]}.

%% @doc Returns the facts of a search, with the candidates that are known.
-spec facts(about(), #{seconds := pos_integer(), ram := pos_integer() | none, slowdown := float(),
                       candidates := [atom()], atom() => term()}) -> #{atom() => term()}.
facts(#{path := Path, seed := Seed} = About,
      #{seconds := Seconds, ram := Ram, slowdown := Slowdown, candidates := Names}) ->
    #{study => <<"tune">>, title => binary(title(Path)), term => term(Names, [], About),
      seed => Seed, machine => whittle_measure_machine:facts(),
      inputs => #{program => binary(Path), seconds => Seconds, slowdown => Slowdown,
                  ram => case Ram of none -> null; _ -> Ram end}}.

%% @doc Adds the candidates that have become known to the facts in a directory.
-spec complete(file:filename(), [atom()], [map()], about()) ->
          ok | {error, whittle_measure_samples:error()}.
complete(Dir, Names, Front, About) ->
    whittle_measure_samples:amend(Dir, #{<<"term">> => term(Names, Front, About)}).

%% Internal

%% The text of the study with these candidates. Each has a name of its own.
term(Names, Front, About) ->
    binary(io_lib:format("~tp.~n", [(study(Names, About))#{front => Front}])).

study(Names, #{path := Path, seed := Seed, blocks := Blocks, kinds := Kinds}) ->
    #{name => "tune", file => "tune", base => ".", title => title(Path),
      question => "Which settings of the VM save memory, and what do they cost?",
      programs => [#{name => list_to_atom(filename:basename(Path)), command => [Path],
                     arguments => [], request => #{}}],
      factors => [#{name => settings,
                    levels => [#{name => Name, request => #{}, flags => [], environment => [],
                                 runner => whittle} || Name <- Names]}],
      baseline => #{settings => own},
      responses => [#{name => rss_peak, kind => rss_peak}]
          ++ [#{name => Kind, kind => Kind} || Kind <- Kinds] ++ [#{name => cpu, kind => cpu}],
      blocks => Blocks, warmup => 0, seed => Seed, duration => 1, references => []}.

title(Path) -> "Settings for " ++ filename:basename(Path).

binary(Text) -> unicode:characters_to_binary(Text).
