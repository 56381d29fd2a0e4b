/* SPDX-License-Identifier: Apache-2.0 */
/* Making and checking cards. No state, no lock. */
#include "config.h"

#include "core/card.h"
#include "core/cores.h"
#include "nixlrun.h"
#include "util/env.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/random.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void read_boot_id(char *text, size_t nbytes)
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, nbytes - 1);

    if (fd >= 0) {
        close(fd);
    }
    text[got > 0 ? got : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

/* Never 0. */
static uint32_t hash_text(const char *text)
{
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (; *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    }
    return hash != 0 ? hash : 1;
}

/* The kernel and a namespace of this process, hashed; 0: not known. */
static uint32_t find_space(const char *path)
{
    char boot_id[NXR_BOOT_ID_NBYTES], name[NXR_BOOT_ID_NBYTES + 48];
    struct stat space;

    read_boot_id(boot_id, sizeof(boot_id));
    if (boot_id[0] == '\0' || stat(path, &space) != 0) {
        return 0;
    }
    snprintf(name, sizeof(name), "%s %ju %ju", boot_id, (uintmax_t)space.st_dev,
             (uintmax_t)space.st_ino);
    return hash_text(name);
}

/* The id of a host in a text of any length: one that is too long is cut, and told by its hash. */
static void name_host(const char *id, char text[NXR_BOOT_ID_NBYTES])
{
    enum { HASH_NBYTES = 17 }; /* with a dash */
    size_t nbytes = strlen(id);

    if (nbytes < NXR_BOOT_ID_NBYTES) {
        memcpy(text, id, nbytes + 1);
    } else {
        snprintf(text, NXR_BOOT_ID_NBYTES, "%.*s-%016" PRIx64, NXR_BOOT_ID_NBYTES - 1 - HASH_NBYTES,
                 id, nxr_hash(id, nbytes));
    }
}

int nxr_card_make(const struct nxr_identity *identity, struct nxr_full_card *card_p)
{
    struct nxr_card card = {
        .magic = NXR_CARD_MAGIC,
        .version = NXR_CARD_VERSION,
        .nbytes = sizeof(card),
        .identity = *identity,
        .socket_space = find_space("/proc/self/ns/net"),
        .pid_space = find_space("/proc/self/ns/pid"),
        .cores = nxr_cores_read().hash,
    };

    if (!nxr_random(card.nonce, sizeof(card.nonce)) ||
        !nxr_random(card.secret, sizeof(card.secret))) {
        return NIXL_E_UNSUPPORTED;
    }
    if (nxr_env.hostid != NULL && nxr_env.hostid[0] != '\0') {
        strncpy(card.host, nxr_env.hostid, sizeof(card.host) - 1);
        name_host(nxr_env.hostid, card.boot_id);
    } else {
        gethostname(card.host, sizeof(card.host) - 1);
        read_boot_id(card.boot_id, sizeof(card.boot_id));
    }
    memset(card_p, 0, sizeof(*card_p));
    card_p->head = card;
    return NIXL_OK;
}

/* ---- addresses ------------------------------------------------------------------------------- */

static size_t padded(size_t nbytes)
{
    return (nbytes + 7) & ~(size_t)7;
}

/* A card that never arrived is all zeros, and has no addresses. */
static size_t addresses_nbytes(const struct nxr_full_card *card)
{
    return card->head.nbytes > sizeof(card->head) ? card->head.nbytes - sizeof(card->head) : 0;
}

int nxr_card_add_address(struct nxr_full_card *card, const char *network, const void *bytes,
                         size_t nbytes)
{
    struct nxr_card_address entry = {.nbytes = (uint32_t)nbytes};
    size_t used = addresses_nbytes(card);

    if (nbytes > sizeof(card->addresses) ||
        used + sizeof(entry) + padded(nbytes) > sizeof(card->addresses) ||
        strlen(network) >= sizeof(entry.network)) {
        return NIXL_E_LIMIT;
    }
    memcpy(entry.network, network, strlen(network));
    memcpy(card->addresses + used, &entry, sizeof(entry));
    memcpy(card->addresses + used + sizeof(entry), bytes, nbytes);
    card->head.nbytes += (uint16_t)(sizeof(entry) + padded(nbytes));
    return NIXL_OK;
}

/*
 * The bytes of the entry at *at_p, which advances past it. NULL at the end, or if the bytes are not
 * an entry; *is_bad_p tells which.
 */
static const unsigned char *next_address(const struct nxr_full_card *card, size_t *at_p,
                                         struct nxr_card_address *entry_p, bool *is_bad_p)
{
    const unsigned char *bytes = card->addresses + *at_p;
    size_t left = addresses_nbytes(card) - *at_p;

    *is_bad_p = left > 0 && left < sizeof(*entry_p);
    if (left < sizeof(*entry_p)) {
        return NULL;
    }
    memcpy(entry_p, bytes, sizeof(*entry_p));
    left -= sizeof(*entry_p);
    *is_bad_p = memchr(entry_p->network, '\0', sizeof(entry_p->network)) == NULL ||
                entry_p->nbytes > left || padded(entry_p->nbytes) > left;
    *at_p += *is_bad_p ? 0 : sizeof(*entry_p) + padded(entry_p->nbytes);
    return *is_bad_p ? NULL : bytes + sizeof(*entry_p);
}

const void *nxr_card_find_address(const struct nxr_full_card *card, const char *network,
                                  size_t *nbytes_p)
{
    struct nxr_card_address entry;
    const unsigned char *bytes;
    size_t at = 0;
    bool is_bad;

    while ((bytes = next_address(card, &at, &entry, &is_bad)) != NULL) {
        if (strcmp(entry.network, network) == 0) {
            *nbytes_p = entry.nbytes;
            return bytes;
        }
    }
    return NULL;
}

static bool are_addresses_sound(const struct nxr_full_card *card)
{
    struct nxr_card_address entry;
    size_t at = 0;
    bool is_bad;

    while (next_address(card, &at, &entry, &is_bad) != NULL) {
    }
    return !is_bad;
}

/* ---- checking -------------------------------------------------------------------------------- */

static bool is_text(const char *text, size_t nbytes)
{
    return memchr(text, '\0', nbytes) != NULL;
}

/* Is it the card of that rank of that job, whichever start of the rank it tells? */
static bool card_is_of(const struct nxr_card *card, const struct nxr_identity *owner)
{
    char why[NXR_IDENTITY_WHY_NBYTES];
    const struct nxr_identity told = {card->identity.job, card->identity.rank, owner->incarnation};

    if (nxr_identity_is(owner, &told)) {
        return true;
    }
    nxr_warn(BOOT, "%s; ignored",
             nxr_identity_explain("a card of", owner, &card->identity, owner->job, why));
    return false;
}

int nxr_card_parse(const void *bytes, size_t nbytes, const struct nxr_identity *owner,
                   struct nxr_full_card *card_p)
{
    struct nxr_full_card card;

    if (nbytes < sizeof(card.head) || nbytes > sizeof(card)) {
        nxr_warn(BOOT, "the card of %s has %zu bytes, not %zu to %zu: another version of nixlrun?",
                 nxr_identity_own_name(owner), nbytes, sizeof(card.head), sizeof(card));
        return NIXL_E_TRANSPORT;
    }
    memset(&card, 0, sizeof(card));
    memcpy(&card, bytes, nbytes);
    if (card.head.magic == NXR_CARD_MAGIC && card.head.version != NXR_CARD_VERSION) {
        nxr_warn(BOOT, "the card of %s is of another version of nixlrun: %u, here it is %u",
                 nxr_identity_own_name(owner), card.head.version, NXR_CARD_VERSION);
        return NIXL_E_TRANSPORT;
    }
    if (card.head.magic != NXR_CARD_MAGIC || card.head.nbytes != nbytes ||
        !is_text(card.head.host, sizeof(card.head.host)) ||
        !is_text(card.head.boot_id, sizeof(card.head.boot_id)) || !are_addresses_sound(&card)) {
        nxr_warn(BOOT, "the card of %s is damaged; ignored", nxr_identity_own_name(owner));
        return NIXL_E_TRANSPORT;
    }
    if (!card_is_of(&card.head, owner)) {
        return NIXL_E_TRANSPORT;
    }
    *card_p = card;
    return NIXL_OK;
}

bool nxr_card_may_be_local(const struct nxr_card *mine, const struct nxr_card *theirs)
{
    if (((mine->flags | theirs->flags) & NXR_CARD_NOT_LOCAL) != 0) {
        return false;
    }
    return strcmp(mine->host, theirs->host) == 0 ||
           (mine->boot_id[0] != '\0' && strcmp(mine->boot_id, theirs->boot_id) == 0);
}

bool nxr_card_shares_sockets(const struct nxr_card *mine, const struct nxr_card *theirs)
{
    return mine->socket_space != 0 && mine->socket_space == theirs->socket_space;
}

bool nxr_card_shares_pids(const struct nxr_card *mine, const struct nxr_card *theirs)
{
    return mine->pid_space == 0 || theirs->pid_space == 0 || mine->pid_space == theirs->pid_space;
}
