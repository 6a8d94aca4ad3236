/*
 * What the machine lacks that OTP takes for granted.
 */
#ifndef WHITTLE_MACHINE_H
#define WHITTLE_MACHINE_H

#include "flags.h"

/* Adds flags that keep OTP from what would end it here. To be called with the pack open. */
void machine_add_flags(struct flags *flags);

#endif
