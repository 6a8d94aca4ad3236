%% @doc Shows the parts of a board's image or card as a table.
-module(whittle_image_table).

-export([text/3, card/2, card_json/1]).

%% @doc Formats the parts, with the image itself as the last line.
-spec text([#{name := binary(), stored := integer(), raw := integer()}], file:filename(),
           pos_integer()) -> unicode:chardata().
text(Parts, Out, Size) ->
    whittle_table:text([["part of the image", "stored", "raw"]
                        | [[Name, Stored, Raw]
                           || #{name := Name, stored := Stored, raw := Raw} <- Parts]]
                       ++ [[Out, Size, ""]]).

%% @doc Formats the parts of a card, with the card itself as the last line of the table, and its
%% state.
-spec card(whittle_board_card:card(), file:filename()) -> unicode:chardata().
card(#{parts := Parts, size := Size, data := Data, trial := Trial, tries := Tries, next := Next,
       damaged := Damaged}, Out) ->
    [whittle_table:text([["part of the card", "bytes", "hold data"]
                         | [[Name, Bytes, Used]
                            || #{name := Name, bytes := Bytes, data := Used} <- Parts]]
                        ++ [[Out, Size, Data]]),
     ["\nThe next boot starts slot ", letter(Next), [" on trial" || Trial =:= Next, Tries > 0],
      ".\n"],
     [["The trial of slot ", letter(Trial), " is over, and nobody confirmed its image.\n"]
      || Trial =/= none, Tries =:= 0],
     [["Damaged: ", Part, $\n] || Part <- Damaged]].

letter(a) -> "A";
letter(b) -> "B".

%% @doc Writes a card as data.
-spec card_json(whittle_board_card:card()) -> whittle_json:json().
card_json(#{a := A, b := B} = Card) ->
    (maps:with([board, size, data, good, trial, tries, next, damaged, parts], Card))
        #{slots => #{a => slot(A), b => slot(B)}}.

slot({image, #{name := Name, version := Version}}) ->
    #{status => image, name => Name, version => Version};
slot(Status) -> #{status => Status}.
