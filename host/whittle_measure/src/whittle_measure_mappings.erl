%% @doc Reads the mappings of a process from `/proc/PID/smaps' (proc(5)).
%%
%% qemu's user emulation runs a program for another processor inside its own process. The addresses
%% of that program are those on its own processor, so they lie below the file of the emulator, which
%% Linux maps near the top of the address space. Only the mappings of the program are returned:
%% the emulator's code, its translations and its heap do not exist on the other machine.
%% @hidden
-module(whittle_measure_mappings).

-export([read/1, read/2, emulator/1, parse/2]).

-export_type([mapping/0, program/0]).

-type mapping() :: #{from := non_neg_integer(), to := non_neg_integer(),
                     access := binary(), path := binary(),
                     rss := non_neg_integer(), pss := non_neg_integer(),    % bytes
                     anonymous := non_neg_integer()}.

-type program() :: #{program := binary(),               % the path of its file
                     emulated := boolean(),
                     mappings := [mapping()]}.

%% @doc Reads the mappings of the program that a process runs.
-spec read(pos_integer()) -> {ok, program()} | {error, file:posix() | badarg | terminated}.
read(Pid) -> read(Pid, emulator(Pid)).

%% @doc Reads the mappings like {@link read/1}. The caller knows the emulator already.
-spec read(pos_integer(), binary() | none) ->
          {ok, program()} | {error, file:posix() | badarg | terminated}.
read(Pid, Emulator) ->
    case file:read_file(["/proc/", integer_to_list(Pid), "/smaps"]) of
        {ok, Text} when Emulator =:= none ->
            {ok, #{program => executable(Pid), emulated => false, mappings => parse(Text, none)}};
        {ok, Text} ->
            Mappings = parse(Text, Emulator),
            Files = [Path || #{path := <<$/, _/binary>> = Path} <- Mappings],
            {ok, #{program => hd(Files ++ [<<>>]), emulated => true, mappings => Mappings}};
        {error, _} = Error -> Error
    end.

%% @doc Returns the path of the emulator that runs the program of a process, or `none'.
-spec emulator(pos_integer()) -> binary() | none.
emulator(Pid) ->
    Path = executable(Pid),
    case filename:basename(Path) of
        <<"qemu-system", _/binary>> -> none;
        <<"qemu-", _/binary>> -> Path;
        _ -> none
    end.

executable(Pid) ->
    case file:read_link_all(["/proc/", integer_to_list(Pid), "/exe"]) of
        {ok, Path} -> unicode:characters_to_binary(Path);
        {error, _} -> <<>>
    end.

%% @doc Parses the text of `smaps'. With an emulator, it returns the mappings below that file; if
%% there are none, the program lies elsewhere, and all mappings count.
-spec parse(binary(), binary() | none) -> [mapping()].
parse(Text, Emulator) ->
    All = lists:reverse(lists:foldl(fun line/2, [], binary:split(Text, <<"\n">>, [global]))),
    case lists:takewhile(fun(#{path := Path}) -> Path =/= Emulator end, All) of
        [] -> All;
        Below -> Below
    end.

%% Each mapping begins with a line `FROM-TO ACCESS OFFSET DEVICE INODE PATH'. The names of its
%% fields begin with capitals.
line(<<"Rss:", Rest/binary>>, [Mapping | Before]) -> [Mapping#{rss := bytes(Rest)} | Before];
line(<<"Pss:", Rest/binary>>, [Mapping | Before]) -> [Mapping#{pss := bytes(Rest)} | Before];
line(<<"Anonymous:", Rest/binary>>, [Mapping | Before]) ->
    [Mapping#{anonymous := bytes(Rest)} | Before];
line(<<First, _/binary>> = Line, Before)
  when First >= $0, First =< $9; First >= $a, First =< $f ->
    {match, [From, To, Access, Path]} =
        re:run(Line, "^([0-9a-f]+)-([0-9a-f]+) (\\S+) \\S+ \\S+ \\d+ *(.*)$",
               [{capture, all_but_first, binary}]),
    [#{from => binary_to_integer(From, 16), to => binary_to_integer(To, 16), access => Access,
       path => Path, rss => 0, pss => 0, anonymous => 0} | Before];
line(_, Before) -> Before.

%% `     123 kB'
bytes(Text) ->
    [Number | _] = binary:split(Text, <<" ">>, [global, trim_all]),
    true = byte_size(Number) =< 19,
    1024 * binary_to_integer(Number).
