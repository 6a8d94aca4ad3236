%% @doc Makes the kernel count its memory for single processes, in control groups.
%%
%% Version 1 (`memory.kmem.usage_in_bytes') and version 2 (`kernel' in `memory.stat', from Linux
%% 5.18 on) both count slabs, page tables and the buffers of sockets. Since Linux 6.12 they count an
%% accepted connection too; before, its socket belonged to nobody.
%% @hidden
-module(whittle_load_cgroup).

-export([make/1, add/2, leave/2, kernel/1, used/1, remove/1]).

-export_type([group/0]).

-type group() :: {v1 | v2, file:filename()}.

-define(V1, "/sys/fs/cgroup/memory").
-define(V2, "/sys/fs/cgroup").
%% The kernel frees the processes of a group a moment after their end.
-define(TRIES, 100).
-define(PAUSE_MS, 20).

%% @doc Makes a group, if this machine has them and the user may.
-spec make(string()) -> {ok, group()} | none.
make(Name) ->
    Own = lists:concat(["whittle-load-", os:getpid(), "-", Name, "-",
                        erlang:unique_integer([positive])]),
    case {filelib:is_file(filename:join(?V1, "memory.kmem.usage_in_bytes")),
          filelib:is_file(filename:join(?V2, "cgroup.controllers"))} of
        {true, _} -> made({v1, filename:join(?V1, Own)});
        {_, true} -> made({v2, filename:join(?V2, Own)});
        _ -> none
    end.

made({_, Dir} = Group) ->
    ok = whittle_unfinished:begun(Dir, fun() -> remove(Group) end),
    case {file:make_dir(Dir), accepted(Group), kernel(Group)} of
        {ok, ok, {ok, _}} -> {ok, Group};
        _ ->
            %% Where the file system is read-only, there is nothing to remove.
            _ = remove(Group),
            ok = whittle_unfinished:done(Dir),
            none
    end.

%% Version 1 counts accepted connections only after somebody has set a limit for TCP. This one is no
%% limit.
accepted({v1, Dir}) ->
    file:write_file(filename:join(Dir, "memory.kmem.tcp.limit_in_bytes"), "-1", [raw]);
accepted({v2, _}) -> ok.

%% @doc Moves a process with all its threads into a group.
-spec add(pos_integer(), group()) -> ok | {error, file:posix() | badarg | terminated}.
add(Pid, {_, Dir}) ->
    file:write_file(filename:join(Dir, "cgroup.procs"), integer_to_list(Pid), [raw]).

%% @doc Moves a process back into the group that contains a group.
-spec leave(pos_integer(), group()) -> ok | {error, file:posix() | badarg | terminated}.
leave(Pid, {Version, Dir}) -> add(Pid, {Version, filename:dirname(Dir)}).

%% @doc Returns the bytes of the processes of a group and of the kernel for them. The pages of files
%% do not count, because the kernel gives them back when it needs memory.
-spec used(group()) -> {ok, non_neg_integer()} | {error, unknown}.
used({v1, Dir}) ->
    Stat = filename:join(Dir, "memory.stat"),
    sum([{1, number(filename:join(Dir, "memory.usage_in_bytes"), "^([0-9]{1,15})$")},
         {1, number(filename:join(Dir, "memory.kmem.tcp.usage_in_bytes"), "^([0-9]{1,15})$")},
         {-1, number(Stat, "(?m)^total_cache ([0-9]{1,15})$")},
         {1, number(Stat, "(?m)^total_shmem ([0-9]{1,15})$")}]);
used({v2, Dir}) ->
    Stat = filename:join(Dir, "memory.stat"),
    sum([{1, number(filename:join(Dir, "memory.current"), "^([0-9]{1,15})$")},
         {-1, number(Stat, "(?m)^file ([0-9]{1,15})$")},
         {1, number(Stat, "(?m)^shmem ([0-9]{1,15})$")}]).

sum(Parts) ->
    case [Factor * Bytes || {Factor, {ok, Bytes}} <- Parts] of
        Known when length(Known) =:= length(Parts) -> {ok, max(0, lists:sum(Known))};
        _ -> {error, unknown}
    end.

%% @doc Returns the bytes of the kernel that belong to the processes of a group.
-spec kernel(group()) -> {ok, non_neg_integer()} | {error, unknown}.
kernel({v1, Dir}) -> number(filename:join(Dir, "memory.kmem.usage_in_bytes"), "^([0-9]{1,15})$");
kernel({v2, Dir}) -> number(filename:join(Dir, "memory.stat"), "(?m)^kernel ([0-9]{1,15})$").

number(File, Pattern) ->
    case file:read_file(File) of
        {ok, Text} ->
            case re:run(string:trim(Text), Pattern, [{capture, all_but_first, binary}]) of
                {match, [Number]} -> {ok, binary_to_integer(Number)};
                nomatch -> {error, unknown}
            end;
        {error, _} -> {error, unknown}
    end.

%% @doc Removes a group whose processes have ended.
-spec remove(group()) -> ok | {error, file:posix() | badarg}.
remove({_, Dir}) ->
    case removed(Dir, ?TRIES) of
        ok -> whittle_unfinished:done(Dir);
        {error, _} = Error -> Error
    end.

removed(Dir, Tries) ->
    case file:del_dir(Dir) of
        ok -> ok;
        {error, enoent} -> ok;
        {error, ebusy} when Tries > 0 ->
            receive after ?PAUSE_MS -> ok end,
            removed(Dir, Tries - 1);
        {error, _} = Error -> Error
    end.
