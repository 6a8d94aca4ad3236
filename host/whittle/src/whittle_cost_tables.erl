%% @doc Makes the tables that show the costs of a plan, after the ledger of `whittle build'.
-module(whittle_cost_tables).

-export([tables/1]).

%% @doc Makes tables for a person, as rows of cells. The first row is the title.
-spec tables(whittle_shake_cost:costs()) -> [[[unicode:chardata() | non_neg_integer()]]].
tables(#{missing := Missing, all := All, hot := Hot, rest := Rest, applications := Applications,
       dynamic := Dynamic}) ->
    Gone = case Missing of load -> "cold"; crash -> "removed" end,
    [[["code, about", "functions", "bytes", "memory"],
      row("before", All), row("at hand", Hot), row(Gone, Rest)],
     [["application", "at hand", Gone, "brings", ""]
      | [application_row(Each, length(Dynamic)) || Each <- Applications]]]
        ++ [[["dynamic call", "functions", "brings", "closed by"]
             | lists:map(fun dynamic_row/1, Dynamic)] || Dynamic =/= []].

row(Name, #{functions := Functions, bytes := Bytes, memory := Memory}) ->
    [Name, Functions, Bytes, Memory].

application_row(#{name := Name, hot := #{bytes := Hot}, rest := #{bytes := Rest},
                  opens := Opens} = Application, Kinds) ->
    [atom_to_list(Name), Hot, Rest,
     case Application of #{brings := #{bytes := Brings}} -> Brings; #{} -> "" end,
     case Opens of
         [] -> "";
         _ -> io_lib:format("opens ~b of ~b dynamic calls", [length(Opens), Kinds])
     end].

dynamic_row(#{door := Kind, brings := #{functions := Functions, bytes := Bytes},
              closed_by := ClosedBy}) ->
    [whittle_shake:means(Kind), Functions, Bytes, ClosedBy].
