/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The detector's rings: which ranks a rank watches on behalf of all, before and after deaths, and
 * whom it informs of an end. The job is simulated: eight ranks on four hosts; a carrier records
 * what is asked for and reported. The test sets the time.
 */
#include "config.h"

#include "control/detector.h"
#include "control/dispatch.h"
#include "core/carrier.h"
#include "core/control.h"
#include "core/event.h"
#include "core/life.h"
#include "core/node.h"
#include "core/service.h"
#include "core/subsystem.h"
#include "util/clock.h"

#include "test/unit/unit.h"

#include <stdlib.h>

enum { SIZE = 8, LEFT = 2, DIED = 1 };

static const int hosts[SIZE] = {0, 0, 0, 1, 1, 2, 2, 3};
static bool is_wanted[SIZE];
static int told[SIZE][SIZE]; /* [to][of]: DIED, LEFT; 0: nothing */
static struct nxr_wire_death last_told;

static void detector_case_want(struct nxr_peer *peer)
{
    cr_expect(ne(int, peer->rank, nxr_job.rank), "a rank has no connection to itself");
    is_wanted[peer->rank] = true;
}

static void detector_case_send(struct nxr_peer *peer, const union nxr_wire_message *message)
{
    cr_assert(eq(int, message->header.type, NXR_WIRE_DEATH));
    last_told = message->death;
    told[peer->rank][message->death.dead.rank] = message->death.has_left != 0 ? LEFT : DIED;
}

static const struct nxr_carrier carrier = {
    .name = "made up", .want = detector_case_want, .send = detector_case_send};
static const struct nxr_subsystem *const detector_list[] = {&nxr_event_subsystem,
                                                            &nxr_detector_subsystem};

/* Be that rank of the job. */
static void begin_as(int rank)
{
    int *nodes = malloc(sizeof(hosts));

    cr_assert(ne(ptr, nodes, NULL));
    memcpy(nodes, hosts, sizeof(hosts));
    nxr_nodes_set(nodes, hosts[SIZE - 1] + 1);
    nxr_service_is_broken(); /* finds no descriptors: from here no service thread is woken */
    nxr_carriers_set(&carrier, &carrier);
    nxr_subsystems_set(detector_list, sizeof(detector_list) / sizeof(detector_list[0]));
    nxr_detector_subsystem.register_handlers();
    nxr_job = (struct nxr_job){.rank = rank,
                               .n_numbers = SIZE,
                               .size = SIZE,
                               .self = {.job = 5, .rank = rank},
                               .state = NXR_STATE_READY,
                               .event_fd = -1};
    pthread_mutex_init(&nxr_job.lock, NULL);
    nxr_job.peers = calloc(SIZE, sizeof(*nxr_job.peers));
    cr_assert(ne(ptr, (void *)nxr_job.peers, NULL));
    cr_assert(eq(int,
                 nxr_control_create(&nxr_job.self, SIZE, (unsigned char[NXR_NONCE_NBYTES]){1},
                                    &nxr_job.control, &nxr_job.control_fd),
                 NIXL_OK));
}

static void end_job(void)
{
    nxr_detector_stop();
    nxr_event_reset();
    nxr_peers_free();
    nxr_control_destroy(nxr_job.control, nxr_job.control_fd);
    pthread_mutex_destroy(&nxr_job.lock);
    nxr_nodes_set(NULL, 1);
}

TestSuite(detector, .fini = end_job, .timeout = 120);

/* The first tick, and the one after the delay. */
static void tick_until_watched(void)
{
    cr_assert(eq(i64, nxr_detector_tick(nxr_detector_tick(1)), INT64_MAX));
}

static void connect_peer(int rank)
{
    struct nxr_peer *peer = nxr_peer_get_locked(rank);

    cr_assert(ne(ptr, peer, NULL));
    atomic_store(&peer->connection, NXR_CONNECTION_UP);
    nxr_detector_connected(peer);
}

/* The watched ranks as digits. */
static const char *watched(void)
{
    static char digits[SIZE + 1];
    size_t n = 0;

    for (int rank = 0; rank < SIZE; rank++) {
        if (nxr_job.peers[rank] != NULL && nxr_detector_is_watched(nxr_job.peers[rank])) {
            cr_expect(is_wanted[rank], "rank %d is watched without a connection", rank);
            digits[n++] = (char)('0' + rank);
        }
    }
    digits[n] = '\0';
    return digits;
}

