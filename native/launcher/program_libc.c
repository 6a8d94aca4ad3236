/*
 * Small replacements of large functions of the C library, for epmd (program.c): formatted
 * output, memory, time as text, syslog. The linker uses these instead of the library's. epmd
 * takes all other functions from the C library.
 *
 * The replacements do only as much as epmd needs. They print an error as a number, and a time
 * as seconds since 1970.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

/* ---- formatting ------------------------------------------------------------- */

/* The buffer for a text. It keeps the bytes that fit, and counts all bytes. */
struct text {
    char *at;
    size_t room, length;
};

static void add_bytes(struct text *text, const char *bytes, size_t count)
{
    for (; count > 0; count--, bytes++)
        if (text->length++ < text->room)
            text->at[text->length - 1] = *bytes;
}

/* Adds NUMBER with at least LEAST digits. */
static void add_number(struct text *text, unsigned long number, unsigned base, int least)
{
    char digits[3 * sizeof number];
    char *at = digits + sizeof digits;

    for (; number != 0 || least > 0; number /= base, least--)
        *--at = "0123456789abcdef"[number % base];
    add_bytes(text, at, (size_t)(digits + sizeof digits - at));
}

static unsigned long next_number(va_list *rest, int is_long)
{
    return is_long ? va_arg(*rest, unsigned long) : va_arg(*rest, unsigned);
}

/* Formats %d %i %u %x %c %s %m and %%. A precision and l may stand before the letter. */
static size_t format_text(char *buffer, size_t size, const char *format, va_list *rest)
{
    struct text text = {buffer, size > 0 ? size - 1 : 0, 0};
    int problem = errno;

    for (; *format != '\0'; format++) {
        int precision = -1, is_long = 0;
        const char *string;
        unsigned long number;
        char letter;

        if (*format != '%') {
            add_bytes(&text, format, 1);
            continue;
        }
        if (*++format == '.') {
            if (*++format == '*')
                precision = va_arg(*rest, int), format++;
            else
                for (precision = 0; *format >= '0' && *format <= '9'; format++)
                    precision = 10 * precision + *format - '0';
        }
        if (*format == 'l')
            is_long = 1, format++;
        switch (*format) {
        case 'd':
        case 'i':
            number = next_number(rest, is_long);
            if (!is_long)
                number = (unsigned long)(int)number;
            if ((long)number < 0)
                add_bytes(&text, "-", 1);
            add_number(&text, (long)number < 0 ? -number : number, 10,
                       precision < 0 ? 1 : precision);
            break;
        case 'u':
        case 'x':
            add_number(&text, next_number(rest, is_long), *format == 'x' ? 16 : 10,
                       precision < 0 ? 1 : precision);
            break;
        case 'c':
            letter = (char)va_arg(*rest, int);
            add_bytes(&text, &letter, 1);
            break;
        case 's':
            string = va_arg(*rest, const char *);
            add_bytes(&text, string,
                      precision < 0 ? strlen(string) : strnlen(string, (size_t)precision));
            break;
        case 'm':
            string = strerror(problem);
            add_bytes(&text, string, strlen(string));
            break;
        default:
            add_bytes(&text, format, 1);
        }
    }
    if (size > 0)
        buffer[text.length < text.room ? text.length : text.room] = '\0';
    return text.length;
}

int snprintf(char *buffer, size_t size, const char *format, ...)
{
    va_list rest;
    size_t length;

    va_start(rest, format);
    length = format_text(buffer, size, format, &rest);
    va_end(rest);
    return (int)length;
}

/* epmd calls ERTS's variants of these functions. ERTS's definitions would link the C library's
   functions too. */
int erts_vsnprintf(char *buffer, size_t size, const char *format, va_list rest)
{
    va_list copy;
    size_t length;

    va_copy(copy, rest);
    length = format_text(buffer, size, format, &copy);
    va_end(copy);
    return (int)length;
}

int erts_snprintf(char *buffer, size_t size, const char *format, ...)
    __attribute__((alias("snprintf")));

char *strerror(int problem)
{
    static char text[24];

    snprintf(text, sizeof text, "error %d", problem);
    return text;
}

