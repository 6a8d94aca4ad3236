#define _GNU_SOURCE
#include "flags.h"
#include "buffer.h"
#include "input.h"
#include "template.h"

#include <stdlib.h>
#include <string.h>

/* The most levels of files that include one another with -args_file. */
#define MAX_DEPTH 16

static void *checked(void *memory)
{
    if (memory == NULL)
        refuse(EXIT_FAILED, "cannot read the flags", "out of memory");
    return memory;
}

void words_add(struct words *words, const char *word)
{
    words->at = checked(realloc(words->at, (words->count + 2) * sizeof *words->at));
    words->at[words->count++] = checked(strdup(word));
    words->at[words->count] = NULL;
}

static int is_space(char c) { return c != '\0' && strchr(" \t\n\r\f\v", c) != NULL; }

/*
 * Reads one word into BUFFER and returns the place after it, or NULL at the end of the text.
 * The syntax is erlexec's. Between quotes each character stands for itself. Elsewhere a
 * backslash removes the special meaning of the next character. In a file # begins a comment,
 * also within a word.
 */
static const char *next_word(const char *text, int in_file, struct buffer *buffer)
{
    for (;;) {
        while (is_space(*text))
            text++;
        if (*text != '#' || !in_file)
            break;
        text += strcspn(text, "\n");
    }
    if (*text == '\0')
        return NULL;
    buffer->length = 0;
    buffer_add(buffer, "", 0);
    while (*text != '\0' && !is_space(*text) && !(*text == '#' && in_file)) {
        if (*text == '"' || *text == '\'') {
            const char *from = text + 1;
            const char *end = strchrnul(from, *text);
            buffer_add(buffer, from, (size_t)(end - from));
            text = *end == '\0' ? end : end + 1;
        } else {
            if (*text == '\\' && text[1] != '\0')
                text++;
            buffer_add(buffer, text++, 1);
        }
    }
    return text;
}

static const char *value_of(const char *flag, const char *text, int in_file,
                            struct buffer *buffer)
{
    text = next_word(text, in_file, buffer);
    if (text == NULL)
        refuse(EXIT_MISUSED, flag, "has no value after it; add one");
    return text;
}

static void add_file(struct flags *flags, const char *path, int depth);

static void add_text(struct flags *flags, const char *text, int in_file, int depth)
{
    struct buffer word = {NULL, 0, 0}, value = {NULL, 0, 0};
    int in_emulator_flag = 0, is_extra = 0;

    while ((text = next_word(text, in_file, &word)) != NULL) {
        if (is_extra) {
            words_add(&flags->extra, word.bytes);
        } else if (strcmp(word.bytes, "-extra") == 0) {
            is_extra = 1;
        } else if (strcmp(word.bytes, "-env") == 0) {
            text = value_of("-env", text, in_file, &word);
            text = value_of("-env", text, in_file, &value);
            setenv(word.bytes, value.bytes, 1);
        } else if (strcmp(word.bytes, "-args_file") == 0) {
            text = value_of("-args_file", text, in_file, &value);
            add_file(flags, value.bytes, depth + 1);
        } else if (word.bytes[0] == '+') {
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
    free(value.bytes);
}

static char *read_file(const char *path)
{
    const char *why;
    size_t size;
    char *text = input_read(path, MOST_FLAGS_BYTES, &size, NULL, &why);

    if (text == NULL)
        refuse(EXIT_FAILED, path, why);
    /* The rest of the file would have no effect. */
    if (strlen(text) != size)
        refuse(EXIT_FAILED, path, "this file of flags contains a zero byte; remove it");
    return text;
}

static void add_file(struct flags *flags, const char *path, int depth)
{
    char *text;

    if (depth > MAX_DEPTH)
        refuse(EXIT_MISUSED, path,
               "includes itself with -args_file, or files include files at too many levels; "
               "remove one of these flags");
    text = read_file(path);
    add_text(flags, text, 1, depth);
    free(text);
}

void flags_add_text(struct flags *flags, const char *text) { add_text(flags, text, 1, 0); }

void flags_add_variable(struct flags *flags, const char *name)
{
    const char *text = getenv(name);
    if (text != NULL)
        add_text(flags, text, 0, 0);
}

void flags_add_words(struct flags *flags, char *const words[])
{
    struct buffer text = {NULL, 0, 0};
    const char *at;

    buffer_add(&text, "", 0);
    for (; *words != NULL; words++) {
        /* The quotes keep an empty word, and the backslashes keep each character as it is. */
        buffer_add(&text, " ''", 3);
        for (at = *words; *at != '\0'; at++) {
            buffer_add(&text, "\\", 1);
            buffer_add(&text, at, 1);
        }
    }
    add_text(flags, text.bytes, 0, 0);
    free(text.bytes);
}

void flags_add_template(struct flags *flags, const char *text)
{
    char *filled = template_complete(text, NULL, NULL);
    flags_add_text(flags, filled);
    free(filled);
}

void flags_add_file(struct flags *flags, const char *path)
{
    char *text = read_file(path);
    flags_add_template(flags, text);
    free(text);
}

void flags_add_init(struct flags *flags, const char *name, const char *value)
{
    words_add(&flags->init, name);
    if (value != NULL)
        words_add(&flags->init, value);
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
            return flags_arity(flags, i) > 0 ? flags->init.at[i + 1] : NULL;
    return NULL;
}

size_t flags_arity(const struct flags *flags, size_t at)
{
    size_t end = at + 1;
    while (end < flags->init.count && flags->init.at[end][0] != '-')
        end++;
    return end - at - 1;
}

const char *flags_last(const struct flags *flags, const char *one, const char *other)
{
    size_t i;
    for (i = flags->init.count; i-- > 0;)
        if (is_flag(flags->init.at[i], one) || is_flag(flags->init.at[i], other))
            return flags->init.at[i];
    return NULL;
}

void flags_remove(struct flags *flags, const char *name, size_t most)
{
    struct words *init = &flags->init;
    size_t from, to = 0;
    for (from = 0; from < init->count; from++) {
        if (is_flag(init->at[from], name)) {
            size_t values = flags_arity(flags, from);
            from += values < most ? values : most;
        } else
            init->at[to++] = init->at[from];
    }
    init->count = to;
    if (init->at != NULL)
        init->at[to] = NULL;
}
