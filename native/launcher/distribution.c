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
#define MOST_COOKIE_LETTERS 255 /* the longest atom */

/* ---- the name -------------------------------------------------------------- */

static int has_control_character(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < ' ' || *text == 127)
            return 1;
    return 0;
}

/* OTP accepts no host with letters beyond Latin-1, and the DNS none beyond ASCII. */
static int is_ascii(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text >= 0x80)
            return 0;
    return 1;
}

/* Ends the program with one line when net_kernel would reject NAME with a long report. A name
   has letters, digits, _ and -; @ and a host may follow. */
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
    if (!is_utf8(name))
        refuse(EXIT_MISUSED, "the node's name is not valid UTF-8",
               "use letters, digits, _ and -; @HOST may follow");
    if (length == 0 || (*host != '\0' && (*host != '@' || host[1] == '\0')) ||
        (*host == '@' && strpbrk(host + 1, "@ ") != NULL) || has_control_character(name) ||
        !is_ascii(host) || strlen(name) > MOST_NAME_BYTES)
        refuse(EXIT_MISUSED, name,
               "is not a node name: use letters, digits, _ and -; @HOST may follow");
    if (!is_long && strchr(host, '.') != NULL)
        refuse(EXIT_MISUSED, name,
               "the host of a short name (-sname) must not have a dot; use -name, or "
               "RELEASE_DISTRIBUTION=name");
}

/*
 * Leaves at most one -name or -sname in FLAGS, and returns its name or NULL. The last flag
 * counts. Mix's RELEASE_NODE overrides its name, and RELEASE_DISTRIBUTION (name, sname, none)
 * overrides its kind.
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
        refuse_value("RELEASE_DISTRIBUTION", kind, "name, sname or none");
    if (node == NULL && given != NULL) {
        node = flags_value(flags, given + 1);
        if (node == NULL)
            refuse(EXIT_MISUSED, given,
                   "has no node name after it; add one, or set the variable that stands for it");
    }
    flags_remove(flags, "name", ALL_VALUES);
    flags_remove(flags, "sname", ALL_VALUES);
    if (node == NULL || (kind != NULL && strcmp(kind, "none") == 0))
        return NULL;
    check_node_name(node, is_long);
    flags_add_init(flags, is_long ? "-name" : "-sname", node);
    return node;
}

/* ---- ports ----------------------------------------------------------------- */

/* Returns PORT, the value of the variable or flag NAME. Ends the program if it is not a port. */
static const char *checked_port(const char *name, const char *port)
{
    if (strspn(port, "0123456789") != strlen(port) || strlen(port) > 5 || atoi(port) < 1 ||
        atoi(port) > 65535)
        refuse_value(name, port, "a port (1 to 65535)");
    return port;
}

/* Returns the port in the variable NAME, or NULL when the variable is not set. */
static const char *port_variable(const char *name)
{
    const char *port = variable(name);
    return port != NULL ? checked_port(name, port) : NULL;
}

/* Checks the ports in FLAGS. With a wrong port the VM prints a crash report, or listens on
   another port that no node knows. */
static void check_port_flags(const struct flags *flags)
{
    size_t i;

    for (i = 0; i < flags->init.count; i++) {
        const char *flag = flags->init.at[i];
        if (strcmp(flag, "-epmd_port") != 0 && strcmp(flag, "-erl_epmd_port") != 0)
            continue;
        if (flags_arity(flags, i) == 0)
            refuse(EXIT_MISUSED, flag, "has no port after it; write a number from 1 to 65535");
        checked_port(flag, flags->init.at[i + 1]);
    }
}

/* Applies relx's ERL_DIST_PORT: the node gets this fixed port, and needs no epmd. */
static void set_fixed_port(struct flags *flags)
{
    const char *port = port_variable("ERL_DIST_PORT");

    if (port != NULL && flags_value(flags, "erl_epmd_port") == NULL) {
        flags_add_init(flags, "-erl_epmd_port", port);
        flags_add_init(flags, "-start_epmd", "false");
    }
}

/* Passes the port mapper's port on, as erl does: the VM reads it from a flag only. */
static void set_mapper_port(struct flags *flags)
{
    const char *port = port_variable("ERL_EPMD_PORT");

    if (port != NULL)
        flags_add_init(flags, "-epmd_port", port);
    else
        unsetenv("ERL_EPMD_PORT"); /* epmd would read an empty port as 0, which is any port */
}

/* ---- the cookie ------------------------------------------------------------ */

/* Returns COOKIE. Ends the program if it cannot be a word of the VM's command line and an
   atom. */
static const char *checked_cookie(const char *source, const char *cookie)
{
    if (*cookie == '\0')
        refuse(EXIT_MISUSED, source, "the cookie is empty; set a cookie of 1 to 255 bytes");
    if (*cookie == '-')
        refuse(EXIT_MISUSED, source,
               "a cookie cannot begin with -, because the VM reads such a word as a flag; choose "
               "another cookie");
    if (strlen(cookie) > MOST_COOKIE_LETTERS)
        refuse(EXIT_MISUSED, source, "the cookie is longer than 255 bytes; choose a shorter one");
    if (!is_utf8(cookie))
        refuse(EXIT_MISUSED, source,
               "the cookie is not valid UTF-8; write it in UTF-8, or choose another cookie");
    if (has_control_character(cookie))
        refuse(EXIT_MISUSED, source,
               "the cookie contains a control character; choose another cookie");
    return cookie;
}

