%% @doc Reads and writes recordings of `whittle trace': the functions that a run of the whole system
%% called.
%%
%% The option `--evidence' takes a recording. {@link whittle_shake_unplanned} compares the recorded
%% functions with a plan.
%%
%% The file is text. It holds `whittle evidence 2', the SHA-256 of the rest, and a term for each
%% VM, `{1, [{Module, MD5, [{Function, Arity}]}]}.' VMs that called functions of the same code
%% share one term, whose first element is the number of these VMs. So the recording
%% keeps the program apart from VMs that ran beside it, such as tests written in Erlang.
-module(whittle_shake_evidence).

-export([packets/1, merge/1, join/1, calls/1, modules/1, size/1]).
-export([signature/0, to_binary/1, from_binary/1]).
-export([of_system/2, other_program/3]).
-export([format_error/1]).

-export_type([evidence/0, calls/0, of_system/0, error/0]).

-type md5() :: <<_:128>>.

%% The functions that a run called in one version of a module. The recorder writes lists of these.
-type calls() :: {module(), md5(), [whittle_shake_summary:fa()]}.

%% The number of VMs that ran the same code, and the functions that they called.
-opaque evidence() :: #{[code(), ...] => {pos_integer(), functions()}}.

-type code() :: {module(), md5()}.
-type functions() :: #{code() => [whittle_shake_summary:fa()]}.

-type of_system() ::
        #{seen := [mfa()],                          % called functions of the system
          anew := [module()],                       % modules that a VM of the program recompiled
          counted := pos_integer(),                 % VMs that ran the program
          passed := non_neg_integer()}.             % VMs that did not run this system

-type error() ::
        no_evidence | damaged | {version, binary()}     % the fault of the file
      | {other_code, module()}                          % differs from the system's
      | nothing_of_it                                   % no module of the program
      %% The name of the system, and the recorded modules of the other program.
      | {other_program, {Name :: string(), [module(), ...]}}
      | whittle_system:error().

%% The largest reading of a VM, in bytes. The names of all functions of the largest systems take a
%% few megabytes.
-define(SIGNATURE, "whittle evidence ").
-define(MAX_PACKET, 64 * 1024 * 1024).

%% The most modules of another program that an error names.
-define(SHOWN, 3).

%% Files

