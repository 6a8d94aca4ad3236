%% @hidden Finds the native libraries of this application.
-module(whittle_io_nif).

-export([path/1]).

%% @doc Gives the path of a library, without its suffix, for erlang:load_nif/2. The library is in
%% the directory nif_dir from the environment of whittle_io, or else in priv. A VM with the linked
%% library reads only the name. The code server and the environment may be absent there when the
%% boot loads a module.
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
