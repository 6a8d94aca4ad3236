%% @doc Compares the reports of two runs, as tables for people and as data. This module is pure.
%% @hidden
-module(whittle_load_comparison).

-export([compare/2, tables/1, json/1]).

-export_type([comparison/0]).

-type comparison() ::
        #{runs := {file:filename(), file:filename()},       % the names of both directories
          users := [{Name :: string(), pair()}],
          latencies := [{Step :: binary(), Quantile :: string(), pair()}]}.

%% The values of the first and the second run. Latencies are nanoseconds.
-type pair() :: {number(), number()}.

%% @doc Compares users, errors and the latencies of the steps that both runs have.
-spec compare({file:filename(), whittle_load_table:report()},
              {file:filename(), whittle_load_table:report()}) -> comparison().
compare({One, #{result := First}}, {Other, #{result := Second}}) ->
    Both = [Step || Step <- whittle_load_result:steps(First),
                    lists:member(Step, whittle_load_result:steps(Second))],
    #{runs => {One, Other},
      users => [{Name, {Count(First), Count(Second)}} || {Name, Count} <- counts()],
      latencies => [{Step, Name, {quantile(Part, Step, First), quantile(Part, Step, Second)}}
                    || Step <- Both, {Name, Part} <- [{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99},
                                                      {"max", 1.0}]]}.

counts() ->
    [{atom_to_list(Event), fun(Result) -> whittle_load_result:event(Event, Result) end}
     || Event <- [started, connected, ended]]
        ++ [{"held", fun whittle_load_result:held/1},
            {"errors", fun(Result) ->
                               lists:sum([N || {_, N} <- whittle_load_result:errors(Result)])
                       end}].

quantile(Part, Step, Result) ->
    whittle_load_result:quantile(Part, whittle_load_result:latency(Step, Result)).

%% @doc Writes a comparison as tables for a terminal. The ratio is that of the second run to the
%% first.
-spec tables(comparison()) -> [[[unicode:chardata() | integer()]]].
tables(#{runs := {One, Other}, users := Users, latencies := Latencies}) ->
    Head = [One, Other, "ratio"],
    [[["users" | Head] | [[label(Name), A, B, text(ratio(Pair))] || {Name, {A, B} = Pair} <- Users]]
     | [[["latency" | Head]
         | [[[Step, $\s, Name], whittle_load_unit:format_time(A), whittle_load_unit:format_time(B),
             text(ratio(Pair))] || {Step, Name, {A, B} = Pair} <- Latencies]]
        || Latencies =/= []]].

label("held") -> "held at the end";
label(Name) -> Name.

text(none) -> "-";
text(Ratio) -> io_lib:format("~.2f", [Ratio]).

ratio({A, B}) when A > 0 -> B / A;
ratio(_) -> none.

%% @doc Writes a comparison as data.
-spec json(comparison()) -> whittle_json:json().
json(#{runs := {One, Other}, users := Users, latencies := Latencies}) ->
    #{first => unicode:characters_to_binary(One), second => unicode:characters_to_binary(Other),
      users => [#{name => list_to_binary(Name), first => A, second => B, ratio => null(ratio(Pair))}
                || {Name, {A, B} = Pair} <- Users],
      latencies => [#{step => Step, quantile => list_to_binary(Name), first_ns => A, second_ns => B,
                      ratio => null(ratio(Pair))}
                    || {Step, Name, {A, B} = Pair} <- Latencies]}.

null(none) -> null;
null(Ratio) -> Ratio.
