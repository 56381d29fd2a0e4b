/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread that is about to sleep sees, while another one moves a notification. */
#include "net_case.h"

#include "net/net.h"
#include "sync/inbox.h"
#include "sync/notify.h"

#include "test/unit/unit.h"

enum { OWN = 1, OTHERS = 2 };

static unsigned n_looks, n_missed;

void __real_nxr_net_send_credit(struct nxr_peer *peer);
void __wrap_nxr_net_send_credit(struct nxr_peer *peer);

/* The ring has lost the notification, and its slots are being returned. */
void __wrap_nxr_net_send_credit(struct nxr_peer *peer)
{
    n_looks++;
    n_missed += !nxr_inbox_has_any();
    __real_nxr_net_send_credit(peer);
}

static void come(uint64_t tag)
{
    const struct nxr_net_note note = {.tag = tag};

    fake_receive(1, NXR_NET_NOTE, &note, sizeof(note), NULL, 0);
}

/* A call that wants another one queues it: it is in the ring or in the queue all the time. */
Test(inbox, what_is_moved_to_the_queue_is_always_seen, .init = start, .fini = stop)
{
    static struct nixl_note note;

    nixl_note_init(&note);
    for (int i = 0; i < 2 * NXR_RING_WIDE_SLOTS; i++) {
        come(OTHERS);
        cr_assert(eq(int, nixl_notify_recv(1, OWN, UINT64_MAX, 0, &note), NIXL_INPROGRESS));
        cr_assert(eq(int, nixl_notify_recv(1, OTHERS, UINT64_MAX, 0, &note), NIXL_OK));
        cr_assert(not(nxr_inbox_has_any()));
    }
    cr_expect(gt(u32, n_looks, 0));
    cr_expect(zero(u32, n_missed));
}
