%% @doc Does the operations on cases, over the rows of a store.
%%
%% An operation is data. It brings the time and the id that it needs, so each replica of a store can
%% do it and get the same result. A store (docket_store) gives the rows, and makes the operation
%% atomic.
%% @hidden
-module(docket_cases).

-export([kind/1, work/2, tables/0, tables/1, version/0, upgraded/1, fitted/2, is_row/1]).

-export_type([operation/0, refusal/0]).

-type operation() ::
        {create, docket_case:key(), docket_case:fields(), Now :: integer()}
      | {change, docket_case:key(), docket_case:version(), docket_case:fields(), Now :: integer()}
      | {remove, docket_case:key(), docket_case:version(), Now :: integer()}
      | {attach, docket_case:key(), {Name :: binary(), Type :: binary()}, binary(),
         Now :: integer()}
      | {detach, docket_case:key(), docket_case:document_number(), Now :: integer()}
      | {show, docket_case:key()}
      | {document, docket_case:key(), docket_case:document_number()}
      | {list, docket_case:owner(), Before :: docket_id:id() | last, Most :: pos_integer(),
         docket_case:filter()}
      | {events, docket_case:key(), After :: non_neg_integer(), Most :: pos_integer()}.

-type refusal() :: not_found
                 | {conflict, docket_case:'case'()}     % the case as it is now
                 | closed | too_many_documents
                 | id_taken.                            % a case has this id already

%% The rows that a list reads at most. They bound its time: a search in 1000 rows took 4 ms (JIT of
%% OTP 29). The search for a rare text in many cases takes several requests.
-define(SCAN, 1000).

%% @doc Tells what an operation needs: to write, to read rows by their keys, or to read many rows
%% that need not belong to one moment.
-spec kind(operation()) -> write | read | scan.
kind(Operation) ->
    case element(1, Operation) of
        show -> read;
        document -> read;
        list -> scan;
        events -> scan;
        _ -> write
    end.

%% @doc Describes the tables for the rows that this node writes.
-spec tables() -> [{docket_store:table(), Fields :: [atom()], ordered_set | set}].
tables() -> tables(version()).

%% @doc Describes the tables in a version of the rows: their names, the fields of a row with the key
%% first, and how the rows are kept.
-spec tables(pos_integer()) -> [{docket_store:table(), Fields :: [atom()], ordered_set | set}].
tables(Version) ->
    [{Name, Fields, Type}
     || {{Name, Fields}, Type} <- [{docket_case:table(Version), ordered_set},
                                   {docket_event:table(), set},
                                   {{docket_file, [key, bytes]}, set}]].

%% @doc Returns the newest version of the rows that this node may write. A later program that
%% changes the rows has a greater one.
-spec version() -> pos_integer().
version() -> docket_config:get(row_version).

%% @doc Makes a row of any version one of the newest.
-spec upgraded(docket_store:row()) -> docket_store:row().
upgraded(Row) when element(1, Row) =:= docket_case -> docket_case:upgraded(Row);
upgraded(Row) -> Row.

%% @doc Makes a row as long as those of its table, which may be of an older version.
-spec fitted(docket_store:row(), Size :: pos_integer()) -> docket_store:row().
fitted(Row, Size) when element(1, Row) =:= docket_case -> docket_case:fitted(Row, Size);
fitted(Row, _) -> Row.

%% @doc Tells whether a tuple is a row that this program can show. Of the tables of a later program,
%% it knows none.
-spec is_row(tuple()) -> boolean().
is_row(Row) when element(1, Row) =:= docket_case -> docket_case:is_row(Row);
is_row(Row) when element(1, Row) =:= docket_event -> docket_event:is_row(Row);
is_row({docket_file, Key, Bytes}) -> docket_event:is_key(Key) andalso is_binary(Bytes);
is_row(Row) -> element(1, Row) =/= docket_file.

%% @doc Does one operation with the rows of a store.
-spec work(docket_store:rows(), operation()) -> {ok, term()} | {error, refusal()}.
work(Rows, {create, {Owner, Id} = Key, Fields, Now}) ->
    %% A removed case leaves its trail, so its id is taken too.
    case Rows:read(docket_event, {Owner, Id, 1}, write) of
        [] -> save(Rows, docket_case:new(Key, Fields, Now), created, Now);
        [_] -> {error, id_taken}
    end;
