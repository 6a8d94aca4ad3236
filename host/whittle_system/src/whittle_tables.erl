%% @doc Compiles a module again, with tables of constants as data instead of code.
%%
%% See `whittle_table_forms' for the functions that become tables. The module keeps its identity,
%% its attributes and its other functions. The compiler is that of the chosen OTP.
-module(whittle_tables).

-export([is_candidate/1, rewrite/3, version/0]).

%% Less code has no large table.
-define(LEAST_CODE, 32 * 1024).
%% The largest debug information in bytes
-define(MOST_FORMS, 64 * 1024 * 1024).
%% With these options of the compiler, the same forms mean something else.
-define(OTHER_MEANING, [tuple_calls, no_strict_record_tests]).

%% @doc Tells whether a module has enough code for a table. This takes no time.
-spec is_candidate(whittle_beam:beam()) -> boolean().
is_candidate(Beam) ->
    {ok, Code} = whittle_beam:chunk(<<"Code">>, Beam),
    byte_size(Code) >= ?LEAST_CODE.

%% @doc Returns the file of the module with tables. It is unchanged if it has none, if it lacks the
%% debug information of Erlang's compiler, or if it has funs: a fun that another node sent finds its
%% function by a number that the compiler gives. The error `not_compiled' may have a passing reason,
%% such as a full disk.
-spec rewrite(module(), whittle_beam:beam(), whittle_otp_lib:otp_lib()) ->
          {changed, binary()} | unchanged | {error, not_compiled}.
rewrite(Module, Beam, Otp) ->
    case {forms(Beam), whittle_otp_lib:program("erl", Otp)} of
        {{ok, Forms, Options}, {ok, Erl}} ->
            case whittle_table_forms:rewrite(Forms) of
                {changed, New, _} -> compiled(Module, Beam, {New, Options}, Erl);
                unchanged -> unchanged
            end;
        _ -> unchanged
    end.

%% @doc Returns a value that changes when a module may get other tables.
-spec version() -> binary().
version() ->
    erlang:md5([Module:module_info(md5)
                || Module <- [?MODULE, whittle_table_forms, whittle_table_values, whittle_compile,
                              whittle_beam]]).

%% Internal

%% Modules of other languages have no forms here.
forms(Beam) ->
    case {whittle_beam:chunk(<<"Dbgi">>, Beam), whittle_beam:chunk(<<"FunT">>, Beam)} of
        {{ok, Chunk}, error} ->
            case whittle_bounded:term(Chunk, ?MOST_FORMS) of
                {ok, {debug_info_v1, erl_abstract_code, {[_ | _] = Forms, Options}}} ->
                    case [O || O <- Options, lists:member(O, ?OTHER_MEANING)] of
                        [] -> {ok, Forms, Options};
                        [_ | _] -> error
                    end;
                _ -> error
            end;
        _ -> error
    end.

compiled(Module, Beam, NewForms, Erl) ->
    Info = term_to_binary({debug_info_v1, erl_abstract_code, NewForms}, [{minor_version, 2}]),
    Before = whittle_beam:with_chunks([{<<"Dbgi">>, Info}], Beam),
    case whittle_compile:again(Erl, [{Module, Before}]) of
        {ok, #{Module := After}} ->
            {ok, New} = whittle_beam:read(After),
            Kept = [{<<"Whtl">>, whittle_beam:identity(whittle_beam:chunks(Beam))}
                    | [{Id, Data} || Id <- [<<"Attr">>, <<"CInf">>],
                                     {ok, Data} <- [whittle_beam:chunk(Id, Beam)]]],
            {changed, whittle_beam:with_chunks(Kept, New)};
        _ -> {error, not_compiled}
    end.
