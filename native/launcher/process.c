/*
 * This file must be compiled without LTO: the linker resolves --wrap before
 * link-time optimisation shows it the references.
 */
#define _GNU_SOURCE
#include "process.h"
#include "pack.h"
#include "vfs.h"

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

/* `whittle run` names by it the program that runs another processor's programs here. */
#define EMULATOR_VARIABLE "WHITTLE_EMULATOR"

static int self_fd = -1;

/* ---- ERTS's own programs -------------------------------------------------- */

extern int erl_child_setup_main(int argc, char **argv);
extern int inet_gethost_main(int argc, char **argv);
extern int heart_main(int argc, char **argv);
extern int epmd_main(int argc, char **argv);

#define PROGRAMS WHITTLE_ROOT "/bin/"

/*
 * Closes the descriptors from 4 on, below OPEN_MAX where the kernel has no
 * close_range, but for our way to ourselves.
 */
static void close_inherited(int open_max)
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
    (void)lowest; /* child_setup has done it */
}

static int child_setup(int argc, char **argv)
{
    close_inherited(argc > 1 ? atoi(argv[1]) : 1024);
    return erl_child_setup_main(argc, argv);
}

static const struct program {
    const char *name;
    int (*run)(int argc, char **argv);
} programs[] = {
    {"erl_child_setup", child_setup},
    {"inet_gethost", inet_gethost_main},
    {"heart", heart_main},
    {"epmd", epmd_main},
};

static const struct program *find_program(const char *name)
{
    size_t i;
    for (i = 0; i < sizeof programs / sizeof *programs; i++)
        if (strcmp(name, programs[i].name) == 0)
            return &programs[i];
    return NULL;
}

/* The program that a path below WHITTLE_ROOT stands for. */
static const struct program *program_at(const char *path)
{
    const size_t head = sizeof PROGRAMS - 1;
    return strncmp(path, PROGRAMS, head) == 0 ? find_program(path + head) : NULL;
}

int process_is_own_program(const char *path) { return program_at(path) != NULL; }

int process_run_own_program(int argc, char **argv)
{
    process_keep_self();
    return program_at(argv[0])->run(argc, argv);
}

/* ---- running ourselves again ----------------------------------------------- */

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
    self_fd = fcntl(fd, F_DUPFD_CLOEXEC, PROCESS_LOWEST_FD);
    close(fd);
}

/*
 * Under an emulator the kernel cannot run this file: the emulator is told to, in the
 * manner of qemu's (-0 WORD is argv[0]). ARGV has room for three words before it.
 */
static void exec_by_emulator(const char *emulator, char **argv, char *const envp[])
{
    char path[32];

    snprintf(path, sizeof path, "/proc/self/fd/%d", self_fd);
    fcntl(self_fd, F_SETFD, 0);
    argv[-3] = (char *)emulator;
    argv[-2] = "-0";
    argv[-1] = argv[0];
    argv[0] = path;
    REAL(execve)(emulator, argv - 3, envp);
}

int process_exec_self(const char *program, char *const argv[], char *const envp[])
{
    const char *emulator = secure_getenv(EMULATOR_VARIABLE);
    char name[64];
    size_t count = 0, i;
    char **words, **own;

    while (argv[count] != NULL)
        count++;
    words = malloc((count + 5) * sizeof *words);
    if (words == NULL)
        return -1;
    own = words + 3;
    snprintf(name, sizeof name, PROGRAMS "%s", program);
    own[0] = name; /* main chooses by it */
    for (i = 1; i < count; i++)
        own[i] = argv[i];
    own[count > 0 ? count : 1] = NULL;
    if (emulator != NULL)
        exec_by_emulator(emulator, own, envp);
    else
        syscall(SYS_execveat, self_fd, "", own, envp, AT_EMPTY_PATH);
    free(words);
    return -1;
}

/* Becomes a program that lies in the pack, as in an application's priv directory. */
static void exec_packed(const char *path, char *const argv[], char *const envp[])
{
    int fd = vfs_open_program(path);
    if (fd < 0)
        return;
    syscall(SYS_execveat, fd, "", argv, envp, AT_EMPTY_PATH);
    close(fd);
}

int WRAP(execv)(const char *path, char *const argv[])
{
    const struct program *program = program_at(path);
    char number[16];

    if (program == NULL) {
        exec_packed(path, argv, environ);
        return REAL(execv)(path, argv);
    }
    /* Only the child-setup program runs others of ours in its turn. */
    snprintf(number, sizeof number, "%d", self_fd);
    setenv(SELF_VARIABLE, number, 1);
    fcntl(self_fd, F_SETFD, 0);
    return process_exec_self(program->name, argv, environ);
}

int WRAP(execve)(const char *path, char *const argv[], char *const envp[])
{
    const struct program *program = program_at(path);
    if (program != NULL)
        return process_exec_self(program->name, argv, envp);
    exec_packed(path, argv, envp);
    return REAL(execve)(path, argv, envp);
}

/*
 * A port opened with `spawn` runs `/bin/sh -c "exec COMMAND"`. The VM's own
 * programs are asked for by bare name this way (`inet_gethost 4`, `heart …`);
 * they must run without a shell and without a PATH. A shell does not find what lies
 * in the pack either. Words are parted by spaces, without quotes.
 */
static void exec_without_shell(const char *command, char *const envp[])
{
    static const char shell_word[] = "exec ";
    const struct program *program;
    char *copy, *rest, *word, **words;
    size_t count = 0;

    if (strncmp(command, shell_word, sizeof shell_word - 1) == 0)
        command += sizeof shell_word - 1;
    copy = rest = strdup(command);
    words = malloc((strlen(command) / 2 + 2) * sizeof *words);
    if (copy == NULL || words == NULL)
        return;
    while ((word = strtok_r(rest, " ", &rest)) != NULL)
        words[count++] = word;
    words[count] = NULL;
    if (count == 0)
        return;
    program = program_at(words[0]);
    if (program == NULL)
        program = find_program(words[0]);
    if (program != NULL)
        process_exec_self(program->name, words, envp);
    else
        exec_packed(words[0], words, envp);
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
        exec_without_shell(argv[2], envp);
    return REAL(execve)(path, argv, envp);
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

/* What a program ends with that could not write and would end with 0. */
static int unwritten;

void process_output_lost(int problem)
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
