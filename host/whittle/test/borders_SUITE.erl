%% Holds the rooms' borders: the table in docs/architecture.md, from xref of what was
%% compiled for this run.
-module(borders_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0]).
-export([host_rooms/1, device_rooms/1, only_the_command_prints_or_halts/1]).

all() -> [host_rooms, device_rooms, only_the_command_prints_or_halts].

%% Which rooms a room of the host may call.
host() ->
    #{whittle => [whittle_system, whittle_beam, whittle_shake, whittle_runtime, whittle_pack],
      whittle_system => [whittle_beam],
      whittle_beam => [],
      whittle_shake => [whittle_beam, whittle_system],
      whittle_runtime => [whittle_system],
      whittle_pack => [whittle_system]}.

host_rooms(_Config) ->
    Rooms = host(),
    ?assertEqual(lists:sort(rooms("host")), lists:sort(maps:keys(Rooms))),
    ?assertEqual([], [Call || {From, To, _} = Call <- calls(),
                              is_map_key(From, Rooms), From =/= To,
                              not lists:member(To, maps:get(From, Rooms))]).

%% What runs on the board stands on OTP alone, but for libraries of the same
%% side that say so in their .app file.
device_rooms(_Config) ->
    Device = rooms("device"),
    Declared = [{Room, App} || Room <- Device, App <- applications(Room)],
    ?assertEqual([], [Call || {From, To, _} = Call <- calls(),
                              lists:member(From, Device), From =/= To,
                              not lists:member({From, To}, Declared)
                                  orelse not lists:member(To, Device)]).

only_the_command_prints_or_halts(_Config) ->
    Forbidden = [{erlang, halt}, {erlang, display}, {init, stop}, {init, restart},
                 {io, format}, {io, fwrite}, {io, put_chars}, {io, nl}, {io, write},
                 {error_logger, error_msg}, {logger, error}],
    ?assertEqual([], [{Room, Caller, Called}
                      || Room <- rooms("host"), Room =/= whittle,
                         {Caller, {Module, Function, _} = Called} <- external_calls(Room),
                         lists:member({Module, Function}, Forbidden)]).

%% Below, what xref says

rooms(Side) ->
    [list_to_atom(filename:basename(Dir))
     || Dir <- filelib:wildcard(filename:join([root(), Side, "*"])),
        filelib:is_dir(filename:join(Dir, "src"))].

applications(Room) ->
    [File] = filelib:wildcard(filename:join([lib(), Room, "ebin", "*.app"])),
    {ok, [{application, Room, Properties}]} = file:consult(File),
    proplists:get_value(applications, Properties).

%% Calls between rooms: {From, To, {Caller, Called}}.
calls() ->
    Rooms = rooms("host") ++ rooms("device"),
    Homes = maps:from_list([{Module, Room} || Room <- Rooms, Module <- modules(Room)]),
    [{Room, maps:get(Module, Homes), Call}
     || Room <- Rooms, {_, {Module, _, _}} = Call <- external_calls(Room),
        is_map_key(Module, Homes)].

modules(Room) ->
    [list_to_atom(filename:basename(File, ".beam"))
     || File <- filelib:wildcard(filename:join([lib(), Room, "ebin", "*.beam"]))].

external_calls(Room) ->
    {ok, _} = xref:start(?MODULE),
    try
        {ok, _} = xref:add_directory(?MODULE, filename:join([lib(), Room, "ebin"])),
        {ok, Calls} = xref:q(?MODULE, "XC"),
        Calls
    after
        xref:stop(?MODULE)
    end.

%% ROOT/_build/PROFILE/lib/whittle/ebin/whittle.beam
root() -> filename:dirname(filename:dirname(filename:dirname(lib()))).

lib() -> filename:dirname(filename:dirname(filename:dirname(code:which(whittle)))).
