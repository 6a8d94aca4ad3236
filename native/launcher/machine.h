/*
 * Adapts OTP to a machine that lacks programs which OTP needs.
 */
#ifndef WHITTLE_MACHINE_H
#define WHITTLE_MACHINE_H

#include "flags.h"

/* Adds flags that turn off those parts of OTP that would crash on this machine. Call it after
   pack_open. */
void machine_add_flags(struct flags *flags);

#endif
