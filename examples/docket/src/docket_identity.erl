%% @doc Keeps in the directory to which node of which service it belongs, and checks that its cases
%% are those of the store.
%%
%% The files of Mnesia and of Ra belong to the name of their node: started with another name, Mnesia
%% forgets its log. And a node whose list lacks former nodes could be a majority without them, and
%% make other changes than they do.
%% @hidden
-module(docket_identity).

-export([check/1, note/0, format_error/1]).

-export_type([error/0]).

-type error() :: {other_store, {mnesia | ra, file:filename()}}
               | {other_node, {node(), file:filename()}}
               | {fewer_nodes, Missing :: [node(), ...]}
               | {damaged, file:filename()}
               | {unreadable, {file:filename(), file:posix()}}
               | {directory, {file:filename(), file:posix() | badarg | terminated}}.

-define(FILE_NAME, "docket.node").
%% Each store with a file that it always has
-define(STORES, [{mnesia, "schema.DAT"}, {ra, "ra"}]).

%% @doc Checks that the directory has no cases of another store, that it belongs to this node, and
%% that the list of nodes has all nodes of its service. The setting `force' allows a list without
%% some of them, or a file that does not tell them.
-spec check(file:filename()) -> ok | {error, error()}.
check(Dir) ->
    Own = docket_config:get(store),
    case [Store || {Store, Name} <- ?STORES, filelib:is_file(filename:join(Dir, Name))] of
        [Other] when Other =/= Own -> {error, {other_store, {Other, Dir}}};
        %% An earlier program has let both stores use it.
        _ -> check_nodes(Dir)
    end.

check_nodes(Dir) ->
    File = filename:join(Dir, ?FILE_NAME),
    case {docket_directory:read(File), docket_config:get(force)} of
        {{ok, [{Node, [_ | _]}]}, _} when Node =/= node() -> {error, {other_node, {Node, Dir}}};
        {{ok, [{_, [_ | _] = Nodes}]}, false} ->
            case Nodes -- docket_cluster:nodes() of
                [] -> ok;
                Missing -> {error, {fewer_nodes, Missing}}
            end;
        {{error, enoent}, _} -> written(File, {node(), [node()]});
        {{error, Reason}, _} -> {error, {unreadable, {File, Reason}}};
        {_, false} -> {error, {damaged, File}};
        {_, true} -> ok
    end.

%% @doc Notes the list of nodes, when this node is about to take part in their service. A list with
%% a wrong name is not noted before: a new service waits for all nodes.
-spec note() -> ok | {error, error()}.
note() ->
    Own = {node(), docket_cluster:nodes()},
    case docket_config:get(dir) of
        none -> ok;
        Dir ->
            File = filename:join(Dir, ?FILE_NAME),
            case docket_directory:read(File) of
                {ok, [Own]} -> ok;
                _ -> written(File, Own)
            end
    end.

written(File, Own) ->
    case docket_directory:write(File, io_lib:format("~0p.~n", [Own])) of
        ok -> ok;
        {error, Reason} -> {error, {directory, {filename:dirname(File), Reason}}}
    end.

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({other_store, {Store, Dir}}) ->
    io_lib:format("the directory ~ts has cases of the store ~s: start with DOCKET_STORE=~s, or "
                  "choose another directory (DOCKET_DIR)", [Dir, Store, Store]);
format_error({other_node, {Node, Dir}}) ->
    io_lib:format("the directory ~ts belongs to ~s, and this node is ~s: start it ~s, or choose "
                  "another directory (DOCKET_DIR)",
                  [Dir, case Node of
                            nonode@nohost -> "a node without a name";
                            _ -> ["the node ", atom_to_list(Node)]
                        end, node(),
                   case Node of
                       nonode@nohost -> "without RELEASE_NODE";
                       _ -> "with the name of that node (RELEASE_NODE)"
                   end]);
format_error({fewer_nodes, Missing}) ->
    ["DOCKET_NODES lacks ", docket_config:names(Missing), ", which had a part in this service and "
     "may have later cases: give all nodes the whole list. To go on without these nodes, or if "
     "one is a mistake, start each node that refuses its list once with DOCKET_FORCE=true, one "
     "after the other"];
format_error({damaged, File}) ->
    ["the file ", File, " is damaged, so docket does not know to which node its directory belongs. "
     "If it belongs to ", atom_to_list(node()), ", start once with DOCKET_FORCE=true"
     | case docket_cluster:nodes() of
           [_] -> "";
           _ -> ": this loads its cases, and later ones of the other nodes are lost. Or start with "
                    "an empty directory: this node then takes the cases of the others"
       end];
format_error({unreadable, {File, Reason}}) ->
    ["the file ", File, " cannot be read (", file:format_error(Reason),
     "): check that this user may do that"];
format_error({directory, Error}) -> docket_directory:format_error({write, Error}).
