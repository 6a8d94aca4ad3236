#define _GNU_SOURCE
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && *value != '\0' ? value : NULL;
}

static const char *too_large(size_t most)
{
    static char text[64];
    snprintf(text, sizeof text, "it is larger than %zu bytes", most);
    return text;
}

static const char *status_problem(const struct stat *status, size_t most)
{
    if (S_ISDIR(status->st_mode))
        return strerror(EISDIR);
    if (!S_ISREG(status->st_mode))
        return "it is not a regular file";
    return status->st_size > (off_t)most ? too_large(most) : NULL;
}

/* Checks the file before anything opens it: to open a watchdog starts it. Sets *STATUS. */
static const char *path_problem(const char *path, size_t most, struct stat *status)
{
    if (access(path, R_OK) < 0 || stat(path, status) < 0)
        return strerror(errno);
    return status_problem(status, most);
}

/*
 * Reads the bytes of a file and counts them, because files of the kernel (/proc) have no size.
 * A read that would wait (/proc/kmsg) fails, because the file is open with O_NONBLOCK.
 */
static char *read_bytes(int fd, size_t most, size_t *size, const char **why)
{
    size_t room = 4096, length = 0;
    char *bytes = malloc(room + 1), *grown;
    ssize_t got = 0;

    while (bytes != NULL && (got = read(fd, bytes + length, room - length)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 || (length += (size_t)got) > most)
            break;
        if (length < room)
            continue;
        room *= 2;
        grown = realloc(bytes, room + 1);
        if (grown == NULL)
            free(bytes);
        bytes = grown;
    }
    if (bytes != NULL && got == 0) {
        bytes[length] = '\0';
        *size = length;
        return bytes;
    }
    *why = bytes == NULL ? "out of memory" : got < 0 ? strerror(errno) : too_large(most);
    free(bytes);
    return NULL;
}

char *input_read(const char *path, size_t most, size_t *size, struct stat *status,
                 const char **why)
{
    struct stat opened;
    size_t length;
    char *bytes;
    int fd;

    *why = path_problem(path, most, &opened);
    if (*why != NULL)
        return NULL;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &opened) < 0) {
        *why = strerror(errno);
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    /* Another file may have got this path since the first check. */
    *why = status_problem(&opened, most);
    bytes = *why == NULL ? read_bytes(fd, most, &length, why) : NULL;
    close(fd);
    if (bytes != NULL && size != NULL)
        *size = length;
    if (bytes != NULL && status != NULL)
        *status = opened;
    return bytes;
}

const char *input_problem(const char *path, size_t most)
{
    struct stat status;
    const char *why = path_problem(path, most, &status);

    if (why == NULL && status.st_size == 0)
        free(input_read(path, most, NULL, NULL, &why));
    return why;
}
