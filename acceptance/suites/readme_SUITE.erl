%% Tests the README: it runs the commands on the examples, checks the size limits and follows the
%% links.
-module(readme_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([build/1, sizes/1, shaken/1, links/1]).

%% Sizes may differ by this share, because compilers differ.
-define(TOLERANCE, 0.03).

%% The limits for hello, in bytes: its VM, the file (4.40 MB, rounded), the file under xz -9e.
-define(VM, 2_900_000).
-define(FILE_SIZE, 4_404_999).
-define(COMPRESSED, 2_730_000).

all() -> [build, sizes, shaken, links].

init_per_suite(Config) ->
    [{"build examples/hello -o out/hello" = Command, Shown} | Others] = shown(),
    {0, Said} = whittle(Command),
    Hello = filename:join(running:directory("readme", Config), "hello"),
    {ok, _} = file:copy(filename:join(running:root(), "out/hello"), Hello),
    [{hello, Hello}, {ledger, {Shown, Said}}, {others, Others} | Config].

end_per_suite(_) -> ok.

%% The first command prints the ledger with the same words in the same places, and the numbers of
%% the README. Then the output runs in an empty root directory.
build(Config) ->
    {Shown, Said} = proplists:get_value(ledger, Config),
    same(Shown, Said),
    {0, Printed} = running:alone(proplists:get_value(hello, Config), [], #{}),
    ?assertMatch({_, _}, binary:match(readme(), [<<"\nhello\n", Printed/binary>>])).

%% The limits are exact.
sizes(Config) ->
    Hello = proplists:get_value(hello, Config),
    {ok, #{size := Size, vm := Vm}} = whittle_pack:read(Hello),
    {0, Compressed} = running:run(os:find_executable("xz"), ["-9ec", Hello]),
    Sizes = [{Vm, ?VM}, {Size, ?FILE_SIZE}, {byte_size(Compressed), ?COMPRESSED}],
    ?assertEqual([], [{Is, Bar} || {Is, Bar} <- Sizes, Is > Bar]).

%% Tree shaking prints the README's refusal, and then builds the output and explains it.
shaken(Config) ->
    Others = proplists:get_value(others, Config),
    ?assertMatch({match, _}, re:run([C || {C, _} <- Others], "--shake")),
    [case Shown of
         <<"whittle: ", _/binary>> ->
             ?assertEqual({Command, {1, <<Shown/binary, "\n">>}}, {Command, whittle(Command)});
         _ ->
             {Code, Said} = whittle(Command),
             ?assertEqual({Command, 0}, {Command, Code}),
             Shown =:= <<>> orelse same(Shown, Said)
     end || {Command, Shown} <- Others].

links(_Config) ->
    {match, Links} = re:run(readme(), "\\]\\(([^)#]+)\\)", [global, {capture, [1], list}]),
    ?assertEqual([], [L || [L] <- Links, string:prefix(L, "https://") =:= nomatch,
                           not filelib:is_file(filename:join(running:root(), L))]).

%% Returns the README's commands on the examples and their outputs, each with the printed lines.
shown() ->
    {match, Blocks} = re:run(readme(), "^```\n((?s).*?)^```$",
                             [multiline, global, {capture, [1], binary}]),
    [{binary_to_list(Command), Shown}
     || [Block] <- Blocks, [Command, Shown] <- commands(Block),
        re:run(Command, "examples/|out/(hello|relay)") =/= nomatch].

commands(Block) ->
    case re:run(Block, "^\\$ ./whittle (.*)\n((?s).*?)\n?(?=^\\$ |\\z)",
                [multiline, global, {capture, [1, 2], binary}]) of
        {match, Found} -> Found;
        nomatch -> []
    end.

whittle(Command) ->
    running:run(filename:join(running:root(), "whittle"), string:lexemes(Command, " "),
                #{env => keep, cd => running:root()}).

lines(Text) ->
    [Line || Line <- binary:split(Text, <<"\n">>, [global]), Line =/= <<>>].

same(Shown, Said) ->
    [begin
         ?assertEqual({words(Line), Other}, {words(Other), Other}),
         [?assert(abs(A - B) =< ?TOLERANCE * A, {Line, Other})
          || {A, B} <- lists:zip(numbers(Line), numbers(Other))]
     end || {Line, Other} <- lists:zip(lines(Shown), lines(Said))].

words(Line) -> re:replace(Line, "[0-9][0-9,.]*", "#", [global, {return, binary}]).

numbers(Line) ->
    case re:run(Line, "[0-9][0-9,.]*", [global, {capture, first, list}]) of
        {match, Found} -> [number(string:trim(N, trailing, ".,")) || [N] <- Found];
        nomatch -> []
    end.

%% Reads 4,403,077, 20.6 and a version such as 29.1.1, which counts as 2911.
number(Text) ->
    Digits = [C || C <- Text, C =/= $,],
    case string:split(Digits, ".", all) of
        [_, _] -> list_to_float(Digits);
        Parts -> list_to_integer(lists:append(Parts))
    end.

readme() ->
    {ok, Text} = file:read_file(filename:join(running:root(), "README.md")),
    Text.
