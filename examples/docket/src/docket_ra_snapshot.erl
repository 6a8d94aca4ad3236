%% @doc Reads and writes the snapshots of a member of Ra.
%%
%% Ra's own module, `ra_log_snapshot', does the work. Its checksum covers a map that describes the
%% snapshot, and both the sender and the receiver turn that map into bytes. Since OTP 26 the order
%% of its keys depends on the order in which a VM met the atoms. So the bytes of two nodes may
%% differ, and then the receiver never takes the snapshot (Ra 2.2.0). This module gives Ra's module
%% a sorted list in place of the map. The callbacks are those of Ra's behavior `ra_snapshot'.
%% @hidden
-module(docket_ra_snapshot).

%% Ra need not be there.
-ignore_xref([{ra_log_snapshot, write, 3}, {ra_log_snapshot, begin_read, 1},
              {ra_log_snapshot, read_chunk, 3}, {ra_log_snapshot, begin_accept, 2},
              {ra_log_snapshot, accept_chunk, 2}, {ra_log_snapshot, complete_accept, 2},
              {ra_log_snapshot, recover, 1}, {ra_log_snapshot, validate, 1},
              {ra_log_snapshot, read_meta, 1}]).

-export([prepare/2, write/3, begin_read/1, read_chunk/3, begin_accept/2, accept_chunk/2,
         complete_accept/2, recover/1, validate/1, read_meta/1]).

%% @doc Takes the state as it is.
-spec prepare(non_neg_integer(), State) -> State.
prepare(_, State) -> State.

%% @doc Writes a snapshot into a directory.
-spec write(file:filename(), map(), term()) -> ok | {error, term()}.
write(Dir, Meta, State) -> ra_log_snapshot:write(Dir, sorted(Meta), State).

%% @doc Begins to read a snapshot, to send it.
-spec begin_read(file:filename()) -> {ok, map(), term()} | {error, term()}.
begin_read(Dir) -> with_map(ra_log_snapshot:begin_read(Dir)).

%% @doc Reads the next part.
-spec read_chunk(term(), pos_integer(), file:filename()) ->
          {ok, binary(), {next, term()} | last} | {error, term()}.
read_chunk(Reading, Size, Dir) -> ra_log_snapshot:read_chunk(Reading, Size, Dir).

%% @doc Begins to write a snapshot of another node.
-spec begin_accept(file:filename(), map()) -> {ok, term()} | {error, term()}.
begin_accept(Dir, Meta) -> ra_log_snapshot:begin_accept(Dir, sorted(Meta)).

%% @doc Writes the next part.
-spec accept_chunk(binary(), term()) -> {ok, term()} | {error, term()}.
accept_chunk(Chunk, Accepting) -> ra_log_snapshot:accept_chunk(Chunk, Accepting).

%% @doc Writes the last part, and checks the sum.
-spec complete_accept(binary(), term()) -> ok | {error, term()}.
complete_accept(Chunk, Accepting) -> ra_log_snapshot:complete_accept(Chunk, Accepting).

%% @doc Reads a snapshot, and checks the sum.
-spec recover(file:filename()) -> {ok, map(), term()} | {error, term()}.
recover(Dir) -> with_map(ra_log_snapshot:recover(Dir)).

%% @doc Checks the sum of a snapshot.
-spec validate(file:filename()) -> ok | {error, term()}.
validate(Dir) -> ra_log_snapshot:validate(Dir).

%% @doc Reads the description of a snapshot.
-spec read_meta(file:filename()) -> {ok, map()} | {error, term()}.
read_meta(Dir) -> with_map(ra_log_snapshot:read_meta(Dir)).

sorted(Meta) -> lists:sort(maps:to_list(Meta)).

with_map({ok, Meta}) -> {ok, map(Meta)};
with_map({ok, Meta, More}) -> {ok, map(Meta), More};
with_map({error, _} = Error) -> Error.

%% Ra's own module wrote the snapshots of earlier versions of docket.
map(Meta) when is_map(Meta) -> Meta;
map(Meta) -> maps:from_list(Meta).
