/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client: requests to the first of several endpoints that answers, with the session of a user.
 * It is used by one thread at a time; nxr_etcd_interrupt() may come from any.
 */
#ifndef NXR_ETCD_CLIENT_H
#define NXR_ETCD_CLIENT_H

#include "etcd/answer.h"
#include "etcd/etcd.h"

struct nxr_etcd_request {
    const char *path; /* behind /v3/ */
    const char *body; /* JSON */
    int64_t until;
    bool is_stream;        /* the answer has lines, the first of which that tells enough ends it */
    bool is_never_stopped; /* nxr_etcd_interrupt() does not end it */
    void *arg;

    /*
     * Read an answer, or a line of one. NIXL_INPROGRESS: the stream goes on; else the outcome, as
     * etcd.h describes, or NIXL_E_EXPIRED: log in again.
     */
    int (*take)(void *arg, long http, const char *bytes, size_t nbytes,
                char why[NXR_ETCD_WHY_NBYTES]);
};

int nxr_etcd_open(const struct nxr_etcd_settings *settings, struct nxr_etcd **etcd_p,
                  char why[NXR_ETCD_WHY_NBYTES]);
void nxr_etcd_close(struct nxr_etcd *etcd);
void nxr_etcd_interrupt(struct nxr_etcd *etcd);

/* Have a request answered. The outcome of take(), or why there is none; see etcd.h. */
int nxr_etcd_ask(struct nxr_etcd *etcd, struct nxr_etcd_request *request,
                 char why[NXR_ETCD_WHY_NBYTES]);

#endif
