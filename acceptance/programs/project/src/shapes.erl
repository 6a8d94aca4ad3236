-module(shapes).

-compile({parse_transform, named}).

-include("shapes.hrl").
-include_lib("kernel/include/file.hrl").

-export([area/1, name/0, kind/1, week/1, main/1]).

-spec area(#rectangle{}) -> number().
area(#rectangle{width = Width, height = Height}) -> Width * Height.

-spec name() -> atom().
name() -> unknown.

-spec kind(file:filename()) -> device | directory | regular | symlink | other | undefined.
kind(File) ->
    {ok, #file_info{type = Type}} = file:read_file_info(File),
    Type.

%% Calls a function of OTP that nothing in rebar3 calls.
-spec week(calendar:date()) -> calendar:yearweeknum().
week(Date) -> calendar:iso_week_number(Date).

-spec main([string()]) -> ok.
main(Sums) ->
    [begin
         {ok, Tokens, _} = sums_scan:string(Sum),
         {ok, Value} = sums_parse:parse(Tokens),
         io:format("~s = ~b~n", [Sum, Value])
     end || Sum <- Sums],
    ok.
