#!/bin/sh
# Runs a command for as long as whoever started us is there.
#
# usage: guard.sh COMMAND [ARGUMENT...]   (as the leader of a process group)
#
# Our standard input is a pipe that its writer never writes to: that it ends
# means that the writer is gone, by Ctrl-C, by a kill or by a crash, and then the
# whole process group goes too. The exit code is the command's.
exec 3<&0
"$@" </dev/null 3<&- &
command=$!
{
    cat <&3
    trap '' TERM
    kill -TERM 0
    sleep 2
    kill -KILL 0
} >/dev/null 2>&1 &
watcher=$!
exec 3<&-
wait "$command"
status=$?
kill -KILL "$watcher" 2>/dev/null
exit "$status"
