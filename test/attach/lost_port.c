/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port that a firewall closes without a word: for a program that is started with this library in
 * LD_PRELOAD, connections to port LOST_PORT lead to port SILENT_PORT, where somebody says nothing.
 */
#include "config.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

typedef int connect_fn(int fd, const struct sockaddr *to, socklen_t nbytes);

static in_port_t port_of(const char *variable)
{
    const char *text = getenv(variable);

    return htons((in_port_t)(text != NULL ? atoi(text) : 0));
}

__attribute__((visibility("default"))) int connect(int fd, const struct sockaddr *to,
                                                   socklen_t nbytes)
{
    connect_fn *real = (connect_fn *)dlsym(RTLD_NEXT, "connect");
    struct sockaddr_in other;

    if (to->sa_family != AF_INET || nbytes < sizeof(other)) {
        return real(fd, to, nbytes);
    }
    other = *(const struct sockaddr_in *)to;
    if (other.sin_port == port_of("LOST_PORT")) {
        other.sin_port = port_of("SILENT_PORT");
    }
    return real(fd, (const struct sockaddr *)&other, sizeof(other));
}
