/*
 * What a program starts as `erl` from the pack: another Erlang node, of the same file, with
 * the pack's code and without the packed application.
 */
#ifndef WHITTLE_ERL_H
#define WHITTLE_ERL_H

/* Has a search along PATH find these programs first, as erl does. */
void erl_set_path(void);

/* Takes erl's command line and becomes the node. */
int erl_run(int argc, char **argv);

/* Takes the command line that erl gives its emulator and becomes the node. */
int erl_run_emulator(int argc, char **argv);

#endif
