%% @doc Checks the map in the file of a study. docs/measure.md describes its keys.
%% @hidden
-module(whittle_measure_check).

-export([study/1]).

%% @doc Checks the keys and the values of a study, and adds the defaults. The error is one line
%% about the first mistake.
-spec study(map()) -> {ok, map()} | {error, unicode:chardata()}.
study(Map) ->
    try
        ok = check_lists(Map, "the study"),
        {ok, checked(Map)}
    catch throw:{wrong, Line} -> {error, Line}
    end.

%% Internal functions. They throw the line about a mistake.

%% Checks all lists of the study, also those inside of others: an improper list passes `is_list/1',
%% and the functions of `lists' crash.
check_lists(Map, Where) when is_map(Map) ->
    maps:foreach(fun(Key, Value) ->
                         ok = check_lists(Key, Where),
                         ok = check_lists(Value, io_lib:format("the key ~tP", [Key, 8]))
                 end, Map);
check_lists(Tuple, Where) when is_tuple(Tuple) -> check_lists(tuple_to_list(Tuple), Where);
check_lists(List, Where) when length(List) > 0 ->
    lists:foreach(fun(Element) -> ok = check_lists(Element, Where) end, List);
check_lists([_ | _] = Improper, Where) ->
    wrong("~ts: ~tP is an improper list: write a list after `|', or a comma instead of `|'",
          [Where, Improper, 8]);
check_lists(_, _) -> ok.

checked(Map) ->
    Study = fields(Map, "the study",
                   [{title, required, fun text/2}, {question, "", fun text/2},
                    {programs, required, fun programs/2}, {factors, [], fun factors/2},
                    {crossed, none, fun names_or_none/2},
                    {baseline, #{}, fun plain_map/2}, {responses, required, fun responses/2},
                    {blocks, 6, positive()}, {warmup, 0, from(0)},
                    {seed, 1, fun whole/2}, {duration, 10, positive()},
                    {references, [], fun references/2}]),
    Baseline = full_baseline(Study),
    ok = check_responses(Study),
    ok = check_programs(Study),
    ok = check_crossed(Study),
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

command([], Where) -> wrong("~ts: the command is empty: name its program", [Where]);
command(Texts, Where) -> texts(Texts, Where).

%% A name becomes part of a file name and of a column's title.
name(Name, Where) when is_atom(Name) ->
    case re:run(atom_to_list(Name), "^[a-z0-9][a-zA-Z0-9_+.-]{0,39}$",
                [unicode, dollar_endonly]) of
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
                                {otp_source, none, fun otp_source/2},
                                {command, none, fun command/2}, {arguments, [], fun texts/2},
                                {ready, none, fun pattern/2}, {workload, none, fun text/2},
                                {wrapper, none, fun command/2},
                                {environment, none, fun environment/2},
                                {library, none, fun atoms/2}, {factors, none, fun atoms/2},
                                {request, #{}, fun plain_map/2}]),
                    ok = request(["the program ", atom_to_list(Name)], Checked),
                    case {[input, command, otp_source] -- maps:keys(Checked), Checked} of
                        {[_, _], #{library := _}} when not is_map_key(input, Checked) ->
                            wrong("program ~tp has a library, which needs an input", [Name]);
                        {_, #{library := _, wrapper := _}} ->
                            wrong("program ~tp has a library, which never runs, so its wrapper has "
                                  "no effect: remove one of the two", [Name]);
                        {[_, _], _} -> Checked;
                        _ -> wrong("program ~tp needs either an input, a command or an otp_source",
                                   [Name])
                    end
            end).

%% The files become modules of an application.
otp_source(Map, Where) ->
    fields(Map, Where, [{otp, whittle_runtime:default_otp(), fun text/2},
                        {files, required, fun texts/2}, {defines, [], fun texts/2},
                        {start, required, fun start/2}]).

start({Module, Function} = Start, _) when is_atom(Module), is_atom(Function) -> Start;
start(Other, Where) -> wrong("~ts: ~tP is not {Module, Function}", [Where, Other, 8]).

atoms(List, Where) when is_list(List), List =/= [] -> [name(Name, Where) || Name <- List];
atoms(Other, Where) -> wrong("~ts: ~tP is not a list of names", [Where, Other, 8]).

names_or_none([], _) -> [];
names_or_none(List, Where) -> atoms(List, Where).

check_responses(#{responses := Responses, programs := Programs}) ->
    Known = [Name || #{name := Name} <- Programs],
    case [{Name, Program} || #{name := Name, programs := Of} <- Responses, Program <- Of,
                             not lists:member(Program, Known)] of
        [] -> ok;
        [{Name, Unknown} | _] ->
            wrong("response ~tp names the program ~tp; the programs are ~ts",
                  [Name, Unknown, names(Known)])
    end.

check_crossed(#{crossed := Crossed, factors := Factors}) ->
    Known = [Name || #{name := Name} <- Factors],
    case [Factor || Factor <- Crossed, not lists:member(Factor, Known)] of
        [] -> ok;
        [Unknown | _] ->
            wrong("the study, key crossed: there is no factor ~tp; the factors are ~ts",
                  [Unknown, names(Known)])
    end;
check_crossed(_) -> ok.

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
                    #{name := Name} = Checked =
                        fields(Level, "a level",
                               [{name, required, fun name/2}, {title, none, fun text/2},
                                {runner, whittle, one_of([whittle, stock])},
                                {request, #{}, fun plain_map/2}, {library, #{}, fun form/2},
                                {flags, [], fun texts/2},
                                {environment, [], fun environment/2}]),
                    ok = request(["the level ", atom_to_list(Name)], Checked),
                    Checked
            end).

%% The study decides the input and the output itself.
request(Where, #{request := Request}) ->
    case whittle_make:check_options(Request, [otp, target, flavor, optimize, format, libs, add,
                                              natives, includes, attributes, shake, ca_certs,
                                              settings]) of
        ok -> ok;
        {error, Reason} -> wrong("~ts: ~ts", [Where, whittle_make:format_error(Reason)])
    end.

form(Map, Where) ->
    fields(Map, Where, [{Key, none, one_of(Choices)}
                        || {Key, Choices} <- whittle_measure_library:choices()]).

environment(List, Where) when is_list(List) ->
    [case Pair of
         {Name, Value} -> {variable(text(Name, Where), Where), text(Value, Where)};
         _ -> wrong("~ts: ~tP is not {Name, Value}", [Where, Pair, 8])
     end || Pair <- List];
environment(Other, Where) -> wrong("~ts: ~tP is not a list", [Where, Other, 8]).

variable(Name, Where) ->
    case Name =:= "" orelse lists:member($=, Name) of
        true -> wrong("~ts: `~ts' is not the name of a variable", [Where, Name]);
        false -> Name
    end.

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
