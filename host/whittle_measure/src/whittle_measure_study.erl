%% @doc Reads and checks a study: a file with one Erlang map.
%%
%% A study names programs, factors with their levels, a baseline and responses. A cell is one
%% program with one level of each factor. The study measures each cell once in each block. See
%% docs/measure.md for the keys of the file.
%% @hidden
-module(whittle_measure_study).

-export([shipped/0, root/0, read/1, only/2, of_program/2, crossed/1, cells/1, count_cells/1,
         most_runs/0, baseline/2, key/1, sample_key/1, build_name/1]).
-export([format_error/1]).

-export_type([study/0, program/0, factor/0, level/0, cited/0, cell/0, error/0]).

-type study() ::
        #{name := string(),
          file := file:filename(),
          base := file:filename(),                % relative paths of inputs start here
          title := unicode:chardata(),
          question := unicode:chardata(),
          programs := [program(), ...],
          factors := [factor()],
          crossed => [atom()],                    % the factors of which every combination runs;
                                                  % the others vary alone; default: all
          baseline := #{atom() => atom()},        % one level of each factor
          responses := [whittle_measure_response:request(), ...],
          blocks := pos_integer(),
          warmup := non_neg_integer(),            % blocks that run first and are not analyzed
          seed := integer(),
          duration := pos_integer(),              % seconds; programs that do not end stop then
          references := [cited()],
          front => [front()]}.                    % a study of `whittle tune' has it; a file not

-type program() ::
        #{name := atom(),
          input => file:filename(),               % an application, release or escript
          command => [string(), ...],             % a program that exists, instead of an input
          otp_source => whittle_measure_source:spec(), % modules of OTP's source, likewise
          arguments => [string()],                % of the program that is built; default: none
          workload => string(),                   % a command of sh; the run ends with it
          environment => [{string(), string()}],  % also of its workload
          wrapper => [string(), ...],             % a command that runs the program: its last words
                                                  % are the program and its arguments
          ready => string(),                      % a regular expression for the line that says
                                                  % that the program is ready; default: any line
          library => [atom(), ...],               % measure these applications of the input as
                                                  % files, instead of building a program
          factors => [atom()],                    % default: all factors of the study
          request => map()}.                      % options of its build, for every cell

%% A chart that stands before the charts of the responses.
-type front() :: #{title := unicode:chardata(), text := unicode:chardata(),
                   chart := whittle_json:json()}.

-type factor() :: #{name := atom(), title => unicode:chardata(), levels := [level(), ...]}.

-type level() ::
        #{name := atom(),
          title => unicode:chardata(),
          runner => whittle | stock,              % stock: the `erl' of the same OTP
          request => map(),                       % options of the build (whittle_make:request())
          library => whittle_measure_library:form(),
          flags => [string()],                    % of the VM, as for `erl'
          environment => [{string(), string()}]}.

%% Numbers of another work, which the table shows beside the measured ones.
-type cited() ::
        #{source := unicode:chardata(),
          program := atom(), response := atom(),
          levels => #{atom() => atom()},          % the rows; without it, a line below the table
          values := [number(), ...],
          unit := unicode:chardata(),             % as the other work gives it
          note => unicode:chardata()}.

-type cell() :: #{program := program(), levels := #{atom() => level()}}.

-type error() ::
        {no_study, string(), [string()]}
      | {unreadable, file:filename(), file:posix() | badarg | unicode:chardata()}
      | {wrong, file:filename(), unicode:chardata()}
      | {no_factor, string(), [atom()]}
      | {no_level, atom(), string(), [atom()]}.

%% A product of numbers of levels ends here.
-define(COUNTED, 1_000_000_000_001).

%% @doc Lists the studies that come with Whittle: name and file.
-spec shipped() -> [{string(), file:filename()}].
shipped() ->
    Files = filelib:wildcard(filename:join([code:priv_dir(whittle_measure), "studies", "*.study"])),
    [{filename:basename(File, ".study"), File} || File <- lists:sort(Files)].

%% @doc Reads the study with a name, or the study in a file. A name with a slash or with the
%% extension `.study' is a file.
-spec read(string()) -> {ok, study()} | {error, error()}.
read(Name) ->
    case lists:keyfind(Name, 1, shipped()) of
        {Name, File} -> read(Name, File, root());
        false ->
            case filename:extension(Name) =:= ".study" orelse lists:member($/, Name) of
                true -> read(filename:basename(Name, ".study"), Name, filename:dirname(Name));
                false -> {error, {no_study, Name, [Known || {Known, _} <- shipped()]}}
            end
    end.

