%% @doc Turns a system and a runtime into one executable or a directory, and reads executables.
%%
%% docs/pack-format.md describes the layout of the pack. docs/architecture.md describes the file
%% tree in it. The same system, runtime, options and version of `zstd' give the same bytes.
-module(whittle_pack).

-import(whittle_work, [steps/1]).

-export([check_output/2, advises_removal/1, check_certificates/1, check_name/2, write/4]).
-export([check_beside/1, check_beside/2, write_beside/2, write_beside/3]).
-export([read/1, parts/1, target/1, read_file/2, loaded_size/1, symbols_size/1]).
-export([format_error/1]).

-export_type([options/0, is_older/0, beside/0, contents/0, error/0]).

-type options() ::
        #{format => exe | dir,             % default: exe
          ca_certs => file:filename_all(), % PEM, for machines without certificates in
                                           % /etc/ssl; default: none
          beside => {file:filename_all(), is_older(), beside()}, % a file that belongs to the
                                           % output, which replaces only an older one; default:
                                           % none
          block_size => pos_integer(),     % bytes; default: 256 KB
          files => #{binary() => whittle_system:file()}}. % further files, by
                                           % virtual path

-type is_older() :: whittle_pack_file:is_older().

%% Makes the contents of the file beside the output. Its argument is the bytes that identify the
%% output: the whole executable, or the bill of materials of a directory. The result `none'
%% removes the file.
-type beside() :: fun((binary()) -> {ok, iodata()} | none).

-type contents() ::
        #{size := pos_integer(),           % bytes of the whole file
          vm := pos_integer(),             % bytes of the executable alone, up to
                                           % the page where the pack begins
          cold := pos_integer() | none,    % the first block of modules that are
                                           % loaded on their first call; all later blocks are such
                                           % too
          pack := whittle_pack_format:contents()}.

-type error() ::
        whittle_pack_format:error() | whittle_elf:error()
      | whittle_pack_file:error()
      | {unreadable, {file:filename_all(), file:posix()}}
      | {no_certificates, file:filename_all()}
      | {env_line, binary()}               % a variable whose value has newlines
      | {name_taken, string()}             % a name of the system that a part of a directory has
      | {in, {file:filename_all(), error()}}. % the file, and its error

%% This file marks a directory as an output of Whittle.
-define(MARK, <<"tree/etc/info.json">>).
%% The list of the directory's files
-define(SUMS, <<"tree/etc/sums">>).
%% The other names in the directory. The script has the name of the system.
-define(PARTS, ["tree", "vm"]).

