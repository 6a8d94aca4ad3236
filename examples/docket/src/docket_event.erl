%% @doc Holds one entry of a case's audit trail: what was done, and when. Only the owner of a case
%% does something, and the key names the owner. Nothing changes or removes an entry.
%% @hidden
-module(docket_event).

-export([new/3, table/0, is_row/1, is_key/1, view/1]).

-export_type([event/0, key/0, what/0]).

%% The trail of a case has an event for each of its versions; the removal is the last one.
-type key() :: {docket_case:owner(), docket_id:id(), docket_case:version()}.
-type what() :: created | removed | {changed, [title | parties | state]}
              | {attached | detached, docket_case:document_number()}.

-record(docket_event, {key :: key(), at :: Milliseconds :: integer(), what :: what()}).
-opaque event() :: #docket_event{}.

%% @doc Makes an event. Now is in milliseconds since 1970.
-spec new(key(), what(), Now :: integer()) -> event().
new(Key, What, Now) -> #docket_event{key = Key, at = Now, what = What}.

%% @doc Describes the table of events for a store: its name and the fields of a row, the key first.
-spec table() -> {atom(), [atom()]}.
table() -> {docket_event, record_info(fields, docket_event)}.

%% @doc Tells whether a tuple is an event.
-spec is_row(tuple()) -> boolean().
is_row(#docket_event{key = Key, at = At, what = What}) ->
    is_key(Key) andalso docket_time:is_time(At) andalso is_what(What);
is_row(_) -> false.

is_what({changed, Fields}) ->
    docket_case:is_list_of(fun is_atom/1, Fields) andalso Fields -- [title, parties, state] =:= [];
is_what({What, Number}) when What =:= attached; What =:= detached -> is_integer(Number);
is_what(What) -> What =:= created orelse What =:= removed.

%% @doc Tells whether a term is a key of an event. A document has the same kind of key.
-spec is_key(term()) -> boolean().
is_key({Owner, Id, Version}) -> docket_case:is_key({Owner, Id}) andalso is_integer(Version);
is_key(_) -> false.

%% @doc Gives an event as a map for JSON.
-spec view(event()) -> map().
view(#docket_event{key = {_, _, Version}, at = At, what = What}) ->
    maps:merge(#{version => Version, at => docket_time:text(At)}, what(What)).

what({changed, Fields}) -> #{what => changed, fields => Fields};
what({What, Number}) -> #{what => What, document => Number};
what(What) -> #{what => What}.