%% @doc Returns the source tree of Whittle. The applications are built in its `_build', and their
%% `priv' is a link to the source.
-spec root() -> file:filename().
root() ->
    {ok, Priv} = file:read_link_all(code:priv_dir(whittle_measure)),
    filename:join([filename:dirname(code:priv_dir(whittle_measure)), Priv, "..", "..", ".."]).

read(Name, File, Base) ->
    whittle_work:steps(
      [fun(_) -> bytes(File) end,
       fun(Bytes) -> one_map(File, whittle_term:parse(Bytes)) end,
       fun(Map) ->
               case whittle_measure_check:study(Map) of
                   {ok, Study} -> {ok, Study#{name => Name, file => File, base => Base}};
                   {error, Line} -> {error, {wrong, File, Line}}
               end
       end]).

bytes(File) ->
    case whittle_file:text(File) of
        {ok, _} = Read -> Read;
        {error, Reason} -> {error, {unreadable, File, Reason}}
    end.

one_map(_, {ok, [Map]}) when is_map(Map) -> {ok, Map};
one_map(File, {ok, _}) -> {error, {wrong, File, "it must hold one map: #{title => ...}."}};
one_map(File, {error, Line}) -> {error, {unreadable, File, Line}}.

%% @doc Keeps some levels of factors, as in `--only factor=level'. The texts come from the command
%% line. The baseline of such a factor becomes its first kept level if its own is not kept.
-spec only([{string(), string()}], study()) -> {ok, study()} | {error, error()}.
only(Wanted, Study) ->
    lists:foldl(fun(One, {ok, Before}) -> only_one(One, Wanted, Before);
                   (_, {error, _} = Error) -> Error
                end, {ok, Study}, lists:usort([Factor || {Factor, _} <- Wanted])).

only_one(Text, Wanted, #{factors := Factors, baseline := Baseline} = Study) ->
    case [Factor || #{name := Name} = Factor <- Factors, atom_to_list(Name) =:= Text] of
        [] -> {error, {no_factor, Text, [Name || #{name := Name} <- Factors]}};
        [#{name := Name, levels := Levels} = Factor] ->
            Texts = [Level || {Of, Level} <- Wanted, Of =:= Text],
            Names = [Level || #{name := Level} <- Levels],
            case Texts -- [atom_to_list(Level) || Level <- Names] of
                [Unknown | _] -> {error, {no_level, Name, Unknown, Names}};
                [] ->
                    Kept = [Level || #{name := Each} = Level <- Levels,
                                     lists:member(atom_to_list(Each), Texts)],
                    Base = kept_baseline(maps:get(Name, Baseline), Kept),
                    {ok, Study#{factors => replaced(Factor#{levels => Kept}, Factors),
                                baseline => Baseline#{Name => Base}}}
            end
    end.

kept_baseline(Level, [#{name := First} | _] = Kept) ->
    case lists:member(Level, [Name || #{name := Name} <- Kept]) of
        true -> Level;
        false -> First
    end.

replaced(#{name := Name} = Factor, Factors) ->
    [case Each of #{name := Name} -> Factor; _ -> Each end || Each <- Factors].

%% @doc Restricts a study to one program, and to the factors of that program.
-spec of_program(program(), study()) -> study().
of_program(Program, #{factors := Factors, baseline := Baseline} = Study) ->
    All = [Name || #{name := Name} <- Factors],
    Own = maps:get(factors, Program, All),
    Study#{programs := [Program], factors := [Factor || #{name := Name} = Factor <- Factors,
                                                        lists:member(Name, Own)],
           baseline := maps:with(Own, Baseline)}.

%% @doc Returns the factors of which every combination runs.
-spec crossed(study()) -> [factor()].
crossed(#{crossed := Names, factors := Factors}) ->
    [Factor || #{name := Name} = Factor <- Factors, lists:member(Name, Names)];
crossed(#{factors := Factors}) -> Factors.

%% @doc Lists the cells: each program with each combination of the levels of its crossed factors,
%% and with each other level of a factor that varies alone.
-spec cells(study()) -> [cell()].
cells(#{programs := Programs} = Study) ->
    [#{program => Program, levels => maps:from_list(Levels)}
     || Program <- Programs, Own <- [of_program(Program, Study)],
        Levels <- combinations(Own)].

combinations(#{factors := Factors, baseline := Baseline} = Study) ->
    Crossed = crossed(Study),
    Alone = Factors -- Crossed,
    Base = [{Name, Level} || #{name := Name, levels := Levels} <- Factors,
                             #{name := Of} = Level <- Levels, Of =:= maps:get(Name, Baseline)],
    [lists:ukeymerge(1, lists:ukeysort(1, Levels), lists:ukeysort(1, Base))
     || Levels <- product(Crossed)
            ++ [[{Name, Level}] || #{name := Name, levels := Levels} <- Alone,
                                   #{name := Of} = Level <- Levels,
                                   Of =/= maps:get(Name, Baseline)]].

%% @doc Returns the most runs of a study, and so its most cells. The engine holds all cells and the
%% order of all runs in memory. At one second for each run, as many runs take 28 hours.
-spec most_runs() -> pos_integer().
most_runs() -> 100_000.

%% @doc Counts the cells without making them: a few lines can name more cells than a memory holds.
%% A count above 10^12 is not exact.
-spec count_cells(study()) -> non_neg_integer().
count_cells(#{programs := Programs} = Study) ->
    lists:sum([count_combinations(of_program(Program, Study)) || Program <- Programs]).

count_combinations(#{factors := Factors} = Study) ->
    Crossed = crossed(Study),
    lists:foldl(fun(#{levels := Levels}, Before) -> min(Before, ?COUNTED) * length(Levels) end,
                1, Crossed)
        + lists:sum([length(Levels) - 1 || #{levels := Levels} <- Factors -- Crossed]).

product([]) -> [[]];
product([#{name := Name, levels := Levels} | Factors]) ->
    [[{Name, Level} | Rest] || Level <- Levels, Rest <- product(Factors)].

%% @doc Returns the key of the cell that a program's other cells are compared with.
-spec baseline(atom(), study()) -> map().
baseline(Name, #{programs := Programs} = Study) ->
    [Program] = [Program || #{name := Of} = Program <- Programs, Of =:= Name],
    #{baseline := Baseline} = of_program(Program, Study),
    Baseline#{program => Name}.

%% @doc Returns the names in a cell: its program and its level of each factor.
-spec key(cell()) -> #{atom() => atom()}.
key(#{program := #{name := Program}, levels := Levels}) ->
    maps:put(program, Program, maps:map(fun(_, #{name := Name}) -> Name end, Levels)).

%% @doc Returns the names in a cell as they stand in a sample.
-spec sample_key(cell()) -> #{binary() => binary()}.
sample_key(Cell) ->
    maps:from_list([{atom_to_binary(Name), atom_to_binary(Level)}
                    || {Name, Level} <- maps:to_list(key(Cell))]).

%% @doc Names the program of a cell, and the levels that decide its build.
-spec build_name(cell()) -> unicode:chardata().
build_name(#{program := #{name := Program}, levels := Levels}) ->
    Deciding = maps:from_list([{Factor, Level} || {Factor, #{name := Level, request := Request}}
                                                      <- maps:to_list(Levels),
                                                  map_size(Request) > 0]),
    ["the program ", atom_to_list(Program),
     [[" with ", whittle_measure_table:levels(Deciding)] || map_size(Deciding) > 0]].

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({no_study, Name, Known}) ->
    io_lib:format("there is no study ~ts~ts; the studies are ~ts; a file of your own needs a slash "
                  "in its path, or the extension .study",
                  [Name, whittle_suggestion:hint(Name, Known), lists:join(", ", Known)]);
format_error({unreadable, File, Reason}) when is_atom(Reason) ->
    [File, $\s, whittle_file:format_error(Reason), ": name a study or its file"];
format_error({unreadable, File, Line}) -> [File, ": ", Line];
format_error({wrong, File, Line}) -> [File, ": ", Line];
format_error({no_factor, Name, []}) ->
    ["--only: the study has no factors, so it has no ", Name, ": leave out --only"];
format_error({no_factor, Name, Known}) ->
    io_lib:format("--only: the study has no factor ~ts; its factors are ~ts", [Name, names(Known)]);
format_error({no_level, Factor, Level, Known}) ->
    io_lib:format("--only: the factor ~ts has no level ~ts; its levels are ~ts",
                  [Factor, Level, names(Known)]).

names(Atoms) -> lists:join(", ", [atom_to_list(Atom) || Atom <- Atoms]).
