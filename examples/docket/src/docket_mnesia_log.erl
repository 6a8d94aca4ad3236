%% @doc Reads, cuts and salvages the logs of the module disk_log while nobody has them open.
%%
%% disk_log (OTP 27 to 29) tells how many bytes of a damaged log it leaves out, but not where. A
%% crash may cut off the end of a log that was open, so a part of an entry at the end may be no
%% damage. A changed byte within an entry shows only if the entry is none of the known ones then:
%% the entries have no checksums.
%% @hidden
-module(docket_mnesia_log).

-import(docket_directory, [in_file/3]).

-export([check/3, is_empty/1, cut/1, salvage/4, write/2]).

-export_type([tail/0, is_known/0]).

%% What may follow the last entry: nothing, the beginning of another one if the log was open, or
%% that in any case.
-type tail() :: none | torn_if_open | torn.
%% Tells whether an entry is one that the log may have.
-type is_known() :: fun((Entry :: term()) -> boolean()).

-define(MAGIC, 1, 2, 3, 4).
-define(CLOSED, 99, 88, 77, 11).
-define(HEAD_BYTES, 8).                 % of a log, and of an entry
-define(ENTRY, 98, 87, 76, 65).
%% From so many bytes on, an entry has a checksum of its size.
-define(LARGE, 65528).
-define(SUM_BYTES, 16).
-define(READ_AHEAD, 262144).

%% @doc Checks that a log has only known entries, and may end as it does.
-spec check(file:filename(), tail(), is_known()) -> ok | damaged | {error, file:posix() | badarg}.
check(File, Tail, IsKnown) ->
    in_file(File, [read, {read_ahead, ?READ_AHEAD}],
            fun(Device, Size) -> checked(Device, Size, Tail, IsKnown) end).

%% A log that was never written to has no bytes, or only a head.
checked(_, Size, Tail, _) when Size < 2 * ?HEAD_BYTES, Tail =/= none -> ok;
checked(Device, Size, Tail, IsKnown) ->
    case ends(Device, Size, IsKnown) of
        {error, _} = Error -> Error;
        {_, Size} -> ok;
        %% disk_log also calls a log closed whose last write has failed.
        {State, End} when Tail =:= torn; Tail =:= torn_if_open, State =:= open ->
            damaged_unless(is_torn(Device, End, Size));
        _ -> damaged
    end.

damaged_unless(true) -> ok;
damaged_unless(false) -> damaged;
damaged_unless({error, _} = Error) -> Error.

%% A write that did not end leaves the beginning of an entry. Behind it is no other entry. A row may
%% hold the bytes of an entry; a log that was torn in such a row counts as damaged.
is_torn(Device, At, Size) ->
    Left = Size - At,
    case file:pread(Device, At, min(?HEAD_BYTES, Left)) of
        {ok, <<Bytes:32, ?ENTRY>>} ->
            case Bytes + sum_bytes(Bytes) > Left - ?HEAD_BYTES of
                true -> has_no_entry(Device, At + ?HEAD_BYTES, Size);
                false -> false
            end;
        {ok, Head} when byte_size(Head) < ?HEAD_BYTES ->
            Magic = binary:part(Head, min(4, byte_size(Head)), max(0, byte_size(Head) - 4)),
            Magic =:= binary:part(<<?ENTRY>>, 0, byte_size(Magic));
        {error, _} = Error -> Error;
        _ -> false
    end.

has_no_entry(Device, From, Size) ->
    case next(Device, From, Size) of
        {ok, At} ->
            case entry_at(Device, At, Size) of
                {ok, _, _, _} -> false;
                none -> has_no_entry(Device, At + 1, Size);
                {error, _} = Error -> Error
            end;
        none -> true;
        {error, _} = Error -> Error
    end.

%% @doc Tells whether a log has no entry. A crash or a full disk may come between the creation of a
%% log and its first bytes.
-spec is_empty(file:filename()) -> boolean().
is_empty(File) -> filelib:file_size(File) < 2 * ?HEAD_BYTES.

