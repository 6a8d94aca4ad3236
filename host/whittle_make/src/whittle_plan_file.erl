%% @doc Checks, writes and reads the plan of a build. It is the file `OUT.plan' beside the output.
-module(whittle_plan_file).

-export([path/1, check/1, beside/2, read/1]).
-export([format_error/1]).

-export_type([error/0]).

-type error() ::
        {not_a_plan, file:filename()}       % another file has the plan's name
      | {no_room, {file:filename(), efbig | eftype | eisdir}} % the plan cannot be written there
      | {no_plan, file:filename()}          % the build did not shake, or someone moved the plan
      | {not_an_output, file:filename()}    % Whittle did not create this directory
      | {wrong_plan, {file:filename(), whittle_shake_saved:error()}}
      | whittle_pack:error().

%% Whittle reads no larger file: every output and every plan is smaller.
-define(MAX_FILE, 16#1_2000_0000).
-define(MAX_PLAN, 256 * 1024 * 1024).

%% @doc Returns the path of an output's plan. Only tests call it from outside.
-spec path(file:filename()) -> file:filename().
path(Out) ->
    case whittle_file:parts(Out) of
        [] -> filename:absname("") ++ ".plan";
        Parts -> filename:join(Parts) ++ ".plan"
    end.

%% @doc Checks that a plan may be written for an output. It never replaces a file of another kind.
-spec check(file:filename()) -> ok | {error, error()}.
check(Out) ->
    case plan(Out) of
        {ok, Bytes} ->
            case whittle_shake_saved:is_plan(Bytes) of
                true -> ok;
                false -> {error, {not_a_plan, path(Out)}}
            end;
        {error, Reason} when Reason =:= enoent; Reason =:= enametoolong ->
            whittle_pack:check_beside(path(Out));
        {error, Reason} when Reason =:= efbig; Reason =:= eftype; Reason =:= eisdir ->
            {error, {no_room, {path(Out), Reason}}};
        {error, Reason} -> {error, {unreadable, {path(Out), Reason}}}
    end.

%% @doc Implements the option `beside' of {@link whittle_pack:write/4}.
%%
%% It writes the plan, or removes the plan of an earlier build, which would describe another
%% output. It does not remove a file of another kind.
-spec beside(file:filename(), whittle_shake_saved:saved() | none) ->
          #{beside => {file:filename(), whittle_pack:is_older(), whittle_pack:beside()}}.
beside(Out, none) ->
    %% Another build may write a plan now, or a user a file.
    IsPlan = fun(_) ->
                     case plan(Out) of
                         {ok, Bytes} -> whittle_shake_saved:is_plan(Bytes);
                         {error, _} -> false
                     end
             end,
    #{beside => {path(Out), IsPlan, fun(_) -> none end}};
beside(Out, Saved) ->
    #{beside => {path(Out), fun(_) -> check(Out) =:= ok end,
                 fun(Bytes) -> {ok, whittle_shake_saved:to_binary(Bytes, Saved)} end}}.

%% @doc Reads the plan of an output, and checks that it belongs to this output.
-spec read(file:filename()) -> {ok, whittle_shake_saved:saved()} | {error, error()}.
read(Out) ->
    Dir = filelib:is_dir(Out),
    case {whittle_file:whole(known_by(Out), ?MAX_FILE), plan(Out)} of
        {{error, enoent}, _} when Dir -> {error, {not_an_output, Out}};
        {{error, Reason}, _} -> {error, {unreadable, {Out, Reason}}};
        {{ok, _}, {error, enoent}} -> without_plan(Out);
        {_, {error, Reason}} -> {error, {unreadable, {path(Out), Reason}}};
        {{ok, Bytes}, {ok, Plan}} ->
            case whittle_shake_saved:from_binary(Bytes, Plan) of
                {ok, Saved} -> {ok, Saved};
                {error, plan_of_another} -> plan_of_another(Out);
                {error, Error} -> {error, {wrong_plan, {path(Out), Error}}}
            end
    end.

%% @doc Formats an error as one line for a person. The line ends with the next thing to do.
-spec format_error(error()) -> unicode:chardata().
format_error({not_a_plan, Path}) ->
    [Path, " is not a plan of Whittle, and the plan of this build has the same path: move it, or "
           "name another output with -o"];
format_error({no_room, {Path, eisdir}}) ->
    [Path, " is a directory, and the plan of this build has the same path: move it, or name "
           "another output with -o"];
format_error({no_room, {Path, Reason}}) ->
    Is = case Reason of
             efbig -> "is too large for a plan";
             _ -> whittle_file:format_error(Reason)
         end,
    [Path, $\s, Is, ", and the plan of this build has the same path: move it, or name another "
     "output with -o"];
format_error({no_plan, Path}) ->
    [Path, " is missing: build with --shake functions, and keep the plan beside the output"];
format_error({not_an_output, Out}) ->
    [Out, " is not a directory that `whittle build --format dir' made: name one, or an executable"];
format_error({wrong_plan, {Path, Error}}) ->
    [Path, $\s, wrong(Error), ": build again"];
format_error(Error) ->
    whittle_pack:format_error(Error).

%% Internal functions

plan(Out) -> whittle_file:whole(path(Out), ?MAX_PLAN).

without_plan(Out) ->
    case filelib:is_dir(Out) orelse whittle_pack:read(Out) of
        {error, _} = Error -> Error;
        _ -> {error, {no_plan, path(Out)}}
    end.

%% A damaged output has another checksum than its plan names, so the plan seems to be of another
%% build. Then the damage is the error.
plan_of_another(Out) ->
    case filelib:is_dir(Out) orelse whittle_pack:read(Out) of
        {error, {in, {_, {Damaged, _}}}} = Error when Damaged =:= elf_damaged;
                                                      Damaged =:= pack_damaged -> Error;
        _ -> {error, {wrong_plan, {path(Out), plan_of_another}}}
    end.

%% A directory's bill of materials has the checksum of each part, so it identifies the directory.
known_by(Out) ->
    case filelib:is_dir(Out) of
        true -> filename:join(Out, "tree/etc/bom.json");
        false -> Out
    end.

wrong(no_plan) -> "is not a plan";
wrong(plan_of_another) -> "is the plan of another build";
wrong({plan_version, _}) -> "was written by another version of Whittle".