/*
 * Removes every -setcookie with one value from FLAGS and returns the last value, the node's
 * own cookie, or NULL. A -setcookie with two values gives the cookie for another node, and
 * stays.
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
                   "has no cookie after it; a cookie cannot begin with -, because the VM reads "
                   "such a word as a flag");
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
 * Returns the bytes of the cookie file at PATH, and sets *SIZE and *STATUS. NAME is the text by
 * which errors call the file. Ends the program when it cannot read the file, or when other users
 * have rights to it.
 */
static char *private_file(const char *name, const char *path, size_t *size, struct stat *status)
{
    const char *why;
    char *bytes = input_read(path, MOST_COOKIE_BYTES, size, status, &why);

    if (bytes == NULL)
        refuse(EXIT_FAILED, name, why);
    if ((status->st_mode & 077) != 0)
        refuse(EXIT_FAILED, name,
               "other users can read or write the cookie file; run chmod 600 on it");
    return bytes;
}

/*
 * Returns the cookie in the file that WHITTLE_COOKIE_FILE names, without the white space around
 * it. Ends the program unless the file belongs to this user or to root, and other users have no
 * rights to it.
 */
static const char *read_cookie_file(const char *path)
{
    static const char spaces[] = " \t\r\n";
    char name[PATH_MAX + 32];
    struct stat status;
    size_t size, end;
    char *cookie;

    snprintf(name, sizeof name, "WHITTLE_COOKIE_FILE: %s", path);
    cookie = private_file(name, path, &size, &status);
    if (status.st_uid != geteuid() && status.st_uid != 0)
        refuse(EXIT_FAILED, name, "the cookie file belongs to another user; run chown on it");
    if (strlen(cookie) != size)
        refuse(EXIT_FAILED, name,
               "the cookie file contains a zero byte; write the cookie into it again");
    cookie += strspn(cookie, spaces);
    for (end = strlen(cookie); end > 0 && strchr(spaces, cookie[end - 1]) != NULL; end--)
        cookie[end - 1] = '\0';
    if (*cookie == '\0')
        refuse(EXIT_FAILED, name, "the cookie file is empty; write the cookie into it");
    return checked_cookie(name, cookie);
}

/*
 * Ends the program when the VM's module auth would refuse the cookie file at PATH. auth prints
 * crash reports for a wrong file, and waits for the writer of a FIFO. The cookie is the
 * characters from space to ~, as in auth; only line ends and spaces may follow.
 */
static void check_home_cookie(const char *path)
{
    struct stat status;
    size_t size, length;
    char *cookie = private_file(path, path, &size, &status);

    for (length = 0; cookie[length] >= ' ' && cookie[length] <= '~'; length++)
        ;
    if (length + strspn(cookie + length, " \r\n") != size)
        refuse(EXIT_FAILED, path,
               "the cookie has a character that the VM does not accept; write one line of "
               "printable ASCII");
    /* The VM reads only as many bytes as the file's size. A file of /proc has size 0. */
    if (length == 0 || status.st_size == 0)
        refuse(EXIT_FAILED, path, "the cookie file is empty; write the cookie into it");
    if (length > MOST_COOKIE_LETTERS)
        refuse(EXIT_FAILED, path, "the cookie is longer than 255 bytes; choose a shorter one");
    free(cookie);
}

/* Writes DIRECTORY, BELOW and the name of the cookie file into PATH. Returns whether it fits. */
static int cookie_path(char path[PATH_MAX], const char *directory, const char *below)
{
    return snprintf(path, PATH_MAX, "%s%s/.erlang.cookie", directory, below) < PATH_MAX;
}

/*
 * Returns whether the VM will find the user's cookie file: in the home directory, or else in
 * erlang/ of the user's configuration directory. OTP's module auth looks in these places.
 */
static int has_home_cookie(void)
{
    const char *home = getenv("HOME"), *config = variable("XDG_CONFIG_HOME");
    char path[PATH_MAX];

    if (home == NULL || !cookie_path(path, home, ""))
        return 0;
    if (access(path, F_OK) < 0) {
        if (errno != ENOENT ||
            !(config != NULL ? cookie_path(path, config, "/erlang")
                             : cookie_path(path, home, "/.config/erlang")) ||
            access(path, F_OK) < 0)
            return 0;
    }
    if (access(path, R_OK) < 0)
        return 0;
    check_home_cookie(path);
    return 1;
}

