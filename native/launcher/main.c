/*
 * One file that answers for the whole VM.
 *
 * Run under its own name it is the program that was packed into it: it checks
 * the pack, puts the VM's command line together and becomes the VM. Run as
 * /.whittle/bin/NAME (as its own child processes are) it is that program of
 * OTP. Without a pack it is a plain beam.smp.
 */
#define _GNU_SOURCE
#include "main.h"
#include "erl.h"
#include "flags.h"
#include "machine.h"
#include "pack.h"
#include "process.h"
#include "vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- our own flags --------------------------------------------------------- */

enum verb { VERB_SHOW, VERB_CONTROL, VERB_HELP };

static const struct own_flag {
    const char *name;
    enum verb verb;
    const char *subject; /* VERB_SHOW: the file to print; VERB_CONTROL: the request */
    int arguments;       /* how many it takes; -1 for any number */
    const char *words;   /* what they are */
    const char *help;
} own_flags[] = {
    {"--whittle-info", VERB_SHOW, "etc/info.txt", 0, "", "what is in this file"},
    {"--whittle-info=json", VERB_SHOW, "etc/info.json", 0, "", "the same, as JSON"},
    {"--whittle-licenses", VERB_SHOW, "etc/licenses.txt", 0, "", "notices of all parts"},
    {"--whittle-bom", VERB_SHOW, "etc/bom.json", 0, "", "bill of materials (SPDX)"},
    {"--whittle-ping", VERB_CONTROL, "ping", 0, "", "whether the running node answers"},
    {"--whittle-pid", VERB_CONTROL, "pid", 0, "", "the running node's process id"},
    {"--whittle-stop", VERB_CONTROL, "stop", 0, "", "stop the running node in order"},
    {"--whittle-eval", VERB_CONTROL, "eval", 1, " EXPRESSIONS",
     "evaluate in the running node: Elixir where it runs, else Erlang"},
    {"--whittle-eval=erlang", VERB_CONTROL, "eval=erlang", 1, " EXPRESSIONS", "always Erlang"},
    {"--whittle-eval=elixir", VERB_CONTROL, "eval=elixir", 1, " EXPRESSIONS", "always Elixir"},
    {"--whittle-rpc", VERB_CONTROL, "rpc", -1, " MODULE FUNCTION [TERM...]",
     "call in the running node; Elixir.System is Elixir's System"},
    {"--whittle-remote", VERB_CONTROL, "remote", 0, "",
     "a shell in the running node: IEx where it is"},
    {"--whittle-help", VERB_HELP, NULL, 0, "", "this"},
};

#define OWN_FLAG_PREFIX "--whittle-"
#define COUNT(array) (sizeof(array) / sizeof *(array))

static void list_own_flags(FILE *out)
{
    char usage[64];
    size_t i;

    for (i = 0; i < COUNT(own_flags); i++) {
        snprintf(usage, sizeof usage, "%s%s", own_flags[i].name, own_flags[i].words);
        fprintf(out, "  %-40s %s\n", usage, own_flags[i].help);
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
                 flag->arguments == 0 ? "takes no arguments" : "takes one argument");
        return flag;
    }
    fprintf(stderr, "%s: there is no %s; these are the flags it has:\n",
            program_invocation_short_name, argv[1]);
    list_own_flags(stderr);
    exit(EXIT_MISUSED);
}

static void end_output(void)
{
    if (fflush(stdout) != 0 || ferror(stdout))
        refuse(EXIT_FAILED, "cannot write", strerror(errno));
    exit(0);
}

static void show(const char *path)
{
    char *text = pack_text(path);
    if (text == NULL)
        refuse(EXIT_FAILED, "this file was built without it", path);
    fputs(text, stdout);
    end_output();
}

/* ---- the environment ------------------------------------------------------- */

