/*
 * The NIFs of the module whittle_serial_nif. They serve serial lines with the VM's own poll.
 *
 * A line belongs to one Erlang process, its server (whittle_serial_port). Only the server
 * reads, configures and closes the line, so reading needs no lock. Any process may send. The
 * caller itself runs write(2), so a short send is one system call and no message. If the
 * kernel does not take all bytes at once, `rest' keeps the others, and the server writes them
 * when the poll reports room. So the bytes of two senders never mix. The lock guards the
 * descriptor, the state and `rest'.
 *
 * Schedulers: calls that return in microseconds run on the caller's scheduler, and handle at
 * most READ_SIZE or SEND_SIZE bytes. open, close and every ioctl in which a driver may sleep
 * (a USB adapter asks its device) run on dirty I/O schedulers. None of these waits for output,
 * because the server calls them only when the kernel's queue is empty.
 *
 * One call closes the descriptor: nif_close after nif_stop, or `dtor' if the poll never had
 * it. If something killed the server, the last of these closes it: `stop', `down', or a call
 * of the server on a dirty scheduler (`users'), because such a call may go on after its
 * process is gone. That close may run on an ordinary scheduler. It first throws away queued
 * output, also that of other programs that share the line. So it waits only for the FIFO of a
 * UART or a USB adapter: 64 bytes take 6 ms at 115,200 bits a second, and 2 s at 300.
 *
 * The flags of termios come from libc, whose values are the kernel's. The struct and the
 * requests are defined here, because <asm/termbits.h> clashes with <termios.h>, and a musl
 * toolchain may lack kernel headers.
 */
#define _GNU_SOURCE
#include <erl_nif.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>

/* The size of the kernel's queue of a tty (N_TTY_BUF_SIZE, minus one byte that stays free). */
#define TTY_SIZE 4095
/* The most bytes that a call reads: four times that queue, so that a call stays short. Each
 * open line takes this much memory. */
#define READ_SIZE 16384
/* How often the server reads again before it waits for the poll. If a sender waits for room, it
 * fills an emptied tty again within microseconds. The poll's report passes through three
 * threads. So many reads, of a microsecond or two each, give three times the bytes for half the
 * CPU time (bench/serial). */
#define ASKS 30
/* The most bytes that a call writes: more than the queue of any tty. */
#define SEND_SIZE 65536
/* The largest error of a rate. A byte has up to eleven bits. If the clocks of both sides are
 * wrong by more than 3 %, the receiver misreads the last bit. */
#define RATE_PERCENT 3

/* --- the kernel's struct termios2 --- */

#if defined(__powerpc__) || defined(__sparc__) || defined(__alpha__) || defined(__hppa__)
#error "this CPU has a different termios: define its struct and requests here"
#elif defined(__mips__)
#define KERNEL_NCCS 23
#else
#define KERNEL_NCCS 19
#endif

struct kernel_termios {
    uint32_t iflag, oflag, cflag, lflag;
    uint8_t discipline, cc[KERNEL_NCCS];
    uint32_t input_rate, output_rate;
};
#define KERNEL_TCGETS2 _IOR('T', 0x2A, struct kernel_termios)
#define KERNEL_TCSETS2 _IOW('T', 0x2B, struct kernel_termios)
#define KERNEL_CBAUD 0x100fu
#define KERNEL_BOTHER 0x1000u
#ifndef CMSPAR
#define CMSPAR 010000000000
#endif

/* Without termios2 (qemu-user 7.2; kernels before 2.6.20), the code of a rate is its place in
 * these lists: from 1 to 15, and from 0x1001 on. */
static const uint32_t slow_rates[] = {50, 75, 110, 134, 150, 200, 300, 600, 1200, 1800, 2400,
                                      4800, 9600, 19200, 38400};
static const uint32_t fast_rates[] = {57600, 115200, 230400, 460800, 500000, 576000, 921600,
                                      1000000, 1152000, 1500000, 2000000, 2500000, 3000000,
                                      3500000, 4000000};
#define COUNT(Array) (sizeof(Array) / sizeof *(Array))

/* --- a line --- */

enum state { OPEN, STOPPING, CLOSED };

struct line {
    ErlNifMutex *lock;
    ErlNifPid server;
    ErlNifMonitor monitor;
    int fd;
    enum state state;
    int polled;    /* the poll has the descriptor, and must release it before a close */
    int stopped;   /* the poll has released it */
    int orphan;    /* the server is dead */
    unsigned users; /* the server's calls on dirty schedulers that use the descriptor */
    int exclusive; /* this library has set TIOCEXCL */
    int classic;   /* there is no termios2 */
    int asks;      /* further reads before the server waits for the poll */
    int reserved;  /* only the server may send: others queue there */
    unsigned head_size;
    /* The current send: its head and bytes, the sent part up to `at', and its tag. */
    int sending;
    unsigned char head[4];
    unsigned rest_head;
    size_t at;
    ErlNifEnv *env;
    ERL_NIF_TERM rest, tag;
    /* Sums of the results of read(2) and write(2). The server alone changes the first; the lock
     * guards the second. */
    uint64_t bytes_in, bytes_out;
    unsigned char buffer[READ_SIZE];
};

