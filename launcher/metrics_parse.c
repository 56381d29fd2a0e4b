/* SPDX-License-Identifier: Apache-2.0 */
/* Where --metrics serves. No state. */
#include "config.h"

#include "launcher/stats.h"
#include "launcher/values.h"

#include <stdio.h>
#include <string.h>

#define HERE "127.0.0.1"

int metrics_parse(const char *text, char address[METRICS_ADDRESS_NBYTES], int *port_p)
{
    const char *colon = strrchr(text, ':'), *from = text;
    size_t nbytes = colon != NULL ? (size_t)(colon - text) : 0;

    if (colon != NULL && nbytes >= 2 && text[0] == '[' && colon[-1] == ']') {
        from++;
        nbytes -= 2; /* an address of IPv6 */
    } else if (colon != NULL && memchr(text, ':', nbytes) != NULL) {
        return -1;
    }
    if (nbytes >= METRICS_ADDRESS_NBYTES || (colon != NULL && nbytes == 0) ||
        value_count(colon != NULL ? colon + 1 : text, 1, 65535, port_p) != 0) {
        return -1;
    }
    snprintf(address, METRICS_ADDRESS_NBYTES, "%.*s",
             colon != NULL ? (int)nbytes : (int)sizeof(HERE), colon != NULL ? from : HERE);
    return 0;
}
