/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cannot be done is refused with the right status.
 *
 *     refusals resolve  a name that no rank publishes (NIXLRUN_RESOLVE_TIMEOUT=200ms)
 *     refusals remote   ranks that count as being on different hosts, without a network transport,
 *                       or with one that finds no device (NIXLRUN_NET_DEVICES)
 *     refusals self     NIXLRUN_TRANSPORTS=self: no way to other ranks
 *     refusals freed    memory that its owner gave back before it closed the region
 *     refusals queue    more unfitting notifications than NIXLRUN_NOTE_QUEUE=64K allows
 */
#include "mptest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TAG_HERE  0x4f01
#define TAG_OTHER 0x4f02

static struct nixl_note note;

/*
 * The first use of a segment within a call that has a timeout: each try takes a name that no rank
 * has asked for. The fastest of some counts, since other processes may have the core.
 */
static void expect_fast(int other, bool is_get)
{
    int64_t fastest_ns = INT64_MAX;
    char byte = 0;

    for (int i = 0; i < 5; i++) {
        struct nixl_region *region;
        int64_t took_ns = mpt_now_ns();
        char name[32];

        snprintf(name, sizeof(name), "nobody.%d.%d", is_get, i);
        MPT_OK(nixl_region_open(name, &region));
        MPT_STATUS(is_get ? nixl_get_notify(other, region, 0, &byte, 1, TAG_HERE, NULL, 0, 0)
                          : nixl_put_notify(other, region, 0, &byte, 1, TAG_HERE, NULL, 0, 0),
                   NIXL_E_AGAIN);
        took_ns = mpt_now_ns() - took_ns;
        fastest_ns = took_ns < fastest_ns ? took_ns : fastest_ns;
        MPT_STATUS(is_get ? nixl_get_notify(other, region, 0, &byte, 1, TAG_HERE, NULL, 0, MPT_MS)
                          : nixl_put_notify(other, region, 0, &byte, 1, TAG_HERE, NULL, 0, MPT_MS),
                   NIXL_E_TIMEOUT);
        MPT_TRUE(strstr(nixl_last_error()->text, name) != NULL);
        MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    }
    MPT_LT(fastest_ns, 100 * MPT_MS); /* of the 200 ms that it would wait without a timeout */
}

static void test_resolve(void)
{
    int other = (nixl_rank() + 1) % nixl_size();
    struct nixl_region *region = NULL;
    struct nixl_req *req = NULL;
    int64_t start_ns = mpt_now_ns();
    char byte = 0;
    int status;

    MPT_OK(nixl_region_open("nobody", &region));
    MPT_STATUS(nixl_put(other, region, 0, &byte, 1), NIXL_E_NOT_FOUND);
    MPT_GE(mpt_now_ns() - start_ns, 200 * MPT_MS);
    MPT_LT(mpt_now_ns() - start_ns, MPT_PATIENCE);
    MPT_EQ(nixl_last_error()->rank, other);
    MPT_TRUE(strstr(nixl_last_error()->text, "nobody") != NULL);
    MPT_STATUS(nixl_get(other, region, 0, &byte, 1), NIXL_E_NOT_FOUND);
    status = nixl_put_x(other, region, 0, &byte, 1, NULL, &req);
    if (status == NIXL_INPROGRESS) {
        status = nixl_req_wait(&req, MPT_PATIENCE);
    }
    MPT_STATUS(status, NIXL_E_NOT_FOUND);
    MPT_STATUS(nixl_put(nixl_rank(), region, 0, &byte, 1), NIXL_E_NOT_FOUND);
    MPT_STATUS(nixl_put_notify(other, region, 0, &byte, 1, TAG_HERE, NULL, 0, MPT_PATIENCE),
               NIXL_E_NOT_FOUND);
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    expect_fast(other, false);
    expect_fast(other, true);
    mpt_barrier();
}

/* No way to the others: every kind of call says so, and what is one's own works. */
static void test_no_way(enum nixl_scope_kind scope)
{
    int other = (nixl_rank() + 1) % nixl_size();
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *region = NULL;
    void *addr = NULL;
    char byte = 1;

    MPT_OK(nixl_region_alloc("mine", 64, NULL, &region));
    MPT_EQ(nixl_scope(other), scope);
    MPT_STATUS(nixl_put(other, region, 0, &byte, 1), NIXL_E_UNSUPPORTED);
    MPT_NE(nixl_last_error()->text[0], '\0');
    printf("%s\n", nixl_last_error()->text);
    MPT_STATUS(nixl_get(other, region, 0, &byte, 1), NIXL_E_UNSUPPORTED);
    MPT_STATUS(nixl_region_query(other, region, MPT_PATIENCE, &info), NIXL_E_UNSUPPORTED);
    MPT_STATUS(nixl_region_map(other, region, &addr), NIXL_E_UNSUPPORTED);
    MPT_STATUS(nixl_notify(other, TAG_HERE, NULL, 0, MPT_PATIENCE), NIXL_E_UNSUPPORTED);
    MPT_OK(nixl_put(nixl_rank(), region, 0, &byte, 1));
    MPT_OK(nixl_notify(nixl_rank(), TAG_HERE, NULL, 0, MPT_PATIENCE));
    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(NIXL_ANY_RANK, TAG_HERE, UINT64_MAX, MPT_PATIENCE, &note));
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
}

