%% @hidden Declares the native functions of the serial driver.
%%
%% c_src/whittle_serial.c implements them and names the scheduler of each. The library has the
%% name of this module, because a VM before OTP 28 finds a library that is linked into it by the
%% name of the module that loads it.
-module(whittle_serial_nif).

-export([open/2, configure/2, settings/1, read/1, send/3, resume/1, sending/1, cancel/2,
         reserve/2, packet/2, queues/1, flush/2, drain/1, break/2, lines/1, set_lines/3,
         counters/1, stop/1, close/1]).

-nifs([open/2, configure/2, settings/1, read/1, send/3, resume/1, sending/1, cancel/2,
       reserve/2, packet/2, queues/1, flush/2, drain/1, break/2, lines/1, set_lines/3,
       counters/1, stop/1, close/1]).
-on_load(load/0).

load() -> erlang:load_nif(whittle_io_nif:path("whittle_serial_nif"), 0).

-spec open(binary(), boolean()) -> {ok, whittle_serial:line()} | {error, atom()}.
open(_, _) -> not_loaded().

-spec configure(whittle_serial:line(), tuple()) -> ok | {error, atom()}.
configure(_, _) -> not_loaded().

-spec settings(whittle_serial:line()) -> {ok, tuple()} | {error, atom()}.
settings(_) -> not_loaded().

-spec read(whittle_serial:line()) -> {armed | more, binary()} | eof | {error, atom()}.
read(_) -> not_loaded().

-spec send(whittle_serial:line(), binary(), whittle_serial:tag()) ->
          ok | wait | busy | {error, atom()}.
send(_, _, _) -> not_loaded().

-spec resume(whittle_serial:line()) ->
          none | wait | {done, whittle_serial:tag(), ok | {error, atom()}} | {error, closed}.
resume(_) -> not_loaded().

-spec sending(whittle_serial:line()) -> none | whittle_serial:tag() | {error, closed}.
sending(_) -> not_loaded().

-spec cancel(whittle_serial:line(), whittle_serial:tag() | all) ->
          none | {rest, whittle_serial:tag(), binary()} | {error, closed}.
cancel(_, _) -> not_loaded().

-spec reserve(whittle_serial:line(), boolean()) -> ok | {error, closed}.
reserve(_, _) -> not_loaded().

-spec packet(whittle_serial:line(), 0 | 1 | 2 | 4) -> ok | {error, closed}.
packet(_, _) -> not_loaded().

-spec queues(whittle_serial:line()) ->
          {non_neg_integer(), non_neg_integer(), non_neg_integer(), non_neg_integer(),
           boolean()} | {error, closed}.
queues(_) -> not_loaded().

-spec flush(whittle_serial:line(), 1..3) -> ok | {error, atom()}.
flush(_, _) -> not_loaded().

-spec drain(whittle_serial:line()) -> ok | {error, atom()}.
drain(_) -> not_loaded().

-spec break(whittle_serial:line(), boolean()) -> ok | {error, atom()}.
break(_, _) -> not_loaded().

-spec lines(whittle_serial:line()) -> {ok, [whittle_serial:modem_line()]} | {error, atom()}.
lines(_) -> not_loaded().

-spec set_lines(whittle_serial:line(), 0..3, 0..3) -> ok | {error, atom()}.
set_lines(_, _, _) -> not_loaded().

-spec counters(whittle_serial:line()) -> {ok, [non_neg_integer()]} | {error, atom()}.
counters(_) -> not_loaded().

-spec stop(whittle_serial:line()) -> stopped | wait | {error, closed}.
stop(_) -> not_loaded().

-spec close(whittle_serial:line()) -> ok.
close(_) -> not_loaded().

not_loaded() -> erlang:nif_error({not_loaded, ?MODULE}).
