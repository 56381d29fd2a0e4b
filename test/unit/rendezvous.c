/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where ranks meet that an engine starts and nixlrun-rank starts again: who learns what and when,
 * and what becomes of strangers, of bad messages and of processes that are late.
 */
#include "launcher/loop.h"
#include "launcher/rendezvous.h"
#include "util/clock.h"
#include "util/meet.h"
#include "util/rendezvous.h"

#include "test/unit/loop_case.h"
#include "test/unit/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define NP 3

static struct launch_app app = {.np = NP};
static struct launch_job job = {.np = NP, .apps = &app, .n_apps = 1};
static unsigned char key[NXR_RV_KEY_NBYTES];
static int port;

static void begin(void)
{
    const char *text;

    cr_assert_eq(loop_open(), 0);
    cr_assert_eq(rendezvous_open(&job), 0);
    text = getenv(RENDEZVOUS_VARIABLE);
    cr_assert_not_null(text);
    for (int i = 0; i < NXR_RV_KEY_NBYTES; i++) {
        unsigned byte;

        cr_assert_eq(sscanf(text + 2 * i, "%2x", &byte), 1);
        key[i] = (unsigned char)byte;
    }
    cr_assert_eq(sscanf(text + 2 * NXR_RV_KEY_NBYTES, ",%d,", &port), 1);
}

TestSuite(rendezvous, .init = begin, .timeout = 60);

/* ---- a rank ---------------------------------------------------------------------------------- */

static int knock(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

    cr_assert_geq(fd, 0);
    cr_assert_eq(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static void say(int fd, int rank, enum nxr_rv_kind kind, const void *bytes, size_t nbytes)
{
    const struct nxr_rv_head head = {.magic = NXR_RV_MAGIC,
                                     .version = NXR_RV_VERSION,
                                     .kind = (uint16_t)kind,
                                     .rank = rank,
                                     .nbytes = (uint32_t)nbytes};

    ssize_t n = send(fd, &head, sizeof(head), MSG_NOSIGNAL);

    cr_assert_eq(n, (ssize_t)sizeof(head));
    n = send(fd, bytes, nbytes, MSG_NOSIGNAL);
    cr_assert_eq(n, (ssize_t)nbytes);
}

static int come(int rank, unsigned incarnation)
{
    struct nxr_rv_come message = {.incarnation = incarnation, .pid = 1};
    int fd = knock();

    memcpy(message.key, key, sizeof(key));
    snprintf(message.host, sizeof(message.host), "h%d", rank / 2);
    say(fd, rank, NXR_RV_COME, &message, sizeof(message));
    return fd;
}

/* Is there nothing to be read? */
static bool is_silent(int fd)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};

    serve();
    return poll(&polled, 1, 0) == 0;
}

static bool is_cut(int fd)
{
    char byte;

    serve();
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
}

static char heard[4096];

static struct nxr_rv_head hear(int fd)
{
    struct nxr_rv_head head = {.kind = 0};
    ssize_t n;

    serve();
    n = recv(fd, &head, sizeof(head), MSG_DONTWAIT);
    cr_assert_eq(n, (ssize_t)sizeof(head), "%s", n < 0 ? strerror(errno) : "");
    cr_assert_leq(head.nbytes, sizeof(heard));
    if (head.nbytes > 0) {
        n = recv(fd, heard, head.nbytes, MSG_DONTWAIT);
        cr_assert_eq(n, (ssize_t)head.nbytes);
    }
    return head;
}

/* The ranks in the cards that were heard, as digits. */
static const char *cards_of(const struct nxr_rv_head *head)
{
    static char ranks[32];
    size_t at = 0, n = 0;

    while (at < head->nbytes) {
        struct nxr_meet_head of;

        memcpy(&of, heard + at, sizeof(of));
        ranks[n++] = (char)('0' + of.rank);
        at += sizeof(of) + of.nbytes;
    }
    ranks[n] = '\0';
    return ranks;
}

/* All come and meet. */
static void meet_all(int fds[NP])
{
    for (int i = 0; i < NP; i++) {
        fds[i] = come(i, 0);
    }
    for (int i = 0; i < NP; i++) {
        cr_assert_eq(hear(fds[i]).kind, NXR_RV_PLACES);
        say(fds[i], i, NXR_RV_CARD, "card", 4);
    }
    for (int i = 0; i < NP; i++) {
        struct nxr_rv_head head = hear(fds[i]);

        cr_assert_eq(head.kind, NXR_RV_MET);
        cr_assert_str_eq(cards_of(&head), "012");
    }
}

/* ---- meeting --------------------------------------------------------------------------------- */

