%% @hidden Finds the directory of the cache, and names the errors of writing below it.
-module(whittle_cache_dir).

-export([root/1, unwritten/2]).

%% @doc Finds the root of the cache.
%%
%% It is the option `cache', else $WHITTLE_CACHE, else $XDG_CACHE_HOME/whittle, else
%% ~/.cache/whittle. The error `open_artifact' names a symbolic link in this path that belongs to
%% another user: its owner could lead Whittle to another directory at any time. The error
%% `cache_space' names a path with white space: compilers and the makefiles of OTP split it.
-spec root(whittle_runtime:options()) -> {ok, file:filename()} | {error, whittle_runtime:reason()}.
root(#{cache := Dir}) ->
    own(filename:absname(Dir));
root(_) ->
    Places = [{"WHITTLE_CACHE", []}, {"XDG_CACHE_HOME", ["whittle"]},
              {"HOME", [".cache", "whittle"]}],
    case [filename:join([Dir | Below]) || {Name, Below} <- Places,
                                          Dir <- [os:getenv(Name, "")], Dir =/= "",
                                          %% The XDG specification calls a relative path invalid.
                                          Name =/= "XDG_CACHE_HOME"
                                              orelse filename:pathtype(Dir) =:= absolute] of
        [Root | _] -> own(filename:absname(Root));
        [] -> {error, {no_cache, #{}}}
    end.

own(Root) ->
    case {lists:any(fun(C) -> lists:member(C, " \t\n\r\f\v") end, Root),
          whittle_sums:owned_links(Root)} of
        {true, _} -> {error, {cache_space, #{dir => Root}}};
        {false, ok} -> {ok, Root};
        {false, {error, _} = Error} -> Error
    end.

%% @doc Returns the error for a failed write below a directory.
-spec unwritten(file:posix(), file:filename()) -> {atom(), map()}.
unwritten(enospc, Dir) -> {disk_full, #{dir => Dir}};
unwritten(Reason, Dir) -> {cache_unwritable, #{dir => Dir, reason => Reason}}.
