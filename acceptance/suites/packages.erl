%% Fetches packages of Debian for tests and scripts, and unpacks them without installing them.
-module(packages).

-export([unpacked/2]).

%% Unpacks a package below a directory, once, and returns its own directory there. apt fetches it
%% and checks its signature.
-spec unpacked(string(), file:filename()) -> {ok, file:filename()} | {error, unicode:chardata()}.
unpacked(Name, Below) ->
    Dir = filename:join(Below, Name),
    New = Dir ++ ".new",
    Script = "cd \"$1\" && apt-get download -q -o APT::Sandbox::User=root "
        "-o Acquire::http::Timeout=30 \"$2\" 2>&1 && dpkg-deb -x \"$2\"_*.deb . 2>&1 && "
        "rm \"$2\"_*.deb",
    case filelib:is_dir(Dir) of
        true -> {ok, Dir};
        false ->
            _ = file:del_dir_r(New),
            ok = filelib:ensure_path(New),
            case running:run("/bin/sh", ["-c", Script, "sh", New, Name], #{env => keep}) of
                {0, _} ->
                    ok = file:rename(New, Dir),
                    {ok, Dir};
                {_, Said} ->
                    {error, ["the package ", Name, " could not be fetched; run apt-get update and "
                             "try again: ", Said]}
            end
    end.
