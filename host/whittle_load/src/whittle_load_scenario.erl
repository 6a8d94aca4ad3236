%% @doc Reads the file of a scenario.
%%
%% The file consists of terms `{Key, Values}'; docs/load.md describes them. Nothing of it is
%% executed. All errors of the file are found before a run, with line and column.
%% @hidden
-module(whittle_load_scenario).

-export([read/1, parse/1, parse/2, threshold/1, format_error/1]).

-export_type([scenario/0, threshold/0, measure/0, error/0]).

-import(whittle_load_read, [fail/2, tagged/2, text/1, time/1, count/2, number/2, atom/2, list/2]).

%% Times are nanoseconds.
-type scenario() ::
        #{seed := integer(),
          rows := [tuple()],                          % of the data file
          target := whittle_load_agent:target(),
          agents := pos_integer() | auto,
          phases := [whittle_load_agent_arrivals:phase()],
          classes := [whittle_load_agent:class()],
          thresholds := [threshold()],
          sources := [inet:ip_address()],
          hibernate := non_neg_integer()}.

%% The share of errors is a part of the started users, from 0 to 1.
-type threshold() ::
        #{text := string(),
          measure := measure(),
          step := string() | all,
          relation := '<' | '=<' | '>' | '>=',
          limit := number()}.

-type measure() :: {quantile, float()} | mean | errors | error_share | held | started.

-type error() :: {unreadable, {file:filename(), file:posix() | badarg}}
               | {scenario, {file:filename() | none, whittle_load_text:place(), string()}}.

-define(KEYS, [seed, data, target, agents, arrivals, phases, users, thresholds, sources, hibernate,
               timeout, buffer, domain, mechanism]).
%% Users per second, and users at once.
-define(MOST_RATE, 10_000_000).
-define(MOST_USERS, 100_000_000).
%% A phase of no length would divide by zero.
-define(SHORTEST_PHASE, 1_000_000).
%% A number of so many digits takes half a second.
-define(LARGEST_FILE, 262_144).
%% Each agent gets all rows, and keeps them in memory.
-define(LARGEST_DATA, 10_000_000).

%% @doc Reads a scenario.
-spec read(file:filename()) -> {ok, scenario()} | {error, error()}.
read(File) ->
    case whittle_file:text(File) of
        {ok, Bytes} ->
            case parse(Bytes, filename:dirname(File)) of
                {error, {scenario, {none, Place, Message}}} ->
                    {error, {scenario, {File, Place, Message}}};
                Result -> Result
            end;
        {error, Reason} -> {error, {unreadable, {File, Reason}}}
    end.

%% @doc Reads the text of a scenario. The names of other files in it are relative to the current
%% directory.
-spec parse(binary()) -> {ok, scenario()} | {error, error()}.
parse(Bytes) -> parse(Bytes, ".").

%% @doc Reads the text of a scenario. The names of other files in it are relative to a directory.
-spec parse(binary(), file:filename()) -> {ok, scenario()} | {error, error()}.
parse(Bytes, Dir) ->
    Result = case small(Bytes) of
                 {ok, Nodes} -> whittle_load_read:all(fun() -> scenario(Nodes, Dir) end);
                 {error, _} = Error -> Error
             end,
    case Result of
        {ok, _} = Ok -> Ok;
        {error, {Place, Message}} ->
            {error, {scenario, {none, Place, unicode:characters_to_list(Message)}}}
    end.

small(Bytes) when byte_size(Bytes) > ?LARGEST_FILE ->
    {error, {{1, 1}, io_lib:format("the file has ~b bytes; a scenario has at most ~b",
                                   [byte_size(Bytes), ?LARGEST_FILE])}};
%% Some editors write a byte order mark.
small(<<16#EF, 16#BB, 16#BF, Bytes/binary>>) -> small(Bytes);
small(Bytes) ->
    case unicode:characters_to_binary(Bytes) of
        Bytes -> whittle_load_text:parse(Bytes);
        _ -> {error, {{1, 1}, "the file is not UTF-8: save it in this encoding"}}
    end.

scenario(Nodes, Dir) ->
    Terms = lists:foldl(fun(Node, Terms) ->
                                {Key, Values} = tagged(Node, ?KEYS),
                                case Terms of
                                    #{Key := _} -> fail(Node, ["`", atom_to_list(Key), "' stands "
                                                               "here a second time"]);
                                    _ -> Terms#{Key => {Node, Values}}
                                end
                        end, #{}, Nodes),
    End = {end_of(Nodes), {atom, 'end'}},
    [fail(End, ["`", atom_to_list(Key), "' is missing: write {", atom_to_list(Key), ", ...}."])
     || Key <- [target, phases, users], not is_map_key(Key, Terms)],
    Timeout = one(timeout, fun whittle_load_read:positive/1, 10_000_000_000, Terms),
    {Protocol, Target} = one(target, fun target/1, none, Terms),
    Kind = one(arrivals, fun(Node) -> atom(Node, [poisson, constant]) end, poisson, Terms),
    {Columns, Rows} = one(data, contents(fun whittle_load_data:rows/1, Dir), {[], []}, Terms),
    Settings = #{protocol => Protocol, timeout => Timeout, columns => Columns},
    Scenario = #{
      rows => Rows,
      seed => one(seed, fun(Node) -> count(Node, {-(1 bsl 62), 1 bsl 62}) end, 1, Terms),
      target => Target#{options => options(Protocol, Target, Terms),
                        buffer => one(buffer, fun(Node) -> count(Node, {16, 1_000_000}) end, 64,
                                      Terms)},
      agents => one(agents, fun(Node) -> count(Node, {1, 1000}) end, auto, Terms),
      phases => one(phases, fun(Node) -> lists:append(list(Node, phase(Kind, Dir))) end, [],
                    Terms),
      classes => one(users, fun(Node) -> list(Node, class(Settings)) end, [], Terms),
      thresholds => one(thresholds, fun(Node) -> list(Node, fun threshold_of/1) end, [], Terms),
      sources => one(sources, fun(Node) -> list(Node, fun address/1) end, [], Terms),
      hibernate => one(hibernate, fun whittle_load_read:time/1, 1_000_000_000, Terms)},
    ok = known_steps(Scenario, Terms),
    Scenario.

