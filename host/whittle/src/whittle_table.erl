%% @doc Formats tables as text. Each column is as wide as its widest cell. A column with a number
%% is aligned to the right. Control characters in a cell are escaped, because a cell may have a name
%% from outside.
-module(whittle_table).

-export([text/1]).

-export_type([cell/0]).

%% An integer is written with a comma between thousands.
-type cell() :: integer() | unicode:chardata().

%% @doc Formats each row as one line. All rows have the same number of cells.
-spec text([[cell()]]) -> unicode:chardata().
text([]) -> "";
text(Rows) ->
    Columns = [column(Column) || Column <- columns(Rows)],
    [[string:trim(lists:join("  ", Row), trailing), $\n] || Row <- columns(Columns)].

columns([[] | _]) -> [];
columns(Rows) -> [[hd(Row) || Row <- Rows] | columns([tl(Row) || Row <- Rows])].

column(Cells) ->
    Texts = [cell(Cell) || Cell <- Cells],
    Width = lists:max([string:length(Text) || Text <- Texts]),
    Direction = case lists:any(fun is_integer/1, Cells) of
                    true -> leading;
                    false -> trailing
                end,
    [string:pad(Text, Width, Direction) || Text <- Texts].

cell(N) when is_integer(N) -> whittle_number:text(N);
cell(Text) -> whittle_file_name:printable(Text).
