%% @doc Reads and checks a study: a file with one Erlang map.
%%
%% A study names programs, factors with their levels, a baseline and responses. A cell is one
%% program with one level of each factor. The study measures each cell once in each block. See
%% docs/measure.md for the keys of the file.
-module(whittle_measure_study).

-export([shipped/0, root/0, read/1, only/2, of_program/2, cells/1, baseline/2, key/1]).
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
          baseline := #{atom() => atom()},        % one level of each factor
          responses := [whittle_measure_response:request(), ...],
          blocks := pos_integer(),
          warmup := non_neg_integer(),            % blocks that run first and are not analyzed
          seed := integer(),
          duration := pos_integer(),              % seconds; programs that do not end stop then
          references := [cited()]}.

-type program() ::
        #{name := atom(),
          input => file:filename(),               % an application, release or escript
          command => [string(), ...],             % a program that exists, instead of an input
          arguments => [string()],                % of the program that is built; default: none
          workload => string(),                   % a command of sh; the run ends with it
          ready => string(),                      % a regular expression for the line that says
                                                  % that the program is ready; default: any line
          library => [atom(), ...],               % measure these applications of the input as
                                                  % files, instead of building a program
          factors => [atom()],                    % default: all factors of the study
          request => map()}.                      % options of its build, for every cell

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
               try check(Map) of
                   Study -> {ok, Study#{name => Name, file => File, base => Base}}
               catch
                   throw:{wrong, Line} -> {error, {wrong, File, Line}}
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

%% Internal functions: the check. It throws one line about the first mistake.

check(Map) ->
    Study = fields(Map, "the study",
                   [{title, required, fun text/2}, {question, "", fun text/2},
                    {programs, required, fun programs/2}, {factors, [], fun factors/2},
                    {baseline, #{}, fun plain_map/2}, {responses, required, fun responses/2},
                    {blocks, 5, positive()}, {warmup, 0, from(0)},
                    {seed, 1, fun whole/2}, {duration, 10, positive()},
                    {references, [], fun references/2}]),
    Baseline = full_baseline(Study),
    ok = check_programs(Study),
    ok = check_references(Study),
    Study#{baseline => Baseline}.

fields(Map, Where, Fields) when is_map(Map) ->
    case maps:keys(Map) -- [Name || {Name, _, _} <- Fields] of
        [] -> ok;
        [Unknown | _] ->
            wrong("~ts: there is no key ~tp; the keys are ~ts",
                  [Where, Unknown, names([Name || {Name, _, _} <- Fields])])
    end,
    maps:from_list(
      [{Name, field(Name, Value, Where, Check)}
       || {Name, Default, Check} <- Fields,
          Value <- case Map of
                       #{Name := Given} -> [Given];
                       _ when Default =:= required ->
                           wrong("~ts: the key ~tp is missing", [Where, Name]);
                       _ when Default =:= none -> [];
                       _ -> [Default]
                   end]);
fields(Other, Where, _) -> wrong("~ts: ~tP is not a map", [Where, Other, 8]).

field(Name, Value, Where, Check) ->
    Check(Value, io_lib:format("~ts, key ~tp", [Where, Name])).

text(Text, Where) ->
    case is_list(Text) andalso io_lib:printable_unicode_list(Text) of
        true -> Text;
        false -> wrong("~ts: ~tP is not a text", [Where, Text, 8])
    end.

texts(List, Where) when is_list(List) -> [text(Text, Where) || Text <- List];
texts(Other, Where) -> wrong("~ts: ~tP is not a list of texts", [Where, Other, 8]).

%% A name becomes part of a file name and of a column's title.
name(Name, Where) when is_atom(Name) ->
    case re:run(atom_to_list(Name), "^[a-z0-9][a-zA-Z0-9_+.-]{0,39}$", [unicode]) of
        {match, _} -> Name;
        nomatch ->
            wrong("~ts: the name ~tp must have 1 to 40 letters, digits and the characters _ + . -, "
                  "and begin with a small letter or a digit", [Where, Name])
    end;
name(Other, Where) -> wrong("~ts: ~tP is not an atom", [Where, Other, 8]).

whole(Number, _) when is_integer(Number) -> Number;
whole(Other, Where) -> wrong("~ts: ~tP is not a whole number", [Where, Other, 8]).

positive() -> from(1).

from(Least) ->
    fun(Number, _) when is_integer(Number), Number >= Least, Number =< 1_000_000 -> Number;
       (Other, Where) ->
            wrong("~ts: ~tP is not a whole number from ~b to 1000000", [Where, Other, 8, Least])
    end.

plain_map(Map, _) when is_map(Map) -> Map;
plain_map(Other, Where) -> wrong("~ts: ~tP is not a map", [Where, Other, 8]).

one_of(Choices) ->
    fun(Value, Where) ->
            case lists:member(Value, Choices) of
                true -> Value;
                false -> wrong("~ts: ~tP is not one of ~ts", [Where, Value, 8, names(Choices)])
            end
    end.

several(Items, What, Check) when is_list(Items), Items =/= [] ->
    Checked = [Check(Item) || Item <- Items],
    Names = [Name || #{name := Name} <- Checked],
    case Names -- lists:usort(Names) of
        [] -> Checked;
        [Twice | _] -> wrong("two ~ts have the name ~tp", [What, Twice])
    end;
several(_, What, _) -> wrong("the list of ~ts is empty or not a list", [What]).

programs(Programs, _) ->
    several(Programs, "programs",
            fun(Program) ->
                    #{name := Name} = Checked =
                        fields(Program, "a program",
                               [{name, required, fun name/2}, {input, none, fun text/2},
                                {command, none, fun texts/2}, {arguments, [], fun texts/2},
                                {ready, none, fun pattern/2}, {workload, none, fun text/2},
                                {library, none, fun atoms/2}, {factors, none, fun atoms/2},
                                {request, #{}, fun request/2}]),
                    case {[input, command] -- maps:keys(Checked), Checked} of
                        {[input], #{library := _}} ->
                            wrong("program ~tp has a library, which needs an input", [Name]);
                        {[_], _} -> Checked;
                        _ -> wrong("program ~tp needs either an input or a command", [Name])
                    end
            end).

atoms(List, Where) when is_list(List), List =/= [] -> [name(Name, Where) || Name <- List];
atoms(Other, Where) -> wrong("~ts: ~tP is not a list of names", [Where, Other, 8]).

%% A program without a response would be built for nothing.
check_programs(#{programs := Programs, factors := Factors, responses := Responses}) ->
    Known = [Name || #{name := Name} <- Factors],
    lists:foreach(
      fun(#{name := Name} = Program) ->
              case [Factor || Factor <- maps:get(factors, Program, []),
                              not lists:member(Factor, Known)] of
                  [] -> ok;
                  [Unknown | _] ->
                      wrong("program ~tp names the factor ~tp; the factors are ~ts",
                            [Name, Unknown, names(Known)])
              end,
              lists:any(fun(Response) -> whittle_measure_response:applies(Response, Program) end,
                        Responses)
                  orelse wrong("program ~tp has nothing that the responses measure", [Name])
      end, Programs).

pattern(Text, Where) ->
    case re:compile(text(Text, Where), [unicode]) of
        {ok, _} -> Text;
        {error, {Why, At}} ->
            wrong("~ts: ~ts at character ~b of the regular expression", [Where, Why, At])
    end.

factors([], _) -> [];
factors(Factors, _) ->
    several(Factors, "factors",
            fun(Factor) ->
                    fields(Factor, "a factor",
                           [{name, required, fun name/2}, {title, none, fun text/2},
                            {levels, required, fun levels/2}])
            end).

levels(Levels, _) ->
    several(Levels, "levels",
            fun(Level) ->
                    fields(Level, "a level",
                           [{name, required, fun name/2}, {title, none, fun text/2},
                            {runner, whittle, one_of([whittle, stock])},
                            {request, #{}, fun request/2}, {library, #{}, fun form/2},
                            {flags, [], fun texts/2},
                            {environment, [], fun environment/2}])
            end).

%% The study decides the input and the output itself.
request(Map, Where) when is_map(Map) ->
    case maps:keys(Map) -- [otp, target, flavor, optimize, format, libs, add, natives, includes,
                            attributes, shake, ca_certs] of
        [] -> Map;
        [Key | _] -> wrong("~ts: ~tp is not an option of a build", [Where, Key])
    end;
request(Other, Where) -> wrong("~ts: ~tP is not a map", [Where, Other, 8]).

form(Map, Where) ->
    fields(Map, Where, [{Key, none, one_of(Choices)}
                        || {Key, Choices} <- whittle_measure_library:choices()]).

environment(List, Where) when is_list(List) ->
    [case Pair of
         {Name, Value} -> {text(Name, Where), text(Value, Where)};
         _ -> wrong("~ts: ~tP is not {Name, Value}", [Where, Pair, 8])
     end || Pair <- List];
environment(Other, Where) -> wrong("~ts: ~tP is not a list", [Where, Other, 8]).

responses(Responses, _) ->
    several(Responses, "responses",
            fun(Response) ->
                    case whittle_measure_response:check(Response) of
                        {ok, Checked} -> Checked;
                        {error, Line} -> wrong("~ts", [Line])
                    end
            end).

references([], _) -> [];
references(References, _) when is_list(References) ->
    [fields(Reference, "a reference",
            [{source, required, fun text/2}, {program, required, fun name/2},
             {response, required, fun name/2}, {levels, none, fun plain_map/2},
             {values, required, fun numbers/2}, {unit, required, fun text/2},
             {note, none, fun text/2}]) || Reference <- References];
references(Other, Where) -> wrong("~ts: ~tP is not a list", [Where, Other, 8]).

numbers([_ | _] = List, Where) ->
    case lists:all(fun is_number/1, List) of
        true -> List;
        false -> wrong("~ts: ~tP has something that is not a number", [Where, List, 8])
    end;
numbers(Other, Where) -> wrong("~ts: ~tP is not a list of numbers", [Where, Other, 8]).

%% A reference with a wrong name would silently have no place in a table.
check_references(#{references := References, programs := Programs, responses := Responses,
                   factors := Factors}) ->
    Known = fun(Maps) -> [Name || #{name := Name} <- Maps] end,
    Pairs = [{Factor, Level} || #{name := Factor, levels := Levels} <- Factors,
                                Level <- Known(Levels)],
    Wrong = [Name || #{program := Program, response := Response} = Reference <- References,
                     {Name, Names} <- [{Program, Known(Programs)}, {Response, Known(Responses)}
                                       | [{Level, Pairs}
                                          || Level <- maps:to_list(maps:get(levels, Reference,
                                                                            #{}))]],
                     not lists:member(Name, Names)],
    case Wrong of
        [] -> ok;
        [First | _] -> wrong("a reference names ~tp, which is not in the study", [First])
    end.

%% The first level of a factor is its baseline if the study does not name another one.
full_baseline(#{factors := Factors, baseline := Given}) ->
    case maps:keys(Given) -- [Name || #{name := Name} <- Factors] of
        [] -> ok;
        [Unknown | _] -> wrong("the baseline names ~tp, which is not a factor", [Unknown])
    end,
    maps:from_list(
      [{Name, case {Given, [Level || #{name := Level} <- Levels]} of
                  {#{Name := Level}, Names} ->
                      case lists:member(Level, Names) of
                          true -> Level;
                          false -> wrong("the baseline names the level ~tp of ~tp; the levels are "
                                         "~ts", [Level, Name, names(Names)])
                      end;
                  {_, [First | _]} -> First
              end} || #{name := Name, levels := Levels} <- Factors]).

-spec wrong(string(), [term()]) -> no_return().
wrong(Format, Values) -> throw({wrong, io_lib:format(Format, Values)}).

names(Atoms) -> lists:join(", ", [atom_to_list(Atom) || Atom <- Atoms]).

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

%% @doc Lists the cells: each program with each combination of the levels of its factors.
-spec cells(study()) -> [cell()].
cells(#{programs := Programs} = Study) ->
    [#{program => Program, levels => maps:from_list(Levels)}
     || Program <- Programs, #{factors := Factors} <- [of_program(Program, Study)],
        Levels <- combinations(Factors)].

combinations([]) -> [[]];
combinations([#{name := Name, levels := Levels} | Factors]) ->
    [[{Name, Level} | Rest] || Level <- Levels, Rest <- combinations(Factors)].

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

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({no_study, Name, Known}) ->
    io_lib:format("there is no study ~ts; the studies are ~ts; a file of your own needs a slash in "
                  "its path, or the extension .study", [Name, lists:join(", ", Known)]);
format_error({unreadable, File, Reason}) when is_atom(Reason) ->
    [File, $\s, whittle_file:format_error(Reason), ": check the path"];
format_error({Tag, File, Line}) when Tag =:= unreadable; Tag =:= wrong ->
    [File, ": ", Line, "; correct it: docs/measure.md describes studies"];
format_error({no_factor, Name, Known}) ->
    io_lib:format("--only: the study has no factor ~ts; its factors are ~ts", [Name, names(Known)]);
format_error({no_level, Factor, Level, Known}) ->
    io_lib:format("--only: the factor ~ts has no level ~ts; its levels are ~ts",
                  [Factor, Level, names(Known)]).
