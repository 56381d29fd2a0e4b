/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes. A short operation, or one that has a single path, is one piece. Others are
 * cut into pieces, and every path takes the next piece whenever it has room: so paths of
 * different speed end together, and the others take over the pieces of a path that fails. An
 * operation ends with its last piece.
 */
#include "config.h"

#include "nearest.h"
#include "outbox.h"
#include "repair.h"
#include "rma.h"
#include "transports/stripe.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <stdlib.h>
#include <string.h>

/*
 * Over two rails of 1 Gbit/s each, a cut transfer took half the time from this size on (4.4 ms for
 * 1 MiB, 281 ms for 64 MiB; one rail would take 8.8 and 561 ms). A piece costs its round trip, 8
 * us.
 */
#define STRIPE_MIN   (128 * 1024)
#define STRIPE_DEPTH 3   /* pieces under way on each path, if there are several paths */
#define DEPTH        256 /* ... and if there is one */
#define MAX_TRIES    8
#define MAX_RMAS     4096 /* of a peer */

/* ---- operations ------------------------------------------------------------------------------ */

static void *take_free(struct nxr_list *list, size_t link_offset, size_t nbytes)
{
    struct nxr_list *link = nxr_list_pop(list);

    return link != NULL ? (void *)((char *)link - link_offset) : malloc(nbytes);
}

static struct nxr_ofi_rma *new_rma(void)
{
    return take_free(&nxr_ofi.free_rmas, offsetof(struct nxr_ofi_rma, link),
                     sizeof(struct nxr_ofi_rma));
}

static struct nxr_ofi_piece *new_piece(struct nxr_ofi_rma *rma)
{
    struct nxr_ofi_piece *piece =
        take_free(&nxr_ofi.free_pieces, offsetof(struct nxr_ofi_piece, link), sizeof(*piece));

    if (piece != NULL) {
        *piece = (struct nxr_ofi_piece){.posted.kind = NXR_OFI_PIECE, .rma = rma, .ep = rma->ep};
        nxr_list_init(&piece->link);
    }
    return piece;
}

static void free_piece(struct nxr_ofi_piece *piece)
{
    nxr_list_remove(&piece->link);
    nxr_list_append(&nxr_ofi.free_pieces, &piece->link);
}

/* Remove the operation from its peer; ofi_rma_tell() reports it to the core. */
static void ofi_rma_finish(struct nxr_ofi_rma *rma, int status)
{
    nxr_list_remove(&rma->link);
    nxr_list_remove(&rma->start_link);
    rma->ep->n_rmas--;
    rma->status = status;
    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        nxr_ofi_mr_close(rma->mrs[i]);
    }
    nxr_ofi_key_close(rma->key);
}

static void ofi_rma_tell(struct nxr_ofi_rma *rma)
{
    struct nxr_net_op *op = rma->op;
    int status = rma->status;

    nxr_list_append(&nxr_ofi.free_rmas, &rma->link);
    nxr_ofi.core->ended(op, status);
}

static int ofi_rma_start(struct nxr_net_ep *ep, struct nxr_net_key *key, struct nxr_ofi_rma what)
{
    struct nxr_ofi_rma *rma;

    if (ep->is_failed) {
        return NIXL_E_TRANSPORT;
    }
    if (what.nbytes == 0) {
        return NIXL_OK;
    }
    if (what.offset > key->wire.nbytes || what.nbytes > key->wire.nbytes - what.offset) {
        return NIXL_E_RANGE;
    }
    rma = ep->n_rmas < MAX_RMAS ? new_rma() : NULL;
    if (rma == NULL) {
        return NIXL_E_AGAIN;
    }
    *rma = what;
    rma->ep = ep;
    rma->key = key;
    rma->near = nxr_ofi_near_of(what.op->pci);
    key->n_users++;
    ep->n_rmas++;
    nxr_list_append(&ep->rmas, &rma->link);
    nxr_list_init(&rma->start_link);
    nxr_list_append(&ep->starting, &rma->start_link);
    nxr_ofi_post_pieces(ep);
    return NIXL_INPROGRESS;
}

int nxr_ofi_write(struct nxr_net_ep *ep, struct nxr_net_key *key, uint64_t offset, const void *src,
                  size_t nbytes, struct nxr_net_op *op)
{
    return ofi_rma_start(
        ep, key,
        (struct nxr_ofi_rma){
            .is_write = true, .op = op, .offset = offset, .bytes = (char *)src, .nbytes = nbytes});
}

