%% @hidden Decides which parts of ERTS a program does without.
%%
%% A plan for `vm => program' also shakes the modules that are built into the VM. {@link cut/2}
%% returns the parts that the plan leaves without a caller: functions (some of them are BIFs),
%% ERTS's own NIFs and drivers, and the built-in modules without the dead functions. The tables of
%% this module are those of OTP 29.
-module(whittle_shake_vm).

-export([roots/1, without_starts/1, traps/0, cut/2, removed/2]).

-export_type([cut/0]).

-type cut() ::
        #{functions := #{mfa() => []},      % no function can call these
          libraries := [string()],          % ERTS's own NIFs and drivers ("zlib", "inet"), and
                                            % "terminfo", with which `prim_tty' draws
          programs := [string()],           % OTP's programs in the VM's executable ("heart")
          preloaded := #{module() => binary()}}. % the rest of the built-in modules

%% Modules whose NIFs `erl_init:start/2' loads at each start, and the library of each. The plan
%% follows no call of `erl_init' to them.
-define(STARTED, [zlib, erl_tracer, prim_socket, prim_net]).

%% `erl_init:start/2' calls `on_load/0' of these in any case. It calls that of `prim_socket' and
%% `prim_net' if `prim_socket' is there.
-define(ALWAYS_STARTED, [zlib, erl_tracer]).

%% Other modules with NIFs that ERTS contains. Their libraries have the names of the modules.
-define(WITH_NIFS, [prim_tty, zstd]).

%% The drivers of ERTS, and the modules that open their ports.
-define(DRIVERS, [{"inet", [prim_inet]}, {"ram_file", [ram_file]}]).

%% The programs of OTP that the executable contains besides ERTS and can do without, and the modules
%% that start them.
-define(PROGRAMS, [{"inet_gethost", inet_gethost_native}, {"heart", heart}, {"memsup", memsup},
                   {"cpu_sup", cpu_sup}]).

%% The functions of `erlang' that C code looks up by name: `erts_export_put' and `trap_function' in
%% erts/emulator/beam of OTP 29. C code calls a BIF by the number of its row, which always stays.
-define(LOOKED_UP, [{dmonitor_node, 3}, {convert_time_unit, 3}, {delay_trap, 2},
                    {set_cpu_topology, 1}, {format_cpu_topology, 1}, {alloc_info, 1},
                    {alloc_sizes, 1}, {gather_gc_info_result, 1}]).

%% @doc Lists the functions of `erlang' and `erts_internal' that C code calls by name.
%%
%% Of `erts_internal' these are all exported functions but the BIFs, whose code in the module only
%% raises an error.
-spec roots(#{module() => whittle_shake_summary:summary()}) -> [mfa()].
roots(Modules) ->
    [{erlang, F, A} || #{erlang := #{functions := Functions}} <- [Modules],
                       {F, A} = FA <- ?LOOKED_UP, is_map_key(FA, Functions)]
        ++ [{erts_internal, F, A}
            || #{erts_internal := #{functions := Functions, exports := Exports}} <- [Modules],
               {F, A} = FA <- Exports, not is_stub(maps:get(FA, Functions))].

is_stub(#{calls := Calls}) ->
    Calls =/= [] andalso lists:all(fun({M, F, _}) -> {M, F} =:= {erlang, nif_error} end, Calls).

%% @doc Removes from `erl_init' the calls that load NIFs. Another function that calls one of these
%% modules keeps the function that loads its NIFs.
-spec without_starts(#{module() => whittle_shake_summary:summary()}) ->
          #{module() => whittle_shake_summary:summary()}.
without_starts(#{erl_init := #{functions := Functions} = Init} = All) ->
    Started = maps:map(fun(_, Summary) -> Summary#{on_load := [{on_load, 0}]} end,
                       maps:with(?STARTED, All)),
    Less = maps:map(fun(_, #{calls := Calls} = Function) ->
                            Function#{calls := [Call || {M, _, _} = Call <- Calls,
                                                        not lists:member(M, ?STARTED)]}
                    end, Functions),
    maps:merge(All, Started#{erl_init => Init#{functions := Less}});
without_starts(Modules) -> Modules.

%% @doc Maps BIFs to functions that they need: a trace to a process or a port calls the NIFs of
%% `erl_tracer' (`erts_term_to_tracer' in erl_trace.c).
-spec traps() -> #{mfa() => [mfa()]}.
traps() ->
    maps:from_keys([{erts_internal, trace, 3}, {erts_internal, trace, 4},
                    {erts_internal, trace_pattern, 3}, {erts_internal, trace_pattern, 4},
                    {erts_internal, trace_session_create, 3},
                    {seq_trace, set_system_tracer, 1}],
                   [{erl_tracer, enabled, 3}, {erl_tracer, trace, 5}]).

%% @doc Returns the parts that the plan leaves without a caller. `Preloaded' are the modules that
%% are built into the VM of the plan's release.
-spec cut(whittle_shake:plan(), #{module() => binary()}) -> cut().
cut(#{hot := Hot, summaries := Summaries, answers := Answers,
      reached := #{blocked := Blocked}} = Plan, Preloaded) ->
    Keep = maps:groups_from_list(fun({M, _, _}) -> M end, fun({_, F, A}) -> {F, A} end,
                                 maps:keys(Hot)),
    Dead = fun(M) -> is_map_key(M, Summaries) andalso not is_map_key(M, Keep) end,
    Ports = opens_ports(Plan),
    Stubs = maps:groups_from_list(fun({{M, _, _}, _}) -> M end,
                                  fun({{_, F, A}, Answer}) -> {F, A, Answer} end, Answers),
    %% OTP's own code calls BIFs of features that are off, and does not expect `undef':
    %% net_kernel:dflag_unicode_io/1 for each print.
    Features = whittle_shake_feature:standard(program),
    Called = maps:from_keys([Mfa || {Name, Edges} <- maps:to_list(Blocked),
                                    not whittle_shake_feature:is_of_vm(Name, Features),
                                    {Mfa, _} <- Edges], []),
    #{functions => maps:from_list([{Mfa, []}
                                   || {M, #{functions := Functions}} <- maps:to_list(Summaries),
                                      {F, A} <- maps:keys(Functions),
                                      Mfa <- [{M, F, A}], not is_map_key(Mfa, Hot),
                                      not is_map_key(Mfa, Called)]),
      libraries => [atom_to_list(M) || M <- ?STARTED ++ ?WITH_NIFS, Dead(M)]
          ++ ["terminfo" || not is_map_key({prim_tty, setupterm, 0}, Hot)]
          ++ [Name || {Name, Openers} <- ?DRIVERS, not Ports, lists:all(Dead, Openers)],
      programs => [Name || {Name, Starter} <- ?PROGRAMS, not Ports,
                           not is_map_key(Starter, Keep)],
      preloaded => maps:from_list(
                     [{M, Less} || {M, Bytes} <- maps:to_list(Preloaded),
                                   Answering <- [started(M, Keep) ++ maps:get(M, Stubs, [])],
                                   {ok, Less} <- [less(Bytes, maps:get(M, Keep, []), Answering)]])}.

