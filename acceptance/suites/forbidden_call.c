/* Runs a program under a kernel that refuses a system call, for start_SUITE.
   usage: forbidden_call HOW PROGRAM ARGUMENT...
   HOW: memfd_create or execveat: the kernel lacks this call. memfd_create-exec: it knows no flag
   about execution, as before Linux 6.3. memfd_create-unsealed: it makes only memory files that
   nobody can run, as Linux 6.3 to 6.5 with vm.memfd_noexec=2. execveat-denied: a filter or a
   security module forbids the call. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOEXEC_SEAL 0x8
#define EXEC 0x10

/* The kernel answers ERROR to CALL if its second argument has (WITH) or lacks the bits FLAGS.
   Without FLAGS it always does. */
static const struct refusal {
    const char *how;
    unsigned call, flags, with;
    int error;
} refusals[] = {
    {"memfd_create", SYS_memfd_create, 0, 0, ENOSYS},
    {"memfd_create-exec", SYS_memfd_create, NOEXEC_SEAL | EXEC, 1, EINVAL},
    {"memfd_create-unsealed", SYS_memfd_create, NOEXEC_SEAL, 0, EACCES},
    {"execveat", SYS_execveat, 0, 0, ENOSYS},
    {"execveat-denied", SYS_execveat, 0, 0, EACCES},
};

static int run(const struct refusal *refusal, char **argv)
{
    unsigned char if_set = refusal->with ? 0 : 1, if_clear = refusal->with ? 1 : 0;
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refusal->call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, refusal->flags, if_set, if_clear),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)refusal->error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof steps / sizeof *steps, steps};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        return 126;
    execv(argv[0], argv);
    return 127;
}

int main(int argc, char **argv)
{
    size_t i;

    for (i = 0; argc > 2 && i < sizeof refusals / sizeof *refusals; i++)
        if (strcmp(argv[1], refusals[i].how) == 0)
            return run(&refusals[i], argv + 2);
    return 125;
}
