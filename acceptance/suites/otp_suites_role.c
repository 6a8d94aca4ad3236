/*
 * Stands in an installation for one of ERTS's small programs (erl_child_setup,
 * heart, ...) and becomes the VM in that role, as it does for itself when it runs
 * from one file: so OTP's suites test that too. NAME is given by the compiler.
 */
#include <string.h>
#include <unistd.h>

#define ROLE "/.whittle/bin/" NAME

int main(int argc, char **argv)
{
    char vm[4096];
    /* Run by its full path, or by its bare name from a PATH that holds BINDIR. */
    ssize_t length = readlink("/proc/self/exe", vm, sizeof vm - sizeof "beam.smp");
    if (argc < 1 || length < 0)
        return 127;
    vm[length] = '\0';
    strcpy(strrchr(vm, '/') + 1, "beam.smp");
    argv[0] = ROLE;
    execv(vm, argv);
    return 127;
}
