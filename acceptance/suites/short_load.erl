%% Makes a short run for a test from a scenario that an example ships.
-module(short_load).

-export([write/4]).

%% All users come at once. They wait 200 ms instead of a random time and 3 s instead of another one,
%% so that everybody is there before a message comes. Each endless loop has three rounds. Random
%% users are among those that came.
-spec write(file:filename(), file:filename(),
            #{port := inet:port_number(), users := pos_integer(), soak := string()}, [term()]) ->
          ok.
write(From, To, Options, More) ->
    {ok, Terms} = file:consult(From),
    file:write_file(To, [io_lib:format("~tp.~n", [term(Term, Options)]) || Term <- Terms ++ More]).

term({target, Target}, #{port := Port}) ->
    {target, re:replace(Target, "[0-9]+$", integer_to_list(Port), [{return, list}])};
term({phases, _}, #{users := Users, soak := Soak}) -> {phases, [{burst, Users}, {soak, Soak}]};
term({users, Classes}, Options) ->
    {users, [{Class, Weight, steps(Steps, Options)} || {Class, Weight, Steps} <- Classes]};
term({thresholds, _}, _) -> {thresholds, ["errors < 1000"]};
term(Term, _) -> Term.

steps(Steps, Options) -> lists:append([step(Step, Options) || Step <- Steps]).

step({forever, Steps}, Options) -> [{repeat, 3, steps(Steps, Options)}, stay];
step({wait, exponential, _}, _) -> [{wait, "200 ms"}];
step({wait, _}, _) -> [{wait, "3 s"}];
step({as, Name, Step}, Options) -> [{as, Name, hd(step(Step, Options))}];
step(Step, Options) when is_tuple(Step) ->
    [list_to_tuple([word(Word, Options) || Word <- tuple_to_list(Step)])];
step(Step, _) -> [Step].

word(Text, #{users := Users}) when is_list(Text) ->
    re:replace(Text, "random:[0-9]+", "random:" ++ integer_to_list(Users), [{return, list}]);
word(Word, _) -> Word.
