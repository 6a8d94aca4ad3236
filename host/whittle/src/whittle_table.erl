%% @doc Tables as text: columns as wide as their widest cell; a column that
%% holds a number is set to the right.
-module(whittle_table).

-export([text/1, number/1]).

-export_type([cell/0]).

%% Integers are written with a comma between thousands.
-type cell() :: integer() | unicode:chardata().

%% @doc One line for each row. All rows have the same number of cells.
-spec text([[cell()]]) -> unicode:chardata().
text([]) -> "";
text(Rows) ->
    Columns = [column(Column) || Column <- columns(Rows)],
    [[string:trim(lists:join("  ", Row), trailing), $\n] || Row <- columns(Columns)].

%% @doc An integer with a comma between thousands.
-spec number(integer()) -> unicode:chardata().
number(N) when N < 0 -> [$-, number(-N)];
number(N) when N < 1000 -> integer_to_list(N);
number(N) -> [number(N div 1000), io_lib:format(",~3..0b", [N rem 1000])].

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

cell(N) when is_integer(N) -> number(N);
cell(Text) -> Text.
