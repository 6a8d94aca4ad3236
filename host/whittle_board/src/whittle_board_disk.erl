%% @hidden Writes a card to a disk of this machine, and reads it back.
%%
%% It first refuses every disk that is not surely free. refusal/2 decides this from facts, and
%% facts/1 collects them from Linux's /sys and /proc. The facts give the reason a name, and
%% whittle_board_claim has the last word.
-module(whittle_board_disk).

-include_lib("kernel/include/file.hrl").

-import(whittle_work, [steps/1]).

-export([write/3, copy/3, facts/1, refusal/2, mounts/2, number/1, format_error/1]).

-export_type([facts/0, event/0, error/0]).

-type facts() ::
        #{device := file:filename(),
          number := string(),           % Linux's number of it
          whole := boolean(),           % false: a partition
          size := non_neg_integer(),    % bytes
          sector := pos_integer(),      % bytes
          read_only := boolean(),
          mounts := [string()],         % the places where it, or a part of it, is mounted
          swap := boolean(),
          holders := [string()]}.       % devices that consist of it, as those of LVM, and loop
                                        % devices

-type error() ::
        {no_disk, file:filename(), file:posix() | badarg | not_a_disk}
      | {partition, file:filename()}
      | {read_only, file:filename()}
      | {system, file:filename()}
      | {mounted, file:filename(), string()}
      | {swap, file:filename()}
      | {held, file:filename(), string()}
      | {busy, file:filename()}
      | {changed, file:filename()}
      | {sectors, file:filename(), pos_integer()}
      | no_perl
      | {small, file:filename(), non_neg_integer(), pos_integer()}
      | {failed, file:filename(), file:posix() | badarg | terminated | system_limit}
      | {differs, file:filename(), non_neg_integer()}.

-define(SECTOR, 512).
-define(PIECE, 1024 * 1024).

%% The work on the disk, and how much of it is done.
-type event() :: {writing | reading, Percent :: 0..100}.

