/*
 * Replaces one of ERTS's helper programs (erl_child_setup, heart, ...) in an OTP installation. It
 * runs the VM as that program, as the launcher does in an output. So OTP's suites test the launcher
 * too. The compiler's command line defines NAME.
 */
#include <string.h>
#include <unistd.h>

#define ROLE "/.whittle/bin/" NAME

int main(int argc, char **argv)
{
    char vm[4096];
    /* The caller uses its full path, or its bare name with a PATH that contains BINDIR. */
    ssize_t length = readlink("/proc/self/exe", vm, sizeof vm - sizeof "beam.smp");
    if (argc < 1 || length < 0)
        return 127;
    vm[length] = '\0';
    strcpy(strrchr(vm, '/') + 1, "beam.smp");
    argv[0] = ROLE;
    execv(vm, argv);
    return 127;
}
