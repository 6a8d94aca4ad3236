%% @doc Speaks lines of text, each with a newline at its end.
%%
%% Steps: `{send, Text}' sends a line; `{expect, Prefix}' waits for a line that begins with a text;
%% `{ask, Text, Prefix}' does both.
%% @hidden
-module(whittle_load_agent_lines).
-behaviour(whittle_load_agent_client).

-export([init/2, step/3, data/2, closed/1, match/2]).

-import(whittle_load_agent_text, [fill/2, begins/2, delivered/2]).

%% The longest line in bytes. A server that sends no newline must not fill the memory.
-define(LONGEST, 1_000_000).

%% @private The state is the part of a line that has arrived.
-spec init(map(), whittle_load_agent_client:user()) -> binary().
init(_, _) -> <<>>.

%% @private
-spec step(term(), whittle_load_agent_client:user(), binary()) ->
          {sent, iodata(), binary()} | {await, iodata(), binary(), binary()}.
step({send, Text}, User, State) -> {sent, [fill(Text, User), $\n], State};
step({expect, Prefix}, User, State) -> {await, [], iolist_to_binary(fill(Prefix, User)), State};
step({ask, Text, Prefix}, User, State) ->
    {await, [fill(Text, User), $\n], iolist_to_binary(fill(Prefix, User)), State}.

%% @private
-spec data(binary(), binary()) ->
          {ok, [whittle_load_agent_client:event()], [], binary()} | {error, too_long}.
data(Bytes, Before) ->
    case binary:split(Bytes, <<"\n">>, [global]) of
        [_] when byte_size(Before) + byte_size(Bytes) > ?LONGEST -> {error, too_long};
        [_] -> {ok, [], [], <<Before/binary, Bytes/binary>>};
        [First | More] ->
            [Rest | Lines] = lists:reverse(More),
            %% A copy, because the rest would keep the whole message.
            {ok, [delivered(Line, Line)
                  || Line <- [<<Before/binary, First/binary>> | lists:reverse(Lines)]], [],
             binary:copy(Rest)}
    end.

% @private
-spec closed(binary()) -> {error, closed}.
closed(_) -> {error, closed}.

%% @private
-spec match(binary(), binary()) -> boolean().
match(Prefix, Line) -> begins(Prefix, Line).
