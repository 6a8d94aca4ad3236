%% @doc Evidence: the functions that a run of the whole system called, as `whittle trace'
%% records them, and what a plan has to do with them.
%%
%% The file is text: `whittle evidence 1', the SHA-256 of what follows, then a term for each
%% version of a module, `{Module, MD5, [{Function, Arity}]}.'
%%
%% A function that was called and would be cut is a mistake of the shaker, a door that was
%% declared too narrow, or a feature that the run used and the program cannot be seen to
%% use. Not so what a feature that is off answers for ({@link whittle_shake_feature}), and
%% what is behind it: OTP's boot starts it in the whole system, and does without it.
-module(whittle_shake_evidence).

-import(whittle_steps, [steps/1]).

-export([packets/1, merge/1, size/1, to_binary/1, from_binary/1]).
-export([of_system/2, plan/2, unplanned/3]).
-export([format_error/1, details/1]).

-export_type([evidence/0, calls/0, unplanned/0, error/0]).

-type md5() :: <<_:128>>.

%% What one version of a module was seen to call; the recorder writes lists of these.
-type calls() :: {module(), md5(), [whittle_shake_summary:fa()]}.

-opaque evidence() :: #{{module(), md5()} => [whittle_shake_summary:fa()]}.

%% A function that was called and would be cut: for a feature that is off, or since nobody
%% was seen to call it.
-type unplanned() :: {mfa(), {feature, whittle_shake_feature:name()} | no_edge}.

-type error() ::
        no_evidence | damaged | {version, binary()}     % of the file
      | {other_code, module()}                          % than the system's
      | nothing_of_it                                   % no module of the system
      | {unplanned, [unplanned()]}
      | whittle_shake:error().

%% Files

%% @doc What the recorder wrote. A packet that is not whole was being written when its node
%% was killed, and ends the record.
-spec packets(binary()) -> [calls()].
packets(<<Size:32, Packet:Size/binary, Rest/binary>>) ->
    try binary_to_term(Packet) of
        Calls ->
            case are_calls(Calls) of
                true -> Calls ++ packets(Rest);
                false -> []
            end
    catch
        error:badarg -> []
    end;
packets(_) ->
    [].

%% @doc Of several records, whichever nodes they are of.
-spec merge([calls()]) -> evidence().
merge(Calls) ->
    Grouped = maps:groups_from_list(fun({M, Md5, _}) -> {M, Md5} end,
                                    fun({_, _, Functions}) -> Functions end, Calls),
    maps:map(fun(_, Lists) -> lists:usort(lists:append(Lists)) end, Grouped).

%% @doc How many functions it names, of how many modules.
-spec size(evidence()) -> {Functions :: non_neg_integer(), Modules :: non_neg_integer()}.
size(Evidence) ->
    {lists:sum([length(Functions) || Functions <- maps:values(Evidence)]), map_size(Evidence)}.

%% @doc The file's bytes.
-spec to_binary(evidence()) -> binary().
to_binary(Evidence) ->
    Terms = unicode:characters_to_binary(
              [io_lib:format("~0tp.~n", [{M, binary:encode_hex(Md5), Functions}])
               || {{M, Md5}, Functions} <- lists:sort(maps:to_list(Evidence))]),
    iolist_to_binary(["whittle evidence 1\n", sum(Terms), $\n, Terms]).

%% @doc Reads it back. Errors: `no_evidence' (another kind of file), `version', `damaged'.
-spec from_binary(binary()) -> {ok, evidence()} | {error, error()}.
from_binary(<<"whittle evidence 1\n", Sum:64/binary, $\n, Terms/binary>>) ->
    case sum(Terms) of
        Sum ->
            case whittle_term:parse(Terms) of
                {ok, Parsed} -> from_terms(Parsed);
                {error, _} -> {error, damaged}
            end;
        _ -> {error, damaged}
    end;
from_binary(<<"whittle evidence ", Rest/binary>>) ->
    case binary:split(Rest, <<"\n">>) of
        [<<"1">>, _] -> {error, damaged};
        [Version, _] -> {error, {version, Version}};
        [_] -> {error, damaged}
    end;
from_binary(_) ->
    {error, no_evidence}.

from_terms(Terms) ->
    Calls = [{M, from_hex(Hex), Functions} || {M, Hex, Functions} <- Terms],
    case length(Calls) =:= length(Terms) andalso are_calls(Calls) of
        true -> {ok, merge(Calls)};
        false -> {error, damaged}
    end.

are_calls(Calls) -> is_proper(Calls) andalso lists:all(fun is_calls/1, Calls).

is_proper(List) when length(List) >= 0 -> true;
is_proper(_) -> false.

is_calls({M, <<_:128>>, Functions}) when is_atom(M) ->
    is_proper(Functions) andalso lists:all(fun({F, A}) -> is_atom(F) andalso is_integer(A);
                                              (_) -> false
                                           end, Functions);
is_calls(_) ->
    false.

from_hex(Hex) ->
    try binary:decode_hex(Hex)
    catch error:badarg -> none
    end.

sum(Terms) -> binary:encode_hex(crypto:hash(sha256, Terms)).

%% What it says of a system

%% @doc The functions of the system that it names. What is not of the system (tests, tools
%% that ran them) does not count. Errors: `other_code', `nothing_of_it'.
-spec of_system(evidence(), whittle_system:system()) -> {ok, [mfa()]} | {error, error()}.
of_system(Evidence, System) ->
    Seen = maps:groups_from_list(fun({M, _}) -> M end, maps:keys(Evidence)),
    Identity = fun(_, M, Beam) -> {M, whittle_beam:identity(whittle_beam:chunks(Beam))} end,
    case whittle_pass_strip:each(Identity, System) of
        {ok, All} ->
            Here = [Code || {M, _} = Code <- All, is_map_key(M, Seen)],
            case {[M || {M, _} = Code <- lists:sort(Here), not is_map_key(Code, Evidence)], Here} of
                {[M | _], _} -> {error, {other_code, M}};
                {[], []} -> {error, nothing_of_it};
                {[], _} -> {ok, lists:usort([{M, F, A} || {M, _} = Code <- Here,
                                                          {F, A} <- maps:get(Code, Evidence)])}
            end;
        {error, _} = Error -> Error
    end.

