/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rail's buffers. Those for incoming messages are large: libfabric fills each with many messages,
 * and they are reposted when it reports that it has released them. Those for frames without content
 * are small.
 *
 * A connection that finds no buffer waits until one is posted. libfabric's own TCP up to 1.18 then
 * resumes only the first that waits (its pull request 8937 is the fix); the others wait forever,
 * unless more messages arrive that use up buffers. So after that may have happened, a spare buffer
 * is posted and taken back, once for every rank. The spare one is last in libfabric's queue, and
 * holds a single message.
 */
#include "config.h"

#include "ofi.h"

#include <rdma/fi_errno.h>

#include <stdlib.h>

#define SPARE        NXR_OFI_N_RECEIVES /* its index */
#define SPARE_NBYTES nxr_ofi_frame_nbytes(NXR_OFI_CONTENT_MAX)

/* ---- receives -------------------------------------------------------------------------------- */

static bool ofi_receive_post(struct nxr_ofi_rail *rail, struct nxr_ofi_receive *receive)
{
    bool is_spare = receive == &rail->receives[SPARE];
    struct iovec iov = {receive->bytes, is_spare ? SPARE_NBYTES : sizeof(receive->bytes)};
    void *desc = nxr_ofi_mr_desc(receive->mr);
    struct fi_msg msg = {
        .msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = receive};

    receive->is_posted = fi_recvmsg(rail->ep, &msg, FI_MULTI_RECV | FI_COMPLETION) == 0;
    return receive->is_posted;
}

/* Some connections may have found no buffer. */
static void begin_to_stir(struct nxr_ofi_rail *rail)
{
    if (nxr_ofi_is_own_tcp() && fi_version() < FI_VERSION(1, 19)) {
        rail->n_stirs = (unsigned)nxr_ofi.core->size;
    }
}

void nxr_ofi_receives_post(struct nxr_ofi_rail *rail)
{
    if (rail->n_unposted > 0) {
        begin_to_stir(rail);
    }
    rail->n_unposted = 0;
    for (unsigned i = 0; i < NXR_OFI_N_RECEIVES; i++) {
        if (!rail->receives[i].is_posted && !ofi_receive_post(rail, &rail->receives[i])) {
            rail->n_unposted++;
        }
    }
}

void nxr_ofi_receive_used_up(struct nxr_ofi_rail *rail, struct nxr_ofi_receive *receive)
{
    if (receive == &rail->receives[SPARE]) {
        receive->is_posted = false;
        return;
    }
    if (!ofi_receive_post(rail, receive)) {
        rail->n_unposted++;
    }
    if (++rail->n_used_up >= NXR_OFI_N_RECEIVES) {
        begin_to_stir(rail); /* the last one may have been before the first was posted again */
    }
}

bool nxr_ofi_can_stir(const struct nxr_ofi_rail *rail)
{
    return rail->n_stirs > 0 && !rail->receives[SPARE].is_posted;
}

bool nxr_ofi_stir(struct nxr_ofi_rail *rail)
{
    struct nxr_ofi_receive *spare = &rail->receives[SPARE];

    if (!nxr_ofi_can_stir(rail) || !ofi_receive_post(rail, spare)) {
        return false;
    }
    rail->n_stirs--;
    (void)fi_cancel(&rail->ep->fid, spare); /* fails if a message has arrived in it */
    return true;
}

/* ---- all ------------------------------------------------------------------------------------- */

int nxr_ofi_buffers_make(struct nxr_ofi_rail *rail)
{
    bool is_local = (rail->mr_mode & FI_MR_LOCAL) != 0;
    int rc = 0;

    rail->receives = aligned_alloc(64, (NXR_OFI_N_RECEIVES + 1) * sizeof(*rail->receives));
    rail->controls = calloc(NXR_OFI_N_CONTROLS, sizeof(*rail->controls));
    for (unsigned i = 0; rail->receives != NULL && i <= SPARE; i++) {
        rail->receives[i].posted.kind = NXR_OFI_RECEIVE;
        rail->receives[i].mr = NULL;
        rail->receives[i].is_posted = false;
    }
    if (rail->receives == NULL || rail->controls == NULL) {
        return -FI_ENOMEM;
    }
    for (unsigned i = 0; i < NXR_OFI_N_CONTROLS; i++) {
        rail->controls[i].posted.kind = NXR_OFI_CONTROL;
    }
    if (is_local) {
        rc = nxr_ofi_rail_register(rail, rail->controls,
                                   NXR_OFI_N_CONTROLS * sizeof(*rail->controls), FI_SEND,
                                   NXR_OFI_NEW_KEY, &rail->controls_mr);
    }
    for (unsigned i = 0; is_local && rc == 0 && i <= SPARE; i++) {
        struct nxr_ofi_receive *receive = &rail->receives[i];

        rc = nxr_ofi_rail_register(rail, receive->bytes, sizeof(receive->bytes), FI_RECV,
                                   NXR_OFI_NEW_KEY, &receive->mr);
    }
    return rc;
}

void nxr_ofi_buffers_let_go(struct nxr_ofi_rail *rail)
{
    for (unsigned i = 0; i < NXR_OFI_N_CONTROLS; i++) {
        rail->controls[i].is_busy = false;
    }
    for (unsigned i = 0; i <= SPARE; i++) {
        rail->receives[i].is_posted = false;
    }
    rail->n_used_up = rail->n_stirs = 0;
}

void nxr_ofi_buffers_free(struct nxr_ofi_rail *rail)
{
    for (unsigned i = 0; rail->receives != NULL && i <= SPARE; i++) {
        nxr_ofi_mr_close(rail->receives[i].mr);
    }
    nxr_ofi_mr_close(rail->controls_mr);
    free(rail->receives);
    free(rail->controls);
    rail->receives = NULL;
    rail->controls = NULL;
    rail->controls_mr = NULL;
}
