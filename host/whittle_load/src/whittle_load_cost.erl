%% @doc Names the memory that users, agents and connections need, in bytes.
%%
%% The figures are those of docs/load-account.md, measured with `whittle load account' on x86-64
%% with OTP 29 (flavor `size') and Linux 6.18, and of trials with agents at rest. They are rounded
%% up.
%% @hidden
-module(whittle_load_cost).

-export([agent/0, user/1, kernel/1]).

%% @doc Returns the memory of an agent without users. It is resident, without pages of its file.
-spec agent() -> pos_integer().
agent() -> 13_000_000.

%% @doc Returns the memory of a user that waits with a connection: the client's end in the account,
%% a timer and the user's own state.
-spec user(tcp | tls) -> pos_integer().
user(tcp) -> 3_600;
user(tls) -> 40_000.

%% @doc Returns the memory of the kernel for a connection of which one end, or both, are here.
-spec kernel(one | both) -> pos_integer().
kernel(one) -> 4_200;
kernel(both) -> 8_300.
