%% @hidden Writes a small FAT12 file system with files in its root directory. This module is pure.
%%
%% U-Boot and the boot code of most boards read FAT. All dates are 1980-01-01, the first that FAT
%% knows, so the same files give the same bytes.
-module(whittle_board_fat).

-export([volume/3]).

-define(SECTOR, 512).
%% Sectors of a cluster. FAT12 has at most 4,084 clusters.
-define(CLUSTER, 4).
-define(FIRST_CLUSTER, 2).
%% Entries of the root directory; 16 fill a sector.
-define(ENTRIES, 16).
%% 1980-01-01: the years after 1980, the month, the day.
-define(DATE, (1 bsl 5 bor 1)).

%% @doc Writes a volume of a number of sectors, which lies at a sector of its disk. A name has at
%% most 8 letters, and 3 after the dot. The files must fit.
-spec volume(From :: non_neg_integer(), Sectors :: 64..16000, [{string(), binary()}]) -> binary().
volume(From, Sectors, Files) ->
    true = length(Files) =< ?ENTRIES,
    Fat = (Sectors div ?CLUSTER * 3 div 2 + ?SECTOR) div ?SECTOR,
    {Entries, Chains, Data} = contents(Files, ?FIRST_CLUSTER, {[], [], []}),
    Table = table([16#FF8, 16#FFF | Chains]),
    true = byte_size(Table) =< Fat * ?SECTOR,
    Bytes = iolist_to_binary([boot(From, Sectors, Fat), padded(Table, Fat * ?SECTOR),
                              padded(Table, Fat * ?SECTOR),
                              padded(iolist_to_binary(Entries), ?ENTRIES * 32), Data]),
    padded(Bytes, Sectors * ?SECTOR).

%% Internal

%% The number of the volume is the date 1980-01-01.
boot(From, Sectors, Fat) ->
    <<16#EB, 16#3C, 16#90, "WHITTLE ", ?SECTOR:16/little, ?CLUSTER, 1:16/little, 2,
      ?ENTRIES:16/little, Sectors:16/little, 16#F8, Fat:16/little, 32:16/little, 64:16/little,
      From:32/little, 0:32, 16#80, 0, 16#29, 16#19800101:32/little, "NO NAME    ", "FAT12   ",
      0:448/unit:8, 16#55, 16#AA>>.

contents([], _, {Entries, Chains, Data}) ->
    {lists:reverse(Entries), lists:append(lists:reverse(Chains)), lists:reverse(Data)};
contents([{Name, Bytes} | Files], First, {Entries, Chains, Data}) ->
    Size = byte_size(Bytes),
    Clusters = (Size + ?CLUSTER * ?SECTOR - 1) div (?CLUSTER * ?SECTOR),
    true = Clusters > 0,
    Entry = <<(short(Name))/binary, 16#20, 0:10/unit:8, 0:16/little, ?DATE:16/little,
              First:16/little, Size:32/little>>,
    Chain = lists:seq(First + 1, First + Clusters - 1) ++ [16#FFF],
    contents(Files, First + Clusters,
             {[Entry | Entries], [Chain | Chains],
              [padded(Bytes, Clusters * ?CLUSTER * ?SECTOR) | Data]}).

short(Name) ->
    [Stem, Extension] = string:split(string:uppercase(Name), "."),
    true = length(Stem) =< 8 andalso length(Extension) =< 3,
    list_to_binary([string:pad(Stem, 8), string:pad(Extension, 3)]).

%% Two entries of 12 bits are three bytes.
table([One, Two | Rest]) ->
    <<Number:24/little>> = <<(Two bsl 12 bor One):24>>,
    <<Number:24, (table(Rest))/binary>>;
table([One]) -> table([One, 0]);
table([]) -> <<>>.

padded(Bytes, Size) ->
    Room = Size - byte_size(Bytes),
    true = Room >= 0,
    <<Bytes/binary, 0:Room/unit:8>>.
