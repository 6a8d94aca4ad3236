#define _GNU_SOURCE
#include "config.h"
#include "flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the text of a configuration is at a place in it. */
struct place {
    size_t at;
    char within;     /* the quote of the string or atom around the place, or % in a comment */
    int is_literal;  /* whether the next character stands for itself: it follows a \ or a $ */
    char last[2];    /* the last two characters that are neither white space nor in a comment */
};

static int is_one_of(const char *characters, char c)
{
    return c != '\0' && strchr(characters, c) != NULL;
}

static void step(struct place *place, char c)
{
    if (place->within == '%') {
        if (c == '\n')
            place->within = '\0';
        return;
    }
    if (place->is_literal) {
        /* $\n is one character too. */
        place->is_literal = place->within == '\0' && c == '\\' && place->last[1] == '$';
    } else if (place->within != '\0') {
        place->is_literal = c == '\\';
        if (c == place->within)
            place->within = '\0';
    } else {
        place->is_literal = c == '$';
        if (is_one_of("\"'%", c))
            place->within = c;
        if (c == '%' || is_one_of(" \t\r\n\f\v", c))
            return;
    }
    place->last[0] = place->last[1];
    place->last[1] = c;
}

/* Returns whether Erlang needs a term between PLACE and AFTER. [], {} and () need none. */
static int needs_term(const struct place *place, const char *after)
{
    char from = place->last[1], to;

    to = after[strspn(after, " \t\r\n\f\v")];
    if (place->within != '\0' || place->is_literal)
        return 0;
    if ((from == '[' && to == ']') || (from == '{' && to == '}') || (from == '(' && to == ')'))
        return 0;
    return (from == '\0' || is_one_of(",[{(|", from) ||
            (place->last[0] == '=' && from == '>')) &&
           is_one_of(",]})|.", to);
}

static void check_gap(void *arg, const char *before, size_t length, const char *name,
                      const char *after)
{
    struct place *place = arg;
    char *what;

    for (; place->at < length; place->at++)
        step(place, before[place->at]);
    if (!needs_term(place, after))
        return;
    if (asprintf(&what, "sys.config needs a value for ${%s}", name) < 0)
        refuse(EXIT_FAILED, "cannot read sys.config", "out of memory");
    refuse(EXIT_MISUSED, what,
           "this environment variable is not set or empty; set it, or add a default with :- to "
           "sys.config.src");
}

char *config_complete(const char *template)
{
    struct place place = {0, '\0', 0, {'\0', '\0'}};

    return expand_variables(template, check_gap, &place);
}
