%% @doc Spreads users over the VMs of the service: each user has an owner, the VM that knows where
%% the user is logged in. This module is pure.
%%
%% A ring is a tuple of slots, and a slot belongs to the node with the highest hash for it
%% (rendezvous hashing). So all nodes with the same members compute the same ring, and a node that
%% comes or goes changes the owner of its own part only.
%% @hidden
-module(presence_ring).

-export([new/1, owner/2]).

-export_type([ring/0]).

-opaque ring() :: tuple().

%% 19 slots for each of 53 nodes
-define(SLOTS, 1024).

%% @doc Makes the ring of some nodes.
-spec new([node(), ...]) -> ring().
new([Node]) -> {Node};
new(Nodes) ->
    Sorted = lists:sort(Nodes),
    list_to_tuple([element(2, lists:max([{erlang:phash2({Slot, Node}), Node} || Node <- Sorted]))
                   || Slot <- lists:seq(1, ?SLOTS)]).

%% @doc Returns the owner of a user.
-spec owner(User :: binary(), ring()) -> node().
owner(User, Ring) -> element(erlang:phash2(User, tuple_size(Ring)) + 1, Ring).
