%% @hidden Maps a metric's name and its label values to a cell, in nested maps.
%%
%% It is nested because three lookups of an atom or a small integer are twice as fast as hashing
%% one list of three (bench/counters). Leaves are cells. The same cell may stand under several
%% spellings of its labels (`get' and `<<"get">>').
-module(whittle_counters_tree).

-export([put/3, delete/2]).
-export_type([tree/0, path/0]).

-type tree() :: #{term() => tree() | whittle_counters_cell:cell()}.
-type path() :: nonempty_list().
%% The metric's name, then the label values as the caller wrote them.

%% @doc Puts a cell at the end of a path.
-spec put(path(), whittle_counters_cell:cell(), tree()) -> tree().
put([Key], Cell, Tree) -> Tree#{Key => Cell};
put([Key | Path], Cell, Tree) ->
    Tree#{Key => put(Path, Cell, maps:get(Key, Tree, #{}))}.

%% @doc Removes a path, and the branches that become empty.
-spec delete(path(), tree()) -> tree().
delete([Key], Tree) -> maps:remove(Key, Tree);
delete([Key | Path], Tree) ->
    case Tree of
        #{Key := Branch} when is_map(Branch) ->
            case delete(Path, Branch) of
                Bare when Bare =:= #{} -> maps:remove(Key, Tree);
                Rest -> Tree#{Key := Rest}
            end;
        _ -> Tree
    end.
