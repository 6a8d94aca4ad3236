%% @doc Fills the text of a step with the values of a user.
%% @hidden
-module(whittle_load_agent_text).

-export([fill/2]).

%% @doc Returns the text for one user.
-spec fill(whittle_load_agent:text(), whittle_load_agent_client:user()) -> iodata().
fill(Text, #{id := Id, row := Row, random := Random}) ->
    [case Part of
         _ when is_binary(Part) -> Part;
         id -> integer_to_binary(Id);
         {column, N} -> element(N, Row);
         {random, Below} -> integer_to_binary(Random rem Below)
     end || Part <- Text].
