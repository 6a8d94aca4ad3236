%% @doc The plan of a build, which lies beside its output: `OUT.plan'.
-module(whittle_plan_file).

-export([path/1, write/2, read/1]).

%% @doc Where the plan of an output lies.
-spec path(file:filename()) -> file:filename().
path(Out) -> Out ++ ".plan".

%% @doc Writes the plan of an output that is there.
-spec write(file:filename(), whittle_shake_account:account()) ->
          ok | {error, whittle_pack:error()}.
write(Out, Account) ->
    case file:read_file(executable(Out)) of
        {ok, Bytes} -> whittle_pack:write_beside(
                         path(Out), whittle_shake_account:to_binary(Bytes, Account));
        {error, Reason} -> {error, {unreadable, {Out, Reason}}}
    end.

%% @doc Reads it back.
-spec read(file:filename()) ->
          {ok, whittle_shake_account:account()} | {error, whittle:failure()}.
read(Out) ->
    case {file:read_file(executable(Out)), file:read_file(path(Out))} of
        {{error, Reason}, _} ->
            {error, {work, whittle_pack:format_error({unreadable, {Out, Reason}})}};
        {_, {error, enoent}} ->
            {error, {work, [path(Out), " is not there: build with --shake functions, "
                            "and keep it beside the output"]}};
        {_, {error, Reason}} ->
            {error, {work, whittle_pack:format_error({unreadable, {path(Out), Reason}})}};
        {{ok, Bytes}, {ok, Plan}} ->
            case whittle_shake_account:from_binary(Bytes, Plan) of
                {ok, Account} -> {ok, Account};
                {error, Error} -> {error, {work, [path(Out), " ", wrong(Error),
                                                  ": build again"]}}
            end
    end.

%% Internal

%% Of a directory, its bill of materials: it has the sum of each part.
executable(Out) ->
    case filelib:is_dir(Out) of
        true -> filename:join(Out, "tree/etc/bom.json");
        false -> Out
    end.

wrong(no_plan) -> "is no plan";
wrong(plan_of_another) -> "is the plan of another build";
wrong({plan_version, _}) -> "was written by another version of whittle".
