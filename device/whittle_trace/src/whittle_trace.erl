%% @doc Records which functions a node calls, for `whittle build --evidence'.
%%
%% `whittle trace' puts this module into a directory that the environment's `WHITTLE_TRACE'
%% names, and has each VM start it: an executable of Whittle's before its kernel ({@link
%% start_link/0}), any other by loading {@link whittle_trace_begin} before the program's own
%% `-s', `-run' and `-eval' ({@link start/0}). Each VM writes a file of its own there, a packet
%% of four bytes of length and a term: `[{Module, MD5, [{Function, Arity}]}]' for what it called
%% since the packet before, `last' where it was read for its end.
%%
%% How: a counter of calls (`call_count') at the head of each function, also of what is
%% loaded later. They are read again and again; a function that was called loses its
%% counter, so that what is called often costs nothing from then on. Of a node that is
%% halted or killed the calls since the last reading are missing; one that stops in order
%% (`init:stop/0') waits for a last reading, and so does an escript that Whittle built, when its
%% `main/1' has ended: it sends `{Pid, last}', and is answered `{Recorder, read}'.
%%
%% While it records, it calls nothing but what is preloaded or written in C: what it
%% called would seem to be called by the program.
-module(whittle_trace).

-export([start/0, start_link/0]).
-export([waiting/0]).

%% Reading the counters may take so much of one core: one part in that many. Chosen, as what
%% a person will put up with while tests run; bench/trace measures what it comes to.
-define(SHARE, 20).
%% And is not done more often than this. No measurement chose it; the share decides in any
%% node of OTP's size, where a reading takes 2 ms or so. The first pause is this long.
-define(PAUSE_MS, 5).
%% While the node ends, as long as it lasts. The share does not hold then: what is not read
%% is lost, and it is soon over. Not measured either.
-define(ENDING_MS, 2).

-record(state, {file :: prim_file_fd(),
                pause = ?PAUSE_MS :: pos_integer(),
                %% Its MD5, and what was not called yet.
                modules = #{} :: #{module() => {binary(), [{atom(), arity()}]}}}).

-type prim_file_fd() :: term().

%% @doc Starts it in a node that is up, below the supervisor that kernel has for what others
%% start: it is told to stop when their applications have stopped, and waited for. The program
%% goes on, without a record, where that cannot be.
-spec start() -> ok.
start() ->
    case whereis(?MODULE) of
        undefined ->
            Child = #{id => ?MODULE, start => {?MODULE, waiting, []}, restart => temporary,
                      shutdown => infinity},
            try supervisor:start_child(kernel_safe_sup, Child) of
                {ok, Pid} ->
                    begin_recording(Pid),
                    %% To end the loading of us is all that is still done for us. Who calls
                    %% it else is recorded.
                    _ = erlang:trace_pattern({code, ensure_modules_loaded_2, 2}, false,
                                             [call_count]),
                    ok;
                {error, _} ->
                    ok
            catch
                exit:_ -> ok
            end;
        _ ->
            ok
    end.

%% @doc Starts it, for the boot script. It records from then on.
-spec start_link() -> {ok, pid()}.
start_link() ->
    %% The link is init's.
    Pid = spawn_opt(fun wait/0, [{priority, high}]),
    true = register(?MODULE, Pid),
    begin_recording(Pid),
    {ok, Pid}.

%% @private The process, which does not record yet: for the supervisor.
-spec waiting() -> {ok, pid()}.
waiting() ->
    Pid = spawn_opt(fun wait/0, [link, {priority, high}]),
    true = register(?MODULE, Pid),
    {ok, Pid}.

begin_recording(Pid) ->
    Pid ! {self(), record},
    receive {Pid, ready} -> ok end.

wait() ->
    process_flag(trap_exit, true),
    receive
        {Caller, record} ->
            case open(os:getenv("WHITTLE_TRACE")) of
                {ok, File} ->
                    _ = erlang:trace_pattern(on_load, true, [call_count]),
                    _ = erlang:trace_pattern({'_', '_', '_'}, true, [call_count]),
                    Caller ! {self(), ready},
                    record(#state{file = File});
                error ->
                    Caller ! {self(), ready},
                    %% A kernel process that is not there would end the node.
                    without_a_file()
            end
    end.

without_a_file() ->
    receive
        {'EXIT', _, shutdown} -> ok;
        {Caller, last} ->
            Caller ! {self(), read},
            without_a_file()
    end.

open(false) ->
    error;
open(Dir) ->
    Name = lists_append([Dir, $/, os:getpid(), $-, integer_to_list(erlang:system_time())]),
    case prim_file:open(Name, [write, raw, binary]) of
        {ok, File} -> {ok, File};
        {error, _} -> error
    end.

%% Recording

record(#state{pause = Pause} = State) ->
    receive
        {'EXIT', _, shutdown} ->
            Last = last(State),
            %% The applications may still have to stop.
            _ = spawn(fun() -> to_the_end(Last) end);
        {Caller, last} ->
            Last = last(State),
            Caller ! {self(), read},
            record(Last)
    after Pause ->
            record(read(State))
    end.

to_the_end(State) ->
    receive after ?ENDING_MS -> to_the_end(read(State)) end.

last(#state{file = File} = State) ->
    Last = read(State),
    write_packet(last, File),
    Last.

read(#state{file = File, modules = Known} = State) ->
    Before = erlang:monotonic_time(microsecond),
    {Calls, Now} = modules(erlang:loaded(), Known, []),
    Took = erlang:monotonic_time(microsecond) - Before,
    write(Calls, File),
    forget(Calls),
    State#state{modules = Now, pause = max(?PAUSE_MS, ?SHARE * Took div 1000)}.

modules([?MODULE | Modules], Known, Calls) ->
    modules(Modules, Known, Calls);
modules([M | Modules], Known, Calls) ->
    case functions(M, Known) of
        {Md5, Functions} ->
            case called(M, Functions, [], []) of
                {[], _} when is_map_key(M, Known) -> modules(Modules, Known, Calls);
                {[], _} -> modules(Modules, Known#{M => {Md5, Functions}}, Calls);
                {Called, Left} -> modules(Modules, Known#{M => {Md5, Left}},
                                          [{M, Md5, Called} | Calls])
            end;
        gone ->
            modules(Modules, Known, Calls)
    end;
modules([], Known, Calls) ->
    {Calls, Known}.

%% Code that was loaded anew begins anew.
functions(M, Known) ->
    try
        Md5 = erlang:get_module_info(M, md5),
        case Known of
            #{M := {Md5, _} = Left} -> Left;
            _ -> {Md5, erlang:get_module_info(M, functions)}
        end
    catch
        %% It may be deleted at any time, between the two also.
        error:badarg -> gone
    end.

called(M, [{F, A} = Function | Functions], Called, Left) ->
    case erlang:trace_info({M, F, A}, call_count) of
        {call_count, Count} when is_integer(Count), Count > 0 ->
            called(M, Functions, [Function | Called], Left);
        _ ->
            called(M, Functions, Called, [Function | Left])
    end;
called(_, [], Called, Left) ->
    {Called, Left}.

write([], _) ->
    ok;
write(Calls, File) ->
    write_packet(Calls, File).

write_packet(Term, File) ->
    Packet = term_to_binary(Term),
    %% A disk that is full ends the record, not the program.
    _ = prim_file:write(File, [<<(byte_size(Packet)):32>>, Packet]),
    ok.

forget([{M, _, Called} | Calls]) ->
    forget(M, Called),
    forget(Calls);
forget([]) ->
    ok.

forget(M, [{F, A} | Functions]) ->
    _ = erlang:trace_pattern({M, F, A}, false, [call_count]),
    forget(M, Functions);
forget(_, []) ->
    ok.

lists_append([Head | Tail]) when is_list(Head) -> Head ++ lists_append(Tail);
lists_append([Char | Tail]) -> [Char | lists_append(Tail)];
lists_append([]) -> [].
