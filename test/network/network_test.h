/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test of the interface of networks, transports/network.h, held against a module. Each case runs
 * in processes of its own, which load the module and play the core's part. What a case has to wait
 * for, it waits for with nt_until(): that drives the module, and fails when it takes too long.
 * Checks are those of mptest.h.
 */
#ifndef NXR_NETWORK_TEST_H
#define NXR_NETWORK_TEST_H

#include "transports/network.h"

#include "test/mp/mptest.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NT_MAX_PROCESSES 10
#define NT_WAIT_NS       (60 * MPT_S)

/* Every message of a test begins with this, and has pattern behind it. */
struct nt_header {
    uint32_t from;
    uint32_t kind; /* the case's own */
    uint64_t number;
};

/* ---- what a case is -------------------------------------------------------------------------- */

struct nt_case {
    const char *text;
    int n_processes;
    void (*run)(void); /* in each process; returns if all is well */
    int killed;        /* the process that the case kills, never the first; 0: none */
    bool prefers_rma;
    bool starts_closed; /* the case opens the module itself */
};

extern const struct nt_case nt_order_cases[], nt_bulk_cases[], nt_rma_cases[], nt_wait_cases[],
    nt_death_cases[], nt_life_cases[];

/* ---- the processes: harness.c ---------------------------------------------------------------- */

extern int nt_rank, nt_size;
extern bool nt_is_dead[NT_MAX_PROCESSES]; /* not waited for any more */
extern const struct nxr_network *nt_net;

/* Run a case: its processes, their deadline, what they left on stdout. True if all is well. */
bool nt_run(const struct nt_case *test, char *why, size_t why_nbytes);

/* Say what the module is, for every case that follows. */
void nt_use(const char *folder, const char *name, const char *provider, const char *devices);

/* All processes of the case meet; the module is driven meanwhile. */
void nt_barrier(void);

/* Send bytes to all, and get those of each: `theirs` has nt_size times nbytes. */
void nt_exchange(const void *mine, size_t nbytes, void *theirs);

/* Tell one process something outside of the network, or hear it; nbytes <= 4096. */
void nt_tell(int rank, const void *bytes, size_t nbytes);
void nt_hear(int rank, void *bytes, size_t nbytes);

/* Wait for a byte from one process, and do not drive the module meanwhile. */
void nt_doze(int rank);

/* End as `kill -9` does. */
void nt_die(void) __attribute__((noreturn));

/* ---- the core's part: core.c ----------------------------------------------------------------- */

/* What the network has reported, counted; a case may hook in for more. */
struct nt_told {
    uint64_t n_received, n_incoming, n_landed, n_landed_badly, n_ended, n_ended_badly;
    unsigned n_failed[NT_MAX_PROCESSES]; /* per peer */
    char why[256];                       /* of the last failure */
};

extern struct nt_told nt_told;
extern void (*nt_on_message)(const struct nt_header *header, size_t nbytes);
extern void *(*nt_on_incoming)(const struct nt_header *header, size_t nbytes, void **cookie_p);
extern void (*nt_on_landed)(void *cookie, int status);

extern bool nt_is_open;
extern const char *nt_provider, *nt_devices;
extern struct nxr_net_ep *nt_eps[NT_MAX_PROCESSES];

/* Open the module, or say why not. */
int nt_try_open(bool prefers_rma, char *why, size_t why_nbytes);

/* Open the module; connect to all others, whose addresses are exchanged. */
void nt_open(bool prefers_rma);
void nt_connect(void);
void nt_close(void);

/* Let the module work, if it is open. How many things moved. */
int nt_drive(void);

/* Drive the module until something holds. */
void nt_until(bool (*holds)(const void *arg), const void *arg, const char *what);
void nt_until_count(const uint64_t *counter, uint64_t least, const char *what);

/* Sleep until the module has work, or has done some; false: nothing came in this time. */
bool nt_sleep(int timeout_ms);

/* An operation that must end exactly once. */
struct nt_op {
    struct nxr_net_op op;
    bool is_taken;
    int n_ends;
    int status;
};

/* Send, driving the module while it says AGAIN. Returns NIXL_OK or NIXL_INPROGRESS. */
int nt_send(int to, const void *bytes, size_t nbytes, const void *bulk, size_t bulk_nbytes,
            struct nt_op *op);

/* Wait until a process has answered, as sending does: before it is read and written. */
void nt_reach(int to);

/* The same as nt_send(), to a peer that may be dead: returns NIXL_E_TRANSPORT too. */
int nt_try_send(int to, const void *bytes, size_t nbytes, const void *bulk, size_t bulk_nbytes,
                struct nt_op *op);
void nt_until_ended(struct nt_op *op, int status);
void nt_until_failed(struct nt_op *op); /* with whatever failure */

/* A message with a header and pattern in `buffer`; those that come are checked to be so. */
void nt_make(void *buffer, size_t nbytes, uint32_t kind, uint64_t number);

#endif
