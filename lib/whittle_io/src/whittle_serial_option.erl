%% @hidden Checks the options of a serial line, and translates them for the NIF. The module is
%% pure.
-module(whittle_serial_option).

-export([parse/1, check/1, names/1, settings/1, from_settings/1, is_device/1]).
-export([merge/2, packet/1, head/1, frame/1]).
-export_type([options/0]).

%% The map has all options.
-type options() :: #{whittle_serial:option_name() => term()}.
-type failure() :: {error, {bad_option, term()}}.

%% @doc Checks the given options, and adds the defaults of the others.
-spec parse(term()) -> {ok, options()} | failure().
parse(Options) ->
    case collect(Options, #{}) of
        {ok, Given} -> {ok, maps:merge(defaults(), Given)};
        Error -> Error
    end.

%% @doc Checks options for a change.
-spec check(term()) -> {ok, options()} | failure().
check(Options) ->
    case collect(Options, #{}) of
        {ok, #{exclusive := Value}} -> {error, {bad_option, {exclusive, Value}}};
        Result -> Result
    end.

%% @doc Checks names of options.
-spec names(term()) -> ok | failure().
names([]) -> ok;
names([Name | Names]) ->
    case is_map_key(Name, defaults()) of
        true -> names(Names);
        false -> {error, {bad_option, Name}}
    end;
names(Other) -> {error, {bad_option, Other}}.

defaults() ->
    #{rate => 9600, bits => 8, parity => none, stop_bits => 1, flow => none,
      active => true, packet => raw, packet_size => 65536, mode => binary,
      inter_byte_timeout => infinity, exclusive => true, buffer => 16384,
      send_timeout => infinity, linger => 5000}.

collect(Options, Found) when is_map(Options) -> collect(maps:to_list(Options), Found);
collect([], Found) -> {ok, Found};
collect([{Name, Value} = Option | Options], Found) ->
    case valid(Name, Value) of
        true -> collect(Options, Found#{Name => Value});
        false -> {error, {bad_option, Option}}
    end;
%% These short forms are those of gen_tcp.
collect([Mode | Options], Found) when Mode =:= binary; Mode =:= list ->
    collect(Options, Found#{mode => Mode});
collect([Option | _], _) -> {error, {bad_option, Option}};
collect(Other, _) -> {error, {bad_option, Other}}.

%% The kernel stores a rate in 32 bits. A call's timeout in milliseconds has 32 bits too.
valid(rate, V) -> between(V, 1, 16#ffffffff);
valid(bits, V) -> between(V, 5, 8);
valid(parity, V) -> lists:member(V, parities());
valid(stop_bits, V) -> between(V, 1, 2);
valid(flow, V) -> lists:member(V, flows());
valid(active, V) -> lists:member(V, [true, once, false]) orelse between(V, -32768, 32767);
valid(packet, V) -> lists:member(V, [raw, line, 1, 2, 4]);
valid(packet_size, V) -> between(V, 1, 16#4000000);
valid(mode, V) -> lists:member(V, [binary, list]);
valid(inter_byte_timeout, V) -> V =:= infinity orelse between(V, 1, 16#ffffffff);
valid(exclusive, V) -> is_boolean(V);
valid(buffer, V) -> between(V, 1, 16#4000000);
valid(send_timeout, V) -> V =:= infinity orelse between(V, 0, 16#ffffffff);
valid(linger, V) -> between(V, 0, 16#ffffffff);
valid(_, _) -> false.

between(Value, Low, High) -> is_integer(Value) andalso Value >= Low andalso Value =< High.

parities() -> [none, odd, even, mark, space].
flows() -> [none, hardware, software].

%% @doc Tells whether one of the options is a setting of the device.
-spec is_device(options()) -> boolean().
is_device(Options) ->
    lists:any(fun(Name) -> is_map_key(Name, Options) end, [rate, bits, parity, stop_bits, flow]).

%% @doc Gives the settings for whittle_serial_nif:configure/2. A name becomes its position.
-spec settings(options()) -> tuple().
settings(#{rate := Rate, bits := Bits, parity := Parity, stop_bits := Stop, flow := Flow}) ->
    {Rate, Bits, place(Parity, parities()), Stop, place(Flow, flows())}.

%% @doc Gives the options of the settings from whittle_serial_nif:settings/1.
-spec from_settings(tuple()) -> options().
from_settings({Rate, Bits, Parity, Stop, Flow}) ->
    #{rate => Rate, bits => Bits, parity => lists:nth(Parity + 1, parities()),
      stop_bits => Stop, flow => lists:nth(Flow + 1, flows())}.

place(Value, [Value | _]) -> 0;
place(Value, [_ | Values]) -> 1 + place(Value, Values).

%% @doc Changes options. A count of `active' adds to the remaining count. A count that is used up
%% is 0 for a moment.
-spec merge(options(), options()) -> {ok, options()} | {error, einval}.
merge(Changes, #{active := N} = Options) when not is_map_key(active, Changes),
                                               is_integer(N), N =< 0 ->
    {ok, maps:merge(Options#{active := false}, Changes)};
merge(#{active := N} = Changes, #{active := Old} = Options) when is_integer(N) ->
    Before = case is_integer(Old) of true -> Old; false -> 0 end,
    if
        Before + N > 32767; Before + N < -32768 -> {error, einval};
        Before + N =< 0 -> {ok, (maps:merge(Options, Changes))#{active := 0}};
        true -> {ok, (maps:merge(Options, Changes))#{active := Before + N}}
    end;
merge(Changes, Options) -> {ok, maps:merge(Options, Changes)}.

%% @doc Gives the mode that separates the messages of the input.
-spec packet(options()) -> whittle_serial_packet:mode().
packet(#{packet := raw, inter_byte_timeout := Time}) when is_integer(Time) -> gap;
packet(#{packet := Packet}) -> Packet.

%% @doc Gives the number of bytes in a frame's length. It is 0 without a length.
-spec head(options()) -> 0 | 1 | 2 | 4.
head(#{packet := Packet}) when is_integer(Packet) -> Packet;
head(_) -> 0.

%% @doc Gives the bytes that the input must be able to hold, so that a frame can become whole.
-spec frame(options()) -> non_neg_integer().
frame(#{packet := raw, inter_byte_timeout := infinity}) -> 0;
frame(#{packet := raw, packet_size := Size}) -> Size;
frame(#{packet := line, packet_size := Size}) -> Size;
frame(#{packet := Head, packet_size := Size}) -> Size + Head.
