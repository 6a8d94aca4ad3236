/*
 * Reads variables of the environment, and the files that a variable or a flag names. It accepts a
 * regular file of bounded size only. A FIFO would wait forever, /dev/zero has no end, and opening
 * a device may already change something.
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

/* Returns the value of the environment's variable NAME, or NULL when it is not set or empty. */
const char *variable(const char *name);

/*
 * Returns why PATH is not a readable regular file of at most MOST bytes, or NULL if it is one.
 * The text is in static memory. Files of the kernel (/proc) have the size 0, so this function
 * reads and counts the bytes of a file with that size.
 */
const char *input_problem(const char *path, size_t most);

/*
 * Returns the bytes of the file at PATH, followed by a zero; the caller frees them. Returns
 * NULL, and the reason in *WHY, when PATH is not a regular file of at most MOST bytes. Sets
 * *SIZE to the number of bytes and *STATUS to the status of the opened file, if these are not
 * NULL.
 */
char *input_read(const char *path, size_t most, size_t *size, struct stat *status,
                 const char **why);

#endif
