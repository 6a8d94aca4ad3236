%% @doc The words of the command line: a table of commands, and what it means.
%%
%% To add a command, add a row and a module with the behaviour of {@link
%% whittle}. Options are taken apart by `getopt'.
-module(whittle_words).

-export([parse/1, wants_json/1, table/0]).

-export_type([values/0, command/0, option/0]).

%% The options that were given or have a default, by name; `arguments' holds
%% the words that are no options. A flag that was given is `true'; of an option that may be
%% given several times there is a list.
-type values() :: #{arguments := [string()], atom() => string() | true | [string()]}.

-type option() ::
        #{name := atom(),
          long := string(),
          short => char(),
          value => string(),                  % what is printed for the value;
                                              % without it the option is a flag
          one_of => fun(() -> [string()]),    % the values there are
          many => true,                       % it may be given several times
          default => fun(() -> string()),
          help := string()}.

-type command() ::
        #{name := string(),
          arguments := [string()],            % as printed; a last one in brackets
                                              % is any number of words
          help := string(),
          options := [option()],
          module := module()}.

%% @doc The commands.
-spec table() -> [command()].
table() ->
    [#{name => "build", arguments => ["PATH"], module => whittle_cmd_build,
       help => "make one executable from an application, a release or an escript",
       options =>
           [#{name => out, long => "out", short => $o, value => "OUT",
              help => "where to write it (default: the system's name)"},
            #{name => target, long => "target", value => "TARGET",
              one_of => fun targets/0, default => fun whittle_runtime:default_target/0,
              help => "the machine it is for; `whittle targets' tells of them"},
            #{name => otp, long => "otp", value => "VSN",
              one_of => fun whittle_runtime:otps/0,
              default => fun whittle_runtime:default_otp/0,
              help => "the OTP release that it runs on"},
            #{name => vm, long => "vm", value => "FLAVOUR",
              one_of => fun() -> ["size", "speed"] end,
              default => fun() -> "size" end,
              help => "the small interpreter, or the JIT"},
            #{name => format, long => "format", value => "FORMAT",
              one_of => fun() -> ["exe", "dir"] end,
              default => fun() -> "exe" end,
              help => "one file, or a directory with the files unpacked"},
            #{name => keep_include, long => "keep-include",
              help => "keep include files (kept anyway where the compiler is)"},
            #{name => keep_attributes, long => "keep-attributes",
              help => "keep modules' attributes (kept anyway where a module names them)"},
            #{name => shake, long => "shake", value => "UNIT",
              one_of => fun() -> ["none", "modules", "functions"] end,
              default => fun() -> "none" end,
              help => "keep only what the program can reach at hand"},
            #{name => missing, long => "missing", value => "WAY",
              one_of => fun() -> ["load", "crash"] end,
              help => "what a call to the rest does: load it (default) or crash"},
            #{name => feature, long => "feature", value => "+X,-Y",
              help => "features to keep and to do without; `whittle features' lists them"},
            #{name => keep, long => "keep", value => "FILE",
              help => "functions to keep, M, M:F or M:F/A a line; % begins a comment"},
            #{name => evidence, long => "evidence", value => "FILE",
              help => "calls that `whittle trace' recorded, to check what is cut with"},
            #{name => seen, long => "seen", value => "WAY",
              one_of => fun() -> ["refuse", "keep", "only"] end,
              help => "refuse to cut what it names, keep it, or have only that at hand"},
            #{name => remote, long => "remote", value => "NAMES",
              help => "functions that other nodes call, with commas between; or none"},
            #{name => data, long => "data", value => "NAMES",
              help => "functions that terms from outside name; or none"},
            #{name => atoms, long => "atoms", value => "NAMES",
              help => "functions whose names the program makes of text; or none"},
            #{name => code, long => "code", value => "NAMES",
              help => "functions that code which is loaded later calls; or none"},
            #{name => native, long => "native", value => "FILES",
              help => "descriptions of NIFs and drivers to link in, with commas between "
                      "(docs/natives.md)"},
            #{name => app, long => "app", value => "NAME", many => true,
              help => "an application to add, with those that it needs; may be given "
                      "several times"},
            #{name => no_outside_links, long => "no-outside-links",
              help => "refuse symbolic links that point outside the input"},
            #{name => ca_certs, long => "ca-certs", value => "FILE",
              help => "PEM certificates for where /etc/ssl is missing"},
            json()]},
     #{name => "size", arguments => ["OUT"], module => whittle_cmd_size,
       help => "where every byte of an executable went",
       options => [#{name => by, long => "by", value => "WHAT",
                     one_of => fun() -> ["part", "reason"] end,
                     default => fun() -> "part" end,
                     help => "list by part, or by the application or root that brings the code"},
                   json()]},
     #{name => "why", arguments => ["OUT", "NAME"], module => whittle_cmd_why,
       help => "why a function (M, M:F or M:F/A) is in an executable, or what cut it",
       options => [json()]},
     #{name => "features", arguments => [], module => whittle_cmd_features,
       help => "what a program can do without, for --feature", options => [json()]},
     #{name => "targets", arguments => [], module => whittle_cmd_targets,
       help => "the machines that can be built for", options => [json()]},
     #{name => "run", arguments => ["OUT", "[ARGUMENT...]"], module => whittle_cmd_run,
       help => "run an executable, in an emulator if it is not for this machine",
       options => []},
     #{name => "trace", arguments => ["-- CMD", "[ARGUMENT...]"], module => whittle_cmd_trace,
       help => "run a command and record the functions that Erlang calls in it, for "
               "build --evidence",
       options => [#{name => out, long => "out", short => $o, value => "FILE",
                     help => "where to write them (default: CMD's name with .trace)"}]},
     #{name => "clean", arguments => [], module => whittle_cmd_clean,
       help => "list the contents of the VM cache, or remove them",
       options => [#{name => kind, long => "kind", value => "KIND",
                     one_of => fun whittle_cmd_clean:kinds/0,
                     help => "list or remove this kind only"},
                   #{name => older_than, long => "older-than", value => "AGE",
                     help => "list or remove only things that are at least this old: 12h, "
                             "30d or 4w (hours, days or weeks)"},
                   #{name => yes, long => "yes",
                     help => "remove the listed things; without this option nothing is removed"},
                   json()]},
     #{name => "completion", arguments => ["SHELL"], module => whittle_cmd_completion,
       help => "a script for bash or zsh: source <(whittle completion bash)", options => []}].

