%% @doc Reads names of functions as a person writes them: `M', `M:F' or `M:F/A'.
-module(whittle_shake_name).

-export([parse/1, parse_list/1, parse_file/1, find/2, hint/2, written/1, text/1, origin/1]).

-export_type([name/0]).

-type name() :: {module()} | {module(), atom()} | mfa().

%% The most characters of a name. An atom has at most 255, and each may be written as `\x{10FFFF}'.
-define(LONGEST, 8192).
%% The most characters of a wrong name in an error.
-define(SHOWN, 100).

%% @doc Reads one name. Atoms that need quotes are written with them: `'Elixir.A':f/1'. A module
%% of Elixir may also be written in Elixir's form.
-spec parse(string()) -> {ok, name()} | error.
parse(Text) when length(Text) > ?LONGEST -> error;
parse(Text) ->
    case erl_scan:string(Text) of
        {ok, [{var, _, _} | _], _} -> parse(elixir(Text));
        {ok, Tokens, _} -> tokens(Tokens);
        {error, _, _} -> error
    end.

tokens([{atom, _, M}]) -> {ok, {M}};
tokens([{atom, _, M}, {':', _}, {atom, _, F}]) -> {ok, {M, F}};
tokens([{atom, _, M}, {':', _}, {atom, _, F}, {'/', _}, {integer, _, A}]) when A < 256 ->
    {ok, {M, F, A}};
tokens(_) -> error.

%% `Foo.Bar.baz/1', `Foo.Bar', `Elixir.Foo.Bar:baz/1'
elixir(Text) ->
    Expression = "^(?:Elixir\\.)?([A-Z]\\w*(?:\\.[A-Z]\\w*)*)(?:[.:]([a-z_]\\w*[?!]?)(/\\d+)?)?$",
    case re:run(Text, Expression, [unicode, {capture, all_but_first, list}]) of
        {match, [M]} -> "'Elixir." ++ M ++ "'";
        {match, [M, F | Arity]} -> lists:append(["'Elixir.", M, "':'", F, "'" | Arity]);
        nomatch -> "-"
    end.

%% @doc Reads a list of names with commas between them. `none' alone stands for the empty list,
%% and is an error among other names. `{error, Text}' holds the first text that is not a name.
-spec parse_list(string()) -> {ok, [name()]} | {error, string()}.
parse_list("none") -> {ok, []};
parse_list(Text) ->
    Words = string:lexemes(Text, ","),
    case lists:member("none", Words) of
        true -> {error, "none"};
        false -> parse_all(Words, [])
    end.

%% @doc Reads a file with one name on each line. `%' begins a comment. `{error, Text}' holds the
%% first text that is not a name. The file may have more names than this VM has room for
%% (`too_many_atoms').
-spec parse_file(binary()) -> {ok, [name()]} | {error, string() | whittle_bounded:too_many()}.
parse_file(Bytes) ->
    whittle_work:steps([fun(_) -> whittle_bounded:check_text(Bytes) end,
                        fun(_) -> parse_lines(Bytes) end]).

%% A line of Elixir's form joins words to further atoms, so the different lines count too.
parse_lines(Bytes) ->
    Lines = [Line || Each <- string:split(whittle_term:text(Bytes), "\n", all),
                     Line <- [string:trim(hd(string:split(Each, "%")))], Line =/= ""],
    Most = 2 * length(lists:usort(Lines)),
    case whittle_bounded:make_atoms(Most, fun() -> parse_all(Lines, []) end) of
        {ok, Parsed} -> Parsed;
        {error, _} = Error -> Error
    end.

parse_all([Word | Words], Names) ->
    case parse(Word) of
        {ok, Name} -> parse_all(Words, [Name | Names]);
        error when length(Word) > ?SHOWN -> {error, lists:sublist(Word, ?SHOWN) ++ "..."};
        error -> {error, Word}
    end;
parse_all([], Names) ->
    {ok, lists:reverse(Names)}.

%% @doc Finds the functions that a name matches: the exports of a module, the functions with that
%% name and any arity, or the one function.
-spec find(name(), #{module() => whittle_shake_summary:summary()}) -> [mfa()].
find({M}, Modules) ->
    [{M, F, A} || #{M := #{exports := Exports}} <- [Modules], {F, A} <- Exports];
find({M, F}, Modules) ->
    [{M, F, A} || #{M := #{functions := Functions}} <- [Modules],
                  {Name, A} <- lists:sort(maps:keys(Functions)), Name =:= F];
find({M, F, A}, Modules) ->
    [{M, F, A} || #{M := #{functions := #{{F, A} := _}}} <- [Modules]].

%% @doc Writes the hint after a name that is not known: ` (did you mean X?)', or nothing if no known
%% module or function is near.
-spec hint(name(), #{module() => [{atom(), arity()}]}) -> unicode:chardata().
hint(Name, Known) ->
    case near(Name, Known) of
        none -> "";
        Near -> [" (did you mean ", text(Near), "?)"]
    end.

near({M}, Known) ->
    case nearest(M, maps:keys(Known)) of
        {ok, Near} -> {Near};
        none -> none
    end;
near(Name, Known) ->
    Found = [{M, F} || {ok, M} <- [nearest(element(1, Name), maps:keys(Known))],
                       {ok, F} <- [nearest(element(2, Name), [F || {F, _} <- map_get(M, Known)])]],
    case Found of
        [{M, F}] -> with_arity(Name, M, F, [A || {G, A} <- map_get(M, Known), G =:= F]);
        [] -> none
    end.

with_arity({_, _}, M, F, _) -> {M, F};
with_arity({_, _, A}, M, F, Arities) ->
    case lists:member(A, Arities) of
        true -> {M, F, A};
        false -> {M, F, lists:min(Arities)}
    end.

nearest(Name, Known) ->
    case lists:member(Name, Known) of
        true -> {ok, Name};
        false ->
            %% The compiler makes functions with names that begin with a dash.
            Texts = maps:from_list([{Text, Each} || Each <- Known, Text <- [atom_to_list(Each)],
                                                    not lists:prefix("-", Text)]),
            case whittle_suggestion:nearest(atom_to_list(Name), lists:sort(maps:keys(Texts))) of
                {ok, Text} -> {ok, maps:get(Text, Texts)};
                none -> none
            end
    end.

%% @doc Writes a name as a person writes it.
-spec text(name()) -> unicode:chardata().
text({M}) -> io_lib:format("~tp", [M]);
text({M, F}) -> io_lib:format("~tp:~tp", [M, F]);
text({M, F, A}) -> io_lib:format("~tp:~tp/~b", [M, F, A]).

%% @doc Finds the function that a person wrote. The compiler makes functions such as
%% `-map/2-fun-0-' for the funs in it. Any other function is its own result.
-spec written(mfa()) -> mfa().
written({M, F, _} = Mfa) ->
    case re:run(atom_to_list(F), "^-(.*?)/([0-9]+)-",
                [unicode, {capture, all_but_first, list}]) of
        {match, [Name, Arity]} -> {M, list_to_atom(Name), list_to_integer(Arity)};
        nomatch -> Mfa
    end.

%% @doc Writes an origin as a person reads it.
-spec origin(whittle_shake_reach:origin()) -> unicode:chardata().
origin({root, Words}) -> Words;
origin(Mfa) -> text(Mfa).
