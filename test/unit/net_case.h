/* SPDX-License-Identifier: Apache-2.0 */
/* What the cases of the protocol between hosts begin with: rank 1 is linked by the made-up net. */
#ifndef NET_CASE_H
#define NET_CASE_H

#include "fake_net.h"

#include "test/unit/unit.h"

enum { LARGE = 20000 }; /* bytes that do not go inside of a message */

static char buffer[LARGE];

static struct net_peer *np;

static inline void start(void)
{
    fake_start();
    np = fake_link(1);
}

static inline void start_rma(void)
{
    start();
    fake.attr.is_rma_better = true;
}

static inline void stop(void)
{
    fake_stop();
    cr_expect(eq(int, fake.n_open_eps, 0));
}

static inline int put_nb(struct nixl_region *region, size_t nbytes, struct nixl_req **req_p)
{
    return nixl_put_nb(1, region, 0, buffer, nbytes, req_p);
}

static inline int get_nb(struct nixl_region *region, size_t nbytes, struct nixl_req **req_p)
{
    return nixl_get_nb(1, region, 0, buffer, nbytes, req_p);
}

static inline struct nxr_net_put own_put(size_t nbytes)
{
    return (struct nxr_net_put){
        .generation = fake.own_key.generation, .nbytes = nbytes, .id = fake.own_key.id};
}

static inline void receive_note(int rank, uint64_t tag)
{
    const struct nxr_net_note note = {tag};

    fake_coming(rank, NXR_NET_NOTE, &note, sizeof(note), NULL, 0);
}

/* The tag of a notification that can be received now; 0: there is none. */
static inline uint64_t next_tag(void)
{
    struct nixl_note note;

    nixl_note_init(&note);
    return nixl_notify_recv(1, 0, 0, 0, &note) == NIXL_OK ? note.tag : 0;
}

#endif
