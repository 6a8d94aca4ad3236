%% @doc Records which functions a node calls, for `whittle build --evidence'.
%%
%% `whittle trace' puts this module into a directory and sets the environment variable
%% `WHITTLE_TRACE' to its name. An executable that Whittle built starts the recorder before its
%% kernel application ({@link start_link/0}). Any other VM starts it when it loads
%% {@link whittle_trace_begin}, before the program's own `-s', `-run' and `-eval'
%% ({@link start/0}).
%%
%% Each VM writes its own file to that directory. The file consists of packets: a length of four
%% bytes and a term. `[{Module, MD5, [{Function, Arity}]}]' contains the calls since the packet
%% before. `last' follows the last reading before the node ends.
%%
%% The recorder sets a counter of calls (`call_count') on each function, also on those of modules
%% that the VM loads later, and reads the counters again and again. It removes the counter of a
%% function that was called, so a frequent call costs nothing after the first reading. If a
%% node halts or something kills it, the calls since the last reading are missing. `init:stop/0'
%% waits for a last reading. So does an escript that Whittle built, after its `main/1': it sends
%% `{Pid, last}' and waits for `{Recorder, read}'.
%%
%% While it records, this module calls only preloaded functions and functions in C. The record
%% would report any other function that it calls as called by the program.
-module(whittle_trace).

-export([start/0, start_link/0]).
-export([waiting/0]).

%% Reading the counters takes at most one part in ?SHARE of one core. We chose 20 as a cost that a
%% person accepts while tests run. bench/trace measures the real cost.
-define(SHARE, 20).
%% The first pause between two readings, and the shortest. No measurement chose it. In a node
%% with OTP's modules a reading takes about 2 ms, so ?SHARE determines the pause.
-define(PAUSE_MS, 5).
%% The pause while the node ends. ?SHARE does not apply then: the recorder would lose the calls
%% after its last reading, and the end does not take long. No measurement chose it.
-define(ENDING_MS, 2).

-record(state, {file :: prim_file_fd(),
                pause = ?PAUSE_MS :: pos_integer(),
                %% The MD5 of each module, and its functions that nobody has called yet.
                modules = #{} :: #{module() => {binary(), [{atom(), arity()}]}}}).

-type prim_file_fd() :: term().

%% @doc Starts the recorder in a running node, below kernel's supervisor `kernel_safe_sup'. That
%% supervisor stops it after all other applications, and waits for it. If the start fails, the
%% program goes on without a record.
-spec start() -> ok.
start() ->
    case whereis(?MODULE) of
        undefined ->
            Child = #{id => ?MODULE, start => {?MODULE, waiting, []}, restart => temporary,
                      shutdown => infinity},
            try supervisor:start_child(kernel_safe_sup, Child) of
                {ok, Pid} ->
                    begin_recording(Pid),
                    %% This function of the code server has one call left: it ends the loading
                    %% of this module. Remove its counter, so that the record lacks that call.
                    %% A program that loads modules in this way also calls functions that
                    %% keep their counters.
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

%% @doc Starts the recorder for the boot script. It records at once.
-spec start_link() -> {ok, pid()}.
start_link() ->
    %% init makes the link.
    Pid = spawn_opt(fun wait/0, [{priority, high}]),
    true = register(?MODULE, Pid),
    begin_recording(Pid),
    {ok, Pid}.

%% @private Starts the process for the supervisor. It does not record yet.
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
                    %% The node would end if this kernel process ended.
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
            %% Other applications may still run code while they stop.
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

%% For a module that the VM has loaded again, the record starts again with all functions.
functions(M, Known) ->
    try
        Md5 = erlang:get_module_info(M, md5),
        case Known of
            #{M := {Md5, _} = Left} -> Left;
            _ -> {Md5, erlang:get_module_info(M, functions)}
        end
    catch
        %% Another process may delete the module at any time, also between these two calls.
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
    %% A full disk ends the record, not the program.
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
