#!/bin/sh
# Runs a command, and kills it if the program that started this script ends.
#
# usage: guard.sh COMMAND [ARGUMENT...]   (as the leader of a process group)
#
# The standard input of this script is a pipe, and the program at its other end never writes to it.
# When that program ends (by Ctrl-C, a kill or a crash), the pipe ends. Then this script kills its
# whole process group. The exit code is that of the command. The command may have a PATH of its own,
# so this script takes its programs from the default one.
exec 3<&0
"$@" </dev/null 3<&- &
command=$!
{
    command -p cat <&3
    trap '' TERM
    kill -TERM 0
    command -p sleep 2
    kill -KILL 0
} >/dev/null 2>&1 &
watcher=$!
exec 3<&-
wait "$command"
status=$?
kill -KILL "$watcher" 2>/dev/null
exit "$status"
