%% @doc Parses the command line into commands, options and their values.
%%
%% Each command is a module with the behavior of {@link whittle}. Its function `command/0'
%% declares its arguments and options. To add a command, write the module and add it to {@link
%% table/0}. Only this module converts values. A choice between atoms becomes an atom. A list is
%% split at its commas. The library `getopt' splits the arguments.
-module(whittle_command_line).

-export([parse/1, parse_after/2, wants_json/1, table/0, json/0, choices/1, to_shell/3]).

-export_type([values/0, command/0, form/0, option/0]).

%% The options that the user gave or that have a default, by name. `arguments' holds the other
%% arguments. A flag is `true'.
-type values() :: #{arguments := [string()], atom() => atom() | string() | [string()]}.

-type option() ::
        #{name := atom(),
          long := string(),
          short => char(),
          given => string(),                  % the user's word for it: "-o" or "--output"
          value => string(),                  % the help shows it as the value; a flag has none
          one_of => fun(() -> [atom() | string()]), % the possible values
          why_not => fun((string()) -> unicode:chardata()), % why a value is not possible, or ""
          offered => fun(() -> [string()]),   % some possible values, for completion
          list => true,                       % commas separate the values
          many => true,                       % the option may be repeated; gives a list
          default => fun(() -> atom() | string()),
          usual => fun(() -> string()),       % the default, if the command itself fills it in
          help := string()}.

-type command() ::
        #{name := string(),
          arguments := [string()],            % as in the help; [X] is optional, and a last
                                              % [X...] stands for any number of arguments
          words => [string()],                % the values of its first argument
          forms => [form(), ...],             % if not all options count in all of them
          help := string(),
          options := [option()],
          module => module()}.                % table/0 adds it

%% A form of a command. It begins with a word, or with an argument in capitals, which stands for all
%% other words.
-type form() ::
        #{arguments := [string(), ...],
          help := string(),
          options := [atom()]}.               % the names of those that count in it

%% @doc Lists all commands, in the order of the help.
-spec table() -> [command()].
table() ->
    [(Module:command())#{module => Module}
     || Module <- [whittle_cmd_build, whittle_cmd_size, whittle_cmd_why, whittle_cmd_features,
                   whittle_cmd_targets, whittle_cmd_boards, whittle_cmd_run, whittle_cmd_write,
                   whittle_cmd_trace, whittle_cmd_measure,
                   whittle_cmd_tune, whittle_cmd_load, whittle_cmd_clean, whittle_cmd_completion]].

%% @doc Describes the option `--json'.
-spec json() -> option().
json() ->
    #{name => json, long => "json", help => "print the result as JSON"}.

%% @doc Writes a command as a line for a shell, with its values of some options.
-spec to_shell(command(), [atom()], values()) -> unicode:chardata().
to_shell(#{name := Name, options := Options}, Kept, #{arguments := Arguments} = Values) ->
    Words = [Word || #{name := Option, long := Long} <- Options, lists:member(Option, Kept),
                     Value <- given(maps:get(Option, Values, none)),
                     Word <- ["--" ++ Long | [Value || Value =/= true]]],
    lists:join($\s, ["whittle", Name | [word(Word) || Word <- Arguments ++ Words]]).

given(none) -> [];
given([[_ | _] | _] = Many) -> Many;
given(One) -> [One].

word(Word) ->
    case re:run(Word, "^[A-Za-z0-9_./=:@%+,-]+$",
                [unicode, dollar_endonly, {capture, none}]) of
        match -> Word;
        nomatch -> whittle_program:quoted(Word)
    end.

%% @doc Parses the arguments. The result is a command to run, a text to show, or one line about an
%% error.
-spec parse([string()]) ->
          {run, module(), values()} | {show, unicode:chardata()}
        | {error, unicode:chardata()}.
parse([]) ->
    {error, "no command given; `whittle help' lists the commands"};
parse(["help"]) -> {show, overview()};
parse(["help", "help"]) -> {show, overview()};
parse(["help", "version"]) -> {show, version()};
parse(["--help"]) -> {show, overview()};
parse(["-h"]) -> {show, overview()};
parse(["version"]) -> {show, version()};
parse(["--version"]) -> {show, version()};
parse([Word, Extra | _]) when Word =:= "version"; Word =:= "--version" ->
    {error, ["unexpected argument `", Extra, "'; see `whittle help'"]};
parse(["help", _, Extra | _]) ->
    {error, ["unexpected argument `", Extra, "'; see `whittle help'"]};
parse(["help", Name]) -> with_command(Name, fun(Command) -> {show, usage(Command)} end);
parse([Name | Words]) -> with_command(Name, fun(Command) -> command(Command, Words) end).

