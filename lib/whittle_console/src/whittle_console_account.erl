%% @doc Takes the account of this VM: the texts in which the kernel and the VM describe it.
%% @hidden
-module(whittle_console_account).

-export([take/0]).

%% @doc Returns the account as bytes: a compressed external term, the tuple `{whittle_console, 1,
%% WordSize, Program, Smaps, Threads, Texts}'. `Smaps' is `/proc/self/smaps', `Program' the path
%% that it has for the VM's own file, and `Threads' the files `syscall' of the threads, which have
%% their stack pointers. All are empty if the machine has no /proc. `Program' is a path as `file'
%% has it. `Texts' are the answers of `erlang:system_info/1' to `system_version', `info' and
%% `procs'.
%%
%% The kernel's text comes first, because the answers of the VM take memory.
-spec take() -> binary().
take() ->
    Smaps = case file:read_file("/proc/self/smaps") of
                {ok, Text} -> Text;
                {error, _} -> <<>>
            end,
    Program = case file:read_link_all("/proc/self/exe") of
                  {ok, Path} -> Path;
                  {error, _} -> ""
              end,
    Threads = [Thread || {ok, Names} <- [file:list_dir("/proc/self/task")], Name <- Names,
                         {ok, Thread} <- [file:read_file(["/proc/self/task/", Name, "/syscall"])]],
    Texts = [iolist_to_binary(erlang:system_info(Item))
             || Item <- [system_version, info, procs]],
    term_to_binary({whittle_console, 1, erlang:system_info(wordsize), Program, Smaps, Threads,
                    Texts}, [{compressed, 9}, {minor_version, 2}]).
