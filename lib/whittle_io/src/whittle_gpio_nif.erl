%% @hidden Declares the native functions of the GPIO driver.
%%
%% c_src/whittle_gpio.c implements them and names the scheduler of each. The library has the name
%% of this module, because a VM before OTP 28 finds a library that is linked into it by the name
%% of the module that loads it.
-module(whittle_gpio_nif).

-export([chips/0, chip/1, lines/3, request/7, watch/3, configure/3, written/1, stop/1, close/1,
         server/1, get/2, set/2, arm/2, read/2]).

-nifs([chips/0, chip/1, lines/3, request/7, watch/3, configure/3, written/1, stop/1, close/1,
       server/1, get/2, set/2, arm/2, read/2]).
-on_load(load/0).

load() -> erlang:load_nif(whittle_io_nif:path("whittle_gpio_nif"), 0).

-spec chips() -> {ok, [binary()]} | {error, whittle_gpio:posix()}.
chips() -> not_loaded().

-spec chip(binary()) ->
          {ok, {binary(), binary(), non_neg_integer()}} | {error, whittle_gpio:posix()}.
chip(_Path) -> not_loaded().

-spec lines(binary(), non_neg_integer(), 0..64) -> {ok, [tuple()]} | {error, whittle_gpio:posix()}.
lines(_Path, _First, _Count) -> not_loaded().

-spec request(binary(), [whittle_gpio:line()], [non_neg_integer()], binary(), non_neg_integer(),
              [tuple()], non_neg_integer()) ->
          {ok, whittle_gpio:request()} | {error, whittle_gpio:posix()}.
request(_Path, _Keys, _Offsets, _Consumer, _Flags, _Attributes, _Buffer) ->
    not_loaded().

-spec watch(binary(), [whittle_gpio:line()], [non_neg_integer()]) ->
          {ok, whittle_gpio:request(), [tuple()]} | {error, whittle_gpio:posix()}.
watch(_Path, _Keys, _Offsets) -> not_loaded().

-spec configure(whittle_gpio:request(), non_neg_integer(), [tuple()]) ->
          ok | {error, whittle_gpio:posix() | closed}.
configure(_Handle, _Flags, _Attributes) -> not_loaded().

-spec written(whittle_gpio:request()) -> {non_neg_integer(), non_neg_integer()}.
written(_Handle) -> not_loaded().

-spec stop(whittle_gpio:request()) -> ok | {error, closed}.
stop(_Handle) -> not_loaded().

-spec close(whittle_gpio:request()) -> ok.
close(_Handle) -> not_loaded().

-spec server(whittle_gpio:request()) -> pid().
server(_Handle) -> not_loaded().

-spec get(whittle_gpio:request(),
          {one, whittle_gpio:line()} | {list, [whittle_gpio:line()]} | map | bits) ->
          {ok, term()} | {error, whittle_gpio:posix() | closed}.
get(_Handle, _What) -> not_loaded().

-spec set(whittle_gpio:request(),
          [{whittle_gpio:line(), whittle_gpio:value()}] | {non_neg_integer(), non_neg_integer()}) ->
          ok | {error, whittle_gpio:posix() | closed}.
set(_Handle, _Values) -> not_loaded().

-spec arm(whittle_gpio:request(), reference()) -> ok | {error, whittle_gpio:posix() | closed}.
arm(_Handle, _Ref) -> not_loaded().

-spec read(whittle_gpio:request(), pos_integer()) ->
          {ok, [tuple()]} | {error, whittle_gpio:posix() | closed}.
read(_Handle, _Max) -> not_loaded().

not_loaded() -> erlang:nif_error({not_loaded, ?MODULE}).
