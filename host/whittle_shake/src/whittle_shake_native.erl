%% @doc What the functions written in C do with what they are given, as far as atoms,
%% funs and what structures hold are concerned.
%%
%% A function that is not here and has no body counts as one that may give back
%% whatever it was given and whatever any structure holds, and may put what it was
%% given anywhere: {@link anything/1}.
-module(whittle_shake_native).

-export([effects/1, anything/1, vm/0]).

-export_type([effect/0, source/0]).

%% Where what comes from. Of an element of a tuple, or of all within at any depth.
-type effect() :: {result | whittle_shake_value:place(), source()}.
-type source() :: {arg, non_neg_integer()} | {atom, atom()} | any_atom | vm_atom | reference
                | nothing | {tuple, [source()]} | {any_tuple, source()}
                | {get, source(), whittle_shake_value:class(), non_neg_integer() | any}
                | {deep, source()} | whittle_shake_value:place().

-define(TABLES, {tables, any}).
-define(ANY(From), {get, From, {any, any}, any}).
-define(KEY(From), {get, From, {any, 2}, 0}).
-define(VALUE(From), {get, From, {any, 2}, 1}).

%% @doc What it does; `unknown' where nobody has said.
-spec effects(mfa()) -> [effect()] | unknown.
effects({erlang, F, A}) -> erlang(F, A);
effects({lists, F, _}) when F =:= member; F =:= keymember -> boolean();
effects({lists, keyfind, 3}) -> [{result, {arg, 2}}, {result, {atom, false}}];
effects({lists, keysearch, 3}) ->
    [{result, {tuple, [{atom, value}, {arg, 2}]}}, {result, {atom, false}}];
effects({lists, reverse, 2}) -> [{result, {arg, 0}}, {result, {arg, 1}}];
effects({ets, F, A}) -> ets(F, A);
effects({maps, F, A}) -> maps(F, A);
effects({persistent_term, F, A}) -> persistent(F, A);
effects({erts_internal, F, A}) -> internal(F, A);
effects({records, F, A}) when F =:= create; F =:= update ->
    [{result, {arg, I}} || I <- lists:seq(0, A - 1)];
effects({records, get, 2}) -> [{result, ?VALUE({arg, 1})}];
effects({records, F, _}) when F =:= get_name; F =:= get_module; F =:= get_field_names;
                             F =:= get_definition; F =:= is_exported -> plain();
effects({erts_debug, copy_shared, _}) -> [{result, {arg, 0}}];
effects({erts_debug, dist_ext_to_term, _}) -> [{result, any_atom}];
effects({code, _, _} = Mfa) -> listed(Mfa, [coverage_support, get_coverage, get_coverage_mode,
                                           get_debug_info, reset_coverage, set_coverage_mode]);
effects({erl_ddll, _, _} = Mfa) -> listed(Mfa, [demonitor, format_error_int, info, loaded_drivers,
                                               monitor, try_load, try_unload]);
effects({erl_debugger, _, _} = Mfa) ->
    listed(Mfa, [breakpoint, breakpoints, instrumentations, peek_stack_frame_slot, peek_xreg,
                 register, stack_frames, supported, toggle_instrumentations, unregister, whereis,
                 xregs_count]);
effects({erl_tracer, _, _} = Mfa) -> listed(Mfa, [enabled, trace]);
effects({error_logger, _, _} = Mfa) -> listed(Mfa, [warning_map]);
effects({erts_literal_area_collector, _, _} = Mfa) ->
    listed(Mfa, [release_area_switch, send_copy_request]);
effects({erts_trace_cleaner, _, _} = Mfa) -> listed(Mfa, [check, send_trace_clean_signal]);
effects({erts_debug, _, _} = Mfa) ->
    listed(Mfa, [breakpoint, dirty, dirty_cpu, dirty_io, disassemble, flat_size,
                 get_internal_state, instructions, interpreter_size, lcnt_clear, lcnt_collect,
                 lcnt_control, map_info, same, set_internal_state, size_shared,
                 unaligned_bitstring]);
effects({file, _, _} = Mfa) -> listed(Mfa, [native_name_encoding]);
effects({io, _, _} = Mfa) -> listed(Mfa, [printable_range]);
effects({net_kernel, _, _} = Mfa) -> listed(Mfa, [dflag_unicode_io]);
effects({os, _, _} = Mfa) -> listed(Mfa, [env, getenv, getpid, perf_counter, putenv, set_signal,
                                         system_time, timestamp, unsetenv]);
effects({string, _, _} = Mfa) -> listed(Mfa, [list_to_float]);
effects({re, _, _} = Mfa) -> listed(Mfa, [compile, import, inspect, internal_run, run, version]);
effects({unicode, _, _} = Mfa) -> listed(Mfa, [bin_is_7bit, characters_to_binary,
                                              characters_to_list]);
effects({binary, _, _} = Mfa) ->
    listed(Mfa, [at, compile_pattern, copy, decode_unsigned, encode_unsigned, first, last,
                 list_to_bin, longest_common_prefix, longest_common_suffix, match, matches, part,
                 referenced_byte_size, split]);
effects({math, F, _}) when F =/= module_info -> [];
effects({M, F, _})
  when M =:= atomics, F =/= new; M =:= prim_buffer; M =:= prim_file, F =/= read_file;
       M =:= prim_net; M =:= prim_socket; M =:= prim_tty; M =:= zlib; M =:= zstd ->
    case is_nif(M, atom_to_list(F)) of
        true -> plain();
        false -> unknown
    end;
effects(_) -> unknown.

is_nif(M, _) when M =:= atomics; M =:= prim_buffer -> true;
is_nif(prim_socket, "nif_" ++ _) -> true;
is_nif(prim_net, "nif_" ++ _) -> true;
is_nif(prim_file, Name) ->
    lists:suffix("_nif", Name)
        orelse lists:member(Name, ["internal_name2native", "internal_native2name",
                                   "internal_normalize_utf8", "is_translatable"]);
is_nif(prim_tty, Name) ->
    lists:suffix("_nif", Name)
        orelse lists:member(Name, ["isatty", "isprint", "setlocale", "sizeof_wchar", "tty_create",
                                   "tty_encoding", "tty_init", "tty_is_open", "tty_select",
                                   "tty_window_size", "wcswidth", "wcwidth"]);
is_nif(_, Name) -> lists:suffix("_nif", Name).

%% @doc What one of that many arguments may do of which nothing is known.
-spec anything(arity()) -> [effect()].
anything(Arity) ->
    [{result, {deep, unknown}}, {result, {any_tuple, {deep, unknown}}}, {result, vm_atom}]
        ++ [{unknown, {arg, I}} || I <- lists:seq(0, Arity - 1)].

%% @doc What the VM itself builds and puts where.
-spec vm() -> [effect()].
vm() ->
    %% A monitor's message has a tag that can be chosen.
    Down = fun(Tag) -> {tuple, [Tag, reference, {atom, process}, nothing, exceptions]} end,
    Module = fun(Name) ->
                     {tuple, [{atom, error_info}, {tuple, [{atom, module}, {atom, Name}]}]}
             end,
    [{exceptions, Source}
     %% What is named in a stack trace with its function is live, so that only the module's
     %% name could bring more to life.
     || Source <- [{tuple, [modules, nothing, nothing, nothing]}, {tuple, [exceptions, exceptions]},
                   {tuple, [{atom, nocatch}, exceptions]}, {tuple, [{atom, 'EXIT'}, exceptions]},
                   %% Who describes errors of functions in C (`erl_bif_info.c').
                   {tuple, [modules, nothing, nothing, Module(erl_erts_errors)]},
                   {tuple, [modules, nothing, nothing, Module(erl_stdlib_errors)]},
                   {tuple, [modules, nothing, nothing, Module(erl_kernel_errors)]}, vm_atom]]
        ++
    [{messages, Source}
     || Source <- [{tuple, [{atom, 'EXIT'}, nothing, exceptions]}, Down({atom, 'DOWN'}),
                   Down({get, unknown, {{tag, tag}, 2}, 1}),
                   {tuple, [{atom, spawn_reply}, reference, vm_atom, exceptions]},
                   {tuple, [{get, unknown, {{tag, reply_tag}, 2}, 1}, reference, vm_atom,
                            exceptions]},
                   {tuple, [{atom, timeout}, reference, messages]},
                   {tuple, [{atom, inet_reply}, nothing, vm_atom]},
                   {tuple, [{atom, inet_reply}, nothing, {tuple, [{atom, error}, vm_atom]}]},
                   {tuple, [{atom, inet_async}, nothing, reference, vm_atom]},
                   {tuple, [{atom, inet_async}, nothing, reference,
                            {tuple, [{atom, error}, vm_atom]}]},
                   {tuple, [{atom, tcp_error}, nothing, vm_atom]},
                   {tuple, [{atom, udp_error}, nothing, vm_atom]},
                   {tuple, [{atom, '$socket'}, nothing, vm_atom, reference]},
                   vm_atom]].

