%% @doc Carries out the program of one simulated user, in a process of its own.
%%
%% Latencies count from the intended moment of a step, so a late timer or a busy agent adds to them
%% (Gil Tene calls the opposite coordinated omission). The intended moment of the first step is the
%% user's arrival. Behind a wait it is the planned end of the wait, and in a later round of a paced
%% loop the planned start of the round. Otherwise it is the end of the step before. Arrivals and the
%% ends of waits are whole milliseconds, like the VM's timers.
%% @hidden
-module(whittle_load_agent_user).

-export([prepare/1, start/4]).
%% The process wakes up here.
-export([waiting/2]).

-record(user, {id :: non_neg_integer(),
               class :: pos_integer(),
               pc = 1 :: pos_integer(),
               socket = none :: none | {tcp, gen_tcp:socket()} | {tls, ssl:sslsocket()},
               patience = 0 :: non_neg_integer(),    % of the socket's sends, in nanoseconds
               client :: whittle_load_agent_client:state(),
               random :: whittle_load_agent_random:state(),
               due :: integer(),                     % monotonic nanoseconds
               loops = [] :: [loop()],               % innermost first
               %% Events that came with the last answer. Another step may wait for them.
               events = [] :: [whittle_load_agent_client:event()],
               %% The answer from which the next step takes a part
               answer = none :: none | whittle_load_agent_client:event(),
               taken = #{} :: #{Name :: binary() => binary()},
               held = false :: boolean(),
               beat = none :: none | reference(),    % the timer of the next sign of life
               closed = open :: open | {agent, pos_integer()}}).

%% The rounds that are left
-type loop() :: pos_integer() | whittle_load_agent_waiting:round().

%% The user has this share of the plan by reference.
-record(shared, {programs :: tuple(),
                 target :: whittle_load_agent:target(),
                 rows :: tuple() | {function, module()},
                 sources :: tuple(),
                 hibernate :: non_neg_integer(),     % milliseconds
                 agents :: atomics:atomics_ref()}).  % the number of closed users that shall run

-define(SHARED, {?MODULE, shared}).