work(Rows, {change, Key, Version, Fields, Now}) ->
    changed(Rows, Key, Version,
            fun(Case) ->
                    case docket_case:change(Case, Fields, Now) of
                        {ok, Next} ->
                            save(Rows, Next, {changed, lists:sort(maps:keys(Fields))}, Now);
                        {error, _} = Error -> Error
                    end
            end);
work(Rows, {remove, {Owner, Id} = Key, Version, Now}) ->
    changed(Rows, Key, Version,
            fun(Case) ->
                    [ok = Rows:delete(docket_file, {Owner, Id, Number})
                     || Number <- docket_case:numbers(Case)],
                    ok = Rows:delete(docket_case, Key),
                    ok = Rows:write(docket_event,
                                    docket_event:new({Owner, Id, Version + 1}, removed, Now)),
                    {ok, removed}
            end);
work(Rows, {attach, {Owner, Id} = Key, {Name, Type}, Bytes, Now}) ->
    changed(Rows, Key, any,
            fun(Case) ->
                    case docket_case:attach(Case, {Name, Type, byte_size(Bytes)}, Now) of
                        {ok, Next} ->
                            Number = docket_case:version(Next),
                            ok = Rows:write(docket_file, {docket_file, {Owner, Id, Number}, Bytes}),
                            save(Rows, Next, {attached, Number}, Now);
                        {error, _} = Error -> Error
                    end
            end);
work(Rows, {detach, {Owner, Id} = Key, Number, Now}) ->
    changed(Rows, Key, any,
            fun(Case) ->
                    case docket_case:detach(Case, Number, Now) of
                        {ok, Next} ->
                            ok = Rows:delete(docket_file, {Owner, Id, Number}),
                            save(Rows, Next, {detached, Number}, Now);
                        {error, _} = Error -> Error
                    end
            end);
work(Rows, {show, Key}) ->
    case Rows:read(docket_case, Key, read) of
        [Case] -> {ok, Case};
        [] -> {error, not_found}
    end;
work(Rows, {document, {Owner, Id} = Key, Number}) ->
    case Rows:read(docket_case, Key, read) of
        [Case] ->
            case {docket_case:document(Case, Number),
                  Rows:read(docket_file, {Owner, Id, Number}, read)} of
                {{ok, Document}, [{docket_file, _, Bytes}]} -> {ok, {Document, Bytes}};
                _ -> {error, not_found}
            end;
        [] -> {error, not_found}
    end;
work(Rows, {list, Owner, Before, Most, Filter}) ->
    %% An atom is greater than each number.
    {ok, list(Rows, {Owner, Before}, Most, ?SCAN, Filter, [])};
work(Rows, {events, {Owner, Id}, After, Most}) ->
    case events(Rows, {Owner, Id}, After + 1, Most) of
        [] when After =:= 0 -> {error, not_found};
        Events -> {ok, Events}
    end.

changed(Rows, Key, Version, Fun) ->
    case Rows:read(docket_case, Key, write) of
        [Case] ->
            case Version =:= any orelse docket_case:version(Case) =:= Version of
                true -> Fun(Case);
                false -> {error, {conflict, Case}}
            end;
        [] -> {error, not_found}
    end.

save(Rows, Case, What, Now) ->
    {Owner, Id} = docket_case:key(Case),
    ok = Rows:write(docket_case, Case),
    ok = Rows:write(docket_event, docket_event:new({Owner, Id, docket_case:version(Case)}, What,
                                                   Now)),
    {ok, Case}.

%% Returns cases, latest first, and the id from which the list goes on, or `none' at its end.
list(_, {_, Id}, 0, _, _, Cases) -> {lists:reverse(Cases), Id};
list(_, {_, Id}, _, 0, _, Cases) -> {lists:reverse(Cases), Id};
list(Rows, {Owner, _} = Key, Most, Scan, Filter, Cases) ->
    case Rows:before(docket_case, Key) of
        {Owner, _} = Next ->
            %% A row that another process has removed since then is no longer there.
            Found = [Case || Case <- Rows:read(docket_case, Next, read),
                             docket_case:shows(Case, Filter)],
            list(Rows, Next, Most - length(Found), Scan - 1, Filter, Found ++ Cases);
        _ -> {lists:reverse(Cases), none}
    end.

events(_, _, _, 0) -> [];
events(Rows, {Owner, Id} = Key, Version, Most) ->
    case Rows:read(docket_event, {Owner, Id, Version}, read) of
        [Event] -> [Event | events(Rows, Key, Version + 1, Most - 1)];
        [] -> []
    end.