%% @doc Parses words that follow the first argument of a command, by the command's own options.
-spec parse_after(command(), [string()]) -> {ok, values()} | {error, unicode:chardata()}.
parse_after(Command, Words) ->
    case options(Command#{module => none, arguments => []}, Words, []) of
        {run, none, Values} -> {ok, Values};
        {error, _} = Error -> Error
    end.

with_command(Name, Fun) ->
    case [Command || #{name := N} = Command <- table(), N =:= Name] of
        [Command] -> Fun(Command);
        [] when Name =:= "" ->
            {error, "the name of the command is empty; `whittle help' lists the commands"};
        [] -> {error, ["there is no command ", Name,
                       whittle_suggestion:hint(Name, names() ++ ["help", "version"]),
                       "; `whittle help' lists the commands"]}
    end.

names() -> [Name || #{name := Name} <- table()].

%% @doc Tells whether to print an error as JSON too. This applies to usage errors as well.
-spec wants_json([string()]) -> boolean().
wants_json([Name | Words]) ->
    case [Options || #{name := N, options := Options} <- table(), N =:= Name] of
        [Options] -> [true || #{name := json} <- Options] =/= [] andalso
                         lists:member("--json", Words);
        [] -> lists:member("--json", [Name | Words])
    end;
wants_json([]) -> false.

%% Arguments

command(Command, Words) ->
    {Ours, Theirs} = theirs(Command, Words),
    case lists:member("--help", Ours) orelse lists:member("-h", Ours) of
        true -> {show, usage(Command)};
        false -> options(Command, Ours, Theirs)
    end.

%% Separates the arguments of whittle from those of another program. For a command with any number
%% of arguments, everything after its first argument belongs to the program, even if it looks like
%% an option. If the arguments of the command begin with two dashes, the dashes separate the two.
theirs(#{arguments := Arguments} = Command, Words) ->
    case {Arguments, lists:any(fun is_any_number/1, Arguments)} of
        {["--" ++ _ | _], true} ->
            {Ours, Dashed} = lists:splitwith(fun(Word) -> Word =/= "--" end, Words),
            {Ours, lists:nthtail(min(1, length(Dashed)), Dashed)};
        {_, true} -> lists:split(to_first_argument(Command, Words), Words);
        {_, false} -> {Words, []}
    end.

%% Counts the words up to the first argument, with the options before it and their values.
to_first_argument(_, []) -> 0;
to_first_argument(#{options := Options} = Command, [[$-, _ | _] = Word | Words]) ->
    Valued = [Name || #{value := _, long := Long} = Option <- Options,
                      Name <- ["--" ++ Long | [[$-, Short] || #{short := Short} <- [Option]]]],
    case {lists:member(Word, Valued), Words} of
        {_, _} when Word =:= "--" -> 1;
        {true, [_ | Rest]} -> 2 + to_first_argument(Command, Rest);
        _ -> 1 + to_first_argument(Command, Words)
    end;
to_first_argument(_, _) -> 1.

options(#{name := Name, options := Options, module := Module} = Command, Ours, Theirs) ->
    case getopt:parse([specification(Option) || Option <- Options], Ours) of
        {ok, {Parsed, Words}} ->
            All = [value(One) || One <- Parsed],
            Values = maps:merge(maps:from_list(All), many(All, Options)),
            Given = [as_given(Option, Ours) || Option <- Options],
            case twice(All, Given) ++ wrong(Command#{options := Given}, Values, Words, Theirs) of
                [] ->
                    Typed = maps:merge(defaults(Options), typed(Values, Options)),
                    {run, Module, Typed#{arguments => Words ++ Theirs}};
                [Line | _] ->
                    {error, [Line, help_hint(Name)]}
            end;
        {error, Reason} ->
            Line = case without_dashes(Command, Ours, Theirs) of
                       [Dashes] -> Dashes;
                       [] -> mistake(Reason, [as_given(Option, Ours) || Option <- Options])
                   end,
            {error, [Line, help_hint(Name)]}
    end.

%% Without the dashes, an option of the other program looks like a wrong option of this command. The
%% option stands behind that program, and the words before the program are right.
without_dashes(#{arguments := ["--" ++ _ = First | _], name := Name, options := Options} = Command,
               Ours, []) ->
    {Begin, Rest} = lists:split(to_first_argument(Command, Ours), Ours),
    Before = lists:droplast(Begin),
    [dashes(Name, First, Program)
     || [C | _] = Program <- [lists:last(Begin)], C =/= $-, Rest =/= [],
        {ok, {_, []}} <- [getopt:parse(lists:map(fun specification/1, Options), Before)]];
without_dashes(_, _, _) -> [].

dashes(Name, First, Word) -> ["put -- before `", Word, "': `whittle ", Name, $\s, First, $'].

%% Adds the name that the user wrote: the short one, or the long one with its dashes.
as_given(#{long := Long} = Option, Words) ->
    IsLong = lists:any(fun(Word) -> hd(string:split(Word, "=")) =:= "--" ++ Long end, Words),
    case Option of
        #{short := Short} when not IsLong -> Option#{given => [$-, Short]};
        _ -> Option#{given => "--" ++ Long}
    end.

specification(#{name := Name, long := Long} = Option) ->
    {Name, maps:get(short, Option, undefined), Long,
     case Option of #{value := _} -> string; _ -> undefined end, ""}.

value({Name, Value}) -> {Name, Value};
value(Name) -> {Name, true}.

defaults(Options) ->
    maps:from_list([{Name, Default()} || #{name := Name, default := Default} <- Options]).

%% Converts the values. Only this function turns command-line words into atoms.
typed(Values, Options) ->
    maps:map(fun(Name, Value) ->
                     [Option] = [O || #{name := N} = O <- Options, N =:= Name],
                     typed_value(Value, Option)
             end, Values).

typed_value(Value, #{list := true}) -> string:lexemes(Value, ",");
typed_value(Value, #{one_of := OneOf}) ->
    [Typed] = [Choice || Choice <- OneOf(), shown(Choice) =:= Value],
    Typed;
typed_value(Value, _) -> Value.

shown(Choice) when is_atom(Choice) -> atom_to_list(Choice);
shown(Choice) -> Choice.

%% @doc Lists the possible values of an option, as the user writes them. It returns `[]' if any
%% value is possible.
-spec choices(option()) -> [string()].
choices(#{one_of := OneOf}) -> [shown(Choice) || Choice <- OneOf()];
choices(_) -> [].

%% Collects all values of the options that may be repeated, in their order.
many(Given, Options) ->
    maps:from_list([{Name, Values}
                    || #{name := Name, many := true} <- Options,
                       Values <- [[Value || {N, Value} <- Given, N =:= Name]], Values =/= []]).

%% Refuses an option that is given twice, because one of its values would be lost.
twice(Given, Options) ->
    [[As, " is given twice: give it once"]
     || #{name := Name, given := As, value := _} = Option <- Options,
        not is_map_key(many, Option),
        length([Name || {N, _} <- Given, N =:= Name]) > 1].

wrong(#{arguments := ["--" ++ _ = First | _], name := Name}, _, [Word | _], _) ->
    [dashes(Name, First, Word)];
wrong(#{arguments := ["--" ++ _ | _]} = Command, Values, [], Theirs) ->
    wrong(Command, Values, lists:sublist(Theirs, 1));
wrong(#{arguments := [First | Others], name := Name}, _, [], [Word | _]) ->
    [["remove -- before `", Word, "': `", lists:join($\s, ["whittle", Name, First | Others]), $']];
wrong(Command, Values, Words, _) ->
    wrong(Command, Values, Words).

wrong(#{arguments := Arguments, options := Options, name := Name} = Command, Values, Words) ->
    Both = min(length(Words), length(Arguments)),
    {_, Missing} = lists:split(Both, Arguments),
    {_, Extra} = lists:split(Both, Words),
    %% The value comes first, because in `build --vm PATH' the option takes the argument that is
    %% missing.
    [[As, " needs a value"] || #{name := Key, given := As} <- Options,
                               #{Key := Value} <- [Values],
                               is_list(Value), Value =:= "" orelse lists:member("", Value)]
        ++ [[As, " cannot be `", Value, $', hint(Option, Value, Known),
             "; use one of ", lists:join(", ", Known)]
            || #{name := Key, given := As, one_of := _} = Option <- Options,
               #{Key := Value} <- [Values], Known <- [choices(Option)],
               not lists:member(Value, Known)]
        ++ [["`whittle ", Name, "' needs ", First]
            || First <- lists:sublist(Missing, 1), not is_optional(First)]
        ++ [["unexpected argument `", Word, $'] || Word <- lists:sublist(Extra, 1)]
        ++ [["`whittle ", Name, "' needs ", Argument, ", but this argument is empty"]
            || {Argument, ""} <- named([string:trim(Argument, both, "[]")
                                        || Argument <- Arguments], Words)]
        ++ without_effect(Command, Values, Words).

%% Refuses options that do not count in the form that the arguments have. If their number is wrong,
%% the command itself says so.
without_effect(#{forms := Forms, options := Options} = Command, Values, Words) ->
    [[As, " has no effect in ", quoted(Command, Form), ": it is for ",
      lists:join(" and ", [quoted(Command, Other)
                           || #{options := Others} = Other <- Forms, lists:member(Key, Others)])]
     || #{arguments := Arguments, options := Counting} = Form <- form(Words, Forms),
        length(Arguments) =:= length(Words),
        #{name := Key, given := As} <- Options, is_map_key(Key, Values),
        not lists:member(Key, Counting)];
without_effect(_, _, _) -> [].

form([Word | _], Forms) ->
    case [Form || #{arguments := [First | _]} = Form <- Forms, First =:= Word] of
        [] -> [Form || #{arguments := [[Letter | _] | _]} = Form <- Forms,
                       Letter >= $A, Letter =< $Z];
        Found -> Found
    end;
form([], _) -> [].

quoted(#{name := Name}, #{arguments := Arguments}) ->
    ["`", lists:join($\s, ["whittle", Name | Arguments]), $'].

hint(#{why_not := WhyNot}, Value, Known) ->
    case WhyNot(Value) of
        "" -> whittle_suggestion:hint(Value, Known);
        Why -> [" (", Why, ")"]
    end;
hint(_, Value, Known) ->
    whittle_suggestion:hint(Value, Known).

%% Pairs the arguments that have a name with their values.
named([Argument | Arguments], [Word | Words]) -> [{Argument, Word} | named(Arguments, Words)];
named(_, _) -> [].

is_any_number(Argument) -> lists:suffix("...]", Argument).

is_optional(Argument) -> hd(Argument) =:= $[.

mistake({invalid_option, Option}, Options) ->
    [Given | _] = string:split(string:trim(Option, leading, "-"), "="),
    ["there is no option ", Option,
     case whittle_suggestion:nearest(Given, ["help" | [Long || #{long := Long} <- Options]]) of
         {ok, Near} -> [" (did you mean --", Near, "?)"];
         none -> ""
     end];
mistake({missing_option_arg, Name}, Options) ->
    [As] = [As || #{name := N, given := As} <- Options, N =:= Name],
    [As, " needs a value"];
mistake({invalid_option_arg, Word}, _) when is_list(Word) ->
    [hd(string:split(Word, "=")), " takes no value"];
mistake({Reason, What}, _) ->
    io_lib:format("~ts: ~tp", [string:replace(atom_to_list(Reason), "_", " ", all), What]).

help_hint(Name) -> ["; see `whittle help ", Name, "'"].

%% Help

overview() ->
    Rows = [{Name, Help} || #{name := Name, help := Help} <- table()]
        ++ [{"help", "print this text; `whittle help COMMAND' describes a command"},
            {"version", "print the version of Whittle"}],
    ["Whittle builds one small executable from an Erlang or Elixir application.\n\n",
     "usage: whittle COMMAND ...\n\n",
     [io_lib:format("  ~-12ts~ts~n", [Name, Help]) || {Name, Help} <- Rows],
     "\nExit code: 0 done, 1 the work failed, 2 usage error.\n"].

usage(#{name := Name, help := Help, options := Options} = Command) ->
    ["usage: whittle ", Name, [[" [OPTION...]"] || _ <- lists:sublist(Options, 1)],
     arguments(Command), "\n\n", Help, "\n",
     ["\n" || _ <- lists:sublist(Options, 1)],
     [["  ", string:pad(option_words(Option), 21), $\s, OptionHelp, range(Option), $\n]
      || #{help := OptionHelp} = Option <- Options]].

%% A line for each form says more than the arguments of all.
arguments(#{forms := Forms}) ->
    [" FORM\n\nFORM is one of these:\n",
     lists:join($\n, [["  ", string:pad(lists:join($\s, Arguments), 21), $\s, Help]
                      || #{arguments := Arguments, help := Help} <- Forms])];
arguments(#{arguments := Arguments}) -> [[$\s, Argument] || Argument <- Arguments].

option_words(#{long := Long} = Option) ->
    [[[$-, Short, $,, $\s] || #{short := Short} <- [Option]],
     "--", Long, [[$\s, Value] || #{value := Value} <- [Option]]].

range(Option) ->
    Said = [lists:join(", ", Known) || [_ | _] = Known <- [choices(Option)]]
        ++ [["default: ", shown(Default())] || #{default := Default} <- [Option]]
        ++ [["default: ", Usual()] || #{usual := Usual} <- [Option]],
    [[" (", lists:join("; ", Said), ")"] || Said =/= []].

version() ->
    _ = application:load(whittle),
    {ok, Vsn} = application:get_key(whittle, vsn),
    ["whittle ", Vsn, "\n"].
