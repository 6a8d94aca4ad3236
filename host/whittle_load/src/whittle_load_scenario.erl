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
          rows := [tuple()] | {function, module()},   % of the data file
          own := [whittle_load_own:code()],           % modules that the scenario names
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
               timeout, buffer, keep_alive, domain, mechanism, subprotocol, headers, client,
               options, modules]).
%% Users per second, and users at once.
-define(MOST_RATE, 10_000_000).
-define(MOST_USERS, 100_000_000).
%% A phase of no length would divide by zero.
-define(SHORTEST_PHASE, 1_000_000).
%% A number of so many digits takes half a second.
-define(LARGEST_FILE, 262_144).
%% Each agent gets all rows, and keeps them in memory.
-define(LARGEST_DATA, 10_000_000).
%% Seconds
-define(MQTT_KEEP_ALIVE, 60).

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
    Own = one(modules, fun(Node) -> list(Node, own(Dir, fun whittle_load_own:module/1)) end, [],
              Terms),
    {Protocol, Target, Path, Client} = protocol(Dir, Terms),
    Kind = one(arrivals, fun(Node) -> atom(Node, [poisson, constant]) end, poisson, Terms),
    {Columns, Rows, Data} = one(data, data(Dir), {[], [], []}, Terms),
    Settings = #{protocol => Protocol, timeout => Timeout, columns => Columns},
    Scenario = #{
      rows => Rows,
      own => distinct(Client ++ Data ++ Own, Terms),
      seed => one(seed, fun(Node) -> count(Node, {-(1 bsl 62), 1 bsl 62}) end, 1, Terms),
      target => Target#{options => options(Target, Path, Settings, Terms),
                        keep_alive => keep_alive(Protocol, Client, Terms),
                        says_bye => says(bye, Protocol, Client),
                        buffer => one(buffer, fun(Node) -> count(Node, {16, 1_000_000}) end,
                                      maps:get(buffer, Protocol), Terms)},
      agents => one(agents, fun(Node) -> count(Node, {1, 1000}) end, auto, Terms),
      phases => one(phases, fun(Node) -> lists:append(list(Node, phase(Kind, Dir))) end, [],
                    Terms),
      classes => one(users, fun(Node) -> list(Node, class(Settings)) end, [], Terms),
      thresholds => one(thresholds, fun(Node) -> list(Node, fun threshold_of/1) end, [], Terms),
      sources => one(sources, fun(Node) -> list(Node, fun address/1) end, [], Terms),
      hibernate => one(hibernate, fun whittle_load_read:time/1, 1_000_000_000, Terms)},
    ok = measurable(Protocol, Scenario, Terms),
    Scenario.

