%% @doc Upper and lower case of ASCII letters alone, for a system that was built without
%% the tables of Unicode (docs/shaking.md, feature `graphemes').
%%
%% Each takes and gives what the function of the same name in `unicode_util' does: the
%% first character of a text, and the rest.
-module(whittle_start_text).

-export([uppercase/1, lowercase/1]).

-type text() :: unicode:chardata().

%% @doc The first character in upper case.
-spec uppercase(text()) -> [char() | text()] | {error, text()}.
uppercase(Text) ->
    case unicode_util:cp(Text) of
        [C | Rest] when C >= $a, C =< $z -> [C - $a + $A | Rest];
        Other -> Other
    end.

%% @doc The first character in lower case.
-spec lowercase(text()) -> [char() | text()] | {error, text()}.
lowercase(Text) ->
    case unicode_util:cp(Text) of
        [C | Rest] when C >= $A, C =< $Z -> [C - $A + $a | Rest];
        Other -> Other
    end.
