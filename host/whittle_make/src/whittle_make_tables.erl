%% @hidden Replaces functions that are tables of constants by data ({@link whittle_table_forms}).
%%
%% The pass compiles such a module again from its debug information, with the compiler of the chosen
%% OTP. That takes seconds, so the cache keeps the result. The module keeps its identity. Only large
%% modules with debug information of Erlang's compiler can change.
-module(whittle_make_tables).
-behaviour(whittle_pass).

-export([name/0, doc/0, run/2]).

%% A table of some hundred constants has more code.
-define(LEAST_CODE, 32 * 1024).
%% The largest debug information in bytes
-define(MOST_FORMS, 64 * 1024 * 1024).
-define(FILE_NAME, "module.beam").

%% @private
-spec name() -> atom().
name() -> tables.

%% @private
-spec doc() -> string().
doc() -> "tables of constants are data instead of code".

%% @private
-spec run(whittle_system:system(), whittle_pass:options()) ->
          {ok, whittle_system:system()} | {error, whittle_pass:reason()}.
run(System, #{otp := Otp, runtime := Runtime}) ->
    case whittle_otp_lib:program("erl", Otp) of
        {ok, Erl} ->
            Large = [Found || {App, Module, Bytes} <- whittle_system:modules(System),
                              {ok, Beam} <- [whittle_beam:read(Bytes)],
                              {ok, Code} <- [whittle_beam:chunk(<<"Code">>, Beam)],
                              byte_size(Code) >= ?LEAST_CODE,
                              Found <- [{App, Module, Bytes}]],
            replaced(Large, {Erl, Runtime}, System);
        error -> {ok, System}
    end;
run(System, _) -> {ok, System}.

%% Internal

replaced([], _, System) -> {ok, System};
replaced([{App, Module, Bytes} | More], Tools, System) ->
    case kept(Module, Bytes, Tools) of
        {ok, New} ->
            {ok, #{modules := Modules} = Whole} = whittle_system:app(App, System),
            replaced(More, Tools,
                     whittle_system:put_app(Whole#{modules := Modules#{Module := New}}, System));
        unchanged -> replaced(More, Tools, System);
        {error, Error} -> {error, Error}
    end.

%% The compiler is that of the chosen OTP, and the path of `erl' names it.
kept(Module, Bytes, {Erl, Runtime}) ->
    Inputs = #{module => whittle_digest:hex(crypto:hash(sha256, Bytes)), erl => Erl,
               rewriter => whittle_digest:hex(whittle_table_forms:module_info(md5))},
    Make = fun(#{out := Out}) -> make(Module, Bytes, Erl, filename:join(Out, ?FILE_NAME)) end,
    case whittle_runtime:kept("tables", Inputs, Make, Runtime) of
        {ok, #{changed := true, dir := Dir}} -> file:read_file(filename:join(Dir, ?FILE_NAME));
        {ok, #{changed := false}} -> unchanged;
        {error, Error} -> {error, {runtime, Error}}
    end.

make(Module, Bytes, Erl, File) ->
    case rewritten(Module, Bytes, Erl) of
        {ok, New} ->
            case file:write_file(File, New) of
                ok -> {ok, #{changed => true}};
                {error, Reason} -> {error, {unwritten, File, Reason}}
            end;
        unchanged -> {ok, #{changed => false}}
    end.

rewritten(Module, Bytes, Erl) ->
    {ok, Beam} = whittle_beam:read(Bytes),
    case forms(Beam) of
        {ok, Forms, Options} ->
            case whittle_table_forms:rewrite(Forms) of
                {changed, New, _} -> compiled(Module, Beam, {New, Options}, Erl);
                unchanged -> unchanged
            end;
        error -> unchanged
    end.

%% Modules of other languages have no forms here.
forms(Beam) ->
    case whittle_beam:chunk(<<"Dbgi">>, Beam) of
        {ok, Chunk} ->
            case whittle_bounded:term(Chunk, ?MOST_FORMS) of
                {ok, {debug_info_v1, erl_abstract_code, {[_ | _] = Forms, Options}}} ->
                    {ok, Forms, Options};
                _ -> error
            end;
        error -> error
    end.

%% A module that the compiler refuses stays as it is.
compiled(Module, Beam, NewForms, Erl) ->
    Info = term_to_binary({debug_info_v1, erl_abstract_code, NewForms}, [{minor_version, 2}]),
    Before = whittle_beam:with_chunk(<<"Dbgi">>, Info, Beam),
    case whittle_compile:again(Erl, [{Module, Before}]) of
        {ok, #{Module := After}} ->
            {ok, New} = whittle_beam:read(After),
            Identity = whittle_beam:identity(whittle_beam:chunks(Beam)),
            {ok, whittle_beam:with_chunk(<<"Whtl">>, Identity, New)};
        _ -> unchanged
    end.
