/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of attachments, for test_attach.sh. Usage: attach_end WHAT WHERE NAME [ARGUMENT]
 *     serve    publish; do for each attached process what its notes ask; end after ARGUMENT ends of
 *              attachments
 *     visit    attach, make every call, detach, ARGUMENT times
 *     cycle    attach, say hello, detach, ARGUMENT times
 *     stay     attach and put without end; passes when the publisher is lost
 *     leave    attach, say hello, leave by nixl_finalize(), and live on until stdin ends
 *     watch    attach, and do nothing until the publisher is lost
 *     gather   publish; when ARGUMENT processes are attached at once, have each put its bytes
 *     member   attach to such a one, and do what it says
 *     beside   attach while another thread makes calls, none of which may wait for that
 *     try      attach with ARGUMENT as schema, within three seconds; says how that ended
 *     brief    the same, within 300 ms
 *     awaited  the same, within the patience of the tests
 *     publish  publish with ARGUMENT as schema, and wait until stdin ends; says how that ended
 *     several  publish NAME and another name at the same port
 *     stopped  attach, stop the publisher, detach; continue it, attach, stop it, and detach in two
 *              threads, one of which does not wait; continue it
 *     names    print the names that are published there
 *     paths    publish in a folder by several paths, a relative one among them, and leave it
 *     refusals calls with arguments that are not allowed
 * Under a launcher each rank publishes NAME.RANK, and attaches to NAME.0 and to NAME.1. A publisher
 * prints where others attach to it.
 */
#include "attach_calls.h"
#include "attach_figures.h"
#include "test/mp/mptest.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCHEMA "blocks of 64 KiB"

enum { TAG_HELLO = 1, TAG_CALLS };

#define N_WARM 500 /* attachments after which a process has what it will ever need */

static const char *where, *name, *argument;
static char own_name[NIXL_PUBLISH_NAME_MAX + 1];
static bool is_alone; /* no launcher */

static long number_of_argument(void)
{
    return argument != NULL ? strtol(argument, NULL, 10) : 1;
}

static const char *name_of(int rank)
{
    static char text[NIXL_PUBLISH_NAME_MAX + 1];

    snprintf(text, sizeof(text), is_alone ? "%s" : "%s.%d", name, rank);
    return text;
}

static void say(const char *text)
{
    puts(text);
    fflush(stdout);
}

/* ---- the publisher --------------------------------------------------------------------------- */

/* Take the next event about a peer within the time; type 0: there is none. */
static struct nixl_event next_event(int64_t timeout_ns)
{
    struct nixl_event event = NIXL_EVENT_INIT;
    int status;

    do {
        status = nixl_event_recv(timeout_ns, &event);
    } while (status == NIXL_OK && event.type == NIXL_EVENT_REGION_CLOSED);
    MPT_TRUE(status == NIXL_OK || status == NIXL_INPROGRESS || status == NIXL_E_TIMEOUT);
    event.type = status == NIXL_OK ? event.type : 0;
    return event;
}

