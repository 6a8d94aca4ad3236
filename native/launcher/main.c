/*
 * The entry of the executable: one file is the VM, OTP's helper programs and the packed
 * program.
 *
 * main() chooses by argv[0] and by the pack. Child processes of the VM run this file as
 * /.whittle/bin/NAME; it then acts as OTP's program NAME. Under any other name it checks the
 * pack, builds the VM's command line and becomes the VM. A file without a pack acts as a
 * plain beam.smp.
 */
#define _GNU_SOURCE
#include "main.h"
#include "config.h"
#include "distribution.h"
#include "erl.h"
#include "flags.h"
#include "input.h"
#include "machine.h"
#include "memory_file.h"
#include "pack.h"
#include "process.h"
#include "signals.h"
#include "vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The number of free descriptors that a start needs, and some more for the program. The
   test case `descriptors' of launcher_SUITE measures the need of a start. */
#define NEEDED_DESCRIPTORS 32

/* The start needs 32 to 40 kB of stack, beside the arguments and the environment (x86_64; test case
   `stack' of start_SUITE). */
#define NEEDED_STACK (64 * 1024)

/* ---- our own flags --------------------------------------------------------- */

enum verb { VERB_SHOW, VERB_CONTROL, VERB_HELP };

static const struct own_flag {
    const char *name;
    enum verb verb;
    const char *subject; /* VERB_SHOW: the file to print; VERB_CONTROL: the request */
    int arguments;       /* the number of arguments that the flag takes; -1: any number */
    const char *words;   /* the names of the arguments in the help */
    const char *help;
} own_flags[] = {
    {"--whittle-info", VERB_SHOW, "etc/info.txt", 0, "", "list the contents of this file"},
    {"--whittle-info=json", VERB_SHOW, "etc/info.json", 0, "", "list the contents as JSON"},
    {"--whittle-licenses", VERB_SHOW, "etc/licenses.txt", 0, "",
     "print the license notices of all parts"},
    {"--whittle-bom", VERB_SHOW, "etc/bom.json", 0, "", "print the bill of materials (SPDX)"},
    {"--whittle-ping", VERB_CONTROL, "ping", 0, "", "tell whether the running node answers"},
    {"--whittle-pid", VERB_CONTROL, "pid", 0, "", "print the running node's process id"},
    {"--whittle-stop", VERB_CONTROL, "stop", 0, "", "stop the running node in order"},
    {"--whittle-eval", VERB_CONTROL, "eval", 1, " EXPRESSIONS",
     "evaluate in the running node: as Elixir if it runs Elixir, else as Erlang"},
    {"--whittle-eval=erlang", VERB_CONTROL, "eval=erlang", 1, " EXPRESSIONS",
     "evaluate as Erlang"},
    {"--whittle-eval=elixir", VERB_CONTROL, "eval=elixir", 1, " EXPRESSIONS",
     "evaluate as Elixir"},
    {"--whittle-rpc", VERB_CONTROL, "rpc", -1, " MODULE FUNCTION [TERM...]",
     "call a function in the running node; write Elixir's System as Elixir.System"},
    {"--whittle-remote", VERB_CONTROL, "remote", 0, "",
     "open a shell in the running node: IEx if the node has it"},
    {"--whittle-help", VERB_HELP, NULL, 0, "", "print this list"},
};

