%% @doc Describes the protocols: their addresses, their steps, and when a user counts as held.
%%
%% A client of the user's own ({@link whittle_load_own}) describes itself in the same way.
%% @hidden
-module(whittle_load_protocol).

-export([scheme/1, schemes/0, default_port/1, connect/2, step/3, waits/2, with_step/1]).

-export_type([protocol/0, kind/0]).

-type protocol() ::
        #{name := name(),
          client := module(),                         % implements whittle_load_agent_client
          steps := #{atom() => [[kind()]]},           % the kinds of their values; some have
                                                      % several forms
          answers := [atom()],                        % the steps that wait for an answer
          held := connect | none | atom(),            % the step after which a user is held
          %% The bytes of a read, if the scenario says nothing. An answer that fits comes in one
          %% read, which costs the agent about as much as a short answer. A user that has received
          %% nothing keeps an empty buffer.
          buffer := pos_integer()}.

-type name() :: lines | xmpp | http | websocket | mqtt | own.

%% The kinds of values. whittle_load_steps reads the `word' and the `pattern' of `take' itself.
-type kind() :: text | line | path | status | level | count | time | word | pattern.

%% @doc Finds the protocol of an address by its scheme.
-spec scheme(string()) -> {ok, {protocol(), tcp | tls}} | error.
scheme(Scheme) ->
    case lists:keyfind(Scheme, 1, addresses()) of
        {_, Name, Transport, _} -> {ok, {protocol(Name), Transport}};
        false -> error
    end.

%% @doc Lists the schemes.
-spec schemes() -> [string()].
schemes() -> [Scheme || {Scheme, _, _, _} <- addresses()].

%% @doc Lists the protocols that have a step.
-spec with_step(atom()) -> [name()].
with_step(Step) ->
    [Name || Name <- lists:usort([Name || {_, Name, _, _} <- addresses()]),
             is_map_key(Step, maps:get(steps, protocol(Name)))].

%% @doc Returns the port of an address that names none.
-spec default_port(string()) -> {ok, inet:port_number()} | none.
default_port(Scheme) ->
    case lists:keyfind(Scheme, 1, addresses()) of
        {_, _, _, Port} when is_integer(Port) -> {ok, Port};
        _ -> none
    end.

addresses() ->
    [{"tcp", lines, tcp, none}, {"tls", lines, tls, none},
     {"xmpp", xmpp, tcp, 5222}, {"xmpps", xmpp, tls, 5223},
     {"http", http, tcp, 80}, {"https", http, tls, 443},
     {"ws", websocket, tcp, 80}, {"wss", websocket, tls, 443},
     {"mqtt", mqtt, tcp, 1883}, {"mqtts", mqtt, tls, 8883}].

-spec protocol(name()) -> protocol().
protocol(lines) ->
    #{name => lines, client => whittle_load_agent_lines, held => connect, buffer => 64,
      answers => [expect, ask],
      steps => #{send => [[line]], expect => [[line]], ask => [[line, line]]}};
protocol(xmpp) ->
    #{name => xmpp, client => whittle_load_agent_xmpp, held => login, buffer => 512,
      answers => [login, roster, expect],
      steps => #{login => [[text, text]], roster => [[]], presence => [[]],
                 message => [[text, text]], expect => [[text]]}};
protocol(http) ->
    Plain = [[path], [path, status]],
    WithBody = [[path, line, text], [path, line, text, status]],
    #{name => http, client => whittle_load_agent_http, held => none, buffer => 4096,
      answers => [request, keep],
      steps => #{get => Plain, head => Plain, delete => Plain, post => WithBody, put => WithBody,
                 patch => WithBody, take => [[word, pattern]]}};
protocol(websocket) ->
    #{name => websocket, client => whittle_load_agent_websocket, held => connect,
      buffer => 512,
      answers => [expect, ask, ask_binary, upgrade],
      steps => #{send => [[text]], send_binary => [[text]], expect => [[text]],
                 ask => [[text, text]], ask_binary => [[text, text]]}};
protocol(mqtt) ->
    #{name => mqtt, client => whittle_load_agent_mqtt, held => login, buffer => 512,
      answers => [login, subscribe, unsubscribe, publish, expect],
      steps => #{login => [[text], [text, text, text]], subscribe => [[text], [text, level]],
                 unsubscribe => [[text]], publish => [[text, text], [text, text, level]],
                 expect => [[text], [text, text]]}}.

%% @doc Returns the instructions that connect a user.
-spec connect(protocol(), pos_integer()) -> [whittle_load_agent:instruction()].
connect(#{name := websocket}, Timeout) ->
    [{connect, Timeout}, {step, <<"upgrade">>, upgrade, Timeout}, held];
connect(#{held := connect}, Timeout) -> [{connect, Timeout}, held];
connect(_, Timeout) -> [{connect, Timeout}].

%% @doc Makes the step of a client from its name and its values.
-spec step(protocol(), atom(), [term()]) -> term().
step(#{name := http} = Protocol, Kind, Values) ->
    Method = string:uppercase(atom_to_binary(Kind)),
    case Values of
        [Path] -> step(Protocol, Kind, [Path, any]);
        [Path, Status] -> {request, Method, Path, none, [], Status};
        [Path, Type, Body] -> {request, Method, Path, Type, Body, any};
        [Path, Type, Body, Status] -> {request, Method, Path, Type, Body, Status}
    end;
step(#{name := mqtt}, Kind, [Topic]) when Kind =:= subscribe -> {subscribe, Topic, 0};
step(#{name := mqtt}, publish, [Topic, Payload]) -> {publish, Topic, Payload, 0};
step(_, Kind, []) -> Kind;
step(_, Kind, Values) -> list_to_tuple([Kind | Values]).

%% @doc Tells whether a step of a client waits for an answer.
-spec waits(protocol(), term()) -> boolean().
waits(#{name := mqtt}, {publish, _, _, 0}) -> false;
waits(#{answers := Answers}, Step) when is_tuple(Step) -> lists:member(element(1, Step), Answers);
waits(#{answers := Answers}, Step) -> lists:member(Step, Answers).
