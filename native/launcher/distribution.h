/*
 * What makes the program a named node: its name, its ports, its cookie, and the port
 * mapper (epmd).
 */
#ifndef WHITTLE_DISTRIBUTION_H
#define WHITTLE_DISTRIBUTION_H

#include "flags.h"

/* The value of the environment's variable NAME; NULL when it is not set or empty. */
const char *variable(const char *name);

/*
 * Gives FLAGS the name, the port and the cookie that the environment says, and starts
 * epmd where the node needs it. Does nothing but check for a node without a name. Ends
 * the program where a value is none that the VM takes.
 */
void distribution_set_up(struct flags *flags);

/*
 * The same for a node that is to ask the running one, which starts no epmd. Returns the
 * running node's name. Ends the program, and says so of OWN_FLAG, where there is no name or
 * no cookie to ask with.
 */
const char *distribution_for_control(struct flags *flags, const char *own_flag);

#endif
