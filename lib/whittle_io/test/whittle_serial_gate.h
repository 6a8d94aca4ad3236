/* For whittle_serial.c, put before it: reading the modem's lines waits until somebody opens and
 * writes GATE, a pipe's path, as in a driver that sleeps. A descriptor that is gone by then ends
 * the VM. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int gated_ioctl(int fd, unsigned long request, long argument)
{
    char byte;
    int gate, result;
    if (request != TIOCMGET)
        return ioctl(fd, request, argument);
    gate = open(GATE, O_RDONLY | O_CLOEXEC);
    if (gate < 0 || read(gate, &byte, 1) != 1)
        abort();
    close(gate);
    result = ioctl(fd, request, argument);
    if (result < 0 && errno == EBADF)
        abort();
    return result;
}

#define GATED(Fd, Request, Argument, ...) gated_ioctl(Fd, Request, (long)(Argument))
#define ioctl(...) GATED(__VA_ARGS__, 0, 0)
