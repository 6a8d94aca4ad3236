/* Configures the network card eth0 as the variable WHITTLE_NETWORK says:
 *
 *   dhcp                                       asks a DHCP server
 *   ADDRESS/BITS[,GATEWAY[,NAME SERVER]]       fixed addresses, as 192.168.1.5/24,192.168.1.1
 *
 * It speaks IPv4 only. It asks a DHCP server once, and does not renew the lease. It writes the name
 * server to /etc/resolv.conf, which the C library and Erlang read.
 *
 * The structures are those of linux/if.h and linux/route.h. These headers need a C library's. */

#ifndef NETWORK_H
#define NETWORK_H

#include <asm/errno.h>
#include <asm/poll.h>
#include <asm/socket.h>
#include <linux/sockios.h>
#include <linux/time_types.h>

#define AF_INET 2
#define CARD "eth0"
#define RESOLV "/etc/resolv.conf"
#define LOST ": the program starts without a network"

/* A server has 10 seconds in all, and 2 of them for each answer, whatever else arrives on the port
 * of a client. A card of a real board needs up to 3 for its link. */
#define TRIES 5
#define PATIENCE 2
#define MOST_SECONDS 10

struct address {
    unsigned short family;
    unsigned char port[2], ip[4], zero[8];
};

struct request {
    char name[16];
    union {
        struct address address;
        short flags;
        char space[24];
    } u;
};

struct route {
    unsigned long pad1;
    struct address destination, gateway, mask;
    unsigned short flags;
    short pad2;
    unsigned long pad3;
    void *pad4;
    short metric;
    char *device;
    unsigned long mtu, window;
    unsigned short timeout;
};

struct part {
    void *at;
    unsigned long size;
};

struct message {
    struct address *to;
    int size;
    struct part *parts;
    unsigned long count;
    void *control;
    unsigned long controls;
    int flags;
};

struct lease {
    unsigned char address[4], mask[4], gateway[4], server[4], names[4];
};

static void copy(void *to, const void *from, long size) {
    volatile char *a = to;
    const char *b = from;
    while (size-- > 0)
        *a++ = *b++;
}

static int is_set(const unsigned char ip[4]) { return ip[0] | ip[1] | ip[2] | ip[3]; }

static int same(const unsigned char *a, const unsigned char *b, long size) {
    while (size > 0 && *a == *b)
        a++, b++, size--;
    return size == 0;
}

/* Sets one property of a card. */
static long set(long fd, const char *card, long what, const unsigned char ip[4]) {
    static struct request request;
    copy(request.name, card, length(card) + 1);
    request.u.address.family = AF_INET;
    copy(request.u.address.ip, ip, 4);
    return CALL3(__NR_ioctl, fd, what, &request);
}

static long up(long fd, const char *card) {
    static struct request request;
    long result;
    copy(request.name, card, length(card) + 1);
    result = CALL3(__NR_ioctl, fd, SIOCGIFFLAGS, &request);
    if (result < 0)
        return result;
    request.u.flags |= 1; /* IFF_UP */
    return CALL3(__NR_ioctl, fd, SIOCSIFFLAGS, &request);
}

/* Fixed addresses */

static const char *address(const char *text, unsigned char ip[4]) {
    int i, part;
    for (i = 0; i < 4; i++) {
        if (i > 0 && *text++ != '.')
            return 0;
        text = number(text, 255, &part);
        if (!text)
            return 0;
        ip[i] = part;
    }
    return text;
}

/* Returns whether the text describes a lease. */
static int fixed(const char *text, struct lease *lease) {
    int bits, i;
    text = address(text, lease->address);
    if (!text || *text != '/' || !(text = number(text + 1, 32, &bits)))
        return 0;
    for (i = 0; i < bits; i++)
        lease->mask[i >> 3] |= 0x80 >> (i & 7);
    if (*text == ',' && !(text = address(text + 1, lease->gateway)))
        return 0;
    if (*text == ',' && !(text = address(text + 1, lease->names)))
        return 0;
    return !*text;
}

/* DHCP (RFC 2131, RFC 2132) */

#define OPTIONS 240
#define SENT 300 /* some servers ignore a shorter message */
#define MOST_RECEIVED 1500

enum { DISCOVER = 1, OFFER, REQUEST, DECLINE, ACK };
enum { MASK = 1, ROUTER = 3, NAMES = 6, WANTED = 50, TYPE = 53, SERVER = 54, ASKED = 55 };
enum { END = 255 };

