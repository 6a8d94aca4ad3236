/*
 * Command lines for the VM. These functions turn text in erlexec's syntax (vm.args, ERL_FLAGS)
 * into lists of words, and set the environment variables of `-env NAME VALUE`.
 */
#ifndef WHITTLE_FLAGS_H
#define WHITTLE_FLAGS_H

#include "refuse.h"

#include <stddef.h>

struct words {
    char **at; /* NULL ends it after the first words_add */
    size_t count;
};

struct flags {
    struct words emulator; /* `+P 1024` as `-P` `1024`, the form that erl_start reads */
    struct words init;     /* all other flags, in their order */
    struct words extra;    /* the words after -extra in a text: arguments of the program */
};

/* Appends a copy of WORD; ends the program when there is no memory. */
void words_add(struct words *words, const char *word);

/*
 * Adds the flags in TEXT, the content of a file. # begins a comment, and `-args_file FILE`
 * includes another file. Ends the program when a flag lacks its value, or when a file is not a
 * readable regular file of at most MOST_FLAGS_BYTES (input.h). The next functions do the same.
 */
void flags_add_text(struct flags *flags, const char *text);

/* Adds the flags in TEXT after it replaced the references to variables (template.h). */
void flags_add_template(struct flags *flags, const char *text);

/* Adds the flags in the file at PATH, as flags_add_template does. */
void flags_add_file(struct flags *flags, const char *path);

/* Adds the flags in the environment's variable NAME, if it is set. # begins no comment there. */
void flags_add_variable(struct flags *flags, const char *name);

/* Appends an init flag and its value. VALUE is NULL for a flag without a value. */
void flags_add_init(struct flags *flags, const char *name, const char *value);

/* Adds separate words, such as those of a command line. NULL ends them. */
void flags_add_words(struct flags *flags, char *const words[]);

/* Returns the first value of the last `-NAME` among the init flags, or NULL. */
const char *flags_value(const struct flags *flags, const char *name);

/*
 * Returns the number of values of the init flag at place AT. A word that begins with `-` is
 * never a value: the VM reads it as the next flag.
 */
size_t flags_arity(const struct flags *flags, size_t at);

/* Returns the last `-ONE` or `-OTHER` among the init flags, or NULL. */
const char *flags_last(const struct flags *flags, const char *one, const char *other);

/* Removes every `-NAME` from the init flags, with its values, but with at most MOST of them. */
#define ALL_VALUES ((size_t)-1)
void flags_remove(struct flags *flags, const char *name, size_t most);

#endif
