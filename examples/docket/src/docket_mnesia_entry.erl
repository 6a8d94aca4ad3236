%% @doc Tells whether Mnesia and docket can read an entry of one of Mnesia's files.
%%
%% A changed byte may leave an entry that can be decoded. Mnesia ends when it reads an entry of
%% another form, again at each start, and docket cannot show such a row. The forms are those of
%% Mnesia in OTP 27 to 29.
%% @hidden
-module(docket_mnesia_entry).

-export([is_row/2, is_change/2, is_logged/1, is_decided/1, is_header/1]).

%% @doc Tells whether an entry may be in the file of a table with this name. A fragment has the name
%% of its table at the beginning of its own.
-spec is_row(string(), term()) -> boolean().
is_row(Table, Row) when is_tuple(Row), is_atom(element(1, Row)), tuple_size(Row) > 1 ->
    is_header(dcd_log, Row)
        orelse lists:prefix(atom_to_list(element(1, Row)), Table) andalso docket_cases:is_row(Row);
is_row(_, _) -> false.

%% @doc Tells whether an entry may be in the file with the changes of a table.
-spec is_change(string(), term()) -> boolean().
is_change(Table, {{Name, _}, _, _} = Change) when is_atom(Name) ->
    atom_to_list(Name) =:= Table andalso is_change(Change);
is_change(_, Entry) -> is_header(dcl_log, Entry).

%% Mnesia has further operations, which docket does not use.
is_change({{Table, Key}, Row, write}) when is_atom(Table) ->
    is_row(atom_to_list(Table), Row) andalso element(2, Row) =:= Key;
is_change({{Table, _}, _, delete}) -> is_atom(Table);
is_change({{Table, _}, _, clear_table}) -> is_atom(Table);
is_change(_) -> false.

%% @doc Tells whether an entry may be in the log of all changes: one that is about one change has
%% the rows of all tables.
-spec is_logged(term()) -> boolean().
is_logged(Commit) when element(1, Commit) =:= commit, tuple_size(Commit) > 6 ->
    Decision = element(3, Commit),
    Changes = element(5, Commit),
    (Decision =:= presume_commit orelse is_decision(Decision))
        andalso docket_case:is_list_of(fun is_change/1, Changes);
is_logged(Entry) -> is_header(trans_log, Entry) orelse is_decision(Entry).

%% @doc Tells whether an entry may be in the file of decisions: whether changes were made.
-spec is_decided(term()) -> boolean().
is_decided({decision_list, Decisions}) ->
    docket_case:is_list_of(fun is_decision/1, Decisions);
is_decided(Entry) -> is_header(decision_tab, Entry).

is_decision({decision, {tid, Count, _}, Outcome, _, _}) ->
    is_integer(Count)
        andalso lists:member(Outcome, [committed, aborted, presume_abort, pre_commit, unclear]);
is_decision({trans_tid, serial, Count}) -> is_integer(Count);
is_decision({What, Node, _, _}) when What =:= mnesia_up; What =:= mnesia_down -> is_atom(Node);
is_decision({master_nodes, Table, Nodes}) -> is_atom(Table) andalso is_list(Nodes);
is_decision(_) -> false.

%% @doc Tells whether an entry is the header of a table: the first one of its file, and no row.
-spec is_header(term()) -> boolean().
is_header(Entry) -> is_header(dcd_log, Entry).

is_header(Kind, {log_header, Kind, Version, _, _, _}) -> is_version(Kind, Version);
is_header(_, _) -> false.

%% Mnesia ends when it reads another version of the first two, and takes such a header of a table
%% for a row.
is_version(trans_log, Version) ->
    lists:member(Version, [mnesia_log:version(), "4.0", "4.1", "4.2"]);
is_version(decision_tab, Version) -> Version =:= mnesia_log:decision_tab_version();
is_version(_, Version) -> is_list(Version) andalso Version >= "1.0".
