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

/* Adds an init flag, and its value unless that is NULL. */
void add_flag(struct flags *flags, const char *name, const char *value);

/* Adds what a named node needs: the port of epmd, and a cookie. */
void set_epmd_port(struct flags *flags);
void set_cookie(struct flags *flags);

/* Whether the flags leave it to us to start epmd, and doing so. */
int wants_epmd(const struct flags *flags);
void start_epmd(void);

/* Becomes the VM. ARGUMENTS are the program's own, after those of the flags. */
void start(const struct flags *flags, char **arguments);

#endif
