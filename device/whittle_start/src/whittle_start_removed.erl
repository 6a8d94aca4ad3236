%% @doc Explains the `undef' of a function that was removed from the program
%% (docs/shaking.md, `--missing crash').
%%
%% whittle_shake_watch of the host makes `error_handler' call {@link undefined/1} for such a call.
%% Any process may make one, also the code server and the logger, and even before these exist. So
%% this module calls only preloaded functions in that process, and waits for no other process.
-module(whittle_start_removed).

-export([undefined/1, undefined/3, is_lost/3, is_removed/2, format_error/2]).

%% The file with the set of removed functions and modules. whittle_shake_removed of the host
%% makes it.
-define(REMOVED, "/.whittle/boot/removed").
-define(RANGE, 16#1000000).

%% OTP asks these modules for the text of an error, and does without them (the feature `errors' of
%% the host's features.config). No program calls them.
-define(IS_TEXTS(Module),
        (Module =:= erl_erts_errors orelse Module =:= erl_kernel_errors
         orelse Module =:= erl_stdlib_errors)).

%% The call in the form that `error_handler' puts at the head of the stack.
-type call() :: {module(), atom(), [term()], [term()]} | {fun(), [term()], [term()]}.

%% @doc Raises `undef' with the stack of `error_handler:crash/1'. If Whittle removed the function,
%% the first two entries of the stack get an `error_info': the first entry is the function, and
%% `erl_error' looks for the explanation of an `undef' in the second. The first call of each
%% removed function logs a warning. For a module that Whittle removed as a whole, only the first
%% call of any of its functions does.
-spec undefined(call()) -> no_return().
undefined(Call) ->
    try
        error(undef)
    catch
        error:undef:Stack -> erlang:raise(error, undef, explained(Call, tl(Stack)))
    end.

%% @doc Raises `undef' for a function that {@link is_lost/3} finds.
-spec undefined(module(), atom(), [term()]) -> no_return().
undefined(Module, Function, Arguments) -> undefined({Module, Function, Arguments, []}).

%% @doc Returns whether the function is a BIF that its module, which is loaded, does not have.
-spec is_lost(module(), atom(), [term()]) -> boolean().
is_lost(Module, Function, Arguments) ->
    Arity = length(Arguments),
    erlang:is_builtin(Module, Function, Arity) andalso erlang:module_loaded(Module)
        andalso not is_among({Function, Arity}, erlang:get_module_info(Module, exports)).

is_among(Name, [Name | _]) -> true;
is_among(Name, [_ | Names]) -> is_among(Name, Names);
is_among(_, []) -> false.

%% @doc Returns whether the function or module is in the set. The set contains hashes of 24 bits, so
%% it can be wrong: about N of 2^24 other names also seem to be in a set with N elements.
-spec is_removed(mfa() | module(), Set :: binary()) -> boolean().
is_removed(Name, Set) -> place(Name, Set) =/= none.

%% @doc Explains an exception to `erl_error'. The text is in the `error_info' of the stack.
-spec format_error(term(), [{module(), atom(), arity() | [term()], [term()]}]) ->
          #{reason => string()}.
format_error(_, [{_, _, _, Info} | _]) ->
    {error_info, #{cause := Text}} = lists:keyfind(error_info, 1, Info),
    #{reason => Text}.

%% Internal

%% If anything fails here, for example because no descriptor is free to read the set, the caller
%% still gets the `undef', without an explanation.
explained(Call, Callers) ->
    try explanation(Call) of
        none -> [Call | Callers];
        Text ->
            Info = {error_info, #{module => ?MODULE, cause => Text}},
            [with(Info, Call) | first_with(Info, Callers)]
    catch
        _:_ -> [Call | Callers]
    end.

with(Info, {Module, Function, Arguments, More}) -> {Module, Function, Arguments, [Info | More]};
with(Info, {Fun, Arguments, More}) -> {Fun, Arguments, [Info | More]}.

first_with(Info, [Caller | Callers]) -> [with(Info, Caller) | Callers];
first_with(_, []) -> [].

explanation({Module, _, _, _}) when ?IS_TEXTS(Module) ->
    none;
explanation({Module, Function, Arguments, _}) ->
    Mfa = {Module, Function, length(Arguments)},
    Set = set(),
    case place(Mfa, Set) of
        none -> of_module(Module, ["undefined function ", name(Mfa)], Set);
        Place -> told(Place, ["undefined function ", name(Mfa), ": removed by Whittle; ",
                              advice(name(Mfa))])
    end;
explanation({Fun, _, _}) ->
    {module, Module} = erlang:fun_info(Fun, module),
    of_module(Module, ["undefined fun of ", atom_to_list(Module)], set()).

of_module(Module, What, Set) ->
    case place(Module, Set) of
        none -> none;
        Place -> told(Place, What ++ [": the module was removed by Whittle; ",
                                      advice(atom_to_list(Module))])
    end.

name({Module, Function, Arity}) ->
    joined([atom_to_list(Module), ":", atom_to_list(Function), "/", integer_to_list(Arity)]).

advice(Name) -> joined(["run `whittle why ", output(), " ", Name, "`"]).

joined([Text | Texts]) -> Text ++ joined(Texts);
joined([]) -> [].

%% The name of the running executable: its plan has the same name with `.plan'. A directory
%% (`--format dir') runs the file `vm', so the name is unknown there.
output() ->
    case prim_file:read_link("/proc/self/exe") of
        {ok, Path} ->
            case last_name(Path, []) of
                "vm" -> "OUTPUT";
                Name -> Name
            end;
        {error, _} -> "OUTPUT"
    end.

last_name([$/ | Path], _) -> last_name(Path, Path);
last_name([_ | Path], Name) -> last_name(Path, Name);
last_name([], Name) -> Name.

%% Reads the set at the first use and keeps it, because a program may catch `undef' many times.
set() ->
    case persistent_term:get(?MODULE, none) of
        none ->
            {ok, Set} = prim_file:read_file(?REMOVED),
            ok = persistent_term:put(?MODULE, Set),
            Set;
        Set -> Set
    end.

%% Finds the place of an element. The set has first the high bytes of all hashes in ascending
%% order, which compress well, and then the two low bytes of each hash. This module must not match
%% binaries, for the reason in whittle_start_cold.
place(Name, Set) -> place(erlang:phash2(Name, ?RANGE), Set, 0, byte_size(Set) div 3).

place(_, _, At, At) -> none;
place(Hash, Set, From, To) ->
    Middle = (From + To) div 2,
    case hash(Middle, Set) of
        Hash -> Middle;
        Less when Less < Hash -> place(Hash, Set, Middle + 1, To);
        _ -> place(Hash, Set, From, Middle)
    end.

hash(Place, Set) ->
    Low = byte_size(Set) div 3 + 2 * Place,
    (binary:at(Set, Place) bsl 16) bor (binary:at(Set, Low) bsl 8) bor binary:at(Set, Low + 1).

%% Logs in a separate process, because the logger may wait for the calling process. The logger may
%% not exist yet, or may have ended.
told(Place, Texts) ->
    Text = joined(Texts),
    Said = {?MODULE, Place},
    _ = [begin
             ok = persistent_term:put(Said, true),
             spawn(fun() -> tell(Text) end)
         end || whereis(logger) =/= undefined, not persistent_term:get(Said, false)],
    Text.

%% Takes init as the group leader: another node may have started the calling process, and its
%% group leader may run there.
tell(Text) ->
    try
        true = group_leader(whereis(init), self()),
        logger:log(warning, "~ts", [Text], #{whittle => removed})
    catch
        _:_ -> ok
    end.
