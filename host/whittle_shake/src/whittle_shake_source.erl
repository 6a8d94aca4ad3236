%% @hidden Finds the calls in packed source that the program compiles while it runs.
%%
%% Such source is the applications' headers (packed where the compiler is) and `runtime.exs'. No
%% module's code shows these names. The search looks at the text and not at the grammar, because
%% only the expander of a macro, in Erlang or in Elixir, knows what the macro means.
-module(whittle_shake_source).

-export([headers/2, names/1, calls/2, atoms/1, scripts/1, check_aliases/1, in_elixir/2,
         in_erlang/2, uses/1]).

-export_type([names/0]).

%% The longest name, in bytes. Two names and `Elixir.' fit into an atom.
-define(LONGEST, 120).

%% The most modules that the names in a script may mean. The search looks each of them up: so many
%% take a second.
-define(MOST_MEANINGS, 1_000_000).

%% The names in a script. A call belongs to one of the modules. Names of functions are in UTF-8.
-type named() :: #{calls := [{[module()], Functions :: #{binary() => []}}],
                   atoms := [atom()]}.

%% The names in each script.
-type names() :: [{whittle_system:path(), named()}].

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
                              {M, Names} <- by_module(in_header(whittle_term:tokens(Bytes))),
                              Mfa <- called([M], Names, Modules)])}.

%% @doc Reads the names in the scripts outside the applications.
-spec names(whittle_system:system()) -> names().
names(System) -> [{From, script(Bytes)} || {From, Bytes} <- scripts(System)].

%% @doc Lists the functions that scripts call by name, with any arity, each with its file.
-spec calls(names(), #{module() => whittle_shake_summary:summary()}) ->
          [{mfa(), whittle_shake_reach:origin()}].
calls(Names, Modules) ->
    [{Mfa, {root, From}} || {From, Named} <- Names, Mfa <- called(Named, Modules)].

%% @doc Lists the atoms that scripts mention: modules and values in the configuration.
-spec atoms(names()) -> [{atom(), whittle_shake_reach:origin()}].
atoms(Names) -> [{Atom, {root, From}} || {From, #{atoms := Atoms}} <- Names, Atom <- Atoms].

%% @doc Lists the scripts outside the applications, each with its path.
-spec scripts(whittle_system:system()) -> [{whittle_system:path(), binary()}].
scripts(System) ->
    [{Path, Bytes}
     || {Path, #{bytes := Bytes}} <- lists:sort(maps:to_list(whittle_system:files(System))),
        filename:extension(Path) =:= <<".exs">>].

%% @doc Checks that the names in Elixir text mean few enough modules. A name with aliases has
%% several meanings.
-spec check_aliases(binary()) -> ok | {error, {too_many_aliases, Limit :: pos_integer()}}.
check_aliases(Bytes) ->
    Text = code(Bytes),
    Aliases = aliases(Text),
    Count = lists:sum([1 + length(maps:get(First, Aliases, []))
                       || [Name] <- found("(" ++ name() ++ ")", Text),
                          [First | _] <- [binary:split(Name, <<".">>)]]),
    case Count =< ?MOST_MEANINGS of
        true -> ok;
        false -> {error, {too_many_aliases, ?MOST_MEANINGS}}
    end.

%% @doc Finds the calls and atoms in Elixir text.
-spec in_elixir(binary(), #{module() => whittle_shake_summary:summary()}) -> {[mfa()], [atom()]}.
in_elixir(Bytes, Modules) ->
    #{atoms := Atoms} = Named = script(Bytes),
    {called(Named, Modules), Atoms}.

%% @doc Finds the calls and atoms in any Erlang text. A call is `M:F', with any arity.
-spec in_erlang(binary(), #{module() => whittle_shake_summary:summary()}) -> {[mfa()], [atom()]}.
in_erlang(Bytes, Modules) ->
    Tokens = whittle_term:tokens(Bytes),
    {lists:usort([{M, F, A} || {M, Names} <- by_module(named_calls(Tokens)),
                               #{M := #{exports := Exports}} <- [Modules], {F, A} <- Exports,
                               is_map_key(atom_to_binary(F), Names)]),
     lists:usort([Atom || {atom, _, Atom} <- Tokens])}.

%% @doc Lists the first elements of tuples in Erlang text, and its data with a known form. In a text
%% that is no term, such as a script, the only such data that it finds are IPv6 addresses.
-spec uses(binary()) -> [whittle_shake_feature:use()].
uses(Bytes) ->
    case whittle_term:parse(Bytes) of
        {ok, Terms} -> whittle_shake_summary:uses(Terms);
        {error, _} -> tags(whittle_term:tokens(Bytes))
    end.

%% Internal

tags([{'{', _}, {atom, _, Tag} | Tokens]) -> [{Tag} | tags(Tokens)];
tags([{'{', _}, {integer, _, _} | Tokens]) ->
    [{form, ipv6} || is_address(7, Tokens)] ++ tags(Tokens);
tags([_ | Tokens]) -> tags(Tokens);
tags([]) -> [].

is_address(0, [{'}', _} | _]) -> true;
is_address(More, [{',', _}, {integer, _, _} | Tokens]) when More > 0 ->
    is_address(More - 1, Tokens);
is_address(_, _) -> false.

-spec called(named(), #{module() => whittle_shake_summary:summary()}) -> [mfa()].
called(#{calls := Calls}, Modules) ->
    lists:usort([Mfa || M <- imported(), Mfa <- implied(M, Modules)]
                ++ [Mfa || {Ms, Names} <- Calls, Mfa <- called(Ms, Names, Modules)]).

%% Elixir stores a macro in a function of another name.
called(Ms, Names, Modules) ->
    [{M, F, A} || M <- Ms, #{M := #{exports := Exports}} <- [Modules], {F, A} <- Exports,
                  Name <- [atom_to_binary(F)],
                  is_map_key(Name, Names) orelse is_map_key(without_macro(Name), Names)].

without_macro(<<"MACRO-", Name/binary>>) -> Name;
without_macro(Name) -> Name.

%% Macros are expanded while the program runs, and one expands to others (`||' to `in'). So all
%% macros of Elixir that need no `require' count, and its operators.
implied(M, Modules) ->
    [{M, F, A} || #{M := #{exports := Exports}} <- [Modules], {F, A} <- Exports,
                  Name <- [atom_to_list(F)],
                  lists:prefix("MACRO-", Name) orelse not lists:member(hd(Name), word())].

word() -> [$_ | lists:seq($a, $z)].

%% Erlang's headers

%% The search finds `-compile({parse_transform, M})', from which the compiler calls two functions,
%% `apply(M, F, ...)', as in logger.hrl, and `M:F'. Types look like calls too, but usually match
%% no function.
in_header([{atom, _, parse_transform}, {',', _}, {atom, _, M} | Tokens]) ->
    [{M, parse_transform}, {M, parse_transform_info} | in_header(Tokens)];
in_header([{atom, _, apply}, {'(', _}, {atom, _, M}, {',', _}, {atom, _, F} | Tokens]) ->
    [{M, F} | in_header(Tokens)];
in_header([{atom, _, M}, {':', _}, {atom, _, F} | Tokens]) ->
    [{M, F} | in_header(Tokens)];
in_header([_ | Tokens]) -> in_header(Tokens);
in_header([]) -> [].

%% Elixir's configuration

%% The search finds `Module.name' and `:module.name', single identifiers, modules, atoms and keys.
%% A single identifier may belong to Kernel, to Config or to a named module (`import'). The search
%% skips lines that are comments, and only these, because a string may contain text like a
%% comment.
%%
%% A script of a few megabytes has many names, and each of them may have many aliases. So the search
%% makes no atom, and never combines all modules with all functions.
-spec script(binary()) -> named().
script(Bytes) ->
    Text = code(Bytes),
    Aliases = aliases(Text),
    Modules = lists:usort([M || [Name] <- found("(" ++ name() ++ ")", Text),
                                M <- modules(Name, Aliases)]),
    Found = lists:append(found("([a-z_]\\w*[?!]?)", Text)),
    %% `use M' calls the macro `__using__' of M.
    Words = Found ++ [<<"__using__">> || lists:member(<<"use">>, Found)],
    #{calls => [{modules(Name, Aliases), maps:from_keys(Functions, [])}
                || {Name, Functions} <- groups("(" ++ name() ++ ")\\.([a-z_]\\w*[?!]?)", Text)]
          ++ [{known(Name), maps:from_keys(Functions, [])}
              || {Name, Functions} <- groups(":([a-z]\\w*+)\\.([a-z_]\\w*[?!]?)", Text)]
          ++ [{imported() ++ Modules, maps:from_keys(Words, [])}],
      atoms => lists:usort(
                 Modules
                 ++ [Atom || [Word] <- found(":([a-z_]\\w*[?!]?)", Text), Atom <- known(Word)]
                 ++ [Atom || [Word] <- found("\\b([a-z_]\\w*+[?!]?+):(?!:)", Text),
                             Atom <- known(Word)])}.

code(Bytes) ->
    re:replace(unicode:characters_to_binary(whittle_term:text(Bytes)),
               "^[ \\t]*#(?!\\{).*$", "", [global, multiline, unicode, {return, binary}]).

imported() -> ['Elixir.Kernel', 'Elixir.Config'].

%% The names of the program's modules and functions are atoms already, and so are the atoms that its
%% code compares.
known(Name) ->
    try
        [binary_to_existing_atom(Name)]
    catch
        error:_ -> []
    end.

%% Returns the known meanings of a name: the name itself, and each alias of its first part.
modules(Name, Aliases) ->
    [First | More] = binary:split(Name, <<".">>),
    [M || Full <- [Name | [iolist_to_binary(lists:join($., [Each | More]))
                           || Each <- maps:get(First, Aliases, [])]],
          M <- known(<<"Elixir.", Full/binary>>)].

%% Maps short names to full ones: `alias A.B', `alias A.B, as: C', `alias A.{B, C.D}'.
aliases(Text) ->
    Pairs = [{lists:last(binary:split(Full, <<".">>, [global])), Full}
             || [Full] <- found("\\balias\\s+(" ++ name() ++ ")(?!\\.\\{)", Text)]
        ++ [{As, Full} || [Full, As] <- found("\\balias\\s+(" ++ name() ++ "),\\s*as:\\s*("
                                              ++ name() ++ ")", Text)]
        ++ [{lists:last(binary:split(Each, <<".">>, [global])), <<Prefix/binary, $., Each/binary>>}
            || [Prefix, Group] <- matches("\\balias\\s+(" ++ name() ++ ")\\.\\{([^}]*+)", Text),
               byte_size(Prefix) =< ?LONGEST, [Each] <- found("(" ++ name() ++ ")", Group)],
    by_first(lists:usort(Pairs)).

by_first(Pairs) ->
    maps:groups_from_list(fun({Key, _}) -> Key end, fun({_, Value}) -> Value end, Pairs).

%% Groups calls, so that a search reads the exports of each module once.
by_module(Calls) ->
    [{M, maps:from_keys([atom_to_binary(F) || F <- Names], [])}
     || {M, Names} <- maps:to_list(by_first(Calls))].

groups(Expression, Text) ->
    maps:to_list(by_first([{Name, Function} || [Name, Function] <- found(Expression, Text)])).

%% A name begins where a word begins, and a name that counts has at most 60 parts. So the search
%% reads no text more than 61 times.
name() -> "\\b[A-Z]\\w*+(?:\\.[A-Z]\\w*+){0,60}+".

%% Takes only identifiers that fit into an atom, with `Elixir.' and an alias before them.
found(Expression, Text) ->
    lists:usort([Words || Words <- matches(Expression, Text),
                          lists:all(fun(Word) -> byte_size(Word) =< ?LONGEST end, Words)]).

matches(Expression, Text) ->
    case re:run(Text, Expression, [global, unicode, {capture, all_but_first, binary}]) of
        {match, Found} -> Found;
        nomatch -> []
    end.

%% Erlang text

named_calls([{atom, _, M}, {':', _}, {atom, _, F} | Tokens]) -> [{M, F} | named_calls(Tokens)];
named_calls([_ | Tokens]) -> named_calls(Tokens);
named_calls([]) -> [].
