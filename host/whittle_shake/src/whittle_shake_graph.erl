%% @doc Which functions can be reached, and by what.
%%
%% The facts of functions ({@link whittle_shake_facts}) become nodes, edges and watches
%% ({@link whittle_shake_sets}) when the function is live: a node for each parameter,
%% each result, each element of each tuple that is built, and for the pairs of module and
%% function that come to a call by name.
%%
%% A function of which a parameter is called, or names the module of a call or the tag
%% of a tuple, is looked at once for each constant that it is called with there
%% ({@link whittle_shake_contexts}).
%%
%% Past 600 lines, for it is one circle: what is new to a node makes functions live, fills
%% tuples and finds pairs, and each of these brings something new to nodes. Parted, the
%% modules would call each other both ways over one state.
-module(whittle_shake_graph).

-export([solve/1, live/1, statistics/1]).

-export_type([input/0, result/0, reason/0]).

-type input() ::
        #{facts := #{module() => #{{atom(), arity()} => whittle_shake_facts:facts()}},
          exports := #{module() => [{atom(), arity()}]},
          roots := [{mfa(), Args :: [term()], Why :: term()}],
          cut => #{module() | mfa() => []}}.    % what is not followed, as if not there

-type reason() :: {root, term()} | {call, mfa()} | {makes, mfa()} | {site, mfa(), integer()}
                | on_load.

%% A function with what is known of its parameters, by number.
-type instance() :: pos_integer().
-type constant() :: {atom, atom()} | {'fun', mfa()} | {lambda, instance()} | {tuple, pos_integer()}.
-type context() :: [{non_neg_integer(), constant()}].

%% Where arguments are taken from.
-type given() :: {each, instance(), [whittle_shake_value:arg()]}
               | {list, whittle_shake_sets:id()}.

%% Which call or tuple it was, and which argument.
-type where() :: none | {instance(), whittle_shake_value:site()} | {tuple | list, integer()}
               | {last, where(), integer()}.

