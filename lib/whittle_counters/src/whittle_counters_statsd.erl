%% @doc Pushes to StatsD or DogStatsD over UDP: counters as their growth
%% since the last push, gauges as they are, histograms as one line for each
%% bucket that grew, with the bucket's middle as value and 1/N as sample rate.
%%
%% Each push reports an update once, whatever was reset, expired or made in between. The
%% first push tells all that was counted before it. What a push could not send at
%% all the next one sends; what is lost on the way is lost, as UDP is.
%%
%% StatsD has no labels: their values are put behind the name with dots. Its timers
%% are in milliseconds; DogStatsD's histograms are in the metric's unit.
-module(whittle_counters_statsd).
-behaviour(gen_server).

-export([start_link/1, child_spec/1, packets/2, push/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export_type([options/0, seen/0]).

-type options() :: #{%% A name or an address, also one of IPv6; 127.0.0.1 and 8125 by default.
                     host => inet:hostname() | inet:ip_address(), port => inet:port_number(),
                     %% Milliseconds between pushes; 10000 by default. What is counted in a
                     %% series that is dropped before the next push is not told: keep it below
                     %% the shortest `expire_after' and a minute.
                     every => pos_integer(),
                     %% `dogstatsd' sends labels as tags; `statsd' by default.
                     style => statsd | dogstatsd}.
-opaque seen() :: #{{binary(), [binary()]} =>
                        [{whittle_counters_cell:cell(), whittle_counters_table:value()}]
                        | number()}.
%% The value of each cell, and the value that each counter's fun gave.

%% The bytes that fit into one datagram on an Ethernet without being cut, and into any of IPv4.
-define(DATAGRAM, 1432).
-define(LARGEST, 65507).

%% @doc Gives the child specification for your supervisor.
-spec child_spec(options()) -> supervisor:child_spec().
child_spec(Options) -> #{id => ?MODULE, start => {?MODULE, start_link, [Options]}}.

%% @doc Starts pushing; to 127.0.0.1:8125 by default.
-spec start_link(options()) -> gen_server:start_ret() | {error, whittle_counters:reason()}.
start_link(Options) ->
    case whittle_counters_option:check(fun option/2, Options) of
        ok -> gen_server:start_link(?MODULE, Options, []);
        {error, _} = Error -> Error
    end.

%% A host that cannot be resolved is looked up again with each push.
option(host, V) when is_list(V) ->
    V =/= [] andalso whittle_counters_option:is_list_of(fun(C) -> C > $\s andalso C < 127 end, V);
option(host, V) -> inet:is_ip_address(V) orelse is_atom(V);
option(port, V) -> whittle_counters_option:is_port(V);
option(every, V) -> whittle_counters_option:is_timeout(V);
option(style, V) -> V =:= statsd orelse V =:= dogstatsd;
option(_, _) -> false.

%% @doc Pushes now. What could not be sent is `{error, {push_failed, {Host, Reason}}}',
%% counted and logged once like a refused update.
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
            %% Some of it twice would be worse than some of it never.
            {Error, case Sent of 0 -> State; _ -> State#{seen := Seen1} end}
    end.

%% Sends until it fails, and tells how many were sent. The host may have another
%% address with each push, of another family too.
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

%% @doc Makes datagrams with the changes since Seen (`#{}' at first), and the new
%% Seen.
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

%% One that no datagram holds would keep all others from being sent. A family's name may be
%% another than its metric's.
fits(_, Line) when byte_size(Line) =< ?LARGEST -> true;
fits(Family, Line) ->
    _ = whittle_counters_table:reject(undefined, {line_too_long, {Family, byte_size(Line)}}),
    false.

%% The growth to report, and the values to remember for the next push.
change(_, {cells, Now}, Before) when is_list(Before) ->
    {whittle_counters_table:gained(Now, Before), Now};
change(F, {cells, _} = Now, _) -> change(F, Now, []);
change(#{type := gauge}, Value, _) -> {Value, none};
%% A counter that a fun reads: one that went back began anew.
change(_, Value, Before) when is_number(Before), Value >= Before -> {Value - Before, Value};
change(_, Value, _) -> {Value, Value}.

lines(_, #{type := counter}, _, 0) -> [];
lines(Style, #{type := counter} = F, Values, Grown) -> [line(Style, F, Values, Grown, "|c")];
lines(Style, #{type := gauge} = F, Values, Value) when Value < 0 ->
    %% A signed number would be taken as a change: to zero first. The lines are
    %% gathered backwards.
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

%% How many of what is observed are a millisecond; of what is no time, one.
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

%% Characters that the format uses itself; between two dots must be something.
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