/*
 * Sets the cookie of a named node. The first of these sources counts: -setcookie in FLAGS;
 * RELEASE_COOKIE or ERLANG_COOKIE; the file that WHITTLE_COOKIE_FILE names; the user's cookie
 * file, which the VM reads. Returns 0 when there is none of these.
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

/* Sets a random cookie. The node runs with it, and no other node can connect. */
static void generate_cookie(struct flags *flags)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    unsigned char random[24];
    char cookie[sizeof random + 1];
    size_t i;

    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        refuse(EXIT_FAILED, "cannot generate a cookie",
               "the kernel gives no random bytes; set RELEASE_COOKIE");
    for (i = 0; i < sizeof random; i++)
        cookie[i] = letters[random[i] % 32];
    cookie[sizeof random] = '\0';
    flags_add_init(flags, "-setcookie", cookie);
    setenv("RELEASE_COOKIE", cookie, 1); /* the nodes that this node starts read it */
    fprintf(stderr,
            "%s: no cookie is set, so this run generated a random one: other nodes and "
            "--whittle-ping cannot connect. Set RELEASE_COOKIE or WHITTLE_COOKIE_FILE to let "
            "them.\n",
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
 * Returns a loopback address if NODE's host is one, else NULL. No other machine can reach such
 * a node, so no other machine needs to reach its epmd. epmd listens on 127.0.0.1 and ::1 in
 * addition to any address that it gets.
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

/*
 * Checks ERL_EPMD_ADDRESS, because epmd's own message names neither epmd nor the variable. epmd
 * separates the addresses in the same way. A list without an address counts as an unset variable:
 * with it, epmd would listen on all addresses, even if the node's host is a loopback host.
 */
static void check_mapper_address(const char *addresses)
{
    char *copy = addresses != NULL ? strdup(addresses) : NULL, *rest = copy, *address;
    struct in6_addr six;
    struct in_addr four;
    int count = 0;

    for (; copy != NULL && (address = strtok_r(rest, ", ", &rest)) != NULL; count++)
        if (inet_pton(AF_INET6, address, &six) != 1 && inet_pton(AF_INET, address, &four) != 1)
            refuse_value("ERL_EPMD_ADDRESS", addresses,
                         "a list of IP addresses with commas between them; epmd would not start");
    free(copy);
    if (count == 0)
        unsetenv("ERL_EPMD_ADDRESS");
}

/* Starts epmd as a daemon, as erl does for a named node. A second epmd ends at once. */
static void start_epmd(const char *node)
{
    const char *address =
        variable("ERL_EPMD_ADDRESS") == NULL ? loopback_address(node) : NULL;
    char *const argv[] = {"epmd", "-daemon", address != NULL ? "-address" : NULL,
                          (char *)address, NULL};
    pid_t child = fork();

    if (child > 0) {
        waitpid(child, NULL, 0);
        return;
    }
    if (child == 0) {
        vfs_start(); /* the file of epmd is in the pack */
        execve(WHITTLE_ROOT "/bin/epmd", argv, environ);
    }
    fprintf(stderr, "%s: cannot start epmd, so other nodes cannot find this one: %s\n",
            program_invocation_short_name, strerror(errno));
    if (child == 0)
        _exit(127);
}

/* A shaken program without distribution has no epmd either. */
static int has_distribution(void)
{
    return pack_find("bin/epmd", strlen("bin/epmd")) != NULL;
}

/* ---- the public functions --------------------------------------------------- */

void distribution_start(struct flags *flags, const char *node)
{
    set_mapper_port(flags);
    check_port_flags(flags);
    if (wants_epmd(flags))
        check_mapper_address(variable("ERL_EPMD_ADDRESS"));
    if (!set_cookie(flags))
        generate_cookie(flags);
    if (wants_epmd(flags))
        start_epmd(node);
}

void distribution_set_up(struct flags *flags)
{
    const char *node = set_node_name(flags);

    if (node != NULL && !has_distribution()) {
        fprintf(stderr, "%s: the node name %s has no effect, because this file was built without "
                "distribution: build it with --feature +distribution\n",
                program_invocation_short_name, node);
        flags_remove(flags, "name", ALL_VALUES);
        flags_remove(flags, "sname", ALL_VALUES);
        node = NULL;
    }
    set_fixed_port(flags);
    if (node != NULL)
        distribution_start(flags, node);
}

const char *distribution_for_control(struct flags *flags, const char *own_flag)
{
    const char *node = set_node_name(flags);
    const char *kind = variable("RELEASE_DISTRIBUTION");

    if (node == NULL && kind != NULL && strcmp(kind, "none") == 0)
        refuse(EXIT_FAILED, own_flag,
             "RELEASE_DISTRIBUTION=none means a node without a name, and a request needs one: set "
             "it as for the node, to sname or name");
    if (node == NULL)
        refuse(EXIT_FAILED, own_flag,
             "the name of the running node is unknown: set RELEASE_NODE to it here, as for the "
             "node; or give the node a name with -sname or -name in vm.args");
    set_fixed_port(flags);
    set_mapper_port(flags);
    check_port_flags(flags);
    if (!set_cookie(flags))
        refuse(EXIT_FAILED, own_flag,
             "no cookie is set, so no connection to the node is possible. Start the node with "
             "RELEASE_COOKIE or WHITTLE_COOKIE_FILE, and set the same variable here. (A node that "
             "starts without a cookie generates a random one.)");
    return node;
}
