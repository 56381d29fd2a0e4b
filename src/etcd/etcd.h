/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the library and its module for etcd have in common. The module, nixlrun_etcd.so, speaks to
 * etcd's JSON gateway by libcurl; it knows nothing of publications but the form of an entry, and
 * nothing secret but the user's password for etcd.
 *
 * A client is used by one thread at a time; interrupt() alone may come from another one. Calls
 * return NIXL_OK, or with one line in `why`:
 *     NIXL_E_ACCESS       wrong password, no permission for the key, a certificate that is refused
 *     NIXL_E_NOT_FOUND    etcd knows no such lease
 *     NIXL_E_AGAIN        no endpoint has answered: they are away, or have no leader
 *     NIXL_E_CANCELED     interrupt()
 *     NIXL_E_UNSUPPORTED  what answers there is no etcd of version 3.4 or newer
 *     NIXL_E_TRANSPORT    an answer that makes no sense, or a request that etcd refuses
 *     NIXL_E_NO_MEMORY
 */
#ifndef NXR_ETCD_ETCD_H
#define NXR_ETCD_ETCD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NXR_ETCD_ABI    1u
#define NXR_ETCD_SYMBOL "nxr_etcd_module"

#define NXR_ETCD_WHY_NBYTES     400
#define NXR_ETCD_MAX_CONTACTS   8
#define NXR_ETCD_CONTACT_NBYTES 280 /* "tcp://HOST:PORT" */
#define NXR_ETCD_HOST_NBYTES    256
#define NXR_ETCD_NAME_NBYTES    64
#define NXR_ETCD_VALUE_MAX      8192 /* bytes of a key's value; longer ones are no entries */
#define NXR_ETCD_MAX_LISTED     256  /* names in one list */
#define NXR_ETCD_MAX_ANSWER     (4 << 20)

/*
 * An entry: who has published a name, and where it listens. All of it is public, and its value in
 * etcd is a JSON object that people can read. The texts are printable ASCII and end with a zero.
 */
struct nxr_etcd_entry {
    char name[NXR_ETCD_NAME_NBYTES];
    char job[17]; /* hexadecimal, like `id` and `proof` */
    int32_t rank;
    uint32_t incarnation;
    char id[33]; /* of this publication: random */
    int32_t pid;
    char host[NXR_ETCD_HOST_NBYTES];
    unsigned n_contacts;
    char contacts[NXR_ETCD_MAX_CONTACTS][NXR_ETCD_CONTACT_NBYTES];
    char proof[65]; /* that its maker knows the token */
};

/* What is at a key. */
struct nxr_etcd_found {
    int64_t revision; /* of etcd, when it answered */
    bool is_there;    /* the rest: of the key */
    int64_t mod_revision;
    int64_t lease; /* 0: none */
    bool is_entry; /* `entry` is valid; else `fault` says why not */
    struct nxr_etcd_entry entry;
    char fault[120];
};

/* Has what is waited for happened? Called often, must not block, and is not called after true. */
typedef bool nxr_etcd_ready_fn(void *arg);

struct nxr_etcd_settings {
    bool is_tls;
    const char *endpoints;                      /* HOST:PORT, several with commas between them */
    const char *user, *password;                /* "": none */
    const char *ca_file, *cert_file, *key_file; /* "": the system's, none */
    void (*wait)(nxr_etcd_ready_fn *ready, void *arg, int64_t until); /* NULL: the thread sleeps */
};

struct nxr_etcd; /* a client */

/* All times are moments of CLOCK_MONOTONIC, in ns. */
struct nxr_etcd_module {
    uint32_t abi;

    /* The libraries in use, with their versions. */
    const char *(*libraries)(void);

    /* Nothing is connected yet. */
    int (*open)(const struct nxr_etcd_settings *settings, struct nxr_etcd **etcd_p,
                char why[NXR_ETCD_WHY_NBYTES]);
    void (*close)(struct nxr_etcd *etcd);

    /* End the call that another thread makes, or its next one. */
    void (*interrupt)(struct nxr_etcd *etcd);

    int (*read)(struct nxr_etcd *etcd, const char *key, int64_t until,
                struct nxr_etcd_found *found_p, char why[NXR_ETCD_WHY_NBYTES]);

    /*
     * Wait until the key changes after that revision. NIXL_OK, also if that is not certain: read it
     * again; NIXL_E_TIMEOUT.
     */
    int (*await)(struct nxr_etcd *etcd, const char *key, int64_t revision, int64_t until,
                 char why[NXR_ETCD_WHY_NBYTES]);

    /* Call each() for the keys that begin so; `found` is gone afterwards. */
    int (*list)(struct nxr_etcd *etcd, const char *prefix, int64_t until,
                void (*each)(void *arg, const char *rest, const struct nxr_etcd_found *found),
                void *arg, char why[NXR_ETCD_WHY_NBYTES]);

    int (*grant)(struct nxr_etcd *etcd, int seconds, int64_t until, int64_t *lease_p,
                 char why[NXR_ETCD_WHY_NBYTES]);

    /*
     * Put an entry under a lease if the key was last changed at that revision, 0: if there is none.
     * NIXL_OK and *is_put_p; if that is false, *found_p is what is there.
     */
    int (*put)(struct nxr_etcd *etcd, const char *key, const struct nxr_etcd_entry *entry,
               int64_t lease, int64_t mod_revision, int64_t until, bool *is_put_p,
               struct nxr_etcd_found *found_p, char why[NXR_ETCD_WHY_NBYTES]);

    int (*keep_alive)(struct nxr_etcd *etcd, int64_t lease, int64_t until,
                      char why[NXR_ETCD_WHY_NBYTES]);

    /* End a lease, and so its keys. interrupt() does not end this call. */
    int (*revoke)(struct nxr_etcd *etcd, int64_t lease, int64_t until,
                  char why[NXR_ETCD_WHY_NBYTES]);
};

#endif
