/* SPDX-License-Identifier: Apache-2.0 */
/* The made-up job, and its list of subsystems. No lock of its own: one thread. */
#include "fake_job.h"

#include "core/carrier.h"
#include "core/event.h"
#include "core/life.h"
#include "core/poll.h"
#include "core/progress.h"
#include "core/route.h"
#include "core/subsystem.h"
#include "core/wireup.h"
#include "memory/memory.h"
#include "nixlrun.h"
#include "region/region.h"
#include "util/env.h"
#include "util/log.h"

#include <string.h>

/* A folder has those below it (test/metrics/floors). host and net are beside each other. */
#ifdef FAKE_FOLDER_ATTACH
#define FAKE_FOLDER_HOST
#endif
#ifdef FAKE_FOLDER_SYNC
#define FAKE_FOLDER_TRANSFER
#endif
#ifdef FAKE_FOLDER_TRANSFER
#define FAKE_FOLDER_HOST
#define FAKE_FOLDER_NET
#endif

#if defined(FAKE_FOLDER_HOST) || defined(FAKE_FOLDER_NET)
#include "control/detector.h"
#include "control/finalize_barrier.h"
#include "control/question.h"
#include "core/request.h"
#include "memory/device.h"
#include "memory/device_atomic.h"
#else
#define FAKE_FOLDER_ALL
#endif
#if defined(FAKE_FOLDER_HOST) || defined(FAKE_FOLDER_ALL)
#include "host/atomic_serve.h"
#include "host/conn.h"
#include "host/deathwatch.h"
#include "host/connect.h"
#include "host/liveness.h"
#endif
#ifdef FAKE_FOLDER_ATTACH
#include "attach/attach.h"
#endif
#ifdef FAKE_FOLDER_NET
#include "net/net.h"
#endif
#ifdef FAKE_FOLDER_TRANSFER
#include "transfer/copy_thread.h"
#include "transfer/staging.h"
#include "transfer/window.h"
#include "transfer/xfer.h"
#include "transports/self/self.h"
#endif
#if defined(FAKE_FOLDER_SYNC) || defined(FAKE_FOLDER_ALL)
#include "sync/inbox.h"
#include "sync/notify.h"
#endif
#ifdef FAKE_FOLDER_SYNC
#include "sync/stream_signal.h"
#endif

struct fake_job fake_job;

static struct nxr_full_card cards[FAKE_SIZE];

/* ---- the subsystems -------------------------------------------------------------------------- */

#ifdef FAKE_FOLDER_ALL
static void compose(void)
{
    nxr_subsystems_compose();
}
#else

#ifndef FAKE_FOLDER_HOST
/* What the host folder does otherwise: a rank that sends a greeting is reached by its network. */
static void link_remote(struct nxr_peer *peer, const struct nxr_full_card *card)
{
    char why[256];

    nxr_peer_set_card(peer, &card->head);
    if (nxr_carrier_far()->add_peer(peer, card, why, sizeof(why)) == NIXL_OK) {
        atomic_store(&peer->connection, NXR_CONNECTION_UP);
    }
}

static const struct nxr_subsystem greeting_subsystem = {
    .name = "greeting",
    .remote_greeting = link_remote,
};

static const struct nxr_carrier unlinked_carrier = {.name = "unlinked"};
#endif

