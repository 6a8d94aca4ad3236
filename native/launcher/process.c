/*
 * Compile this file without LTO: the linker resolves --wrap before link-time optimization
 * shows it the references.
 */
#define _GNU_SOURCE
#include "process.h"
#include "entry.h"
#include "erl.h"
#include "flags.h"
#include "input.h"
#include "memory_file.h"
#include "pack.h"
#include "vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REAL(name) __real_##name
#define WRAP(name) __wrap_##name

extern int REAL(execv)(const char *path, char *const argv[]);
extern int REAL(execve)(const char *path, char *const argv[], char *const envp[]);
extern int REAL(system)(const char *command);

extern char **environ;

/* With this variable a parent passes the number of its descriptor of the executable to a child
   that runs further linked-in programs. */
#define SELF_VARIABLE "WHITTLE_SELF_FD"

/* With this variable `whittle run` passes the path of the emulator that runs programs of
   another processor on this machine. */
#define EMULATOR_VARIABLE "WHITTLE_EMULATOR"

static int self_fd = -1;

/* ---- the programs of OTP that are linked in ----------------------------------- */

/* The VM of one program (--vm program) has no function for a program that nothing can start. */
#define OPTIONAL __attribute__((weak))

extern int erl_child_setup_main(int argc, char **argv);
extern int inet_gethost_main(int argc, char **argv) OPTIONAL;
extern int heart_main(int argc, char **argv) OPTIONAL;
extern int memsup_main(int argc, char **argv) OPTIONAL;
extern int cpu_sup_main(int argc, char **argv) OPTIONAL;

#define PROGRAMS WHITTLE_ROOT "/bin/"

/*
 * Closes all descriptors from 4 on, except that of the executable. On a kernel without
 * close_range it closes only those below OPEN_MAX.
 */
static void close_inherited(int open_max)
{
    int fd, last = self_fd < 3 ? 3 : self_fd;
    int done = -1;
#ifdef SYS_close_range
    done = (int)syscall(SYS_close_range, (unsigned)last + 1, ~0u, 0u);
    if (done == 0)
        open_max = last;
#endif
    for (fd = 4; fd < open_max; fd++)
        if (fd != self_fd)
            close(fd);
}

void WRAP(closefrom)(int lowest)
{
    (void)lowest; /* child_setup has already closed them */
}

static int child_setup(int argc, char **argv)
{
    close_inherited(argc > 1 ? atoi(argv[1]) : 1024);
    return erl_child_setup_main(argc, argv);
}

static const struct program {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *shown; /* the name of its process, at most 15 characters */
    int runs_others;   /* it runs this file again, so it needs the descriptor */
} programs[] = {
    {"erl_child_setup", child_setup, "erl_child_setup", 1},
    {"inet_gethost", inet_gethost_main, "inet_gethost", 0},
    {"heart", heart_main, "heart", 0},
    {"memsup", memsup_main, "memsup", 0},
    {"cpu_sup", cpu_sup_main, "cpu_sup", 0},
    {"erl", erl_run, "beam.smp", 1},
    {"erlexec", erl_run, "beam.smp", 1},
    {"beam.smp", erl_run_emulator, "beam.smp", 1},
};

/* entry.c has the name of each program. */
#define ONE(name) +1
_Static_assert(sizeof programs / sizeof *programs == 0 WHITTLE_CHILDREN(ONE),
               "entry.h lists the programs");

static const struct program *find_program(const char *name)
{
    size_t i;
    for (i = 0; i < sizeof programs / sizeof *programs; i++)
        if (programs[i].run != NULL && strcmp(name, programs[i].name) == 0)
            return &programs[i];
    return NULL;
}

/* Returns whether the part of PATH before END consists of HEAD and TAIL. If HEAD ends with -, a
   version may be between them. */
static int is_directory(const char *path, const char *end, const char *head, const char *tail)
{
    size_t length = strlen(head);

    if ((size_t)(end - path) < length || memcmp(path, head, length) != 0)
        return 0;
    path += length;
    if (head[length - 1] == '-')
        path += strcspn(path, "/");
    length = strlen(tail);
    return path <= end && (size_t)(end - path) == length && memcmp(path, tail, length) == 0;
}

/*
 * Returns the linked-in program for a path below WHITTLE_ROOT, or NULL. OTP looks for its
 * programs in bin and in erts-VSN/bin, and for those of os_mon in os_mon's priv/bin.
 */
static const struct program *program_at(const char *path)
{
    const size_t root = sizeof WHITTLE_ROOT;
    const char *name;

    if (strncmp(path, WHITTLE_ROOT "/", root) != 0)
        return NULL;
    path += root;
    name = strrchr(path, '/');
    if (name == NULL || !(is_directory(path, name, "bin", "") ||
                          is_directory(path, name, "erts-", "/bin") ||
                          is_directory(path, name, "lib/os_mon-", "/priv/bin")))
        return NULL;
    return find_program(name + 1);
}

/* Returns whether NAME is a program with an executable of its own in the pack's bin. */
static int is_separate(const char *name) { return strcmp(name, "epmd") == 0; }

int process_is_own_program(const char *path) { return program_at(path) != NULL; }