%% Internal

%% Also atoms of the VM's own.
plain() -> [{result, vm_atom}, {result, {tuple, [{atom, error}, vm_atom]}}].

boolean() -> [{result, {atom, true}}, {result, {atom, false}}].

listed({_, F, _}, Names) ->
    case lists:member(F, Names) of
        true -> plain();
        false -> unknown
    end.

erlang(F, _) when F =:= hd; F =:= tl -> [{result, {arg, 0}}];
erlang(F, 2) when F =:= min; F =:= max; F =:= '++'; F =:= append ->
    [{result, {arg, 0}}, {result, {arg, 1}}];
erlang(F, 2) when F =:= '--'; F =:= subtract -> [{result, {arg, 0}}];
erlang(append_element, 2) ->
    [{result, {any_tuple, ?ANY({arg, 0})}}, {result, {any_tuple, {arg, 1}}}];
erlang(insert_element, 3) ->
    [{result, {any_tuple, ?ANY({arg, 1})}}, {result, {any_tuple, {arg, 2}}}];
erlang(delete_element, 2) -> [{result, {any_tuple, ?ANY({arg, 1})}}];
erlang(make_tuple, 2) -> [{result, {any_tuple, {arg, 1}}}];
erlang(make_tuple, 3) ->
    [{result, {any_tuple, {arg, 1}}}, {result, {any_tuple, ?VALUE({arg, 2})}}];
