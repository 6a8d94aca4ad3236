#include "buffer.h"
#include "refuse.h"

#include <stdlib.h>
#include <string.h>

void buffer_add(struct buffer *buffer, const char *bytes, size_t size)
{
    if (buffer->length + size + 1 > buffer->room) {
        buffer->room = 2 * (buffer->length + size + 1);
        buffer->bytes = realloc(buffer->bytes, buffer->room);
        if (buffer->bytes == NULL)
            refuse(EXIT_FAILED, "cannot read the flags or the configuration", "out of memory");
    }
    memcpy(buffer->bytes + buffer->length, bytes, size);
    buffer->length += size;
    buffer->bytes[buffer->length] = '\0';
}
