%% @doc Finds the known name that is nearest to a misspelled one, for "did you mean". This module
%% is pure.
-module(whittle_suggestion).

-export([hint/2, nearest/2]).

%% Names of processors in other tools: Debian, Go, Rust, Linux, Docker. Then other words for a
%% feature and a VM.
-define(OTHERS, #{"arm64" => "aarch64", "armv8" => "aarch64", "arm64v8" => "aarch64",
                  "x86-64" => "x86_64", "amd64" => "x86_64", "x64" => "x86_64",
                  "armhf" => "armv7", "arm" => "armv7", "armv7l" => "armv7", "armv7a" => "armv7",
                  "arm32v7" => "armv7", "armel" => "armv6", "armv6l" => "armv6",
                  "arm32v6" => "armv6", "riscv" => "riscv64", "rv64" => "riscv64",
                  "rv64gc" => "riscv64", "mips32" => "mips", "mipseb" => "mips",
                  "ipv6" => "inet6", "jit" => "speed"}).

%% @doc Writes the hint after an unknown name in an error: ` (did you mean X?)', or nothing if no
%% known name is near.
-spec hint(string(), [string()]) -> unicode:chardata().
hint(Name, Known) ->
    case nearest(Name, Known) of
        {ok, Near} -> [" (did you mean ", Near, "?)"];
        none -> ""
    end.

%% @doc Finds the known name nearest to a misspelled one. A known name is near if it begins with
%% the given name, which must have at least two letters, or if at most one letter in three
%% differs. If two names are equally near, the first one counts.
-spec nearest(string(), [string()]) -> {ok, string()} | none.
nearest(Name, Known) ->
    Given = string:lowercase(Name),
    case [Ours || Ours <- renamed(Given), lists:member(Ours, Known)] of
        [Ours | _] -> {ok, Ours};
        [] ->
            Most = max(1, length(Given) div 3),
            case lists:keysort(1, [{Far, One} || One <- Known, Far <- [far(Given, One)],
                                                 Far =< Most]) of
                [{_, Near} | _] -> {ok, Near};
                [] -> none
            end
    end.

%% Internal

%% The name of a processor, or a name that ends with one: `qemu-arm64' means `qemu-aarch64'.
renamed(Given) ->
    [Before ++ Ours || {Other, Ours} <- maps:to_list(?OTHERS), lists:suffix(Other, Given),
                       Before <- [lists:sublist(Given, length(Given) - length(Other))],
                       Before =:= "" orelse lists:last(Before) =:= $-].

far(Given, One) ->
    Known = string:lowercase(One),
    case length(Given) > 1 andalso lists:prefix(Given, Known) of
        true -> 1;
        false -> distance(Given, Known)
    end.

%% Counts the letters to insert, remove, replace, or exchange with their neighbor. The row holds
%% the distances from the part of Given read so far to each prefix of Known.
distance(Given, Known) ->
    First = lists:seq(0, length(Known)),
    {Last, _, _} = lists:foldl(fun(Letter, {Row, Before, Previous}) ->
                                       {row(Letter, Previous, Known, Row, Before), Row, Letter}
                               end, {First, none, none}, Given),
    lists:last(Last).

row(Letter, Previous, Known, [Corner | Row], Before) ->
    [Corner + 1 | cells(Letter, Previous, Known, Corner, Row, Corner + 1, Before, none)].

cells(_, _, [], _, [], _, _, _) -> [];
cells(Letter, Previous, [Here | Known], Corner, [Above | Row], Left, Before, KnownBefore) ->
    Replaced = Corner + case Letter of Here -> 0; _ -> 1 end,
    Exchanged = case Before of
                    [Two | _] when Letter =:= KnownBefore, Previous =:= Here -> [Two + 1];
                    _ -> []
                end,
    Cell = lists:min([Replaced, Above + 1, Left + 1 | Exchanged]),
    %% Before is the row two above. An exchange begins two columns to the left.
    Next = case {Before, KnownBefore} of
               {none, _} -> none;
               {_, none} -> Before;
               {[_ | Later], _} -> Later
           end,
    [Cell | cells(Letter, Previous, Known, Above, Row, Cell, Next, Here)].