erlang(tuple_to_list, 1) -> [{result, ?ANY({arg, 0})}];
erlang(put, 2) -> [{{dictionary, any}, {arg, 1}}, {{dictionary, keys}, {arg, 0}},
                   {result, {dictionary, any}}];
erlang(F, 1) when F =:= get; F =:= erase -> [{result, {dictionary, any}}];
erlang(F, 0) when F =:= get; F =:= erase ->
    [{result, {tuple, [{dictionary, keys}, {dictionary, any}]}}];
erlang(get_keys, _) -> [{result, {dictionary, keys}}];
erlang(send, _) -> [{messages, {arg, 1}}, {result, {arg, 1}}];
erlang('!', _) -> [{messages, {arg, 1}}, {result, {arg, 1}}];
erlang(F, _) when F =:= send_after; F =:= start_timer ->
    [{messages, {arg, 2}}, {result, reference}];
erlang(F, A) when F =:= error; F =:= throw; F =:= exit, A < 3 ->
    [{exceptions, {arg, I}} || I <- lists:seq(0, min(A, 2) - 1)];
erlang(F, A) when F =:= exit; F =:= exit_signal ->
    [{exceptions, {arg, I}} || I <- lists:seq(1, A - 1)];
erlang(raise, 3) -> [{exceptions, {arg, 1}}];
erlang(F, _) when F =:= binary_to_term -> [{result, external}, {result, any_atom}];
erlang(F, _) when F =:= term_to_binary; F =:= term_to_iovec -> [{external, {arg, 0}}];
erlang(F, _) when F =:= list_to_atom; F =:= list_to_existing_atom; F =:= binary_to_atom;
                  F =:= binary_to_existing_atom ->
    [{result, any_atom}];
erlang(F, _) when F =:= loaded; F =:= pre_loaded -> [{result, modules}];
erlang(fun_info, 2) ->
    [{result, {tuple, [{atom, module}, modules]}}, {result, ?ANY({arg, 0})}];
erlang(fun_info_mfa, 1) -> [{result, {tuple, [modules, nothing, nothing]}}];
erlang(get_module_info, _) -> [{result, modules}];
erlang(port_set_data, 2) -> [{external, {arg, 1}}];
erlang(port_get_data, 1) -> [{result, external}];
erlang(match_spec_test, 3) ->
    [{result, {deep, {arg, 0}}}, {result, {any_tuple, {deep, {arg, 0}}}}];