#define OWN_FLAG_PREFIX "--whittle-"
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Without the feature `control', the module whittle_control only calls whittle_start_without, and
   the whole module never does. */
static int is_whole(void *arg, const void *code, size_t size)
{
    static const char replaced[] = "whittle_start_without";
    (void)arg;
    return memmem(code, size, replaced, sizeof replaced - 1) == NULL;
}

/* Returns whether this file can ask a running node. */
static int can_ask(void)
{
    static const char above[] = "lib/whittle_control-", name[] = "/whittle_control.beam";
    const struct pack_entry *entry = pack_first_below("lib", 3);
    size_t end = sizeof name - 1;

    for (; entry != NULL && strncmp(entry->path, "lib/", 4) == 0; entry = pack_next(entry))
        if (entry->path_len >= sizeof above - 1 + end &&
            memcmp(entry->path, above, sizeof above - 1) == 0 &&
            memcmp(entry->path + entry->path_len - end, name, end) == 0)
            return pack_read(entry, is_whole, NULL) == 1;
    return 0;
}

static void list_own_flags(void)
{
    int asks = can_ask();
    char usage[64];
    size_t i;

    for (i = 0; i < COUNT(own_flags); i++) {
        if (own_flags[i].verb == VERB_CONTROL && !asks)
            continue;
        snprintf(usage, sizeof usage, "%s%s", own_flags[i].name, own_flags[i].words);
        printf("  %-40s %s\n", usage, own_flags[i].help);
    }
}

static const struct own_flag *find_own_flag(int argc, char **argv)
{
    size_t i;

    if (argc < 2 || strncmp(argv[1], OWN_FLAG_PREFIX, sizeof OWN_FLAG_PREFIX - 1) != 0)
        return NULL;
    for (i = 0; i < COUNT(own_flags); i++) {
        const struct own_flag *flag = &own_flags[i];
        if (strcmp(argv[1], flag->name) != 0)
            continue;
        if (flag->arguments >= 0 && argc - 2 != flag->arguments)
            refuse(EXIT_MISUSED, flag->name,
                 flag->arguments == 0 ? "takes no arguments; --whittle-help describes it"
                                      : "takes one argument; --whittle-help describes it");
        return flag;
    }
    refuse(EXIT_MISUSED, argv[1], "there is no such flag; --whittle-help lists the flags");
}

static void end_output(void)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        refuse(EXIT_FAILED, "cannot write to standard output", strerror(errno));
    exit(0);
}

static void show(const char *path)
{
    char *text = pack_text(path);
    if (text == NULL)
        refuse(EXIT_FAILED, path, "this executable does not contain this file; build it again");
    fputs(text, stdout);
    end_output();
}

/* ---- the environment ------------------------------------------------------- */

/* Applies etc/env. A line NAME=VALUE sets a variable that is not set; !NAME=VALUE sets it
   always. */
void set_environment(void)
{
    char *text = pack_text("etc/env");
    char *rest = text, *line;

    while (text != NULL && (line = strtok_r(rest, "\n", &rest)) != NULL) {
        int always = line[0] == '!';
        char *name = line + always;
        char *value = strchr(name, '=');
        if (value == NULL)
            continue;
        *value++ = '\0';
        setenv(name, value, always);
    }
    free(text);
    setenv("BINDIR", WHITTLE_ROOT "/bin", 1);
    setenv("ROOTDIR", WHITTLE_ROOT, 1);
    setenv("PROGNAME", "erl", 1);
    setenv("EMU", "beam", 1);
    erl_set_path();
    /* The VM would look for a file without a name. */
    if (variable("ERL_INETRC") == NULL)
        unsetenv("ERL_INETRC");
    /* The boot looks up the host's own name. Without /etc/resolv.conf libc would ask a name
       server on 127.0.0.1, and every start would wait five seconds for it. */
    if (access("/etc/resolv.conf", F_OK) < 0)
        setenv("ERL_INETRC", WHITTLE_ROOT "/etc/no_dns.inetrc", 0);
}

/* Turns crash dumps off, because they could fill the disk of a system in the field. With
   ERL_CRASH_DUMP_SECONDS=0 ERTS writes none. A user who sets ERL_CRASH_DUMP still gets one. */
void turn_off_crash_dump(void)
{
    if (getenv("ERL_CRASH_DUMP") == NULL)
        setenv("ERL_CRASH_DUMP_SECONDS", "0", 0);
}

/* ---- flags ------------------------------------------------------------------ */

/*
 * Checks a file that the VM will read. The VM appends EXTENSION to a PATH without it, and so
 * does this function. Ends the program when the file cannot be read; WHAT is the flag or the
 * variable that the message names. With MAY_BE_MISSING a missing file passes, and the VM
 * reports it.
 */
static void check_file(const char *what, const char *path, const char *extension, size_t most,
                       int may_be_missing)
{
    size_t length = strlen(path), end = strlen(extension);
    int has_it = length >= end && strcmp(path + length - end, extension) == 0;
    char named[PATH_MAX + 64], *full = NULL;
    const char *why;

    /* The files of the pack are not visible yet. A Mix release names one in a variable. */
    if (strncmp(path, WHITTLE_ROOT "/", sizeof WHITTLE_ROOT) == 0)
        return;
    if (asprintf(&full, "%s%s", path, has_it ? "" : extension) < 0)
        refuse(EXIT_FAILED, what, "out of memory");
    if (may_be_missing && access(full, F_OK) < 0) {
        free(full);
        return;
    }
    why = input_problem(full, most);
    snprintf(named, sizeof named, "%s names %s", what, full);
    if (why != NULL)
        refuse(EXIT_FAILED, named, why);
    free(full);
}

/* Returns the value of the first of two variables that is set, or NULL. Sets *NAME to the
   variable's name. */
static const char *either_variable(const char *one, const char *other, const char **name)
{
    *name = variable(one) != NULL ? one : other;
    return variable(*name);
}

/*
 * Returns PATH as a word of the VM's command line. The VM would read a path that begins with -
 * as a flag, so such a path gets ./ before it. Nobody frees the result.
 */
static const char *path_word(const char *path)
{
    char *word;

    if (path[0] != '-')
        return path;
    if (asprintf(&word, "./%s", path) < 0)
        refuse(EXIT_FAILED, path, "out of memory");
    return word;
}

/*
 * Sets the largest number of ports (+Q) to the limit of descriptors: at least 4,096, at most
 * ERTS's default of 65,536. Each possible port costs 8 to 16 bytes of memory, used or not.
 * The flag comes first, so that any later +Q wins.
 */
void add_port_limit(struct flags *flags)
{
    struct rlimit limit;
    rlim_t ports = 4096;
    char number[16];

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > ports)
        ports = limit.rlim_cur < 65536 ? limit.rlim_cur : 65536;
    snprintf(number, sizeof number, "%lu", (unsigned long)ports);
    words_add(&flags->emulator, "-Q");
    words_add(&flags->emulator, number);
}

/*
 * Adds the flags of the release's vm.args, or of the file that relx's VMARGS_PATH or Mix's
 * RELEASE_VM_ARGS names instead.
 */
static void add_vm_args(struct flags *flags)
{
    const char *name, *path = either_variable("VMARGS_PATH", "RELEASE_VM_ARGS", &name);
    char *text = path == NULL ? pack_text("etc/vm.args") : NULL;

    if (path != NULL) {
        check_file(name, path, "", MOST_FLAGS_BYTES, 0);
        flags_add_file(flags, path);
    }
    if (text != NULL)
        flags_add_template(flags, text);
    free(text);
}

/*
 * Adds the release's sys.config, or the file that relx's RELX_CONFIG_PATH or Mix's
 * RELEASE_SYS_CONFIG names instead. The launcher fills a template (relx's sys.config.src) in
 * from the environment and passes it to the VM as a descriptor, so it writes nothing to disk.
 */
static void add_config(struct flags *flags)
{
    const char *name, *path = either_variable("RELX_CONFIG_PATH", "RELEASE_SYS_CONFIG", &name);
    char *text, *filled;
    char number[16];
    size_t length;
    int fd;

    if (path != NULL) {
        check_file(name, path, ".config", MOST_CONFIG_BYTES, 0);
        flags_add_init(flags, "-config", path_word(path));
        return;
    }
    text = pack_text("etc/sys.config.src");
    if (text == NULL) {
        if (pack_find("etc/sys.config", strlen("etc/sys.config")) != NULL)
            flags_add_init(flags, "-config", WHITTLE_ROOT "/etc/sys.config");
        return;
    }
    filled = config_complete(text);
    length = strlen(filled);
    fd = memory_file("sys.config", 0, MFD_NOEXEC_SEAL);
    if (fd < 0 || write(fd, filled, length) != (ssize_t)length)
        refuse(EXIT_FAILED, "cannot replace the variables in sys.config", strerror(errno));
    lseek(fd, 0, SEEK_SET);
    snprintf(number, sizeof number, "%d", fd);
    flags_add_init(flags, "-configfd", number);
    free(filled);
    free(text);
}

/*
 * Returns the path in an Erlang term, `"PATH"` or `'PATH'`: the VM reads the values of an
 * application's flag as terms. Nobody frees the result.
 */
static const char *path_in_term(const char *term)
{
    size_t length = strlen(term);
    char *path = strdup(term), *from, *to;

    if (path == NULL)
        refuse(EXIT_FAILED, term, "out of memory");
    if (length < 2 || (term[0] != '"' && term[0] != '\'') || term[length - 1] != term[0])
        return path;
    path[length - 1] = '\0';
    for (from = path + 1, to = path; *from != '\0'; *to++ = *from++)
        if (*from == '\\' && from[1] != '\0')
            from++;
    *to = '\0';
    return path;
}

/*
 * Ends the program when PATH, a directory of code, is too long for a file in it: the VM would
 * print a report for each module. WHAT is the flag or the variable that the message names.
 */
static void check_code_path(const char *what, const char *path)
{
    if (strlen(path) + 1 + NAME_MAX >= PATH_MAX ||
        (access(path, F_OK) < 0 && errno == ENAMETOOLONG))
        refuse(EXIT_MISUSED, what, "contains a path that is too long; write a shorter one");
}

/* Checks the directories in ERL_LIBS. */
static void check_libraries(void)
{
    const char *libraries = variable("ERL_LIBS");
    char *copy = libraries != NULL ? strdup(libraries) : NULL, *rest = copy, *path;

    while (copy != NULL && (path = strtok_r(rest, ":", &rest)) != NULL)
        check_code_path("ERL_LIBS", path);
    free(copy);
}

/* Checks the files that the flag at place I names, if the VM reads them as a whole, and the length
   of its directories of code. */
static void check_flag_files(const struct flags *flags, size_t i)
{
    const char *flag = flags->init.at[i], *term;
    size_t count = flags_arity(flags, i), j;

    if (strcmp(flag, "-pa") == 0 || strcmp(flag, "-pz") == 0)
        for (j = count; j > 0; j--)
            check_code_path(flag, flags->init.at[i + j]);
    if (strcmp(flag, "-config") == 0)
        for (j = count; j > 0; j--)
            check_file(flag, flags->init.at[i + j], ".config", MOST_CONFIG_BYTES, 1);
    if (strcmp(flag, "-ssl_dist_optfile") == 0 && count > 0)
        check_file(flag, flags->init.at[i + 1], "", MOST_CONFIG_BYTES, 1);
    /* Names and values alternate. */
    if (strcmp(flag, "-kernel") == 0)
        for (j = 1; j + 1 <= count; j += 2)
            if (strcmp(flags->init.at[i + j], "inetrc") == 0) {
                term = flags->init.at[i + j + 1];
                check_file("-kernel inetrc", path_in_term(term), "", MOST_CONFIG_BYTES,
                           term[0] != '"' && term[0] != '\'');
            }
}

/* Checks the files that flags and variables name, if the VM reads them as a whole, and the lengths
   of the directories of code. */
static void check_named_files(const struct flags *flags)
{
    const char *inetrc = variable("ERL_INETRC");
    size_t i;

    for (i = 0; i < flags->init.count; i++)
        check_flag_files(flags, i);
    if (inetrc != NULL)
        check_file("ERL_INETRC", inetrc, "", MOST_CONFIG_BYTES, 0);
    check_libraries();
}

/* ---- asking a running node --------------------------------------------------- */

/*
 * Returns the program's name as a word of the VM's command line, which must be UTF-8 and must not
 * begin with -. In a name that is not UTF-8, ? replaces each byte that is not ASCII. Nobody frees
 * the result.
 */
static const char *name_word(const char *name)
{
    char *word = strdup(name), *at;

    if (word == NULL)
        refuse(EXIT_FAILED, name, "out of memory");
    if (!is_utf8(word))
        for (at = word; *at != '\0'; at++)
            if ((unsigned char)*at >= 0x80)
                *at = '?';
    return path_word(word);
}

/*
 * Turns FLAGS, those of the running node, into the command line of a short-lived hidden node
 * that asks the running one (whittle_control). It keeps the emulator flags, and only those
 * init flags that configure distribution.
 */
static void become_control_node(struct flags *flags, const struct own_flag *flag)
{
    static const char *const kept[] = {"setcookie",        "proto_dist",   "erl_epmd_port",
                                       "start_epmd",       "epmd_port",    "epmd_module",
                                       "ssl_dist_optfile", "ssl_dist_opt", "kernel"};
    struct flags control = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    const char *node = distribution_for_control(flags, flag->name);
    const char *host = strchr(node, '@');
    char name[512];
    size_t i, j;

    snprintf(name, sizeof name, "whittle-%ld%s", (long)getpid(), host != NULL ? host : "");

    flags_add_text(&control, "-boot " WHITTLE_ROOT "/boot/control -hidden -dist_listen false");
    for (i = 0; i < flags->init.count; i++)
        for (j = 0; j < COUNT(kept); j++)
            if (flags->init.at[i][0] == '-' && strcmp(flags->init.at[i] + 1, kept[j]) == 0) {
                words_add(&control.init, flags->init.at[i]);
                while (i + 1 < flags->init.count && flags->init.at[i + 1][0] != '-')
                    words_add(&control.init, flags->init.at[++i]);
                break;
            }
    flags_add_init(&control, flags_last(flags, "name", "sname"), name);
    if (strcmp(flag->subject, "remote") == 0) {
        /* Without a terminal, OTP 25 would start a shell of the hidden node, and print
           nothing. */
        if (OTP_RELEASE < 26 && !isatty(STDIN_FILENO))
            refuse(EXIT_MISUSED, flag->name,
                   "needs a terminal; --whittle-eval works without one");
        /* +Bc: Ctrl-C goes to the shell and does not open ERTS's menu. */
        flags_add_text(&control, OTP_RELEASE < 26 ? "-user whittle_control"
                                                  : "-noshell -s whittle_control shell");
        words_add(&flags->emulator, "-Bc");
    } else {
        flags_add_text(&control, "-noshell -noinput -s whittle_control main");
        flags_add_init(&control, "-whittle_request", flag->subject);
    }
    flags_add_init(&control, "-whittle_node", node);
    flags_add_init(&control, "-whittle_program", name_word(program_invocation_short_name));
    flags->init = control.init;
    flags->extra = control.extra;
}

/* ---- starting ---------------------------------------------------------------- */

/*
 * Ends the program when the VM could not use its working directory: somebody removed it, the user
 * may not enter it, or its name is not text. The VM's loader needs that directory and its path.
 */
static void check_directory(void)
{
    char path[PATH_MAX];

    if (getcwd(path, sizeof path) == NULL) {
        if (errno == ENOENT)
            refuse(EXIT_FAILED, "the current directory does not exist any more",
                   "change to another directory, and start the program again");
    } else if (access(".", F_OK) < 0 && errno == EACCES)
        refuse(EXIT_FAILED, "this user may not enter the current directory",
               "change to another directory, and start the program again");
    else if (!is_utf8(path))
        refuse(EXIT_FAILED, "the name of the current directory is not valid UTF-8",
               "change to another directory, and start the program again");
}

/* Ends the program when a flag of the VM is not valid UTF-8: the VM reads its flags as text. */
static void check_flags(const struct words *words)
{
    size_t i;

    for (i = 0; i < words->count; i++)
        if (!is_utf8(words->at[i]))
            refuse(EXIT_MISUSED, "a flag of the VM is not valid UTF-8",
                   "write it in UTF-8 in vm.args, ERL_FLAGS, or the variable that holds it");
}

void check_start(const struct flags *flags)
{
    check_directory();
    check_flags(&flags->emulator);
    check_flags(&flags->init);
    check_named_files(flags);
}

/* The command line for erl_start: EMULATOR -- -root … -- -home … INIT -extra ARGUMENTS */
void start(const struct flags *flags, char **arguments)
{
    const char *home = getenv("HOME");
    struct words line = {NULL, 0};
    size_t i;

    words_add(&line, program_invocation_name);
    for (i = 0; i < flags->emulator.count; i++)
        words_add(&line, flags->emulator.at[i]);
    words_add(&line, "--");
    words_add(&line, "-root");
    words_add(&line, WHITTLE_ROOT);
    words_add(&line, "-bindir");
    words_add(&line, WHITTLE_ROOT "/bin");
    /* The modules peer and slave start further nodes with this program. */
    words_add(&line, "-progname");
    words_add(&line, WHITTLE_ROOT "/bin/erl");
    words_add(&line, "--");
    words_add(&line, "-home");
    words_add(&line, path_word(home != NULL && *home != '\0' ? home : "/"));
    words_add(&line, "--");
    for (i = 0; i < flags->init.count; i++)
        words_add(&line, flags->init.at[i]);
    words_add(&line, "-extra");
    for (i = 0; i < flags->extra.count; i++)
        words_add(&line, flags->extra.at[i]);
    for (; *arguments != NULL; arguments++)
        words_add(&line, *arguments);

    sys_init_signal_stack();
    erl_start((int)line.count, line.at);
}

/* Ends the program when an argument of the request FLAG is not valid UTF-8. */
static void check_request(const struct own_flag *flag, char **arguments)
{
    for (; *arguments != NULL; arguments++)
        if (!is_utf8(*arguments))
            refuse(EXIT_MISUSED, flag->name,
                   "an argument is not valid UTF-8; write the argument in UTF-8");
}

static int run_packed(int argc, char **argv)
{
    struct flags flags = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    const struct own_flag *flag = find_own_flag(argc, argv);
    char *text;
    int skip;

    if (flag != NULL && flag->verb == VERB_SHOW)
        show(flag->subject);
    if (flag != NULL && flag->verb == VERB_HELP) {
        list_own_flags();
        end_output();
    }

    if (flag != NULL) {
        if (!can_ask())
            refuse(EXIT_FAILED, flag->name,
                   "this file cannot send requests to a node: build it with --feature +control");
        check_request(flag, argv + 2);
    }

    /* A parent passes this descriptor only to OTP's programs, and this is not one of them. */
    unsetenv("WHITTLE_SELF_FD");
    process_check_emulator();
    process_check_system_calls();
    process_keep_self();
    set_environment();
    add_port_limit(&flags);
    flags_add_variable(&flags, "ERL_AFLAGS");
    text = pack_text("etc/flags");
    if (text == NULL)
        refuse(EXIT_FAILED, "this file is damaged", "etc/flags is missing");
    flags_add_text(&flags, text);
    free(text);
    add_vm_args(&flags);
    flags_add_variable(&flags, "ERL_FLAGS");
    flags_add_variable(&flags, "ERL_ZFLAGS");
    turn_off_crash_dump();
    machine_add_flags(&flags);

    if (flag != NULL)
        become_control_node(&flags, flag);
    else
        add_config(&flags);
    check_start(&flags);
    if (flag == NULL) {
        distribution_set_up(&flags); /* the epmd that it starts stays */
        signals_take(INTERRUPT_STOPS, 1);
    } else if (strcmp(flag->subject, "remote") == 0)
        signals_take(INTERRUPT_IS_IGNORED, 1);
    else
        signals_take(INTERRUPT_ENDS, 0);
    vfs_start_vm();
    /* An escript also gets its own path, because escript:script_name/0 returns it. */
    skip = flag != NULL ? 2 : flags_value(&flags, "whittle_argv0") != NULL ? 0 : 1;
    /* Before Linux 5.18 a caller can start a program without even argv[0]. */
    start(&flags, argv + (skip < argc ? skip : argc));
    return 0;
}

/*
 * Returns whether this process may have capabilities from its file. Root has all capabilities
 * by its user id, and the kernel does not set AT_SECURE for those.
 */
static int has_capabilities(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];

    if (getuid() == 0)
        return 0;
    return syscall(SYS_capget, &header, sets) < 0 || sets[0].permitted != 0 ||
           sets[1].permitted != 0;
}

/*
 * Ends the program when its file gives it more rights than its caller has. An Erlang VM takes
 * code from its environment, its working directory and its open descriptors, so the caller's
 * code would run with these rights. The launcher cannot block each way: every NIF and every
 * application may add one.
 */
static void refuse_lent_rights(void)
{
    static const char danger[] = "its environment could run any code with these rights.";
    char why[512];

    if (getauxval(AT_SECURE) == 0 && getuid() == geteuid() && getgid() == getegid())
        return;
    if (getuid() == geteuid() && getgid() == getegid() && !has_capabilities()) {
        snprintf(why, sizeof why,
                 "%s The kernel reports it (AT_SECURE), and the file has no rights of its own: a "
                 "rule of SELinux or AppArmor causes it. Allow `noatsecure' for this change of "
                 "the domain (SELinux), or write px instead of Px in the profile (AppArmor)",
                 danger);
        refuse(EXIT_FAILED,
               "this file would run with other rights than its caller, so it does not run",
               why);
    }
    snprintf(why, sizeof why,
             "%s Remove these rights (chmod u-s,g-s FILE; setcap -r FILE), and let a service "
             "manager start it as its user (systemd: User=, AmbientCapabilities=)",
             danger);
    refuse(EXIT_FAILED,
           "this file is setuid or setgid, or has file capabilities, so it does not run", why);
}

