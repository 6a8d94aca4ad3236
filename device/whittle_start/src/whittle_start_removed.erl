%% @doc Explains the `undef' of a function that was removed from the program
%% (docs/shaking.md, `--missing crash').
%%
%% `error_handler' goes on in {@link undefined/1} (whittle_shake_watch of the host). This may
%% happen in any process, the code server's and the logger's too, and before they are there. So
%% the process that raises `undef' calls only preloaded functions and waits for no other process.
-module(whittle_start_removed).

-export([undefined/1, is_removed/2, format_error/2]).

%% The set of what was removed, which whittle_shake_removed of the host makes.
-define(REMOVED, "/.whittle/boot/removed").
-define(RANGE, 16#1000000).

%% The call, as `error_handler' puts it at the head of the stack.
-type call() :: {module(), atom(), [term()], [term()]} | {fun(), [term()], [term()]}.

%% @doc Raises `undef' with the stack of `error_handler:crash/1'. Where the called function was
%% removed, the first two entries of the stack get an `error_info': the first is that of the
%% function, and in the second `erl_error' looks for the explanation of an `undef'. The first call
%% of each function is logged, at level warning; of a module that is gone as a whole, the first
%% call of any function.
-spec undefined(call()) -> no_return().
undefined(Call) ->
    try
        error(undef)
    catch
        error:undef:Stack -> erlang:raise(error, undef, explained(Call, tl(Stack)))
    end.

%% @doc Whether the function or module is in the set. The set holds hashes of 24 bits: of 2^24
%% others it takes as many for its own as it has elements.
-spec is_removed(mfa() | module(), Set :: binary()) -> boolean().
is_removed(Name, Set) -> place(Name, Set) =/= none.

%% @doc The explanation of an exception to `erl_error', from the `error_info' of its stack.
-spec format_error(term(), [{module(), atom(), arity() | [term()], [term()]}]) ->
          #{reason => string()}.
format_error(_, [{_, _, _, Info} | _]) ->
    {error_info, #{cause := Text}} = lists:keyfind(error_info, 1, Info),
    #{reason => Text}.

%% Internal

%% Whatever fails here (no descriptor is left to read the set, say), an `undef' stays one.
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

%% The file that runs: its plan is beside it. A directory (`--format dir') runs the file `vm'.
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

%% Read when it is first asked, and kept: a program may catch `undef' again and again.
set() ->
    case persistent_term:get(?MODULE, none) of
        none ->
            {ok, Set} = prim_file:read_file(?REMOVED),
            ok = persistent_term:put(?MODULE, Set),
            Set;
        Set -> Set
    end.

%% The number of an element. First come the high bytes of all hashes in their order, which
%% compress well, and then the two others of each. No binary is matched in this module: see
%% whittle_start_cold.
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

%% Not in the process that calls, which the logger might wait for. The logger may not be there
%% yet, or no longer.
told(Place, Texts) ->
    Text = joined(Texts),
    Said = {?MODULE, Place},
    _ = [begin
             ok = persistent_term:put(Said, true),
             spawn(fun() -> tell(Text) end)
         end || whereis(logger) =/= undefined, not persistent_term:get(Said, false)],
    Text.

%% The process that called may have been started by another node, and its group leader too.
tell(Text) ->
    try
        true = group_leader(whereis(init), self()),
        logger:log(warning, "~ts", [Text], #{whittle => removed})
    catch
        _:_ -> ok
    end.
