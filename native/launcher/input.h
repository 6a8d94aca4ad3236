/*
 * Files that the environment or a flag names. Only a regular file of bounded size is
 * read: a FIFO would wait for ever, /dev/zero has no end, and to open a device can
 * already do something.
 */
#ifndef WHITTLE_INPUT_H
#define WHITTLE_INPUT_H

#include <stddef.h>
#include <sys/stat.h>

/* The largest file of flags (vm.args and -args_file), of configuration, and of a cookie
   with the white space around it. */
#define MOST_FLAGS_BYTES (1u << 20)
#define MOST_CONFIG_BYTES (16u << 20)
#define MOST_COOKIE_BYTES 4096u

/*
 * Why the file at PATH cannot be read as a regular file of at most MOST bytes, or NULL.
 * The text is in static memory.
 */
const char *input_problem(const char *path, size_t most);

/*
 * The bytes of the file at PATH, followed by a zero, in memory that the caller frees;
 * NULL when it is no regular file of at most MOST bytes, and *WHY then says so. Sets
 * *SIZE to their number, and *STATUS to what the opened file is, where these are not
 * NULL.
 */
char *input_read(const char *path, size_t most, size_t *size, struct stat *status,
                 const char **why);

#endif
