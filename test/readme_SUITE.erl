%% The README shows what happens: its commands are run here, and its links lead
%% somewhere.
-module(readme_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, build/1, links/1]).

%% Sizes may differ by this much: another compiler, the same picture.
-define(TOLERANCE, 0.03).

all() -> [build, links].

%% The first command, with its ledger: the same words in the same places, and the
%% numbers as they are shown. Then what the file prints where there is nothing else.
build(Config) ->
    "whittle build examples/hello -o out/hello" = Command = "whittle " ++ shown_command(),
    [_ | Words] = string:lexemes(Command, " "),
    {0, Output} = running:run(filename:join(running:root(), "whittle"), Words,
                              #{env => keep, cd => running:root()}),
    [same(Shown, Said) || {Shown, Said} <- lists:zip(shown_output(), lines(Output))],
    Hello = filename:join(proplists:get_value(priv_dir, Config), "hello"),
    {ok, _} = file:copy(filename:join(running:root(), "out/hello"), Hello),
    {0, Printed} = running:alone(Hello, [], #{}),
    ?assertMatch({_, _}, binary:match(readme(), [<<"\nhello\n", Printed/binary>>])).

links(_Config) ->
    {match, Links} = re:run(readme(), "\\]\\(([^)#]+)\\)", [global, {capture, [1], list}]),
    ?assertEqual([], [L || [L] <- Links, not filelib:is_file(filename:join(running:root(), L))]).

shown_command() ->
    {match, [Command]} = re:run(readme(), "^\\$ ./whittle (build .*)$",
                                [multiline, {capture, [1], list}]),
    Command.

shown_output() ->
    {match, [Output]} = re:run(readme(), "^\\$ ./whittle build .*\n((?s).*?)\n\n\\$ ",
                               [multiline, {capture, [1], binary}]),
    lines(Output).

lines(Text) ->
    [Line || Line <- binary:split(Text, <<"\n">>, [global]), Line =/= <<>>].

same(Shown, Said) ->
    ?assertEqual({words(Shown), Said}, {words(Said), Said}),
    [?assert(abs(A - B) =< ?TOLERANCE * A, {Shown, Said})
     || {A, B} <- lists:zip(numbers(Shown), numbers(Said))].

words(Line) -> re:replace(Line, "[0-9][0-9,.]*", "#", [global, {return, binary}]).

numbers(Line) ->
    case re:run(Line, "[0-9][0-9,]*", [global, {capture, first, list}]) of
        {match, Found} -> [list_to_integer([C || C <- N, C =/= $,]) || [N] <- Found];
        nomatch -> []
    end.

readme() ->
    {ok, Text} = file:read_file(filename:join(running:root(), "README.md")),
    Text.
