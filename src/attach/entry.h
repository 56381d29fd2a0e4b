/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The entry of a publication in a folder: who has published a name, and where it listens, on its
 * host and, where the hosts share the folder, for others. It is public: it has no secret, and says
 * nothing of memory. The struct is its own encoding, in the byte order of the machine: those who
 * can attach share one. No state.
 */
#ifndef NXR_ATTACH_ENTRY_H
#define NXR_ATTACH_ENTRY_H

#include "attach/contacts.h"
#include "attach/proof.h"
#include "core/card.h"
#include "nixlrun.h"

#define NXR_ENTRY_MAGIC   0x4552584eu /* "NXRE" */
#define NXR_ENTRY_VERSION 2u

struct nxr_entry {
    uint32_t magic;
    uint32_t version;
    struct nxr_identity publisher;
    unsigned char socket[NXR_NONCE_NBYTES]; /* names the socket where it listens */
    int32_t pid;
    uint32_t schema_nbytes;
    char host[NXR_HOST_NBYTES];
    char boot_id[NXR_BOOT_ID_NBYTES];                    /* of the host's card: equal on one host */
    char contacts[NXR_MAX_CONTACTS][NXR_CONTACT_NBYTES]; /* for other hosts: tcp://HOST:PORT */
    uint32_t n_contacts;
    uint32_t unused; /* 0 */
    char name[NIXL_PUBLISH_NAME_MAX + 1];
    char schema[NIXL_SCHEMA_MAX]; /* without a final zero; zeros behind it */
    unsigned char proof[NXR_PROOF_NBYTES];
};
_Static_assert(sizeof(struct nxr_entry) == 6600, "fixed in files");

/* May a publication have that name? */
bool nxr_entry_is_name(const char *name);

/* Fill in an entry without contacts and proof; `schema` has at most NIXL_SCHEMA_MAX bytes. */
void nxr_entry_make(const struct nxr_card *card, const char *name, const char *schema,
                    const unsigned char socket[NXR_NONCE_NBYTES], struct nxr_entry *entry_p);

void nxr_entry_prove(struct nxr_entry *entry, const unsigned char secret[NXR_PROOF_SECRET_NBYTES]);
bool nxr_entry_is_proved(const struct nxr_entry *entry,
                         const unsigned char secret[NXR_PROOF_SECRET_NBYTES]);

/* Was it made on the host of that card? */
bool nxr_entry_is_of_host(const struct nxr_entry *entry, const struct nxr_card *card);

/*
 * Check bytes that were read as the entry of that name. NIXL_OK; NIXL_E_UNSUPPORTED: of another
 * version; NIXL_E_TRANSPORT: damaged, perhaps being written. *why_p says so in words.
 */
int nxr_entry_parse(const void *bytes, size_t nbytes, const char *name, struct nxr_entry *entry_p,
                    const char **why_p);

#endif
