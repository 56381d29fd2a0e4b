/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The card: the few hundred bytes that a rank publishes once. It says who and where the rank is and
 * how to reach its service thread; never where memory is. Fixed layout, checked on arrival.
 */
#ifndef NXR_BOOT_CARD_H
#define NXR_BOOT_CARD_H

#include "host/control.h"

#define NXR_CARD_MAGIC     0x4352584eu /* "NXRC" */
#define NXR_CARD_VERSION   1
#define NXR_HOST_NBYTES    72 /* host name with its zero */
#define NXR_BOOT_ID_NBYTES 40
#define NXR_SECRET_NBYTES  16

struct nxr_card {
    uint32_t magic;
    uint16_t version;
    uint16_t nbytes; /* sizeof(struct nxr_card) */
    int32_t rank;
    uint32_t incarnation;
    unsigned char nonce[NXR_NONCE_NBYTES];   /* proves the control page; names the socket */
    unsigned char secret[NXR_SECRET_NBYTES]; /* whoever shows it has read the card: of this job */
    char host[NXR_HOST_NBYTES];
    char boot_id[NXR_BOOT_ID_NBYTES]; /* of the kernel, or NIXLRUN_HOSTID */
};
_Static_assert(sizeof(struct nxr_card) == 160, "fixed on the wire");

/* Fill in a card with fresh random nonce and secret. NIXL_OK or NIXL_ERR_INTERNAL. */
int nxr_card_make(int rank, uint32_t incarnation, struct nxr_card *card_p);

/*
 * Check bytes that came as the card of `rank`. NIXL_OK, or NIXL_ERR_TRANSPORT and nothing written.
 */
int nxr_card_parse(const void *bytes, size_t nbytes, int rank, struct nxr_card *card_p);

/* May the two be on one host? Equal host names or equal boot ids: the proof is the control page. */
bool nxr_card_may_be_local(const struct nxr_card *mine, const struct nxr_card *theirs);

#endif
