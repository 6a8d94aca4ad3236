/*
 * Defines those symbols that libstdc++.a and libgcc_eh.a, built for glibc, need and musl lacks.
 * The JIT uses little of libstdc++ (containers). It raises no exceptions and reads no random
 * numbers from it.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/random.h>

/* gcc's start files define this handle, but targets with our own musl do not use them. A
   program registers its destructors under it. Zero is the handle of the program itself. */
__attribute__((weak, visibility("hidden"))) void *__dso_handle = 0;

/* glibc: true while the process has had only one thread. Zero is always safe. */
char __libc_single_threaded = 0;

/* glibc 2.35: a faster search for unwind tables. -1 means "not found". */
int _dl_find_object(void *address, void *result)
{
    (void)address;
    (void)result;
    return -1;
}

/* glibc 2.36: std::random_device calls it. */
uint32_t arc4random(void)
{
    uint32_t value = 0;
    while (getrandom(&value, sizeof value, 0) != sizeof value)
        ;
    return value;
}
