%% @doc Obeys the coordinator on standard input, and answers on standard output.
%%
%% Each message is a term in the external format behind its length in four bytes. From the
%% coordinator: `{plan, Plan}', `{start, Milliseconds}', `stop'. From the agent: `{hello, Facts}',
%% `ready', `{sample, Sample}' each second, `paced' when all users have started, and `{stopped,
%% Sample}'. The VM ends after `stop', and when standard input ends.
%% @hidden
-module(whittle_load_agent_link).
-behaviour(gen_server).

-export([start_link/0, end_vm/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-record(link, {port :: port(),
               plan = none :: none | whittle_load_agent:plan(),
               agents = none :: none | atomics:atomics_ref(),
               pace = none :: none | pid(),
               start = 0 :: integer()}).

%% @doc Starts the process.
-spec start_link() -> {ok, pid()} | {error, term()} | ignore.
start_link() -> gen_server:start_link({local, ?MODULE}, ?MODULE, none, []).

%% @doc Ends the VM. By default halt/1 waits until all ports have sent their bytes. A server that
%% does not read would keep the VM alive forever.
-spec end_vm(0 | 1) -> no_return().
end_vm(Code) -> halt(Code, [{flush, false}]).

%% @private
-spec init(none) -> {ok, #link{}}.
init(none) ->
    ok = log_to_standard_error(),
    %% The samples must come in time, also if all users run.
    _ = process_flag(priority, high),
    _ = process_flag(trap_exit, true),
    Port = open_port({fd, 0, 1}, [{packet, 4}, binary, eof]),
    ok = whittle_load_agent_tally:new(),
    ok = whittle_load_agent_waiting:new(),
    Link = #link{port = Port},
    ok = say({hello, facts()}, Link),
    {ok, Link}.

%% Standard output belongs to the coordinator.
log_to_standard_error() ->
    {ok, Handler} = logger:get_handler_config(default),
    ok = logger:remove_handler(default),
    logger:add_handler(default, logger_std_h,
                       (maps:without([id, module], Handler))#{config => #{type => standard_error}}).

facts() ->
    #{protocol => whittle_load_agent:protocol(),
      otp => list_to_binary(erlang:system_info(otp_release)),
      processes => erlang:system_info(process_limit),
      ports => erlang:system_info(port_limit),
      files => proplists:get_value(max_fds, lists:append(
                                              [Check || Check <- erlang:system_info(check_io)]), 0),
      clock => os:perf_counter(nanosecond)}.

%% @private
-spec handle_call(term(), gen_server:from(), #link{}) -> {reply, {error, unknown}, #link{}}.
handle_call(_, _, Link) -> {reply, {error, unknown}, Link}.

%% @private
-spec handle_cast(term(), #link{}) -> {noreply, #link{}}.
handle_cast(_, Link) -> {noreply, Link}.

%% @private
-spec handle_info(term(), #link{}) -> {noreply, #link{}} | {stop, term(), #link{}}.
handle_info({Port, {data, Bytes}}, #link{port = Port} = Link) ->
    {noreply, obey(binary_to_term(Bytes), Link)};
%% The coordinator has ended.
handle_info({Port, eof}, #link{port = Port}) -> end_vm(1);
handle_info({'EXIT', Port, _}, #link{port = Port}) -> end_vm(1);
handle_info({'EXIT', Pace, Reason}, #link{pace = Pace} = Link) -> {stop, Reason, Link};
handle_info({second, Second}, #link{start = Start} = Link) ->
    _ = erlang:send_after(milliseconds(Start + (Second + 2) * 1_000_000_000), self(),
                          {second, Second + 1}, [{abs, true}]),
    ok = say({sample, sample(Second, fun whittle_load_agent_pace:take/1, Link)}, Link),
    {noreply, Link};
handle_info({paced, Pace}, #link{pace = Pace} = Link) ->
    ok = say(paced, Link),
    {noreply, Link};
handle_info(_, Link) -> {noreply, Link}.

obey({plan, Plan}, Link) ->
    Agents = whittle_load_agent_user:prepare(Plan),
    ok = say(ready, Link),
    Link#link{plan = Plan, agents = Agents};
obey({start, Milliseconds}, #link{plan = Plan, agents = Agents} = Link) ->
    Start = (erlang:monotonic_time(millisecond) + Milliseconds) * 1_000_000,
    {ok, Pace} = whittle_load_agent_pace:start_link(Plan, Start, Agents),
    _ = erlang:send_after(milliseconds(Start + 1_000_000_000), self(), {second, 0}, [{abs, true}]),
    Link#link{pace = Pace, start = Start};
obey(stop, #link{start = Start} = Link) ->
    Now = erlang:monotonic_time(nanosecond),
    Second = max(0, (Now - Start) div 1_000_000_000),
    ok = whittle_load_agent_waiting:count(Now),
    ok = say({stopped, sample(Second, fun whittle_load_agent_pace:last/1, Link)}, Link),
    #link{port = Port} = Link,
    Port ! {self(), close},
    %% The exit signal of a port that closes comes before its last bytes are written.
    receive
        {Port, closed} -> end_vm(0);
        {'EXIT', Port, Reason} when Reason =/= normal -> end_vm(1)
    end.

milliseconds(Ns) -> Ns div 1_000_000.

sample(Second, Take, #link{pace = Pace}) ->
    #{second => Second, counts => whittle_load_agent_tally:take(),
      arrivals => case Pace of
                      none -> #{};
                      _ -> Take(Pace)
                  end,
      vm => #{cpu => element(1, erlang:statistics(runtime)),
              memory => erlang:memory(total),
              rss => rss(),
              queue => erlang:statistics(run_queue)}}.

%% The pages of the process in memory (proc(5)). 0 where the system has no such file.
rss() ->
    case file:read_file("/proc/self/statm") of
        {ok, Text} ->
            [_, Pages | _] = binary:split(Text, <<" ">>, [global]),
            binary_to_integer(Pages) * 4096;
        {error, _} -> 0
    end.

say(Message, #link{port = Port}) ->
    true = port_command(Port, term_to_binary(Message)),
    ok.
