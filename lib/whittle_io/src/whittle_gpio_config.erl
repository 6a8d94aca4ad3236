%% @hidden Checks the options of lines, and packs them for the kernel (linux/gpio.h, version 2).
%% The module is pure.
%%
%% The kernel takes flags for all lines and up to ten attributes, each for a mask of lines. An
%% attribute has other flags, the values of outputs, or a debounce period. The flags of most lines
%% become the flags of all lines.
-module(whittle_gpio_config).

-export([request/2, line_options/1, chosen/1, active/1, line/1, text/1]).
-export([pack/1, line_info/1, change/1]).

-export_type([request/0, packed/0]).

-type request() ::
        #{lines := [whittle_gpio:line()], each := [whittle_gpio:line_options()],
          consumer := binary(), event_buffer := non_neg_integer(),
          active := whittle_gpio:active(), backlog := pos_integer()}.

-type packed() :: {non_neg_integer(), [{1..3, non_neg_integer(), non_neg_integer()}]}.
%% Flags and attributes {Id, Value, Mask}.

%% gpio_v2_line_flag
-define(USED, 16#1).
-define(ACTIVE_LOW, 16#2).
-define(INPUT, 16#4).
-define(OUTPUT, 16#8).
-define(RISING, 16#10).
-define(FALLING, 16#20).
-define(OPEN_DRAIN, 16#40).
-define(OPEN_SOURCE, 16#80).
-define(PULL_UP, 16#100).
-define(PULL_DOWN, 16#200).
-define(NO_BIAS, 16#400).
-define(REALTIME, 16#800).
-define(HARDWARE, 16#1000).

%% gpio_v2_line_attr_id
-define(ID_FLAGS, 1).
-define(ID_VALUES, 2).
-define(ID_DEBOUNCE, 3).
-define(ATTRIBUTES_MAX, 10).

-define(NAME_MAX, 31).

-define(DEFAULTS, #{consumer => <<"whittle">>, event_buffer => 0, active => true,
                    backlog => 1000}).

%% @doc Checks the caller's lines and options. Throws {bad_option, Term}.
-spec request(term(), term()) -> request().
request(_, Options) when not is_map(Options) -> bad(Options);
request(Lines, Options) when length(Lines) >= 0 ->
    Own = maps:with(maps:keys(?DEFAULTS), Options),
    All = line_options(maps:without(maps:keys(?DEFAULTS), Options)),
    Each = [line(Line, All) || Line <- Lines],
    Checked = maps:map(fun own/2, maps:merge(?DEFAULTS, Own)),
    Checked#{lines => [Line || {Line, _} <- Each], each => [One || {_, One} <- Each]};
request(Other, _) ->
    bad(Other).

line({Line, Options}, All) when is_map(Options) ->
    {line(Line), maps:merge(All, line_options(Options))};
line(Line, All) ->
    {line(Line), All}.

%% @doc Checks a line's offset or name. Throws {bad_option, Term}.
-spec line(term()) -> whittle_gpio:line().
line(Offset) when is_integer(Offset), Offset >= 0, Offset < 1 bsl 32 -> Offset;
line(Name) when is_binary(Name); is_list(Name) -> _ = text(Name), Name;
line(Other) -> bad(Other).

own(consumer, Name) ->
    case text(Name) of
        Text when byte_size(Text) =< ?NAME_MAX -> Text;
        _ -> bad({consumer, Name})
    end;
own(event_buffer, N) when is_integer(N), N >= 0, N < 1 bsl 32 -> N;
own(backlog, N) when is_integer(N), N > 0 -> N;
own(active, Active) -> active(Active);
own(Key, Value) -> bad({Key, Value}).

%% @doc Checks the options of a line. Throws {bad_option, Term}.
-spec line_options(term()) -> whittle_gpio:line_options().
line_options(Options) when not is_map(Options) -> bad(Options);
line_options(Options) ->
    maps:foreach(fun(Key, Value) ->
                         is_option(Key, Value) orelse bad({Key, Value})
                 end, Options),
    Options.

is_option(direction, D) -> lists:member(D, [input, output, as_is]);
is_option(value, V) -> V =:= 0 orelse V =:= 1;
is_option(bias, B) -> lists:member(B, [as_is, none, pull_up, pull_down]);
is_option(drive, D) -> lists:member(D, [push_pull, open_drain, open_source]);
is_option(active_low, A) -> is_boolean(A);
is_option(edges, E) -> lists:member(E, [none, rising, falling, both]);
is_option(debounce, D) -> is_integer(D) andalso D >= 0 andalso D < 1 bsl 32;
is_option(clock, C) -> lists:member(C, [monotonic, realtime]);
is_option(_, _) -> false.

-spec active(term()) -> whittle_gpio:active().
active(Active) when is_boolean(Active); Active =:= once -> Active;
active(N) when is_integer(N), N > 0 -> N;
active(Other) -> bad({active, Other}).

%% @doc Checks the choice of some lines of a request, or of all. Throws {bad_option, Term}.
-spec chosen(term()) -> all | [whittle_gpio:line()].
chosen(all) -> all;
chosen(Lines) when length(Lines) >= 0 -> [line(Line) || Line <- Lines];
chosen(Other) -> bad(Other).

%% @doc Gives a name as the kernel stores it. Throws {bad_option, Term}.
-spec text(term()) -> binary().
text(Text) when is_binary(Text) ->
    binary:match(Text, <<0>>) =:= nomatch orelse bad(Text),
    Text;
text(Text) when is_list(Text) ->
    %% The code does not use the module unicode, because a shaken program would then contain its
    %% tables for this name.
    try << <<Char/utf8>> || Char <- Text >> of
        Bytes -> text(Bytes)
    catch
        error:_ -> bad(Text)
    end;
text(Other) ->
    bad(Other).

-spec bad(term()) -> no_return().
bad(Term) -> throw({bad_option, Term}).

%% @doc Packs the options of each line for the kernel, in the request's order. The error e2big
%% means that they need more than ten attributes.
-spec pack([whittle_gpio:line_options()]) -> {ok, packed()} | {error, e2big}.
pack(Each) ->
    Indexed = lists:zip(lists:seq(0, length(Each) - 1), Each),
    ByFlags = masks([{flags(O), I} || {I, O} <- Indexed]),
    {Most, Others} = most(ByFlags),
    Outputs = mask([I || {I, #{direction := output}} <- Indexed]),
    Ones = mask([I || {I, #{direction := output, value := 1}} <- Indexed]),
    Debounced = masks([{Us, I} || {I, #{debounce := Us}} <- Indexed, Us > 0]),
    Attributes = [{?ID_FLAGS, Flags, Mask} || {Flags, Mask} <- Others]
        ++ [{?ID_VALUES, Ones, Outputs} || Outputs =/= 0]
        ++ [{?ID_DEBOUNCE, Us, Mask} || {Us, Mask} <- Debounced],
    case length(Attributes) =< ?ATTRIBUTES_MAX of
        true -> {ok, {Most, Attributes}};
        false -> {error, e2big}
    end.

masks(Pairs) ->
    maps:to_list(lists:foldl(fun({Key, Index}, Masks) ->
                                     Masks#{Key => maps:get(Key, Masks, 0) bor (1 bsl Index)}
                             end, #{}, Pairs)).

mask(Indices) -> lists:foldl(fun(I, Mask) -> Mask bor (1 bsl I) end, 0, Indices).

most([]) ->
    {?INPUT, []};
most(ByFlags) ->
    {_, Flags} = lists:max([{bits(Mask), Flags} || {Flags, Mask} <- ByFlags]),
    {Flags, lists:keydelete(Flags, 1, ByFlags)}.

bits(0) -> 0;
bits(Mask) -> (Mask band 1) + bits(Mask bsr 1).

flags(Options) ->
    maps:fold(fun(Key, Value, Flags) -> Flags bor flag(Key, Value) end, 0,
              maps:merge(#{direction => input}, Options)).

flag(direction, input) -> ?INPUT;
flag(direction, output) -> ?OUTPUT;
flag(active_low, true) -> ?ACTIVE_LOW;
flag(bias, pull_up) -> ?PULL_UP;
flag(bias, pull_down) -> ?PULL_DOWN;
flag(bias, none) -> ?NO_BIAS;
flag(drive, open_drain) -> ?OPEN_DRAIN;
flag(drive, open_source) -> ?OPEN_SOURCE;
flag(edges, rising) -> ?RISING;
flag(edges, falling) -> ?FALLING;
flag(edges, both) -> ?RISING bor ?FALLING;
flag(clock, realtime) -> ?REALTIME;
flag(_, _) -> 0.

%% @doc Translates the kernel's description of a line.
-spec line_info(tuple()) -> map().
line_info({Offset, Name, Consumer, Flags, Debounce}) ->
    #{offset => Offset, name => Name, consumer => Consumer,
      used => Flags band ?USED =/= 0,
      direction => one(Flags, [{?OUTPUT, output}], input),
      active_low => Flags band ?ACTIVE_LOW =/= 0,
      bias => one(Flags, [{?PULL_UP, pull_up}, {?PULL_DOWN, pull_down}, {?NO_BIAS, none}],
                  as_is),
      drive => one(Flags, [{?OPEN_DRAIN, open_drain}, {?OPEN_SOURCE, open_source}], push_pull),
      edges => one(Flags, [{?RISING bor ?FALLING, both}, {?RISING, rising},
                           {?FALLING, falling}], none),
      clock => one(Flags, [{?REALTIME, realtime}, {?HARDWARE, hardware}], monotonic),
      debounce => case Debounce of undefined -> 0; _ -> Debounce end}.

one(_, [], Default) -> Default;
one(Flags, [{Bits, Word} | _], _) when Flags band Bits =:= Bits -> Word;
one(Flags, [_ | Rest], Default) -> one(Flags, Rest, Default).

%% @doc Translates a change of a watched line: gpio_v2_line_changed_type.
-spec change({whittle_gpio:line(), 1..3, non_neg_integer(), tuple()}) -> map().
change({Line, Type, Timestamp, Info}) ->
    #{line => Line, timestamp => Timestamp, info => line_info(Info),
      change => case Type of 1 -> requested; 2 -> released; _ -> configured end}.
