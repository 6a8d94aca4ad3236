%% @doc Tells on stderr what is being done: where that is a terminal by one line that
%% changes, otherwise (a log, a CI) by a line for each step of what takes minutes.
%%
%% The script `whittle' says whether it is one (WHITTLE_TERMINAL=1): the VM
%% cannot tell for stderr before OTP 26.
-module(whittle_progress).

-export([step/1, event/1, note/1, clear/0]).

%% @doc Says what is being done.
-spec step(unicode:chardata()) -> ok.
step(Text) ->
    show(Text).

%% @doc Says where a build of a runtime is.
-spec event(whittle_runtime:progress()) -> ok.
event(#{task := Task, step := Step, index := Index, 'of' := Of, percent := Percent}) ->
    Where = io_lib:format("~ts: ~ts (~b of ~b)", [Task, Step, Index, Of]),
    case is_terminal() of
        true -> show([Where, io_lib:format(", ~b %", [Percent])]);
        false -> once(lists:flatten(Where))
    end.

%% Many events come of one step.
once(Text) ->
    case put(?MODULE, Text) of
        Text -> ok;
        _ -> io:put_chars(standard_error, [Text, $\n])
    end.

%% @doc Says what a person should know, and what stays to be read.
-spec note(unicode:chardata()) -> ok.
note(Text) ->
    clear(),
    io:put_chars(standard_error, ["whittle: note: ", Text, $\n]).

%% @doc Takes the line away.
-spec clear() -> ok.
clear() ->
    show("").

show(Text) ->
    case is_terminal() of
        %% Return, the text, and erase what is left of an older one. Cut to the
        %% narrowest usual width: a line that wraps cannot be taken back.
        true -> io:put_chars(standard_error, ["\r", string:slice(Text, 0, 79), "\e[K"]);
        false -> ok
    end.

is_terminal() -> os:getenv("WHITTLE_TERMINAL") =:= "1".
