%% @doc Reads the memory of the kernel and of processes.
%% @hidden
-module(whittle_load_memory).

-export([read/0, kernel/1, process/1, parse_slabs/1, parse_fields/1]).

-export_type([kernel/0, process/0]).

%% Bytes. `slabs' has the objects of each cache of the kernel, by the name of the cache. `other'
%% is the memory of the kernel outside of slabs, page tables and stacks: all other memory that is
%% neither free, nor a page of a file, nor a page of a process.
-type kernel() :: #{slabs := #{binary() => float()}, other := integer()}.

%% Bytes: pages of the process that belong to no file, pages that do, the tables of its pages, and
%% the part of its memory that it has never touched.
-type process() :: #{anonymous := non_neg_integer(), files := non_neg_integer(),
                     tables := non_neg_integer(), untouched := integer()}.

-type error() :: {memory, {file:filename(), file:posix() | badarg | terminated | unknown}}.

-define(PAGE, 4096).

%% @doc Reads the account of the kernel (proc(5), slabinfo(5)). Only root can read the slabs.
-spec read() -> {ok, kernel()} | {error, error()}.
read() ->
    whittle_work:steps(
      [fun(_) -> text("/proc/slabinfo") end,
       fun(Slabs) -> also([Slabs], "/proc/meminfo") end,
       fun(Texts) -> also(Texts, "/proc/zoneinfo") end,
       fun(Texts) ->
               case kernel(Texts) of
                   {ok, _} = Ok -> Ok;
                   error -> {error, {memory, {"/proc/meminfo", unknown}}}
               end
       end]).

also(Texts, File) ->
    case text(File) of
        {ok, Text} -> {ok, Texts ++ [Text]};
        {error, _} = Error -> Error
    end.

%% @doc Makes the account from the texts of `/proc/slabinfo', `/proc/meminfo' and
%% `/proc/zoneinfo'.
-spec kernel([binary()]) -> {ok, kernel()} | error.
kernel([SlabText, MemoryText, ZoneText]) ->
    case parse_fields(MemoryText) of
        #{<<"MemTotal">> := Total, <<"MemFree">> := Free, <<"Buffers">> := Buffers,
          <<"Cached">> := Cached, <<"AnonPages">> := Anonymous, <<"Slab">> := Slab,
          <<"PageTables">> := Tables, <<"KernelStack">> := Stacks} ->
            {ok, #{slabs => parse_slabs(SlabText),
                   other => Total - Free - Buffers - Cached - Anonymous - Slab - Tables - Stacks
                       - reserves(ZoneText)}};
        _ -> error
    end.

%% Each processor keeps some free pages, which `MemFree' does not count.
reserves(ZoneText) ->
    case re:run(ZoneText, "(?m)^ +count: +([0-9]{1,15})$",
                [global, {capture, all_but_first, binary}]) of
        {match, Counts} -> ?PAGE * lists:sum([binary_to_integer(Count) || [Count] <- Counts]);
        nomatch -> 0
    end.

%% @doc Reads the pages of a process.
-spec process(pos_integer()) -> {ok, process()} | {error, error()}.
process(Pid) ->
    File = filename:join(["/proc", integer_to_list(Pid), "status"]),
    case text(File) of
        {ok, Text} ->
            case parse_fields(Text) of
                #{<<"RssAnon">> := Anonymous, <<"RssFile">> := Files, <<"RssShmem">> := Shared,
                  <<"VmPTE">> := Tables, <<"VmData">> := Data} ->
                    {ok, #{anonymous => Anonymous, files => Files + Shared, tables => Tables,
                           untouched => Data - Anonymous}};
                _ -> {error, {memory, {File, unknown}}}
            end;
        {error, _} = Error -> Error
    end.

text(File) ->
    case file:read_file(File) of
        {ok, _} = Ok -> Ok;
        {error, Reason} -> {error, {memory, {File, Reason}}}
    end.

%% @doc Returns the bytes of the objects of each cache that are in use, with their share of the
%% slabs' unusable space, from the text of `/proc/slabinfo'. Free places in slabs do not count,
%% because a new object may take the place of one that other work has left.
-spec parse_slabs(binary()) -> #{binary() => float()}.
parse_slabs(Text) ->
    maps:from_list(
      [{Name, binary_to_integer(Active) * ?PAGE * binary_to_integer(Pages)
        / binary_to_integer(PerSlab)}
       || Line <- binary:split(Text, <<"\n">>, [global]),
          {match, [Name, Active, PerSlab, Pages]}
              <- [re:run(Line, "^([^# ]+) +([0-9]{1,15})(?: +[0-9]{1,15}){2} +([1-9][0-9]{0,14})"
                         " +([0-9]{1,15}) : tunables",
                         [{capture, all_but_first, binary}])]]).

%% @doc Returns the bytes of all fields `Name: N kB' of a text.
-spec parse_fields(binary()) -> #{binary() => non_neg_integer()}.
parse_fields(Text) ->
    maps:from_list(
      [{Name, 1024 * binary_to_integer(Kilobytes)}
       || Line <- binary:split(Text, <<"\n">>, [global]),
          {match, [Name, Kilobytes]} <- [re:run(Line, "^([A-Za-z_()]+):\\s+([0-9]{1,15}) kB$",
                                               [{capture, all_but_first, binary}])]]).