static ErlNifResourceType *line_type;

#define ATOMS(X) X(ok) X(error) X(closed) X(busy) X(wait) X(done) X(none) X(more) X(armed) \
    X(rest) X(stopped) X(undefined) X(whittle_serial_stopped) X(dtr) X(rts) X(cts) X(dsr) \
    X(ri) X(cd) X(true) X(false) X(all) X(eof)
#define DECLARE(Name) static ERL_NIF_TERM atom_##Name;
ATOMS(DECLARE)

static const struct { int number; const char *name; } posix[] = {
    {EACCES, "eacces"}, {EAGAIN, "eagain"}, {EBADF, "ebadf"}, {EBUSY, "ebusy"},
    {EFAULT, "efault"}, {EINTR, "eintr"}, {EINVAL, "einval"}, {EIO, "eio"},
    {EISDIR, "eisdir"}, {ELOOP, "eloop"}, {EMFILE, "emfile"}, {EMSGSIZE, "emsgsize"},
    {ENAMETOOLONG, "enametoolong"}, {ENFILE, "enfile"}, {ENODEV, "enodev"},
    {ENOENT, "enoent"}, {ENOMEM, "enomem"}, {ENOSPC, "enospc"}, {ENOSYS, "enosys"},
    {ENOTDIR, "enotdir"}, {ENOTTY, "enotty"}, {ENXIO, "enxio"}, {EOPNOTSUPP, "eopnotsupp"},
    {EPERM, "eperm"}, {EPIPE, "epipe"}, {EPROTO, "eproto"}, {ERANGE, "erange"},
    {EROFS, "erofs"}, {ETIMEDOUT, "etimedout"}, {ETXTBSY, "etxtbsy"},
};

/* Makes {error, Posix} from -errno. */
static ERL_NIF_TERM refused(ErlNifEnv *env, int error)
{
    const char *name = "unknown";
    for (size_t i = 0; i < COUNT(posix); i++)
        if (posix[i].number == -error)
            name = posix[i].name;
    return enif_make_tuple2(env, atom_error, enif_make_atom(env, name));
}

static ERL_NIF_TERM outcome(ErlNifEnv *env, int result)
{
    return result < 0 ? refused(env, result) : atom_ok;
}

/* Returns whether the other end of the tty is closed, or the device is unplugged. */
static int hung_up(int error) { return error == -EIO || error == -ENXIO || error == -ENODEV; }

static int answer(int result) { return result < 0 ? -errno : result; }

static struct line *get_line(ErlNifEnv *env, ERL_NIF_TERM term)
{
    void *line;
    return enif_get_resource(env, term, line_type, &line) ? line : NULL;
}

/* Returns the line if its server calls. */
static struct line *served_line(ErlNifEnv *env, ERL_NIF_TERM term)
{
    struct line *line = get_line(env, term);
    ErlNifPid self;
    return line != NULL && enif_self(env, &self) != NULL
        && enif_compare_pids(&self, &line->server) == 0 ? line : NULL;
}

/* The same if the line is open; else sets *WHY to the NIF's result. It is for calls on ordinary
 * schedulers: the process lives during such a call, so nothing else closes the line. */
static struct line *own_line(ErlNifEnv *env, ERL_NIF_TERM term, ERL_NIF_TERM *why)
{
    struct line *line = served_line(env, term);
    if (line == NULL) {
        *why = enif_make_badarg(env);
        return NULL;
    }
    if (line->state != OPEN) {
        *why = enif_make_tuple2(env, atom_error, atom_closed);
        return NULL;
    }
    return line;
}

/* Takes the descriptor of a dead server if nothing uses it. Returns -1 if something still uses
 * it, or if it is closed. Call this with the lock, and bury() after it without the lock. */
static int take_dead(struct line *line)
{
    int fd = -1;
    if (line->orphan && line->stopped && line->users == 0) {
        fd = line->fd;
        line->fd = -1;
        line->state = CLOSED;
    }
    return fd;
}

/* Closes the descriptor of a dead server. This may run on an ordinary scheduler, so the kernel
 * must not wait for output: throw the queued output away first. */
static void bury(const struct line *line, int fd)
{
    if (fd < 0)
        return;
    ioctl(fd, TCFLSH, TCOFLUSH);
    if (line->exclusive)
        ioctl(fd, TIOCNXCL);
    close(fd);
}

/* own_line() for a call on a dirty scheduler. Call drop() after it. */
static struct line *hold(ErlNifEnv *env, ERL_NIF_TERM term, ERL_NIF_TERM *why)
{
    struct line *line = served_line(env, term);
    int open;
    if (line == NULL) {
        *why = enif_make_badarg(env);
        return NULL;
    }
    enif_mutex_lock(line->lock);
    open = line->state == OPEN;
    line->users += (unsigned)open;
    enif_mutex_unlock(line->lock);
    if (open)
        return line;
    *why = enif_make_tuple2(env, atom_error, atom_closed);
    return NULL;
}

