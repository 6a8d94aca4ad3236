%% @doc Reads the terms of a scenario with the place of each, for errors that name line and column.
%%
%% The result consists of nodes: a place and a value. This module is pure.
%% @hidden
-module(whittle_load_text).

-export([parse/1]).

-export_type([node_/0, value/0, place/0]).

%% Line and column, from 1.
-type place() :: {pos_integer(), pos_integer()}.

-type node_() :: {place(), value()}.

-type value() :: {atom, atom()} | {integer, integer()} | {float, float()} | {string, string()}
               | {tuple, [node_()]} | {list, [node_()]}.

%% @doc Parses a text in UTF-8. The error has the place and a message.
-spec parse(binary()) -> {ok, [node_()]} | {error, {place(), unicode:chardata()}}.
parse(Bytes) ->
    case whittle_bounded:check_text(Bytes) of
        ok -> forms(whittle_term:text(Bytes), {1, 1}, []);
        {error, {too_many_atoms, Limit}} ->
            {error, {{1, 1}, ["it ", whittle_bounded:too_many_atoms(Limit)]}}
    end.

forms(Text, Place, Nodes) ->
    case erl_scan:tokens([], Text, Place) of
        {done, {eof, _}, _} -> {ok, lists:reverse(Nodes)};
        {done, {error, Info, _}, _} -> problem(Info);
        {done, {ok, Tokens, End}, Rest} -> form(Tokens, End, Rest, Nodes);
        {more, Continuation} ->
            case erl_scan:tokens(Continuation, eof, Place) of
                {done, {ok, Tokens, End}, _} -> form(Tokens, End, eof, Nodes);
                {done, {eof, _}, _} -> {ok, lists:reverse(Nodes)};
                {done, {error, Info, _}, _} -> problem(Info)
            end
    end.

form(Tokens, End, Rest, Nodes) ->
    case erl_parse:parse_exprs(Tokens) of
        {ok, [Expression]} ->
            case value(Expression) of
                {ok, Node} when Rest =:= eof -> {ok, lists:reverse([Node | Nodes])};
                {ok, Node} -> forms(Rest, End, [Node | Nodes]);
                {error, _} = Error -> Error
            end;
        {ok, [_, Second | _]} ->
            {error, {place(element(2, Second)), "a term ends with a dot, not with a comma"}};
        {error, Info} -> problem(Info)
    end.

problem({Location, Module, Reason}) ->
    Place = case Location of
                {_, _} -> Location;
                Line when is_integer(Line) -> {Line, 1}
            end,
    {error, {Place, case lists:flatten(Module:format_error(Reason)) of
                        "syntax error before: " -> "the term has no end: write a dot behind it";
                        Message -> [Message, "; a scenario consists of Erlang terms "
                                    "(docs/load.md of Whittle's source describes them)"]
                    end}}.

place(Anno) -> erl_anno:location(Anno).

value({tuple, Anno, Parts}) -> all(tuple, Anno, Parts);
value({nil, Anno}) -> {ok, {place(Anno), {list, []}}};
value({cons, Anno, _, _} = List) -> elements(List, Anno, []);
value({op, Anno, '-', {Type, _, Number}}) when Type =:= integer; Type =:= float ->
    {ok, {place(Anno), {Type, -Number}}};
value({Type, Anno, Value}) when Type =:= atom; Type =:= integer; Type =:= float; Type =:= string ->
    {ok, {place(Anno), {Type, Value}}};
value(Other) ->
    {error, {place(element(2, Other)), "write an atom, a number, a text, a tuple or a list here"}}.

elements({cons, _, Head, Tail}, Anno, Parts) -> elements(Tail, Anno, [Head | Parts]);
elements({nil, _}, Anno, Parts) -> all(list, Anno, lists:reverse(Parts));
elements(Other, _, _) -> {error, {place(element(2, Other)), "a list ends with ]"}}.

all(Type, Anno, Parts) ->
    Results = [value(Part) || Part <- Parts],
    case [Error || {error, _} = Error <- Results] of
        [] -> {ok, {place(Anno), {Type, [Node || {ok, Node} <- Results]}}};
        [Error | _] -> Error
    end.
