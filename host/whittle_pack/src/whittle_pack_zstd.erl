%% @doc Zstandard through the `zstd' command, since OTP 25 has no such module.
%%
%% The data goes through pipes, so that nothing is on disk when the command is
%% stopped in the middle. A port cannot close only its writing end; `head'
%% counts the bytes and ends the input for it.
-module(whittle_pack_zstd).

-export([check/0, compress/1, decompress/1]).

-export_type([error/0]).

%% A worker ends with its result as the reason.
-dialyzer({no_return, start/2}).

-type error() :: {no_zstd, string()}              % the command is not there
               | {zstd_failed, {integer(), binary()}}. % exit code, its words

%% Level 22 was 41 bytes in 1.44 MB smaller than 19 on kernel and stdlib of
%% OTP 29 and took as long; it matters for systems of more than 8 MB. The
%% executable's pack has a CRC of its own.
-define(ARGUMENTS, "-q -c -22 --ultra --no-check").

%% @doc Whether the command is there.
-spec check() -> ok | {error, {no_zstd, string()}}.
check() ->
    case os:find_executable("zstd") of
        false -> {error, {no_zstd, "zstd"}};
        _ -> ok
    end.

%% @doc Compresses each binary to one frame, as many at a time as there are
%% schedulers. A frame tells its content's size.
-spec compress([binary()]) -> {ok, [binary()]} | {error, error()}.
compress(Blobs) ->
    each(fun compress_one/1, Blobs).

%% @doc Inflates each frame, which has to give exactly the size beside it.
-spec decompress([{binary(), non_neg_integer()}]) ->
          {ok, [binary()]} | {error, error() | {bad_frame, non_neg_integer()}}.
decompress(Frames) ->
    each(fun decompress_one/1, Frames).

%% Internal

each(Fun, Items) ->
    case check() of
        ok -> collect(parallel(Fun, Items, erlang:system_info(schedulers_online)));
        Error -> Error
    end.

compress_one(Blob) ->
    Size = integer_to_list(byte_size(Blob)),
    pipe("zstd " ?ARGUMENTS " --stream-size=" ++ Size, Blob, infinity).

decompress_one({Frame, Size}) ->
    case pipe("zstd -q -d -c --memory=2048MB", Frame, Size) of
        {ok, Raw} when byte_size(Raw) =:= Size -> {ok, Raw};
        {ok, _} -> {error, {bad_frame, Size}};
        {error, {zstd_failed, _}} -> {error, {bad_frame, Size}}
    end.

%% Runs a shell command with these bytes as its input, and gives up when it
%% answers with more than Limit bytes.
%%
%% What the command says beside its answer is kept apart from it. If it fails, that
%% comes after what there is of the answer, and then its length in ten digits.
pipe(Command, Input, Limit) ->
    Script = "exec 3>&1; words=$( { head -c \"$1\" | " ++ Command ++ " >&3; } 2>&1 ) || {"
        " status=$?; printf '%s%010d' \"$words\" ${#words}; exit $status; }",
    Port = open_port({spawn_executable, "/bin/sh"},
                     [{args, ["-c", Script, "sh",
                              integer_to_list(byte_size(Input))]},
                      {env, [{"LC_ALL", "C"}]},      % lengths in bytes
                      binary, use_stdio, exit_status, hide]),
    true = port_command(Port, Input),
    receive_all(Port, Limit, 0, []).

receive_all(Port, Limit, Size, Parts) ->
    receive
        {Port, {data, Part}} when Size + byte_size(Part) =< Limit ->
            receive_all(Port, Limit, Size + byte_size(Part), [Part | Parts]);
        {Port, {data, _}} ->
            ok = close(Port),
            {error, {zstd_failed, {1, <<"more bytes than were promised">>}}};
        {Port, {exit_status, 0}} ->
            {ok, iolist_to_binary(lists:reverse(Parts))};
        {Port, {exit_status, Code}} ->
            {error, {zstd_failed, {Code, words(iolist_to_binary(lists:reverse(Parts)))}}};
        {'EXIT', Port, Reason} ->   % it ended before it had read everything
            {error, {zstd_failed, {1, iolist_to_binary(io_lib:format("~p", [Reason]))}}}
    end.

%% It may have ended by itself while what it had said was waiting here.
close(Port) ->
    try port_close(Port) of
        true -> ok
    catch
        error:badarg -> ok
    end.

%% A shell that was killed has written no length.
words(Answer) ->
    try
        {Said, Length} = split_binary(Answer, byte_size(Answer) - 10),
        binary:part(Said, byte_size(Said), -binary_to_integer(Length))
    catch
        error:badarg -> <<>>
    end.

%% The results in the order of the items, with at most Width at work.
parallel(Fun, Items, Width) ->
    {Now, Later} = lists:split(min(Width, length(Items)), Items),
    gather(Fun, [start(Fun, Item) || Item <- Now], Later).

gather(_, [], []) ->
    [];
gather(Fun, [{Pid, Monitor} | Working], Later) ->
    {result, Result} = receive {'DOWN', Monitor, process, Pid, Why} -> Why end,
    case Later of
        [Item | Rest] -> [Result | gather(Fun, Working ++ [start(Fun, Item)], Rest)];
        [] -> [Result | gather(Fun, Working, [])]
    end.

start(Fun, Item) ->
    spawn_monitor(fun() -> work(Fun, Item) end).

-spec work(fun((Item) -> term()), Item) -> no_return().
work(Fun, Item) ->
    %% A port that breaks must not end its reader.
    _ = process_flag(trap_exit, true),
    exit({result, Fun(Item)}).

collect(Results) ->
    case [Error || {error, Error} <- Results] of
        [] -> {ok, [Blob || {ok, Blob} <- Results]};
        [Error | _] -> {error, Error}
    end.
