#define _GNU_SOURCE
#include "config.h"
#include "refuse.h"
#include "template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The state of a scanner that has read a configuration up to a place in it. */
struct scanner {
    size_t at;
    char within;    /* the quote of the string or atom that the place is in, or % in a comment */
    char escape;    /* $, \ or ^ if the next character belongs to a character's name: $c, \c, \^c */
    int is_unsure;  /* whether it may have seen a triple-quoted string or a sigil */
    char last[2];   /* the last characters outside of comments and white space, the latest first */
};

static int is_one_of(const char *characters, char c)
{
    return c != '\0' && strchr(characters, c) != NULL;
}

static void scan(struct scanner *scanner, char c)
{
    char kept = c;

    if (scanner->within == '%') {
        if (c == '\n')
            scanner->within = '\0';
        return;
    }
    if (scanner->escape != '\0') {
        scanner->escape = (scanner->escape == '$' && c == '\\') ||
                          (scanner->escape == '\\' && c == '^') ? c : '\0';
        kept = 'a';
    } else if (scanner->within != '\0') {
        scanner->escape = c == '\\' ? c : '\0';
        if (c == scanner->within)
            scanner->within = '\0';
    } else {
        scanner->escape = c == '$' ? c : '\0';
        if (c == '~' || (c == '"' && scanner->last[0] == '"' && scanner->last[1] == '"'))
            scanner->is_unsure = 1;
        if (is_one_of("\"'%", c))
            scanner->within = c;
        if (c == '%' || is_one_of(" \t\r\n\f\v", c))
            return;
    }
    scanner->last[1] = scanner->last[0];
    scanner->last[0] = kept;
}

/* Returns the first character of TEXT outside of comments and white space, or a zero. */
static char first_of(const char *text)
{
    for (;;) {
        text += strspn(text, " \t\r\n\f\v");
        if (*text != '%')
            return *text;
        text += strcspn(text, "\n");
    }
}

/* Returns whether Erlang certainly needs a term between the place of SCANNER and AFTER. [], {}
   and <<>> need none. */
static int needs_term(const struct scanner *scanner, const char *after)
{
    char from = scanner->last[0], to;

    if (scanner->within != '\0' || scanner->escape != '\0' || scanner->is_unsure)
        return 0;
    to = first_of(after);
    if ((from == '[' && to == ']') || (from == '{' && to == '}') || (from == '<' && to == '>'))
        return 0;
    return (from == '\0' || is_one_of(",[{(|-+", from) ||
            (scanner->last[1] == '=' && from == '>') ||
            (scanner->last[1] == '<' && from == '<')) &&
           is_one_of(",]})>=:|.", to);
}

/* Returns whether NAME may be that of a variable. In `${, $}`, which names two characters in
   Erlang, it is a comma and more. */
static int is_name(const char *name) { return strpbrk(name, ",$\"'%\\") == NULL; }

static void check_gap(void *arg, const char *before, size_t length, const char *name,
                      const char *after)
{
    struct scanner *scanner = arg;
    char *what, *why;

    for (; scanner->at < length; scanner->at++)
        scan(scanner, before[scanner->at]);
    if (!is_name(name) || !needs_term(scanner, after))
        return;
    if (asprintf(&what, "sys.config needs a value for ${%s}", name) < 0 ||
        asprintf(&why, "this environment variable is empty or not set; set it, or write "
                       "${%s:-DEFAULT} in sys.config.src", name) < 0)
        refuse(EXIT_FAILED, "cannot read sys.config", "out of memory");
    refuse(EXIT_MISUSED, what, why);
}

char *config_complete(const char *template)
{
    struct scanner scanner = {0, '\0', '\0', 0, {'\0', '\0'}};

    return template_complete(template, check_gap, &scanner);
}
