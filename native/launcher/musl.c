/*
 * Replaces functions of musl that return other results than ERTS expects. OTP's test
 * suites fail without these replacements.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern long __real_sysconf(int name);
extern struct hostent *__real_gethostbyname(const char *name);
extern struct hostent *__real_gethostbyaddr(const void *address, socklen_t length, int family);

/* Counts the numbers in the file at LIST, such as "0-3,5". Returns 0 if it cannot read it. */
static long processors(const char *list)
{
    FILE *file = fopen(list, "re");
    long count = 0;
    int first, last, found;

    if (file == NULL)
        return 0;
    while ((found = fscanf(file, "%d-%d", &first, &last)) > 0) {
        count += found == 2 ? last - first + 1 : 1;
        if (fgetc(file) != ',')
            break;
    }
    fclose(file);
    return count;
}

/*
 * musl counts the processors that the calling thread may run on. ERTS needs the processors of
 * the machine, and compares both numbers. With musl's number, ERTS would not notice when it
 * may run on more processors again.
 */
long __wrap_sysconf(int name)
{
    long count = 0;

    if (name == _SC_NPROCESSORS_CONF)
        count = processors("/sys/devices/system/cpu/present");
    if (name == _SC_NPROCESSORS_ONLN)
        count = processors("/sys/devices/system/cpu/online");
    return count > 0 ? count : __real_sysconf(name);
}

/*
 * musl's list of the other names of a host begins with the host's name. inet:gethostbyname/1
 * returns the list, and with every other libc the name is not in it.
 */
static struct hostent *without_own_name(struct hostent *host)
{
    if (host != NULL && host->h_aliases[0] == host->h_name)
        host->h_aliases++;
    return host;
}

struct hostent *__wrap_gethostbyname(const char *name)
{
    return without_own_name(__real_gethostbyname(name));
}

/*
 * When no host has the address, musl's gethostbyaddr returns the address as text.
 * inet:gethostbyaddr/1 must return nxdomain then, as with every other libc: OTP's test suites
 * look for an unused address that way.
 */
struct hostent *__wrap_gethostbyaddr(const void *address, socklen_t length, int family)
{
    struct hostent *host = __real_gethostbyaddr(address, length, family);
    char figures[INET6_ADDRSTRLEN];

    if (host != NULL && inet_ntop(family, address, figures, sizeof figures) != NULL &&
        strcmp(host->h_name, figures) == 0) {
        h_errno = HOST_NOT_FOUND;
        return NULL;
    }
    return without_own_name(host);
}
