/* Decides what signals and lost output mean to the VM, and with which code it ends. */
#ifndef WHITTLE_SIGNALS_H
#define WHITTLE_SIGNALS_H

/* What SIGINT means to the VM. */
enum signals_interrupt {
    INTERRUPT_BREAKS,    /* ERTS's own: a menu */
    INTERRUPT_STOPS,     /* as SIGTERM, and the exit code is 130; a second one ends at once */
    INTERRUPT_IS_IGNORED /* a shell has its Ctrl-C from the terminal */
};

/*
 * Says how the VM that is about to start takes signals. With HOLD the launcher keeps SIGTERM,
 * SIGINT, SIGQUIT and SIGUSR1 until the program installs its handler of SIGTERM for the second
 * time. Our boot scripts do so once the kernel listens. The same signal again before that ends
 * the process at once.
 */
void signals_take(enum signals_interrupt interrupt, int hold);

/*
 * To be called when standard output cannot be written. With nobody left to read it
 * (EPIPE, ECONNRESET, EIO) the program is told to stop, as by SIGTERM, and ends with
 * 141, a shell's code for SIGPIPE; for another problem it goes on, says so once, and
 * ends with 1. Either code only where it would end with 0.
 */
void signals_output_lost(int problem);

#endif
