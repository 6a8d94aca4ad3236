/*
 * How a command line of the VM is put together: shared by the packed program (main.c) and
 * the nodes that it starts as `erl` (erl.c).
 */
#ifndef WHITTLE_MAIN_H
#define WHITTLE_MAIN_H

#include "flags.h"

/* ERTS's own. */
extern void sys_init_signal_stack(void);
extern void erl_start(int argc, char **argv);

/* Sets the variables of etc/env, and those that ERTS and OTP read. */
void set_environment(void);

/* No crash dump is written unless a variable says where. */
void turn_off_crash_dump(void);

/* +Q, by the limit of descriptors; the first flag, so that any other wins. */
void add_port_limit(struct flags *flags);

/* Becomes the VM. ARGUMENTS are the program's own, after those of the flags. */
void start(const struct flags *flags, char **arguments);

#endif
