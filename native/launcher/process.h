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

/* Whether PATH (below WHITTLE_ROOT) stands for a program of OTP that is linked in. */
int process_is_own_program(const char *path);

/* Is the program that argv[0] stands for; returns its exit code. */
int process_run_own_program(int argc, char **argv);

/* What SIGINT means to the VM. */
enum process_interrupt {
    INTERRUPT_BREAKS,    /* ERTS's own: a menu */
    INTERRUPT_STOPS,     /* as SIGTERM, and the exit code is 130; a second one ends at once */
    INTERRUPT_IS_IGNORED /* a shell has its Ctrl-C from the terminal */
};

/*
 * Says how the VM that is about to start takes signals. With HOLD a signal that means the
 * end is kept until the program installs its handler of SIGTERM for the second time, which
 * our boot scripts do once the kernel listens; a second one before that ends at once.
 */
void process_take_signals(enum process_interrupt interrupt, int hold);

/*
 * To be called when standard output cannot be written. With nobody left to read it
 * (EPIPE, ECONNRESET, EIO) the program is told to stop, as by SIGTERM, and ends with
 * 141, a shell's code for SIGPIPE; for another problem it goes on, says so once, and
 * ends with 1. Either code only where it would end with 0.
 */
void process_output_lost(int problem);

#endif