Test(detector, watches_nothing_in_a_short_job)
{
    int64_t due;

    begin_as(0);
    due = nxr_detector_tick(1);
    cr_expect(gt(i64, due, 1));
    cr_expect(eq(i64, nxr_detector_tick(due - 1), due));
    cr_expect_str_eq(watched(), "");
    cr_expect(eq(i64, nxr_detector_tick(due), INT64_MAX));
    cr_expect_str_neq(watched(), "");
}

Test(detector, watches_nothing_before_the_job_is_joined)
{
    begin_as(0);
    atomic_store(&nxr_job.state, NXR_STATE_NONE);
    cr_expect(eq(i64, nxr_detector_tick(1), INT64_MAX));
    atomic_store(&nxr_job.state, NXR_STATE_LEAVING);
    cr_expect(ne(i64, nxr_detector_tick(1), INT64_MAX));
}

Test(detector, leader_watches_its_neighbour_and_the_leaders_beside)
{
    begin_as(0);
    tick_until_watched();
    cr_expect_str_eq(watched(), "137");
}

Test(detector, leader_in_the_middle_watches_both_sides)
{
    begin_as(3);
    tick_until_watched();
    cr_expect_str_eq(watched(), "045");
}

Test(detector, last_leader_watches_around_the_end)
{
    begin_as(7);
    tick_until_watched();
    cr_expect_str_eq(watched(), "05");
}

/* The only rank of its host has none. */
Test(detector, a_rank_without_a_neighbour_ticks_on)
{
    begin_as(7);
    tick_until_watched();
    cr_expect(eq(i64, nxr_detector_tick(NXR_S), INT64_MAX), "nothing has changed");
    cr_expect_str_eq(watched(), "05");
}

Test(detector, others_watch_their_neighbour_around_the_host)
{
    begin_as(1);
    tick_until_watched();
    cr_expect_str_eq(watched(), "2");
}

Test(detector, last_rank_of_a_host_watches_its_first)
{
    begin_as(2);
    tick_until_watched();
    cr_expect_str_eq(watched(), "0");
}

Test(detector, watches_the_rank_after_a_dead_neighbour)
{
    begin_as(0);
    tick_until_watched();
    nxr_life_lost_locked(1);
    cr_expect(eq(i64, nxr_detector_tick(NXR_S), INT64_MAX));
    cr_expect_str_eq(watched(), "237");
    nxr_life_lost_locked(2);
    nxr_detector_tick(NXR_S);
    cr_expect_str_eq(watched(), "37");
}

Test(detector, watches_past_a_host_without_living_ranks)
{
    begin_as(0);
    tick_until_watched();
    nxr_life_lost_locked(3);
    nxr_detector_tick(NXR_S);
    cr_expect_str_eq(watched(), "147");
    nxr_life_lost_locked(4);
    nxr_life_lost_locked(7);
    nxr_detector_tick(NXR_S);
    cr_expect_str_eq(watched(), "15");
}

Test(detector, the_next_rank_of_a_host_becomes_leader)
{
    begin_as(1);
    tick_until_watched();
    cr_expect(zero(int, nxr_detector_leader()));
    nxr_life_lost_locked(0);
    nxr_detector_tick(NXR_S);
    cr_expect(eq(int, nxr_detector_leader(), 1));
    cr_expect_str_eq(watched(), "237");
}

Test(detector, watches_past_a_neighbour_that_cannot_be_reached)
{
    begin_as(0);
    tick_until_watched();
    atomic_store(&nxr_job.peers[1]->connection, NXR_CONNECTION_REMOTE);
    nxr_detector_tick(NXR_S);
    cr_expect_str_eq(watched(), "237");
}

Test(detector, leader_tells_its_host_and_the_leaders_beside)
{
    begin_as(0);
    connect_peer(2);
    connect_peer(3);
    connect_peer(4);
    connect_peer(7);
    tick_until_watched();
    nxr_life_lost_locked(1);
    cr_expect(eq(int, told[2][1], DIED));
    cr_expect(eq(int, told[3][1], DIED));
    cr_expect(eq(int, told[7][1], DIED));
    cr_expect(zero(int, told[4][1]), "its leader tells it");
}

Test(detector, watches_no_host_when_its_own_is_the_last)
{
    begin_as(1);
    tick_until_watched();
    for (int rank = 0; rank < SIZE; rank++) {
        if (hosts[rank] != hosts[1] || rank == 0) {
            nxr_life_lost_locked(rank);
        }
    }
    nxr_detector_tick(NXR_S);
    cr_expect_str_eq(watched(), "2");
    cr_expect(eq(int, nxr_detector_leader_beside(1), -1));
}