/* etc/env: NAME=VALUE sets what is not set, !NAME=VALUE sets always. */
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
    /* Without resolv.conf libc asks a name server on 127.0.0.1 and waits five
       seconds for it, at every start: boot looks up the host's own name. */
    if (access("/etc/resolv.conf", F_OK) < 0)
        setenv("ERL_INETRC", WHITTLE_ROOT "/etc/no_dns.inetrc", 0);
}

/* A system in the field does not fill its disk when it falls: ERTS writes no dump
   within zero seconds, unless somebody says where he wants one. */
void turn_off_crash_dump(void)
{
    if (getenv("ERL_CRASH_DUMP") == NULL)
        setenv("ERL_CRASH_DUMP_SECONDS", "0", 0);
}

/* ---- flags ------------------------------------------------------------------ */

/* A variable's value; NULL when it is not set or empty. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

static const char *either_variable(const char *one, const char *other)
{
    const char *value = variable(one);
    return value != NULL ? value : variable(other);
}

/* The file that one of two variables names, which the VM gives its EXTENSION where that
   is missing; NULL when neither names one. */
static const char *file_in_variable(const char *one, const char *other, const char *extension)
{
    const char *name = variable(one) != NULL ? one : other;
    const char *path = variable(name);
    size_t length = path != NULL ? strlen(path) : 0, end = strlen(extension);
    char what[PATH_MAX], full[PATH_MAX];
    struct stat info;
    int has_it;

    /* The pack's own, which a Mix release has in a variable, cannot be seen yet. */
    if (path == NULL || strncmp(path, WHITTLE_ROOT "/", sizeof WHITTLE_ROOT) == 0)
        return path;
    has_it = length >= end && strcmp(path + length - end, extension) == 0;
    snprintf(full, sizeof full, "%s%s", path, has_it ? "" : extension);
    snprintf(what, sizeof what, "%s names %s", name, full);
    if (access(full, R_OK) < 0)
        refuse(EXIT_FAILED, what, strerror(errno));
    if (stat(full, &info) == 0 && S_ISDIR(info.st_mode))
        refuse(EXIT_FAILED, what, strerror(EISDIR));
    return path;
}

/*
 * +Q: as many ports as there can be descriptors, from 4,096 to ERTS's own 65,536;
 * each costs 8 to 16 bytes of memory, used or not. First, so that any other wins.
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
 * The release's vm.args, or the file that relx's VMARGS_PATH or Mix's
 * RELEASE_VM_ARGS names instead.
 */
static void add_vm_args(struct flags *flags)
{
    const char *path = file_in_variable("VMARGS_PATH", "RELEASE_VM_ARGS", "");
    char *text = path == NULL ? pack_text("etc/vm.args") : NULL;

    if (path != NULL)
        flags_add_file(flags, path);
    if (text != NULL)
        flags_add_template(flags, text);
    free(text);
}

void add_flag(struct flags *flags, const char *name, const char *value)
{
    words_add(&flags->init, name);
    if (value != NULL)
        words_add(&flags->init, value);
}

/*
 * The release's sys.config, or the file that relx's RELX_CONFIG_PATH or Mix's
 * RELEASE_SYS_CONFIG names instead. A template (relx's sys.config.src) is
 * filled in from the environment and handed over as a descriptor: nothing is
 * written to disk.
 */
static void add_config(struct flags *flags)
{
    const char *path = file_in_variable("RELX_CONFIG_PATH", "RELEASE_SYS_CONFIG", ".config");
    char *text, *filled;
    char number[16];
    size_t length;
    int fd;

    if (path != NULL) {
        add_flag(flags, "-config", path);
        return;
    }
    text = pack_text("etc/sys.config.src");
    if (text == NULL) {
        if (pack_find("etc/sys.config", strlen("etc/sys.config")) != NULL)
            add_flag(flags, "-config", WHITTLE_ROOT "/etc/sys.config");
        return;
    }
    filled = expand_variables(text);
    length = strlen(filled);
    fd = memfd_create("sys.config", 0);
    if (fd < 0 || write(fd, filled, length) != (ssize_t)length)
        refuse(EXIT_FAILED, "cannot fill in sys.config", strerror(errno));
    lseek(fd, 0, SEEK_SET);
    snprintf(number, sizeof number, "%d", fd);
    add_flag(flags, "-configfd", number);
    free(filled);
    free(text);
}

