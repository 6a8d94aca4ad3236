/*
 * Linked into a program of OTP that is an executable of its own, which the pack holds
 * (docs/launcher.md): epmd stays when the program that started it ends, so it must not run
 * from that program's file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

extern int __real_open(const char *path, int flags, ...);

/* It runs from a descriptor; the kernel would name its process after that. */
__attribute__((constructor)) static void take_name(void) { prctl(PR_SET_NAME, NAME); }

/* An empty root has no /dev/null, and 0 to 2 have to be taken by something. */
int __wrap_open(const char *path, int flags, ...)
{
    va_list rest;
    int mode, fd;

    va_start(rest, flags);
    mode = (flags & O_CREAT) != 0 ? va_arg(rest, int) : 0;
    va_end(rest);
    fd = __real_open(path, flags, mode);
    if (fd < 0 && errno == ENOENT && strcmp(path, "/dev/null") == 0) {
        fd = memfd_create("null", MFD_ALLOW_SEALING);
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    }
    return fd;
}
