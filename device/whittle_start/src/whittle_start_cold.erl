%% @doc Loads what was left out of a shaken system's modules, when it is called for the first
%% time (docs/shaking.md, `--missing load').
%%
%% A module `M' of which functions were left out has a companion, `M~cold', that holds them;
%% the VM calls {@link undefined_function/3} for a function of a companion that is not loaded
%% (native/patches). That may happen in any process, the code server's and the logger's
%% too, and before they are there: so it calls only what is preloaded, and waits for nobody
%% but a process that loads.
-module(whittle_start_cold).

-export([undefined_function/3, functions/1, make_atoms/1]).
-export([watch/1, called/3]).

%% What loads is registered under this name: one at a time.
-define(LOADER, ?MODULE).

%% Where companions lie: in the pack. OTP's own suites run without one
%% (acceptance/suites/otp_suites_shaken).
-ifndef(COMPANIONS).
-define(COMPANIONS, "/.whittle/cold").
-endif.

%% @doc Loads the companion and goes on in it. Says once, at level info, what was asked for:
%% `--keep' with that name has the next build keep it. Where there is no such function or
%% companion, `undef', as of any other.
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

%% @doc The functions of a module of which some are in a companion, in their order: the VM has
%% this function answer `Module:module_info(functions)'. The companion is not loaded for it.
-spec functions(module()) -> [{atom(), arity()}].
functions(Module) ->
    {ok, File} = prim_file:read_file(path(<<(atom_to_binary(Module, utf8))/binary, "~cold">>)),
    {ok, Functions} = chunk(<<"WhtF">>, File),
    binary_to_term(Functions).

%% @doc Makes the atoms that a file names, with a zero between two.
-spec make_atoms(file:filename()) -> ok.
make_atoms(File) ->
    {ok, Names} = prim_file:read_file(File),
    _ = [binary_to_atom(Name, utf8) || Name <- binary:split(Names, <<0>>, [global])],
    ok.

%% @doc Has {@link called/3} say what is called of these modules, which are numbered from 1 on.
%% They are cold as a whole: the code server loads them, as it does any that is not there yet.
-spec watch(#{module() => pos_integer()}) -> ok.
watch(Modules) ->
    persistent_term:put(?MODULE, {Modules, atomics:new(map_size(Modules), [])}).

%% @doc Reports a call to a watched module that is not loaded yet. `error_handler' (see {@link
%% whittle_shake_watch}) asks here before it loads the module. The first call of each module is
%% written to the log. A call of `module_info' is not: its answer is read from the file where
%% that is possible, and the result is a list with this answer. It is `[]' otherwise.
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

%% A chunk of a file in BEAM format. This module matches no binary: OTP 29 does not load the code
%% that OTP 25's compiler makes of that.
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

%% The code server calls nothing that is not loaded, and may not be there yet.
info(Module, Arguments, Server) when is_pid(Server), Server =/= self() ->
    whittle_start_info:answer(Module, Arguments, fun chunk/2);
info(_, _, _) ->
    [].

%% A fun of what is not loaded has no name.
tell_when_loaded(Module, Function, Arity) when is_atom(Function) ->
    [tell([Module, Function, Arity]) || may_be_there(Module, Function, Arity)];
tell_when_loaded(Module, _, _) ->
    tell([Module]).

%% The code server may not be there yet.
may_be_there(Module, Function, Arity) ->
    try code:ensure_loaded(Module) of
        _ -> erlang:function_exported(Module, Function, Arity)
    catch
        _:_ -> true
    end.

%% Not in the process that calls: it may be ended at any time, and has a name of its own.
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

%% The logger may not be there yet, or no longer.
tell(Asked) ->
    What = case Asked of
               [_] -> "a fun of ~ts";
               [_, _, _] -> "~ts:~tw/~b"
           end,
    %% Without a domain: the default handler passes those that it does not know over.
    try
        logger:log(info, What ++ " was called and had to be loaded: "
                                 "keep it (whittle build --keep) to have it at hand",
                   Asked, #{whittle => cold})
    catch
        _:_ -> ok
    end.
