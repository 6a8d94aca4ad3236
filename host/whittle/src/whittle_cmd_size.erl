%% @doc Implements `whittle size'. It shows the size of each part of an executable.
%%
%% The pack compresses a block as a whole. The stored size of a file is its share of the block by
%% size. The stored sizes are therefore exact for a block and an estimate for a file.
-module(whittle_cmd_size).
-behaviour(whittle).

-export([command/0, run/1]).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "size", arguments => ["OUT"],
      help => "show the size of each part of an executable",
      options => [#{name => by, long => "by", value => "WHAT",
                    one_of => fun() -> [part, reason] end,
                    default => fun() -> part end,
                    help => "group by part, or by the application or entry point that needs the "
                            "code"},
                  whittle_command_line:json()]}.

%% @doc Computes the sizes by part, by application and by module, the largest first.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{arguments := [Out], by := reason}) ->
    case whittle_plan_file:read(Out) of
        {ok, Plan} -> {ok, reasons(whittle_shake_saved:weights(Plan))};
        {error, Error} -> whittle_failure:make({plan_file, Error})
    end;
run(#{arguments := [Out]}) ->
    case whittle_pack:read(Out) of
        {ok, Contents} ->
            {ok, report(Contents)};
        {error, Error} ->
            whittle_failure:make({pack, Error})
    end.

%% Computes the sizes of the parts. They add up to the size of the file. The stored sizes of the
%% applications add up to their part, except for rounding.
parts(#{size := Size, vm := Vm, cold := Cold,
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

%% Internal

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

report(Contents) ->
    #{size := Size} = Parts = parts(Contents),
    #{json => Parts,
      text => [table("part", maps:get(parts, Parts), [[<<"the file">>, Size, ""]]), $\n,
               table("application", maps:get(applications, Parts), []), $\n,
               table("module", maps:get(modules, Parts), [])]}.

table(Title, Parts, Last) ->
    whittle_table:text([[Title, "stored", "raw"]
                        | [[Name, Stored, Raw]
                           || #{name := Name, stored := Stored, raw := Raw} <- Parts]] ++ Last).

reasons(#{roots := Roots, on := On, off := Off} = Weights) ->
    #{json => Weights,
      text => [weights("code, by the application or entry point that needs it", Roots),
               weights("features that are on, with their own code", On),
               weights("features that are off, with the code that each would add", Off),
               "Bytes are estimates of code before compression.\n"]}.

weights(_, []) -> "";
weights(Title, Weights) ->
    Rows = [[Name, Functions, Bytes, io_lib:format("~.1f %", [100 * Share])]
            || #{name := Name, functions := Functions, bytes := Bytes, share := Share} <- Weights],
    [whittle_table:text([[Title, "functions", "bytes", "share"] | Rows]), $\n].