/* ---- distribution ----------------------------------------------------------- */

/* As net_kernel would, but in one line: letters, digits, _ and -, and after an @ a host. */
static void check_node_name(const char *name, int is_long)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    size_t length = strspn(name, letters);
    const char *host = name + length;

    if (length == 0 || (*host != '\0' && (*host != '@' || host[1] == '\0')) ||
        strlen(name) > 255)
        refuse(EXIT_MISUSED, name,
               "is no node's name: letters, digits, _ and -, then an @ and a host or nothing");
    if (!is_long && strchr(host, '.') != NULL)
        refuse(EXIT_MISUSED, name,
               "the host of a short name (-sname) has no dot; give it with -name, or "
               "RELEASE_DISTRIBUTION=name");
}

/*
 * Leaves one of -name and -sname in FLAGS, the last, or none, and returns the name.
 * Mix's RELEASE_NODE comes before it, and RELEASE_DISTRIBUTION (name, sname, none)
 * before its kind.
 */
static const char *set_node_name(struct flags *flags)
{
    const char *node = variable("RELEASE_NODE");
    const char *kind = variable("RELEASE_DISTRIBUTION");
    const char *given = flags_last(flags, "name", "sname");
    int is_long = kind != NULL ? strcmp(kind, "name") == 0
                               : given != NULL && strcmp(given, "-name") == 0;

    if (kind != NULL && strcmp(kind, "name") != 0 && strcmp(kind, "sname") != 0 &&
        strcmp(kind, "none") != 0)
        refuse(EXIT_MISUSED, "RELEASE_DISTRIBUTION is name, sname or none", kind);
    if (node == NULL && given != NULL)
        node = flags_value(flags, given + 1);
    flags_remove(flags, "name", 1);
    flags_remove(flags, "sname", 1);
    if (node == NULL || (kind != NULL && strcmp(kind, "none") == 0))
        return NULL;
    check_node_name(node, is_long);
    add_flag(flags, is_long ? "-name" : "-sname", node);
    return node;
}

/* relx's ERL_DIST_PORT: a fixed port for the node, and no epmd. */
static void set_fixed_port(struct flags *flags)
{
    const char *port = variable("ERL_DIST_PORT");

    if (port != NULL && (strspn(port, "0123456789") != strlen(port) || strlen(port) > 5 ||
                         atoi(port) < 1 || atoi(port) > 65535))
        refuse(EXIT_MISUSED, "ERL_DIST_PORT is a port, 1 to 65535", port);
    if (port != NULL && flags_value(flags, "erl_epmd_port") == NULL) {
        add_flag(flags, "-erl_epmd_port", port);
        add_flag(flags, "-start_epmd", "false");
    }
}

/* As erl does: the VM takes the port mapper's port from a flag only. */
void set_epmd_port(struct flags *flags)
{
    const char *port = getenv("ERL_EPMD_PORT");
    if (port != NULL)
        add_flag(flags, "-epmd_port", port);
}

/* A cookie file is read only when it is ours, or root's, and nobody else can. */
static void read_cookie_file(const char *path, char cookie[256])
{
    struct stat status;
    ssize_t size;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 || fstat(fd, &status) < 0)
        refuse(EXIT_FAILED, "WHITTLE_COOKIE_FILE cannot be read", strerror(errno));
    if (!S_ISREG(status.st_mode))
        refuse(EXIT_FAILED, path, "the cookie is read from a file, which this is not");
    if ((status.st_mode & 077) != 0)
        refuse(EXIT_FAILED, path,
             "the cookie file can be read or written by others; run chmod 600 on it");
    if (status.st_uid != geteuid() && status.st_uid != 0)
        refuse(EXIT_FAILED, path, "the cookie file belongs to somebody else; run chown on it");
    size = read(fd, cookie, 255);
    if (size < 0)
        refuse(EXIT_FAILED, path, strerror(errno));
    close(fd);
    cookie[size] = '\0';
    cookie[strcspn(cookie, " \t\r\n")] = '\0';
    if (*cookie == '\0')
        refuse(EXIT_FAILED, path, "the cookie file is empty; write the cookie into it");
}

