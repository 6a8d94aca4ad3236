/*
 * Runs the other end of a serial line for tests and benchmarks: the master of a pseudo-terminal.
 *
 *   whittle_serial_peer          serves an Erlang port ({packet, 4}): sends the slave's path
 *                                first, and then one answer for each request (below)
 *   whittle_serial_peer echo     prints a line with the slave's path, and then sends all bytes
 *                                back until the input ends
 *   whittle_serial_peer ping PATH COUNT
 *                                opens PATH, sends a byte and waits for it, COUNT times;
 *                                prints the nanoseconds of each round on a line
 *
 * The requests. Numbers have 32 bits, most significant byte first:
 *   w BYTES   writes the bytes               -> ok
 *   s BYTES   writes each byte separately    -> ok
 *   r N       reads N bytes                  -> the bytes
 *   t         reads the slave's struct termios2 -> its bytes
 *   f N M     writes N and reads M bytes at once, words numbered from 0 -> ok, or the fault
 *   l         asks whether the slave is locked, and whether it is exclusive -> two bytes, 0 or 1
 *   c         closes the master, which hangs up -> ok
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static int master, slave;
static char path[128];

static void fail(const char *what)
{
    fprintf(stderr, "whittle_serial_peer: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* This program keeps the slave open, so that the master does not hang up while no other program
 * has it open. */
static void open_pair(void)
{
    master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0
        || ptsname_r(master, path, sizeof path) != 0)
        fail("posix_openpt");
    slave = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        fail(path);
}

static int read_all(int fd, unsigned char *to, size_t size)
{
    while (size > 0) {
        ssize_t got = read(fd, to, size);
        if (got <= 0)
            return -1;
        to += got;
        size -= (size_t)got;
    }
    return 0;
}

static int write_all(int fd, const unsigned char *from, size_t size)
{
    while (size > 0) {
        ssize_t put = write(fd, from, size);
        if (put <= 0)
            return -1;
        from += put;
        size -= (size_t)put;
    }
    return 0;
}

