/*
 * This file must be compiled without LTO: the linker resolves --wrap before
 * link-time optimisation shows it the references.
 */
#define _GNU_SOURCE
#include "process.h"
#include "pack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REAL(name) __real_##name
#define WRAP(name) __wrap_##name

extern int REAL(execv)(const char *path, char *const argv[]);
extern int REAL(execve)(const char *path, char *const argv[], char *const envp[]);
extern int REAL(sigaction)(int signal, const struct sigaction *act, struct sigaction *old);
extern void REAL(exit)(int code) __attribute__((noreturn));
extern void REAL(_exit)(int code) __attribute__((noreturn));

extern char **environ;

/* The parent tells the child-setup program its descriptor by this name. */
#define SELF_VARIABLE "WHITTLE_SELF_FD"
/* The VM dups a socket to 3 without looking, so ours stays well above. */
#define SELF_LOWEST_FD 20
#define PROGRAMS WHITTLE_ROOT "/bin/"

static int self_fd = -1;

void process_keep_self(void)
{
    const char *carried = getenv(SELF_VARIABLE);
    const char *path = (const char *)getauxval(AT_EXECFN);
    int fd;

    if (carried != NULL) {
        self_fd = atoi(carried);
        fcntl(self_fd, F_SETFD, FD_CLOEXEC);
        unsetenv(SELF_VARIABLE);
        return;
    }
    /* O_PATH: an executable that may be run but not read is enough. */
    fd = path != NULL ? open(path, O_PATH | O_CLOEXEC) : -1;
    if (fd < 0)
        fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
    if (fd < 0)
        return;
    self_fd = fcntl(fd, F_DUPFD_CLOEXEC, SELF_LOWEST_FD);
    close(fd);
}

int process_exec_self(const char *program, char *const argv[], char *const envp[])
{
    char name[64];
    size_t count = 0, i;
    char **own;

    while (argv[count] != NULL)
        count++;
    own = malloc((count + 2) * sizeof *own);
    if (own == NULL)
        return -1;
    snprintf(name, sizeof name, PROGRAMS "%s", program);
    own[0] = name; /* main chooses by it */
    for (i = 1; i < count; i++)
        own[i] = argv[i];
    own[count > 0 ? count : 1] = NULL;
    syscall(SYS_execveat, self_fd, "", own, envp, AT_EMPTY_PATH);
    free(own);
    return -1;
}

static const char *const own_programs[] = {"erl_child_setup", "inet_gethost", "heart", "epmd"};

const char *process_own_program(const char *path)
{
    const size_t head = sizeof PROGRAMS - 1;
    size_t i;

    if (strncmp(path, PROGRAMS, head) != 0)
        return NULL;
    for (i = 0; i < sizeof own_programs / sizeof *own_programs; i++)
        if (strcmp(path + head, own_programs[i]) == 0)
            return own_programs[i];
    return NULL;
}

int WRAP(execv)(const char *path, char *const argv[])
{
    const char *program = process_own_program(path);
    char number[16];

    if (program == NULL)
        return REAL(execv)(path, argv);
    /* Only the child-setup program runs others of ours in its turn. */
    snprintf(number, sizeof number, "%d", self_fd);
    setenv(SELF_VARIABLE, number, 1);
    fcntl(self_fd, F_SETFD, 0);
    return process_exec_self(program, argv, environ);
}

int WRAP(execve)(const char *path, char *const argv[], char *const envp[])
{
    const char *program = process_own_program(path);
    return program ? process_exec_self(program, argv, envp) : REAL(execve)(path, argv, envp);
}

/*
 * A port opened with `spawn` runs `/bin/sh -c "exec COMMAND"`. The VM's own
 * programs are asked for by bare name this way (`inet_gethost 4`, `heart …`);
 * they must run without a shell and without a PATH.
 */
static int exec_own_command(const char *command, char *const envp[])
{
    char copy[512];
    char *words[16];
    size_t count = 0, i;
    char *rest = copy, *word;

    if (strncmp(command, "exec ", 5) == 0)
        command += 5;
    if (strlen(command) >= sizeof copy)
        return -1;
    strcpy(copy, command);
    while (count < 15 && (word = strtok_r(rest, " ", &rest)) != NULL)
        words[count++] = word;
    words[count] = NULL;
    if (count == 0)
        return -1;
    if (process_own_program(words[0]) != NULL)
        return process_exec_self(process_own_program(words[0]), words, envp);
    for (i = 0; i < sizeof own_programs / sizeof *own_programs; i++)
        if (strcmp(words[0], own_programs[i]) == 0)
            return process_exec_self(own_programs[i], words, envp);
    return -1;
}

int WRAP(execle)(const char *path, const char *word, ...)
{
    /* The one caller: execle(SHELL, "sh", "-c", COMMAND, NULL, ENVIRONMENT). */
    va_list rest;
    char *argv[4];
    char **envp;

    va_start(rest, word);
    argv[0] = (char *)word;
    argv[1] = va_arg(rest, char *);
    argv[2] = va_arg(rest, char *);
    argv[3] = va_arg(rest, char *);
    envp = va_arg(rest, char **);
    va_end(rest);
    if (argv[2] != NULL)
        exec_own_command(argv[2], envp);
    return REAL(execve)(path, argv, envp);
}

/* ---- the child-setup program ------------------------------------------- */

void process_close_inherited(int open_max)
{
    int fd;
    int done = -1;
#ifdef SYS_close_range
    done = (int)syscall(SYS_close_range, (unsigned)self_fd + 1, ~0u, 0u);
    if (done == 0)
        open_max = self_fd;
#endif
    for (fd = 4; fd < open_max; fd++)
        if (fd != self_fd)
            close(fd);
}

void WRAP(closefrom)(int lowest)
{
    (void)lowest; /* process_close_inherited has done it */
}

/* ---- signals and the exit code ------------------------------------------ */

static volatile sig_atomic_t interrupted;
static int stop_on_interrupt;
static void (*on_terminate)(int signal);

void process_stop_on_interrupt(void) { stop_on_interrupt = 1; }

static void interrupt(int signal)
{
    (void)signal;
    if (interrupted || on_terminate == NULL)
        REAL(_exit)(128 + SIGINT);
    interrupted = 1;
    on_terminate(SIGTERM);
}

int WRAP(sigaction)(int signal, const struct sigaction *act, struct sigaction *old)
{
    struct sigaction own;

    if (!stop_on_interrupt || act == NULL)
        return REAL(sigaction)(signal, act, old);
    if (signal == SIGTERM)
        on_terminate = act->sa_handler == SIG_DFL || act->sa_handler == SIG_IGN ? NULL
                                                                               : act->sa_handler;
    if (signal == SIGINT && act->sa_handler != SIG_IGN && act->sa_handler != SIG_DFL) {
        own = *act;
        own.sa_handler = interrupt;
        return REAL(sigaction)(signal, &own, old);
    }
    return REAL(sigaction)(signal, act, old);
}

static int exit_code(int code) { return interrupted && code == 0 ? 128 + SIGINT : code; }

void WRAP(exit)(int code) { REAL(exit)(exit_code(code)); }

void WRAP(_exit)(int code) { REAL(_exit)(exit_code(code)); }
