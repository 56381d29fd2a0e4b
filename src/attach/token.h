/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The token: a secret that the user gives to all processes that may attach to each other by TCP, in
 * NIXLRUN_TOKEN or in the file that NIXLRUN_TOKEN_FILE names. It is read anew by each call, so a
 * file may be replaced while a process runs. No state, no lock.
 */
#ifndef NXR_ATTACH_TOKEN_H
#define NXR_ATTACH_TOKEN_H

#include "attach/proof.h"

#define NXR_ATTACH_TOKEN_MIN_NBYTES 16
#define NXR_ATTACH_TOKEN_MAX_NBYTES 1024
#define NXR_ATTACH_TOKEN_WHY_NBYTES 400

/*
 * The secret that is made of the token. NIXL_OK; NIXL_E_ACCESS: there is none, or its file is
 * another user's or can be read by others; NIXL_E_NOT_FOUND; NIXL_E_INVALID_ARG: it is too short or
 * too long, or both variables are set; NIXL_E_TRANSPORT: it cannot be read. `why` says so.
 */
int nxr_attach_token_read(unsigned char secret[NXR_PROOF_SECRET_NBYTES],
                          char why[NXR_ATTACH_TOKEN_WHY_NBYTES]);

/*
 * Read up to `room` bytes of a file with a secret that a variable names, without newlines at its
 * end. NIXL_OK, or NIXL_E_ACCESS, NIXL_E_NOT_FOUND, NIXL_E_TRANSPORT as above.
 */
int nxr_attach_secret_read(const char *variable, const char *path, char *bytes, size_t room,
                           size_t *nbytes_p, char why[NXR_ATTACH_TOKEN_WHY_NBYTES]);

#endif
