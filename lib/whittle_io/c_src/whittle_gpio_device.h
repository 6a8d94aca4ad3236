/*
 * The five calls with which whittle_gpio.c reaches hardware: the kernel's calls for the GPIO
 * character device (linux/gpio.h, version 2). Results are >= 0 or -errno.
 *
 * With -DWHITTLE_GPIO_LOOPBACK the functions of test/whittle_gpio_loopback.c replace them.
 * These provide the chips "loopback:NAME" and pass other calls on to the kernel. They replace
 * only system calls, so the tests run all code above, also the packing of requests and the
 * poll of descriptors.
 */
#ifndef WHITTLE_GPIO_DEVICE_H
#define WHITTLE_GPIO_DEVICE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/gpio.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The longest path of a chip, with its 0. */
#define GPIO_PATH_SIZE 256

typedef void gpio_each(void *context, const char *path);

/* Opens with O_NONBLOCK: a path that is not a chip must not block the caller, and reads of a
 * watched chip must not block either. */
static inline int gpio_kernel_open(const char *path)
{
    int fd;
    do
        fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

/* Sets O_NONBLOCK on a request's descriptor. The kernel does not copy it from the chip's. */
static inline int gpio_kernel_ioctl(int fd, unsigned long call, void *argument)
{
    int result;
    do
        result = ioctl(fd, call, argument);
    while (result < 0 && errno == EINTR);
    if (result < 0)
        return -errno;
    if (call == GPIO_V2_GET_LINE_IOCTL) {
        struct gpio_v2_line_request *request = argument;
        if (fcntl(request->fd, F_SETFL, O_NONBLOCK) < 0) {
            result = -errno;
            close(request->fd);
            return result;
        }
    }
    return 0;
}

static inline ssize_t gpio_kernel_read(int fd, void *to, size_t bytes)
{
    ssize_t got;
    do
        got = read(fd, to, bytes);
    while (got < 0 && errno == EINTR);
    return got < 0 ? -errno : got;
}

/* Ignores an error: Linux has freed the descriptor in that case too. */
static inline void gpio_kernel_close(int fd) { close(fd); }

/* Calls EACH with the path of every chip, in any order. Without /dev there are none. */
static inline int gpio_kernel_each(gpio_each *each, void *context)
{
    DIR *dev = opendir("/dev");
    struct dirent *entry;
    char path[GPIO_PATH_SIZE];

    if (dev == NULL)
        return errno == ENOENT ? 0 : -errno;
    while ((entry = readdir(dev)) != NULL) {
        if (strncmp(entry->d_name, "gpiochip", 8) != 0)
            continue;
        snprintf(path, sizeof path, "/dev/%.200s", entry->d_name);
        each(context, path);
    }
    closedir(dev);
    return 0;
}

#ifdef WHITTLE_GPIO_LOOPBACK
int gpio_open(const char *path);
int gpio_ioctl(int fd, unsigned long call, void *argument);
ssize_t gpio_read(int fd, void *to, size_t bytes);
void gpio_close(int fd);
int gpio_each_chip(gpio_each *each, void *context);
#else
#define gpio_open gpio_kernel_open
#define gpio_ioctl gpio_kernel_ioctl
#define gpio_read gpio_kernel_read
#define gpio_close gpio_kernel_close
#define gpio_each_chip gpio_kernel_each
#endif

#endif