static void generate_cookie(char cookie[256])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    unsigned char random[24];
    size_t i;
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        refuse(EXIT_FAILED, "cannot generate a cookie", strerror(errno));
    for (i = 0; i < sizeof random; i++)
        cookie[i] = letters[random[i] % 32];
    cookie[sizeof random] = '\0';
}

/*
 * Where the cookie of a named node comes from, first found: -setcookie in
 * vm.args given at start; RELEASE_COOKIE or ERLANG_COOKIE; the file that
 * WHITTLE_COOKIE_FILE names; ~/.erlang.cookie (read by the VM, which checks
 * its permissions); else one made up for this run, which nobody else knows.
 */
void set_cookie(struct flags *flags)
{
    const char *given = either_variable("RELEASE_COOKIE", "ERLANG_COOKIE");
    const char *file = variable("WHITTLE_COOKIE_FILE");
    const char *home = getenv("HOME");
    char path[4096], cookie[256];

    if (flags_value(flags, "setcookie") != NULL)
        return;
    if (given != NULL && strlen(given) > 255)
        refuse(EXIT_MISUSED, "the cookie in RELEASE_COOKIE or ERLANG_COOKIE",
               "is longer than 255 characters");
    if (given != NULL) {
        add_flag(flags, "-setcookie", given);
        return;
    }
    if (file != NULL) {
        read_cookie_file(file, cookie);
        add_flag(flags, "-setcookie", cookie);
        return;
    }
    if (home != NULL && snprintf(path, sizeof path, "%s/.erlang.cookie", home) > 0 &&
        access(path, R_OK) == 0)
        return;
    generate_cookie(cookie);
    setenv("RELEASE_COOKIE", cookie, 1); /* for the nodes that this one starts */
    add_flag(flags, "-setcookie", cookie);
}

int wants_epmd(const struct flags *flags)
{
    const char *start = flags_value(flags, "start_epmd");
    size_t i;
    for (i = 0; i < flags->init.count; i++)
        if (strcmp(flags->init.at[i], "-no_epmd") == 0 ||
            strcmp(flags->init.at[i], "-epmd_module") == 0)
            return 0;
    return start == NULL || strcmp(start, "false") != 0;
}

/* As erl does for a named node: a daemon that leaves at once if there is one. */
void start_epmd(void)
{
    char *const argv[] = {"epmd", "-daemon", NULL};
    pid_t child = fork();
    if (child == 0) {
        vfs_start(); /* it lies in the pack */
        execve(WHITTLE_ROOT "/bin/epmd", argv, environ);
        _exit(127);
    }
    if (child > 0)
        waitpid(child, NULL, 0);
}

static void set_up_distribution(struct flags *flags)
{
    const char *node = set_node_name(flags);

    set_fixed_port(flags);
    if (node == NULL)
        return;
    set_epmd_port(flags);
    set_cookie(flags);
    if (wants_epmd(flags))
        start_epmd();
}

/* ---- asking a running node --------------------------------------------------- */

/*
 * The command line of a short-lived hidden node that asks the running one
 * (whittle_control): the running node's emulator flags, and of its init flags
 * only the ways of distribution.
 */
