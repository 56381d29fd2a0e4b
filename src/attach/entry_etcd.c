/* SPDX-License-Identifier: Apache-2.0 */
/* Making and proving entries in etcd. No state, no lock. */
#include "config.h"

#include "attach/entry_etcd.h"
#include "util/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ID_NBYTES     16
#define PROVED_NBYTES (1024 + NXR_ETCD_MAX_CONTACTS * NXR_ETCD_CONTACT_NBYTES)

static void hex_write(const unsigned char *bytes, size_t nbytes, char *text)
{
    for (size_t i = 0; i < nbytes; i++) {
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    }
}

bool nxr_entry_etcd_make(const struct nxr_card *card, const char *name,
                         struct nxr_etcd_entry *entry_p)
{
    unsigned char id[ID_NBYTES];

    memset(entry_p, 0, sizeof(*entry_p));
    if (!nxr_random(id, sizeof(id))) {
        return false;
    }
    hex_write(id, sizeof(id), entry_p->id);
    snprintf(entry_p->name, sizeof(entry_p->name), "%s", name);
    snprintf(entry_p->job, sizeof(entry_p->job), "%016" PRIx64, card->identity.job);
    entry_p->rank = card->identity.rank;
    entry_p->incarnation = card->identity.incarnation;
    entry_p->pid = getpid();
    snprintf(entry_p->host, sizeof(entry_p->host), "%s", card->host[0] != '\0' ? card->host : "?");
    for (char *c = entry_p->host; *c != '\0'; c++) {
        *c = *c > ' ' && *c <= '~' ? *c : '?'; /* the text of an entry is printable */
    }
    return true;
}

struct nxr_identity nxr_entry_etcd_identity(const struct nxr_etcd_entry *entry)
{
    return (struct nxr_identity){.job = strtoull(entry->job, NULL, 16),
                                 .rank = entry->rank,
                                 .incarnation = entry->incarnation};
}

/* ---- the proof ------------------------------------------------------------------------------- */

static void entry_proof(const struct nxr_etcd_entry *entry, const char *key,
                        const unsigned char secret[NXR_PROOF_SECRET_NBYTES], char text[65])
{
    unsigned char proof[NXR_PROOF_NBYTES];
    char proved[PROVED_NBYTES];
    size_t used = (size_t)snprintf(
        proved, sizeof(proved), "etcd\n%s\n%s\n%s\n%" PRId32 "\n%" PRIu32 "\n%s\n%" PRId32 "\n%s\n",
        key, entry->name, entry->job, entry->rank, entry->incarnation, entry->id, entry->pid,
        entry->host);

    for (unsigned i = 0; i < entry->n_contacts && used < sizeof(proved); i++) {
        used += (size_t)snprintf(proved + used, sizeof(proved) - used, "%s\n", entry->contacts[i]);
    }
    nxr_proof_of_entry(secret, proved, used < sizeof(proved) ? used : sizeof(proved), proof);
    hex_write(proof, sizeof(proof), text);
}

void nxr_entry_etcd_prove(struct nxr_etcd_entry *entry, const char *key,
                          const unsigned char secret[NXR_PROOF_SECRET_NBYTES])
{
    entry_proof(entry, key, secret, entry->proof);
}

bool nxr_entry_etcd_is_proved(const struct nxr_etcd_entry *entry, const char *key,
                              const unsigned char secret[NXR_PROOF_SECRET_NBYTES])
{
    char expected[65];
    unsigned char difference = 0;

    entry_proof(entry, key, secret, expected);
    for (size_t i = 0; i < sizeof(expected); i++) {
        difference |= (unsigned char)(expected[i] ^ entry->proof[i]);
    }
    return difference == 0;
}
