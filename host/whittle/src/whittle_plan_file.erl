%% @doc The plan of a build, which lies beside its output: `OUT.plan'.
-module(whittle_plan_file).

-export([path/1, check/1, beside/2, read/1]).

%% Larger files are not read: no output is, and no plan.
-define(MAX_FILE, 16#1_2000_0000).
-define(MAX_PLAN, 256 * 1024 * 1024).

%% @doc Where the plan of an output lies.
-spec path(file:filename()) -> file:filename().
path(Out) -> filename:join([Out]) ++ ".plan".

%% @doc Whether a plan may be written for this output: not over a file that is none.
-spec check(file:filename()) -> ok | {error, whittle:failure()}.
check(Out) ->
    case plan(Out) of
        {ok, Bytes} ->
            case whittle_shake_saved:is_plan(Bytes) of
                true -> ok;
                false -> {error, {work, [path(Out), " is no plan, and the plan would be written "
                                         "over it: move it, or name another output with -o"]}}
            end;
        {error, enoent} ->
            case whittle_pack:check_beside(path(Out)) of
                ok -> ok;
                {error, Error} -> whittle_failure:pack(Error)
            end;
        {error, Other} when Other =:= efbig; Other =:= eftype ->
            {error, {work, [path(Out), case Other of
                                           efbig -> " is too large for a plan";
                                           eftype -> " is a pipe, a socket or a device"
                                       end,
                            ", and the plan would be written there: move it, or name another "
                            "output with -o"]}};
        {error, eisdir} ->
            {error, {work, [path(Out), " is a directory, and the plan would be written there: move "
                            "it, or name another output with -o"]}};
        {error, Reason} ->
            whittle_failure:pack({unreadable, {path(Out), Reason}})
    end.

%% @doc What is to lie beside an output, for `whittle_pack:write/4': its plan, or none where
%% it has none, since that of an earlier build would tell lies of this one. A file that is no
%% plan stays.
-spec beside(file:filename(), {ok, whittle_shake_saved:account()} | none) ->
          #{beside => {file:filename(), whittle_pack:beside()}}.
beside(Out, {ok, Account}) ->
    #{beside => {path(Out), fun(Bytes) ->
                                    {ok, whittle_shake_saved:to_binary(Bytes, Account)}
                            end}};
beside(Out, none) ->
    IsPlan = case plan(Out) of
                 {ok, Bytes} -> whittle_shake_saved:is_plan(Bytes);
                 {error, enoent} -> true;       % another build may be writing one
                 {error, _} -> false
             end,
    maps:from_list([{beside, {path(Out), fun(_) -> none end}} || IsPlan]).

%% @doc Reads it back.
-spec read(file:filename()) ->
          {ok, whittle_shake_saved:account()} | {error, whittle:failure()}.
read(Out) ->
    Dir = filelib:is_dir(Out),
    case {whittle_file:whole(executable(Out), ?MAX_FILE), plan(Out)} of
        {{error, enoent}, _} when Dir ->
            {error, {work, [Out, " is no directory that `whittle build --format dir' made: name "
                            "one, or an executable"]}};
        {{error, Reason}, _} ->
            whittle_failure:pack({unreadable, {Out, Reason}});
        {{ok, _}, {error, enoent}} ->
            without_plan(Out);
        {_, {error, Reason}} ->
            whittle_failure:pack({unreadable, {path(Out), Reason}});
        {{ok, Bytes}, {ok, Plan}} ->
            case whittle_shake_saved:from_binary(Bytes, Plan) of
                {ok, Account} -> {ok, Account};
                {error, Error} -> {error, {work, [path(Out), " ", wrong(Error),
                                                  ": build again"]}}
            end
    end.

%% Internal

plan(Out) -> whittle_file:whole(path(Out), ?MAX_PLAN).

without_plan(Out) ->
    case filelib:is_dir(Out) orelse whittle_pack:read(Out) of
        {error, Error} -> whittle_failure:pack(Error);
        _ -> {error, {work, [path(Out), " is not there: build with --shake functions, and keep "
                             "it beside the output"], [], no_plan}}
    end.

%% Of a directory, its bill of materials: it has the sum of each part.
executable(Out) ->
    case filelib:is_dir(Out) of
        true -> filename:join(Out, "tree/etc/bom.json");
        false -> Out
    end.

wrong(no_plan) -> "is no plan";
wrong(plan_of_another) -> "is the plan of another build";
wrong({plan_version, _}) -> "was written by another version of whittle".
