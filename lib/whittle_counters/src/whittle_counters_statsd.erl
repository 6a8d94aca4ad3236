%% @doc Pushes metrics to StatsD or DogStatsD over UDP.
%%
%% A counter is its growth since the last push. A gauge is its value. A histogram is one line for
%% each bucket that grew, with the bucket's middle as value and 1/N as sample rate.
%%
%% The pushes report each update once, also after resets, expiries and new series. The first push
%% reports all earlier counts. If a push fails completely, the next one repeats it. Datagrams that
%% get lost on the way stay lost, because UDP does not repeat them.
%%
%% StatsD has no labels. The name has their values after it, with dots. StatsD's timers are in
%% milliseconds. DogStatsD's histograms are in the metric's unit.
-module(whittle_counters_statsd).
-behaviour(gen_server).

-export([start_link/1, child_spec/1, packets/2, push/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export_type([options/0, seen/0]).

-type options() :: #{%% A name or an address, also one of IPv6; 127.0.0.1 and 8125 by default.
                     host => inet:hostname() | inet:ip_address(), port => inet:port_number(),
                     %% Milliseconds between pushes. Default: 10000. If a series is dropped before
                     %% the next push, the push does not report its last updates. So keep the
                     %% interval below the shortest `expire_after' and below a minute.
                     every => pos_integer(),
                     %% `dogstatsd' sends labels as tags. Default: `statsd'.
                     style => statsd | dogstatsd}.
-opaque seen() :: #{{binary(), [binary()]} =>
                        [{whittle_counters_cell:cell(), whittle_counters_table:value()}]
                        | number()}.
%% The value of each cell, and the last result of each counter's fun.

%% The largest datagram that Ethernet does not fragment, in bytes. It also fits into any IPv4
%% datagram.
-define(DATAGRAM, 1432).
-define(LARGEST, 65507).

%% @doc Gives the child specification for your supervisor.
-spec child_spec(options()) -> supervisor:child_spec().
child_spec(Options) -> #{id => ?MODULE, start => {?MODULE, start_link, [Options]}}.

%% @doc Starts pushing. The default target is 127.0.0.1:8125.
-spec start_link(options()) -> gen_server:start_ret() | {error, whittle_counters:reason()}.
start_link(Options) ->
    case whittle_counters_option:check(fun option/2, Options) of
        ok -> gen_server:start_link(?MODULE, Options, []);
        {error, _} = Error -> Error
    end.

%% Each push resolves again a host that did not resolve.
option(host, V) when is_list(V) ->
    V =/= [] andalso whittle_counters_option:is_list_of(fun(C) -> C > $\s andalso C < 127 end, V);
option(host, V) -> inet:is_ip_address(V) orelse is_atom(V);
option(port, V) -> whittle_counters_option:is_port(V);
option(every, V) -> whittle_counters_option:is_timeout(V);
option(style, V) -> V =:= statsd orelse V =:= dogstatsd;
option(_, _) -> false.

