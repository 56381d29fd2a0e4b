/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes: each is cut into pieces, one per libfabric operation. */
#ifndef NXR_OFI_RMA_H
#define NXR_OFI_RMA_H

#include "ofi.h"

struct nxr_net_mem {
    struct nxr_list link; /* nxr_ofi.mems */
    const char *addr;
    size_t nbytes;
    enum nixl_mem_kind kind;
    uint32_t access; /* of enum nixl_access: what peers may not do */
    struct fid_mr *mrs[NXR_OFI_MAX_RAILS];
    struct fid_mr *moved; /* within nxr_ofi_mems_move() */
};

struct nxr_net_key {
    struct nxr_ofi_key wire;
    unsigned n_users; /* the core, and every operation */
};

struct nxr_ofi_rma {
    struct nxr_list link;       /* ep->rmas, or nxr_ofi.ended, or nxr_ofi.free_rmas */
    struct nxr_list start_link; /* ep->starting, until all is cut */
    struct nxr_net_ep *ep;
    struct nxr_net_key *key;
    struct nxr_net_op *op;
    const struct nxr_ofi_near *near; /* distances from the local bytes */
    char *bytes;
    uint64_t offset;
    size_t nbytes;
    size_t cut;        /* how many bytes are cut into pieces */
    unsigned n_pieces; /* pieces that have not ended */
    bool is_write;
    int status;
    struct fid_mr *mrs[NXR_OFI_MAX_RAILS]; /* of the local bytes, if this module registered them */
};

struct nxr_ofi_piece {
    struct nxr_ofi_posted posted;
    struct nxr_list link; /* path->pieces, ep->waiting, path->fenced, or nxr_ofi.free_pieces */
    struct nxr_net_ep *ep;
    struct nxr_ofi_rma *rma; /* NULL: it has ended, and libfabric still has the piece */
    size_t at;
    size_t nbytes;
    unsigned rail;
    unsigned n_tries;
    int64_t posted_at;
};

int nxr_ofi_mem_register(void *addr, size_t nbytes, enum nixl_mem_kind kind, uint32_t access,
                         struct nxr_net_mem **mem_p, void *key, size_t *key_nbytes_p);
void nxr_ofi_mem_release(struct nxr_net_mem *mem);
void nxr_ofi_mems_free(void);

/*
 * The rail has a new domain: register all memory with it, under the same keys, and release the
 * registrations with the old one. 0, or a failure of libfabric: nothing has changed.
 */
int nxr_ofi_mems_move(struct nxr_ofi_rail *rail);
int nxr_ofi_key_open(struct nxr_net_ep *ep, const void *key, size_t nbytes,
                     struct nxr_net_key **key_p);
void nxr_ofi_key_close(struct nxr_net_key *key);

int nxr_ofi_write(struct nxr_net_ep *ep, struct nxr_net_key *key, uint64_t offset, const void *src,
                  size_t nbytes, struct nxr_net_op *op);
int nxr_ofi_read(struct nxr_net_ep *ep, struct nxr_net_key *key, uint64_t offset, void *dst,
                 size_t nbytes, struct nxr_net_op *op);

/* Pass to libfabric what waits; true: something moved. */
bool nxr_ofi_post_pieces(struct nxr_net_ep *ep);

/* libfabric has ended a piece; `why` is NULL if it succeeded. */
void nxr_ofi_piece_done(struct nxr_ofi_piece *piece, const char *why);

/* The rail was closed, and its pieces with it. */
void nxr_ofi_pieces_rail_closed(struct nxr_net_ep *ep, unsigned rail);

/* End all operations with a peer; the next progress() reports them to the core. */
void nxr_ofi_rmas_end(struct nxr_net_ep *ep, int status);
int nxr_ofi_rmas_tell(void);
void nxr_ofi_rmas_free(void);

#endif