static void drop(struct line *line)
{
    int fd;
    enif_mutex_lock(line->lock);
    line->users--;
    fd = take_dead(line);
    enif_mutex_unlock(line->lock);
    bury(line, fd);
}

/* --- settings --- */

struct settings {
    uint32_t rate;
    int bits, parity, stop_bits, flow;
};
enum { NO_PARITY, ODD, EVEN, MARK, SPACE };
enum { NO_FLOW, HARDWARE, SOFTWARE };

static int get_termios(struct line *line, struct kernel_termios *t)
{
    memset(t, 0, sizeof *t);
    if (!line->classic) {
        if (ioctl(line->fd, KERNEL_TCGETS2, t) == 0)
            return 0;
        if (errno != ENOTTY && errno != EINVAL && errno != ENOSYS)
            return -errno;
    }
    if (ioctl(line->fd, TCGETS, t) < 0)
        return -errno;
    line->classic = 1;
    return 0;
}

static uint32_t classic_code(uint32_t rate)
{
    for (size_t i = 0; i < COUNT(slow_rates); i++)
        if (slow_rates[i] == rate)
            return i + 1;
    for (size_t i = 0; i < COUNT(fast_rates); i++)
        if (fast_rates[i] == rate)
            return i + 0x1001;
    return 0;
}

static uint32_t rate_of(const struct line *line, const struct kernel_termios *t)
{
    uint32_t code = t->cflag & KERNEL_CBAUD;
    if (!line->classic)
        return t->output_rate;
    if (code >= 1 && code <= COUNT(slow_rates))
        return slow_rates[code - 1];
    if (code >= 0x1001 && code - 0x1001 < COUNT(fast_rates))
        return fast_rates[code - 0x1001];
    return 0;
}

static int put_termios(struct line *line, const struct kernel_termios *t)
{
    return answer(ioctl(line->fd, line->classic ? TCSETS : KERNEL_TCSETS2, t));
}

#define FRAME_FLAGS ((uint32_t)CSIZE | PARENB | PARODD | CMSPAR | CSTOPB | CRTSCTS)

static int encode(const struct line *line, const struct settings *s, struct kernel_termios *t)
{
    static const uint32_t sizes[] = {CS5, CS6, CS7, CS8};
    static const uint32_t parities[] = {0, PARENB | PARODD, PARENB,
                                        (uint32_t)PARENB | CMSPAR | PARODD,
                                        (uint32_t)PARENB | CMSPAR};
    uint32_t code = line->classic ? classic_code(s->rate) : KERNEL_BOTHER;
    if (code == 0)
        return -EINVAL;
    /* The kernel counts breaks (TIOCGICOUNT) and does not deliver them as zero bytes. */
    t->iflag = IGNBRK | (s->flow == SOFTWARE ? IXON | IXOFF : 0);
    t->oflag = 0;
    t->lflag = 0;
    t->cflag = (t->cflag & HUPCL) | CREAD | CLOCAL | code | sizes[s->bits - 5]
        | parities[s->parity] | (s->stop_bits == 2 ? CSTOPB : 0)
        | (s->flow == HARDWARE ? CRTSCTS : 0);
    t->input_rate = t->output_rate = s->rate;
    t->cc[VMIN] = 1;
    t->cc[VTIME] = 0;
    t->cc[VSTART] = 17;
    t->cc[VSTOP] = 19;
    return 0;
}

static void decode(const struct line *line, const struct kernel_termios *t, struct settings *s)
{
    uint32_t size = t->cflag & CSIZE;
    int odd = (t->cflag & PARODD) != 0;
    s->rate = rate_of(line, t);
    s->bits = size == CS5 ? 5 : size == CS6 ? 6 : size == CS7 ? 7 : 8;
    s->stop_bits = t->cflag & CSTOPB ? 2 : 1;
    s->flow = t->cflag & CRTSCTS ? HARDWARE : t->iflag & IXON ? SOFTWARE : NO_FLOW;
    if (!(t->cflag & PARENB))
        s->parity = NO_PARITY;
    else if (t->cflag & CMSPAR)
        s->parity = odd ? MARK : SPACE;
    else
        s->parity = odd ? ODD : EVEN;
}

/* Sets the settings and reads them back, because the kernel reports success even if it took
 * only a part of them. If they differ, it restores the old settings. */
static int configure(struct line *line, const struct settings *s)
{
    struct kernel_termios old, want, got;
    uint64_t off;
    int error = get_termios(line, &old);
    want = old;
    if (error < 0 || (error = encode(line, s, &want)) < 0
        || (error = put_termios(line, &want)) < 0 || (error = get_termios(line, &got)) < 0)
        return error;
    off = rate_of(line, &got) > s->rate ? rate_of(line, &got) - s->rate
                                        : s->rate - rate_of(line, &got);
    if (off * 100 <= (uint64_t)s->rate * RATE_PERCENT
        && ((got.cflag ^ want.cflag) & FRAME_FLAGS) == 0
        && ((got.iflag ^ want.iflag) & (IXON | IXOFF)) == 0)
        return 0;
    put_termios(line, &old);
    return -EINVAL;
}

