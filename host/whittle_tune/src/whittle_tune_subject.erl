%% @doc Turns the path of a program into a command that starts it.
%%
%% An executable file runs as it is. An output of Whittle for another processor runs under its
%% emulator. An application, a release or an escript is built first, with the defaults of
%% `whittle build'.
%% @hidden
-module(whittle_tune_subject).

-include_lib("kernel/include/file.hrl").

-export([with/3]).

-export_type([error/0]).

-type error() :: {make, whittle_make:reason()}
               | {no_program, file:filename()}
               | {other_processor, file:filename()}
               | {no_emulator, file:filename(), string(), string()}  % the target, and its emulator
               | {directory, file:filename(), file:posix() | badarg}.

%% @doc Calls a function with the command, and then removes the output that it built for it.
-spec with(file:filename(), map(), fun((whittle_measure_observe:subject()) -> Result)) ->
          Result | {error, error()}.
with(Path, Options, Fun) ->
    case file:read_file_info(Path) of
        {ok, #file_info{type = regular, mode = Mode}} when Mode band 8#111 =/= 0 ->
            case is_escript(Path) of
                false ->
                    case emulator(Path) of
                        {ok, Words} -> Fun(subject(Words, Path, Options));
                        {error, _} = Error -> Error
                    end;
                true -> built(Path, Options, Fun)
            end;
        {ok, _} -> built(Path, Options, Fun);
        {error, _} -> {error, {no_program, Path}}
    end.

%% `#! ... escript'
is_escript(Path) ->
    case whittle_file:first(Path, 128) of
        {ok, <<"#!", Rest/binary>>} ->
            [Line | _] = binary:split(Rest, <<"\n">>),
            binary:match(Line, <<"escript">>) =/= nomatch;
        _ -> false
    end.

built(Path, Options, Fun) ->
    case whittle_unfinished:make_directory("whittle-tune") of
        {ok, Dir} ->
            try
                Request = (maps:with([tell], Options))#{input => Path,
                                                        out => filename:join(Dir, "program")},
                case whittle_make:make(Request) of
                    {ok, #{out := Out}} -> Fun(subject([], Out, Options));
                    {error, Reason} -> {error, {make, Reason}}
                end
            after whittle_unfinished:remove_directory(Dir)
            end;
        {error, {Dir, Reason}} -> {error, {directory, Dir, Reason}}
    end.

%% The words before a program for another processor. A file of another kind than the executables of
%% this machine, such as a script, needs none: the program that it starts may do so itself.
emulator(Path) ->
    case {identity(Path), identity("/proc/self/exe")} of
        %% The kernel of x86-64 (62) also runs programs for i386 (3).
        {<<1, 1, 3, 0>>, <<2, 1, 62, 0>>} -> {ok, []};
        {<<_/binary>> = Other, <<_/binary>> = Own} when Other =/= Own ->
            case whittle_pack:target(Path) of
                {ok, Target} ->
                    case whittle_runtime:emulator(Target) of
                        {ok, _} = Ok -> Ok;
                        {error, {no_emulator, #{program := Program}}} ->
                            {error, {no_emulator, Path, Target, Program}}
                    end;
                {error, _} -> {error, {other_processor, Path}}
            end;
        _ -> {ok, []}
    end.

%% The class, the byte order and the processor of an ELF file (elf(5)).
identity(Path) ->
    case whittle_file:first(Path, 20) of
        {ok, <<16#7f, "ELF", Class, Order, _:12/binary, Machine:2/binary>>} ->
            <<Class, Order, Machine/binary>>;
        _ -> none
    end.

%% The shell splits the arguments, as it would on a command line.
subject(Words, Path, #{arguments := Arguments}) ->
    #{program => "/bin/sh", environment => [],
      arguments => ["-c", "exec \"$@\" " ++ Arguments, "sh"] ++ Words ++ [filename:absname(Path)]};
subject([], Path, _) ->
    #{program => filename:absname(Path), arguments => [], environment => []};
subject([Program | Words], Path, _) ->
    #{program => os:find_executable(Program), arguments => Words ++ [filename:absname(Path)],
      environment => []}.
