/*
 * Chips "/dev/loopback/NAME" behind the calls of c_src/whittle_gpio_device.h, for the
 * tests: a small kernel's side of linux/gpio.h, version 2. Every other path goes on to
 * the kernel.
 *
 * A chip comes into being when it is first opened. Its lines:
 *   0-63     named L0 to L63; 2k and 2k+1 are the ends of one wire
 *   64       float: a wire with nothing at its other end
 *   65       hog: taken, by the kernel
 *   66       unplug: set to active, the chip is gone; its name makes a new one
 *   67       slow: every call that touches it takes 5 ms, as behind I2C
 *   68       without a name
 *   69       has the name of line 0
 * "/dev/loopback/denied" may not be opened, and "/dev/loopback/none" is not there.
 *
 * What is modelled, as drivers/gpio/gpiolib-cdev.c does it: which flags go together, who
 * holds a line, direction, value, active_low, edges, debounce (an edge counts when the
 * level has been there for the period), the queue of events (the eldest goes when it is
 * full) and both numbers, the watch of lines with its queue of 32 (the newest goes).
 * A wire's level: low if anybody drives it low, else high if anybody drives it high,
 * else what the pulls say, else what it was. Released lines drive nothing.
 *
 * Descriptors are real, so that the VM polls them: a request is an epoll set of an
 * eventfd (events wait, or the chip is gone) and a timerfd (the next debounce). One lock
 * is around all of it.
 */
#define _GNU_SOURCE
#include "whittle_gpio_device.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>

#define PREFIX "/dev/loopback/"
#define LINES 70
#define WIRED 64
#define FLOAT 64
#define HOG 65
#define UNPLUG 66
#define SLOW 67
#define FDS 65536
#define CHANGES 32

#define DIRECTIONS (GPIO_V2_LINE_FLAG_INPUT | GPIO_V2_LINE_FLAG_OUTPUT)
#define EDGES (GPIO_V2_LINE_FLAG_EDGE_RISING | GPIO_V2_LINE_FLAG_EDGE_FALLING)
#define DRIVES (GPIO_V2_LINE_FLAG_OPEN_DRAIN | GPIO_V2_LINE_FLAG_OPEN_SOURCE)
#define BIASES                                                                              \
    (GPIO_V2_LINE_FLAG_BIAS_PULL_UP | GPIO_V2_LINE_FLAG_BIAS_PULL_DOWN |                    \
     GPIO_V2_LINE_FLAG_BIAS_DISABLED)
#define KNOWN                                                                               \
    (GPIO_V2_LINE_FLAG_ACTIVE_LOW | DIRECTIONS | EDGES | DRIVES | BIASES |                  \
     GPIO_V2_LINE_FLAG_EVENT_CLOCK_REALTIME)

struct object;

struct line {
    char name[GPIO_MAX_NAME_SIZE];
    char consumer[GPIO_MAX_NAME_SIZE];
    struct object *holder;
    unsigned index; /* in the holder's request */
    uint64_t flags;
    int driven; /* the level that an output is set to */
    uint32_t debounce_us;
    int steady;        /* the debounced level */
    uint64_t deadline; /* when the level counts, in monotonic ns; 0: it does */
    uint32_t seqno;
};

struct chip {
    struct chip *next;
    char name[GPIO_MAX_NAME_SIZE];
    int gone;
    struct line lines[LINES];
    int level[LINES]; /* of a wire, by its lower line */
};

