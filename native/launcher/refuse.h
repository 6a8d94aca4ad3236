/* How the launcher tells a person why it does not start the program. */
#ifndef WHITTLE_REFUSE_H
#define WHITTLE_REFUSE_H

#define EXIT_FAILED 1
#define EXIT_MISUSED 2

/* Prints TEXT on standard error. Writes control characters, which names may contain, as escapes
   such as \x{A}. */
void say(const char *text);

/* Returns whether TEXT is valid UTF-8. The VM cannot make an atom or a string of other bytes. */
int is_utf8(const char *text);

/* Prints the program's name, WHAT and WHY, and ends the program with CODE. */
void refuse(int code, const char *what, const char *why) __attribute__((noreturn));

/* Prints that NAME is VALUE, which is not EXPECTED, and ends the program with EXIT_MISUSED. */
void refuse_value(const char *name, const char *value, const char *expected)
    __attribute__((noreturn));

#endif
