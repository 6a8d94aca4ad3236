%% @doc Measures what one connection costs at each end.
%%
%% For each kind of connection, two small programs hold the two ends. Connections are added in
%% steps. After each step, this module reads what the allocators of the two VMs hold, the pages of
%% the two processes, and the slabs and the memory of the kernel. Each cost is the slope of a line
%% through these points. The parts are blocks of the VMs, free space between them, and slabs. Their
%% sum is compared with another account: the pages of the processes, and the memory that the kernel
%% counts for the control groups of the two programs.
%% @hidden
-module(whittle_load_account).

-export([measure/1, points/4, kinds/1, factors/0, costs/1, format_error/1]).

-export_type([options/0, kind/0, point/0, costs/0, account/0, error/0, event/0]).

-type options() :: #{connections := pos_integer(),
                     kinds := [kind()],
                     tell := fun((event()) -> term())}.

-type event() :: whittle_make:event() | {measuring, kind(), N :: pos_integer(), Of :: pos_integer(),
                                         Connections :: non_neg_integer()}.

%% The values of all factors
-type kind() :: #{transport := inet | inet_socket | socket,
                  security := plain | tls,
                  active := true | once | pos_integer(),
                  buffer := default | pos_integer(),
                  hibernate := boolean(),
                  traffic := idle | talking}.

%% Bytes in the allocators and pages of one end, and the memory of the kernel that belongs to it
-type vm() :: #{allocators := #{atom() => #{blocks := integer(), carriers := integer()}},
                process := whittle_load_memory:process(),
                kernel := non_neg_integer() | none}.     % without control groups

-type point() :: {Connections :: pos_integer(), Server :: vm(), Client :: vm(),
                  whittle_load_memory:kernel()}.

%% Bytes per connection; those of the kernel for both ends
-type costs() :: #{server := [part()], client := [part()], kernel := [part()],
                   measured := [part()],    % pages of each process, and the kernel's memory
                   total := cost(),         % the sum of these
                   unexplained := cost()}.  % the total less all other parts

-type part() :: {Name :: string(), cost()}.
-type cost() :: whittle_measure_statistics:slope().

-type account() :: {kind(), Connections :: pos_integer(), costs()}.

-type error() :: {directory, {file:filename(), file:posix() | badarg}}
               | {make, whittle_make:reason()}
               | {account, {Program :: server | client, Why :: term()}}
               | {memory, {file:filename(), atom()}}
               | unknown
               | {few_files, {Needed :: pos_integer(), Has :: non_neg_integer()}}.

-define(STEPS, 9).
%% A handshake of TLS takes about a millisecond of each end, and keys may be large.
-define(TLS_PART, 3).
%% Own descriptors of a program, and some for its start
-define(OWN_FILES, 64).
-define(PATIENCE_MS, 180_000).
-define(END_MS, 10_000).
%% Each connection that talks sends a line in this time.
-define(TALK_MS, 3000).

%% The caches of the kernel for sockets and their files. Other caches belong to other work.
-define(CACHES, [<<"TCP">>, <<"TCPv6">>, <<"sock_inode_cache">>, <<"dentry">>, <<"filp">>,
                 <<"eventpoll_epi">>, <<"eventpoll_pwq">>, <<"skbuff_head_cache">>,
                 <<"skbuff_small_head">>, <<"skbuff_fclone_cache">>, <<"tcp_bind_bucket">>,
                 <<"tcp_bind2_bucket">>, <<"lsm_inode_cache">>, <<"lsm_file_cache">>,
                 <<"request_sock_TCP">>]).

%% @doc Lists the factors, with their possible values. The first value of each is its default.
-spec factors() -> [{atom(), [{string(), term()}]}].
factors() ->
    [{transport, [{"inet", inet}, {"inet_socket", inet_socket}, {"socket", socket}]},
     {security, [{"plain", plain}, {"tls", tls}]},
     {active, [{"once", once}, {"true", true}, {"10", 10}]},
     {buffer, [{"64", 64}, {"default", default}]},
     {hibernate, [{"yes", true}, {"no", false}]},
     {traffic, [{"idle", idle}, {"talking", talking}]}].

