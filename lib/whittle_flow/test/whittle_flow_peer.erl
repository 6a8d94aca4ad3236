%% Starts another node with the library. A test can stop it for a while.
-module(whittle_flow_peer).

-export([on_other_node/1, standing/2]).

%% Calls the fun with the other node's name.
on_other_node(Test) ->
    Named = node() =/= nonode@nohost,
    Named orelse ({ok, _} = net_kernel:start([flow_test, shortnames])),
    {ok, Peer, Node} = peer:start_link(#{name => peer:random_name(), connection => standard_io,
                                         args => ["-pa" | code:get_path()]}),
    {ok, _} = erpc:call(Node, application, ensure_all_started, [whittle_flow]),
    Test(Node),
    peer:stop(Peer),
    Named orelse net_kernel:stop().

%% Returns the result of Fun while the node is stopped. Each thread stops when it runs next, which
%% may be late on a busy machine. The node always continues afterwards, because nothing can end a
%% stopped node.
standing(Node, Fun) ->
    Os = erpc:call(Node, os, getpid, []),
    "" = os:cmd(["kill -STOP ", Os, "; until ! grep -qs '^State:[[:blank:]]*[^TtZX[:blank:]]' "
                 "/proc/", Os, "/task/*/status; do :; done"]),
    try Fun()
    after "" = os:cmd("kill -CONT " ++ Os)
    end.
