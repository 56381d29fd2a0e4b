/* SPDX-License-Identifier: Apache-2.0 */
/* Prepared collectives: the handles of NIXL_OP_PREPARE, nixl_coll_start() and nixl_coll_free(). */
#ifndef NXR_COLLECTIVE_COLL_H
#define NXR_COLLECTIVE_COLL_H

#include "collective/call.h"
#include "core/form.h"

/*
 * Prepare a call that was checked, with all other members: form->op->coll_p is the handle. Returns
 * what the public call returns.
 */
int nxr_coll_prepare(struct nixl_team *team, const char *operation, const struct nxr_call *call,
                     const struct nxr_form *form, struct nixl_req **req_p);

/* The team is closed, and nothing runs on it: so are its prepared collectives. */
void nxr_colls_close(const struct nixl_team *team);

#endif
