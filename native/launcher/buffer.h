/* A string that grows. */
#ifndef WHITTLE_BUFFER_H
#define WHITTLE_BUFFER_H

#include <stddef.h>

struct buffer {
    char *bytes; /* a zero ends them after the first buffer_add */
    size_t length, room;
};

/* Appends SIZE bytes; ends the program when there is no memory. */
void buffer_add(struct buffer *buffer, const char *bytes, size_t size);

#endif