Test(rendezvous, all_wait_for_the_last)
{
    int fds[NP] = {come(0, 0), come(1, 0)};
    struct nxr_rv_places places;
    int32_t nodes[NP];

    cr_expect(is_silent(fds[0]));
    fds[2] = come(2, 0);
    for (int i = 0; i < NP; i++) {
        cr_assert_eq(hear(fds[i]).kind, NXR_RV_PLACES);
        memcpy(&places, heard, sizeof(places));
        memcpy(nodes, heard + sizeof(places), sizeof(nodes));
        cr_expect_eq(places.size, NP);
        cr_expect(nodes[0] == 0 && nodes[1] == 0 && nodes[2] == 1);
    }
    say(fds[0], 0, NXR_RV_CARD, "card", 4);
    say(fds[2], 2, NXR_RV_CARD, "card", 4);
    cr_expect(is_silent(fds[0]));
    say(fds[1], 1, NXR_RV_CARD, "card", 4);
    cr_expect_eq(hear(fds[0]).kind, NXR_RV_MET);
}

Test(rendezvous, one_that_dies_before_they_meet_is_waited_for)
{
    int fds[NP] = {come(0, 0), come(1, 0), come(2, 0)};

    for (int i = 0; i < NP; i++) {
        (void)hear(fds[i]);
        say(fds[i], i, NXR_RV_CARD, "card", i == 1 ? 0 : 4); /* an empty card ends rank 1 */
    }
    cr_expect(is_cut(fds[1]));
    cr_expect(is_silent(fds[0]));
    fds[1] = come(1, 0);
    cr_expect_eq(hear(fds[1]).kind, NXR_RV_PLACES);
    say(fds[1], 1, NXR_RV_CARD, "card", 4);
    cr_expect_eq(hear(fds[0]).kind, NXR_RV_MET);
}

Test(rendezvous, one_that_has_ended_for_ever_is_not)
{
    int fds[2] = {come(0, 0), come(2, 0)};
    struct nxr_rv_head head;

    cr_expect(is_silent(fds[0]));
    rendezvous_ended(1);
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(hear(fds[i]).kind, NXR_RV_PLACES);
        say(fds[i], 2 * i, NXR_RV_CARD, "card", 4);
    }
    head = hear(fds[0]);
    cr_expect_eq(head.kind, NXR_RV_MET);
    cr_expect_str_eq(cards_of(&head), "02");
}

Test(rendezvous, one_that_comes_back_waits_for_nobody)
{
    struct nxr_rv_head head;
    int fds[NP], other;

    meet_all(fds);
    close(fds[1]);
    head = hear(fds[0]);
    cr_expect(head.kind == NXR_RV_ENDED && head.rank == 1 && head.value == 1);
    other = come(1, 1);
    cr_expect_eq(hear(other).kind, NXR_RV_PLACES);
    say(other, 1, NXR_RV_CARD, "new", 3);
    head = hear(other);
    cr_expect(head.kind == NXR_RV_MET && head.value == 2);
    cr_expect_str_eq(cards_of(&head), "012");
    (void)hear(fds[2]);
    head = hear(fds[2]);
    cr_expect(head.kind == NXR_RV_JOINED && head.rank == 1 && head.value == 2);
    cr_expect_arr_eq(heard, "new", 3);
}

Test(rendezvous, one_that_has_left_does_not_end)
{
    struct nxr_rv_head head;
    int fds[NP];

    meet_all(fds);
    say(fds[2], 2, NXR_RV_LEFT, NULL, 0);
    close(fds[2]);
    cr_expect(is_silent(fds[0]));
    close(fds[1]);
    head = hear(fds[0]);
    cr_expect(head.kind == NXR_RV_ENDED && head.rank == 1);
    fds[1] = come(1, 1);
    (void)hear(fds[1]);
    say(fds[1], 1, NXR_RV_CARD, "new", 3);
    head = hear(fds[1]);
    cr_expect_str_eq(cards_of(&head), "012"); /* the one of 2 is empty: it has left */
}

Test(rendezvous, the_next_process_ends_the_former_one)
{
    struct nxr_rv_head head;
    int fds[NP], other;

    meet_all(fds);
    other = come(1, 1);
    cr_expect(is_cut(fds[1]));
    head = hear(fds[0]);
    cr_expect(head.kind == NXR_RV_ENDED && head.rank == 1);
    cr_expect_eq(hear(other).kind, NXR_RV_PLACES);
    fds[1] = come(1, 0);
    cr_expect_eq(hear(fds[1]).kind, NXR_RV_REFUSED);
    cr_expect(is_cut(fds[1]));
    cr_expect(is_silent(other));
}

Test(rendezvous, one_that_has_come_back_may_leave_and_join_again)
{
    int fds[NP];

    meet_all(fds);
    close(fds[1]);
    fds[1] = come(1, 1);
    (void)hear(fds[1]);
    say(fds[1], 1, NXR_RV_CARD, "new", 3);
    cr_expect_eq(hear(fds[1]).kind, NXR_RV_MET);
    say(fds[1], 1, NXR_RV_LEFT, NULL, 0);
    close(fds[1]);
    fds[1] = come(1, 1);
    cr_expect_eq(hear(fds[1]).kind, NXR_RV_PLACES);
    say(fds[1], 1, NXR_RV_CARD, "new", 3);
    cr_expect(is_silent(fds[1])); /* it waits for the others, who are to leave and join, too */
}

