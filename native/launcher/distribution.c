#define _GNU_SOURCE
#include "distribution.h"
#include "input.h"
#include "pack.h"
#include "process.h"
#include "vfs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_NAME_BYTES 255
#define MOST_COOKIE_LETTERS 255 /* an atom's */

const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

/* ---- the name -------------------------------------------------------------- */

static int has_control_character(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            return 1;
    return 0;
}

/* As net_kernel would, but in one line: letters, digits, _ and -, and after an @ a host. */
static void check_node_name(const char *name, int is_long)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    size_t length = strspn(name, letters);
    const char *host = name + length;
    char what[MOST_NAME_BYTES + 64];

    if (name[0] == '-') {
        snprintf(what, sizeof what, "`%.*s' cannot be a node's name", MOST_NAME_BYTES, name);
        refuse(EXIT_MISUSED, what, "it begins with -, which the VM reads as a flag");
    }
    if (length == 0 || (*host != '\0' && (*host != '@' || host[1] == '\0')) ||
        (*host == '@' && strpbrk(host + 1, "@ ") != NULL) || has_control_character(name) ||
        strlen(name) > MOST_NAME_BYTES)
        refuse(EXIT_MISUSED, name,
               "is not a node name: use letters, digits, _ and -; @HOST may follow");
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
    if (node == NULL && given != NULL) {
        node = flags_value(flags, given + 1);
        if (node == NULL)
            refuse(EXIT_MISUSED, given, "is the last word, and takes a node's name");
    }
    flags_remove(flags, "name", 1);
    flags_remove(flags, "sname", 1);
    if (node == NULL || (kind != NULL && strcmp(kind, "none") == 0))
        return NULL;
    check_node_name(node, is_long);
    flags_add_init(flags, is_long ? "-name" : "-sname", node);
    return node;
}

/* ---- ports ----------------------------------------------------------------- */

/* The port in the variable NAME, or NULL when it is not set. */
static const char *port_variable(const char *name)
{
    const char *port = variable(name);
    char what[64];

    if (port != NULL && (strspn(port, "0123456789") != strlen(port) || strlen(port) > 5 ||
                         atoi(port) < 1 || atoi(port) > 65535)) {
        snprintf(what, sizeof what, "%s is a port, 1 to 65535", name);
        refuse(EXIT_MISUSED, what, port);
    }
    return port;
}

/* relx's ERL_DIST_PORT: a fixed port for the node, and no epmd. */
static void set_fixed_port(struct flags *flags)
{
    const char *port = port_variable("ERL_DIST_PORT");

    if (port != NULL && flags_value(flags, "erl_epmd_port") == NULL) {
        flags_add_init(flags, "-erl_epmd_port", port);
        flags_add_init(flags, "-start_epmd", "false");
    }
}

/* As erl does: the VM takes the port mapper's port from a flag only. */
static void set_mapper_port(struct flags *flags)
{
    const char *port = port_variable("ERL_EPMD_PORT");

    if (port != NULL)
        flags_add_init(flags, "-epmd_port", port);
}

/* ---- the cookie ------------------------------------------------------------ */

/* A cookie becomes a word of the VM's command line, and an atom. */
static const char *checked_cookie(const char *source, const char *cookie)
{
    if (*cookie == '\0')
        refuse(EXIT_MISUSED, source, "the cookie is empty");
    if (*cookie == '-')
        refuse(EXIT_MISUSED, source,
               "the cookie begins with -, and the VM takes such a word for a flag; choose "
               "another one");
    if (strlen(cookie) > MOST_COOKIE_LETTERS)
        refuse(EXIT_MISUSED, source, "the cookie is longer than 255 bytes");
    if (has_control_character(cookie))
        refuse(EXIT_MISUSED, source, "the cookie has a control character in it");
    return cookie;
}

/*
 * Takes the node's own cookie out of FLAGS: the last -setcookie with one value. One with
 * two names another node and the cookie for it, and stays. NULL when there is none.
 */
