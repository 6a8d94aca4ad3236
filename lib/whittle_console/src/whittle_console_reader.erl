%% @doc Reads the lines of the standard input, and prints the answers.
%% @hidden
-module(whittle_console_reader).

-export([start_link/0]).

%% After input that is not text, the reader waits: the next read may fail at once too.
-define(WAIT_MS, 1000).

%% @doc Starts the process. It ends at the end of the input.
-spec start_link() -> {ok, pid()}.
start_link() -> {ok, proc_lib:spawn_link(fun read/0)}.

read() ->
    case io:get_line(user, "") of
        eof -> ok;
        {error, _} ->
            receive after ?WAIT_MS -> ok end,
            read();
        Line ->
            case whittle_console:answer(Line) of
                {ok, Answer} -> lists:foreach(fun(Each) -> io:put_chars(user, Each) end, Answer);
                no -> ok
            end,
            read()
    end.
