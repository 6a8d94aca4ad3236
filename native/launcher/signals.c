/*
 * This file must be compiled without LTO: the linker resolves --wrap before
 * link-time optimisation shows it the references.
 */
#define _GNU_SOURCE
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REAL(name) __real_##name
#define WRAP(name) __wrap_##name

extern int REAL(sigaction)(int signal, const struct sigaction *act, struct sigaction *old);
extern void REAL(exit)(int code) __attribute__((noreturn));
extern void REAL(_exit)(int code) __attribute__((noreturn));

/* ---- signals ---------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;
static enum signals_interrupt on_interrupt;
static void (*on_terminate)(int signal);

/*
 * The VM takes SIGTERM before the kernel's process for signals has its handler, and
 * nobody hears of it then. Our handler keeps the signal until the boot script, with
 * os:set_signal(sigterm, handle), says that there is one.
 */
static int held, pending;

void signals_take(enum signals_interrupt interrupt, int hold)
{
    on_interrupt = interrupt;
    held = hold;
}

/* Only one of two threads that both see a signal pass it on. */
static void pass_on(void)
{
    if (!__atomic_load_n(&held, __ATOMIC_SEQ_CST) &&
        __atomic_exchange_n(&pending, 0, __ATOMIC_SEQ_CST))
        on_terminate(SIGTERM);
}

static void terminate(int signal)
{
    /* Whoever asks twice before anything has started means it. */
    if (__atomic_exchange_n(&pending, 1, __ATOMIC_SEQ_CST) &&
        __atomic_load_n(&held, __ATOMIC_SEQ_CST))
        REAL(_exit)(128 + signal);
    pass_on();
}

static void interrupt(int signal)
{
    if (interrupted || on_terminate == NULL)
        REAL(_exit)(128 + signal);
    interrupted = 1;
    terminate(signal);
}

static int handles(const struct sigaction *act)
{
    return act->sa_handler != SIG_DFL && act->sa_handler != SIG_IGN;
}

static int take_terminate(const struct sigaction *act, struct sigaction *old)
{
    struct sigaction own = *act;
    int again = on_terminate != NULL, result;

    on_terminate = handles(act) ? act->sa_handler : NULL;
    if (on_terminate != NULL)
        own.sa_handler = terminate;
    result = REAL(sigaction)(SIGTERM, &own, old);
    if (again) {
        __atomic_store_n(&held, 0, __ATOMIC_SEQ_CST);
        if (on_terminate != NULL)
            pass_on();
    }
    return result;
}

int WRAP(sigaction)(int signal, const struct sigaction *act, struct sigaction *old)
{
    struct sigaction own;

    if (on_interrupt == INTERRUPT_BREAKS || act == NULL)
        return REAL(sigaction)(signal, act, old);
    if (signal == SIGTERM)
        return take_terminate(act, old);
    if (signal == SIGINT && handles(act)) {
        own = *act;
        own.sa_handler = on_interrupt == INTERRUPT_STOPS ? interrupt : SIG_IGN;
        return REAL(sigaction)(signal, &own, old);
    }
    return REAL(sigaction)(signal, act, old);
}

/* ---- the exit code ---------------------------------------------------------- */

/* The exit code, in place of 0, of a program that could not write. */
static int unwritten;

void signals_output_lost(int problem)
{
    int nobody_reads = problem == EPIPE || problem == ECONNRESET || problem == EIO;
    int before = __atomic_exchange_n(&unwritten, nobody_reads ? 128 + SIGPIPE : 1,
                                     __ATOMIC_SEQ_CST);

    if (nobody_reads && before != 128 + SIGPIPE)
        kill(getpid(), SIGTERM);
    else if (!nobody_reads && before == 0)
        dprintf(STDERR_FILENO, "%s: cannot write standard output: %s\n",
                program_invocation_short_name, strerror(problem));
}

static int exit_code(int code)
{
    if (code != 0)
        return code;
    return interrupted ? 128 + SIGINT : unwritten;
}

void WRAP(exit)(int code) { REAL(exit)(exit_code(code)); }

void WRAP(_exit)(int code) { REAL(_exit)(exit_code(code)); }
