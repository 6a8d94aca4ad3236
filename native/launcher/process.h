/*
 * Runs the programs that the VM asks for: its own, which are in this same executable,
 * and those of the pack.
 */
#ifndef WHITTLE_PROCESS_H
#define WHITTLE_PROCESS_H

/* The VM dups a socket to 3 without looking, so descriptors of ours stay well above. */
#define PROCESS_LOWEST_FD 20

/*
 * Keeps a way to run this executable again that outlives its file: the
 * descriptor that our parent handed down, or a new one on AT_EXECFN.
 */
void process_keep_self(void);

/* Whether PATH (below WHITTLE_ROOT) stands for a program of OTP that is linked in. */
int process_is_own_program(const char *path);

/* Is the program that argv[0] stands for; returns its exit code. */
int process_run_own_program(int argc, char **argv);

#endif
