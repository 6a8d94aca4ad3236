%% @doc Gives an overview of the library, measures the machine and formats errors.
%%
%% <ul>
%% <li>{@link whittle_flow_pool} maps keys to processes that do not talk to each other.</li>
%% <li>{@link whittle_flow_batcher} and {@link whittle_flow_sender} put many messages into one
%%   signal, with credit.</li>
%% <li>{@link whittle_flow_group} sends one message to many processes.</li>
%% </ul>
-module(whittle_flow).

-export([calibrate/0, format_error/1]).
-export_type([reason/0]).

-type reason() :: {atom(), term()}.
%% See format_error/1.

%% @doc Measures on this machine where broadcasting by reference begins to pay. Pass the result to
%% whittle_flow_group:start_link/2. It takes a part of a second.
-spec calibrate() -> #{shared := pos_integer(), sharers := pos_integer()}.
calibrate() -> whittle_flow_calibrate:run().

%% @doc Formats a reason of this application as one line.
-spec format_error(reason()) -> unicode:chardata().
format_error({Tag, Context}) when is_atom(Tag) -> io_lib:format("~ts~0tp", [format(Tag), Context]);
format_error(Other) -> io_lib:format("unexpected: ~0tp", [Other]).

format(bad_option) ->
    "the function does not take this option or this value; see the type options() of the module "
        "that you called (the option module takes a module that can be loaded and has the "
        "callbacks): ";
format(not_started) -> "the application does not run; start it: ";
format(no_pool) -> "no such pool; start it first: ";
format(no_group) -> "no such group; start it first: ";
format(overloaded) ->
    "more messages wait than the option limit allows; send fewer, or send again later: ";
format(key_failed) ->
    "the pool's key function crashed, or the messages are not a list of pairs; nothing was sent: ";
format(handler_failed) -> "the callback crashed on this message: ";
format(unanswered) -> "no answer came in time; the message was handled once or not at all: ";
format(failed) -> "the callback crashed on this many messages: ";
format(shed) -> "this many messages were shed, by the policy or because the receiver is dead: ";
format(no_split) -> "a resize needs a state that is a map, or split/3 and merge/1 in the module: ";
format(uncertain) -> "the receiver died before it acknowledged this many messages: ";
format(Tag) -> atom_to_list(Tag) ++ ": ".
