/*
 * Serial lines behind the VM's own poll: what whittle_serial.erl cannot do itself.
 *
 * A line belongs to one Erlang process, its server (whittle_serial_port). Only the server
 * reads, sets and closes; so reading needs no lock. Any process may send: its
 * write(2) runs in the caller, so that a short send is one system call and no message. What
 * the kernel does not take at once is kept here, in `rest', and the server goes on with it
 * when the poll says so; so a message is never torn by another sender's. The lock guards the
 * descriptor, the state and `rest'.
 *
 * Schedulers: what returns in microseconds runs on the caller's scheduler, READ_SIZE or
 * SEND_SIZE bytes at most a call. open, close and every ioctl that a driver may sleep in (a
 * USB adapter asks its device) run on dirty I/O schedulers; none of them waits for output,
 * for the server waits for the kernel's queue to be empty before it calls them.
 *
 * The descriptor is closed once: by nif_close after nif_stop; by `dtor' when it was never
 * handed to the poll; and when the server was killed, by the last to let go of it: `stop',
 * `down', or the call on a dirty scheduler that the server was in (`users'), for a process
 * may be gone while such a call of its goes on. That close may be on an ordinary scheduler.
 * What is queued is thrown away before (what others queued who share the line, too), so that
 * it waits for a UART's FIFO at most, or a USB adapter: 64 bytes are 6 ms at 115,200 bits a
 * second, and 2 s at 300.
 *
 * Flags of termios are libc's, which are the kernel's. The struct and the requests are
 * written out here, for <asm/termbits.h> clashes with <termios.h>, and a musl toolchain may
 * have no kernel headers.
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

/* What the kernel's queue of a tty holds (N_TTY_BUF_SIZE, less the one that it keeps free). */
#define TTY_SIZE 4095
/* Bytes a call reads at most: four times that, so that a call stays short. Each open line
 * holds this much memory. */
#define READ_SIZE 16384
/* A full tty that was emptied is filled again within microseconds when its sender was held up.
 * The poll would tell three threads later: asking so often, of a microsecond or two each,
 * brings three times the bytes for half the CPU time (bench/serial). */
#define ASKS 30
/* Bytes a call writes at most; more than the queue of any tty. */
#define SEND_SIZE 65536
/* Receivers sample a byte of eleven bits at its end: past 3 % on each side they miss it. */
#define RATE_PERCENT 3

/* --- the kernel's struct termios2 --- */

#if defined(__powerpc__) || defined(__sparc__) || defined(__alpha__) || defined(__hppa__)
#error "the termios of this CPU is another: write its struct and requests here"
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

/* Where there is no termios2 (qemu-user 7.2; kernels before 2.6.20) a rate is its place in
 * these lists: 1 to 15, and 0x1001 on. */
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
    int polled;    /* the poll has seen the descriptor, so it must be stopped first */
    int stopped;   /* and the poll has let go of it */
    int orphan;    /* the server is dead */
    unsigned users; /* the server's calls on dirty schedulers that use the descriptor */
    int exclusive; /* TIOCEXCL was set by us */
    int classic;   /* no termios2 */
    int asks;      /* how often the server asks for more before the poll is to tell */
    int reserved;  /* the server's turn: others' sends are to queue there */
    unsigned head_size;
    /* The send under way: head and bytes, sent up to `at', who is told. */
    int sending;
    unsigned char head[4];
    unsigned rest_head;
    size_t at;
    ErlNifEnv *env;
    ERL_NIF_TERM rest, tag;
    /* Counted as read(2) and write(2) told; the first by the server, the other locked. */
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

/* {error, Posix} of a negative errno. */
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

/* How a tty answers whose other end is closed or whose device is unplugged. */
static int hung_up(int error) { return error == -EIO || error == -ENXIO || error == -ENODEV; }

static int answer(int result) { return result < 0 ? -errno : result; }

static struct line *get_line(ErlNifEnv *env, ERL_NIF_TERM term)
{
    void *line;
    return enif_get_resource(env, term, line_type, &line) ? line : NULL;
}

/* The line when its server calls. */
static struct line *served_line(ErlNifEnv *env, ERL_NIF_TERM term)
{
    struct line *line = get_line(env, term);
    ErlNifPid self;
    return line != NULL && enif_self(env, &self) != NULL
        && enif_compare_pids(&self, &line->server) == 0 ? line : NULL;
}

/* The same when the line is open; else the answer is in *WHY. For calls on ordinary
 * schedulers: while such a one runs, its process cannot be gone, and nobody else closes. */
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

