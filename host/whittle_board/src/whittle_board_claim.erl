%% @hidden Opens a disk of this machine that nobody else uses, and keeps it from all others.
%%
%% Linux gives a disk to one owner at a time: a mount in any namespace, a file system or a RAID of
%% several disks, swap space, or a program that opens the disk with O_EXCL. Only this flag asks for
%% all of them. Erlang's file:open/2 joins it with O_CREAT, which means something else, and would
%% make a file in the place of a missing disk. So a line of Perl opens the disk and sleeps, and this
%% module opens its descriptor once more.
-module(whittle_board_claim).

-export([with/2]).

-export_type([error/0]).

-type error() :: busy | no_perl | file:posix() | badarg | system_limit.

-define(SCRIPT,
        "use Fcntl; use Errno; $| = 1;"
        " if (sysopen(my $disk, $ARGV[0], O_RDWR | O_EXCL)) {"
        " print 'open ', fileno($disk), qq(\\n); sleep }"
        " my ($name) = grep { $!{$_} } keys %!; print 'error ', lc($name), qq(\\n);").

%% @doc Opens a disk, and calls the function with the descriptor. The disk has no other owner until
%% the function returns.
-spec with(file:filename(), fun((file:fd()) -> Result)) -> Result | {error, error()}.
with(Device, Fun) ->
    case os:find_executable("perl") of
        false -> {error, no_perl};
        Perl ->
            case whittle_program:start(Perl, ["-e", ?SCRIPT, Device], #{}) of
                {ok, Started} ->
                    try owned(line(Started, <<>>), whittle_program:pid(Started), Fun)
                    after whittle_program:stop(Started)
                    end;
                {error, _} -> {error, no_perl}
            end
    end.

%% Internal

owned(<<"open ", Number/binary>>, Pid, Fun) ->
    Path = lists:concat(["/proc/", Pid, "/fd/", binary_to_list(Number)]),
    case file:open(Path, [read, write, raw, binary]) of
        {ok, Fd} ->
            try Fun(Fd)
            after file:close(Fd)
            end;
        {error, _} = Error -> Error
    end;
owned(<<"error ebusy">>, _, _) -> {error, busy};
owned(<<"error ", Name/binary>>, _, _) -> {error, binary_to_atom(Name)};
owned(_, _, _) -> {error, no_perl}.

line(Started, Before) ->
    case binary:split(Before, <<"\n">>) of
        [Line, _] -> Line;
        [_] ->
            case whittle_program:next(Started, infinity) of
                {output, Bytes} -> line(Started, <<Before/binary, Bytes/binary>>);
                {ended, _} -> Before
            end
    end.
