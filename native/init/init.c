/* Is the first process of a board: it mounts the kernel's file systems, runs /program on the
 * console, reaps processes, and ends or restarts the board when the program ends.
 *
 * Lines NAME=VALUE of /etc/environment become the program's environment. A word NAME=VALUE on the
 * kernel's command line, which the kernel turns into init's environment, has precedence. Two
 * variables are for init itself:
 *
 *   WHITTLE_END    after exit code 0: poweroff (default), reboot, restart or halt
 *   WHITTLE_CRASH  after any other end: reboot (default), poweroff, restart or halt
 *
 * `restart' runs the program again, at most once a second. `halt' stops the processor and keeps
 * the power on. With any other value init says so on the console and takes the default: a wrong
 * word on the kernel's command line must not turn the board off.
 *
 * With -DNETWORK it first configures the network card (network.h). With -DWATCHDOG it feeds the
 * watchdog while the program is healthy (watchdog.h).
 *
 * It uses no C library (call.h), and calls no function that gcc might expect of one. */

#include <asm/ioctls.h>
#include <linux/fcntl.h>
#include <linux/reboot.h>
#include <linux/signal.h>
#include <linux/time_types.h>

#include "call.h"

#define PROGRAM "/program"
#define ENVIRONMENT "/etc/environment"

/* The limits for /etc/environment; host/whittle_board checks them when it writes the file. */
#define MOST_BYTES 4096
#define MOST_VARIABLES 64

static char bytes[MOST_BYTES + 1];
static char *environment[MOST_VARIABLES + 1];
static int variables;

static long length(const char *text) {
    long n = 0;
    while (text[n])
        n++;
    return n;
}

