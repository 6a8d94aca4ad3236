%% @doc Helps the process of a store to start it in attempts, each of which may have to wait.
%% @hidden
-module(docket_attempt).

-export([steps/1, later/2]).

-import(docket_operator, [say/1]).

-export_type([result/1]).

%% `wait' says what must happen first.
-type result(Error) :: ok | {wait, Why :: iodata()} | {error, Error}.

%% @doc Does steps until one does not return `ok', and returns that result.
-spec steps([fun(() -> ok | Other)]) -> ok | Other.
steps([]) -> ok;
steps([Step | More]) ->
    case Step() of
        ok -> steps(More);
        Other -> Other
    end.

%% @doc Says what this node waits for, if that has changed, and sends `attempt' to the calling
%% process after the setting `retry'. Returns the line, which is the second argument of the next
%% call.
-spec later(unicode:chardata(), Before :: atom() | binary()) -> binary().
later(Why, Before) ->
    Line = unicode:characters_to_binary(Why),
    _ = [say(Line) || Line =/= Before],
    _ = erlang:send_after(docket_config:get(retry), self(), attempt),
    Line.