static const unsigned char cookie[] = {99, 130, 83, 99};
static unsigned char id[4], hardware[6];

static unsigned char *option(unsigned char *to, int code, const void *value, int size) {
    *to++ = code;
    *to++ = size;
    copy(to, value, size);
    return to + size;
}

/* Sends a message to all, because the board has no address yet. The answer goes to all too. */
static void ask(long fd, int type, const struct lease *lease) {
    static const unsigned char asked[] = {MASK, ROUTER, NAMES};
    static unsigned char packet[SENT];
    static struct address all;
    static struct message message;
    static struct part part;
    unsigned char *at, kind = type;
    long i;
    for (i = 0; i < SENT; i++)
        ((volatile unsigned char *)packet)[i] = 0;
    packet[0] = packet[1] = 1; /* a request, Ethernet */
    packet[2] = sizeof hardware;
    packet[10] = 0x80; /* the answer goes to all */
    copy(packet + 4, id, sizeof id);
    copy(packet + 28, hardware, sizeof hardware);
    copy(packet + OPTIONS - 4, cookie, sizeof cookie);
    at = option(packet + OPTIONS, TYPE, &kind, 1);
    if (type == REQUEST) {
        at = option(at, WANTED, lease->address, 4);
        at = option(at, SERVER, lease->server, 4);
    }
    at = option(at, ASKED, asked, sizeof asked);
    *at = END;
    all.family = AF_INET;
    all.port[1] = 67;
    for (i = 0; i < 4; i++)
        all.ip[i] = 255;
    part.at = packet;
    part.size = SENT;
    message.to = &all;
    message.size = sizeof all;
    message.parts = &part;
    message.count = 1;
    CALL3(__NR_sendmsg, fd, &message, 0);
}

/* Reads the options of an answer, and returns its type, or 0 if it is none for this board. */
static int answered(const unsigned char *packet, long size, struct lease *lease) {
    const unsigned char *at = packet + OPTIONS, *end = packet + size;
    struct lease read = {{0}, {0}, {0}, {0}, {0}};
    int type = 0;
    if (size < OPTIONS || packet[0] != 2 || !same(packet + 4, id, sizeof id)
        || !same(packet + OPTIONS - 4, cookie, sizeof cookie))
        return 0;
    copy(read.address, packet + 16, 4);
    while (at < end && *at != END) {
        int code = at[0], bytes;
        if (code == 0) {
            at++;
            continue;
        }
        if (end - at < 2 || (bytes = at[1]) > end - at - 2)
            return 0;
        if (code == TYPE && bytes == 1)
            type = at[2];
        else if (bytes >= 4 && (code == MASK || code == ROUTER || code == NAMES || code == SERVER))
            copy(code == MASK     ? read.mask
                 : code == ROUTER ? read.gateway
                 : code == NAMES  ? read.names
                                  : read.server,
                 at + 2, 4);
        at += 2 + bytes;
    }
    copy(lease, &read, sizeof read);
    return type;
}

static void now(struct __kernel_timespec *at) {
#ifdef __NR_clock_gettime64
    CALL2(__NR_clock_gettime64, 1, at); /* CLOCK_MONOTONIC */
#else
    CALL2(__NR_clock_gettime, 1, at);
#endif
}

