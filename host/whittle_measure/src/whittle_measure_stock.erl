%% @hidden Prepares a program for the stock `erl' of an OTP: it makes a boot script.
-module(whittle_measure_stock).

-export([prepare/4]).

-export_type([error/0]).

%% The chunks with the directory in which a module was compiled. They do not count in the digest.
-define(WITH_PATHS, [<<"CInf">>, <<"Line">>, <<"Dbgi">>, <<"Docs">>]).

-type error() :: {stock, Name :: string(), Output :: unicode:chardata()}.

%% @doc Makes a boot script with the stock OTP's systools for the program's applications, in the
%% order in which Whittle starts them. `Root' is the directory of that OTP. `Rel' is the path of the
%% boot script without an extension.
-spec prepare(whittle_system:system(), file:filename(), file:filename(), [string()]) ->
          {ok, #{program := file:filename(), arguments := [string()], sha256 := binary()}}
        | {error, error()}.
prepare(System, Root, Rel, Arguments) ->
    Erl = filename:join(Root, "bin/erl"),
    Own = [ebin(App, Rel) || #{origin := #{kind := input}} = App <- whittle_system:apps(System)],
    Names = [Name || #{name := Name, origin := #{kind := Kind}} <- whittle_system:apps(System),
                     Kind =/= device],
    Expression =
        io_lib:format(
          "Vsn = fun(N) -> _ = application:load(N), {ok, V} = application:get_key(N, vsn), {N, V} "
          "end, ok = file:write_file(~tp, io_lib:format(\"~~tp.~~n\", [{release, {\"~ts\", \"1\"}, "
          "{erts, erlang:system_info(version)}, [Vsn(N) || N <- ~tp]}])), "
          "case systools:make_script(~tp, [{path, ~tp}, {outdir, ~tp}, silent, "
          "no_warn_sasl, local]) of {ok, _, _} -> halt(); {error, M, E} -> "
          "io:put_chars(M:format_error(E)), halt(1) end.",
          [Rel ++ ".rel", filename:basename(Rel), lists:usort([kernel, stdlib | Names]), Rel, Own,
           filename:dirname(Rel)]),
    case whittle_program:run(Erl, lists:append([["-pa", Dir] || Dir <- Own])
                                 ++ ["-noshell", "-eval", lists:flatten(Expression)], #{}) of
        {0, _} -> {ok, #{program => Erl, sha256 => digest(System, Root),
                         arguments => ["-noshell", "-boot", Rel] ++ after_extra(Arguments)}};
        {_, Output} -> {error, {stock, filename:basename(Rel), string:trim(Output)}}
    end.

%% Internal

after_extra([]) -> [];
after_extra(Arguments) -> ["-extra" | Arguments].

digest(System, Root) ->
    Modules = [{Name, [{Module, beam_digest(Bytes)}
                       || {Module, Bytes} <- lists:sort(maps:to_list(Modules))]}
               || #{name := Name, origin := #{kind := Kind}, modules := Modules}
                      <- whittle_system:apps(System), Kind =/= device],
    Vms = [whittle_digest:file(File)
           || File <- whittle_file:found("erts-*/bin/beam.smp", Root)],
    list_to_binary(whittle_digest:bytes(term_to_binary({Modules, Vms}))).

beam_digest(Bytes) ->
    {ok, Beam} = whittle_beam:read(Bytes),
    erlang:md5(term_to_binary([Chunk || {Id, _} = Chunk <- whittle_beam:chunks(Beam),
                                        not lists:member(Id, ?WITH_PATHS)])).

%% The stock OTP gets a copy of an application whose compiled modules are not those of the system.
%% Whittle compiles a plain source directory in a temporary one, which is gone. It compiles modules
%% again that the chosen OTP cannot load. A copy's `.app' file has all keys that systools demands.
ebin(#{name := Name, origin := #{path := Path}, modules := Modules, files := Files} = App, Rel) ->
    Compiled = filename:absname(filename:join(Path, "ebin")),
    Spec = completed(App),
    case is_compiled(App, Compiled) andalso Spec =:= maps:get(spec, App) of
        true -> Compiled;
        false ->
            Dir = filename:absname(filename:join(Rel ++ ".lib", Name)),
            Ebin = filename:join(Dir, "ebin"),
            copy(filename:join(Ebin, atom_to_list(Name) ++ ".app"),
                 unicode:characters_to_binary(io_lib:format("%% coding: utf-8~n~tp.~n", [Spec]))),
            [copy(filename:join(Ebin, atom_to_list(Module) ++ ".beam"), Bytes)
             || {Module, Bytes} <- maps:to_list(Modules)],
            [begin
                 File = filename:join(Dir, FilePath),
                 copy(File, Bytes),
                 ok = file:change_mode(File, Mode)
             end || {FilePath, #{mode := Mode, bytes := Bytes}} <- maps:to_list(Files)],
            Ebin
    end.

%% The VM starts an application without these keys, and systools refuses it.
completed(#{spec := {application, Name, Keys}, modules := Modules}) ->
    Demanded = [{description, ""}, {modules, lists:sort(maps:keys(Modules))}, {registered, []},
                {applications, []}],
    {application, Name, Keys ++ [New || {Key, _} = New <- Demanded,
                                        not lists:keymember(Key, 1, Keys)]}.

is_compiled(#{name := Name, modules := Modules}, Ebin) ->
    whittle_file:check(filename:join(Ebin, atom_to_list(Name) ++ ".app")) =:= ok
        andalso lists:all(fun({Module, Bytes}) ->
                                  File = filename:join(Ebin, atom_to_list(Module) ++ ".beam"),
                                  whittle_file:whole(File, byte_size(Bytes)) =:= {ok, Bytes}
                          end, maps:to_list(Modules)).

copy(File, Bytes) ->
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, Bytes).
