/*
 * The NIFs of the module whittle_gpio_nif. They serve lines of Linux's GPIO character device
 * (version 2 of its interface, kernel 5.10). Internal functions return -errno; the NIFs
 * return {error, Posix}.
 *
 * A stock VM loads this library from priv. With
 * -DSTATIC_ERLANG_NIF_LIBNAME=whittle_gpio_nif it is linked into a VM. It starts no thread,
 * no program and no timer: the VM's own poll watches the descriptors (enif_select).
 *
 * Ownership
 *   A `handle' is the resource behind a request's reference in Erlang. It has the
 *   descriptor of requested lines, or of a chip whose lines somebody watches. The Erlang
 *   process that made it is its server. The handle closes when the server stops it or dies
 *   (handle_down), even if other processes still have the reference.
 *   `users' counts the calls that are in the kernel with the descriptor. When a handle
 *   closes, the last of these calls closes the descriptor. So no call uses the number
 *   after the kernel has given it to another file.
 *   The poll may hold the descriptor too. The VM reports with handle_stop that the poll has
 *   released it. The server then gets a message, and closes the descriptor on a dirty
 *   scheduler. If the server is dead, handle_stop itself closes it.
 *
 * Schedulers
 *   Opening, requesting, reconfiguring and closing may sleep in the kernel, because it
 *   allocates or frees interrupts: they run on dirty I/O schedulers. Getting and setting
 *   take less than a microsecond on a controller in memory, and milliseconds on an expander
 *   behind I2C. The kernel does not report the kind, so values() measures the time. After a
 *   call longer than SLOW_US, the next calls of this handle run on dirty I/O schedulers,
 *   until SLOW_CALLS of them in a row were quick. Reading events copies from the kernel's
 *   memory: it runs on a normal scheduler.
 */
#include "whittle_gpio_device.h"

#include <erl_nif.h>
#include <stdint.h>

/* The events of one read. They take 3 KB of stack; to make terms of them takes much less than
 * a millisecond. */
#define EVENTS_MAX 64
#define CHANGES_MAX 8

/* A NIF should not hold a normal scheduler for longer than a millisecond (documentation of
 * erl_nif). This is a tenth of that, to allow for a machine that is ten times slower. */
#define SLOW_US 100
#define SLOW_CALLS 16

struct handle {
    ErlNifMutex *setting; /* held around the kernel's call and the update of `written' */
    ErlNifMutex *lock;    /* guards the fields down to written_mask */
    int fd;            /* -1: closed */
    unsigned users;
    int closing;
    int stopped; /* the poll has released the descriptor */
    int orphan;  /* the server is dead */
    unsigned slow;
    __u64 written, written_mask; /* the last set values, and the lines that have one */

    /* Constant from here on. */
    int watches; /* it is a chip with watched lines, not a request */
    ErlNifPid server;
    ErlNifMonitor monitor;
    uint32_t count;
    uint32_t offsets[GPIO_V2_LINES_MAX];
    ErlNifEnv *keys_env; /* the environment of keys: the caller's name for each line */
    ERL_NIF_TERM keys[GPIO_V2_LINES_MAX];
};

static ErlNifResourceType *handle_type;

static struct {
    ERL_NIF_TERM ok, error, closed, rising, falling, undefined, whittle_gpio_stopped;
} atom;

/* ---- terms ------------------------------------------------------------------ */

static const struct {
    int number;
    const char *name;
} errors[] = {
    {E2BIG, "e2big"},         {EACCES, "eacces"},     {EAGAIN, "eagain"},
    {EBADF, "ebadf"},         {EBUSY, "ebusy"},       {EFAULT, "efault"},
    {EINVAL, "einval"},       {EIO, "eio"},           {EISDIR, "eisdir"},
    {ELOOP, "eloop"},         {EMFILE, "emfile"},     {ENAMETOOLONG, "enametoolong"},
    {ENFILE, "enfile"},       {ENODEV, "enodev"},     {ENOENT, "enoent"},
    {ENOMEM, "enomem"},       {ENOSYS, "enosys"},     {ENOTDIR, "enotdir"},
    {ENOTTY, "enotty"},       {ENXIO, "enxio"},       {EOPNOTSUPP, "eopnotsupp"},
    {EPERM, "eperm"},         {EREMOTEIO, "eremoteio"}, {EROFS, "erofs"},
    {ETIMEDOUT, "etimedout"},
};

static ERL_NIF_TERM ok(ErlNifEnv *env, ERL_NIF_TERM value)
{
    return enif_make_tuple2(env, atom.ok, value);
}

/* Makes {error, Posix} from -errno. Drivers of chips may return any number. A number without
 * a name above becomes `unknown', because the number of atoms must have a bound. */
static ERL_NIF_TERM failed(ErlNifEnv *env, int result)
{
    const char *name = "unknown";
    size_t i;
    for (i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].number == -result)
            name = errors[i].name;
    return enif_make_tuple2(env, atom.error, enif_make_atom(env, name));
}

