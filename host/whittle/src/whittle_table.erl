%% @doc Tables as text: columns as wide as their widest cell; a column that
%% holds a number is set to the right.
-module(whittle_table).

-export([text/1]).

-export_type([cell/0]).

%% Integers are written with a comma between thousands.
-type cell() :: integer() | unicode:chardata().

%% @doc One line for each row. All rows have the same number of cells.
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
cell(Text) -> Text.