%% @doc Lists the kinds of connections to measure. Each kind of the default differs from the first
%% one in one or two factors. With choices, the kinds are all combinations of the chosen values;
%% the other factors have their default.
-spec kinds([{atom(), term()}]) -> [kind()].
kinds([]) ->
    Base = base(),
    [Base | [maps:merge(Base, Change)
             || Change <- [#{hibernate => false}, #{buffer => default}, #{active => true},
                           #{active => 10}, #{traffic => talking},
                           #{hibernate => false, traffic => talking},
                           #{transport => inet_socket}, #{transport => socket},
                           #{security => tls}, #{security => tls, hibernate => false}]]];
kinds(Chosen) ->
    possible(lists:foldl(
               fun({Factor, Values}, Kinds) ->
                       case [Value || {Name, Value} <- Chosen, Name =:= Factor] of
                           [] -> [Kind#{Factor => element(2, hd(Values))} || Kind <- Kinds];
                           Given -> [Kind#{Factor => Value} || Kind <- Kinds, Value <- Given]
                       end
               end, [#{}], factors())).

%% TLS sits on `inet' here, and a raw socket has no active mode.
possible(Kinds) ->
    [Kind || #{transport := Transport, security := Security} = Kind <- lists:usort(Kinds),
             Security =:= plain orelse Transport =:= inet].

base() -> maps:from_list([{Factor, Value} || {Factor, [{_, Value} | _]} <- factors()]).

%% @doc Measures all kinds.
-spec measure(options()) -> {ok, [account()]} | {error, error()}.
measure(#{connections := Connections, kinds := Kinds, tell := Tell}) ->
    whittle_work:steps(
      [fun(_) -> files(Connections) end,
       fun(_) -> whittle_load_memory:read() end,
       fun(_) ->
               case whittle_unfinished:make_directory("whittle-load") of
                   {ok, Dir} ->
                       try
                           each(lists:zip(lists:seq(1, length(Kinds)), Kinds), length(Kinds),
                                Connections, Dir, Tell, #{}, [])
                       after whittle_unfinished:remove_directory(Dir)
                       end;
                   {error, {Dir, Reason}} -> {error, {directory, {Dir, Reason}}}
               end
       end]).

files(Connections) ->
    case whittle_load_machine:limits() of
        #{files := Files} when is_integer(Files), Files < Connections + ?OWN_FILES ->
            {error, {few_files, {Connections + ?OWN_FILES, Files}}};
        _ -> {ok, enough}
    end.

each([], _, _, _, _, _, Accounts) -> {ok, lists:reverse(Accounts)};
each([{N, #{security := Security} = Kind} | Kinds], Of, Most, Dir, Tell, Programs, Accounts) ->
    whittle_work:steps(
      [fun(_) -> program(Security, Dir, Tell, Programs) end,
       fun(#{Security := Program} = Built) ->
               Connections = case Security of
                                 plain -> Most;
                                 tls -> max(?STEPS + 1, Most div ?TLS_PART)
                             end,
               case points(Kind, Connections,
                           whittle_load_build:command(Program, Connections + ?OWN_FILES),
                           fun(Held) -> Tell({measuring, Kind, N, Of, Held}) end) of
                   {ok, Points} ->
                       each(Kinds, Of, Most, Dir, Tell, Built,
                            [{Kind, Connections, costs(Points)} | Accounts]);
                   {error, _} = Error -> Error
               end
       end]).

%% The program for plain connections is built without TLS.
program(Security, _, _, Programs) when is_map_key(Security, Programs) -> {ok, Programs};
program(Security, Dir, Tell, Programs) ->
    Input = filename:join([code:priv_dir(whittle_load), "programs", "connections"]),
    File = filename:join(Dir, "connections-" ++ atom_to_list(Security)),
    case whittle_make:make(#{input => Input, tell => Tell, out => File,
                             add => [ssl || Security =:= tls]}) of
        {ok, #{out := Out}} -> {ok, Programs#{Security => Out}};
        {error, Reason} -> {error, {make, Reason}}
    end.

%% @doc Measures one kind. The command starts the program at each end.
-spec points(kind(), pos_integer(), whittle_load_build:command(),
             fun((Connections :: non_neg_integer()) -> term())) ->
          {ok, [point(), ...]} | {error, error()}.
points(Kind, Connections, Command, Tell) ->
    [Server, Client] = Ends = [started(End, Command) || End <- [server, client]],
    try
        {listening, Number} = ask(Server, {listen, order(Kind)}),
        {ok, [point(Step, Kind, Number, Connections, Server, Client, Tell)
              || Step <- lists:seq(1, ?STEPS)]}
    catch
        throw:{account, Reason} -> {error, Reason}
    after
        [ended(End) || End <- Ends]
    end.

started(End, Command) ->
    Port = whittle_load_build:open(Command),
    case {whittle_load_cgroup:make(atom_to_list(End)), erlang:port_info(Port, os_pid)} of
        {{ok, Group}, {os_pid, Pid}} ->
            _ = whittle_load_cgroup:add(Pid, Group),
            {End, Port, Group};
        {{ok, Group}, undefined} ->
            _ = whittle_load_cgroup:remove(Group),
            {End, Port, none};
        {none, _} -> {End, Port, none}
    end.

%% A group can be removed only when its processes have ended. The exit signal of a broken port must
%% not reach this process.
ended({_, Port, Group}) ->
    true = unlink(Port),
    _ = case erlang:port_info(Port, os_pid) of
            {os_pid, Pid} ->
                _ = catch port_command(Port, term_to_binary(stop)),
                receive {Port, {exit_status, _}} -> ok
                after ?END_MS -> os:cmd("kill -KILL " ++ integer_to_list(Pid))
                end;
            undefined -> receive {Port, {exit_status, _}} -> ok after 0 -> ok end
        end,
    _ = catch port_close(Port),
    _ = [whittle_load_cgroup:remove(Group) || Group =/= none],
    ok.

%% The first step is twice as large as the others: it also fills what the VMs had in reserve.
point(Step, #{traffic := Traffic} = Kind, Number, Connections, Server, Client, Tell) ->
    Before = held(Step - 1, Connections),
    Held = held(Step, Connections),
    _ = Tell(Held),
    Errors = #{} = element(2, ask(Client, {connect, Held - Before, Number, {127, 0, 1, Step},
                                           order(Kind)})),
    _ = [throw({account, {account, {client, {connect, Errors}}}}) || map_size(Errors) > 0],
    {Ours, Theirs} = case Traffic of
                         idle ->
                             {measured(ask(Server, {measure, Held}), server),
                              measured(ask(Client, {measure, Held}), client)};
                         talking ->
                             _ = measured(ask(Server, {measure, Held}), server),
                             talking = ask(Client, {talk, ?TALK_MS}),
                             receive after ?TALK_MS -> ok end,
                             {measured(ask(Server, busy), server),
                              measured(ask(Client, busy), client)}
                     end,
    {Held, vm(Ours, Server), vm(Theirs, Client), read(whittle_load_memory:read())}.

held(0, _) -> 0;
held(Step, Connections) -> Connections * (Step + 1) div (?STEPS + 1).

measured({measured, #{allocators := _} = Memory}, _) -> Memory;
measured(Other, End) -> throw({account, {account, {End, Other}}}).

vm(#{allocators := Allocators}, {End, Port, Group}) ->
    case erlang:port_info(Port, os_pid) of
        {os_pid, Pid} ->
            #{allocators => Allocators, process => read(whittle_load_memory:process(Pid)),
              kernel => case Group of
                            none -> none;
                            _ -> read(whittle_load_cgroup:kernel(Group))
                        end};
        undefined -> throw({account, {account, {End, ended}}})
    end.

read({ok, Value}) -> Value;
read({error, Reason}) -> throw({account, Reason}).

order(#{transport := Api, security := Security, active := Active, buffer := Buffer,
        hibernate := Hibernate}) ->
    #{api => Api, active => Active, buffer => Buffer, hibernate => Hibernate,
      transport => case Security of plain -> tcp; tls -> tls end}.

%% A program that has ended takes no orders, but its exit code follows.
ask({End, Port, _}, Order) ->
    _ = catch port_command(Port, term_to_binary(Order)),
    receive
        {Port, {data, Bytes}} -> binary_to_term(Bytes);
        {Port, {exit_status, Status}} -> throw({account, {account, {End, {exit_status, Status}}}})
    after ?PATIENCE_MS -> throw({account, {account, {End, timeout}}})
    end.

%% Internal functions: slopes

%% @doc Computes the costs from the points of one kind.
-spec costs([point(), ...]) -> costs().
costs(Points) ->
    Server = vm_parts(fun({_, Vm, _, _}) -> Vm end),
    Client = vm_parts(fun({_, _, Vm, _}) -> Vm end),
    Kernel = kernel_parts(Points),
    Measured = measured(Points),
    Sum = fun(Parts) -> fun(Point) -> lists:sum([Value(Point) || {_, Value} <- Parts]) end end,
    Total = Sum(Measured),
    Parts = Sum(Server ++ Client ++ Kernel),
    #{server => fitted(Server, Points), client => fitted(Client, Points),
      kernel => fitted(Kernel, Points), measured => fitted(Measured, Points),
      total => slope(Total, Points),
      unexplained => slope(fun(Point) -> Total(Point) - Parts(Point) end, Points)}.

measured() ->
    Pages = fun(#{process := #{anonymous := Anonymous, files := Files}}) -> Anonymous + Files end,
    [{"server's VM", fun({_, Vm, _, _}) -> Pages(Vm) end},
     {"client's VM", fun({_, _, Vm, _}) -> Pages(Vm) end},
     {"kernel, server", fun({_, #{kernel := Bytes}, _, _}) -> Bytes end},
     {"kernel, client", fun({_, _, #{kernel := Bytes}, _}) -> Bytes end}].

%% Without control groups, the memory of the kernel is that of the whole machine.
measured([{_, #{kernel := Ours}, #{kernel := Theirs}, _} | _])
  when is_integer(Ours), is_integer(Theirs) ->
    measured();
measured(_) ->
    lists:sublist(measured(), 2)
        ++ [{"kernel", fun({_, #{process := #{tables := Ours}}, #{process := #{tables := Theirs}},
                            #{slabs := Slabs, other := Other}}) ->
                               Other + Ours + Theirs
                                   + lists:sum(maps:values(maps:with(?CACHES, Slabs)))
                       end}].

fitted(Parts, Points) -> [{Name, slope(Value, Points)} || {Name, Value} <- Parts].

slope(Value, Points) ->
    whittle_measure_statistics:slope([{element(1, Point), Value(Point)} || Point <- Points]).

vm_parts(Vm) ->
    Blocks = fun(Names) ->
                     fun(Point) ->
                             #{allocators := Allocators} = Vm(Point),
                             lists:sum([B || #{blocks := B} <- maps:values(
                                                                 maps:with(Names, Allocators))])
                     end
             end,
    [{"heap", Blocks([eheap_alloc])},
     {"process", Blocks([fix_alloc])},
     {"port, socket", Blocks([driver_alloc])},
     {"buffers", Blocks([binary_alloc])},
     {"other blocks", Blocks([ets_alloc, literal_alloc, ll_alloc, std_alloc, sl_alloc])},
     {"free in carriers",
      fun(Point) ->
              #{allocators := Allocators} = Vm(Point),
              lists:sum([C - B || {Name, #{blocks := B, carriers := C}} <- maps:to_list(Allocators),
                                  Name =/= temp_alloc])
      end},
     {"never touched", fun(Point) ->
                               #{process := #{untouched := Bytes}} = Vm(Point),
                               -Bytes
                       end}].

kernel_parts(Points) ->
    {_, _, _, #{slabs := Known}} = hd(Points),
    [{unicode:characters_to_list(Name), fun({_, _, _, #{slabs := Slabs}}) ->
                                                maps:get(Name, Slabs, 0)
                                        end} || Name <- ?CACHES, is_map_key(Name, Known)]
        ++ [{"page tables", fun({_, #{process := #{tables := Ours}},
                                 #{process := #{tables := Theirs}}, _}) -> Ours + Theirs end}].

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({few_files, {Needed, Has}}) ->
    io_lib:format("each end needs ~b descriptors, and a process may have ~b: give fewer "
                  "--connections, or raise the hard limit (ulimit -Hn)", [Needed, Has]);
format_error({memory, {File, unknown}}) -> [File, " lacks a number: this needs Linux 4.5 or newer"];
format_error({memory, {"/proc/slabinfo" = File, Reason}}) ->
    [File, ": ", file:format_error(Reason), ": run the account as root"];
format_error(unknown) -> "the kernel does not tell its memory: try again";
format_error({memory, {File, Reason}}) -> [File, ": ", file:format_error(Reason)];
format_error({account, {End, {short, Held}}}) ->
    io_lib:format("the ~s holds only ~b connections after ~b s: give fewer --connections",
                  [End, Held, ?PATIENCE_MS div 1000]);
format_error({account, {client, {connect, Errors}}}) ->
    ["connections failed: ",
     lists:join(", ", [io_lib:format("~b with ~0tP", [N, Why, 6])
                       || {Why, N} <- maps:to_list(Errors)]),
     ": give fewer --connections"];
format_error({account, {End, {exit_status, Status}}}) ->
    io_lib:format("the ~s ended (exit code ~b): its messages stand above", [End, Status]);
format_error({account, {End, timeout}}) ->
    io_lib:format("the ~s did not answer within ~b s: give fewer --connections",
                  [End, ?PATIENCE_MS div 1000]);
format_error({account, {End, Other}}) ->
    io_lib:format("the ~s did not work in order (~0tP): this is a bug in Whittle", [End, Other, 8]).
