%% @doc Shows the parts of a board's image as a table.
-module(whittle_image_table).

-export([text/3]).

%% @doc Formats the parts, with the image itself as the last line.
-spec text([#{name := binary(), stored := integer(), raw := integer()}], file:filename(),
           pos_integer()) -> unicode:chardata().
text(Parts, Out, Size) ->
    whittle_table:text([["part of the image", "stored", "raw"]
                        | [[Name, Stored, Raw]
                           || #{name := Name, stored := Stored, raw := Raw} <- Parts]]
                       ++ [[Out, Size, ""]]).
