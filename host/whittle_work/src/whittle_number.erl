%% @doc Writes numbers for people.
-module(whittle_number).

-export([text/1]).

%% @doc Writes an integer with a comma between thousands: `1,234,567'.
-spec text(integer()) -> iolist().
text(N) when N < 0 -> [$-, text(-N)];
text(N) when N < 1000 -> integer_to_list(N);
text(N) -> [text(N div 1000), io_lib:format(",~3..0b", [N rem 1000])].