/*
 * Ends the program when too few descriptors are free. With no free descriptor ERTS would try
 * forever to open descriptors 0 to 2. With too few it would fail without naming the cause.
 */
static void check_descriptors(void)
{
    int taken[NEEDED_DESCRIPTORS];
    int count = 0, problem = 0, enough, missing;
    struct rlimit limit;
    char why[128];

    while (count < NEEDED_DESCRIPTORS && problem == 0) {
        taken[count] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
        if (taken[count] < 0)
            problem = errno;
        else
            count++;
    }
    /* With a limit of 0 the kernel says EINVAL. */
    if ((problem == EMFILE || problem == EINVAL) && getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        /* The caller may have lowered the limit while descriptors above it were open. */
        enough = (int)limit.rlim_cur;
        for (missing = NEEDED_DESCRIPTORS - count; missing > 0; enough++)
            if (fcntl(enough, F_GETFD) < 0)
                missing--;
        snprintf(why, sizeof why,
                 "%d are free, and the start needs %d; raise the limit (ulimit -n) from %d to %d",
                 count, NEEDED_DESCRIPTORS, (int)limit.rlim_cur, enough);
    } else
        snprintf(why, sizeof why, "%s", strerror(problem));
    while (count > 0)
        close(taken[--count]);
    if (problem != 0)
        refuse(EXIT_FAILED, "too few file descriptors", why);
}

