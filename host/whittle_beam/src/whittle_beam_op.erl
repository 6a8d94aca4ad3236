%% @doc The instructions of BEAM files of OTP 25 to 29: number, name, and what each
%% operand is.
%%
%% Facts from lib/compiler/src/genop.tab of OTP 29. A number's meaning never
%% changes: a changed instruction gets a new number, so one table serves all.
%%
%% Each operand has a letter. Some tell what a bare number or label in it means,
%% and so what has to be rewritten when a table changes:
%%
%% | letter | operand |
%% |---|---|
%% | `c' | the function of this module that is called |
%% | `e' | an entry of the table of imports |
%% | `i' | an entry of the table of lines |
%% | `m' | an entry of the table of lambdas |
%% | `s' | an offset into the strings; the length is the operand before it |
%% | `d' | an entry of the debug chunk |
%% | `b' | the segments of a binary, six operands each |
%%
%% The others say what becomes of an atom or a literal in that place: `v' it is
%% stored, moved or passed on; `a' a guard BIF gets it; `t' it is compared; `k' it
%% is a key; `n' it is a name or a hint to the loader; `-' it is never one. Lists,
%% always last: `S' compared and label in turn, `P' a tuple's elements, `M' key and
%% value in turn, `K' keys, `G' key and register in turn, `V' values, `U' index and
%% value in turn, `C' the commands of `bs_match'. An instruction with `x' is one that
%% no loader of these releases takes.
-module(whittle_beam_op).

-export([table/0, names/0, newest_otp/1, dropped/1]).

-export_type([opcode/0, name/0, roles/0]).

-type opcode() :: 1..191.
-type name() :: atom().
-type roles() :: string().                      % a letter for each operand

-define(TABLE,
        {{label, "-"}, {func_info, "nn-"}, {int_code_end, ""}, {call, "-c"},
         {call_last, "-c-"}, {call_only, "-c"}, {call_ext, "-e"}, {call_ext_last, "-e-"},
         {bif0, "e-"}, {bif1, "-ea-"}, {bif2, "-eaa-"}, {allocate, "--"},
         {allocate_heap, "---"}, {allocate_zero, "--"}, {allocate_heap_zero, "---"},
         {test_heap, "--"}, {init, "-"}, {deallocate, "-"}, {return, ""}, {send, ""},
         {remove_message, ""}, {timeout, ""}, {loop_rec, "--"}, {loop_rec_end, "-"},
         {wait, "-"}, {wait_timeout, "-v"},
         %% 27
         {m_plus, "xxxx"}, {m_minus, "xxxx"}, {m_times, "xxxx"}, {m_div, "xxxx"},
         {int_div, "xxxx"}, {int_rem, "xxxx"}, {int_band, "xxxx"}, {int_bor, "xxxx"},
         {int_bxor, "xxxx"}, {int_bsl, "xxxx"}, {int_bsr, "xxxx"}, {int_bnot, "xxx"},
         %% 39
         {is_lt, "-tt"}, {is_ge, "-tt"}, {is_eq, "-tt"}, {is_ne, "-tt"},
         {is_eq_exact, "-tt"}, {is_ne_exact, "-tt"}, {is_integer, "-t"}, {is_float, "-t"},
         {is_number, "-t"}, {is_atom, "-t"}, {is_pid, "-t"}, {is_reference, "-t"},
         {is_port, "-t"}, {is_nil, "-t"}, {is_binary, "-t"}, {is_constant, "xx"},
         {is_list, "-t"}, {is_nonempty_list, "-t"}, {is_tuple, "-t"}, {test_arity, "-t-"},
         {select_val, "t-S"}, {select_tuple_arity, "t-S"}, {jump, "-"}, {'catch', "--"},
         {catch_end, "-"}, {move, "v-"}, {get_list, "v--"}, {get_tuple_element, "v--"},
         {set_tuple_element, "v--"}, {put_string, "xxx"}, {put_list, "vv-"},
         {put_tuple, "xx"}, {put, "x"}, {badmatch, "v"}, {if_end, ""}, {case_end, "v"},
         {call_fun, "-"}, {make_fun, "xxx"}, {is_function, "-t"}, {call_ext_only, "-e"},
         %% 79
         {bs_start_match, "xx"}, {bs_get_integer, "xxxxx"}, {bs_get_float, "xxxxx"},
         {bs_get_binary, "xxxxx"}, {bs_skip_bits, "xxxx"}, {bs_test_tail, "xx"},
         {bs_save, "x"}, {bs_restore, "x"}, {bs_init, "xx"}, {bs_final, "xx"},
         {bs_put_integer, "-v--v"}, {bs_put_binary, "-v--v"}, {bs_put_float, "-v--v"},
         {bs_put_string, "-s"}, {bs_need_buf, "x"}, {fclearerror, ""}, {fcheckerror, "-"},
         {fmove, "v-"}, {fconv, "v-"}, {fadd, "-vv-"}, {fsub, "-vv-"}, {fmul, "-vv-"},
         {fdiv, "-vv-"}, {fnegate, "-v-"}, {make_fun2, "m"}, {'try', "--"}, {try_end, "-"},
         {try_case, "-"}, {try_case_end, "v"}, {raise, "vv"}, {bs_init2, "-v----"},
         {bs_bits_to_bytes, "xxx"}, {bs_add, "-vv--"}, {apply, "-"}, {apply_last, "--"},
         {is_boolean, "-t"}, {is_function2, "-tt"}, {bs_start_match2, "xxxxx"},
         {bs_get_integer2, "-t-v---"}, {bs_get_float2, "-t-v---"},
         {bs_get_binary2, "-t-v---"}, {bs_skip_bits2, "-tv--"}, {bs_test_tail2, "-t-"},
         {bs_save2, "xx"}, {bs_restore2, "xx"}, {gc_bif1, "--ea-"}, {gc_bif2, "--eaa-"},
         {bs_final2, "xx"}, {bs_bits_to_bytes2, "xx"}, {put_literal, "xx"},
         {is_bitstr, "-t"}, {bs_context_to_binary, "x"}, {bs_test_unit, "-t-"},
         {bs_match_string, "-t-s"}, {bs_init_writable, ""}, {bs_append, "-v---v--"},
         {bs_private_append, "-v-v--"}, {trim, "--"}, {bs_init_bits, "-v----"},
         %% 138
         {bs_get_utf8, "-t---"}, {bs_skip_utf8, "-t--"}, {bs_get_utf16, "-t---"},
         {bs_skip_utf16, "-t--"}, {bs_get_utf32, "-t---"}, {bs_skip_utf32, "-t--"},
         {bs_utf8_size, "-v-"}, {bs_put_utf8, "--v"}, {bs_utf16_size, "-v-"},
         {bs_put_utf16, "--v"}, {bs_put_utf32, "--v"}, {on_load, ""}, {recv_mark, "-"},
         {recv_set, "-"}, {gc_bif3, "--eaaa-"}, {line, "i"}, {put_map_assoc, "-v--M"},
         {put_map_exact, "-v--M"}, {is_map, "-t"}, {has_map_fields, "-tK"},
         {get_map_elements, "-tG"}, {is_tagged_tuple, "-t-t"}, {build_stacktrace, ""},
         {raw_raise, ""}, {get_hd, "v-"}, {get_tl, "v-"}, {put_tuple2, "-P"},
         {bs_get_tail, "---"}, {bs_start_match3, "-v--"}, {bs_get_position, "---"},
         {bs_set_position, "--"}, {swap, "--"}, {bs_start_match4, "n-v-"},
         {make_fun3, "m-V"}, {init_yregs, "-"}, {recv_marker_bind, "--"},
         {recv_marker_clear, "-"}, {recv_marker_reserve, "-"}, {recv_marker_use, "-"},
         {bs_create_bin, "-----b"}, {call_fun2, "m--"}, {nif_start, ""}, {badrecord, "v"},
         %% 181
         {update_record, "n-v-U"}, {bs_match, "--C"}, {executable_line, "i-"},
         {debug_line, "nid-"}, {bif3, "-eaaa-"}, {is_any_native_record, "-t"},
         {is_native_record, "-ttt"}, {get_record_elements, "-tG"}, {put_record, "-kv--M"},
         {is_record_accessible, "-tt"}, {get_record_field, "-tkk-"}}).