%% @doc Splits the recording of one VM into its calls, and tells whether it is `whole'. A
%% recording is whole if the recorder read the VM until its end. An incomplete packet ends the
%% recording: the node was killed while it wrote.
-spec packets(binary()) -> {[calls()], whole | cut_short}.
packets(Bytes) -> packets(Bytes, [], cut_short).

packets(<<Size:32, Packet:Size/binary, Rest/binary>>, Before, End) ->
    case whittle_bounded:term(Packet, ?MAX_PACKET) of
        {ok, last} ->
            packets(Rest, Before, whole);
        {ok, Calls} ->
            case are_calls(Calls) of
                true -> packets(Rest, [Calls | Before], End);
                false -> {lists:append(lists:reverse(Before)), cut_short}
            end;
        {error, _} ->
            {lists:append(lists:reverse(Before)), cut_short}
    end;
packets(_, Before, End) ->
    {lists:append(lists:reverse(Before)), End}.

%% @doc Makes evidence from the calls of each VM.
-spec merge([[calls()]]) -> evidence().
merge(Vms) -> vms([{1, functions(Calls)} || [_ | _] = Calls <- Vms]).

%% @doc Joins several recordings.
-spec join([evidence()]) -> evidence().
join(Evidences) -> vms([Vm || Evidence <- Evidences, Vm <- maps:values(Evidence)]).

vms(Vms) ->
    lists:foldl(fun({Count, Functions}, Evidence) ->
                        maps:update_with(lists:sort(maps:keys(Functions)),
                                         fun({Before, These}) ->
                                                 {Before + Count, both(These, Functions)}
                                         end, {Count, Functions}, Evidence)
                end, #{}, Vms).

functions(Calls) ->
    maps:map(fun(_, Lists) -> lists:usort(lists:append(Lists)) end,
             maps:groups_from_list(fun({M, Md5, _}) -> {M, Md5} end,
                                   fun({_, _, Functions}) -> Functions end, Calls)).

both(One, Other) -> maps:merge_with(fun(_, Some, More) -> lists:umerge(Some, More) end, One, Other).

%% @doc Counts the functions and modules in a recording.
-spec size(evidence()) -> {Functions :: non_neg_integer(), Modules :: non_neg_integer()}.
size(Evidence) ->
    All = union(maps:values(Evidence)),
    {lists:sum([length(Functions) || Functions <- maps:values(All)]), map_size(All)}.

%% @doc Lists the modules in a recording, each once.
-spec modules(evidence()) -> [module()].
modules(Evidence) -> lists:usort([M || {M, _} <- lists:append(maps:keys(Evidence))]).

%% @doc Lists the functions that any VM called, sorted. Each version of a module appears once.
-spec calls(evidence()) -> [calls()].
calls(Evidence) -> listed(union(maps:values(Evidence))).

union(Vms) -> lists:foldl(fun({_, Functions}, Others) -> both(Others, Functions) end, #{}, Vms).

listed(All) -> [{M, Md5, Functions} || {{M, Md5}, Functions} <- lists:sort(maps:to_list(All))].

%% @doc Returns the first bytes of each recording, also of one that another version of Whittle
%% wrote.
-spec signature() -> binary().
signature() -> <<?SIGNATURE>>.

%% @doc Writes the bytes of the file.
-spec to_binary(evidence()) -> binary().
to_binary(Evidence) ->
    Terms = unicode:characters_to_binary(
              [io_lib:format("~0tp.~n", [{Count, [{M, binary:encode_hex(Md5), Called}
                                                  || {M, Md5, Called} <- listed(Functions)]}])
               || {_, {Count, Functions}} <- lists:sort(maps:to_list(Evidence))]),
    iolist_to_binary([?SIGNATURE "2\n", sum(Terms), $\n, Terms]).

%% @doc Reads the bytes of a file. Errors: `no_evidence' (another kind of file), `version',
%% `damaged'.
-spec from_binary(binary()) -> {ok, evidence()} | {error, error()}.
from_binary(<<?SIGNATURE "2\n", Sum:64/binary, $\n, Terms/binary>>) ->
    case sum(Terms) of
        Sum ->
            case whittle_term:parse(Terms) of
                {ok, Parsed} -> from_terms(Parsed);
                {error, _} -> {error, damaged}
            end;
        _ -> {error, damaged}
    end;
from_binary(<<?SIGNATURE, Rest/binary>>) ->
    case binary:split(Rest, <<"\n">>) of
        [<<"2">>, _] -> {error, damaged};
        [Version, _] -> {error, {version, Version}};
        [_] -> {error, damaged}
    end;
from_binary(_) ->
    {error, no_evidence}.

from_terms(Terms) ->
    Vms = [{Count, [from_hex(Code) || Code <- Listed]}
           || {Count, Listed} <- Terms, is_integer(Count), Count > 0, length(Listed) >= 0],
    case length(Vms) =:= length(Terms)
        andalso lists:all(fun({_, Calls}) -> Calls =/= [] andalso are_calls(Calls) end, Vms) of
        true -> {ok, vms([{Count, functions(Calls)} || {Count, Calls} <- Vms])};
        false -> {error, damaged}
    end.

are_calls(Calls) -> whittle_term:all(fun is_calls/1, Calls).

is_calls({M, <<_:128>>, Functions}) when is_atom(M) ->
    whittle_term:all(fun({F, A}) -> is_atom(F) andalso is_integer(A);
                        (_) -> false
                     end, Functions);
is_calls(_) ->
    false.

from_hex({M, Hex, Functions}) ->
    try {M, binary:decode_hex(Hex), Functions}
    catch error:badarg -> none
    end;
from_hex(_) ->
    none.

sum(Terms) -> binary:encode_hex(crypto:hash(sha256, Terms)).

%% Evidence and systems

%% @doc Selects the functions of a system from the VMs that are evidence for it.
%%
%% A VM does not count where it has a module of OTP, or of Whittle, only in versions that differ
%% from the system's: it belongs to another OTP. Of the other VMs, those count that ran the
%% program. Such a VM called a function of a module that is the system's own, neither OTP's nor
%% Whittle's. If the system has no such module, all these VMs count. VMs that asked a node of the
%% program (`whittle_control') count too.
%%
%% A program may recompile one of its modules while it runs. The calls of the VM then have
%% another version of that module, beside the unchanged other modules of the program. Such modules
%% are `anew'. The recording does not tell which of their functions in this build were called.
%%
%% The error `other_code' has two causes. In the first, a VM called no module of the program in
%% the system's version, but called one of them in another version that no VM called in the
%% system's version. In the second, all VMs that ran the program belong to another OTP. The error
%% `nothing_of_it' means that no VM ran the program.
-spec of_system(evidence(), whittle_system:system()) -> {ok, of_system()} | {error, error()}.
of_system(Evidence, System) ->
    Named = maps:from_keys(modules(Evidence), []),
    Identity = fun(_, M, Beam) -> [{M, whittle_beam:identity(whittle_beam:chunks(Beam))}
                                   || is_map_key(M, Named)] end,
    case whittle_modules:each(Identity, System) of
        {ok, Found} -> of_code(Evidence, maps:from_list(lists:append(Found)), System);
        {error, _} = Error -> Error
    end.

%% `Here' has the versions of those modules of the system that the recording names.
of_code(Evidence, Here, System) ->
    Names = of_apps(fun is_input/1, System),
    {Own, Others} = {maps:with(Names, Here), maps:without(Names, Here)},
    Program = case Names of [] -> Others; _ -> Own end,
    Asking = maps:with(of_apps(fun(#{name := Name}) -> Name =:= whittle_control end, System), Here),
    All = maps:values(Evidence),
    Vms = [{Vm, changed(Functions, Others)} || {_, Functions} = Vm <- All],
    Ran = [Found || {{_, Functions}, _} = Found <- Vms,
                    runs(Functions, maps:merge(Program, Asking))],
    Counted = [Vm || {Vm, []} <- Ran],
    Called = union(Counted),
    Differing = changed(union(All), Own),
    Anew = [M || M <- Differing, {_, Functions} <- All, runs(Functions, Own),
                 lists:member(M, changed(Functions, Own))],
    case {Differing -- lists:usort(Anew), runs(Called, Program)} of
        {[M | _], _} -> {error, {other_code, M}};
        {[], true} ->
            {ok, #{seen => lists:sort([{M, F, A} || {M, _} = Code <- maps:to_list(Here),
                                                    {F, A} <- maps:get(Code, Called, [])]),
                   anew => lists:usort(Anew),
                   counted => count(Counted), passed => count(All) - count(Counted)}};
        {[], false} ->
            {error, not_of_it([Changed || {_, Changed} <- case Ran of [] -> Vms; _ -> Ran end])}
    end.