json() ->
    #{name => json, long => "json", help => "print the result as JSON"}.

targets() ->
    [Name || #{name := Name} <- whittle_runtime:targets()].

%% @doc What the words mean: a command to run, a text to show, or one line that
%% says what is wrong with them.
-spec parse([string()]) ->
          {run, module(), values()} | {show, unicode:chardata()}
        | {error, unicode:chardata()}.
parse([]) ->
    {error, "no command given; `whittle help' lists them"};
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

with_command(Name, Fun) ->
    case [Command || #{name := N} = Command <- table(), N =:= Name] of
        [Command] -> Fun(Command);
        [] -> {error, ["there is no command ", Name,
                       whittle_near:hint(Name, names() ++ ["help", "version"]),
                       "; `whittle help' lists them"]}
    end.

names() -> [Name || #{name := Name} <- table()].

%% @doc Whether an error is to be printed as JSON too, also where the words are wrong.
-spec wants_json([string()]) -> boolean().
wants_json([Name | Words]) ->
    case [Options || #{name := N, options := Options} <- table(), N =:= Name] of
        [Options] -> [true || #{name := json} <- Options] =/= [] andalso
                         lists:member("--json", Words);
        [] -> lists:member("--json", [Name | Words])
    end;
wants_json([]) -> false.

%% Words

command(#{arguments := Arguments} = Command, Words) ->
    {Ours, Theirs} = theirs(Arguments, lists:any(fun is_any_number/1, Arguments), Words),
    case lists:member("--help", Ours) orelse lists:member("-h", Ours) of
        true -> {show, usage(Command)};
        false -> options(Command, Ours, Theirs)
    end.

%% What follows the first argument of a command with any number of them, or two dashes
%% where its arguments begin with them, belongs to it, also where it looks like an option.
theirs(["--" ++ _ | _], true, Words) ->
    {Ours, Dashed} = lists:splitwith(fun(Word) -> Word =/= "--" end, Words),
    {Ours, lists:nthtail(min(1, length(Dashed)), Dashed)};
theirs(_, true, Words) -> lists:split(min(1, length(Words)), Words);
theirs(_, false, Words) -> {Words, []}.

options(#{name := Name, options := Options, module := Module} = Command, Ours, Theirs) ->
    case getopt:parse([specification(Option) || Option <- Options], Ours) of
        {ok, {Given, Words}} ->
            All = [value(One) || One <- Given],
            Values = maps:merge(maps:from_list(All), many(All, Options)),
            case twice(All, Options) ++ wrong(Command, Values, Words, Theirs) of
                [] ->
                    {run, Module, maps:merge(defaults(Options),
                                             Values#{arguments => Words ++ Theirs})};
                [Line | _] ->
                    {error, [Line, help_hint(Name)]}
            end;
        {error, Reason} ->
            {error, [mistake(Reason, Options), help_hint(Name)]}
    end.

specification(#{name := Name, long := Long} = Option) ->
    {Name, maps:get(short, Option, undefined), Long,
     case Option of #{value := _} -> string; _ -> undefined end, ""}.

value({Name, Value}) -> {Name, Value};
value(Name) -> {Name, true}.

defaults(Options) ->
    maps:from_list([{Name, Default()} || #{name := Name, default := Default} <- Options]).

%% All values of those that may be given several times, in their order.
many(Given, Options) ->
    maps:from_list([{Name, Values}
                    || #{name := Name, many := true} <- Options,
                       Values <- [[Value || {N, Value} <- Given, N =:= Name]], Values =/= []]).

%% Of two values one would be passed over.
twice(Given, Options) ->
    [["--", Long, " is given twice: give it once"]
     || #{name := Name, long := Long, value := _} = Option <- Options,
        not is_map_key(many, Option),
        length([Name || {N, _} <- Given, N =:= Name]) > 1].

wrong(#{arguments := ["--" ++ _ = First | _], name := Name}, _, [Word | _], _) ->
    [["put -- before `", Word, "': `whittle ", Name, $\s, First, $']];
wrong(#{arguments := ["--" ++ _ | _]} = Command, Values, [], Theirs) ->
    wrong(Command, Values, lists:sublist(Theirs, 1));
wrong(Command, Values, Words, _) ->
    wrong(Command, Values, Words).

wrong(#{arguments := Arguments, options := Options, name := Name}, Values, Words) ->
    Missing = lists:nthtail(min(length(Words), length(Arguments)), Arguments),
    Extra = lists:nthtail(min(length(Words), length(Arguments)), Words),
    %% Values first: in `build --vm PATH' the option took the argument that is missing.
    [["--", Long, " cannot be `", Value, $', whittle_near:hint(Value, OneOf()),
      "; take one of ", lists:join(", ", OneOf())]
     || #{name := Key, long := Long, one_of := OneOf} <- Options,
        #{Key := Value} <- [Values], not lists:member(Value, OneOf())]
        ++ [["--", Long, " needs a value"] || #{name := Key, long := Long} <- Options,
                                              #{Key := Value} <- [Values],
                                              is_list(Value),
                                              Value =:= "" orelse lists:member("", Value)]
        ++ [["`whittle ", Name, "' needs ", First]
            || First <- lists:sublist(Missing, 1), not is_any_number(First)]
        ++ [["unexpected argument `", Word, $'] || Word <- lists:sublist(Extra, 1)]
        ++ [["`whittle ", Name, "' needs ", Argument, ", but the given word is empty"]
            || {Argument, ""} <- named(Arguments, Words)].

%% The arguments that have a name, with their words.
named([Argument | Arguments], [Word | Words]) -> [{Argument, Word} | named(Arguments, Words)];
named(_, _) -> [].

is_any_number(Argument) -> hd(Argument) =:= $[.

mistake({invalid_option, Option}, Options) ->
    [Given | _] = string:split(string:trim(Option, leading, "-"), "="),
    ["there is no option ", Option,
     case whittle_near:nearest(Given, ["help" | [Long || #{long := Long} <- Options]]) of
         {ok, Near} -> [" (did you mean --", Near, "?)"];
         none -> ""
     end];
mistake({missing_option_arg, Name}, Options) ->
    [Long] = [Long || #{name := N, long := Long} <- Options, N =:= Name],
    ["--", Long, " needs a value"];
mistake({invalid_option_arg, Word}, _) when is_list(Word) ->
    [hd(string:split(Word, "=")), " takes no value"];
mistake({Reason, What}, _) ->
    io_lib:format("~ts: ~tp", [string:replace(atom_to_list(Reason), "_", " ", all), What]).

help_hint(Name) -> ["; see `whittle help ", Name, "'"].

%% Help

overview() ->
    Rows = [{Name, Help} || #{name := Name, help := Help} <- table()]
        ++ [{"help", "this, or `whittle help COMMAND'"},
            {"version", "the version of whittle"}],
    ["whittle cuts an Erlang system to fit the machine it runs on.\n\n",
     "usage: whittle COMMAND ...\n\n",
     [io_lib:format("  ~-12ts~ts~n", [Name, Help]) || {Name, Help} <- Rows],
     "\nExit code: 0 done, 1 the work failed, 2 usage error.\n"].

usage(#{name := Name, arguments := Arguments, help := Help, options := Options}) ->
    ["usage: whittle ", Name, [[" [OPTION...]"] || _ <- lists:sublist(Options, 1)],
     [[$\s, Argument] || Argument <- Arguments], "\n\n", Help, "\n",
     ["\n" || _ <- lists:sublist(Options, 1)],
     [io_lib:format("  ~-22ts~ts~ts~n", [option_words(Option), OptionHelp, choices(Option)])
      || #{help := OptionHelp} = Option <- Options]].

option_words(#{long := Long} = Option) ->
    [[[$-, Short, $,, $\s] || #{short := Short} <- [Option]],
     "--", Long, [[$\s, Value] || #{value := Value} <- [Option]]].

choices(Option) ->
    Said = [lists:join(", ", OneOf()) || #{one_of := OneOf} <- [Option]]
        ++ [["default: ", Default()] || #{default := Default} <- [Option]],
    [[" (", lists:join("; ", Said), ")"] || Said =/= []].

version() ->
    _ = application:load(whittle),
    {ok, Vsn} = application:get_key(whittle, vsn),
    ["whittle ", Vsn, "\n"].
