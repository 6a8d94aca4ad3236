%% Finds the stock VMs for the tests: the one of this OTP, and one of each other release in the
%% cache.
-module(stock_vms).

-export([all/0]).

-spec all() -> [{Release :: pos_integer(), Erl :: file:filename()}].
all() ->
    Cached = [{list_to_integer(Release), filename:dirname(Lib)}
              || Lib <- whittle_runtime:otp_libs(#{}),
                 Release <- [filename:basename(Dir)
                             || Dir <- filelib:wildcard(filename:join(filename:dirname(Lib),
                                                                      "releases/*")),
                                filelib:is_dir(Dir)]],
    Own = {list_to_integer(erlang:system_info(otp_release)), code:root_dir()},
    [{Otp, Erl} || {Otp, Root} <- maps:to_list(maps:from_list(Cached ++ [Own])),
                   Erl <- [filename:join([Root, "bin", "erl"])], filelib:is_regular(Erl)].