%% A socket gives so many reads as messages, and then waits until the user has handled them. With
%% `once' each read needs two more system calls and a change of the poll set, and an idle socket
%% keeps an empty buffer.
-define(READS, 16).

%% Linux has these numbers on all processors.
-define(IPPROTO_IP, 0).
-define(IP_BIND_ADDRESS_NO_PORT, 24).

%% The atomics: the number of closed users, and whether a crash has been reported.
-define(REPORTED, 2).

%% A closed user whose cycle failed begins the next one after a pause in nanoseconds, because a
%% server that refuses would make it spin.
-define(AFTER_FAILURE, 1_000_000_000).

%% @doc Publishes the plan for all users. The atomic has the number of closed users that shall run.
-spec prepare(whittle_load_agent:plan()) -> atomics:atomics_ref().
prepare(#{classes := Classes, target := Target, rows := Rows, sources := Sources,
          hibernate := Hibernate}) ->
    Agents = atomics:new(?REPORTED, []),
    persistent_term:put(?SHARED,
                        #shared{programs = list_to_tuple([compiled(P)
                                                          || #{program := P} <- Classes]),
                                target = Target, rows = Rows, sources = list_to_tuple(Sources),
                                hibernate = Hibernate div 1_000_000, agents = Agents}),
    Agents.

%% Each VM compiles the patterns for itself.
compiled(Program) ->
    list_to_tuple([case Instruction of
                       {take, Name, Pattern} ->
                           {ok, Compiled} = re:compile(Pattern),
                           {take, Name, Compiled};
                       _ -> Instruction
                   end || Instruction <- tuple_to_list(Program)]).

%% @doc Starts a user. Due is its intended start in monotonic nanoseconds. The N-th closed user
%% repeats its program as long as at least N closed users shall run.
-spec start(non_neg_integer(), pos_integer() | {closed, N :: pos_integer(), Class :: pos_integer()},
            integer(), whittle_load_agent_random:state()) -> pid().
start(Id, {closed, N, Class}, Due, Random) ->
    spawned(#user{id = Id, class = Class, client = none, random = Random, due = Due,
                  closed = {agent, N}});
start(Id, Class, Due, Random) ->
    spawned(#user{id = Id, class = Class, client = none, random = Random, due = Due}).

%% Little of a user's memory lives long. With a second heap for old terms, a user that has logged in
%% to XMPP and does not hibernate would have 21 KB instead of 10 (OTP 25).
spawned(User) -> spawn_opt(fun() -> run(User) end, [{fullsweep_after, 0}]).

shared() -> persistent_term:get(?SHARED).

%% Internal functions: instructions

run(#user{pc = Pc, class = Class} = User) ->
    #shared{programs = Programs} = shared(),
    carry_out(element(Pc, element(Class, Programs)), User).

carry_out({step, Name, _, _}, #user{socket = none} = User) -> failed(Name, not_connected, User);
carry_out({step, Name, Step, Timeout}, #user{client = Client} = User) ->
    #shared{target = #{client := Module}} = shared(),
    {Random, Drawn} = random(User),
    case called(fun() -> Module:step(Step, values(Random, User), Client) end) of
        {sent, Bytes, State} ->
            Next = patient(Timeout, Bytes, Drawn),
            case send(Bytes, Next) of
                ok -> go(Next#user{client = State, due = now_ns()});
                {error, Kind} -> failed(Name, Kind, Next)
            end;
        {await, Bytes, Await, State} ->
            Next = first(Name, patient(Timeout, Bytes, Drawn)),
            ok = whittle_load_agent_waiting:begins(Name, Next#user.due, paced(Next)),
            case send(Bytes, Next) of
                ok ->
                    await(Name, Await, timer(Next#user.due + Timeout),
                          Next#user{client = State, events = []}, Next#user.events);
                {error, Kind} -> failed(Name, Kind, Next)
            end;
        {error, Kind} -> failed(Name, Kind, Drawn)
    end;
carry_out({take, Name, Pattern}, #user{answer = Answer, taken = Taken} = User) ->
    #shared{target = #{client := Module}} = shared(),
    Found = called(fun() -> re:run(Module:text(Answer), Pattern,
                                   [{capture, all_but_first, binary}])
                   end),
    case Found of
        {match, [Part | _]} when Part =/= <<>> ->
            case re:run(Part, "[\\x00-\\x1f\\x7f]", [{capture, none}]) of
                nomatch ->
                    %% A copy, because the part would keep the whole answer.
                    go(User#user{answer = kept(Answer, User),
                                 taken = Taken#{Name => binary:copy(Part)}});
                %% A server must not write other lines of a request.
                match -> failed(<<"take">>, <<"control_in_", Name/binary>>, User)
            end;
        {error, Kind} -> failed(<<"take">>, Kind, User);
        %% The pattern found nothing, or its group is empty or no part of what it found.
        _ -> failed(<<"take">>, <<"no_", Name/binary>>, User)
    end;
carry_out({wait, Time}, #user{random = Random} = User) ->
    {Wait, Next} = whittle_load_agent_random:time(Time, Random),
    Milliseconds = milliseconds(now_ns() + Wait),
    Due = Milliseconds * 1_000_000,
    Timer = erlang:start_timer(Milliseconds, self(), wait, [{abs, true}]),
    wait(Timer, Wait div 1_000_000, User#user{random = Next, due = Due, events = []});
carry_out(stay, User) -> wait(none, infinity, User#user{events = []});
carry_out({branch, Ways}, #user{random = Random} = User) ->
    {U, Next} = whittle_load_agent_random:uniform(Random),
    run(User#user{pc = way(U, Ways), random = Next});
carry_out({repeat, Rounds}, #user{loops = Loops} = User) -> go(User#user{loops = [Rounds | Loops]});
carry_out({again, _}, #user{loops = [1 | Loops]} = User) -> go(User#user{loops = Loops});
carry_out({again, Pc}, #user{loops = [Rounds | Loops]} = User) ->
    run(User#user{pc = Pc, loops = [Rounds - 1 | Loops]});
carry_out({every, Rounds, Time}, #user{loops = Loops, due = Due} = User) ->
    go(User#user{loops = [{Rounds, Due, Time, none} | Loops]});
carry_out({next, _, _}, #user{loops = [{1, _, _, _} | Loops]} = User) ->
    go(User#user{loops = Loops});
carry_out({next, Time, Pc}, #user{loops = [{Rounds, Before, _, Step} | Loops]} = User) ->
    Left = case Rounds of infinity -> infinity; _ -> Rounds - 1 end,
    Due = Before + Time,
    %% `wait' goes to the next instruction. After it comes the first one of the loop.
    Next = User#user{pc = Pc - 1, due = Due, loops = [{Left, Due, Time, Step} | Loops]},
    case now_ns() of
        %% The answers of the round before came too late.
        Now when Now >= Due -> go(Next);
        Now ->
            Timer = erlang:start_timer(milliseconds(Due), self(), wait, [{abs, true}]),
            wait(Timer, (Due - Now) div 1_000_000, Next#user{events = []})
    end;
carry_out({jump, Pc}, User) -> run(User#user{pc = Pc});
carry_out({connect, Timeout}, User) -> connect(Timeout, closed(User));
carry_out({reconnect, Timeout}, #user{socket = none} = User) -> connect(Timeout, User);
carry_out({reconnect, _}, User) -> go(User);
carry_out(held, User) ->
    ok = whittle_load_agent_tally:count(held),
    go(User#user{held = true});
carry_out(disconnect, User) -> go(closed(parted(User)));
carry_out('end', User) -> ended(closed(parted(User))).

%% A client of the user's own may crash. Each crash is an error of its step, and the first one of an
%% agent writes a report to standard error.
called(Call) ->
    try Call()
    catch Class:Reason:Stack ->
            #shared{agents = Agents} = shared(),
            _ = [logger:error("a client or a data function crashed: ~0tP~n~0tP",
                              [{Class, Reason}, 30, Stack, 30])
                 || atomics:exchange(Agents, ?REPORTED, 1) =:= 0],
            {error, crash}
    end.

parted(#user{socket = none} = User) -> User;
parted(#user{client = Client} = User) ->
    case shared() of
        #shared{target = #{client := Module, says_bye := true}} ->
            case called(fun() -> {ok, Module:bye(Client)} end) of
                {ok, Bytes} ->
                    _ = send(Bytes, User),
                    User;
                {error, _} -> User
            end;
        _ -> User
    end.

go(#user{pc = Pc} = User) -> run(User#user{pc = Pc + 1}).

way(_, [{_, Pc}]) -> Pc;
way(U, [{Probability, Pc} | _]) when U =< Probability -> Pc;
way(U, [_ | Ways]) -> way(U, Ways).

random(#user{random = Random} = User) ->
    {Number, Next} = whittle_load_agent_random:below(1 bsl 32, Random),
    {Number, User#user{random = Next}}.

values(Random, #user{id = Id, due = Due, taken = Taken}) ->
    #{id => Id, row => row(Id), random => Random, taken => Taken,
      clock => os:perf_counter(nanosecond) - (now_ns() - Due)}.

row(Id) ->
    case shared() of
        #shared{rows = {}} -> {};
        #shared{rows = {function, Module}} when is_atom(Module) -> Module:row(Id);
        #shared{rows = Rows} -> element(Id rem tuple_size(Rows) + 1, Rows)
    end.

%% Internal functions: the connection

connect(Timeout, #user{id = Id, due = Due} = User) ->
    #shared{target = #{transport := Transport, host := Host, port := Port, buffer := Buffer,
                       client := Module, options := ClientOptions, keep_alive := KeepAlive},
            sources = Sources} = shared(),
    Options = [binary, {active, ?READS}, {buffer, Buffer}, {nodelay, true},
               {show_econnreset, true}, {send_timeout_close, true}, send_timeout(Timeout)]
        ++ case tuple_size(Sources) of
               0 -> [];
               Size -> [{ip, element(Id rem Size + 1, Sources)} | late_port(Transport)]
           end,
    Left = max(1, (Due + Timeout - now_ns()) div 1_000_000),
    To = if is_binary(Host) -> binary_to_list(Host); true -> Host end,
    ok = whittle_load_agent_waiting:begins(<<"connect">>, Due, paced(User)),
    case opened(Transport, To, Port, Options, Left) of
        {ok, Socket} ->
            ok = whittle_load_agent_tally:count(connected),
            Now = now_ns(),
            ok = completed(<<"connect">>, Now - Due),
            {Random, Next} = random(User),
            Connected = Next#user{socket = Socket, patience = Timeout, due = Now},
            case called(fun() -> {ok, Module:init(ClientOptions, values(Random, Connected))} end) of
                {ok, State} ->
                    go(Connected#user{client = State, beat = first_beat(KeepAlive, Random)});
                {error, Kind} -> failed(<<"connect">>, Kind, Connected)
            end;
        {error, Reason} -> failed(<<"connect">>, kind(Reason), User)
    end.

%% The kernel chooses the port of a source address when it connects, and not before
%% (IP_BIND_ADDRESS_NO_PORT in ip(7)). So the port must differ only from those of connections with
%% the same address and target, and the kernel finds it faster. `ssl' does not take a raw option.
late_port(tcp) -> [{raw, ?IPPROTO_IP, ?IP_BIND_ADDRESS_NO_PORT, <<1:32/native>>}];
late_port(tls) -> [].

opened(tcp, Host, Port, Options, Timeout) ->
    case gen_tcp:connect(Host, Port, Options, Timeout) of
        {ok, Socket} ->
            %% A link takes 260 bytes. All ends of a user close its socket.
            _ = [unlink(Socket) || is_port(Socket)],
            {ok, {tcp, Socket}};
        {error, _} = Error -> Error
    end;
opened(tls, Host, Port, Options, Timeout) ->
    %% A failed handshake is an error of its user. A report of each would flood standard error.
    case ssl:connect(Host, Port, [{verify, verify_none}, {log_level, error} | Options],
                     Timeout) of
        {ok, Socket} -> {ok, {tls, Socket}};
        {error, _} = Error -> Error
    end.

send_timeout(Timeout) -> {send_timeout, min(max(1, milliseconds(Timeout)), 16#7fffffff)}.

%% A server that does not read makes a send wait as long as its step may take. Most steps have the
%% same time-out, so few of them change the socket. If the connection has failed, the send says so.
patient(_, [], User) -> User;
patient(Timeout, _, #user{patience = Timeout} = User) -> User;
patient(Timeout, _, #user{socket = Socket} = User) ->
    _ = case Socket of
            {tcp, Tcp} -> inet:setopts(Tcp, [send_timeout(Timeout)]);
            {tls, Tls} -> ssl:setopts(Tls, [send_timeout(Timeout)])
        end,
    User#user{patience = Timeout}.

kind(Reason) when is_atom(Reason) -> Reason;
kind({tls_alert, {Alert, _}}) -> Alert;
kind(_) -> other.

%% Many answers need no reply. A send without bytes would still be one of the socket.
send(Bytes, User) ->
    case iolist_size(Bytes) of
        0 -> ok;
        _ -> send_some(Bytes, User)
    end.

send_some(_, #user{socket = none}) -> {error, not_connected};
send_some(Bytes, #user{socket = {tcp, Socket}}) -> sent(gen_tcp:send(Socket, Bytes));
send_some(Bytes, #user{socket = {tls, Socket}}) -> sent(ssl:send(Socket, Bytes)).

%% `einval' comes from a port that has ended.
sent(ok) -> whittle_load_agent_tally:count(sent);
sent({error, einval}) -> {error, closed};
sent({error, Reason}) -> {error, kind(Reason)}.

%% If the connection has failed, the message about its end follows.
read_on(#user{socket = {tcp, Socket}}) -> _ = inet:setopts(Socket, [{active, ?READS}]), ok;
read_on(#user{socket = {tls, Socket}}) -> _ = ssl:setopts(Socket, [{active, ?READS}]), ok.

%% Users that connect at once send their signs of life at different times.
first_beat(none, _) -> none;
first_beat(KeepAlive, Random) -> beat(1 + Random rem KeepAlive).

beat(Time) -> erlang:start_timer(Time div 1_000_000, self(), beat).

%% Sends a sign of life, and nothing if the client has nothing to say now.
beaten(#user{client = Client} = User) ->
    #shared{target = #{client := Module, keep_alive := KeepAlive}} = shared(),
    case called(fun() -> {ok, Module:keep_alive(Client)} end) of
        {ok, {Bytes, State}} ->
            case send(Bytes, User) of
                ok -> {ok, User#user{client = State, beat = beat(KeepAlive)}};
                {error, _} = Error -> Error
            end;
        {error, _} = Error -> Error
    end.

closed(#user{socket = none} = User) -> User;
closed(#user{socket = Socket, held = Held, beat = Beat} = User) ->
    _ = [erlang:cancel_timer(Beat) || is_reference(Beat)],
    ok = case Held of
             true -> whittle_load_agent_tally:count(released);
             false -> ok
         end,
    _ = case Socket of
            {tcp, Tcp} -> gen_tcp:close(Tcp);
            {tls, Tls} -> ssl:close(Tls)
        end,
    ok = forget(),
    User#user{socket = none, client = none, events = [], held = false, beat = none}.

%% Drops the bytes that a connection sent before its end: they must not count for the next one.
forget() ->
    receive
        {Tag, _, _} when Tag =:= tcp; Tag =:= ssl; Tag =:= tcp_error; Tag =:= ssl_error -> forget();
        {Tag, _} when Tag =:= tcp_closed; Tag =:= ssl_closed;
                      Tag =:= tcp_passive; Tag =:= ssl_passive -> forget();
        {timeout, _, beat} -> forget()
    after 0 -> ok
    end.

%% Internal functions: waiting

%% Until the answer. The last argument has the events that have arrived.
await(Name, Await, Timer, #user{due = Due} = User, Events) ->
    case answered(Await, Events) of
        {Found, Answer, Others} when Found =:= true; Found =:= last ->
            Now = now_ns(),
            ok = cancelled(Timer),
            ok = completed(Name, Now - Due),
            Next = User#user{due = Now, events = Others, answer = kept(Answer, User)},
            go(case Found of true -> Next; last -> closed(Next) end);
        false -> await(Name, Await, Timer, User);
        {error, Kind} -> failed(Name, Kind, Timer, User)
    end.

await(Name, Await, Timer, User) ->
    receive
        {Tag, _, Bytes} when Tag =:= tcp; Tag =:= ssl ->
            case data(Bytes, User) of
                {ok, Events, Next} -> await(Name, Await, Timer, Next, Events);
                {error, Kind} -> failed(Name, Kind, Timer, User)
            end;
        {Tag, _} when Tag =:= tcp_passive; Tag =:= ssl_passive ->
            ok = read_on(User),
            await(Name, Await, Timer, User);
        {timeout, Timer, _} -> failed(Name, timeout, User);
        {timeout, Beat, beat} when Beat =:= User#user.beat ->
            case beaten(User) of
                {ok, Next} -> await(Name, Await, Timer, Next);
                {error, Kind} -> failed(Name, Kind, Timer, User)
            end;
        {Tag, _, Reason} when Tag =:= tcp_error; Tag =:= ssl_error ->
            failed(Name, kind(Reason), Timer, User);
        {Tag, _} when Tag =:= tcp_closed; Tag =:= ssl_closed ->
            case left_behind(User) of
                {ok, [_ | _] = Events} -> await(Name, Await, Timer, closed(User), Events);
                {ok, []} -> failed(Name, closed, Timer, User);
                {error, Kind} -> failed(Name, Kind, Timer, User)
            end
    end.

%% An answer stays in memory only if the next step takes a part of it.
kept(Answer, #user{pc = Pc, class = Class}) ->
    #shared{programs = Programs} = shared(),
    case element(Pc + 1, element(Class, Programs)) of
        {take, _, _} -> Answer;
        _ -> none
    end.

%% The rounds of the paced loops
paced(#user{loops = Loops}) -> [Loop || Loop <- Loops, is_tuple(Loop)].

%% A paced loop remembers its first step that waits for an answer.
first(Name, #user{loops = Loops} = User) ->
    case lists:keymember(none, 4, Loops) of
        true ->
            User#user{loops = [case Loop of
                                   {Left, Start, Time, none} -> {Left, Start, Time, Name};
                                   _ -> Loop
                               end || Loop <- Loops]};
        false -> User
    end.

completed(Name, Time) ->
    case whittle_load_agent_waiting:ends() of
        ok -> whittle_load_agent_tally:latency(Name, Time);
        counted -> ok
    end.

%% The events of a connection that the server has closed
left_behind(#user{client = Client}) ->
    #shared{target = #{client := Module}} = shared(),
    case called(fun() -> Module:closed(Client) end) of
        {ok, Events} = Ok ->
            ok = whittle_load_agent_tally:count(received, length(Events)),
            Ok;
        {error, _} = Error -> Error
    end.

answered(_, []) -> false;
answered(Await, [Event | Events]) ->
    #shared{target = #{client := Module}} = shared(),
    case called(fun() -> Module:match(Await, Event) end) of
        Found when Found =:= true; Found =:= last -> {Found, Event, Events};
        false -> answered(Await, Events);
        {error, _} = Error -> Error
    end.

data(Bytes, #user{client = Client} = User) ->
    #shared{target = #{client := Module}} = shared(),
    case called(fun() -> Module:data(Bytes, Client) end) of
        {ok, Given, Reply, State} ->
            ok = whittle_load_agent_tally:count(received, length(Given)),
            Events = [delivered(Event) || Event <- Given],
            Next = User#user{client = State},
            case send(Reply, Next) of
                ok -> {ok, Events, Next};
                %% The server answered and closed. The message about the end follows.
                {error, closed} -> {ok, Events, Next};
                {error, _} = Error -> Error
            end;
        {error, Kind, Last} ->
            _ = send(Last, User),
            {error, Kind};
        {error, _} = Error -> Error
    end.

delivered({delivered, Clock, Event}) ->
    Time = os:perf_counter(nanosecond) - Clock,
    ok = whittle_load_agent_tally:latency(<<"delivery">>, max(0, Time)),
    Event;
delivered(Event) -> Event.

%% Until a time, or until the end of the run. No step waits for the events that arrive meanwhile.
wait(Timer, Milliseconds, User) ->
    case shared() of
        #shared{hibernate = Least} when Milliseconds >= Least ->
            erlang:hibernate(?MODULE, waiting, [Timer, User]);
        _ -> waiting(Timer, User)
    end.

%% @private
-spec waiting(none | reference(), #user{}) -> no_return() | ok.
waiting(Timer, User) ->
    receive
        {timeout, Timer, _} ->
            ok = whittle_load_agent_tally:late(max(0, now_ns() - User#user.due)),
            go(User);
        {timeout, Beat, beat} when Beat =:= User#user.beat ->
            case beaten(User) of
                {ok, Next} -> wait(Timer, left(Timer), Next);
                {error, Kind} -> failed(<<"wait">>, Kind, Timer, User)
            end;
        {Tag, _, Bytes} when Tag =:= tcp; Tag =:= ssl ->
            case data(Bytes, User) of
                {ok, _, Next} -> wait(Timer, left(Timer), Next);
                {error, Kind} -> failed(<<"wait">>, Kind, Timer, User)
            end;
        {Tag, _} when Tag =:= tcp_passive; Tag =:= ssl_passive ->
            ok = read_on(User),
            wait(Timer, left(Timer), User);
        {Tag, _, Reason} when Tag =:= tcp_error; Tag =:= ssl_error ->
            failed(<<"wait">>, kind(Reason), Timer, User);
        {Tag, _} when Tag =:= tcp_closed; Tag =:= ssl_closed ->
            case left_behind(User) of
                {ok, _} -> wait(Timer, left(Timer), closed(User));
                {error, Kind} -> failed(<<"wait">>, Kind, Timer, User)
            end
    end.

left(none) -> infinity;
left(Timer) ->
    case erlang:read_timer(Timer) of
        false -> 0;
        Milliseconds -> Milliseconds
    end.

timer(Due) ->
    erlang:start_timer(milliseconds(Due), self(), await, [{abs, true}]).

%% Rounds up. Monotonic time may be negative, and `div' rounds towards zero.
milliseconds(Ns) when Ns rem 1_000_000 > 0 -> Ns div 1_000_000 + 1;
milliseconds(Ns) -> Ns div 1_000_000.

now_ns() -> erlang:monotonic_time(nanosecond).

%% Internal functions: the end

%% A closed user goes on in this process, so no message of the timer may stay.
failed(Step, Kind, Timer, User) ->
    ok = cancelled(Timer),
    failed(Step, Kind, User).

cancelled(none) -> ok;
cancelled(Timer) ->
    _ = erlang:cancel_timer(Timer),
    receive {timeout, Timer, _} -> ok
    after 0 -> ok
    end.

failed(Step, Kind, User) ->
    _ = whittle_load_agent_waiting:ends(),
    ok = whittle_load_agent_tally:error(Step, Kind),
    Next = closed(User),
    case Next of
        #user{closed = open} -> ended(Next);
        _ ->
            receive after ?AFTER_FAILURE div 1_000_000 -> again(Next) end
    end.

ended(#user{closed = open}) -> whittle_load_agent_tally:count(ended);
ended(User) ->
    ok = whittle_load_agent_tally:count(cycles),
    again(User).

again(#user{closed = {agent, N}} = User) ->
    #shared{agents = Agents} = shared(),
    case atomics:get(Agents, 1) of
        Shall when N > Shall -> whittle_load_agent_tally:count(ended);
        _ -> run(User#user{pc = 1, loops = [], taken = #{}, due = now_ns()})
    end.
