%% @hidden Describes the instructions of BEAM files of OTP 25 to 29: number, name, operands.
%%
%% The facts come from lib/compiler/src/genop.tab of OTP 29. The meaning of a number never
%% changes: a changed instruction gets a new number. So one table serves all releases.
%%
%% Each operand has a letter. Some letters give the meaning of a bare number or label, and so
%% the table that a rewrite of the operand needs:
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
%% The other letters give the use of an atom or a literal: `v' the code stores, moves or passes it;
%% `a' a guard BIF gets it; `t' the code compares it; `k' it is a key; `n' it is a name or a hint to
%% the loader; `-' it never is an atom or a literal. Letters of lists, which always come last: `S'
%% compared value and label in turn, `P' a tuple's elements, `M' key and value in turn, `K' keys,
%% `G' key and register in turn, `V' values, `U' index and value in turn, `C' the commands of
%% `bs_match'. `x' marks an instruction that no loader of these releases takes.
-module(whittle_beam_op).

-export([names/0, table/0, newest_otp/1, dropped/1]).

-export_type([opcode/0, name/0, roles/0]).

-type opcode() :: 1..191.
-type name() :: atom().
-type roles() :: string().                      % a letter for each operand

-define(NAMES,
        #{label => {1, "-"}, func_info => {2, "nn-"}, int_code_end => {3, ""}, call => {4, "-c"},
          call_last => {5, "-c-"}, call_only => {6, "-c"}, call_ext => {7, "-e"},
          call_ext_last => {8, "-e-"}, bif0 => {9, "e-"}, bif1 => {10, "-ea-"},
          bif2 => {11, "-eaa-"}, allocate => {12, "--"}, allocate_heap => {13, "---"},
          allocate_zero => {14, "--"}, allocate_heap_zero => {15, "---"}, test_heap => {16, "--"},
          init => {17, "-"}, deallocate => {18, "-"}, return => {19, ""}, send => {20, ""},
          remove_message => {21, ""}, timeout => {22, ""}, loop_rec => {23, "--"},
          loop_rec_end => {24, "-"}, wait => {25, "-"}, wait_timeout => {26, "-v"},
          m_plus => {27, "xxxx"}, m_minus => {28, "xxxx"}, m_times => {29, "xxxx"},
          m_div => {30, "xxxx"}, int_div => {31, "xxxx"}, int_rem => {32, "xxxx"},
          int_band => {33, "xxxx"}, int_bor => {34, "xxxx"}, int_bxor => {35, "xxxx"},
          int_bsl => {36, "xxxx"}, int_bsr => {37, "xxxx"}, int_bnot => {38, "xxx"},
          is_lt => {39, "-tt"}, is_ge => {40, "-tt"}, is_eq => {41, "-tt"}, is_ne => {42, "-tt"},
          is_eq_exact => {43, "-tt"}, is_ne_exact => {44, "-tt"}, is_integer => {45, "-t"},
          is_float => {46, "-t"}, is_number => {47, "-t"}, is_atom => {48, "-t"},
          is_pid => {49, "-t"}, is_reference => {50, "-t"}, is_port => {51, "-t"},
          is_nil => {52, "-t"}, is_binary => {53, "-t"}, is_constant => {54, "xx"},
          is_list => {55, "-t"}, is_nonempty_list => {56, "-t"}, is_tuple => {57, "-t"},
          test_arity => {58, "-t-"}, select_val => {59, "t-S"}, select_tuple_arity => {60, "t-S"},
          jump => {61, "-"}, 'catch' => {62, "--"}, catch_end => {63, "-"}, move => {64, "v-"},
          get_list => {65, "v--"}, get_tuple_element => {66, "v--"},
          set_tuple_element => {67, "v--"}, put_string => {68, "xxx"}, put_list => {69, "vv-"},
          put_tuple => {70, "xx"}, put => {71, "x"}, badmatch => {72, "v"}, if_end => {73, ""},
          case_end => {74, "v"}, call_fun => {75, "-"}, make_fun => {76, "xxx"},
          is_function => {77, "-t"}, call_ext_only => {78, "-e"}, bs_start_match => {79, "xx"},
          bs_get_integer => {80, "xxxxx"}, bs_get_float => {81, "xxxxx"},
          bs_get_binary => {82, "xxxxx"}, bs_skip_bits => {83, "xxxx"},
          bs_test_tail => {84, "xx"}, bs_save => {85, "x"}, bs_restore => {86, "x"},
          bs_init => {87, "xx"}, bs_final => {88, "xx"}, bs_put_integer => {89, "-v--v"},
          bs_put_binary => {90, "-v--v"}, bs_put_float => {91, "-v--v"},
          bs_put_string => {92, "-s"}, bs_need_buf => {93, "x"}, fclearerror => {94, ""},
          fcheckerror => {95, "-"}, fmove => {96, "v-"}, fconv => {97, "v-"},
          fadd => {98, "-vv-"}, fsub => {99, "-vv-"}, fmul => {100, "-vv-"},
          fdiv => {101, "-vv-"}, fnegate => {102, "-v-"}, make_fun2 => {103, "m"},
          'try' => {104, "--"}, try_end => {105, "-"}, try_case => {106, "-"},
          try_case_end => {107, "v"}, raise => {108, "vv"}, bs_init2 => {109, "-v----"},
          bs_bits_to_bytes => {110, "xxx"}, bs_add => {111, "-vv--"}, apply => {112, "-"},
          apply_last => {113, "--"}, is_boolean => {114, "-t"}, is_function2 => {115, "-tt"},
          bs_start_match2 => {116, "xxxxx"}, bs_get_integer2 => {117, "-t-v---"},
          bs_get_float2 => {118, "-t-v---"}, bs_get_binary2 => {119, "-t-v---"},
          bs_skip_bits2 => {120, "-tv--"}, bs_test_tail2 => {121, "-t-"}, bs_save2 => {122, "xx"},
          bs_restore2 => {123, "xx"}, gc_bif1 => {124, "--ea-"}, gc_bif2 => {125, "--eaa-"},
          bs_final2 => {126, "xx"}, bs_bits_to_bytes2 => {127, "xx"}, put_literal => {128, "xx"},
          is_bitstr => {129, "-t"}, bs_context_to_binary => {130, "x"},
          bs_test_unit => {131, "-t-"}, bs_match_string => {132, "-t-s"},
          bs_init_writable => {133, ""}, bs_append => {134, "-v---v--"},
          bs_private_append => {135, "-v-v--"}, trim => {136, "--"},
          bs_init_bits => {137, "-v----"}, bs_get_utf8 => {138, "-t---"},
          bs_skip_utf8 => {139, "-t--"}, bs_get_utf16 => {140, "-t---"},
          bs_skip_utf16 => {141, "-t--"}, bs_get_utf32 => {142, "-t---"},
          bs_skip_utf32 => {143, "-t--"}, bs_utf8_size => {144, "-v-"},
          bs_put_utf8 => {145, "--v"}, bs_utf16_size => {146, "-v-"},
          bs_put_utf16 => {147, "--v"}, bs_put_utf32 => {148, "--v"}, on_load => {149, ""},
          recv_mark => {150, "-"}, recv_set => {151, "-"}, gc_bif3 => {152, "--eaaa-"},
          line => {153, "i"}, put_map_assoc => {154, "-v--M"}, put_map_exact => {155, "-v--M"},
          is_map => {156, "-t"}, has_map_fields => {157, "-tK"}, get_map_elements => {158, "-tG"},
          is_tagged_tuple => {159, "-t-t"}, build_stacktrace => {160, ""}, raw_raise => {161, ""},
          get_hd => {162, "v-"}, get_tl => {163, "v-"}, put_tuple2 => {164, "-P"},
          bs_get_tail => {165, "---"}, bs_start_match3 => {166, "-v--"},
          bs_get_position => {167, "---"}, bs_set_position => {168, "--"}, swap => {169, "--"},
          bs_start_match4 => {170, "n-v-"}, make_fun3 => {171, "m-V"}, init_yregs => {172, "-"},
          recv_marker_bind => {173, "--"}, recv_marker_clear => {174, "-"},
          recv_marker_reserve => {175, "-"}, recv_marker_use => {176, "-"},
          bs_create_bin => {177, "-----b"}, call_fun2 => {178, "m--"}, nif_start => {179, ""},
          badrecord => {180, "v"}, update_record => {181, "n-v-U"}, bs_match => {182, "--C"},
          executable_line => {183, "i-"}, debug_line => {184, "nid-"}, bif3 => {185, "-eaaa-"},
          is_any_native_record => {186, "-t"}, is_native_record => {187, "-ttt"},
          get_record_elements => {188, "-tG"}, put_record => {189, "-kv--M"},
          is_record_accessible => {190, "-tt"}, get_record_field => {191, "-tkk-"}}).

