%% Tests the operations on cases against a model, over rows in a table of this suite, and in the
%% machine of the store `ra'.
-module(docket_cases_SUITE).
-include_lib("stdlib/include/assert.hrl").
-include_lib("proper/include/proper.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([model/1, lists/1, long_search/1, search/1, documents/1, ra_machine/1,
         snapshots/1]).
%% The rows of a store
-export([read/3, write/2, delete/2, before/2]).

all() ->
    case erlang:function_exported(gb_trees, smaller, 2) of
        true -> [ra_machine, snapshots];
        false ->
            io:format("docket_cases_SUITE: no cases for ra: OTP 25 and 26 lack gb_trees:smaller~n"),
            []
    end ++ [model, lists, long_search, search, documents].

init_per_testcase(_, Config) -> Config.
end_per_testcase(_, _) -> ok.

-define(CHECK(Property, N),
        ?assertEqual(true, proper:quickcheck(Property, [{numtests, N}, quiet, long_result]))).

%% Of each case the model knows the version, the state, the title and the numbers of its documents.
%% Each operation has the model's result; a case has an event for each version; a removed case
%% leaves no file.
model(_) ->
    ?CHECK(?FORALL(Operations, list(operation()),
                   begin
                       ok = new_rows(),
                       Model = lists:foldl(fun checked/2, #{}, Operations),
                       maps:fold(fun(Key, Case, Ok) -> Ok andalso agrees(Key, Case) end, true,
                                 Model)
                   end), 500).

operation() ->
    oneof([{create, key(), fields()}, {change, key(), version(), fields()},
           {change, key(), version(), ?LET(State, oneof([open, closed]), #{state => State})},
               {remove, key(), version()},
           {attach, key()}, {detach, key(), range(1, 6)}, {show, key()}]).

key() -> {oneof([<<"ann">>, <<"bob">>]), range(1, 3)}.
version() -> oneof([now, range(1, 4)]).
fields() -> ?LET(Title, oneof([<<"one">>, <<"two">>]), #{title => Title, parties => []}).

checked(Operation, Model) ->
    {Key, Before} = {element(2, Operation), maps:get(element(2, Operation), Model, none)},
    {Expected, After} = expected(Operation, Before),
    ?assertEqual({Operation, Expected}, {Operation, did(work(filled(Operation, Before)))}),
    case After of none -> Model; _ -> Model#{Key => After} end.

%% Replaces `now' by the version that the case has.
filled(Operation, Case) ->
    Version = case Case of {V, _, _, _} -> V; {removed, V} -> V; none -> 1 end,
    List = [case Part of now -> Version; _ -> Part end || Part <- tuple_to_list(Operation)],
    case List of
        [attach, Key] -> {attach, Key, {<<"a">>, <<"text/plain">>}, <<"hello">>, 1};
        [show, _] -> list_to_tuple(List);
        _ -> list_to_tuple(List ++ [1])
    end.

did({ok, removed}) -> ok;
did({ok, _}) -> ok;
did({error, {conflict, _}}) -> conflict;
did({error, Reason}) -> Reason.