/* What a descriptor stands for. */
struct object {
    struct chip *chip;
    int is_request;
    int event_fd, timer_fd; /* -1: none */
    /* a request's */
    unsigned count;
    uint32_t offsets[GPIO_V2_LINES_MAX];
    uint32_t seqno;
    struct gpio_v2_line_event *events;
    unsigned size, first, waiting;
    /* a chip's */
    uint8_t watched[LINES];
    struct gpio_v2_line_info_changed changes[CHANGES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct chip *chips;
static struct object *objects[FDS];

static uint64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- wires -------------------------------------------------------------------- */

static int wire_of(int offset) { return offset < WIRED ? offset & ~1 : offset; }
static int partner_of(int offset) { return offset < WIRED ? offset ^ 1 : offset; }

static void set_ready(struct object *object)
{
    uint64_t one = 1;
    if (write(object->event_fd, &one, sizeof one) < 0)
        abort();
}

static void clear_ready(int fd)
{
    uint64_t count;
    if (read(fd, &count, sizeof count) < 0 && errno != EAGAIN)
        abort();
}

static void put_event(struct object *request, struct line *line, int level)
{
    struct gpio_v2_line_event *event;
    int rising = level != !!(line->flags & GPIO_V2_LINE_FLAG_ACTIVE_LOW);
    uint64_t wanted = rising ? GPIO_V2_LINE_FLAG_EDGE_RISING : GPIO_V2_LINE_FLAG_EDGE_FALLING;

    if (!(line->flags & wanted))
        return;
    if (request->waiting == request->size) {
        request->first = (request->first + 1) % request->size;
        request->waiting--;
    }
    event = &request->events[(request->first + request->waiting++) % request->size];
    memset(event, 0, sizeof *event);
    event->timestamp_ns = now(line->flags & GPIO_V2_LINE_FLAG_EVENT_CLOCK_REALTIME
                                  ? CLOCK_REALTIME
                                  : CLOCK_MONOTONIC);
    event->id = rising ? GPIO_V2_LINE_EVENT_RISING_EDGE : GPIO_V2_LINE_EVENT_FALLING_EDGE;
    event->offset = request->offsets[line->index];
    event->seqno = ++request->seqno;
    event->line_seqno = ++line->seqno;
    set_ready(request);
}

/* Sets the timer to the next debounce that will be over. */
static void set_timer(struct object *request)
{
    struct itimerspec when;
    uint64_t next = 0;
    unsigned i;

    for (i = 0; i < request->count; i++) {
        uint64_t deadline = request->chip->lines[request->offsets[i]].deadline;
        if (deadline != 0 && (next == 0 || deadline < next))
            next = deadline;
    }
    memset(&when, 0, sizeof when);
    when.it_value.tv_sec = (time_t)(next / 1000000000u);
    when.it_value.tv_nsec = (long)(next % 1000000000u);
    timerfd_settime(request->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void settle(struct object *request)
{
    uint64_t time;
    unsigned i, debounced = 0;

    for (i = 0; i < request->count; i++)
        debounced += request->chip->lines[request->offsets[i]].deadline != 0;
    if (debounced == 0)
        return;
    time = now(CLOCK_MONOTONIC);
    clear_ready(request->timer_fd);
    for (i = 0; i < request->count; i++) {
        struct line *line = &request->chip->lines[request->offsets[i]];
        int level = request->chip->level[wire_of((int)request->offsets[i])];
        if (line->deadline == 0 || line->deadline > time)
            continue;
        line->deadline = 0;
        if (line->steady != level) {
            line->steady = level;
            put_event(request, line, level);
        }
    }
    set_timer(request);
}

static void see(struct line *line, int level)
{
    if (line->holder == NULL)
        return;
    if (line->debounce_us == 0) {
        put_event(line->holder, line, level);
    } else {
        line->deadline = now(CLOCK_MONOTONIC) + line->debounce_us * 1000u;
        set_timer(line->holder);
    }
}

static int drives(const struct line *line, int level)
{
    if (!(line->flags & GPIO_V2_LINE_FLAG_OUTPUT) || line->driven != level)
        return 0;
    return !(line->flags & (level ? GPIO_V2_LINE_FLAG_OPEN_DRAIN
                                  : GPIO_V2_LINE_FLAG_OPEN_SOURCE));
}

static void settle_wire(struct chip *chip, int offset)
{
    struct line *a = &chip->lines[offset], *b = &chip->lines[partner_of(offset)];
    int *level = &chip->level[wire_of(offset)];
    uint64_t flags = a->flags | b->flags;
    int was = *level;

    if (drives(a, 0) || drives(b, 0))
        *level = 0;
    else if (drives(a, 1) || drives(b, 1))
        *level = 1;
    else if (flags & GPIO_V2_LINE_FLAG_BIAS_PULL_UP)
        *level = 1;
    else if (flags & GPIO_V2_LINE_FLAG_BIAS_PULL_DOWN)
        *level = 0;
    if (*level == was)
        return;
    see(a, *level);
    if (b != a)
        see(b, *level);
}

/* ---- what lines are ------------------------------------------------------------- */

static void describe(struct chip *chip, uint32_t offset, struct gpio_v2_line_info *info)
{
    struct line *line = &chip->lines[offset];
    memset(info, 0, sizeof *info);
    info->offset = offset;
    memcpy(info->name, line->name, sizeof info->name);
    memcpy(info->consumer, line->consumer, sizeof info->consumer);
    info->flags = line->flags;
    if (!(info->flags & DIRECTIONS))
        info->flags |= GPIO_V2_LINE_FLAG_INPUT;
    if (line->holder != NULL || offset == HOG)
        info->flags |= GPIO_V2_LINE_FLAG_USED;
    if (line->debounce_us != 0) {
        info->num_attrs = 1;
        info->attrs[0].id = GPIO_V2_LINE_ATTR_ID_DEBOUNCE;
        info->attrs[0].debounce_period_us = line->debounce_us;
    }
}

static void tell_watchers(struct chip *chip, uint32_t offset, uint32_t type)
{
    int fd;
    for (fd = 0; fd < FDS; fd++) {
        struct object *object = objects[fd];
        struct gpio_v2_line_info_changed *change;
        if (object == NULL || object->is_request || object->chip != chip ||
            !object->watched[offset] || object->waiting == CHANGES)
            continue;
        change = &object->changes[(object->first + object->waiting++) % CHANGES];
        memset(change, 0, sizeof *change);
        describe(chip, offset, &change->info);
        change->timestamp_ns = now(CLOCK_MONOTONIC);
        change->event_type = type;
        set_ready(object);
    }
}

static const struct gpio_v2_line_attribute *attribute(const struct gpio_v2_line_config *config,
                                                      unsigned index, uint32_t id)
{
    unsigned i;
    for (i = 0; i < config->num_attrs; i++)
        if (config->attrs[i].attr.id == id && config->attrs[i].mask >> index & 1)
            return &config->attrs[i].attr;
    return NULL;
}

static uint64_t flags_of(const struct gpio_v2_line_config *config, unsigned index)
{
    const struct gpio_v2_line_attribute *own =
        attribute(config, index, GPIO_V2_LINE_ATTR_ID_FLAGS);
    return own != NULL ? own->flags : config->flags;
}

static int several(uint64_t bits) { return (bits & (bits - 1)) != 0; }

static int check(const struct gpio_v2_line_config *config, unsigned count)
{
    unsigned i;
    if (config->num_attrs > GPIO_V2_LINE_NUM_ATTRS_MAX)
        return -EINVAL;
    for (i = 0; i < count; i++) {
        uint64_t flags = flags_of(config, i);
        if ((flags & ~KNOWN) || several(flags & DIRECTIONS) || several(flags & DRIVES) ||
            several(flags & BIASES) || ((flags & BIASES) && !(flags & DIRECTIONS)) ||
            ((flags & EDGES) && !(flags & GPIO_V2_LINE_FLAG_INPUT)) ||
            ((flags & DRIVES) && !(flags & GPIO_V2_LINE_FLAG_OUTPUT)) ||
            (attribute(config, i, GPIO_V2_LINE_ATTR_ID_DEBOUNCE) != NULL &&
             !(flags & GPIO_V2_LINE_FLAG_INPUT)))
            return -EINVAL;
    }
    return 0;
}

static void configure(struct object *request, const struct gpio_v2_line_config *config,
                      uint32_t change)
{
    struct chip *chip = request->chip;
    unsigned i;

    for (i = 0; i < request->count; i++) {
        int offset = (int)request->offsets[i];
        struct line *line = &chip->lines[offset];
        const struct gpio_v2_line_attribute *value =
            attribute(config, i, GPIO_V2_LINE_ATTR_ID_OUTPUT_VALUES);
        const struct gpio_v2_line_attribute *debounce =
            attribute(config, i, GPIO_V2_LINE_ATTR_ID_DEBOUNCE);
        uint64_t flags = flags_of(config, i);

        /* Without a direction it stays what it was. */
        line->flags = flags & DIRECTIONS ? flags : flags | (line->flags & DIRECTIONS);
        line->flags &= ~(uint64_t)EDGES;
        if (flags & GPIO_V2_LINE_FLAG_OUTPUT)
            line->driven = (value != NULL && value->values >> i & 1) !=
                           !!(flags & GPIO_V2_LINE_FLAG_ACTIVE_LOW);
        settle_wire(chip, offset);
        line->debounce_us = debounce != NULL ? debounce->debounce_period_us : 0;
        line->steady = chip->level[wire_of(offset)];
        line->deadline = 0;
        /* What configuring does to the level is no edge. */
        line->flags |= flags & EDGES;
        tell_watchers(chip, (uint32_t)offset, change);
    }
}

/* ---- chips and requests ----------------------------------------------------------- */

static struct chip *chip_named(const char *name)
{
    struct chip *chip;
    int i;
    for (chip = chips; chip != NULL; chip = chip->next)
        if (!chip->gone && strcmp(chip->name, name) == 0)
            return chip;
    chip = calloc(1, sizeof *chip); /* never freed: a test makes a few */
    if (chip == NULL)
        return NULL;
    snprintf(chip->name, sizeof chip->name, "%s", name);
    for (i = 0; i < WIRED; i++)
        snprintf(chip->lines[i].name, GPIO_MAX_NAME_SIZE, "L%d", i);
    strcpy(chip->lines[FLOAT].name, "float");
    strcpy(chip->lines[HOG].name, "hog");
    strcpy(chip->lines[HOG].consumer, "kernel");
    strcpy(chip->lines[UNPLUG].name, "unplug");
    strcpy(chip->lines[SLOW].name, "slow");
    strcpy(chip->lines[69].name, "L0");
    chip->next = chips;
    chips = chip;
    return chip;
}

static struct object *object_new(struct chip *chip, int is_request)
{
    struct object *object = calloc(1, sizeof *object);
    if (object == NULL)
        return NULL;
    object->chip = chip;
    object->is_request = is_request;
    object->timer_fd = -1;
    object->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return object;
}

static void object_free(struct object *object)
{
    unsigned i;
    if (object->is_request) {
        for (i = 0; i < object->count; i++) {
            struct line *line = &object->chip->lines[object->offsets[i]];
            line->holder = NULL;
            line->flags = line->debounce_us = line->deadline = line->seqno = 0;
            memset(line->consumer, 0, sizeof line->consumer);
            settle_wire(object->chip, (int)object->offsets[i]);
            tell_watchers(object->chip, object->offsets[i], GPIO_V2_LINE_CHANGED_RELEASED);
        }
        close(object->timer_fd);
        close(object->event_fd);
    }
    free(object->events);
    free(object);
}

static int publish(struct object *object, int fd)
{
    if (fd < 0 || fd >= FDS) {
        if (fd >= 0)
            close(fd);
        object_free(object);
        return -EMFILE;
    }
    objects[fd] = object;
    return fd;
}

static int take(struct chip *chip, struct gpio_v2_line_request *asked)
{
    struct object *request;
    struct epoll_event readable = {.events = EPOLLIN};
    int set, fd, result;

    if (asked->num_lines == 0 || asked->num_lines > GPIO_V2_LINES_MAX)
        return -EINVAL;
    result = check(&asked->config, asked->num_lines);
    if (result < 0)
        return result;
    request = object_new(chip, 1);
    if (request == NULL)
        return -ENOMEM;
    request->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    request->size = asked->event_buffer_size == 0 ? asked->num_lines * 16
                    : asked->event_buffer_size > GPIO_V2_LINES_MAX * 16
                        ? GPIO_V2_LINES_MAX * 16
                        : asked->event_buffer_size;
    request->events = calloc(request->size, sizeof *request->events);
    for (; request->count < asked->num_lines; request->count++) {
        uint32_t offset = asked->offsets[request->count];
        struct line *line = &chip->lines[offset < LINES ? offset : 0];
        if (offset >= LINES || line->holder != NULL || offset == HOG) {
            object_free(request);
            return offset >= LINES ? -EINVAL : -EBUSY;
        }
        line->holder = request;
        line->index = request->count;
        memcpy(line->consumer, asked->consumer, sizeof line->consumer);
        request->offsets[request->count] = offset;
    }
    set = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(set, EPOLL_CTL_ADD, request->event_fd, &readable);
    epoll_ctl(set, EPOLL_CTL_ADD, request->timer_fd, &readable);
    configure(request, &asked->config, GPIO_V2_LINE_CHANGED_REQUESTED);
    fd = publish(request, set);
    asked->fd = fd;
    return fd < 0 ? fd : 0;
}

static int chip_call(struct object *object, unsigned long call, void *argument)
{
    struct chip *chip = object->chip;
    struct gpiochip_info *info = argument;
    struct gpio_v2_line_info *line = argument;

    switch (call) {
    case GPIO_GET_CHIPINFO_IOCTL:
        memset(info, 0, sizeof *info);
        memcpy(info->name, chip->name, sizeof info->name);
        snprintf(info->label, sizeof info->label, "loopback %.20s", chip->name);
        info->lines = LINES;
        return 0;
    case GPIO_V2_GET_LINE_IOCTL:
        return take(chip, argument);
    case GPIO_V2_GET_LINEINFO_WATCH_IOCTL:
    case GPIO_V2_GET_LINEINFO_IOCTL:
        if (line->offset >= LINES)
            return -EINVAL;
        if (call == GPIO_V2_GET_LINEINFO_WATCH_IOCTL) {
            if (object->watched[line->offset])
                return -EBUSY;
            object->watched[line->offset] = 1;
        }
        describe(chip, line->offset, line);
        return 0;
    default:
        return -EINVAL;
    }
}

static void unplug(struct chip *chip)
{
    int fd;
    chip->gone = 1;
    for (fd = 0; fd < FDS; fd++)
        if (objects[fd] != NULL && objects[fd]->chip == chip)
            set_ready(objects[fd]);
}

static int line_call(struct object *request, unsigned long call, void *argument)
{
    struct chip *chip = request->chip;
    struct gpio_v2_line_values *values = argument;
    struct line *line;
    unsigned i;
    int result;

    if (call == GPIO_V2_LINE_SET_CONFIG_IOCTL) {
        result = check(argument, request->count);
        if (result == 0)
            configure(request, argument, GPIO_V2_LINE_CHANGED_CONFIG);
        return result;
    }
    if (call != GPIO_V2_LINE_GET_VALUES_IOCTL && call != GPIO_V2_LINE_SET_VALUES_IOCTL)
        return -EINVAL;
    if (request->count < GPIO_V2_LINES_MAX)
        values->mask &= ((uint64_t)1 << request->count) - 1;
    if (values->mask == 0)
        return -EINVAL;
    if (call == GPIO_V2_LINE_GET_VALUES_IOCTL) {
        settle(request);
        values->bits = 0;
    }
    for (i = 0; i < request->count; i++)
        if ((values->mask >> i & 1) && call == GPIO_V2_LINE_SET_VALUES_IOCTL &&
            !(chip->lines[request->offsets[i]].flags & GPIO_V2_LINE_FLAG_OUTPUT))
            return -EPERM;
    for (i = 0; i < request->count; i++) {
        int offset = (int)request->offsets[i];
        if (!(values->mask >> i & 1))
            continue;
        line = &chip->lines[offset];
        if (call == GPIO_V2_LINE_GET_VALUES_IOCTL) {
            int level = line->debounce_us != 0 ? line->steady : chip->level[wire_of(offset)];
            if (level != !!(line->flags & GPIO_V2_LINE_FLAG_ACTIVE_LOW))
                values->bits |= (uint64_t)1 << i;
        } else {
            int active = values->bits >> i & 1;
            line->driven = active != !!(line->flags & GPIO_V2_LINE_FLAG_ACTIVE_LOW);
            settle_wire(chip, offset);
            if (offset == UNPLUG && active)
                unplug(chip);
        }
    }
    return 0;
}

static ssize_t read_queue(struct object *object, char *to, size_t bytes)
{
    size_t size = object->is_request ? sizeof *object->events : sizeof *object->changes;
    ssize_t got = 0;

    if (object->is_request)
        settle(object);
    if (bytes < size)
        return -EINVAL;
    while (object->waiting > 0 && (size_t)got + size <= bytes) {
        const void *from = object->is_request ? (void *)&object->events[object->first]
                                              : (void *)&object->changes[object->first];
        memcpy(to + got, from, size);
        got += (ssize_t)size;
        object->first = (object->first + 1) % (object->is_request ? object->size : CHANGES);
        object->waiting--;
    }
    if (object->waiting == 0)
        clear_ready(object->event_fd);
    return got > 0 ? got : -EAGAIN;
}

/* ---- the five calls ------------------------------------------------------------------ */

static struct object *object_at(int fd)
{
    return fd >= 0 && fd < FDS ? objects[fd] : NULL;
}

int gpio_open(const char *path)
{
    struct object *object;
    struct chip *chip;
    const char *name = path + sizeof PREFIX - 1;
    int fd = -ENOMEM;

    if (strncmp(path, PREFIX, sizeof PREFIX - 1) != 0)
        return gpio_kernel_open(path);
    if (strcmp(name, "denied") == 0)
        return -EACCES;
    if (strcmp(name, "none") == 0)
        return -ENOENT;
    pthread_mutex_lock(&lock);
    chip = chip_named(name);
    object = chip != NULL ? object_new(chip, 0) : NULL;
    if (object != NULL)
        fd = publish(object, object->event_fd);
    pthread_mutex_unlock(&lock);
    return fd;
}

static int touches_slow(struct object *object, unsigned long call, void *argument)
{
    struct gpio_v2_line_values *values = argument;
    unsigned i;

    if (call != GPIO_V2_LINE_GET_VALUES_IOCTL && call != GPIO_V2_LINE_SET_VALUES_IOCTL)
        return 0;
    for (i = 0; i < object->count; i++)
        if (object->offsets[i] == SLOW && (values->mask >> i & 1))
            return 1;
    return 0;
}

int gpio_ioctl(int fd, unsigned long call, void *argument)
{
    struct object *object;
    int result = 0, ours = 0, slow = 0;

    pthread_mutex_lock(&lock);
    object = object_at(fd);
    if (object != NULL) {
        ours = 1;
        slow = touches_slow(object, call, argument);
        result = object->chip->gone ? -ENODEV
                 : object->is_request ? line_call(object, call, argument)
                                      : chip_call(object, call, argument);
    }
    pthread_mutex_unlock(&lock);
    if (slow)
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    return ours ? result : gpio_kernel_ioctl(fd, call, argument);
}

ssize_t gpio_read(int fd, void *to, size_t bytes)
{
    struct object *object;
    ssize_t got = 0;
    int ours = 0;

    pthread_mutex_lock(&lock);
    object = object_at(fd);
    if (object != NULL) {
        ours = 1;
        got = object->chip->gone ? -ENODEV : read_queue(object, to, bytes);
    }
    pthread_mutex_unlock(&lock);
    return ours ? got : gpio_kernel_read(fd, to, bytes);
}

void gpio_close(int fd)
{
    struct object *object;

    pthread_mutex_lock(&lock);
    object = object_at(fd);
    if (object != NULL) {
        objects[fd] = NULL;
        object_free(object);
    }
    pthread_mutex_unlock(&lock);
    gpio_kernel_close(fd);
}

int gpio_each_chip(gpio_each *each, void *context)
{
    struct chip *chip;
    char path[GPIO_PATH_SIZE];

    pthread_mutex_lock(&lock);
    for (chip = chips; chip != NULL; chip = chip->next)
        if (!chip->gone) {
            snprintf(path, sizeof path, PREFIX "%s", chip->name);
            each(context, path);
        }
    pthread_mutex_unlock(&lock);
    return gpio_kernel_each(each, context);
}
