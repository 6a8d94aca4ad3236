%% @hidden Finds the calls in packed source that the program compiles while it runs.
%%
%% Such source is the applications' headers (packed where the compiler is) and `runtime.exs'. No
%% module's code shows these names. The search looks at the text and not at the grammar, because
%% only the expander of a macro, in Erlang or in Elixir, knows what the macro means.
-module(whittle_shake_source).

-export([headers/2, calls/2, atoms/1, in_elixir/2, in_erlang/2]).

%% The longest name, in bytes. Two names and `Elixir.' fit into an atom.
-define(LONGEST, 120).

-type named() :: {call, module(), Function :: atom()}
               | {implied, module()}    % macros and operators of an Elixir module
               | {atom, atom()}.

%% @doc Lists the functions that code compiled with the headers calls. They count as calls of
%% `epp:open/1', which reads headers.
-spec headers(whittle_system:system(), #{module() => whittle_shake_summary:summary()}) ->
          #{mfa() => [mfa()]}.
headers(System, Modules) ->
    #{{epp, open, 1} =>
          lists:usort([Mfa || #{files := Files} <- whittle_system:apps(System),
                              {<<"include/", _/binary>> = Path, #{bytes := Bytes}}
                                  <- maps:to_list(Files),
                              filename:extension(Path) =:= <<".hrl">>,
                              Named <- in_header(whittle_term:tokens(Bytes)),
                              Mfa <- called(Named, Modules)])}.

%% @doc Lists the functions that scripts call by name, with any arity, each with its file.
-spec calls(whittle_system:system(), #{module() => whittle_shake_summary:summary()}) ->
          [{mfa(), whittle_shake_reach:origin()}].
calls(System, Modules) ->
    [{Mfa, {root, From}} || {From, Named} <- scripts(System), Mfa <- called(Named, Modules)].

%% @doc Lists the atoms that scripts mention: modules and values in the configuration.
-spec atoms(whittle_system:system()) -> [{atom(), whittle_shake_reach:origin()}].
atoms(System) -> [{Atom, {root, From}} || {From, {atom, Atom}} <- scripts(System)].

%% @doc Finds the calls and atoms in Elixir text.
-spec in_elixir(binary(), #{module() => whittle_shake_summary:summary()}) -> {[mfa()], [atom()]}.
in_elixir(Bytes, Modules) ->
    Named = lists:usort(script(Bytes)),
    {lists:usort([Mfa || Each <- Named, Mfa <- called(Each, Modules)]),
     [Atom || {atom, Atom} <- Named]}.

%% @doc Finds the calls and atoms in any Erlang text. A call is `M:F', with any arity.
-spec in_erlang(binary(), #{module() => whittle_shake_summary:summary()}) -> {[mfa()], [atom()]}.
in_erlang(Bytes, Modules) ->
    Tokens = whittle_term:tokens(Bytes),
    {[{M, F, A} || {M, F} <- lists:usort(named_calls(Tokens)),
                   #{M := #{exports := Exports}} <- [Modules], {Name, A} <- Exports, Name =:= F],
     lists:usort([Atom || {atom, _, Atom} <- Tokens])}.

%% Internal

%% Elixir stores a macro in a function of another name.
-spec called(named(), #{module() => whittle_shake_summary:summary()}) -> [mfa()].
called({call, M, Name}, Modules) ->
    Macro = list_to_atom("MACRO-" ++ atom_to_list(Name)),
    [{M, F, A} || #{M := #{exports := Exports}} <- [Modules], {F, A} <- Exports,
                  F =:= Name orelse F =:= Macro];
called({implied, M}, Modules) ->
    [{M, F, A} || #{M := #{exports := Exports}} <- [Modules], {F, A} <- Exports,
                  Name <- [atom_to_list(F)],
                  lists:prefix("MACRO-", Name) orelse not lists:member(hd(Name), word())];
called({atom, _}, _) ->
    [].

word() -> [$_ | lists:seq($a, $z)].

scripts(System) ->
    [{Path, Named}
     || {Path, #{bytes := Bytes}} <- lists:sort(maps:to_list(whittle_system:files(System))),
        filename:extension(Path) =:= <<".exs">>, Named <- lists:usort(script(Bytes))].

%% Erlang's headers

%% The search finds `-compile({parse_transform, M})', from which the compiler calls two functions,
%% `apply(M, F, ...)', as in logger.hrl, and `M:F'. Types look like calls too, but usually match
%% no function.
in_header([{atom, _, parse_transform}, {',', _}, {atom, _, M} | Tokens]) ->
    [{call, M, parse_transform}, {call, M, parse_transform_info} | in_header(Tokens)];
in_header([{atom, _, apply}, {'(', _}, {atom, _, M}, {',', _}, {atom, _, F} | Tokens]) ->
    [{call, M, F} | in_header(Tokens)];
in_header([{atom, _, M}, {':', _}, {atom, _, F} | Tokens]) ->
    [{call, M, F} | in_header(Tokens)];
in_header([_ | Tokens]) -> in_header(Tokens);
in_header([]) -> [].

%% Elixir's configuration

%% The search finds `Module.name' and `:module.name', single identifiers, modules, atoms and keys.
%% A single identifier may belong to Kernel, to Config or to a named module (`import'). The search
%% skips lines that are comments, and only these, because a string may contain text like a
%% comment. Macros are expanded while the program runs, and one expands to others (`||' to `in').
%% So all macros of Elixir that need no `require' count, and its operators.
script(Bytes) ->
    Text = re:replace(unicode:characters_to_binary(whittle_term:text(Bytes)),
                      "^[ \\t]*#(?!\\{).*$", "", [global, multiline, unicode, {return, binary}]),
    Aliases = aliases(Text),
    Modules = lists:usort([M || [Name] <- found("(" ++ name() ++ ")", Text),
                                M <- modules(Name, Aliases)]),
    [{call, M, binary_to_atom(F)}
     || [Name, F] <- found("(" ++ name() ++ ")\\.([a-z_]\\w*[?!]?)", Text),
        M <- modules(Name, Aliases)]
        ++ [{call, binary_to_atom(M), binary_to_atom(F)}
            || [M, F] <- found(":([a-z]\\w*)\\.([a-z_]\\w*[?!]?)", Text)]
        ++ [{call, M, binary_to_atom(Word)}
            || [Word] <- found("([a-z_]\\w*[?!]?)", Text), M <- imported() ++ Modules]
        ++ [{implied, M} || M <- imported()]
        ++ [{atom, M} || M <- Modules]
        ++ [{atom, binary_to_atom(Word)} || [Word] <- found(":([a-z_]\\w*[?!]?)", Text)]
        ++ [{atom, binary_to_atom(Word)} || [Word] <- found("([a-z_]\\w*[?!]?):(?!:)", Text)].

imported() -> ['Elixir.Kernel', 'Elixir.Config'].

%% Returns the meanings of a name: the name itself, and each alias of its first part.
modules(Name, Aliases) ->
    [First | More] = binary:split(Name, <<".">>),
    [elixir(Name) | [elixir(iolist_to_binary(lists:join($., [Full | More])))
                     || {Short, Full} <- Aliases, Short =:= First]].

%% `alias A.B', `alias A.B, as: C', `alias A.{B, C.D}'.
aliases(Text) ->
    [{lists:last(binary:split(Full, <<".">>, [global])), Full}
     || [Full] <- found("\\balias\\s+(" ++ name() ++ ")(?!\\.\\{)", Text)]
        ++ [{As, Full} || [Full, As] <- found("\\balias\\s+(" ++ name() ++ "),\\s*as:\\s*("
                                              ++ name() ++ ")", Text)]
        ++ [{lists:last(binary:split(Each, <<".">>, [global])), <<Prefix/binary, $., Each/binary>>}
            || [Prefix, Group] <- matches("\\balias\\s+(" ++ name() ++ ")\\.\\{([^}]*)\\}", Text),
               [Each] <- found("(" ++ name() ++ ")", Group)].

name() -> "[A-Z]\\w*(?:\\.[A-Z]\\w*)*".

%% Takes only identifiers that fit into an atom, with `Elixir.' and an alias before them.
found(Expression, Text) ->
    [Words || Words <- matches(Expression, Text),
              lists:all(fun(Word) -> byte_size(Word) =< ?LONGEST end, Words)].

matches(Expression, Text) ->
    case re:run(Text, Expression, [global, unicode, {capture, all_but_first, binary}]) of
        {match, Found} -> Found;
        nomatch -> []
    end.

elixir(Alias) -> binary_to_atom(<<"Elixir.", Alias/binary>>).

%% Erlang text

named_calls([{atom, _, M}, {':', _}, {atom, _, F} | Tokens]) -> [{M, F} | named_calls(Tokens)];
named_calls([_ | Tokens]) -> named_calls(Tokens);
named_calls([]) -> [].
