%% @doc Implements `whittle targets'. It lists the targets that Whittle can build for.
-module(whittle_cmd_targets).
-behaviour(whittle).

-export([command/0, run/1]).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "targets", arguments => [],
      help => "list the machines that you can build for", options => [whittle_command_line:json()]}.

%% @doc Lists the targets with their flavors, then notes about them.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()}.
run(_) ->
    Targets = whittle_runtime:targets(),
    Table = whittle_table:text([[Name, lists:join(", ", flavors(Target)), Summary, Cpu]
                                || #{name := Name, summary := Summary, cpu := Cpu} = Target
                                       <- Targets]),
    Notes = [[Name, ": ", Note, $\n] || #{name := Name, notes := Notes} <- Targets, Note <- Notes],
    {ok, #{text => [Table, [$\n || Notes =/= []], Notes],
           json => #{targets => [json(Target) || Target <- Targets],
                     otp => [text(Otp) || Otp <- whittle_runtime:otps()]}}}.

json(#{name := Name, summary := Summary, cpu := Cpu, word_size := Bits, endian := Endian,
       float := Float, emulator := Emulator, notes := Notes} = Target) ->
    #{name => text(Name), summary => text(Summary), cpu => text(Cpu), word_size => Bits,
      endian => Endian, float => Float, emulator => [text(Word) || Word <- Emulator],
      notes => [text(Note) || Note <- Notes],
      flavors => [text(Flavor) || Flavor <- flavors(Target)]}.

flavors(#{flavors := Flavors}) -> [atom_to_list(Flavor) || Flavor <- Flavors].

text(Chars) -> unicode:characters_to_binary(Chars).
