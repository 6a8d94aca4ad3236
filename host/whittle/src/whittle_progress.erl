%% @doc Shows the progress of a command on stderr. On a terminal it updates one line. Otherwise (a
%% log, a CI job) it prints a line for each step that takes minutes.
%%
%% The script `whittle' reports a terminal with WHITTLE_TERMINAL=1, because the VM cannot detect
%% one on stderr before OTP 26.
-module(whittle_progress).

-export([step/1, stage/1, event/1, note/1, clear/0]).

%% @doc Shows the current step.
-spec step(unicode:chardata()) -> ok.
step(Text) ->
    show(Text).

%% @doc Shows the current step, which takes minutes: also in a log.
-spec stage(unicode:chardata()) -> ok.
stage(Text) ->
    case is_terminal() of
        true -> show(Text);
        false -> once(unicode:characters_to_list(Text))
    end.

%% @doc Shows the progress of a runtime build.
-spec event(whittle_runtime:progress()) -> ok.
event(#{task := Task, step := Step, index := Index, 'of' := Of, percent := Percent}) ->
    Where = io_lib:format("~ts: ~ts (~b of ~b)", [Task, Step, Index, Of]),
    case is_terminal() of
        true -> show([Where, io_lib:format(", ~b %", [Percent])]);
        false -> once(lists:flatten(Where))
    end.

%% Prints a step once, although it sends many events.
once(Text) ->
    case put(?MODULE, Text) of
        Text -> ok;
        _ -> io:put_chars(standard_error, [whittle_file_name:printable(Text), $\n])
    end.

%% @doc Prints a note that stays on the screen.
-spec note(unicode:chardata()) -> ok.
note(Text) ->
    clear(),
    io:put_chars(standard_error, ["whittle: note: ", whittle_file_name:printable(Text), $\n]).

%% @doc Removes the progress line.
-spec clear() -> ok.
clear() ->
    show("").

show(Text) ->
    case is_terminal() of
        %% Return to the start of the line, write the text, and erase the rest of the older line.
        %% Cut the text to the narrowest usual width, because a wrapped line cannot be erased.
        true ->
            Shown = string:slice(whittle_file_name:printable(Text), 0, 79),
            io:put_chars(standard_error, ["\r", Shown, "\e[K"]);
        false -> ok
    end.

is_terminal() -> os:getenv("WHITTLE_TERMINAL") =:= "1".