/* In the order of src/init.c. */
static const struct nxr_subsystem *const subsystems[] = {
    &nxr_memory_subsystem,
    &nxr_event_subsystem,
#ifdef FAKE_FOLDER_NET
    &nxr_net_subsystem,
#endif
#ifdef FAKE_FOLDER_TRANSFER
    &nxr_windows_subsystem,
#endif
#ifdef FAKE_FOLDER_HOST
    &nxr_atomics_subsystem,
#endif
#ifdef FAKE_FOLDER_TRANSFER
    &nxr_bounce_subsystem,
#endif
    &nxr_device_atomics_subsystem,
    &nxr_device_subsystem,
#ifdef FAKE_FOLDER_TRANSFER
    &nxr_staging_subsystem,
#endif
    &nxr_transports_subsystem,
    &nxr_life_subsystem,
#ifdef FAKE_FOLDER_SYNC
    &nxr_stream_signal_subsystem,
#endif
    &nxr_region_subsystem,
#ifdef FAKE_FOLDER_SYNC
    &nxr_notify_subsystem,
#endif
    &nxr_request_subsystem,
#ifdef FAKE_FOLDER_HOST
    &nxr_connect_subsystem,
    &nxr_conn_subsystem,
    &nxr_liveness_subsystem,
    &nxr_deathwatch_subsystem,
#else
    &greeting_subsystem,
#endif
    &nxr_question_subsystem,
#ifdef FAKE_FOLDER_ATTACH
    &nxr_detach_subsystem,
#endif
    &nxr_detector_subsystem,
    &nxr_finalize_barrier_subsystem,
#ifdef FAKE_FOLDER_TRANSFER
    &nxr_copy_thread_subsystem,
    &nxr_xfer_subsystem,
#endif
#ifdef FAKE_FOLDER_NET
    &nxr_net_modules_subsystem,
#endif
};

static void compose(void)
{
#ifdef FAKE_FOLDER_NET
    nxr_pollers.net = nxr_net_poll;
#endif
#ifdef FAKE_FOLDER_TRANSFER
    nxr_pollers.copy = nxr_copy_thread_help_now;
    nxr_pollers.copy_end = nxr_copy_thread_help_ends;
    nxr_pollers.copy_briefly = nxr_copy_thread_look;
    nxr_transport_register(&nxr_transport_self);
#endif
#ifdef FAKE_FOLDER_HOST
    nxr_pollers.asked = nxr_connect_serve_asked;
#endif
#if defined(FAKE_FOLDER_TRANSFER)
    nxr_carriers_set(&nxr_host_carrier, &nxr_net_carrier);
#elif defined(FAKE_FOLDER_HOST)
    nxr_carriers_set(&nxr_host_carrier, NULL);
#else
    nxr_carriers_set(&unlinked_carrier, &nxr_net_carrier);
#endif
    nxr_subsystems_set(subsystems, sizeof(subsystems) / sizeof(subsystems[0]));
}
#endif

static void link_self(struct nxr_peer *self)
{
#if defined(FAKE_FOLDER_HOST) || defined(FAKE_FOLDER_ALL)
    nxr_connect_self(self);
#else
    nxr_peer_set_card(self, &cards[0].head);
    atomic_store(&self->connection, NXR_CONNECTION_UP);
#endif
}

/* Drop the notifications that have come. */
static void reset_inbox(void)
{
#if defined(FAKE_FOLDER_SYNC) || defined(FAKE_FOLDER_ALL)
    nxr_inbox_reset();
    nxr_inbox_add(nxr_job.peers[0]);
#endif
}

/* ---- the job --------------------------------------------------------------------------------- */

static void ignore_line(enum nixl_log_level level, const char *subsystem, const char *text,
                        void *arg)
{
    (void)level;
    (void)subsystem;
    (void)arg;
    fake_must(text[0] != '\0' && strchr(text, '\n') == NULL);
}

static void make_cards(size_t address_nbytes)
{
    static const char address[256];

    fake_must(address_nbytes <= sizeof(address));
    for (int rank = 0; rank < FAKE_SIZE; rank++) {
        const struct nxr_identity identity = {nxr_job.self.job, rank, FAKE_INCARNATION};

        fake_must(nxr_card_make(&identity, &cards[rank]) == NIXL_OK);
        /* The same in each run, so that an input always does the same. */
        memset(cards[rank].head.nonce, 1 + rank, sizeof(cards[rank].head.nonce));
        memset(cards[rank].head.secret, 11 + rank, sizeof(cards[rank].head.secret));
        memset(cards[rank].head.host, 'a' + rank, 1);
        memset(cards[rank].head.boot_id, 'a' + rank, 1);
        if (address_nbytes > 0) {
            fake_must(nxr_card_add_address(&cards[rank], "ucx", address, address_nbytes) ==
                      NIXL_OK);
            fake_must(nxr_card_add_address(&cards[rank], "ofi", address, address_nbytes) ==
                      NIXL_OK);
        }
    }
}