/*
 * Ends the program when the limit of a file's size is too low for the start. The VM reads the
 * files of the pack through memory files (memfd), and the limit counts for these too.
 */
static void check_file_size(void)
{
    const struct pack_entry *entry = pack_first_below("boot", 4);
    uint32_t needed = 0;
    struct rlimit limit;
    char why[160];

    for (; entry != NULL && strncmp(entry->path, "boot/", 5) == 0; entry = pack_next(entry))
        if (entry->size > needed)
            needed = entry->size;
    if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= needed)
        return;
    snprintf(why, sizeof why,
             "the start needs %lu bytes in memory files, and this limit counts for them; raise "
             "it (ulimit -f; systemd: LimitFSIZE=)",
             (unsigned long)needed);
    refuse(EXIT_FAILED, "the limit of a file's size is too low", why);
}

/* The bytes of words that end with NULL, with their pointers. */
static size_t size_of_words(char **words)
{
    size_t size = sizeof *words;

    for (; *words != NULL; words++)
        size += strlen(*words) + 1 + sizeof *words;
    return size;
}

/*
 * Ends the program when the limit of the stack is too low: the kernel would end it by SIGSEGV. The
 * arguments and the environment lie on the stack.
 */
static void check_stack(char **argv)
{
    size_t needed = NEEDED_STACK + size_of_words(argv) + size_of_words(environ);
    struct rlimit limit;
    char why[128];

    if (getrlimit(RLIMIT_STACK, &limit) < 0 || limit.rlim_cur >= needed)
        return;
    snprintf(why, sizeof why,
             "the start needs %lu kB; raise the limit (ulimit -s; systemd: LimitSTACK=)",
             (unsigned long)(needed / 1024 + 1));
    refuse(EXIT_FAILED, "the limit of the stack is too low", why);
}