static void become_control_node(struct flags *flags, const struct own_flag *flag)
{
    static const char *const kept[] = {"setcookie",        "proto_dist",   "erl_epmd_port",
                                       "start_epmd",       "epmd_port",    "epmd_module",
                                       "ssl_dist_optfile", "ssl_dist_opt", "kernel"};
    struct flags control = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    const char *node = set_node_name(flags), *host;
    char name[512];
    size_t i, j;

    set_fixed_port(flags);
    if (node == NULL)
        refuse(EXIT_FAILED, flag->name,
             "this program runs without a node name; give it one with -sname or -name in "
             "vm.args, or RELEASE_NODE");
    set_epmd_port(flags);
    set_cookie(flags);
    host = strchr(node, '@');
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
    add_flag(&control, flags_last(flags, "name", "sname"), name);
    if (strcmp(flag->subject, "remote") == 0) {
        /* Without a terminal it starts a shell of its own node and says nothing. */
        if (OTP_RELEASE < 26 && !isatty(STDIN_FILENO))
            refuse(EXIT_MISUSED, flag->name,
                   "needs a terminal; --whittle-eval does without one");
        /* +Bc: Ctrl-C is the shell's, and no menu's. */
        flags_add_text(&control, OTP_RELEASE < 26 ? "-user whittle_control"
                                                  : "-noshell -s whittle_control shell");
        words_add(&flags->emulator, "-Bc");
    } else {
        flags_add_text(&control, "-noshell -noinput -s whittle_control main");
        add_flag(&control, "-whittle_request", flag->subject);
    }
    add_flag(&control, "-whittle_node", node);
    add_flag(&control, "-whittle_program", program_invocation_short_name);
    flags->init = control.init;
    flags->extra = control.extra;
}

/* ---- starting ---------------------------------------------------------------- */

/* erl_start's command line: EMULATOR -- -root … -- -home … INIT -extra ARGUMENTS */
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
    /* Whoever starts further nodes (peer, slave) runs it as erl. */
    words_add(&line, "-progname");
    words_add(&line, WHITTLE_ROOT "/bin/erl");
    words_add(&line, "--");
    words_add(&line, "-home");
    words_add(&line, home != NULL && *home != '\0' ? home : "/");
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

static int run_packed(int argc, char **argv)
{
    struct flags flags = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    const struct own_flag *flag = find_own_flag(argc, argv);
    char *text;
    int skip, is_remote;

    if (flag != NULL && flag->verb == VERB_SHOW)
        show(flag->subject);
    if (flag != NULL && flag->verb == VERB_HELP) {
        list_own_flags(stdout);
        end_output();
    }

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

    if (flag != NULL) {
        become_control_node(&flags, flag);
    } else {
        add_config(&flags);
        set_up_distribution(&flags);
    }
    is_remote = flag != NULL && strcmp(flag->subject, "remote") == 0;
    process_take_signals(is_remote ? INTERRUPT_IS_IGNORED : INTERRUPT_STOPS, 1);
    vfs_start_vm();
    /* An escript asks for its own path too (escript:script_name/0). */
    skip = flag != NULL ? 2 : flags_value(&flags, "whittle_argv0") != NULL ? 0 : 1;
    /* Before Linux 5.18 a program can be started without a single word. */
    start(&flags, argv + (skip < argc ? skip : argc));
    return 0;
}

int main(int argc, char **argv)
{
    vfs_open_standard_descriptors();
    if (argc > 0 && process_is_own_program(argv[0]))
        return process_run_own_program(argc, argv);
    switch (pack_open()) {
    case PACK_DAMAGED:
        refuse(EXIT_FAILED, "this file is damaged; get it again", pack_problem());
    case PACK_READY:
        return run_packed(argc, argv);
    case PACK_ABSENT:
        /* Who runs it as beam.smp has set it. */
        if (getenv("BINDIR") == NULL)
            refuse(EXIT_FAILED, "this file holds no application",
                   "it is the VM alone; strip and objcopy take away what was packed");
        sys_init_signal_stack();
        erl_start(argc, argv);
    }
    return 0;
}
