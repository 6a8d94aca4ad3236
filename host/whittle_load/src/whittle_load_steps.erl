%% @doc Compiles the steps of a session into the program of a user.
%%
%% ```
%% connect, {connect, "5 s"}                 connect; the time is the longest
%% {wait, "10 s"}, {wait, exponential, "60 s"}, {wait, uniform, "1 s", "5 s"},
%% {wait, lognormal, "10 s", 1.5}, {wait, pareto, "1 s", 1.2}
%% stay                                      wait until the end of the run
%% {repeat, 10, Steps}, {forever, Steps}
%% {every, "1 s", Steps}, {every, "1 s", 10, Steps}   a round begins each second
%% {choose, [{30, Steps}, {70, Steps}]}      one of these, by weight
%% {as, "name", Step}                        the step has this name in the results
%% disconnect
%% '''
%% The other steps are those of the protocol ({@link whittle_load_protocol}). Texts may contain
%% `${id}' (the number of the user), `${random:100}' (a random number below 100), `${sent}' (the
%% intended moment of the step), `${column}' (a column of the data file) and `${name}' (a part of an
%% answer, which `take' has given this name).
%% @hidden
-module(whittle_load_steps).

-export([program/2, names/1, header/2]).

-export_type([settings/0]).

%% A token of RFC 9110, section 5.6.2
-define(TOKEN, "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$").

-import(whittle_load_read, [fail/2, tagged/2, text/1, time/1, positive/1, count/2, number/2,
                            list/2]).

-type settings() :: #{protocol := whittle_load_protocol:protocol(),
                      timeout := pos_integer(),         % nanoseconds
                      columns := [string()],
                      taken => [string()]}.             % the names that `take' has given before

-type node_() :: whittle_load_text:node_().

-define(COMMON, [connect, wait, stay, repeat, forever, every, choose, as, disconnect]).
-define(LONGEST_PROGRAM, 10_000).

%% @doc Compiles the steps of a class of users.
-spec program(node_(), settings()) -> whittle_load_agent:program().
program(Node, Settings) ->
    {Reversed, _, _} = steps(Node, Settings, {[], 1, []}),
    case lists:dropwhile(fun is_before_connection/1, lists:reverse(Reversed)) of
        [{step, Name, _, _} | _] ->
            fail(Node, ["`", Name, "' stands before `connect': a user connects first"]);
        _ -> ok
    end,
    case length(Reversed) of
        Length when Length >= ?LONGEST_PROGRAM ->
            fail(Node, io_lib:format("this session has more than ~b steps", [?LONGEST_PROGRAM]));
        _ -> list_to_tuple(lists:reverse(['end' | Reversed]))
    end.

%% @doc Lists the names of the steps of all classes.
-spec names([whittle_load_agent:class()]) -> [string()].
names(Classes) ->
    lists:usort([unicode:characters_to_list(Name)
                 || #{program := Program} <- Classes,
                    {step, Name, _, _} <- tuple_to_list(Program)]).

is_before_connection({Kind, _}) -> not lists:member(Kind, [connect, reconnect]);
is_before_connection({step, _, _, _}) -> false;
is_before_connection(_) -> true.

%% The state of the compiler: the instructions so far, last first, the number of the next, and the
%% names that `take' has given on each way to here.
steps(Node, Settings, State) ->
    Steps = list(Node, fun(Step) -> Step end),
    [fail(Next, "no user comes to this step, because the one before has no end")
     || {Step, Next} <- lists:zip(lists:droplast(Steps), tl(Steps)), endless(Step)],
    lists:foldl(fun(Step, Before) -> step(Step, Settings, none, Before) end, State, Steps).

endless({_, {atom, stay}}) -> true;
endless({_, {tuple, [{_, {atom, forever}} | _]}}) -> true;
endless({_, {tuple, [{_, {atom, every}}, _, _]}}) -> true;
endless(_) -> false.

step(Node, #{protocol := Protocol, timeout := Timeout} = Settings, Name, State) ->
    #{steps := Own, held := Held} = Protocol,
    ok = of_protocol(Node, Protocol),
    case tagged(Node, ?COMMON ++ maps:keys(Own)) of
        {connect, []} -> add(whittle_load_protocol:connect(Protocol, Timeout), State);
        {connect, [Time]} -> add(whittle_load_protocol:connect(Protocol, positive(Time)), State);
        {wait, Arguments} -> add([{wait, wait(Node, Arguments)}], State);
        {stay, []} -> add([stay], State);
        {disconnect, []} -> add([disconnect], State);
        {repeat, [Rounds, Steps]} ->
            {_, Begin, _} = Before = add([{repeat, count(Rounds, {1, 1_000_000_000})}], State),
            add([{again, Begin}], steps(Steps, Settings, Before));
        {forever, [Steps]} ->
            {_, Begin, Taken} = State,
            {Reversed, _, _} = steps(Steps, Settings, {[], Begin, Taken}),
            case lists:any(fun(Instruction) -> blocks(Instruction, Protocol) end, Reversed) of
                true -> add(lists:reverse([{jump, Begin} | Reversed]), State);
                false ->
                    fail(Node, "nothing in this loop waits for a time or an answer, so it would "
                         "take all of the processor")
            end;
        {every, [Time, Steps]} -> every(positive(Time), infinity, Steps, Settings, State);
        {every, [Time, Rounds, Steps]} ->
            every(positive(Time), count(Rounds, {1, 1_000_000_000}), Steps, Settings, State);
        {choose, [Ways]} -> choose(Ways, Settings, State);
        {as, [Text, Named]} ->
            case tagged(Named, ?COMMON ++ maps:keys(Own)) of
                {Kind, _} when is_map_key(Kind, Own), Kind =/= take ->
                    step(Named, Settings, name(Text), State);
                _ -> fail(Named, "only steps of the protocol can have a name")
            end;
        {take, [Word, Pattern]} when is_map_key(take, Own) -> take(Node, Word, Pattern, State);
        {Kind, Arguments} when is_map_key(Kind, Own) ->
            #{Kind := Forms} = Own,
            case [Kinds || Kinds <- Forms, length(Kinds) =:= length(Arguments)] of
                [Kinds] ->
                    {_, _, Taken} = State,
                    Values = [argument(Of, Argument, Settings#{taken => Taken})
                              || {Of, Argument} <- lists:zip(Kinds, Arguments)],
                    Label = case Name of none -> atom_to_binary(Kind);
                                _ -> unicode:characters_to_binary(Name)
                            end,
                    Step = whittle_load_protocol:step(Protocol, Kind, Values),
                    add([{reconnect, Timeout} || #{name := http} <- [Protocol]]
                        ++ [{step, Label, Step, Timeout} | [held || Kind =:= Held]], State);
                [] ->
                    Counts = lists:join(" or ", [integer_to_list(length(Kinds)) || Kinds <- Forms]),
                    fail(Node, io_lib:format("the number of values of `~s' must be ~s",
                                             [Kind, Counts]))
            end;
        {Kind, _} -> fail(Node, ["`", atom_to_list(Kind), "' does not have this form: "
                                 "see `whittle help load'"])
    end.

