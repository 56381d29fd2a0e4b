/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wait for an exposed buffer ends since the only partner leaves the job. In the next life of both
 * processes, the same thread waits for a buffer of the same slot and request: its partner is there.
 */
#include "mptest.h"

#include <string.h>

enum { TAG_TOKEN = 0x9a12, NBYTES = 64 };

static struct nixl_region *region;

static struct nixl_req *expose(char token[NIXL_TOKEN_MAX + 1])
{
    struct nixl_req *req = NULL;

    MPT_STATUS(nixl_pair_expose(1, region, 0, NBYTES, NIXL_PAIR_READ, NIXL_FOREVER, token,
                                NIXL_TOKEN_MAX + 1, &req),
               NIXL_INPROGRESS);
    return req;
}

static void expose_in_vain(void)
{
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_req *req = expose(token);

    MPT_STATUS(nixl_req_wait(&req, MPT_PATIENCE), NIXL_E_PEER_LOST);
}

static void expose_for_use(void)
{
    char token[NIXL_TOKEN_MAX + 1];
    struct nixl_req *req = expose(token);

    MPT_STATUS(nixl_req_wait(&req, 10 * MPT_MS), NIXL_E_TIMEOUT);
    MPT_OK(nixl_notify(1, TAG_TOKEN, token, strlen(token) + 1, MPT_PATIENCE));
    MPT_OK(nixl_req_wait(&req, MPT_PATIENCE));
}

static void use(void)
{
    static struct nixl_note note;
    struct nixl_req *req = NULL;
    char bytes[NBYTES];
    int status;

    nixl_note_init(&note);
    MPT_OK(nixl_notify_recv(0, TAG_TOKEN, UINT64_MAX, MPT_PATIENCE, &note));
    status = nixl_pair_read((const char *)note.payload, bytes, sizeof(bytes), &req);
    MPT_OK(status == NIXL_INPROGRESS ? nixl_req_wait(&req, MPT_PATIENCE) : status);
}

int main(void)
{
    mpt_start();
    for (int life = 0; life < 2; life++) {
        MPT_OK(nixl_init(NULL));
        MPT_OK(nixl_region_alloc("again", NBYTES, NULL, &region));
        mpt_barrier();
        if (nixl_rank() == 0 && life == 0) {
            expose_in_vain();
        } else if (nixl_rank() == 0) {
            expose_for_use();
        } else if (life == 1) {
            use();
        }
        MPT_OK(nixl_finalize());
    }
    return mpt_passed();
}
