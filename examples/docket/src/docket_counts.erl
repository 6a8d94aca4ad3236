%% @doc Counts the work of the server, for Prometheus.
%% @hidden
-module(docket_counts).

-export([define/1, answered/3, refused/1, overloaded/0]).

%% @doc Defines the metrics, and those of the VM. The function tells whether this node is ready.
-spec define(fun(() -> boolean())) -> ok.
define(Ready) ->
    [ok = whittle_counters:new(Name, Type, Options) || {Name, Type, Options} <- metrics(Ready)],
    ok = whittle_counters_vm:install().

metrics(Ready) ->
    [{docket_requests_total, counter,
      #{help => "Answered requests", labels => [method, status]}},
     {docket_request_seconds, timer, #{help => "Time from a whole request to its answer"}},
     {docket_refused_total, counter,
      #{help => "Requests that a gate refused, because too many ran or waited", labels => [gate]}},
     {docket_mnesia_overloads_total, counter,
      #{help => "Reports of Mnesia on this node that it is overloaded"}},
     {docket_gate_requests, gauge,
      #{help => "Requests at a gate", labels => [gate, place],
        read => fun() ->
                        lists:append([places(Gate)
                                      || Gate <- [docket_store_gate, docket_picture_gate]])
                end}},
     {docket_ready, gauge,
      #{help => "1 if this node serves requests",
        read => fun() -> case Ready() of true -> 1; false -> 0 end end}}].

places(Gate) ->
    {Running, Waiting} = docket_gate:counts(Gate),
    [{[gate(Gate), running], Running}, {[gate(Gate), waiting], Waiting}].

gate(docket_store_gate) -> store;
gate(docket_picture_gate) -> picture.

%% @doc Counts an answered request that came at this monotonic time.
-spec answered(string(), 200..599, integer()) -> ok.
answered(Method, Status, Start) ->
    _ = whittle_counters:inc(docket_requests_total, [method(Method), Status]),
    _ = whittle_counters:observe_since(docket_request_seconds, Start),
    ok.

%% A client could make series without bound out of methods of its own.
method(Method) ->
    case lists:member(Method, ["GET", "HEAD", "POST", "PATCH", "DELETE"]) of
        true -> Method;
        false -> other
    end.

%% @doc Counts a request that a gate refused.
-spec refused(atom()) -> ok.
refused(Gate) ->
    _ = whittle_counters:inc(docket_refused_total, [gate(Gate)]),
    ok.

%% @doc Counts a report of Mnesia that it is overloaded.
-spec overloaded() -> ok.
overloaded() ->
    _ = whittle_counters:inc(docket_mnesia_overloads_total),
    ok.