/* ---- no descriptors -------------------------------------------------------------------------- */

static void limit_descriptors(rlim_t n)
{
    struct rlimit limit;

    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = n;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

Test(rendezvous, who_cannot_be_let_in_waits_and_nixlrun_sleeps)
{
    struct nxr_rv_come message = {.host = "h0"};
    struct loop_timer end = {.fire = tick_fire};
    int fd = knock(), n_steps = 0;

    rendezvous_ended(1);
    rendezvous_ended(2);
    limit_descriptors((rlim_t)fd + 1);
    loop_timer_set(&end, nxr_now_ns() + 50 * NXR_MS);
    while (end.is_set) {
        loop_step();
        n_steps++;
    }
    cr_expect_lt(n_steps, 10);
    limit_descriptors((rlim_t)fd + 16);
    memcpy(message.key, key, sizeof(key));
    say(fd, 0, NXR_RV_COME, &message, sizeof(message));
    while (is_silent(fd)) {
    }
    cr_expect_eq(hear(fd).kind, NXR_RV_PLACES);
}

/* ---- enemies --------------------------------------------------------------------------------- */

Test(rendezvous, who_does_not_know_the_key_is_told_nothing)
{
    struct nxr_rv_come message = {.host = "h0"};
    int fd = knock();

    say(fd, 0, NXR_RV_COME, &message, sizeof(message));
    cr_expect(is_cut(fd));
    fd = knock();
    say(fd, 0, NXR_RV_CARD, "card", 4);
    cr_expect(is_cut(fd));
}

Test(rendezvous, bad_messages_cut_the_connection)
{
    static const struct nxr_rv_head heads[] = {
        {.magic = 1, .version = NXR_RV_VERSION, .kind = NXR_RV_CARD},
        {.magic = NXR_RV_MAGIC, .version = NXR_RV_VERSION, .kind = NXR_RV_CARD, .nbytes = 1u << 31},
        {.magic = NXR_RV_MAGIC, .version = NXR_RV_VERSION, .kind = NXR_RV_MET},
        {.magic = NXR_RV_MAGIC, .version = NXR_RV_VERSION, .kind = 99},
        {.magic = NXR_RV_MAGIC, .version = NXR_RV_VERSION, .kind = NXR_RV_LEFT, .rank = 1},
    };

    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        int fd = come(0, 0);

        serve();
        cr_assert_eq(send(fd, &heads[i], sizeof(heads[i]), 0), (ssize_t)sizeof(heads[i]));
        cr_expect(is_cut(fd), "head %zu", i);
        close(fd);
    }
}

Test(rendezvous, another_version_is_told)
{
    const struct nxr_rv_head head = {.magic = NXR_RV_MAGIC, .version = NXR_RV_VERSION + 1};
    int fd = knock();

    cr_assert_eq(send(fd, &head, sizeof(head), 0), (ssize_t)sizeof(head));
    cr_expect_eq(hear(fd).kind, NXR_RV_REFUSED);
    cr_expect(is_cut(fd));
}

/* It would miss changes: 64 MiB are kept for it, beside what the socket takes. */
Test(rendezvous, who_never_reads_is_cut)
{
    enum { MESSAGES = 10000, SEEN = 64 * 1024 };
    static char card[NXR_RV_GIVEN_MAX], seen[SEEN];
    ssize_t n = 1;
    int fds[NP];

    meet_all(fds);
    for (unsigned i = 1; i <= MESSAGES; i++) {
        int fd = come(1, i);

        say(fd, 1, NXR_RV_CARD, card, sizeof(card));
        while (recv(fd, seen, 1, MSG_DONTWAIT) < 0) {
            loop_step();
        }
        close(fd);
    }
    serve();
    while (n > 0) {
        n = recv(fds[0], seen, sizeof(seen), MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) {
            serve();
            n = recv(fds[0], seen, sizeof(seen), MSG_DONTWAIT);
        }
    }
    cr_expect(n == 0 || errno == ECONNRESET);
}

Test(rendezvous, ranks_that_do_not_exist_are_cut)
{
    int low = come(-1, 0), high = come(NP, 0);

    cr_expect(is_cut(low));
    cr_expect(is_cut(high));
}

Test(rendezvous, messages_may_come_byte_by_byte)
{
    struct nxr_rv_come message = {.host = "h0"};
    struct nxr_rv_head head = {.magic = NXR_RV_MAGIC,
                               .version = NXR_RV_VERSION,
                               .kind = NXR_RV_COME,
                               .nbytes = sizeof(message)};
    char bytes[sizeof(head) + sizeof(message)];
    int fd = knock();

    memcpy(message.key, key, sizeof(key));
    memcpy(bytes, &head, sizeof(head));
    memcpy(bytes + sizeof(head), &message, sizeof(message));
    rendezvous_ended(1);
    rendezvous_ended(2);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        cr_assert_eq(send(fd, bytes + i, 1, 0), 1);
        if (i % 16 == 0) {
            serve();
        }
    }
    cr_expect_eq(hear(fd).kind, NXR_RV_PLACES);
}
