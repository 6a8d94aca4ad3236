/*
 * Makes memory files (memfd).
 *
 * From Linux 6.3 on, the setting vm.memfd_noexec tells which memory files the kernel runs: with 1
 * those made with MFD_EXEC, and with 2 none. With 2, Linux 6.3 to 6.5 makes only those with
 * MFD_NOEXEC_SEAL. Older kernels know neither flag.
 */
#ifndef WHITTLE_MEMORY_FILE_H
#define WHITTLE_MEMORY_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x8U
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 0x10U
#endif

/* FLAGS are those of memfd_create. KIND is MFD_EXEC for a file that the kernel has to run, and
   MFD_NOEXEC_SEAL for any other. Returns -1 and sets errno if the kernel makes no such file. */
static inline int memory_file(const char *name, unsigned flags, unsigned kind)
{
    int fd = memfd_create(name, flags | kind);

    return fd < 0 && errno == EINVAL ? memfd_create(name, flags) : fd;
}

/* Nobody changes the file from now on. It was made with MFD_ALLOW_SEALING. */
static inline void seal(int fd)
{
    fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
}

/* Opens an empty file in place of /dev/null. FLAGS may be MFD_CLOEXEC. The seals keep a child that
   inherits the descriptor from filling memory. */
static inline int null_file(unsigned flags)
{
    int fd = memory_file("null", flags | MFD_ALLOW_SEALING, MFD_NOEXEC_SEAL);

    if (fd >= 0)
        seal(fd);
    return fd;
}

#endif