static int equal(const char *a, const char *b) {
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

/* Says a line on the console. Each part may be 0. */
static void say(const char *a, const char *b, const char *c) {
    CALL3(__NR_write, 2, "init: ", 6);
    CALL3(__NR_write, 2, a, length(a));
    if (b)
        CALL3(__NR_write, 2, b, length(b));
    if (c)
        CALL3(__NR_write, 2, c, length(c));
    CALL3(__NR_write, 2, "\n", 1);
}

/* Writes a number below 1000 and returns its first digit. It only subtracts: some processors have
 * no instruction for a division. */
static char *decimal(int number, char to[4]) {
    static const int unit[] = {100, 10, 1};
    int i, first = 2;
    for (i = 0; i < 3; i++) {
        to[i] = '0';
        while (number >= unit[i])
            number -= unit[i], to[i]++;
        if (to[i] != '0' && i < first)
            first = i;
    }
    to[3] = 0;
    return to + first;
}

/* The environment */

/* Returns the value of a variable, or 0. The name ends at a `=' or at the end of the text. */
static const char *value(const char *name) {
    int i;
    for (i = 0; i < variables; i++) {
        const char *a = environment[i], *b = name;
        while (*a && *a != '=' && *a == *b)
            a++, b++;
        if (*a == '=' && (*b == '=' || !*b))
            return a + 1;
    }
    return 0;
}

/* Adds a line, unless it has no `=' or its variable is there. */
static void add(char *line) {
    char *at = line;
    while (*at && *at != '=')
        at++;
    if (at == line || !*at || value(line))
        return;
    if (variables == MOST_VARIABLES) {
        say("too many variables: it ignores ", line, 0);
        return;
    }
    environment[variables++] = line;
}

static void read_environment(void) {
    long fd = CALL4(__NR_openat, AT_FDCWD, ENVIRONMENT, O_RDONLY, 0);
    long size = 0, got, i, from = 0;
    if (fd < 0)
        return;
    while (size < MOST_BYTES && (got = CALL3(__NR_read, fd, bytes + size, MOST_BYTES - size)) > 0)
        size += got;
    CALL1(__NR_close, fd);
    for (i = 0; i <= size; i++)
        if (i == size || bytes[i] == '\n') {
            bytes[i] = 0;
            add(bytes + from);
            from = i + 1;
        }
}

/* The kernel's file systems and the console */

static void mount(const char *type, const char *on, const char *options) {
    long result = CALL5(__NR_mount, type, on, type, 0, options);
    if (result < 0 && result != -16) { /* EBUSY: it is mounted already */
        char digits[4];
        say("cannot mount ", on, 0);
        say("the error is ", decimal((int)-result, digits), 0);
    }
}

/* The kernel opens /dev/console for the first process before /dev is there. */
static void open_console(void) {
    long fd = CALL4(__NR_openat, AT_FDCWD, "/dev/console", O_RDWR, 0);
    int i;
    if (fd < 0)
        return;
    for (i = 0; i < 3; i++)
        if (fd != i)
            CALL3(__NR_dup3, fd, i, 0);
    if (fd > 2)
        CALL1(__NR_close, fd);
}

#if defined(NETWORK) || defined(WATCHDOG)
/* Reads a number up to a limit, and returns the rest of the text, or 0. */
static const char *number(const char *text, int most, int *to) {
    int n = 0;
    if (*text < '0' || *text > '9')
        return 0;
    for (; *text >= '0' && *text <= '9'; text++)
        if ((n = 10 * n + *text - '0') > most)
            return 0;
    *to = n;
    return text;
}
#endif

#ifdef NETWORK
#include "network.h"
#endif

/* The program */

#ifdef WATCHDOG
#include "watchdog.h"
#else
/* SIGCHLD and no flags: clone does the work of fork. */
static long fork_program(void) { return CALL5(__NR_clone, SIGCHLD, 0, 0, 0, 0); }
static long wait_for(int *status) { return CALL4(__NR_wait4, -1, status, 0, 0); }
#endif

static void run(void) {
    static char *arguments[] = {PROGRAM, 0};
    char digits[4];
    long result;
    CALL0(__NR_setsid);
    /* The program's session owns the console, so that Ctrl-C reaches the program. */
    CALL3(__NR_ioctl, 0, TIOCSCTTY, 0);
    result = CALL3(__NR_execve, PROGRAM, arguments, environment);
    say("cannot run " PROGRAM ": the error is ", decimal((int)-result, digits), 0);
    CALL1(__NR_exit, 127);
}

/* Runs the program, reaps all processes until it ends, and returns its wait status. */
static int outlive(void) {
    long child = fork_program(), pid;
    int status = 0;
    if (child == 0)
        run();
    if (child < 0)
        return 127 << 8;
    do {
        pid = wait_for(&status);
    } while (pid != child && (pid > 0 || pid == -4)); /* EINTR */
    return status;
}

static void end(const char *how) {
    CALL0(__NR_sync);
    if (equal(how, "reboot"))
        CALL4(__NR_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_RESTART, 0);
    else if (equal(how, "halt"))
        CALL4(__NR_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_HALT, 0);
    else
        CALL4(__NR_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_POWER_OFF,
              0);
}

/* What happens after exit code 0, and after any other end. */
static const char *at_end = "poweroff", *at_crash = "reboot";

/* Returns the value of a variable if it is one that end() or decide() obeys, else USUAL. */
static const char *policy(const char *name, const char *usual) {
    const char *how = value(name);
    if (!how || equal(how, "poweroff") || equal(how, "reboot") || equal(how, "restart") ||
        equal(how, "halt"))
        return how ? how : usual;
    say(name, " must be poweroff, reboot, restart or halt, and not ", how);
    say(name, " is now ", usual);
    return usual;
}

/* Decides about a wait status. It returns if the program is to run again. */
static void decide(int status) {
    int signal = status & 0x7f, code = signal ? signal : (status >> 8) & 0xff;
    const char *how = status ? at_crash : at_end;
    char digits[4];
    if (status) {
        say(signal ? "the program was killed by signal " : "the program ended with exit code ",
            decimal(code, digits), 0);
        say("next: ", how, 0);
    }
#ifdef WATCHDOG
    leave_watchdog(how);
#endif
    /* Processes that the program left. */
    CALL2(__NR_kill, -1, SIGKILL);
    if (equal(how, "restart")) {
        struct __kernel_timespec second = {1, 0};
#ifdef __NR_clock_nanosleep_time64
        CALL4(__NR_clock_nanosleep_time64, 1, 0, &second, 0);
#else
        CALL4(__NR_clock_nanosleep, 1, 0, &second, 0);
#endif
        return;
    }
    end(how);
    /* There is no such power switch. The first process must not end. */
    for (;;)
        CALL4(__NR_wait4, -1, 0, 0, 0);
}

__attribute__((used, noreturn)) void begin(long *stack) {
    char **inherited = (char **)(stack + stack[0] + 2);
    mount("devtmpfs", "/dev", "mode=0755");
    open_console();
    mount("proc", "/proc", 0);
    mount("sysfs", "/sys", 0);
    mount("tmpfs", "/tmp", "mode=1777");
    for (; *inherited; inherited++)
        add(*inherited);
    read_environment();
    at_end = policy("WHITTLE_END", at_end);
    at_crash = policy("WHITTLE_CRASH", at_crash);
#ifdef WATCHDOG
    watchdog();
#endif
#ifdef NETWORK
    network();
#endif
    for (;;)
        decide(outlive());
}

START;