%% The limits for files to read. No output is larger than 4 GB of pack and its VM, and no
%% certificate file or script exceeds its limit.
-define(MAX_FILE, 16#1_2000_0000).
-define(MAX_CERTIFICATES, 16 * 1024 * 1024).
-define(MAX_SCRIPT, 64 * 1024).

%% How long to wait for another build that writes to the same directory. Such a write takes
%% seconds.
-define(LOCK_SECONDS, 60).

%% @doc Checks that an output can be written to a path, as far as this is possible without
%% writing. Call it before the long work. It also checks that `zstd' is installed and that the
%% certificates are readable.
-spec check_output(file:filename_all(), options()) -> ok | {error, error()}.
check_output(Out, Options) ->
    Place = case maps:get(format, Options, exe) of
                exe -> whittle_pack_file:check(Out, fun is_output/1);
                dir -> whittle_pack_file:check_dir(Out, older())
            end,
    Checks = steps([fun(_) -> Place end,
                    fun(_) -> whittle_pack_zstd:check() end,
                    fun(_) -> check_certificates(Options) end]),
    case Checks of
        {error, _} = Error -> Error;
        _ -> ok
    end.

%% @doc Tells whether the text of an error advises to remove what is at the output's path.
-spec advises_removal(error()) -> boolean().
advises_removal({Tag, _}) ->
    lists:member(Tag, [is_file, not_ours, holds_others, holds_edits, no_sums]);
advises_removal(_) -> false.

%% @doc Checks that the file of certificates is readable and holds a certificate, if the options
%% name such a file.
-spec check_certificates(options()) -> ok | {error, error()}.
check_certificates(Options) ->
    case read_ca_certs(Options) of
        {ok, _} -> ok;
        {error, _} = Error -> Error
    end.

%% @doc Checks that an output can have the system's name. A start script has it, and it lies beside
%% the other parts of a directory.
-spec check_name(string(), options()) -> ok | {error, error()}.
check_name(Name, Options) ->
    case maps:get(format, Options, exe) =:= dir andalso lists:member(Name, ?PARTS) of
        true -> {error, {name_taken, Name}};
        false -> ok
    end.

%% @doc Writes the output. `exe' is one file with mode 0755. `dir' is a directory with the VM
%% (`vm'), the tree (`tree/') and a script that starts the VM with the tree. The output is
%% complete or does not exist. The option `beside' names a file about the output. If several
%% builds write to one name, both files come from the build that finished last. The result holds
%% the size of the output in bytes, the size of the VM in it, and the SHA-256 digest of an
%% executable. A directory has no digest. Its `tree/etc/bom.json' has the digests of its parts. The
%% notes name programs in the output that the target may be unable to run.
-spec write(whittle_system:system(), whittle_runtime:runtime(),
            file:filename_all(), options()) ->
          {ok, #{size := pos_integer(), vm := pos_integer(), sha256 := binary() | none,
                 notes := [unicode:chardata()]}}
        | {error, error()}.
write(System, #{executable := File, target := Target} = Runtime, Out, Options) ->
    steps([fun(_) -> read_bytes(File) end,
           fun(Vm) ->
                   steps([fun(_) -> read_ca_certs(Options) end,
                          fun(Tree) -> blocks(System, Runtime, Vm, Tree) end,
                          fun(Blocks) -> write_as(maps:get(format, Options, exe),
                                                  System, Vm, File, Blocks, {Out, Options}) end,
                          fun(Written) ->
                                  Notes = whittle_pack_programs:notes(System, {Vm, Target}),
                                  {ok, Written#{notes => Notes}}
                          end])
           end]).

%% @doc Checks that {@link write_beside/2} can write to a path, as far as this is possible without
%% writing.
-spec check_beside(file:filename_all()) -> ok | {error, error()}.
check_beside(File) ->
    whittle_pack_file:check(File).

%% @doc Checks, as {@link check_beside/1} does, that {@link write_beside/2} can write to a path. An
%% existing file must begin with the given bytes, or be empty.
-spec check_beside(file:filename_all(), Signature :: binary()) -> ok | {error, error()}.
check_beside(File, Signature) ->
    whittle_pack_file:check(File, whittle_pack_file:begins(Signature)).

%% @doc Writes a file that belongs to an output, in the place of any other file. The file is
%% complete or does not exist.
-spec write_beside(file:filename_all(), iodata()) -> ok | {error, error()}.
write_beside(File, Bytes) -> write_beside(File, Bytes, fun(_) -> true end).

%% @doc Writes a file as {@link write_beside/2} does, but replaces only an older file of the same
%% kind, or an empty one. An older file begins with the given bytes, or the function knows it.
-spec write_beside(file:filename_all(), iodata(), Signature :: binary() | is_older()) ->
          ok | {error, error()}.
write_beside(File, Bytes, Signature) when is_binary(Signature) ->
    write_beside(File, Bytes, whittle_pack_file:begins(Signature));
write_beside(File, Bytes, IsOlder) ->
    whittle_pack_file:write(File, Bytes, 8#644, IsOlder).

%% @doc Reads the contents of an executable without inflating a block. It verifies the checksum.
-spec read(file:filename_all()) -> {ok, contents()} | {error, error()}.
read(File) ->
    steps([fun(_) -> read_bytes(File) end,
           fun(Bytes) -> about(File, contents(Bytes)) end]).

%% @doc Reads the use of every byte of an executable.
-spec parts(file:filename_all()) -> {ok, whittle_pack_parts:parts()} | {error, error()}.
parts(File) ->
    case read(File) of
        {ok, Contents} -> {ok, whittle_pack_parts:of_contents(Contents)};
        {error, _} = Error -> Error
    end.

%% @doc Reads the name of the target that an executable was built for.
-spec target(file:filename_all()) -> {ok, string()} | {error, error()}.
target(File) ->
    case read_file(File, <<"etc/info.txt">>) of
        {ok, none} ->
            about(File, {error, {pack_damaged, "it has no etc/info.txt"}});
        {ok, Info} ->
            {match, [Target]} = re:run(Info, "^target ([^,]*),",
                                       [multiline, {capture, all_but_first, list}]),
            {ok, Target};
        {error, _} = Error -> Error
    end.

%% @doc Reads one file of an executable's tree, by virtual path. It returns `none' if there is no
%% such file.
-spec read_file(file:filename_all(), binary()) -> {ok, binary() | none} | {error, error()}.
read_file(File, Path) ->
    steps([fun(_) -> read_bytes(File) end,
           fun(Bytes) ->
                   about(File, steps([fun(_) -> whittle_elf:pack(Bytes) end,
                                      fun(Pack) -> whittle_pack_format:file(Pack, Path) end]))
           end]).

%% @doc Measures a program up to the end of its loaded bytes. This is the size without symbols and
%% debug information. For a file that is not an ELF executable it is the size of the file.
-spec loaded_size(file:filename_all()) -> {ok, non_neg_integer()} | {error, error()}.
loaded_size(File) ->
    steps([fun(_) -> read_bytes(File) end,
           fun(Bytes) ->
                   case whittle_elf:loaded_size(Bytes) of
                       {error, {elf_foreign, _}} -> {ok, byte_size(Bytes)};
                       Result -> about(File, Result)
                   end
           end]).

%% @doc Measures the table of symbols and its names in an ELF file.
-spec symbols_size(file:filename_all()) -> {ok, non_neg_integer()} | {error, error()}.
symbols_size(File) ->
    steps([fun(_) -> read_bytes(File) end,
           fun(Bytes) -> about(File, whittle_elf:symbols_size(Bytes)) end]).

%% @doc Formats an error as one line that ends with the next step.
-spec format_error(error()) -> unicode:chardata().
format_error(Error) -> whittle_file_name:printable(text(Error)).

text({in, {File, Error}}) ->
    line("~ts: ~ts", [File, text(Error)]);
text({is_directory, Out}) ->
    line("~ts is a directory: name a file with -o; only `whittle build --format dir' writes a "
         "directory", [Out]);
text({is_file, Out}) ->
    line("~ts is a file, and `--format dir' writes a directory: name another output with -o, or "
         "remove the file", [Out]);
text({not_a_file, Out}) ->
    line("~ts ~ts: name a file with -o", [Out, whittle_file:format_error(eftype)]);
text({not_ours, Out}) ->
    line("~ts exists, but Whittle did not create it: remove it, or name another "
         "output with -o", [Out]);
text({holds_others, {Out, Name}}) ->
    line("~ts holds ~ts, which Whittle did not write: move it, or name another output with -o",
         [Out, Name]);
text({holds_edits, {Out, {Kind, Path}, More}}) ->
    line("~ts holds ~ts, which ~ts~ts: save what you need, and remove ~ts, or name another output "
         "with -o", [Out, Path, edit(Kind), more(More), Out]);
text({no_sums, Out}) ->
    line("~ts has no list of the files that Whittle wrote (~ts), so a build could remove files of "
         "yours: save what you need, and remove ~ts, or name another output with -o",
         [Out, ?SUMS, Out]);
text({cannot_write, {Out, enospc}}) ->
    line("~ts cannot be written, because the disk is full: free space there, or name "
         "another output with -o", [Out]);
text({cannot_write, {Out, efbig}}) ->
    line("~ts cannot be written, because it is larger than `ulimit -f' allows: raise that limit",
         [Out]);
text({cannot_write, {Out, no_directory}}) ->
    line("~ts cannot be written, because the directory ~ts does not exist: create it, or name "
         "another output with -o", [Out, filename:dirname(Out)]);
text({cannot_write, {Out, Reason}}) ->
    line("~ts cannot be written (~ts): name another output with -o",
         [Out, file:format_error(Reason)]);
text({locked, Dir}) ->
    line("another program has locked ~ts, probably another build: wait until it ends and build "
         "again, or write the output to another directory", [Dir]);
text({unreadable, {File, eisdir}}) ->
    line("~ts ~ts: name an executable that `whittle build' made",
         [File, whittle_file:format_error(eisdir)]);
text({unreadable, {File, eftype}}) ->
    line("~ts ~ts: name a regular file", [File, whittle_file:format_error(eftype)]);
text({unreadable, {File, enomem}}) ->
    line("~ts ~ts: name another file", [File, whittle_file:format_error(enomem)]);
text({unreadable, {File, efbig}}) ->
    line("~ts is larger than any output of Whittle: check the name", [File]);
text({unreadable, {File, Reason}}) ->
    line("~ts ~ts: check the name and its permissions", [File, whittle_file:format_error(Reason)]);
text({no_certificates, File}) ->
    line("~ts holds no certificate in PEM form: name a file of certificates", [File]);
text({env_line, Name}) ->
    line("the value of the environment variable ~ts contains a line break or a zero byte: "
         "correct the value",
         [Name]);
text({no_zstd, Program}) ->
    line("the program ~ts is not on the PATH: install it (Debian package zstd)", [Program]);
text({zstd_failed, {Code, Words}}) ->
    line("zstd failed with exit code ~b (~ts): run the build again", [Code, Words]);
text({pack_damaged, What}) ->
    line("the pack in the file is damaged (~ts): copy the file again, or build it again",
         [damage(What)]);
text({pack_foreign, _}) ->
    line("it contains no packed application: name a file that `whittle build' made", []);
text({pack_path, {Path, Why}}) ->
    line("the path ~ts in the output ~ts: rename the file", [Path, Why]);
text({name_taken, Name}) ->
    line("the start script cannot have the name `~ts', because every output directory needs that "
         "name for another part: rename the application or release, or build with --format exe",
         [Name]);
text({pack_too_large, Bytes}) ->
    line("the packed files have ~b bytes, and a pack holds at most 4 GB: remove some of "
         "them", [Bytes]);
text({elf_foreign, _}) ->
    line("it is not an ELF executable: name a file that `whittle build' made", []);
text({elf_damaged, What}) ->
    line("the executable is damaged (~ts): copy it again, or build it again", [damage(What)]);
text({elf_no_note, []}) ->
    line("the file is not a VM that Whittle built (it has no place for a pack): run `whittle clean "
         "--kind vm --yes', and build again", []);
text({elf_no_pack, []}) ->
    line("it contains no packed application: name a file that `whittle build' made", []);
text({elf_no_room, Address}) ->
    line("the pack would end beyond the last address of the target (it would begin at 16#~.16b): "
         "remove files from the input",
         [Address]).

edit(new) -> "Whittle did not write";
edit(changed) -> "has changed since Whittle wrote it".

more(0) -> "";
more(1) -> ", and another new or changed file";
more(More) -> io_lib:format(", and ~b more new or changed files", [More]).

damage(appended) -> "other bytes follow its last byte";
damage(checksum) -> "its checksum is wrong";
damage(vm_checksum) -> "the VM's checksum is wrong";
damage(truncated) -> "its end is missing";
damage(header) -> "its ELF header is wrong";
damage(program_headers) -> "its program headers are outside of the file";
damage(program_header_size) -> "its program headers have a wrong size";
damage(alignment) -> "a segment has a wrong alignment";
damage(segment_order) -> "its segments are not in ascending order";
damage(block_table) -> "its block table is wrong";
damage(index) -> "its index is wrong";
damage(frame) -> "one of its blocks does not decompress";
damage(What) -> io_lib:format("~ts", [What]).

%% Internal: writing

read_ca_certs(#{ca_certs := File} = Options) ->
    case read_bytes(File, ?MAX_CERTIFICATES) of
        {ok, Bytes} ->
            case binary:match(Bytes, <<"-----BEGIN CERTIFICATE-----">>) of
                nomatch -> {error, {no_certificates, File}};
                _ -> {ok, Options#{ca_certs := Bytes}}
            end;
        {error, {unreadable, {_, eisdir}}} ->
            {error, {no_certificates, File}};
        Error ->
            Error
    end;
read_ca_certs(Options) ->
    {ok, Options}.

blocks(System, Runtime, Vm, Options) ->
    steps([fun(_) -> whittle_pack_licenses:files(System, Runtime, Vm) end,
           fun(Notices) ->
                   steps([fun(_) -> programs(System, Runtime) end,
                          fun(Programs) ->
                                  Files = maps:merge(maps:get(files, Options, #{}), Programs),
                                  whittle_pack_tree:blocks(System, Notices,
                                                           Options#{files => Files})
                          end])
           end]).

%% Reads the programs of the runtime. Only a node of a network needs the port mapper. A shaken
%% system without a network may contain other functions of net_kernel.
programs(System, #{programs := Programs}) ->
    case whittle_modules:exports({net_kernel, init, 1}, System) of
        true -> read_programs(maps:to_list(Programs), #{});
        false -> {ok, #{}}
    end;
programs(_, _) ->
    {ok, #{}}.

read_programs([{Name, File} | Rest], Read) ->
    case read_bytes(File) of
        {ok, Bytes} ->
            Path = unicode:characters_to_binary(["bin/", Name]),
            read_programs(Rest, Read#{Path => #{mode => 8#755, bytes => Bytes}});
        Error -> Error
    end;
read_programs([], Read) ->
    {ok, Read}.

write_as(exe, _, Vm, File, Blocks, Place) ->
    steps([fun(_) -> whittle_pack_format:encode(Blocks) end,
           fun(Pack) ->
                   steps([fun(_) -> about(File, whittle_elf:attach(Vm, Pack)) end,
                          fun(Bytes) ->
                                  written(iolist_size(Bytes) - byte_size(Pack), Bytes,
                                          sha256(Bytes), with_beside(Place, Bytes, fun(Out) ->
                                              whittle_pack_file:write(Out, Bytes, 8#755,
                                                                      fun is_output/1)
                                          end))
                          end])
           end]);
write_as(dir, System, Vm, _, Blocks, Place) ->
    Name = unicode:characters_to_binary(whittle_system:name(System)),
    Files = [{<<"tree/", Path/binary>>, Bytes, Mode}
             || #{path := Path, bytes := Bytes, mode := Mode}
                    <- [whittle_pack_tree:list(Blocks) | lists:append(Blocks)]]
        ++ [{<<"vm">>, Vm, 8#755}, {Name, script(Vm), 8#755}],
    All = [{?SUMS, whittle_pack_sums:text([{Path, Bytes} || {Path, Bytes, _} <- Files]), 8#644}
           | Files],
    steps([fun(_) -> whittle_pack_format:check_paths([Path || {Path, _, _} <- All]) end,
           fun(_) ->
                   {_, Bill, _} = lists:keyfind(<<"tree/etc/bom.json">>, 1, Files),
                   written(byte_size(Vm), [Bytes || {_, Bytes, _} <- All], none,
                           with_beside(Place, Bill, fun(Out) ->
                               whittle_pack_file:write_dir(Out, All, older())
                           end))
           end]).

%% Writes the output and the file beside it under one lock. Both then come from the same build.
with_beside({Out, #{beside := {File, IsOlder, Make}}}, Bytes, Write) ->
    Beside = Make(iolist_to_binary(Bytes)),
    whittle_pack_file:alone(Out, ?LOCK_SECONDS, fun() ->
        steps([fun(_) -> Write(Out) end,
               fun(_) ->
                       case Beside of
                           {ok, Made} -> write_beside(File, Made, IsOlder);
                           none -> remove_older(File, IsOlder)
                       end
               end])
    end);
with_beside({Out, _}, _, Write) ->
    Write(Out).

remove_older(File, IsOlder) ->
    _ = [file:delete(File) || IsOlder(File)],
    ok.

older() ->
    {?MARK, fun(Path) ->
                    lists:member(filename:basename(Path), ?PARTS)
                        orelse is_script(whittle_file:whole(Path, ?MAX_SCRIPT))
            end, ?SUMS}.

%% Writes the start script. The launcher serves the tree that WHITTLE_TREE names if it has no
%% pack, and has the name in WHITTLE_SCRIPT. The script compares the checksum of the `vm', because
%% a shell would run an empty or foreign file as a script. A `vm' that may be run but not read stays
%% unchecked, and so does a `vm' that is not empty if cksum does not exist or cannot run (a limit of
%% memory; the start of the `vm' names it).
script(Vm) ->
    %% The `-' ends the options of sh, because the path may begin with one.
    ["#!/bin/sh -\n"
     "# Runs the vm that lies beside this script, also when a symbolic link leads here.\n"
     "# The `.' keeps newlines at the end of a path, which $( ) would take away.\n"
     "case $0 in /*) self=$0 ;; *) self=./$0 ;; esac\n"
     "real=$(readlink -f -- \"$self\" 2>/dev/null && echo .) && self=${real%??}\n"
     "here=$(unset CDPATH && cd -- \"${self%/*}/\" && pwd -P && echo .) || exit 1\n"
     "here=${here%??}\n"
     "sum= unknown=\n"
     "[ ! -f \"$here/vm\" ] || sum=$({ cksum <\"$here/vm\"; } 2>/dev/null) ||\n"
     "    [ $? -lt 126 ] || unknown=1\n"
     "if [ \"$sum\" != '", whittle_cksum:sum(Vm), "' ] && { [ -n \"$sum\" ] ||\n"
     "    { [ ! \"$unknown\" ] && [ -r \"$here/vm\" ]; } ||\n"
     "    [ ! -f \"$here/vm\" ] || [ ! -x \"$here/vm\" ] || [ ! -s \"$here/vm\" ]; }; then\n"
     "    echo \"${0##*/}: this directory is damaged, so copy it again:"
     " its file vm is missing or changed\" >&2\n"
     "    exit 1\n"
     "fi\n"
     "export WHITTLE_TREE=\"$here/tree\" WHITTLE_SCRIPT=\"$0\"\n"
     "exec \"$here/vm\" \"$@\"\n"].

%% Recognizes a start script of any version.
is_script({ok, <<"#!/bin/sh", Text/binary>>}) ->
    binary:match(Text, <<"WHITTLE_TREE">>) =/= nomatch;
is_script(_) -> false.

written(Vm, Bytes, Sum, ok) -> {ok, #{size => iolist_size(Bytes), vm => Vm, sha256 => Sum}};
written(_, _, _, Error) -> Error.

sha256(Bytes) -> list_to_binary(whittle_digest:bytes(Bytes)).

%% Internal: reading

%% An executable with a pack. Something else may have put bytes behind it.
is_output(File) ->
    case read_bytes(File) of
        {ok, Bytes} ->
            case whittle_elf:pack(Bytes) of
                {ok, _} -> true;
                {error, {elf_damaged, appended}} -> true;
                {error, _} -> false
            end;
        {error, _} -> false
    end.

contents(Bytes) ->
    steps([fun(_) -> whittle_elf:pack(Bytes) end,
           fun whittle_pack_format:contents/1,
           fun(#{size := Size} = Pack) ->
                   {ok, #{size => byte_size(Bytes), vm => byte_size(Bytes) - Size,
                          cold => whittle_pack_tree:cold(Pack), pack => Pack}}
           end]).

read_bytes(File) -> read_bytes(File, ?MAX_FILE).

read_bytes(File, Limit) ->
    case whittle_file:whole(File, Limit) of
        {ok, Bytes} -> {ok, Bytes};
        {error, Reason} -> {error, {unreadable, {File, Reason}}}
    end.

about(File, {error, Error}) -> {error, {in, {File, Error}}};
about(_, Ok) -> Ok.

line(Format, Values) -> io_lib:format(Format, Values).