%% @doc Cuts off what follows the last whole entry. A log that cannot be read stays as it is. This
%% also works while the disk is full.
-spec cut(file:filename()) -> ok | {error, file:posix() | badarg}.
cut(File) ->
    in_file(File, [read, write],
            fun(Device, Size) ->
                    case ends(Device, Size, fun(_) -> true end) of
                        {error, _} = Error -> Error;
                        {_, End} when End < Size ->
                            docket_attempt:steps([fun() -> moved(Device, End) end,
                                                  fun() -> file:truncate(Device) end,
                                                  fun() -> file:sync(Device) end]);
                        _ -> ok
                    end
            end).

moved(Device, To) ->
    case file:position(Device, To) of
        {ok, To} -> ok;
        {error, _} = Error -> Error
    end.

%% @doc Writes the known entries of a damaged log to a new file: all of them, or only those before
%% the first one that is damaged or unknown. The log itself stays as it is. A row may hold the bytes
%% of an entry. If the size of its own entry is damaged, `all' finds that entry too.
-spec salvage(file:filename(), New :: file:filename(), all | first, is_known()) ->
          ok | {error, file:posix() | badarg | terminated | system_limit}.
salvage(File, New, Which, IsKnown) ->
    in_file(File, [read, {read_ahead, ?READ_AHEAD}],
            fun(Device, Size) ->
                    in_file(New, [write, {delayed_write, ?READ_AHEAD, 2000}],
                            fun(To, _) ->
                                    docket_attempt:steps(
                                      [fun() -> file:write(To, <<?MAGIC, ?CLOSED>>) end,
                                       fun() -> moved(Device, min(?HEAD_BYTES, Size)) end,
                                       fun() ->
                                               salvaged(Device, min(?HEAD_BYTES, Size), Size, To,
                                                        {Which, IsKnown})
                                       end, fun() -> file:sync(To) end])
                            end)
            end).

%% The position of the file is that of the next entry: a change of the position would make it read
%% ahead again.
salvaged(_, Size, Size, _, _) -> ok;
salvaged(Device, At, Size, To, {Which, IsKnown} = How) ->
    case entry(Device, At, Size) of
        {ok, End, Entry, Bytes} ->
            case {IsKnown(Entry), Which} of
                {true, _} ->
                    case file:write(To, Bytes) of
                        ok -> salvaged(Device, End, Size, To, How);
                        {error, _} = Error -> Error
                    end;
                {false, all} -> salvaged(Device, End, Size, To, How);
                {false, first} -> ok
            end;
        none when Which =:= all -> salvaged_behind(Device, At, Size, To, How);
        none -> ok;
        {error, _} = Error -> Error
    end.

salvaged_behind(Device, At, Size, To, How) ->
    case behind(Device, At, Size) of
        {ok, Next} ->
            case moved(Device, Next) of
                ok -> salvaged(Device, Next, Size, To, How);
                {error, _} = Error -> Error
            end;
        none -> ok;
        {error, _} = Error -> Error
    end.

%% Finds the next entry behind a damaged one. If the head of the damaged one is right, this searches
%% no row for entries.
behind(Device, At, Size) ->
    case file:pread(Device, At, ?HEAD_BYTES) of
        {ok, <<Bytes:32, ?ENTRY>>} ->
            End = At + ?HEAD_BYTES + sum_bytes(Bytes) + Bytes,
            case file:pread(Device, End, ?HEAD_BYTES) of
                {ok, <<_:32, ?ENTRY>>} -> {ok, End};
                eof when End =:= Size -> none;
                {error, _} = Error -> Error;
                _ -> next(Device, At + 1, Size)
            end;
        {error, _} = Error -> Error;
        _ -> next(Device, At + 1, Size)
    end.

entry_at(Device, At, Size) ->
    case moved(Device, At) of
        ok -> entry(Device, At, Size);
        {error, _} = Error -> Error
    end.

%% Finds the next place where an entry may begin: a head whose size fits into the file.
next(Device, At, Size) ->
    case file:pread(Device, At, ?READ_AHEAD) of
        {ok, Bytes} when byte_size(Bytes) >= ?HEAD_BYTES ->
            Places = binary:matches(Bytes, <<?ENTRY>>, [{scope, {4, byte_size(Bytes) - 4}}]),
            IsOne = fun({Place, _}) ->
                            <<Length:32>> = binary:part(Bytes, Place - 4, 4),
                            At + Place + 4 + sum_bytes(Length) + Length =< Size
                    end,
            case lists:search(IsOne, Places) of
                {value, {Place, _}} -> {ok, At + Place - 4};
                false -> next(Device, At + byte_size(Bytes) - ?HEAD_BYTES + 1, Size)
            end;
        {error, _} = Error -> Error;
        _ -> none
    end.

%% @doc Writes a log with the given entries, none of them large: whole or not at all.
-spec write(file:filename(), [term()]) -> ok | {error, file:posix() | badarg | terminated}.
write(File, Entries) ->
    docket_directory:write(File, [<<?MAGIC, ?CLOSED>>
                                  | [[<<(byte_size(Entry)):32, ?ENTRY>>, Entry]
                                     || Term <- Entries, Entry <- [term_to_binary(Term)]]]).

%% Returns whether a log is open, and where its known entries end, before the first one that is
%% none. `none': this is no log.
ends(Device, Size, IsKnown) ->
    case docket_attempt:steps([fun() -> moved(Device, 0) end,
                               fun() -> file:read(Device, ?HEAD_BYTES) end]) of
        {ok, <<?MAGIC, ?CLOSED>>} -> ends(closed, Device, ?HEAD_BYTES, Size, IsKnown);
        {ok, <<?MAGIC, _:4/binary>>} -> ends(open, Device, ?HEAD_BYTES, Size, IsKnown);
        {error, _} = Error -> Error;
        _ -> none
    end.

