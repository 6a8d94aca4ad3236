%% Starts nodes of docket for tests, kills and parts them, and uses them as clients do.
%%
%% The nodes are peers of the test, which talks to them over their standard input and output, so it
%% is no part of their network. A partition is a cookie that does not fit.
-module(docket_nodes).

-export([prepared/3, names/0, names/1, started/2, start/3, dir/2, stopped/1, kill/1, kill_all/1,
         parted/2, joined/2]).
-export([on/4, is_ready/1, create/1, new_case/1, new_case_again/1, show/2, until/1, until/3,
         lines/1]).
%% Functions that the nodes run
-export([keep_lines/0, kept_lines/0]).

-define(SETTINGS, [store, force, row_version, fragments, mode, retry, start_timeout]).

%% Prepares a test case: an empty place for its directories (`dir'), and names for nodes.
prepared(Case, Letters, Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), atom_to_list(Case)),
    _ = file:del_dir_r(Dir),
    ok = filelib:ensure_path(Dir),
    _ = put(?MODULE, names(Letters)),
    [{dir, Dir} | Config].

%% Returns the names of a prepared case.
names() -> get(?MODULE).

%% Makes names of nodes that no other test has, one for each letter.
names(Letters) ->
    Host = lists:last(string:split(atom_to_list(node()), "@")),
    Id = integer_to_list(erlang:unique_integer([positive])) ++ "_" ++ os:getpid(),
    [list_to_atom([Letter | Id] ++ "@" ++ Host) || Letter <- Letters].

%% Starts all nodes of a service, and waits until they are ready.
started(Names, Config) ->
    Peers = [start(Name, Names, Config) || Name <- Names],
    [ok = until(Peer, ready, true) || Peer <- Peers],
    Peers.

%% Starts a node of a service. The settings of the test come from Config; each node has a directory
%% of its own in `dir'.
start(Name, Names, Config) ->
    [Short, Host] = string:split(atom_to_list(Name), "@"),
    {ok, Peer, Name} = peer:start_link(#{name => Short, host => Host, connection => standard_io,
                                         shutdown => halt,
                                         args => ["-connect_all", "false", "-setcookie", "docket",
                                                  "-pa" | code:get_path()]}),
    ok = peer:call(Peer, logger, set_primary_config, [level, none]),
    ok = peer:call(Peer, ?MODULE, keep_lines, []),
    ok = peer:call(Peer, application, load, [docket]),
    [ok = peer:call(Peer, application, set_env, [docket, Key, Value])
     || {Key, Value} <- [{secret, "secret"}, {port, 0}, {nodes, Names}, {retry, 50},
                         {dir, dir(Name, Config)}
                         | [Setting || {Key, _} = Setting <- Config,
                                       lists:member(Key, ?SETTINGS)]]],
    {ok, _} = peer:call(Peer, application, ensure_all_started, [docket], 60000),
    Peer.

dir(Name, Config) ->
    case proplists:get_value(dir, Config) of
        none -> none;
        Dir -> filename:join(Dir, atom_to_list(Name))
    end.

stopped(Peers) -> [ok = peer:stop(Peer) || Peer <- Peers].

%% The node ends at once, without a word to the others.
kill(Peer) -> kill_all([Peer]).

%% All nodes end at once.
kill_all(Peers) ->
    Pids = [on(Peer, os, getpid, []) || Peer <- Peers],
    [true = unlink(Peer) || Peer <- Peers],
    Monitors = [{Peer, monitor(process, Peer)} || Peer <- Peers],
    [] = os:cmd("kill -KILL " ++ lists:join(" ", Pids)),
    [receive {'DOWN', Monitor, process, Peer, _} -> ok end || {Peer, Monitor} <- Monitors],
    ok.

parted(Ones, Others) ->
    each_pair(Ones, Others,
              fun(Peer, Name) ->
                      Wrong = on(Peer, erlang, node, []),
                      on(Peer, erlang, set_cookie, [Name, Wrong])
              end),
    each_pair(Ones, Others, fun(Peer, Name) -> on(Peer, erlang, disconnect_node, [Name]) end).

joined(Ones, Others) ->
    each_pair(Ones, Others, fun(Peer, Name) -> on(Peer, erlang, set_cookie, [Name, docket]) end).

each_pair(Ones, Others, Fun) ->
    [Fun(One, on(Other, erlang, node, [])) || {As, Bs} <- [{Ones, Others}, {Others, Ones}],
                                              One <- As, Other <- Bs],
    ok.

on(Peer, Module, Function, Arguments) -> peer:call(Peer, Module, Function, Arguments, 60000).

is_ready(Peer) -> on(Peer, docket, ready, []).

create(Peer) ->
    Id = on(Peer, docket_store, new_id, [erlang:system_time(millisecond)]),
    on(Peer, docket, run, [{create, {<<"ann">>, Id}, #{title => <<"x">>, parties => []}, 1}]).

new_case(Peer) ->
    {ok, Case} = create(Peer),
    docket_case:key(Case).

%% While a node is missed or comes back, the others may refuse a change, or not know its end.
%% Clients repeat it; each time the case has another id.
new_case_again(Peer) ->
    case create(Peer) of
        {ok, Case} -> docket_case:key(Case);
        {error, Reason} when Reason =:= not_ready; Reason =:= minority; Reason =:= unknown ->
            new_case_again(Peer)
    end.

show(Key, Peer) -> on(Peer, docket, run, [{show, Key}]).

%% Asks again and again. Each question takes as long as the node needs.
until(Fun) ->
    case Fun() of
        true -> ok;
        false -> until(Fun)
    end.

%% Asks a node until it gives the wanted answer, or has a case.
until(Peer, ready, Wanted) -> until(fun() -> is_ready(Peer) =:= Wanted end);
until(Peer, has, Key) -> until(fun() -> element(1, show(Key, Peer)) =:= ok end).

%% Returns the lines for the operator that a node has written so far, each with the monotonic time
%% of that node in milliseconds.
lines(Peer) -> on(Peer, ?MODULE, kept_lines, []).

%% Puts a process before standard error that keeps each line, and hands it on.
keep_lines() ->
    Former = whereis(standard_error),
    Keeper = spawn(fun() -> keep_lines(Former, []) end),
    true = unregister(standard_error),
    true = register(standard_error, Keeper),
    ok.

keep_lines(Former, Lines) ->
    receive
        {io_request, _, _, {put_chars, unicode, Module, Function, Arguments}} = Request ->
            Line = unicode:characters_to_list(apply(Module, Function, Arguments)),
            Former ! Request,
            keep_lines(Former, [{erlang:monotonic_time(millisecond), Line} | Lines]);
        {kept_lines, Reader} ->
            Reader ! {kept_lines, lists:reverse(Lines)},
            keep_lines(Former, Lines);
        Other ->
            Former ! Other,
            keep_lines(Former, Lines)
    end.

kept_lines() ->
    standard_error ! {kept_lines, self()},
    receive {kept_lines, Lines} -> Lines end.
