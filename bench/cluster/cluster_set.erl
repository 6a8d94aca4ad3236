%% @doc Checks a set that several nodes keep: what was added must be there in the end.
%%
%% Each element is added at most once, and removed at most once. An acknowledged add that no removal
%% may have undone must be in the final set. An acknowledged removal must have removed its element.
%% An add that certainly failed must not show.
-module(cluster_set).

-export([check/2]).

-export_type([element/0, operation/0, fault/0]).

-type element() :: term().
-type operation() :: {add | remove, element(), ok | failed | unknown}.

%% `lost': added and not there. `revived': removed and there again. `invented': there, although no
%% add may have added it.
-type fault() :: {lost | revived | invented, element()}.

%% @doc Compares the final set with the operations before it.
-spec check([operation()], Final :: [element()]) -> [fault()].
check(Operations, Final) ->
    Elements = fun(What, Results) ->
                       [Element || {Did, Element, Result} <- Operations, Did =:= What,
                                   lists:member(Result, Results)]
               end,
    There = marked(Final),
    Removed = marked(Elements(remove, [ok, unknown])),
    Added = marked(Elements(add, [ok, unknown])),
    [{lost, Element} || Element <- Elements(add, [ok]), not is_map_key(Element, There),
                        not is_map_key(Element, Removed)]
        ++ [{revived, Element} || Element <- Elements(remove, [ok]), is_map_key(Element, There)]
        ++ [{invented, Element} || Element <- lists:usort(Final),
                                   not is_map_key(Element, Added)].

marked(Elements) -> maps:from_list([{Element, []} || Element <- Elements]).
