%% @doc Source that is packed, and what the program compiles with it while it runs may call:
%% the applications' headers (which are packed where the compiler is), and `runtime.exs'.
%%
%% What it names comes from no module's code. It is found by the look of the text, not by
%% its grammar: of a macro of Erlang or of Elixir only who expands it can tell what it is.
-module(whittle_shake_source).

-export([calls/2, atoms/1]).

%% Who names it: an application's file, or one of the release.
-type named() :: {unicode:chardata(), {call, module(), atom()} | {atom, atom()}}.

%% @doc What is called by name, as whatever arity there is, each with the file that does.
-spec calls(whittle_system:system(), #{module() => whittle_shake_summary:summary()}) ->
          [{mfa(), whittle_shake_reach:origin()}].
calls(System, Modules) ->
    [{{M, F, A}, {root, From}}
     || {From, {call, M, Name}} <- named(System), #{M := #{exports := Exports}} <- [Modules],
        {F, A} <- named(Name, Exports)].

%% @doc The atoms that come to be about by it: parse transforms, modules and values in the
%% configuration.
-spec atoms(whittle_system:system()) -> [{atom(), whittle_shake_reach:origin()}].
atoms(System) -> [{Atom, {root, From}} || {From, {atom, Atom}} <- named(System)].

%% Internal

%% Elixir has a macro in a function of another name.
named(Name, Exports) ->
    Macro = list_to_atom("MACRO-" ++ atom_to_list(Name)),
    [FA || {F, _} = FA <- Exports, F =:= Name orelse F =:= Macro].

-spec named(whittle_system:system()) -> [named()].
named(System) ->
    [{["the header ", Path, " of ", atom_to_list(App)], What}
     || #{name := App, files := Files} <- whittle_system:apps(System),
        {<<"include/", _/binary>> = Path, #{bytes := Bytes}} <- lists:sort(maps:to_list(Files)),
        filename:extension(Path) =:= <<".hrl">>, What <- lists:usort(header(Bytes))]
        ++ [{Path, What}
            || {Path, #{bytes := Bytes}} <- lists:sort(maps:to_list(whittle_system:files(System))),
               filename:extension(Path) =:= <<".exs">>, What <- lists:usort(script(Bytes))].

%% Erlang's headers

header(Bytes) ->
    case erl_scan:string(whittle_term:text(Bytes)) of
        {ok, Tokens, _} -> in_header(Tokens);
        {error, _, _} -> []
    end.

%% `-compile({parse_transform, M})'; `apply(M, F, ...)', as logger.hrl has it; `M:F'. Types
%% look like calls too, and are the names of no function as a rule.
in_header([{atom, _, parse_transform}, {',', _}, {atom, _, M} | Tokens]) ->
    [{atom, M} | in_header(Tokens)];
in_header([{atom, _, apply}, {'(', _}, {atom, _, M}, {',', _}, {atom, _, F} | Tokens]) ->
    [{call, M, F} | in_header(Tokens)];
in_header([{atom, _, M}, {':', _}, {atom, _, F} | Tokens]) ->
    [{call, M, F} | in_header(Tokens)];
in_header([_ | Tokens]) -> in_header(Tokens);
in_header([]) -> [].

%% Elixir's configuration

%% `Module.name', `:module.name'; words and operators by themselves, which are Kernel's or
%% Config's if anybody's; modules, atoms and keys. Lines that are comments are left out, and
%% no others: what looks like one may stand in a string.
script(Bytes) ->
    Text = re:replace(unicode:characters_to_binary(whittle_term:text(Bytes)), "^\\s*#.*$", "",
                      [global, multiline, unicode, {return, binary}]),
    [{call, elixir(M), binary_to_atom(F)}
     || [M, F] <- found("(" ++ name() ++ ")\\.([a-z_]\\w*[?!]?)", Text)]
        ++ [{call, binary_to_atom(M), binary_to_atom(F)}
            || [M, F] <- found(":([a-z]\\w*)\\.([a-z_]\\w*[?!]?)", Text)]
        ++ [{call, M, binary_to_atom(Word)}
            || [Word] <- found("([a-z_]\\w*[?!]?|[-+*/<>=!&|.^~@]+)", Text),
               M <- ['Elixir.Kernel', 'Elixir.Kernel.SpecialForms', 'Elixir.Config']]
        ++ [{atom, elixir(M)} || [M] <- found("(" ++ name() ++ ")", Text)]
        ++ [{atom, binary_to_atom(Word)} || [Word] <- found(":([a-z_]\\w*[?!]?)", Text)]
        ++ [{atom, binary_to_atom(Word)} || [Word] <- found("([a-z_]\\w*[?!]?):(?!:)", Text)].

name() -> "[A-Z]\\w*(?:\\.[A-Z]\\w*)*".

found(Expression, Text) ->
    case re:run(Text, Expression, [global, unicode, {capture, all_but_first, binary}]) of
        {match, Found} -> Found;
        nomatch -> []
    end.

elixir(Alias) -> binary_to_atom(<<"Elixir.", Alias/binary>>).

