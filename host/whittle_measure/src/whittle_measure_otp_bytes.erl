%% @doc Counts the bytes of a VM by object, and those of kernel and stdlib by module.
%%
%% Link-time optimization leaves no object files to measure. So the object of a symbol is the source
%% file in the VM's debug information: `erts/emulator/beam/erl_gc.c'. An inlined function counts for
%% the function that contains it. A module counts with the bytes that a pack stores, after
%% Whittle's passes.
%% @hidden
-module(whittle_measure_otp_bytes).

-import(whittle_work, [steps/1]).

-export([count/3]).
%% Pure function, exported for tests
-export([objects/1]).

-export_type([counted/0, error/0]).

-type counted() ::
        #{totals := #{atom() => non_neg_integer()},       % vm, kernel, stdlib
          objects := #{binary() => non_neg_integer()},
          modules := #{binary() => non_neg_integer()},    % "kernel/file"
          compiler := [binary()]}.                        % what the compiler says of itself

-type error() :: {make, whittle_make:reason()}
               | {no_objects, file:filename(), unicode:chardata()}.

%% Symbols of the C library and of assembler files have no source.
-define(NO_SOURCE, <<"(C library and assembler)">>).
-define(NO_SYMBOL, <<"(texts and constants without a symbol)">>).

%% @doc Builds the VM and the applications of one level from an input, and counts both.
-spec count(file:filename(), #{otp := string(), options := whittle_runtime:options()},
            fun((whittle_make:event()) -> term())) -> {ok, counted()} | {error, error()}.
count(Input, #{otp := Otp, options := Options}, Tell) ->
    Telling = Options#{progress => fun(Progress) -> Tell({runtime, Progress}) end},
    Spec = #{target => whittle_runtime:default_target(), otp => Otp, flavor => size,
             optimize => mix, natives => []},
    whittle_runtime:reading(
      fun() ->
              steps([fun(_) -> made(whittle_make:system(#{input => Input, otp => Otp, tell => Tell,
                                                          runtime => Options})) end,
                     fun(#{system := System}) ->
                             steps([fun(_) -> runtime(whittle_runtime:ensure(Spec, Telling)) end,
                                    fun(Runtime) -> all(System, Runtime) end])
                     end])
      end, Options).

made({error, Reason}) -> {error, {make, Reason}};
made(Made) -> Made.

runtime({error, Reason}) -> {error, {make, {runtime, Reason}}};
runtime(Made) -> Made.

all(System, #{executable := Vm, symbols := Symbols, dir := Dir}) ->
    Files = whittle_measure_library:files([kernel, stdlib], System),
    Size = filelib:file_size(Vm),
    case listed(Symbols) of
        {ok, Text} ->
            Objects = objects(Text),
            Rest = max(0, Size - lists:sum(maps:values(Objects))),
            {ok, #{totals => maps:from_list([{vm, Size}
                                             | [{App, bytes(Own)} || {App, Own} <- Files]]),
                   objects => Objects#{?NO_SYMBOL => Rest},
                   modules => maps:from_list([{module(App, Path), byte_size(Bytes)}
                                              || {App, Own} <- Files, {Path, Bytes} <- Own,
                                                 filename:extension(Path) =:= ".beam"]),
                   compiler => compiler(Dir)}};
        {error, Why} -> {error, {no_objects, Symbols, Why}}
    end.

bytes(Files) -> lists:sum([byte_size(Bytes) || {_, Bytes} <- Files]).

module(App, Path) -> list_to_binary([atom_to_list(App), $/, filename:basename(Path, ".beam")]).

listed(File) ->
    case whittle_program:capture("nm", ["--print-size", "--line-numbers", "--format=sysv", File]) of
        {ok, Text} -> {ok, Text};
        {error, not_found} -> {error, "nm is not on the PATH; install the package binutils"};
        {error, {status, _, Text}} -> {error, string:trim(Text)}
    end.

%% @doc Sums the sizes of the symbols by their source file. The argument is the output of nm(1) in
%% its format `sysv' with line numbers.
-spec objects(string()) -> #{binary() => pos_integer()}.
objects(Text) ->
    %% Two names of one address are one function.
    ByAddress = lists:foldl(fun(Line, Seen) ->
                                    case symbol(Line) of
                                        {At, Size, File} ->
                                            maps:update_with(At, fun(Old) -> max(Old, {Size, File})
                                                                 end, {Size, File}, Seen);
                                        none -> Seen
                                    end
                            end, #{}, string:split(Text, "\n", all)),
    maps:fold(fun(_, {Size, File}, Sums) ->
                      maps:update_with(File, fun(Sum) -> Sum + Size end, Size, Sums)
              end, #{}, ByAddress).

%% The columns are name, value, class, type, size, line, section; then a tab and the source.
symbol(Line) ->
    case string:split(Line, "|", all) of
        [_, Value, _, _, Size, _, Place] when Size =/= "" ->
            [Section | Source] = string:split(Place, "\t"),
            case is_stored(string:trim(Section)) andalso {number(Value), number(Size)} of
                {At, Bytes} when is_integer(At), is_integer(Bytes), Bytes > 0 ->
                    {At, Bytes, object(Source)};
                _ -> none
            end;
        _ -> none
    end.

number(Text) ->
    try list_to_integer(string:trim(Text), 16)
    catch error:badarg -> none
    end.

%% Only these have bytes in the file of the VM.
is_stored(".bss" ++ _) -> false;
is_stored(".tbss" ++ _) -> false;
is_stored(".debug" ++ _) -> false;
is_stored("*" ++ _) -> false;
is_stored("") -> false;
is_stored(_) -> true.

%% Paths begin at directories of the build, which say nothing.
object([]) -> ?NO_SOURCE;
object([Source]) ->
    [Path | _] = string:split(Source, ":", trailing),
    Parts = [Part || Part <- string:split(Path, "/", all), Part =/= ".", Part =/= ""],
    case lists:splitwith(fun(Part) -> Part =/= "erts" andalso Part =/= "launcher" end,
                         lists:reverse(Parts)) of
        {Below, [Top | _]} ->
            Placed = [Top | generated(lists:reverse(Below))],
            unicode:characters_to_binary(lists:join("/", Placed));
        {_, []} -> unicode:characters_to_binary(lists:join("/", Parts))
    end.

%% The directories of generated files have the target and the flavor in their names, in another way
%% in each release.
generated([Part, "opt", _ | Below] = Parts) ->
    case string:find(Part, "-linux-") of
        nomatch -> [Part | generated(tl(Parts))];
        _ -> ["generated" | Below]
    end;
generated([Part | Below]) ->
    case string:find(Part, "-linux-") of
        nomatch -> [Part | generated(Below)];
        _ -> ["generated" | Below]
    end;
generated([]) -> [].

%% The inputs of an artifact (docs/runtime.md) contain the words of the compiler and the linker.
compiler(Dir) ->
    case file:consult(filename:join(Dir, "inputs.config")) of
        {ok, [#{compiler := Said}]} ->
            [unicode:characters_to_binary(string:trim(Text)) || {ok, Text} <- Said];
        _ -> []
    end.
