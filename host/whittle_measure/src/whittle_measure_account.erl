%% @doc Explains the resident memory of a VM. It joins the account of the VM and that of the kernel.
%%
%% The VM counts the blocks of its allocators and the carriers that hold them. The kernel counts the
%% resident pages of each mapping. A carrier may have pages that the VM has never touched; these are
%% in the VM's account, but not in the kernel's. The difference between the address space of the
%% anonymous mappings and that of all carriers is memory of C code. In a VM with shared libraries,
%% it must lie in the heaps of glibc, which can be recognized. Anything that does not is the line
%% `unexplained'. A static program of Whittle has the C library musl, whose memory has no mark, and
%% the launcher's block of the pack.
-module(whittle_measure_account).

-export([make/2, rows/1, tops/1, json/1, unexplained/1, fixed/1, lines/1]).
-export([groups/0, allocators/0, bytes/2, part/3, sample/1]).

-export_type([account/0, line/0, part/0]).

-type account() ::
        #{rss := non_neg_integer(),
          lines := [line()],                    % their bytes add up to `rss'
          unexplained := integer(),             % the bytes of the last line
          counted := boolean(),                 % false under +Mea min: the VM counts only terms
          second_source := boolean(),           % false: the line of C code is what others leave
          vm := whittle_measure_dump:vm(),
          atom() => term()}.                    % of whittle_measure_snapshot:take/3

-type line() :: #{group := atom(), name := unicode:chardata(), bytes := integer()}.

%% `free' is the part of the carriers that no block uses.
-type part() :: blocks | carriers | free.

%% The keys of `allocated_areas' for each line of the account.
-define(PROCESS_TABLE, [<<"process_table">>]).
-define(PORT_TABLE, [<<"port_table">>]).
-define(ATOMS, [<<"atom_space">>, <<"atom_table">>]).
-define(EXPORTS, [<<"export_table">>, <<"export_list">>, <<"fun_table">>, <<"fun_list">>,
                  <<"module_table">>, <<"module_refs">>, <<"register_table">>]).

