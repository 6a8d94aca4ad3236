%% @doc Computes the course of a run: one row for each second. This module is pure.
%% @hidden
-module(whittle_load_series).

-export([rows/1, thin/2, csv/1]).

-export_type([row/0]).

-type row() ::
        #{second := non_neg_integer(),
          seconds := pos_integer(),                    % that this row stands for
          planned := non_neg_integer(),                % arrivals
          actual := non_neg_integer(),
          connected := non_neg_integer(),
          ended := non_neg_integer(),
          sent := non_neg_integer(),
          received := non_neg_integer(),
          errors := #{Kind :: binary() => pos_integer()},
          latency := none | whittle_counters_table:distribution(),   % of all steps but `connect'
          running := integer(),                        % users at the end of the second
          held := integer(),
          cpu := float(),                              % processors that all agents used
          busiest := float(),                          % processors that one agent used at most
          queue := non_neg_integer(),                  % the longest of the agents
          rss := non_neg_integer(),                    % bytes of all agents
          server_cpu := none | float(),
          server_rss := none | non_neg_integer()}.

%% The running sums of rows/1
-record(sum, {running = 0, held = #{}, cpu = #{}, rss = #{}, server = none, at = -1}).

%% @doc Computes the rows, the first second first.
-spec rows([whittle_load_second:second()]) -> [row()].
rows(Seconds) ->
    Arrivals = lists:foldl(fun(#{arrivals := Each}, Sum) ->
                                   maps:merge_with(fun(_, {A, B}, {C, D}) -> {A + C, B + D} end,
                                                   Each, Sum)
                           end, #{}, Seconds),
    Apart = apart(lists:usort(lists:append([maps:keys(Latencies)
                                            || #{latencies := Latencies} <- Seconds]))),
    {Rows, _} = lists:mapfoldl(fun(#{latencies := Latencies} = Second, Sum) ->
                                       row(Second#{latencies := maps:without(Apart, Latencies)},
                                           Arrivals, Sum)
                               end, #sum{}, Seconds),
    joined(Rows).

%% Connections count only if the users have no other step with an answer.
apart([_, _ | _]) -> [<<"connect">>];
apart(_) -> [].

%% The last sample of a run is often of the same second as the one before.
joined([#{second := At} = One, #{second := At} = Other | Rows]) ->
    joined([(join([One, Other]))#{seconds := 1, planned := maps:get(planned, Other),
                                  actual := maps:get(actual, Other)} | Rows]);
joined([Row | Rows]) -> [Row | joined(Rows)];
joined([]) -> [].

row(#{second := At, events := Events, latencies := Latencies, agents := Agents, lost := Lost,
      server := Server} = Second, Arrivals, Sum) ->
    Event = fun(Name) -> maps:get(Name, Events, 0) end,
    {Planned, Actual} = maps:get(At, Arrivals, {0, 0}),
    Running = Sum#sum.running + Event(started) - Event(ended),
    Held = maps:without(Lost, whittle_load_second:sums(
                                maps:map(fun(_, #{held := Gained}) -> Gained end, Agents),
                                Sum#sum.held)),
    Cpu = maps:map(fun(_, #{cpu := Used}) -> Used end, Agents),
    Used = [(Now - map_get(N, Sum#sum.cpu)) / 1000
            || {N, Now} <- maps:to_list(Cpu), is_map_key(N, Sum#sum.cpu)],
    Rss = maps:without(Lost, maps:merge(Sum#sum.rss,
                                        maps:map(fun(_, #{rss := Bytes}) -> Bytes end, Agents))),
    Elapsed = max(1, At - Sum#sum.at),
    {#{second => At, seconds => 1, planned => Planned, actual => Actual,
       connected => Event(connected), ended => Event(ended), sent => Event(sent),
       received => Event(received),
       errors => whittle_load_second:errors_by_kind(Second),
       latency => whittle_load_result:overall(Latencies),
       running => Running, held => lists:sum(maps:values(Held)),
       cpu => lists:sum(Used) / Elapsed, busiest => lists:max([0.0 | Used]) / Elapsed,
       queue => lists:max([0 | [Queue || #{queue := Queue} <- maps:values(Agents)]]),
       rss => lists:sum(maps:values(Rss)),
       server_cpu => case {Server, Sum#sum.server} of
                         {#{cpu := Now}, #{cpu := Before}} -> max(0, Now - Before) / 1000 / Elapsed;
                         _ -> none
                     end,
       server_rss => case Server of #{rss := Bytes} -> Bytes; none -> none end},
     #sum{running = Running, held = Held, cpu = maps:merge(Sum#sum.cpu, Cpu), rss = Rss,
          server = Server, at = At}}.

%% @doc Joins neighbors, so that at most so many rows are left. Each new row has the sums of counts,
%% the largest CPU and queue, and the last of the other values.
-spec thin(pos_integer(), [row()]) -> [row()].
thin(Most, Rows) ->
    Size = (length(Rows) + Most - 1) div Most,
    [join(Group) || Group <- groups(max(1, Size), Rows)].

groups(_, []) -> [];
groups(Size, Rows) ->
    {Group, Rest} = lists:split(min(Size, length(Rows)), Rows),
    [Group | groups(Size, Rest)].

join([First | Others]) -> lists:foldl(fun(Row, Sum) -> join(Sum, Row) end, First, Others).

join(One, Other) ->
    maps:merge_with(
      fun(Key, A, B) ->
              case Key of
                  errors -> whittle_load_second:sums(A, B);
                  latency -> whittle_load_second:distribution(A, B);
                  second -> A;
                  _ when Key =:= cpu; Key =:= busiest; Key =:= queue -> max(A, B);
                  _ when Key =:= running; Key =:= held; Key =:= rss; Key =:= server_rss -> B;
                  %% An atom is larger than any number.
                  server_cpu -> case {A, B} of {none, _} -> B; {_, none} -> A; _ -> max(A, B) end;
                  _ -> A + B
              end
      end, One, Other).

%% @doc Writes the rows as CSV (RFC 4180), with the names of the columns in the first line.
%% Latencies
%% are nanoseconds, sizes bytes.
-spec csv([row()]) -> iodata().
csv(Rows) ->
    Columns = [second, planned, actual, connected, ended, running, held, sent, received, errors,
               count, p50, p90, p99, max, cpu, busiest, queue, rss, server_cpu, server_rss],
    [lists:join($,, [atom_to_list(Column) || Column <- Columns]), "\r\n",
     [[lists:join($,, [field(Column, Row) || Column <- Columns]), "\r\n"] || Row <- Rows]].

field(errors, #{errors := Errors}) -> integer_to_list(lists:sum(maps:values(Errors)));
field(count, #{latency := none}) -> "0";
field(count, #{latency := #{count := Count}}) -> integer_to_list(Count);
field(Column, #{latency := Latency})
  when Column =:= p50; Column =:= p90; Column =:= p99; Column =:= max ->
    case Latency of
        none -> "";
        _ ->
            Part = maps:get(Column, #{p50 => 0.5, p90 => 0.9, p99 => 0.99, max => 1.0}),
            integer_to_list(round(whittle_load_result:quantile(Part, Latency)))
    end;
field(Column, Row) ->
    case maps:get(Column, Row) of
        none -> "";
        Integer when is_integer(Integer) -> integer_to_list(Integer);
        Float -> float_to_list(Float, [{decimals, 3}])
    end.