%% A threshold for a measure that this scenario does not have would always be missed, or always met.
measurable(Protocol, #{classes := Classes, thresholds := Thresholds}, Terms) ->
    Instructions = lists:append([tuple_to_list(Program) || #{program := Program} <- Classes]),
    [fail(Node, Problem)
     || #{thresholds := {Node, _}} <- [Terms],
        Threshold <- Thresholds, Problem <- [problem(Threshold, Protocol, Instructions, Classes)],
        Problem =/= none],
    ok.

problem(#{measure := Measure, step := Step}, #{name := Name}, Instructions, Classes) ->
    Known = ["connect", "delivery" | whittle_load_steps:names(Classes)],
    case Measure of
        held when Step =:= all ->
            case lists:member(held, Instructions) of
                true -> none;
                false when Name =:= http ->
                    "users of HTTP never count as held: set a threshold for `started' or `errors'";
                false ->
                    "no step of these users makes them count as held: correct the steps, or set a "
                        "threshold for `started' or `errors'"
            end;
        _ when Step =:= all -> none;
        _ when Measure =:= mean; element(1, Measure) =:= quantile ->
            case lists:member(Step, Known) of
                true when Step =:= "delivery" -> undelivered(Name, Instructions);
                true -> none;
                false ->
                    ["no step has the name `", Step, "'", whittle_suggestion:hint(Step, Known),
                     ": take one of ", lists:join(", ", Known)]
            end;
        _ ->
            Word = case Measure of error_share -> errors; _ -> Measure end,
            ["`", atom_to_list(Word), "' counts for all steps together: leave out `", Step, "'"]
    end.

%% Users of XMPP measure it for all messages, and those of a client of the user's own may.
undelivered(http, _) -> "users of HTTP measure no `delivery'";
undelivered(Name, Instructions) when Name =:= lines; Name =:= websocket; Name =:= mqtt ->
    case lists:any(fun is_timed/1, Instructions) of
        true -> none;
        false -> "no text of these users has `${sent}', so they measure no `delivery'"
    end;
undelivered(_, _) -> none.

is_timed({step, _, Step, _}) when is_tuple(Step) ->
    lists:any(fun(Value) -> is_list(Value) andalso lists:member(sent, Value) end,
              tuple_to_list(Step));
is_timed(_) -> false.

%% The options of the client
options(#{host := Host, port := Port} = Target, Path, #{protocol := #{name := Name}} = Settings,
        Terms) ->
    [fail(Node, ["`", atom_to_list(Key), "' has a meaning for ", Meaning, " only"])
     || {Key, Names, Meaning} <- [{domain, [xmpp], "xmpp"}, {mechanism, [xmpp], "xmpp"},
                                  {subprotocol, [websocket], "ws"}, {headers, [http], "http"},
                                  {options, [own], "a `client'"},
                                  {keep_alive, [xmpp, websocket, mqtt, own],
                                   "xmpp, ws, mqtt and a `client'"}],
        #{Key := {Node, _}} <- [Terms], not lists:member(Name, Names)],
    case Name of
        xmpp ->
            #{domain => one(domain, fun bytes/1, name(Host), Terms),
              mechanism => one(mechanism, fun(Node) -> atom(Node, [plain, scram]) end, plain,
                               Terms)};
        http ->
            Header = fun(Node) -> whittle_load_steps:header(Node, Settings) end,
            #{host => authority(Target),
              headers => one(headers, fun(Node) -> list(Node, Header) end, [], Terms)};
        websocket ->
            #{host => authority(Target), path => [Path],
              subprotocol => one(subprotocol, fun token/1, none, Terms)};
        mqtt -> #{keep_alive => one(keep_alive, fun seconds/1, ?MQTT_KEEP_ALIVE, Terms)};
        own -> maps:merge(#{host => name(Host), port => Port},
                          one(options, fun whittle_load_read:options/1, #{}, Terms));
        lines -> #{}
    end.

%% The nanoseconds between two signs of life
keep_alive(#{name := mqtt}, _, Terms) ->
    one(keep_alive, fun seconds/1, ?MQTT_KEEP_ALIVE, Terms) * 1_000_000_000;
keep_alive(Protocol, Client, Terms) ->
    [fail(Node, "the client has no function keep_alive/1")
     || #{keep_alive := {Node, _}} <- [Terms], not says(keep_alive, Protocol, Client)],
    one(keep_alive, fun whittle_load_read:positive/1, none, Terms).

%% Tells whether a client has an optional function.
says(Function, _, [#{exports := Exports}]) -> lists:member({Function, 1}, Exports);
says(Function, #{client := Module}, []) ->
    lists:member({Function, 1}, Module:module_info(exports)).

%% MQTT has a field of 16 bits for it.
seconds(Node) ->
    case time(Node) of
        Time when Time rem 1_000_000_000 =:= 0, Time > 0, Time =< 65_535_000_000_000 ->
            Time div 1_000_000_000;
        _ -> fail(Node, "write whole seconds from \"1 s\" to \"65535 s\" here")
    end.

bytes(Node) -> unicode:characters_to_binary(text(Node)).

token(Node) ->
    case re:run(text(Node), "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
                [unicode, dollar_endonly, {capture, none}]) of
        match -> list_to_binary(text(Node));
        nomatch -> fail(Node, "the name of a protocol has letters, digits and none of ( ) , / : "
                        "; < = > ? @ [ \\ ] { }")
    end.

name(Host) when is_binary(Host) -> Host;
name(Host) -> list_to_binary(inet:ntoa(Host)).

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

%% Internal functions: modules that the scenario names

own(Dir, Read) ->
    fun(Node) ->
            case Read(filename:absname(text(Node), Dir)) of
                {ok, Result} -> Result;
                {error, Message} -> fail(Node, Message)
            end
    end.

%% A client replaces the lines of tcp and tls.
protocol(Dir, Terms) ->
    {Protocol, Target, Path} = one(target, fun target/1, none, Terms),
    case {Terms, Protocol} of
        {#{client := _}, #{name := lines}} ->
            {#{client := Module} = Own, Code} =
                one(client, own(Dir, fun whittle_load_own:client/1), none, Terms),
            {Own, Target#{client := Module}, none, [Code]};
        {#{client := {Node, _}}, _} ->
            fail(Node, "a `client' needs a target that begins with tcp:// or tls://");
        _ -> {Protocol, Target, Path, []}
    end.

%% A file in CSV, or a module with a function
data(Dir) ->
    fun(Node) ->
            case lists:member(filename:extension(text(Node)), [".erl", ".beam"]) of
                true ->
                    {Columns, #{module := Module} = Code} =
                        (own(Dir, fun whittle_load_own:data/1))(Node),
                    {Columns, {function, Module}, [Code]};
                false ->
                    {Columns, Rows} = (contents(fun whittle_load_data:rows/1, Dir))(Node),
                    {Columns, Rows, []}
            end
    end.

%% The client may also be the data module.
distinct(Codes, Terms) ->
    Distinct = lists:usort(Codes),
    Modules = [Module || #{module := Module} <- Distinct],
    [fail(Node, ["two files contain the module `", atom_to_list(Module), "'"])
     || Module <- lists:usort(Modules -- lists:usort(Modules)),
        {Node, _} <- [hd([maps:get(Key, Terms) || Key <- [modules, data, client],
                                                  is_map_key(Key, Terms)])]],
    Distinct.

%% Internal functions: the target

%% `tcp://HOST:PORT'. Only WebSocket has a path.
target(Node) ->
    Text = text(Node),
    Problem = ["`", Text, "' is not the address of a server: write one such as "
               "\"tcp://127.0.0.1:7000\""],
    case uri_string:parse(Text) of
        #{scheme := Scheme, host := Host} = Parts when Host =/= "" ->
            {Protocol, Transport} = scheme(string:lowercase(Scheme), Node),
            Target = #{client => maps:get(client, Protocol), transport => Transport,
                       host => host(Host, Node), port => port(Scheme, Parts, Node, Problem)},
            {Protocol, Target, path(Protocol, Parts, Node, Problem)};
        _ -> fail(Node, Problem)
    end.

%% Nothing else may stand in an address: no user, no fragment.
path(#{name := Name}, #{path := Path} = Parts, Node, Problem) ->
    case maps:keys(maps:without([scheme, host, port, path], Parts)) of
        [] when Name =:= websocket -> rooted(Path);
        [query] when Name =:= websocket -> <<(rooted(Path))/binary, $?, (query(Parts))/binary>>;
        [] when Path =:= "" -> none;
        _ -> fail(Node, Problem)
    end.

rooted("") -> <<"/">>;
rooted(Path) -> list_to_binary(Path).

query(#{query := Query}) -> list_to_binary(Query).

port(_, #{port := Port}, _, _) when is_integer(Port), Port >= 1, Port =< 65535 -> Port;
port(Scheme, Parts, Node, Problem) ->
    case whittle_load_protocol:default_port(Scheme) of
        {ok, Port} when not is_map_key(port, Parts) -> Port;
        _ -> fail(Node, Problem)
    end.

scheme(Scheme, Node) ->
    case whittle_load_protocol:scheme(Scheme) of
        {ok, Found} -> Found;
        error ->
            Known = whittle_load_protocol:schemes(),
            fail(Node, ["there is no protocol `", Scheme, "'",
                        whittle_suggestion:hint(Scheme, Known), ": take one of ",
                        lists:join(", ", Known)])
    end.

%% A server that listens on all addresses of a machine shows one of these two.
host(Text, Node) ->
    case inet:parse_strict_address(Text) of
        {ok, Address} when Address =:= {0, 0, 0, 0}; Address =:= {0, 0, 0, 0, 0, 0, 0, 0} ->
            fail(Node, ["`", Text, "' stands for all addresses of a server: name one of them, such "
                        "as ", case Address of {_, _, _, _} -> "127.0.0.1"; _ -> "[::1]" end]);
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
                [unicode, {capture, all_but_first, list}]) of
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
    case re:run(Text, "^[0-9]{1,15}(\\.[0-9]{1,15})?$", [unicode, {capture, none}]) of
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
