/* Runs parts of the launcher for flags_SUITE. The reader of flags (native/launcher/flags.c)
   reads a file or a variable. It prints the words of each list, each with a zero byte at its end.
   "FILE NAME all" and "FILE NAME one" remove the flag NAME with all its values, or with one.
   "configuration FILE" completes a sys.config.src (native/launcher/config.c) and prints it, and
   "template FILE" any text (native/launcher/template.c). */
#include "config.h"
#include "flags.h"
#include "input.h"
#include "template.h"

#include <stdio.h>
#include <string.h>

/* The launcher never frees the flags that it reads. */
const char *__asan_default_options(void) { return "detect_leaks=0"; }

static void print(const char *title, const struct words *words)
{
    size_t i;
    printf("%s%c", title, 0);
    for (i = 0; i < words->count; i++)
        printf("%s%c", words->at[i], 0);
}

int main(int argc, char **argv)
{
    struct flags flags = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    const char *why;

    if (argc == 3 && (strcmp(argv[1], "configuration") == 0 || strcmp(argv[1], "template") == 0)) {
        char *text = input_read(argv[2], MOST_CONFIG_BYTES, NULL, NULL, &why);
        if (text == NULL)
            refuse(EXIT_FAILED, argv[2], why);
        fputs(argv[1][0] == 'c' ? config_complete(text) : template_complete(text, NULL, NULL),
              stdout);
        return 0;
    }
    if (argc == 3 && strcmp(argv[1], "variable") == 0)
        flags_add_variable(&flags, argv[2]);
    else
        flags_add_file(&flags, argv[1]);
    if (argc == 4)
        flags_remove(&flags, argv[2], strcmp(argv[3], "all") == 0 ? ALL_VALUES : 1);
    print("emulator", &flags.emulator);
    print("init", &flags.init);
    print("extra", &flags.extra);
    return 0;
}
