%% @hidden Lays a system out as the file tree that the launcher serves below `/.whittle', in
%% blocks.
%%
%% docs/architecture.md lists the paths. The start block holds the modules that are loaded before
%% the kernel is up, one by one and also concatenated as one file. Each start reads that file
%% once, and then the launcher frees the memory of the block. One block holds the boot script and
%% the settings that the launcher reads before the VM starts. Another block holds the files that
%% only people ask for (licenses, bill of materials). The other files follow by application, code
%% before data, in blocks of about the requested size. To read one module the launcher inflates
%% only its neighbors.
-module(whittle_pack_tree).

-export([blocks/3, cold/1, list/1]).

-compile({no_auto_import, [size/1]}).

-export_type([options/0]).

-type options() ::
        #{block_size => pos_integer(),       % bytes before compression; default:
                                             % 256 KB, see docs/pack-format.md
          ca_certs => binary(),              % PEM; default: none
          files => #{binary() => whittle_system:file()}}. % further files, by
                                             % virtual path

-define(BLOCK_SIZE, 262144).
%% The block size of the modules that are loaded on their first call. See docs/pack-format.md.
-define(COLD_BLOCK_SIZE, 65536).
%% The first file of the cold blocks. It lists their modules.
-define(COLD, <<"cold/modules">>).
%% The whole start block as one file.
-define(CODE, <<"boot/code">>).

%% @doc Lays a system out in blocks of files. The first block is the start block. `Notices' holds
%% the info files, the license texts and the SBOM.
-spec blocks(whittle_system:system(), [whittle_pack_format:file()], options()) ->
          {ok, [[whittle_pack_format:file()]]}
        | {error, {env_line, binary()}}.
blocks(System, Notices, Options) ->
    case env(System) of
        {ok, Env} ->
            #{started := Started, loaders := Loaders, others := Others, cold := Cold} =
                modules(System),
            Size = maps:get(block_size, Options, ?BLOCK_SIZE),
            Data = replacements(Options) ++ data(System) ++ release_files(System),
            {ok, [together([File || {_, File} <- Started]),
                  boot_scripts(System, Started) ++ atoms(System) ++ Loaders
                  ++ settings(System, Env),
                  Notices ++ removed(System)
                  | lists:append([group(Files, Size) || Files <- [Others, Data]])
                  ++ group(told(Cold), min(Size, ?COLD_BLOCK_SIZE))]};
        Error ->
            Error
    end.