static ERL_NIF_TERM closed(ErlNifEnv *env)
{
    return enif_make_tuple2(env, atom.error, atom.closed);
}

static ERL_NIF_TERM text(ErlNifEnv *env, const char *from, size_t size)
{
    ERL_NIF_TERM term;
    size_t length = strnlen(from, size);
    memcpy(enif_make_new_binary(env, length, &term), from, length);
    return term;
}

/* Copies a binary into TO as a string. Fails if it does not fit into SIZE with its 0, or if it
 * contains a 0. */
static int get_text(ErlNifEnv *env, ERL_NIF_TERM term, char *to, size_t size)
{
    ErlNifBinary binary;
    if (!enif_inspect_binary(env, term, &binary) || binary.size >= size ||
        memchr(binary.data, 0, binary.size) != NULL)
        return 0;
    memcpy(to, binary.data, binary.size);
    to[binary.size] = 0;
    return 1;
}

/* ErlNifUInt64 is unsigned long on some machines and unsigned long long on others. */
static int get_u64(ErlNifEnv *env, ERL_NIF_TERM term, __u64 *to)
{
    ErlNifUInt64 value;
    if (!enif_get_uint64(env, term, &value))
        return 0;
    *to = value;
    return 1;
}

/* Reads the flags and the attributes [{Id, Value, Mask}] of whittle_gpio_config. */
static int get_config(ErlNifEnv *env, ERL_NIF_TERM flags, ERL_NIF_TERM attributes,
                      struct gpio_v2_line_config *to)
{
    ERL_NIF_TERM head;
    __u64 word;
    memset(to, 0, sizeof *to);
    if (!get_u64(env, flags, &word))
        return 0;
    to->flags = word;
    while (enif_get_list_cell(env, attributes, &head, &attributes)) {
        struct gpio_v2_line_config_attribute *one = &to->attrs[to->num_attrs];
        const ERL_NIF_TERM *part;
        int arity;
        __u64 value, mask;
        unsigned id;
        if (to->num_attrs == GPIO_V2_LINE_NUM_ATTRS_MAX ||
            !enif_get_tuple(env, head, &arity, &part) || arity != 3 ||
            !enif_get_uint(env, part[0], &id) || !get_u64(env, part[1], &value) ||
            !get_u64(env, part[2], &mask))
            return 0;
        one->attr.id = id;
        if (id == GPIO_V2_LINE_ATTR_ID_DEBOUNCE) {
            if (value > UINT32_MAX)
                return 0;
            one->attr.debounce_period_us = (__u32)value;
        } else {
            one->attr.values = value;
        }
        one->mask = mask;
        to->num_attrs++;
    }
    return enif_is_empty_list(env, attributes);
}

/* ---- handles ---------------------------------------------------------------- */

/* Makes a handle, which owns the descriptor FD from now on. If the result is NULL, the caller
 * still owns FD. */
static struct handle *handle_new(ErlNifEnv *env, int fd, int watches)
{
    struct handle *handle = enif_alloc_resource(handle_type, sizeof *handle);
    if (handle == NULL)
        return NULL;
    memset(handle, 0, sizeof *handle);
    handle->fd = fd;
    handle->watches = watches;
    handle->setting = enif_mutex_create("whittle_gpio_setting");
    handle->lock = enif_mutex_create("whittle_gpio");
    handle->keys_env = enif_alloc_env();
    enif_self(env, &handle->server);
    if (handle->setting != NULL && handle->lock != NULL && handle->keys_env != NULL)
        return handle;
    handle->fd = -1;
    enif_release_resource(handle);
    return NULL;
}

/* Returns the descriptor for one call, or -1 if the handle is closed. After the call, call
 * handle_drop(). */
static int handle_hold(struct handle *handle)
{
    int fd = -1;
    enif_mutex_lock(handle->lock);
    if (!handle->closing) {
        fd = handle->fd;
        handle->users++;
    }
    enif_mutex_unlock(handle->lock);
    return fd;
}

/* Makes the poll release the descriptor. The caller must not hold the lock, because the VM may
 * call handle_stop in here, which takes it. */
static void handle_let_go(ErlNifEnv *env, struct handle *handle)
{
    enif_select(env, handle->fd, ERL_NIF_SELECT_STOP, handle, NULL, atom.undefined);
}

static void handle_drop(ErlNifEnv *env, struct handle *handle)
{
    int last;
    enif_mutex_lock(handle->lock);
    last = --handle->users == 0 && handle->closing;
    enif_mutex_unlock(handle->lock);
    if (last)
        handle_let_go(env, handle);
}

