#include "flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *checked(void *memory)
{
    if (memory == NULL) {
        fputs("whittle: out of memory while reading flags\n", stderr);
        exit(1);
    }
    return memory;
}

void words_add(struct words *words, const char *word)
{
    words->at = checked(realloc(words->at, (words->count + 2) * sizeof *words->at));
    words->at[words->count++] = checked(strdup(word));
    words->at[words->count] = NULL;
}

/* A string that grows. */
struct buffer {
    char *bytes;
    size_t length, room;
};

static void buffer_add(struct buffer *buffer, const char *bytes, size_t size)
{
    if (buffer->length + size + 1 > buffer->room) {
        buffer->room = 2 * (buffer->length + size + 1);
        buffer->bytes = checked(realloc(buffer->bytes, buffer->room));
    }
    memcpy(buffer->bytes + buffer->length, bytes, size);
    buffer->length += size;
    buffer->bytes[buffer->length] = '\0';
}

/*
 * When TEXT begins with ${NAME}, adds the variable's value to BUFFER and
 * returns the length of the reference; else returns 0.
 */
static size_t add_variable(struct buffer *buffer, const char *text)
{
    const char *end;
    char name[256];
    const char *value;
    size_t length;

    if (text[0] != '$' || text[1] != '{' || (end = strchr(text, '}')) == NULL)
        return 0;
    length = (size_t)(end - text) - 2;
    if (length == 0 || length >= sizeof name)
        return 0;
    memcpy(name, text + 2, length);
    name[length] = '\0';
    value = getenv(name);
    if (value != NULL)
        buffer_add(buffer, value, strlen(value));
    return length + 3;
}

char *expand_variables(const char *text)
{
    struct buffer buffer = {NULL, 0, 0};
    buffer_add(&buffer, "", 0);
    while (*text != '\0') {
        size_t reference = add_variable(&buffer, text);
        if (reference == 0) {
            buffer_add(&buffer, text, 1);
            reference = 1;
        }
        text += reference;
    }
    return buffer.bytes;
}

static int is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* Reads one word into BUFFER and returns where it ended; NULL at the end. */
static const char *next_word(const char *text, struct buffer *buffer)
{
    char quote = '\0';

    for (;;) {
        while (is_space(*text))
            text++;
        if (*text != '#')
            break;
        while (*text != '\0' && *text != '\n')
            text++;
    }
    if (*text == '\0')
        return NULL;
    buffer->length = 0;
    buffer_add(buffer, "", 0);
    while (*text != '\0' && (quote != '\0' || !is_space(*text))) {
        size_t reference;
        if (quote == '\0' && (*text == '"' || *text == '\'')) {
            quote = *text++;
        } else if (quote != '\0' && *text == quote) {
            quote = '\0';
            text++;
        } else if (*text == '\\' && text[1] != '\0' && quote != '\'') {
            buffer_add(buffer, text + 1, 1);
            text += 2;
        } else if (quote != '\'' && (reference = add_variable(buffer, text)) > 0) {
            text += reference;
        } else {
            buffer_add(buffer, text++, 1);
        }
    }
    return text;
}

void flags_add_text(struct flags *flags, const char *text)
{
    struct buffer word = {NULL, 0, 0};
    int in_emulator_flag = 0;

    while ((text = next_word(text, &word)) != NULL) {
        if (word.bytes[0] == '+') {
            word.bytes[0] = '-';
            words_add(&flags->emulator, word.bytes);
            in_emulator_flag = 1;
        } else if (in_emulator_flag && word.bytes[0] != '-') {
            words_add(&flags->emulator, word.bytes);
        } else {
            words_add(&flags->init, word.bytes);
            in_emulator_flag = 0;
        }
    }
    free(word.bytes);
}

static int is_flag(const char *word, const char *name)
{
    return word[0] == '-' && strcmp(word + 1, name) == 0;
}

const char *flags_value(const struct flags *flags, const char *name)
{
    size_t i;
    for (i = flags->init.count; i-- > 0;)
        if (is_flag(flags->init.at[i], name))
            return i + 1 < flags->init.count ? flags->init.at[i + 1] : NULL;
    return NULL;
}

void flags_remove(struct flags *flags, const char *name, size_t count)
{
    struct words *init = &flags->init;
    size_t from, to = 0;
    for (from = 0; from < init->count; from++) {
        if (is_flag(init->at[from], name))
            from += count;
        else
            init->at[to++] = init->at[from];
    }
    init->count = to;
    if (init->at != NULL)
        init->at[to] = NULL;
}
