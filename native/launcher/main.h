/*
 * The steps of a start that the packed program (main.c) shares with the nodes that it starts
 * as `erl` (erl.c).
 */
#ifndef WHITTLE_MAIN_H
#define WHITTLE_MAIN_H

#include "flags.h"

/* Functions of ERTS. */
extern void sys_init_signal_stack(void);
extern void erl_start(int argc, char **argv);

/* Opens the pack. Ends the program when it is there but cannot be used. Returns whether it is
   there. */
int open_pack(void);

/* Sets the variables of etc/env, and those that ERTS and OTP read. */
void set_environment(void);

/* Turns crash dumps off unless ERL_CRASH_DUMP names a file for them. */
void turn_off_crash_dump(void);

/* Adds +Q, computed from the limit of descriptors. Call it first, so that any other +Q wins. */
void add_port_limit(struct flags *flags);

/* Ends the program when the VM could not use its working directory, one of FLAGS, or a file that a
   flag or a variable names. */
void check_start(const struct flags *flags);

/* Becomes the VM. ARGUMENTS follow the arguments of the program that FLAGS have. */
void start(const struct flags *flags, char **arguments);

#endif