/* Closes the handle for further calls. Returns whether this is the first such call. */
static int handle_end(ErlNifEnv *env, struct handle *handle)
{
    int first, idle;
    enif_mutex_lock(handle->lock);
    first = !handle->closing;
    idle = first && handle->users == 0;
    handle->closing = 1;
    enif_mutex_unlock(handle->lock);
    if (idle)
        handle_let_go(env, handle);
    return first;
}

/* Closes the descriptor if it is open, which releases the lines. */
static void handle_close(struct handle *handle)
{
    int fd;
    enif_mutex_lock(handle->lock);
    fd = handle->fd;
    handle->fd = -1;
    enif_mutex_unlock(handle->lock);
    if (fd >= 0)
        gpio_close(fd);
}

/*
 * The VM's poll has released the descriptor. This runs on the thread that asked for it (that
 * of the server, or of the last call), or on a thread of the poll. Nothing should sleep there,
 * so the server closes the descriptor if it is alive.
 */
static void handle_stop(ErlNifEnv *env, void *object, ErlNifEvent fd, int is_direct)
{
    struct handle *handle = object;
    ErlNifEnv *message;
    int orphan;

    enif_mutex_lock(handle->lock);
    handle->stopped = 1;
    orphan = handle->orphan;
    enif_mutex_unlock(handle->lock);
    if (orphan) {
        handle_close(handle);
        return;
    }
    message = enif_alloc_env();
    enif_send(env, &handle->server, message,
              enif_make_tuple2(message, enif_make_copy(message, atom.whittle_gpio_stopped),
                               enif_make_resource(message, handle)));
    enif_free_env(message);
}

/* The server has died and has not closed the handle. This may run on any scheduler. */
static void handle_down(ErlNifEnv *env, void *object, ErlNifPid *pid, ErlNifMonitor *monitor)
{
    struct handle *handle = object;
    int stopped;
    enif_mutex_lock(handle->lock);
    handle->orphan = 1;
    stopped = handle->stopped;
    enif_mutex_unlock(handle->lock);
    if (stopped)
        handle_close(handle);
    else
        handle_end(env, handle);
}

/*
 * The last reference to the handle is gone. This may run on any scheduler. If the descriptor
 * is still open, it was never in the poll.
 */
static void handle_free(ErlNifEnv *env, void *object)
{
    struct handle *handle = object;
    if (handle->fd >= 0)
        gpio_close(handle->fd);
    if (handle->keys_env != NULL)
        enif_free_env(handle->keys_env);
    if (handle->lock != NULL)
        enif_mutex_destroy(handle->lock);
    if (handle->setting != NULL)
        enif_mutex_destroy(handle->setting);
}

/* Discards a handle that no other process knows. The VM may free it later, so this closes the
 * descriptor now. */
static void handle_give_up(struct handle *handle)
{
    if (handle->fd >= 0)
        gpio_close(handle->fd);
    handle->fd = -1;
    enif_release_resource(handle);
}

/* Reads the names and the offsets of a handle's lines: lists of the same length. */
static int get_lines(ErlNifEnv *env, ERL_NIF_TERM keys, ERL_NIF_TERM offsets,
                     struct handle *handle)
{
    ERL_NIF_TERM key, offset;
    unsigned number;
    while (enif_get_list_cell(env, keys, &key, &keys)) {
        if (handle->count == GPIO_V2_LINES_MAX ||
            !enif_get_list_cell(env, offsets, &offset, &offsets) ||
            !enif_get_uint(env, offset, &number))
            return 0;
        handle->keys[handle->count] = enif_make_copy(handle->keys_env, key);
        handle->offsets[handle->count++] = number;
    }
    return enif_is_empty_list(env, keys) && enif_is_empty_list(env, offsets);
}

/* Returns the index of the line with this name or offset, or -1. */
static int index_of(ErlNifEnv *env, struct handle *handle, ERL_NIF_TERM key)
{
    unsigned offset, i;
    for (i = 0; i < handle->count; i++)
        if (enif_is_identical(handle->keys[i], key))
            return (int)i;
    if (enif_get_uint(env, key, &offset))
        for (i = 0; i < handle->count; i++)
            if (handle->offsets[i] == offset)
                return (int)i;
    return -1;
}

static ERL_NIF_TERM key_of(ErlNifEnv *env, struct handle *handle, unsigned index)
{
    return enif_make_copy(env, handle->keys[index]);
}

static __u64 mask_of(const struct handle *handle)
{
    return ~(__u64)0 >> (GPIO_V2_LINES_MAX - handle->count);
}

static int get_handle(ErlNifEnv *env, ERL_NIF_TERM term, struct handle **handle)
{
    return enif_get_resource(env, term, handle_type, (void **)handle);
}

static int get_request(ErlNifEnv *env, ERL_NIF_TERM term, struct handle **handle)
{
    return get_handle(env, term, handle) && !(*handle)->watches;
}

/* ---- chips ------------------------------------------------------------------- */

