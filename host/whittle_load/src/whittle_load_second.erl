%% @doc Adds up the samples that all agents sent about one second, and writes them as JSON.
%%
%% Each event of a run is in exactly one second, so the sum of all seconds is the whole run. This
%% module is pure.
%% @hidden
-module(whittle_load_second).

-export([new/0, is_empty/1, is_sample/1, is_count/1, add/3, lost/2, server/2, without_delivery/1]).
-export([sums/2, errors_by_kind/1, distributions/2, distribution/2]).
-export([to_json/1, from_json/1]).

-export_type([second/0, vm/0, server/0]).

-type second() ::
        #{second := non_neg_integer(),
          events := #{whittle_load_agent_tally:event() => non_neg_integer()},
          errors := #{{Step :: binary(), Kind :: binary()} => pos_integer()},
          latencies := #{Step :: binary() => whittle_counters_table:distribution()},
          unanswered := none | whittle_counters_table:distribution(),
          late := none | whittle_counters_table:distribution(),
          arrivals := #{Second :: non_neg_integer() => {Planned :: non_neg_integer(),
                                                        Actual :: non_neg_integer()}},
          agents := #{Agent :: pos_integer() => vm()},
          lost := [pos_integer()],                     % agents that ended too soon
          server := none | server()}.

-type vm() :: #{cpu := non_neg_integer(),              % milliseconds since the start of the VM
                memory := non_neg_integer(),           % bytes that the VM has allocated
                rss := non_neg_integer(),              % bytes
                queue := non_neg_integer(),            % processes that wait for a scheduler
                held := integer()}.                    % users that it gained or lost in this second

%% Sums over the processes that listen on the port of the target.
-type server() :: #{processes := non_neg_integer(), cpu := non_neg_integer(),  % milliseconds
                    rss := non_neg_integer()}.                                  % bytes

-define(EVENTS, [started, connected, held, released, ended, cycles, sent, received]).

-define(LONGEST_KIND, 80).

%% A number of nanoseconds, bytes or events. Sums of larger numbers might not fit into a float.
-define(IS_COUNT(N), (is_integer(N) andalso N >= 0 andalso N < 1 bsl 63)).
%% The sum of what a thousand agents send is still such a number.
-define(IS_SENT(N), (is_integer(N) andalso N >= 0 andalso N < 1 bsl 53)).
-define(IS_BUCKET(I, N), (is_integer(I) andalso I >= 0 andalso I =< 59 * 32
                          andalso ?IS_COUNT(N) andalso N > 0)).

%% @doc Makes a second without samples.
-spec new() -> second().
new() ->
    #{second => 0, events => #{}, errors => #{}, latencies => #{}, unanswered => none, late => none,
      arrivals => #{}, agents => #{}, lost => [], server => none}.