/* The descriptor of a server that is dead, once nothing uses it; -1: not yet, or it is
 * closed. Locked; bury() has to follow, which is not. */
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

/* Closes for a server that did not. The scheduler may be an ordinary one, so the kernel
 * must not wait for output that goes nowhere: what is still queued is thrown away. */
static void bury(const struct line *line, int fd)
{
    if (fd < 0)
        return;
    ioctl(fd, TCFLSH, TCOFLUSH);
    if (line->exclusive)
        ioctl(fd, TIOCNXCL);
    close(fd);
}

/* own_line() for a call on a dirty scheduler; drop() has to follow. */
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
    /* A break is counted (TIOCGICOUNT) and not put among the bytes as a zero. */
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

/* tcsetattr and the kernel succeed when anything at all was taken, so what was is read
 * back; when it is not what was asked for, the old settings return. */
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

/* Server, dirty I/O: a driver that sets holds the lock that this one takes. */
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
    /* Keeps out programs that do not lock, but for root's; qemu-user has no such request. */
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
    /* A process that is dying already cannot be watched. */
    if (error == 0 && enif_monitor_process(env, line, &line->server, &line->monitor) != 0)
        error = -EINTR;
    if (error < 0) {
        /* Nothing queued is ours: it is for the one who has the line. */
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

/* The server after nif_stop, dirty I/O: the kernel waits for output that is left, so the
 * server has let it go out or has flushed it. */
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

/* The poll has let go of the descriptor: within nif_stop or `down' (DIRECT, locked by
 * them, who go on from there), or later on a thread of the poll. */
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

/* The server died with the line open. Runs on the scheduler that ended it. */
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

/* Nobody knows of the line any more, the poll neither. */
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
 * Server, any scheduler, READ_SIZE bytes at most. Reads what is there.
 * -> {armed, Bytes}  all of it; the poll will tell of more (Bytes may be empty)
 *    {more, Bytes}   the server is to call again soon (Bytes may be empty)
 *    eof             hung up: the other end is closed or the device unplugged
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
    /* The read of an empty tty waits for the kernel's worker when that is about to fill it:
     * on a busy machine for milliseconds (bench/serial). So the tty is asked before, but for
     * the first time: then the poll has told, and only a read says that it hung up. */
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
    /* Bytes that came before the end are given first; the end will be read again. */
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

/* Writes what is left of the send under way, SEND_SIZE bytes at most. Locked.
 * Returns 1 when all is written, 0 when the poll was armed for the rest. */
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
 * -> ok       the kernel has it all
 *    wait     it has a part; the server is told by the poll and ends it (Tag)
 *    busy     it is somebody else's turn: nothing was done, ask the server
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

/* Server, any scheduler, SEND_SIZE bytes at most: goes on with the send under way.
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

/* Server, any scheduler. -> none | the tag of the send under way */
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

/* Server, any scheduler. (Line, Tag | all): takes back what was not written yet.
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
        /* Of a send that has not begun the length is not told either: it can be repeated. */
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

/* Server, any scheduler. (Line, boolean()): sends of others are to queue at the server. */
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

/* Server, any scheduler. (Line, 0 | 1 | 2 | 4): bytes of length put before each send. */
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

/* Server, any scheduler: no driver sleeps in these. -> {In, Out, Read, Written, Sending}:
 * bytes in the kernel's queues, bytes through this line since it was opened, and whether a
 * send is under way. */
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
    /* A line that hung up has nothing queued. */
    if (ioctl(line->fd, FIONREAD, &in) < 0)
        in = 0;
    if (ioctl(line->fd, TIOCOUTQ, &out) < 0)
        out = 0;
    return enif_make_tuple5(env, enif_make_int(env, in), enif_make_int(env, out),
                            enif_make_uint64(env, line->bytes_in),
                            enif_make_uint64(env, written), sending ? atom_true : atom_false);
}

/* One request that says ok or why not. */
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

/* Server, dirty I/O, to begin with once the kernel's queue is empty, for the kernel waits
 * for that. (Line, boolean()) */
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

/* Server, dirty I/O. (Line, On, Off): 1 is DTR, 2 is RTS, 3 both. What is in neither stays. */
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

/* A later library takes the lines over. Another struct line needs another number; calls with
 * lines of the one before then fail with badarg, and those are closed as their servers end. */
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

/* Open lines go on: their type is taken over, and all they know is in them. */
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