%% @doc Finds the first block of a pack with modules that are loaded on their first call. All
%% later blocks hold such modules too.
-spec cold(whittle_pack_format:contents()) -> pos_integer() | none.
cold(#{entries := Entries}) ->
    case [Block || #{path := ?COLD, block := Block} <- Entries] of
        [Block] -> Block;
        [] -> none
    end.

%% @doc Makes the list of a tree's files that the launcher checks a directory with. The first line
%% is the number of files. Each further line has the size and the path of a file. The user may edit
%% the files of the release, so their size is `-'.
-spec list([[whittle_pack_format:file()]]) -> whittle_pack_format:file().
list(Blocks) ->
    Lines = [[may_change(Path, integer_to_list(byte_size(Bytes))), $\s, Path, $\n]
             || {Path, Bytes} <- lists:sort([{Path, Bytes} || Block <- Blocks,
                                                              #{path := Path, bytes := Bytes}
                                                                  <- Block])],
    text(<<"etc/files">>, [integer_to_list(length(Lines)), $\n | Lines]).

may_change(<<"releases/", _/binary>>, _) -> "-";
may_change(<<"etc/", Name/binary>>, Size) ->
    case is_config(Name) of
        true -> "-";
        false -> Size
    end;
may_change(_, Size) -> Size.

told([]) -> [];
told(Cold) -> [text(?COLD, [[Path, $\n] || #{path := Path} <- Cold]) | Cold].

%% Puts the concatenation of the files in front of them.
together(Files) ->
    [text(?CODE, [Bytes || #{bytes := Bytes} <- Files]) | Files].

%% Makes the boot script of the program, and the script for commands such as --whittle-ping.
boot_scripts(System, Started) ->
    Scripts = [{<<"boot/start.boot">>, whittle_system:boot(System)}
               | [{<<"boot/control.boot">>, whittle_boot:control(System)}
                  || {ok, _} <- [whittle_system:app(whittle_control, System)]]],
    Code = {virtual(?CODE), places(Started, 0)},
    [text(Path, term_to_binary(whittle_boot:loaded_at_once(Script, Code, System),
                               [deterministic]))
     || {Path, Script} <- Scripts].

atoms(System) ->
    [text(<<"boot/atoms">>, lists:join(0, Names)) || {ok, Names} <- [whittle_boot:atoms(System)]].

%% Makes the file that lists the removed functions. It lies in the block of the license texts,
%% because only a failing program reads it.
removed(System) ->
    [text(<<"boot/removed">>, Set) || Set <- [whittle_system:removed(System)], Set =/= none].

places([{Module, #{path := Path, bytes := Bytes}} | Files], Offset) ->
    [{Module, virtual(Path), {Offset, byte_size(Bytes)}}
     | places(Files, Offset + byte_size(Bytes))];
places([], _) ->
    [].

virtual(Path) ->
    unicode:characters_to_list([whittle_boot:root(), $/, Path]).

%% Makes the settings for the launcher and the VM.
settings(System, Env) ->
    [text(<<"etc/flags">>, [flags(), script_name(System), last_flag()]),
     text(<<"etc/env">>, Env)]
        ++ [File#{path => <<"etc/", Path/binary>>}
            || {Path, File} <- files(whittle_system:files(System)),
               is_config(Path) orelse is_included(Path)].

%% Makes replacements for files that the target machine may lack, and adds further files.
replacements(Options) ->
    [text(<<"etc/no_dns.inetrc">>, "{lookup, [file]}.\n"),
     text(<<"fallback/etc/hosts">>, "127.0.0.1 localhost\n::1 localhost\n")]
        ++ [text(<<"fallback/etc/ssl/certs/ca-certificates.crt">>, Pem)
            || #{ca_certs := Pem} <- [Options]]
        ++ [File#{path => Path} || {Path, File} <- files(maps:get(files, Options, #{}))].

%% Lists the default flags of the VM. bench/README.md gives the memory that each flag saves.
%%
%% +P: with the default, the tables for 2^20 processes are resident. +SDio: two threads for
%% blocking file operations instead of ten. +Mu…: allocators grow in steps of up to 0.5 MB instead
%% of 5 MB. +MM: the VM keeps two freed segments instead of ten. +M…t: rarely used allocators
%% (code, drivers, the VM's own tables) share one heap among all schedulers. +M…mmbcs: the other
%% allocators begin with 16 KB for each scheduler. +sbwt…: a scheduler without work sleeps at
%% once. Busy waiting suits machines with spare cores and power, and it takes a twelfth of the
%% start time. The vm.args of a release comes later and takes precedence.
flags() ->
    ["+P 16384 +SDio 2 +sbwt none +sbwtdcpu none +sbwtdio none\n"
     "+Mulmbcs 512 +Musmbcs 64 +MMmcs 2 +MLt false +MDt false +MRt false\n"
     "+MSmmbcs 16 +MDmmbcs 16 +MBmmbcs 16 +MRmmbcs 16 +MFmmbcs 16 +MEmmbcs 16"
     " +MTmmbcs 16\n"
     "-boot ", whittle_boot:root(), "/boot/start\n"
     "-noshell\n"].

%% An escript may ask for its own path. For such an escript the launcher passes the path on.
script_name(System) ->
    case whittle_system:main(System) of
        undefined -> [];
        _Module -> "-whittle_argv0 true\n"
    end.

%% A stray word before the first flag of vm.args or ERL_FLAGS becomes an argument of the flag before
%% it. OTP ignores a -noshell that has one, and would evaluate standard input.
last_flag() -> "-whittle_flags\n".

env(System) ->
    Lines = [{Name, line(Name, Value)}
             || {Name, Value} <- lists:sort(maps:to_list(whittle_system:env(System)))],
    %% The launcher ends the value at a newline or a zero byte.
    case [Name || {Name, Line} <- Lines, binary:match(Line, [<<"\n">>, <<0>>]) =/= nomatch] of
        [] -> {ok, [[Line, $\n] || {_, Line} <- Lines]};
        [Name | _] -> {error, {env_line, Name}}
    end.

line(Name, {default, Value}) -> <<Name/binary, $=, Value/binary>>;
line(Name, {always, Value}) -> <<$!, Name/binary, $=, Value/binary>>.

%% The launcher reads these files itself.
is_config(<<"vm.args">>) -> true;
is_config(<<"sys.config">>) -> true;
is_config(<<"sys.config.src">>) -> true;
is_config(_) -> false.

%% `sys.config' may name these files, and the kernel looks for them beside it.
is_included(Path) -> filename:extension(Path) =:= <<".config">>.

%% The other blocks

%% Orders the modules in groups: those that a start loads at once, those that load them or that
%% `init' loads, those that no known code calls, and all others.
modules(System) ->
    {AtOnce, ByInit} = whittle_boot:start_modules(System),
    Cold = whittle_system:cold(System),
    Files = [{Module, #{path => path(Module, App), mode => 8#644, bytes => Beam}}
             || #{modules := Modules} = App <- whittle_system:apps(System),
                {Module, Beam} <- lists:sort(maps:to_list(Modules))],
    ByModule = maps:from_list(Files),
    Loaders = [whittle_start_load | ByInit],
    #{started => [{Module, maps:get(Module, ByModule)} || Module <- AtOnce],
      loaders => [File || {Module, File} <- Files, lists:member(Module, Loaders)],
      cold => [File || {Module, File} <- Files, is_map_key(Module, Cold)],
      others => [File || {Module, File} <- Files, not lists:member(Module, Loaders),
                         not lists:member(Module, AtOnce), not is_map_key(Module, Cold)]}.

%% A companion lies outside of the directories that the code server searches.
path(Module, App) ->
    Dir = case whittle_system:companion_of(Module) of
              {ok, _} -> <<"cold">>;
              none -> ebin(App)
          end,
    <<Dir/binary, $/, (atom_to_binary(Module))/binary, ".beam">>.

data(System) ->
    lists:append([app_data(App) || App <- whittle_system:apps(System)]).

app_data(#{name := Name, spec := Spec, files := Files} = App) ->
    Text = io_lib:format("%% coding: utf-8~n~0tp.~n", [Spec]),
    [text(<<(ebin(App))/binary, $/, (atom_to_binary(Name))/binary, ".app">>,
          unicode:characters_to_binary(Text))]
        ++ [File#{path => <<(whittle_system:app_dir(App))/binary, $/, Path/binary>>}
            || {Path, File} <- files(Files)].

release_files(System) ->
    Dir = unicode:characters_to_binary(["releases/", whittle_system:vsn(System), $/]),
    [File#{path => <<Dir/binary, Path/binary>>}
     || {Path, File} <- files(whittle_system:files(System)), not is_config(Path)].

%% Groups files in their order, and begins a new block before one grows beyond Size.
group([], _) -> [];
group([File | Files], Size) -> group(Files, size(File), [File], Size).

group([File | Files], Sum, Block, Size) ->
    case Sum + size(File) of
        Larger when Larger > Size ->
            [lists:reverse(Block) | group([File | Files], Size)];
        Fits ->
            group(Files, Fits, [File | Block], Size)
    end;
group([], _, Block, _) ->
    [lists:reverse(Block)].

size(#{bytes := Bytes}) -> byte_size(Bytes).

files(Files) -> lists:sort(maps:to_list(Files)).

ebin(App) -> <<(whittle_system:app_dir(App))/binary, "/ebin">>.

text(Path, Text) ->
    #{path => Path, mode => 8#644, bytes => iolist_to_binary(Text)}.
