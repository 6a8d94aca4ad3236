/*
 * Connects two pseudo-terminals as a serial line between two programs, and damages the line on
 * command.
 *
 *   blinky_line    prints the paths of both ends. Then it reads commands of one byte from its
 *                  standard input, and answers each with the line "ok".
 *
 *   c    cut: lose all bytes
 *   g    garble: change a bit in each 8th byte, so that no frame is valid
 *   p    garble partly: change a bit in each 199th byte
 *   d    double: write the bytes of each read twice
 *   r    restore the line
 *   x    open both ends again, after the program at one end was killed
 *
 * It ends when its input ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static int masters[2], slaves[2];
static unsigned long passed;
static char mode = 'r';

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* The slave stays open here, because the master hangs up if no process has the slave open. */
static void open_end(int i)
{
    char path[128];
    struct termios raw;

    masters[i] = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    if (masters[i] < 0 || grantpt(masters[i]) < 0 || unlockpt(masters[i]) < 0
        || ptsname_r(masters[i], path, sizeof path) != 0)
        fail("posix_openpt");
    slaves[i] = open(path, O_RDWR | O_NOCTTY);
    if (slaves[i] < 0 || tcgetattr(slaves[i], &raw) < 0)
        fail(path);
    cfmakeraw(&raw);
    if (tcsetattr(slaves[i], TCSANOW, &raw) < 0)
        fail(path);
    printf("%s\n", path);
}

/* If nobody reads at an end, the bytes for which it has no room are lost, as on a wire. */
static void carry(int i)
{
    unsigned char bytes[4096];
    ssize_t size = read(masters[i], bytes, sizeof bytes);
    unsigned every = mode == 'g' ? 8 : mode == 'p' ? 199 : 0;
    int times = mode == 'd' ? 2 : 1;

    if (size < 0 && errno != EAGAIN && errno != EINTR)
        fail("read");
    if (size <= 0 || mode == 'c')
        return;
    for (ssize_t at = 0; at < size; at++)
        if (++passed, every && passed % every == 0)
            bytes[at] ^= 1 << passed / every % 8;
    while (times-- > 0)
        if (write(masters[1 - i], bytes, size) < 0 && errno != EAGAIN)
            fail("write");
}

int main(void)
{
    open_end(0);
    open_end(1);
    fflush(stdout);
    for (;;) {
        struct pollfd polled[3] = {
            { masters[0], POLLIN, 0 }, { masters[1], POLLIN, 0 }, { 0, POLLIN, 0 }
        };
        char command;

        if (poll(polled, 3, -1) < 0 && errno != EINTR)
            fail("poll");
        for (int i = 0; i < 2; i++)
            if (polled[i].revents)
                carry(i);
        if (!polled[2].revents)
            continue;
        if (read(0, &command, 1) != 1)
            return 0;
        if (command != 'x')
            mode = command;
        else if (ioctl(slaves[0], TIOCNXCL) < 0 || ioctl(slaves[1], TIOCNXCL) < 0)
            fail("TIOCNXCL");
        printf("ok\n");
        fflush(stdout);
    }
}