%% The program may open a port of any driver by a name from data. It calls the function, or holds
%% its name, or a person declares that name.
opens_ports(#{input := #{kept := Kept, atoms := Named}, hot := Hot, summaries := Summaries,
              reached := #{program := Program}}) ->
    lists:any(fun({Mfa, _}) -> is_open_port(Mfa) end, Kept)
        orelse lists:keymember(open_port, 1, Named)
        orelse lists:any(fun({M, F, A}) ->
                                 #{M := #{functions := #{{F, A} := Function}}} = Summaries,
                                 #{calls := Calls, atoms := Atoms} = Function,
                                 is_map_key(M, Program)
                                     andalso (lists:any(fun is_open_port/1, Calls)
                                              orelse lists:member(open_port, Atoms))
                         end, maps:keys(Hot)).

is_open_port({M, open_port, 2}) -> M =:= erlang orelse M =:= erts_internal;
is_open_port(_) -> false.

less(Bytes, Kept, Answering) ->
    whittle_shake_cut:module(whittle_shake_cut:taken_apart(Bytes), maps:from_keys(Kept, []),
                             Answering).

%% The functions that `erl_init:start/2' calls in a module without any other.
started(M, Keep) when is_map_key(M, Keep) -> [];
started(prim_net, Keep) -> [{on_load, 0, {value, ok}} || is_map_key(prim_socket, Keep)];
started(M, _) -> [{on_load, 0, {value, ok}} || lists:member(M, ?ALWAYS_STARTED)].

%% @doc Lists the removed modules and exported functions of the VM for
%% {@link whittle_shake_removed}. The other modules of the plan are those of the system.
-spec removed(whittle_shake:plan(), whittle_system:system()) -> [mfa() | module()].
removed(#{vm := whole}, _) -> [];
removed(#{vm := program, hot := Hot, summaries := Summaries}, System) ->
    BuiltIn = maps:keys(maps:without([M || {_, M, _} <- whittle_system:modules(System)],
                                     Summaries)),
    Live = maps:from_keys([M || {M, _, _} <- maps:keys(Hot)], []),
    lists:append([case is_map_key(M, Live) orelse lists:member(M, ?ALWAYS_STARTED) of
                      true ->
                          [{M, F, A} || #{M := #{exports := Exports}} <- [Summaries],
                                        {F, A} <- Exports, F =/= module_info,
                                        not is_map_key({M, F, A}, Hot),
                                        {F, A} =/= {on_load, 0}];
                      false -> [M]
                  end || M <- BuiltIn]).
