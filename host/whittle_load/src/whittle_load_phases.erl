%% @doc Adds up the samples of each phase with a fixed number of users. This module is pure.
%%
%% A phase counts from its first whole second to its last one, so a sample that belongs to two
%% phases belongs to neither row.
%% @hidden
-module(whittle_load_phases).

-export([spans/1, is_spans/1, rows/2]).

-export_type([span/0, row/0]).

%% A closed phase: its users, and the seconds from `from' until before `to'.
-type span() :: #{users := pos_integer(), from := non_neg_integer(), to := pos_integer()}.

-type row() :: #{users := pos_integer(),
                 seconds := pos_integer(),
                 cycles := non_neg_integer(),
                 errors := #{Kind :: binary() => pos_integer()},
                 latency := none | whittle_counters_table:distribution()}.   % of all steps but
                                                                             % `connect'

-define(SECOND, 1_000_000_000).

%% @doc Lists the closed phases that have at least one whole second.
-spec spans([whittle_load_agent_arrivals:phase()]) -> [span()].
spans(Phases) -> spans(Phases, 0).

spans([{closed, Users, Duration} | Phases], Start) ->
    From = (Start + ?SECOND - 1) div ?SECOND,
    To = (Start + Duration) div ?SECOND,
    [#{users => Users, from => From, to => To} || Users > 0, From < To]
        ++ spans(Phases, Start + Duration);
spans([Phase | Phases], Start) ->
    spans(Phases, Start + whittle_load_agent:duration([Phase]));
spans([], _) -> [].

%% @doc Tells whether decoded JSON has the form of spans.
-spec is_spans(term()) -> boolean().
is_spans(Spans) when is_list(Spans) ->
    lists:all(fun(#{<<"users">> := Users, <<"from">> := From, <<"to">> := To}) ->
                      lists:all(fun whittle_load_second:is_count/1, [Users, From, To])
                          andalso Users > 0 andalso From < To;
                 (_) -> false
              end, Spans);
is_spans(_) -> false.

%% @doc Computes a row for each phase that the samples reach.
-spec rows([#{binary() => non_neg_integer()}], [whittle_load_second:second()]) -> [row()].
rows(Spans, Seconds) ->
    [row(Users, Within)
     || #{<<"users">> := Users, <<"from">> := From, <<"to">> := To} <- Spans,
        [_ | _] = Within <- [[Second || #{second := At} = Second <- Seconds, At >= From, At < To]]].

row(Users, Seconds) ->
    Latencies = lists:foldl(fun(#{latencies := Each}, Sum) ->
                                    whittle_load_second:distributions(Each, Sum)
                            end, #{}, Seconds),
    Errors = lists:foldl(fun whittle_load_second:sums/2, #{},
                         [whittle_load_second:errors_by_kind(Second) || Second <- Seconds]),
    #{users => Users, seconds => length(lists:usort([At || #{second := At} <- Seconds])),
      cycles => lists:sum([maps:get(cycles, Events, 0) || #{events := Events} <- Seconds]),
      errors => Errors, latency => whittle_load_result:overall(Latencies)}.
