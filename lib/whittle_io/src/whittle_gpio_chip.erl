%% @hidden Finds chips, and lines by their names.
%%
%% The kernel finds no line by its name. So this module asks for the lines of a chip one by one,
%% 64 in a call. It caches nothing, because chips come and go.
-module(whittle_gpio_chip).

-export([all/0, info/1, lines/1, line_info/2, find/1]).
%% Functions for whittle_gpio_request
-export([path/1, offsets/2]).

-define(AT_ONCE, 64).
%% GPIO_PATH_SIZE in c_src/whittle_gpio_device.h, without the 0.
-define(PATH_MAX, 255).

-spec all() -> {ok, [binary()]} | {error, atom()}.
all() ->
    case whittle_gpio_nif:chips() of
        {ok, Paths} -> {ok, lists:sort(fun in_order/2, Paths)};
        Error -> Error
    end.

%% Puts gpiochip2 before gpiochip10.
in_order(A, B) -> {byte_size(A), A} =< {byte_size(B), B}.

-spec info(whittle_gpio:chip()) -> {ok, map()} | {error, atom()}.
info(Chip) ->
    maybe_path(Chip, fun(Path) ->
                             case whittle_gpio_nif:chip(Path) of
                                 {ok, {Name, Label, Lines}} ->
                                     {ok, #{path => Path, name => Name, label => Label,
                                            lines => Lines}};
                                 Error ->
                                     Error
                             end
                     end).

-spec lines(whittle_gpio:chip()) -> {ok, [map()]} | {error, atom()}.
lines(Chip) ->
    maybe_path(Chip, fun(Path) ->
                             case raw_lines(Path) of
                                 {ok, Lines} ->
                                     {ok, [whittle_gpio_config:line_info(L) || L <- Lines]};
                                 Error ->
                                     Error
                             end
                     end).

-spec line_info(whittle_gpio:chip(), whittle_gpio:line()) -> {ok, map()} | {error, atom()}.
line_info(Chip, Line) ->
    maybe_path(Chip, fun(Path) -> line_info_at(Path, offsets(Path, [Line])) end).

line_info_at(Path, {ok, [Offset]}) ->
    case whittle_gpio_nif:lines(Path, Offset, 1) of
        {ok, [Line]} -> {ok, whittle_gpio_config:line_info(Line)};
        Error -> Error
    end;
line_info_at(_, Error) ->
    Error.

-spec find(whittle_gpio:name()) -> {ok, {binary(), non_neg_integer()}} | {error, atom()}.
find(Name) ->
    case all() of
        {ok, Paths} -> find_on(Paths, whittle_gpio_config:text(Name));
        Error -> Error
    end.

find_on([], _) ->
    {error, enxio};
find_on([Path | Paths], Name) ->
    case offsets(Path, [Name]) of
        {ok, [Offset]} -> {ok, {Path, Offset}};
        {error, _} -> find_on(Paths, Name)
    end.

%% Gives the path of a chip. The search for a label asks all chips.
-spec path(whittle_gpio:chip()) -> {ok, binary()} | {error, atom()}.
path(Number) when is_integer(Number), Number >= 0, Number < 1 bsl 32 ->
    {ok, <<"/dev/gpiochip", (integer_to_binary(Number))/binary>>};
path(Chip) ->
    Text = whittle_gpio_config:text(Chip),
    case {binary:match(Text, <<"/">>), Text} of
        {nomatch, <<"gpiochip", _/binary>>} -> path(<<"/dev/", Text/binary>>);
        {nomatch, _} -> labelled(Text);
        {_, _} when byte_size(Text) > ?PATH_MAX -> {error, enametoolong};
        {_, _} -> {ok, Text}
    end.

labelled(Label) ->
    case all() of
        {ok, Paths} -> labelled(Label, Paths);
        Error -> Error
    end.

labelled(_, []) ->
    {error, enoent};
labelled(Label, [Path | Paths]) ->
    case whittle_gpio_nif:chip(Path) of
        {ok, {_, Label, _}} -> {ok, Path};
        _ -> labelled(Label, Paths)
    end.

%% Gives the offsets of lines. The function asks the chip for names only if the list has a name.
-spec offsets(binary(), [whittle_gpio:line()]) ->
          {ok, [non_neg_integer()]} | {error, atom()}.
offsets(Path, Lines) ->
    case lists:all(fun is_integer/1, Lines) of
        true ->
            {ok, Lines};
        false ->
            case raw_lines(Path) of
                {ok, All} -> offsets(Lines, names(All), []);
                Error -> Error
            end
    end.

offsets([], _, Done) ->
    {ok, lists:reverse(Done)};
offsets([Offset | Lines], Names, Done) when is_integer(Offset) ->
    offsets(Lines, Names, [Offset | Done]);
offsets([Name | Lines], Names, Done) ->
    case Names of
        #{Name := Offset} -> offsets(Lines, Names, [Offset | Done]);
        #{} when is_list(Name) ->
            offsets([whittle_gpio_config:text(Name) | Lines], Names, Done);
        #{} -> {error, enxio}
    end.

%% The first line with a name gets it. A line without a name has no entry.
names(Lines) ->
    maps:remove(<<>>, maps:from_list([{Name, Offset} || {Offset, Name, _, _, _}
                                                            <- lists:reverse(Lines)])).

raw_lines(Path) ->
    case whittle_gpio_nif:chip(Path) of
        {ok, {_, _, Count}} -> raw_lines(Path, 0, Count, []);
        Error -> Error
    end.

raw_lines(_, First, Count, Done) when First >= Count ->
    {ok, lists:append(lists:reverse(Done))};
raw_lines(Path, First, Count, Done) ->
    case whittle_gpio_nif:lines(Path, First, min(?AT_ONCE, Count - First)) of
        {ok, Lines} -> raw_lines(Path, First + ?AT_ONCE, Count, [Lines | Done]);
        Error -> Error
    end.

maybe_path(Chip, Then) ->
    case path(Chip) of
        {ok, Path} -> Then(Path);
        Error -> Error
    end.