%% A threshold for a step that no user has could never be met.
known_steps(#{classes := Classes, thresholds := Thresholds}, Terms) ->
    Known = ["delivery", "connect" | whittle_load_steps:names(Classes)],
    [fail(Node, ["no step has the name `", Step, "'", whittle_suggestion:hint(Step, Known)])
     || #{step := Step} <- Thresholds, Step =/= all, not lists:member(Step, Known),
        #{thresholds := {Node, _}} <- [Terms]],
    ok.

options(xmpp, #{host := Host}, Terms) ->
    Default = if is_binary(Host) -> Host; true -> list_to_binary(inet:ntoa(Host)) end,
    Read = fun(Node) -> unicode:characters_to_binary(text(Node)) end,
    #{domain => one(domain, Read, Default, Terms),
      mechanism => one(mechanism, fun(Node) -> atom(Node, [plain, scram]) end, plain, Terms)};
options(Protocol, Target, Terms) ->
    [fail(Node, ["`", atom_to_list(Key), "' has a meaning for xmpp only"])
     || Key <- [domain, mechanism], #{Key := {Node, _}} <- [Terms]],
    case Protocol of
        http -> #{host => authority(Target)};
        lines -> #{}
    end.

%% The value of the field Host (RFC 9110, section 7.2)
authority(#{host := Host, port := Port}) ->
    Name = case Host of
               _ when is_binary(Host) -> Host;
               _ when tuple_size(Host) =:= 8 -> [$[, inet:ntoa(Host), $]];
               _ -> inet:ntoa(Host)
           end,
    iolist_to_binary([Name, $:, integer_to_list(Port)]).

end_of([]) -> {1, 1};
end_of(Nodes) ->
    {Place, _} = lists:last(Nodes),
    Place.

one(Key, Read, Default, Terms) ->
    case Terms of
        #{Key := {_, [Value]}} -> Read(Value);
        #{Key := {Node, _}} -> fail(Node, ["`", atom_to_list(Key), "' takes one value"]);
        _ -> Default
    end.

%% @doc Reads the text of a threshold.
-spec threshold(binary()) -> {ok, threshold()} | error.
threshold(Text) when is_binary(Text) ->
    Node = {{1, 1}, {string, unicode:characters_to_list(Text)}},
    case whittle_load_read:all(fun() -> threshold_of(Node) end) of
        {ok, _} = Ok -> Ok;
        {error, _} -> error
    end.

%% Internal functions: the target

%% `tcp://HOST:PORT'
target(Node) ->
    Text = text(Node),
    case uri_string:parse(Text) of
        #{scheme := Scheme, host := Host, port := Port, path := ""} = Parts
          when Host =/= "", is_integer(Port), Port >= 1, Port =< 65535, map_size(Parts) =:= 4 ->
            {Protocol, Module, Transport} = scheme(Scheme, Node),
            {Protocol, #{client => Module, transport => Transport, host => host(Host),
                         port => Port}};
        _ -> fail(Node, ["`", Text, "' is not the address of a server: write one such as "
                         "\"tcp://127.0.0.1:7000\""])
    end.

scheme("tcp", _) -> {lines, whittle_load_agent_lines, tcp};
scheme("tls", _) -> {lines, whittle_load_agent_lines, tls};
scheme("xmpp", _) -> {xmpp, whittle_load_agent_xmpp, tcp};
scheme("xmpps", _) -> {xmpp, whittle_load_agent_xmpp, tls};
scheme("http", _) -> {http, whittle_load_agent_http, tcp};
scheme("https", _) -> {http, whittle_load_agent_http, tls};
scheme(Other, Node) ->
    fail(Node, ["there is no protocol `", Other,
                "': take one of tcp, tls, xmpp, xmpps, http, https"]).

host(Text) ->
    case inet:parse_strict_address(Text) of
        {ok, Address} -> Address;
        {error, _} -> unicode:characters_to_binary(Text)
    end.

address(Node) ->
    case inet:parse_strict_address(text(Node)) of
        {ok, Address} -> Address;
        {error, _} -> fail(Node, "write an IP address in quotes here, such as \"127.0.0.2\"")
    end.

%% Internal functions: phases and users

phase(Kind, Dir) ->
    fun(Node) ->
            case tagged(Node, [ramp, hold, burst, soak, closed, doubling, trace]) of
                {ramp, [From, To, Time]} -> [{rate, Kind, rate(From), rate(To), length_(Time)}];
                {hold, [Rate, Time]} -> [{rate, Kind, rate(Rate), rate(Rate), length_(Time)}];
                {burst, [Users]} -> [{burst, count(Users, {1, ?MOST_USERS})}];
                {soak, [Time]} -> [{pause, length_(Time)}];
                {closed, [Users, Time]} ->
                    [{closed, count(Users, {1, ?MOST_USERS}), length_(Time)}];
                {doubling, [From, To, Time]} ->
                    Least = count(From, {1, ?MOST_USERS}),
                    [{closed, Users, length_(Time)}
                     || Users <- doubled(Least, count(To, {Least, ?MOST_USERS}))];
                {trace, [File]} ->
                    Starts = (contents(fun whittle_load_data:starts/1, Dir))(File),
                    [{trace, Starts, max(?SHORTEST_PHASE, lists:last(Starts))}];
                {Name, _} ->
                    fail(Node, ["`", atom_to_list(Name), "' has the form ", form(Name)])
            end
    end.

form(ramp) -> "{ramp, FromUsersPerSecond, ToUsersPerSecond, Time}";
form(hold) -> "{hold, UsersPerSecond, Time}";
form(burst) -> "{burst, Users}";
form(soak) -> "{soak, Time}";
form(closed) -> "{closed, Users, Time}";
form(doubling) -> "{doubling, FromUsers, ToUsers, Time}";
form(trace) -> "{trace, File}".

%% Reads a file that a scenario names, with a function for its bytes.
contents(Read, Dir) ->
    fun(Node) ->
            File = filename:absname(text(Node), Dir),
            case whittle_file:whole(File, ?LARGEST_DATA) of
                {ok, Bytes} ->
                    case Read(Bytes) of
                        {ok, Contents} -> Contents;
                        {error, Message} -> fail(Node, [File, ": ", Message])
                    end;
                {error, Reason} -> fail(Node, [File, $\s, whittle_file:format_error(Reason)])
            end
    end.

rate(Node) -> number(Node, {0, ?MOST_RATE}).

length_(Node) ->
    case time(Node) of
        Time when Time >= ?SHORTEST_PHASE -> Time;
        _ -> fail(Node, "a phase lasts at least 1 ms")
    end.

doubled(From, To) when From >= To -> [To];
doubled(From, To) -> [From | doubled(2 * From, To)].

class(Settings) ->
    fun({_, {tuple, [{_, {atom, Name}}, Weight, Steps]}}) ->
            #{name => atom_to_binary(Name), weight => count(Weight, {1, 1_000_000_000}),
              program => whittle_load_steps:program(Steps, Settings)};
       (Node) -> fail(Node, "write {Name, Weight, [Step, ...]} here")
    end.

%% Internal functions: thresholds

threshold_of(Node) ->
    Text = text(Node),
    case re:run(Text, "^ *([a-z]+)([0-9.]*)(?: +([^ <>=]+))? *(=<|<=|>=|<|>) *(.*?) *$",
                [{capture, all_but_first, list}]) of
        {match, [Word, Digits, Step, Relation, Limit]} ->
            {Measure, Amount} = measure(Word, Digits, Limit, Node),
            #{text => Text, measure => Measure, relation => relation(Relation), limit => Amount,
              step => case Step of "" -> all; _ -> Step end};
        nomatch ->
            fail(Node, ["`", Text, "' is not a threshold: write one such as \"p99 < 50 ms\", "
                        "\"errors < 0.1 %\" or \"held >= 20000\""])
    end.

