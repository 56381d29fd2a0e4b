/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libfabric rail that is to be opened again, and cannot (transports/ofi/rail.c), without
 * libfabric. Linked with --wrap=malloc.
 */
#include "transports/ofi/outbox.h"
#include "transports/ofi/rma.h"

#include "test/unit/unit.h"

#include <rdma/fi_errno.h>

struct nxr_ofi nxr_ofi;

static bool has_no_memory;
void *__real_malloc(size_t nbytes);
void *__wrap_malloc(size_t nbytes);

void *__wrap_malloc(size_t nbytes)
{
    return has_no_memory ? NULL : __real_malloc(nbytes);
}

/* ---- what rail.c calls ----------------------------------------------------------------------- */

int nxr_ofi_watch_rail(struct nxr_ofi_rail *of)
{
    (void)of;
    return NIXL_E_UNSUPPORTED;
}

void nxr_ofi_unwatch_rail(struct nxr_ofi_rail *of)
{
    (void)of;
}

int nxr_ofi_buffers_make(struct nxr_ofi_rail *of)
{
    (void)of;
    return 0;
}

void nxr_ofi_buffers_free(struct nxr_ofi_rail *of)
{
    (void)of;
}

void nxr_ofi_buffers_let_go(struct nxr_ofi_rail *of)
{
    (void)of;
}

void nxr_ofi_receives_post(struct nxr_ofi_rail *of)
{
    (void)of;
}

void nxr_ofi_receive_used_up(struct nxr_ofi_rail *of, struct nxr_ofi_receive *receive)
{
    (void)of;
    (void)receive;
}

bool nxr_ofi_stir(struct nxr_ofi_rail *of)
{
    (void)of;
    return false;
}

int nxr_ofi_mems_move(struct nxr_ofi_rail *of)
{
    (void)of;
    return 0;
}

void nxr_ofi_peers_insert(struct nxr_ofi_rail *of)
{
    (void)of;
}

bool nxr_ofi_is_own_tcp(void)
{
    return false;
}

void nxr_ofi_take(struct nxr_ofi_rail *of, const void *bytes, size_t nbytes)
{
    (void)of;
    (void)bytes;
    (void)nbytes;
}

void nxr_ofi_slot_done(struct nxr_ofi_slot *slot, unsigned path, const char *why)
{
    (void)slot;
    (void)path;
    (void)why;
}

void nxr_ofi_piece_done(struct nxr_ofi_piece *piece, const char *why)
{
    (void)piece;
    (void)why;
}

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric_p, void *context)
{
    (void)attr;
    (void)fabric_p;
    (void)context;
    return -FI_ENOSYS;
}

void fi_freeinfo(struct fi_info *info)
{
    (void)info;
}

const char *fi_strerror(int error)
{
    (void)error;
    return "";
}

/* ---- cases ----------------------------------------------------------------------------------- */

static unsigned n_closed;

static int count_close(struct fid *fid)
{
    (void)fid;
    n_closed++;
    return 0;
}

/* After it, whoever has something under way on the rail takes it back from libfabric. */
Test(ofi_rail, one_that_cannot_be_opened_again_is_closed)
{
    static struct fi_ops ops = {.size = sizeof(ops), .close = count_close};
    static struct fid_ep ep = {.fid.ops = &ops};
    static struct fid_cq cq = {.fid.ops = &ops};
    static struct fid_av av = {.fid.ops = &ops};
    struct nxr_ofi_rail rail = {.ep = &ep, .cq = &cq, .av = &av, .name_nbytes = 16};
    int status;

    has_no_memory = true;
    status = nxr_ofi_rail_reopen(&rail);
    has_no_memory = false;
    cr_expect_eq(status, NIXL_E_NO_MEMORY);
    cr_expect_eq(n_closed, 3);
    cr_expect(rail.ep == NULL && rail.cq == NULL && rail.av == NULL);
}
