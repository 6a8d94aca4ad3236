%% @doc Makes the tables that show the costs of a plan, after the ledger of `whittle build'.
-module(whittle_cost_tables).

-export([tables/1]).

%% @doc Makes tables for a person, as rows of cells. The first row is the title.
-spec tables(whittle_shake_cost:costs()) -> [[[unicode:chardata() | non_neg_integer()]]].
tables(#{missing := Missing, all := All, hot := Hot, rest := Rest, applications := Applications,
       dynamic := Dynamic}) ->
    Gone = case Missing of load -> "cold"; crash -> "removed" end,
    [[["code (estimates)", "functions", "bytes", "memory"],
      row("all", All), row("hot", Hot), row(Gone, Rest)],
     [["application", "hot", Gone, "retained", ""]
      | [application_row(Each, length(Dynamic)) || Each <- Applications]]]
        ++ [[["dynamic call", "functions", "retained", "how to prevent it"]
             | lists:map(fun dynamic_row/1, Dynamic)] || Dynamic =/= []].

row(Name, #{functions := Functions, bytes := Bytes, memory := Memory}) ->
    [Name, Functions, Bytes, Memory].

application_row(#{name := Name, hot := #{bytes := Hot}, rest := #{bytes := Rest},
                  opens := Opens} = Application, Kinds) ->
    [atom_to_list(Name), Hot, Rest,
     case Application of #{retained := #{bytes := Retained}} -> Retained; #{} -> "" end,
     case Opens of
         [] -> "";
         _ -> io_lib:format("makes dynamic calls (~b of the build's ~b kinds)",
                            [length(Opens), Kinds])
     end].

dynamic_row(#{kind := Kind, retained := #{functions := Functions, bytes := Bytes},
              closed_by := ClosedBy}) ->
    [whittle_shake:means(Kind), Functions, Bytes, ClosedBy].
