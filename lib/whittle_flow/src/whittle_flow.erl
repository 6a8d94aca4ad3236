%% @doc Shards, batches and broadcasts at the speed of the machine.
%%
%% <ul>
%% <li>{@link whittle_flow_pool}: keys to processes that do not talk to each
%%   other;</li>
%% <li>{@link whittle_flow_batcher} and {@link whittle_flow_sender}: many messages
%%   in one signal, with credit;</li>
%% <li>{@link whittle_flow_group}: one message to many processes.</li>
%% </ul>
-module(whittle_flow).

-export([calibrate/0, format_error/1]).
-export_type([reason/0]).

-type reason() :: {atom(), term()}.
%% See format_error/1.

%% @doc Measures the crossovers of broadcasting on this machine; pass what it
%% gives to whittle_flow_group:start_link/2. Takes a part of a second.
-spec calibrate() -> #{shared := pos_integer(), sharers := pos_integer()}.
calibrate() -> whittle_flow_calibrate:run().

%% @doc One line for a reason that this application gives.
-spec format_error(reason()) -> unicode:chardata().
format_error({Tag, Context}) when is_atom(Tag) -> io_lib:format("~ts~0tp", [format(Tag), Context]);
format_error(Other) -> io_lib:format("unexpected: ~0tp", [Other]).

format(bad_option) ->
    "not an option here, or its value not allowed; see the type options() of the module that was "
        "called (module: one that can be loaded and has the callbacks): ";
format(not_started) -> "not running; start the application ";
format(no_pool) -> "no such pool; start it first: ";
format(no_group) -> "no such group; start it first: ";
format(overloaded) -> "more waits than limit allows; send less, or again later: ";
format(key_failed) ->
    "the pool's key function crashed, or what was to be sent has no key; nothing was sent: ";
format(handler_failed) -> "the callback crashed on this message: ";
format(unanswered) -> "no answer in time; handled once or not at all: ";
format(failed) -> "the callback crashed on this many messages: ";
format(shed) -> "so many messages were shed, by the policy or because the receiver is dead: ";
format(no_split) -> "a state that is no map needs split/3 and merge/1 to be resized: ";
format(uncertain) -> "the receiver died before it told about this many messages: ";
format(Tag) -> atom_to_list(Tag) ++ ": ".
