/*
 * Compile this file without LTO: the linker resolves --wrap before link-time optimization
 * shows it the references.
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

/*
 * ERTS handles these signals before OTP's kernel application has a process that receives them,
 * and would lose them. Our handler keeps each signal until that process is ready: the boot
 * script then calls os:set_signal(sigterm, handle).
 */
static struct kept {
    int signal;
    void (*handler)(int signal); /* the VM's handler, or NULL */
    int pending;
} kept[] = {{SIGTERM, NULL, 0}, {SIGQUIT, NULL, 0}, {SIGUSR1, NULL, 0}};

static struct kept *const terminating = &kept[0];
static int held;

#define COUNT(array) (sizeof(array) / sizeof *(array))

void signals_take(enum signals_interrupt interrupt, int hold)
{
    on_interrupt = interrupt;
    held = hold;
}

static struct kept *find_kept(int signal)
{
    size_t i;

    for (i = 0; i < COUNT(kept); i++)
        if (kept[i].signal == signal)
            return &kept[i];
    return NULL;
}

/* Calls the VM's handler once, even if two threads see the same signal. */
static void pass_on(struct kept *one)
{
    if (!__atomic_load_n(&held, __ATOMIC_SEQ_CST) &&
        __atomic_exchange_n(&one->pending, 0, __ATOMIC_SEQ_CST) && one->handler != NULL)
        one->handler(one->signal);
}

/* Keeps a signal or passes it on. SHOWN is the signal that arrived: for SIGINT, ONE is the
   entry of SIGTERM. */
static void take(struct kept *one, int shown)
{
    /* A second signal before the program has started ends it at once. */
    if (__atomic_exchange_n(&one->pending, 1, __ATOMIC_SEQ_CST) &&
        __atomic_load_n(&held, __ATOMIC_SEQ_CST))
        REAL(_exit)(128 + shown);
    pass_on(one);
}

static void keep(int signal) { take(find_kept(signal), signal); }

static void interrupt(int signal)
{
    if (interrupted || terminating->handler == NULL)
        REAL(_exit)(128 + signal);
    interrupted = 1;
    take(terminating, signal);
}

static int handles(const struct sigaction *act)
{
    return act->sa_handler != SIG_DFL && act->sa_handler != SIG_IGN;
}

static int take_kept(struct kept *one, const struct sigaction *act, struct sigaction *old)
{
    struct sigaction own = *act;
    int again = one->handler != NULL, result;
    size_t i;

    one->handler = handles(act) ? act->sa_handler : NULL;
    if (one->handler != NULL)
        own.sa_handler = keep;
    result = REAL(sigaction)(one->signal, &own, old);
    if (again && one == terminating) {
        __atomic_store_n(&held, 0, __ATOMIC_SEQ_CST);
        for (i = 0; i < COUNT(kept); i++)
            pass_on(&kept[i]);
    }
    return result;
}

int WRAP(sigaction)(int signal, const struct sigaction *act, struct sigaction *old)
{
    struct sigaction own;

    if (on_interrupt == INTERRUPT_BREAKS || act == NULL)
        return REAL(sigaction)(signal, act, old);
    if (on_interrupt == INTERRUPT_ENDS && (signal == SIGINT || signal == SIGTERM)) {
        own = *act;
        own.sa_handler = SIG_DFL;
        return REAL(sigaction)(signal, &own, old);
    }
    if (find_kept(signal) != NULL)
        return take_kept(find_kept(signal), act, old);
    if (signal == SIGINT && handles(act)) {
        own = *act;
        own.sa_handler = on_interrupt == INTERRUPT_STOPS ? interrupt : SIG_IGN;
        return REAL(sigaction)(signal, &own, old);
    }
    return REAL(sigaction)(signal, act, old);
}

static void ignore(int signal) { (void)signal; }

/* A handler, and not SIG_IGN, because the programs that this one runs would inherit SIG_IGN. */
void signals_report_large_files(void)
{
    struct sigaction own = {.sa_handler = ignore, .sa_flags = SA_RESTART};

    sigemptyset(&own.sa_mask);
    REAL(sigaction)(SIGXFSZ, &own, NULL);
}

/* ---- the exit code ---------------------------------------------------------- */

/* The exit code of a program that could not write. It replaces 0. */
static int unwritten;

void signals_output_lost(int problem)
{
    int nobody_reads = problem == EPIPE || problem == ECONNRESET || problem == EIO;
    int before = __atomic_exchange_n(&unwritten, nobody_reads ? 128 + SIGPIPE : 1,
                                     __ATOMIC_SEQ_CST);

    if (nobody_reads && on_interrupt == INTERRUPT_ENDS)
        REAL(_exit)(128 + SIGPIPE);
    if (nobody_reads && before != 128 + SIGPIPE)
        kill(getpid(), SIGTERM);
    else if (!nobody_reads && before == 0)
        dprintf(STDERR_FILENO, "%s: cannot write to standard output: %s\n",
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