erlang(seq_trace_print, A) -> [{messages, {arg, A - 1}}];
erlang(monitor, 3) -> [{unknown, {arg, 2}}, {result, reference}];
erlang(nif_error, _) -> [];
erlang(F, _) ->
    Kinds = [{boolean(), tests()}, {[], plain_of_erlang()}, {plain(), atoms_of_erlang()},
             {[{result, reference}], references()}],
    case [Effects || {Effects, Names} <- Kinds, lists:member(F, Names)] of
        [Effects | _] -> Effects;
        [] -> unknown
    end.

tests() ->
    ['/=', '<', '=/=', '=:=', '=<', '==', '>', '>=', 'and', 'or', 'xor', 'not', is_atom, is_binary,
     is_bitstring, is_boolean, is_float, is_function, is_integer, is_list, is_map, is_map_key,
     is_number, is_pid, is_port, is_record, is_reference, is_tuple, is_builtin, function_exported,
     is_process_alive, module_loaded, check_old_code, register, unregister, link, unlink,
     monitor_node, demonitor].

%% Numbers, binaries, strings, processes, ports, and tuples of them.
plain_of_erlang() ->
    ['*', '+', '-', '/', abs, adler32, adler32_combine, atom_to_binary, atom_to_list, 'band',
     binary_part, binary_to_float, binary_to_list, bit_size, bitstring_to_list, 'bnot', 'bor',
     'bsl', 'bsr', bump_reductions, 'bxor', byte_size, ceil, crc32, crc32_combine, date, 'div',
     external_size, float, float_to_binary, float_to_list, floor, fun_to_list,
     garbage_collect_message_area, group_leader, halt, integer_to_binary, integer_to_list,
     iolist_size, iolist_to_binary, iolist_to_iovec, length, list_to_binary, list_to_bitstring,
     list_to_float, list_to_pid, list_to_port, localtime, localtime_to_universaltime, map_size, md5,
     md5_final, md5_init, md5_update, monotonic_time, now, phash, phash2, pid_to_list, port_to_list,
     ports, posixtime_to_universaltime, processes, ref_to_list, 'rem', round, self, size,
     split_binary, system_time, time, time_offset, timestamp, trunc, tuple_size, unique_integer,
     universaltime, universaltime_to_localtime, universaltime_to_posixtime].

atoms_of_erlang() ->
    [call_on_load_function, cancel_timer, decode_packet, delete_module, display, display_string,
     dist_ctrl_get_data, dist_ctrl_get_data_notification, dist_ctrl_get_opt,
     dist_ctrl_input_handler, dist_ctrl_put_data, dist_ctrl_set_opt, dist_get_stat,
     dt_append_vm_tag_data, dt_get_tag, dt_get_tag_data, dt_prepend_vm_tag_data, dt_put_tag,
     dt_restore_tag, dt_spread_tag, finish_after_on_load, finish_loading,
     has_prepared_code_on_load, load_nif, node, nodes, process_flag, read_timer, registered,
     resume_process, seq_trace, seq_trace_info, setnode, spawn_request_abandon, statistics,
     system_flag, system_info, system_profile, trace_delivered, trace_info, unalias, whereis].

references() -> [alias, list_to_ref, make_ref, monitor].

%% Which table it is, where the call says so, is told by {@link whittle_shake_facts}.
ets(F, 2) when F =:= insert; F =:= insert_new -> [{?TABLES, {arg, 1}} | boolean()];
ets(F, _) when F =:= lookup; F =:= match_object; F =:= slot; F =:= take ->
    [{result, ?TABLES}, {result, {tuple, [?TABLES, nothing]}}, {result, vm_atom}];
ets(F, _) when F =:= first; F =:= last; F =:= next; F =:= prev ->
    [{result, ?ANY(?TABLES)}, {result, vm_atom}];
ets(F, _) when F =:= first_lookup; F =:= last_lookup; F =:= next_lookup; F =:= prev_lookup ->
    [{result, {tuple, [?ANY(?TABLES), ?TABLES]}}, {result, vm_atom}];
ets(F, _) when F =:= match; F =:= select; F =:= select_reverse; F =:= match_spec_run_r ->
    [{result, {deep, ?TABLES}}, {result, {any_tuple, {deep, ?TABLES}}}, {result, vm_atom}]
        ++ [{?TABLES, {arg, 0}} || F =:= match_spec_run_r];
