%% @doc Writes to the operator of this node.
%% @hidden
-module(docket_operator).

-export([say/1]).

%% @doc Writes a line about this node.
-spec say(unicode:chardata()) -> ok.
say(Text) -> io:format(standard_error, "docket: ~ts~n", [Text]).