static int is_before(const struct __kernel_timespec *a, const struct __kernel_timespec *b) {
    return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* Waits until a message arrives, and returns 0 if none does before a moment. */
static int arrives(long fd, const struct __kernel_timespec *until) {
    struct {
        int fd;
        short events, happened;
    } poll = {(int)fd, POLLIN, 0};
    struct __kernel_timespec left;
    now(&left);
    if (!is_before(&left, until))
        return 0;
    left.tv_sec = until->tv_sec - left.tv_sec;
    left.tv_nsec = until->tv_nsec - left.tv_nsec;
    if (left.tv_nsec < 0)
        left.tv_sec--, left.tv_nsec += 1000000000;
#ifdef __NR_ppoll_time64
    return CALL5(__NR_ppoll_time64, &poll, 1, &left, 0, 0) > 0;
#else
    return CALL5(__NR_ppoll, &poll, 1, &left, 0, 0) > 0;
#endif
}

/* Waits for an answer of a type. */
static int receive(long fd, int type, const struct __kernel_timespec *end, struct lease *lease) {
    static unsigned char packet[MOST_RECEIVED];
    struct __kernel_timespec until;
    struct lease read;
    long size;
    now(&until);
    until.tv_sec += PATIENCE;
    while (arrives(fd, is_before(&until, end) ? &until : end)) {
        size = CALL3(__NR_read, fd, packet, sizeof packet);
        if (size < 0 && size != -EAGAIN) /* no bytes: the message was damaged */
            return 0;
        if (answered(packet, size, &read) == type && is_set(read.address)) {
            copy(lease, &read, sizeof read);
            return 1;
        }
    }
    return 0;
}

static int dhcp(long fd, struct lease *lease) {
    static struct request request;
    static struct address own;
    struct __kernel_timespec end;
    static const int yes = 1;
    int tries;
    copy(request.name, CARD, sizeof CARD);
    if (CALL3(__NR_ioctl, fd, SIOCGIFHWADDR, &request) < 0)
        return 0;
    copy(hardware, request.u.address.port, sizeof hardware);
    copy(id, hardware + 2, sizeof id);
    CALL3(__NR_getrandom, id, sizeof id, 1); /* GRND_NONBLOCK */
    own.family = AF_INET;
    own.port[1] = 68;
    CALL5(__NR_setsockopt, fd, SOL_SOCKET, SO_BROADCAST, &yes, sizeof yes);
    CALL5(__NR_setsockopt, fd, SOL_SOCKET, SO_BINDTODEVICE, CARD, sizeof CARD);
    if (CALL3(__NR_bind, fd, &own, sizeof own) < 0)
        return 0;
    now(&end);
    end.tv_sec += MOST_SECONDS;
    for (tries = 0; tries < TRIES; tries++) {
        ask(fd, DISCOVER, 0);
        if (receive(fd, OFFER, &end, lease)) {
            ask(fd, REQUEST, lease);
            if (receive(fd, ACK, &end, lease))
                return 1;
        }
    }
    return 0;
}

/* Writes the name server for the C library. */
static void write_names(const unsigned char ip[4]) {
    char digits[4];
    int i;
    long fd = CALL4(__NR_openat, AT_FDCWD, RESOLV, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0)
        return;
    CALL3(__NR_write, fd, "nameserver ", 11);
    for (i = 0; i < 4; i++) {
        const char *part = decimal(ip[i], digits);
        CALL3(__NR_write, fd, part, length(part));
        CALL3(__NR_write, fd, i < 3 ? "." : "\n", 1);
    }
    CALL1(__NR_close, fd);
}

static int apply(long fd, const struct lease *lease) {
    static struct route route;
    if (set(fd, CARD, SIOCSIFADDR, lease->address) < 0
        || (is_set(lease->mask) && set(fd, CARD, SIOCSIFNETMASK, lease->mask) < 0))
        return 0;
    if (is_set(lease->gateway)) {
        route.destination.family = route.gateway.family = route.mask.family = AF_INET;
        copy(route.gateway.ip, lease->gateway, 4);
        route.flags = 3; /* RTF_UP, RTF_GATEWAY */
        if (CALL3(__NR_ioctl, fd, SIOCADDRT, &route) < 0)
            return 0;
    }
    if (is_set(lease->names))
        write_names(lease->names);
    return 1;
}

/* Does everything, and says what fails. The program starts in any case. */
static void network(void) {
    static struct lease lease;
    const char *how = value("WHITTLE_NETWORK");
    long fd;
    if (!how)
        return;
    fd = CALL3(__NR_socket, AF_INET, 2 | O_CLOEXEC | O_NONBLOCK, 0); /* SOCK_DGRAM */
    up(fd, "lo");
    if (up(fd, CARD) < 0)
        say("there is no network card " CARD LOST, 0, 0);
    else if (equal(how, "dhcp") ? !dhcp(fd, &lease) : !fixed(how, &lease))
        say(equal(how, "dhcp") ? "no DHCP server answers on " CARD LOST
                               : "WHITTLE_NETWORK is neither dhcp nor "
                                 "ADDRESS/BITS[,GATEWAY[,NAME SERVER]]" LOST,
            0, 0);
    else if (!apply(fd, &lease))
        say(CARD " refuses its addresses, or a gateway is not in its network: ", how, 0);
    CALL1(__NR_close, fd);
}

#endif
