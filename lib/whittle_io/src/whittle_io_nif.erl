%% @hidden Finds the native libraries of this application.
-module(whittle_io_nif).

-export([path/1]).

%% @doc Gives the path of a library, without its suffix, for erlang:load_nif/2: in the directory
%% that the environment of whittle_io names (nif_dir), or else in priv. A VM that has it linked
%% in looks at the name alone; there the code server and the environment need not be there yet
%% when a module is loaded at boot.
-spec path(string()) -> file:filename().
path(Name) ->
    try application:get_env(whittle_io, nif_dir) of
        {ok, Dir} -> filename:join(Dir, Name);
        undefined -> filename:join(priv(), Name)
    catch
        _:_ -> Name
    end.

priv() ->
    case code:priv_dir(whittle_io) of
        {error, bad_name} ->
            %% The directory has another name.
            filename:join(filename:dirname(filename:dirname(code:which(?MODULE))), "priv");
        Dir -> Dir
    end.
