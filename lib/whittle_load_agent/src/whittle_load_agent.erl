%% @doc Describes the work of a load agent: a VM full of simulated users.
%%
%% An agent obeys a coordinator (`whittle load') that talks to it over standard input and output.
%% The coordinator compiles a scenario into a plan. A plan has classes of users, each with a
%% program: a tuple of instructions. Each user is a process that carries out the program of its
%% class. All users share the programs, so a user that waits needs little memory.
%%
%% An agent owns its VM: the VM ends with the run, and the end closes the connections.
-module(whittle_load_agent).

-export([protocol/0, duration/1]).
%% For clients
-export([text/2, delivered/2]).

-export_type([plan/0, target/0, class/0, program/0, instruction/0, text/0, sample/0]).

%% Times are nanoseconds.
-type plan() ::
        #{target := target(),
          phases := [whittle_load_agent_arrivals:phase()],
          classes := [class()],
          shard := whittle_load_agent_arrivals:shard(),
          seed := term(),
          rows := tuple()                    % of a CSV file: tuples of binaries; user N has row
                                             % N modulo their number
                | {function, module()},      % whose row/1 makes the row of user N
          sources := [inet:ip_address()],    % addresses from which users connect, in turn
          hibernate := non_neg_integer()}.   % a user that waits longer frees its heap

-type target() ::
        #{client := module(),                % implements whittle_load_agent_client
          transport := tcp | tls,
          host := inet:ip_address() | binary(),
          port := inet:port_number(),
          buffer := pos_integer(),           % bytes that one read of a socket takes
          keep_alive := none | pos_integer(),   % the time between two signs of life
          says_bye := boolean(),             % the client has bye/1
          options := map()}.                 % of the client

-type class() :: #{name := binary(), weight := pos_integer(), program := program()}.

-type program() :: tuple().                  % of instruction()

-type instruction() ::
        {connect, Timeout :: pos_integer()}
      | {reconnect, Timeout :: pos_integer()}    % where there is no connection
      | {step, Name :: binary(), Step :: term(), Timeout :: pos_integer()}   % of the client
      | {take, Name :: binary(), Pattern :: binary()}   % keeps a part of the last answer
      | held                                 % from here on the user counts as held
      | {wait, whittle_load_agent_random:time()}
      | stay                                 % wait until the end of the run
      | {repeat, pos_integer()}              % begins a loop that `again' ends
      | {again, Instruction :: pos_integer()}
      | {every, Rounds :: pos_integer() | infinity, Time :: pos_integer()}   % begins a loop that
                                             % `next' ends
      | {next, Time :: pos_integer(), Instruction :: pos_integer()}  % from round to round
      | {jump, Instruction :: pos_integer()}
      | {branch, [{Probability :: float(), Instruction :: pos_integer()}]}   % cumulative
      | disconnect
      | 'end'.

%% A text with parts that differ from user to user: its number, the intended moment of the step, a
%% column of its row, a random number below a limit, or a part of an answer that `take' has kept.
-type text() :: [binary() | id | sent | {column, pos_integer()} | {random, pos_integer()}
                 | {taken, Name :: binary()}].

%% Each second an agent sends one.
-type sample() ::
        #{second := non_neg_integer(),
          counts := whittle_load_agent_tally:counts(),
          arrivals := #{Second :: non_neg_integer() =>
                            {Planned :: non_neg_integer(), Actual :: non_neg_integer()}},
          vm := #{cpu := non_neg_integer(),          % milliseconds since the start of the VM
                  memory := non_neg_integer(),       % bytes that the VM has allocated
                  rss := non_neg_integer(),          % bytes
                  queue := non_neg_integer()}}.      % processes that wait for a scheduler

%% @doc Returns the version of the messages. An agent of another version is refused.
-spec protocol() -> pos_integer().
protocol() -> 4.

%% @doc Computes the nanoseconds of all phases.
-spec duration([whittle_load_agent_arrivals:phase()]) -> non_neg_integer().
duration(Phases) -> whittle_load_agent_arrivals:duration(Phases).

%% @doc Returns the text of a step with the values of a user.
-spec text(text(), whittle_load_agent_client:user()) -> binary().
text(Text, User) -> iolist_to_binary(whittle_load_agent_text:fill(Text, User)).

%% @doc Makes the event of a message. If the message contains the moment of its sending, which a
%% step wrote as `${sent}', the user counts how long the message was on its way.
-spec delivered(binary(), Event) -> Event | {delivered, integer(), Event}.
delivered(Message, Event) -> whittle_load_agent_text:delivered(Message, Event).
