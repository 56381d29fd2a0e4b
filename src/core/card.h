/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The card: the few hundred bytes that a rank publishes once. It says who and where the rank is,
 * how to reach its service thread and its control page, and its address in every network that it
 * has opened. It never says where other memory is. The layout is a fixed head, then address
 * entries. A card is checked on arrival.
 */
#ifndef NXR_CORE_CARD_H
#define NXR_CORE_CARD_H

#include "core/control.h"
#include "core/identity.h"

#define NXR_CARD_MAGIC     0x4352584eu /* "NXRC" */
#define NXR_CARD_VERSION   7
#define NXR_HOST_NBYTES    72 /* host name with its zero; the limit of NIXLRUN_HOSTID */
#define NXR_BOOT_ID_NBYTES 40
#define NXR_SECRET_NBYTES  16

/* Room for the address entries of a card, each with its head. */
#define NXR_ADDRESSES_NBYTES 1616

enum nxr_card_flag { NXR_CARD_NOT_LOCAL = 1 /* does not use shared memory */ };

/*
 * Versions in `flags`, one byte each from these bits on: of the messages between ranks of one host,
 * of the protocol between hosts (0: not stated), and of the control page.
 */
#define NXR_CARD_WIRE_SHIFT    8
#define NXR_CARD_NET_SHIFT     16
#define NXR_CARD_CONTROL_SHIFT 24

struct nxr_card {
    uint32_t magic;
    uint16_t version;
    uint16_t nbytes; /* of the whole card, with the addresses that follow */
    struct nxr_identity identity;
    unsigned char nonce[NXR_NONCE_NBYTES];   /* proves the control page; names the socket */
    unsigned char secret[NXR_SECRET_NBYTES]; /* a sender that knows it has read the card */
    char host[NXR_HOST_NBYTES];
    char boot_id[NXR_BOOT_ID_NBYTES]; /* of the kernel, or NIXLRUN_HOSTID */
    uint32_t flags;                   /* enum nxr_card_flag, and the versions above it */
    uint32_t socket_space;            /* kernel and network namespace, hashed; 0: not known */
    uint32_t pid_space;               /* kernel and PID namespace likewise */
    uint32_t cores;                   /* that the rank may run on, hashed; 0: not known */
    int32_t pid;                      /* in its PID namespace */
    int32_t control_fd;               /* the descriptor there of its control page */
};
_Static_assert(sizeof(struct nxr_card) == NXR_CONTROL_CARD_NBYTES, "fixed on the wire");

/* The head of an address; the bytes follow, padded to a multiple of 8. */
struct nxr_card_address {
    char network[8]; /* its name, ends with a zero */
    uint32_t nbytes;
    uint32_t unused;
};
_Static_assert(sizeof(struct nxr_card_address) == 16, "fixed on the wire");

/* A whole card, as it is sent. */
struct nxr_full_card {
    struct nxr_card head;
    unsigned char addresses[NXR_ADDRESSES_NBYTES];
};

/*
 * Fill in a card without addresses, with a fresh random nonce and secret. NIXL_OK, or
 * NIXL_E_UNSUPPORTED: there are no random numbers.
 */
int nxr_card_make(const struct nxr_identity *identity, struct nxr_full_card *card_p);

/* The version at one of these shifts. */
static inline unsigned nxr_card_version_at(const struct nxr_card *card, unsigned shift)
{
    return card->flags >> shift & 0xff;
}

/* The card without addresses: what same-host peers need of it. */
static inline struct nxr_card nxr_card_bare(const struct nxr_full_card *card)
{
    struct nxr_card bare = card->head;

    bare.nbytes = sizeof(bare);
    return bare;
}

/* Append an address. NIXL_OK, or NIXL_E_LIMIT: no room. */
int nxr_card_add_address(struct nxr_full_card *card, const char *network, const void *bytes,
                         size_t nbytes);

/* The address in that network; NULL: none. */
const void *nxr_card_find_address(const struct nxr_full_card *card, const char *network,
                                  size_t *nbytes_p);

/*
 * Check bytes that were received as the card of a rank. Its job and rank must be those of `owner`;
 * its incarnation is not known before. NIXL_OK, or NIXL_E_TRANSPORT and nothing written.
 */
int nxr_card_parse(const void *bytes, size_t nbytes, const struct nxr_identity *owner,
                   struct nxr_full_card *card_p);

/*
 * May the two be on one host? True if both use shared memory and their host names or boot ids are
 * equal. Only the control page proves it.
 */
bool nxr_card_may_be_local(const struct nxr_card *mine, const struct nxr_card *theirs);

/*
 * Do the two see each other's abstract sockets? This is a hint, not a proof: machines started from
 * one snapshot look alike.
 */
bool nxr_card_shares_sockets(const struct nxr_card *mine, const struct nxr_card *theirs);

/* Are the two in one PID namespace? True if it is not known. A hint, too. */
bool nxr_card_shares_pids(const struct nxr_card *mine, const struct nxr_card *theirs);

#endif