%% A tuple that is built somewhere in live code; those of one function with the same
%% constant as their first and as their second element and of the same size are
%% one; `kept': the first element is not given, but that of the tuple that was changed.
-record(tuple, {tag :: {tag, atom()} | any | kept,
                size :: non_neg_integer() | any,
                second :: {tag, atom()} | any,
                built :: [built()]}).

-type built() :: {pos_integer(), instance(),
                  [whittle_shake_value:arg()] | {any, whittle_shake_value:arg()},
                  Rest :: [whittle_shake_value:token()]}.

-type ask() :: {I :: integer(), J :: integer(), K :: integer() | none, To :: integer()}.

-record(s, {facts, exports, names,
            tags :: #{atom() => []},
            operative :: whittle_shake_contexts:t(),
            sets = whittle_shake_sets:new() :: whittle_shake_sets:t(),
            live = #{} :: #{mfa() => reason()},
            modules = #{} :: #{module() => []},
            on_load :: #{module() => [{atom(), arity()}]},
            cut :: #{module() | mfa() => []},
            instances = #{} :: #{{mfa(), context()} => instance()},
            who = #{} :: #{instance() => {mfa(), context()}},
            todo = queue:new() :: queue:queue(instance()),
            %% What the sites of an instance give, where that is not a node of their own.
            sites = #{} :: #{{instance(), whittle_shake_value:site()} =>
                                 constant() | {node, integer()} | none},
            tuples = #{} :: #{pos_integer() => #tuple{}},
            classes = #{} :: #{{mfa(), whittle_shake_value:class(), {tag, atom()} | any} =>
                                   pos_integer()},
            count = 0 :: non_neg_integer(),
            pairs = #{} :: #{pos_integer() => [{whittle_shake_value:class(), ask()}]},
            given = #{none => none} :: #{where() => given() | none},
            %% Who asks for pairs of parameters, and who calls.
            asked = #{} :: #{instance() => [ask()]},
            callers = #{} :: #{instance() => [{non_neg_integer(), where(), given()}]}}).

-opaque result() :: #s{}.

%% @doc Everything that can be reached from the roots.
-spec solve(input()) -> result().
solve(#{facts := Facts, exports := Exports, roots := Roots} = Input) ->
    ByModule = maps:map(fun(_, Functions) -> grouped(Functions) end, Exports),
    ByName = maps:map(fun(_, Pairs) -> maps:from_list(Pairs) end,
                      grouped([{F, {M, Arities}} || {M, Named} <- maps:to_list(ByModule),
                                                    {F, Arities} <- maps:to_list(Named)])),
    OnLoad = maps:map(fun(_, Functions) ->
                              [Key || {Key, #{on_load := true}} <- maps:to_list(Functions)]
                      end, Facts),
    {Operative, Tags} = whittle_shake_contexts:new(Facts),
    S0 = #s{facts = Facts, exports = ByModule, names = ByName, tags = Tags, operative = Operative,
            on_load = OnLoad, cut = maps:get(cut, Input, #{})},
    {Vm, S1} = instance({vm, vm, 0}, [], S0),
    S2 = apply_facts(Vm, whittle_shake_facts:vm(), S1),
    {_, S3} = lists:foldl(fun({Mfa, Args, Why}, {N, S}) ->
                                  {Root, Sa} = instance({root, root, N}, [], S),
                                  Sb = live(Mfa, {root, Why}, Sa),
                                  Call = whittle_shake_facts:call(Mfa, Args),
                                  {N + 1, apply_facts(Root, Call, Sb)}
                          end, {0, S2}, Roots),
    run(S3).

grouped(Pairs) ->
    maps:groups_from_list(fun({Key, _}) -> Key end, fun({_, Value}) -> Value end, Pairs).

%% @doc The live functions, each with the first reason found.
-spec live(result()) -> #{mfa() => reason()}.
live(#s{live = Live}) -> Live.

%% @doc Sizes, for those who tune.
-spec statistics(result()) -> map().
statistics(#s{sets = Sets, live = Live, instances = Instances, callers = Callers, who = Who}) ->
    #{sets => whittle_shake_sets:size(Sets), live => map_size(Live),
      instances => map_size(Instances), largest => whittle_shake_sets:largest(60, Sets),
      who => Who, callers => Callers, all => Sets}.

run(#s{todo = Todo} = S) ->
    case queue:out(Todo) of
        {{value, Instance}, Rest} -> run(begin_function(Instance, S#s{todo = Rest}));
        {empty, _} ->
            case whittle_shake_sets:step(S#s.sets) of
                {done, Sets} -> S#s{sets = Sets};
                {Events, Sets} ->
                    run(lists:foldl(fun({What, New}, Now) -> seen(What, New, Now) end,
                                    S#s{sets = Sets}, Events))
            end
    end.

%% Functions

live({M, _, _} = Mfa, Reason, #s{live = Live} = S) ->
    case Live of
        #{Mfa := _} -> S;
        _ -> live_module(M, S#s{live = Live#{Mfa => Reason}})
    end.

live_module(M, #s{modules = Modules, on_load = OnLoad} = S) ->
    case Modules of
        #{M := []} -> S;
        _ ->
            S1 = put_tokens(modules, [{atom, M}], S#s{modules = Modules#{M => []}}),
            lists:foldl(fun({F, A}, Now) -> element(2, activate({M, F, A}, [], on_load, Now)) end,
                        S1, maps:get(M, OnLoad, []))
    end.

put_tokens(Place, Tokens, S) ->
    {Id, S1} = place(Place, written, S),
    add(Id, Tokens, S1).

instance(Mfa, Context, #s{instances = Instances, who = Who} = S) ->
    Key = {Mfa, Context},
    case Instances of
        #{Key := Instance} -> {Instance, S};
        _ ->
            Instance = map_size(Instances) + 1,
            {Instance, S#s{instances = Instances#{Key => Instance}, who = Who#{Instance => Key}}}
    end.

%% The instance, which is live from now on.
activate({M, _, _} = Mfa, Context, Reason, #s{instances = Before, cut = Cut} = S) ->
    {Instance, S1} = instance(Mfa, Context, S),
    case map_size(S1#s.instances) =:= map_size(Before) of
        true -> {Instance, S1};
        false when is_map_key(M, Cut); is_map_key(Mfa, Cut) -> {Instance, S1};
        false ->
            S2 = live(Mfa, Reason, S1),
            {Instance, S2#s{todo = queue:in(Instance, S2#s.todo)}}
    end.

begin_function(Instance, #s{who = Who} = S) ->
    #{Instance := {Mfa, _}} = Who,
    lists:foldl(fun(Facts, Now) -> apply_facts(Instance, Facts, Now) end, S, facts(Mfa, S)).

facts({M, F, A} = Mfa, #s{facts = Facts}) ->
    case {Facts, whittle_shake_facts:native(Mfa)} of
        {#{M := #{{F, A} := Own}}, Native} ->
            case {is_stub(Own), Native} of
                {true, unknown} -> [Own, whittle_shake_facts:anything(A)];
                {true, _} -> [Native];
                {false, _} -> [Own]
            end;
        {#{M := _}, unknown} when M =:= erlang -> [whittle_shake_facts:anything(A)];
        {#{M := _}, Native} when Native =/= unknown -> [Native];
        _ -> []
    end.

%% What stands in a module for a function in C.
is_stub(#{natives := Natives}) ->
    lists:any(fun({erlang, nif_error, _}) -> true; (_) -> false end, Natives).

apply_facts(Instance, #{natives := Natives, sites := Sites, tuples := Tuples, writes := Writes},
            #s{who = Who} = S) ->
    #{Instance := {Mfa, _}} = Who,
    S1 = lists:foldl(fun(Native, Now) -> native(Native, {call, Mfa}, Now) end, S, Natives),
    {S2, Built} = lists:foldl(fun(Tuple, {Now, Done}) -> fill(tuple(Tuple, Instance, Now), Done)
                              end, {S1, []}, Tuples),
    S2b = lists:foldl(fun(Site, Now) -> prepare(Site, Instance, Now) end, S2,
                      lists:keysort(2, Sites)),
    S3 = lists:foldl(fun filled/2, S2b, Built),
    S4 = lists:foldl(fun(Site, Now) -> site(Site, Instance, Mfa, Now) end, S3, Sites),
    lists:foldl(fun({result, Tokens}, Now) ->
                        {Id, Next} = node({result, Instance}, Now),
                        flow(Tokens, Instance, Id, Next);
                   ({Place, Tokens}, Now) ->
                        {Id, Next} = place(Place, written, Now),
                        flow(Tokens, Instance, Id, Next)
                end, S4, Writes).

%% What a function in C does is written where it is called; some have a body as well.
native({M, F, A} = Mfa, Reason, #s{facts = Facts} = S) ->
    case Facts of
        #{M := #{{F, A} := Own}} ->
            case is_stub(Own) of
                true -> live(Mfa, Reason, S);
                false -> element(2, activate(Mfa, [], Reason, S))
            end;
        _ -> live(Mfa, Reason, S)
    end.

%% Values

resolved({{param, I}, Size}, Instance, S) ->
    case constant({param, I}, Instance, S) of
        {atom, Atom} -> {{tag, Atom}, Size};
        _ -> {any, Size}
    end;
resolved(Class, _, _) -> Class.

%% What a token is for sure, in that instance.
constant({atom, _} = Atom, _, _) -> Atom;
constant({'fun', _} = Fun, _, _) -> Fun;
constant({Made, Id}, Instance, #s{sites = Sites}) when Made =:= lambda; Made =:= tuple ->
    maps:get({Instance, Id}, Sites, none);
constant({param, I}, Instance, #s{who = Who}) ->
    #{Instance := {_, Context}} = Who,
    case lists:keyfind(I, 1, Context) of
        {_, Constant} -> Constant;
        false -> none
    end;
constant(_, _, _) -> none.

flow(Tokens, Instance, To, S) ->
    lists:foldl(fun(Token, Now) -> token(Token, Instance, To, Now) end, S, Tokens).

token({node, Id}, _, To, S) -> edge(Id, To, S);
token(Token, _, To, S) when Token =:= any_atom; Token =:= vm_atom; Token =:= reference ->
    add(To, [Token], S);
token(Token, Instance, To, S) ->
    case constant(Token, Instance, S) of
        none ->
            case source(Token, Instance, S) of
                {none, S1} -> S1;
                {Id, S1} -> edge(Id, To, S1)
            end;
        Constant -> add(To, [Constant], known(Constant, Instance, S))
    end.

%% The node that a token stands for.
source({place, Place}, _, S) -> place(Place, read, S);
source({param, I}, Instance, S) -> node({arg, Instance, I}, S);
source({site, Site}, Instance, #s{sites = Sites} = S) ->
    case Sites of
        #{{Instance, Site} := {node, Id}} -> {Id, S};
        _ -> node({site, Instance, Site}, S)
    end;
source(_, _, S) -> {none, S}.

%% What has a key may have one that is not known.
place({Kind, any}, How, S) ->
    {Read, S1} = node({Kind, read}, S),
    {Written, S2} = node({Kind, written}, S1),
    {case How of read -> Read; written -> Written end, edge(Written, Read, S2)};
place({Kind, _} = Place, _, #s{sets = Sets} = S) when Place =/= {dictionary, keys} ->
    case whittle_shake_sets:node({place, Place}, Sets) of
        {old, Id, _} -> {Id, S};
        {new, Id, Next} ->
            {Read, S1} = node({Kind, read}, S#s{sets = Next}),
            {Written, S2} = node({Kind, written}, S1),
            {Id, edge(Written, Read, edge(Written, Id, edge(Id, Read, S2)))}
    end;
place(Place, _, S) -> node({place, Place}, S).

%% A fun that is written out is live where it is taken.
known({'fun', Mfa}, Instance, #s{who = Who} = S) ->
    #{Instance := {By, _}} = Who,
    element(2, activate(Mfa, [], {makes, By}, S));
known(_, _, S) -> S.

add(Id, Tokens, #s{sets = Sets} = S) ->
    case [Token || Token <- Tokens, is_followed(Token, S)] of
        [] -> S;
        Followed ->
            Grouped = lists:foldl(fun(Token, Now) -> grouped(Token, S, Now) end, Sets, Followed),
            S#s{sets = whittle_shake_sets:add(Id, Followed, Grouped)}
    end.

%% Who watches asks for some kinds of tokens only.
grouped(Token, S, Sets) ->
    case whittle_shake_sets:is_known(Token, Sets) of
        true -> Sets;
        false -> whittle_shake_sets:group(Token, groups(Token, S), Sets)
    end.

groups({tuple, Number}, #s{tuples = Tuples}) ->
    case Tuples of
        #{Number := #tuple{size = any}} -> [any_tuple, tuple];
        #{Number := #tuple{tag = Tag, size = Size}} when Tag =:= any; Tag =:= kept ->
            [{loose, Size}, loose, {size, Size}, tuple];
        #{Number := #tuple{tag = Tag, size = Size}} ->
            [{Tag, Size}, {Tag, any}, {size, Size}, tuple]
    end;
groups({mf, _, _, _}, _) -> [pair];
groups({Fun, _}, _) when Fun =:= lambda; Fun =:= 'fun' -> ['fun'];
groups(_, _) -> [atom].

%% The groups of the tuples that can be of a class.
of_class({Tag, {Size, _}}) -> of_class({Tag, Size});
of_class({any, any}) -> [tuple];
of_class({any, Size}) -> [{size, Size}, any_tuple];
of_class({Tag, any}) when Tag =:= other; Tag =:= reference -> [tuple];
of_class({Tag, any}) -> [{Tag, any}, loose, any_tuple];
of_class({Tag, Size}) -> [{Tag, Size}, {loose, Size}, any_tuple].

%% What a watch wants to know of.
wanted({get, Class, _, _}) -> of_class(Class);
wanted({pair, {_, Size}, _}) -> of_class({any, Size});
wanted({apply, _, _}) -> [pair];
wanted({make_fun, _, _}) -> [pair];
wanted({given, _, _}) -> [pair];
wanted({call_fun, _, _}) -> ['fun'];
wanted(_) -> [atom].

%% Atoms that name a module or a function, or that somebody expects as a tag.
is_followed({atom, Atom}, #s{exports = Exports, names = Names, tags = Tags}) ->
    is_map_key(Atom, Exports) orelse is_map_key(Atom, Names) orelse is_map_key(Atom, Tags);
is_followed(_, _) -> true.

edge(From, To, #s{sets = Sets} = S) -> S#s{sets = whittle_shake_sets:edge(From, To, Sets)}.

node(Key, #s{sets = Sets} = S) ->
    {_, Id, Next} = whittle_shake_sets:node(Key, Sets),
    {Id, S#s{sets = Next}}.

%% A node that holds what an argument is.
arg_node(Key, Arg, Instance, S) ->
    {Id, S1} = node(Key, S),
    {Id, flow_arg(Arg, Instance, Id, S1)}.

flow_arg(none, _, _, S) -> S;
flow_arg({Tokens, _, _}, Instance, To, S) -> flow(Tokens, Instance, To, S).

watch(Id, What, #s{sets = Sets} = S) ->
    {Now, Next} = whittle_shake_sets:watch(Id, wanted(What), What, Sets),
    seen(What, Now, S#s{sets = Next}).

%% Tuples

tuple({Id, Elements, Rest}, Instance, #s{sites = Sites} = S) ->
    case matters(Elements, Instance, S) of
        true ->
            Second = second(Elements, Instance, S),
            Class = class(Elements, Rest, Instance, S),
            {Number, S1} = tuple_of(Class, Second, Instance, S),
            #s{count = Count, tuples = Tuples, sites = Sites} = S1,
            #{Number := #tuple{built = Built} = Tuple} = Tuples,
            New = {Count + 1, Instance, Elements, Rest},
            S2 = S1#s{count = Count + 1, sites = Sites#{{Instance, Id} => {tuple, Number}},
                      tuples = Tuples#{Number := Tuple#tuple{built = [New | Built]}}},
            {Number, New, S2};
        false ->
            {none, S#s{sites = Sites#{{Instance, Id} => none}}}
    end.

%% Once all tuples and calls of an instance have their tokens.
fill({none, S}, Done) -> {S, Done};
fill({Number, New, S}, Done) -> {S, [{Number, New} | Done]}.

filled({Number, {_, Instance, Elements, _} = New}, #s{pairs = Pairs} = S) ->
    S1 = case Elements of
             {any, Any} -> filled(Number, any, [Any], Instance, S);
             _ -> filled(Number, 0, Elements, Instance, S)
         end,
    lists:foldl(fun({Class, Ask}, Now) -> pair(New, Class, Ask, Now) end, S1,
                maps:get(Number, Pairs, [])).

filled(Number, I, [{[_ | _] = Tokens, _, _} | Elements], Instance, S) ->
    {Id, S1} = element_node(Number, I, S),
    filled(Number, next(I), Elements, Instance, flow(Tokens, Instance, Id, S1));
filled(Number, I, [_ | Elements], Instance, S) ->
    filled(Number, next(I), Elements, Instance, S);
filled(_, _, [], _, S) -> S.

next(any) -> any;
next(I) -> I + 1.

tuple_of({{tag, _}, _} = Class, Second, Instance, #s{classes = Classes, who = Who} = S) ->
    #{Instance := {Mfa, _}} = Who,
    Key = {Mfa, Class, Second},
    case Classes of
        #{Key := Number} -> {Number, S};
        _ ->
            {Number, S1} = new_tuple(Class, Second, S),
            {Number, S1#s{classes = Classes#{Key => Number}}}
    end;
tuple_of(Class, Second, _, S) -> new_tuple(Class, Second, S).

new_tuple({Tag, Size}, Second, #s{tuples = Tuples} = S) ->
    Number = map_size(Tuples) + 1,
    {Number, S#s{tuples = Tuples#{Number => #tuple{tag = Tag, size = Size, second = Second,
                                                built = []}}}}.

second([_, {[Token], _, none} | _], Instance, S) ->
    case constant(Token, Instance, S) of
        {atom, Atom} -> {tag, Atom};
        _ -> any
    end;
second(_, _, _) -> any.

class({any, _}, [], _, _) -> {any, any};
class({any, _}, _, _, _) -> {kept, any};
class([none | _] = Elements, [_ | _], _, _) -> {kept, length(Elements)};
class([{[Token], _, none} | _] = Elements, _, Instance, S) ->
    case constant(Token, Instance, S) of
        {atom, Atom} -> {{tag, Atom}, length(Elements)};
        _ -> {any, length(Elements)}
    end;
class(Elements, _, _, _) -> {any, length(Elements)}.

%% Whether anything can be found in it that is followed.
matters({any, _}, _, _) -> true;
matters(Elements, Instance, S) ->
    lists:any(fun({Tokens, _, _}) ->
                      lists:any(fun(Token) ->
                                        case constant(Token, Instance, S) of
                                            none -> not is_tuple_of_nothing(Token);
                                            Constant -> is_followed(Constant, S)
                                        end
                                end, Tokens);
                 (none) -> false
              end, Elements).

is_tuple_of_nothing({tuple, _}) -> true;
is_tuple_of_nothing(_) -> false.

%% The node of an element.
element_node(Number, Index, #s{tuples = Tuples} = S) ->
    #{Number := #tuple{size = Size}} = Tuples,
    node({element, Number, case Size of any -> any; _ -> Index end}, S).

%% What one of these tuples has there comes to the node.
get(Tuple, Class, Index, To, Instance, Key, S) ->
    {Base, S1} = base(Tuple, Instance, Key, S),
    watch(Base, {get, resolved(Class, Instance, S), Index, To}, S1).

base([Token] = Tokens, Instance, Key, S) ->
    case source(Token, Instance, S) of
        {none, S1} -> base_node(Tokens, Instance, Key, S1);
        {Id, S1} ->
            case constant(Token, Instance, S) of
                none -> {Id, S1};
                _ -> base_node(Tokens, Instance, Key, S1)
            end
    end;
base(Tokens, Instance, Key, S) ->
    base_node(Tokens, Instance, Key, S).

base_node(Tokens, Instance, Key, S) ->
    {Id, S1} = node({base, Instance, Key}, S),
    {Id, flow(Tokens, Instance, Id, S1)}.

got(Number, {Tag, Size}, Index, To, #s{tuples = Tuples} = S) ->
    #{Number := #tuple{tag = Own} = Tuple} = Tuples,
    case fits(Size, Tuple, Index) of
        false -> S;
        true when Tag =:= any; Tag =:= Own; Own =:= kept; Own =:= any, Tag =:= other ->
            from_tuple(Number, Tuple, Index, To, S);
        true when Own =:= any ->
            case is_expected(Tag, S) of
                true ->
                    {Chosen, S1} = chosen(Number, Tag, Index, S),
                    edge(Chosen, To, S1);
                false -> from_tuple(Number, Tuple, Index, To, S)
            end;
        true -> S
    end.

fits(_, #tuple{size = any}, _) -> true;
fits(any, _, any) -> true;
fits(any, #tuple{size = Size}, Index) -> Index < Size;
fits({Size, Second}, #tuple{size = Size, second = Own}, _) ->
    Own =:= any orelse Own =:= {tag, Second};
fits(Size, #tuple{size = Size}, _) -> true;
fits(_, _, _) -> false.

is_expected({tag, Atom}, S) -> is_followed({atom, Atom}, S);
is_expected(reference, _) -> true.

from_tuple(Number, #tuple{size = Size}, any, To, S) when is_integer(Size) ->
    lists:foldl(fun(I, Now) ->
                        {Id, Next} = element_node(Number, I, Now),
                        edge(Id, To, Next)
                end, S, lists:seq(0, Size - 1));
from_tuple(Number, _, Index, To, S) ->
    {Id, S1} = element_node(Number, Index, S),
    edge(Id, To, S1).

%% The element, once the first one can be that tag.
chosen(Number, Tag, Index, #s{sets = Sets} = S) ->
    case whittle_shake_sets:node({chosen, Number, Tag, Index}, Sets) of
        {old, Id, _} -> {Id, S};
        {new, Id, Next} ->
            {First, S1} = element_node(Number, 0, S#s{sets = Next}),
            {Id, watch(First, {chosen, Tag, Number, Index, Id}, S1)}
    end.

%% Calls

%% What a site gives is known before what flows to sites.
prepare({lambda, N, {F, A}, Free}, Instance, #s{who = Who} = S) ->
    #{Instance := {{M, _, _} = By, _}} = Who,
    First = A - length(Free),
    Mfa = {M, F, A},
    Context = context(Mfa, {each, Instance, Free}, First, S),
    {Lambda, S1} = activate(Mfa, Context, {makes, By}, S),
    S1#s{sites = (S1#s.sites)#{{Instance, N} => {lambda, Lambda}}};
prepare({call, N, Mfa, Args}, Instance, #s{who = Who} = S) ->
    #{Instance := {By, _}} = Who,
    {Called, S1} = activate(Mfa, context(Mfa, {each, Instance, Args}, 0, S), {call, By}, S),
    {Result, S2} = node({result, Called}, S1),
    S2#s{sites = (S2#s.sites)#{{Instance, N} => {node, Result}}};
prepare(_, _, S) -> S.

%% The parameters that matter and are constants.
context(Mfa, {each, Instance, Args}, First, #s{operative = Operative} = S) ->
    [{I, Constant} || I <- whittle_shake_contexts:operative(Mfa, Operative),
                      I >= First, I - First < length(Args),
                      {[Token], _, none} <- [lists:nth(I - First + 1, Args)],
                      Constant <- [constant(Token, Instance, S)], fits_context(Constant, S)];
context(_, {list, _}, _, _) -> [].

%% Funs that bring funs that bring funs could go on for ever.
fits_context(none, _) -> false;
fits_context({tuple, _}, _) -> false;
fits_context({node, _}, _) -> false;
fits_context({lambda, Lambda}, #s{who = Who}) ->
    #{Lambda := {_, Context}} = Who,
    lists:all(fun({_, {lambda, Inner}}) -> element(2, maps:get(Inner, Who)) =:= [];
                 (_) -> true
              end, Context);
fits_context(_, _) -> true.

site({call, N, Mfa, Args}, Instance, _, S) ->
    Given = {each, Instance, Args},
    {Called, S1} = instance(Mfa, context(Mfa, Given, 0, S), S),
    pass(Called, Given, {Instance, N}, 0, S1);
site({lambda, N, {_, A}, Free}, Instance, _, #s{sites = Sites} = S) ->
    #{{Instance, N} := {lambda, Lambda}} = Sites,
    pass(Lambda, {each, Instance, Free}, {Instance, N}, A - length(Free), S);
site({get, Id, Tuple, Class, Index}, Instance, _, S) ->
    {To, S1} = node({site, Instance, Id}, S),
    get(Tuple, Class, Index, To, Instance, Id, S1);
site({apply, N, M, F, Args}, Instance, _, S) ->
    Where = {Instance, N},
    {Given, S1} = given(Args, Instance, N, S),
    {Id, S2} = node({pairs, Instance, N}, S1),
    Last = case Args of {list, List} -> List; _ -> uncorrelated end,
    S3 = pairs({M, {at, Where, m}}, {F, {at, Where, f}}, Last, Where, Instance, Id,
               given_at(Where, Given, S2)),
    watch(Id, {apply, Instance, N}, S3);
site({make_fun, N, M, F}, Instance, _, S) ->
    {Id, S1} = node({pairs, Instance, N}, S),
    Where = {Instance, N},
    S2 = pairs({M, {at, Where, m}}, {F, {at, Where, f}}, uncorrelated, none, Instance, Id, S1),
    watch(Id, {make_fun, Instance, N}, S2);
site({call_fun, N, Fun, Args}, Instance, _, S) ->
    {Given, S1} = given(Args, Instance, N, S),
    {Id, S2} = arg_node({called, Instance, N}, Fun, Instance, S1),
    watch(Id, {call_fun, Instance, N}, given_at({Instance, N}, Given, S2)).

given({each, Args}, Instance, _, S) -> {{each, Instance, Args}, S};
given({list, {_, _, Elements}}, Instance, _, S) when is_list(Elements) ->
    {{each, Instance, Elements}, S};
given({list, List}, Instance, N, S) ->
    {Id, S1} = arg_node({list, Instance, N}, List, Instance, S),
    {{list, Id}, S1}.

%% The arguments come to the parameters, counted from `First'.
pass(Called, Given, Where, First, #s{callers = Callers, asked = Asked} = S) ->
    Caller = {First, Where, Given},
    S1 = S#s{callers = Callers#{Called => [Caller | maps:get(Called, Callers, [])]}},
    S2 = passed(Called, Given, First, S1),
    lists:foldl(fun(Ask, Now) -> answer(Ask, Caller, Now) end, S2, maps:get(Called, Asked, [])).

passed(Called, {each, Instance, Args}, First, S) ->
    {_, Done} = lists:foldl(fun(Arg, {I, Now}) when Arg =:= none -> {I + 1, Now};
                               ({[], _, _}, {I, Now}) -> {I + 1, Now};
                               ({Tokens, _, _}, {I, Now}) ->
                                    case constant({param, I}, Called, Now) of
                                        none ->
                                            {Id, Next} = node({arg, Called, I}, Now),
                                            {I + 1, flow(Tokens, Instance, Id, Next)};
                                        Constant ->
                                            {I + 1, known(Constant, Instance, Now)}
                                    end
                            end, {First, S}, Args),
    Done;
passed(Called, {list, List}, First, #s{who = Who} = S) ->
    #{Called := {{_, _, A}, _}} = Who,
    lists:foldl(fun(I, Now) ->
                        {Id, Next} = node({arg, Called, I}, Now),
                        edge(List, Id, Next)
                end, S, lists:seq(First, A - 1)).

%% Pairs of module and function, each with the arguments that belong to it, where the
%% last operand is they: what was built together comes together.

pairs({{_, {param, I}, _}, _}, {{_, {param, J}, _}, _}, Last, Where, Instance, To, S) ->
    case Last of
        {_, {param, K}, _} -> ask({Instance, I, J, K}, To, S);
        _ ->
            {Id, S1} = node({ask, Instance, I, J}, S),
            watch(Id, {given, Where, To}, ask({Instance, I, J, none}, Id, S1))
    end;
pairs({{_, {element, Base, Class, I, Tuple}, _}, _}, {{_, {element, Base, _, J, _}, _}, _}, Last,
      Where, Instance, To, S) when Base =/= none ->
    case Last of
        {_, {element, Base, _, K, _}, _} ->
            ask_tuples(Tuple, Class, {I, J, K, To}, Base, Instance, S);
        _ ->
            {Id, S1} = node({pairs_of, Instance, Base, I, J, Where}, S),
            S2 = ask_tuples(Tuple, Class, {I, J, none, Id}, Base, Instance, S1),
            watch(Id, {given, Where, To}, S2)
    end;
pairs({none, _}, _, _, _, _, _, S) -> S;
pairs(_, {none, _}, _, _, _, _, S) -> S;
pairs(M, F, _, Where, Instance, To, S) -> product(M, F, Where, Instance, To, S).

given_at(Where, Given, #s{given = Known} = S) -> S#s{given = Known#{Where => Given}}.

product({{Ms, _, _}, At}, {{Fs, _, _}, Bt}, Where, Instance, To, S) ->
    case can_be(Ms, fun is_module/2, Instance, S) andalso can_be(Fs, fun is_name/2, Instance, S) of
        true ->
            {M, S1} = node(At, S),
            {F, S2} = node(Bt, S1),
            S3 = flow(Fs, Instance, F, flow(Ms, Instance, M, S2)),
            product_nodes(M, F, Where, To, S3);
        false -> S
    end.

can_be(Tokens, Is, Instance, S) ->
    lists:any(fun(Token) ->
                      case constant(Token, Instance, S) of
                          none -> true;
                          Constant -> Is(Constant, S)
                      end
              end, Tokens).

is_module({atom, Atom}, #s{exports = Exports}) -> is_map_key(Atom, Exports);
is_module(_, _) -> false.

is_name({atom, Atom}, #s{names = Names}) -> is_map_key(Atom, Names);
is_name(_, _) -> false.

product_nodes(M, F, Where, To, S) ->
    watch(F, {f, M, Where, To}, watch(M, {m, F, Where, To}, S)).

%% Each call of the function is asked for the two arguments.
ask({Instance, I, J, K}, To, #s{asked = Asked, callers = Callers} = S) ->
    Ask = {I, J, K, To},
    Before = maps:get(Instance, Asked, []),
    case lists:member(Ask, Before) of
        true -> S;
        false ->
            S1 = S#s{asked = Asked#{Instance => [Ask | Before]}},
            lists:foldl(fun(Caller, Now) -> answer(Ask, Caller, Now) end, S1,
                        maps:get(Instance, Callers, []))
    end.

answer({I, J, K, To}, {First, Where, {each, Instance, Args}}, S) ->
    case {nth(I - First, Args), nth(J - First, Args)} of
        {{ok, M}, {ok, F}} when M =/= none, F =/= none ->
            {Last, From, S1} = last(K, K =/= none andalso nth(K - First, Args), Where, Instance, S),
            pairs({M, {at, Where, I - First}}, {F, {at, Where, J - First}}, Last, From, Instance,
                  To, S1);
        _ -> S
    end;
answer({_, _, _, To}, {_, _, {list, List} = Given}, S) ->
    product_nodes(List, List, {list, List}, To, given_at({list, List}, Given, S)).

nth(I, List) when I >= 0, I < length(List) -> {ok, lists:nth(I + 1, List)};
nth(_, _) -> error.

%% The arguments that are passed on as a list.
last(K, {ok, none}, Where, Instance, S) -> listed(K, {each, Instance, []}, uncorrelated, Where, S);
last(K, {ok, {Tokens, _, none} = Last}, Where, Instance, S) ->
    {Id, S1} = node({at, Where, {last, K}}, S),
    listed(K, {list, Id}, Last, Where, flow(Tokens, Instance, Id, S1));
last(K, {ok, {_, _, Elements}}, Where, Instance, S) ->
    listed(K, {each, Instance, Elements}, uncorrelated, Where, S);
last(_, _, _, _, S) -> {uncorrelated, none, S}.

listed(K, Given, Last, Where, S) ->
    From = {last, Where, K},
    {Last, From, given_at(From, Given, S)}.

%% Each of the tuples is asked for the two elements.
ask_tuples(Tuple, Class, Ask, Key, Instance, S) ->
    {Base, S1} = base(Tuple, Instance, Key, S),
    watch(Base, {pair, resolved(Class, Instance, S), Ask}, S1).

pairs_of(Number, {Tag, Size} = Class, {I, J, _, _} = Ask, #s{tuples = Tuples, pairs = Pairs} = S) ->
    #{Number := #tuple{tag = Own, built = Built} = Tuple} = Tuples,
    case fits(Size, Tuple, max(I, J)) of
        true when Own =:= any, Tag =/= any, Tag =/= other ->
            {First, S1} = element_node(Number, 0, S),
            watch(First, {pair_chosen, Tag, Number, Size, Ask}, S1);
        true when Tag =:= any; Tag =:= Own; Own =:= kept; Own =:= any ->
            S1 = S#s{pairs = Pairs#{Number => [{Class, Ask} | maps:get(Number, Pairs, [])]}},
            lists:foldl(fun(Each, Now) -> pair(Each, Class, Ask, Now) end, S1, Built);
        _ -> S
    end.

pair({Number, Instance, {any, Any}, _}, _, {_, _, _, To}, S) ->
    {Id, S1} = arg_node({at, {tuple, Number}, any}, Any, Instance, S),
    product_nodes(Id, Id, {list, Id}, To, given_at({list, Id}, {list, Id}, S1));
pair({Number, Instance, Elements, []}, _, Ask, S) ->
    answer(Ask, {0, {tuple, Number}, {each, Instance, Elements}}, S);
pair({Number, Instance, Elements, Rest}, Class, {I, J, K, _} = Ask, S) ->
    Indexes = [Index || Index <- [I, J, K], is_integer(Index)],
    {All, S1} = completed(Elements, 0, Indexes, Rest, Class, Number, Instance, S),
    answer(Ask, {0, {tuple, Number}, {each, Instance, All}}, S1).

%% With those elements that stay when others are changed.
completed([none | Elements], I, Indexes, Rest, Class, Number, Instance, S) ->
    {Element, S1} = case lists:member(I, Indexes) of
                        true ->
                            {Id, Now} = node({rest, Number, I}, S),
                            {{[{node, Id}], none, none},
                             get(Rest, Class, I, Id, Instance, {rest, Number}, Now)};
                        false -> {none, S}
                    end,
    {More, S2} = completed(Elements, I + 1, Indexes, Rest, Class, Number, Instance, S1),
    {[Element | More], S2};
completed([Element | Elements], I, Indexes, Rest, Class, Number, Instance, S) ->
    {More, S1} = completed(Elements, I + 1, Indexes, Rest, Class, Number, Instance, S),
    {[Element | More], S1};
completed([], _, _, _, _, _, _, S) -> {[], S}.

%% Something new has come.

seen(_, [], S) -> S;
seen({get, Class, Index, To}, New, S) ->
    lists:foldl(fun({tuple, Number}, Now) -> got(Number, Class, Index, To, Now);
                   (_, Now) -> Now
                end, S, New);
seen({pair, Class, Ask}, New, S) ->
    lists:foldl(fun({tuple, Number}, Now) -> pairs_of(Number, Class, Ask, Now);
                   (_, Now) -> Now
                end, S, New);
seen({pair_chosen, Tag, Number, Size, Ask}, New, S) ->
    case lists:any(fun(Token) -> is_tag(Token, Tag) end, New) of
        true -> pairs_of(Number, {any, Size}, Ask, S);
        false -> S
    end;
seen({chosen, Tag, Number, Index, To}, New, #s{tuples = Tuples} = S) ->
    case lists:any(fun(Token) -> is_tag(Token, Tag) end, New) of
        true -> from_tuple(Number, maps:get(Number, Tuples), Index, To, S);
        false -> S
    end;
seen({apply, Instance, N}, New, S) ->
    lists:foldl(fun({mf, M, F, Number}, Now) ->
                        #{Number := Given} = Now#s.given,
                        link_named(M, F, {Number, Given}, Instance, N, Now)
                end, S, New);
seen({make_fun, Instance, N}, New, S) ->
    {Id, S1} = node({site, Instance, N}, S),
    lists:foldl(fun({mf, M, F, _}, Now) ->
                        lists:foldl(fun(A, Next) ->
                                            Fun = {'fun', {M, F, A}},
                                            add(Id, [Fun], known(Fun, Instance, Next))
                                    end, Now, arities(M, F, Now))
                end, S1, New);
seen({call_fun, Instance, N}, New, #s{given = Known} = S) ->
    Where = {Instance, N},
    Given = {Where, maps:get(Where, Known)},
    lists:foldl(fun(Token, Now) -> link_fun(Token, Given, Instance, N, Now) end, S, New);
seen({given, Number, To}, New, S) ->
    add(To, [{mf, M, F, Number} || {mf, M, F, _} <- New], S);
seen({m, Fs, Where, To}, New, #s{exports = Exports} = S) ->
    named(Exports, New, Fs, Where, To, fun(M, F) -> {mf, M, F, Where} end, S);
seen({f, Ms, Where, To}, New, #s{names = Names} = S) ->
    named(Names, New, Ms, Where, To, fun(F, M) -> {mf, M, F, Where} end, S).

%% What new atoms are the one half of a function's name with; the other half can be one
%% of a node's.
named(ByName, New, Others, Where, To, Pair, #s{sets = Sets} = S) ->
    Arity = arity(Where, S),
    case whittle_shake_sets:is_empty(Others, Sets) of
        true -> S;
        false ->
            add(To, [Pair(Atom, Other)
                     || {atom, Atom} <- New, is_map_key(Atom, ByName),
                        {Other, Arities} <- maps:to_list(maps:get(Atom, ByName)),
                        suits(Arity, Arities),
                        whittle_shake_sets:holds(Others, {atom, Other}, Sets)], S)
    end.

%% How many arguments there are, where that is known.
arity(Where, #s{given = Known}) ->
    case Known of
        #{Where := {each, _, Args}} -> length(Args);
        _ -> any
    end.

suits(any, _) -> true;
suits(Arity, Arities) -> lists:member(Arity, Arities).

is_tag({atom, Atom}, {tag, Atom}) -> true;
is_tag(reference, reference) -> true;
is_tag(Token, _) -> Token =:= any_atom orelse Token =:= vm_atom.

arities(M, F, #s{exports = Exports}) ->
    case Exports of
        #{M := #{F := Arities}} -> Arities;
        _ -> []
    end.

link_named(M, F, {_, {each, _, Args}} = Given, Instance, N, S) ->
    A = length(Args),
    case lists:member(A, arities(M, F, S)) of
        true -> link({M, F, A}, Given, Instance, N, S);
        false -> S
    end;
link_named(M, F, {_, {list, _}} = Given, Instance, N, S) ->
    lists:foldl(fun(A, Now) -> link({M, F, A}, Given, Instance, N, Now) end, S, arities(M, F, S));
link_named(_, _, {_, none}, _, _, S) -> S.

%% A lambda's last parameters are what it brought along.
link_fun({lambda, Lambda}, Given, Instance, N, #s{who = Who} = S) ->
    #{Lambda := {{_, _, A}, _}} = Who,
    case Given of
        {_, {each, _, Args}} when length(Args) > A -> S;
        _ -> linked(Lambda, Given, Instance, N, S)
    end;
link_fun({'fun', {_, _, A} = Mfa}, Given, Instance, N, S) ->
    case Given of
        {_, {each, _, Args}} when length(Args) =/= A -> S;
        _ -> link(Mfa, Given, Instance, N, S)
    end;
link_fun(_, _, _, _, S) -> S.

link(Mfa, {_, From} = Given, Instance, N, #s{who = Who} = S) ->
    #{Instance := {By, _}} = Who,
    {Called, S1} = activate(Mfa, context(Mfa, From, 0, S), {site, By, N}, S),
    linked(Called, Given, Instance, N, S1).

linked(Called, {Where, Given}, Instance, N, S) ->
    {Site, S1} = node({site, Instance, N}, S),
    {Result, S2} = node({result, Called}, S1),
    edge(Result, Site, pass(Called, Given, Where, 0, S2)).