%% @doc A plan as {@link whittle_shake:plan/2} makes it, checked with the option `evidence',
%% where that is given: what it names and the plan would cut is an error (`unplanned'), or
%% kept, where the option `seen' is `keep'. With `only' nothing else is at hand.
-spec plan(whittle_system:system(), whittle_shake:options()) ->
          {ok, whittle_shake:plan()} | {error, error()}.
plan(System, #{evidence := Evidence, preloaded := Preloaded} = Options) ->
    steps([fun(_) -> of_system(Evidence, System) end,
           fun(Seen) ->
                   steps([fun(_) -> whittle_shake:facts(System, Preloaded) end,
                          fun(Facts) -> with(Seen, System, Options#{facts => Facts}) end])
           end]);
plan(System, Options) ->
    whittle_shake:plan(System, Options).

%% What is loaded when it is called need not be right, only at hand: no more than was seen.
with(Seen, System, #{missing := load, seen := keep} = Options) ->
    whittle_shake:plan(System, Options#{called => maps:get(called, Options, []) ++ Seen});
with(Seen, System, #{missing := load, seen := only} = Options) ->
    whittle_shake:plan(System, Options#{called => Seen, only => Seen});
with(Seen, System, Options) ->
    steps([fun(_) -> whittle_shake:plan(System, Options) end,
           fun(Plan) -> checked(Seen, Plan, System, Options) end]).

checked(Seen, Plan, System, #{seen := What} = Options) ->
    Doing = #{features => whittle_shake_feature:standard(), off => maps:get(off, Options, [])},
    case {unplanned(Seen, Doing, Plan), What} of
        {[], _} -> {ok, Plan};
        {Unplanned, refuse} -> {error, {unplanned, Unplanned}};
        {Unplanned, keep} ->
            Kept = maps:get(called, Options, []) ++ [Mfa || {Mfa, _} <- Unplanned],
            On = maps:get(on, Options, []) ++ [Name || {_, {feature, Name}} <- Unplanned],
            More = Options#{called => Kept, on => lists:usort(On)},
            steps([fun(_) -> whittle_shake:plan(System, More) end,
                   fun(Next) -> checked(Seen, Next, System, More) end])
    end.

%% @doc The functions among those seen that the plan would cut, but for what features that
%% are off answer for. `off' are the features that a person does without: what only they
%% bring may be missing. Of functions that call each other only the first ones.
-spec unplanned([mfa()], #{features := whittle_shake_feature:features(),
                           off := [whittle_shake_feature:name()]}, whittle_shake:plan()) ->
          [unplanned()].
unplanned(Seen, #{features := Features, off := Off},
          #{reached := #{live := Live, blocked := Blocked, prices := Prices},
            answers := Answers, summaries := Summaries}) ->
    Called = maps:from_list([{Mfa, []} || Mfa <- Seen]),
    Modules = maps:from_list([{M, []} || {M, _, _} <- maps:keys(Live)]),
    Cut = maps:filter(fun(Mfa, _) ->
                              not is_in(Mfa, Live, Modules) andalso not is_in_c(Mfa, Summaries)
                      end, Called),
    Answered = maps:filter(fun(_, Answer) -> whittle_shake_feature:goes_on(Answer) end,
                           maps:from_list(Answers)),
    Used = [{To, {feature, Name}}
            || {Name, Edges} <- maps:to_list(maps:without(Off, Blocked)),
               To <- taken(Edges, Called, Answered), is_map_key(To, Cut)],
    %% Whose servers and callbacks the whole system starts, and what is shaken does not; or
    %% of which a person is told anyway.
    Known = [Name || {Name, Edges} <- maps:to_list(Blocked), {To, _} <- Edges,
                     is_map_key(To, Answered)] ++ [Name || {_, {feature, Name}} <- Used],
    Behind = behind([Mfa || {M, _, _} = Mfa <- maps:keys(Cut),
                            is_map_key(Mfa, Answered) orelse is_of(M, Known, Features)]
                    ++ [To || {To, _} <- Used], Cut, Summaries),
    Left = maps:without([Mfa || {Name, Mfas} <- maps:to_list(Prices), lists:member(Name, Off),
                                Mfa <- Mfas] ++ maps:keys(Behind), Cut),
    Later = [To || Mfa <- maps:keys(Left), To <- calls(Mfa, Summaries), To =/= Mfa],
    First = case maps:without(Later, Left) of
                None when map_size(None) =:= 0 -> Left;
                Some -> Some
            end,
    [{Mfa, no_edge} || Mfa <- lists:sort(maps:keys(First))] ++ lists:usort(Used).

is_of(M, Names, Features) ->
    case whittle_shake_feature:of_module(M, Features) of
        {ok, Name} -> lists:member(Name, Names);
        none -> false
    end.

%% What these call, and so on, as far as it was called and would be cut.
behind(Mfas, Cut, Summaries) -> behind(Mfas, Cut, Summaries, #{}).

behind([Mfa | Mfas], Cut, Summaries, Found) when is_map_key(Mfa, Found);
                                                 not is_map_key(Mfa, Cut) ->
    behind(Mfas, Cut, Summaries, Found);
behind([Mfa | Mfas], Cut, Summaries, Found) ->
    behind(calls(Mfa, Summaries) ++ Mfas, Cut, Summaries, Found#{Mfa => []});
behind([], _, _, Found) ->
    Found.

%% The functions that the run called by these edges into a feature that is off, but for those
%% that have answers. Where some have, the names of what is behind them (callbacks of a
%% server that is then not started) are edges that nobody takes.
taken(Edges, Called, Answered) ->
    {Answers, Others} = lists:partition(fun({To, _}) -> is_map_key(To, Answered) end, Edges),
    [To || {To, Reason} <- Others,
           Answers =:= [] orelse case Reason of
                                     {called, By} -> is_map_key(By, Called);
                                     _ -> false
                                 end].

%% module_info is in every module that is there.
is_in({M, module_info, _}, _, Modules) -> is_map_key(M, Modules);
is_in(Mfa, Live, _) -> is_map_key(Mfa, Live).

%% What stands in the module is for who reads it; the VM has the function in any case.
is_in_c(Mfa, Summaries) ->
    lists:member({erlang, nif_error, 1}, calls(Mfa, Summaries)).

calls({M, F, A}, Summaries) ->
    #{M := #{functions := #{{F, A} := #{calls := Calls}}}} = Summaries,
    Calls.

%% @doc One line for a person that ends with what to do.
-spec format_error(error()) -> unicode:chardata().
format_error(no_evidence) ->
    "is no file of `whittle trace': name one with --evidence";
format_error(damaged) ->
    "is damaged: record it again with `whittle trace'";
format_error({version, Version}) ->
    ["is of another version of whittle (", Version, "): record it again with `whittle trace'"];
format_error({other_code, Module}) ->
    ["the evidence is of another build: its ", whittle_shake_name:text({Module}),
     " is not the one that is built; record it again with `whittle trace'"];
format_error(nothing_of_it) ->
    "the evidence names no function of what is built: record it with `whittle trace' from a "
        "build without --shake";
format_error({unplanned, Unplanned}) ->
    [io_lib:format("~b", [length(Unplanned)]), " of the functions that the evidence names would be "
     "cut: keep them with --seen keep, or decide with --keep FILE and --feature"];
format_error(Error) ->
    whittle_shake:format_error(Error).

%% @doc Lines for a person that say what the one line is about, to be printed above it.
-spec details(error()) -> [unicode:chardata()].
details({unplanned, Unplanned}) ->
    [[whittle_shake_name:text(Mfa), ": ", reason(Why)] || {Mfa, Why} <- Unplanned];
details(_) ->
    [].

reason({feature, Name}) -> ["the feature ", atom_to_list(Name), " is off"];
reason(no_edge) -> "nothing that is in can be seen to call it".