%% @doc Pushes now. A failure to send is `{error, {push_failed, {Host, Reason}}}'. The library
%% counts it and logs it once, like a refused update.
-spec push(pid()) -> ok | {error, whittle_counters:reason()}.
push(Pid) -> gen_server:call(Pid, push, infinity).

-spec init(options()) -> {ok, map()}.
init(Options) ->
    {ok, later(maps:merge(#{host => {127, 0, 0, 1}, port => 8125, every => 10000,
                            style => statsd, seen => #{}}, Options))}.

-spec handle_call(push, gen_server:from(), map()) ->
          {reply, ok | {error, whittle_counters:reason()}, map()}.
handle_call(push, _, State) ->
    {Result, State1} = send(State),
    {reply, Result, State1}.

-spec handle_cast(term(), map()) -> {noreply, map()}.
handle_cast(_, State) -> {noreply, State}.

-spec handle_info(term(), map()) -> {noreply, map()}.
handle_info(push, State) ->
    {_, State1} = send(State),
    {noreply, later(State1)};
handle_info(_, State) -> {noreply, State}.

later(#{every := Every} = State) ->
    _ = erlang:send_after(Every, self(), push),
    State.

send(#{host := Host, port := Port, style := Style, seen := Seen} = State) ->
    {Packets, Seen1} = packets(Style, Seen),
    case deliver(Packets, Host, Port) of
        {ok, _} -> {ok, State#{seen := Seen1}};
        {Reason, Sent} ->
            Error = whittle_counters_table:reject(undefined, {push_failed, {Host, Reason}}),
            %% To report a part twice would be worse than to lose a part.
            {Error, case Sent of 0 -> State; _ -> State#{seen := Seen1} end}
    end.

%% Sends until a send fails, and counts the sent datagrams. The host may have another address at
%% each push, even of another family.
deliver([], _, _) -> {ok, 0};
deliver(Packets, Host, Port) ->
    case address(Host) of
        {ok, Family, Address} ->
            case gen_udp:open(0, [binary, Family]) of
                {ok, Socket} ->
                    Result = deliver(Packets, 0, Socket, Address, Port),
                    ok = gen_udp:close(Socket),
                    Result;
                {error, Reason} -> {Reason, 0}
            end;
        {error, Reason} -> {Reason, 0}
    end.

deliver([], Sent, _, _, _) -> {ok, Sent};
deliver([Packet | Packets], Sent, Socket, Address, Port) ->
    case gen_udp:send(Socket, Address, Port, Packet) of
        ok -> deliver(Packets, Sent + 1, Socket, Address, Port);
        {error, Reason} -> {Reason, Sent}
    end.

address(Host) ->
    case inet:getaddr(Host, inet) of
        {ok, Address} -> {ok, inet, Address};
        {error, Reason} ->
            case inet:getaddr(Host, inet6) of
                {ok, Address} -> {ok, inet6, Address};
                {error, _} -> {error, Reason}
            end
    end.

%% @doc Makes datagrams with the changes since Seen (`#{}' at first), and the new Seen.
-spec packets(statsd | dogstatsd, seen() | #{}) -> {[binary()], seen()}.
packets(Style, Seen) ->
    {_, Lines, Seen1} =
        whittle_counters_scrape:fold_cells(
          fun({family, Family}, {_, Ls, New}) -> {Family, Ls, New};
             ({series, Values, _, Value}, {#{name := Name} = Family, Ls, New}) ->
                  Key = {Name, Values},
                  {Change, Now} = change(Family, Value, maps:get(Key, Seen, [])),
                  More = [L || L <- lines(Style, Family, Values, Change), fits(Name, L)],
                  {Family, More ++ Ls, case Now of none -> New; _ -> New#{Key => Now} end}
          end, {none, [], #{}}),
    {pack(lists:reverse(Lines), []), Seen1}.

%% A line that is too long for a datagram would block all others. The name of a family may differ
%% from the name of its metric.
fits(_, Line) when byte_size(Line) =< ?LARGEST -> true;
fits(Family, Line) ->
    _ = whittle_counters_table:reject(undefined, {line_too_long, {Family, byte_size(Line)}}),
    false.

%% Gives the growth to report, and the values to remember for the next push.
change(_, {cells, Now}, Before) when is_list(Before) ->
    {whittle_counters_table:gained(Now, Before), Now};
change(F, {cells, _} = Now, _) -> change(F, Now, []);
change(#{type := gauge}, Value, _) -> {Value, none};
%% A fun reads this counter. A counter that fell has started again.
change(_, Value, Before) when is_number(Before), Value >= Before -> {Value - Before, Value};
change(_, Value, _) -> {Value, Value}.

lines(_, #{type := counter}, _, 0) -> [];
lines(Style, #{type := counter} = F, Values, Grown) -> [line(Style, F, Values, Grown, "|c")];
lines(Style, #{type := gauge} = F, Values, Value) when Value < 0 ->
    %% StatsD reads a signed number as a change, so the gauge goes to zero first. The list of
    %% lines is in reverse order.
    [line(Style, F, Values, Value, "|g"), line(Style, F, Values, 0, "|g")];
lines(Style, #{type := gauge} = F, Values, Value) ->
    [line(Style, F, Values, Value, "|g")];
lines(Style, #{type := histogram, schema := Schema} = F, Values,
      #{buckets := Buckets, zeros := Zeros}) ->
    {Kind, Scale} = case Style of
                        dogstatsd -> {"|h|@", map_get(resolution, F)};
                        statsd -> {"|ms|@", milliseconds(F)}
                    end,
    [line(Style, F, Values, Middle, [Kind, text(1 / N)])
     || {Middle, N} <- [{0, Zeros} | [{whittle_counters_scale:middle(Schema, I) / Scale, N}
                                      || {I, N} <- Buckets]],
        N > 0].

%% Gives the number of observed units in a millisecond. For other units it is one.
milliseconds(#{unit := Unit, resolution := Resolution}) ->
    case whittle_counters_name:nanoseconds(Unit) of
        none -> Resolution;
        Nanoseconds -> Resolution * 1000000 / Nanoseconds
    end.

line(dogstatsd, #{name := Name, labels := Names}, Values, Number, Rest) ->
    Tags = [[atom_to_binary(N), $:, clean(V)] || {N, V} <- lists:zip(Names, Values)],
    iolist_to_binary([Name, $:, text(Number), Rest, [["|#", lists:join($,, Tags)] || Tags =/= []]]);
line(statsd, #{name := Name}, Values, Number, Rest) ->
    iolist_to_binary([Name, [[$., clean(V)] || V <- Values], $:, text(Number), Rest]).

%% Replaces characters with a meaning in the format. The text between two dots must not be empty.
clean(<<>>) -> <<"_">>;
clean(Value) -> re:replace(Value, <<"[:|@#,.\\s]">>, <<"_">>, [global, unicode]).

text(N) when is_integer(N) -> integer_to_binary(N);
text(F) -> float_to_binary(F, [short]).

pack([], Packets) -> lists:reverse(Packets);
pack([Line | Lines], [Packet | Packets])
  when byte_size(Packet) + byte_size(Line) < ?DATAGRAM ->
    pack(Lines, [<<Packet/binary, $\n, Line/binary>> | Packets]);
pack([Line | Lines], Packets) ->
    pack(Lines, [Line | Packets]).