%% @doc Returns the number and the operands of each instruction by its name.
-spec names() -> #{name() => {opcode(), roles()}}.
names() -> ?NAMES.

%% @doc Returns name and operands of each instruction, as a tuple indexed by the opcode.
-spec table() -> tuple().
table() ->
    erlang:make_tuple(map_size(?NAMES), none, [{Opcode, {Name, Roles}}
                                               || {Name, {Opcode, Roles}} <- maps:to_list(?NAMES)]).

%% @doc Returns the OTP release that introduced an instruction.
-spec newest_otp(pos_integer()) -> pos_integer().
newest_otp(Opcode) ->
    %% The highest instruction of each release, from genop.tab.
    Table = [{176, 24}, {180, 25}, {182, 26}, {183, 27}, {184, 28}, {191, 29}],
    case [Release || {Last, Release} <- Table, Opcode =< Last] of
        [Release | _] -> Release;
        [] -> 30
    end.

%% @doc Lists the instructions that the loader of an OTP release no longer takes.
%%
%% Its genop.tab marks them as obsolete. The list treats 26 as 27, and 28 as 29. At worst it
%% refuses a module that would load.
-spec dropped(Otp :: pos_integer()) -> [opcode()].
dropped(Otp) ->
    Before25 = lists:seq(27, 38) ++ [54, 68, 70, 71, 76] ++ lists:seq(79, 88)
        ++ [93, 110, 116, 122, 123, 126, 127, 128, 130],
    Until27 = [14, 15, 17, 94, 95, 103, 150, 151],
    Until29 = [89, 90, 91, 92, 109, 111, 131, 134, 135, 137, 144, 145, 146, 147, 148],
    Before25 ++ [Op || Otp >= 26, Op <- Until27] ++ [Op || Otp >= 28, Op <- Until29].