static const char *take_cookie(struct flags *flags)
{
    struct words *init = &flags->init;
    const char *cookie = NULL;
    size_t from = 0, to = 0;

    while (from < init->count) {
        size_t size = 1 + flags_arity(flags, from);
        int is_cookie = strcmp(init->at[from], "-setcookie") == 0;
        if (is_cookie && size == 1)
            refuse(EXIT_MISUSED, "-setcookie",
                   "takes a cookie; the VM takes a word that begins with - for a flag");
        if (is_cookie && size == 2)
            cookie = init->at[from + 1];
        else
            memmove(init->at + to, init->at + from, size * sizeof *init->at);
        to += is_cookie && size == 2 ? 0 : size;
        from += size;
    }
    init->count = to;
    if (init->at != NULL)
        init->at[to] = NULL;
    return cookie;
}

/*
 * The cookie in the file at PATH, which is read only when it is ours, or root's, and
 * nobody else can. White space around the cookie is not part of it.
 */
static const char *read_cookie_file(const char *path)
{
    static const char spaces[] = " \t\r\n";
    struct stat status;
    const char *why;
    size_t size, end;
    char *cookie = input_read(path, MOST_COOKIE_BYTES, &size, &status, &why);

    if (cookie == NULL)
        refuse(EXIT_FAILED, path, why);
    if ((status.st_mode & 077) != 0)
        refuse(EXIT_FAILED, path,
             "the cookie file can be read or written by others; run chmod 600 on it");
    if (status.st_uid != geteuid() && status.st_uid != 0)
        refuse(EXIT_FAILED, path, "the cookie file belongs to somebody else; run chown on it");
    if (strlen(cookie) != size)
        refuse(EXIT_FAILED, path, "the cookie file has a zero byte in it");
    cookie += strspn(cookie, spaces);
    for (end = strlen(cookie); end > 0 && strchr(spaces, cookie[end - 1]) != NULL; end--)
        cookie[end - 1] = '\0';
    if (*cookie == '\0')
        refuse(EXIT_FAILED, path, "the cookie file is empty; write the cookie into it");
    return checked_cookie(path, cookie);
}

/*
 * Whether the VM finds a cookie file of its own, whose permissions it checks. It would
 * answer anything but a regular file with crash reports, or wait for a FIFO's writer.
 */
static int has_home_cookie(void)
{
    const char *home = getenv("HOME");
    struct stat status;
    char path[PATH_MAX];

    if (home == NULL ||
        snprintf(path, sizeof path, "%s/.erlang.cookie", home) >= (int)sizeof path ||
        stat(path, &status) < 0)
        return 0;
    if (!S_ISREG(status.st_mode))
        refuse(EXIT_FAILED, path, input_problem(path, MOST_COOKIE_BYTES));
    return access(path, R_OK) == 0;
}

/*
 * Where the cookie of a named node comes from, first found: -setcookie in flags given at
 * start; RELEASE_COOKIE or ERLANG_COOKIE; the file that WHITTLE_COOKIE_FILE names;
 * ~/.erlang.cookie, which the VM reads. Returns 0 where there is none of these.
 */
static int set_cookie(struct flags *flags)
{
    const char *source = variable("RELEASE_COOKIE") != NULL ? "RELEASE_COOKIE" : "ERLANG_COOKIE";
    const char *file = variable("WHITTLE_COOKIE_FILE");
    const char *cookie = take_cookie(flags);

    if (cookie != NULL)
        cookie = checked_cookie("-setcookie", cookie);
    else if (variable(source) != NULL)
        cookie = checked_cookie(source, variable(source));
    else if (file != NULL)
        cookie = read_cookie_file(file);
    if (cookie != NULL)
        flags_add_init(flags, "-setcookie", cookie);
    return cookie != NULL || has_home_cookie();
}

