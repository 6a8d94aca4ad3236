%% @doc Reads the kernel's account of the memory of one process, by the kind of its mappings.
%%
%% The numbers come from `/proc/PID/smaps' (proc(5)). The stacks of threads have no name there. The
%% stack pointer of each thread (`/proc/PID/task/TID/syscall') lies in its stack, and the guard page
%% lies below the stack. The kernel joins a stack with the mapping above it if both allow the same
%% accesses. `/proc/PID/pagemap' then tells which pages of the stack are resident.
-module(whittle_measure_kernel).

-export([read/1, parse/4, pointers/1]).

-export_type([memory/0, group/0, sizes/0]).

%% `program' and `data': the text and the data of the VM's own file. `jit': machine code that the
%% JIT has made. `heap': the heap of the C library, if it can be recognized. `anonymous': everything
%% else without a file, that is the carriers of the VM's allocators.
-type group() :: program | data | libraries | files | jit | stacks | heap | anonymous | system.

%% Bytes of address space, and bytes of it that are resident.
-type sizes() :: #{size := non_neg_integer(), rss := non_neg_integer()}.

-type memory() :: #{rss := non_neg_integer(), groups := #{group() => sizes()}}.

-type mapping() :: whittle_measure_mappings:mapping().

-define(PAGE, 4096).
%% A thread that waits has few frames above its stack pointer, and the data that the C library keeps
%% for it. In all VMs that we looked at (OTP 25 and 29, glibc and musl), that is less than 12 kB.
-define(ABOVE, 16_384).
%% glibc aligns the heaps of its arenas to 64 MB and reserves the rest of this space.
-define(ARENA, 67_108_864).

%% The size of the first stack under qemu's user emulation (its option -s).
-define(EMULATED_STACK, 8_388_608).

%% @doc Reads the account of a process. The error is that of its file `smaps'.
-spec read(pos_integer()) -> {ok, memory()} | {error, file:posix() | badarg | terminated}.
read(Pid) ->
    Dir = filename:join("/proc", integer_to_list(Pid)),
    case whittle_measure_mappings:read(Pid) of
        {ok, #{program := Program, emulated := Emulated, mappings := Mappings}} ->
            Pointers = case Emulated of
                           true -> first_stack(Mappings);
                           false -> pointers(threads(Dir))
                       end,
            {ok, account(Mappings, Program, Pointers,
                         fun(From, To) -> present(Dir, From, To) end)};
        {error, _} = Error -> Error
    end.

%% The emulator keeps the stack pointers of the emulated threads to itself. So only the first stack
%% can be told from other memory, by its size and its guard page.
first_stack([#{access := <<"---", _/binary>>, from := Guard, to := From},
             #{from := From, to := To} | _])
  when From - Guard =:= ?PAGE, To - From =:= ?EMULATED_STACK ->
    [To - 1];
first_stack([_ | Mappings]) -> first_stack(Mappings);
first_stack([]) -> [].

threads(Dir) ->
    [Text || File <- filelib:wildcard(filename:join([Dir, "task", "*", "syscall"])),
             {ok, Text} <- [file:read_file(File)]].

%% @doc Returns the stack pointers of threads from the texts of their `/proc/PID/task/TID/syscall'.
%% It is the number before the last one. A thread that runs has none.
-spec pointers([binary()]) -> [non_neg_integer()].
pointers(Threads) ->
    [binary_to_integer(Pointer, 16)
     || Text <- Threads,
        [_, <<"0x", Pointer/binary>> | _]
            <- [lists:reverse(binary:split(Text, [<<" ">>, <<"\n">>], [global, trim_all]))]].

%% Bit 63 of a page's entry says that the page is present. The answer is `unknown' if the kernel
%% does not let us read the file.
present(Dir, From, To) ->
    case file:open(filename:join(Dir, "pagemap"), [read, raw, binary]) of
        {ok, File} ->
            Read = file:pread(File, From div ?PAGE * 8, (To - From) div ?PAGE * 8),
            ok = file:close(File),
            case Read of
                {ok, Entries} ->
                    ?PAGE * length([present || <<Entry:64/native>> <= Entries,
                                               Entry bsr 63 =:= 1]);
                _ -> unknown
            end;
        {error, _} -> unknown
    end.

