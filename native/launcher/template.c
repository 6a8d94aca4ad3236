#define _GNU_SOURCE
#include "template.h"
#include "flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most bytes of a variable's name, with the zero at its end. */
#define MOST_NAME_BYTES 256

struct output {
    FILE *stream;
    char *bytes;   /* valid after a flush */
    size_t length; /* likewise */
    size_t written;
};

static void write_out(struct output *output, const char *bytes, size_t size)
{
    if (size > MOST_COMPLETED_BYTES - output->written)
        refuse(EXIT_MISUSED, "the values of the ${NAME} are too long",
               "vm.args and sys.config have at most 16 MB with them");
    output->written += size;
    fwrite(bytes, 1, size, output->stream);
}

/*
 * If TEXT begins with ${NAME} or ${NAME:-DEFAULT}: writes the variable's value, or DEFAULT when
 * the variable is empty or not set, and returns the length of the reference. Returns 0 for any
 * other text. LAST is the last } of the whole text: without it, a text of many ${ would be
 * searched to its end for each of them. GAP and ARG are those of template_complete.
 */
static size_t replace(struct output *output, const char *text, const char *last,
                      gap_function *gap, void *arg)
{
    const char *at, *end, *other = NULL;
    char name[MOST_NAME_BYTES];
    const char *value;
    size_t length;

    if (text[1] != '{' || last == NULL || text > last)
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
    if (value != NULL && *value != '\0') {
        write_out(output, value, strlen(value));
    } else if (other != NULL && other < end) {
        write_out(output, other, (size_t)(end - other));
    } else if (gap != NULL) {
        fflush(output->stream);
        gap(arg, output->bytes, output->length, name, end + 1);
    }
    return (size_t)(end - text) + 1;
}

char *template_complete(const char *text, gap_function *gap, void *arg)
{
    struct output output = {NULL, NULL, 0, 0};
    const char *last = strrchr(text, '}');

    output.stream = open_memstream(&output.bytes, &output.length);
    while (output.stream != NULL && *text != '\0') {
        size_t plain = strcspn(text, "$"), reference;
        write_out(&output, text, plain);
        text += plain;
        if (*text == '\0')
            break;
        reference = replace(&output, text, last, gap, arg);
        if (reference == 0) {
            write_out(&output, text, 1);
            reference = 1;
        }
        text += reference;
    }
    if (output.stream == NULL || ferror(output.stream) || fclose(output.stream) != 0)
        refuse(EXIT_FAILED, "cannot replace the variables", "out of memory");
    return output.bytes;
}
