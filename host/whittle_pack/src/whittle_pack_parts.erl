%% @hidden Computes the use of every byte of an executable.
%%
%% The pack compresses a block as a whole. The stored size of a file is its share of the block by
%% size. The stored sizes are therefore exact for a block and an estimate for a file.
-module(whittle_pack_parts).

-export([of_contents/1]).

-export_type([parts/0, part/0]).

-type part() :: #{name := binary(), stored := non_neg_integer(), raw := non_neg_integer()}.

%% Each list begins with the largest part.
-type parts() :: #{size := pos_integer(),
                   parts := [part()],
                   applications := [part()],
                   modules := [part()]}.

%% @doc Computes the sizes of the parts, in bytes. They add up to the size of the file. The stored
%% sizes of the applications add up to their part, except for rounding.
-spec of_contents(whittle_pack:contents()) -> parts().
of_contents(#{size := Size, vm := Vm, cold := Cold,
        pack := #{size := PackSize, entries := Entries, blocks := Blocks}}) ->
    {Colds, Hots} = lists:partition(fun(#{block := Block}) -> is_cold(Block, Cold) end,
                                    [Entry || #{is_all := false} = Entry <- Entries]),
    [ColdShares, HotShares] = [[share(Entry, Blocks) || Entry <- Part] || Part <- [Colds, Hots]],
    Shares = HotShares ++ ColdShares,
    Stored = lists:sum([S || #{stored := S} <- Blocks]),
    Grouped = group(fun part/1, HotShares) ++ group(fun(_) -> <<"cold code">> end, ColdShares),
    #{size => Size,
      parts => largest([#{name => <<"vm">>, stored => Vm, raw => Vm},
                        #{name => <<"index">>, stored => PackSize - Stored,
                          raw => PackSize - Stored}
                        | settle(Stored, Grouped)]),
      applications => largest(group(fun application/1, Shares)),
      modules => largest(group(fun module/1, Shares))}.

%% Internal functions

is_cold(_, none) -> false;
is_cold(Block, First) -> Block >= First.

share(#{path := Path, size := Size, block := Block}, Blocks) ->
    #{stored := Stored, raw := Raw} = lists:nth(Block + 1, Blocks),
    #{name => Path, raw => Size, stored => Size * Stored / max(1, Raw)}.

group(Key, Shares) ->
    Sums = lists:foldl(fun(#{name := Path, stored := Stored, raw := Raw}, Sums) ->
                               add(Key(binary:split(Path, <<"/">>, [global])), Stored, Raw, Sums)
                       end, #{}, Shares),
    [#{name => Name, stored => round(Stored), raw => Raw}
     || {Name, {Stored, Raw}} <- maps:to_list(Sums)].

add(none, _, _, Sums) -> Sums;
add(Name, Stored, Raw, Sums) ->
    {S, R} = maps:get(Name, Sums, {0, 0}),
    Sums#{Name => {S + Stored, R + Raw}}.

%% Adds the rounding error to the largest part, so that the sum is exact.
settle(_, []) -> [];
settle(Total, Parts) ->
    [#{stored := Stored} = First | Rest] = largest(Parts),
    Off = Total - lists:sum([S || #{stored := S} <- Parts]),
    [First#{stored := Stored + Off} | Rest].

part([<<"lib">>, _, <<"ebin">> | _]) -> <<"code">>;
part([<<"lib">> | _]) -> <<"applications' files">>;
part([<<"boot">> | _]) -> <<"boot script">>;
part([<<"etc">>, Name]) ->
    case lists:member(Name, [<<"bom.json">>, <<"info.json">>, <<"info.txt">>,
                             <<"licenses.txt">>]) of
        true -> <<"notices">>;
        false -> <<"configuration">>
    end;
part([<<"fallback">> | _]) -> <<"fallback files">>;
part([<<"bin">> | _]) -> <<"OTP's programs">>;
part(_) -> <<"configuration">>.

application([<<"lib">>, Application | _]) -> Application;
application(_) -> none.

module([<<"lib">>, Application, <<"ebin">>, File]) ->
    case filename:extension(File) of
        <<".beam">> -> <<Application/binary, $/, (filename:rootname(File))/binary>>;
        _ -> none
    end;
module(_) -> none.

largest(Parts) ->
    lists:sort(fun(#{stored := A, name := N}, #{stored := B, name := M}) ->
                       {-A, N} =< {-B, M}
               end, Parts).
