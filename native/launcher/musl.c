/*
 * Where musl answers otherwise than ERTS takes for granted; OTP's own suites notice.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

extern long __real_sysconf(int name);
extern struct hostent *__real_gethostbyaddr(const void *address, socklen_t length, int family);

/* How many numbers are in a list like "0-3,5"; 0 if it cannot be read. */
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
 * musl counts the processors that the calling thread may run on. ERTS asks for those
 * that there are, and compares: once narrowed, it would not see itself widened again.
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
 * musl's gethostbyaddr answers with the address in figures when no host has it.
 * inet:gethostbyaddr/1 has to say nxdomain then, as with every other libc: OTP's
 * own suites look for an unused address that way, and never found one.
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
    return host;
}
