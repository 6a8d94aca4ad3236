%% @doc Proposes settings: the references, first guesses from an account, and combinations of what
%% has helped.
%%
%% All functions are pure. A candidate changes only the settings in its values.
%% @hidden
-module(whittle_tune_candidate).

-export([own/0, references/1, moves/2, tried/1, combined/3, extremes/1, neighbours/2]).

-export_type([candidate/0]).

%% A move also has the keys `group' and `always' of priv/moves.config, if it has them there.
-type candidate() :: #{name := atom(), values := whittle_tune_settings:values(),
                       group => atom(), always => [atom()]}.

%% The choices that become combinations, before those with equal values are left out.
-define(CHOICES, 100).

%% @doc Returns the candidate that changes nothing: the baseline.
-spec own() -> candidate().
own() -> #{name => own, values => #{}}.

%% @doc Returns the settings that the recommendation is compared with.
-spec references([whittle_tune_settings:setting()]) -> [candidate()].
references(Settings) ->
    {ok, References} = file:consult(filename:join(code:priv_dir(whittle_tune),
                                                  "references.config")),
    [#{name => Name, values => maps:map(fun(Key, Value) -> real(Key, Value, Settings) end, Values)}
     || #{name := Name, values := Values} <- References].

real(Name, default, Settings) ->
    {ok, Setting} = whittle_tune_settings:find(Name, Settings),
    whittle_tune_settings:default(Setting);
real(_, Value, _) -> Value.

%% @doc Returns the candidates that change one thing each (priv/moves.config). The account gives the
%% sizes of tables and carriers, and the bytes of binaries. A move that the account says nothing
%% about is not among them.
-spec moves(whittle_measure_account:account(), [whittle_tune_settings:setting()]) -> [candidate()].
moves(#{vm := Vm}, Settings) ->
    {ok, Moves} = file:consult(filename:join(code:priv_dir(whittle_tune), "moves.config")),
    [Move#{values := Values} || #{values := Given} = Move <- Moves,
                                #{} = Values <- [given(Given, Vm, Settings)]].

%% @doc Returns a move for each value of the keys that the user wants to try.
-spec tried([whittle_tune_settings:setting()]) -> [candidate()].
tried(Settings) ->
    [#{name => list_to_atom(lists:concat([Name, "=", Value])), group => Name,
       values => #{Name => Value}}
     || #{name := Name, application := _, values := Values} <- Settings, Value <- Values].

given(tables, Vm, Settings) -> tables(Vm, Settings);
given(carriers, Vm, Settings) -> fitted(Vm, Settings);
given(binaries, Vm, Settings) -> binaries(Vm, Settings);
given(Values, _, _) -> Values.

%% The limit is in words; the smaller words give the larger limit. The account is of one moment, and
%% another run may have more binaries.
binaries(#{allocators := #{<<"binary_alloc">> := #{most_blocks := Most, carriers := Carriers}}},
         Settings) when Carriers > 0 ->
    {ok, Setting} = whittle_tune_settings:find(binary_heap, Settings),
    #{binary_heap => whittle_tune_settings:fitted(power(Most div 4, 46422), Setting)};
binaries(_, _) -> none.

%% The structure of a process takes more than this in each VM with 64 bits that we looked at (OTP 25
%% and 29), and so does that of a port.
-define(STRUCTURE, 600).
%% The bytes of an entry in the tables of processes and ports.
-define(ENTRY, 12).

%% Twice the largest number that there can have been, as a power of 2, but not more than the table
%% has now. The account counts the processes of one moment. The most memory that their structures
%% took limits the number that there was at any time.
tables(#{process_count := Processes, port_count := Ports} = Vm, Settings) ->
    #{processes => table(processes, Processes, <<"fix_alloc">>, <<"process_table">>, Vm, Settings),
      ports => table(ports, Ports, <<"driver_alloc">>, <<"port_table">>, Vm, Settings)}.

table(Name, Count, Allocator, Area, #{allocators := Allocators, areas := Areas}, Settings) ->
    {ok, Setting} = whittle_tune_settings:find(Name, Settings),
    Now = maps:get(Area, Areas, ?ENTRY * whittle_tune_settings:default(Setting)) div ?ENTRY,
    Needed = case Allocators of
                 #{Allocator := #{most_blocks := Most, carriers := Carriers}} when Carriers > 0 ->
                     power(2 * max(Count, Most div ?STRUCTURE), 1);
                 %% Without carriers nothing tells how many there were.
                 _ -> Now
             end,
    whittle_tune_settings:fitted(min(Now, Needed), Setting).

power(Least, Power) when Power >= Least -> Power;
power(Least, Power) -> power(Least, 2 * Power).

%% Carriers of about an eighth of the most memory of their type: at most so much lies idle in the
%% carrier that was added last.
fitted(#{allocators := Allocators}, Settings) ->
    maps:merge(
      #{carrier_main => 16},
      maps:from_list(
        lists:append([begin
                          {ok, Setting} = whittle_tune_settings:find(Least, Settings),
                          Kilobytes = power(Most div 8 div 1024, 16),
                          Size = whittle_tune_settings:fitted(Kilobytes, Setting),
                          [{Least, Size}, {Largest, max(32, Size)}]
                      end || {Name, Least, Largest} <-
                                 [{<<"eheap_alloc">>, heap_carrier_least, heap_carrier_most},
                                  {<<"binary_alloc">>, binary_carrier_least, binary_carrier_most},
                                  {<<"ets_alloc">>, ets_carrier_least, ets_carrier_most},
                                  {<<"ll_alloc">>, long_carrier_least, long_carrier_most}],
                             #{Name := #{most_blocks := Most}} <- [Allocators]]))).

%% @doc Combines moves that helped, in the order of their gain: the best of those that exclude each
%% other with all others, and then variants that lack a part or have the next best. `Count' is the
%% largest number of combinations. Their names begin with `Prefix'.
-spec combined(string(), [candidate()], pos_integer()) -> [candidate()].
combined(Prefix, Useful, Count) ->
    Free = [Move || Move <- Useful, not is_map_key(group, Move)],
    Inner = [binaries, collection, allocation],
    Names = lists:usort([Group || #{group := Group} <- Useful]) -- Inner,
    Groups = [[Move || #{group := Of} = Move <- Useful, Of =:= Group] || Group <- Names ++ Inner],
    Sets = [Free ++ Chosen || Chosen <- chosen(Groups)]
        ++ [(Free -- [Without]) ++ lists:append([lists:sublist(Group, 1) || Group <- Groups])
            || Without <- lists:reverse(Free)],
    Different = lists:foldl(fun(Set, Before) ->
                                    Values = joined(Set),
                                    case lists:member(Values, Before) orelse Values =:= #{} of
                                        true -> Before;
                                        false -> Before ++ [Values]
                                    end
                            end, [], [Set || Set <- Sets, length(Set) > 1]),
    [#{name => list_to_atom(Prefix ++ integer_to_list(Number)), values => Values}
     || {Number, Values} <- lists:enumerate(lists:sublist(Different, Count))].

%% At most one move of each group. The last group varies first. The count is bounded, because many
%% groups have more choices than a search has runs.
chosen([]) -> [[]];
chosen([Moves | Groups]) ->
    Rest = chosen(Groups),
    lists:sublist([One ++ Others || One <- alternatives(Moves), Others <- Rest], ?CHOICES).

%% Each one alone, and none.
alternatives(Moves) -> [[Move] || Move <- Moves] ++ [[]].

joined(Moves) -> lists:foldl(fun(#{values := Values}, Before) -> maps:merge(Before, Values) end,
                             #{}, Moves).

%% @doc Joins the moves that save memory in most programs, in the ways that priv/moves.config names.
%% On a noisy machine a move alone may seem to be useless or slow, so these race in any case.
-spec extremes([candidate()]) -> [candidate()].
extremes(Moves) ->
    Names = lists:usort(lists:append([Always || #{always := Always} <- Moves])),
    [#{name => Name,
       values => joined([Move || #{always := Always} = Move <- Moves,
                                 lists:member(Name, Always)])}
     || Name <- Names].

%% @doc Returns variants of a candidate whose numbers are half or twice as large, within the ranges.
%% Tables are left alone: a smaller one might be full on another day.
-spec neighbours(candidate(), [whittle_tune_settings:setting()]) -> [candidate()].
neighbours(#{name := Name, values := Values}, Settings) ->
    Groups = [{carriers, [carrier_least, carrier_most, heap_carrier_least, heap_carrier_most,
                          binary_carrier_least, binary_carrier_most, ets_carrier_least,
                          ets_carrier_most, long_carrier_least, long_carrier_most]},
              {fullsweep, [fullsweep]}, {heap, [heap]}],
    [#{name => list_to_atom(lists:concat([Name, "_", Group, "_", Word])), values => New}
     || {Group, Keys} <- Groups, {Word, Factor} <- [{half, 0.5}, {twice, 2}],
        New <- [maps:map(fun(Key, Value) -> scaled(Key, Value, Keys, Factor, Settings) end,
                         Values)],
        New =/= Values].

scaled(Key, Value, Keys, Factor, Settings) when is_integer(Value) ->
    case lists:member(Key, Keys) of
        true ->
            {ok, Setting} = whittle_tune_settings:find(Key, Settings),
            whittle_tune_settings:fitted(round(Value * Factor), Setting);
        false -> Value
    end;
scaled(_, Value, _, _, _) -> Value.
