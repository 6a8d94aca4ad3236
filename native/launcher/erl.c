#define _GNU_SOURCE
#include "erl.h"
#include "distribution.h"
#include "machine.h"
#include "main.h"
#include "pack.h"
#include "process.h"
#include "signals.h"
#include "vfs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BOOT WHITTLE_ROOT "/boot/control" /* starts kernel and stdlib alone */
#define COUNT(array) (sizeof(array) / sizeof *(array))

void erl_set_path(void)
{
    static const char own[] = WHITTLE_ROOT "/bin:";
    const char *path = getenv("PATH");
    char *longer;

    /* Without PATH, libc and shells use their own default. */
    if (path == NULL || strncmp(path, own, sizeof own - 1) == 0)
        return;
    longer = malloc(sizeof own + strlen(path));
    if (longer == NULL)
        return;
    strcpy(longer, own);
    strcat(longer, path);
    setenv("PATH", longer, 1);
    free(longer);
}

static void find_pack(void)
{
    if (!open_pack())
        refuse(EXIT_FAILED, "this file holds no code for a node",
               "start erl from the packed program that it belongs to");
    vfs_start_vm();
}

/* Adds the emulator flags of etc/flags. The other flags there are for the packed program. */
static void add_own_emulator_flags(struct flags *flags)
{
    struct flags own = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    char *text = pack_text("etc/flags");
    size_t i;

    if (text == NULL)
        return;
    flags_add_text(&own, text);
    free(text);
    for (i = 0; i < own.emulator.count; i++)
        words_add(&flags->emulator, own.emulator.at[i]);
}

static int has_flag(const struct flags *flags, const char *name)
{
    return flags_last(flags, name, name) != NULL;
}

/*
 * Replaces -boot in FLAGS by our own boot script when it names one of OTP's scripts for a node
 * without an application, or none: the pack leaves OTP's scripts out. A script that exists
 * stays.
 */
static void choose_boot(struct flags *flags)
{
    static const char *const plain[] = {"start", "start_clean", "no_dot_erlang"};
    const char *given = flags_value(flags, "boot");
    const char *name = given != NULL ? strrchr(given, '/') : NULL;
    char path[4096];
    size_t i;

    if (given != NULL) {
        snprintf(path, sizeof path, "%s.boot", given);
        if (access(path, R_OK) == 0)
            return;
        name = name != NULL ? name + 1 : given;
        for (i = 0; i < COUNT(plain) && strcmp(name, plain[i]) != 0; i++)
            ;
        if (i == COUNT(plain))
            return; /* init reports that the file is missing */
    }
    if (access(BOOT ".boot", R_OK) < 0)
        refuse(EXIT_FAILED, "this file cannot start further nodes",
               "it has no boot script for them; build it with --feature +control");
    flags_remove(flags, "boot", 1);
    flags_add_init(flags, "-boot", BOOT);
}

/* Applies those of erlexec's flags that flags.c does not apply. */
static void obey(struct flags *flags)
{
    static const char *const without_meaning[] = {"emu_args", "emu_qouted_cmd_exit"};
    static const char *const for_erlexec[] = {"emu_type", "emu_flavor", "smp", "epmd"};
    struct words given;
    size_t i;

    for (i = 0; i < COUNT(without_meaning); i++)
        flags_remove(flags, without_meaning[i], 0);
    for (i = 0; i < COUNT(for_erlexec); i++)
        flags_remove(flags, for_erlexec[i], 1);
    if (has_flag(flags, "version")) {
        flags_remove(flags, "version", 0);
        words_add(&flags->emulator, "-V");
    }
    given = flags->init;
    flags->init.at = NULL;
    flags->init.count = 0;
    /* Keep their order: the last one of -noshell, -noinput and -user decides which process
       becomes `user'. */
    for (i = 0; i < given.count; i++) {
        int detached = strcmp(given.at[i], "-detached") == 0;
        if (detached)
            flags_add_init(flags, "-detached", NULL);
        if (detached || strcmp(given.at[i], "-noinput") == 0)
            flags_add_init(flags, "-noshell", "-noinput");
        else
            flags_add_init(flags, given.at[i], NULL);
    }
}

/* Continues in a child process and ends this one. */
static void go_on_in_child(void)
{
    pid_t child = fork();

    if (child < 0)
        refuse(EXIT_FAILED, "cannot start the detached node (-detached)", strerror(errno));
    if (child > 0)
        _exit(0);
}

/* Detaches as erl -detached does: starts a new session and closes the caller's descriptors. */
static void detach(void)
{
    int fd;

    go_on_in_child();
    setsid();
    go_on_in_child();
    for (fd = 0; fd <= 2; fd++)
        close(fd);
    vfs_open_standard_descriptors();
}

int erl_run(int argc, char **argv)
{
    struct flags flags = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    static const char own_boot[] = WHITTLE_ROOT "/boot/";
    char *const nothing[] = {NULL};
    const char *boot, *kind, *node;

    find_pack();
    set_environment();
    add_port_limit(&flags);
    flags_add_variable(&flags, "ERL_AFLAGS");
    add_own_emulator_flags(&flags);
    flags_add_words(&flags, argv + (argc > 0));
    flags_add_variable(&flags, "ERL_FLAGS");
    flags_add_variable(&flags, "ERL_ZFLAGS");
    turn_off_crash_dump();
    machine_add_flags(&flags);
    obey(&flags);
    choose_boot(&flags);
    check_start(&flags);
    /* Ignore the variables for the name and the port: they are for the packed program. */
    kind = flags_last(&flags, "name", "sname");
    node = kind != NULL ? flags_value(&flags, kind + 1) : NULL;
    if (kind != NULL)
        distribution_start(&flags, node != NULL ? node : "");
    if (has_flag(&flags, "detached"))
        detach();
    boot = flags_value(&flags, "boot");
    signals_take(INTERRUPT_STOPS, strncmp(boot, own_boot, sizeof own_boot - 1) == 0);
    start(&flags, (char **)nothing);
    return 0;
}

int erl_run_emulator(int argc, char **argv)
{
    find_pack();
    set_environment();
    turn_off_crash_dump();
    signals_take(INTERRUPT_STOPS, 0);
    sys_init_signal_stack();
    erl_start(argc, argv);
    return 0;
}
