%% @hidden Encodes the names of removed functions (`--missing crash').
%%
%% The program asks this set when it raises `undef' (`whittle_start_removed'). A list of names
%% would be too large: hello lacks 3,700 exported functions. For a module that is removed as a
%% whole the set holds only the module. Each name takes a hash of 24 bits, which is 2.4 bytes in
%% the pack. docs/shaking-internals.md has the figures.
-module(whittle_shake_removed).

-export([names/3, set/1]).

-define(RANGE, 16#1000000).

%% @doc Lists the modules and functions that a plan removed from a system. A module that is
%% removed as a whole stands for its functions. Of the other modules the list has the functions
%% that other modules could call, and the functions of a feature that is off and that remaining
%% functions call.
-spec names(whittle_shake:plan(), Before :: whittle_system:system(),
            After :: whittle_system:system()) -> [mfa() | module()].
names(#{hot := Hot, answers := Answers, summaries := Summaries,
        reached := #{blocked := Blocked}} = Plan, Before, After) ->
    Here = maps:from_keys([M || {_, M, _} <- whittle_system:modules(After)], []),
    {Parts, Gone} = lists:partition(fun(M) -> is_map_key(M, Here) end,
                                    [M || {_, M, _} <- whittle_system:modules(Before)]),
    Answering = maps:from_list(Answers),
    Asked = [Mfa || Edges <- maps:values(Blocked), {{M, F, A} = Mfa, _} <- Edges,
                    is_map_key(M, Here), #{M := #{functions := #{{F, A} := _}}} <- [Summaries]],
    Exported = [{M, F, A} || M <- Parts, #{M := #{exports := Exports}} <- [Summaries],
                             {F, A} <- Exports, F =/= module_info],
    Gone ++ whittle_shake_vm:removed(Plan, Before)
        ++ lists:usort([Mfa || Mfa <- Exported ++ Asked, not is_map_key(Mfa, Hot),
                               not is_map_key(Mfa, Answering)]).

%% @doc Encodes these names as a set. The hashes are sorted. The set holds first the high byte of
%% each, then the other two bytes of each. The high bytes compress well.
-spec set([mfa() | module()]) -> binary().
set(Names) ->
    Hashes = lists:usort([erlang:phash2(Name, ?RANGE) || Name <- Names]),
    iolist_to_binary([[Hash bsr 16 || Hash <- Hashes], [<<Hash:16>> || Hash <- Hashes]]).
