#!/bin/sh
# Runs a command, and ends it when the process that started this script ends.
#
# usage: guard.sh COMMAND [ARGUMENT...]   (as the leader of a process group)
#
# Standard input is a pipe to which the starter never writes. The pipe closes when the starter ends,
# by Ctrl-C, by a kill or by a crash. Then this script kills the whole process group. The exit code
# is that of the command.
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
