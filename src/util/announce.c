/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what is announced to others. No state, no lock. */
#include "config.h"

#include "util/announce.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* A port from 1 on at the beginning of a text. The rest of the text; NULL: there is none. */
static const char *port_read(const char *text, uint16_t *port_p)
{
    size_t n_digits = strspn(text, "0123456789");
    long port = strtol(text, NULL, 10);

    *port_p = (uint16_t)port;
    return n_digits > 0 && n_digits <= 5 && port > 0 && port <= UINT16_MAX ? text + n_digits : NULL;
}

/* "PORT" or "FIRST-LAST" likewise. */
static const char *range_read(const char *text, struct nxr_port_range *range_p)
{
    const char *rest = port_read(text, &range_p->first);

    range_p->last = range_p->first;
    if (rest != NULL && *rest == '-') {
        rest = port_read(rest + 1, &range_p->last);
    }
    return rest != NULL && range_p->first <= range_p->last ? rest : NULL;
}

bool nxr_ports_parse(const char *text, struct nxr_port_range *range_p)
{
    const char *rest;

    *range_p = (struct nxr_port_range){0, 0};
    if (text[0] == '\0') {
        return true;
    }
    rest = range_read(text, range_p);
    return rest != NULL && *rest == '\0';
}

/* "PORT:TOLD" or "FIRST-LAST:TOLD" behind a comma. */
static const char *announce_read_range(const char *text, struct nxr_announced *announced)
{
    struct nxr_port_range own;
    uint16_t told;

    text = *text == ',' ? range_read(text + 1, &own) : NULL;
    text = text != NULL && *text == ':' ? port_read(text + 1, &told) : NULL;
    if (text == NULL || told > UINT16_MAX - (own.last - own.first) ||
        announced->n_ranges == NXR_ANNOUNCE_MAX_RANGES) {
        return NULL;
    }
    announced->ranges[announced->n_ranges].own = own;
    announced->ranges[announced->n_ranges++].told = told;
    return text;
}

bool nxr_announce_parse(const char *text, struct nxr_announced *announced_p)
{
    size_t nbytes = strcspn(text, ",");

    memset(announced_p, 0, sizeof(*announced_p));
    if (text[0] == '\0') {
        return true;
    }
    if (nbytes >= sizeof(announced_p->host)) {
        return false;
    }
    memcpy(announced_p->host, text, nbytes);
    announced_p->family = memchr(text, ':', nbytes) != NULL ? 6 : 4;
    if (inet_pton(announced_p->family == 6 ? AF_INET6 : AF_INET, announced_p->host,
                  announced_p->ip) != 1) {
        return false;
    }
    for (text += nbytes; text != NULL && *text != '\0';) {
        text = announce_read_range(text, announced_p);
    }
    return text != NULL;
}

uint16_t nxr_announce_port(const struct nxr_announced *announced, uint16_t port)
{
    for (unsigned i = 0; i < announced->n_ranges; i++) {
        const struct nxr_port_range *own = &announced->ranges[i].own;

        if (port >= own->first && port <= own->last) {
            return (uint16_t)(announced->ranges[i].told + (port - own->first));
        }
    }
    return port;
}