%% @doc Makes the account from the text of `smaps', the path of the program, and the stack pointers.
%% `Present' returns the resident bytes between two addresses, or `unknown'.
-spec parse(binary(), binary(), [non_neg_integer()],
            fun((non_neg_integer(), non_neg_integer()) -> non_neg_integer() | unknown)) -> memory().
parse(Text, Program, Pointers, Present) ->
    account(whittle_measure_mappings:parse(Text, none), Program, Pointers, Present).

account(Mappings, Program, Pointers, Present) ->
    Groups = grouped(none, Mappings, Program, Pointers, Present, #{}),
    #{rss => lists:sum([Rss || #{rss := Rss} <- Mappings]), groups => Groups}.

grouped(_, [], _, _, _, Groups) -> Groups;
grouped(Below, [Mapping | Above], Program, Pointers, Present, Groups) ->
    New = case parts(Below, Mapping, Above, Program, Pointers, Present) of
              [] -> Groups;
              Parts -> lists:foldl(fun added/2, Groups, Parts)
          end,
    grouped(Mapping, Above, Program, Pointers, Present, New).

added({Group, Size, Rss}, Groups) ->
    maps:update_with(Group, fun(#{size := OldSize, rss := OldRss}) ->
                                    #{size => OldSize + Size, rss => OldRss + Rss}
                            end, #{size => Size, rss => Rss}, Groups).

-spec parts(none | mapping(), mapping(), [mapping()], binary(), [non_neg_integer()],
            fun((non_neg_integer(), non_neg_integer()) -> non_neg_integer() | unknown)) ->
          [{group(), non_neg_integer(), non_neg_integer()}].
parts(Below, #{from := From, to := To, rss := Rss} = Mapping, Above, Program, Pointers, Present) ->
    Size = To - From,
    case kind(Below, Mapping, Above, Program) of
        reserved -> [];
        anonymous ->
            case [Pointer || Pointer <- Pointers, Pointer >= From, Pointer < To] of
                [] -> [{anonymous, Size, Rss}];
                Inside ->
                    Top = min(To, (lists:max(Inside) div ?PAGE + 1) * ?PAGE + ?ABOVE),
                    Stack = case To - Top of
                                0 -> Rss;
                                _ -> whole(Present(From, Top), Rss)
                            end,
                    [{stacks, Top - From, Stack}, {anonymous, To - Top, Rss - Stack}]
            end;
        Group -> [{Group, Size, Rss}]
    end.

%% The stack of a thread that waits has few resident pages.
whole(unknown, Rss) -> min(Rss, ?ABOVE);
whole(Present, Rss) -> min(Rss, Present).

kind(_, #{access := <<"---", _/binary>>}, _, _) -> reserved;
kind(_, #{path := <<"[heap]">>}, _, _) -> heap;
kind(_, #{path := <<"[stack", _/binary>>}, _, _) -> stacks;
kind(_, #{path := <<"[anon", _/binary>>}, _, _) -> anonymous;
kind(_, #{path := <<"[", _/binary>>}, _, _) -> system;
kind(_, #{path := <<"/memfd:vmem", _/binary>>}, _, _) -> jit;
kind(_, #{path := Program, access := <<_, "w", _/binary>>}, _, Program) -> data;
kind(_, #{path := Program}, _, Program) -> program;
kind(_, #{path := <<>>, access := <<_, _, "x", _/binary>>}, _, _) -> jit;
%% The data that the file does not contain (bss) follows the data of the file.
kind(#{path := Program, to := From}, #{path := <<>>, from := From}, _, Program) -> data;
kind(_, #{path := <<>>, from := From}, [#{access := <<"---", _/binary>>, to := End} | _], _)
  when From rem ?ARENA =:= 0, End rem ?ARENA =:= 0 -> heap;
kind(_, #{path := <<>>}, _, _) -> anonymous;
kind(_, #{path := Path}, _, _) ->
    case re:run(Path, "\\.so(\\.|$)", [{capture, none}]) of
        match -> libraries;
        nomatch -> files
    end.
