%% @doc One line on stderr that tells what is being done, where stderr is a
%% terminal; nothing otherwise.
%%
%% The script `whittle' says whether it is one (WHITTLE_TERMINAL=1): the VM
%% cannot tell for stderr before OTP 26.
-module(whittle_progress).

-export([step/1, event/1, clear/0]).

%% @doc Says what is being done.
-spec step(unicode:chardata()) -> ok.
step(Text) ->
    show(Text).

%% @doc Says where a build of a runtime is.
-spec event(whittle_runtime:progress()) -> ok.
event(#{task := Task, step := Step, index := Index, 'of' := Of, percent := Percent}) ->
    show(io_lib:format("~ts: ~ts (~b of ~b), ~b %", [Task, Step, Index, Of, Percent])).

%% @doc Takes the line away.
-spec clear() -> ok.
clear() ->
    show("").

show(Text) ->
    case os:getenv("WHITTLE_TERMINAL") of
        %% Return, the text, and erase what is left of an older one. Cut to the
        %% narrowest usual width: a line that wraps cannot be taken back.
        "1" -> io:put_chars(standard_error, ["\r", string:slice(Text, 0, 79), "\e[K"]);
        _ -> ok
    end.