int nxr_ofi_read(struct nxr_net_ep *ep, struct nxr_net_key *key, uint64_t offset, void *dst,
                 size_t nbytes, struct nxr_net_op *op)
{
    return ofi_rma_start(
        ep, key, (struct nxr_ofi_rma){.op = op, .offset = offset, .bytes = dst, .nbytes = nbytes});
}

/* ---- posting --------------------------------------------------------------------------------- */

/* The descriptor of local bytes, if the provider needs one: of registered memory, or of a
 * registration made for this operation. */
static int local_desc(struct nxr_ofi_rail *rail, struct nxr_ofi_rma *rma, void **desc_p)
{
    const struct nxr_ofi_bytes bytes = {rma->bytes, rma->nbytes, rma->op->memory_kind};
    struct nxr_list *link, *after;
    int rc = 0;

    *desc_p = NULL;
    if ((rail->mr_mode & (bytes.kind == NIXL_MEM_CUDA ? FI_MR_LOCAL | FI_MR_HMEM : FI_MR_LOCAL)) ==
        0) {
        return 0;
    }
    nxr_list_for_each (link, after, &nxr_ofi.mems) {
        const struct nxr_net_mem *mem = nxr_list_entry(link, struct nxr_net_mem, link);

        if (rma->bytes >= mem->addr && rma->nbytes <= mem->nbytes &&
            (size_t)(rma->bytes - mem->addr) <= mem->nbytes - rma->nbytes) {
            *desc_p = nxr_ofi_mr_desc(mem->mrs[rail->index]);
            return 0;
        }
    }
    if (rma->mrs[rail->index] == NULL) {
        rc = nxr_ofi_rail_register_kind(rail, &bytes, rma->is_write ? FI_WRITE : FI_READ,
                                        NXR_OFI_NEW_KEY, &rma->mrs[rail->index]);
    }
    *desc_p = nxr_ofi_mr_desc(rma->mrs[rail->index]);
    return rc;
}

static ssize_t ofi_rma_post(struct nxr_ofi_piece *piece, unsigned index)
{
    struct nxr_ofi_rail *rail = &nxr_ofi.rails[index];
    struct nxr_ofi_rma *rma = piece->rma;
    const struct nxr_ofi_path *path = &piece->ep->paths[index];
    const struct nxr_ofi_key_rail *key = &rma->key->wire.rails[path->theirs];
    void *desc;
    struct iovec iov = {rma->bytes + piece->at, piece->nbytes};
    struct fi_rma_iov remote = {key->base + rma->offset + piece->at, piece->nbytes, key->key};
    struct fi_msg_rma msg = {.msg_iov = &iov,
                             .desc = &desc,
                             .iov_count = 1,
                             .addr = path->addr,
                             .rma_iov = &remote,
                             .rma_iov_count = 1,
                             .context = piece};
    ssize_t rc = local_desc(rail, rma, &desc);

    if (rc != 0) {
        return rc;
    }
    return rma->is_write ? fi_writemsg(rail->ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE)
                         : fi_readmsg(rail->ep, &msg, FI_COMPLETION);
}

/* The operation to take the next piece from. */
static const struct nxr_ofi_rma *next_rma(const struct nxr_net_ep *ep)
{
    return !nxr_list_is_empty(&ep->waiting)
               ? nxr_list_entry(ep->waiting.next, struct nxr_ofi_piece, link)->rma
               : nxr_list_entry(ep->starting.next, struct nxr_ofi_rma, start_link);
}

/* The path for the next piece; -1: none has room. */
static int path_with_room(const struct nxr_net_ep *ep, unsigned blocked, unsigned depth)
{
    const struct nxr_ofi_rma *rma = next_rma(ep);
    struct nxr_ofi_choice paths[NXR_OFI_MAX_RAILS];

    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        paths[i] = (struct nxr_ofi_choice){
            .has_room = (blocked & (1u << i)) == 0 && nxr_ofi_path_is_usable(ep, i) &&
                        ep->paths[i].n_pieces < depth,
            .n_pieces = ep->paths[i].n_pieces,
            .far = rma->near->far[i],
        };
    }
    return nxr_ofi_best_path(paths, nxr_ofi.n_rails, rma->nbytes >= STRIPE_MIN);
}

