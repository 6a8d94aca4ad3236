#include "template.h"
#include "buffer.h"
#include "refuse.h"

#include <stdlib.h>
#include <string.h>

/* The most bytes of a variable's name, with the zero at its end. */
#define MOST_NAME_BYTES 256

static void add(struct buffer *result, const char *bytes, size_t size)
{
    if (size > MOST_COMPLETED_BYTES - result->length)
        refuse(EXIT_MISUSED, "the values of the ${NAME} are too long",
               "vm.args and sys.config have at most 16 MB with them");
    buffer_add(result, bytes, size);
}

/*
 * If TEXT begins with ${NAME} or ${NAME:-DEFAULT}: adds the variable's value to RESULT, or
 * DEFAULT when the variable is empty or not set, and returns the length of the reference. Returns
 * 0 for any other text. LAST is the last } of the whole text: without it, a text of many ${ would
 * be searched to its end for each of them. GAP and ARG are those of template_complete.
 */
static size_t add_variable(struct buffer *result, const char *text, const char *last,
                           gap_function *gap, void *arg)
{
    const char *at, *end, *other = NULL;
    char name[MOST_NAME_BYTES];
    const char *value;
    size_t length;

    if (text[0] != '$' || text[1] != '{' || last == NULL || text > last)
        return 0;
    at = text + 2;
    for (length = 0; at[length] != '}' && (at[length] != ':' || at[length + 1] != '-'); length++)
        if (at[length] == '\0' || length + 1 == sizeof name)
            return 0;
    if (length == 0)
        return 0;
    memcpy(name, at, length);
    name[length] = '\0';
    at += length;
    end = strchr(at, '}');
    if (end != at)
        other = at + strlen(":-");
    value = getenv(name);
    if (value != NULL && *value != '\0')
        add(result, value, strlen(value));
    else if (other != NULL && other < end)
        add(result, other, (size_t)(end - other));
    else if (gap != NULL)
        gap(arg, result->bytes, result->length, name, end + 1);
    return (size_t)(end - text) + 1;
}

char *template_complete(const char *text, gap_function *gap, void *arg)
{
    struct buffer result = {NULL, 0, 0};
    const char *last = strrchr(text, '}');

    add(&result, "", 0);
    while (*text != '\0') {
        size_t size = add_variable(&result, text, last, gap, arg);
        if (size == 0) {
            size = 1 + strcspn(text + 1, "$");
            add(&result, text, size);
        }
        text += size;
    }
    return result.bytes;
}
