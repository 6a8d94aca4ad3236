%% @doc Says which verdicts break a promise that docket's README makes for a store and its mode.
-module(promises).

-export([stores/0, modes/0, broken_by/1]).

%% @doc Lists the stores that a run can check. Only `mnesia' has modes.
-spec stores() -> [string(), ...].
stores() -> ["mnesia", "ra"].

%% @doc Lists the modes that a run can check. The mode `ets' is for one node, and promises nothing.
-spec modes() -> [string(), ...].
modes() -> ["sync_transaction", "transaction", "sync_dirty", "async_dirty"].

%% @doc Lists the verdicts that must not occur. The nodes with Ra read from a leader that has asked
%% most nodes. Every mode of Mnesia shows old cases outside the majority. `transaction' may lose an
%% acknowledged change at a crash, and then another change gets the same version. The dirty modes
%% take no locks: two editors may overwrite each other. But `sync_dirty' waits for the disks of all
%% nodes that run, so a case that nobody removes stays. No mode shows a change that it has refused.
-spec broken_by(#{store := string(), mode := string(), _ => _}) -> [verdicts:kind()].
broken_by(#{store := "ra"}) -> verdicts:kinds();
broken_by(#{mode := "sync_transaction"}) -> verdicts:kinds() -- [stale_read];
broken_by(#{mode := "transaction"}) -> [dirty_read, diverged];
broken_by(#{mode := "sync_dirty"}) -> [lost_case, dirty_read];
broken_by(#{mode := "async_dirty"}) -> [dirty_read].