static uint32_t number(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Waits for the master, which does not block while the program serves requests. Ends the program
 * at the end of the input, because the test is gone then. */
static short wait_master(short events)
{
    struct pollfd ready[2] = {{master, events, 0}, {0, 0, 0}};
    if (poll(ready, 2, -1) < 0 || (ready[1].revents & (POLLHUP | POLLERR)))
        exit(0);
    return ready[0].revents;
}

static int read_master(unsigned char *to, size_t size)
{
    while (size > 0) {
        ssize_t got = read(master, to, size);
        if (got < 0 && errno == EAGAIN && wait_master(POLLIN) != POLLNVAL)
            continue;
        if (got <= 0)
            return -1;
        to += got;
        size -= (size_t)got;
    }
    return 0;
}

static int write_master(const unsigned char *from, size_t size)
{
    while (size > 0) {
        ssize_t put = write(master, from, size);
        if (put < 0 && errno == EAGAIN && wait_master(POLLOUT) != POLLNVAL)
            continue;
        if (put < 0)
            return -1;
        from += put;
        size -= (size_t)put;
    }
    return 0;
}

static void reply(const void *bytes, size_t size)
{
    unsigned char head[4] = {(unsigned char)(size >> 24), (unsigned char)(size >> 16),
                             (unsigned char)(size >> 8), (unsigned char)size};
    if (write_all(1, head, 4) < 0 || write_all(1, bytes, size) < 0)
        exit(0);
}

static void say(const char *format, ...)
{
    char text[256];
    va_list rest;
    va_start(rest, format);
    vsnprintf(text, sizeof text, format, rest);
    va_end(rest);
    reply(text, strlen(text));
}

/* Returns byte AT of the numbered words. */
static unsigned char numbered(uint64_t at) { return (unsigned char)(at / 4 >> 8 * (3 - at % 4)); }

/* Reads and writes at once in one thread, as far as the master is ready. */
static void flood(uint32_t to_write, uint32_t to_read)
{
    static unsigned char bytes[65536];
    uint64_t written = 0, got = 0;
    while (written < to_write || got < to_read) {
        short ready = wait_master((short)((got < to_read ? POLLIN : 0)
                                          | (written < to_write ? POLLOUT : 0)));
        if (ready & (POLLERR | POLLHUP | POLLNVAL)) {
            say("hung up after %llu written, %llu read", (unsigned long long)written,
                (unsigned long long)got);
            return;
        }
        if (ready & POLLIN) {
            size_t most = to_read - got < sizeof bytes ? to_read - got : sizeof bytes;
            ssize_t size = read(master, bytes, most);
            for (ssize_t i = 0; i < size; i++, got++)
                if (bytes[i] != numbered(got)) {
                    say("byte %llu is %u", (unsigned long long)got, bytes[i]);
                    return;
                }
        }
        if (ready & POLLOUT) {
            size_t size = 0;
            while (size < 4096 && written + size < to_write) {
                bytes[size] = numbered(written + size);
                size++;
            }
            ssize_t put = write(master, bytes, size);
            if (put > 0)
                written += (uint64_t)put;
        }
    }
    say("ok");
}

static void serve(void)
{
    unsigned char head[4];
    fcntl(master, F_SETFL, O_NONBLOCK);
    reply(path, strlen(path));
    while (read_all(0, head, 4) == 0) {
        size_t size = number(head);
        unsigned char *request = malloc(size + 1), *bytes;
        if (request == NULL || read_all(0, request, size) < 0)
            break;
        switch (request[0]) {
        case 'w':
            say(write_master(request + 1, size - 1) < 0 ? "error" : "ok");
            break;
        case 's':
            for (size_t i = 1; i < size; i++)
                if (write_master(request + i, 1) < 0)
                    fail("write");
            say("ok");
            break;
        case 'r':
            bytes = malloc(number(request + 1) + 1);
            if (bytes == NULL || read_master(bytes, number(request + 1)) < 0)
                say("error");
            else
                reply(bytes, number(request + 1));
            free(bytes);
            break;
        case 't': {
            unsigned char termios[64] = {0};
            /* 44 bytes, 0x2A: x86, arm, riscv. */
            if (ioctl(slave, _IOC(_IOC_READ, 'T', 0x2A, 44), termios) < 0)
                say("error");
            else
                reply(termios, 44);
            break;
        }
        case 'f':
            flood(number(request + 1), number(request + 5));
            break;
        case 'l': {
            int exclusive = 0;
            int again = open(path, O_RDWR | O_NOCTTY);
            unsigned char answer[2];
            answer[0] = again >= 0 && flock(again, LOCK_EX | LOCK_NB) < 0;
            if (again >= 0)
                close(again);
            ioctl(slave, TIOCGEXCL, &exclusive);
            answer[1] = exclusive != 0;
            reply(answer, 2);
            break;
        }
        case 'c':
            close(slave);
            close(master);
            say("ok");
            break;
        default:
            say("no such request");
        }
        free(request);
    }
}

static void *end_of_input(void *none)
{
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    exit(0);
    return none;
}

static void echo(void)
{
    static char bytes[4096];
    pthread_t watcher;
    printf("%s\n", path);
    fflush(stdout);
    pthread_create(&watcher, NULL, end_of_input, NULL);
    for (;;) {
        ssize_t got = read(master, bytes, sizeof bytes);
        if (got <= 0 || write_all(master, (unsigned char *)bytes, (size_t)got) < 0)
            exit(0);
    }
}

static void ping(const char *name, long count)
{
    struct termios raw;
    struct timespec from, to;
    unsigned char byte = 'x';
    int fd = open(name, O_RDWR | O_NOCTTY);
    if (fd < 0 || tcgetattr(fd, &raw) < 0)
        fail(name);
    cfmakeraw(&raw);
    if (tcsetattr(fd, TCSANOW, &raw) < 0)
        fail(name);
    for (long i = 0; i < count; i++) {
        clock_gettime(CLOCK_MONOTONIC, &from);
        if (write_all(fd, &byte, 1) < 0 || read_all(fd, &byte, 1) < 0)
            fail("ping");
        clock_gettime(CLOCK_MONOTONIC, &to);
        printf("%lld\n", (to.tv_sec - from.tv_sec) * 1000000000LL + to.tv_nsec - from.tv_nsec);
    }
}

int main(int count, char **words)
{
    if (count == 4 && strcmp(words[1], "ping") == 0) {
        ping(words[2], atol(words[3]));
        return 0;
    }
    open_pair();
    if (count == 2 && strcmp(words[1], "echo") == 0)
        echo();
    serve();
    return 0;
}
