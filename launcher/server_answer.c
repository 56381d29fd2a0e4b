/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Works around two defects of PMIx's server (seen in 4.2.2 and 5.0.1; the lines are the same in its
 * master of 2025). Both show when it cannot send to a rank:
 *
 *  - If a rank dies while it connects, the answer to it cannot be sent. The server then drops one
 *    reference too many to what it knows of the rank, which is freed while it is still in a list.
 *    The next rank that connects, which may be the same one, started again, reads it there, and
 *    PMIx's thread hangs or crashes.
 *  - If a rank has left, the server cannot send it, say, the event that another one has ended. It
 *    closes the connection and discards what it has not read there: perhaps that the rank has
 *    called nixl_finalize() and PMIx_Finalize().
 *
 * The public interface offers no remedy. libpmix sends by send() and writev(), so this file
 * replaces both: what libpmix cannot send because the rank has gone counts as sent. The server then
 * reads what had come and the end of the connection, as if the rank had died a moment later; on
 * that way it drops nothing twice or too early. For other callers both do what the C library does.
 * (libpmix's own functions around them have names, too, but are called without these where the
 * library was linked with -Bsymbolic-functions, as all of Ubuntu is.)
 */
#define _GNU_SOURCE /* dladdr */
#include "config.h"

#include "launcher/server.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define REPLACEMENT __attribute__((visibility("default")))

static bool is_of_pmix(const void *code)
{
    const void *pmix = dlsym(RTLD_DEFAULT, "PMIx_server_init");
    Dl_info its, of_pmix;

    return pmix != NULL && dladdr(pmix, &of_pmix) != 0 && dladdr(code, &its) != 0 &&
           its.dli_fbase == of_pmix.dli_fbase;
}

/* Has libpmix just failed to send because the rank has gone? Keeps errno. */
static bool is_to_gone_rank(ssize_t n_sent, const void *caller)
{
    int error = errno;
    bool is = n_sent < 0 && (error == EPIPE || error == ECONNRESET) && is_of_pmix(caller);

    errno = error;
    return is;
}

REPLACEMENT ssize_t send(int fd, const void *bytes, size_t nbytes, int flags)
{
    const void *caller = __builtin_return_address(0);
    ssize_t n_sent = sendto(fd, bytes, nbytes, flags, NULL, 0);

    return is_to_gone_rank(n_sent, caller) ? (ssize_t)nbytes : n_sent;
}

REPLACEMENT ssize_t writev(int fd, const struct iovec *parts, int n)
{
    const void *caller = __builtin_return_address(0);
    ssize_t n_sent = syscall(SYS_writev, fd, parts, n);

    if (is_to_gone_rank(n_sent, caller)) {
        n_sent = 0;
        for (int i = 0; i < n; i++) {
            n_sent += (ssize_t)parts[i].iov_len;
        }
    }
    return n_sent;
}
