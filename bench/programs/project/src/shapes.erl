-module(shapes).

-compile({parse_transform, named}).

-include("shapes.hrl").
-include_lib("kernel/include/file.hrl").

-export([area/1, name/0, kind/1]).

-spec area(#rectangle{}) -> number().
area(#rectangle{width = Width, height = Height}) -> Width * Height.

-spec name() -> atom().
name() -> unknown.

-spec kind(file:filename()) -> device | directory | regular | symlink | other | undefined.
kind(File) ->
    {ok, #file_info{type = Type}} = file:read_file_info(File),
    Type.