/* A copy of a freed segment, by whichever call: the text says what is wrong, not only that. */
static void expect_no_memory(int status, int other)
{
    MPT_STATUS(status, NIXL_E_TRANSPORT);
    MPT_EQ(nixl_last_error()->rank, other);
    MPT_TEXT(nixl_last_error()->transport, "shm");
    if (strstr(nixl_last_error()->text, "memory at one end is gone") == NULL) {
        mpt_fail(__FILE__, __LINE__, "'%s'", nixl_last_error()->text);
    }
}

/* A segment whose memory is gone: the kernel reports it to the others where it makes the copies. */
static void test_freed(void)
{
    const size_t nbytes = 4ul << 20;
    struct nixl_region_info info = NIXL_REGION_INFO_INIT;
    struct nixl_region *region = NULL;
    struct nixl_req *req = NULL;
    char *bytes = malloc(nbytes);
    void *memory = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int other = (nixl_rank() + 1) % nixl_size();
    int status;

    MPT_TRUE(memory != MAP_FAILED && bytes != NULL);
    memset(bytes, 1, nbytes);
    MPT_OK(nixl_region_register("freed", memory, nbytes, NULL, &region));
    MPT_OK(nixl_region_query(other, region, MPT_PATIENCE, &info));
    mpt_barrier();
    MPT_EQ(munmap(memory, nbytes), 0);
    mpt_barrier();
    if (strcmp(info.method, "process_vm") == 0) {
        expect_no_memory(nixl_put(other, region, 0, bytes, nbytes), other);
        expect_no_memory(nixl_get(other, region, 8, bytes, 8), other);
        status = nixl_put_x(other, region, 0, bytes, nbytes, NULL, &req);
        if (status == NIXL_INPROGRESS) {
            status = nixl_req_wait(&req, MPT_PATIENCE);
        }
        expect_no_memory(status, other);
    }
    mpt_barrier();
    MPT_OK(nixl_region_close(region, MPT_PATIENCE));
    free(bytes);
}

/* Receive with a filter that nothing fits: what waits aside is bounded, and nothing is lost. */
static void test_queue(void)
{
    static unsigned char message[NIXL_NOTE_MAX];
    unsigned n_sent = 0, n_received = 0;
    int status;

    for (;;) {
        status = nixl_notify(nixl_rank(), TAG_OTHER, message, sizeof(message), 0);
        if (status == NIXL_OK) {
            n_sent++;
            continue;
        }
        MPT_STATUS(status, NIXL_E_AGAIN);
        nixl_note_init(&note);
        status = nixl_notify_recv(nixl_rank(), TAG_HERE, UINT64_MAX, 0, &note);
        if (status != NIXL_INPROGRESS) {
            break;
        }
        MPT_LT(n_sent, 1000);
    }
    MPT_STATUS(status, NIXL_E_LIMIT);
    MPT_GE(n_sent, 65536 / NIXL_NOTE_MAX);
    for (nixl_note_init(&note);
         nixl_notify_recv(nixl_rank(), TAG_OTHER, UINT64_MAX, 0, &note) == NIXL_OK;) {
        n_received++;
    }
    MPT_EQ(n_received, n_sent);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    mpt_start();
    if (strcmp(what, "remote") == 0) {
        setenv("NIXLRUN_HOSTID", getenv("PMIX_RANK"), 1);
    }
    MPT_OK(nixl_init(NULL));
    if (strcmp(what, "resolve") == 0) {
        test_resolve();
    } else if (strcmp(what, "remote") == 0) {
        test_no_way(NIXL_SCOPE_REMOTE);
    } else if (strcmp(what, "self") == 0) {
        test_no_way(NIXL_SCOPE_REMOTE);
    } else if (strcmp(what, "freed") == 0) {
        test_freed();
    } else {
        test_queue();
    }
    MPT_OK(nixl_finalize());
    return mpt_passed();
}