/* {Rate, Bits, Parity, StopBits, Flow}, all integers. */
static int get_settings(ErlNifEnv *env, ERL_NIF_TERM term, struct settings *s)
{
    const ERL_NIF_TERM *of;
    unsigned rate;
    int arity;
    if (!enif_get_tuple(env, term, &arity, &of) || arity != 5
        || !enif_get_uint(env, of[0], &rate) || !enif_get_int(env, of[1], &s->bits)
        || !enif_get_int(env, of[2], &s->parity) || !enif_get_int(env, of[3], &s->stop_bits)
        || !enif_get_int(env, of[4], &s->flow))
        return 0;
    s->rate = rate;
    return rate > 0 && s->bits >= 5 && s->bits <= 8 && s->parity >= NO_PARITY
        && s->parity <= SPACE && s->stop_bits >= 1 && s->stop_bits <= 2 && s->flow >= NO_FLOW
        && s->flow <= SOFTWARE;
}

/* Server, dirty I/O. (Line, Settings) -> ok | {error, Posix} */
static ERL_NIF_TERM nif_configure(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    struct settings settings;
    ERL_NIF_TERM why;
    struct line *line;
    int error;
    if (!get_settings(env, argv[1], &settings))
        return enif_make_badarg(env);
    if ((line = hold(env, argv[0], &why)) == NULL)
        return why;
    error = configure(line, &settings);
    drop(line);
    return outcome(env, error);
}

/* Server, dirty I/O: the kernel's lock may be held by a driver that configures the line. */
static ERL_NIF_TERM nif_settings(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    struct kernel_termios t;
    struct settings s;
    ERL_NIF_TERM why;
    struct line *line = hold(env, argv[0], &why);
    int error;
    if (line == NULL)
        return why;
    error = get_termios(line, &t);
    decode(line, &t, &s);
    drop(line);
    if (error < 0)
        return refused(env, error);
    return enif_make_tuple2(
        env, atom_ok,
        enif_make_tuple5(env, enif_make_uint(env, s.rate), enif_make_int(env, s.bits),
                         enif_make_int(env, s.parity), enif_make_int(env, s.stop_bits),
                         enif_make_int(env, s.flow)));
}

/* --- life and death --- */