/* The program of OTP as which this process was started, or NULL. */
static const struct program *running;

int process_run_own_program(int argc, char **argv)
{
    running = program_at(argv[0]);
    /* Without this, ps shows the name of the executable, or the number of a descriptor. */
    prctl(PR_SET_NAME, running->shown);
    process_keep_self();
    return running->run(argc, argv);
}

/*
 * The standard output of heart is a pipe to the VM that it watches. A command that inherits this
 * pipe would end at its first write after the end of that VM. So the command gets heart's standard
 * error as its standard output, or /dev/null if nobody reads standard error.
 */
static void replace_output(void)
{
    struct pollfd errors = {STDERR_FILENO, POLLOUT, 0};
    int to = STDERR_FILENO;

    if (poll(&errors, 1, 0) < 0 || (errors.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0)
        to = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (to >= 0)
        dup2(to, STDOUT_FILENO);
}

/* A NIF may call system(3) too, so only heart's calls change. */
int WRAP(system)(const char *command)
{
    if (running != NULL && running->run == heart_main)
        replace_output();
    return REAL(system)(command);
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
    /* With O_PATH this works for an executable that the user may run but not read. */
    fd = path != NULL ? open(path, O_PATH | O_CLOEXEC) : -1;
    if (fd < 0)
        fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
    if (fd < 0)
        return;
    self_fd = fcntl(fd, F_DUPFD_CLOEXEC, PROCESS_LOWEST_FD);
    close(fd);
}

/* The path must be absolute, because the VM changes the directory before it starts some of its
   programs. */
void process_check_emulator(void)
{
    const char *path = variable(EMULATOR_VARIABLE);
    struct stat status;

    if (path != NULL && (path[0] != '/' || stat(path, &status) < 0 || !S_ISREG(status.st_mode) ||
                         access(path, X_OK) < 0))
        refuse_value(EMULATOR_VARIABLE, path,
                     "the absolute path of an emulator, such as /usr/bin/qemu-arm");
}

void process_check_system_calls(void)
{
    static const char remedy[] =
        "the program needs Linux 3.19 or newer; allow this call if a filter (seccomp) forbids it";
    char *nothing[] = {"", NULL};
    int fd = memory_file("check", MFD_CLOEXEC, MFD_NOEXEC_SEAL);

    if (fd < 0)
        refuse(EXIT_FAILED, "the system call memfd_create fails", remedy);
    close(fd);
    /* There is no such descriptor, so the kernel runs nothing and reports EBADF. */
    if (variable(EMULATOR_VARIABLE) == NULL &&
        syscall(SYS_execveat, -1, "", nothing, nothing, AT_EMPTY_PATH) &&
        (errno == ENOSYS || errno == EPERM || errno == EACCES))
        refuse(EXIT_FAILED, "the system call execveat fails", remedy);
}

/*
 * Runs the file of the descriptor FD. When the file is for another processor, EMULATOR runs it;
 * its arguments have qemu's form (-0 WORD sets argv[0]). Returns only on failure.
 */
static void exec_descriptor(int fd, const char *emulator, char *const argv[], char *const envp[])
{
    char path[32];
    size_t count = 0;
    char **words;

    if (emulator == NULL) {
        syscall(SYS_execveat, fd, "", argv, envp, AT_EMPTY_PATH);
        return;
    }
    while (argv[count] != NULL)
        count++;
    words = malloc((count + 4) * sizeof *words);
    if (words == NULL || count == 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    words[0] = (char *)emulator;
    words[1] = "-0";
    words[2] = argv[0];
    words[3] = path;
    memcpy(words + 4, argv + 1, count * sizeof *words); /* with the NULL at the end */
    fcntl(fd, F_SETFD, 0);
    REAL(execve)(emulator, words, envp);
    free(words);
}

/* Returns ENVP with SELF_VARIABLE added, or NULL without memory. SETTING is the memory for the
   variable. */
static char **with_self(char *const envp[], char setting[32])
{
    size_t count = 0;
    char **all;

    while (envp[count] != NULL)
        count++;
    all = malloc((count + 2) * sizeof *all);
    if (all == NULL)
        return NULL;
    snprintf(setting, 32, SELF_VARIABLE "=%d", self_fd);
    memcpy(all, envp, count * sizeof *all);
    all[count] = setting;
    all[count + 1] = NULL;
    return all;
}

/* Becomes a linked-in program. Returns only on failure, with -1. */
static int exec_self(const struct program *program, char *const argv[], char *const envp[])
{
    char name[64], setting[32];
    size_t count = 0;
    char **words, **all = NULL;

    while (argv[count] != NULL)
        count++;
    words = malloc((count + 2) * sizeof *words);
    if (words == NULL)
        return -1;
    memcpy(words, argv, (count + 1) * sizeof *words);
    snprintf(name, sizeof name, PROGRAMS "%s", program->name);
    words[0] = name; /* main chooses the program by it */
    if (count == 0)
        words[1] = NULL;
    if (program->runs_others && (all = with_self(envp, setting)) != NULL)
        fcntl(self_fd, F_SETFD, 0);
    exec_descriptor(self_fd, variable(EMULATOR_VARIABLE), words, all != NULL ? all : envp);
    fcntl(self_fd, F_SETFD, FD_CLOEXEC);
    free(all);
    free(words);
    return -1;
}

/* Prints a refusal of the kernel, because the VM reports only its number. */
static void say_refused(const char *path, const char *why)
{
    fprintf(stderr, "%s: cannot run %s: %s\n", program_invocation_short_name, path, why);
    errno = EACCES;
}

/* Becomes a program of the pack, such as one in an application's priv directory. Returns only
   on failure: whether the pack has the program. */
static int exec_packed(const char *path, char *const argv[], char *const envp[])
{
    static const char elf[4] = "\177ELF";
    const char *emulator = variable(EMULATOR_VARIABLE);
    int fd = vfs_open_program(path), problem;
    char head[4];

    if (fd < 0) {
        if (errno == EACCES)
            say_refused(path, "the kernel runs no program from memory; set vm.memfd_noexec to 0 "
                              "or 1 (sysctl)");
        return errno != ENOENT;
    }
    /* The kernel runs a script: its interpreter is a program of this machine. */
    if (pread(fd, head, sizeof head, 0) != sizeof head || memcmp(head, elf, sizeof elf) != 0)
        emulator = NULL;
    else
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    exec_descriptor(fd, emulator, argv, envp);
    problem = errno;
    close(fd);
    errno = problem;
    if (errno == EACCES)
        say_refused(path, "the kernel refuses to run it from memory; allow the call execveat of "
                          "a memory file (seccomp, SELinux, AppArmor)");
    return 1;
}

int WRAP(execve)(const char *path, char *const argv[], char *const envp[])
{
    const struct program *program = program_at(path);
    if (program != NULL)
        return exec_self(program, argv, envp);
    if (exec_packed(path, argv, envp))
        return -1;
    return REAL(execve)(path, argv, envp);
}

int WRAP(execv)(const char *path, char *const argv[]) { return WRAP(execve)(path, argv, environ); }

/*
 * Returns the first word of TEXT as a shell reads it. Removes quotes and backslashes in place,
 * and sets *REST to the place after the word. Returns NULL at the end of the text. Returns NULL
 * and sets *REST to NULL when TEXT has a character that is special to a shell.
 */
static char *shell_word(char *text, char **rest)
{
    static const char special[] = "$`|&;<>()*?[#~\n";
    char quote = '\0';
    char *from, *to, *word;

    text += strspn(text, " \t");
    from = to = word = text;
    for (; *from != '\0' && (quote != '\0' || (*from != ' ' && *from != '\t')); from++) {
        if (*from == quote) {
            quote = '\0';
        } else if (quote == '\0' && (*from == '"' || *from == '\'')) {
            quote = *from;
        } else if (quote == '\'') {
            *to++ = *from;
        } else if (*from == '\\' && from[1] != '\0' &&
                   (quote == '\0' || strchr("\\\"$`", from[1]) != NULL)) {
            *to++ = *++from;
        } else if (strchr(quote == '\0' ? special : "$`", *from) != NULL) {
            *rest = NULL;
            return NULL;
        } else {
            *to++ = *from;
        }
    }
    *rest = quote != '\0' ? NULL : *from == '\0' ? from : from + 1;
    if (quote != '\0' || from == text)
        return NULL;
    *to = '\0';
    return word;
}

/*
 * Runs COMMAND without a shell if it names a linked-in program or a program of the pack. A port
 * with `spawn` runs `/bin/sh -c "exec COMMAND"`. OTP starts its own programs in this way, by
 * bare name (`heart …`) or between quotes. They must run without a shell and without a PATH,
 * and a shell cannot see the files of the pack.
 */
static void exec_without_shell(const char *command, char *const envp[])
{
    static const char before[] = "exec ";
    const struct program *program;
    const char *bin = getenv("BINDIR");
    int is_packed_vm = bin != NULL && strcmp(bin, WHITTLE_ROOT "/bin") == 0;
    char *copy, *rest, *word, **words;
    size_t count = 0;

    if (strncmp(command, before, sizeof before - 1) == 0)
        command += sizeof before - 1;
    copy = rest = strdup(command);
    words = malloc((strlen(command) / 2 + 2) * sizeof *words);
    if (copy == NULL || words == NULL)
        return;
    while ((word = shell_word(rest, &rest)) != NULL)
        words[count++] = word;
    words[count] = NULL;
    if (rest == NULL || count == 0)
        return;
    program = program_at(words[0]);
    /* In a VM without a pack, bare names are programs of the machine. */
    if (program == NULL && is_packed_vm)
        program = find_program(words[0]);
    if (program != NULL)
        exec_self(program, words, envp);
    else if (strchr(words[0], '/') != NULL)
        exec_packed(words[0], words, envp);
    else if (is_packed_vm && is_separate(words[0]))
        exec_packed(PROGRAMS "epmd", words, envp);
}

int WRAP(execle)(const char *path, const char *word, ...)
{
    /* The only call in ERTS is execle(SHELL, "sh", "-c", COMMAND, NULL, ENVIRONMENT). */
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
