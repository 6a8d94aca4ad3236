%% Transforms a module so that its name/0 returns the module's name.
-module(named).

-export([parse_transform/2]).

-spec parse_transform([erl_parse:abstract_form()], [compile:option()]) ->
          [erl_parse:abstract_form()].
parse_transform(Forms, _Options) ->
    [Module] = [Name || {attribute, _, module, Name} <- Forms],
    [case Form of
         {function, At, name, 0, [{clause, In, [], [], _}]} ->
             {function, At, name, 0, [{clause, In, [], [], [{atom, In, Module}]}]};
         _ -> Form
     end || Form <- Forms].