static int open_line(struct line *line, const char *path, int exclusive)
{
    struct kernel_termios t;
    int error;
    line->fd = open(path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (line->fd < 0)
        return -errno;
    if ((error = get_termios(line, &t)) < 0)
        return error;
    if (!exclusive)
        return 0;
    if (flock(line->fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? -EBUSY : -errno;
    /* This keeps out other programs, except root's, even if they do not lock. qemu-user lacks
     * this request. */
    line->exclusive = ioctl(line->fd, TIOCEXCL) == 0;
    return 0;
}

/* Any process, dirty I/O; it becomes the server. (Path, Exclusive) -> {ok, Line} | {error, _} */
static ERL_NIF_TERM nif_open(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    char path[PATH_MAX];
    ErlNifBinary name;
    struct line *line;
    ERL_NIF_TERM term;
    int error;
    if (!enif_inspect_binary(env, argv[0], &name) || memchr(name.data, 0, name.size) != NULL)
        return enif_make_badarg(env);
    if (name.size >= sizeof path)
        return refused(env, -ENAMETOOLONG);
    memcpy(path, name.data, name.size);
    path[name.size] = '\0';
    line = enif_alloc_resource(line_type, sizeof *line);
    if (line == NULL)
        return refused(env, -ENOMEM);
    memset(line, 0, offsetof(struct line, buffer));
    line->fd = -1;
    line->lock = enif_mutex_create("whittle_serial_line");
    enif_self(env, &line->server);
    error = line->lock == NULL ? -ENOMEM
        : open_line(line, path, enif_is_identical(argv[1], atom_true));
    /* This fails if the process is already dying. */
    if (error == 0 && enif_monitor_process(env, line, &line->server, &line->monitor) != 0)
        error = -EINTR;
    if (error < 0) {
        /* This process has queued nothing. Queued output belongs to the holder of the line, so
         * keep it. */
        if (line->fd >= 0)
            close(line->fd);
        line->fd = -1;
        enif_release_resource(line);
        return refused(env, error);
    }
    term = enif_make_resource(env, line);
    enif_release_resource(line);
    return enif_make_tuple2(env, atom_ok, term);
}

/* Server, any scheduler. -> stopped | wait (then {whittle_serial_stopped, Line} comes) */
static ERL_NIF_TERM nif_stop(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    ERL_NIF_TERM why;
    struct line *line = own_line(env, argv[0], &why);
    int stopped;
    if (line == NULL)
        return why;
    enif_mutex_lock(line->lock);
    line->state = STOPPING;
    if (line->polled)
        enif_select(env, line->fd, ERL_NIF_SELECT_STOP, line, NULL, atom_undefined);
    else
        line->stopped = 1;
    stopped = line->stopped;
    enif_mutex_unlock(line->lock);
    return stopped ? atom_stopped : atom_wait;
}

/* Server, dirty I/O, after nif_stop. The kernel would wait for queued output, so the server
 * waits for the end of the output or flushes it before. */
static ERL_NIF_TERM nif_close(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    struct line *line = get_line(env, argv[0]);
    ErlNifPid self;
    int fd = -1;
    if (line == NULL || enif_self(env, &self) == NULL
        || enif_compare_pids(&self, &line->server) != 0)
        return enif_make_badarg(env);
    enif_mutex_lock(line->lock);
    if (line->stopped && line->state == STOPPING) {
        fd = line->fd;
        line->fd = -1;
        line->state = CLOSED;
    }
    enif_mutex_unlock(line->lock);
    if (fd >= 0) {
        enif_demonitor_process(env, line, &line->monitor);
        if (line->exclusive)
            ioctl(fd, TIOCNXCL);
        close(fd);
    }
    return atom_ok;
}

/* The poll has released the descriptor. This runs in nif_stop or `down' (DIRECT: they hold the
 * lock and continue), or later on a thread of the poll. */
static void stop(ErlNifEnv *env, void *object, ErlNifEvent event, int direct)
{
    struct line *line = object;
    ErlNifEnv *letter;
    int fd, orphan;
    if (direct) {
        line->stopped = 1;
        return;
    }
    enif_mutex_lock(line->lock);
    line->stopped = 1;
    orphan = line->orphan;
    fd = take_dead(line);
    enif_mutex_unlock(line->lock);
    bury(line, fd);
    if (orphan)
        return;
    letter = enif_alloc_env();
    enif_send(env, &line->server, letter,
              enif_make_tuple2(letter, enif_make_copy(letter, atom_whittle_serial_stopped),
                               enif_make_resource(letter, line)));
    enif_free_env(letter);
}

/* The server died while the line was open. This runs on the scheduler that ended it. */
static void down(ErlNifEnv *env, void *object, ErlNifPid *pid, ErlNifMonitor *monitor)
{
    struct line *line = object;
    int fd;
    enif_mutex_lock(line->lock);
    line->orphan = 1;
    if (line->state == OPEN) {
        line->state = STOPPING;
        if (line->polled)
            enif_select(env, line->fd, ERL_NIF_SELECT_STOP, line, NULL, atom_undefined);
        else
            line->stopped = 1;
    }
    fd = take_dead(line);
    enif_mutex_unlock(line->lock);
    bury(line, fd);
}

/* The last reference to the line is gone, also that of the poll. */
static void dtor(ErlNifEnv *env, void *object)
{
    struct line *line = object;
    bury(line, line->fd);
    if (line->env != NULL)
        enif_free_env(line->env);
    if (line->lock != NULL)
        enif_mutex_destroy(line->lock);
}

/* --- reading --- */

static int arm(ErlNifEnv *env, struct line *line, enum ErlNifSelectFlags flag)
{
    line->polled = 1;
    return enif_select(env, line->fd, flag, line, &line->server, atom_undefined) < 0
        ? -EINVAL : 0;
}

static int waits_in(struct line *line)
{
    int count = 0;
    return ioctl(line->fd, FIONREAD, &count) == 0 ? count : 0;
}

/*
 * Server, any scheduler, READ_SIZE bytes at most. Reads the available bytes.
 * -> {armed, Bytes}  these are all; the poll will report more (Bytes may be empty)
 *    {more, Bytes}   the server must call again soon (Bytes may be empty)
 *    eof             the other end is closed, or the device is unplugged
 *    {error, Posix}
 */
static ERL_NIF_TERM nif_read(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    ERL_NIF_TERM why, bytes;
    struct line *line = own_line(env, argv[0], &why);
    size_t size = 0;
    ssize_t got = 1;
    int error = 0;
    if (line == NULL)
        return why;
    /* If the kernel's worker is about to fill an empty tty, a read waits for it: on a busy
     * machine for milliseconds (bench/serial). So ask for the number of bytes before each read
     * but the first. Before the first, the poll has reported the tty, and only a read shows
     * whether it hung up. */
    while (got > 0 && size < sizeof line->buffer
           && ((size == 0 && line->asks == 0) || waits_in(line) > 0)) {
        got = read(line->fd, line->buffer + size, sizeof line->buffer - size);
        if (got > 0)
            size += (size_t)got;
    }
    if (got < 0 && errno != EAGAIN && errno != EINTR)
        error = -errno;
    if (size >= TTY_SIZE)
        line->asks = ASKS;
    else if (line->asks > 0)
        line->asks--;
    /* Return the bytes before the end first. The next call reads the end again. */
    if (size == 0 && (got == 0 || hung_up(error)))
        return atom_eof;
    if (size == 0 && error < 0)
        return refused(env, error);
    line->bytes_in += size;
    memcpy(enif_make_new_binary(env, size, &bytes), line->buffer, size);
    enif_consume_timeslice(env, 1 + (int)(size * 50 / sizeof line->buffer));
    if (line->asks > 0)
        return enif_make_tuple2(env, atom_more, bytes);
    if ((error = arm(env, line, ERL_NIF_SELECT_READ)) < 0)
        return refused(env, error);
    return enif_make_tuple2(env, atom_armed, bytes);
}

/* --- sending --- */

/* Writes the rest of the current send, SEND_SIZE bytes at most. Call it with the lock. Returns 1
 * if it has written all, and 0 if the poll will report room for the rest. */
static int send_on(ErlNifEnv *env, struct line *line, const ErlNifBinary *bytes)
{
    struct iovec parts[2];
    size_t whole = line->rest_head + bytes->size, skip;
    ssize_t put;
    int count = 0;
    if (line->at < line->rest_head) {
        parts[count].iov_base = line->head + line->at;
        parts[count++].iov_len = line->rest_head - line->at;
        skip = 0;
    } else {
        skip = line->at - line->rest_head;
    }
    parts[count].iov_base = bytes->data + skip;
    parts[count++].iov_len = bytes->size - skip > SEND_SIZE ? SEND_SIZE : bytes->size - skip;
    put = writev(line->fd, parts, count);
    if (put < 0 && errno != EAGAIN && errno != EINTR)
        return -errno;
    if (put > 0) {
        line->at += (size_t)put;
        line->bytes_out += (size_t)put;
        enif_consume_timeslice(env, 1 + (int)(put * 50 / SEND_SIZE));
    }
    return line->at == whole ? 1 : arm(env, line, ERL_NIF_SELECT_WRITE);
}

static ERL_NIF_TERM sent(ErlNifEnv *env, int result)
{
    return hung_up(result) ? enif_make_tuple2(env, atom_error, atom_closed)
                           : outcome(env, result);
}

static void forget(struct line *line)
{
    line->sending = 0;
    if (line->env != NULL)
        enif_clear_env(line->env);
}

/*
 * Any process, any scheduler, SEND_SIZE bytes at most. (Line, Bytes, Tag)
 * -> ok       the kernel has all bytes
 *    wait     the kernel has a part; the server sends the rest when the poll reports room (Tag)
 *    busy     another process has its turn; nothing was sent, so ask the server
 *    {error, Posix | closed}
 */
static ERL_NIF_TERM nif_send(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    struct line *line = get_line(env, argv[0]);
    ErlNifBinary bytes;
    ErlNifPid self;
    int result;
    if (line == NULL || !enif_inspect_binary(env, argv[1], &bytes)
        || enif_self(env, &self) == NULL)
        return enif_make_badarg(env);
    enif_mutex_lock(line->lock);
    if (line->state != OPEN) {
        enif_mutex_unlock(line->lock);
        return enif_make_tuple2(env, atom_error, atom_closed);
    }
    if (line->sending
        || (line->reserved && enif_compare_pids(&self, &line->server) != 0)) {
        enif_mutex_unlock(line->lock);
        return atom_busy;
    }
    if (line->head_size > 0 && line->head_size < 4
        && bytes.size >> (8 * line->head_size) != 0) {
        enif_mutex_unlock(line->lock);
        return refused(env, -EMSGSIZE);
    }
    for (unsigned i = 0; i < line->head_size; i++)
        line->head[i] = (unsigned char)(bytes.size >> (8 * (line->head_size - 1 - i)));
    line->rest_head = line->head_size;
    line->at = 0;
    result = bytes.size + line->rest_head == 0 ? 1 : send_on(env, line, &bytes);
    if (result == 0) {
        if (line->env == NULL)
            line->env = enif_alloc_env();
        line->rest = enif_make_copy(line->env, argv[1]);
        line->tag = enif_make_copy(line->env, argv[2]);
        line->sending = 1;
    }
    enif_mutex_unlock(line->lock);
    return result == 0 ? atom_wait : sent(env, result);
}

/* Server, any scheduler, SEND_SIZE bytes at most: continues the current send.
 * -> none | wait | {done, Tag, ok | {error, Posix}} */
static ERL_NIF_TERM nif_resume(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    ERL_NIF_TERM answer = atom_none, why;
    struct line *line = own_line(env, argv[0], &why);
    ErlNifBinary bytes;
    int result;
    if (line == NULL)
        return why;
    enif_mutex_lock(line->lock);
    if (line->sending) {
        enif_inspect_binary(line->env, line->rest, &bytes);
        result = send_on(env, line, &bytes);
        answer = atom_wait;
        if (result != 0) {
            answer = enif_make_tuple3(env, atom_done, enif_make_copy(env, line->tag),
                                      sent(env, result));
            forget(line);
        }
    }
    enif_mutex_unlock(line->lock);
    return answer;
}

/* Server, any scheduler. -> none | the tag of the current send */
static ERL_NIF_TERM nif_sending(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    ERL_NIF_TERM answer, why;
    struct line *line = own_line(env, argv[0], &why);
    if (line == NULL)
        return why;
    enif_mutex_lock(line->lock);
    answer = line->sending ? enif_make_copy(env, line->tag) : atom_none;
    enif_mutex_unlock(line->lock);
    return answer;
}

/* Server, any scheduler. (Line, Tag | all): takes the unwritten bytes back.
 * -> none | {rest, Tag, Bytes} */
static ERL_NIF_TERM nif_cancel(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    ERL_NIF_TERM answer = atom_none, bytes, why;
    struct line *line = own_line(env, argv[0], &why);
    ErlNifBinary rest;
    size_t from, head;
    unsigned char *to;
    if (line == NULL)
        return why;
    enif_mutex_lock(line->lock);
    if (line->sending && (enif_is_identical(argv[1], atom_all)
                          || enif_compare(argv[1], line->tag) == 0)) {
        enif_inspect_binary(line->env, line->rest, &rest);
        /* If the send has not begun, leave its length out too, so that the caller can repeat it. */
        if (line->at == 0)
            line->at = line->rest_head;
        head = line->at < line->rest_head ? line->rest_head - line->at : 0;
        from = line->at + head - line->rest_head;
        if (head == 0) {
            bytes = enif_make_sub_binary(env, enif_make_copy(env, line->rest), from,
                                         rest.size - from);
        } else {
            to = enif_make_new_binary(env, head + rest.size, &bytes);
            memcpy(to, line->head + line->at, head);
            memcpy(to + head, rest.data, rest.size);
        }
        answer = enif_make_tuple3(env, atom_rest, enif_make_copy(env, line->tag), bytes);
        forget(line);
    }
    enif_mutex_unlock(line->lock);
    return answer;
}

/* Server, any scheduler. (Line, boolean()): makes other processes queue at the server. */
static ERL_NIF_TERM nif_reserve(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    ERL_NIF_TERM why;
    struct line *line = own_line(env, argv[0], &why);
    if (line == NULL)
        return why;
    enif_mutex_lock(line->lock);
    line->reserved = enif_is_identical(argv[1], atom_true);
    enif_mutex_unlock(line->lock);
    return atom_ok;
}

/* Server, any scheduler. (Line, 0 | 1 | 2 | 4): sets the size of the length before each send. */
static ERL_NIF_TERM nif_packet(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    ERL_NIF_TERM why;
    struct line *line = own_line(env, argv[0], &why);
    unsigned size;
    if (line == NULL)
        return why;
    if (!enif_get_uint(env, argv[1], &size) || size > 4 || size == 3)
        return enif_make_badarg(env);
    enif_mutex_lock(line->lock);
    line->head_size = size;
    enif_mutex_unlock(line->lock);
    return atom_ok;
}

/* --- the kernel's side --- */

/* Server, any scheduler, because no driver sleeps in these requests. -> {In, Out, Read, Written,
 * Sending}: the bytes in the kernel's queues, the bytes through this line since its start, and
 * whether there is a current send. */
static ERL_NIF_TERM nif_queues(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    ERL_NIF_TERM why;
    struct line *line = own_line(env, argv[0], &why);
    int in = 0, out = 0, sending;
    uint64_t written;
    if (line == NULL)
        return why;
    enif_mutex_lock(line->lock);
    sending = line->sending;
    written = line->bytes_out;
    enif_mutex_unlock(line->lock);
    /* The queues of a line that hung up are empty. */
    if (ioctl(line->fd, FIONREAD, &in) < 0)
        in = 0;
    if (ioctl(line->fd, TIOCOUTQ, &out) < 0)
        out = 0;
    return enif_make_tuple5(env, enif_make_int(env, in), enif_make_int(env, out),
                            enif_make_uint64(env, line->bytes_in),
                            enif_make_uint64(env, written), sending ? atom_true : atom_false);
}

/* Makes one request and returns ok or its error. */
static ERL_NIF_TERM told(ErlNifEnv *env, ERL_NIF_TERM term, unsigned long request, int value)
{
    ERL_NIF_TERM why;
    struct line *line = hold(env, term, &why);
    int error;
    if (line == NULL)
        return why;
    error = answer(ioctl(line->fd, request, value));
    drop(line);
    return outcome(env, error);
}

/* Server, dirty I/O. (Line, 1 input | 2 output | 3 both) */
static ERL_NIF_TERM nif_flush(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    static const int which[] = {TCIFLUSH, TCOFLUSH, TCIOFLUSH};
    unsigned choice;
    if (!enif_get_uint(env, argv[1], &choice) || choice < 1 || choice > 3)
        return enif_make_badarg(env);
    return told(env, argv[0], TCFLSH, which[choice - 1]);
}

/* Server, dirty I/O, once the kernel's queue is empty: waits for the hardware's FIFO. */
static ERL_NIF_TERM nif_drain(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    return told(env, argv[0], TCSBRK, 1);
}

/* Server, dirty I/O. (Line, boolean()). Start a break only when the kernel's queue is empty,
 * because the kernel would wait for that. */
static ERL_NIF_TERM nif_break(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    return told(env, argv[0], enif_is_identical(argv[1], atom_true) ? TIOCSBRK : TIOCCBRK, 0);
}

/* Server, dirty I/O. -> {ok, [cts, ...]}: the modem lines that are on. */
static ERL_NIF_TERM nif_lines(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    const struct { int bit; ERL_NIF_TERM name; } names[] = {
        {TIOCM_DTR, atom_dtr}, {TIOCM_RTS, atom_rts}, {TIOCM_CTS, atom_cts},
        {TIOCM_DSR, atom_dsr}, {TIOCM_RI, atom_ri}, {TIOCM_CD, atom_cd}};
    ERL_NIF_TERM why, list;
    struct line *line = hold(env, argv[0], &why);
    int on = 0, error;
    if (line == NULL)
        return why;
    error = answer(ioctl(line->fd, TIOCMGET, &on));
    drop(line);
    if (error < 0)
        return refused(env, error);
    list = enif_make_list(env, 0);
    for (size_t i = COUNT(names); i-- > 0;)
        if (on & names[i].bit)
            list = enif_make_list_cell(env, names[i].name, list);
    return enif_make_tuple2(env, atom_ok, list);
}

/* Server, dirty I/O. (Line, On, Off): 1 is DTR, 2 is RTS, 3 is both. Other lines stay. */
static ERL_NIF_TERM nif_set_lines(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    static const int bits[] = {0, TIOCM_DTR, TIOCM_RTS, TIOCM_DTR | TIOCM_RTS};
    ERL_NIF_TERM why;
    struct line *line;
    unsigned on, off;
    int error = 0;
    if (!enif_get_uint(env, argv[1], &on) || !enif_get_uint(env, argv[2], &off) || on > 3
        || off > 3)
        return enif_make_badarg(env);
    if ((line = hold(env, argv[0], &why)) == NULL)
        return why;
    if (on != 0)
        error = answer(ioctl(line->fd, TIOCMBIS, &bits[on]));
    if (error >= 0 && off != 0)
        error = answer(ioctl(line->fd, TIOCMBIC, &bits[off]));
    drop(line);
    return outcome(env, error);
}

/* Server, dirty I/O. -> {ok, [11 integers]}: the driver's counters, in the order of the
 * kernel's struct serial_icounter_struct: cts dsr ri cd rx tx frame overrun parity break
 * buffer_overrun. */
static ERL_NIF_TERM nif_counters(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    ERL_NIF_TERM why, list;
    struct line *line = hold(env, argv[0], &why);
    int counters[20] = {0}, error;
    if (line == NULL)
        return why;
    error = answer(ioctl(line->fd, TIOCGICOUNT, counters));
    drop(line);
    if (error < 0)
        return refused(env, error);
    list = enif_make_list(env, 0);
    for (int i = 11; i-- > 0;)
        list = enif_make_list_cell(env, enif_make_uint(env, (unsigned)counters[i]), list);
    return enif_make_tuple2(env, atom_ok, list);
}

/* --- the library --- */

/* A later library takes the lines over. If you change struct line, change the number in the
 * type's name. Calls with lines of the old library then fail with badarg, which ends their
 * servers and so closes the lines. */
static int prepare(ErlNifEnv *env)
{
    static const ErlNifResourceTypeInit callbacks = {dtor, stop, down, 3, NULL};
#define MAKE(Name) atom_##Name = enif_make_atom(env, #Name);
    ATOMS(MAKE)
    line_type = enif_open_resource_type_x(env, "whittle_serial_2", &callbacks,
                                          ERL_NIF_RT_CREATE | ERL_NIF_RT_TAKEOVER, NULL);
    return line_type == NULL ? -1 : 0;
}

static int load(ErlNifEnv *env, void **private, ERL_NIF_TERM info) { return prepare(env); }

/* Takes over the type of the open lines. They contain all of their state. */
static int upgrade(ErlNifEnv *env, void **private, void **old, ERL_NIF_TERM info)
{
    return prepare(env);
}

#define DIRTY ERL_NIF_DIRTY_JOB_IO_BOUND
static ErlNifFunc functions[] = {
    {"open", 2, nif_open, DIRTY},
    {"configure", 2, nif_configure, DIRTY},
    {"settings", 1, nif_settings, DIRTY},
    {"read", 1, nif_read, 0},
    {"send", 3, nif_send, 0},
    {"resume", 1, nif_resume, 0},
    {"sending", 1, nif_sending, 0},
    {"cancel", 2, nif_cancel, 0},
    {"reserve", 2, nif_reserve, 0},
    {"packet", 2, nif_packet, 0},
    {"queues", 1, nif_queues, 0},
    {"flush", 2, nif_flush, DIRTY},
    {"drain", 1, nif_drain, DIRTY},
    {"break", 2, nif_break, DIRTY},
    {"lines", 1, nif_lines, DIRTY},
    {"set_lines", 3, nif_set_lines, DIRTY},
    {"counters", 1, nif_counters, DIRTY},
    {"stop", 1, nif_stop, 0},
    {"close", 1, nif_close, DIRTY},
};

ERL_NIF_INIT(whittle_serial_nif, functions, load, NULL, upgrade, NULL)