expected({create, _, #{title := Title}}, none) -> {ok, {1, open, Title, []}};
expected({create, _, _}, Case) -> {id_taken, Case};
expected(_, none) -> {not_found, none};
expected(_, {removed, _} = Case) -> {not_found, Case};
expected({show, _}, Case) -> {ok, Case};
expected({change, _, Given, Fields}, {Version, State, Title, Documents} = Case) ->
    Next = maps:get(state, Fields, State),
    if
        Given =/= now, Given =/= Version -> {conflict, Case};
        State =:= closed, not (is_map_key(state, Fields) andalso Next =:= open) -> {closed, Case};
        true -> {ok, {Version + 1, Next, maps:get(title, Fields, Title), Documents}}
    end;
expected({remove, _, Given}, {Version, _, _, _} = Case) when Given =/= now, Given =/= Version ->
    {conflict, Case};
expected({remove, _, _}, {Version, _, _, _}) -> {ok, {removed, Version + 1}};
expected({attach, _}, {_, closed, _, _} = Case) -> {closed, Case};
expected({attach, _}, {Version, open, Title, Documents}) ->
    {ok, {Version + 1, open, Title, [Version + 1 | Documents]}};
expected({detach, _, _}, {_, closed, _, _} = Case) -> {closed, Case};
expected({detach, _, Number}, {Version, open, Title, Documents} = Case) ->
    case lists:member(Number, Documents) of
        true -> {ok, {Version + 1, open, Title, lists:delete(Number, Documents)}};
        false -> {not_found, Case}
    end.

agrees({Owner, Id} = Key, Case) ->
    {Version, Files} = case Case of
                           {removed, Last} -> {Last, []};
                           {Last, State, Title, Documents} ->
                               {ok, Row} = work({show, Key}),
                               #{title := Title, state := State, version := Last} =
                                   docket_case:view(Row),
                               {Last, Documents}
                       end,
    {ok, Events} = work({events, Key, 0, 1000}),
    Version =:= length(Events)
        andalso lists:seq(1, Version) =:= [V
                                           || #{version := V} <- [docket_event:view(E)
                                                                  || E <- Events]]
        andalso lists:sort(Files)
            =:= lists:sort([Number || {O, I, Number} <- files(), O =:= Owner, I =:= Id]).

%% The pages of a list hold each of the owner's cases once, latest first.
lists(_) ->
    ?CHECK(?FORALL({Ids, Limit}, {list({oneof([<<"a">>, <<"ann">>, <<"b">>]), range(1, 40)}),
                                  range(1, 7)},
                   begin
                       ok = new_rows(),
                       Keys = lists:usort(Ids),
                       [{ok, _} = work({create, Key, #{title => <<"x">>, parties => []}, 1})
                        || Key <- Keys],
                       lists:all(fun(Owner) ->
                                         [Key || {O, _} = Key <- lists:reverse(Keys), O =:= Owner]
                                             =:= pages(Owner, last, Limit)
                                 end, [<<"a">>, <<"ann">>, <<"b">>, <<"none">>])
                   end), 200).

pages(Owner, Before, Limit) ->
    {ok, {Cases, Next}} = work({list, Owner, Before, Limit, #{}}),
    true = length(Cases) =< Limit,
    [docket_case:key(Case) || Case <- Cases]
        ++ case Next of none -> []; _ -> pages(Owner, Next, Limit) end.

%% One request reads a bounded number of rows; the next one goes on behind them.
long_search(_) ->
    ok = new_rows(),
    [{ok, _} = work({create, {<<"ann">>, Id}, #{title => <<"common">>, parties => []}, 1})
     || Id <- lists:seq(2, 3000)],
    {ok, _} = work({create, {<<"ann">>, 1}, #{title => <<"Rare ÄPFEL"/utf8>>, parties => []}, 1}),
    Filter = #{text => <<"äpf"/utf8>>},
    {ok, {[], Next}} = work({list, <<"ann">>, last, 10, Filter}),
    {ok, {[], Last}} = work({list, <<"ann">>, Next, 10, Filter}),
    {ok, {[Case], _}} = work({list, <<"ann">>, Last, 10, Filter}),
    ?assertEqual({<<"ann">>, 1}, docket_case:key(Case)).

%% A search looks at the title and the names of the parties, and at the state.
search(_) ->
    ok = new_rows(),
    {ok, _} = work({create, {<<"ann">>, 1}, #{title => <<"Roof">>, parties => []}, 1}),
    {ok, _} =
        work({create, {<<"ann">>, 2}, #{title => <<"Door">>, parties => [{<<"Bob">>, <<"roof">>}]},
              1}),
    {ok, _} = work({change, {<<"ann">>, 1}, 1, #{state => closed}, 1}),
    [?assertEqual({Filter, Ids},
                  {Filter, begin
                               {ok, {Cases, none}} = work({list, <<"ann">>, last, 10, Filter}),
                               [Id || {_, Id} <- [docket_case:key(Case) || Case <- Cases]]
                           end})
     || {Filter, Ids} <- [{#{text => <<"ROO">>}, [1]}, {#{text => <<"bob">>}, [2]},
                          {#{state => open}, [2]},
                          {#{state => closed, text => <<"o">>}, [1]}, {#{text => <<"z">>}, []}]].

%% A case has at most 100 documents.
documents(_) ->
    ok = new_rows(),
    Key = {<<"ann">>, 1},
    Attach = {attach, Key, {<<"a">>, <<"text/plain">>}, <<"x">>, 1},
    {ok, _} = work({create, Key, #{title => <<"x">>, parties => []}, 1}),
    [{ok, _} = work(Attach) || _ <- lists:seq(1, 100)],
    ?assertEqual({error, too_many_documents}, work(Attach)),
    {ok, {{2, <<"a">>, <<"text/plain">>, 1}, <<"x">>}} = work({document, Key, 2}),
    ?assertEqual({error, not_found}, work({document, {<<"bob">>, 1}, 2})).

%% Each machine does the same, and goes on from a snapshot.
ra_machine(_) ->
    _ = put(machine, none),
    [?MODULE:Case([]) || Case <- [model, lists, long_search, search, documents]].

%% The log ends after some operations, or some bytes.
snapshots(_) ->
    Create = fun(Id) -> {create, {<<"ann">>, Id}, #{title => <<"x">>, parties => []}, 1} end,
    {Machine, Ended} = lists:foldl(fun machine_step/2, {docket_ra_machine:init(#{}), []},
                                   [{Id, Create(Id)} || Id <- lists:seq(1, 9000)]),
    ?assertEqual([8192, 4096], Ended),
    Attach = {attach, {<<"ann">>, 1}, {<<"a">>, <<"text/plain">>}, binary:copy(<<"x">>, 1_000_000),
              1},
    {_, Again} = lists:foldl(fun machine_step/2, {Machine, []},
                             [{Index, Attach} || Index <- lists:seq(9001, 9100)]),
    ?assertEqual([9064], Again).

machine_step({Index, Operation}, {Machine, Ended}) ->
    case docket_ra_machine:apply(#{index => Index}, Operation, Machine) of
        {Next, {ok, _}} -> {Next, Ended};
        {Next, {ok, _}, [{release_cursor, Index, Next}]} -> {Next, [Index | Ended]}
    end.

work(Operation) ->
    case get(machine) of
        undefined -> docket_cases:work(?MODULE, Operation);
        Machine ->
            Done = docket_ra_machine:apply(#{index => 1}, Operation, Machine),
            _ = put(machine, element(1, Done)),
            %% Not for long tests, whose states are large
            Copy = case docket_ra_machine:count(Machine) < 50 of
                       true -> binary_to_term(term_to_binary(Machine));
                       false -> Machine
                   end,
            ?assertEqual(Done, docket_ra_machine:apply(#{index => 1}, Operation, Copy)),
            element(2, Done)
    end.

files() ->
    case get(machine) of
        undefined -> ets:select(docket_file, [{{'_', '$1', '_'}, [], ['$1']}]);
        Machine ->
            #{docket_file := {set, Files}} = element(2, Machine),
            maps:keys(Files)
    end.

%% The rows

new_rows() ->
    case get(machine) of
        undefined -> new_tables();
        _ ->
            _ = put(machine, docket_ra_machine:init(#{})),
            ok
    end.

new_tables() ->
    [begin
         _ = ets:whereis(Name) =:= undefined orelse ets:delete(Name),
         Name = ets:new(Name, [Type, named_table, public, {keypos, 2}])
     end || {Name, _, Type} <- docket_cases:tables(docket_case:newest())],
    ok.

read(Table, Key, _) -> ets:lookup(Table, Key).
write(Table, Row) -> true = ets:insert(Table, Row), ok.
delete(Table, Key) -> true = ets:delete(Table, Key), ok.
before(Table, Key) -> ets:prev(Table, Key).
