%% @doc Computes rows of a picture of the Mandelbrot set. All functions are pure.
%%
%% A point c of the plane belongs to the set if z, beginning at 0, stays near 0 under z*z + c. The
%% gray of a point tells after how many steps |z| exceeds 2
%% (https://en.wikipedia.org/wiki/Mandelbrot_set).
%% @hidden
-module(docket_picture).

-export([names/0, area/1, width/1, height/1, rows/3]).

-export_type([area/0]).

%% `x' and `y' are the middle of the picture in the plane, `span' is its width there.
-opaque area() :: #{binary() => number()}.

%% Each value with its least, its most, its default, and whether it is a whole number. The largest
%% picture would take minutes of one core; docket gives it up at the deadline of its request.
-define(VALUES, #{<<"width">> => {1, 1000, 320, true}, <<"height">> => {1, 1000, 240, true},
                  <<"steps">> => {1, 1000, 200, true}, <<"x">> => {-4, 4, -0.6, false},
                  <<"y">> => {-4, 4, 0, false}, <<"span">> => {1.0e-12, 8, 3, false}}).

%% @doc Lists the names of the values that an area has.
-spec names() -> [binary()].
names() -> [<<"width">>, <<"height">>, <<"steps">>, <<"x">>, <<"y">>, <<"span">>].

%% @doc Checks the values of an area, and adds the default ones.
-spec area(#{binary() => number()}) -> {ok, area()} | {error, iodata()}.
area(Given) ->
    Area = maps:merge(maps:map(fun(_, {_, _, Default, _}) -> Default end, ?VALUES), Given),
    case [Name || Name <- names(), not fits(maps:get(Name, Area), maps:get(Name, ?VALUES))] of
        [] -> {ok, Area};
        [Name | _] ->
            {Least, Most, _, Whole} = maps:get(Name, ?VALUES),
            {error, [Name, " takes a ", ["whole " || Whole],
                     io_lib:format("number from ~p to ~p", [Least, Most])]}
    end.

fits(Value, {Least, Most, _, Whole}) ->
    Value >= Least andalso Value =< Most andalso (is_integer(Value) orelse not Whole).

%% @doc Returns the width in points.
-spec width(area()) -> pos_integer().
width(#{<<"width">> := Width}) -> Width.

%% @doc Returns the height in points.
-spec height(area()) -> pos_integer().
height(#{<<"height">> := Height}) -> Height.

%% @doc Computes some rows, one byte for each point. The first row has the number 0.
-spec rows(area(), First :: non_neg_integer(), Last :: non_neg_integer()) -> binary().
rows(#{<<"width">> := Width, <<"height">> := Height, <<"steps">> := Steps, <<"x">> := X,
       <<"y">> := Y,
       <<"span">> := Span}, First, Last) ->
    Step = Span / Width,
    Left = X - Span / 2 + Step / 2,
    Top = Y + (Height - 1) * Step / 2,
    << <<(gray(Left + Column * Step, Top - Row * Step, Steps))>>
       || Row <- lists:seq(First, Last), Column <- lists:seq(0, Width - 1) >>.

gray(Cx, Cy, Steps) ->
    case escapes(0.0, 0.0, float(Cx), float(Cy), Steps) of
        0 -> 0;
        Left -> 255 - (Steps - Left) * 223 div Steps
    end.

%% The number of steps left when the point escapes, or 0
escapes(_, _, _, _, 0) -> 0;
escapes(X, Y, Cx, Cy, Left) ->
    Xx = X * X,
    Yy = Y * Y,
    case Xx + Yy > 4.0 of
        true -> Left;
        false -> escapes(Xx - Yy + Cx, 2.0 * X * Y + Cy, Cx, Cy, Left - 1)
    end.
