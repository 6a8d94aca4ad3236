%% @doc Judges the history of one case of docket.
%%
%% It first looks for an order that explains all results (linearizable). If there is none, it lets
%% reads be old: docket promises no more for a node outside the majority. If there is still none, a
%% write went wrong, and it says how. Nodes that differ after all faults are wrong in any case: a
%% write with an unknown result could explain it, but the nodes have had time to agree.
-module(verdicts).

-export([kinds/0, judge/1, judge/2, set/2]).

-export_type([kind/0, verdict/0]).

-type kind() :: lost_case     % a case that was certainly opened, and never removed, is not there
              | lost_write    % another acknowledged write is not there in the end
              | lost_update   % two acknowledged writes changed one version
              | dirty_read    % someone saw a title whose write certainly failed, or none wrote
              | forked        % one version was seen with two titles
              | diverged      % after all faults, nodes show different states
              | unordered     % no order explains the writes, and none of the above is the reason
              | stale_read    % an order explains all, if reads may be old
              | unclear.      % the search was given up
-type verdict() :: {kind(), Why :: term()}.

%% The pairs of a search. One takes about 200 bytes.
-define(MOST, 1_000_000).

%% @doc Lists the kinds of verdicts, the worst first.
-spec kinds() -> [kind(), ...].
kinds() ->
    [lost_case, lost_write, lost_update, dirty_read, forked, diverged, unordered, stale_read,
     unclear].

%% @doc Judges the operations of one case. No verdict means that all is well.
-spec judge([history:operation()]) -> [verdict()].
judge(Operations) -> judge(Operations, ?MOST).

%% @doc Judges the operations of one case with a bound for each search.
-spec judge([history:operation()], Most :: pos_integer()) -> [verdict()].
judge(Operations, Most) ->
    Timed = case_register:timed(Operations),
    case linearizable:check(case_register, Timed, Most) of
        linearizable -> diverged(Operations);
        Outcome ->
            case {linearizable:check(case_register, [relaxed(Each) || Each <- Timed], Most),
                  reasons(Operations)} of
                {linearizable, _} when Outcome =:= unclear -> [{unclear, order}];
                {linearizable, _} -> [{stale_read, Outcome}];
                {_, [_ | _] = Reasons} -> Reasons;
                {unclear, []} -> [{unclear, order}];
                {Not, []} -> [{unordered, Not}]
            end
    end.

%% An old read may show any state before its end. A read after all faults must be fresh.
relaxed({_, _, {final, _}} = Final) -> Final;
relaxed({_, Return, Operation} = Timed) ->
    case case_register:is_read(Operation) of
        true -> {-(1 bsl 60), Return, Operation};
        false -> Timed
    end.

%% Each of these reasons contradicts every order.
reasons(Operations) ->
    Acknowledged = [Operation || #{input := Input, result := {ok, _}} = Operation <- Operations,
                                 not case_register:is_read(Input)],
    lost_writes(Acknowledged, Operations) ++ lost_updates(Acknowledged)
        ++ dirty_reads(Operations) ++ forked(Operations) ++ diverged(Operations).

finals(Operations) ->
    [{Node, State} || #{input := final, node := Node, result := {ok, State}} <- Operations].

%% A write is lost if no node has it, or a later one. The first write of a case needs no lock, so a
%% mode may keep it that does not keep the others.
lost_writes(Acknowledged, Operations) ->
    Removals = [remove || #{input := {remove, _}, result := {Kind, _}} <- Operations,
                          Kind =:= ok orelse Kind =:= unknown],
    case lists:usort([State || {_, State} <- finals(Operations)]) of
        [] -> [];
        States -> [{lost(Write), Write} || #{result := {ok, Made}} = Write <- Acknowledged,
                                           not lists:any(fun(State) ->
                                                                 is_kept(Made, State, Removals)
                                                         end, States)]
    end.

lost(#{input := {create, _}}) -> lost_case;
lost(_) -> lost_write.

is_kept(_, absent, Removals) -> Removals =/= [];
is_kept(absent, _, _) -> false;
is_kept({Version, Title}, {Version, Title}, _) -> true;
is_kept({Version, _}, {Later, _}, _) -> Later > Version.

lost_updates(Acknowledged) ->
    groups(lost_update, [{from(Input), Write} || #{input := Input} = Write <- Acknowledged]).

from({create, _}) -> 0;
from({change, From, _}) -> From;
from({remove, From}) -> From.

dirty_reads(Operations) ->
    Written = [written(Input) || #{input := Input, result := {Kind, _}} <- Operations,
                                 Kind =:= ok orelse Kind =:= unknown],
    [{dirty_read, Read} || #{result := {_, {_, Title}}} = Read <- seen(Operations),
                           not lists:member(Title, Written)].

written({create, Title}) -> Title;
written({change, _, Title}) -> Title;
written(_) -> none.

%% The operations whose results show a title.
seen(Operations) ->
    [Operation || #{result := {Kind, {_, _}}} = Operation <- Operations,
                  Kind =:= ok orelse Kind =:= refused].

forked(Operations) ->
    Shown = lists:usort([State || #{result := {_, State}} <- seen(Operations)]),
    groups(forked, Shown).

diverged(Operations) ->
    Finals = finals(Operations),
    case lists:usort([State || {_, State} <- Finals]) of
        [_, _ | _] -> [{diverged, Finals}];
        _ -> []
    end.

%% One verdict for each key with several values.
groups(Kind, Pairs) ->
    [{Kind, Several} || Key <- lists:usort([Key || {Key, _} <- Pairs]),
                        [_, _ | _] = Several <- [[Value || {Own, Value} <- Pairs, Own =:= Key]]].

%% @doc Judges the set of all cases: all operations of a run, and the list in the end, each case
%% with its title. A create whose result is unknown has no id, but its title shows it.
-spec set([history:operation()], Final :: [{history:key(), Title :: binary()}]) -> [verdict()].
set(Operations, Final) ->
    Did = [{What, Element, Result} || Operation <- Operations,
                                      {What, Element, Result} <- membership(Operation)],
    Known = maps:from_list([{Key, []} || {add, {id, Key}, _} <- Did]),
    List = [case Known of
                #{Key := _} -> {id, Key};
                #{} -> {title, Title}
            end || {Key, Title} <- Final],
    [{case Fault of lost -> lost_case; revived -> lost_write; invented -> dirty_read end,
      {Fault, Element}} || {Fault, Element} <- cluster_set:check(Did, List)].

membership(#{input := {create, _}, key := Key, result := {ok, _}}) -> [{add, {id, Key}, ok}];
membership(#{input := {create, Title}, result := {Kind, _}}) -> [{add, {title, Title}, Kind}];
membership(#{input := {remove, _}, key := Key, result := {Kind, _}})
  when Kind =:= ok; Kind =:= unknown -> [{remove, {id, Key}, Kind}];
membership(_) -> [].
