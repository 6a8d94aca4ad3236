%% @doc Writes all metrics in prometheus.erl's text format.
-module(prometheus_text_format).

-export([content_type/0, format/0]).

-spec content_type() -> binary().
content_type() -> whittle_counters_text:content_type(prometheus).

-spec format() -> binary().
format() -> whittle_counters_text:render(prometheus).