Test(detector, leader_passes_on_the_end_of_a_rank_on_another_host)
{
    begin_as(0);
    connect_peer(1);
    connect_peer(3);
    tick_until_watched();
    nxr_life_lost_locked(6);
    cr_expect(eq(int, told[1][6], DIED));
    cr_expect(eq(int, told[3][6], DIED));
    nxr_detector_heard_left(5);
    cr_expect(eq(int, told[1][5], LEFT));
    cr_expect(eq(int, told[3][5], LEFT));
}

Test(detector, who_is_not_connected_is_told_once_it_is)
{
    begin_as(1);
    tick_until_watched();
    cr_expect(not(is_wanted[0]));
    nxr_life_lost_locked(2);
    cr_expect(is_wanted[0]);
    cr_expect(zero(int, told[0][2]));
    connect_peer(0);
    cr_expect(eq(int, told[0][2], DIED));
    told[0][2] = 0;
    connect_peer(0);
    cr_expect(zero(int, told[0][2]), "once");
}

/* Rank 2 died before rank 1 began to watch: nobody else reports that to the host. */
Test(detector, reports_the_deaths_up_to_its_new_neighbour)
{
    begin_as(1);
    connect_peer(0);
    nxr_life_lost_locked(2);
    cr_expect(zero(int, told[0][2]), "not watched yet");
    tick_until_watched();
    cr_expect_str_eq(watched(), "0");
    cr_expect(eq(int, told[0][2], DIED));
}

Test(detector, suspects_all_living_ranks_of_a_host)
{
    begin_as(0);
    tick_until_watched();
    nxr_life_lost_locked(5);
    nxr_detector_tick(NXR_S);
    cr_expect_str_eq(watched(), "137");
    nxr_detector_suspect(4);
    cr_expect_str_eq(watched(), "1347");
    nxr_detector_suspect(6);
    cr_expect_str_eq(watched(), "13467");
}

Test(detector, who_leaves_tells_all_that_are_connected)
{
    begin_as(0);
    connect_peer(3);
    cr_expect(not(nxr_detector_tell_left()), "the next rank of the host passes it on");
    cr_expect(is_wanted[1]);
    cr_expect(zero(int, told[3][0]));
    connect_peer(1);
    cr_expect(nxr_detector_tell_left());
    cr_expect(eq(int, told[1][0], LEFT));
    cr_expect(eq(int, told[3][0], LEFT));
    cr_expect(zero(int, told[5][0]));
}

Test(detector, who_leaves_waits_for_the_first_rank_too)
{
    begin_as(1);
    cr_expect(not(nxr_detector_tell_left()));
    cr_expect(is_wanted[0]);
    connect_peer(0);
    cr_expect(nxr_detector_tell_left());
    cr_expect(eq(int, told[0][1], LEFT));
    nxr_life_lost_locked(0);
    nxr_life_lost_locked(2);
    is_wanted[0] = false;
    cr_expect(not(nxr_detector_tell_left()), "the leader of the next host passes it on");
    cr_expect(not(is_wanted[0]));
    cr_expect(is_wanted[3]);
    atomic_store(&nxr_job.peers[3]->connection, NXR_CONNECTION_REMOTE);
    cr_expect(nxr_detector_tell_left(), "who cannot be reached is not waited for");
}

static void death_comes(uint64_t job, int rank, uint32_t incarnation, bool has_left)
{
    union nxr_wire_message message;

    nxr_wire_init(&message, NXR_WIRE_DEATH);
    message.death.dead =
        (struct nxr_identity){.job = job, .rank = rank, .incarnation = incarnation};
    message.death.has_left = has_left;
    message.death.by = (struct nxr_identity){.job = job, .rank = 1};
    nxr_control_take(&(struct nxr_control_source){.peer = nxr_peer_get_locked(1)}, &message);
}

Test(detector, believes_ends_of_processes_of_this_job_only)
{
    begin_as(0);
    nxr_peer_get_locked(4)->identity.incarnation = 2;
    nxr_peer_get_locked(5)->identity.incarnation = 2;
    nxr_peer_get_locked(6);
    death_comes(6, 4, 2, false);
    death_comes(5, 4, 1, false);
    death_comes(5, SIZE, 0, false);
    cr_expect(not(nxr_peer_is_lost(nxr_job.peers[4])));
    death_comes(5, 4, 2, false);
    cr_expect(eq(int, atomic_load(&nxr_job.peers[4]->state), NIXL_PEER_LOST));
    death_comes(5, 5, 3, false);
    cr_expect(eq(int, atomic_load(&nxr_job.peers[5]->state), NIXL_PEER_LOST));
    death_comes(5, 6, 0, true);
    cr_expect(eq(int, atomic_load(&nxr_job.peers[6]->state), NIXL_PEER_FINISHED));
}