/* An attachment has ended: end it here as well. */
static void end_of(int rank)
{
    unsigned char byte = 0;
    struct nixl_region *region;

    MPT_OK(nixl_detach(rank, 0));
    if (rank > 10) {
        return; /* the library keeps what it knows of regions that were used, for later ones */
    }
    MPT_EQ(nixl_detach(rank, 0), NIXL_E_PEER_LOST);
    MPT_OK(nixl_region_open("served", &region));
    MPT_EQ(nixl_put(rank, region, 0, &byte, 1), NIXL_E_PEER_LOST);
    MPT_EQ(nixl_notify(rank, 1, NULL, 0, MPT_PATIENCE), NIXL_E_PEER_LOST);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

static void serve_note(void)
{
    struct nixl_note note;
    int status;

    nixl_note_init(&note);
    status = nixl_notify_recv(NIXL_ANY_RANK, 0, 0, 20 * MPT_MS, &note);
    if (status == NIXL_OK && note.tag == TAG_CALLS) {
        attach_calls_serve(note.rank);
    } else if (status == NIXL_OK && note.tag == TAG_HELLO) {
        MPT_TRUE(nixl_notify(note.rank, TAG_HELLO, NULL, 0, MPT_PATIENCE) == NIXL_OK);
    } else {
        MPT_TRUE(status == NIXL_OK || status == NIXL_E_TIMEOUT || status == NIXL_E_PEER_LOST);
    }
}

/* Until no attachment is on its way to be freed. */
static struct figures settled_figures(const struct figures *goal)
{
    int64_t until = mpt_now_ns() + MPT_PATIENCE;

    while (!figures_are_within(goal, 8) && mpt_now_ns() < until) {
        serve_note();
    }
    return figures_now("served");
}

/* Print where others attach to that name. */
static void say_where(const char *published)
{
    char text[512], small[4];

    MPT_OK(nixl_publish_query(where, published, text, sizeof(text)));
    MPT_EQ(nixl_publish_query(where, published, small, sizeof(small)), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_publish_query(where, "unknown", text, sizeof(text)), NIXL_E_NOT_FOUND);
    printf("at %s\n", text);
    fflush(stdout);
}

static void serve(void)
{
    struct figures idle, warm = {0}, end;
    long n_ends = 0, n_wanted = number_of_argument();
    struct nixl_region *served;

    MPT_OK(nixl_region_alloc("served", 1 << 20, NULL, &served));
    MPT_OK(nixl_publish(where, own_name, SCHEMA));
    say_where(own_name);
    idle = figures_now("idle");
    say("published");
    while (n_ends < n_wanted) {
        struct nixl_event event = next_event(0);

        if (event.type == NIXL_EVENT_PEER_JOINED) {
            MPT_TRUE(event.rank >= nixl_size() && strcmp(event.name, own_name) == 0);
            MPT_EQ(event.incarnation, 0);
        } else if (event.type == NIXL_EVENT_PEER_LEFT || event.type == NIXL_EVENT_PEER_LOST) {
            if (n_wanted <= N_WARM) {
                printf("rank %d %s\n", event.rank,
                       event.type == NIXL_EVENT_PEER_LEFT ? "left" : "lost");
                fflush(stdout);
            }
            end_of(event.rank);
            if (++n_ends == N_WARM && n_wanted > N_WARM) {
                warm = settled_figures(&idle);
                say("settled");
            }
        } else {
            serve_note();
        }
    }
    if (n_wanted > N_WARM) {
        end = settled_figures(&idle);
        figures_check_growth(&warm, &end, n_wanted);
    }
    MPT_OK(nixl_unpublish(where, own_name));
}

/* ---- the attacher ---------------------------------------------------------------------------- */

static int attach_to(const char *published)
{
    struct nixl_event event;
    int rank = -1, again = -1;

    MPT_OK(nixl_attach(where, published, SCHEMA, MPT_PATIENCE, &rank));
    MPT_TRUE(rank >= nixl_size());
    event = next_event(MPT_PATIENCE);
    MPT_EQ(event.type, NIXL_EVENT_PEER_JOINED);
    MPT_EQ(event.rank, rank);
    MPT_TRUE(strcmp(event.name, published) == 0);
    MPT_OK(nixl_attach(where, published, SCHEMA, MPT_PATIENCE, &again));
    MPT_EQ(again, rank);
    return rank;
}

static void say_hello(int rank)
{
    struct nixl_note note;

    nixl_note_init(&note);
    MPT_OK(nixl_notify(rank, TAG_HELLO, NULL, 0, MPT_PATIENCE));
    MPT_OK(nixl_notify_recv(rank, TAG_HELLO, UINT64_MAX, MPT_PATIENCE, &note));
}

static void visit(void)
{
    int last = -1;

    for (long i = 0; i < number_of_argument(); i++) {
        for (int other = 0; other < nixl_size(); other++) {
            /* One visitor at a time at each publisher. */
            int rank = attach_to(name_of((other + nixl_rank()) % nixl_size()));

            MPT_TRUE(rank > last);
            last = rank;
            MPT_OK(nixl_notify(rank, TAG_CALLS, NULL, 0, MPT_PATIENCE));
            attach_calls_visit(rank);
            MPT_OK(nixl_detach(rank, MPT_PATIENCE));
            if (!is_alone) {
                mpt_barrier();
            }
        }
    }
}

static void cycle(void)
{
    struct nixl_region *region;
    unsigned char byte = 1;

    MPT_OK(nixl_region_open("served", &region));
    for (long i = 0; i < number_of_argument(); i++) {
        int rank = attach_to(name_of(0));

        MPT_OK(nixl_put(rank, region, 0, &byte, 1));
        say_hello(rank);
        MPT_OK(nixl_detach(rank, MPT_PATIENCE));
    }
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    figures_now("cycled");
}

/* Put until the publisher is lost, some of it in prepared transfers that are under way. */
static void stay(void)
{
    static unsigned char bytes[1 << 20];
    struct nixl_blocks local = NIXL_BLOCKS_INIT, remote = NIXL_BLOCKS_INIT;
    struct nixl_event event;
    struct nixl_xfer *xfer;
    int rank = attach_to(name_of(0)), status = NIXL_OK;

    local.addr = bytes;
    local.block_nbytes = remote.block_nbytes = sizeof(bytes);
    MPT_OK(nixl_region_open("served", &remote.region));
    MPT_OK(nixl_put(rank, remote.region, 0, bytes, sizeof(bytes)));
    MPT_OK(nixl_xfer_create(NIXL_XFER_PUT, rank, &local, 1, &remote, 1, &xfer));
    say("putting");
    while (status == NIXL_OK) {
        status = nixl_xfer_start_x(xfer, NULL, NULL);
        status = status == NIXL_OK ? nixl_put(rank, remote.region, 0, bytes, 64) : status;
    }
    MPT_TRUE(status == NIXL_E_PEER_LOST || status == NIXL_E_STALE);
    event = next_event(MPT_PATIENCE);
    MPT_TRUE(event.type == NIXL_EVENT_PEER_LOST || event.type == NIXL_EVENT_PEER_LEFT);
    MPT_EQ(event.rank, rank);
    MPT_EQ(nixl_put(rank, remote.region, 0, bytes, 64), NIXL_E_PEER_LOST);
    MPT_OK(nixl_detach(rank, MPT_PATIENCE));
    MPT_OK(nixl_xfer_free(xfer));
    MPT_OK(nixl_region_close(remote.region, MPT_PATIENCE));
}

static void leave(void)
{
    say_hello(attach_to(name_of(0)));
    MPT_OK(nixl_finalize());
    say("left");
    while (getchar() != EOF) {
    }
    MPT_OK(nixl_init(NULL));
}

static void watch(void)
{
    int rank = attach_to(name_of(0));
    struct nixl_event event;

    say("attached");
    event = next_event(MPT_PATIENCE);
    MPT_EQ(event.type, NIXL_EVENT_PEER_LOST);
    MPT_EQ(event.rank, rank);
    MPT_OK(nixl_detach(rank, MPT_PATIENCE));
}

/* ---- many at once ---------------------------------------------------------------------------- */

#define SLOT_NBYTES 16384
#define MOST_SLOTS  256

/* Nobody puts anything before all are attached. */
static void gather(void)
{
    int32_t ranks[MOST_SLOTS], n = (int32_t)number_of_argument();
    struct nixl_region *served;
    struct nixl_note note;

    MPT_TRUE(n <= MOST_SLOTS);
    nixl_note_init(&note);
    MPT_OK(nixl_region_alloc("served", MOST_SLOTS * SLOT_NBYTES, NULL, &served));
    MPT_OK(nixl_publish(where, own_name, SCHEMA));
    say_where(own_name);
    say("published");
    for (int32_t i = 0; i < n; i++) {
        struct nixl_event event = next_event(MPT_PATIENCE);

        MPT_EQ(event.type, NIXL_EVENT_PEER_JOINED);
        ranks[i] = event.rank;
    }
    for (int32_t i = 0; i < n; i++) {
        MPT_OK(nixl_notify(ranks[i], TAG_HELLO, &i, sizeof(i), MPT_PATIENCE));
    }
    for (int32_t i = 0; i < n; i++) {
        MPT_OK(nixl_notify_recv(ranks[i], TAG_HELLO, UINT64_MAX, MPT_PATIENCE, &note));
        MPT_CHECK((unsigned char *)nixl_region_addr(served) + i * SLOT_NBYTES, SLOT_NBYTES,
                  (uint64_t)i);
        MPT_OK(nixl_notify(ranks[i], TAG_HELLO, &i, sizeof(i), MPT_PATIENCE));
    }
    for (int32_t i = 0; i < n; i++) {
        struct nixl_event event = next_event(MPT_PATIENCE);

        MPT_EQ(event.type, NIXL_EVENT_PEER_LEFT);
        MPT_OK(nixl_detach(event.rank, 0));
    }
}

static void member(void)
{
    static unsigned char bytes[SLOT_NBYTES];
    int rank = attach_to(name_of(0));
    struct nixl_region *region;
    struct nixl_note note;
    int32_t slot;

    nixl_note_init(&note);
    MPT_OK(nixl_region_open("served", &region));
    MPT_OK(nixl_notify_recv(rank, TAG_HELLO, UINT64_MAX, MPT_PATIENCE, &note));
    memcpy(&slot, note.payload, sizeof(slot));
    mpt_fill(bytes, SLOT_NBYTES, (uint64_t)slot);
    MPT_OK(nixl_put(rank, region, (uint64_t)slot * SLOT_NBYTES, bytes, SLOT_NBYTES));
    say_hello(rank);
    MPT_OK(nixl_detach(rank, MPT_PATIENCE));
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

/* ---- calls beside an attach ------------------------------------------------------------------ */

static atomic_bool has_attached;

/* Make calls that take the library's lock; returns how long the longest took. */
static void *call_beside(void *longest)
{
    struct nixl_peer_info info = NIXL_PEER_INFO_INIT;

    while (!atomic_load(&has_attached)) {
        int64_t began = mpt_now_ns(), took;

        MPT_OK(nixl_peer_query(nixl_rank(), &info));
        took = mpt_now_ns() - began;
        *(int64_t *)longest = took > *(int64_t *)longest ? took : *(int64_t *)longest;
        usleep(200);
    }
    return NULL;
}

static void beside(void)
{
    int64_t longest = 0, began, took;
    pthread_t thread;
    int rank = -1;

    MPT_EQ(pthread_create(&thread, NULL, call_beside, &longest), 0);
    began = mpt_now_ns();
    MPT_OK(nixl_attach(where, name_of(0), SCHEMA, MPT_PATIENCE, &rank));
    took = mpt_now_ns() - began;
    atomic_store(&has_attached, true);
    MPT_EQ(pthread_join(thread, NULL), 0);
    printf("attached in %.1f ms; the longest call beside took %.1f ms\n", took / 1e6,
           longest / 1e6);
    MPT_TRUE(took < 60 * MPT_MS || longest < took / 2);
    MPT_OK(nixl_detach(rank, MPT_PATIENCE));
}

static void try_it(int64_t timeout_ns)
{
    int rank = -1;
    int status = nixl_attach(where, name, argument, timeout_ns, &rank);

    if (status == NIXL_OK) {
        say("NIXL_OK");
        MPT_OK(nixl_detach(rank, MPT_PATIENCE));
    } else {
        printf("%d: %s\n", status, nixl_last_error()->text);
    }
}

static void publish(void)
{
    int status = nixl_publish(where, name, argument);

    if (status != NIXL_OK) {
        printf("%d: %s\n", status, nixl_last_error()->text);
        return;
    }
    MPT_EQ(nixl_publish(where, name, argument), NIXL_E_IN_USE);
    say_where(name);
    say("published");
    while (getchar() != EOF) {
    }
}

/* One port serves several names, each with its schema, until the last of them is unpublished. */
static void several(void)
{
    MPT_OK(nixl_publish(where, name, "first"));
    MPT_OK(nixl_publish(where, "second", "other schema"));
    say_where(name);
    say_where("second");
    say("published");
    while (getchar() != '\n') {
    }
    MPT_OK(nixl_unpublish(where, name));
    say("unpublished");
    while (getchar() != '\n') {
    }
}

static void *detach_patiently(void *rank_p)
{
    int rank = *(int *)rank_p;

    MPT_EQ(nixl_detach(rank, MPT_PATIENCE), NIXL_E_CANCELED);
    printf("%s\n", nixl_last_error()->text);
    return NULL;
}

/* The publisher prints its pid first. */
static void stopped(void)
{
    pid_t pid = (pid_t)number_of_argument();
    const int64_t until = mpt_now_ns() + MPT_PATIENCE;
    struct nixl_peer_info info = NIXL_PEER_INFO_INIT;
    int rank = attach_to(name_of(0)), number;
    pthread_t thread;

    mpt_bring(pid, SIGSTOP, "T");
    MPT_EQ(nixl_detach(rank, 50 * MPT_MS), NIXL_E_TIMEOUT);
    MPT_EQ(nixl_attach(where, name, SCHEMA, 50 * MPT_MS, &rank), NIXL_E_TIMEOUT);
    printf("%s\n", nixl_last_error()->text);
    mpt_bring(pid, SIGCONT, "SR");
    rank = attach_to(name_of(0));
    say_hello(rank);
    MPT_OK(nixl_peer_query(rank, &info));
    mpt_bring(pid, SIGSTOP, "T");
    MPT_EQ(pthread_create(&thread, NULL, detach_patiently, &rank), 0);
    while (nixl_peer_number(info.job, info.job_rank, &number) == NIXL_OK) { /* not begun yet */
        MPT_LT(mpt_now_ns(), until);
        usleep(100);
    }
    MPT_EQ(nixl_detach(rank, 0), NIXL_INPROGRESS);
    MPT_EQ(pthread_join(thread, NULL), 0);
    MPT_EQ(nixl_detach(rank, 0), NIXL_E_PEER_LOST);
    MPT_TRUE(pid > 1);
    MPT_EQ(kill(pid, SIGCONT), 0); /* it ends at once, and may be gone when its state is read */
}

/* The names that are published there, one process more than this one's. */
static void names(void)
{
    char text[512], small[4];
    size_t needed = 0, again = 0;

    MPT_OK(nixl_publish_list(where, MPT_PATIENCE, text, sizeof(text), &needed));
    MPT_EQ(needed, strlen(text) + 1);
    MPT_EQ(nixl_publish_list(where, MPT_PATIENCE, small, needed > 1 ? 1 : 0, &again),
           NIXL_E_TRUNCATED);
    MPT_EQ(again, needed);
    MPT_EQ(nixl_publish_list(where, MPT_PATIENCE, NULL, 0, NULL), NIXL_E_TRUNCATED);
    MPT_EQ(nixl_publish_list(where, 0, small, sizeof(small), NULL), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_publish_list(where, 1, NULL, 1, NULL), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_publish_list("tcp://a:1", 1, small, sizeof(small), NULL), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_publish_list("file:/there/is/none", 1, small, sizeof(small), NULL),
           NIXL_E_NOT_FOUND);
    printf("%s", text);
}

static void refusals(void)
{
    static char long_schema[NIXL_SCHEMA_MAX + 2];
    int rank = 7;

    memset(long_schema, 'x', NIXL_SCHEMA_MAX + 1);
    MPT_EQ(nixl_publish(NULL, name, ""), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_publish("file:", name, ""), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_publish("etcd://x", name, ""), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_publish("tcp://", name, ""), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_publish("tcp://host", name, ""), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_publish("tcp://host:", name, ""), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_publish("tcp://host:65536", name, ""), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_publish("tcp://host:1x", name, ""), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_publish("tcp://[::1:1", name, ""), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_publish("tcp://::1:1", name, ""), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_attach("tcp://localhost:0", name, "", 0, &rank), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_publish(where, NULL, ""), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_publish(where, "", ""), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_publish(where, "a/b", ""), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_publish(where, ".a", ""), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_publish(where, name, long_schema), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_publish("file:/there/is/none", name, ""), NIXL_E_NOT_FOUND);
    MPT_EQ(nixl_unpublish(where, name), NIXL_E_NOT_FOUND);
    MPT_EQ(nixl_attach(where, name, "", -1, &rank), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_attach(where, name, "", 0, NULL), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_attach(where, name, "", 0, &rank), NIXL_INPROGRESS);
    MPT_EQ(nixl_attach("file:/there/is/none", name, "", 0, &rank), NIXL_E_NOT_FOUND);
    MPT_OK(nixl_publish(where, name, NULL));
    MPT_EQ(nixl_attach(where, name, NULL, MPT_PATIENCE, &rank), NIXL_E_INVALID_ARG);
    MPT_OK(nixl_unpublish(where, name));
    MPT_EQ(nixl_detach(nixl_rank(), 0), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_detach(nixl_size(), 0), NIXL_E_INVALID_ARG);
    MPT_EQ(nixl_detach(-1, 0), NIXL_E_INVALID_ARG);
    MPT_EQ(rank, 7);
    MPT_OK(nixl_publish(where, name, NULL)); /* nixl_finalize() removes it */
}

int main(int argc, char **argv)
{
    const char *what = argc > 3 ? argv[1] : "nothing";

    mpt_start();
    where = argc > 3 ? argv[2] : "";
    name = argc > 3 ? argv[3] : "";
    argument = argc > 4 ? argv[4] : NULL;
    is_alone = getenv("PMIX_NAMESPACE") == NULL;
    printf("pid %d\n", (int)getpid());
    MPT_OK(nixl_init(NULL));
    snprintf(own_name, sizeof(own_name), "%s", name_of(nixl_rank()));
    if (strcmp(what, "serve") == 0) {
        serve();
    } else if (strcmp(what, "visit") == 0) {
        visit();
    } else if (strcmp(what, "cycle") == 0) {
        cycle();
    } else if (strcmp(what, "stay") == 0) {
        stay();
    } else if (strcmp(what, "leave") == 0) {
        leave();
    } else if (strcmp(what, "watch") == 0) {
        watch();
    } else if (strcmp(what, "gather") == 0) {
        gather();
    } else if (strcmp(what, "member") == 0) {
        member();
    } else if (strcmp(what, "beside") == 0) {
        beside();
    } else if (strcmp(what, "try") == 0) {
        try_it(3 * MPT_S);
    } else if (strcmp(what, "brief") == 0) {
        try_it(300 * MPT_MS);
    } else if (strcmp(what, "awaited") == 0) {
        try_it(MPT_PATIENCE);
    } else if (strcmp(what, "publish") == 0) {
        publish();
    } else if (strcmp(what, "several") == 0) {
        several();
    } else if (strcmp(what, "stopped") == 0) {
        stopped();
    } else if (strcmp(what, "names") == 0) {
        names();
    } else if (strcmp(what, "paths") == 0) {
        attach_calls_paths(where, name);
    } else if (strcmp(what, "refusals") == 0) {
        refusals();
    } else {
        mpt_fail(__FILE__, __LINE__, "'%s' is not known", what);
    }
    MPT_OK(nixl_finalize());
    say("done");
    return mpt_passed();
}
