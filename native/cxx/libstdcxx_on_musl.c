/*
 * What libstdc++.a and libgcc_eh.a, as built for glibc, ask of a C library and
 * musl does not have. The JIT needs little of libstdc++ (containers), raises no
 * exceptions and draws no random numbers from it.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/random.h>

/* Of gcc's start files, which targets with a musl of ours do without: what an object is
   registered under that is to be destroyed at the end. Zero: the program itself. */
__attribute__((weak, visibility("hidden"))) void *__dso_handle = 0;

/* glibc: whether the process has never had a second thread. Never say so. */
char __libc_single_threaded = 0;

/* glibc 2.35: finds unwind tables faster; -1 is "not found". */
int _dl_find_object(void *address, void *result)
{
    (void)address;
    (void)result;
    return -1;
}

/* glibc 2.36: behind std::random_device. */
uint32_t arc4random(void)
{
    uint32_t value = 0;
    while (getrandom(&value, sizeof value, 0) != sizeof value)
        ;
    return value;
}
