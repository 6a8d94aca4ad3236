%% @doc Evidence: the functions that a run of the whole system called, as `whittle trace'
%% records them. What a plan has to do with them is {@link whittle_shake_unplanned}'s.
%%
%% The file is text: `whittle evidence 1', the SHA-256 of what follows, then a term for each
%% version of a module, `{Module, MD5, [{Function, Arity}]}.'
-module(whittle_shake_evidence).

-export([packets/1, merge/1, calls/1, size/1, to_binary/1, from_binary/1]).
-export([of_system/2]).
-export([format_error/1]).

-export_type([evidence/0, calls/0, error/0]).

-type md5() :: <<_:128>>.

%% What one version of a module was seen to call; the recorder writes lists of these.
-type calls() :: {module(), md5(), [whittle_shake_summary:fa()]}.

-opaque evidence() :: #{{module(), md5()} => [whittle_shake_summary:fa()]}.

-type error() ::
        no_evidence | damaged | {version, binary()}     % of the file
      | {other_code, module()}                          % than the system's
      | nothing_of_it                                   % no module of the system
      | whittle_system:error().

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

%% @doc What was called, sorted: of each version of a module once.
-spec calls(evidence()) -> [calls()].
calls(Evidence) ->
    [{M, Md5, Functions} || {{M, Md5}, Functions} <- lists:sort(maps:to_list(Evidence))].

%% @doc The file's bytes.
-spec to_binary(evidence()) -> binary().
to_binary(Evidence) ->
    Terms = unicode:characters_to_binary(
              [io_lib:format("~0tp.~n", [{M, binary:encode_hex(Md5), Functions}])
               || {M, Md5, Functions} <- calls(Evidence)]),
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
    Seen = maps:from_list([{M, []} || {M, _} <- maps:keys(Evidence)]),
    Identity = fun(_, M, Beam) -> [{M, whittle_beam:identity(whittle_beam:chunks(Beam))}
                                   || is_map_key(M, Seen)] end,
    case whittle_modules:each(Identity, System) of
        {ok, Found} ->
            Here = lists:append(Found),
            case {[M || {M, _} = Code <- lists:sort(Here), not is_map_key(Code, Evidence)], Here} of
                {[M | _], _} -> {error, {other_code, M}};
                {[], []} -> {error, nothing_of_it};
                {[], _} -> {ok, lists:usort([{M, F, A} || {M, _} = Code <- Here,
                                                          {F, A} <- maps:get(Code, Evidence)])}
            end;
        {error, _} = Error -> Error
    end.

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
format_error(Error) ->
    whittle_system:format_error(Error).
