/*
 * Runs another Erlang node from the same file when a program starts `erl`. The node has the
 * pack's code and does not start the packed application.
 */
#ifndef WHITTLE_ERL_H
#define WHITTLE_ERL_H

/* Puts the directory of OTP's programs first in PATH, as erl does. */
void erl_set_path(void);

/* Becomes a node with erl's command line. */
int erl_run(int argc, char **argv);

/* Becomes a node with the command line that erl passes to its emulator. */
int erl_run_emulator(int argc, char **argv);

#endif