/* How much of an operation goes into one piece. */
static size_t piece_nbytes(size_t nbytes, unsigned n_paths)
{
    size_t most = nxr_ofi.max_piece_nbytes;

    if (n_paths > 1 && nbytes >= STRIPE_MIN) {
        size_t share = nxr_stripe_piece_nbytes(nbytes, n_paths);

        most = share < most ? share : most;
    }
    return most;
}

/* Cut the next piece off the oldest operation that is not fully cut. */
static struct nxr_ofi_piece *cut_piece(struct nxr_net_ep *ep, unsigned n_paths)
{
    struct nxr_ofi_rma *rma = nxr_list_entry(ep->starting.next, struct nxr_ofi_rma, start_link);
    struct nxr_ofi_piece *piece = new_piece(rma);
    size_t rest = rma->nbytes - rma->cut;
    size_t most = piece_nbytes(rma->nbytes, n_paths);

    if (piece == NULL) {
        return NULL;
    }
    piece->at = rma->cut;
    piece->nbytes = rest < most ? rest : most;
    rma->cut += piece->nbytes;
    rma->n_pieces++;
    if (rma->cut == rma->nbytes) {
        nxr_list_remove(&rma->start_link);
    }
    return piece;
}

static struct nxr_ofi_piece *ofi_rma_next_piece(struct nxr_net_ep *ep, unsigned n_paths)
{
    struct nxr_list *link = nxr_list_pop(&ep->waiting);

    if (link != NULL) {
        return nxr_list_entry(link, struct nxr_ofi_piece, link);
    }
    return nxr_list_is_empty(&ep->starting) ? NULL : cut_piece(ep, n_paths);
}

static void posted(struct nxr_ofi_piece *piece, unsigned path)
{
    piece->rail = path;
    piece->posted_at = nxr_coarse_now_ns();
    nxr_ofi_repair_begin(piece->posted_at);
    piece->ep->paths[path].n_pieces++;
    nxr_ofi.n_pieces++;
    nxr_list_append(&piece->ep->paths[path].pieces, &piece->link);
}

bool nxr_ofi_post_pieces(struct nxr_net_ep *ep)
{
    unsigned n_paths = nxr_ofi_n_usable(ep);
    unsigned depth = n_paths > 1 ? STRIPE_DEPTH : DEPTH;
    unsigned blocked = 0;
    bool has_moved = false;
    int path;

    while ((!nxr_list_is_empty(&ep->waiting) || !nxr_list_is_empty(&ep->starting)) &&
           (path = path_with_room(ep, blocked, depth)) >= 0) {
        struct nxr_ofi_piece *piece = ofi_rma_next_piece(ep, n_paths);
        ssize_t rc = piece != NULL ? ofi_rma_post(piece, (unsigned)path) : -FI_ENOMEM;

        if (rc == 0) {
            posted(piece, (unsigned)path);
            has_moved = true;
            continue;
        }
        blocked |= 1u << path;
        nxr_rail_was_full(&ep->paths[path].count);
        if (piece != NULL) {
            nxr_list_prepend(&ep->waiting, &piece->link);
        }
        if (rc != -FI_EAGAIN && rc != -FI_ENOMEM) {
            nxr_ofi_path_failed(ep, (unsigned)path, fi_strerror((int)-rc));
        }
    }
    if ((!nxr_list_is_empty(&ep->waiting) || !nxr_list_is_empty(&ep->starting)) &&
        nxr_list_is_empty(&ep->post_link)) {
        nxr_list_append(&nxr_ofi.posting, &ep->post_link);
    }
    return has_moved;
}

/* ---- ending ---------------------------------------------------------------------------------- */

/* A piece did not arrive: send it again, unless it was tried too often. */
static void try_again(struct nxr_ofi_piece *piece, struct nxr_list *list)
{
    struct nxr_ofi_rma *rma = piece->rma;

    if (++piece->n_tries < MAX_TRIES && rma->status == NIXL_OK) {
        nxr_list_append(list, &piece->link);
        if (nxr_list_is_empty(&piece->ep->post_link)) {
            nxr_list_append(&nxr_ofi.posting, &piece->ep->post_link);
        }
        return;
    }
    rma->status = NIXL_E_TRANSPORT;
    free_piece(piece);
    if (--rma->n_pieces == 0) {
        ofi_rma_finish(rma, NIXL_E_TRANSPORT);
        nxr_list_append(&nxr_ofi.ended, &rma->link);
    }
}

