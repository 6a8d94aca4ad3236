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
 * Gives FLAGS, which name NODE, epmd's port and a cookie, one made up where there is none,
 * and starts epmd unless the flags say otherwise. Ends the program where a value is none
 * that the VM takes.
 */
void distribution_start(struct flags *flags, const char *node);

/*
 * Gives FLAGS the name, the port and the cookie that the environment says, and starts
 * the distribution of a node that has a name.
 */
void distribution_set_up(struct flags *flags);

/*
 * The same for a node that is to ask the running one, which starts no epmd. Returns the
 * running node's name. Ends the program, and says so of OWN_FLAG, where there is no name or
 * no cookie to ask with.
 */
const char *distribution_for_control(struct flags *flags, const char *own_flag);

#endif
