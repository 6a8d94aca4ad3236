%% @doc Writes the page of a directory of samples for the commands of `whittle measure'.
%% @hidden
-module(whittle_cmd_measure_page).

-export([write/2]).

%% @doc Writes the page, and with --png the pictures. It prints the notes of the report, and returns
%% the report with the lines that name the written files.
-spec write(file:filename(), whittle_command_line:values()) ->
          {ok, {whittle_measure:report(), Lines :: unicode:chardata()}}
        | {error, whittle:failure()}.
write(Dir, Values) ->
    case whittle_measure:report(Dir) of
        {ok, #{notes := Notes, page := Page} = Report} ->
            _ = [whittle_progress:note(Note) || Note <- Notes],
            case pictures(Report, Values) of
                {ok, Pictures} ->
                    {ok, {Report, ["the page: ", Page, "\n",
                                   [["a picture: ", File, "\n"] || File <- Pictures]]}};
                {error, Reason} -> whittle_failure:measure(Reason)
            end;
        {error, Reason} -> whittle_failure:measure(Reason)
    end.

pictures(Report, #{png := true}) -> whittle_measure:pictures(Report);
pictures(_, _) -> {ok, []}.