static void take_from_path(struct nxr_ofi_piece *piece)
{
    nxr_list_remove(&piece->link);
    piece->ep->paths[piece->rail].n_pieces--;
    nxr_ofi.n_pieces--;
}

void nxr_ofi_piece_done(struct nxr_ofi_piece *piece, const char *why)
{
    struct nxr_net_ep *ep = piece->ep;
    struct nxr_ofi_rma *rma = piece->rma;
    unsigned path = piece->rail;

    take_from_path(piece);
    if (rma == NULL) {
        free_piece(piece);
        if (!ep->is_open) {
            nxr_ofi_aside_rest(ep);
        }
        return;
    }
    if (why != NULL) {
        nxr_ofi_path_failed(ep, path, why);
        try_again(piece, &ep->waiting);
        return;
    }
    nxr_ofi_path_moved(ep, path);
    if (rma->is_write) {
        nxr_rail_sent(&ep->paths[path].count, 1, piece->nbytes);
    } else {
        nxr_rail_received(&ep->paths[path].count, 1, piece->nbytes);
    }
    free_piece(piece);
    if (--rma->n_pieces == 0 && (rma->cut == rma->nbytes || rma->status != NIXL_OK)) {
        ofi_rma_finish(rma, rma->status);
        ofi_rma_tell(rma);
    }
    if (!ep->is_failed && (!nxr_list_is_empty(&ep->waiting) || !nxr_list_is_empty(&ep->starting))) {
        nxr_ofi_post_pieces(ep);
    }
}

void nxr_ofi_pieces_rail_closed(struct nxr_net_ep *ep, unsigned rail)
{
    struct nxr_ofi_path *path = &ep->paths[rail];
    struct nxr_list *link, *after;
    bool has_writes = false;

    nxr_list_for_each (link, after, &path->pieces) {
        struct nxr_ofi_piece *piece = nxr_list_entry(link, struct nxr_ofi_piece, link);

        take_from_path(piece);
        if (piece->rma == NULL) {
            free_piece(piece);
        } else if (piece->rma->is_write) {
            has_writes = true;
            try_again(piece, &path->fenced);
        } else {
            try_again(piece, &ep->waiting);
        }
    }
    if (has_writes) {
        nxr_ofi_fence(path);
    }
}

void nxr_ofi_rmas_end(struct nxr_net_ep *ep, int status)
{
    struct nxr_list *link;

    for (unsigned i = 0; i < nxr_ofi.n_rails; i++) {
        struct nxr_list *after;

        while ((link = nxr_list_pop(&ep->paths[i].fenced)) != NULL) {
            nxr_list_append(&ep->waiting, link);
        }
        nxr_list_for_each (link, after, &ep->paths[i].pieces) {
            struct nxr_ofi_piece *piece = nxr_list_entry(link, struct nxr_ofi_piece, link);

            /*
             * A read that is given up must not write into memory that is reused for other things.
             */
            nxr_ofi.rails[i].must_reset |= piece->rma != NULL && !piece->rma->is_write;
            piece->rma = NULL;
        }
    }
    while ((link = nxr_list_pop(&ep->waiting)) != NULL) {
        free_piece(nxr_list_entry(link, struct nxr_ofi_piece, link));
    }
    while (!nxr_list_is_empty(&ep->rmas)) {
        struct nxr_ofi_rma *rma = nxr_list_entry(ep->rmas.next, struct nxr_ofi_rma, link);

        ofi_rma_finish(rma, status);
        nxr_list_append(&nxr_ofi.ended, &rma->link);
    }
}

int nxr_ofi_rmas_tell(void)
{
    struct nxr_list *link;
    int n = 0;

    while ((link = nxr_list_pop(&nxr_ofi.ended)) != NULL) {
        ofi_rma_tell(nxr_list_entry(link, struct nxr_ofi_rma, link));
        n++;
    }
    return n;
}

void nxr_ofi_rmas_free(void)
{
    struct nxr_list *link;

    while ((link = nxr_list_pop(&nxr_ofi.free_rmas)) != NULL) {
        free(nxr_list_entry(link, struct nxr_ofi_rma, link));
    }
    while ((link = nxr_list_pop(&nxr_ofi.free_pieces)) != NULL) {
        free(nxr_list_entry(link, struct nxr_ofi_piece, link));
    }
}
