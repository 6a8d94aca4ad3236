%% @doc Runs commands from standard input, for machines without GPIO and for the tests:
%%
%% <ul>
%% <li>`press': prints `taken BOOT NUMBER', or `full';</li>
%% <li>`kill owner', or lamp, button, console: to see that it recovers; prints `killed';</li>
%% <li>`info': prints the state of the line.</li>
%% </ul>
%%
%% The end of the input ends the VM. Input that is no text, such as noise on a line, ends this
%% process, and the supervisor starts it again.
-module(blinky_console).

-export([start_link/0]).

%% @doc Starts the process.
-spec start_link() -> {ok, pid()}.
start_link() ->
    Pid = proc_lib:spawn_link(fun() ->
                                      true = register(?MODULE, self()),
                                      read()
                              end),
    {ok, Pid}.

read() ->
    case io:get_line("") of
        Line when is_list(Line) ->
            io:put_chars([answer(lists:droplast(Line)), $\n]),
            read();
        eof -> init:stop();
        {error, Reason} -> exit({input, Reason})
    end.

answer("press") ->
    case blinky_owner:take(press) of
        {ok, {Boot, Seq}} -> ["taken " | blinky_lamp:number(Boot, Seq)];
        {error, full} -> "full"
    end;
answer("kill " ++ Name) ->
    case [Pid || {Known, Process} <- processes_by_name(), Known =:= Name,
                 Pid <- [whereis(Process)], is_pid(Pid)] of
        [Pid] ->
            exit(Pid, kill),
            "killed";
        [] -> "nobody of that name"
    end;
answer("info") ->
    #{boot := Boot, up := Up, taken := Taken, waiting := Waiting, noise := Noise} = blinky:info(),
    ["boot ", blinky_lamp:boot(Boot), ", up ", atom_to_list(Up),
     ", taken ", integer_to_list(Taken), ", waiting ", integer_to_list(Waiting),
     ", noise ", integer_to_list(Noise)];
answer(_) -> "press, kill owner|lamp|button|console, info".

processes_by_name() ->
    [{"owner", blinky_owner}, {"lamp", blinky_lamp}, {"button", blinky_button},
     {"console", blinky_console}].
