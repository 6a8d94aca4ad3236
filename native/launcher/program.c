/*
 * The part of the launcher in epmd, the one program of OTP that has its own executable in the
 * pack (docs/launcher.md). epmd runs on when the program that started it ends, so it must not
 * use that program's file.
 */
#define _GNU_SOURCE
#include "memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

extern int __real_open(const char *path, int flags, ...);

/* Sets the name of the process. It runs from a descriptor, and the kernel would use the
   descriptor's number as the name. */
__attribute__((constructor)) static void take_name(void) { prctl(PR_SET_NAME, NAME); }

/* Opens an empty memfd in place of /dev/null if that is missing: descriptors 0 to 2 must be
   open. */
int __wrap_open(const char *path, int flags, ...)
{
    va_list rest;
    int mode, fd;

    va_start(rest, flags);
    mode = (flags & O_CREAT) != 0 ? va_arg(rest, int) : 0;
    va_end(rest);
    fd = __real_open(path, flags, mode);
    return fd < 0 && errno == ENOENT && strcmp(path, "/dev/null") == 0 ? null_file(0) : fd;
}
