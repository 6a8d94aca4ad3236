/*
 * Command lines for the VM: text in the syntax that erlexec reads (vm.args,
 * ERL_FLAGS) becomes lists of words, and what `-env NAME VALUE` in it says is set.
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
    struct words extra;    /* what follows -extra in a text: arguments of the program */
};

#define EXIT_FAILED 1
#define EXIT_MISUSED 2

/* Ends the program: prints its name, WHAT and WHY. */
void refuse(int code, const char *what, const char *why) __attribute__((noreturn));

/* Ends the program as misused: prints its name, and that NAME is VALUE, which is not EXPECTED. */
void refuse_value(const char *name, const char *value, const char *expected)
    __attribute__((noreturn));

/* Appends a copy of WORD; ends the program when there is no memory. */
void words_add(struct words *words, const char *word);

/*
 * Adds what TEXT says, which is a file's: # begins a comment, `-args_file FILE`
 * names another. Ends the program where a word lacks its value, or a file cannot be
 * read or is no regular file of at most MOST_FLAGS_BYTES (input.h); so do the others.
 */
void flags_add_text(struct flags *flags, const char *text);

/* The same for text with references to variables (expand_variables). */
void flags_add_template(struct flags *flags, const char *text);

/* The same for what is in the file at PATH. */
void flags_add_file(struct flags *flags, const char *path);

/* Adds what the environment's variable NAME says, if it is set: # means nothing. */
void flags_add_variable(struct flags *flags, const char *name);

/* Appends an init flag and its value, NULL for none. */
void flags_add_init(struct flags *flags, const char *name, const char *value);

/* Adds words that are parted already, as of a command line; NULL ends them. */
void flags_add_words(struct flags *flags, char *const words[]);

/* The value that follows the last `-NAME` among the init flags, or NULL. */
const char *flags_value(const struct flags *flags, const char *name);

/*
 * How many values the init flag at place AT has. A word that begins with `-` is never a
 * value: the VM takes it for the next flag.
 */
size_t flags_arity(const struct flags *flags, size_t at);

/* The last `-ONE` or `-OTHER` among the init flags, or NULL. */
const char *flags_last(const struct flags *flags, const char *one, const char *other);

/* Takes every `-NAME` with the COUNT values after it out of the init flags. */
void flags_remove(struct flags *flags, const char *name, size_t count);

/*
 * TEXT with each ${NAME} and ${NAME:-DEFAULT} replaced by the environment's value,
 * or where that is not set or empty by DEFAULT or nothing, in memory that the caller
 * frees.
 */
char *expand_variables(const char *text);

#endif
