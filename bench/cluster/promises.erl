%% @doc Says which verdicts break a promise that docket's README makes for a mode.
-module(promises).

-export([modes/0, broken_by/1]).

%% @doc Lists the modes that a run can check. The mode `ets' is for one node, and promises nothing.
-spec modes() -> [string(), ...].
modes() -> ["sync_transaction", "transaction", "sync_dirty", "async_dirty"].

%% @doc Lists the verdicts that must not occur in a mode. Every mode shows old cases outside the
%% majority. `transaction' may lose an acknowledged change at a crash, and then another change gets
%% the same version. The dirty modes take no locks: two editors may overwrite each other. No mode
%% shows a change that it has refused.
-spec broken_by(string()) -> [verdicts:kind()].
broken_by("sync_transaction") -> verdicts:kinds() -- [stale_read];
broken_by("transaction") -> [dirty_read, diverged];
broken_by("sync_dirty") -> [dirty_read];
broken_by("async_dirty") -> [dirty_read].
