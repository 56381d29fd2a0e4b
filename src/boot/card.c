/* SPDX-License-Identifier: Apache-2.0 */
/* Making and checking cards. No state, no lock. */
#include "config.h"

#include "boot/card.h"
#include "nixlrun.h"
#include "util/env.h"
#include "util/log.h"

#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
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

int nxr_card_make(int rank, uint32_t incarnation, struct nxr_card *card_p)
{
    struct nxr_card card = {
        .magic = NXR_CARD_MAGIC,
        .version = NXR_CARD_VERSION,
        .nbytes = sizeof(card),
        .rank = rank,
        .incarnation = incarnation,
    };

    if (getrandom(card.nonce, sizeof(card.nonce), 0) != (ssize_t)sizeof(card.nonce) ||
        getrandom(card.secret, sizeof(card.secret), 0) != (ssize_t)sizeof(card.secret)) {
        nxr_error(BOOT, "no random numbers: %m");
        return NIXL_ERR_INTERNAL;
    }
    if (nxr_env.hostid != NULL && nxr_env.hostid[0] != '\0') {
        strncpy(card.host, nxr_env.hostid, sizeof(card.host) - 1);
        strncpy(card.boot_id, nxr_env.hostid, sizeof(card.boot_id) - 1);
    } else {
        gethostname(card.host, sizeof(card.host) - 1);
        read_boot_id(card.boot_id, sizeof(card.boot_id));
    }
    *card_p = card;
    return NIXL_OK;
}

static bool is_text(const char *text, size_t nbytes)
{
    return memchr(text, '\0', nbytes) != NULL;
}

int nxr_card_parse(const void *bytes, size_t nbytes, int rank, struct nxr_card *card_p)
{
    struct nxr_card card;

    if (nbytes != sizeof(card)) {
        nxr_warn(BOOT, "the card of rank %d has %zu bytes, not %zu: another version of nixlrun?",
                 rank, nbytes, sizeof(card));
        return NIXL_ERR_TRANSPORT;
    }
    memcpy(&card, bytes, sizeof(card));
    if (card.magic != NXR_CARD_MAGIC || card.version != NXR_CARD_VERSION ||
        card.nbytes != sizeof(card) || card.rank != rank ||
        !is_text(card.host, sizeof(card.host)) || !is_text(card.boot_id, sizeof(card.boot_id))) {
        nxr_warn(BOOT, "the card of rank %d is damaged; ignored", rank);
        return NIXL_ERR_TRANSPORT;
    }
    *card_p = card;
    return NIXL_OK;
}

bool nxr_card_may_be_local(const struct nxr_card *mine, const struct nxr_card *theirs)
{
    return strcmp(mine->host, theirs->host) == 0 ||
           (mine->boot_id[0] != '\0' && strcmp(mine->boot_id, theirs->boot_id) == 0);
}
