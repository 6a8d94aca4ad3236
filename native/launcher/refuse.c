#define _GNU_SOURCE
#include "refuse.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

void say(const char *text)
{
    for (; *text != '\0'; text++)
        fprintf(stderr, (unsigned char)*text < ' ' || *text == 127 ? "\\x{%X}" : "%c", *text);
}

int is_utf8(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    unsigned long letter, least;
    int more;

    while (*at != '\0') {
        more = *at < 0x80 ? 0 : *at < 0xC0 ? -1 : *at < 0xE0 ? 1 : *at < 0xF0 ? 2
               : *at < 0xF8 ? 3 : -1;
        if (more < 0)
            return 0;
        least = more == 0 ? 0 : more == 1 ? 0x80 : more == 2 ? 0x800 : 0x10000;
        letter = more == 0 ? *at : *at & (0x3Fu >> more);
        for (at++; more > 0; more--, at++) {
            if ((*at & 0xC0) != 0x80)
                return 0;
            letter = letter << 6 | (*at & 0x3Fu);
        }
        if (letter < least || letter > 0x10FFFF || (letter >= 0xD800 && letter <= 0xDFFF))
            return 0;
    }
    return 1;
}

void refuse(int code, const char *what, const char *why)
{
    say(program_invocation_short_name);
    say(": ");
    say(what);
    say(": ");
    say(why);
    fputc('\n', stderr);
    exit(code);
}

void refuse_value(const char *name, const char *value, const char *expected)
{
    say(program_invocation_short_name);
    say(": ");
    say(name);
    say(" is ");
    say(value);
    say(", which is not ");
    say(expected);
    fputc('\n', stderr);
    exit(EXIT_MISUSED);
}