%% @doc Makes the account.
-spec make(whittle_measure_dump:vm(), whittle_measure_kernel:memory()) -> account().
make(#{allocators := Allocators} = Vm, #{rss := Rss, groups := Groups}) ->
    Counted = carriers(<<"eheap_alloc">>, Allocators) > 0,
    Blocks = blocks(Counted, Vm),
    Slack = [#{group => slack, name => ["free space in ", Name, " carriers"],
               bytes => Carriers - Used}
             || {Name, #{carriers := Carriers, blocks := Used}} <- maps:to_list(Allocators),
                Carriers > Used],
    Files = files(Groups),
    Known = total(Blocks) + total(Slack),
    Rest = rest(Known, Counted, Groups),
    Lines = [Line || #{bytes := Bytes} = Line <- Blocks ++ sorted(Slack) ++ Files ++ Rest,
                     Bytes =/= 0],
    Unexplained = Rss - total(Lines),
    #{rss => Rss, unexplained => Unexplained, counted => Counted, vm => Vm,
      second_source => has_mark(Counted, Groups),
      lines => Lines ++ [#{group => unexplained, name => "unexplained", bytes => Unexplained}]}.

total(Lines) -> lists:sum([Bytes || #{bytes := Bytes} <- Lines]).

sorted(Lines) -> lists:sort(fun(#{bytes := One}, #{bytes := Other}) -> One >= Other end, Lines).

%% @doc Returns the unexplained part of an account, from 0 to 1.
-spec unexplained(account()) -> float().
unexplained(#{rss := Rss, unexplained := Bytes}) -> abs(Bytes) / max(1, Rss).

%% @doc Returns the lines of an account.
-spec lines(account()) -> [line()].
lines(#{lines := Lines}) -> Lines.

%% @doc Returns the bytes that no setting of the VM changes: its files, the code, the atoms and the
%% literals.
-spec fixed(account()) -> non_neg_integer().
fixed(#{lines := Lines}) ->
    total([Line || #{group := Group, name := Name} = Line <- Lines,
                   Group =:= vm orelse Group =:= code orelse Name =:= "atoms"
                       orelse Name =:= "literals"]).

%% @doc Lists the groups of lines, with their titles.
-spec groups() -> [{atom(), unicode:chardata()}].
groups() ->
    [{terms, "terms of the program"},
     {code, "code"},
     {tables, "tables of the VM"},
     {other, "other blocks of the VM"},
     {slack, "free space in carriers"},
     {vm, "the VM's files and the JIT's code"},
     {stacks, "stacks of threads"},
     {c_code, "memory of C code"},
     {untouched, "pages never touched"},
     {unexplained, "unexplained"}].

%% @doc Lists the allocators of a VM (erts_alloc(3)).
-spec allocators() -> [atom()].
allocators() ->
    [eheap_alloc, binary_alloc, ets_alloc, literal_alloc, fix_alloc, driver_alloc, ll_alloc,
     std_alloc, sl_alloc, temp_alloc].

%% @doc Returns the bytes of a group.
-spec bytes(atom(), account()) -> integer().
bytes(Group, #{lines := Lines}) -> total([Line || #{group := Of} = Line <- Lines, Of =:= Group]).

%% @doc Returns the bytes of an allocator, or `none' if the VM does not count them.
-spec part(atom(), part(), account()) -> non_neg_integer() | none.
part(Name, Part, #{vm := #{allocators := Allocators}}) ->
    Key = atom_to_binary(Name),
    case Allocators of
        #{Key := #{carriers := 0}} -> none;
        #{Key := #{carriers := Carriers}} when Part =:= carriers -> Carriers;
        #{Key := #{blocks := Blocks}} when Part =:= blocks -> Blocks;
        #{Key := #{carriers := Carriers, blocks := Blocks}} -> Carriers - Blocks;
        _ -> none
    end.

%% @doc Returns the account for the samples of a study: the bytes of each line, with its group, and
%% the blocks and carriers of each allocator.
-spec sample(account()) -> whittle_json:json().
sample(#{rss := Rss, lines := Lines, vm := #{allocators := Allocators}}) ->
    #{rss => Rss, lines => [text(Line) || Line <- Lines],
      allocators => maps:map(fun(_, Of) -> maps:with([blocks, carriers], Of) end, Allocators)}.

%% Internal functions: the blocks of the VM

carriers(Name, Allocators) -> number(carriers, Name, Allocators).

used(Name, #{allocators := Allocators}) -> number(blocks, Name, Allocators).

%% An allocator or a group of mappings that does not occur has no bytes.
number(Key, Name, Maps) ->
    case Maps of
        #{Name := #{Key := Bytes}} -> Bytes;
        _ -> 0
    end.

area(Keys, #{areas := Areas}) -> lists:sum([maps:get(Key, Areas, 0) || Key <- Keys]).

%% The JIT's machine code is not in a carrier.
code(Vm) -> max(0, area([<<"loaded_code">>], Vm) - area([<<"external_alloc">>], Vm)).

%% Tables, atoms and code are blocks of ll_alloc.
blocks(true, Vm) ->
    Long = [line(tables, "process table (+P)", area(?PROCESS_TABLE, Vm)),
            line(tables, "port table (+Q)", area(?PORT_TABLE, Vm)),
            line(tables, "exports, funs and modules", area(?EXPORTS, Vm)),
            line(terms, "atoms", area(?ATOMS, Vm)),
            line(code, "code", code(Vm))],
    [line(terms, "processes: heaps and stacks", used(<<"eheap_alloc">>, Vm)),
     line(terms, "binaries", used(<<"binary_alloc">>, Vm)),
     line(terms, "ETS tables", used(<<"ets_alloc">>, Vm)),
     line(terms, "literals", used(<<"literal_alloc">>, Vm))]
        ++ Long
        ++ [line(other, "process structures, timers, monitors", used(<<"fix_alloc">>, Vm)),
            line(other, "drivers and ports", used(<<"driver_alloc">>, Vm)),
            line(other, "the scheduler and other long-lived data of the VM",
                 max(0, used(<<"ll_alloc">>, Vm) - total(Long)) + used(<<"std_alloc">>, Vm)),
            line(other, "temporary data of the VM",
                 used(<<"sl_alloc">>, Vm) + used(<<"temp_alloc">>, Vm))];
%% Without carriers the VM counts only its areas. The other sizes come from the lists of processes
%% and tables, and binaries have none.
blocks(false, #{processes := Processes, tables := Tables} = Vm) ->
    Sum = fun(Items) -> lists:sum([Memory || #{memory := Memory} <- Items]) end,
    [line(terms, "processes: heaps and stacks", Sum(Processes)),
     line(terms, "ETS tables", Sum(Tables)),
     line(terms, "literals", used(<<"literal_alloc">>, Vm)),
     line(tables, "process table (+P)", area(?PROCESS_TABLE, Vm)),
     line(tables, "port table (+Q)", area(?PORT_TABLE, Vm)),
     line(tables, "exports, funs and modules", area(?EXPORTS, Vm)),
     line(terms, "atoms", area(?ATOMS, Vm)),
     line(code, "code", code(Vm)),
     line(other, "temporary data of the VM", used(<<"temp_alloc">>, Vm))].

line(Group, Name, Bytes) -> #{group => Group, name => Name, bytes => Bytes}.

%% Internal functions: the mappings of the kernel

rss(Group, Groups) -> number(rss, Group, Groups).

size(Group, Groups) -> number(size, Group, Groups).

files(Groups) ->
    [line(vm, "the VM's program", rss(program, Groups)),
     line(vm, "the VM's static data", rss(data, Groups)),
     line(vm, "shared libraries", rss(libraries, Groups)),
     line(vm, "machine code of the JIT (each page is mapped twice)", rss(jit, Groups)),
     line(vm, "other mapped files", rss(files, Groups)),
     line(stacks, "stacks of threads", rss(stacks, Groups)),
     line(vm, "pages of the kernel", rss(system, Groups))].

%% The address space that belongs to no carrier is memory of C code. Under +Mea min the blocks that
%% the VM does not count lie in there.
rest(Known, Counted, Groups) ->
    Size = size(anonymous, Groups) + size(heap, Groups),
    Untouched = Size - rss(anonymous, Groups) - rss(heap, Groups),
    Outside = max(0, Size - Known),
    Named = case has_mark(Counted, Groups) of
                true -> min(Outside, size(heap, Groups));
                false -> Outside
            end,
    NotTouched = min(Named, size(heap, Groups) - rss(heap, Groups)),
    [line(c_code, c_code(Counted, Groups), Named - NotTouched),
     line(untouched, "never touched: pages of the above that take no memory",
          NotTouched - Untouched)].

%% Only glibc marks its memory, and only a VM with shared libraries has it.
has_mark(Counted, Groups) -> Counted andalso rss(libraries, Groups) > 0.

c_code(false, _) ->
    "C library: binaries, other blocks and free memory (not counted under +Mea min)";
c_code(true, #{libraries := _}) -> "C library: memory outside of carriers, and its free memory";
c_code(true, _) -> "C code: the C library, and the launcher's block of the pack".

%% @doc Writes the account as the rows of a table. The first row is the head.
-spec rows(account()) -> [[unicode:chardata() | integer()]].
rows(#{rss := Rss, lines := Lines}) ->
    [["memory", "bytes", "share"]
     | [[Name, Bytes, share(Bytes, Rss)] || #{name := Name, bytes := Bytes} <- Lines]]
        ++ [["resident (RSS)", Rss, "100.0 %"]].

share(Bytes, Rss) -> io_lib:format("~.1f %", [100 * Bytes / max(1, Rss)]).

-define(TOPS, 8).

%% @doc Writes the largest processes and tables as rows. The processes that the boot leaves are
%% among them. `unused' is the free part of a process's heaps.
-spec tops(account()) -> [[[unicode:chardata() | integer()]]].
tops(#{vm := #{processes := Processes, tables := Tables}}) ->
    [[["process", "bytes", "unused"]
      | [[Name, Memory, Unused]
         || #{name := Name, memory := Memory, unused := Unused} <- top(Processes)]]
     || Processes =/= []]
        ++ [[["ETS table", "bytes"]
             | [[Name, Memory] || #{name := Name, memory := Memory} <- top(Tables)]]
            || Tables =/= []].

%% Processes with one name count together.
top(Items) ->
    Sums = lists:foldl(fun(#{name := Name} = Item, Before) ->
                               maps:update_with(Name, fun(Old) -> joined(Item, Old) end,
                                                Item#{count => 1}, Before)
                       end, #{}, Items),
    [case Count of
         1 -> Item;
         _ -> Item#{name := io_lib:format("~ts (~b)", [Name, Count])}
     end || #{name := Name, count := Count} = Item
                <- lists:sublist(sorted_by_memory(maps:values(Sums)), ?TOPS)].

joined(#{memory := Memory} = Item, #{memory := OldMemory, count := Count} = Old) ->
    maps:merge(Old#{memory := OldMemory + Memory, count := Count + 1},
               #{unused => maps:get(unused, Item, 0) + maps:get(unused, Old, 0)}).

sorted_by_memory(Items) ->
    lists:sort(fun(#{memory := One}, #{memory := Other}) -> One >= Other end, Items).

%% @doc Returns the account as data (docs/json.md).
-spec json(account()) -> whittle_json:json().
json(#{rss := Rss, lines := Lines, unexplained := Unexplained, second_source := Second,
       vm := #{processes := Processes, tables := Tables, process_count := Count,
               port_count := Ports, atom_count := Atoms}}) ->
    #{rss => Rss, unexplained => Unexplained, second_source => Second,
      lines => [text(Line) || Line <- Lines],
      processes => Count, ports => Ports, atoms => Atoms,
      largest_processes => [text(maps:with([name, memory, unused], Item))
                            || Item <- top(Processes)],
      largest_tables => [text(maps:with([name, memory], Item)) || Item <- top(Tables)]}.

text(#{name := Name} = Item) -> Item#{name := unicode:characters_to_binary(Name)}.
