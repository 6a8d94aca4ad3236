%% @hidden Notes which programs in `priv' directories the target may be unable to run.
%%
%% A program in `priv' may be meant for another machine than the target, or for none, so this is no
%% error. The note saves the search on the device, where the kernel says `enoent' or `enoexec'.
-module(whittle_pack_programs).

-export([notes/2]).

%% The processors that Erlang's users meet, by their number in an ELF header (`e_machine').
-define(PROCESSORS, #{3 => "i386", 8 => "MIPS", 20 => "PowerPC", 21 => "PowerPC 64", 22 => "S/390",
                      40 => "ARM", 62 => "x86-64", 183 => "AArch64", 243 => "RISC-V",
                      258 => "LoongArch"}).

%% @doc Lists the notes about the programs of a system, for a VM's bytes and the name of its target.
-spec notes(whittle_system:system(), {Vm :: binary(), Target :: string()}) ->
          [unicode:chardata()].
notes(System, {Vm, Target}) ->
    [Note || {ok, #{processor := Processor}} <- [whittle_elf:program(Vm)],
             #{name := Name, files := Files} <- whittle_system:apps(System),
             {Path, #{mode := Mode, bytes := Bytes}} <- lists:sort(maps:to_list(Files)),
             Mode band 8#111 =/= 0,
             {ok, Program} <- [whittle_elf:program(Bytes)],
             Note <- note([atom_to_list(Name), ": ", Path], Program, Processor, Target)].

%% Internal

note(File, #{processor := Own}, Processor, Target) when Own =/= Processor ->
    [[File, " is a program for ", shown(Own, Processor), ", and the target is ", Target,
      ": replace it if your program runs it there"]];
note(_, #{loader := none}, _, _) -> [];
note(File, #{loader := Loader}, _, _) ->
    [[File, " is linked to shared libraries: the target needs them and ", Loader,
      ", or link the program statically"]].

%% Two processors may differ only in the width of addresses or in the byte order.
shown({Machine, Width, Endian}, {Machine, _, _}) ->
    io_lib:format("~ts with ~b bits (~ts-endian)", [name(Machine), Width, Endian]);
shown({Machine, _, _}, _) -> name(Machine).

name(Machine) -> maps:get(Machine, ?PROCESSORS, ["processor ", integer_to_list(Machine)]).
