/* SPDX-License-Identifier: Apache-2.0 */
/* Making and checking entries. No state, no lock. */
#include "config.h"

#include "attach/entry.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ENTRY_PROVED_NBYTES offsetof(struct nxr_entry, proof)

bool nxr_entry_is_name(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    size_t nbytes = name != NULL ? strnlen(name, NIXL_PUBLISH_NAME_MAX + 1) : 0;

    return nbytes > 0 && nbytes <= NIXL_PUBLISH_NAME_MAX && name[0] != '.' &&
           strspn(name, allowed) == nbytes;
}

void nxr_entry_make(const struct nxr_card *card, const char *name, const char *schema,
                    const unsigned char socket[NXR_NONCE_NBYTES], struct nxr_entry *entry_p)
{
    memset(entry_p, 0, sizeof(*entry_p));
    entry_p->magic = NXR_ENTRY_MAGIC;
    entry_p->version = NXR_ENTRY_VERSION;
    entry_p->publisher = card->identity;
    memcpy(entry_p->socket, socket, sizeof(entry_p->socket));
    entry_p->pid = getpid();
    entry_p->schema_nbytes = (uint32_t)strlen(schema);
    memcpy(entry_p->host, card->host, sizeof(entry_p->host));
    memcpy(entry_p->boot_id, card->boot_id, sizeof(entry_p->boot_id));
    snprintf(entry_p->name, sizeof(entry_p->name), "%s", name);
    memcpy(entry_p->schema, schema, entry_p->schema_nbytes);
}

void nxr_entry_prove(struct nxr_entry *entry, const unsigned char secret[NXR_PROOF_SECRET_NBYTES])
{
    nxr_proof_of_entry(secret, entry, ENTRY_PROVED_NBYTES, entry->proof);
}

bool nxr_entry_is_proved(const struct nxr_entry *entry,
                         const unsigned char secret[NXR_PROOF_SECRET_NBYTES])
{
    unsigned char proof[NXR_PROOF_NBYTES];

    nxr_proof_of_entry(secret, entry, ENTRY_PROVED_NBYTES, proof);
    return nxr_proof_fits(proof, entry->proof);
}

bool nxr_entry_is_of_host(const struct nxr_entry *entry, const struct nxr_card *card)
{
    return entry->boot_id[0] != '\0' ? strcmp(entry->boot_id, card->boot_id) == 0
                                     : strcmp(entry->host, card->host) == 0;
}

static bool entry_is_text(const char *text, size_t room)
{
    return memchr(text, '\0', room) != NULL;
}

/* Are they printable texts, as far as there are any? */
static bool entry_are_contacts(const struct nxr_entry *entry)
{
    if (entry->n_contacts > NXR_MAX_CONTACTS) {
        return false;
    }
    for (uint32_t i = 0; i < entry->n_contacts; i++) {
        const char *contact = entry->contacts[i];

        if (!entry_is_text(contact, sizeof(entry->contacts[i]))) {
            return false;
        }
        for (; *contact != '\0'; contact++) {
            if (*contact <= ' ' || *contact > '~') {
                return false;
            }
        }
    }
    return true;
}

/* The schema has no zero in it, and only zeros behind it. */
static bool entry_is_schema(const struct nxr_entry *entry)
{
    if (entry->schema_nbytes > NIXL_SCHEMA_MAX ||
        strnlen(entry->schema, entry->schema_nbytes) != entry->schema_nbytes) {
        return false;
    }
    for (size_t i = entry->schema_nbytes; i < NIXL_SCHEMA_MAX; i++) {
        if (entry->schema[i] != '\0') {
            return false;
        }
    }
    return true;
}

int nxr_entry_parse(const void *bytes, size_t nbytes, const char *name, struct nxr_entry *entry_p,
                    const char **why_p)
{
    struct nxr_entry entry;
    uint32_t head[2];

    *why_p = "the entry is truncated, or no entry";
    if (nbytes < sizeof(head)) {
        return NIXL_E_TRANSPORT;
    }
    memcpy(head, bytes, sizeof(head));
    if (head[0] == NXR_ENTRY_MAGIC && head[1] != NXR_ENTRY_VERSION) {
        *why_p = "the entry is of another version of nixlrun";
        return NIXL_E_UNSUPPORTED;
    }
    if (nbytes != sizeof(entry) || head[0] != NXR_ENTRY_MAGIC) {
        return NIXL_E_TRANSPORT;
    }
    memcpy(&entry, bytes, sizeof(entry));
    if (!entry_is_text(entry.host, sizeof(entry.host)) ||
        !entry_is_text(entry.boot_id, sizeof(entry.boot_id)) || !entry_are_contacts(&entry) ||
        !entry_is_text(entry.name, sizeof(entry.name)) || strcmp(entry.name, name) != 0 ||
        !entry_is_schema(&entry) || entry.publisher.rank < 0 || entry.pid <= 0) {
        *why_p = "the entry is damaged";
        return NIXL_E_TRANSPORT;
    }
    *entry_p = entry;
    return NIXL_OK;
}
