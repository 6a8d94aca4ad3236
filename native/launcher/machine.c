#define _GNU_SOURCE
#include "machine.h"
#include "pack.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_packed(const char *head)
{
    const struct pack_entry *entry = pack_first_below("lib", 3);
    size_t length = strlen(head);

    for (; entry != NULL && strncmp(entry->path, "lib/", 4) == 0; entry = pack_next(entry))
        if (entry->path_len > length && memcmp(entry->path, head, length) == 0)
            return 1;
    return 0;
}

static int is_on_path(const char *name)
{
    const char *at = getenv("PATH");
    char file[PATH_MAX];

    for (; at != NULL && *at != '\0'; at += strcspn(at, ":"), at += *at == ':')
        if (snprintf(file, sizeof file, "%.*s/%s", (int)strcspn(at, ":"), at, name) <
                (int)sizeof file &&
            access(file, X_OK) == 0)
            return 1;
    return 0;
}

/*
 * os_mon's disksup runs df through a shell. On a machine without either, disksup crashes; after
 * four restarts its supervisor gives up, which ends os_mon and the program. With
 * `start_disksup false' os_mon does not start it, and its functions return [{"none",0,0}].
 */
void machine_add_flags(struct flags *flags)
{
    if (access("/bin/sh", X_OK) == 0 && (access("/bin/df", X_OK) == 0 || is_on_path("df")))
        return;
    if (!is_packed("lib/os_mon-"))
        return;
    words_add(&flags->init, "-os_mon");
    words_add(&flags->init, "start_disksup");
    words_add(&flags->init, "false");
}
