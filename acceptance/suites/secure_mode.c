/* Runs a program with AT_SECURE set and without other rights, for start_SUITE. A security module of
   the kernel does the same. x86-64 only. usage: secure_mode PROGRAM ARGUMENT... */
#include <elf.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    pid_t child = fork();
    int status;
    long at;

    if (argc < 2 || child < 0)
        return 1;
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        execv(argv[1], argv + 1);
        _exit(127);
    }
    /* The child stops after execv. Its stack has the number of arguments, the arguments, a
       zero, the environment, a zero, the auxiliary vector. */
    waitpid(child, &status, 0);
    if (!WIFSTOPPED(status))
        return 1;
    at = ptrace(PTRACE_PEEKUSER, child, (void *)offsetof(struct user_regs_struct, rsp), NULL);
    at += 8 * (ptrace(PTRACE_PEEKDATA, child, (void *)at, NULL) + 2);
    while (ptrace(PTRACE_PEEKDATA, child, (void *)at, NULL) != 0)
        at += 8;
    for (at += 8; ptrace(PTRACE_PEEKDATA, child, (void *)at, NULL) != AT_SECURE; at += 16)
        ;
    ptrace(PTRACE_POKEDATA, child, (void *)(at + 8), (void *)1);
    ptrace(PTRACE_DETACH, child, NULL, NULL);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
