%% @doc Puts the runs of a study in order. Each block holds every cell once, in random order, so
%% that a slow drift of the machine reaches all cells alike.
%% @hidden
-module(whittle_measure_order).

-export([runs/2]).

-export_type([run/0]).

%% Blocks below 1 warm up and are not analyzed.
-type run() :: #{block := integer(), position := pos_integer(),
                 cell := whittle_measure_study:cell()}.

%% @doc Lists the runs of a study. The seed of the study decides the order.
-spec runs(whittle_measure_study:study(), [whittle_measure_study:cell()]) -> [run()].
runs(#{blocks := Blocks, warmup := Warmup, seed := Seed}, Cells) ->
    {Runs, _} = lists:mapfoldl(fun(Block, State) -> block(Block, Cells, State) end,
                               rand:seed_s(exsss, Seed), lists:seq(1 - Warmup, Blocks)),
    lists:append(Runs).

block(Block, Cells, State0) ->
    {Drawn, State} = lists:mapfoldl(fun(Cell, S0) ->
                                            {Number, S} = rand:uniform_s(S0),
                                            {{Number, Cell}, S}
                                    end, State0, Cells),
    {[#{block => Block, position => Position, cell => Cell}
      || {Position, {_, Cell}} <- lists:zip(lists:seq(1, length(Cells)),
                                            lists:keysort(1, Drawn))], State}.
