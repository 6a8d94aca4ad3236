%% Tests the descriptions of charts.
-module(whittle_load_chart_SUITE).

-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").

-export([all/0]).
-export([axis_of_times/1, axis_without_values/1]).

all() -> [axis_of_times, axis_without_values].

%% All values lie on the axis, and it has two labels at least. Between 22 and 48 ms, for example,
%% is no label of its own.
axis_of_times(_) ->
    ?assert(proper:quickcheck(
              ?FORALL({Low, Factor}, {integer(2, 60_000_000_000),
                                      oneof([float(1.0, 3.0), float(1.0, 1.0e6)])},
                      begin
                          {From, To, Labels, Values} = axis([Low, round(Low * Factor)]),
                          lists:all(fun(Y) -> From =< Y andalso Y =< To end, Values) andalso
                              length([L || L <- Labels, L >= From, L =< To]) >= 2
                      end), [{numtests, 500}, {to_file, user}])).

axis_without_values(_) -> ?assertMatch({From, To, _, []} when From < To, axis([])).

axis(Times) ->
    Rows = [#{second => 1, seconds => 1, latency => one(Time)} || Time <- Times],
    #{data := #{values := Values},
      encoding := #{y := #{scale := #{domain := [From, To]}, axis := #{values := Labels}}}} =
        whittle_load_chart:latencies(Rows),
    {From, To, Labels, [Y || #{y := Y} <- Values]}.

one(Time) ->
    #{count => 1, sum => Time, zeros => 0, buckets => [{whittle_counters_scale:index(5, Time), 1}]}.
