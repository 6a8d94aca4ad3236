%% @doc Loads the cold functions of a module at the first call of one of them (docs/shaking.md,
%% `--missing load').
%%
%% The companion `M~cold' contains the cold functions of the module `M'. The VM calls
%% {@link undefined_function/3} for a function of a companion that is not loaded (native/patches).
%% Any process may make such a call, also the code server and the logger, and even before these
%% exist. So this module calls only preloaded functions, and waits only for a process that loads.
-module(whittle_start_cold).

-export([undefined_function/3, functions/1, make_atoms/1]).
-export([watch/1, called/3]).

%% The name of the process that loads. It lets only one process load at a time.
-define(LOADER, ?MODULE).

%% The directory of the companions in the pack. acceptance/suites/otp_suites_shaken runs OTP's
%% test suites without a pack, and defines another directory.
-ifndef(COMPANIONS).
-define(COMPANIONS, "/.whittle/cold").
-endif.

%% @doc Loads the companion and calls the function in it. Logs the function that caused the load,
%% at level info: `--keep' with this name makes it hot in the next build. Raises `undef' if there
%% is no such function or companion.
-spec undefined_function(module(), atom(), [term()]) -> term().
undefined_function(Companion, Function, Arguments) ->
    Arity = length(Arguments),
    case erlang:module_loaded(Companion) of
        true -> ok;
        false -> load(Companion, {Function, Arity})
    end,
    case erlang:function_exported(Companion, Function, Arity) of
        true -> apply(Companion, Function, Arguments);
        false -> error_handler:raise_undef_exception(Companion, Function, Arguments)
    end.

%% @doc Lists the functions of a module with a companion, in their original order. The VM calls
%% this function for `Module:module_info(functions)'. It does not load the companion.
-spec functions(module()) -> [{atom(), arity()}].
functions(Module) ->
    {ok, File} = prim_file:read_file(path(<<(atom_to_binary(Module, utf8))/binary, "~cold">>)),
    {ok, Functions} = chunk(<<"WhtF">>, File),
    binary_to_term(Functions).

%% @doc Creates the atoms whose names are in a file, with a zero byte between two names.
-spec make_atoms(file:filename()) -> ok.
make_atoms(File) ->
    {ok, Names} = prim_file:read_file(File),
    _ = [binary_to_atom(Name, utf8) || Name <- binary:split(Names, <<0>>, [global])],
    ok.

%% @doc Makes {@link called/3} report calls to these modules. Each module has a number; the first
%% number is 1. The whole modules are cold, so the code server loads them at their first call, as
%% it loads any module.
-spec watch(#{module() => pos_integer()}) -> ok.
watch(Modules) ->
    persistent_term:put(?MODULE, {Modules, atomics:new(map_size(Modules), [])}).

%% @doc Logs the first call to each watched module that is not loaded yet. `error_handler' calls
%% this function before it loads the module (see whittle_shake_watch of the host). It logs no
%% call of `module_info'. For that it reads the answer from the module's file, if possible, and
%% returns a list with the answer. Otherwise it returns `[]'.
-spec called(module(), atom() | fun(), [term()]) -> [term()].
called(Module, Function, Arguments) ->
    case persistent_term:get(?MODULE, none) of
        {#{Module := Number}, Said} ->
            case erlang:module_loaded(Module) of
                true -> [];
                false when Function =:= module_info ->
                    info(Module, Arguments, whereis(code_server));
                false ->
                    _ = [spawn(fun() -> tell_when_loaded(Module, Function, length(Arguments)) end)
                         || atomics:exchange(Said, Number, 1) =:= 0],
                    []
            end;
        _ -> []
    end.

%% Internal

%% Returns a chunk of a file in BEAM format. This module must not match binaries: OTP 29 does not
%% load the code that OTP 25's compiler generates for a match.
-spec chunk(<<_:32>>, binary()) -> {ok, binary()} | none.
chunk(Id, File) -> chunk(Id, File, 12).

chunk(Id, File, At) when At + 8 =< byte_size(File) ->
    Size = binary:decode_unsigned(binary_part(File, At + 4, 4)),
    case binary_part(File, At, 4) of
        Id -> {ok, binary_part(File, At + 8, Size)};
        _ -> chunk(Id, File, At + 8 + Size + (-Size band 3))
    end;
chunk(_, _, _) ->
    none.

%% Reading the file needs the code server. It may not exist yet, and it must not call itself.
info(Module, Arguments, Server) when is_pid(Server), Server =/= self() ->
    whittle_start_info:answer(Module, Arguments, fun chunk/2);
info(_, _, _) ->
    [].

%% A fun of a module that is not loaded has no function name.
tell_when_loaded(Module, Function, Arity) when is_atom(Function) ->
    [tell([Module, Function, Arity]) || may_be_there(Module, Function, Arity)];
tell_when_loaded(Module, _, _) ->
    tell([Module]).

%% The code server may not exist yet. The result is then true.
may_be_there(Module, Function, Arity) ->
    try code:ensure_loaded(Module) of
        _ -> erlang:function_exported(Module, Function, Arity)
    catch
        _:_ -> true
    end.

%% Loads in a separate process: something may end the calling process at any time, and it may
%% already have another registered name.
load(Companion, Asked) ->
    {_, Monitor} = spawn_monitor(fun() -> loader(Companion, Asked) end),
    receive
        {'DOWN', Monitor, process, _, normal} -> ok;
        {'DOWN', Monitor, process, _, Reason} -> exit({Companion, Reason})
    end.

loader(Companion, Asked) ->
    try register(?LOADER, self()) of
        true ->
            case erlang:module_loaded(Companion) of
                true -> ok;
                false ->
                    case prim_file:read_file(path(Companion)) of
                        {ok, Code} ->
                            ok = finish(Companion, Code),
                            _ = spawn(fun() -> tell(of_module(Companion, Asked)) end),
                            ok;
                        {error, enoent} -> ok;
                        {error, Reason} -> exit(Reason)
                    end
            end
    catch
        error:badarg ->
            Monitor = monitor(process, ?LOADER),
            receive {'DOWN', Monitor, process, _, _} -> loader(Companion, Asked) end
    end.

path(Companion) when is_atom(Companion) -> path(atom_to_binary(Companion, utf8));
path(Companion) -> <<?COMPANIONS "/"/utf8, Companion/binary, ".beam">>.

finish(Companion, Code) ->
    erlang:finish_loading([erlang:prepare_loading(Companion, Code)]).

of_module(Companion, {Function, Arity}) ->
    [Module, _] = binary:split(atom_to_binary(Companion, utf8), <<"~cold">>),
    [binary_to_atom(Module, utf8), Function, Arity].

%% The logger may not exist yet, or may have ended.
tell(Asked) ->
    %% The file of the option --keep has such names.
    {What, Name} = case Asked of
                       [_] -> {"a fun of ~ts", "~ts"};
                       [_, _, _] -> {"~ts:~tw/~b", "~ts:~tw/~b"}
                   end,
    %% The event has no domain: the default handler drops events with a domain that it does not
    %% know.
    try
        logger:log(info, What ++ " was cold (not in memory), and this call loaded it. To have it "
                                 "in memory from the start, write " ++ Name ++ " into a file "
                                 "and build with `whittle build --keep FILE'",
                   Asked ++ Asked, #{whittle => cold})
    catch
        _:_ -> ok
    end.
