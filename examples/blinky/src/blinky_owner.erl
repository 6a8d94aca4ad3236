%% @doc Owns the link and the serial line. Each change is in the table before the owner acts on
%% it. If the owner is killed at any point, the next owner goes on from there, and the retry sends
%% the frames that were not sent.
-module(blinky_owner).
-behaviour(gen_server).

-export([start_link/0, take/1, take/2, again/0, led/0, reported/1, info/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% Milliseconds between attempts to open the line, and to find the owner.
-define(REOPEN, 200).
-define(AGAIN, 10).

-record(state, {link :: blinky_link:link(), serial = none :: whittle_serial:serial() | none,
                %% Why it could not be opened, as reported; bytes of the beginning of a frame.
                closed = none :: term(), bytes = <<>> :: binary(), noise = 0 :: non_neg_integer(),
                retry = none :: reference() | none}).

%% @doc Starts the process.
-spec start_link() -> {ok, pid()} | {error, term()} | ignore.
start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% @equiv take(make_ref(), Item)
-spec take(blinky_frame:item()) ->
          {ok, {blinky_frame:boot(), blinky_frame:seq()}} | {error, full}.
take(Item) -> take(make_ref(), Item).

%% @doc Has the item taken once, whatever happens to the owner meanwhile. Id is the caller's own
%% name for it, another for each.
-spec take(term(), blinky_frame:item()) ->
          {ok, {blinky_frame:boot(), blinky_frame:seq()}} | {error, full}.
take(Id, Item) -> call({take, Id, Item}).

%% The supervisor is starting another one.
call(Request) ->
    try gen_server:call(?MODULE, Request, infinity)
    catch
        exit:_ ->
            receive after ?AGAIN -> ok end,
            call(Request)
    end.

%% @doc Asks for the reports that were not given yet, for a lamp that starts. An owner that
%% starts gives them unasked.
-spec again() -> ok.
again() -> gen_server:cast(?MODULE, again).

%% @doc Gives the state that the LED is to have, also while there is no owner: it does not flicker
%% when a lamp is killed.
-spec led() -> 0 | 1.
led() ->
    case ets:lookup(?MODULE, link) of
        [{link, Link}] -> blinky_link:led(Link);
        [] -> 0
    end.

%% @doc Notes that the reports up to this number were given.
-spec reported(pos_integer()) -> ok.
reported(N) -> call({reported, N}).

%% @doc Describes the link, and counts the bytes on the line that belong to no frame.
-spec info() -> map().
info() -> call(info).

%% @private
-spec init([]) -> {ok, #state{}}.
init([]) ->
    {ok, Keep} = application:get_env(blinky, keep),
    Link = case ets:lookup(?MODULE, link) of
               [{link, Before}] -> Before;
               [] -> blinky_link:new(boot(), Keep)
           end,
    self() ! open,
    _ = erlang:send_after(env(beat), self(), beat),
    {ok, done(blinky_link:resume(Link), #state{link = Link})}.

%% A board without a clock starts at the same time each time, and may know little that is
%% random so early: all there is goes in.
boot() ->
    <<Boot:64, _/binary>> =
        erlang:md5(term_to_binary({urandom(), os:system_time(), erlang:monotonic_time(),
                                   os:perf_counter(), os:getpid(), make_ref()})),
    max(1, Boot).

urandom() ->
    case file:open("/dev/urandom", [read, raw, binary]) of
        {ok, File} ->
            Read = file:read(File, 16),
            _ = file:close(File),
            Read;
        Error -> Error
    end.

%% @private
-spec handle_call(term(), gen_server:from(), #state{}) -> {reply, term(), #state{}}.
handle_call({take, Id, Item}, {Pid, _}, #state{link = Link0} = State) ->
    Link = blinky_link:sources(fun is_process_alive/1, Link0),
    {Result, Link1, Effects} = blinky_link:take(Pid, Id, Item, Link),
    {reply, Result, done({Link1, Effects}, State)};
handle_call({reported, N}, _, #state{link = Link} = State) ->
    {reply, ok, done({blinky_link:reported(N, Link), []}, State)};
handle_call(info, _, #state{link = Link, noise = Noise} = State) ->
    {reply, (blinky_link:info(Link))#{noise => Noise}, State}.

%% @private
-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(again, State) -> {noreply, effect(report, State)}.

%% @private
-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({serial, Serial, Data}, #state{serial = Serial, bytes = Bytes} = State) ->
    {Frames, Rest, Skipped} = blinky_frame:decode(<<Bytes/binary, Data/binary>>),
    State1 = lists:foldl(fun(Frame, #state{link = Link} = Before) ->
                                 done(blinky_link:received(Frame, Link), Before)
                         end, State#state{bytes = Rest, noise = State#state.noise + Skipped},
                         Frames),
    {noreply, more(State1)};
handle_info({serial_error, Serial, _}, #state{serial = Serial} = State) ->
    {noreply, more(State)};
handle_info({serial_closed, Serial}, #state{serial = Serial} = State) ->
    {noreply, closed(closed, State)};
handle_info(open, #state{serial = none} = State) -> {noreply, open(env(device), State)};
handle_info(beat, #state{link = Link} = State) ->
    _ = erlang:send_after(env(beat), self(), beat),
    {noreply, done(blinky_link:beat(Link), State)};
handle_info({timeout, Timer, retry}, #state{retry = Timer, link = Link} = State) ->
    {noreply, done(blinky_link:retry(Link), State#state{retry = none})};
handle_info(_, State) -> {noreply, State}.

%%% The line

open(none, State) -> State;
open(Device, State) ->
    %% No lingering: what has not left is sent again, on the line as it is then.
    case whittle_serial:open(Device, [{rate, env(rate)}, {active, once}, {linger, 0},
                                      {send_timeout, env(beat)}]) of
        {ok, Serial} -> opened(State#state{serial = Serial, bytes = <<>>, closed = none});
        {error, Reason} -> closed(Reason, State)
    end.

opened(#state{link = Link} = State) ->
    State1 = done(blinky_link:note({line, open}, Link), State),
    done(blinky_link:resume(State1#state.link), State1).

%% Each reason is reported once.
closed(Reason, #state{closed = Before, link = Link} = State) ->
    _ = erlang:send_after(?REOPEN, self(), open),
    State1 = State#state{serial = none, closed = Reason},
    case Reason of
        Before -> State1;
        _ -> done(blinky_link:note({line, Reason}, Link), State1)
    end.

more(#state{serial = none} = State) -> State;
more(#state{serial = Serial} = State) ->
    case whittle_serial:setopts(Serial, [{active, once}]) of
        ok -> State;
        {error, Reason} -> closed(Reason, State)
    end.

%%% Effects

done({Link, Effects}, State) ->
    true = ets:insert(?MODULE, {link, Link}),
    lists:foldl(fun effect/2, State#state{link = Link}, Effects).

effect({send, Frame}, #state{serial = Serial} = State) when Serial =/= none ->
    case whittle_serial:send(Serial, blinky_frame:encode(Frame)) of
        ok -> State;
        %% Nobody drains the line. Part of a frame may be on it: noise to the other side.
        {error, {timeout, _}} -> State;
        {error, Reason} ->
            ok = whittle_serial:close(Serial),
            closed(Reason, State)
    end;
effect({send, _}, State) -> State;
effect(await, #state{retry = none} = State) ->
    State#state{retry = erlang:start_timer(env(retry), self(), retry)};
effect(await, #state{retry = Timer} = State) ->
    _ = erlang:cancel_timer(Timer),
    effect(await, State#state{retry = none});
effect(report, #state{link = Link} = State) ->
    ok = blinky_lamp:show(blinky_link:led(Link), blinky_link:reports(Link)),
    State.

env(Key) ->
    {ok, Value} = application:get_env(blinky, Key),
    Value.
