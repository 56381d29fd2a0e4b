/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what etcd's JSON gateway answers, which may be anything. No state. */
#ifndef NXR_ETCD_ANSWER_H
#define NXR_ETCD_ANSWER_H

#include "etcd/etcd.h"

#define NXR_ETCD_TOKEN_NBYTES 1024 /* of a session; etcd's are far shorter, but for JWT */

struct nxr_etcd_answer {
    int64_t revision; /* of etcd; 0: it was not told, as the other numbers */
    int64_t lease;
    int64_t ttl;
    int64_t compact_revision;
    bool has_succeeded; /* of a transaction */
    bool has_events;    /* of a watch, as the next one */
    bool is_canceled;
    char token[NXR_ETCD_TOKEN_NBYTES]; /* of an authentication; "": none */
    struct nxr_etcd_found found;       /* the first key of a range */
};

/*
 * Read an answer with that HTTP status. NIXL_OK and *answer_p; or the failure that it is, as etcd.h
 * describes; NIXL_E_EXPIRED: the session's token is not known any more.
 */
int nxr_etcd_answer_read(long http, const char *bytes, size_t nbytes,
                         struct nxr_etcd_answer *answer_p, char why[NXR_ETCD_WHY_NBYTES]);

/* Call each() for all keys of a range that begin with the prefix. */
int nxr_etcd_answer_list(long http, const char *bytes, size_t nbytes, const char *prefix,
                         void (*each)(void *arg, const char *rest,
                                      const struct nxr_etcd_found *found),
                         void *arg, char why[NXR_ETCD_WHY_NBYTES]);

/* Bytes as the gateway takes and gives them, to be freed by free(); NULL: no memory. */
char *nxr_etcd_base64(const char *bytes, size_t nbytes);

#endif