struct paths {
    ErlNifEnv *env;
    ERL_NIF_TERM list;
};

static void add_path(void *context, const char *path)
{
    struct paths *paths = context;
    paths->list = enif_make_list_cell(
        paths->env, text(paths->env, path, GPIO_PATH_SIZE), paths->list);
}

/* nif_chips() -> {ok, [Path]} | {error, Posix}. Dirty I/O, because it reads a directory. */
static ERL_NIF_TERM nif_chips(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    struct paths paths = {env, enif_make_list(env, 0)};
    int result = gpio_each_chip(add_path, &paths);
    return result < 0 ? failed(env, result) : ok(env, paths.list);
}

/* nif_chip(Path) -> {ok, {Name, Label, Lines}} | {error, Posix}. Dirty I/O. */
static ERL_NIF_TERM nif_chip(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    char path[GPIO_PATH_SIZE];
    struct gpiochip_info info;
    int fd, result;

    if (!get_text(env, argv[0], path, sizeof path))
        return enif_make_badarg(env);
    fd = gpio_open(path);
    if (fd < 0)
        return failed(env, fd);
    memset(&info, 0, sizeof info);
    result = gpio_ioctl(fd, GPIO_GET_CHIPINFO_IOCTL, &info);
    gpio_close(fd);
    if (result < 0)
        return failed(env, result);
    return ok(env, enif_make_tuple3(env, text(env, info.name, sizeof info.name),
                                    text(env, info.label, sizeof info.label),
                                    enif_make_uint(env, info.lines)));
}

/* {Offset, Name, Consumer, Flags, Debounce | undefined} */
static ERL_NIF_TERM line_info(ErlNifEnv *env, const struct gpio_v2_line_info *info)
{
    ERL_NIF_TERM debounce = atom.undefined;
    unsigned i;
    for (i = 0; i < info->num_attrs && i < GPIO_V2_LINE_NUM_ATTRS_MAX; i++)
        if (info->attrs[i].id == GPIO_V2_LINE_ATTR_ID_DEBOUNCE)
            debounce = enif_make_uint(env, info->attrs[i].debounce_period_us);
    return enif_make_tuple5(env, enif_make_uint(env, info->offset),
                            text(env, info->name, sizeof info->name),
                            text(env, info->consumer, sizeof info->consumer),
                            enif_make_uint64(env, info->flags), debounce);
}

/*
 * nif_lines(Path, First, Count) -> {ok, [line_info()]} | {error, Posix}. Describes Count lines
 * from offset First on, at most GPIO_V2_LINES_MAX. Dirty I/O.
 */
static ERL_NIF_TERM nif_lines(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    char path[GPIO_PATH_SIZE];
    ERL_NIF_TERM list = enif_make_list(env, 0);
    struct gpio_v2_line_info info;
    unsigned first, count;
    int fd, result = 0;

    if (!get_text(env, argv[0], path, sizeof path) || !enif_get_uint(env, argv[1], &first) ||
        !enif_get_uint(env, argv[2], &count) || count > GPIO_V2_LINES_MAX)
        return enif_make_badarg(env);
    fd = gpio_open(path);
    if (fd < 0)
        return failed(env, fd);
    while (count-- > 0 && result == 0) {
        memset(&info, 0, sizeof info);
        info.offset = first + count;
        result = gpio_ioctl(fd, GPIO_V2_GET_LINEINFO_IOCTL, &info);
        if (result == 0)
            list = enif_make_list_cell(env, line_info(env, &info), list);
    }
    gpio_close(fd);
    return result < 0 ? failed(env, result) : ok(env, list);
}

/* ---- requests ---------------------------------------------------------------- */

/* Remembers that somebody set the outputs in MASK to BITS. */
static void remember(struct handle *handle, __u64 bits, __u64 mask)
{
    enif_mutex_lock(handle->lock);
    handle->written = (handle->written & ~mask) | (bits & mask);
    handle->written_mask |= mask;
    enif_mutex_unlock(handle->lock);
}

/* Remembers the values of the outputs in this configuration, and no others. */
static void remember_config(struct handle *handle, const struct gpio_v2_line_config *config)
{
    unsigned i;
    enif_mutex_lock(handle->lock);
    handle->written_mask = 0;
    enif_mutex_unlock(handle->lock);
    for (i = 0; i < config->num_attrs; i++)
        if (config->attrs[i].attr.id == GPIO_V2_LINE_ATTR_ID_OUTPUT_VALUES)
            remember(handle, config->attrs[i].attr.values, config->attrs[i].mask);
}

/* Returns the handle to the caller, which is its server from now on. */
static ERL_NIF_TERM give(ErlNifEnv *env, struct handle *handle)
{
    ERL_NIF_TERM term;
    if (enif_monitor_process(env, handle, &handle->server, &handle->monitor) != 0) {
        handle_give_up(handle);
        return closed(env);
    }
    term = enif_make_resource(env, handle);
    enif_release_resource(handle);
    return ok(env, term);
}