%% @doc Tells whether an error of {@link of_system/2} means that the recording is of another
%% program, and names that program. `Own' holds the recorded modules that do not belong to OTP or
%% Whittle. The recording is of another program if the system has none of them.
-spec other_program(error(), [module()], whittle_system:system()) -> error().
other_program(Error, [_ | _] = Own, System) when Error =:= nothing_of_it;
                                                 element(1, Error) =:= other_code ->
    Here = maps:from_keys(of_apps(fun(_) -> true end, System), []),
    case {of_apps(fun is_input/1, System), lists:any(fun(M) -> is_map_key(M, Here) end, Own)} of
        {[_ | _], false} -> {other_program, {whittle_system:name(System), Own}};
        _ -> Error
    end;
other_program(Error, _, _) ->
    Error.

is_input(#{origin := #{kind := Kind}}) -> Kind =:= input.

%% Tells whether all VMs that might have run the program belong to another OTP.
not_of_it(Changed) ->
    case lists:member([], Changed) of
        false when Changed =/= [] -> {other_code, hd(hd(Changed))};
        _ -> nothing_of_it
    end.

of_apps(Is, System) ->
    [M || #{modules := Modules} = App <- whittle_system:apps(System), Is(App),
          M <- maps:keys(Modules)].

runs(Functions, Versions) ->
    lists:any(fun(Code) -> is_map_key(Code, Functions) end, maps:to_list(Versions)).

%% Lists the modules of which functions were called, but none of this version.
changed(Functions, Versions) ->
    Named = maps:from_keys([M || {M, _} <- maps:keys(Functions)], []),
    [M || {M, _} = Code <- lists:sort(maps:to_list(Versions)), is_map_key(M, Named),
          not is_map_key(Code, Functions)].

count(Vms) -> lists:sum([Count || {Count, _} <- Vms]).

%% @doc Describes an error in one line. The line ends with what to do.
-spec format_error(error()) -> unicode:chardata().
format_error(no_evidence) ->
    "is not a recording of `whittle trace': name one with --evidence";
format_error(damaged) ->
    "is damaged: record it again with `whittle trace'";
format_error({version, Version}) ->
    ["has the format of another version of Whittle (", Version, "): record it "
     "again with `whittle trace'"];
format_error({other_code, Module}) ->
    ["the recording is of another version of the program: its module ",
     whittle_shake_name:text({Module}), " is different; record again with `whittle trace', with "
     "the program and the OTP of this build"];
format_error(nothing_of_it) ->
    "the recording has no function of the program: record it with `whittle trace' from a "
        "build without --shake, and end the run with init:stop/0 or SIGTERM, not with halt/1";
format_error({other_program, {Name, [First | _] = Modules}}) ->
    {Shown, Others} = lists:split(min(?SHOWN, length(Modules)), Modules),
    ["the recording is of another program (",
     case Modules of [_] -> "module "; _ -> "modules " end,
     lists:join(", ", [whittle_shake_name:text({Module}) || Module <- Shown]),
     [io_lib:format(" and ~b more", [length(Others)]) || Others =/= []],
     "), and this build is of ", Name, ": name the recording of ", Name,
     " with --evidence, or build the program of ", whittle_shake_name:text({First})];
format_error(Error) ->
    whittle_system:format_error(Error).