/* A cookie that nobody else knows: the node runs, and no other can connect to it. */
static void make_up_cookie(struct flags *flags)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    unsigned char random[24];
    char cookie[sizeof random + 1];
    size_t i;

    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        refuse(EXIT_FAILED, "cannot make up a cookie", strerror(errno));
    for (i = 0; i < sizeof random; i++)
        cookie[i] = letters[random[i] % 32];
    cookie[sizeof random] = '\0';
    flags_add_init(flags, "-setcookie", cookie);
    setenv("RELEASE_COOKIE", cookie, 1); /* for the nodes that this one starts */
    fprintf(stderr,
            "%s: no cookie is set, so this run has made one up: other nodes and --whittle-ping "
            "cannot connect. Set RELEASE_COOKIE or WHITTLE_COOKIE_FILE to let them.\n",
            program_invocation_short_name);
}

/* ---- the port mapper ------------------------------------------------------- */

static int wants_epmd(const struct flags *flags)
{
    const char *start = flags_value(flags, "start_epmd");
    size_t i;
    for (i = 0; i < flags->init.count; i++)
        if (strcmp(flags->init.at[i], "-no_epmd") == 0 ||
            strcmp(flags->init.at[i], "-epmd_module") == 0)
            return 0;
    return start == NULL || strcmp(start, "false") != 0;
}

/*
 * The address of this machine alone where NODE's host means that, else NULL: no other
 * machine can reach such a node, so its epmd need not be reached either. epmd listens
 * on 127.0.0.1 and ::1 beside any address that it is given.
 */
static const char *loopback_address(const char *node)
{
    const char *at = strchr(node, '@'), *host = at != NULL ? at + 1 : "";
    struct in6_addr six;
    struct in_addr four;

    if (inet_pton(AF_INET, host, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127 ? host : NULL;
    if (inet_pton(AF_INET6, host, &six) == 1)
        return IN6_IS_ADDR_LOOPBACK(&six) ? "127.0.0.1" : NULL;
    return strcasecmp(host, "localhost") == 0 || strcasecmp(host, "localhost.localdomain") == 0
               ? "127.0.0.1"
               : NULL;
}

/* As erl does for a named node: a daemon that leaves at once if there is one. */
static void start_epmd(const char *node)
{
    const char *address =
        variable("ERL_EPMD_ADDRESS") == NULL ? loopback_address(node) : NULL;
    char *const argv[] = {"epmd", "-daemon", address != NULL ? "-address" : NULL,
                          (char *)address, NULL};
    pid_t child = fork();
    if (child == 0) {
        vfs_start(); /* it lies in the pack */
        execve(WHITTLE_ROOT "/bin/epmd", argv, environ);
        _exit(127);
    }
    if (child > 0)
        waitpid(child, NULL, 0);
    else
        fprintf(stderr, "%s: cannot start epmd: %s\n", program_invocation_short_name,
                strerror(errno));
}

/* ---- all of it ------------------------------------------------------------- */

void distribution_start(struct flags *flags, const char *node)
{
    set_mapper_port(flags);
    if (!set_cookie(flags))
        make_up_cookie(flags);
    if (wants_epmd(flags))
        start_epmd(node);
}

void distribution_set_up(struct flags *flags)
{
    const char *node = set_node_name(flags);

    set_fixed_port(flags);
    if (node != NULL)
        distribution_start(flags, node);
}

const char *distribution_for_control(struct flags *flags, const char *own_flag)
{
    const char *node = set_node_name(flags);

    if (node == NULL)
        refuse(EXIT_FAILED, own_flag,
             "this program runs without a node name; give it one with -sname or -name in "
             "vm.args, or RELEASE_NODE");
    set_fixed_port(flags);
    set_mapper_port(flags);
    if (!set_cookie(flags))
        refuse(EXIT_FAILED, own_flag,
             "no cookie is set, so the node cannot be asked: start the node with RELEASE_COOKIE or "
             "WHITTLE_COOKIE_FILE set, and set the same here (a node that starts without a cookie "
             "makes up one of its own)");
    return node;
}
