/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the whole library has in its lists, against the table of variables; and how a process of a
 * single rank joins its job when it lacks something, or for the second time.
 */
#include "core/progress.h"
#include "core/subsystem.h"
#include "net/net.h"
#include "nixlrun.h"
#include "transfer/copy_thread.h"
#include "transports/transport.h"
#include "util/env.h"

#include "test/unit/unit.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

TestSuite(init, .timeout = 120);

Test(init, version_is_that_of_the_headers)
{
    char text[32];

    cr_expect(eq(u32, nixl_version(), NIXL_VERSION));
    snprintf(text, sizeof(text), "%d.%d.%d", NIXL_VERSION_MAJOR, NIXL_VERSION_MINOR,
             NIXL_VERSION_PATCH);
    cr_expect(eq(int, strcmp(text, NIXLRUN_VERSION), 0), "%s", text);
    cr_expect(lt(int, NIXL_VERSION_NUMBER(0, 9, 999), NIXL_VERSION_NUMBER(0, 10, 0)));
    cr_expect(lt(int, NIXL_VERSION_NUMBER(0, 999, 999), NIXL_VERSION_NUMBER(1, 0, 0)));
}

static bool must_lack_descriptor; /* for the next eventfd() */

int __real_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags);

int __wrap_eventfd(unsigned count, int flags)
{
    if (must_lack_descriptor) {
        must_lack_descriptor = false;
        errno = EMFILE;
        return -1;
    }
    return __real_eventfd(count, flags);
}

static bool must_lack_watch; /* for the next epoll_ctl() that adds */

int __real_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event);

int __wrap_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event)
{
    if (must_lack_watch && op == EPOLL_CTL_ADD) {
        must_lack_watch = false;
        errno = ENOSPC;
        return -1;
    }
    return __real_epoll_ctl(epoll_fd, op, fd, event);
}

Test(init, the_names_of_transports_are_those_that_there_are)
{
    char why[256] = "", names[256] = "allowed: a list of ";
    size_t used = strlen(names);

    nxr_subsystems_compose();
    for (size_t i = 0; i < nxr_n_transports; i++) {
        used +=
            (size_t)snprintf(names + used, sizeof(names) - used, "%s, ", nxr_transports[i]->name);
    }
    for (size_t i = 0; i < nxr_net_count(); i++) {
        used += (size_t)snprintf(names + used, sizeof(names) - used, "%s, ", nxr_net_name(i));
    }
    cr_expect(
        eq(int, nxr_env_check("NIXLRUN_TRANSPORTS=none", why, sizeof(why)), NIXL_E_INVALID_ARG));
    cr_expect(strstr(why, names) != NULL, "'%s' lacks '%s'", why, names);
}

Test(init, without_a_descriptor_for_events_there_is_no_job)
{
    must_lack_descriptor = true;
    cr_expect(eq(int, nixl_init(NULL), NIXL_E_LIMIT));
    cr_expect(not(must_lack_descriptor));
    cr_expect(eq(int, nixl_init(NULL), NIXL_OK), "the failure left nothing behind");
    cr_expect(eq(int, nixl_finalize(), NIXL_OK));
}

Test(init, a_service_thread_that_could_not_be_woken_is_not_started)
{
    must_lack_watch = true;
    cr_expect(ne(int, nixl_init(NULL), NIXL_OK));
    cr_expect(not(must_lack_watch));
    cr_expect(eq(int, nixl_init(NULL), NIXL_OK), "the failure left nothing behind");
    cr_expect(eq(int, nixl_finalize(), NIXL_OK));
}

Test(init, each_job_of_a_process_has_its_copy_thread)
{
    for (int i = 0; i < 2; i++) {
        cr_assert(eq(int, nixl_init(NULL), NIXL_OK));
        cr_expect(nxr_copy_thread_is_there(), "job %d", i);
        cr_expect(eq(int, nixl_finalize(), NIXL_OK));
    }
}
