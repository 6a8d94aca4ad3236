%% @doc Takes the account of this VM: the texts in which the kernel and the VM describe it.
%% @hidden
-module(whittle_console_account).

-export([take/0]).

%% @doc Returns the account as bytes: a compressed external term, the tuple `{whittle_console, 1,
%% WordSize, Program, Smaps, Texts}'. `Smaps' is `/proc/self/smaps', and `Program' the path that it
%% has for the VM's own file. Both are empty if the machine has no /proc. `Texts' are the answers of
%% `erlang:system_info/1' to `system_version', `info' and `procs'.
%%
%% The kernel's text comes first, because the answers of the VM take memory.
-spec take() -> binary().
take() ->
    Smaps = case file:read_file("/proc/self/smaps") of
                {ok, Text} -> Text;
                {error, _} -> <<>>
            end,
    Program = case file:read_link_all("/proc/self/exe") of
                  {ok, Path} when is_list(Path) -> unicode:characters_to_binary(Path);
                  {ok, Path} -> Path;
                  {error, _} -> <<>>
              end,
    Texts = [iolist_to_binary(erlang:system_info(Item))
             || Item <- [system_version, info, procs]],
    term_to_binary({whittle_console, 1, erlang:system_info(wordsize), Program, Smaps, Texts},
                   [{compressed, 9}, {minor_version, 2}]).
