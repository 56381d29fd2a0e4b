/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a process that publishes in a folder or in etcd listens for processes of other hosts, by
 * the user's NIXLRUN_PUBLISH_LISTEN. No state; callers hold no lock.
 */
#ifndef NXR_ATTACH_PLACE_H
#define NXR_ATTACH_PLACE_H

#include "attach/where.h"

#define NXR_PLACE_WHY_NBYTES 400

enum nxr_place_need {
    NXR_PLACE_NONE,    /* it does not listen: who reads its entry is on this host */
    NXR_PLACE_WISHED,  /* it listens if it can */
    NXR_PLACE_REQUIRED /* the publication fails if it cannot */
};

/* Must a publication in that folder be reached from other hosts? */
enum nxr_place_need nxr_place_need(const char *dir);

struct nxr_place {
    struct nxr_where port; /* its text is `text`, or that of the publication */
    bool is_named;         /* by the user */
    char text[NXR_WHERE_HOST_NBYTES + 16];
};

/*
 * The address and port at which to listen for publications in `text`, which share them: those that
 * the user has named, or any port of all addresses. NIXL_OK; or NIXL_E_INVALID_ARG and `why`.
 */
int nxr_place_find(const char *text, struct nxr_place *place_p, char why[NXR_PLACE_WHY_NBYTES]);

/* Any port of all IPv4 addresses instead, for hosts without IPv6. */
void nxr_place_take_four(const char *text, struct nxr_place *place);

#endif
