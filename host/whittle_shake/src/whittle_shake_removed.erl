%% @doc Names what a plan removes (`--missing crash'), in a form that the program asks when it
%% raises `undef' (`whittle_start_removed').
%%
%% A list of names would be too large: hello lacks 3,700 exported functions. Of a module that is
%% gone as a whole the module is enough, and of each name a hash of 24 bits, which is 2.4 bytes
%% in the pack. docs/shaking.md has the figures.
-module(whittle_shake_removed).

-export([names/3, set/1]).

-define(RANGE, 16#1000000).

%% @doc What was removed from a system by carrying out a plan: modules that are gone as a whole,
%% and of the others the functions that could be called from other modules, or that functions
%% which stay call in a feature that is off.
-spec names(whittle_shake:plan(), Before :: whittle_system:system(),
            After :: whittle_system:system()) -> [mfa() | module()].
names(#{hot := Hot, answers := Answers, summaries := Summaries,
        reached := #{blocked := Blocked}}, Before, After) ->
    Here = maps:from_keys([M || {_, M, _} <- whittle_system:modules(After)], []),
    {Parts, Gone} = lists:partition(fun(M) -> is_map_key(M, Here) end,
                                    [M || {_, M, _} <- whittle_system:modules(Before)]),
    Answering = maps:from_list(Answers),
    Asked = [Mfa || Edges <- maps:values(Blocked), {{M, F, A} = Mfa, _} <- Edges,
                    is_map_key(M, Here), #{M := #{functions := #{{F, A} := _}}} <- [Summaries]],
    Exported = [{M, F, A} || M <- Parts, #{M := #{exports := Exports}} <- [Summaries],
                             {F, A} <- Exports, F =/= module_info],
    Gone ++ lists:usort([Mfa || Mfa <- Exported ++ Asked, not is_map_key(Mfa, Hot),
                                not is_map_key(Mfa, Answering)]).

%% @doc The set of these names: the hashes in their order, first the high byte of each, then the
%% other two of each. The high bytes compress well.
-spec set([mfa() | module()]) -> binary().
set(Names) ->
    Hashes = lists:usort([erlang:phash2(Name, ?RANGE) || Name <- Names]),
    iolist_to_binary([[Hash bsr 16 || Hash <- Hashes], [<<Hash:16>> || Hash <- Hashes]]).