ets(update_element, A) ->
    [{?TABLES, {any_tuple, ?VALUE({arg, 2})}}] ++ [{?TABLES, {arg, 3}} || A =:= 4] ++ boolean();
ets(update_counter, A) -> [{?TABLES, {arg, 3}} || A =:= 4];
ets(give_away, 3) ->
    [{messages, {tuple, [{atom, 'ETS-TRANSFER'}, nothing, nothing, {arg, 2}]}}];
ets(new, 2) -> [{unknown, {arg, 1}}, {result, reference}, {result, {arg, 0}}];
ets(F, _) ->
    case lists:member(F, [delete, delete_object, info, internal_delete_all, internal_request_all,
                          internal_select_delete, is_compiled_ms, match_spec_compile, member,
                          rename, safe_fixtable, select_count, setopts, whereis]) of
        true -> plain();
        false -> unknown
    end.

%% A map is its entries, tuples of key and value.
maps(find, 2) ->
    [{result, {tuple, [{atom, ok}, ?VALUE({arg, 1})]}}, {result, {atom, error}}];
maps(from_keys, 2) -> [{result, {tuple, [{arg, 0}, {arg, 1}]}}];
maps(get, 2) -> [{result, ?VALUE({arg, 1})}];
maps(get, 3) -> [{result, ?VALUE({arg, 1})}, {result, {arg, 2}}];
maps(is_key, 2) -> boolean();
maps(keys, 1) -> [{result, ?KEY({arg, 0})}];
maps(F, 3) when F =:= put; F =:= update ->
    [{result, {tuple, [{arg, 0}, {arg, 1}]}}, {result, {arg, 2}}];
maps(take, 2) -> [{result, {tuple, [?VALUE({arg, 1}), {arg, 1}]}}, {result, {atom, error}}];
maps(values, 1) -> [{result, ?VALUE({arg, 0})}];
maps(from_list, 1) -> [{result, {arg, 0}}];
maps(merge, 2) -> [{result, {arg, 0}}, {result, {arg, 1}}];
maps(remove, 2) -> [{result, {arg, 1}}];
maps(_, _) -> unknown.

persistent(F, A) when F =:= put; F =:= put_new -> [{persistent, {arg, A - 1}}];
persistent(get, 1) -> [{result, persistent}];
persistent(get, 2) -> [{result, persistent}, {result, {arg, 1}}];
persistent(get, 0) -> [{result, {tuple, [nothing, persistent]}}];
persistent(F, _) when F =:= erase; F =:= info -> plain();
persistent(_, _) -> unknown.

internal(map_next, 3) ->
    [{result, {tuple, [?KEY({arg, 1}), ?VALUE({arg, 1}), {arg, 1}]}}, {result, {arg, 1}}];
internal(map_to_tuple_keys, 1) -> [{result, {any_tuple, ?KEY({arg, 0})}}];
internal(map_hashmap_children, 1) -> [{result, {arg, 0}}];
internal(request_system_task, A) -> [{messages, {any_tuple, {arg, A - 1}}}];
internal(F, _) ->
    case lists:member(F, [dist_spawn_request, abort_pending_connection, atomics_new, beamfile_chunk,
                          beamfile_module_md5, binary_to_integer, check_dirty_process_code,
                          check_process_code, cmp_term, counters_add, counters_get, counters_info,
                          counters_new, counters_put, create_dist_channel,
                          dirty_process_handle_signals, erase_persistent_terms,
                          ets_lookup_binary_info, ets_raw_first, ets_raw_next, ets_super_user,
                          garbage_collect, gather_alloc_histograms, gather_carrier_info,
                          get_creation, get_dflags, group_leader, is_process_alive,
                          is_process_executing_dirty, is_system_process, list_to_integer,
                          new_connection, no_aux_work_threads, notify_breakpoint_hit, open_port,
                          perf_counter_unit, port_call, port_close, port_command, port_connect,
                          port_control, port_info, prepare_loading, process_display, process_flag,
                          processes_next, purge_module, scheduler_wall_time, suspend_process,
                          system_check, system_monitor, term_to_string, term_type, time_unit, trace,
                          trace_info, trace_pattern, trace_session_create,
                          trace_session_destroy]) of
        true -> plain();
        false -> unknown
    end.