/*
 * nif_request(Path, Keys, Offsets, Consumer, Flags, Attributes, EventBuffer) ->
 * {ok, Handle} | {error, Posix}. The caller becomes the server. Dirty I/O.
 */
static ERL_NIF_TERM nif_request(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    char path[GPIO_PATH_SIZE];
    struct gpio_v2_line_request request;
    struct handle *handle;
    unsigned buffer;
    int chip, result;

    memset(&request, 0, sizeof request);
    if (!get_text(env, argv[0], path, sizeof path) ||
        !get_text(env, argv[3], request.consumer, sizeof request.consumer) ||
        !get_config(env, argv[4], argv[5], &request.config) ||
        !enif_get_uint(env, argv[6], &buffer))
        return enif_make_badarg(env);
    handle = handle_new(env, -1, 0);
    if (handle == NULL)
        return failed(env, -ENOMEM);
    if (!get_lines(env, argv[1], argv[2], handle)) {
        handle_give_up(handle);
        return enif_make_badarg(env);
    }
    memcpy(request.offsets, handle->offsets, sizeof request.offsets);
    request.num_lines = handle->count;
    request.event_buffer_size = buffer;
    chip = result = gpio_open(path);
    if (chip >= 0) {
        result = gpio_ioctl(chip, GPIO_V2_GET_LINE_IOCTL, &request);
        gpio_close(chip);
    }
    if (result < 0) {
        handle_give_up(handle);
        return failed(env, result);
    }
    handle->fd = request.fd;
    remember_config(handle, &request.config);
    return give(env, handle);
}

/*
 * nif_watch(Path, Keys, Offsets) -> {ok, Handle, [line_info()]} | {error, Posix}. The handle
 * reports changes of these lines after the state in the list. Dirty I/O.
 */
static ERL_NIF_TERM nif_watch(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    char path[GPIO_PATH_SIZE];
    struct gpio_v2_line_info info;
    struct handle *handle;
    ERL_NIF_TERM given, list = enif_make_list(env, 0);
    const ERL_NIF_TERM *part;
    unsigned i;
    int fd, arity, result = 0;

    if (!get_text(env, argv[0], path, sizeof path))
        return enif_make_badarg(env);
    fd = gpio_open(path);
    if (fd < 0)
        return failed(env, fd);
    handle = handle_new(env, fd, 1);
    if (handle == NULL) {
        gpio_close(fd);
        return failed(env, -ENOMEM);
    }
    if (!get_lines(env, argv[1], argv[2], handle)) {
        handle_give_up(handle);
        return enif_make_badarg(env);
    }
    for (i = handle->count; i-- > 0 && result == 0;) {
        memset(&info, 0, sizeof info);
        info.offset = handle->offsets[i];
        result = gpio_ioctl(fd, GPIO_V2_GET_LINEINFO_WATCH_IOCTL, &info);
        list = enif_make_list_cell(env, line_info(env, &info), list);
    }
    if (result < 0) {
        handle_give_up(handle);
        return failed(env, result);
    }
    given = give(env, handle);
    enif_get_tuple(env, given, &arity, &part);
    if (part[0] != atom.ok)
        return given;
    return enif_make_tuple3(env, atom.ok, part[1], list);
}

/* nif_configure(Request, Flags, Attributes) -> ok | {error, Posix}. Dirty I/O. */
static ERL_NIF_TERM nif_configure(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    struct gpio_v2_line_config config;
    struct handle *handle;
    int fd, result;

    if (!get_request(env, argv[0], &handle) || !get_config(env, argv[1], argv[2], &config))
        return enif_make_badarg(env);
    fd = handle_hold(handle);
    if (fd < 0)
        return closed(env);
    enif_mutex_lock(handle->setting);
    result = gpio_ioctl(fd, GPIO_V2_LINE_SET_CONFIG_IOCTL, &config);
    if (result == 0)
        remember_config(handle, &config);
    enif_mutex_unlock(handle->setting);
    handle_drop(env, handle);
    return result < 0 ? failed(env, result) : atom.ok;
}

/* nif_written(Request) -> {Bits, Mask}: the last set values of the lines in Mask. Normal. */
static ERL_NIF_TERM nif_written(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    struct handle *handle;
    __u64 bits, mask;
    if (!get_request(env, argv[0], &handle))
        return enif_make_badarg(env);
    enif_mutex_lock(handle->lock);
    bits = handle->written;
    mask = handle->written_mask;
    enif_mutex_unlock(handle->lock);
    return enif_make_tuple2(env, enif_make_uint64(env, bits), enif_make_uint64(env, mask));
}

/*
 * nif_stop(Handle) -> ok | {error, closed}. After ok the server gets
 * {whittle_gpio_stopped, Handle} as soon as nothing uses the descriptor. That may be later,
 * because another process may be in a call, or the poll must release the descriptor first.
 */
