%% @hidden Replaces functions that are tables of constants by data ({@link whittle_tables}).
%%
%% That compiles a module again, which takes seconds, so the cache keeps the result. A module that
%% could not be compiled stays as it is in this build, and the next one tries again. The times have
%% been measured on the interpreter only (bench/tables), so a VM with the JIT keeps the clauses.
-module(whittle_make_tables).
-behaviour(whittle_pass).

-export([name/0, doc/0, run/2]).

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
run(System, #{otp := Otp, tables := #{} = Runtime}) ->
    Large = fun(App, Module, Beam) ->
                    [{App, Module, Beam} || whittle_tables:is_candidate(Beam)]
            end,
    case whittle_modules:each(Large, System) of
        {ok, Found} -> each(lists:append(Found), {Otp, Runtime}, System);
        {error, Error} -> {error, {system, Error}}
    end;
run(System, _) -> {ok, System}.

%% Internal

each([], _, System) -> {ok, System};
each([{App, Module, Beam} | More], Tools, System) ->
    {ok, #{modules := #{Module := Bytes} = Modules} = Before} = whittle_system:app(App, System),
    case kept(Module, Bytes, Beam, Tools) of
        {changed, New} ->
            After = Before#{modules := Modules#{Module := New}},
            each(More, Tools, whittle_system:put_app(After, System));
        unchanged -> each(More, Tools, System);
        {error, _} = Error -> Error
    end.

kept(Module, Bytes, Beam, {Otp, Runtime}) ->
    Inputs = #{module => whittle_digest:bytes(Bytes),
               compiler => {whittle_otp_lib:otp(Otp), whittle_otp_lib:erts(Otp)},
               rewriter => whittle_digest:hex(whittle_tables:version())},
    Make = fun(#{out := Out}) ->
                   File = filename:join(Out, ?FILE_NAME),
                   made(whittle_tables:rewrite(Module, Beam, Otp), File)
           end,
    case whittle_runtime:kept("tables", Inputs, Make, Runtime) of
        {ok, #{changed := true, dir := Dir}} -> read(filename:join(Dir, ?FILE_NAME));
        {ok, #{changed := false}} -> unchanged;
        {error, not_compiled} -> unchanged;
        {error, Error} -> {error, {runtime, Error}}
    end.

made({error, not_compiled} = Error, _) -> Error;
made(unchanged, _) -> {ok, #{changed => false}};
made({changed, New}, File) ->
    case file:write_file(File, New) of
        ok -> {ok, #{changed => true}};
        {error, Reason} -> {error, whittle_runtime:unwritten(Reason, filename:dirname(File))}
    end.

read(File) ->
    case file:read_file(File) of
        {ok, New} -> {changed, New};
        {error, Reason} -> {error, {runtime, {unreadable, #{file => File, reason => Reason}}}}
    end.