%% @doc Writes bytes to the beginning of a disk, and compares what the disk then contains.
-spec write(file:filename(), binary(), fun((event()) -> term())) -> ok | {error, error()}.
write(Device, Bytes, Tell) ->
    steps([fun(_) -> facts(Device) end,
           fun(#{number := Number} = Facts) ->
                   steps([fun(_) -> refusal(Facts, byte_size(Bytes)) end,
                          fun(_) ->
                                  claimed(Device, Number, fun(Fd) ->
                                                                  written(Device, Fd, Bytes, Tell)
                                                          end)
                          end])
           end]).

%% @doc Collects what Linux knows about a disk.
-spec facts(file:filename()) -> {ok, facts()} | {error, error()}.
facts(Device) ->
    case file:read_file_info(Device) of
        {ok, #file_info{type = device, mode = Mode, minor_device = Number}}
          when Mode band 8#170000 =:= 8#060000 ->
            of_disk(Device, number(Number));
        {ok, _} -> {error, {no_disk, Device, not_a_disk}};
        {error, Reason} -> {error, {no_disk, Device, Reason}}
    end.

of_disk(Device, Number) ->
    Sys = "/sys/dev/block/" ++ Number,
    case {read(Sys, "size"), file:list_dir(Sys), is_made(Sys)} of
        {{ok, Sectors}, {ok, Names}, false} ->
            Parts = [filename:join(Sys, Name)
                     || Name <- Names, filelib:is_regular(filename:join([Sys, Name, "partition"]))],
            Numbers = [Text || Dir <- [Sys | Parts], {ok, Text} <- [read(Dir, "dev")]],
            Holders = [Holder || Dir <- [Sys | Parts],
                                 {ok, List} <- [file:list_dir(filename:join(Dir, "holders"))],
                                 Holder <- List],
            {ok, #{device => Device, number => Number,
                   whole => not filelib:is_regular(filename:join(Sys, "partition")),
                   size => list_to_integer(Sectors) * ?SECTOR, sector => sector(Sys),
                   read_only => read(Sys, "ro") =:= {ok, "1"},
                   mounts => mounts(mounted(), Numbers), swap => is_swap(Numbers),
                   holders => lists:sort(Holders ++ loops(Numbers))}};
        _ -> {error, {no_disk, Device, not_a_disk}}
    end.

%% Devices that Linux makes of others or of its memory, and drives that take no card.
is_made(Sys) ->
    case {file:read_link(Sys), file:list_dir(filename:join(Sys, "slaves"))} of
        {_, {ok, [_ | _]}} -> true;
        {{ok, To}, _} ->
            re:run(filename:basename(To), "^(dm-|md|zram|ram|sr|mtdblock)",
                   [unicode, {capture, none}]) =:= match;
        _ -> true
    end.

%% A table of partitions counts sectors of the disk, and that of a card those of 512 bytes.
sector(Sys) ->
    case read(Sys, "queue/logical_block_size") of
        {ok, Digits} -> list_to_integer(Digits);
        {error, _} -> ?SECTOR
    end.

%% Linux gives a disk to others although a loop device uses it.
loops(Numbers) ->
    [filename:basename(Dir)
     || Dir <- filelib:wildcard("/sys/block/loop*"),
        {ok, Path} <- [read(Dir, "loop/backing_file")],
        lists:member(number_of(Path), Numbers)].

%% @doc Writes Linux's number of a device, which has the bits of the minor number on both sides of
%% the major one.
-spec number(non_neg_integer()) -> string().
number(Number) ->
    lists:concat([(Number bsr 8) band 16#FFF, ":",
                  (Number band 16#FF) bor ((Number bsr 12) band 16#FFF00)]).

read(Dir, Name) ->
    case file:read_file(filename:join(Dir, Name)) of
        {ok, Text} -> {ok, string:trim(binary_to_list(Text))};
        {error, _} = Error -> Error
    end.

mounted() ->
    case file:read_file("/proc/self/mountinfo") of
        {ok, Text} -> Text;
        {error, _} -> <<>>
    end.

%% @doc Lists the places where devices with these numbers are mounted. The fields of a line of
%% mountinfo are two numbers, the device, the root, the place, options, and after a lone dash the
%% type and the source. Some file systems show a device of their own, so the source counts too.
-spec mounts(binary(), [string()]) -> [string()].
mounts(Text, Numbers) ->
    lists:usort([place(Place)
                 || Line <- binary:split(Text, <<"\n">>, [global, trim]),
                    [Before, After] <- [binary:split(Line, <<" - ">>)],
                    [_, _, Device, _, Place | _] <- [binary:split(Before, <<" ">>, [global])],
                    [_, Source | _] <- [binary:split(After, <<" ">>, [global])],
                    lists:member(binary_to_list(Device), Numbers)
                        orelse lists:member(number_of(binary_to_list(Source)), Numbers)]).

%% The kernel writes a space, a tab, a newline and a backslash as three octal digits.
place(Bytes) ->
    case unicode:characters_to_list(unescaped(Bytes)) of
        Place when is_list(Place) -> Place;
        _ -> binary_to_list(Bytes)
    end.

unescaped(<<$\\, A, B, C, Rest/binary>>) ->
    <<(((A - $0) * 8 + B - $0) * 8 + C - $0), (unescaped(Rest))/binary>>;
unescaped(<<Byte, Rest/binary>>) -> <<Byte, (unescaped(Rest))/binary>>;
unescaped(<<>>) -> <<>>.

is_swap(Numbers) ->
    case file:read_file("/proc/swaps") of
        {ok, Text} ->
            lists:any(fun(Line) ->
                              [Path | _] = string:lexemes(binary_to_list(Line), " \t"),
                              lists:member(number_of(Path), Numbers)
                      end, binary:split(Text, <<"\n">>, [global, trim]));
        {error, _} -> false
    end.

number_of("/" ++ _ = Path) ->
    case file:read_file_info(Path) of
        {ok, #file_info{type = device, minor_device = Number}} -> number(Number);
        _ -> none
    end;
number_of(_) -> none.

%% @doc Decides whether a card of a size must not be written to a disk.
-spec refusal(facts(), pos_integer()) -> ok | {error, error()}.
refusal(#{device := Device, whole := Whole, size := Size, sector := Sector, read_only := ReadOnly,
          mounts := Mounts, swap := Swap, holders := Holders}, Bytes) ->
    Reasons = [{system, Device} || lists:member("/", Mounts)]
        ++ [{mounted, Device, Place} || Place <- Mounts]
        ++ [{swap, Device} || Swap]
        ++ [{held, Device, Holder} || Holder <- Holders]
        ++ [{partition, Device} || not Whole]
        ++ [{sectors, Device, Sector} || Sector =/= ?SECTOR]
        ++ [{read_only, Device} || ReadOnly]
        ++ [{small, Device, Size, Bytes} || Size < Bytes],
    case Reasons of
        [] -> ok;
        [First | _] -> {error, First}
    end.

%% @doc Formats an error as one line.
-spec format_error(error()) -> unicode:chardata().
format_error({no_disk, Device, not_a_disk}) ->
    [Device, " is no disk: name a disk, as /dev/sdX (`lsblk' lists them)"];
format_error({no_disk, Device, Reason}) ->
    [Device, ": ", file:format_error(Reason), ": name a disk, as /dev/sdX (`lsblk' lists them)"];
format_error({partition, Device}) ->
    [Device, " is a partition: name the whole disk (`lsblk' shows it)"];
format_error({read_only, Device}) ->
    [Device, " is read-only: move the switch of the card, or use another one"];
format_error({system, Device}) ->
    [Device, " holds the running system: name another disk (`lsblk' lists them)"];
format_error({mounted, Device, Place}) ->
    [Device, " is mounted at ", whittle_file_name:printable(Place),
     ": make sure that it is the right disk, and unmount it"];
format_error({swap, Device}) ->
    [Device, " is swap space: name another disk (`lsblk' lists them)"];
format_error({held, Device, Holder}) ->
    [Device, " is a part of ", Holder, ": name another disk (`lsblk' lists them)"];
format_error({busy, Device}) ->
    [Device, " is in use (a mount of a service or a container, or a part of a file system of "
     "several disks): name another disk, or end its use"];
format_error({changed, Device}) ->
    [Device, " has become another disk: run the command again"];
format_error({sectors, Device, Bytes}) ->
    [Device, " has sectors of ", whittle_number:text(Bytes), " bytes, and a card has sectors of "
     "512: use another disk"];
format_error(no_perl) -> "there is no perl on the PATH, which claims the disk: install it";
format_error({small, Device, Size, Bytes}) ->
    [Device, " has ", whittle_number:text(Size), " bytes, and the card has ",
     whittle_number:text(Bytes), ": use a larger disk"];
format_error({failed, Device, Reason}) when Reason =:= eacces; Reason =:= eperm ->
    [Device, ": ", file:format_error(Reason), ": run the command as root"];
format_error({failed, Device, Reason}) ->
    [Device, ": ", file:format_error(Reason), ": it is broken, or somebody removed it; write it "
     "again"];
format_error({differs, Device, At}) ->
    [Device, " does not contain what was written to it (byte ", whittle_number:text(At),
     "): use another disk"].

%% Internal

%% The name may have got another disk since the check.
claimed(Device, Number, Fun) ->
    Checked = fun(Fd) ->
                      case file:read_file_info(Fd) of
                          {ok, #file_info{type = device, minor_device = Claimed}} ->
                              case number(Claimed) of
                                  Number -> Fun(Fd);
                                  _ -> {error, {changed, Device}}
                              end;
                          _ -> {error, {changed, Device}}
                      end
              end,
    case whittle_board_claim:with(Device, Checked) of
        {error, busy} -> {error, {busy, Device}};
        {error, no_perl} -> {error, no_perl};
        {error, Reason} when is_atom(Reason) -> {error, {failed, Device, Reason}};
        Result -> Result
    end.

written(Device, Fd, Bytes, Tell) ->
    ok = whittle_unfinished:changing(Device, [Device, " has a part of the card, and its old "
                                              "contents are lost: write the card again"]),
    Result = copy(Fd, Bytes, Tell),
    ok = whittle_unfinished:done(Device),
    case Result of
        ok -> ok;
        {error, {differs, At}} -> {error, {differs, Device, At}};
        {error, Reason} -> {error, {failed, Device, Reason}}
    end.

%% @doc Writes a card to an open disk, and reads it back. The first sector comes last, when the disk
%% has shown all other bytes: a disk with a part of a card is none.
-spec copy(file:fd(), binary(), fun((event()) -> term())) ->
          ok | {error, {differs, non_neg_integer()} | atom()}.
copy(Fd, <<First:?SECTOR/binary, _/binary>> = Bytes, Tell) ->
    steps([fun(_) -> file:pwrite(Fd, 0, <<0:?SECTOR/unit:8>>) end,
           fun(_) -> file:sync(Fd) end,
           fun(_) -> pieces(Fd, ?SECTOR, Bytes, Tell) end,
           fun(_) -> compared(Fd, ?SECTOR, Bytes, Tell) end,
           fun(_) -> file:pwrite(Fd, 0, First) end,
           fun(_) -> compared(Fd, 0, First, fun(_) -> ok end) end]).

pieces(_, At, Bytes, _) when At =:= byte_size(Bytes) -> ok;
pieces(Fd, At, Bytes, Tell) ->
    _ = Tell({writing, 100 * At div byte_size(Bytes)}),
    Size = min(?PIECE, byte_size(Bytes) - At),
    case file:pwrite(Fd, At, binary:part(Bytes, At, Size)) of
        ok -> pieces(Fd, At + Size, Bytes, Tell);
        {error, _} = Error -> Error
    end.

compared(Fd, From, Bytes, Tell) ->
    steps([fun(_) -> file:sync(Fd) end,
           %% Otherwise the reads would show the kernel's memory, not the disk.
           fun(_) -> file:advise(Fd, 0, 0, dont_need) end,
           fun(_) -> same(Fd, From, Bytes, Tell) end]).

same(_, At, Bytes, _) when At =:= byte_size(Bytes) -> ok;
same(Fd, At, Bytes, Tell) ->
    _ = Tell({reading, 100 * At div byte_size(Bytes)}),
    Size = min(?PIECE, byte_size(Bytes) - At),
    Wanted = binary:part(Bytes, At, Size),
    case file:pread(Fd, At, Size) of
        {ok, Wanted} -> same(Fd, At + Size, Bytes, Tell);
        {ok, Read} -> {error, {differs, At + binary:longest_common_prefix([Wanted, Read])}};
        {error, _} = Error -> Error;
        eof -> {error, {differs, At}}
    end.