static void make_job(size_t address_nbytes)
{
    struct nxr_memory memory;
    char why[256];

    nixl_log_set_fn(ignore_line, NULL);
    fake_must(nxr_env_parse(&nxr_env, why, sizeof(why)) == NIXL_OK);
    compose();
    nxr_route_init();
    nxr_job = (struct nxr_job){.size = FAKE_SIZE,
                               .n_numbers = FAKE_SIZE,
                               .event_fd = -1,
                               .control_fd = -1,
                               .self = {FAKE_JOB, 0, FAKE_INCARNATION}};
    pthread_mutex_init(&nxr_job.lock, NULL);
    make_cards(address_nbytes);
    nxr_job.card = cards[0];
    fake_must(nxr_control_create(&nxr_job.self, FAKE_SIZE, nxr_job.card.head.nonce,
                                 &nxr_job.control, &nxr_job.control_fd) == NIXL_OK);
    nxr_job.peers = calloc(FAKE_SIZE, sizeof(*nxr_job.peers));
    fake_job.own = malloc(FAKE_OWN_NBYTES);
    fake_must(nxr_job.peers != NULL && fake_job.own != NULL && nxr_peer_get(0) != NULL);
    memset(fake_job.own, 0, FAKE_OWN_NBYTES);
    pthread_mutex_lock(&nxr_job.lock);
    link_self(nxr_peer_get_locked(0));
    memory = (struct nxr_memory){.kind = &nxr_memory_host,
                                 .addr = fake_job.own,
                                 .nbytes = FAKE_OWN_NBYTES,
                                 .fd = -1,
                                 .is_registered = true};
    fake_must(nxr_publish("own", &memory, &fake_job.published) == NIXL_OK);
    fake_job.own_key = fake_job.published->key;
    pthread_mutex_unlock(&nxr_job.lock);
    atomic_store(&nxr_job.state, NXR_STATE_READY);
}

/* All have met the first processes of the others. */
static uint32_t first_incarnation(int rank)
{
    (void)rank;
    return 0;
}

static bool no_kept_card(int rank, struct nxr_full_card *card_p)
{
    (void)rank;
    (void)card_p;
    return false;
}

static const struct nxr_wireup fake_wireup = {
    .kept_card = no_kept_card,
    .incarnation_of = first_incarnation,
};

void fake_job_start(size_t address_nbytes)
{
    nxr_wireup_set(&fake_wireup);
    if (nxr_job.control == NULL) {
        make_job(address_nbytes);
    }
}

void fake_job_stop(void)
{
    reset_inbox();
    nxr_event_reset();
    for (int rank = 1; rank < FAKE_SIZE; rank++) {
        if (nxr_job.peers[rank] != NULL) {
            pthread_mutex_lock(&nxr_job.lock);
            nxr_publish_unpark_remote(nxr_job.peers[rank]);
            pthread_mutex_unlock(&nxr_job.lock);
            nxr_peer_free(nxr_job.peers[rank]);
            nxr_job.peers[rank] = NULL;
        }
        memset(nxr_control_own_rings(nxr_job.control, rank).ring, 0, NXR_RING_NBYTES);
        atomic_store(&nxr_job.control->credits[rank].taken, 0);
    }
}

const struct nxr_full_card *fake_card(int rank)
{
    return &cards[rank];
}

void fake_lose(int rank)
{
    nxr_life_lost(nxr_peer_get(rank));
}
