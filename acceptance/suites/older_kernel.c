/* Simulates a kernel older than Linux 5.1, which lacks futex_time64, for agree_SUITE. It is linked
   with ERTS's library of threads. It waits for an event that nobody sets, and prints the result of
   the wait, the number of system calls, and whether the time was over. */
#include "ethread.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#define FUTEX_TIME64 422
#define WAIT_NS 300000000LL

static int asked;

long __real_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
    long words[6];
    va_list arguments;
    int i;

    va_start(arguments, number);
    for (i = 0; i < 6; i++)
        words[i] = va_arg(arguments, long);
    va_end(arguments);
    /* On MIPS the numbers of system calls begin at 4000. */
    if (number % 4000 == FUTEX_TIME64) {
        errno = ENOSYS;
        return -1;
    }
    asked++;
    return __real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

static long long now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(void)
{
    ethr_event event;
    long long begun;
    int result;

    if (ethr_init(NULL) != 0 || ethr_event_init(&event) != 0)
        return 1;
    begun = now_ns();
    result = ethr_event_twait(&event, WAIT_NS);
    printf("%s after %d calls, %s\n", result == ETIMEDOUT ? "timeout" : "no timeout", asked,
           now_ns() - begun >= WAIT_NS ? "in time" : "too early");
    return 0;
}