static ERL_NIF_TERM nif_stop(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    struct handle *handle;
    if (!get_handle(env, argv[0], &handle))
        return enif_make_badarg(env);
    return handle_end(env, handle) ? atom.ok : closed(env);
}

/* nif_close(Handle) -> ok: releases the lines. Call it after the message of nif_stop. Dirty
 * I/O. */
static ERL_NIF_TERM nif_close(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    struct handle *handle;
    int stopped;
    if (!get_handle(env, argv[0], &handle))
        return enif_make_badarg(env);
    enif_mutex_lock(handle->lock);
    stopped = handle->stopped;
    enif_mutex_unlock(handle->lock);
    if (!stopped)
        return enif_make_badarg(env);
    handle_close(handle);
    return atom.ok;
}

/* nif_server(Handle) -> Pid. */
static ERL_NIF_TERM nif_server(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    struct handle *handle;
    if (!get_handle(env, argv[0], &handle))
        return enif_make_badarg(env);
    return enif_make_pid(env, &handle->server);
}

/* ---- values ------------------------------------------------------------------ */

typedef ERL_NIF_TERM nif(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]);

/*
 * Gets or sets values (CALL), here or on a dirty scheduler: see the head of this file. A call
 * that sets while another call sets moves to a dirty scheduler too, and waits there.
 * Returns 1 after the call, with its result, and drops the descriptor. Returns 0 if the NIF
 * must return `again' instead, which repeats the NIF on a dirty scheduler.
 */
static int values(ErlNifEnv *env, struct handle *handle, unsigned long call,
                  struct gpio_v2_line_values *values, int *result, const char *name, nif *self,
                  int argc, const ERL_NIF_TERM argv[], ERL_NIF_TERM *again)
{
    ErlNifTime before, took;
    int dirty = enif_thread_type() == ERL_NIF_THR_DIRTY_IO_SCHEDULER;
    int sets = call == GPIO_V2_LINE_SET_VALUES_IOCTL;
    unsigned slow;
    int fd;

    if (!dirty) {
        enif_mutex_lock(handle->lock);
        slow = handle->slow;
        enif_mutex_unlock(handle->lock);
        if (slow > 0 || (sets && enif_mutex_trylock(handle->setting) != 0)) {
            *again = enif_schedule_nif(env, name, ERL_NIF_DIRTY_JOB_IO_BOUND, self, argc, argv);
            return 0;
        }
    } else if (sets) {
        enif_mutex_lock(handle->setting);
    }
    fd = handle_hold(handle);
    if (fd < 0) {
        if (sets)
            enif_mutex_unlock(handle->setting);
        *again = closed(env);
        return 0;
    }
    before = enif_monotonic_time(ERL_NIF_USEC);
    *result = gpio_ioctl(fd, call, values);
    took = enif_monotonic_time(ERL_NIF_USEC) - before;
    if (sets) {
        if (*result == 0)
            remember(handle, values->bits, values->mask);
        enif_mutex_unlock(handle->setting);
    }
    if (took > SLOW_US || dirty) {
        enif_mutex_lock(handle->lock);
        if (took > SLOW_US)
            handle->slow = SLOW_CALLS;
        else if (handle->slow > 0)
            handle->slow--;
        enif_mutex_unlock(handle->lock);
    }
    handle_drop(env, handle);
    return 1;
}

/* The kind of result that nif_get() returns. */
enum want { ONE, LIST, MAP, BITS };

/*
 * nif_get(Request, {one, Line} | {list, [Line]} | map | bits) -> {ok, 0 | 1 | [0 | 1] |
 * #{Line => 0 | 1} | Bits} | {error, Posix | closed}. Normal, or dirty I/O: values().
 */
