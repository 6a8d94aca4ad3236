%% @hidden Finds the functions that a run called and a plan would cut.
%%
%% There are three causes: a fault of the shaker, a dynamic call with undeclared names, or a
%% feature that the run used and the code does not show, as when another node called one of its
%% functions (`--whittle-rpc').
%%
%% Some functions do not count. While a feature is off, an answer replaces some of its functions
%% ({@link whittle_shake_feature}). OTP's boot calls these functions in the whole system, and does
%% without them. So neither they nor the functions behind them count.
-module(whittle_shake_unplanned).

-export([unplanned/3, text/1]).

-export_type([unplanned/0]).

%% The cause: a feature that is off, or no visible caller.
-type unplanned() :: {mfa(), {feature, whittle_shake_feature:name()} | no_edge}.

%% @doc Lists the recorded functions that the plan would cut, without those for which features
%% that are off answer. `off' names the features that a person does without. Their functions do not
%% count either, nor do those that Whittle would keep only because of them. Of functions that call
%% each other, the list has only the first.
-spec unplanned([mfa()], #{features := whittle_shake_feature:features(),
                           off := [whittle_shake_feature:name()]}, whittle_shake:plan()) ->
          [unplanned()].
unplanned(Seen, #{features := Features, off := Off},
          #{reached := #{live := Live, on := On, blocked := Blocked, prices := Prices},
            answers := Answers, summaries := Summaries}) ->
    Called = maps:from_list([{Mfa, []} || Mfa <- Seen]),
    Modules = maps:from_list([{M, []} || {M, _, _} <- maps:keys(Live)]),
    Cut = maps:filter(fun(Mfa, _) ->
                              not is_in(Mfa, Live, Modules) andalso not is_in_c(Mfa, Summaries)
                      end, Called),
    Answered = maps:filter(fun(_, Answer) -> whittle_shake_feature:goes_on(Answer) end,
                           maps:from_list(Answers)),
    Used = [{To, {feature, Name}}
            || {Name, Edges} <- maps:to_list(maps:without(Off, Blocked)),
               To <- taken(Edges, Called, Answered), is_map_key(To, Cut)],
    %% The whole system starts the servers and callbacks of these features, and the shaken system
    %% does not; or a warning already names them.
    Known = [Name || {Name, Edges} <- maps:to_list(Blocked), {To, _} <- Edges,
                     is_map_key(To, Answered)] ++ [Name || {_, {feature, Name}} <- Used],
    Behind = behind([Mfa || Mfa <- maps:keys(Cut),
                            is_map_key(Mfa, Answered) orelse is_of(Mfa, Known, Features)]
                    ++ [To || {To, _} <- Used], Cut, Summaries),
    Without = [Mfa || Mfa <- maps:keys(Cut), is_of(Mfa, Off, Features)]
        ++ lists:append(maps:values(maps:with(Off, Prices))),
    Left = maps:without(Without ++ maps:keys(Behind), Cut),
    Later = [To || Mfa <- maps:keys(Left), To <- calls(Mfa, Summaries), To =/= Mfa],
    First = case maps:without(Later, Left) of
                None when map_size(None) =:= 0 -> Left;
                Some -> Some
            end,
    [{Mfa, cause(Mfa, On, Features)} || Mfa <- lists:sort(maps:keys(First))] ++ lists:usort(Used).

%% @doc Describes a function and the reason for which it would be cut.
-spec text(unplanned()) -> unicode:chardata().
text({Mfa, {feature, Name}}) ->
    [whittle_shake_name:text(Mfa), ": the feature ", atom_to_list(Name), " is off"];
text({Mfa, no_edge}) ->
    [whittle_shake_name:text(Mfa), ": Whittle found no kept function that calls it"].

%% Internal

cause(Mfa, On, Features) ->
    case whittle_shake_feature:of_call(none, Mfa, Features) of
        {ok, Name} when not is_map_key(Name, On) -> {feature, Name};
        _ -> no_edge
    end.

is_of(Mfa, Names, Features) ->
    case whittle_shake_feature:of_call(none, Mfa, Features) of
        {ok, Name} -> lists:member(Name, Names);
        none -> false
    end.

%% Collects the functions that these call, directly or not, if the run called them and the plan
%% would cut them.
behind(Mfas, Cut, Summaries) -> behind(Mfas, Cut, Summaries, #{}).

behind([Mfa | Mfas], Cut, Summaries, Found) when is_map_key(Mfa, Found);
                                                 not is_map_key(Mfa, Cut) ->
    behind(Mfas, Cut, Summaries, Found);
behind([Mfa | Mfas], Cut, Summaries, Found) ->
    behind(calls(Mfa, Summaries) ++ Mfas, Cut, Summaries, Found#{Mfa => []});
behind([], _, _, Found) ->
    Found.

%% Lists the functions that the run called by these edges into a feature that is off, without
%% those that have answers. If some have answers, edges by name to the functions behind them do
%% not count. These functions are callbacks of a server that then does not start.
taken(Edges, Called, Answered) ->
    {Answers, Others} = lists:partition(fun({To, _}) -> is_map_key(To, Answered) end, Edges),
    [To || {To, Reason} <- Others,
           Answers =:= [] orelse case Reason of
                                     {called, By} -> is_map_key(By, Called);
                                     _ -> false
                                 end].

%% Every present module has module_info.
is_in({M, module_info, _}, _, Modules) -> is_map_key(M, Modules);
is_in(Mfa, Live, _) -> is_map_key(Mfa, Live).

%% The code in the module serves its readers only. The VM has the function in any case.
is_in_c(Mfa, Summaries) ->
    lists:member({erlang, nif_error, 1}, calls(Mfa, Summaries)).

calls({M, F, A}, Summaries) ->
    #{M := #{functions := #{{F, A} := #{calls := Calls}}}} = Summaries,
    Calls.
