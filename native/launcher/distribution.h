/*
 * Makes the program a named node: sets its name, its ports and its cookie, and starts the port
 * mapper (epmd).
 */
#ifndef WHITTLE_DISTRIBUTION_H
#define WHITTLE_DISTRIBUTION_H

#include "flags.h"

/*
 * Prepares the distribution of NODE, whose name is already in FLAGS. Adds epmd's port and a
 * cookie, if necessary a random one. Starts epmd unless FLAGS turn that off. Ends the program
 * when the VM would not accept a value.
 */
void distribution_start(struct flags *flags, const char *node);

/*
 * Adds the node's name and port from the environment to FLAGS. If the node has a name, calls
 * distribution_start.
 */
void distribution_set_up(struct flags *flags);

/*
 * The same for a node that asks the running one: it needs the same port and cookie, and starts
 * no epmd. Returns the running node's name. Ends the program when there is no name or no
 * cookie; the message names OWN_FLAG.
 */
const char *distribution_for_control(struct flags *flags, const char *own_flag);

#endif
