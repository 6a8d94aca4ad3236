%% @doc Reads the files that a scenario names: data for users, and the starts of a trace. This
%% module is pure.
%% @hidden
-module(whittle_load_data).

-export([rows/1, starts/1]).

-define(LONGEST_TRACE, 30 * 24 * 3_600_000_000_000).

%% @doc Reads a table in CSV (RFC 4180): the names of its columns from the first line, and its other
%% lines. All must have the same number of fields, and no two columns the same name. The error names
%% the line.
-spec rows(binary()) -> {ok, {[string()], [tuple()]}} | {error, string()}.
rows(Bytes) ->
    case lines(Bytes, 1, []) of
        {ok, []} -> {error, "the file is empty: its first line has the names of the columns"};
        {ok, [_]} -> {error, "the file has no line behind the names of the columns"};
        {ok, [{_, Names} | Lines]} ->
            case {names(Names), [N || {N, Fields} <- Lines, length(Fields) =/= length(Names)]} of
                {{ok, Columns}, []} ->
                    {ok, {Columns, [list_to_tuple(Fields) || {_, Fields} <- Lines]}};
                {{error, _} = Error, _} -> Error;
                {_, [N | _]} ->
                    {error, line(N, io_lib:format("does not have the ~b fields of the first line",
                                                  [length(Names)]))}
            end;
        {error, _} = Error -> Error
    end.

%% A spreadsheet may write columns without names.
names(Names) ->
    Columns = [unicode:characters_to_list(Name) || Name <- Names],
    Named = [Column || Column <- Columns, Column =/= ""],
    case {lists:all(fun is_list/1, Columns), Named -- lists:usort(Named)} of
        {false, _} -> {error, line(1, "is not UTF-8: store the file in UTF-8")};
        {true, []} -> {ok, Columns};
        {true, [Twice | _]} ->
            {error, line(1, io_lib:format("has two columns with the name `~ts': rename one",
                                          [whittle_file_name:printable(Twice)]))}
    end.

lines(<<>>, _, Lines) -> {ok, lists:reverse(Lines)};
lines(Bytes, N, Lines) ->
    case fields(Bytes, []) of
        {Fields, Newlines, Rest} -> lines(Rest, N + Newlines, [{N, Fields} | Lines]);
        error -> {error, line(N, "has a quote that does not end, or text behind one")}
    end.

%% Takes one record: its fields, its newlines, and the rest.
fields(<<$", Bytes/binary>>, Before) ->
    case quoted(Bytes, <<>>) of
        {Field, Rest} ->
            Newlines = length(binary:matches(Field, <<"\n">>)),
            case behind(Rest) of
                {comma, Next} -> more(fields(Next, [Field | Before]), Newlines);
                {newline, Next} -> {lists:reverse(Before, [Field]), Newlines + 1, Next};
                error -> error
            end;
        error -> error
    end;
fields(Bytes, Before) ->
    Size = case binary:match(Bytes, [<<",">>, <<"\n">>]) of
               {At, 1} -> At;
               nomatch -> byte_size(Bytes)
           end,
    <<Text:Size/binary, Rest/binary>> = Bytes,
    case Rest of
        <<$,, Next/binary>> -> fields(Next, [Text | Before]);
        <<$\n, Next/binary>> -> {lists:reverse(Before, [without_return(Text)]), 1, Next};
        <<>> -> {lists:reverse(Before, [without_return(Text)]), 1, <<>>}
    end.

more({Fields, Newlines, Rest}, Before) -> {Fields, Newlines + Before, Rest};
more(error, _) -> error.

%% Two quotes stand for one.
quoted(Bytes, Before) ->
    case binary:split(Bytes, <<$">>) of
        [Text, <<$", Rest/binary>>] -> quoted(Rest, <<Before/binary, Text/binary, $">>);
        [Text, Rest] -> {<<Before/binary, Text/binary>>, Rest};
        [_] -> error
    end.

behind(<<$,, Rest/binary>>) -> {comma, Rest};
behind(<<"\r\n", Rest/binary>>) -> {newline, Rest};
behind(<<$\n, Rest/binary>>) -> {newline, Rest};
behind(<<>>) -> {newline, <<>>};
behind(_) -> error.

without_return(Text) ->
    Size = byte_size(Text) - 1,
    case Text of
        <<Line:Size/binary, $\r>> -> Line;
        _ -> Text
    end.

line(N, Text) -> lists:flatten(io_lib:format("line ~b ~ts", [N, Text])).

%% @doc Reads the starts of a trace: a line has the seconds from the begin of the phase, and no line
%% is before the one above it. The result is nanoseconds.
-spec starts(binary()) -> {ok, [non_neg_integer(), ...]} | {error, string()}.
starts(Bytes) ->
    Lines = string:lexemes(binary_to_list(Bytes), ["\r\n", $\n]),
    starts(lists:zip(lists:seq(1, length(Lines)), Lines), 0, []).

starts([], _, []) -> {error, "the file is empty: write one start in seconds on each line"};
starts([], _, Starts) -> {ok, lists:reverse(Starts)};
starts([{N, Line} | Lines], Before, Starts) ->
    case whittle_load_unit:time(string:trim(Line) ++ " s") of
        {ok, Time} when Time >= Before, Time =< ?LONGEST_TRACE ->
            starts(Lines, Time, [Time | Starts]);
        {ok, Time} when Time < Before -> {error, line(N, "is before the one above it")};
        _ -> {error, line(N, "is not a number of seconds")}
    end.
