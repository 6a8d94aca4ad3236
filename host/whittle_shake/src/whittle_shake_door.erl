%% @doc Doors: the ways by which names come in that are not in the code.
%%
%% What a door lets in cannot be seen, so it is declared, or the plan may cut what is
%% called by it.
-module(whittle_shake_door).

-export([open/2, asks_for_atoms/2, declaration/1, means/1]).

-export_type([door/0]).

-type door() :: remote | data | atoms.

%% @doc The doors that the program has open, each with who opens it.
-spec open(whittle_shake_reach:reached(), #{module() => whittle_shake_summary:summary()}) ->
          [{door(), [mfa() | {root, unicode:chardata()}]}].
open(#{live := Live, on := On, program := Program}, Modules) ->
    Own = [Mfa || {M, _, _} = Mfa <- lists:sort(maps:keys(Live)), is_map_key(M, Program)],
    [{remote, [{root, "distribution is on"}]}
     || #{distribution := {By, _}} <- [On], By =/= whittle_shake_roots:start()]
        ++ [{Door, Who} || {Door, Callees} <- [{data, data()}, {atoms, atoms()}],
                           Who <- [callers(Own, maps:from_list([{C, []} || C <- Callees]),
                                           Modules)],
                           Who =/= []].

callers(Own, Callees, Modules) ->
    [{M, F, A} || {M, F, A} <- Own,
                  #{M := #{functions := #{{F, A} := #{calls := Calls}}}} <- [Modules],
                  lists:any(fun(Call) -> is_map_key(Call, Callees) end, Calls)].

%% Terms of the network or of disk.
data() ->
    [{erlang, binary_to_term, 1}, {erlang, binary_to_term, 2}, {erlang, binary_to_fun, 1},
     {file, consult, 1}, {file, path_consult, 2}, {file, script, 1}, {file, eval, 1},
     {dets, open_file, 1}, {dets, open_file, 2}, {ets, file2tab, 1}, {ets, file2tab, 2},
     {mnesia, start, 0}, {mnesia, create_schema, 1}, {disk_log, open, 1}].

%% Atoms made of text.
atoms() ->
    [{erlang, F, A} || {F, A} <- [{list_to_atom, 1}, {binary_to_atom, 1}, {binary_to_atom, 2},
                                  {list_to_existing_atom, 1}, {binary_to_existing_atom, 1},
                                  {binary_to_existing_atom, 2}]].

%% @doc Whether a function of these modules asks whether an atom exists.
-spec asks_for_atoms(#{module() => []}, #{module() => whittle_shake_summary:summary()}) ->
          boolean().
asks_for_atoms(Program, Modules) ->
    Asking = [{erlang, list_to_existing_atom, 1}, {erlang, binary_to_existing_atom, 1},
              {erlang, binary_to_existing_atom, 2}, {erlang, binary_to_term, 2}],
    All = [{M, F, A} || {M, #{functions := Functions}} <- maps:to_list(maps:with(maps:keys(Program),
                                                                              Modules)),
                        {F, A} <- maps:keys(Functions)],
    callers(All, maps:from_keys(Asking, []), Modules) =/= [].

%% @doc The option that declares what comes in by it.
-spec declaration(door()) -> string().
declaration(remote) -> "--remote";
declaration(data) -> "--data";
declaration(atoms) -> "--atoms".

%% @doc What it lets in.
-spec means(door()) -> string().
means(remote) -> "other nodes may call any function that is exported";
means(data) -> "terms that are read may name any function";
means(atoms) -> "atoms that are made of text may name any module or function".
