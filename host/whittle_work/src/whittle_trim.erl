%% @doc Removes white space around text of unknown origin.
-module(whittle_trim).

-export([blanks/1]).

-define(IS_BLANK(C), (C =:= $\s orelse C =:= $\t orelse C =:= $\r orelse C =:= $\n)).

%% @doc Removes blanks, tabs and line ends at both ends of a text. The time is linear, also for a
%% text of blanks. The bytes need not be UTF-8, without which `string:trim/1' fails.
-spec blanks(binary()) -> binary().
blanks(<<C, Rest/binary>>) when ?IS_BLANK(C) -> blanks(Rest);
blanks(Text) -> first(byte_size(Text), Text).

first(Size, Text) ->
    case Size > 0 andalso binary:at(Text, Size - 1) of
        C when ?IS_BLANK(C) -> first(Size - 1, Text);
        _ -> binary:part(Text, 0, Size)
    end.
