%% @doc Computes the bucket of a whole number, and the ends of buckets, on an exponential scale.
%%
%% Schema S cuts every power of two into 2^S buckets, as Prometheus' native histograms do. Bucket
%% I holds the values V with 2^((I-1)/2^S) &lt; V =&lt; 2^(I/2^S), so bucket 0 holds just 1. The
%% geometric middle of a bucket differs from a value in it by at most `relative_error(S)': 4.4 %
%% for schema 3, the default.
%%
%% The index is exact for every value below 2^59. A whole number is above an irrational border
%% exactly when it is above the whole part of the border.
-module(whittle_counters_scale).

-export([index/2, upper/2, middle/2, segments/1, max_value/0]).
-export([schema_for/1, relative_error/1, quantile/3]).
-export_type([schema/0, index/0]).

%% A power of two has 64 cells of equal width, and the 32 buckets of schema 5, whose borders lie
%% at 2^(K/32). So each cell has at most one border. This table has the number of borders before a
%% cell.
-define(BEFORE,
        {0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 7, 8, 9, 9, 10, 10, 11, 12,
         12, 13, 13, 14, 14, 15, 15, 16, 16, 17, 17, 18, 18, 19, 19, 20, 20, 21, 21, 21,
         22, 22, 23, 23, 24, 24, 25, 25, 25, 26, 26, 27, 27, 27, 28, 28, 29, 29, 29, 30,
         30, 30, 31, 31}).
%% The border in each cell, times 2^58 and rounded down. A cell without a border has its own end
%% here.
-define(BORDERS,
        {292733975779082240, 294541799544937742, 300991425114424280,
         306244774661193728, 307582279093769257, 314317453982457527,
         319755573543305216, 321200109996894878, 328233476553215513,
         333266372425416704, 335420853782558795, 342273571680157696,
         342765614079526219, 350271203684545193, 355784370562269184,
         357941144300882061, 364791569817010176, 365779034747063104,
         373788552645478855, 378302368699121664, 381973456147964023,
         387309567953862656, 390337585699162710, 396316767208603648,
         398884865838506284, 405323966463344640, 407619307041649444,
         414331165718085632, 416545007602228471, 423338364972826624,
         425666155554824629, 432345564227567616, 434987030640034978,
         441352763482308608, 444512006312572630, 450359962737049600,
         454245551793338685, 459367161991790592, 463870761619161088,
         464192234166428679, 472877960873902080, 474356720522057506,
         481885160128643072, 484743780146408279, 490892359383384064,
         495358286759432634, 499899558638125056, 504403158265495552,
         506205220801652488, 513410357520236544, 517289671771036229,
         522417556774977536, 526921156402348032, 528616840611045833,
         535928355657089024, 540192042150975406, 544935554911830016,
         549439154539200512, 552020707599726177, 558446353793941504,
         562949953421312000, 564108387094188057, 571957152676052992,
         576460752303423487}).
%% The buckets of values under 64, which have fewer than six bits after the highest.
-define(SMALL,
        {0, 32, 51, 64, 75, 83, 90, 96, 102, 107, 111, 115, 119, 122, 126, 128,
         131, 134, 136, 139, 141, 143, 145, 147, 149, 151, 153, 154, 156, 158, 159, 160,
         162, 163, 165, 166, 167, 168, 170, 171, 172, 173, 174, 175, 176, 177, 178, 179,
         180, 181, 182, 183, 184, 185, 186, 186, 187, 188, 189, 190, 190, 191, 192}).

-type schema() :: 0..5.
%% There are 2^S buckets in each power of two.
-type index() :: 0..(59 * 32).

%% @doc Gives the largest value that can be observed, 2^59 - 1.
-spec max_value() -> pos_integer().
max_value() -> (1 bsl 59) - 1.

%% @doc Gives the bucket of V, 1 =&lt; V =&lt; max_value().
-spec index(schema(), pos_integer()) -> index().
index(3, V) -> (finest(V) + 3) bsr 2;
index(5, V) -> finest(V);
index(4, V) -> (finest(V) + 1) bsr 1;
index(2, V) -> (finest(V) + 7) bsr 3;
index(1, V) -> (finest(V) + 15) bsr 4;
index(0, V) -> (finest(V) + 31) bsr 5.

%% Gives the bucket in schema 5. With its highest bit at bit 58, the value is still a small
%% integer. The function shifts nothing right by a variable, because such a shift takes as long as
%% all the rest (bench/counters).
finest(V) when V < 64 -> element(V, ?SMALL);
finest(V) ->
    E = exponent(V),
    Mantissa = V bsl (58 - E),
    Cell = (Mantissa bsr 52) - 63,
    Border = element(Cell, ?BORDERS),
    if
        Mantissa > Border -> E * 32 + 2 + element(Cell, ?BEFORE);
        Mantissa > 1 bsl 58 -> E * 32 + 1 + element(Cell, ?BEFORE);
        true -> E * 32
    end.

%% The calls would take a third of the time.
-compile({inline, [finest/1, exponent/1, low_exponent/2, short_exponent/2, byte_exponent/2]}).

%% Gives the position of the highest bit. Comparisons are the cheapest method without a float or a
%% loop.
exponent(V) when V < 1 bsl 32 -> low_exponent(V, 0);
exponent(V) -> low_exponent(V bsr 32, 32).

low_exponent(V, E) when V < 1 bsl 16 -> short_exponent(V, E);
low_exponent(V, E) -> short_exponent(V bsr 16, E + 16).

short_exponent(V, E) when V < 1 bsl 8 -> byte_exponent(V, E);
short_exponent(V, E) -> byte_exponent(V bsr 8, E + 8).

byte_exponent(V, E) when V < 16 ->
    if V < 4 -> E + (V bsr 1); V < 8 -> E + 2; true -> E + 3 end;
byte_exponent(V, E) ->
    if V < 32 -> E + 4; V < 64 -> E + 5; V < 128 -> E + 6; true -> E + 7 end.

%% @doc Gives the end of bucket I. No value in the bucket is larger.
-spec upper(schema(), index()) -> float().
upper(Schema, I) -> math:pow(2, I / (1 bsl Schema)).

%% @doc Gives the geometric middle of bucket I, which stands for the values in it.
-spec middle(schema(), index()) -> float().
middle(Schema, I) -> math:pow(2, (I - 0.5) / (1 bsl Schema)).

%% @doc Gives the number of segments of 32 buckets for the whole range. A segment holds four
%% powers of two in schema 3. A series has memory only for the segments that it uses.
-spec segments(schema()) -> pos_integer().
segments(Schema) -> ((59 bsl Schema) bsr 5) + 1.

%% @doc Gives the value below which the part Q (0 to 1) of the observations lies. It is the middle
%% of a bucket, or 0 for an empty histogram.
-spec quantile(schema(), whittle_counters_table:distribution(), number()) -> number().
quantile(Schema, #{count := Count, zeros := Zeros, buckets := Buckets}, Q) ->
    walk(Schema, Buckets, max(1, ceil(Q * Count)) - Zeros).

walk(Schema, [{I, N} | _], Rank) when Rank > 0, Rank =< N -> middle(Schema, I);
walk(Schema, [{_, N} | Buckets], Rank) when Rank > 0 -> walk(Schema, Buckets, Rank - N);
walk(_, _, _) -> 0.

%% @doc Gives the coarsest schema whose relative error is at most Error (0.011 to 0.42).
-spec schema_for(float()) -> {ok, schema()} | error.
schema_for(Error) ->
    case [S || S <- lists:seq(0, 5), relative_error(S) =< Error] of
        [S | _] -> {ok, S};
        [] -> error
    end.

%% @doc Gives the largest distance of a value from the geometric middle of its bucket, as a part
%% of the value: 2^(1/2^(S+1)) - 1.
-spec relative_error(schema()) -> float().
relative_error(Schema) -> math:pow(2, 1 / (2 bsl Schema)) - 1.