/* ---- output ----------------------------------------------------------------- */

#define MOST_LINE_BYTES 4096 /* epmd's longest line is an error after 2,048 bytes */

/* A stream is only the number of a descriptor: there is no buffer. */
FILE *const stdout = (FILE *)STDOUT_FILENO;
FILE *const stderr = (FILE *)STDERR_FILENO;

size_t fwrite(const void *restrict bytes, size_t size, size_t count, FILE *restrict stream)
{
    ssize_t put = write((int)(intptr_t)stream, bytes, size * count);

    return put < 0 || size == 0 ? 0 : (size_t)put / size;
}

static int print(FILE *stream, const char *format, va_list *rest)
{
    char line[MOST_LINE_BYTES];
    size_t length = format_text(line, sizeof line, format, rest);

    return (int)fwrite(line, 1, length < sizeof line ? length : sizeof line - 1, stream);
}

int printf(const char *restrict format, ...)
{
    va_list rest;
    int length;

    va_start(rest, format);
    length = print(stdout, format, &rest);
    va_end(rest);
    return length;
}

int fprintf(FILE *restrict stream, const char *restrict format, ...)
{
    va_list rest;
    int length;

    va_start(rest, format);
    length = print(stream, format, &rest);
    va_end(rest);
    return length;
}

/* Sends one datagram for each message, and leaves no descriptor open. epmd calls it as a
   daemon. */
void syslog(int priority, const char *format, ...)
{
    static const struct sockaddr_un logger = {AF_UNIX, "/dev/log"};
    char line[MOST_LINE_BYTES];
    int problem = errno, head, fd;
    size_t length;
    va_list rest;

    head = snprintf(line, sizeof line, "<%d>", LOG_USER | priority);
    errno = problem;
    va_start(rest, format);
    length = (size_t)head + format_text(line + head, sizeof line - (size_t)head, format, &rest);
    va_end(rest);
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    sendto(fd, line, length < sizeof line ? length : sizeof line - 1, MSG_NOSIGNAL,
           (const struct sockaddr *)&logger, sizeof logger);
    close(fd);
}

void closelog(void) {}

char *ctime(const time_t *time)
{
    static char text[24];

    snprintf(text, sizeof text, "%lu\n", (unsigned long)*time);
    return text;
}

/* Formats an address for epmd's messages. It writes all eight groups of an IPv6 address. */
const char *inet_ntop(int family, const void *restrict address, char *restrict text,
                      socklen_t size)
{
    const unsigned char *byte = address;
    size_t used = 0;
    int i;

    for (i = 0; i < (family == AF_INET ? 4 : 8); i++)
        used += (size_t)(family == AF_INET
                             ? snprintf(text + used, size - used, i > 0 ? ".%u" : "%u", byte[i])
                             : snprintf(text + used, size - used, i > 0 ? ":%x" : "%x",
                                        byte[2 * i] << 8 | byte[2 * i + 1]));
    return text;
}

/* ---- the system --------------------------------------------------------------- */

/* epmd has no threads, so no thread can hold a lock that the child needs. */
pid_t fork(void) { return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }

/* epmd needs only the number of descriptors. */
long sysconf(int name)
{
    struct rlimit limit;

    if (name == _SC_OPEN_MAX && getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < INT_MAX)
        return (long)limit.rlim_cur;
    return -1;
}

/* ---- memory ----------------------------------------------------------------- */

/* The size of the head before each block. It keeps the block aligned for any type. */
#define HEAD_BYTES 16

/* Maps pages for each block. epmd allocates 3 KB for a connection and 2 KB for a node. */
void *malloc(size_t size)
{
    size_t *head;

    if (size > PTRDIFF_MAX - HEAD_BYTES) {
        errno = ENOMEM;
        return NULL;
    }
    head = mmap(NULL, size + HEAD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                0);
    if (head == MAP_FAILED)
        return NULL;
    *head = size + HEAD_BYTES;
    return (char *)head + HEAD_BYTES;
}

void free(void *memory)
{
    size_t *head = (size_t *)((char *)memory - HEAD_BYTES);
    int problem = errno;

    if (memory == NULL)
        return;
    munmap(head, *head);
    errno = problem;
}
