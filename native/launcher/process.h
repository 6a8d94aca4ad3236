/*
 * What the VM asks of the operating system for processes: running its own
 * helper programs (which are in this same executable), signals, ending.
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

/* Whether PATH (below WHITTLE_ROOT) stands for one of ERTS's own programs. */
int process_is_own_program(const char *path);

/* Is the program that argv[0] stands for; returns its exit code. */
int process_run_own_program(int argc, char **argv);

/* Becomes one of our own programs ("epmd", …) in this process; -1 if it cannot. */
int process_exec_self(const char *program, char *const argv[], char *const envp[]);

/*
 * From now on SIGINT means what SIGTERM means to the VM (stop the applications
 * in order), and the exit code is then 130. A second SIGINT ends at once.
 */
void process_stop_on_interrupt(void);

/*
 * To be called when standard output cannot be written. With nobody left to read it
 * (EPIPE, ECONNRESET, EIO) the program is told to stop, as by SIGTERM, and ends with
 * 141, a shell's code for SIGPIPE; for another problem it goes on, says so once, and
 * ends with 1. Either code only where it would end with 0.
 */
void process_output_lost(int problem);

#endif
