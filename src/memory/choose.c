/* SPDX-License-Identifier: Apache-2.0 */
/* Choosing a GPU. No state, no lock. */
#include "config.h"

#include "memory/choose.h"

#include "core/node.h"
#include "core/job.h"
#include "memory/nearest_device.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UUID_NIBBLES 32

void nxr_device_id_text(const unsigned char uuid[16], char text[NXR_DEVICE_ID_NBYTES])
{
    size_t used = (size_t)snprintf(text, NXR_DEVICE_ID_NBYTES, "GPU-");

    for (int i = 0; i < 16; i++) {
        used += (size_t)snprintf(text + used, NXR_DEVICE_ID_NBYTES - used, "%s%02x",
                                 i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    }
}

static int nibble(char digit)
{
    const char *digits = "0123456789abcdef";
    const char *found = digit != '\0' ? strchr(digits, tolower((unsigned char)digit)) : NULL;

    return found != NULL ? (int)(found - digits) : -1;
}

/* A UUID with all its dashes or none, with or without "GPU-" before it. */
static bool parse_uuid(const char *text, unsigned char uuid[16])
{
    bool has_dashes;

    text += strncmp(text, "GPU-", 4) == 0 ? 4 : 0;
    has_dashes = strchr(text, '-') != NULL;
    for (int i = 0; i < UUID_NIBBLES; i++) {
        int value;

        if (has_dashes && (i == 8 || i == 12 || i == 16 || i == 20) && *text++ != '-') {
            return false;
        }
        value = nibble(*text);
        if (value < 0) {
            return false;
        }
        uuid[i / 2] = (unsigned char)(i % 2 == 0 ? value << 4 : uuid[i / 2] | value);
        text++;
    }
    return *text == '\0';
}

static bool choose_parse_number(const char *text, size_t *number_p)
{
    char *end;
    unsigned long long value;

    if (!isdigit((unsigned char)*text)) {
        return false;
    }
    errno = 0;
    value = strtoull(text, &end, 10);
    if (*end != '\0' || strlen(text) == UUID_NIBBLES) {
        return false;
    }
    *number_p = errno == 0 && value < SIZE_MAX ? (size_t)value : SIZE_MAX;
    return true;
}

/* How many lower ranks run on this host. */
static size_t rank_on_host(void)
{
    size_t n_before = 0;

    for (int rank = 0; rank < nxr_job.rank; rank++) {
        n_before += nxr_node_of(rank) == nxr_node_of(nxr_job.rank);
    }
    return n_before;
}

int nxr_device_choose(const char *wanted, const char *kind_name, const struct nxr_device_id *ids,
                      size_t n_ids, size_t *index_p, char *why, size_t why_nbytes)
{
    unsigned char uuid[16];
    size_t number;

    if (n_ids == 0) {
        snprintf(why, why_nbytes, "there is no %s device", kind_name);
        return NIXL_E_NO_DEVICE;
    }
    if (wanted == NULL || strcmp(wanted, "nearest") == 0) {
        *index_p = nxr_nearest_device(ids, n_ids, rank_on_host());
        return NIXL_OK;
    }
    if (choose_parse_number(wanted, &number)) {
        if (number < n_ids) {
            *index_p = number;
            return NIXL_OK;
        }
        snprintf(why, why_nbytes, "%s device %.20s does not exist; allowed: 0 to %zu", kind_name,
                 wanted, n_ids - 1);
        return NIXL_E_NO_DEVICE;
    }
    if (!parse_uuid(wanted, uuid)) {
        snprintf(why, why_nbytes, "device '%.48s' is neither \"nearest\", nor a number, nor a UUID",
                 wanted);
        return NIXL_E_INVALID_ARG;
    }
    for (size_t i = 0; i < n_ids; i++) {
        if (memcmp(ids[i].uuid, uuid, sizeof(uuid)) == 0) {
            *index_p = i;
            return NIXL_OK;
        }
    }
    snprintf(why, why_nbytes, "no %s device here has the UUID %.48s", kind_name, wanted);
    return NIXL_E_NO_DEVICE;
}
