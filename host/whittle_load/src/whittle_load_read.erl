%% @doc Reads nodes of a scenario as values of a kind, and stops at the first wrong one.
%%
%% A wrong node ends the reading with {@link fail/2}, which only {@link all/1} catches.
%% @hidden
-module(whittle_load_read).

-export([all/1, fail/2, tagged/2, text/1, time/1, positive/1, count/2, number/2, atom/2, list/2,
         options/1]).

-type node_() :: whittle_load_text:node_().

%% @doc Calls a function that reads nodes.
-spec all(fun(() -> Result)) -> {ok, Result} | {error, {whittle_load_text:place(), string()}}.
all(Fun) ->
    try {ok, Fun()}
    catch throw:{?MODULE, Place, Message} ->
            {error, {Place, lists:flatten(whittle_file_name:printable(Message))}}
    end.

%% @doc Ends the reading with a message about a node.
-spec fail(node_(), unicode:chardata()) -> no_return().
fail({Place, _}, Message) -> throw({?MODULE, Place, Message}).

%% @doc Reads a tuple that begins with a name: the name and the other elements. An atom alone is
%% such a tuple without other elements. The name must be one of those given.
-spec tagged(node_(), [atom()]) -> {atom(), [node_()]}.
tagged({_, {atom, Name}} = Node, Known) -> {known(Node, Name, Known), []};
tagged({_, {tuple, [{_, {atom, Name}} = First | Rest]}}, Known) ->
    {known(First, Name, Known), Rest};
tagged(Node, Known) -> fail(Node, ["write one of ", names(Known), " here"]).

known(Node, Name, Known) ->
    case lists:member(Name, Known) of
        true -> Name;
        false ->
            Hint = whittle_suggestion:hint(atom_to_list(Name), [atom_to_list(One) || One <- Known]),
            fail(Node, ["there is no `", atom_to_list(Name), "' here", Hint, ": take one of ",
                        names(Known)])
    end.

names(Known) -> lists:join(", ", [atom_to_list(Name) || Name <- Known]).

%% @doc Reads a text.
-spec text(node_()) -> string().
text({_, {string, Text}}) -> Text;
text({_, {list, []}}) -> "";
text(Node) -> fail(Node, "write a text in quotes here").

%% @doc Reads a time, such as "50 ms", in nanoseconds.
-spec time(node_()) -> non_neg_integer().
time({_, {string, Text}} = Node) ->
    case whittle_load_unit:time(Text) of
        {ok, Time} -> Time;
        error -> fail(Node, ["`", Text, "' is not a time: write a number and one of ns, us, ms, s, "
                             "min, h, such as \"50 ms\"; 30 days are the most"])
    end;
time(Node) -> fail(Node, "write a time in quotes here, such as \"50 ms\"").

%% @doc Reads a time above 0.
-spec positive(node_()) -> pos_integer().
positive(Node) ->
    case time(Node) of
        0 -> fail(Node, "this time must be above 0");
        Time -> Time
    end.

%% @doc Reads a whole number in a range.
-spec count(node_(), {integer(), integer()}) -> integer().
count({_, {integer, N}}, {Least, Most}) when N >= Least, N =< Most -> N;
count(Node, {Least, Most}) ->
    fail(Node, io_lib:format("write a whole number from ~b to ~b here", [Least, Most])).

%% @doc Reads a number in a range.
-spec number(node_(), {number(), number()}) -> number().
number({_, {Type, N}}, {Least, Most})
  when Type =:= integer orelse Type =:= float, N >= Least, N =< Most -> N;
number(Node, {Least, Most}) ->
    fail(Node, io_lib:format("write a number from ~p to ~p here", [Least, Most])).

%% @doc Reads one of some atoms.
-spec atom(node_(), [atom()]) -> atom().
atom({_, {atom, Name}} = Node, Known) -> known(Node, Name, Known);
atom(Node, Known) -> fail(Node, ["write one of ", names(Known), " here"]).

%% @doc Reads a list with a function for its elements. It must not be empty.
-spec list(node_(), fun((node_()) -> Element)) -> [Element].
list({_, {list, [_ | _] = Nodes}}, Fun) -> [Fun(Node) || Node <- Nodes];
list({_, {list, []}} = Node, _) -> fail(Node, "this list is empty: write at least one element");
list(Node, _) -> fail(Node, "write a list here").

%% @doc Reads a list of pairs `{Name, Value}' as a map. Texts become binaries in UTF-8.
-spec options(node_()) -> #{atom() => term()}.
options({_, {list, Nodes}}) ->
    maps:from_list([case Node of
                        {_, {tuple, [{_, {atom, Name}}, Value]}} -> {Name, term(Value)};
                        _ -> fail(Node, "write {Name, Value} here")
                    end || Node <- Nodes]);
options(Node) -> fail(Node, "write a list of {Name, Value} here").

term({_, {tuple, Nodes}}) -> list_to_tuple([term(Node) || Node <- Nodes]);
term({_, {list, Nodes}}) -> [term(Node) || Node <- Nodes];
term({_, {string, Text}}) -> unicode:characters_to_binary(Text);
term({_, {_, Value}}) -> Value.