%% @doc Tells whether a second has neither samples nor lost agents.
-spec is_empty(second()) -> boolean().
is_empty(#{agents := Agents, lost := Lost}) -> map_size(Agents) =:= 0 andalso Lost =:= [].

%% @doc Tells whether a term is a sample. An agent on another machine may send anything.
-spec is_sample(term()) -> boolean().
is_sample(#{second := Second, counts := #{events := Events, errors := Errors,
                                          latencies := Latencies, unanswered := Unanswered,
                                          late := Late},
            arrivals := Arrivals, vm := #{cpu := _, memory := _, rss := _, queue := _} = Vm})
  when ?IS_SENT(Second), is_map(Events), is_map(Errors), is_map(Latencies), is_map(Arrivals) ->
    map_size(Vm) =:= 4
        andalso lists:all(fun is_sent/1, maps:values(Vm) ++ maps:values(Events)
                          ++ maps:values(Errors))
        andalso maps:keys(Events) -- ?EVENTS =:= []
        andalso lists:all(fun({Step, Kind}) -> is_text(Step) andalso is_binary(Kind);
                             (_) -> false
                          end, maps:keys(Errors))
        andalso lists:all(fun is_text/1, maps:keys(Latencies))
        andalso lists:all(fun is_distribution/1, maps:values(Latencies))
        andalso is_distribution(Unanswered)
        andalso (Late =:= none orelse is_distribution(Late))
        andalso lists:all(fun({At, {Planned, Actual}}) ->
                                  lists:all(fun is_sent/1, [At, Planned, Actual]);
                             (_) -> false
                          end, maps:to_list(Arrivals));
is_sample(_) -> false.

is_sent(N) -> ?IS_SENT(N).

is_text(Text) -> is_binary(Text) andalso is_list(unicode:characters_to_list(Text)).

is_distribution(#{count := Count, sum := Sum, zeros := Zeros, buckets := Buckets} = Map)
  when map_size(Map) =:= 4, ?IS_SENT(Count), ?IS_SENT(Sum), ?IS_SENT(Zeros) ->
    is_ascending(Buckets, -1);
is_distribution(_) -> false.

is_ascending([{I, N} | Buckets], Before) when ?IS_BUCKET(I, N), ?IS_SENT(N), I > Before ->
    is_ascending(Buckets, I);
is_ascending(Buckets, _) -> Buckets =:= [].

%% @doc Tells whether a stored value is a number of nanoseconds, bytes or events.
-spec is_count(term()) -> boolean().
is_count(N) -> ?IS_COUNT(N).

%% @doc Adds the sample of an agent.
-spec add(pos_integer(), whittle_load_agent:sample(), second()) -> second().
add(Agent, #{second := At, counts := Counts, arrivals := Arrivals, vm := Vm},
    #{second := Before, agents := Agents} = Second) ->
    #{events := Events, errors := Errors, latencies := Latencies, unanswered := Unanswered,
      late := Late} = Counts,
    Held = maps:get(held, Events, 0) - maps:get(released, Events, 0)
        + case Agents of #{Agent := #{held := Earlier}} -> Earlier; _ -> 0 end,
    Second#{second := max(At, Before),
            events := sums(Events, maps:get(events, Second)),
            errors := sums(printable(Errors), maps:get(errors, Second)),
            latencies := distributions(Latencies, maps:get(latencies, Second)),
            unanswered := distribution(Unanswered, maps:get(unanswered, Second)),
            late := distribution(Late, maps:get(late, Second)),
            arrivals := maps:merge_with(fun(_, {A, B}, {C, D}) -> {A + C, B + D} end, Arrivals,
                                        maps:get(arrivals, Second)),
            agents := Agents#{Agent => Vm#{held => Held}}}.

%% A server may have chosen the bytes of a kind, and they reach terminals.
printable(Errors) ->
    maps:fold(fun({Step, Kind}, N, Before) -> sums(#{{Step, text(Kind)} => N}, Before) end, #{},
              Errors).

text(Kind) ->
    Chars = case unicode:characters_to_list(Kind) of
                List when is_list(List) -> List;
                _ -> binary_to_list(Kind)
            end,
    unicode:characters_to_binary([case Char < 32 orelse (Char >= 127 andalso Char < 160) of
                                      true -> $?;
                                      false -> Char
                                  end || Char <- lists:sublist(Chars, ?LONGEST_KIND)]).

%% @doc Adds an agent that has ended too soon.
-spec lost(pos_integer(), second()) -> second().
lost(Agent, #{lost := Lost} = Second) -> Second#{lost := [Agent | Lost]}.

%% @doc Sets the CPU time and the memory of the server.
-spec server(none | server(), second()) -> second().
server(Server, Second) -> Second#{server := Server}.

%% @doc Removes the times of deliveries, which compare the clocks of two agents.
-spec without_delivery(second()) -> second().
without_delivery(#{latencies := Latencies} = Second) ->
    Second#{latencies := maps:remove(<<"delivery">>, Latencies)}.

%% @doc Adds the numbers of two maps.
-spec sums(#{Key => number()}, #{Key => number()}) -> #{Key => number()}.
sums(A, B) -> maps:merge_with(fun(_, X, Y) -> X + Y end, A, B).

%% @doc Counts the errors of a second by their kind, for all steps together.
-spec errors_by_kind(second()) -> #{Kind :: binary() => pos_integer()}.
errors_by_kind(#{errors := Errors}) ->
    maps:fold(fun({_, Kind}, N, Before) -> sums(#{Kind => N}, Before) end, #{}, Errors).

%% @doc Adds the distributions of two maps.
-spec distributions(Of, Of) -> Of when Of :: #{binary() => whittle_counters_table:distribution()}.
distributions(A, B) -> maps:merge_with(fun(_, X, Y) -> distribution(X, Y) end, A, B).

%% @doc Adds two distributions bucket by bucket.
-spec distribution(Of, Of) -> Of when Of :: none | whittle_counters_table:distribution().
distribution(none, B) -> B;
distribution(A, none) -> A;
distribution(#{count := C1, sum := S1, zeros := Z1, buckets := B1},
             #{count := C2, sum := S2, zeros := Z2, buckets := B2}) ->
    #{count => C1 + C2, sum => S1 + S2, zeros => Z1 + Z2, buckets => buckets(B1, B2)}.

buckets([{I, N} | A], [{I, M} | B]) -> [{I, N + M} | buckets(A, B)];
buckets([{I, _} = First | A], [{J, _} | _] = B) when I < J -> [First | buckets(A, B)];
buckets([_ | _] = A, [First | B]) -> [First | buckets(A, B)];
buckets([], B) -> B;
buckets(A, []) -> A.

%% @doc Writes a second as JSON.
-spec to_json(second()) -> whittle_json:json().
to_json(#{errors := Errors, latencies := Latencies, unanswered := Unanswered, late := Late,
          arrivals := Arrivals, agents := Agents, server := Server} = Second) ->
    Second#{errors := [#{step => Step, kind => Kind, count => N}
                       || {{Step, Kind}, N} <- lists:sort(maps:to_list(Errors))],
            latencies := maps:map(fun(_, Each) -> written(Each) end, Latencies),
            unanswered := written(Unanswered),
            late := written(Late),
            arrivals := [#{second => At, planned => Planned, actual => Actual}
                         || {At, {Planned, Actual}} <- lists:sort(maps:to_list(Arrivals))],
            agents := [Vm#{agent => N} || {N, Vm} <- lists:sort(maps:to_list(Agents))],
            server := case Server of none -> null; _ -> Server end}.

written(none) -> null;
written(#{buckets := Buckets} = Distribution) ->
    Distribution#{buckets := [[I, N] || {I, N} <- Buckets]}.

%% @doc Reads a second from decoded JSON. Other keys than those of {@link to_json/1} mean nothing.
-spec from_json(term()) -> {ok, second()} | error.
from_json(Json) ->
    try {ok, second(Json)}
    catch throw:wrong -> error
    end.

%% Internal functions: JSON

second(Json) ->
    Events = map(value(events, Json)),
    #{second => count(second, Json),
      events => maps:from_list([{Event, count(Event, Events)}
                                || Event <- ?EVENTS, is_map_key(atom_to_binary(Event), Events)]),
      errors => maps:from_list([{{name(step, Each), name(kind, Each)}, count(count, Each)}
                                || Each <- list(errors, Json)]),
      latencies => maps:map(fun(_, Each) -> read(Each) end, map(value(latencies, Json))),
      %% Runs of Whittle 0.1 have no such key.
      unanswered => optional(maps:get(<<"unanswered">>, Json, null)),
      late => optional(value(late, Json)),
      arrivals => maps:from_list([{count(second, Each), {count(planned, Each), count(actual, Each)}}
                                  || Each <- list(arrivals, Json)]),
      agents => maps:from_list([{count(agent, Each), vm(Each)} || Each <- list(agents, Json)]),
      lost => [whole(N) || N <- list(lost, Json)],
      server => case value(server, Json) of
                    null -> none;
                    Server -> maps:from_list([{Key, count(Key, Server)}
                                              || Key <- [processes, cpu, rss]])
                end}.

vm(Json) ->
    Vm = maps:from_list([{Key, count(Key, Json)} || Key <- [cpu, memory, rss, queue]]),
    case value(held, Json) of
        Held when ?IS_COUNT(abs(Held)) -> Vm#{held => Held};
        _ -> throw(wrong)
    end.

optional(null) -> none;
optional(Json) -> read(Json).

read(Json) ->
    #{count => count(count, Json), sum => count(sum, Json), zeros => count(zeros, Json),
      buckets => ascending([bucket(Each) || Each <- list(buckets, Json)])}.

bucket([I, N]) when ?IS_BUCKET(I, N) -> {I, N};
bucket(_) -> throw(wrong).

ascending([{I, _} = First | [{J, _} | _] = Rest]) when I < J -> [First | ascending(Rest)];
ascending([_, _ | _]) -> throw(wrong);
ascending(Buckets) -> Buckets.

value(Key, Json) ->
    Name = atom_to_binary(Key),
    case Json of
        #{Name := Value} -> Value;
        _ -> throw(wrong)
    end.

map(Map) when is_map(Map) -> Map;
map(_) -> throw(wrong).

list(Key, Json) ->
    case value(Key, Json) of
        List when is_list(List) -> List;
        _ -> throw(wrong)
    end.

name(Key, Json) ->
    case value(Key, Json) of
        Text when is_binary(Text) -> Text;
        _ -> throw(wrong)
    end.

count(Key, Json) -> whole(value(Key, Json)).

whole(N) when ?IS_COUNT(N) -> N;
whole(_) -> throw(wrong).