%% @doc Name and operands of each instruction: the opcode's is the element of that
%% number.
-spec table() -> tuple().
table() -> ?TABLE.

%% @doc Number and operands of each instruction by its name.
-spec names() -> #{name() => {opcode(), non_neg_integer(), roles()}}.
names() ->
    Named = lists:enumerate(tuple_to_list(?TABLE)),
    maps:from_list([{Name, {Opcode, length(Roles), Roles}} || {Opcode, {Name, Roles}} <- Named]).

%% @doc The OTP release that brought an instruction.
-spec newest_otp(pos_integer()) -> pos_integer().
newest_otp(Opcode) ->
    %% The highest instruction of each release, from genop.tab.
    Table = [{176, 24}, {180, 25}, {182, 26}, {183, 27}, {184, 28}, {191, 29}],
    case [Release || {Last, Release} <- Table, Opcode =< Last] of
        [Release | _] -> Release;
        [] -> 30
    end.

%% @doc The instructions that the loader of an OTP release no longer takes: those
%% that are marked as obsolete in its genop.tab. 26 and 28 are taken for 27 and
%% 29, which at worst refuses what would have gone.
-spec dropped(Otp :: pos_integer()) -> [opcode()].
dropped(Otp) ->
    Before25 = lists:seq(27, 38) ++ [54, 68, 70, 71, 76] ++ lists:seq(79, 88)
        ++ [93, 110, 116, 122, 123, 126, 127, 128, 130],
    Until27 = [14, 15, 17, 94, 95, 103, 150, 151],
    Until29 = [89, 90, 91, 92, 109, 111, 131, 134, 135, 137, 144, 145, 146, 147, 148],
    Before25 ++ [Op || Otp >= 26, Op <- Until27] ++ [Op || Otp >= 28, Op <- Until29].
