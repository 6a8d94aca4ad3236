%% @doc Shows the progress of a command on stderr. On a terminal it updates one line. Otherwise (a
%% log, a CI job) it prints a line for each step that takes minutes.
%%
%% The script `whittle' reports a terminal with WHITTLE_TERMINAL=1, because the VM cannot detect
%% one on stderr before OTP 26.
-module(whittle_progress).

-export([step/1, stage/1, line/1, event/1, making/1, note/1, clear/0, write/1]).
-export([has_view/0, view/1]).

-define(VIEW, {?MODULE, view}).

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

%% @doc Prints a line of the course of the work, in a log only.
-spec line(unicode:chardata()) -> ok.
line(Text) ->
    case is_terminal() of
        true -> ok;
        false -> write([whittle_file_name:printable(Text), $\n])
    end.

%% @doc Shows the progress of a runtime build.
-spec event(whittle_runtime:progress()) -> ok.
event(#{task := Task, step := Step, index := Index, 'of' := Of, percent := Percent}) ->
    Where = io_lib:format("~ts: ~ts (~b of ~b)", [Task, Step, Index, Of]),
    case is_terminal() of
        true -> show([Where, io_lib:format(", ~b %", [Percent])]);
        false -> once(lists:flatten(Where))
    end.

%% @doc Shows an event of {@link whittle_make} that a command shows like any other.
-spec making(whittle_make:event()) -> ok.
making({note, Note}) -> note(Note);
making({waiting, Text}) -> stage(Text);
making({runtime, Progress}) -> event(Progress);
making({pricing, Name}) -> step(["pricing ", atom_to_list(Name)]);
making({Event, _}) when Event =:= started; Event =:= ended -> ok.

%% Prints a step once, although it sends many events.
once(Text) ->
    case put(?MODULE, Text) of
        Text -> ok;
        _ -> write([whittle_file_name:printable(Text), $\n])
    end.

%% @doc Prints a note that stays on the screen.
-spec note(unicode:chardata()) -> ok.
note(Text) ->
    clear(),
    write(["whittle: note: ", whittle_file_name:printable(Text), $\n]).

%% @doc Removes the progress line, or the view.
-spec clear() -> ok.
clear() ->
    show("").

%% @doc Tells whether view/1 can show several lines.
-spec has_view() -> boolean().
has_view() -> is_terminal() andalso os:getenv("TERM", "dumb") =/= "dumb".

%% @doc Shows lines in the place of those before. The function gets the size of the terminal, and
%% returns the lines. They must be narrower than the terminal, and fewer than its rows.
-spec view(fun(({Columns :: pos_integer(), Rows :: pos_integer()}) ->
                      [[{plain | bold | good | bad, unicode:chardata()}]])) -> ok.
view(Fun) ->
    {Columns, _} = Size = size(),
    Lines = [[{Style, whittle_file_name:printable(Part)} || {Style, Part} <- Line]
             || Line <- Fun(Size)],
    Colors = os:getenv("NO_COLOR", "") =:= "",
    %% One write, so that the terminal shows no half of it
    Text = [home(Columns),
            [[[styled(Style, Part, Colors) || {Style, Part} <- Line], "\e[K\n"] || Line <- Lines],
            "\e[J"],
    _ = put(?VIEW, [lists:sum([string:length(Part) || {_, Part} <- Line]) || Line <- Lines]),
    write(Text).

%% Goes to the first row of the lines before. A terminal that has become narrower since shows a line
%% in several rows.
home(Columns) ->
    case get(?VIEW) of
        undefined -> "\r";
        Widths ->
            Rows = lists:sum([max(1, (Width + Columns - 1) div Columns) || Width <- Widths]),
            ["\r", [io_lib:format("\e[~bA", [Rows]) || Rows > 0]]
    end.

styled(_, Text, false) -> Text;
styled(plain, Text, _) -> Text;
styled(bold, Text, _) -> ["\e[1m", Text, "\e[0m"];
styled(good, Text, _) -> ["\e[32m", Text, "\e[0m"];
styled(bad, Text, _) -> ["\e[31m", Text, "\e[0m"].

%% The VM cannot ask before OTP 26. stty(1) asks for the terminal that is its input.
size() ->
    Asked = os:cmd("stty size </proc/" ++ os:getpid() ++ "/fd/2 2>/dev/null"),
    case [string:to_integer(Word) || Word <- string:lexemes(Asked, " \n")] of
        [{Rows, ""}, {Columns, ""}] when Rows > 0, Columns > 0 -> {Columns, Rows};
        _ -> {80, 24}
    end.

show(Text) ->
    ok = remove_view(),
    case is_terminal() of
        %% Return to the start of the line, write the text, and erase the rest of the older line.
        %% Cut the text to the narrowest usual width, because a wrapped line cannot be erased.
        true ->
            Shown = string:slice(whittle_file_name:printable(Text), 0, 79),
            write(["\r", Shown, "\e[K"]);
        false -> ok
    end.

remove_view() ->
    case get(?VIEW) of
        undefined -> ok;
        _ ->
            {Columns, _} = size(),
            write([home(Columns), "\e[J"]),
            _ = erase(?VIEW),
            ok
    end.

is_terminal() -> os:getenv("WHITTLE_TERMINAL") =:= "1".

%% @doc Writes a text to stderr. A terminal that was closed takes no more text, and the work goes on
%% to its end without it.
-spec write(unicode:chardata()) -> ok.
write(Text) ->
    try io:put_chars(standard_error, Text)
    catch error:_ -> ok
    end.