static ERL_NIF_TERM nif_get(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    struct gpio_v2_line_values wanted = {0, 0};
    struct handle *handle;
    ERL_NIF_TERM list, head, result, key[GPIO_V2_LINES_MAX], value[GPIO_V2_LINES_MAX];
    int place[GPIO_V2_LINES_MAX], arity, error = 0;
    const ERL_NIF_TERM *part;
    char word[8];
    enum want want;
    unsigned count = 0, i;

    if (!get_request(env, argv[0], &handle))
        return enif_make_badarg(env);
    if (enif_get_tuple(env, argv[1], &arity, &part)) {
        if (arity != 2 || !enif_get_atom(env, part[0], word, sizeof word, ERL_NIF_LATIN1))
            return enif_make_badarg(env);
        if (strcmp(word, "one") == 0) {
            want = ONE;
            place[count++] = index_of(env, handle, part[1]);
        } else if (strcmp(word, "list") == 0) {
            want = LIST;
            for (list = part[1]; enif_get_list_cell(env, list, &head, &list);) {
                if (count == GPIO_V2_LINES_MAX)
                    return failed(env, -EINVAL);
                place[count++] = index_of(env, handle, head);
            }
            if (!enif_is_empty_list(env, list))
                return enif_make_badarg(env);
            if (count == 0)
                return ok(env, list);
        } else {
            return enif_make_badarg(env);
        }
        for (i = 0; i < count; i++) {
            if (place[i] < 0)
                return failed(env, -EINVAL);
            wanted.mask |= (__u64)1 << place[i];
        }
    } else if (enif_get_atom(env, argv[1], word, sizeof word, ERL_NIF_LATIN1)) {
        if (strcmp(word, "map") == 0)
            want = MAP;
        else if (strcmp(word, "bits") == 0)
            want = BITS;
        else
            return enif_make_badarg(env);
        wanted.mask = mask_of(handle);
    } else {
        return enif_make_badarg(env);
    }
    if (!values(env, handle, GPIO_V2_LINE_GET_VALUES_IOCTL, &wanted, &error, "get", nif_get,
                argc, argv, &result))
        return result;
    if (error < 0)
        return failed(env, error);
    switch (want) {
    case ONE:
        result = enif_make_uint(env, wanted.bits >> place[0] & 1);
        break;
    case LIST:
        for (i = 0; i < count; i++)
            value[i] = enif_make_uint(env, wanted.bits >> place[i] & 1);
        result = enif_make_list_from_array(env, value, count);
        break;
    case MAP:
        for (i = 0; i < handle->count; i++) {
            key[i] = key_of(env, handle, i);
            value[i] = enif_make_uint(env, wanted.bits >> i & 1);
        }
        /* This fails if two lines have the same name. */
        if (!enif_make_map_from_arrays(env, key, value, handle->count, &result))
            return failed(env, -EINVAL);
        break;
    default:
        result = enif_make_uint64(env, wanted.bits & wanted.mask);
    }
    return ok(env, result);
}

/*
 * nif_set(Request, [{Line, 0 | 1}] | {Bits, Mask}) -> ok | {error, Posix | closed}.
 * Normal, or dirty I/O: values().
 */
static ERL_NIF_TERM nif_set(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    struct gpio_v2_line_values wanted = {0, 0};
    struct handle *handle;
    ERL_NIF_TERM list = argv[1], head, result;
    const ERL_NIF_TERM *part;
    int arity, error = 0;

    if (!get_request(env, argv[0], &handle))
        return enif_make_badarg(env);
    if (enif_get_tuple(env, argv[1], &arity, &part)) {
        __u64 bits, mask;
        if (arity != 2 || !get_u64(env, part[0], &bits) || !get_u64(env, part[1], &mask))
            return enif_make_badarg(env);
        wanted.bits = bits;
        wanted.mask = mask;
        if (wanted.mask & ~mask_of(handle))
            return failed(env, -EINVAL);
    } else {
        while (enif_get_list_cell(env, list, &head, &list)) {
            unsigned value;
            int index;
            if (!enif_get_tuple(env, head, &arity, &part) || arity != 2 ||
                !enif_get_uint(env, part[1], &value) || value > 1)
                return enif_make_badarg(env);
            index = index_of(env, handle, part[0]);
            if (index < 0)
                return failed(env, -EINVAL);
            wanted.mask |= (__u64)1 << index;
            wanted.bits &= ~((__u64)1 << index);
            wanted.bits |= (__u64)value << index;
        }
        if (!enif_is_empty_list(env, list))
            return enif_make_badarg(env);
    }
    if (wanted.mask == 0)
        return atom.ok;
    if (!values(env, handle, GPIO_V2_LINE_SET_VALUES_IOCTL, &wanted, &error, "set", nif_set,
                argc, argv, &result))
        return result;
    return error < 0 ? failed(env, error) : atom.ok;
}

/* ---- events ------------------------------------------------------------------- */

/*
 * nif_arm(Handle, Ref) -> ok | {error, closed}. Only the server calls it. It gets one message
 * {select, Handle, Ref, ready_input} when there are events to read. Normal.
 */
static ERL_NIF_TERM nif_arm(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    struct handle *handle;
    int fd, result;

    if (!get_handle(env, argv[0], &handle) || !enif_is_ref(env, argv[1]))
        return enif_make_badarg(env);
    fd = handle_hold(handle);
    if (fd < 0)
        return closed(env);
    result = enif_select(env, fd, ERL_NIF_SELECT_READ, handle, &handle->server, argv[1]);
    handle_drop(env, handle);
    return result < 0 ? failed(env, -EBADF) : atom.ok;
}

