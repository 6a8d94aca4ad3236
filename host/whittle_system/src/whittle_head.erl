%% @doc The first bytes of a file, by which its kind is known.
-module(whittle_head).

-export([read/2]).

%% @doc At most so many bytes; fewer of a shorter file.
-spec read(file:filename_all(), pos_integer()) -> {ok, binary()} | {error, file:posix() | badarg}.
read(File, Size) ->
    case file:open(File, [read, raw, binary]) of
        {ok, Fd} ->
            Read = file:read(Fd, Size),
            ok = file:close(Fd),
            case Read of
                eof -> {ok, <<>>};
                _ -> Read
            end;
        {error, _} = Error -> Error
    end.
