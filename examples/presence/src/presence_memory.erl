%% @doc Finds out how much memory is in use, and how much there is.
%%
%% A control group (cgroup) often has less memory than the machine. It also counts the kernel's
%% memory for sockets, which is more than half of a connection.
%% @hidden
-module(presence_memory).

-export([source/1, used/1, cgroup/1]).

-export_type([source/0]).

-type source() :: {cgroup, Dir :: file:filename(), v1 | v2, Limit :: pos_integer()}
                | {rss, Limit :: pos_integer()}
                | {machine, Limit :: pos_integer()}
                | none.

%% @doc Chooses what to watch: with a number of bytes the memory of this VM, with `auto' that of its
%% control group, or else that of the machine.
-spec source(auto | pos_integer()) -> source().
source(auto) ->
    Groups = case file:read_file("/proc/self/cgroup") of
                 {ok, Text} -> cgroup(Text);
                 {error, _} -> []
             end,
    case [{cgroup, Dir, Version, Limit} || {Version, Dir} <- Groups,
                                           Limit <- limit(Version, Dir)] of
        [Source | _] -> Source;
        [] ->
            case machine() of
                {Total, _} -> {machine, Total};
                none -> none
            end
    end;
source(Bytes) -> {rss, Bytes}.

%% @doc Lists the directories that may have the files of this process's control group, from the text
%% of /proc/self/cgroup. A container sees its own group as the root.
-spec cgroup(binary()) -> [{v1 | v2, file:filename()}].
cgroup(Text) ->
    lists:append(
      [case binary:split(Line, <<":">>, [global]) of
           [<<"0">>, <<>>, Path] -> dirs(v2, "/sys/fs/cgroup", Path);
           [_, Controllers, Path] ->
               case lists:member(<<"memory">>, binary:split(Controllers, <<",">>, [global])) of
                   true -> dirs(v1, "/sys/fs/cgroup/memory", Path);
                   false -> []
               end;
           _ -> []
       end || Line <- binary:split(Text, <<"\n">>, [global])]).

dirs(Version, Top, Path) -> [{Version, Top ++ binary_to_list(Path)}, {Version, Top}].

%% A group without a limit has the text `max', or a number beyond any machine.
limit(Version, Dir) ->
    File = case Version of v1 -> "memory.limit_in_bytes"; v2 -> "memory.max" end,
    [Limit || Limit <- [number(filename:join(Dir, File))], is_integer(Limit), Limit < 1 bsl 60].

number(File) ->
    case file:read_file(File) of
        {ok, Text} ->
            try binary_to_integer(string:trim(Text))
            catch error:badarg -> none
            end;
        {error, _} -> none
    end.

%% @doc Returns the bytes in use. The kernel gives back cached files when somebody needs their
%% memory, so they do not count.
-spec used(source()) -> {ok, non_neg_integer()} | unknown.
used({cgroup, Dir, Version, _}) ->
    {Usage, Cached} = case Version of
                          v1 -> {"memory.usage_in_bytes", <<"total_inactive_file ">>};
                          v2 -> {"memory.current", <<"inactive_file ">>}
                      end,
    case {number(filename:join(Dir, Usage)), file:read_file(filename:join(Dir, "memory.stat"))} of
        {none, _} -> unknown;
        {Used, {ok, Stat}} -> {ok, max(0, Used - field(Stat, Cached))};
        {Used, _} -> {ok, Used}
    end;
used({rss, _}) ->
    case file:read_file("/proc/self/status") of
        {ok, Text} -> {ok, 1024 * field(Text, <<"VmRSS:">>)};
        {error, _} -> unknown
    end;
used({machine, Total}) ->
    case machine() of
        {_, Available} -> {ok, Total - Available};
        none -> unknown
    end;
used(none) -> unknown.

machine() ->
    case file:read_file("/proc/meminfo") of
        {ok, Text} ->
            {1024 * field(Text, <<"MemTotal:">>), 1024 * field(Text, <<"MemAvailable:">>)};
        {error, _} -> none
    end.

%% The number behind a name that begins a line, or 0
field(Text, Name) ->
    Length = byte_size(Name),
    case [Rest || <<Start:Length/binary, Rest/binary>> <- binary:split(Text, <<"\n">>, [global]),
                  Start =:= Name] of
        [Rest | _] ->
            {Number, _} = string:to_integer(string:trim(Rest, leading)),
            case is_integer(Number) of true -> Number; false -> 0 end;
        [] -> 0
    end.
