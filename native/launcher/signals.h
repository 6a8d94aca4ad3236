/* Decides what signals and lost output mean to the VM, and with which code it ends. */
#ifndef WHITTLE_SIGNALS_H
#define WHITTLE_SIGNALS_H

/* The effect of SIGINT on the VM. */
enum signals_interrupt {
    INTERRUPT_BREAKS,    /* opens ERTS's menu */
    INTERRUPT_STOPS,     /* acts as SIGTERM, with exit code 130; a second one ends at once */
    INTERRUPT_ENDS,      /* ends the process at once, as SIGTERM does then */
    INTERRUPT_IS_IGNORED /* none: a shell reads Ctrl-C from the terminal */
};

/*
 * Sets how the VM treats signals; call it before the VM starts. With HOLD the launcher keeps
 * SIGTERM, SIGINT, SIGQUIT and SIGUSR1 back until the VM installs its handler of SIGTERM for
 * the second time. Our boot scripts do that as soon as OTP's kernel application can receive
 * signals. If a signal comes a second time before that, it ends the process at once.
 */
void signals_take(enum signals_interrupt interrupt, int hold);

/*
 * Lets a write beyond the limit of a file's size (ulimit -f) fail with EFBIG. Without this, the
 * kernel ends the process by SIGXFSZ, and nothing names the cause.
 */
void signals_report_large_files(void);

/*
 * Reports that a write to standard output failed. If the reader is gone (EPIPE, ECONNRESET,
 * EIO), this stops the program as SIGTERM does, with exit code 141, a shell's code for SIGPIPE.
 * After another problem the program goes on: this prints one line, and the exit code becomes 1.
 * Both codes replace only the exit code 0.
 */
void signals_output_lost(int problem);

#endif
