/* Feeds the board's watchdog, a timer in hardware that resets the board unless somebody feeds it.
 *
 * The variable WHITTLE_WATCHDOG has the form SECONDS[,START]. The program gives a sign of health by
 * writing any bytes to the descriptor in its variable WHITTLE_HEALTH. While the program runs, each
 * sign feeds the watchdog, and nothing else does. So the watchdog resets the board SECONDS after
 * the last sign, if the program, init or the kernel hangs. No timer of init is involved.
 *
 * START is the time until the first sign, counted from the start of init. If the program runs again
 * without a boot, it has START again, but only after a sign of health. So a program that never
 * becomes healthy does not hold up the reset.
 *
 * The variable WHITTLE_RESET tells the program why the board started: `watchdog', or `unknown' if
 * the hardware reports no reset by the watchdog. */

#ifndef WATCHDOG_H
#define WATCHDOG_H

#include <asm/poll.h>
#include <linux/sched.h>
#include <linux/wait.h>
#include <linux/watchdog.h>

#define DEVICE "/dev/watchdog"
#define ALONE ": the program starts without a watchdog"

/* The program's end of the pipe, and the variable that says so. */
#define HEALTH 3
#define HEALTH_LINE "WHITTLE_HEALTH=3"

#define LEAST_SECONDS 2
#define MOST_PERIOD 999
#define USUAL_START 60

static long device = -1;
static int period, start;

/* The pipe from the program, and whether a sign came through it. */
static int signs[2] = {-1, -1}, is_healthy;
/* The program as a descriptor, which is readable after its end. */
static int program = -1;

static void feed(void) { CALL3(__NR_write, device, "", 1); }

/* Sets the time until the reset, which begins now. */
static void arm(int seconds) {
    int set = seconds;
    char digits[4];
    if (CALL3(__NR_ioctl, device, WDIOC_SETTIMEOUT, &set) < 0)
        say("the watchdog keeps its own time, because it refuses this number of seconds: ",
            decimal(seconds, digits), 0);
    feed();
}

/* Reads the variable, and returns 0 if it is wrong. */
static int times(const char *text) {
    if (!(text = number(text, MOST_PERIOD, &period)))
        return 0;
    start = period < USUAL_START ? USUAL_START : period;
    if (*text == ',' && !(text = number(text + 1, MOST_PERIOD, &start)))
        return 0;
    return !*text && period >= LEAST_SECONDS && start >= LEAST_SECONDS;
}

/* Starts the watchdog if the environment asks for it. The program starts in any case. */
static void watchdog(void) {
    const char *how = value("WHITTLE_WATCHDOG");
    int flags = 0;
    if (!how)
        return;
    if (!times(how)) {
        say("WHITTLE_WATCHDOG is not SECONDS[,START]" ALONE, 0, 0);
        return;
    }
    device = CALL4(__NR_openat, AT_FDCWD, DEVICE, O_WRONLY | O_CLOEXEC, 0);
    if (device < 0) {
        say("cannot open " DEVICE ALONE, 0, 0);
        return;
    }
    CALL3(__NR_ioctl, device, WDIOC_GETBOOTSTATUS, &flags);
    add(flags & WDIOF_CARDRESET ? "WHITTLE_RESET=watchdog" : "WHITTLE_RESET=unknown");
    add(HEALTH_LINE);
    arm(start);
}

/* Starts a copy of init, as fork does, with a new pipe. The signs of an earlier program are lost
 * with its pipe. Only the copy keeps the end for writing. */
static long fork_program(void) {
    long child;
    CALL1(__NR_close, program);
    CALL1(__NR_close, signs[0]);
    program = signs[0] = signs[1] = -1;
    if (device >= 0) {
        CALL2(__NR_pipe2, signs, O_CLOEXEC);
        if (is_healthy)
            arm(start);
        is_healthy = 0;
    }
    child = CALL5(__NR_clone, SIGCHLD | CLONE_PIDFD, 0, &program, 0, 0);
    if (child != 0)
        CALL1(__NR_close, signs[1]);
    else if (device >= 0)
        CALL3(__NR_dup3, signs[1], HEALTH, 0);
    return child;
}

/* Waits for a sign of health, or for the end of the program. If all ends of the pipe are closed, it
 * waits for the end only. */
static void await_sign(void) {
    static char bytes[64];
    struct {
        int fd;
        short events, happened;
    } poll[] = {{program, POLLIN, 0}, {signs[0], POLLIN, 0}};
    if (CALL5(__NR_ppoll, poll, 2, 0, 0, 0) < 0 || !poll[1].happened)
        return;
    if (CALL3(__NR_read, signs[0], bytes, sizeof bytes) <= 0) {
        CALL1(__NR_close, signs[0]);
        signs[0] = -1;
    } else if (is_healthy) {
        feed();
    } else {
        is_healthy = 1;
        arm(period);
    }
}

/* Waits for the end of a process. */
static long wait_for(int *status) {
    long pid;
    while ((pid = CALL4(__NR_wait4, -1, status, device < 0 ? 0 : WNOHANG, 0)) == 0)
        await_sign();
    return pid;
}

/* Stops the watchdog before the board goes off or halts. A reboot and a new start of the program
 * stay under its guard. */
static void leave_watchdog(const char *how) {
    if (device < 0 || equal(how, "restart"))
        return;
    if (equal(how, "reboot")) {
        arm(period);
        return;
    }
    CALL3(__NR_write, device, "V", 1); /* the word that allows the close to stop it */
    CALL1(__NR_close, device);
    device = -1;
}

#endif