ends(State, _, Size, Size, _) -> {State, Size};
ends(State, Device, At, Size, IsKnown) ->
    case entry(Device, At, Size) of
        {ok, End, Entry, _} ->
            case IsKnown(Entry) of
                true -> ends(State, Device, End, Size, IsKnown);
                false -> {State, At}
            end;
        none -> {State, At};
        {error, _} = Error -> Error
    end.

%% Returns the entry at the position of the file, where it ends, and its bytes. The sum of a large
%% one comes first, so a damaged size does not make this read the whole file.
entry(Device, At, Size) ->
    case read(Device, At, ?HEAD_BYTES, Size) of
        {ok, <<Bytes:32, ?ENTRY>> = Head} ->
            Sum = sum_bytes(Bytes),
            Start = At + ?HEAD_BYTES,
            case read(Device, Start, Sum, Size) of
                {ok, Stored} ->
                    case is_sum(Stored, Bytes) andalso read(Device, Start + Sum, Bytes, Size) of
                        false -> none;
                        {ok, Binary} ->
                            with_end(Start + Sum + Bytes, term(Binary), [Head, Stored, Binary]);
                        Other -> Other
                    end;
                Other -> Other
            end;
        {ok, _} -> none;
        Other -> Other
    end.

read(_, At, Bytes, Size) when At + Bytes > Size -> none;
read(_, _, 0, _) -> {ok, <<>>};
read(Device, _, Bytes, _) ->
    case file:read(Device, Bytes) of
        {ok, Read} when byte_size(Read) =:= Bytes -> {ok, Read};
        {error, _} = Error -> Error;
        _ -> none
    end.

sum_bytes(Size) when Size < ?LARGE -> 0;
sum_bytes(_) -> ?SUM_BYTES.

is_sum(<<>>, _) -> true;
is_sum(Sum, Size) -> Sum =:= erlang:md5(<<Size:32>>).

with_end(End, {ok, Term}, Bytes) -> {ok, End, Term, Bytes};
with_end(_, none, _) -> none.

term(Binary) ->
    try binary_to_term(Binary, [used]) of
        {Term, Used} when Used =:= byte_size(Binary) -> {ok, Term};
        _ -> none
    catch error:badarg -> none
    end.
