/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to ranks of this host that cannot be kept until they can be sent, since there is no
 * memory. Linked with --wrap=calloc.
 */
#include "config.h"

#include "fake_job.h"

#include "control/wire.h"
#include "host/conn.h"
#include "host/peer.h"
#include "host/unsent.h"
#include "nixlrun.h"
#include "test/unit/unit.h"
#include "util/clock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

void *__real_calloc(size_t n, size_t nbytes);
void *__wrap_calloc(size_t n, size_t nbytes);

static bool lacks_memory;

void *__wrap_calloc(size_t n, size_t nbytes)
{
    return lacks_memory && n * nbytes == sizeof(struct nxr_unsent) ? NULL
                                                                   : __real_calloc(n, nbytes);
}

static void start(void)
{
    fake_job_start(0);
    fake_must(nxr_peer_get(1) != NULL && nxr_peer_get(2) != NULL);
    host_peer_of(nxr_peer_get(1))->give_up_at = INT64_MAX;
}

/* Nobody listens on the socket of rank 1, so the message must wait. */
static void send_to_1(enum nxr_wire_type type)
{
    union nxr_wire_message message;

    nxr_wire_init(&message, type);
    pthread_mutex_lock(&nxr_job.lock);
    nxr_conn_send(nxr_peer_get_locked(1), &message);
    pthread_mutex_unlock(&nxr_job.lock);
}

static void tick(void)
{
    pthread_mutex_lock(&nxr_job.lock);
    nxr_conn_tick(nxr_now_ns());
    pthread_mutex_unlock(&nxr_job.lock);
}

Test(unsent, a_peer_is_given_up_when_a_message_is_lost, .init = start, .fini = fake_job_stop)
{
    send_to_1(NXR_WIRE_WORK);
    tick();
    cr_expect_eq(nixl_peer_state(1), NIXL_PEER_ALIVE, "it is kept");
    lacks_memory = true;
    send_to_1(NXR_WIRE_WORK);
    lacks_memory = false;
    cr_expect_eq(nixl_peer_state(1), NIXL_PEER_ALIVE, "not while the sender is at work");
    tick();
    cr_expect_eq(nixl_peer_state(1), NIXL_PEER_LOST);
    cr_expect_str_eq(nxr_peer_get(1)->why_not, "this rank had no memory to serve it");
    cr_expect_eq(nixl_peer_state(2), NIXL_PEER_ALIVE, "the others stay");
}

Test(unsent, a_question_is_asked_again, .init = start, .fini = fake_job_stop)
{
    lacks_memory = true;
    send_to_1(NXR_WIRE_RESOLVE);
    lacks_memory = false;
    tick();
    cr_expect_eq(nixl_peer_state(1), NIXL_PEER_ALIVE);
}

Test(unsent, a_message_with_a_descriptor_fails, .init = start, .fini = fake_job_stop)
{
    union nxr_wire_message message;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    nxr_wire_init(&message, NXR_WIRE_BOUNCE);
    lacks_memory = true;
    pthread_mutex_lock(&nxr_job.lock);
    cr_expect_eq(nxr_conn_send_fd(nxr_peer_get_locked(1), &message, fd), NIXL_E_NO_MEMORY);
    pthread_mutex_unlock(&nxr_job.lock);
    lacks_memory = false;
    cr_expect_eq(fcntl(fd, F_GETFD), -1, "its descriptor is closed");
    tick();
    cr_expect_eq(nixl_peer_state(1), NIXL_PEER_ALIVE, "the caller has failed");
}