/* Rank 3 says that `by` has declared that rank lost, because it was silent for two seconds. */
static void silence_is_reported(int rank, int by)
{
    union nxr_wire_message message;

    nxr_wire_init(&message, NXR_WIRE_DEATH);
    message.death.dead = (struct nxr_identity){.job = 5, .rank = rank};
    message.death.by = (struct nxr_identity){.job = 5, .rank = by};
    message.death.silent_ms = 2000;
    nxr_control_take(&(struct nxr_control_source){.peer = nxr_peer_get_locked(3)}, &message);
}

static void find_silent(int rank)
{
    nxr_detector_found_silent(nxr_peer_get_locked(rank), 8 * NXR_S + NXR_MS);
    nxr_life_lost_locked(rank);
}

static void connect_all(void)
{
    for (int rank = 0; rank < SIZE; rank++) {
        if (rank != nxr_job.rank) {
            connect_peer(rank);
        }
    }
    tick_until_watched();
}

/* Those that are told of the end of that rank, as digits. */
static const char *who_is_told_of(int rank)
{
    static char digits[SIZE + 1];
    size_t n = 0;

    for (int to = 0; to < SIZE; to++) {
        if (told[to][rank] == DIED) {
            digits[n++] = (char)('0' + to);
        }
    }
    digits[n] = '\0';
    return digits;
}

Test(detector, who_finds_a_silence_tells_its_leader_and_the_silent_rank)
{
    begin_as(1);
    connect_all();
    find_silent(6);
    cr_expect_str_eq(who_is_told_of(6), "06");
    cr_expect(eq(u32, last_told.silent_ms, 8001));
    cr_expect(eq(int, last_told.by.rank, 1));
}

/* 0 would be a death that was seen. */
Test(detector, a_silence_of_any_length_is_told_as_one)
{
    begin_as(1);
    connect_all();
    nxr_detector_found_silent(nxr_peer_get_locked(6), 0);
    nxr_life_lost_locked(6);
    cr_expect_str_eq(who_is_told_of(6), "06");
    cr_expect(eq(u32, last_told.silent_ms, 1));
    nxr_detector_found_silent(nxr_peer_get_locked(5), INT64_MAX);
    nxr_life_lost_locked(5);
    cr_expect(eq(u32, last_told.silent_ms, UINT32_MAX));
}

Test(detector, leader_that_finds_a_silence_tells_its_ring)
{
    begin_as(0);
    connect_all();
    find_silent(4);
    cr_expect_str_eq(who_is_told_of(4), "12347");
}

Test(detector, a_death_that_is_certain_is_told_as_before)
{
    begin_as(1);
    connect_all();
    nxr_life_lost_locked(6);
    cr_expect_str_eq(who_is_told_of(6), "");
}

Test(detector, leader_tells_its_host_of_a_silence_found_elsewhere)
{
    begin_as(3);
    connect_all();
    silence_is_reported(4, 1);
    cr_expect(eq(int, atomic_load(&nxr_job.peers[4]->state), NIXL_PEER_LOST));
    cr_expect_str_eq(who_is_told_of(4), "045");
    cr_expect(eq(int, last_told.by.rank, 1));
    cr_expect(eq(u32, last_told.silent_ms, 2000));
    cr_expect_str_eq(nxr_peer_why_lost(4), "rank 1 found that it was silent for 2.0 s");
}

Test(detector, the_next_leader_tells_of_the_silence_of_the_leader)
{
    begin_as(4);
    connect_all();
    silence_is_reported(3, 1);
    cr_expect_str_eq(who_is_told_of(3), "035");
}

Test(detector, who_is_declared_lost_loses_all_others_and_tells_nobody)
{
    begin_as(6);
    connect_all();
    silence_is_reported(6, 1);
    for (int rank = 0; rank < SIZE; rank++) {
        cr_expect_str_eq(who_is_told_of(rank), "");
        if (rank != 6) {
            cr_expect_str_eq(nxr_peer_why_lost(rank),
                             "rank 1 declared this rank lost, because it was silent for 2.0 s");
        }
    }
}

Test(detector, who_leaves_with_all_others_is_not_declared_lost)
{
    begin_as(6);
    connect_all();
    nxr_job.is_leaving = true;
    silence_is_reported(6, 1);
    cr_expect(not(nxr_peer_is_lost(nxr_job.peers[1])));
}

Test(detector, another_process_of_this_rank_is_not_this_one)
{
    begin_as(6);
    connect_all();
    nxr_job.self.incarnation = 1;
    silence_is_reported(6, 1);
    cr_expect(not(nxr_peer_is_lost(nxr_job.peers[1])));
}