relation("<=") -> '=<';
relation(Text) -> list_to_existing_atom(Text).

measure("p", Digits, Limit, Node) ->
    case real(Digits) of
        {ok, Percent} when Percent > 0, Percent =< 100 ->
            {{quantile, Percent / 100}, limit_time(Limit, Node)};
        _ -> fail(Node, "a percentile is a number above 0 and up to 100, such as p99.9")
    end;
measure("mean", "", Limit, Node) -> {mean, limit_time(Limit, Node)};
measure("errors", "", Limit, Node) ->
    case string:split(Limit, "%") of
        [Percent, Rest] ->
            case {string:trim(Rest), real(string:trim(Percent))} of
                {"", {ok, Number}} -> {error_share, Number / 100};
                _ -> fail(Node, "write a share such as 0.1 % behind `errors'")
            end;
        [_] -> {errors, limit_number(Limit, Node)}
    end;
measure("held", "", Limit, Node) -> {held, limit_number(Limit, Node)};
measure("started", "", Limit, Node) -> {started, limit_number(Limit, Node)};
measure(Word, _, _, Node) ->
    fail(Node, ["there is no measure `", Word, "': take p50 (or another percentile), mean, errors, "
                "held or started"]).

limit_time(Text, Node) ->
    case whittle_load_unit:time(Text) of
        {ok, Time} -> Time;
        error -> fail(Node, ["`", Text, "' is not a time such as 50 ms"])
    end.

limit_number(Text, Node) ->
    case real(Text) of
        {ok, Number} -> Number;
        error -> fail(Node, ["`", Text, "' is not a number"])
    end.

real(Text) ->
    case re:run(Text, "^[0-9]{1,15}(\\.[0-9]{1,15})?$", [{capture, none}]) of
        match ->
            case lists:member($., Text) of
                true -> {ok, list_to_float(Text)};
                false -> {ok, list_to_integer(Text)}
            end;
        nomatch -> error
    end.

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({unreadable, {File, Reason}}) ->
    [File, $\s, whittle_file:format_error(Reason), ": name the file of a scenario"];
format_error({scenario, {File, {Line, Column}, Message}}) ->
    [case File of none -> ""; _ -> [File, $:] end,
     io_lib:format("~b:~b: ~ts", [Line, Column, Message])].
