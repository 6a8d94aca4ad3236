%% @doc Makes failures of commands from errors, and writes them as data for `--json'.
-module(whittle_failure).

-export([make/1]).
-export([line/1, above/1, exit_code/1, json/1, mistake/1]).

%% @doc Makes a failure from an error of a build.
-spec make(whittle_make:reason()) -> {error, whittle:failure()}.
make(Reason) ->
    {error, {work, whittle_make:format_error(Reason), whittle_make:details(Reason),
             whittle_make:code(Reason)}}.

%% @doc Returns the line that says what happened, where, and what to do next.
-spec line(whittle:failure()) -> unicode:chardata().
line({_, Line}) -> Line;
line({work, Line, _}) -> Line;
line({work, Line, _, _}) -> Line.

%% @doc Returns the lines to print above that line.
-spec above(whittle:failure()) -> [unicode:chardata()].
above({_, _}) -> [];
above({work, _, Above}) -> Above;
above({work, _, Above, _}) -> Above.

%% @doc Returns the exit code of the command.
-spec exit_code(whittle:failure()) -> 1 | 2.
exit_code({usage, _}) -> 2;
exit_code(_) -> 1.

%% @doc Writes the failure as data. docs/json.md describes the format.
-spec json(whittle:failure()) -> whittle_json:json().
json({usage, _} = Failure) -> json(usage, usage, Failure);
json({work, _, _, Code} = Failure) -> json(Code, work, Failure);
json(Failure) -> json(failed, work, Failure).

json(Code, Reason, Failure) ->
    #{error => #{code => Code, reason => Reason, exit_code => exit_code(Failure),
                 text => text(line(Failure)), details => [text(Line) || Line <- above(Failure)]}}.

%% @doc Writes a bug of the command as data.
-spec mistake(unicode:chardata()) -> whittle_json:json().
mistake(Text) ->
    #{error => #{code => mistake, reason => mistake, exit_code => 1, text => text(Text),
                 details => []}}.

%% Converts a text to a binary. The output of another program may not be valid text.
text(Chars) ->
    case unicode:characters_to_binary(Chars) of
        Text when is_binary(Text) -> Text;
        _ -> unicode:characters_to_binary(io_lib:format("~tp", [Chars]))
    end.