%% A step of another protocol gets an error of its own. tagged/2 refuses other unknown steps.
of_protocol(Node, #{name := Name, steps := Own}) ->
    Kind = case Node of
               {_, {atom, Atom}} -> Atom;
               {_, {tuple, [{_, {atom, Atom}} | _]}} -> Atom;
               _ -> connect
           end,
    Known = ?COMMON ++ maps:keys(Own),
    case lists:member(Kind, Known) orelse whittle_load_protocol:with_step(Kind) of
        [_ | _] = Others when Name =/= own ->
            List = fun(Atoms) -> lists:join(", ", [atom_to_list(Atom) || Atom <- Atoms]) end,
            fail(Node, ["`", atom_to_list(Kind), "' is a step for ", List(Others), ", and the "
                        "target is for ", atom_to_list(Name), ": take one of ", List(Known)]);
        _ -> ok
    end.

every(Time, Rounds, Steps, Settings, State) ->
    {_, Begin, _} = Before = add([{every, Rounds, Time}], State),
    add([{next, Time, Begin}], steps(Steps, Settings, Before)).

%% The request before keeps its answer.
take(Node, Word, Pattern, {Before, Next, Taken}) ->
    Name = text(Word),
    case re:run(Name, "^[A-Za-z_][A-Za-z0-9_-]*$", [unicode, dollar_endonly, {capture, none}]) of
        match when Name =/= "id", Name =/= "sent" -> ok;
        _ -> fail(Word, "a name has letters, digits, _ and -, begins with a letter or _, and is "
                  "neither id nor sent")
    end,
    Bytes = unicode:characters_to_binary(text(Pattern)),
    case re:compile(Bytes) of
        {ok, {_, Groups, _, _, _}} when Groups >= 1 -> ok;
        {ok, _} -> fail(Pattern, "put parentheses around the part to take");
        {error, {Why, At}} ->
            fail(Pattern, io_lib:format("this is no regular expression: ~s at character ~b",
                                        [Why, At + 1]))
    end,
    Take = {take, list_to_binary(Name), Bytes},
    case Before of
        [{step, Label, {request, _, _, _, _, _} = Request, Timeout} | Earlier] ->
            {[Take, {step, Label, {keep, Request}, Timeout} | Earlier], Next + 1, [Name | Taken]};
        [{take, _, _} | _] -> {[Take | Before], Next + 1, [Name | Taken]};
        _ -> fail(Node,
                  "put `take' directly behind the request from whose answer it takes a part")
    end.

%% A threshold must be able to name it.
name(Node) ->
    case text(Node) of
        Reserved when Reserved =:= "connect"; Reserved =:= "delivery"; Reserved =:= "" ->
            fail(Node, "choose another name for this step");
        Name ->
            case re:run(Name, "^[^\\s<>=]+$", [unicode, {capture, none}]) of
                match -> Name;
                nomatch -> fail(Node, "the name of a step has no blanks and none of < > =")
            end
    end.

%% A loop without such a step would keep the agent busy forever.
blocks({wait, {constant, 0}}, _) -> false;
blocks({Kind, _}, _) -> lists:member(Kind, [wait, connect]);
blocks({step, _, Step, _}, Protocol) -> whittle_load_protocol:waits(Protocol, Step);
blocks({next, _, _}, _) -> true;
blocks(stay, _) -> true;
blocks(_, _) -> false.

add(Instructions, {Before, Next, Taken}) ->
    {lists:reverse(Instructions, Before), Next + length(Instructions), Taken}.

choose(Ways, Settings, {Before, At, Taken}) ->
    Pairs = list(Ways, fun({_, {tuple, [Weight, Steps]}}) ->
                               {number(Weight, {0.000_001, 1_000_000_000}), Steps};
                          (Other) -> fail(Other, "write {Weight, Steps} here")
                       end),
    Total = lists:sum([Weight || {Weight, _} <- Pairs]),
    %% Each way ends with a jump behind the last. Its place is known at the end.
    {Compiled, End} =
        lists:mapfoldl(fun({_, Steps}, Begin) ->
                               {Reversed, Next, Names} =
                                   steps(Steps, Settings, {[], Begin, Taken}),
                               {{Begin, lists:reverse(Reversed), Names}, Next + 1}
                       end, At + 1, Pairs),
    {Branches, _} = lists:mapfoldl(fun({{Weight, _}, {Begin, _, _}}, Sum) ->
                                           {{(Sum + Weight) / Total, Begin}, Sum + Weight}
                                   end, 0, lists:zip(Pairs, Compiled)),
    %% Behind the ways, a text may use the names that each way has given.
    Names = [Name || Name <- lists:usort(lists:append([Each || {_, _, Each} <- Compiled])),
                     lists:all(fun({_, _, Each}) -> lists:member(Name, Each) end, Compiled)],
    add([{branch, Branches} | lists:append([Steps ++ [{jump, End}] || {_, Steps, _} <- Compiled])],
        {Before, At, Names}).

wait(Node, Arguments) ->
    case Arguments of
        [{_, {string, _}} = Time] -> {constant, time(Time)};
        [{_, {atom, exponential}}, Mean] -> {exponential, positive(Mean)};
        [{_, {atom, uniform}}, Least, Most] ->
            case {time(Least), time(Most)} of
                {From, To} when From =< To -> {uniform, From, To};
                _ -> fail(Most, "the second time is less than the first")
            end;
        [{_, {atom, lognormal}}, Median, Sigma] ->
            {lognormal, positive(Median), number(Sigma, {0, 10})};
        [{_, {atom, pareto}}, Least, Exponent] ->
            {pareto, positive(Least), number(Exponent, {0.1, 100})};
        _ ->
            fail(Node, "write {wait, Time}, {wait, exponential, Mean}, {wait, uniform, Least, "
                 "Most}, {wait, lognormal, Median, Sigma} or {wait, pareto, Least, Exponent}")
    end.

%% @doc Reads a header field `{Name, Value}' of a request. The client itself writes some of them.
-spec header(whittle_load_text:node_(), settings()) ->
          {binary(), whittle_load_agent:text()}.
header({_, {tuple, [Name, Value]}}, Settings) ->
    case re:run(text(Name), ?TOKEN, [unicode, dollar_endonly, {capture, none}]) of
        match -> ok;
        nomatch -> fail(Name, "the name of a header has letters, digits and hyphens")
    end,
    Own = ["host", "connection", "content-length", "content-type", "transfer-encoding", "expect"],
    case lists:member(string:lowercase(text(Name)), Own) of
        true -> fail(Name, "the client writes this header itself");
        false -> ok
    end,
    case re:run(text(Value), "^[\\x20-\\x7e]+$", [unicode, dollar_endonly, {capture, none}]) of
        match -> {list_to_binary(text(Name)), argument(text, Value, Settings)};
        nomatch -> fail(Value, "the value of a header has printable ASCII characters only")
    end;
header(Node, _) -> fail(Node, "write {\"Name\", \"Value\"} here").

argument(text, Node, Settings) -> parts(text(Node), Node, Settings);
argument(status, Node, _) -> count(Node, {100, 599});
argument(level, Node, _) -> count(Node, {0, 2});
argument(count, Node, _) -> count(Node, {-(1 bsl 62), 1 bsl 62});
argument(time, Node, _) -> time(Node);
argument(path, Node, Settings) ->
    case re:run(text(Node), "^/[^\\s\\x00-\\x20\\x7f]*$", [unicode, {capture, none}]) of
        match -> argument(text, Node, Settings);
        nomatch -> fail(Node, "a path begins with / and has no blanks")
    end;
argument(line, Node, Settings) ->
    case lists:member($\n, text(Node)) of
        true -> fail(Node, "a line has no newline inside: write one step for each line");
        false -> argument(text, Node, Settings)
    end.

%% The parts of a text: `${...}' and the bytes between.
parts(Text, Node, Settings) ->
    case string:split(Text, "${") of
        [Rest] -> bytes(Rest);
        [Before, After] ->
            case string:split(After, "}") of
                [Name, Rest] ->
                    bytes(Before) ++ [variable(Name, Node, Settings) | parts(Rest, Node, Settings)];
                [_] -> fail(Node, "the text has `${' without a `}'")
            end
    end.

bytes("") -> [];
bytes(Text) -> [unicode:characters_to_binary(Text)].

variable("id", _, _) -> id;
variable("sent", _, _) -> sent;
variable("random:" ++ Limit, Node, _) ->
    case string:to_integer(Limit) of
        {Below, ""} when Below >= 1, Below =< 1 bsl 32 -> {random, Below};
        _ -> fail(Node, "write a whole number from 1 to 4294967296 behind `random:'")
    end;
variable(Name, Node, #{columns := Columns} = Settings) ->
    Taken = maps:get(taken, Settings, []),
    case {lists:member(Name, Taken),
          [N || {N, Column} <- lists:enumerate(Columns), Column =:= Name]} of
        {true, _} -> {taken, list_to_binary(Name)};
        {false, [N | _]} -> {column, N};
        {false, []} ->
            fail(Node, ["there is no `${", Name, "}': take ${id}, ${random:N}, ${sent} or a "
                        "column of the data file (", case Columns of
                                                         [] -> "there is none";
                                                         _ -> lists:join(", ", Columns)
                                                     end, ")",
                        [[", or a name that `take' has given before on each way to here (",
                          lists:join(", ", lists:usort(Taken)), ")"] || Taken =/= []]])
    end.
