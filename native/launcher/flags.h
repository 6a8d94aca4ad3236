/*
 * Command lines for the VM: text in the syntax of vm.args (one `erl -args_file`
 * would read) becomes two lists, one for the emulator and one for init.
 */
#ifndef WHITTLE_FLAGS_H
#define WHITTLE_FLAGS_H

#include <stddef.h>

struct words {
    char **at; /* terminated by NULL once anything was added */
    size_t count;
};

struct flags {
    struct words emulator; /* `+P 1024` as `-P` `1024`, the way erl_start takes it */
    struct words init;     /* everything else, in its order */
};

/* Appends a copy of WORD; ends the program when there is no memory. */
void words_add(struct words *words, const char *word);

/*
 * Adds what TEXT says. Words are parted by white space; `#` where a word would
 * begin starts a comment; single and double quotes and backslashes keep white
 * space; ${NAME} is replaced by the environment's value, or by nothing.
 */
void flags_add_text(struct flags *flags, const char *text);

/* The value that follows the last `-NAME` among the init flags, or NULL. */
const char *flags_value(const struct flags *flags, const char *name);

/* Takes every `-NAME` with the COUNT values after it out of the init flags. */
void flags_remove(struct flags *flags, const char *name, size_t count);

/*
 * TEXT with each ${NAME} replaced by the environment's value (or nothing), in
 * memory that the caller frees.
 */
char *expand_variables(const char *text);

#endif