/* {Line, rising | falling, Nanoseconds, Seqno, LineSeqno} */
static ERL_NIF_TERM event_term(ErlNifEnv *env, struct handle *handle,
                               const struct gpio_v2_line_event *event)
{
    ERL_NIF_TERM line = enif_make_uint(env, event->offset);
    unsigned i;
    for (i = 0; i < handle->count; i++)
        if (handle->offsets[i] == event->offset)
            line = key_of(env, handle, i);
    return enif_make_tuple5(
        env, line, event->id == GPIO_V2_LINE_EVENT_RISING_EDGE ? atom.rising : atom.falling,
        enif_make_uint64(env, event->timestamp_ns), enif_make_uint(env, event->seqno),
        enif_make_uint(env, event->line_seqno));
}

/* {Line, Type, Nanoseconds, line_info()} */
static ERL_NIF_TERM change_term(ErlNifEnv *env, struct handle *handle,
                                const struct gpio_v2_line_info_changed *change)
{
    ERL_NIF_TERM line = enif_make_uint(env, change->info.offset);
    unsigned i;
    for (i = 0; i < handle->count; i++)
        if (handle->offsets[i] == change->info.offset)
            line = key_of(env, handle, i);
    return enif_make_tuple4(env, line, enif_make_uint(env, change->event_type),
                            enif_make_uint64(env, change->timestamp_ns),
                            line_info(env, &change->info));
}

/*
 * nif_read(Handle, Max) -> {ok, [event]} | {error, Posix | closed}. Reads at most Max events
 * from the kernel, the oldest first; [] if there are none. This library keeps no events: only
 * the kernel does, as many as the request asked for. Normal.
 */
static ERL_NIF_TERM nif_read(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    union {
        struct gpio_v2_line_event event[EVENTS_MAX];
        struct gpio_v2_line_info_changed change[CHANGES_MAX];
    } read;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    struct handle *handle;
    unsigned max, limit;
    size_t size;
    ssize_t got;
    int fd;

    if (!get_handle(env, argv[0], &handle) || !enif_get_uint(env, argv[1], &max) || max == 0)
        return enif_make_badarg(env);
    size = handle->watches ? sizeof *read.change : sizeof *read.event;
    limit = handle->watches ? CHANGES_MAX : EVENTS_MAX;
    if (max < limit)
        limit = max;
    fd = handle_hold(handle);
    if (fd < 0)
        return closed(env);
    got = gpio_read(fd, &read, limit * size);
    handle_drop(env, handle);
    if (got == -EAGAIN)
        return ok(env, list);
    if (got < 0)
        return failed(env, (int)got);
    for (got /= (ssize_t)size; got-- > 0;)
        list = enif_make_list_cell(env,
                                   handle->watches ? change_term(env, handle, &read.change[got])
                                                   : event_term(env, handle, &read.event[got]),
                                   list);
    return ok(env, list);
}

/* ---- loading ------------------------------------------------------------------- */

/*
 * The name of the resource type identifies the layout of `struct handle': change the name when
 * you change the struct. The new library then does not know the handles of the old one: calls
 * with them fail with badarg, which ends their servers and so closes the handles.
 */
static int open_types(ErlNifEnv *env, ErlNifResourceFlags flags)
{
    static ErlNifResourceTypeInit init = {.dtor = handle_free,
                                          .stop = handle_stop,
                                          .down = handle_down};
    handle_type = enif_open_resource_type_x(env, "whittle_gpio_2", &init, flags, NULL);
    atom.ok = enif_make_atom(env, "ok");
    atom.error = enif_make_atom(env, "error");
    atom.closed = enif_make_atom(env, "closed");
    atom.rising = enif_make_atom(env, "rising");
    atom.falling = enif_make_atom(env, "falling");
    atom.undefined = enif_make_atom(env, "undefined");
    atom.whittle_gpio_stopped = enif_make_atom(env, "whittle_gpio_stopped");
    return handle_type == NULL ? -1 : 0;
}

static int load(ErlNifEnv *env, void **data, ERL_NIF_TERM info)
{
    return open_types(env, ERL_NIF_RT_CREATE | ERL_NIF_RT_TAKEOVER);
}

/* Takes over the open requests when the VM loads new code of the module. */
static int upgrade(ErlNifEnv *env, void **data, void **old, ERL_NIF_TERM info)
{
    return open_types(env, ERL_NIF_RT_CREATE | ERL_NIF_RT_TAKEOVER);
}

static ErlNifFunc functions[] = {
    {"chips", 0, nif_chips, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"chip", 1, nif_chip, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"lines", 3, nif_lines, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"request", 7, nif_request, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"watch", 3, nif_watch, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"configure", 3, nif_configure, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"written", 1, nif_written, 0},
    {"stop", 1, nif_stop, 0},
    {"close", 1, nif_close, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"server", 1, nif_server, 0},
    {"get", 2, nif_get, 0},
    {"set", 2, nif_set, 0},
    {"arm", 2, nif_arm, 0},
    {"read", 2, nif_read, 0},
};

ERL_NIF_INIT(whittle_gpio_nif, functions, load, NULL, upgrade, NULL)
