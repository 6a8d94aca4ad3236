%% @doc Pushes to StatsD or DogStatsD over UDP: counters as what they grew by
%% since the last push, gauges as they are, histograms as one line for each
%% bucket that grew, with the bucket's middle as value and 1/N as sample rate.
%%
%% StatsD has no labels: their values are put behind the name with dots.
-module(whittle_counters_statsd).
-behaviour(gen_server).

-export([start_link/1, child_spec/1, packets/2, push/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export_type([options/0, seen/0]).

-type options() :: #{host => inet:hostname() | inet:ip_address(), port => inet:port_number(),
                     %% Milliseconds between pushes; 10000 by default.
                     every => pos_integer(),
                     %% `dogstatsd' sends labels as tags; `statsd' by default.
                     style => statsd | dogstatsd}.
-opaque seen() :: #{{binary(), [binary()]} => whittle_counters_table:value()}.

%% What fits into one datagram on an Ethernet without being cut.
-define(DATAGRAM, 1432).

%% @doc A child of your supervisor.
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
option(host, V) -> is_tuple(V) orelse is_list(V) orelse is_atom(V);
option(port, V) -> whittle_counters_option:is_port(V);
option(every, V) -> whittle_counters_option:is_timeout(V);
option(style, V) -> V =:= statsd orelse V =:= dogstatsd;
option(_, _) -> false.

%% @doc Pushes now.
-spec push(pid()) -> ok.
push(Pid) -> gen_server:call(Pid, push, infinity).

-spec init(options()) -> {ok, map()}.
init(Options) ->
    {ok, Socket} = gen_udp:open(0, [binary]),
    State = maps:merge(#{host => {127, 0, 0, 1}, port => 8125, every => 10000, style => statsd,
                         seen => #{}, socket => Socket}, Options),
    {ok, later(State)}.

-spec handle_call(push, gen_server:from(), map()) -> {reply, ok, map()}.
handle_call(push, _, State) -> {reply, ok, send(State)}.

-spec handle_cast(term(), map()) -> {noreply, map()}.
handle_cast(_, State) -> {noreply, State}.

-spec handle_info(term(), map()) -> {noreply, map()}.
handle_info(push, State) -> {noreply, later(send(State))};
handle_info(_, State) -> {noreply, State}.

later(#{every := Every} = State) ->
    _ = erlang:send_after(Every, self(), push),
    State.

%% A push that is lost is lost, as UDP is: the next one does not repeat it.
send(#{socket := Socket, host := Host, port := Port, style := Style, seen := Seen} = State) ->
    {Packets, Seen1} = packets(Style, Seen),
    lists:foreach(fun(Packet) -> _ = gen_udp:send(Socket, Host, Port, Packet) end, Packets),
    State#{seen := Seen1}.

%% @doc Datagrams with what changed since Seen (`#{}' at first), and the new
%% Seen.
-spec packets(statsd | dogstatsd, seen() | #{}) -> {[binary()], seen()}.
packets(Style, Seen) ->
    {_, Lines, Seen1} =
        whittle_counters_scrape:fold(
          fun({family, Family}, {_, Ls, New}) -> {Family, Ls, New};
             ({series, Values, _, Value}, {#{name := Name} = Family, Ls, New}) ->
                  Key = {Name, Values},
                  More = lines(Style, Family, Values, Value, maps:get(Key, Seen, none)),
                  {Family, More ++ Ls, New#{Key => Value}}
          end, {none, [], #{}}),
    {pack(lists:reverse(Lines), []), Seen1}.

lines(Style, #{type := counter} = F, Values, Value, Old) ->
    case Value - number(Old) of
        %% After a reset or an expiry all of it is new.
        Less when Less < 0 -> [line(Style, F, Values, Value, "|c")];
        0 -> [];
        Grown -> [line(Style, F, Values, Grown, "|c")]
    end;
lines(Style, #{type := gauge} = F, Values, Value, _) when Value < 0 ->
    %% A signed number would be taken as a change: to zero first. The lines are
    %% gathered backwards.
    [line(Style, F, Values, Value, "|g"), line(Style, F, Values, 0, "|g")];
lines(Style, #{type := gauge} = F, Values, Value, _) ->
    [line(Style, F, Values, Value, "|g")];
lines(Style, #{type := histogram, schema := Schema, resolution := Resolution} = F, Values,
      #{buckets := Buckets, zeros := Zeros}, Old) ->
    {OldBuckets, OldZeros} = case Old of
                                 #{buckets := B, zeros := Z} -> {maps:from_list(B), Z};
                                 none -> {#{}, 0}
                             end,
    Kind = case Style of dogstatsd -> "|h|@"; statsd -> "|ms|@" end,
    [line(Style, F, Values, Middle, [Kind, text(1 / N)])
     || {Middle, N} <- [{0, Zeros - OldZeros}
                        | [{whittle_counters_scale:middle(Schema, I) / Resolution,
                            N - maps:get(I, OldBuckets, 0)} || {I, N} <- Buckets]],
        N > 0].

number(none) -> 0;
number(N) -> N.

line(dogstatsd, #{name := Name, labels := Names}, Values, Number, Rest) ->
    Tags = [[atom_to_binary(N), $:, clean(V)] || {N, V} <- lists:zip(Names, Values)],
    iolist_to_binary([Name, $:, text(Number), Rest, [["|#", lists:join($,, Tags)] || Tags =/= []]]);
line(statsd, #{name := Name}, Values, Number, Rest) ->
    iolist_to_binary([Name, [[$., clean(V)] || V <- Values], $:, text(Number), Rest]).

%% Characters that the format uses itself.
clean(Value) -> re:replace(Value, <<"[:|@#,.\\s]">>, <<"_">>, [global, unicode]).

text(N) when is_integer(N) -> integer_to_binary(N);
text(F) -> float_to_binary(F, [short]).

pack([], Packets) -> lists:reverse(Packets);
pack([Line | Lines], [Packet | Packets])
  when byte_size(Packet) + byte_size(Line) < ?DATAGRAM ->
    pack(Lines, [<<Packet/binary, $\n, Line/binary>> | Packets]);
pack([Line | Lines], Packets) ->
    pack(Lines, [Line | Packets]).
