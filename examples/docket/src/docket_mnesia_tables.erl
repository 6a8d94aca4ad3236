%% @doc Makes the tables and the copies of this node, and knows the version of their rows.
%%
%% docket_cases describes the tables. Mnesia divides that of the documents into fragments
%% (`mnesia_frag'), as many as the setting `fragments' said when the database was made. Each node
%% has a copy of each fragment. Mnesia treats a fragment as a table of its own. Only reads and
%% writes in an activity with the access module `mnesia_frag' see the fragments as one table.
%% @hidden
-module(docket_mnesia_tables).

-export([names/0, forget/0, create/0, copy/0, rows/2, is_fragmented/1, is_loaded/0]).
-export([check_version/0, needs_upgrade/0, upgrade/0]).

-export_type([error/0]).

-type error() :: {table, {atom(), term()}}
               | {version, {Stored :: term(), Own :: pos_integer()}}.

-define(FRAGMENTED, docket_file).

%% @doc Lists the tables of Mnesia, with all fragments of the documents.
-spec names() -> [atom()].
names() ->
    case persistent_term:get(?MODULE, unknown) of
        unknown -> found();
        Names -> Names
    end.

found() ->
    [Name || {Table, _, _} <- docket_cases:tables(), Name <- mnesia_frag:frag_names(Table)].

%% @doc Forgets the names of the tables, because Mnesia starts, perhaps with another database.
-spec forget() -> ok.
forget() ->
    _ = persistent_term:erase(?MODULE),
    ok.

%% @doc Makes the tables of a new database.
-spec create() -> docket_attempt:result(error()).
create() ->
    docket_attempt:steps([fun() -> create(Table) end || Table <- docket_cases:tables()]).

create({Name, Fields, Type}) ->
    done(Name, mnesia:create_table(Name, [{attributes, Fields}, {type, Type}, {majority, true},
                                          {user_properties,
                                           [{docket_version, docket_cases:version()}]}
                                          | copies(Name)])).

copies(?FRAGMENTED) ->
    Kind = case kind() of disc_copies -> n_disc_copies; ram_copies -> n_ram_copies end,
    [{frag_properties, [{n_fragments, docket_config:get(fragments)}, {node_pool, [node()]},
                        {Kind, 1}]}];
copies(_) -> [{kind(), [node()]}].

done(_, {atomic, ok}) -> ok;
done(_, {wait, _} = Wait) -> Wait;
done(Name, {aborted, {already_exists, Name}}) -> ok;
done(Name, {aborted, {already_exists, Name, _}}) -> ok;
done(_, {aborted, {not_active, _, _, Nodes}}) ->
    {wait, ["waits for ", docket_config:names(Nodes), ", which must be up while a node joins"]};
done(Name, {aborted, Reason}) -> {error, {table, {Name, Reason}}}.

kind() -> case docket_config:get(dir) of none -> ram_copies; _ -> disc_copies end.

%% @doc Makes the copies of this node that are missing. A node that ended while it joined has some
%% of them.
-spec copy() -> docket_attempt:result(error()).
copy() ->
    Schema = case {kind(), mnesia:table_info(schema, storage_type)} of
                 {disc_copies, ram_copies} ->
                     [fun() ->
                              done(schema,
                                   mnesia:change_table_copy_type(schema, node(), disc_copies))
                      end];
                 _ -> []
             end,
    %% Each request needs the names, and they no longer change.
    docket_attempt:steps(Schema ++ [fun() -> copy(Name) end || Name <- found()]
                         ++ [fun() -> persistent_term:put(?MODULE, found()) end]).

copy(Name) ->
    case {lists:member(Name, mnesia:system_info(tables)), mnesia:system_info(db_nodes)} of
        %% This node ended while it made the database.
        {false, [_]} -> create(lists:keyfind(Name, 1, docket_cases:tables()));
        {false, _} -> {wait, "waits until the tables exist"};
        {true, _} ->
            case mnesia:table_info(Name, storage_type) of
                unknown ->
                    Add = fun() -> mnesia:add_table_copy(Name, node(), kind()) end,
                    done(Name, docket_mnesia_decisions:change_table(Name, Add));
                _ -> ok
            end
    end.

%% @doc Returns the rows with a key that this node has, also within a transaction that changes them.
%%
%% An activity within a transaction would be a part of that one, of whatever kind it is. So this
%% calls the access module, as an activity of the kind `ets' does.
-spec rows(docket_store:table(), Key :: term()) -> [docket_store:row()].
rows(Table, Key) -> mnesia_frag:read({ets, self()}, non_transaction, Table, Key, read).

%% @doc Tells whether a table may have several fragments.
-spec is_fragmented(docket_store:table()) -> boolean().
is_fragmented(Table) -> Table =:= ?FRAGMENTED.

%% @doc Tells whether this node has loaded its copies of all tables. Mnesia also reads from another
%% node, while this one has none.
-spec is_loaded() -> boolean().
is_loaded() ->
    try lists:all(fun(Name) -> mnesia:table_info(Name, where_to_read) =:= node() end, names())
    catch exit:{aborted, _} -> false
    end.

%% @doc Checks that a later program has not written the rows.
-spec check_version() -> ok | {error, error()}.
check_version() ->
    Own = docket_cases:version(),
    case [Version || {_, Version} <- stored_versions(), Version > Own] of
        [] -> ok;
        Later -> {error, {version, {lists:max(Later), Own}}}
    end.

stored_versions() ->
    [{Name, Version} || {Name, _, _} <- docket_cases:tables(),
                        lists:member(Name, mnesia:system_info(tables)),
                        {docket_version, Version} <- mnesia:table_info(Name, user_properties)].

%% @doc Tells whether the tables have rows of an older version than this program writes.
-spec needs_upgrade() -> boolean().
needs_upgrade() -> older() =/= [] orelse other_fields() =/= [].

older() -> [Name || {Name, Version} <- stored_versions(), Version < docket_cases:version()].

other_fields() ->
    [{Name, Fields} || {Table, Fields, _} <- docket_cases:tables(),
                       Name <- mnesia_frag:frag_names(Table),
                       mnesia:table_info(Name, attributes) =/= Fields].

%% @doc Gives all rows the version of this program. Changes wait meanwhile. The caller knows that
%% all nodes run, and have such a program. The version comes first: an older program must not join
%% while this changes the rows.
-spec upgrade() -> ok | {error, term()}.
upgrade() ->
    Version = docket_cases:version(),
    docket_attempt:steps(
      [fun() ->
               Property = {docket_version, Version},
               upgraded(Name, fun() -> mnesia:write_table_property(Name, Property) end)
       end || Name <- older()]
      ++ [fun() ->
                  Transform = fun docket_cases:upgraded/1,
                  upgraded(Name, fun() -> mnesia:transform_table(Name, Transform, Fields) end)
          end || {Name, Fields} <- other_fields()]).

upgraded(Name, Change) ->
    case docket_mnesia_decisions:change_table(Name, Change) of
        {atomic, ok} -> ok;
        {wait, _} -> {error, busy};
        {aborted, Reason} -> {error, Reason}
    end.
