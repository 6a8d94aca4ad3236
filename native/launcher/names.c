/*
 * musl's gethostbyaddr answers with the address in figures when no host has it.
 * inet:gethostbyaddr/1 has to say nxdomain then, as with every other libc: OTP's
 * own suites look for an unused address that way, and never found one.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>

extern struct hostent *__real_gethostbyaddr(const void *address, socklen_t length, int family);

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
