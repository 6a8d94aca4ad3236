%% @hidden Classifies dynamic calls by the source of their names.
%%
%% A dynamic call takes names that come in while the program runs. There are four kinds. No
%% analysis sees these names. So a person declares them, or the plan may cut a function that such
%% a call needs.
-module(whittle_shake_dynamic).

-export([kinds/0, open/2, opening/1, data/0, scanners/0, asks_for_atoms/2, asks_about_modules/2,
         declaration/1, means/1]).

-export_type([kind/0]).

-type kind() :: remote | data | atoms | code.

%% @doc Lists all kinds of dynamic calls.
-spec kinds() -> [kind(), ...].
kinds() -> [remote, data, atoms, code].

%% @doc Lists the kinds of dynamic calls that the program can make, each with the functions that
%% make it possible. The first functions are those that are not of OTP.
-spec open(whittle_shake_reach:reached(), #{module() => whittle_shake_summary:summary()}) ->
          [{kind(), [mfa() | {root, unicode:chardata()}]}].
open(#{on := On} = Reached, Modules) ->
    Live = live(Reached),
    [{remote, [{root, "distribution is on"}]}
     || #{distribution := {By, _}} <- [On], By =/= whittle_shake_roots:start()]
        ++ [{Kind, Who} || Kind <- [data, atoms, code],
                           Who <- [callers(Live, maps:from_keys(opening(Kind), []), Modules)],
                           Who =/= []].

%% @doc Lists the functions whose calls bring names in. The list is empty for `remote', whose
%% names come in where distribution is on.
-spec opening(kind()) -> [mfa()].
opening(remote) -> [];
opening(data) -> data();
opening(atoms) -> atoms();
opening(code) -> code().

%% A message names few functions. So those that are not of OTP come first: the user knows them.
live(#{live := Live, program := Program, own := Own}) ->
    {First, Others} = lists:partition(fun({M, _, _}) -> is_map_key(M, Own) end,
                                      lists:sort(maps:keys(Live))),
    First ++ [Mfa || {M, _, _} = Mfa <- Others, is_map_key(M, Program)].

callers(Live, Callees, Modules) ->
    asking(fun(Function) -> calls_one_of(Callees, Function) end, Live, Modules).

calls_one_of(Callees, #{calls := Calls}) ->
    lists:any(fun(Call) -> is_map_key(Call, Callees) end, Calls).

%% Lists the functions whose summary satisfies the test, in the order of the given ones.
asking(Has, Live, Modules) ->
    lists:uniq([whittle_shake_name:written({M, F, A})
                || {M, F, A} <- Live, #{M := #{functions := #{{F, A} := Function}}} <- [Modules],
                   Has(Function)]).

%% @doc Lists the functions that read terms, or text of Erlang or Elixir, from outside of the
%% program.
-spec data() -> [mfa()].
data() ->
    [{erlang, binary_to_term, 1}, {erlang, binary_to_term, 2}, {erlang, binary_to_fun, 1},
     {file, consult, 1}, {file, path_consult, 2},
     {file, script, 1}, {file, script, 2}, {file, path_script, 2}, {file, path_script, 3},
     {file, eval, 1}, {file, eval, 2}, {file, path_eval, 2}, {file, path_eval, 3},
     {io, read, 1}, {io, read, 2}, {io, read, 3}, {io, read, 4},
     {dets, open_file, 1}, {dets, open_file, 2}, {ets, file2tab, 1}, {ets, file2tab, 2},
     {mnesia, start, 0}, {mnesia, create_schema, 1}, {disk_log, open, 1},
     {wrap_log_reader, open, 1}, {wrap_log_reader, open, 2},
     {beam_lib, chunks, 2}, {beam_lib, chunks, 3}, {c, erlangrc, 1},
     {shell, start, 0}, {shell, start, 1}, {shell, start, 2}, {shell, server, 1},
     {shell, start_interactive, 0}, {shell, start_interactive, 1}]
        ++ [{file_sorter, F, A} || {F, As} <- [{sort, [1, 2, 3]}, {keysort, [2, 3, 4]},
                                               {merge, [2, 3]}, {keymerge, [3, 4]},
                                               {check, [1, 2]}, {keycheck, [2, 3]}],
                                   A <- As]
        ++ [{io, F, A} || F <- [scan_erl_exprs, scan_erl_form, parse_erl_exprs, parse_erl_form],
                          A <- [1, 2, 3, 4]]
        ++ [{qlc, string_to_handle, A} || A <- [1, 2, 3]]
        ++ scanners().

%% @doc Lists the functions that read Erlang's or Elixir's own text.
-spec scanners() -> [mfa()].
scanners() ->
    [{erl_scan, F, A} || F <- [string, tokens], A <- [1, 2, 3, 4]]
        ++ [{epp, F, A} || F <- [parse_file, open], A <- [1, 2, 3, 4, 5]]
        ++ [{erl_parse, F, 1} || F <- [parse_term, parse_exprs, parse_form]]
        ++ [{'Elixir.Code', F, A}
            || F <- [compile_file, require_file, eval_file, compile_string, eval_string,
                     string_to_quoted, 'string_to_quoted!'], A <- [1, 2, 3]].

%% These functions make atoms from text.
atoms() ->
    [{erlang, F, A} || {F, A} <- [{list_to_atom, 1}, {binary_to_atom, 1}, {binary_to_atom, 2},
                                  {list_to_existing_atom, 1}, {binary_to_existing_atom, 1},
                                  {binary_to_existing_atom, 2}]]
        ++ [{io, fread, 2}, {io, fread, 3}, {io_lib, fread, 2}, {io_lib, fread, 3},
            {init, get_arguments, 0}]
        ++ [{argparse, F, A} || {F, A} <- [{parse, 2}, {parse, 3}, {run, 3}]].

%% These functions load code from elsewhere, or say where to look for it.
code() ->
    [{code, F, A} || {F, A} <- [{load_abs, 1}, {load_abs, 2}, {load_file, 1}, {load_binary, 3},
                                {atomic_load, 1}, {prepare_loading, 1}]]
        ++ [{code, F, A} || F <- [add_path, add_patha, add_pathz, add_paths, add_pathsa,
                                  add_pathsz, set_path], A <- [1, 2]]
        ++ [{code, replace_path, A} || A <- [2, 3]]
        ++ [{erlang, F, 2} || F <- [load_module, prepare_loading]]
        ++ [{c, F, 1} || F <- [c, l, lc, lm, nc, nl]] ++ [{c, F, 2} || F <- [c, nc]]
        ++ [{c, c, 3}]
        ++ [{release_handler, install_release, A} || A <- [1, 2]].

%% @doc Lists the program's functions that ask which functions or modules exist. Such a function
%% gets an answer that leaves out removed code. The first functions are those that are not of OTP.
-spec asks_about_modules(whittle_shake_reach:reached(),
                         #{module() => whittle_shake_summary:summary()}) -> [mfa()].
asks_about_modules(Reached, Modules) ->
    Asking = [{erlang, function_exported, 3}, {code, get_object_code, 1}, {code, which, 1},
              {code, ensure_loaded, 1}, {application, get_key, 2}, {application, get_all_key, 1}],
    Callees = maps:from_keys(Asking, []),
    asking(fun(Function) -> calls_one_of(Callees, Function) orelse asks_a_module(Function) end,
           live(Reached), Modules).

%% `Module:module_info()', Elixir's `Module.__info__(functions)'.
asks_a_module(#{calls := Calls, sites := Sites}) ->
    lists:any(fun({_, Name, _}) -> Name =:= module_info orelse Name =:= '__info__' end,
              Calls ++ Sites).

%% @doc Tests whether a function of these modules asks whether an atom exists.
-spec asks_for_atoms(#{module() => []}, #{module() => whittle_shake_summary:summary()}) ->
          boolean().
asks_for_atoms(Program, Modules) ->
    Asking = [{erlang, list_to_existing_atom, 1}, {erlang, binary_to_existing_atom, 1},
              {erlang, binary_to_existing_atom, 2}, {erlang, binary_to_term, 2}],
    All = [{M, F, A} || {M, #{functions := Functions}} <- maps:to_list(maps:with(maps:keys(Program),
                                                                              Modules)),
                        {F, A} <- maps:keys(Functions)],
    callers(All, maps:from_keys(Asking, []), Modules) =/= [].

%% @doc Returns the option that declares the names.
-spec declaration(kind()) -> string().
declaration(remote) -> "--remote";
declaration(data) -> "--data";
declaration(atoms) -> "--atoms";
declaration(code) -> "--code".

%% @doc Describes which functions a kind of dynamic call may call.
-spec means(kind()) -> string().
means(remote) -> "other nodes may call any exported function";
means(data) -> "terms or code that the program reads as text may name any function";
means(atoms) -> "atoms that the program makes from text may name any module or function";
means(code) -> "code that the program loads while it runs may call any function".