/*
 * Takes the program's name from the start script of a directory (--format dir). The script starts
 * the file `vm', and no program that this one starts may get the name.
 */
static void take_script_name(char **argv)
{
    char *script = getenv("WHITTLE_SCRIPT");
    char *slash;

    if (script == NULL || getenv("WHITTLE_TREE") == NULL)
        return;
    slash = strrchr(script, '/');
    argv[0] = program_invocation_name = script;
    program_invocation_short_name = slash != NULL ? slash + 1 : script;
    prctl(PR_SET_NAME, program_invocation_short_name);
    unsetenv("WHITTLE_SCRIPT");
}

int open_pack(void)
{
    char why[PATH_MAX + 192];

    switch (pack_open()) {
    case PACK_DAMAGED:
        refuse(EXIT_FAILED,
               pack_is_tree() ? "this directory is damaged, so copy it again"
                              : "this file is damaged, so copy it again",
               pack_problem());
    case PACK_UNREADABLE:
        snprintf(why, sizeof why, "%s; check the permissions and limits of this process",
                 pack_problem());
        refuse(EXIT_FAILED, "cannot read the files of this program", why);
    case PACK_NO_MEMORY:
        refuse(EXIT_FAILED, "cannot read the files of this program",
               "out of memory; give the program more memory");
    case PACK_ABSENT:
        return 0;
    case PACK_READY:
        break;
    }
    return 1;
}

int main(int argc, char **argv)
{
    refuse_lent_rights();
    vfs_open_standard_descriptors();
    signals_report_large_files();
    if (argc > 0 && process_is_own_program(argv[0]))
        return process_run_own_program(argc, argv);
    if (argc > 0)
        take_script_name(argv);
    check_stack(argv);
    check_descriptors();
    if (open_pack()) {
        check_file_size();
        return run_packed(argc, argv);
    }
    /* A caller that uses it as beam.smp sets BINDIR. */
    if (getenv("BINDIR") == NULL)
        refuse(EXIT_FAILED, "this file holds no application",
               "it is the VM alone, because strip and objcopy remove a packed application; copy "
               "the build's output again");
    sys_init_signal_stack();
    erl_start(argc, argv);
    return 0;
}
